r"""A Gaussian family: Q is diagonal in a basis of a layer's inputs, beside a prior that is not.

The prior N(W₀, σ²I) of a layer is the same in every orthonormal basis R of its inputs. So R may be
chosen from all the data, and Q be diagonal in it, W = Z Rᵀ, at no cost but KL(Q|P) with the means
W₀R. The layer sees inputs x as xR. In pixels Q pays for each of them; in the eigenbasis of the
inputs, directions in which they hardly vary keep the prior and are free.

A prior may also expect images to be smooth: covariance σ²·K S² Kᵀ with the cosine transform K and
S = (1 + f/4)^−p at frequency f. The layer then sees xKS, and the rest is as before: this is a
formula of one example and part of P.

R is given as reflections. A product of reflections is orthonormal whatever their vectors, so that
nothing in a file can make it otherwise. P is kept as it was drawn, with W₀ in the coordinates of
the inputs: no basis can reach it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pacbayes.devices import CPU, exact_device, wide
from pacbayes.networks.families import diagonal
from pacbayes.networks.families.diagonal import Gaussian, Law, divergence

__all__ = [
    "Rotated",
    "Smoothness",
    "check_reflections",
    "eigenbasis",
    "law_of",
    "rebuilt",
    "reflected",
    "rounding",
    "second_moments",
]

_BLOCK = 10_000  # examples in float64


@dataclass(frozen=True)
class Smoothness:
    """How much smoother than noise a prior expects images to be.

    Attributes:
        shape: (channels, height, width) of an example.
        power: p of S = (1 + f/4)^−p at frequency f; S is scaled to a mean square of one, so that
            the variance of a weight remains σ² on average.
    """

    shape: tuple[int, int, int]
    power: float

    def __post_init__(self) -> None:
        if len(self.shape) != 3 or min(self.shape) < 1:
            raise ValueError(f"a smooth prior needs images (channels, height, width): {self.shape}")
        if not 0 < self.power <= 16:
            raise ValueError(f"the power of a smooth prior must be in (0, 16], got {self.power}")

    @property
    def inputs(self) -> int:
        """Numbers in an example."""
        return math.prod(self.shape)

    @property
    def numbers(self) -> tuple[float, ...]:
        """What it is, in four numbers."""
        return (*self.shape, self.power)

    def matrix(self) -> Tensor:
        """Return KS in float64, (d, d): the layer sees xKS."""
        channels, height, width = self.shape
        rows, columns = _cosines(height), _cosines(width)
        u = torch.arange(height, dtype=torch.float64, device=CPU)[:, None]
        v = torch.arange(width, dtype=torch.float64, device=CPU)
        scales = (1 + (u.square() + v.square()).sqrt() / 4) ** -self.power
        scales = (scales / scales.square().mean().sqrt()).flatten()
        own = torch.kron(rows, columns) * scales  # of one channel
        whole: Tensor = torch.block_diag(*[own] * channels)
        return whole


def _cosines(n: int) -> Tensor:
    """Return the orthonormal cosine transform, (places, frequencies)."""
    places = torch.arange(n, dtype=torch.float64, device=CPU)[:, None] + 0.5
    frequencies = torch.arange(n, dtype=torch.float64, device=CPU)
    waves = (math.pi / n * places * frequencies).cos() * math.sqrt(2 / n)
    waves[:, 0] *= math.sqrt(0.5)
    return waves


class Rotated(Gaussian):
    """Q over weights (outputs, inputs), diagonal in a basis of the inputs.

    μ and σ are those of Z in the basis; the means of P stay in the coordinates of the inputs. The
    basis is the inputs' own until `choose` has seen some.

    Args:
        start: P, with Q at it.
        smoothness: of the prior, if it expects smooth images.
    """

    reflections: Tensor

    def __init__(self, start: Gaussian, smoothness: Smoothness | None = None) -> None:
        outputs, inputs = start.mean.shape
        if smoothness is not None and smoothness.inputs != inputs:
            raise ValueError(f"images {smoothness.shape} do not have {inputs} features")
        super().__init__(outputs, inputs, learned_scale=start.learned_scale, mean=start.mean)
        with torch.no_grad():
            for own, given in zip(diagonal.law_of(self), diagonal.law_of(start), strict=True):
                own.copy_(given)
        self.register_buffer("reflections", self.mean.new_zeros(inputs, inputs))
        self.smoothness = smoothness
        self._bases: list[tuple[Tensor, Tensor, Tensor]] = []  # reflections, R and KSR of them

    def seen(self, a: Tensor) -> Tensor:
        """Return inputs as the layer sees them: in the basis."""
        return a @ self.coordinates.to(a)

    @property
    def coordinates(self) -> Tensor:
        """The linear map of the inputs, KSR in float64, (inputs, inputs)."""
        return self._basis()[1]

    @torch.no_grad()
    def all_seen(self, x: Tensor) -> Tensor:
        """Return examples, (n, inputs), in the basis, computed in float64 block by block."""
        return torch.cat([self.seen(wide(block)).to(x) for block in x.split(_BLOCK)])

    def as_diagonal(self) -> Gaussian:
        """Return the same Q and P for inputs in the basis, on the same parameters."""
        law = law_of(self)
        made = Gaussian(*law.mean.shape, learned_scale=self.learned_scale, mean=law.mean)
        made.mean, made.log_scale = self.mean, self.log_scale
        made.prior_mean = law.prior_mean.to(law.mean).contiguous()
        made.prior_log_scale = self.prior_log_scale
        return made

    def kl(self) -> Tensor:
        """Return KL(Q|P) in float64, with a gradient."""
        return divergence(law_of(self))

    @torch.no_grad()
    def choose(self, x: Tensor) -> None:
        """Take the eigenbasis of examples, (n, inputs), and put Q at P in it."""
        first = None if self.smoothness is None else self.smoothness.matrix()
        self.reflections.copy_(eigenbasis(second_moments(x, first)))
        self.mean.copy_(law_of(self).prior_mean)

    def _basis(self) -> tuple[Tensor, Tensor]:
        """Return R and KSR in float64, computed once for the reflections."""
        now = wide(self.reflections)
        if not self._bases or not torch.equal(self._bases[0][0], now):
            R = reflected(now)
            first = None if self.smoothness is None else self.smoothness.matrix().to(R.device)
            self._bases = [(now.clone(), R, R if first is None else first @ R)]
        return self._bases[0][1:]


def law_of(g: Rotated) -> Law:
    """Return the tensors of Q and P in the basis, P's means in float64."""
    law = diagonal.law_of(g)
    R = Rotated._basis(g)[0]
    return law._replace(prior_mean=wide(law.prior_mean) @ R)


