"""Load a fitted classifier from its folder, of whatever kind it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pacbayes.folders.estimators import load_estimator
from pacbayes.folders.models import load_classifier
from pacbayes.folders.record import CLASSIFIER, NETWORK, kind_of

__all__ = ["load"]


def load(folder: str | Path, *, trusted: Sequence[str] = ()) -> Any:
    """Return the classifier that `save` wrote to a folder, with the same predictions.

    Models of scikit-learn are loaded as plain data, of types on a short list; a file with any other
    type is refused by name.

    Args:
        trusted: types of your own, such as `my_package.MyModel`, which loading may execute.
    """
    place = Path(folder)
    return _LOADERS[kind_of(place)](place, trusted)


_LOADERS: dict[str, Callable[[Path, Sequence[str]], Any]] = {
    CLASSIFIER: load_classifier,
    NETWORK: lambda folder, trusted: load_estimator(folder),
}
