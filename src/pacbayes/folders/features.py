"""The features of a run: fitted to the prior's rows where a table has such, and kept as JSON."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import ValidationError

from pacbayes.data import Dataset, Tables
from pacbayes.data.encoding import Encoding, NumberCode
from pacbayes.files import DamagedFileError, write_atomically
from pacbayes.folders.record import DataRecord
from pacbayes.settings import Settings
from pacbayes.training.priors import split

__all__ = ["FILE", "encoding_of", "featured", "features_sha256", "save_features"]

FILE = "features.json"


def featured(data: Dataset | Tables, settings: Settings) -> Dataset:
    """Compute the features of a table.

    Numbers are standardised and categories encoded by constants of the prior's rows. Without a part
    for the prior, columns stay as they are, and categories and missing values are refused.
    """
    if isinstance(data, Dataset):
        return data
    if not settings.prior_fraction:
        return data.plain()
    own, _ = split(len(data), settings.prior_fraction, settings.seed, data.groups)
    return data.fitted(own)


def features_sha256(encoding: Encoding | None) -> str | None:
    """Return the hash of the file that `save_features` would write."""
    return None if encoding is None else hashlib.sha256(_content(encoding)).hexdigest()


def save_features(folder: Path, encoding: Encoding) -> None:
    """Write an encoding as plain JSON."""
    write_atomically(folder / FILE, _content(encoding))


def _content(encoding: Encoding) -> bytes:
    return (encoding.model_dump_json(indent=2) + "\n").encode()


def encoding_of(folder: Path, record: DataRecord) -> Encoding:
    """Return the encoding of a run; those of arrays and of earlier versions change nothing."""
    if record.features_sha256 is None:
        names = record.names or map(str, range(record.features))
        return Encoding(columns=tuple(NumberCode(name=name) for name in names))
    path = folder / FILE
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != record.features_sha256:
        raise DamagedFileError(f"{path} is missing or is not the run's")
    try:
        return Encoding.model_validate_json(content)
    except ValidationError as error:
        raise DamagedFileError(f"{path} is damaged: {error.errors()[0]['msg']}") from error
