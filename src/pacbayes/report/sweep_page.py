"""A store of runs as a page: the paper's two tables beside ours, and pictures."""

from __future__ import annotations

import base64
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pacbayes.experiments.columns import COLUMNS, Configuration, grid
from pacbayes.experiments.store import Store
from pacbayes.experiments.sweep import Sweep
from pacbayes.experiments.tables import Line, grid_table, lines, printed, table1, table2
from pacbayes.files import load_record
from pacbayes.report.charts import Mark, Series, bars, line_chart
from pacbayes.report.markup import Html, element, join, table
from pacbayes.report.page import Section, card, command_block, details, document, figure, legend
from pacbayes.report.reading import read_history
from pacbayes.training.loop import Evaluation

__all__ = ["Found", "find_sweeps", "sweep_page"]


@dataclass(frozen=True)
class Found:
    """The runs of a store that were asked for together, by their data and number of epochs."""

    sweep: Sweep
    lines: tuple[Line, ...]
    histories: dict[str, tuple[Evaluation, ...]]

    @property
    def name(self) -> str:
        epochs = self.sweep.epochs
        return self.sweep.dataset + ("" if epochs is None else f", {epochs} epochs")


def find_sweeps(store: Store) -> list[Found]:
    """What the configurations in a store were made for: the sweep that shows the most repeats."""
    paths = sorted(store.folder.glob("runs/*/configuration.json"))
    configurations = [load_record(Configuration, path) for path in paths]
    groups: dict[tuple[str, int | None], list[Configuration]] = {}
    for c in configurations:
        groups.setdefault((c.dataset, c.epochs), []).append(c)
    found = []
    for (dataset, epochs), group in sorted(groups.items(), key=str):
        columns = [name for name in COLUMNS if any(c.column == name for c in group)]
        chosen = Sweep(columns, dataset, epochs, _repeats(group, store))
        searched = replace(chosen, search="paper")
        sweep = max(chosen, searched, key=lambda s: sum(c in group for c in s.repeated(store)))
        histories = _histories(sweep, store)
        found.append(Found(sweep, tuple(lines(sweep, store)), histories))
    return found


def _repeats(group: Sequence[Configuration], store: Store) -> int:
    """How many were asked for: one that never learned was followed by another."""
    learned = Counter(c.column for c in group if c.repeat and _learned(c, store))
    return max(learned.values(), default=1)


def _learned(c: Configuration, store: Store) -> bool:
    summary = store.summary(c)
    return summary is None or summary.learned


def _histories(sweep: Sweep, store: Store) -> dict[str, tuple[Evaluation, ...]]:
    """Of the first repeat of every column that learned."""
    paths = {name: store.place(c) / "history.json" for name, c in sweep.shown(store).items()}
    return {name: read_history(path) for name, path in paths.items() if path.exists()}


def sweep_page(store: Store, shown: Path) -> str:
    """The page of a store, at the path the user knows it by."""
    found = find_sweeps(store)
    done = len(list(store.folder.glob("runs/*/summary.json")))
    lead = f"{done} finished runs of {shown}, beside the paper's where the data are the same."
    sections = [s for i, f in enumerate(found, 1) for s in _sections(i, f, store)]
    if pictures := sorted((store.folder / "figures").glob("*.png")):
        sections.append(Section("figures", "Figures", join(*map(_picture, pictures))))
    sections.append(Section("again", "Again", _again(found, shown)))
    return document(shown.resolve().name, "pacbayes sweep", lead, sections, "broad")


