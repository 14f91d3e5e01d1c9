"""Figures of a sweep: curves over epochs, variances against T, the effect of T, votes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pacbayes import paper
from pacbayes.data import load
from pacbayes.experiments.store import Store
from pacbayes.experiments.sweep import Sweep
from pacbayes.experiments.tables import Line, lines
from pacbayes.experiments.variances import gradient_variances, output_variances
from pacbayes.extras import require
from pacbayes.files import load_json, write_atomically
from pacbayes.networks.architecture import build_network
from pacbayes.randomness import seeded
from pacbayes.settings import Settings
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
            content = io.BytesIO()
            figure.savefig(content, format="png", dpi=140)
            write_atomically(folder / f"{name}.png", content.getvalue())
            yield folder / f"{name}.png"


def _figure(columns: int, width: float = 4.0) -> tuple[Figure, Sequence[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, 3.6), layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(1, columns)))
    for a in axes:
        a.grid(alpha=0.25)
        a.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _curves(sweep: Sweep, store: Store) -> Figure | None:
    """Bound, training risk and KL over epochs, for the first repeat of a column that learned."""
    paths = {name: store.place(c) / "history.json" for name, c in sweep.shown(store).items()}
    histories = {name: load_json(path) for name, path in paths.items() if path.exists()}
    if not histories:
        return None
    figure, axes = _figure(3)
    for i, (column, history) in enumerate(histories.items()):
        epochs, line = [e["epoch"] for e in history], ("-", "--", ":")[i // 10]
        style = {"color": f"C{i % 10}", "linestyle": line, "marker": "."}
        for a, key, factor in zip(axes, ("bound", "risk", "kl"), (100, 100, 1), strict=True):
            if column != "mlp" or key == "risk":
                values = [factor * e[key] for e in history]
                a.plot(epochs, values, label=column, linewidth=1.2, markersize=3, **style)
    axes[0].set(xlabel="epoch", ylabel="bound, per cent")
    axes[1].set(xlabel="epoch", ylabel="training risk, per cent", yscale="log")
    axes[2].set(xlabel="epoch", ylabel="KL(Q|P), nats", yscale="symlog")
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside right center", fontsize=7)
    return figure


def _votes(found: Sequence[Line]) -> Figure | None:
    """Test error of the majority vote against that of the randomised classifier."""
    from matplotlib.ticker import LogLocator

    have = [line for line in found if line.values("vote_zero_one")]
    if not have:
        return None
    figure, (axes,) = _figure(1, 5.5)
    for i, line in enumerate(have):
        xs, ys = line.values("test_zero_one"), line.values("vote_zero_one")
        style = {"label": line.column, "s": 18, "color": f"C{i % 10}", "marker": "os^"[i // 10]}
        axes.scatter([100 * v for v in xs], [100 * v for v in ys], **style)
    high = max(1.0, *(100 * v for line in have for v in line.values("test_zero_one")))
    axes.axline((high / 2, high / 2), (high, high), color="#999999", linewidth=0.8)
    axes.set(xlabel="test error, randomised, per cent", ylabel="test error, vote, per cent")
    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        axis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", fontsize=7)
    return figure


def _samples(sweep: Sweep, store: Store) -> Figure | None:
    """The best bound of the grid against T, among runs that learned, since guessing has one too."""
    best: dict[str, dict[int, float]] = {}
    for c in replace(sweep, search="paper").searched():
        summary = store.summary(c)
        if summary is not None and summary.learned and summary.bound is not None:
            values = best.setdefault(c.column, {})
            values[c.samples] = min(values.get(c.samples, 1.0), summary.bound)
    if not best:
        return None
    figure, (axes,) = _figure(1, 5.5)
    for column, values in best.items():
        axes.plot(sorted(values), [100 * values[T] for T in sorted(values)], "o-", label=column)
    axes.set(xlabel="T in training", ylabel="best bound of the grid, per cent")
    axes.set(xscale="log", yscale="log")
    axes.minorticks_off()
    axes.set_xticks(paper.SAMPLES, map(str, paper.SAMPLES))
    axes.set_yticks((ticks := (20, 30, 50, 100)), map(str, ticks))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", fontsize=7)
    return figure


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
    for axes, values, title in (
        (left, outputs, "variance of the output, mean"),
        (right, gradients, "variance of the gradient, total"),
    ):
        for name, each in values.items():
            axes.plot(_T, each, "o-", label=name)
        axes.set(xscale="log", yscale="log", xlabel="T", title=title)
        axes.legend(frameon=False, fontsize=8)
    return figure
