"""Your own arrays: .npz files with arrays x and y."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.dataset import DataError, Floats, Table, check_features
from pacbayes.data.sizes import NPZ_ERRORS, check_npz

__all__ = ["check_width", "read_arrays"]


def check_width(x: Floats, width: int, where: str) -> None:
    """Raise DataError unless the examples have as many features as the network takes."""
    if x.shape[1] != width:
        raise DataError(f"{where}: {x.shape[1]} features, but the network takes {width}")


def read_arrays(path: Path) -> Table:
    """Read an .npz file with an array x of features and perhaps an array y of labels.

    Raises:
        DataError: the file is missing, malformed, empty, or has entries that are not numbers.
    """
    if path.is_dir():
        raise DataError(f"{path}: a folder, not a file")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    arrays = _load(path)
    if "x" not in arrays:
        raise DataError(f"{path}: no array named x; save features as x and labels as y")
    x, labels = arrays["x"], arrays.get("y")
    _check_numbers(path, x)
    if labels is not None and labels.shape != (len(x),):
        raise DataError(f"{path}: y must have shape ({len(x)},), got {labels.shape}")
    with np.errstate(over="ignore"):  # too large becomes infinite, which is refused by name
        flat = np.ascontiguousarray(x.reshape(len(x), -1), dtype=np.float32)
    check_features(flat, str(path))
    return Table(flat, labels, x.shape[1:])


def _load(path: Path) -> dict[str, NDArray[Any]]:
    try:
        check_npz(path, ("x", "y"))
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files if name in ("x", "y")}
    except DataError:
        raise
    except NPZ_ERRORS as error:
        raise DataError(f"{path}: not a readable .npz file ({_said(error)})") from error
    for name, array in found.items():
        if not isinstance(array, np.ndarray):  # a member that is not in NumPy's format
            raise DataError(f"{path}: {name} is not an array")
    return found


def _said(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _check_numbers(path: Path, x: NDArray[Any]) -> None:
    if x.dtype.kind not in "biuf":
        raise DataError(f"{path}: x must hold numbers, got {x.dtype}")
    if x.ndim == 0 or len(x) == 0:
        raise DataError(f"{path}: no examples; x has shape {x.shape}")
