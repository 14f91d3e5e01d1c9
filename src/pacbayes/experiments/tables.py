"""The paper's two tables beside ours: for a terminal, Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pacbayes import paper
from pacbayes.experiments.columns import chosen
from pacbayes.experiments.store import Store
from pacbayes.experiments.sweep import Sweep

__all__ = ["Format", "Line", "grid_table", "lines", "render", "table1", "table2"]

Format = Literal["terminal", "markdown", "csv", "latex"]
_ROWS = ("train_linear", "test_zero_one", "bound")
_SIGMAS = {"train_linear": "train_sigma", "test_zero_one": "test_sigma", "bound": "bound_sigma"}
_EXTRA = ("vote_zero_one", "small_kl", "certificate")


@dataclass(frozen=True)
class Line:
    """One column of the paper's table: the summaries of its repeats, and what was printed."""

    column: str
    summaries: Sequence[dict[str, Any]]
    printed: paper.PaperResult | None = None
    hopeless: int = 0  # repeats that never learned, however often they were reset

    def values(self, name: str) -> list[float]:
        return [s[name] for s in self.summaries if s[name] is not None]

    def mean(self, name: str) -> float | None:
        values = self.values(name)
        return statistics.fmean(values) if values else None

    def sigma(self, name: str) -> float | None:
        values = self.values(name)
        return statistics.stdev(values) if len(values) > 1 else None

    def difference(self, name: str) -> float | None:
        """Ours less the paper's in units of both σ together; None where one is missing, or the σ
        print as zero.
        """
        ours, theirs = self.mean(name), getattr(self.printed, name, None)
        if ours is None or theirs is None:
            return None
        spread = math.hypot(self.sigma(name) or 0.0, getattr(self.printed, _SIGMAS[name]) or 0.0)
        return (ours - theirs) / spread if spread >= 0.5e-4 else None


def lines(sweep: Sweep, store: Store) -> list[Line]:
    """What the store has of a sweep; the paper's numbers beside it on the paper's data."""
    found, beside = [], sweep.dataset == "binary-mnist"
    for column in sweep.columns:
        repeats = [c for c in sweep.repeated(store) if c.column == column]
        done = [s for c in repeats if (s := store.summary(c)) is not None]
        learned = [s for s in done if s["learned"]]
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
                row.append(_percent(getattr(line.printed, name, None)))
                row.append("–" if difference is None else f"{difference:+.1f}")
        rows.append([*row, *(_percent(line.mean(name), line.sigma(name)) for name in _EXTRA)])
    return rows


def table2(found: Sequence[Line], sweep: Sweep, store: Store) -> list[list[str]]:
    """Hyper-parameters, KL and run time."""
    header = ["column", "rate", "T", "layers", "KL", "paper", "minutes", "paper", "reset"]
    rows = [header]
    for line in found:
        printed, winner = line.printed, sweep.winner(line.column, store)
        seconds, kl = line.mean("seconds"), line.mean("kl")
        settings = winner.settings() if winner else None
        rows.append(
            [
                line.column,
                "–" if settings is None else f"{settings.learning_rate:g}",
                "–" if settings is None or line.column == "mlp" else str(settings.samples),
                "–" if settings is None else str(len(settings.widths)),
                "–" if kl is None else f"{kl:.0f}",
                "–" if printed is None or printed.kl is None else f"{printed.kl:.0f}",
                "–" if seconds is None else f"{seconds / 60:.1f}",
                "–" if printed is None else f"{printed.minutes:.0f}",
                str(sum(s["attempts"] - 1 for s in line.summaries)),
            ]
        )
    return rows


def grid_table(sweep: Sweep, store: Store) -> list[list[str]]:
    """Every point of the search that was run; which is best, and which the paper chose."""
    rows = [["column", "rate", "T", "layers", "train linear", "test 0-1", "bound 0-1", "KL", ""]]
    for column in sweep.columns:
        winner = sweep.winner(column, store)
        theirs = chosen(column, sweep.dataset, sweep.epochs)
        for c in (c for c in sweep.searched() if c.column == column):
            summary = store.summary(c)
            row = [column, f"{c.learning_rate:g}", "–" if column == "mlp" else str(c.samples)]
            row.append(str(c.depth))
            if summary is None:
                rows.append([*row, *"––––", store.failure(c) or "not run"])
                continue
            row += [_percent(summary[name]) for name in _ROWS]
            row.append("–" if summary["kl"] is None else f"{summary['kl']:.0f}")
            remarks = {
                "best": c == winner,
                "the paper's": c == theirs,
                "ended early": not summary["learned"],
            }
            rows.append([*row, ", ".join(text for text, holds in remarks.items() if holds)])
    return rows


def render(rows: Sequence[Sequence[str]], style: Format) -> str:
    """Rows, the first of which is the heading, as text."""
    if style == "csv":
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(rows)
        return buffer.getvalue()
    if style == "latex":
        body = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in rows]
        top = rf"\begin{{tabular}}{{l{'r' * (len(rows[0]) - 1)}}}" + "\n\\toprule"
        return "\n".join([top, body[0], r"\midrule", *body[1:], "\\bottomrule\n\\end{tabular}\n"])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    padded = [
        [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        for row in rows
    ]
    if style == "terminal":
        return "\n".join("  ".join(row) for row in padded) + "\n"
    rule = ["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in [padded[0], rule, *padded[1:]]) + "\n"


def _percent(value: float | None, sigma: float | None = None) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.2f}" + ("" if sigma is None else f" ± {100 * sigma:.2f}")


def _tex(cell: str) -> str:
    for there, tex in (
        ("±", r"$\pm$"),
        ("Δ/σ", r"$\Delta/\sigma$"),
        ("–", "--"),
        ("λ", r"$\lambda$"),
    ):
        cell = cell.replace(there, tex)
    return cell.replace("_", r"\_").replace("%", r"\%")
