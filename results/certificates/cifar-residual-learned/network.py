"""A residual network with batch norm, to learn a prior from images.

    pacbayes train --dataset cifar-10 --network examples/residual.py:build --prior-fraction 0.8 \
        --prior-epochs 25 --prior-rate 0.01 --prior-decay 0.05 --prior-augmentation crops \
        --out runs/residual

The function `build` is called with the shape of an image and the number of scores.
"""

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Two convolutions beside a short cut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.short: nn.Module = nn.Identity()
        if stride > 1 or inputs != width:
            convolution = nn.Conv2d(inputs, width, 1, stride, bias=False)
            self.short = nn.Sequential(convolution, nn.BatchNorm2d(width))

    def forward(self, a: Tensor) -> Tensor:
        inner = self.norm1(self.conv1(a)).relu()
        return (self.short(a) + self.norm2(self.conv2(inner))).relu()


class Centred(nn.Module):
    """Grey is zero. The constants are fixed: the images' own means would be fitted to them."""

    def forward(self, x: Tensor) -> Tensor:
        return (4 * x - 2).contiguous(memory_format=torch.channels_last)  # faster on processors


def build(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Return a network of three stages of two blocks, with 16, 32 and 64 channels."""
    layers: list[nn.Module] = [Centred(), nn.Conv2d(shape[0], 16, 3, 1, 1, bias=False)]
    layers += [nn.BatchNorm2d(16), nn.ReLU()]
    for inputs, width, stride in ((16, 16, 1), (16, 32, 2), (32, 64, 2)):
        layers += [Block(inputs, width, stride), Block(width, width, 1)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, outputs)]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)
