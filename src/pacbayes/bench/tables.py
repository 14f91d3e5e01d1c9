"""The measurements as Markdown, which is also what a terminal shows."""

from __future__ import annotations

import os

from pacbayes.bench.measurements import Growth, Measurements, Ratio
from pacbayes.runs.versions import versions

__all__ = ["report"]

_EXPLANATION = """\
One training step (forward, gradients, KL, Adam) of the paper's network, 784-100-100-100-1, unit
variance, batch 256, on digits with 81 % zeros. Contenders take turns in one run; numbers are
medians of the turns' ratios with their quartiles. *Naive* is eager torch as one would write it
first, *torch* this library's torch path, *native* its engine. The *limit* is the step's matrix
products at the best rate at which torch multiplies 512×512 matrices here, with as many threads; an
engine that skips zeros and looks sums of signs up instead of multiplying may beat it. *Products*
are the same products made by torch, at the step's own shapes and with nothing in between.
"""


def machine() -> str:
    """Processor, cores and versions, in a line."""
    v = versions()
    return (
        f"{v['processor']}, {os.cpu_count()} cores, {v['instructions']}, {v['threads']} threads; "
        f"pacbayes {v['pacbayes']}, torch {v['torch']}, Python {v['python']}"
    )


def report(found: Measurements) -> str:
    """All measurements, with the machine they were made on."""
    ratios = "T | | median | quartiles |\n|---|---|---|---|---|\n"
    text = f"{_EXPLANATION}\n{machine()}\n\n| step | {ratios}"
    text += "".join(_row(r) for r in found.steps)
    if found.evaluations:
        text += f"\nThe loss of 60 000 examples, without a gradient:\n\n| evaluation | {ratios}"
        text += "".join(_row(r) for r in found.evaluations)
    if found.growth:
        text += "\nHow the engine's step grows, and the memory it takes beside the data:\n\n"
        text += "| units | T | batch | widths | time ÷ first | peak memory |\n"
        text += "|---|---|---|---|---|---|\n" + "".join(_grown(g) for g in found.growth)
    return text


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
