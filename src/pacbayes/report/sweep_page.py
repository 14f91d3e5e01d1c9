"""The page about a store of runs: the paper's two tables beside ours, charts and figures."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pacbayes.experiments.columns import COLUMNS, grid
from pacbayes.experiments.store import Store
from pacbayes.experiments.tables import Line, grid_table, printed, table1, table2
from pacbayes.report.charts import Mark, bars
from pacbayes.report.line_charts import Series, line_chart
from pacbayes.report.markup import Html, element, join, table
from pacbayes.report.page import Section, card, command_block, details, document, figure, legend
from pacbayes.report.sweeps import StoredSweep, find_sweeps
from pacbayes.training.loop import Evaluation

__all__ = ["sweep_page"]

_WITHOUT_BOUND = ("mlp",)
_HEADER = ("column", "epoch", "training risk, %", "KL, nats", "bound, %")


def sweep_page(store: Store, shown: Path) -> str:
    """Return the page about a store; `shown` is the path by which the user knows it."""
    found = find_sweeps(store)
    done = len(list(store.folder.glob("runs/*/summary.json")))
    lead = (
        f"{done} finished runs in {shown}, beside the paper's results where the data set is the "
        "same."
    )
    sections = [section for i, s in enumerate(found, 1) for section in _sections(i, s, store)]
    if pictures := sorted((store.folder / "figures").glob("*.png")):
        sections.append(Section("figures", "Figures", join(*map(_picture, pictures))))
    sections.append(Section("again", "Reproduce", _commands(found, shown)))
    return document(shown.resolve().name, "pacbayes sweep", lead, sections, "broad")


def _sections(i: int, s: StoredSweep, store: Store) -> Iterator[Section]:
    """Yield the sections of one sweep; `i` makes their links unique."""
    on = f" on {s.name}"
    yield Section(f"losses-{i}", f"Losses and bounds{on}", _losses(i, s))
    if s.histories:
        yield Section(f"curves-{i}", f"Training curves{on}", _curves(i, s))
    parameters = _table("Hyper-parameters, KL and run time", table2(s.lines, s.sweep, store))
    yield Section(f"parameters-{i}", f"Hyper-parameters{on}", card(parameters))
    if rows := _search(s, store):
        search = card(_table("Every point of the search", rows))
        yield Section(f"search-{i}", f"Hyper-parameter search{on}", search)


def _table(caption: str, rows: list[list[str]]) -> Html:
    return table(caption, rows[0], rows[1:], class_="wide")


def _losses(i: int, s: StoredSweep) -> Html:
    absent = [name for name in COLUMNS if name not in s.sweep.columns]
    text = (
        "Values are in per cent: the mean ± one standard deviation where there are several "
        "repeats. Δ/σ is our value minus the paper's, divided by the combined standard deviation. "
    )
    text += f"No runs yet: {', '.join(absent)}." if absent else ""
    losses = _table("Losses and bounds, per cent", table1(s.lines))
    return join(element("p", text), card(_bounds(i, s.lines), losses))


def _bounds(i: int, lines: Sequence[Line]) -> Html:
    """Draw a bar for each of our bounds, with the paper's below it."""
    marks = [mark for line in lines for mark in _bound_marks(line)]
    if not marks:
        return Html()
    desc = "; ".join(m.text for m in marks)
    names = [("risk", "Catoni bound, computed as in the paper")]
    names += [("sample", "result in the paper")] if any(m.class_ == "sample" for m in marks) else []
    return figure(legend(*names), bars(f"bounds-{i}", "Bounds by column", desc, marks, " %"))


def _bound_marks(line: Line) -> Iterator[Mark]:
    ours, theirs = line.mean("bound"), None if line.printed is None else line.printed.bound
    if ours is None:
        return
    yield Mark("risk", 100 * ours, f"{line.column}: {100 * ours:.2f} %")
    if theirs is not None:
        yield Mark("sample", 100 * theirs, f"paper: {printed(theirs)} %")


def _curves(i: int, s: StoredSweep) -> Html:
    """Draw a small chart for each column, all on the same scale."""
    bounded = [h for column, h in s.histories.items() if column not in _WITHOUT_BOUND]
    top = 100 * max((e.bound for h in bounded for e in h), default=1.0)
    charts = [_curve(i, column, history, top) for column, history in s.histories.items()]
    rows = [_row(column, e) for column, history in s.histories.items() for e in history]
    names = legend(("monte-carlo", "bound"), ("risk", "training risk"))
    caption = element("p", names, "by epoch, for the first repeat that learned", class_="note")
    numbers = details("Numbers in these charts", list(_HEADER), rows)
    return card(caption, element("div", *charts, class_="layers curves"), numbers)


def _curve(i: int, column: str, history: Sequence[Evaluation], top: float) -> Html:
    epochs, last = [e.epoch for e in history], history[-1]
    series = [Series("risk", epochs, [100 * e.risk for e in history])]
    desc = f"At epoch {last.epoch}: training risk {100 * last.risk:.2f} %"
    if column not in _WITHOUT_BOUND:
        series.append(Series("monte-carlo", epochs, [100 * e.bound for e in history]))
        desc += f", bound {100 * last.bound:.2f} %"
    title = f"{column}: bound and training risk by epoch"
    key = f"curve-{i}-{column}"
    chart = line_chart(key, title, desc, series, x_name="epoch", y_unit=" %", height=110, top=top)
    return element("div", element("h3", column), chart)


def _row(column: str, e: Evaluation) -> list[str]:
    bound = [f"{e.kl:.1f}", f"{100 * e.bound:.3f}"]
    if column in _WITHOUT_BOUND:
        bound = ["–", "–"]
    return [column, f"{e.epoch}", f"{100 * e.risk:.3f}", *bound]


def _search(s: StoredSweep, store: Store) -> list[list[str]]:
    """Return the table of the columns whose search has begun, if any."""
    sweep = s.sweep
    begun = [
        name
        for name in sweep.columns
        if any(map(store.summary, grid(name, sweep.dataset, sweep.epochs)))
    ]
    return grid_table(replace(sweep, columns=begun, search="paper"), store) if begun else []


def _picture(path: Path) -> Html:
    content = base64.b64encode(path.read_bytes()).decode()
    alt = f"{path.stem}, as drawn by pacbayes reproduce figures"
    image = element("img", src=f"data:image/png;base64,{content}", alt=alt)
    return figure(path.stem.capitalize(), element("div", image, class_="picture"))


def _commands(found: list[StoredSweep], shown: Path) -> Html:
    blocks = []
    for s in (f.sweep for f in found):
        words = ["pacbayes", "reproduce", "table1", "--dataset", s.dataset]
        words += ["--columns", ",".join(s.columns), "--repeats", str(s.repeats)]
        words += [] if s.epochs is None else ["--epochs", str(s.epochs)]
        words += [] if s.search == "chosen" else ["--grid", s.search]
        blocks.append(command_block(shlex.join([*words, "--out", str(shown)])))
    return card(*blocks)
