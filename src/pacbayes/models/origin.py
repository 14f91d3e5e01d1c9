"""What happened to examples before a classifier saw them."""

from __future__ import annotations

from typing import Any

from pacbayes.data.preprocessing import fitted_before, is_searched, refuse_hidden_callers
from pacbayes.data.sample import FittedError, NoSampleError

__all__ = ["check_origin"]


def check_origin(estimator: Any) -> None:
    """Raise NoSampleError if something was fitted to, or chosen by, all of the examples."""
    if is_searched(estimator):
        raise NoSampleError(
            "a search chooses among classifiers by all examples, the bound set included; give them "
            "as candidates= instead, which pays for the choice"
        )
    if (step := fitted_before(estimator)) is not None:
        raise FittedError(
            f"{step} was fitted to all examples before this classifier saw them; give the whole "
            "pipeline as estimator=, which fits it to the other part alone"
        )
    refuse_hidden_callers(estimator)
