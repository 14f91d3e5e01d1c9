"""Dense layers on fixed edge features of images, for a data-free prior.

    pacbayes train --dataset binary-mnist --network examples/edges.py:build --out runs/edges
    pacbayes certify runs/edges

The features say how strong the edges of every orientation are in every part of an image (compare
Dalal and Triggs 2005), and what colour the part has. They are formulas, so they have seen no data
and cost no KL; the dense layers above them are few, since every weight of theirs costs.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, conv2d

SIDE, ORIENTATIONS = 5, 8
COLOURS = ((1 / 3, 1 / 3, 1 / 3), (1.0, -1.0, 0.0), (0.5, 0.5, -1.0))  # grey and two opponents


def filters() -> Tensor:
    """Return (x cos θ + y sin θ)·exp(−r²/2s²) for eight angles θ, (8, 1, 5, 5), with Σ|f| = 6."""
    axis = torch.arange(SIDE) - SIDE // 2
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    envelope = torch.exp(-(x**2 + y**2) / (2 * (SIDE / 4.5) ** 2))
    angles = [2 * math.pi * k / ORIENTATIONS for k in range(ORIENTATIONS)]
    f = torch.stack([(x * math.cos(a) + y * math.sin(a)) * envelope for a in angles])
    return (6 * f / f.abs().sum((1, 2), keepdim=True)).unsqueeze(1)


class Edges(nn.Module):
    """Edges in every orientation, averaged over the parts of a grid; of three channels, colours.

    Args:
        grid: side of the grid of parts.
    """

    kernel: Tensor
    colours: Tensor

    def __init__(self, grid: int) -> None:
        super().__init__()
        self.grid = grid
        self.register_buffer("kernel", filters())
        self.register_buffer("colours", torch.tensor(COLOURS))

    def forward(self, x: Tensor) -> Tensor:  # (B, c, h, w) to (B, 8·c·grid²), or more if c = 3
        if x.shape[1] != 3:
            return self._edges(x)
        x = torch.einsum("oc,bchw->bohw", self.colours, x)
        means = adaptive_avg_pool2d(x, self.grid).flatten(1)
        return torch.cat([self._edges(x), 3 * means], 1)

    def _edges(self, x: Tensor) -> Tensor:
        c = x.shape[1]
        strength = conv2d(x, self.kernel.repeat(c, 1, 1, 1), groups=c).relu()
        return adaptive_avg_pool2d(strength, self.grid).flatten(1)


def build(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Return edges and a hidden layer: finer parts for grey images, fewer units for colour."""
    grid, units = (4, 50) if shape[0] == 3 else (7, 100)
    edges = Edges(grid)
    size = edges(torch.zeros(1, *shape)).shape[1]
    return nn.Sequential(edges, nn.Linear(size, units), nn.ReLU(), nn.Linear(units, outputs))
