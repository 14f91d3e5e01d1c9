"""Pictures: a run over its epochs, and the bounds over risk and KL."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pacbayes import bounds
from pacbayes.bounds import percent_up
from pacbayes.extras import require
from pacbayes.files import load_json, write_atomically
from pacbayes.runs.folder import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_bounds", "plot_history"]

_BOUNDS = {
    "mcallester": (bounds.mcallester, "#999999"),
    "thiemann": (bounds.thiemann, "#7a4fa3"),
    "quadratic": (bounds.quadratic, "#c9a227"),
    "catoni": (bounds.catoni, "#b3402a"),
    "unexpected-bernstein": (bounds.unexpected_bernstein, "#3a7d44"),
    "small-kl": (bounds.small_kl, "#2a6ab3"),  # also the best that catoni-c can be
}
_CELLS = 36


def plot_history(run: Run, out: Path) -> None:
    """Bound, risk and KL over the epochs of a run."""
    require("plots", "a plot")
    from matplotlib.figure import Figure

    _check(out)
    path = run.folder / "history.json"
    history = load_json(path) if path.exists() else []
    if not history:
        raise ValueError(f"{run.folder} has no evaluations yet")
    epochs = [e["epoch"] for e in history]

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    last = history[-1]
    for key, label, colour in (
        ("bound", f"bound on the error\n{percent_up(last['bound'], 1)}", "#b3402a"),
        ("risk", f"training risk\n{100 * last['risk']:.1f} %", "#2a6ab3"),
    ):
        values = [100 * e[key] for e in history]
        left.plot(epochs, values, color=colour, linewidth=2)
        left.annotate(
            label,
            (epochs[-1], values[-1]),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=colour,
        )
    left.set_ylim(bottom=0)
    left.set_ylabel("per cent")
    right.plot(epochs, [e["kl"] for e in history], color="#3a7d44", linewidth=2)
    right.set_ylim(bottom=0)
    right.set_ylabel("KL(Q|P), nats")
    for axes in (left, right):
        axes.set_xlabel("epoch")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    s = run.settings
    figure.suptitle(
        f"{run.record.data.source.name}, {s.activation}, {s.objective}, {s.protocol} protocol"
    )
    _save(figure, out)


def plot_bounds(n: int, delta: float, out: Path) -> None:
    """Every bound for the randomised classifier: along the KL, along the risk, and the least."""
    require("plots", "a plot")
    from matplotlib.figure import Figure

    _check(out)
    bounds.small_kl(0.0, 0.0, n, delta)  # refuses numbers that no bound takes
    figure = Figure(figsize=(12, 4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    kls, risks = np.geomspace(1e-4, 0.3, 40) * n, np.geomspace(1e-3, 0.4, 40)
    for name, (bound, colour) in _BOUNDS.items():
        for axes, xs, values in (
            (left, kls / n, [bound(0.05, kl, n, delta) - 0.05 for kl in kls]),
            (middle, risks, [bound(risk, 0.01 * n, n, delta) - risk for risk in risks]),
        ):
            style = "--" if name == "quadratic" else "-"  # it lies on thiemann's best
            axes.plot(xs, 100 * np.array(values), style, color=colour, label=name)
    left.set(xlabel="KL / n", ylabel="bound less risk, points", title="at risk 5 %")
    middle.set(xlabel="risk", title="at KL / n = 0.01")
    for axes in (left, middle):
        axes.set(xscale="log", yscale="log")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False, fontsize=8)
    _map(right, n, delta)
    figure.suptitle(f"Bounds at n = {n}, δ = {delta:g}")
    _save(figure, out)


def _map(axes: Axes, n: int, delta: float) -> None:
    """Which bound is the least, over risk and KL."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    risks, kls = np.geomspace(1e-3, 0.4, _CELLS), np.geomspace(1e-4, 0.3, _CELLS) * n
    names = [name for name in _BOUNDS if name in ("small-kl", "catoni", "unexpected-bernstein")]
    least = np.zeros((_CELLS, _CELLS))
    for i, kl in enumerate(kls):
        for j, risk in enumerate(risks):
            values = [_BOUNDS[name][0](risk, kl, n, delta) for name in names]
            least[i, j] = np.nan if min(values) >= 1 else int(np.argmin(values))
    colours = ListedColormap([_BOUNDS[name][1] for name in names])
    high = len(names) - 0.5
    axes.pcolormesh(risks, kls / n, least, cmap=colours, vmin=-0.5, vmax=high, alpha=0.8)
    axes.set(xscale="log", yscale="log", xlabel="risk", ylabel="KL / n", title="the least of all")
    patches = [Patch(color=_BOUNDS[name][1], label=name, alpha=0.8) for name in names]
    axes.legend(handles=patches, fontsize=8, loc="upper right")


def _check(out: Path) -> None:
    if out.suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"the picture must be a .png, .svg or .pdf file, got {out.name!r}")


def _save(figure: Figure, out: Path) -> None:
    content = io.BytesIO()
    figure.savefig(content, format=out.suffix[1:], dpi=160)
    write_atomically(out, content.getvalue())
