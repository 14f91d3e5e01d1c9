"""What a set of examples must be before a number about it can mean anything."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["check_examples"]


def check_examples(x: Tensor, y: Tensor, classes: int = 2) -> None:
    """Refuse features that are not finite, and labels that are not one for each example.

    Two classes have labels ±1: with 0 and 1 the linear loss of one class would be ½ whatever is
    predicted, and a certificate too small. More have indices.
    """
    if y.shape != (len(x),) or len(x) == 0:
        raise ValueError(
            f"need one label for each of one or more examples, got labels of shape "
            f"{tuple(y.shape)} for {len(x)} examples"
        )
    if classes > 2 and y.is_floating_point():
        raise ValueError(f"labels of {classes} classes must be whole numbers, got {y.dtype}")
    wrong = y[(y != 1) & (y != -1)] if classes == 2 else y[(y < 0) | (y >= classes)]
    if len(wrong):
        allowed = "-1 or +1" if classes == 2 else f"from 0 to {classes - 1}"
        raise ValueError(f"labels must be {allowed}, got {wrong[0].item():g}")
    if not torch.isfinite(x).all():
        raise ValueError("every feature must be a finite number")
