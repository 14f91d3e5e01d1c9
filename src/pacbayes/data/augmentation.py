"""New examples from old ones, for what the bound never counts: the prior's part of the data."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

__all__ = ["image_side", "moved_images"]

_BLOCK = 1000  # images at a time: memory stays flat
_FAINT = 0.02  # of full brightness; interpolation leaves so little that a zero is as good


def image_side(features: int) -> int:
    """Side of the square image that a row of features is."""
    side = math.isqrt(features)
    if side * side != features or side < 4:
        raise ValueError(f"augmentation needs square images, got {features} features")
    return side


def moved_images(x: Tensor, generator: torch.Generator) -> Tensor:
    """Every image turned up to 15°, scaled and sheared a little, and shifted by up to 1/14.

    Args:
        x: (n, side²), features of an image row by row, background zero.
    """
    return torch.cat([_moved(block, generator) for block in x.split(_BLOCK)])


def _moved(x: Tensor, generator: torch.Generator) -> Tensor:
    side, n = image_side(x.shape[1]), len(x)
    u = 2 * torch.rand(n, 5, generator=generator, dtype=x.dtype) - 1
    angle, scale, shear = math.radians(15) * u[:, 0], 1 + 0.15 * u[:, 1], 0.3 * u[:, 2]
    cos, sin = scale * angle.cos(), scale * angle.sin()
    rows = [[cos, shear * cos - sin, u[:, 3] / 7], [sin, shear * sin + cos, u[:, 4] / 7]]
    maps = torch.stack([torch.stack(row, -1) for row in rows], 1)  # (n, 2, 3)
    grid = affine_grid(maps, [n, 1, side, side], align_corners=False)
    moved = grid_sample(x.view(n, 1, side, side), grid, align_corners=False).view(n, -1)
    return torch.where(moved.abs() < _FAINT * x.abs().max(), 0.0, moved)
