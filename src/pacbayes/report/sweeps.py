"""The page about a store of runs: the paper's two tables beside ours, charts and figures."""

from __future__ import annotations

import base64
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pacbayes.paper.columns import COLUMNS, Configuration, grid
from pacbayes.paper.store import Store
from pacbayes.paper.sweep import Sweep
from pacbayes.paper.tables import Line, grid_table, lines, printed, table1, table2
from pacbayes.report.charts import Mark, Series, bars, line_chart
from pacbayes.report.contents import portable
from pacbayes.report.markup import (
    Html,
    Section,
    card,
    command_block,
    details,
    document,
    element,
    figure,
    join,
    legend,
    table,
)
from pacbayes.report.networks import option_words
from pacbayes.report.training import ByEpoch
from pacbayes.training.loop import Evaluation

__all__ = ["StoredSweep", "find_sweeps", "sweep_page"]

_WITHOUT_BOUND = {"mlp"}
_ENTRIES = (
    ("risk", "Catoni bound, computed as in the paper"),
    ("sample", "result in the paper"),
)
_HEADER = ("column", "epoch", "training risk, %", "KL, nats", "bound, %")


def sweep_page(store: Store, shown: Path) -> str:
    """Return the page about a store; `shown` is the path by which the user knows it."""
    done, place = store.count_finished(), portable(shown)
    lead = (
        f"{done} finished runs in {place}, beside the paper's results where the data set is the "
        "same."
    )
    sections = list(_sections(store, place))
    return document(shown.resolve().name, "pacbayes sweep", lead, sections, "broad")


def _sections(store: Store, shown: Path) -> Iterator[Section]:
    found = find_sweeps(store)
    for i, s in enumerate(found, 1):
        yield from _sections_of(i, s, store)
    if pictures := sorted((store.folder / "figures").glob("*.png")):
        yield Section("figures", "Figures", join(*map(_picture, pictures)))
    commands = [_command(s.sweep, shown) for s in found]
    yield Section("again", "Reproduce", card(*map(command_block, commands)))


def _sections_of(i: int, s: StoredSweep, store: Store) -> Iterator[Section]:
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
    return join(element("p", text), card(_bounds(i, s.marks), losses))


def _bounds(i: int, marks: Sequence[Mark]) -> Html:
    """Draw a bar for each of our bounds, with the paper's below it."""
    if not marks:
        return Html()
    desc = "; ".join(m.text for m in marks)
    chart = bars(f"bounds-{i}", "Bounds by column", desc, marks, " %")
    return figure(_legend(marks), chart)


def _legend(marks: Sequence[Mark]) -> Html:
    present = {mark.class_ for mark in marks}
    return legend(*(entry for entry in _ENTRIES if entry[0] in present))


def _bound_marks(line: Line) -> Iterator[Mark]:
    ours, theirs = line.mean("bound"), None if line.printed is None else line.printed.bound
    if ours is None:
        return
    yield Mark("risk", 100 * ours, f"{line.column}: {100 * ours:.2f} %")
    if theirs is not None:
        yield Mark("sample", 100 * theirs, f"paper: {printed(theirs)} %")


def _curves(i: int, s: StoredSweep) -> Html:
    """Draw a small chart for each column, all on the same scale."""
    top = 100 * max(_bounds_shown(s), default=1.0)
    charts = [_curve(i, column, history, top) for column, history in s.histories.items()]
    rows = [_row(column, e) for column, history in s.histories.items() for e in history]
    names = legend(("monte-carlo", "bound"), ("risk", "training risk"))
    caption = element("p", names, "by epoch, for the first repeat that learned", class_="note")
    numbers = details("Numbers in these charts", _HEADER, rows)
    return card(caption, element("div", *charts, class_="layers curves"), numbers)


def _bounds_shown(s: StoredSweep) -> Iterator[float]:
    for column in s.histories.keys() - _WITHOUT_BOUND:
        yield from (e.bound for e in s.histories[column])


