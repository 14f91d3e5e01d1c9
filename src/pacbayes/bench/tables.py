"""Format the measurements as Markdown, for files and for the terminal."""

from __future__ import annotations

import os

from pacbayes.bench.contests import Measurements
from pacbayes.bench.turns import ENOUGH, Row
from pacbayes.folders.versions import versions

__all__ = ["machine", "report"]

_ENOUGH = f"{100 * ENOUGH:.0f} %"
_EXPLANATION = f"""\
Contenders take turns in one process. A number is the median of the ratio of their times over the
turns, with its quartiles: below one, the first is faster. On one thread, times are CPU times, and a
turn counts if both got at least {_ENOUGH} of a core. On several threads, times are wall times, and
a turn counts if plain matrix products in between got at least {_ENOUGH} of all cores. Where too few
turns count, a row says *busy* and has no number. The last column is the time of one run of the
first.

- A *step* is a training step (forward, gradients, KL, Adam) with a batch of 256 digits with 81 %
  zeros. The network is the paper's, 784-100-100-100-1 with unit variance. Steps with a width have
  two hidden layers of that width. These, those with classes and those beside other packages learn
  their scales.
- *native* is this library's engine, *torch* this library on PyTorch, and *naive* a straightforward
  implementation in eager PyTorch.
- *products* are the step's matrix products in PyTorch and nothing else. *limit* is their time at
  the rate of 512×512 products in the same turn. The engine may beat it, since it skips zeros and
  looks up sums of signs instead of multiplying.
- Other packages are used as published. They draw weights that a batch shares, in ten passes for
  T = 10, where the engine draws units for every example.
- The *convolution* is that of `pacbayes train --network conv`, and *plain* the same module with
  fixed weights.
- A *certificate* is the sampling of its risk in float64: 2000 examples, 100 draws, the paper's
  network with learned scales. PyTorch has fewer examples, and its time is scaled.
- *Randomised predictions* and *votes* (100 draws) are of 2000 examples and the same network.
- *fit* is on a table of 20 000 × 10 with defaults. `PACBayesClassifier` trains a prior and a
  posterior and issues a certificate; scikit-learn's `MLPClassifier` trains one network with 100
  hidden units for 200 epochs or until its loss stops improving, and has no certificate.
"""


def machine() -> str:
    """Return processor, cores and versions in one line."""
    v = versions()
    return (
        f"{v['processor']}, {os.cpu_count()} cores, {v['instructions']}, {v['threads']} threads; "
        f"pacbayes {v['pacbayes']}, torch {v['torch']}, Python {v['python']}"
    )


def report(found: Measurements) -> str:
    """Return all measurements, the machine they were made on, and what they mean."""
    parts = [_EXPLANATION, machine() + "\n", table(found.rows)]
    if found.skipped:
        parts.append("Skipped:\n\n" + "".join(f"- {one}\n" for one in found.skipped))
    if found.warning:
        parts.append(f"Warning: {found.warning}.\n")
    return "\n".join(parts)


def table(rows: list[Row]) -> str:
    """Return rows as a table."""
    header = "| | | median | quartiles | time |\n|---|---|---:|---:|---:|\n"
    return header + "".join(f"|{'|'.join(map(_cell, _cells(row)))}|\n" for row in rows)


def _cell(text: str) -> str:
    return f" {text} " if text else " "


def _cells(row: Row) -> list[str]:
    if row.median is None or row.low is None or row.high is None or row.seconds is None:
        return [row.contest, row.name, "busy", "", ""]
    quartiles = f"{_short(row.low)} – {_short(row.high)}"
    return [row.contest, row.name, _short(row.median), quartiles, _duration(row.seconds)]


def _short(value: float) -> str:
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def _duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
