"""Suggest the name that a misspelt one may stand for."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean"]


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return the end of an error message that suggests the nearest name, or "" if none is near.

    >>> did_you_mean("rleu", ["relu", "sigmoid", "sign"])
    "; did you mean 'relu'?"
    >>> did_you_mean("magic", ["relu", "sigmoid", "sign"])
    ''
    """
    known = {name.lower(): name for name in names}
    near = get_close_matches(word.lower(), known, n=1)
    return f"; did you mean {known[near[0]]!r}?" if near else ""
