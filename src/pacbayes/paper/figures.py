"""Figures of a sweep: curves over epochs, variances of estimators, the effect of T, votes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from torch import Tensor

from pacbayes.choices import Estimator
from pacbayes.data import load
from pacbayes.extras import require
from pacbayes.files import write_atomically
from pacbayes.networks import heads
from pacbayes.networks.activations import Draw, estimate, leave_one_out
from pacbayes.networks.architecture import ESTIMATORS_OF_MANY, DenseArchitecture, build_network
from pacbayes.networks.network import Network
from pacbayes.networks.predictors import draw_weights
from pacbayes.paper import printed
from pacbayes.paper.store import Store
from pacbayes.paper.sweep import Sweep
from pacbayes.paper.tables import Line, lines
from pacbayes.randomness import seeded
from pacbayes.settings import Settings
from pacbayes.training.loop import Evaluation
from pacbayes.training.trainer import train

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ESTIMATORS", "draw_figures", "gradient_variances", "output_variances"]

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


ESTIMATORS: tuple[Estimator, ...] = tuple(
    e
    for e in get_args(Estimator)
    if e != "reinforce-per-example"  # T·B weight matrices
)


@torch.no_grad()
def output_variances(
    network: Network, x: Tensor, samples: Sequence[int], repeats: int = 200
) -> dict[str, list[float]]:
    """Mean over examples of Var F̂ (a sampled sign) and Var F̂* (aggregated), for each T.

    The paper's propositions: the second is never above the first.
    """
    if network.outputs > 1:
        raise ValueError(f"a sampled sign needs 2 classes, got {network.classes}")
    kept, found = network.head, {}
    try:
        for name, head in (("sampled", heads.sampled), ("aggregated", heads.aggregated)):
            network.head = head
            found[name] = [_output_variance(network, x, T, repeats) for T in samples]
    finally:
        network.head = kept
    return found


def _output_variance(network: Network, x: Tensor, T: int, repeats: int) -> float:
    outputs = torch.stack([network.draw(x, T).value.mean(0) for _ in range(repeats)])
    return outputs.var(0).mean().item()


def gradient_variances(
    network: Network, x: Tensor, y: Tensor, samples: Sequence[int], repeats: int = 100
) -> dict[str, list[float]]:
    """Total variance of the gradient of the linear loss of a network, by estimator and T.

    Of sign units, by the estimators that there are for its classes; relu and sigmoid are pathwise,
    and with two classes REINFORCE is there too. Straight-through is also biased; this is its
    variance alone. NaN where T is too small.
    """
    own = network.architecture
    if own is None or not own.widths or not own.describes(network):
        raise ValueError(
            "gradients are compared for networks with hidden layers as dense_network builds them, "
            f"unchanged; got a body {type(network.body).__name__}"
        )
    found: dict[str, list[float]] = {}
    for name, estimator in _estimators_for(own).items():
        same = replace(own, estimator=estimator).build()
        same.load_state_dict(network.state_dict())
        loss = _reinforced if estimator == "reinforce" else _loss
        found[name] = [_gradient_variance(same, loss, x, y, T, repeats) for T in samples]
    return found


def _estimators_for(own: DenseArchitecture) -> dict[str, Estimator]:
    """Return the estimators that a network has, by their names."""
    if own.activation != "sign":
        several: dict[str, Estimator] = {"pathwise": own.estimator}
    elif own.classes == 2:
        several = {e: e for e in ESTIMATORS}
    else:
        several = {e: e for e in ESTIMATORS_OF_MANY}
    return several | ({"reinforce": "reinforce"} if own.classes == 2 else {})


def _loss(network: Network, x: Tensor, y: Tensor, T: int) -> Tensor:
    return network.loss(network(x, T), y).mean()


def _reinforced(network: Network, x: Tensor, y: Tensor, T: int) -> Tensor:
    draw = draw_weights(network, x, T)
    return estimate(Draw(network.loss(draw.value, y), draw.log_prob)).mean()


def _gradient_variance(
    network: Network,
    sampled_loss: Callable[[Network, Tensor, Tensor, int], Tensor],
    x: Tensor,
    y: Tensor,
    T: int,
    repeats: int,
) -> float:
    if network.baseline is leave_one_out and T < 2:
        return float("nan")
    gradients = [_gradient(network, sampled_loss(network, x, y, T)) for _ in range(repeats)]
    return torch.stack(gradients).var(0).sum().item()


def _gradient(network: Network, loss: Tensor) -> Tensor:
    found = torch.autograd.grad(loss, list(network.parameters()))
    return torch.cat([g.flatten() for g in found])
