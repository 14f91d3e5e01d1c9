"""Families of posteriors: what Q is beside a fixed P, one file each."""

from __future__ import annotations

from torch import Tensor

from pacbayes.networks.families import diagonal, rotated
from pacbayes.networks.families.diagonal import OF_POSTERIOR, Gaussian, Law
from pacbayes.networks.families.rotated import Rotated

__all__ = ["law_of", "of_posterior", "rounding"]


def law_of(g: Gaussian) -> Law:
    """Return the plain tensors of Q and P, in the coordinates in which Q is diagonal."""
    return rotated.law_of(g) if isinstance(g, Rotated) else diagonal.law_of(g)


def rounding(g: Gaussian, weights: Tensor) -> float:
    """Return what a KL or log-ratio at weights must be raised by, beyond a relative error."""
    return rotated.rounding(rotated.law_of(g), weights) if isinstance(g, Rotated) else 0.0


def of_posterior(g: Gaussian) -> dict[str, Tensor]:
    """Return every tensor of Q by its name: what may follow from all the data."""
    own = dict(zip(OF_POSTERIOR, diagonal.law_of(g).posterior, strict=True))
    return own | {"reflections": g.reflections} if isinstance(g, Rotated) else own
