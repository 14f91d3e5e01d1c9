"""Augmented images to learn a prior from; the bound set itself is never augmented.

Random numbers are drawn on the device of the generator and moved to that of the images.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, pad

__all__ = ["crops_and_flips", "image_side", "moved_images"]

_BLOCK = 1000  # images at a time, to limit memory
_FAINT = 0.02  # share of full brightness below which interpolated pixels become zero


def image_side(features: int) -> int:
    """Return the side length of the square image that a row of features holds."""
    side = math.isqrt(features)
    if side * side != features or side < 4:
        raise ValueError(
            f"augmentation needs square images of at least 4×4 pixels, got {features} features; "
            "leave out --prior-augmentation, or prior_augmentation="
        )
    return side


def moved_images(x: Tensor, generator: torch.Generator) -> Tensor:
    """Return images rotated by up to 15°, shifted by up to 1/14, and slightly scaled and sheared.

    Args:
        x: images with background zero: (n, channels, height, width), or (n, side²), row by row.
    """
    return torch.cat([_moved(block, generator) for block in x.split(_BLOCK)])


def _moved(x: Tensor, generator: torch.Generator) -> Tensor:
    images = x if x.dim() == 4 else x.view(len(x), 1, -1, image_side(x.shape[1]))
    drawn = torch.rand(len(x), 5, generator=generator, dtype=x.dtype, device=generator.device)
    u = 2 * drawn.to(x.device) - 1
    angle, scale, shear = math.radians(15) * u[:, 0], 1 + 0.15 * u[:, 1], 0.3 * u[:, 2]
    cos, sin = scale * angle.cos(), scale * angle.sin()
    rows = [[cos, shear * cos - sin, u[:, 3] / 7], [sin, shear * sin + cos, u[:, 4] / 7]]
    maps = torch.stack([torch.stack(row, -1) for row in rows], 1)  # (n, 2, 3)
    grid = affine_grid(maps, list(images.shape), align_corners=False)
    moved = grid_sample(images, grid, align_corners=False).view(x.shape)
    return torch.where(moved.abs() < _FAINT * x.abs().max(), 0.0, moved)


def crops_and_flips(x: Tensor, generator: torch.Generator, margin: int = 4) -> Tensor:
    """Return images shifted by up to `margin` pixels, with zeros beyond the edge, half mirrored.

    Args:
        x: images, (n, channels, height, width).
    """
    if x.dim() != 4:
        raise ValueError(
            f"crops and flips need images of shape (n, channels, height, width), got "
            f"{tuple(x.shape)}; Dataset.images() has them in their own shape"
        )
    return torch.cat([_cropped(block, generator, margin) for block in x.split(_BLOCK)])


def _cropped(x: Tensor, generator: torch.Generator, margin: int) -> Tensor:
    n, channels, height, width = x.shape
    integers = partial(torch.randint, generator=generator, device=generator.device)
    shift = integers(2 * margin + 1, (2, n, 1)).to(x.device)
    mirrored = integers(2, (n, 1)).to(x.device).bool()
    count = partial(torch.arange, device=x.device)
    rows, columns = shift[0] + count(height), count(width)
    columns = shift[1] + torch.where(mirrored, columns.flip(0), columns)
    padded = pad(x, (margin, margin, margin, margin))
    each, every = count(n).view(n, 1, 1, 1), count(channels).view(1, -1, 1, 1)
    return padded[each, every, rows.view(n, 1, -1, 1), columns.view(n, 1, 1, -1)]
