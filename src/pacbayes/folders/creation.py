"""Create a run from a network, data and settings as a program names them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pacbayes.data import Dataset, DataSource
from pacbayes.data.source import Tables
from pacbayes.defaults import for_module, for_table
from pacbayes.folders.blueprint import Named, chosen
from pacbayes.folders.features import featured
from pacbayes.folders.folder import Run
from pacbayes.folders.preparation import prepare
from pacbayes.settings import Settings

__all__ = ["create"]


def create(
    folder: str | Path,
    network: Named,
    data: str | Path | DataSource,
    settings: Settings | Mapping[str, Any] | None = None,
) -> Run:
    """Prepare a run, as `Run.create` says."""
    source = data if isinstance(data, DataSource) else DataSource(str(data))
    source.check()
    dense = network is None or network == "dense"
    if isinstance(settings, Settings):
        whole = settings if dense else _for_module(settings)
        read = source.read()
    else:
        read = source.read()
        whole = _usual(read, dict(settings or {}), dense=dense, table=source.is_table)
    examples = featured(read, whole)
    choice = chosen(network, learned=bool(whole.prior_fraction), shape=examples.shape or ())
    return prepare(Path(folder), whole, source, examples, choice)


def _for_module(settings: Settings) -> Settings:
    """Return the settings without widths, which a module has itself; refuse what it cannot have."""
    if settings.activation != "relu" or settings.protocol != "fast":
        raise ValueError(
            f"activation {settings.activation} and protocol {settings.protocol} are for dense "
            "networks; a module takes relu and fast"
        )
    return settings.model_copy(update={"widths": ()})


def _usual(
    read: Dataset | Tables, changes: dict[str, Any], *, dense: bool, table: bool
) -> Settings:
    """Return the default settings for data and network, with changes."""
    n, groups = len(read.y_train), read.groups
    if not dense:
        changes = for_module(n, changes)
    elif table:
        changes = for_table(n, changes, None if groups is None else len(set(groups.tolist())))
    found = Settings.of(classes=len(read.classes), **changes)
    return found if dense else _for_module(found)
