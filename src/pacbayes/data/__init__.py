"""Data sets: by name, or from your own files."""

from __future__ import annotations

from pacbayes.data.dataset import DataError, Dataset, Table
from pacbayes.data.named import DATASETS, NAMES
from pacbayes.data.source import DataSource, load, load_with_fallback
from pacbayes.data.tables import check_names, check_width, read_table

__all__ = [
    "DATASETS",
    "NAMES",
    "DataError",
    "DataSource",
    "Dataset",
    "Table",
    "check_names",
    "check_width",
    "load",
    "load_with_fallback",
    "read_table",
]