def _curve(i: int, column: str, history: Sequence[Evaluation], top: float) -> Html:
    by_epoch, last = ByEpoch.of(history), history[-1]
    series = [Series("risk", by_epoch.epochs, by_epoch.risks)]
    desc = f"At epoch {last.epoch}: training risk {100 * last.risk:.2f} %"
    if column not in _WITHOUT_BOUND:
        series.append(Series("monte-carlo", by_epoch.epochs, by_epoch.bounds))
        desc += f", bound {100 * last.bound:.2f} %"
    title = f"{column}: bound and training risk by epoch"
    key = f"curve-{i}-{column}"
    chart = line_chart(key, title, desc, series, x_name="epoch", y_unit=" %", height=110, top=top)
    return element("div", element("h3", column), chart)


def _row(column: str, e: Evaluation) -> list[str]:
    start = [column, f"{e.epoch}", f"{100 * e.risk:.3f}"]
    if column in _WITHOUT_BOUND:
        return [*start, "–", "–"]
    return [*start, f"{e.kl:.1f}", f"{100 * e.bound:.3f}"]


def _search(s: StoredSweep, store: Store) -> list[list[str]]:
    """Return the table of the columns whose search has begun, if any."""
    begun = [name for name in s.sweep.columns if _search_begun(name, s.sweep, store)]
    return grid_table(replace(s.sweep, columns=begun, search="paper"), store) if begun else []


def _search_begun(column: str, sweep: Sweep, store: Store) -> bool:
    return any(map(store.summary, grid(column, sweep.dataset, sweep.epochs)))


def _picture(path: Path) -> Html:
    content = base64.b64encode(path.read_bytes()).decode()
    alt = f"{path.stem}, as drawn by pacbayes reproduce figures"
    image = element("img", src=f"data:image/png;base64,{content}", alt=alt)
    return figure(path.stem.capitalize(), element("div", image, class_="picture"))


def _command(sweep: Sweep, shown: Path) -> str:
    """Return the command that makes a sweep and prints its first table."""
    options = {
        "--dataset": sweep.dataset,
        "--columns": ",".join(sweep.columns),
        "--repeats": sweep.repeats,
        "--epochs": sweep.epochs,
        "--grid": None if sweep.search == "chosen" else sweep.search,
        "--out": shown,
    }
    return shlex.join(["pacbayes", "reproduce", "table1", *option_words(options)])


@dataclass(frozen=True)
class StoredSweep:
    """The runs of a store that share a data set and a number of epochs.

    Attributes:
        lines: the rows of the paper's tables.
        histories: for each column, the evaluations of the first repeat that learned.
    """

    sweep: Sweep
    lines: tuple[Line, ...]
    histories: dict[str, tuple[Evaluation, ...]]

    @property
    def name(self) -> str:
        """The data set, and the epochs if they are not the paper's."""
        epochs = self.sweep.epochs
        return self.sweep.dataset + ("" if epochs is None else f", {epochs} epochs")

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Our bound of each column, and the paper's."""
        return tuple(mark for line in self.lines for mark in _bound_marks(line))


def find_sweeps(store: Store) -> list[StoredSweep]:
    """Return the sweeps whose runs are in a store."""
    groups: dict[tuple[str, int | None], list[Configuration]] = {}
    for c in store.configurations():
        groups.setdefault((c.dataset, c.epochs), []).append(c)
    sweeps = [_sweep(group, store) for _, group in sorted(groups.items(), key=str)]
    return [StoredSweep(s, tuple(lines(s, store)), s.histories(store)) for s in sweeps]


def _sweep(group: Sequence[Configuration], store: Store) -> Sweep:
    """Return the sweep of configurations of one data set: the one that shows the most repeats."""
    present = {c.column for c in group}
    columns = [name for name in COLUMNS if name in present]
    chosen = Sweep(columns, group[0].dataset, group[0].epochs, _repeats(group, store))
    searched = replace(chosen, search="paper")
    return max(chosen, searched, key=lambda s: sum(c in group for c in s.repeated(store)))


def _repeats(group: Sequence[Configuration], store: Store) -> int:
    """Return the number of repeats asked for; repeats that never learned were replaced."""
    learned = Counter(c.column for c in group if c.repeat and _learned(c, store))
    return max(learned.values(), default=1)


def _learned(c: Configuration, store: Store) -> bool:
    summary = store.summary(c)
    return summary is None or summary.learned
