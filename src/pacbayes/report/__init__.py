"""One self-contained HTML page about a run, or about a store of runs."""

from __future__ import annotations

from pathlib import Path

from pacbayes.files import write_atomically
from pacbayes.paper.store import Store
from pacbayes.report.contents import RunContents, collect
from pacbayes.report.page import document
from pacbayes.report.sections.certificates import certificates_section
from pacbayes.report.sections.features import features_section
from pacbayes.report.sections.provenance import provenance_section
from pacbayes.report.sections.training import training_section
from pacbayes.report.sections.votes import doubtful_section, errors_section
from pacbayes.report.sections.weights import weights_section
from pacbayes.report.sweep_page import sweep_page
from pacbayes.runs.folder import open_run

__all__ = ["report", "run_page"]

_SECTIONS = (
    certificates_section,
    training_section,
    features_section,
    weights_section,
    doubtful_section,
    errors_section,
    provenance_section,
)


def report(
    folder: Path, out: Path, *, data: Path | None = None, test_data: Path | None = None
) -> None:
    """Write the page of a run folder, or of a store made by `pacbayes reproduce`.

    Args:
        data, test_data: where the run's own data are now, if they have moved.
    """
    if (folder / "run.json").is_file():
        page = run_page(collect(open_run(folder), data, test_data))
    elif (store := Store(folder)).configurations():
        page = sweep_page(store, folder)
    else:
        raise ValueError(
            f"{folder} is neither a run folder (it has no run.json) nor a store of runs (it has no "
            "runs in a folder runs); give a folder made by pacbayes train or pacbayes reproduce"
        )
    write_atomically(out, page.encode())


def run_page(contents: RunContents) -> str:
    """Return the page about a run."""
    name = Path(contents.record.data.source.name).name
    title = f"{name}, {_units(contents)}"
    sections = [section(contents) for section in _SECTIONS]
    return document(title, "pacbayes report", _lead(contents), [s for s in sections if s])


def _units(contents: RunContents) -> str:
    title = contents.record.title
    return title.rpartition(" ")[2] if contents.record.network is None else title


def _lead(contents: RunContents) -> str:
    """Summarise the run in a line or two."""
    s, data = contents.record.settings, contents.record.data
    parts = [
        f"network {contents.record.title}",
        f"objective {s.objective}",
        f"{'learned' if s.learned_scale else 'fixed'} standard deviations",
    ]
    if s.prior_fraction:
        parts.append(f"prior learned from {100 * s.prior_fraction:g} % of the data")
    parts += [f"{s.protocol} protocol", f"{s.epochs} epochs", f"n = {data.n} examples"]
    return f"{contents.folder}: {'; '.join(parts)}."
