"""One self-contained HTML page about a run folder, a saved classifier or a store of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pacbayes.files import CLASSIFIER, KERNEL, kind_of, write_atomically
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

if TYPE_CHECKING:
    from pacbayes.paper.store import Store

__all__ = ["SECTIONS", "collect", "page", "plot", "report"]

SECTIONS = (  # each says for which folders it speaks, and returns None for others
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
    if (store := _store(folder)) is not None:
        from pacbayes.report.sweeps import sweep_page

        _refuse(data, test_data, f"{folder}, a store of runs")
        text = sweep_page(store, folder)
    else:
        text = page(collect(folder, data, test_data))
    write_atomically(out, text.encode())


def plot(folder: Path, out: Path) -> None:
    """Draw a network's training by epoch, or the bounds of a classifier or of a store of runs."""
    from pacbayes.report import plots

    plots.check_out(out)
    if (store := _store(folder)) is not None:
        from pacbayes.report.sweeps import find_sweeps

        plots.plot_bars({s.name: s.marks for s in find_sweeps(store)}, out)
    elif _kind(folder) == CLASSIFIER:
        contents = collect(folder)
        if not contents.certificates:
            raise ValueError(f"{folder} has no bound to draw. {contents.uncertified.title}")
        first = contents.certificates[0]
        if not all(finding.holds for finding in first.findings):
            raise ValueError(f"{folder}: its certificate does not hold; see pacbayes verify")
        plots.plot_bars({contents.title: contents.bars}, out, first.unit.sign)
    elif _kind(folder) == KERNEL:
        raise ValueError(f"{folder}: a kernel network has no plot yet; use pacbayes report")
    else:
        from pacbayes.folders.folder import open_run

        plots.plot_history(open_run(folder), out)


def collect(folder: Path, data: Path | None = None, test_data: Path | None = None) -> Contents:
    """Return what the page about a run folder or a saved classifier shows.

    Args:
        data, test_data: as in `report`.
    """
    if _kind(folder) == CLASSIFIER:
        from pacbayes.report import models  # scikit-learn is for these alone

        _refuse(data, test_data, f"{folder}, a classifier")
        return models.collect(folder)
    if _kind(folder) == KERNEL:
        from pacbayes.folders.kernels import open_kernel
        from pacbayes.report import kernels

        return kernels.collect(open_kernel(folder), data, test_data)
    from pacbayes.folders.folder import open_run
    from pacbayes.report import networks

    return networks.collect(open_run(folder), data, test_data)


def _kind(folder: Path) -> str:
    try:
        return kind_of(folder)
    except ValueError as error:
        if (folder / "run.json").is_file():
            raise
        raise ValueError(
            f"{folder} is neither a run folder (it has no run.json) nor a store of runs (it has no "
            "runs in a folder runs); give a folder made by pacbayes train or pacbayes reproduce"
        ) from error


def _store(folder: Path) -> Store | None:
    """Return the store of runs in a folder, if it is one."""
    if (folder / "run.json").is_file() or not (folder / "runs").is_dir():
        return None
    from pacbayes.paper.store import Store

    found = Store(folder)
    return found if found.configurations() else None


def _refuse(data: Path | None, test_data: Path | None, whom: str) -> None:
    for option, given in (("data", data), ("test-data", test_data)):
        if given is not None:
            raise ValueError(f"--{option} has no effect on {whom}; leave it out")


def page(contents: Contents) -> str:
    """Return the page that shows these contents."""
    sections = [section(contents) for section in SECTIONS]
    shown = [section for section in sections if section is not None]
    lead = f"{portable(contents.folder)}: {contents.about}."
    return document(contents.title, "pacbayes report", lead, shown)