def _sections(i: int, f: Found, store: Store) -> list[Section]:
    of = f" on {f.name}"
    first, second = table1(f.lines), table2(f.lines, f.sweep, store)
    absent = [name for name in COLUMNS if name not in f.sweep.columns]
    text = (
        "Per cent, mean ± 1σ of the repeats where there are several; Δ/σ is ours less "
        "the paper's in units of both σ together. "
    )
    text += f"No runs yet: {', '.join(absent)}." if absent else ""
    rows = table("Losses and bounds, per cent", first[0], first[1:], class_="wide")
    losses = join(element("p", text), card(_bounds(i, f), rows))
    caption = "Hyper-parameters, KL and run time"
    found = [Section(f"losses-{i}", f"Losses and bounds{of}", losses)]
    if f.histories:
        found.append(Section(f"curves-{i}", f"Curves{of}", _curves(i, f)))
    body = card(table(caption, second[0], second[1:], class_="wide"))
    found.append(Section(f"parameters-{i}", f"Hyper-parameters{of}", body))
    s = f.sweep
    begun = [n for n in s.columns if any(map(store.summary, grid(n, s.dataset, s.epochs)))]
    if begun:
        points = grid_table(replace(s, columns=begun, search="paper"), store)
        body = card(table("Every point of the search", points[0], points[1:], class_="wide"))
        found.append(Section(f"search-{i}", f"Search{of}", body))
    return found


def _bounds(i: int, f: Found) -> Html:
    """Bars of our bounds, the paper's under each."""
    marks = []
    for line in f.lines:
        ours, theirs = line.mean("bound"), None if line.printed is None else line.printed.bound
        if ours is not None:
            marks.append(Mark("risk", 100 * ours, f"{line.column}: {100 * ours:.2f} %"))
        if ours is not None and theirs is not None:
            marks.append(Mark("sample", 100 * theirs, f"paper: {printed(theirs)} %"))
    if not marks:
        return Html()
    desc = "; ".join(m.text for m in marks)
    names = [("risk", "Catoni bound, the paper's way")]
    names += [("sample", "in the paper")] if any(m.class_ == "sample" for m in marks) else []
    return figure(legend(*names), bars(f"bounds-{i}", "Bounds by column", desc, marks, " %"))


def _curves(i: int, f: Found) -> Html:
    """A small chart for every column, all to one scale."""
    bounded = [h for column, h in f.histories.items() if column != "mlp"]
    top = 100 * max((e.bound for h in bounded for e in h), default=1.0)
    shown = []
    for column, history in f.histories.items():
        epochs = [e.epoch for e in history]
        series = [Series("risk", epochs, [100 * e.risk for e in history])]
        if column != "mlp":
            series.append(Series("monte-carlo", epochs, [100 * e.bound for e in history]))
        last = history[-1]
        desc = f"At epoch {last.epoch} the training risk is {100 * last.risk:.2f} %"
        desc += "" if column == "mlp" else f" and the bound {100 * last.bound:.2f} %"
        title = f"{column}: bound and training risk over epochs"
        key = f"curve-{i}-{column}"
        chart = line_chart(key, title, desc, series, y_unit=" %", height=110, top=top)
        shown.append(element("div", element("h3", column), chart))
    rows = []
    for column, history in f.histories.items():
        for e in history:
            bound = ["–", "–"] if column == "mlp" else [f"{e.kl:.1f}", f"{100 * e.bound:.3f}"]
            rows.append([column, f"{e.epoch}", f"{100 * e.risk:.3f}", *bound])
    names = legend(("monte-carlo", "bound"), ("risk", "training risk"))
    caption = element("p", names, "over epochs, of the first repeat that learned", class_="note")
    header = ["column", "epoch", "training risk, %", "KL, nats", "bound, %"]
    numbers = details("The numbers of these curves", header, rows)
    return join(card(caption, element("div", *shown, class_="layers curves"), numbers))


def _picture(path: Path) -> Html:
    content = base64.b64encode(path.read_bytes()).decode()
    alt = f"{path.stem}, as drawn by pacbayes reproduce figures"
    image = element("img", src=f"data:image/png;base64,{content}", alt=alt)
    return figure(path.stem.capitalize(), element("div", image, class_="picture"))


def _again(found: list[Found], shown: Path) -> Html:
    blocks = []
    for f in found:
        s = f.sweep
        words = ["pacbayes", "reproduce", "table1", "--dataset", s.dataset]
        words += ["--columns", ",".join(s.columns), "--repeats", str(s.repeats)]
        words += [] if s.epochs is None else ["--epochs", str(s.epochs)]
        words += [] if s.search == "chosen" else ["--grid", s.search]
        blocks.append(command_block(shlex.join([*words, "--out", str(shown)])))
    return card(*blocks)
