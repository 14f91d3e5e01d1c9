"""The basis in which a posterior is diagonal, made again from its reflections without PyTorch.

The first layer sees inputs x as xKSR. K is the cosine transform and S = (1 + f/4)^−p of a smooth
prior; R is a product of reflections, which is orthonormal whatever their vectors, and may follow
from the data. P's means are drawn in the coordinates before R, and so checked there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from flint import arb

from pacbayes.verify.findings import Finding, finding
from pacbayes.verify.records import NetworkRun
from pacbayes.verify.redraw import Array, Weights

__all__ = ["Basis", "basis_of", "check_basis"]

_NEAR = 1e-11  # to orthonormal


class Basis(NamedTuple):
    """What turns the inputs of a layer, and the means of its prior.

    Attributes:
        name: of the layer's weights.
        rotation: R.
        map: KSR.
        smoothness: (channels, height, width, p) of a smooth prior.
    """

    name: str
    rotation: Array
    map: Array
    smoothness: Array | None = None

    def seen(self, x: Array) -> Array:
        """Return inputs as the layer sees them."""
        return np.asarray(x.astype(float) @ self.map)

    def posterior(self, posterior: Weights) -> Weights:
        """Return a posterior with all that its draws are keyed by."""
        own = {} if self.smoothness is None else {f"{self.name}.smoothness": self.smoothness}
        return posterior | own

    def prior(self, prior: Weights) -> Weights:
        """Return a prior with the means of the layer in the basis."""
        key = f"{self.name}.prior_mean"
        return prior | {key: prior[key].astype(float) @ self.rotation}

    def rounding(self, laws: tuple[Weights, Weights]) -> arb:
        """Enclose how much less the KL may be than that of the means in float64.

        The means are off by at most e = d²·2⁻⁵⁰·‖W₀‖ altogether, and thus the KL by
        ‖μ − W₀R‖·e/σ₀² + e²/σ₀².
        """
        mean = laws[0][f"{self.name}.prior_mean"]
        shift = np.linalg.norm(laws[1][f"{self.name}.mean"] - mean)
        e = arb(float(np.linalg.norm(mean))) * len(self.rotation) ** 2 * arb(2) ** -50
        scale = (2 * arb(float(laws[0][f"{self.name}.prior_log_scale"]))).exp()
        return (arb(float(shift)) * e + e * e) / scale


def basis_of(run: NetworkRun, posterior: Weights) -> Basis | None:
    """Return the basis of a run, or None if Q is diagonal in the inputs as they are."""
    if not run.in_basis:
        return None
    name = next(iter(run.shapes))
    R = _reflected(posterior[f"{name}.reflections"].astype(float))
    power, shape = run.settings.prior_smooth, run.data.shape or ()
    if not power:
        return Basis(name, R, R)
    whole = np.array([*(1, *shape)[-3:], power], float)
    return Basis(name, R, _smooth(power, shape) @ R, whole)


def check_basis(
    run: NetworkRun, basis: Basis, posterior: Weights, shape: tuple[int, ...] | None
) -> Finding:
    """Check that a basis is orthonormal, and that its file says nothing else.

    Args:
        shape: of an image in the data.
    """
    vectors, R = posterior[f"{basis.name}.reflections"], basis.rotation
    off = float(np.abs(R.T @ R - np.eye(len(R))).max())
    must = {
        f"the basis is off orthonormal by {off:.2g}": off <= _NEAR,
        "the file has numbers that no reflection uses": not np.triu(vectors).any(),
        f"images of the data have the shape {shape}": not run.settings.prior_smooth
        or run.data.shape == shape,
        "a basis that the settings do not have": run.settings.basis != "none" or not vectors.any(),
    }
    return finding("basis", f"{len(R)} reflections, orthonormal to {off:.1g}", must)


def _reflected(vectors: Array) -> Array:
    """Return −H₁H₂⋯ with Hᵢ = I − 2vᵢvᵢᵀ/|vᵢ|²; vᵢ has a one at i, and column i below it."""
    R = np.eye(len(vectors))
    for i in range(len(vectors) - 1, -1, -1):
        v = np.append(1.0, vectors[i + 1 :, i])
        R[i:, i:] -= np.outer(v, (2 / (v @ v)) * (v @ R[i:, i:]))
    return -R


def _smooth(power: float, shape: tuple[int, ...]) -> Array:
    """Return KS for images (channels, height, width) or (height, width)."""
    *channels, height, width = shape
    rows, columns = _cosines(height), _cosines(width)
    scales = np.array([(1 + math.hypot(u, v) / 4) ** -power for u, v in np.ndindex(height, width)])
    own = np.kron(rows, columns) * (scales / math.sqrt(float((scales**2).mean())))
    return np.kron(np.eye(math.prod(channels)), own)


def _cosines(n: int) -> Array:
    places = 2 * np.arange(n) + 1
    waves = [np.cos(k * places * math.pi / (2 * n)) for k in range(n)]
    return np.stack([w / math.sqrt(float(w @ w)) for w in waves], 1)
