"""Convolutions on fixed edge filters, for a data-free prior: what is fixed costs no KL.

    pacbayes train --dataset binary-mnist --network examples/oriented.py:build --out runs/oriented
    pacbayes certify runs/oriented --priors 8

The first layer has oriented derivatives of a Gaussian, which are not part of Q. They are formulas,
so they have seen no data. The layers above are few, since every weight of theirs costs.
"""

import math

import torch
from torch import Tensor, nn

SIDE, ORIENTATIONS = 5, 8


def filters() -> Tensor:
    """Return (x cos θ + y sin θ)·exp(−r²/2s²) for eight angles θ, (8, 1, 5, 5), with Σ|f| = 6."""
    axis = torch.arange(SIDE) - SIDE // 2
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    envelope = torch.exp(-(x**2 + y**2) / (2 * (SIDE / 4.5) ** 2))
    angles = [2 * math.pi * k / ORIENTATIONS for k in range(ORIENTATIONS)]
    f = torch.stack([(x * math.cos(a) + y * math.sin(a)) * envelope for a in angles])
    return (6 * f / f.abs().sum((1, 2), keepdim=True)).unsqueeze(1)


class Edges(nn.Module):
    """Edges of a channel in every orientation, averaged over neighbouring pixels."""

    kernel: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kernel", filters())
        self.pool = nn.AvgPool2d(3, 2)

    def forward(self, x: Tensor) -> Tensor:  # (B, channels, height, width)
        count = x.shape[1]
        kernel = self.kernel.repeat(count, 1, 1, 1)
        return self.pool(nn.functional.conv2d(x, kernel, groups=count).relu())


def build(shape: tuple[int, ...], outputs: int, channels: int = 16) -> nn.Module:
    """Return edges, one convolution of stride two, and the last layer."""
    edges = Edges()
    convolution = nn.Conv2d(ORIENTATIONS * shape[0], channels, 3, 2)
    with torch.no_grad():
        size = convolution(edges(torch.zeros(1, *shape))).numel()
    return nn.Sequential(edges, convolution, nn.ReLU(), nn.Flatten(), nn.Linear(size, outputs))
