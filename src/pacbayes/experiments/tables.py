"""The paper's two tables and our numbers, as text for a terminal, Markdown, CSV or LaTeX."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pacbayes import paper
from pacbayes.experiments.columns import Configuration, chosen
from pacbayes.experiments.store import Store, Summary
from pacbayes.experiments.sweep import Sweep

__all__ = ["Format", "Line", "grid_table", "lines", "printed", "render", "table1", "table2"]

Format = Literal["terminal", "markdown", "csv", "latex"]
_ROWS = ("train_linear", "test_zero_one", "bound")
_SIGMAS = {"train_linear": "train_sigma", "test_zero_one": "test_sigma", "bound": "bound_sigma"}
_EXTRA = ("vote_zero_one", "small_kl", "certificate")


@dataclass(frozen=True)
class Line:
    """One column of the paper's table: the summaries of its repeats, and the printed numbers."""

    column: str
    summaries: Sequence[Summary]
    printed: paper.PaperResult | None = None
    hopeless: int = 0  # repeats that never learned, even after resets

    def values(self, name: str) -> list[float]:
        return [v for s in self.summaries if (v := getattr(s, name)) is not None]

    def mean(self, name: str) -> float | None:
        values = self.values(name)
        return statistics.fmean(values) if values else None

    def sigma(self, name: str) -> float | None:
        values = self.values(name)
        return statistics.stdev(values) if len(values) > 1 else None

    def difference(self, name: str) -> float | None:
        """Return ours minus the paper's in units of the combined σ; None if one is missing."""
        ours, theirs = self.mean(name), getattr(self.printed, name, None)
        if ours is None or theirs is None:
            return None
        spread = math.hypot(self.sigma(name) or 0.0, getattr(self.printed, _SIGMAS[name]) or 0.0)
        return (ours - theirs) / spread if spread >= 0.5e-4 else None


def lines(sweep: Sweep, store: Store) -> list[Line]:
    """Return what the store has of a sweep, with the paper's numbers if on the paper's data."""
    found, beside = [], sweep.dataset == "binary-mnist"
    made = [(c.column, s) for c in sweep.repeated(store) if (s := store.summary(c)) is not None]
    for column in sweep.columns:
        done = [s for of, s in made if of == column]
        learned = [s for s in done if s.learned]
        printed = paper.COLUMNS.get(column) if beside else None
        found.append(Line(column, learned, printed, len(done) - len(learned)))
    return found


def table1(found: Sequence[Line]) -> list[list[str]]:
    """Losses and bounds in per cent: ours ± 1σ, the paper's, and the difference in σ."""
    header, beside = ["column", "repeats"], any(line.printed for line in found)
    for name in ("train linear", "test 0-1", "bound 0-1"):
        header += [name, "paper", "Δ/σ"] if beside else [name]
    header += ["test, vote", "small-kl", "certificate"]
    rows = [header]
    for line in found:
        row = [line.column, str(len(line.summaries))]
        row[1] += f" (+{line.hopeless} hopeless)" if line.hopeless else ""
        for name in _ROWS:
            row.append(_percent(line.mean(name), line.sigma(name)))
            if beside:
                difference = line.difference(name)
                row.append(printed(getattr(line.printed, name, None)))
                row.append("–" if difference is None else f"{difference:+.1f}")
        rows.append([*row, *(_percent(line.mean(name), line.sigma(name)) for name in _EXTRA)])
    return rows


def table2(found: Sequence[Line], sweep: Sweep, store: Store) -> list[list[str]]:
    """Hyper-parameters, KL and run time."""
    header = ["column", "rate", "T", "layers", "KL", "paper", "minutes", "paper", "reset"]
    rows = [header]
    for line in found:
        printed, winner = line.printed, sweep.winner(line.column, store)
        settings = winner.settings() if winner else None
        rows.append(
            [
                line.column,
                "–" if settings is None else f"{settings.learning_rate:g}",
                "–" if settings is None or line.column == "mlp" else str(settings.samples),
                "–" if settings is None else str(len(settings.widths)),
                _number(line.mean("kl"), line.sigma("kl")),
                _number(printed.kl if printed else None),
                _number(line.mean("seconds"), line.sigma("seconds"), 1 / 60, 1),
                _number(printed.minutes if printed else None),
                str(sum(s.attempts - 1 for s in line.summaries)),
            ]
        )
    return rows


def grid_table(sweep: Sweep, store: Store) -> list[list[str]]:
    """Every point of the search, with the best one and the paper's choice marked."""
    rows = [["column", "rate", "T", "layers", "train linear", "test 0-1", "bound 0-1", "KL", ""]]
    for column in sweep.columns:
        remarkable = {
            "best": sweep.winner(column, store),
            "the paper's": chosen(column, sweep.dataset, sweep.epochs),
        }
        points = (c for c in sweep.searched() if c.column == column)
        rows += [_grid_row(c, store, remarkable) for c in points]
    return rows


def _grid_row(
    c: Configuration, store: Store, remarkable: Mapping[str, Configuration | None]
) -> list[str]:
    T = "–" if c.column == "mlp" else str(c.samples)
    row = [c.column, f"{c.learning_rate:g}", T, str(c.depth)]
    summary = store.summary(c)
    if summary is None:
        return [*row, *"––––", (store.failure(c) or "not run").splitlines()[0]]
    remarks = [text for text, point in remarkable.items() if point == c]
    remarks += [] if summary.learned else ["ended early"]
    numbers = [_percent(getattr(summary, name)) for name in _ROWS]
    return [*row, *numbers, _number(summary.kl), ", ".join(remarks)]


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
    return [max(2, *(len(row[i]) for row in rows)) for i in range(len(rows[0]))]


def _padded(rows: Rows) -> list[list[str]]:
    first, *widths = _widths(rows)
    pairs = ((row, zip(row[1:], widths, strict=True)) for row in rows)
    return [[row[0].ljust(first), *(cell.rjust(w) for cell, w in rest)] for row, rest in pairs]


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


def _percent(value: float | None, sigma: float | None = None) -> str:
    return _number(value, sigma, 100, 2)


def _number(
    value: float | None, sigma: float | None = None, unit: float = 1, digits: int = 0
) -> str:
    if value is None:
        return "–"
    return f"{unit * value:.{digits}f}" + ("" if sigma is None else f" ± {unit * sigma:.{digits}f}")


def _tex(cell: str) -> str:
    for there, tex in (
        ("±", r"$\pm$"),
        ("Δ/σ", r"$\Delta/\sigma$"),
        ("–", "--"),
    ):
        cell = cell.replace(there, tex)
    return cell.replace("_", r"\_").replace("%", r"\%")
