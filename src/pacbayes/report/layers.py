"""How far each layer of a network has moved from its prior."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain

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
        """Count values in equal bins between two limits."""
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
def layer_movements(
    network: Network, names: Mapping[str, str] | None = None
) -> tuple[LayerMovement, ...]:
    """Return the movement of every layer, with histograms on common axes.

    Args:
        names: better names for layers, as `RunRecord.layer_names`.
    """
    layers = _by_layer(network)
    everything = list(chain(*layers.values()))
    farthest = _joined(_shift, everything).abs().max().item() or 1.0
    low, high = _joined(_ratio, everything).aminmax()
    scales = (low.item(), high.item())
    shown = {layer: (names or {}).get(layer, layer) for layer in layers}
    return tuple(
        _movement(shown[layer], parts, farthest, scales) for layer, parts in layers.items()
    )


def _movement(
    layer: str, parts: list[Gaussian], farthest: float, scales: tuple[float, float]
) -> LayerMovement:
    """Return the movement of a layer; means reach ±`farthest`, and `scales` are ends of an axis."""
    shifts, ratios = _joined(_shift, parts), _joined(_ratio, parts)
    low, high = scales
    return LayerMovement(
        layer=layer,
        weights=shifts.numel(),
        kl=sum(g.kl().item() for g in parts),
        rms=shifts.square().mean().sqrt().item(),
        largest=shifts.abs().max().item(),
        quantiles=_quantiles(ratios),
        means=Histogram.of(shifts, -farthest, farthest),
        scales=Histogram.of(ratios, low, high) if low < high else None,
    )


def _by_layer(network: Network) -> dict[str, list[Gaussian]]:
    """Return the Gaussians of each layer, in the order of the layers."""
    found: dict[str, list[Gaussian]] = {}
    for name, g in gaussians(network).items():
        found.setdefault(layer_of(name), []).append(g)
    return found


def _joined(values: Callable[[Gaussian], torch.Tensor], parts: list[Gaussian]) -> torch.Tensor:
    return torch.cat(list(map(values, parts)))


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
