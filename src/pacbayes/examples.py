"""What a set of examples must be before a number about it can mean anything."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["check_examples"]


def check_examples(x: Tensor, y: Tensor) -> None:
    """Refuse features that are not finite, and labels that are not one ±1 for each example.

    With labels 0 and 1 the linear loss of one class would be ½ whatever is predicted, and a
    certificate too small.
    """
    if y.shape != (len(x),) or len(x) == 0:
        raise ValueError(
            f"need one label for each of one or more examples, got labels of shape "
            f"{tuple(y.shape)} for {len(x)} examples"
        )
    wrong = y[(y != 1) & (y != -1)]
    if len(wrong):
        raise ValueError(f"labels must be -1 or +1, got {wrong[0].item():g}")
    if not torch.isfinite(x).all():
        raise ValueError("every feature must be a finite number")
