"""One self-contained HTML page about a run, or about a store of runs."""

from __future__ import annotations

from pathlib import Path

from pacbayes.experiments.store import Store
from pacbayes.files import write_atomically
from pacbayes.report.contents import RunFacts, collect
from pacbayes.report.page import document
from pacbayes.report.sections.certificates import certificates
from pacbayes.report.sections.provenance import provenance
from pacbayes.report.sections.training import training, weights
from pacbayes.report.sections.votes import doubtful, mistakes
from pacbayes.report.sweep_page import sweep_page
from pacbayes.runs.folder import open_run

__all__ = ["report", "run_page"]


def report(folder: Path, out: Path) -> None:
    """Write the page of a run folder, or of a store made by `pacbayes reproduce`."""
    if (folder / "run.json").is_file():
        page = run_page(collect(open_run(folder)))
    elif any(folder.glob("runs/*/configuration.json")):
        page = sweep_page(Store(folder), folder)
    else:
        raise ValueError(
            f"{folder} is neither a run folder (no run.json in it) "
            "nor a store of runs (no runs/*/configuration.json)"
        )
    write_atomically(out, page.encode())


def run_page(facts: RunFacts) -> str:
    """Everything about a run on one page."""
    s, data = facts.record.settings, facts.record.data
    units = s.activation if s.widths else "linear"
    ends = (data.features, *s.widths, 1 if len(data.classes) == 2 else len(data.classes))
    name = Path(data.source.name).name
    scales = "learned" if s.learned_scale else "unit"
    prior = f"prior learned from {100 * s.prior_fraction:g} % of the data, "
    lead = (
        f"{facts.folder}: {'-'.join(map(str, ends))} {units}, {s.objective}, "
        f"{scales} scales, {prior if s.prior_fraction else ''}{s.protocol} protocol, "
        f"{s.epochs} epochs, {data.n} examples."
    )
    sections = [
        certificates(facts),
        training(facts),
        weights(facts),
        doubtful(facts),
        mistakes(facts),
        provenance(facts),
    ]
    return document(f"{name}, {units}", "pacbayes report", lead, sections)
