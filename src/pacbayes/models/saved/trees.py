"""Decision trees from a file: scikit-learn reads memory by their indices, and never checks them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.tree._tree import Tree

__all__ = ["all_closed"]

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
