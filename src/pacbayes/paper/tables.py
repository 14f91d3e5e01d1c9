"""The paper's two tables and our numbers, as text for a terminal, Markdown, CSV or LaTeX."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pacbayes.paper.columns import Configuration, chosen
from pacbayes.paper.printed import COLUMNS, PaperResult
from pacbayes.paper.store import Store, Summary
from pacbayes.paper.sweep import Sweep

__all__ = [
    "Format",
    "Line",
    "grid_table",
    "lines",
    "printed",
    "record",
    "render",
    "rows",
    "table1",
    "table2",
]

Format = Literal["terminal", "markdown", "csv", "latex"]
_LOSSES = {"train_linear": "train linear", "test_zero_one": "test 0-1", "bound": "bound 0-1"}
_SIGMAS = {"train_linear": "train_sigma", "test_zero_one": "test_sigma", "bound": "bound_sigma"}
_EXTRA = {"vote_zero_one": "test, vote", "small_kl": "small-kl", "certificate": "certificate"}
_TEX = {"±": r"$\pm$", "Δ/σ": r"$\Delta/\sigma$", "–": "--", "_": r"\_", "%": r"\%"}
_PARAMETERS = ("rate", "T", "layers")


@dataclass(frozen=True)
class Line:
    """One column of the paper's table: the summaries of its repeats, and the printed numbers."""

    column: str
    summaries: Sequence[Summary]
    printed: PaperResult | None = None
    hopeless: int = 0  # repeats that never learned, even after resets

    def values(self, name: str) -> list[float]:
        """Return one result of every repeat that has it."""
        return [v for s in self.summaries if (v := getattr(s, name)) is not None]

    def mean(self, name: str) -> float | None:
        """Return the mean of a result over the repeats."""
        values = self.values(name)
        return statistics.fmean(values) if values else None

    def sigma(self, name: str) -> float | None:
        """Return the standard deviation of a result over the repeats."""
        values = self.values(name)
        return statistics.stdev(values) if len(values) > 1 else None

    def paper(self, name: str) -> float | None:
        """Return a number that the paper prints, if it does."""
        value: float | None = getattr(self.printed, name, None)
        return value

    def difference(self, name: str) -> float | None:
        """Return ours minus the paper's in units of the combined σ; None if one is missing."""
        ours, theirs = self.mean(name), self.paper(name)
        if ours is None or theirs is None:
            return None
        spread = math.hypot(self.sigma(name) or 0.0, self.paper(_SIGMAS[name]) or 0.0)
        return (ours - theirs) / spread if spread >= 0.5e-4 else None


def lines(sweep: Sweep, store: Store) -> list[Line]:
    """Return what the store has of a sweep, with the paper's numbers if on the paper's data."""
    made = store.summaries(sweep.repeated(store))
    results = COLUMNS if sweep.dataset == "binary-mnist" else {}
    return [
        _line(column, [s for c, s in made if c.column == column], results.get(column))
        for column in sweep.columns
    ]


def _line(column: str, done: Sequence[Summary], printed: PaperResult | None) -> Line:
    learned = [s for s in done if s.learned]
    return Line(column, learned, printed, len(done) - len(learned))


def table1(found: Sequence[Line]) -> list[list[str]]:
    """Losses and bounds in per cent: ours ± 1σ, the paper's, and the difference in σ."""
    width = 3 if any(line.printed for line in found) else 1  # of a loss: ours alone is 1
    losses = [cell for title in _LOSSES.values() for cell in (title, "paper", "Δ/σ")[:width]]
    header = ["column", "repeats", *losses, *_EXTRA.values()]
    return [header, *(_loss_row(line, width) for line in found)]


def _loss_row(line: Line, width: int) -> list[str]:
    losses = [cell for name in _LOSSES for cell in _compared(line, name)[:width]]
    return [line.column, _repeats(line), *losses, *(_ours(line, name, 100, 2) for name in _EXTRA)]


def _compared(line: Line, name: str) -> tuple[str, str, str]:
    """Return ours, the paper's, and the difference in σ."""
    difference = line.difference(name)
    signed = "–" if difference is None else f"{difference:+.1f}"
    return _ours(line, name, 100, 2), printed(line.paper(name)), signed


def _repeats(line: Line) -> str:
    hopeless = f" (+{line.hopeless} hopeless)" if line.hopeless else ""
    return f"{len(line.summaries)}{hopeless}"


def _ours(line: Line, name: str, unit: float = 1, digits: int = 0) -> str:
    return _number(line.mean(name), line.sigma(name), unit, digits)


def table2(found: Sequence[Line], sweep: Sweep, store: Store) -> list[list[str]]:
    """Hyper-parameters, KL and run time."""
    header = ["column", *_PARAMETERS, "KL", "paper", "minutes", "paper", "reset"]
    return [header, *(_cost_row(line, sweep.winner(line.column, store)) for line in found)]


