"""What a classifier is given: parameters, the settings that follow, and examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy.sparse import issparse
from sklearn.utils import indexable
from sklearn.utils.validation import _check_y, validate_data

from pacbayes import defaults
from pacbayes.data.layout import Layout
from pacbayes.data.preprocessing import refuse_fitted_state
from pacbayes.data.values import is_framed
from pacbayes.losses.bounded import loss_of
from pacbayes.networks.modules import OwnModule
from pacbayes.settings import Settings
from pacbayes.training.blueprint import Blueprint, Choice, chosen

__all__ = [
    "Input",
    "PredictorName",
    "blueprint_of",
    "check_loss",
    "check_parameters",
    "choice_of",
    "examples_of",
    "flat",
    "forget",
    "own_code",
    "settings_of",
    "shape_of",
]

PredictorName = Literal["best", "fixed", "drawn", "vote", "randomised"]
_OPTIONAL = ("prior_scale", "prior_epochs", "epochs", "batch_size", "learning_rate", "samples")
Array = NDArray[Any]


def forget(model: Any) -> None:
    """Remove all results of an earlier fit, so that a failed one leaves nothing behind."""
    for name in [name for name in vars(model) if name.endswith("_") and name[0] != "_"]:
        delattr(model, name)


def check_parameters(given: Any) -> None:
    """Raise ValueError if a parameter of a classifier is none that can be used."""
    if given.predictor not in (names := get_args(PredictorName)):
        raise ValueError(f"predictor must be one of {', '.join(names)}, got {given.predictor!r}")
    for name in ("votes", "priors"):
        value = getattr(given, name)
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a positive integer, got {value!r}")
    if not isinstance(given.widths, Sequence):
        raise ValueError(f"widths must be a sequence such as (100,), got {given.widths!r}")
    if given.prior_fraction is not None and not 0 <= given.prior_fraction < 1:
        raise ValueError(f"prior_fraction must be None or in [0, 1), got {given.prior_fraction}")
    if given.network is not None and given.activation != "relu":
        raise ValueError(f"activation {given.activation!r} is for dense networks; use relu")
    refuse_fitted_state(given.preprocessing)


def check_loss(given: Any, classes: Array) -> None:
    """Raise ValueError unless the loss suits the classes and the predictor."""
    counted = loss_of(classes, None, given.loss)
    if counted.labels > 1 and given.predictor in ("vote", "randomised"):
        raise ValueError(
            f"the loss {given.loss} is counted for one network; use predictor best, fixed or drawn"
        )


def settings_of(given: Any, classes: int, n: int, seed: int) -> Settings:
    """Return the settings of a run on n examples; what is None takes its default."""
    if n <= defaults.LEAST_BOUND_SET:
        least = defaults.LEAST_BOUND_SET
        raise ValueError(f"need more than {least} examples, got n_samples = {n}")
    fraction = given.prior_fraction
    changes = {name: getattr(given, name) for name in _OPTIONAL}
    changes |= {
        "widths": tuple(given.widths),
        "prior_fraction": fraction and min(fraction, 1 - defaults.LEAST_BOUND_SET / n),
        "delta": given.delta,
        "repeats": given.repeats,
        "engine": given.engine,
        "seed": seed,
    }
    try:
        own = defaults.for_table(n, changes)
        if given.network is not None:  # it has widths of its own
            asked = changes | {"widths": (), "prior_fraction": own["prior_fraction"]}
            own = defaults.for_module(n, asked)
        return Settings.of("fast", given.activation, classes=classes, **own)
    except ValidationError as error:  # its text has several lines
        wrong = error.errors()[0]
        name = ".".join(map(str, wrong["loc"])) or "settings"
        raise ValueError(f"{name}: {wrong['msg']}, got {wrong['input']!r}") from None


@dataclass(frozen=True)
class Input:
    """What a classifier was fitted to.

    Attributes:
        raw: examples reach a transformer of the user's as they come; otherwise they are numbers.
        layout: columns of a table that came raw; None for anything else.
        missing: numbers may be missing.
    """

    raw: bool = False
    layout: Layout | None = None
    missing: bool = False

    @property
    def numbers(self) -> dict[str, Any]:
        """How scikit-learn makes numbers of examples."""
        return {"dtype": np.float64, "ensure_all_finite": "allow-nan" if self.missing else True}

    def rows(self, model: Any, X: Any) -> Any:
        """Return examples as those that were fitted; refuse what does not match."""
        if not self.raw:
            return validate_data(model, X, reset=False, **self.numbers)
        validate_data(model, X, reset=False, skip_check_array=True)
        return X if self.layout is None else self.layout.rows(X)


def examples_of(model: Any, X: Any, y: Any) -> tuple[Any, Array, Input]:
    """Return examples and labels to fit, and what later ones are compared with.

    A transformer of the user's gets data frames, texts and lists as they come, and arrays of
    numbers in float64, as without one.
    """
    own = not (model.preprocessing is None or isinstance(model.preprocessing, str))
    if not own or issparse(X) or (not is_framed(X) and np.asarray(X).dtype.kind in "biufc"):
        given = Input(missing=own)
        return *validate_data(model, X, y, **given.numbers), given
    _, y = validate_data(model, X, y, skip_check_array=True)
    X, y = indexable(X, _check_y(y))
    return X, y, Input(raw=True, layout=Layout.of(X))


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
