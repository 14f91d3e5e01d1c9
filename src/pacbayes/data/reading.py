"""Tables as they come: CSV and Parquet files and data frames, as typed columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pacbayes.data.cells import is_date, is_missing, is_number
from pacbayes.data.dataset import DataError, Floats
from pacbayes.data.frame import Builder, Frame, Kind
from pacbayes.data.opening import Opened, check_type, open_frame, open_parquet, open_text
from pacbayes.spelling import did_you_mean

__all__ = ["column_names", "is_table", "read_frame"]

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq")


def is_table(name: str | Path) -> bool:
    """Tell whether a file is a table, by the end of its name."""
    return str(name).lower().endswith(SUFFIXES)


def read_frame(
    source: Any,
    *,
    label: str | None = None,
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    group: str | None = None,
    kinds: Mapping[str, Kind] | None = None,
    dtype: type[np.floating[Any]] = np.float32,
    in_order: bool = False,
) -> Frame:
    """Read a CSV file (also gzip), a Parquet file or a data frame.

    A value may be missing: empty, `?`, NA, N/A, NaN or null, in any case. A column of texts is
    categorical, or boolean if its texts are true and false, or yes and no. Dates and times are in
    days since 1970-01-01; as texts they begin with the year.

    Args:
        source: a path, or a data frame that exports Arrow (pandas, polars and others).
        label: name or position of the label column; the last column by default.
        drop: columns to leave out.
        categorical: columns of categories that may look like numbers.
        group: column that says which rows belong together; it is not a feature.
        kinds: features of the training set (`Frame.kinds` or `Encoding.kinds`). The source then
            needs the same columns, in any order; it may have others and may lack the label.
        in_order: the training set has no header, so that the order of columns counts.
        dtype: of the numbers; float64 for models that compute with it.

    Raises:
        DataError: the source cannot be read, or a column cannot be used.
    """
    asked = {name for name in (label, group, *drop, *categorical, *(kinds or ())) if name}
    if in_order:  # these are positions, which a first row of numbers may contain
        asked = {name for name in asked if not name.isdecimal()}
    least = 1 if kinds is not None and len(kinds) == 1 else 2
    opened = _checked(_open(source, asked, label), least)
    if kinds is None:
        target: str | None = _label(opened, label)
        wanted = _training_columns(opened, target, drop, categorical, group)
    else:
        target = _present(opened, label, kinds)
        if in_order or opened.headless:
            opened, target = _in_order(opened, tuple(kinds), label, len(drop))
        wanted = _same_columns(opened, kinds)
        group = None
    place = {name: i for i, name in enumerate(opened.names)}
    features = [_Wanted(place[name], name, kind) for name, kind in wanted.items()]
    others = {
        role: _Wanted(place[name], name)
        for role, name in (("label", target), ("group", group))
        if name is not None
    }
    frame = _build(opened, features, others, dtype)
    if kinds is None and not opened.headless:
        _check_header(opened.where, frame)
    return frame


def column_names(source: Any, label: str | None = None) -> tuple[str, ...]:
    """Return the names of all columns of a source; their positions if it has no header."""
    return _checked(_open(source, set() if label is None else {label}, label), 1).names


@dataclass(frozen=True)
class _Wanted:
    """A column to read: its position, its name, and its kind if it is known."""

    position: int
    name: str
    kind: Kind | None = None


def _build(
    opened: Opened,
    features: list[_Wanted],
    others: Mapping[str, _Wanted],
    dtype: type[np.floating[Any]],
) -> Frame:
    """Read features, and columns of labels and groups, by role; numbers share one matrix."""
    room: Floats = np.empty((opened.most, len(features)), dtype)

    def builder(wanted: _Wanted, own: Floats, kind: Kind | None) -> Builder:
        return Builder(opened.where, wanted.name, opened.first, own, kind)

    builders = [builder(w, room[:, j], w.kind) for j, w in enumerate(features)]
    aside = {role: builder(w, room[:0, 0], Kind.CATEGORY) for role, w in others.items()}
    places = [w.position for w in (*features, *others.values())]
    pairs = list(zip(places, (*builders, *aside.values()), strict=True))
    n = 0
    for chunk in opened.chunks:
        for place, column in pairs:
            if n == 0:
                check_type(opened.where, column.name, chunk[place].type, column.kind)
            column.add(chunk[place], n)
        n += len(chunk[0])
    if n == 0:
        raise DataError(f"{opened.where}: a header but no examples")
    columns = tuple(column.column(n) for column in builders)
    numeric = all(column.kind is Kind.NUMBER for column in columns)
    found = {role: column.required(n, role) for role, column in aside.items()}
    return Frame(columns, headless=opened.headless, numbers=room[:n] if numeric else None, **found)


def _open(source: Any, asked: set[str], label: str | None) -> Opened:
    if not isinstance(source, (str, Path)):
        return open_frame(source)
    path = Path(source)
    if path.is_dir():
        raise DataError(f"{path}: a folder, not a file")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    if path.suffix.lower() in (".parquet", ".pq"):
        return open_parquet(path)
    return _open_csv(path, asked, label)


def _open_csv(path: Path, asked: set[str], label: str | None) -> Opened:
    text = open_text(path)
    at = int(label) if label and label.isdecimal() else len(text.first) - 1
    features = [cell for i, cell in enumerate(text.first) if i != at]
    header = not asked.isdisjoint(text.first) or any(
        not is_number(cell) and not is_missing(cell) for cell in features
    )
    names = text.first if header else tuple(map(str, range(len(text.first))))
    return Opened(str(path), names, text.most, text.chunks(header), 1 + header, not header)


def _checked(opened: Opened, least: int) -> Opened:
    """Refuse names that occur twice, and name columns without a name by their position."""
    names = tuple(name or f"column {i}" for i, name in enumerate(opened.names))
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise DataError(f"{opened.where}: two columns are named {name!r}; rename one of them")
    if len(names) < least:
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
    opened: Opened,
    target: str | None,
    drop: Collection[str],
    categorical: Collection[str],
    group: str | None,
) -> dict[str, Kind | None]:
    _check_there(opened, [*drop, *categorical, *([] if group is None else [group])])
    for option, names in (("dropped", drop), ("the group", [group])):
        if target in names:
            raise DataError(
                f"{opened.where}: column {target!r} has the labels and cannot be {option}; "
                "name another label column with --label"
            )
    names = [name for name in opened.names if name not in (target, group, *drop)]
    if not names:
        raise DataError(f"{opened.where}: no column is left; drop fewer")
    return {name: Kind.CATEGORY if name in categorical else None for name in names}


def _in_order(
    opened: Opened, names: tuple[str, ...], label: str | None, rest: int
) -> tuple[Opened, str | None]:
    """Give columns the names of the training set, in order; return the label column too.

    Args:
        rest: number of columns of the training set that are neither features nor labels.
    """
    found = len(opened.names)
    if found == len(names):
        return replace(opened, names=names), None
    at = int(label) if label and label.isdecimal() else found - 1
    at = opened.names.index(label) if label in opened.names else at
    positions = tuple(map(str, range(found)))
    if rest and found == len(names) + rest + 1 and set(names) <= set(positions):
        return replace(opened, names=positions), str(at)  # as in a training set without a header
    if found != len(names) + 1 or at >= found:
        raise DataError(
            f"{opened.where}: {found} columns, but the training set has {len(names)} features "
            f"({', '.join(names[:8])}{', …' if names[8:] else ''}); give the same columns"
        )
    target = f"column {at}"
    return replace(opened, names=(*names[:at], target, *names[at:])), target


def _present(opened: Opened, label: str | None, kinds: Mapping[str, Kind]) -> str | None:
    """Return the label column of a later table, if it has one."""
    if label is None or label in opened.names:
        return label
    at = int(label) if label.isdecimal() else len(opened.names)
    found = opened.names[at] if at < len(opened.names) else None
    return found if found is None or found not in kinds else None


def _same_columns(opened: Opened, kinds: Mapping[str, Kind]) -> dict[str, Kind | None]:
    """Return the features of the training set; name those that are not there."""
    if absent := [name for name in kinds if name not in opened.names]:
        others = [name for name in opened.names if name not in kinds]
        hint = did_you_mean(absent[0], others) if len(absent) == 1 else ""
        raise DataError(
            f"{opened.where}: column {', '.join(map(repr, absent))} of the training set is missing"
            f"{hint}"
        )
    return {name: kind if kind.numeric else Kind.CATEGORY for name, kind in kinds.items()}


def _check_header(where: str, frame: Frame) -> None:
    """Refuse a first row that is an example: it has a date of its column, or a text again."""
    fits = {Kind.NUMBER: is_number, Kind.DATE: is_date}
    numeric = [column for column in frame.columns if column.kind.numeric]
    if not all(is_missing(c.name) or fits[c.kind](c.name) for c in numeric):
        return  # an example would have a number or date there
    for column in frame.columns:
        again = column.name in column.categories
        if again or (column.kind is Kind.DATE and is_date(column.name)):
            why = "occurs again in its column" if again else "is a date as its column has"
            raise DataError(
                f"{where}: the first row looks like an example, since {column.name!r} {why}; "
                "add a header"
            )
