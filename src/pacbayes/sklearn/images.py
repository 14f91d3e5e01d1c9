"""Networks other than dense in a classifier: what they are built from, and examples as images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pacbayes.folders.blueprint import Blueprint, Choice, chosen
from pacbayes.networks.modules import OwnModule
from pacbayes.settings import Settings

__all__ = ["blueprint_of", "choice_of", "flat", "own_code", "shape_of"]


def flat(X: Any) -> Any:
    """Return examples as rows of features; images (n, c, h, w) are flattened."""
    if hasattr(X, "__array__") and not hasattr(X, "__getitem__"):  # rows of it are taken later
        X = np.asarray(X)
    return X.reshape(len(X), -1) if isinstance(X, np.ndarray) and X.ndim > 2 else X


def shape_of(given: Any, X: Any) -> tuple[int, ...] | None:
    """Return the shape of an example, as the parameter or the examples say; None for rows.

    Raises:
        ValueError: the examples have another shape.
    """
    own = X.shape[1:] if isinstance(X, np.ndarray) and X.ndim > 2 else None
    if given.image_shape is None:
        return own
    wanted = tuple(given.image_shape)
    if (own is not None and own != wanted) or math.prod(wanted) != math.prod(np.shape(X)[1:]):
        raise ValueError(
            f"image_shape {wanted} has {math.prod(wanted)} numbers, but examples have shape "
            f"{tuple(np.shape(X)[1:])}"
        )
    return wanted


def choice_of(given: Any, settings: Settings, shape: tuple[int, ...] | None) -> Choice | None:
    """Return the network that a classifier was asked for; None if it is dense."""
    return chosen(given.network, learned=bool(settings.prior_fraction), shape=shape or ())


def blueprint_of(
    settings: Settings,
    features: int,
    classes: int,
    choice: Choice | None,
    shape: tuple[int, ...] | None,
) -> Blueprint:
    """Return what a classifier's network is built from; a data-free prior is that of seed 0."""
    if not settings.prior_fraction:  # the first prior costs least
        settings = settings.model_copy(update={"seed": 0})
    if choice is None:
        return Blueprint(settings, features, classes)
    inputs = shape or (features,)
    return Blueprint(settings, features, classes, choice.architecture, inputs, choice.code)


def own_code(choice: Choice | None) -> str | None:
    """Return the code of the user's own that builds the network, by its hash."""
    if choice is None or not isinstance(choice.architecture, OwnModule):
        return None
    return f"{choice.architecture.title}, SHA-256 {choice.architecture.sha256}"
