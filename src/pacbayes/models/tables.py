"""A hash of features in any container."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from pacbayes.data.values import columns_of, is_framed, is_missing

__all__ = ["features_sha256"]

Array = NDArray[Any]


def features_sha256(X: Any) -> str:
    """Return a hash of the features, which is the same for the same values in the same container.

    Numbers count by their bits, other values by what Python prints.
    """
    hasher = hashlib.sha256(b"pacbayes features 1\n")
    if issparse(X):
        rows = X.tocsr(copy=True)
        rows.sum_duplicates()
        _feed(hasher, "sparse", [rows.indptr, rows.indices, rows.data])
    elif is_framed(X) and hasattr(X, "columns"):
        _feed(hasher, repr([str(name) for name in X.columns]), columns_of(X))
    else:
        table = X if isinstance(X, np.ndarray) else np.fromiter(map(repr, X), object, len(X))
        _feed(hasher, repr(table.shape), [table])
    return hasher.hexdigest()


def _feed(hasher: Any, head: str, arrays: Iterable[Array]) -> None:
    hasher.update(head.encode() + b"\n")
    for array in arrays:
        if array.dtype.kind in "biufmM":
            plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            hasher.update(f"{plain.dtype.str} {plain.size}\n".encode() + plain.tobytes())
        else:
            hasher.update(f"objects {array.size}\n".encode())
            for value in array.ravel().tolist():
                text = "missing" if is_missing(value) else f"{type(value).__name__} {value!r}"
                hasher.update(text.encode() + b"\0")
