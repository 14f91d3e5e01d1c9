"""How far each layer of a network has moved from its prior."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pacbayes.certificates.explanation import layer_of
from pacbayes.networks.gaussian import Gaussian, gaussians
from pacbayes.networks.network import Network

__all__ = ["Histogram", "LayerMovement", "layer_movements"]

_BINS = 41  # odd, so that one bin is centred at zero


@dataclass(frozen=True)
class Histogram:
    """The number of values in each of several equal intervals between `low` and `high`."""

    low: float
    high: float
    counts: tuple[int, ...]

    @classmethod
    def of(cls, values: torch.Tensor, low: float, high: float) -> Histogram:
        counts = torch.histc(values, _BINS, low, high).long().tolist()
        return cls(low, high, tuple(counts))


@dataclass(frozen=True)
class LayerMovement:
    """How far a layer has moved from its prior, weights and biases together.

    Attributes:
        rms, largest: root mean square and largest absolute value of (μ − μ₀)/σ₀.
        quantiles: of σ/σ₀, at 5, 50 and 95 per cent.
        means: histogram of (μ − μ₀)/σ₀.
        scales: histogram of σ/σ₀; None if the standard deviations are not learned.
    """

    layer: str
    weights: int
    kl: float
    rms: float
    largest: float
    quantiles: tuple[float, float, float]
    means: Histogram
    scales: Histogram | None


@torch.no_grad()
def layer_movements(network: Network) -> tuple[LayerMovement, ...]:
    """Return the movement of every layer, with histograms on common axes."""
    layers = _by_layer(network)
    shifts = {name: torch.cat([_shift(g) for g in parts]) for name, parts in layers.items()}
    ratios = {name: torch.cat([_ratio(g) for g in parts]) for name, parts in layers.items()}
    farthest = torch.cat(list(shifts.values())).abs().max().item() or 1.0
    low, high = (end.item() for end in torch.cat(list(ratios.values())).aminmax())
    return tuple(
        LayerMovement(
            layer=name,
            weights=shifts[name].numel(),
            kl=sum(g.kl().item() for g in parts),
            rms=shifts[name].square().mean().sqrt().item(),
            largest=shifts[name].abs().max().item(),
            quantiles=_quantiles(ratios[name]),
            means=Histogram.of(shifts[name], -farthest, farthest),
            scales=Histogram.of(ratios[name], low, high) if low < high else None,
        )
        for name, parts in layers.items()
    )


def _by_layer(network: Network) -> dict[str, list[Gaussian]]:
    """Return the Gaussians of each layer, in the order of the layers."""
    found: dict[str, list[Gaussian]] = {}
    for name, g in gaussians(network).items():
        found.setdefault(layer_of(name), []).append(g)
    order = sorted(found, key=lambda layer: (layer == "the last layer", layer.zfill(12)))
    return {layer: found[layer] for layer in order}


def _shift(g: Gaussian) -> torch.Tensor:
    """Return (μ − μ₀)/σ₀."""
    moved = g.mean.double() - g.prior_mean.double()
    return (moved * (-g.prior_log_scale.double()).exp()).flatten()


def _ratio(g: Gaussian) -> torch.Tensor:
    """Return σ/σ₀."""
    ratio = (g.log_scale.double() - g.prior_log_scale.double()).exp()
    return ratio.expand(g.mean.shape).flatten()


def _quantiles(values: torch.Tensor) -> tuple[float, float, float]:
    ordered = values.sort().values
    low, middle, high = (ordered[round(q * (len(ordered) - 1))].item() for q in (0.05, 0.5, 0.95))
    return low, middle, high
