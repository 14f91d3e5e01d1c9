"""Tables as they come: CSV and Parquet files and data frames, as typed columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pacbayes.data.arrow import Opened, check_type, open_frame, open_parquet
from pacbayes.data.cells import is_missing, is_number
from pacbayes.data.columns import Builder
from pacbayes.data.dataset import DataError, Floats
from pacbayes.data.frame import Column, Frame, Kind
from pacbayes.data.text_file import open_text
from pacbayes.spelling import did_you_mean

__all__ = ["Wanted", "build", "column_names", "read_frame"]


def read_frame(
    source: Any,
    *,
    label: str | None = None,
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    kinds: Mapping[str, Kind] | None = None,
    dtype: type[np.floating[Any]] = np.float32,
) -> Frame:
    """Read a CSV file (also gzip), a Parquet file or a data frame.

    A value may be missing: empty, `?`, NA, N/A, NaN or null, in any case. A column of texts is
    categorical, or boolean if its texts are true and false, or yes and no.

    Args:
        source: a path, or a data frame that exports Arrow (pandas, polars and others).
        label: name or position of the label column; the last column by default.
        drop: columns to leave out.
        categorical: columns of categories that may look like numbers.
        kinds: features of the training set (`Frame.kinds` or `Encoding.kinds`). The source then
            needs the same columns, in any order, and may lack the label.
        dtype: of the numbers; float64 for models that compute with it.

    Raises:
        DataError: the source cannot be read, or a column cannot be used.
    """
    asked = {name for name in (label, *drop, *categorical, *(kinds or ())) if name is not None}
    opened = _open(source, asked, label)
    if kinds is None:
        target: str | None = _label(opened, label)
        wanted = _training_columns(opened, target, drop, categorical)
    else:
        opened = _named_like(opened, tuple(kinds), label)
        target = label if label in opened.names else None
        wanted = _same_columns(opened, kinds, {*drop, *([target] if target else [])})
    place = {name: i for i, name in enumerate(opened.names)}
    features = [Wanted(place[name], name, kind) for name, kind in wanted.items()]
    labels = None if target is None else Wanted(place[target], target)
    _, frame = build(opened, features, labels, dtype)
    for column in () if opened.headless or kinds is not None else frame.columns:
        _check_header(opened, column)
    return frame


def column_names(source: Any, label: str | None = None) -> tuple[str, ...]:
    """Return the names of all columns of a source; their positions if it has no header."""
    return _open(source, set() if label is None else {label}, label).names


@dataclass(frozen=True)
class Wanted:
    """A column to read: its position, its name, and its kind if it is known."""

    position: int
    name: str
    kind: Kind | None = None


def build(
    opened: Opened,
    features: list[Wanted],
    label: Wanted | None,
    dtype: type[np.floating[Any]] = np.float32,
) -> tuple[Floats, Frame]:
    """Read columns; return the numbers as a matrix, (n, d), and the same as a frame.

    Columns of the matrix that belong to texts are undefined.
    """
    room: Floats = np.empty((opened.most, len(features)), dtype)

    def builder(wanted: Wanted, own: Floats, kind: Kind | None) -> Builder:
        return Builder(opened.where, wanted.name, opened.first, own, kind)

    builders = [builder(w, room[:, j], w.kind) for j, w in enumerate(features)]
    labels = builder(label, room[:0, 0], Kind.CATEGORY) if label else None
    places = [(wanted.position, column) for wanted, column in zip(features, builders, strict=True)]
    if label and labels:
        places.append((label.position, labels))
    n = 0
    for chunk in opened.chunks:
        for place, column in places:
            if n == 0:
                check_type(opened.where, column.name, chunk[place].type)
            column.add(chunk[place], n)
        n += len(chunk[0])
    if n == 0:
        raise DataError(f"{opened.where}: a header but no examples")
    columns = tuple(column.column(n) for column in builders)
    found = None if labels is None else labels.label(n)
    return room[:n], Frame(columns, found, opened.headless)


def _open(source: Any, asked: set[str], label: str | None) -> Opened:
    if not isinstance(source, (str, Path)):
        return _checked(open_frame(source))
    path = Path(source)
    if path.is_dir():
        raise DataError(f"{path}: a folder, not a file")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    if path.suffix in (".parquet", ".pq"):
        return _checked(open_parquet(path))
    return _checked(_open_csv(path, asked, label))


def _open_csv(path: Path, asked: set[str], label: str | None) -> Opened:
    text = open_text(path)
    at = int(label) if label and label.isdecimal() else len(text.first) - 1
    features = [cell for i, cell in enumerate(text.first) if i != at]
    header = not asked.isdisjoint(text.first) or any(
        not is_number(cell) and not is_missing(cell) for cell in features
    )
    names = text.first if header else tuple(map(str, range(len(text.first))))
    return Opened(str(path), names, text.most, text.chunks(header), 1 + header, not header)


def _checked(opened: Opened) -> Opened:
    """Refuse names that occur twice, and name columns without a name by their position."""
    names = tuple(name or f"column {i}" for i, name in enumerate(opened.names))
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise DataError(f"{opened.where}: two columns are named {name!r}; rename one of them")
    if len(names) < 2:
        raise DataError(
            f"{opened.where}: only one column; fields must be separated by commas, semicolons or "
            "tabs"
        )
    return replace(opened, names=names)


def _label(opened: Opened, label: str | None) -> str:
    if label is None:
        return opened.names[-1]
    if label not in opened.names and label.isdecimal() and int(label) < len(opened.names):
        return opened.names[int(label)]
    _check_there(opened, [label])
    return label


def _check_there(opened: Opened, names: Collection[str]) -> None:
    for name in names:
        if name not in opened.names:
            some = ", ".join(opened.names[:8]) + (", …" if len(opened.names) > 8 else "")
            hint = did_you_mean(name, opened.names) or f"; the columns are {some}"
            raise DataError(f"{opened.where}: no column {name!r}{hint}")


def _training_columns(
    opened: Opened, target: str | None, drop: Collection[str], categorical: Collection[str]
) -> dict[str, Kind | None]:
    _check_there(opened, [*drop, *categorical])
    if target in drop:
        raise DataError(
            f"{opened.where}: column {target!r} has the labels and cannot be dropped; "
            "name another label column with --label"
        )
    names = [name for name in opened.names if name != target and name not in drop]
    if not names:
        raise DataError(f"{opened.where}: no column is left; drop fewer")
    return {name: Kind.CATEGORY if name in categorical else None for name in names}


def _named_like(opened: Opened, names: tuple[str, ...], label: str | None) -> Opened:
    """Give the columns of a file without a header the names of the training set, in order."""
    if not opened.headless:
        return opened
    if len(opened.names) == len(names) + 1:
        at = int(label) if label and label.isdecimal() else len(names)
        names = (*names[:at], label or str(at), *names[at:])
    if len(opened.names) != len(names):
        raise DataError(
            f"{opened.where}: {len(opened.names)} columns and no header, but the training set has "
            f"the features {', '.join(names[:8])}; add a header"
        )
    return replace(opened, names=names)


def _same_columns(
    opened: Opened, kinds: Mapping[str, Kind], allowed: Collection[str]
) -> dict[str, Kind | None]:
    """Return the features of the training set; refuse others, and name those that are not there."""
    found = set(opened.names)
    if absent := [name for name in kinds if name not in found]:
        raise DataError(
            f"{opened.where}: column {', '.join(map(repr, absent))} of the training set is missing"
        )
    if extra := [name for name in opened.names if name not in kinds and name not in allowed]:
        raise DataError(
            f"{opened.where}: column {', '.join(map(repr, extra))} is not in the training set; "
            "remove it"
        )
    number = Kind.NUMBER
    return {name: number if kind is number else Kind.CATEGORY for name, kind in kinds.items()}


def _check_header(opened: Opened, column: Column) -> None:
    """Refuse a first row that is an example: its text occurs again in its column."""
    if column.kind is not Kind.NUMBER and column.name in column.categories:
        raise DataError(
            f"{opened.where}: the first row looks like an example, since {column.name!r} occurs "
            "again in its column; add a header"
        )
