"""Pictures: a training run by epoch, bounds as bars, and the theorems by risk and KL."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pacbayes.bounds import percent_up, small_kl
from pacbayes.bounds.theorems import THEOREMS, Theorem
from pacbayes.choices import Predictor
from pacbayes.extras import require
from pacbayes.files import write_atomically
from pacbayes.folders.folder import Run
from pacbayes.report.charts import Mark
from pacbayes.report.training import ByEpoch
from pacbayes.training.checkpoints import read_history
from pacbayes.training.loop import Evaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from pacbayes.bounds.planning import Expected, Plan

__all__ = ["check_out", "plot_bars", "plot_bounds", "plot_history", "plot_plan"]

_COLOURS = ("#2a6ab3", "#b3402a", "#999999", "#c9a227", "#7a4fa3", "#3a7d44", "#c2679b", "#4d4d4d")
_DASHED = "quadratic"  # it coincides with thiemann
_LEFT_OUT = "catoni-c"  # at its best C it coincides with small-kl
_CELLS = 36
Floats = NDArray[np.float64]


def plot_history(run: Run, out: Path) -> None:
    """Draw bound, risk and KL by epoch."""
    require("plots", "a plot")
    from matplotlib.figure import Figure

    check_out(out)
    history = _history(run)
    by_epoch, last = ByEpoch.of(history), history[-1]
    figure = Figure(figsize=(8, 3.6), layout=_layout())
    left, right = figure.subplots(1, 2, width_ratios=(5, 3))
    _curves(
        left,
        by_epoch.epochs,
        {
            f"bound on the error {percent_up(last.bound, 1)}": (by_epoch.bounds, "#b3402a"),
            f"training risk {100 * last.risk:.1f} %": (by_epoch.risks, "#2a6ab3"),
        },
    )
    left.yaxis.set_major_formatter("{x:g} %")
    kl = f"KL(Q|P) {last.kl:.0f} nats"
    _curves(right, by_epoch.epochs, {kl: (by_epoch.kls, "#3a7d44")})
    s, name = run.settings, Path(run.record.data.source.name).name
    figure.suptitle(f"{name}, {s.activation}, {s.objective}, {s.protocol} protocol")
    _save(figure, out)


def _history(run: Run) -> tuple[Evaluation, ...]:
    path = run.folder / "history.json"
    if not path.exists():
        raise ValueError(f"{run.folder} has no evaluations yet; train the run with pacbayes train")
    return read_history(path)


def _curves(
    axes: Axes, epochs: Sequence[int], curves: dict[str, tuple[Sequence[float], str]]
) -> None:
    """Draw curves from zero, with a legend above the plot where nothing can overlap."""
    from matplotlib.ticker import MaxNLocator

    for label, (values, colour) in curves.items():
        axes.plot(epochs, values, color=colour, linewidth=2, label=label)
    highest = max(max(values) for values, _ in curves.values())
    axes.set(xlabel="epoch", ylim=(0, 1.08 * highest or 1))
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=len(curves),
        frameon=False,
        labelcolor="linecolor",
        handlelength=1,
        handletextpad=0.5,
        columnspacing=1.2,
        borderaxespad=0.2,
    )
    _plain(axes)


def plot_bars(panels: Mapping[str, Sequence[Mark]], out: Path, unit: str = " %") -> None:
    """Draw a panel of bars for each title, with what each bar says above it."""
    require("plots", "a plot")
    from matplotlib.figure import Figure

    check_out(out)
    heights = [max(1, len(marks)) for marks in panels.values()]
    figure = Figure(figsize=(7, 0.6 * (sum(heights) + len(heights)) + 0.6), layout=_layout())
    every = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    for axes, (title, marks) in zip(every, panels.items(), strict=True):
        for y, mark in enumerate(marks):
            axes.barh(y, mark.reach, 0.3, color=_COLOURS[2])
            axes.barh(y, mark.value, 0.3, color=_COLOURS[mark.class_ != "risk"])
            axes.text(0, y - 0.2, mark.text, va="bottom")
        axes.set(title=title, yticks=[], ylim=(len(marks) - 0.5, -0.7))
        axes.xaxis.set_major_formatter("{x:g}" + unit)
        _plain(axes)
    _save(figure, out)


def plot_bounds(n: int, delta: float, out: Path) -> None:
    """Draw every bound on the randomised classifier, by KL and by risk, and the smallest one."""
    require("plots", "a plot")
    from matplotlib.figure import Figure

    check_out(out)
    small_kl(0.0, 0.0, n, delta)  # raises an error if n or δ is out of range
    figure = Figure(figsize=(12, 4), layout=_layout())
    left, middle, right = figure.subplots(1, 3)
    kls, risks = np.geomspace(1e-4, 0.3, 40), np.geomspace(1e-3, 0.4, 40)
    _excesses(left, kls, np.full(40, 0.05), kls, n, delta)
    left.set(xlabel="KL / n", ylabel="bound − risk, percentage points", title="at a risk of 5 %")
    left.legend(frameon=False, fontsize=8)
    _excesses(middle, risks, risks, np.full(40, 0.01), n, delta)
    middle.set(xlabel="risk", title="at KL / n = 0.01")
    _map(right, n, delta)
    figure.suptitle(f"Bounds for n = {n}, δ = {delta:g}")
    _save(figure, out)


def plot_plan(plan: Plan, sizes: Sequence[int], out: Path) -> None:
    """Draw the bounds to expect by the number of examples, from below to above `sizes`.

    Each split has its own panel. A line is the typical bound; its band ends at the cautious one.
    """
    require("plots", "a plot")
    from matplotlib.figure import Figure

    check_out(out)
    least = max(20 / split.fraction for split in plan.splits)  # enough for every theorem
    low, high = max(min(sizes) / 5, least), min(max(5 * max(sizes), 10 * least), 1e8)
    found = [plan.expected(int(n)) for n in np.geomspace(low, high, 25)]
    figure = Figure(figsize=(1 + 3.5 * len(plan.splits), 4), layout=_layout())
    panels = figure.subplots(1, len(plan.splits), sharey=True, squeeze=False)[0]
    for axes, split in zip(panels, plan.splits, strict=True):
        _plan_of(axes, [[e for e in row if e.fraction in (split.fraction, 1)] for row in found])
        axes.set(xlabel="examples", title=f"{100 * split.fraction:.4g} % for the bound")
        axes.axhline(100 * split.error, color="#999999", linestyle=":", label="error assumed")
    panels[0].set(ylabel="bound, %")
    panels[-1].legend(frameon=False, fontsize=8)
    figure.suptitle(f"Bounds to expect, δ = {plan.delta:g}")
    _save(figure, out)


def _plan_of(axes: Axes, rows: Sequence[Sequence[Expected]]) -> None:
    """Draw a line and a band for each method; a row has all methods at one number of examples."""
    for column, colour in zip(zip(*rows, strict=True), _COLOURS, strict=False):
        xs = [e.n for e in column]
        typical = [100 * e.typical for e in column]
        axes.plot(xs, typical, color=colour, label=column[0].method)
        axes.fill_between(
            xs, typical, [100 * e.cautious for e in column], color=colour, alpha=0.15, linewidth=0
        )
    _logarithmic(axes, dense=True)
    _plain(axes)


def _excesses(axes: Axes, xs: Floats, risks: Floats, kls: Floats, n: int, delta: float) -> None:
    """Draw bound − risk of every bound, at risks and values of KL / n, over `xs`."""
    for name, (bound, colour) in reversed(_curves_of_bounds().items()):  # the first on top
        ys = [100 * (bound(r, kl * n, n, delta) - r) for r, kl in zip(risks, kls, strict=True)]
        axes.plot(xs, ys, color=colour, label=name, linestyle="--" if name == _DASHED else "-")
    _logarithmic(axes, dense=True)
    _plain(axes)


def _curves_of_bounds() -> dict[str, tuple[Callable[..., float], str]]:
    """Return the bounds that risk, KL, n and δ determine, each with its colour."""
    found = filter(_is_drawn, THEOREMS.values())
    return {t.name: (t.bound, colour) for t, colour in zip(found, cycle(_COLOURS), strict=False)}


def _is_drawn(t: Theorem) -> bool:
    determined = t.predictor is Predictor.RANDOMISED and t.needed == ("risk",)
    return determined and t.name != _LEFT_OUT


def _map(axes: Axes, n: int, delta: float) -> None:
    """Show which bound is the smallest, by risk and KL; vacuous bounds stay white."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    names, found = zip(*_curves_of_bounds().items(), strict=True)
    curves, colours = zip(*found, strict=True)
    risks, kls = np.geomspace(1e-3, 0.4, _CELLS), np.geomspace(1e-4, 0.3, _CELLS)
    values = np.array([[[b(r, kl * n, n, delta) for r in risks] for kl in kls] for b in curves])
    smallest = np.where(values.min(0) < 1, values.argmin(0), np.nan)
    shades, high = ListedColormap(colours), len(colours) - 0.5
    axes.pcolormesh(risks, kls, smallest, cmap=shades, vmin=-0.5, vmax=high, alpha=0.8)
    axes.set(xlabel="risk", ylabel="KL / n", title="smallest bound")
    _logarithmic(axes)
    patches = [
        Patch(color=colours[i], label=names[i], alpha=0.8) for i in np.unique(values.argmin(0))
    ]
    axes.legend(handles=patches, fontsize=8, loc="upper right")


def _logarithmic(axes: Axes, *, dense: bool = False) -> None:
    """Use logarithmic axes with plain numbers (0.1, not 10⁻¹), `dense` for more of them upwards."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set(xscale="log", yscale="log")
    for axis, factors in ((axes.xaxis, (1,)), (axes.yaxis, (1, 2, 5) if dense else (1,))):
        axis.set_major_locator(LogLocator(subs=factors))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())


def _layout() -> ConstrainedLayoutEngine:
    """Return a layout in which neither plots nor labels touch each other or the edge."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.06)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)


def check_out(out: Path) -> None:
    """Refuse a file that is not a picture."""
    if out.suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"the picture must be a .png, .svg or .pdf file, got {out.name!r}")


def _save(figure: Figure, out: Path) -> None:
    content = io.BytesIO()
    figure.savefig(content, format=out.suffix[1:], dpi=160)
    write_atomically(out, content.getvalue())
