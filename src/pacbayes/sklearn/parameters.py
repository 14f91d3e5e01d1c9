"""The parameters of a classifier: what is refused, and the settings that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Literal, get_args

from pydantic import ValidationError

from pacbayes import defaults
from pacbayes.data.preprocessing import refuse_fitted_state
from pacbayes.settings import Settings

__all__ = ["PredictorName", "check_parameters", "forget", "settings_of"]

PredictorName = Literal["best", "fixed", "drawn", "vote", "randomised"]
_OPTIONAL = ("prior_scale", "prior_epochs", "epochs", "batch_size", "learning_rate", "samples")


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
