"""A copy of the features beside a classifier, as plain arrays or Parquet."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.dataset import DataError
from pacbayes.data.layout import Layout
from pacbayes.data.values import columns_of, features_sha256

__all__ = ["check_same", "load_copy", "table_bytes"]

Array = NDArray[Any]
_ARRAY, _TABLE = "data.npz", "data.parquet"


def check_same(X: Any, sha256: str) -> None:
    """Raise DataError if features are not those that a classifier was fitted to."""
    if features_sha256(X) != sha256:
        raise DataError("these are not the features that the classifier was fitted to")


def table_bytes(X: Any, layout: Layout | None) -> dict[str, bytes]:
    """Return the file that holds a copy of the features, by name; it is tried before it is used."""
    buffer = io.BytesIO()
    if isinstance(X, np.ndarray) and X.dtype.kind in "biuf":
        name = _ARRAY
        np.savez_compressed(buffer, x=X)
    elif layout is not None and layout.library == "pandas":
        name = _TABLE
        _write_parquet(X, layout, buffer)
    else:
        raise DataError(f"X of type {type(X).__name__} cannot be stored; save without X")
    again = _read(name, io.BytesIO(buffer.getvalue()), layout)
    if features_sha256(again) != features_sha256(X):
        raise DataError("X cannot be stored so that it stays the same; save without X")
    return {name: buffer.getvalue()}


def load_copy(folder: Path, layout: Layout | None) -> Any:
    """Return the features that were stored in a folder; None if none were."""
    for name in (_ARRAY, _TABLE):
        if (path := folder / name).is_file():
            return _read(name, io.BytesIO(path.read_bytes()), layout)
    return None


def _read(name: str, file: io.BytesIO, layout: Layout | None) -> Any:
    if name == _ARRAY:
        with np.load(file, allow_pickle=False) as arrays:
            return arrays["x"]
    return _read_parquet(file, layout or Layout(kinds=()))


def _write_parquet(X: Any, layout: Layout, buffer: io.BytesIO) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    names = layout.names or tuple(map(str, range(len(layout.kinds))))
    try:
        columns = [pa.array(column, from_pandas=True) for column in columns_of(X)]
        parquet.write_table(pa.Table.from_arrays(columns, list(names)), buffer)
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"X cannot be stored ({error}); save without X") from error


def _read_parquet(file: io.BytesIO, layout: Layout) -> Any:
    from pyarrow import parquet

    columns = [np.array(column.to_pylist(), object) for column in parquet.read_table(file)]
    if layout.types is None:
        return np.stack(columns, axis=1)
    import pandas as pd

    names = layout.names or ()
    table = pd.DataFrame(dict(zip(names, columns, strict=True)))
    return table.astype(dict(zip(names, layout.types, strict=True)))