def _cost_row(line: Line, winner: Configuration | None) -> list[str]:
    return [
        line.column,
        *_parameters(winner),
        _ours(line, "kl"),
        _number(line.paper("kl")),
        _ours(line, "seconds", 1 / 60, 1),
        _number(line.paper("minutes")),
        str(sum(s.attempts - 1 for s in line.summaries)),
    ]


def _parameters(c: Configuration | None) -> list[str]:
    """Return learning rate, T and number of layers, if they are known; mlp does not sample."""
    if c is None:
        return ["–", "–", "–"]
    T = "–" if c.column == "mlp" else str(c.samples)
    return [f"{c.learning_rate:g}", T, str(c.depth)]


def grid_table(sweep: Sweep, store: Store) -> list[list[str]]:
    """Every point of the search, with the best one and the paper's choice marked."""
    header = ["column", *_PARAMETERS, *_LOSSES.values(), "KL", ""]
    remarks = {column: _remarkable(sweep, store, column) for column in sweep.columns}
    return [header, *(_grid_row(c, store, remarks[c.column]) for c in sweep.searched())]


def rows(what: str, sweep: Sweep, store: Store) -> list[list[str]]:
    """Return the rows of table1, table2 or grid."""
    if what == "grid":
        return grid_table(sweep, store)
    found = lines(sweep, store)
    return table1(found) if what == "table1" else table2(found, sweep, store)


def record(what: str, sweep: Sweep, store: Store) -> object:
    """Return the same as plain data: summaries by column, or the points of the search."""
    if what == "grid":
        return [_point(c, store) for c in sweep.searched()]
    return {line.column: list(map(asdict, line.summaries)) for line in lines(sweep, store)}


def _point(c: Configuration, store: Store) -> dict[str, Any]:
    """Return configuration, state and results of a point of the search."""
    point = asdict(c) | {"state": store.state(c)}
    summary = store.summary(c)
    return point if summary is None else point | asdict(summary)


def _remarkable(sweep: Sweep, store: Store, column: str) -> dict[str, Configuration | None]:
    usual = chosen(column, sweep.dataset, sweep.epochs)
    return {"best": sweep.winner(column, store), "the paper's": usual}


def _grid_row(
    c: Configuration, store: Store, remarkable: Mapping[str, Configuration | None]
) -> list[str]:
    row, summary = [c.column, *_parameters(c)], store.summary(c)
    if summary is None:
        return [*row, *"––––", (store.failure(c) or "not run").splitlines()[0]]
    remarks = [text for text, point in remarkable.items() if point == c]
    remarks += [] if summary.learned else ["ended early"]
    losses = [_number(getattr(summary, name), None, 100, 2) for name in _LOSSES]
    return [*row, *losses, _number(summary.kl), ", ".join(remarks)]


Rows = Sequence[Sequence[str]]


def render(rows: Rows, style: Format) -> str:
    """Return rows, the first of which is the heading, as text."""
    return _STYLES[style](rows)


def _csv(rows: Rows) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def _latex(rows: Rows) -> str:
    body = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in rows]
    top = rf"\begin{{tabular}}{{l{'r' * (len(rows[0]) - 1)}}}" + "\n\\toprule"
    return "\n".join([top, body[0], r"\midrule", *body[1:], "\\bottomrule\n\\end{tabular}\n"])


def _widths(rows: Rows) -> list[int]:
    return [max(2, *map(len, column)) for column in zip(*rows, strict=True)]


def _padded(rows: Rows) -> list[list[str]]:
    first, *others = _widths(rows)
    return [[row[0].ljust(first), *map(str.rjust, row[1:], others)] for row in rows]


def _terminal(rows: Rows) -> str:
    return "\n".join("  ".join(row) for row in _padded(rows)) + "\n"


def _markdown(rows: Rows) -> str:
    first, *widths = _widths(rows)
    rule = ["-" * first, *("-" * (w - 1) + ":" for w in widths)]
    head, *body = [[cell.replace("|", r"\|") for cell in row] for row in _padded(rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *body]) + "\n"


_STYLES = {"csv": _csv, "latex": _latex, "terminal": _terminal, "markdown": _markdown}


def printed(value: float | None) -> str:
    """Return a number as the paper prints it: per cent, three digits, at most two decimals."""
    percent = 100 * (value or 0.0)
    return _number(value, None, 100, 2 if percent < 10 else 1 if percent < 100 else 0)


def _number(
    value: float | None, sigma: float | None = None, unit: float = 1, digits: int = 0
) -> str:
    if value is None:
        return "–"
    spread = "" if sigma is None else f" ± {unit * sigma:.{digits}f}"
    return f"{unit * value:.{digits}f}{spread}"


def _tex(cell: str) -> str:
    for there, tex in _TEX.items():
        cell = cell.replace(there, tex)
    return cell
