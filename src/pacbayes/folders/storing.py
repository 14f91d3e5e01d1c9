"""Store models and features as plain data: only types on a short list are loaded."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.tree._tree import Tree

from pacbayes.data.dataset import DataError
from pacbayes.data.layout import Layout
from pacbayes.data.values import columns_of, features_sha256
from pacbayes.extras import require
from pacbayes.files import DamagedFileError
from pacbayes.moved import new_name

__all__ = [
    "TRUSTED",
    "ForbiddenTypeError",
    "all_closed",
    "as_bytes",
    "check_same",
    "from_bytes",
    "load_copy",
    "table_bytes",
    "unknown_types",
]

# Beside what skops trusts by itself: estimators of scikit-learn, numbers, arrays, containers.
TRUSTED = (
    "numpy.dtype",
    "pacbayes.data.preprocessing.TableEncoder",
    "pacbayes.sklearn.classifier.PACBayesClassifier",  # its parameters; networks are arrays
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",  # checked when loaded
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",  # checked when loaded
)


class ForbiddenTypeError(ValueError):
    """Raised when a stored model needs a type that is not trusted."""


def as_bytes(state: dict[str, Any]) -> bytes:
    """Return models, parameters and arrays as the bytes of a skops file."""
    require("models", "save")
    import skops.io

    try:
        content: bytes = skops.io.dumps(state, compression=ZIP_DEFLATED)
    except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
        raise ValueError(f"a candidate cannot be stored as plain data ({error})") from error
    return content


def unknown_types(content: bytes) -> list[str]:
    """Return the types in a skops file that are not trusted, without loading any."""
    return sorted(name for name in _strange(content) if not _known(name))


def _strange(content: bytes) -> list[str]:
    """Return the types in a skops file that skops does not trust by itself."""
    import skops.io

    found: list[str] = skops.io.get_untrusted_types(data=content)
    return found


def _known(name: str) -> bool:
    """Return whether a type is trusted, also under the name that it had in earlier versions."""
    module, _, own = name.rpartition(".")
    return name in TRUSTED or f"{new_name(module)}.{own}" in TRUSTED


def from_bytes(content: bytes, trusted: Sequence[str] = (), where: str = "the file") -> Any:
    """Load models from the bytes of a skops file.

    Args:
        trusted: types to load beside those on the list, such as `my_package.MyModel`. Loading one
            may execute its code.
        where: the file, for messages.

    Raises:
        ForbiddenTypeError: the file has other types; nothing of it has been loaded.
        DamagedFileError: it is not a skops file, or a tree in it leads out of its own nodes.
    """
    require("models", "load")
    import skops.io

    try:
        if refused := [name for name in unknown_types(content) if name not in trusted]:
            raise ForbiddenTypeError(
                f"{where} holds {', '.join(refused)}, which is not trusted; if you know what it "
                f"does, load it with load(folder, trusted={refused!r})"
            )
        known = [name for name in _strange(content) if _known(name)]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "pacbayes", DeprecationWarning)  # old names in files
            state = skops.io.loads(content, trusted=[*known, *trusted])
    except ForbiddenTypeError:
        raise
    except (
        BadZipFile,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OSError,
        RecursionError,
    ) as error:
        raise DamagedFileError(f"{where} is damaged: {error}") from error
    if not all_closed(state):
        raise DamagedFileError(f"{where} is damaged: a tree leads out of its own nodes")
    return state


Array = NDArray[Any]
_PLAIN = (str, bytes, int, float, complex, type(None))
_WHOLE = (BaseForest, BaseGradientBoosting)  # they check features once, for all of their trees


@dataclass(frozen=True)
class _Owner:
    """The estimator that checks the features before a tree reads them.

    Attributes:
        width: number of features that it lets pass.
        categorical: which of them hold categories.
        whole: it checks for the estimators inside it as well.
    """

    width: int = 0
    categorical: tuple[bool, ...] = ()
    whole: bool = False

    def inside(self, estimator: Any) -> _Owner:
        """Return the owner of trees inside an estimator."""
        own = vars(estimator)
        if self.whole or "n_features_in_" not in own:
            return self
        marks = np.ravel(getattr(own.get("_bin_mapper"), "is_categorical_", ()))
        width = int(own["n_features_in_"])
        return _Owner(width, tuple(map(bool, marks)), isinstance(estimator, _WHOLE))


def all_closed(state: Any) -> bool:
    """Return whether every path through every tree inside ends in a leaf of that tree."""
    return all(_closed(tree, owner) for tree, owner in _trees(state, _Owner(), set()))


def _trees(value: Any, owner: _Owner, seen: set[int]) -> Iterator[tuple[Any, _Owner]]:
    """Yield all decision trees inside a value, and their owners."""
    if isinstance(value, Tree | TreePredictor):
        yield value, owner
        return
    if isinstance(value, _PLAIN) or id(value) in seen:
        return
    seen.add(id(value))
    if not isinstance(value, dict | list | tuple | set | np.ndarray):
        owner = owner.inside(value) if hasattr(value, "__dict__") else owner
    for part in _parts(value):
        yield from _trees(part, owner, seen)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple | set):
        return value
    if isinstance(value, np.ndarray):
        return value.ravel().tolist() if value.dtype.kind == "O" else ()
    return vars(value).values() if hasattr(value, "__dict__") else ()


def _closed(tree: Any, owner: _Owner) -> bool:
    if isinstance(tree, Tree):
        inner = tree.children_left != -1
        return _leads_on(tree.children_left, tree.children_right, tree.feature, inner, owner)
    nodes, sets = tree.nodes, tree.raw_left_cat_bitsets
    inner = nodes["is_leaf"] == 0
    marked = inner & (nodes["is_categorical"] != 0)
    left, right = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)
    return _leads_on(left, right, nodes["feature_idx"], inner, owner) and (
        not marked.any()
        or bool(
            sets.ndim == 2
            and sets.shape[1] == 8
            and (nodes["bitset_idx"][marked] < len(sets)).all()
            and len(owner.categorical) == owner.width
            and np.array(owner.categorical)[nodes["feature_idx"][marked]].all()
        )
    )


def _leads_on(left: Array, right: Array, features: Array, inner: Array, owner: _Owner) -> bool:
    """Return whether children come after their parents, so that no path is infinite."""
    parents, used = np.flatnonzero(inner), features[inner]
    children = np.stack([left[inner], right[inner]])
    return bool(
        len(left)
        and (children > parents).all()
        and (children < len(left)).all()
        and (used >= 0).all()
        and (used < owner.width).all()
    )


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
