"""Open any folder: the run of a network, a saved classifier, or the best of several runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacbayes.files import CLASSIFIER, KERNEL, best_of_scales, kind_of
from pacbayes.folders.folder import Run, open_run

if TYPE_CHECKING:
    from pacbayes.folders.kernels import KernelRun
    from pacbayes.folders.models import SavedModel

__all__ = ["load", "open"]


def open(folder: str | Path) -> Run | KernelRun | SavedModel:
    """Return what a folder holds: a network's run, a kernel network's, or a saved classifier.

    All have `kind`, `folder`, `record`, `load()`, `predict(data)` and `certify(delta)`. A folder
    with a run for each prior scale stands for the best of them.

    Raises:
        ValueError: it holds nothing of ours, or nothing that this version knows.
    """
    place = best_of_scales(Path(folder))
    if (kind := kind_of(place)) == KERNEL:
        from pacbayes.folders.kernels import open_kernel

        return open_kernel(place)
    if kind != CLASSIFIER:
        return open_run(place)
    from pacbayes.folders.models import open_model  # scikit-learn is for these alone

    return open_model(place)


def load(folder: str | Path, *, trusted: Sequence[str] = ()) -> Any:
    """Return the predictor in a folder: a network, a classifier, or what `save` was called on.

    It predicts as `pacbayes predict` does. A folder that `save` wrote gives the
    `PACBayesClassifier` or `CertifiedClassifier` again. One of `pacbayes train` gives a
    `TrainedNetwork`, whose `predict` takes rows as they are in the run's file. Models of
    scikit-learn are loaded as plain data, of types on a short list; a file with any other type is
    refused by name.

    Args:
        trusted: types of your own, such as `my_package.MyModel`, which loading may execute.
    """
    return open(folder).load(trusted)
