"""Figures of a sweep: curves over epochs, variances against T, the effect of T, votes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pacbayes.data import load
from pacbayes.extras import require
from pacbayes.files import write_atomically
from pacbayes.networks.architecture import build_network
from pacbayes.paper import printed
from pacbayes.paper.store import Store
from pacbayes.paper.sweep import Sweep
from pacbayes.paper.tables import Line, lines
from pacbayes.paper.variances import gradient_variances, output_variances
from pacbayes.randomness import seeded
from pacbayes.settings import Settings
from pacbayes.training.loop import Evaluation
from pacbayes.training.trainer import train

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_figures"]

_T = (1, 2, 5, 10, 20, 50, 100)


def draw_figures(sweep: Sweep, store: Store) -> Iterator[Path]:
    """Draw every figure the store has data for, into its folder; yield the files."""
    require("plots", "reproduce figures")
    folder = store.folder / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    found = lines(sweep, store)
    for name, figure in (
        ("curves", _curves(sweep, store)),
        ("votes", _votes(found)),
        ("samples", _samples(sweep, store)),
        ("variances", _variances()),
    ):
        if figure is not None:
            yield _saved(figure, folder / f"{name}.png")


def _saved(figure: Figure, path: Path) -> Path:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=140)
    write_atomically(path, content.getvalue())
    return path


def _figure(columns: int, width: float = 4.0) -> tuple[Figure, Sequence[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, 3.6), layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(1, columns)))
    for a in axes:
        a.grid(alpha=0.25)
        a.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _name_lines(figure: Figure, axes: Any) -> Figure:
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", fontsize=7)
    return figure


def _curves(sweep: Sweep, store: Store) -> Figure | None:
    """Bound, training risk and KL over epochs, for the first repeat of a column that learned."""
    histories = sweep.histories(store)
    if not histories:
        return None
    figure, axes = _figure(3)
    for i, (column, history) in enumerate(histories.items()):
        _plot_history(axes, column, history, i)
    axes[0].set(xlabel="epoch", ylabel="bound, per cent")
    axes[1].set(xlabel="epoch", ylabel="training risk, per cent", yscale="log")
    axes[2].set(xlabel="epoch", ylabel="KL(Q|P), nats", yscale="symlog")
    return _name_lines(figure, axes[1])


def _plot_history(axes: Sequence[Any], column: str, history: Sequence[Evaluation], i: int) -> None:
    """Plot the i-th column's evaluations; mlp has only a risk."""
    bound, risk, kl = axes
    curves = [(risk, "risk", 100)]
    curves += [] if column == "mlp" else [(bound, "bound", 100), (kl, "kl", 1)]
    epochs, line = [e.epoch for e in history], ("-", "--", ":")[i // 10]
    style = {"color": f"C{i % 10}", "linestyle": line, "marker": ".", "markersize": 3}
    for a, key, unit in curves:
        values = [unit * getattr(e, key) for e in history]
        a.plot(epochs, values, label=column, linewidth=1.2, **style)


def _votes(found: Sequence[Line]) -> Figure | None:
    """Test error of the majority vote against that of the randomised classifier."""
    have = [line for line in found if line.values("vote_zero_one")]
    if not have:
        return None
    figure, (axes,) = _figure(1, 5.5)
    high = 1.0
    for i, line in enumerate(have):
        xs, ys = (100 * np.array(line.values(f"{of}_zero_one")) for of in ("test", "vote"))
        axes.scatter(xs, ys, label=line.column, s=18, color=f"C{i % 10}", marker="os^"[i // 10])
        high = max(high, *xs)
    axes.axline((high / 2, high / 2), (high, high), color="#999999", linewidth=0.8)
    axes.set(xlabel="test error, randomised, per cent", ylabel="test error, vote, per cent")
    _scale_errors(axes)
    return _name_lines(figure, axes)


def _scale_errors(axes: Any) -> None:
    from matplotlib.ticker import LogLocator

    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        axis.set_major_formatter("{x:g}")
    axes.minorticks_off()


def _samples(sweep: Sweep, store: Store) -> Figure | None:
    """The best bound of the grid against T."""
    best = _best_bounds(sweep, store)
    if not best:
        return None
    figure, (axes,) = _figure(1, 5.5)
    for column, values in best.items():
        axes.plot(sorted(values), [100 * values[T] for T in sorted(values)], "o-", label=column)
    axes.set(xlabel="T in training", ylabel="best bound of the grid, per cent")
    axes.set(xscale="log", yscale="log")
    axes.minorticks_off()
    axes.set_xticks(printed.SAMPLES, map(str, printed.SAMPLES))
    axes.set_yticks((ticks := (20, 30, 50, 100)), map(str, ticks))
    return _name_lines(figure, axes)


def _best_bounds(sweep: Sweep, store: Store) -> dict[str, dict[int, float]]:
    """Return bounds by column and T among runs that learned, since guessing has a bound too."""
    best: dict[str, dict[int, float]] = {}
    for c, summary in store.summaries(replace(sweep, search="paper").searched()):
        if summary.learned and summary.bound is not None:
            values = best.setdefault(c.column, {})
            values[c.samples] = min(values.get(c.samples, 1.0), summary.bound)
    return best


def _variances() -> Figure:
    """Variances of outputs and gradients of a sign network trained on the bundled digits."""
    x, y = load("digits").tensors()
    settings = Settings.of("fast", "sign", widths=(20, 20), epochs=30, learned_scale=False, lam=1e5)
    network = build_network(settings, x.shape[1])
    train(network, x, y, settings)
    x, y = x[:64], y[:64]
    with seeded(0, "training"):
        outputs = output_variances(network, x, _T)
        gradients = gradient_variances(network, x, y, _T)
    figure, (left, right) = _figure(2, 4.6)
    _plot_variances(left, outputs, "variance of the output, mean")
    _plot_variances(right, gradients, "variance of the gradient, total")
    return figure


def _plot_variances(axes: Any, variances: dict[str, list[float]], title: str) -> None:
    for name, values in variances.items():
        axes.plot(_T, values, "o-", label=name)
    axes.set(xscale="log", yscale="log", xlabel="T", title=title)
    axes.legend(frameon=False, fontsize=8)
