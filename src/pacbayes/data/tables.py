"""A user's own data: .npz with arrays x and y, or .csv with a label column."""

from __future__ import annotations

import csv
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.dataset import DataError, Floats, check_features
from pacbayes.spelling import did_you_mean

__all__ = ["Table", "check_names", "check_width", "read_table"]


@dataclass(frozen=True)
class Table:
    """Features (n, d), and labels (n,) where there are any.

    Attributes:
        names: of the features, where a CSV file has a header.
        headless: a CSV file whose first row was taken for an example.
    """

    x: Floats
    labels: NDArray[Any] | None
    names: tuple[str, ...] | None = None
    headless: bool = False


def read_table(
    path: Path, label: str | None = None, width: int | None = None, usual: str | None = None
) -> Table:
    """Read a file of examples.

    Args:
        label: name or position (from 0) of a CSV file's label column; the last one by default.
        width: how many features there must be; a CSV file of exactly so many columns, and no label
            named, then has no labels.
        usual: the label column of the file trained on, which this one need not have.

    Raises:
        DataError: the file is missing, malformed, empty, or has entries that are not numbers.
    """
    if not path.is_file():
        raise DataError(f"{path}: {'a folder, not a file' if path.is_dir() else 'no such file'}")
    if path.suffix == ".npz":
        table = _read_npz(path)
    elif path.suffix == ".csv":
        table = _read_csv(path, label, width, usual)
    else:
        raise DataError(f"{path}: need a .npz or .csv file, got {path.suffix or 'no suffix'!r}")
    check_features(table.x, str(path))
    if width is not None:
        taken = path.suffix == ".csv" and label is None and table.labels is not None
        hint = "; the last column was taken for labels, --label says otherwise" if taken else ""
        check_width(table.x, width, str(path), hint)
    return table


def check_width(x: Floats, width: int, where: str, hint: str = "") -> None:
    """Refuse examples a network of another width cannot take."""
    if x.shape[1] != width:
        raise DataError(f"{where}: {x.shape[1]} features, but the network takes {width}{hint}")


def check_names(
    names: tuple[str, ...] | None, expected: tuple[str, ...] | None, where: str
) -> None:
    """Refuse features with other names or in another order, where both have names."""
    for found, wanted in zip(names or (), expected or (), strict=False):
        if found != wanted:
            raise DataError(
                f"{where}: column {found!r} where training had {wanted!r}; "
                "the columns must be those of training, in their order"
            )


def _read_npz(path: Path) -> Table:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files if name in ("x", "y")}
    except (ValueError, TypeError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not a readable .npz file ({error})") from error
    if "x" not in arrays:
        raise DataError(f"{path}: no array named x (and y for labels)")
    x = arrays["x"]
    if x.dtype.kind not in "biuf":
        raise DataError(f"{path}: x must hold numbers, got {x.dtype}")
    if x.ndim == 0 or len(x) == 0:
        raise DataError(f"{path}: no examples")
    labels = arrays.get("y")
    if labels is not None and labels.shape != (len(x),):
        raise DataError(f"{path}: y must have shape ({len(x)},), got {labels.shape}")
    return Table(_floats(x.reshape(len(x), -1)), labels)


def _read_csv(path: Path, label: str | None, width: int | None, usual: str | None) -> Table:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: not a readable CSV file ({error})") from error
    if not rows:
        raise DataError(f"{path}: no examples")
    rows[0], columns = [cell.strip() for cell in rows[0]], len(rows[0])
    if label is None and (usual in rows[0] or columns - 1 == width):
        label = usual
    column = None if label is None and columns == width else _column(path, rows[0], label)
    features = [i for i in range(columns) if i != column]
    if not features:
        raise DataError(f"{path}: only one column; fields must be separated by commas")
    named = label is not None and label in rows[0]
    header = named or any(rows[0][i] and not _is_number(rows[0][i]) for i in features)
    body = rows[1:] if header else rows
    if not body:
        raise DataError(f"{path}: a header but no examples")
    places = [repr(name) if header else str(i) for i, name in enumerate(rows[0])]
    x = np.empty((len(body), len(features)), np.float32)
    for r, row in enumerate(body):
        where = f"{path}, row {r + 1 + header}"
        if len(row) != columns:
            raise DataError(f"{where}: {len(row)} columns, expected {columns}")
        if column is not None and not row[column].strip():
            raise DataError(f"{where}, column {places[column]}: the label is missing")
        try:
            x[r] = _floats(np.array([float(row[i]) for i in features]))
        except ValueError:
            bad = next(i for i in features if not _is_number(row[i]))
            what = "a value is missing"
            if row[bad].strip():
                what = f"{row[bad]!r} is not a number"
                what += "" if label or column is None else "; --label says where the labels are"
            raise DataError(f"{where}, column {places[bad]}: {what}") from None
        if not np.isfinite(x[r]).all():
            bad = features[int(np.argmin(np.isfinite(x[r])))]
            raise DataError(
                f"{where}, column {places[bad]}: {row[bad]!r} is no finite number of 32 bits"
            )
    labels = None if column is None else np.array([row[column].strip() for row in body])
    names = tuple(rows[0][i] for i in features) if header else None
    return Table(x, labels, names, headless=not header)


def _column(path: Path, first: list[str], label: str | None) -> int:
    if label is None:
        return len(first) - 1
    if label in first:
        return first.index(label)
    if label.isdecimal() and int(label) < len(first):
        return int(label)
    hint = did_you_mean(label, first)
    some = ", ".join(first[:8]) + (", …" if len(first) > 8 else "")
    raise DataError(f"{path}: no column {label!r}{hint or f'; there are {some}'}")


def _floats(x: NDArray[Any]) -> Floats:
    with np.errstate(over="ignore"):  # becomes infinite, which is refused by name
        return np.ascontiguousarray(x, dtype=np.float32)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