def rounding(law: Law, weights: Tensor) -> float:
    """Return how much less a KL or log-ratio may be for P's means in the basis in float64.

    They are off by at most e = d²·2⁻⁴⁹·‖W₀‖ altogether (Higham 2002, lemma 19.3; W₀R has the norm
    of W₀), and so ½‖w − W₀R‖²/σ₀² by ‖w − W₀R‖·e/σ₀² + e²/σ₀².
    """
    center = law.prior_mean
    e: float = center.shape[1] ** 2 * 2.0**-49 * center.norm().item()
    far: float = (wide(weights) - center).norm().item()
    return (far * e + e * e) * math.exp(-2 * law.prior_log_scale.item())


def reflected(vectors: Tensor) -> Tensor:
    """Return R = −H₁H₂⋯ in float64, with Hᵢ = I − 2vᵢvᵢᵀ/|vᵢ|²; the identity for zeros.

    Args:
        vectors: (d, d), strictly lower triangular; vᵢ has a one at i, and column i below it. So no
            vector is zero, and each is a reflection.
    """
    lengths = vectors.square().sum(0) + 1
    if not lengths.isfinite().all():
        raise ValueError("the reflections of a basis must be finite numbers")
    product: Tensor = torch.linalg.householder_product(vectors, 2 / lengths)
    return -product


@torch.no_grad()
def second_moments(x: Tensor, first: Tensor | None = None) -> Tensor:
    """Return xᵀx/n of examples, (d, d) in float64, as a linear map shows them."""
    total = torch.zeros(x.shape[1], x.shape[1], dtype=torch.float64, device=exact_device(x.device))
    for block in x.split(_BLOCK):
        exact = wide(block)
        total += exact.T @ exact
    total /= len(x)
    if first is not None:
        first = first.to(total.device)
        total = first.T @ total @ first
    return total


def eigenbasis(moments: Tensor) -> Tensor:
    """Return the reflections, (d, d), whose product has the eigenvectors of a matrix as columns.

    Their signs may differ, which a diagonal Q does not notice.
    """
    vectors = torch.linalg.eigh(moments)[1].flip(1)
    return torch.geqrf(vectors)[0].tril(-1)


def rebuilt(tensors: Mapping[str, Tensor], smoothness: object, *, learned_scale: bool) -> Rotated:
    """Build a posterior in a basis anew from its tensors.

    Raises:
        ValueError: a tensor is not what it should be.
    """
    own = {name: tensor for name, tensor in tensors.items() if name != "reflections"}
    plain = diagonal.rebuilt(own, learned_scale=learned_scale)
    if plain.mean.dim() != 2:
        raise ValueError(f"mean has the shape {tuple(plain.mean.shape)} instead of two dimensions")
    made = Rotated(plain, _known(smoothness))
    vectors = tensors.get("reflections", made.reflections)
    check_reflections(vectors, made.mean.shape[1])
    made.reflections = vectors.clone(memory_format=torch.contiguous_format)
    return made


def check_reflections(vectors: Tensor, inputs: int) -> None:
    """Raise ValueError unless vectors are reflections of `inputs` coordinates, and nothing else."""
    if tuple(vectors.shape) != (inputs, inputs):
        raise ValueError(
            f"reflections has the shape {tuple(vectors.shape)} instead of {(inputs, inputs)}"
        )
    if not vectors.isfinite().all():
        raise ValueError("reflections has numbers that are not finite")
    if vectors.triu().any():
        raise ValueError("reflections has numbers that no reflection uses")


def _known(smoothness: object) -> Smoothness | None:
    """Return a smoothness built anew from plain numbers; refuse anything else."""
    if smoothness is None:
        return None
    if type(smoothness) is not Smoothness:
        raise ValueError("smoothness is not one of the library's own")
    shape, power = smoothness.shape, smoothness.power
    if type(shape) is not tuple or {type(n) for n in shape} != {int} or type(power) is not float:
        raise ValueError("smoothness does not have plain numbers")
    return Smoothness(shape, power)
