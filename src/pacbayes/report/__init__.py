"""One self-contained HTML page about a run folder, a saved classifier or a store of runs."""

from __future__ import annotations

from pathlib import Path

from pacbayes.files import CLASSIFIER, kind_of, write_atomically
from pacbayes.report.answers import doubtful_section, errors_section
from pacbayes.report.certificates import (
    candidates_section,
    certificates_section,
    columns_section,
    provenance_section,
)
from pacbayes.report.contents import Contents, portable
from pacbayes.report.markup import document
from pacbayes.report.training import training_section, weights_section

__all__ = ["collect", "page", "report"]

_SECTIONS = (  # each says for which folders it speaks, and returns None for others
    certificates_section,
    candidates_section,
    training_section,
    columns_section,
    weights_section,
    doubtful_section,
    errors_section,
    provenance_section,
)


def report(
    folder: Path, out: Path, *, data: Path | None = None, test_data: Path | None = None
) -> None:
    """Write the page of a run folder, a saved classifier, or a store made by `pacbayes reproduce`.

    Args:
        data, test_data: where the own data of a network's run are now, if they have moved.
    """
    write_atomically(out, _page(folder, data, test_data).encode())


def _page(folder: Path, data: Path | None, test_data: Path | None) -> str:
    if not (folder / "run.json").is_file() and (folder / "runs").is_dir():
        from pacbayes.paper.store import Store
        from pacbayes.report.sweeps import sweep_page

        if (store := Store(folder)).configurations():
            _refuse(data, test_data, f"{folder}, a store of runs")
            return sweep_page(store, folder)
    return page(collect(folder, data, test_data))


def collect(folder: Path, data: Path | None = None, test_data: Path | None = None) -> Contents:
    """Return what the page about a run folder or a saved classifier shows.

    Args:
        data, test_data: as in `report`.
    """
    try:
        kind = kind_of(folder)
    except ValueError as error:
        if (folder / "run.json").is_file():
            raise
        raise ValueError(
            f"{folder} is neither a run folder (it has no run.json) nor a store of runs (it has no "
            "runs in a folder runs); give a folder made by pacbayes train or pacbayes reproduce"
        ) from error
    if kind == CLASSIFIER:
        from pacbayes.report import models  # scikit-learn is for these alone

        _refuse(data, test_data, f"{folder}, a classifier")
        return models.collect(folder)
    from pacbayes.folders.folder import open_run
    from pacbayes.report import networks

    return networks.collect(open_run(folder), data, test_data)


def _refuse(data: Path | None, test_data: Path | None, whom: str) -> None:
    for option, given in (("data", data), ("test-data", test_data)):
        if given is not None:
            raise ValueError(f"--{option} has no effect on {whom}; leave it out")


def page(contents: Contents) -> str:
    """Return the page that shows these contents."""
    sections = [section(contents) for section in _SECTIONS]
    shown = [section for section in sections if section is not None]
    lead = f"{portable(contents.folder)}: {contents.about}."
    return document(contents.title, "pacbayes report", lead, shown)
