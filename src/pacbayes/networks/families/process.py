r"""A Gaussian process as the last layer: K directions carry Q, everything else keeps the prior.

Prior: h ~ GP(0, k). For landmarks B, with G = k(B, B), and a matrix A with AGAᵀ ≼ I, let

    u = A·h(B) + ξ,   ξ ~ N(0, I − AGAᵀ) independent of h,   z(x) = A·k(B, x).

Then u ~ N(0, I) and cov(h(x), u) = z(x) under the prior, exactly. Q gives u the law N(m, diag s²)
and leaves h given u as it is, so that by the chain rule

    KL(Q|P) = KL(N(m, diag s²) | N(0, I))   in K dimensions, and
    h(x) ~ N(m·z(x), Σ_j s_j² z_j(x)² + k(x, x) − |z(x)|²).

Landmarks and A may depend on all the data: they choose Q. Nothing rests on AGAᵀ = I, only on
AGAᵀ ≼ I, which `largest` shows with rounding errors enclosed and `directions` obtains by
dividing A by a number a little above one. ξ takes what is missing, and k(x, x) − |z|² stays ≥ 0.

For k > 2 classes every score is such a process, with scales that all classes share. The largest
score depends on differences of scores only, and their mean over the classes may keep the prior:

    KL = ½(k − 1) Σ_j (s_j² − 1 − ln s_j²) + ½ Σ_c |m_c − m̄|².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from pacbayes.features.kernels import Kernel

__all__ = ["Coordinates", "Directions", "Process", "directions", "divergence"]

Array = NDArray[np.float64]
Features = NDArray[np.floating]
_UNIT = 2.0**-53  # relative rounding error of float64
_BLOCK = 128  # numbers that a product adds in an unknown order, so that errors grow with no more
_ROWS = 1000  # examples at a time
_MARGIN = 1e-7  # by which A is smaller than it must be, for those who add in another order
_SMALLEST = 1e-100  # largest value of a usable kernel; squares must neither vanish nor overflow
_LEAST = 1e-9  # eigenvalues below this part of the largest are noise


class Coordinates(NamedTuple):
    """What Q sees of examples: z, (n, K), k(x, x), (n,), and bounds of both errors, (n,)."""

    z: Array
    total: Array
    error: Array
    total_error: Array


@dataclass(frozen=True)
class Directions:
    """A kernel with landmarks, (B, d), and a matrix A, (K, B), with AGAᵀ ≼ I."""

    kernel: Kernel
    landmarks: NDArray[np.float32]
    matrix: Array

    def coordinates(self, x: Features) -> Coordinates:
        """Return z(x) = A·k(B, x) and k(x, x) of features (n, d), in blocks."""
        found = [self._block(x[i : i + _ROWS]) for i in range(0, len(x), _ROWS)]
        return Coordinates(*map(np.concatenate, zip(*found, strict=True)))

    def _block(self, x: Features) -> Coordinates:
        k = self.kernel(x, self.landmarks)
        B, error = len(self.landmarks), self._kernel_error(x)
        norms = np.sqrt(np.square(k).sum(1))
        lengths = _rounding(B) * _frobenius(self.matrix) * norms
        lengths += self._norm * math.sqrt(B) * error
        z, total = _product(k, self.matrix.T), self.kernel.diagonal(x)
        return Coordinates(z, total, 1.01 * lengths, np.full(len(x), error))

    def _kernel_error(self, x: Features) -> float:
        most = max(_largest_square(x), _largest_square(self.landmarks))
        return self.kernel.error(x.shape[1], most)

    @cached_property
    def _norm(self) -> float:
        """An upper bound of |A|₂, by |A|₂² = |AAᵀ|₂, at most the largest row sum of |AAᵀ|."""
        product, error = _sharp_product(self.matrix, self.matrix.T)
        return 1.0001 * math.sqrt(float(np.abs(product).sum(1).max()) + error)

    @property
    def largest(self) -> float:
        r"""An upper bound of the largest eigenvalue of AGAᵀ, with every rounding charged.

        With P = fl(AĜ) and M̂ = fl(PAᵀ), which err by at most α and β of Frobenius, c the mean of
        M̂'s diagonal, and an error ε of each value of the kernel,

            λ_max ≤ c + |M̂ − cI|_F + α|A|₂ + β + |A|₂²·B·ε.
        """
        A, B = self.matrix, len(self.landmarks)
        P, alpha = _sharp_product(A, self.kernel(self.landmarks, self.landmarks))
        M, beta = _sharp_product(P, A.T)
        c = float(np.diag(M).mean())
        departure = _frobenius(M - c * np.eye(len(A)))
        values = self._norm**2 * B * self._kernel_error(self.landmarks)
        return (c + departure + alpha * self._norm + beta + values) * (1 + 1e-15)


def directions(kernel: Kernel, landmarks: NDArray[np.float32], count: int) -> Directions:
    """Return the leading directions of landmarks' Gram matrix, shown to satisfy AGAᵀ ≼ I."""
    if not 1 <= count <= len(landmarks):
        raise ValueError(
            f"directions must be between 1 and the number of landmarks, {len(landmarks)}, got "
            f"{count}"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        G = kernel(landmarks, landmarks)
    if not _SMALLEST <= G.diagonal().max(initial=0.0) <= 1 / _SMALLEST and G.any():
        raise ValueError(
            f"the kernel reaches {G.diagonal().max():.2g} on these examples; scale features or "
            "kernel, so that it is about 1"
        )
    values, vectors = eigh(0.5 * (G + G.T))
    values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    kept = values > max(_LEAST * values[0], 0.0)
    if not kept.any():
        raise ValueError("the kernel is zero on all landmarks; choose other features or kernel")
    signs = np.where(vectors.sum(0) < 0, -1.0, 1.0)
    matrix = ((vectors * signs)[:, kept] / np.sqrt(values[kept])).T
    raw = Directions(kernel, landmarks, np.ascontiguousarray(matrix))
    found = Directions(kernel, landmarks, raw.matrix / math.sqrt(raw.largest * (1 + _MARGIN)))
    if not found.largest <= 1:
        raise ValueError(
            f"{len(matrix)} directions cannot be shown to be orthonormal: their Gram matrix "
            f"reaches {found.largest!r}; ask for fewer"
        )
    return found


@dataclass(frozen=True)
class Process:
    """Q: the law N(m, diag s²) of K directions, and the prior of everything else.

    Attributes:
        mean: m, (K, outputs): one output for two classes, k for k.
        log_scale: ln s, (K,), the same for all classes.
    """

    directions: Directions
    mean: Array
    log_scale: Array

    @property
    def outputs(self) -> int:
        """One for two classes, k for k."""
        return int(self.mean.shape[1])

    def moments(self, at: Coordinates) -> tuple[Array, Array, Array]:
        """Return the scores' means, (n, outputs), their variance, (n,), and a charge, (n,).

        The charge bounds the change of any event's probability by all rounding errors: of N(a, v)
        by at most 0.4·|Δa|/√v + 0.25·|Δv|/v for every score, as φ(0) < 0.4 and, in ln v, the total
        variation has the slope φ(1) < 0.25.
        """
        z, total, error, of_total = at
        K, squares = z.shape[1], np.square(z)
        variances = np.exp(2 * self.log_scale)
        mean, rest = z @ self.mean, np.maximum(total - squares.sum(1), 0.0)
        v = squares @ variances + rest
        norms, most = np.sqrt(squares.sum(1)), max(1.0, float(variances.max()))
        by_sums = 2 * (K + 40) * _UNIT
        shift = np.sqrt(np.square(self.mean).sum(0)) * (error + by_sums * norms)[:, None]
        wider = most * (2 * norms * error + error**2 + by_sums * (norms**2 + total)) + of_total
        with np.errstate(divide="ignore", invalid="ignore"):
            sure = np.where(v > 2 * wider, v - wider, np.nan)
            charge = (0.4 * shift / np.sqrt(sure)[:, None]).sum(1)
            charge += 0.25 * self.outputs * wider / sure
        return mean, v, np.minimum(np.nan_to_num(1.01 * charge, nan=1.0), 1.0)

    @property
    def kl(self) -> float:
        """KL(Q|P), of differences of scores where there are several."""
        return divergence(self.mean, self.log_scale)


def divergence(mean: Array, log_scale: Array) -> float:
    """Return KL(N(m, diag s²) | N(0, I)), of contrasts of k > 1 scores with shared scales."""
    r = 2 * np.asarray(log_scale, np.float64)
    copies = max(1, mean.shape[1] - 1)
    centred = mean if mean.shape[1] == 1 else mean - mean.mean(1, keepdims=True)
    of_scales: float = copies * math.fsum((np.expm1(r) - r).tolist())
    return 0.5 * (of_scales + math.fsum(np.square(centred).ravel().tolist()))


def _product(a: Array, b: Array) -> Array:
    """Return a·b, added up in blocks, so that its error is that of `_rounding`."""
    total = np.zeros((len(a), b.shape[1]))
    for start in range(0, a.shape[1], _BLOCK):
        part = slice(start, start + _BLOCK)
        total += a[:, part] @ b[part]
    return total


def _rounding(count: int) -> float:
    """Return γ of sums of so many products by `_product`: within blocks in any order, then one."""
    blocks = -(-count // _BLOCK)
    return 1.01 * (min(count, _BLOCK) + blocks + 1) * _UNIT


def _sharp_product(a: Array, b: Array) -> tuple[Array, float]:
    """Return a·b and a bound of the Frobenius norm of its error, near the last bit.

    The leading bits of both are so few that their products and sums are exact in any order.
    """
    count = a.shape[1]
    bits = (52 - math.ceil(math.log2(max(2, count)))) // 2
    high, low = _split(a, bits, 1)
    top, rest = _split(b, bits, 0)
    product = high @ top + (high @ rest + low @ b)
    small = _frobenius(high) * _frobenius(rest) + _frobenius(low) * _frobenius(b)
    error = 1.01 * count * _UNIT * small + 4 * _UNIT * (_frobenius(product) + small)
    return product, error


def _split(a: Array, bits: int, axis: int) -> tuple[Array, Array]:
    """Return the leading bits of numbers, as seen from the largest of a row or column; and rest."""
    most = np.abs(a).max(axis, keepdims=True)
    grid = 2.0 ** (np.ceil(np.log2(np.where(most > 0, most, 1.0))) - bits)
    high: Array = np.rint(a / grid) * grid
    return high, a - high


def _frobenius(a: Array) -> float:
    return float(np.linalg.norm(a)) * (1 + 1e-9)


def _largest_square(x: Features) -> float:
    return float(np.square(x, dtype=np.float64).sum(1).max()) * (1 + 1e-9)
