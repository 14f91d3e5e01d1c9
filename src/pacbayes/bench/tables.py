"""Format the measurements as Markdown, for files and for the terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pacbayes.bench.measurements import Growth, Measurements, Ratio
from pacbayes.runs.versions import versions

__all__ = ["report"]

_EXPLANATION = """\
This benchmark times one training step (forward, gradients, KL, Adam) of the paper's network:
784-100-100-100-1, unit variance, batch size 256, on digits with 81 % zeros. The contenders take
turns in one run. Each number is the median of the ratios over all turns, with quartiles.

- *naive* is a straightforward implementation in eager PyTorch.
- *torch* is this library on PyTorch, and *native* is this library's engine.
- *limit* is the time of the step's matrix products at the best rate at which torch multiplies
  512×512 matrices on this machine, with the same number of threads. The engine may beat it, since
  it skips zeros and looks up sums of signs instead of multiplying.
- *products* are the same matrix products in torch, at the shapes of the step and without any other
  work.
"""


def machine() -> str:
    """Return processor, cores and versions in one line."""
    v = versions()
    return (
        f"{v['processor']}, {os.cpu_count()} cores, {v['instructions']}, {v['threads']} threads; "
        f"pacbayes {v['pacbayes']}, torch {v['torch']}, Python {v['python']}"
    )


def report(found: Measurements) -> str:
    """Return all measurements and the machine they were made on."""
    text = f"{_EXPLANATION}\n{machine()}\n\n{_ratios('step', found.steps)}"
    if found.evaluations:
        text += "\nEvaluation of the loss on 60 000 examples, without a gradient:\n\n"
        text += _ratios("evaluation", found.evaluations)
    if found.growth:
        text += "\nTime of the engine's step at other sizes, and its memory besides the data:\n\n"
        text += "| units | T | batch | widths | time ÷ first | peak memory |\n"
        text += "|---|---|---|---|---|---|\n" + "".join(map(_grown, found.growth))
    return text


def _ratios(title: str, found: Sequence[Ratio]) -> str:
    header = f"| {title} | T | | median | quartiles |\n|---|---|---|---|---|\n"
    return header + "".join(map(_row, found))


def _row(r: Ratio) -> str:
    quartiles = f"{_short(r.low)} – {_short(r.high)}"
    return f"| {r.case.activation} | {r.case.T} | {r.name} | {_short(r.median)} | {quartiles} |\n"


def _grown(g: Growth) -> str:
    c = g.case
    memory = "–" if g.megabytes is None else f"{g.megabytes:.0f} MB"
    widths = "-".join(map(str, c.widths))
    return f"| {c.activation} | {c.T} | {c.batch} | {widths} | {_short(g.time)} | {memory} |\n"


def _short(value: float) -> str:
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"
