"""Data sets: by name, or from your own files."""

from __future__ import annotations

from pacbayes.data.arrays import check_width, read_arrays
from pacbayes.data.dataset import DataError, Dataset, Table
from pacbayes.data.named import DATASETS, NAMES
from pacbayes.data.reading import is_table, read_frame
from pacbayes.data.source import DataSource, Tables, load, load_with_fallback

__all__ = [
    "DATASETS",
    "NAMES",
    "DataError",
    "DataSource",
    "Dataset",
    "Table",
    "Tables",
    "check_width",
    "is_table",
    "load",
    "load_with_fallback",
    "read_arrays",
    "read_frame",
]
