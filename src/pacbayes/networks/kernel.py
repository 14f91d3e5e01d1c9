"""A network with a Gaussian process on fixed features: features, kernel, posterior, predictions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pacbayes.data.tasks import Task, task_of
from pacbayes.features.formulas import FORMULAS
from pacbayes.features.kernels import Kernel
from pacbayes.files import save_tensors
from pacbayes.networks.families.process import Coordinates, Process
from pacbayes.networks.frozen import cache_path, cached_features
from pacbayes.networks.quadrature import win_probabilities
from pacbayes.spelling import did_you_mean

__all__ = ["KernelNetwork", "KernelPrior"]

Floats = NDArray[np.float64]
_ROWS = 1000
_IMAGE = 3  # dimensions: channels, height and width
_STROKES = ("binary-mnist", "mnist", "digits", "ten-digits")
_KERNELS = {  # as chosen on MNIST and CIFAR-10
    "strokes": "0.98*linear^5 + 0.02",
    "wavelets": "0.98*linear^4 + 0.02",
    "pixels": "0.98*linear^3 + 0.02",
    "colours": "0.98*linear + 0.02",
}


@dataclass(frozen=True)
class KernelPrior:
    """h ~ GP(0, k) on features of one example each: all that is fixed before any data.

    Attributes:
        features: name of a formula in `features.formulas`.
        kernel: sums and products, such as `0.98*linear^5 + 0.02` (`features.kernels`).
        shape: of an example: (channels, height, width) of an image.
    """

    features: str
    kernel: str
    shape: tuple[int, ...]

    @classmethod
    def usual(
        cls,
        data: str,
        shape: tuple[int, ...],
        features: str | None = None,
        kernel: str | None = None,
    ) -> KernelPrior:
        """Return what was given, and for the rest what suits such data: defaults by name and shape.

        Args:
            data: name of the data set; digits are straightened.
        """
        if features is None:
            images = {1: "strokes" if data in _STROKES else "wavelets", 3: "colours"}
            features = images.get(shape[0], "columns") if len(shape) == _IMAGE else "columns"
        return cls(features, kernel or _KERNELS.get(features, "arc-cosine^2 + 1"), shape)

    def __post_init__(self) -> None:
        if self.features not in FORMULAS:
            hint = did_you_mean(self.features, FORMULAS) or f"; give one of {', '.join(FORMULAS)}"
            raise ValueError(f"no features {self.features!r}{hint}")
        Kernel.parse(self.kernel)

    @property
    def sha256(self) -> str:
        """Hash of the formulas of features and kernel."""
        formula = FORMULAS[self.features].sha256
        text = f"{formula} {Kernel.parse(self.kernel)} {self.shape}"
        return hashlib.sha256(text.encode()).hexdigest()

    def of(self, x: Tensor, *, cache: bool | Path = False) -> NDArray[np.float32]:
        """Return the features of examples, (n, d) or (n, …), as float32.

        Args:
            cache: keep them in the folder of cached data, or in a folder of your own, by the hash
                of formula and examples.
        """
        rows = x.detach().cpu().reshape(len(x), -1)
        formula = FORMULAS[self.features]
        first = torch.from_numpy(formula(rows[:1].numpy(), self.shape))
        path = cache_path(cache, f"{formula.sha256} {self.shape}", rows)
        found = None if path is None else cached_features(path, first, len(rows))
        if found is not None:
            return found.numpy()
        values = formula(rows.numpy(), self.shape)
        if path is not None:
            with suppress(OSError):  # a cache that cannot be written costs time alone
                path.parent.mkdir(parents=True, exist_ok=True)
                save_tensors(path, {"features": torch.from_numpy(values)})
        return values


@dataclass(frozen=True)
class KernelNetwork:
    """The randomised classifier by the sign of h, or by the largest of k scores, with h ~ Q.

    Attributes:
        prior: features and kernel.
        process: Q.
    """

    prior: KernelPrior
    process: Process

    @property
    def task(self) -> Task:
        """Two classes, or k."""
        return task_of(max(2, self.process.outputs))

    @cached_property
    def directions_hold(self) -> bool:
        """Whether landmarks and directions are shown to satisfy AGAᵀ ≼ I."""
        directions = self.process.directions
        same = directions.kernel == Kernel.parse(self.prior.kernel)
        return same and directions.largest <= 1

    def coordinates(self, x: Tensor) -> Coordinates:
        """Return what Q sees of examples."""
        return self.process.directions.coordinates(self.prior.of(x))

    def blocks(
        self, x: Tensor, *, cache: bool | Path = False
    ) -> Iterator[tuple[slice, Coordinates]]:
        """Yield what Q sees of examples, a thousand at a time, and where they are."""
        features = self.prior.of(x, cache=cache)
        for start in range(0, len(x), _ROWS):
            part = slice(start, start + _ROWS)
            yield part, self.process.directions.coordinates(features[part])

    def output(self, at: Coordinates) -> tuple[Tensor, Floats]:
        """Return F ∈ [−1, 1], (n,), or every class's probability, (n, k), and their charge, (n,).

        The charge bounds the change of a class's probability by rounding.
        """
        mean, v, charge = self.process.moments(at)
        deviation = np.sqrt(np.maximum(v, 1e-300))[:, None]
        if self.process.outputs == 1:
            return torch.from_numpy((mean / deviation)[:, 0] * 0.5**0.5).erf(), charge
        pairs = zip(*(torch.from_numpy(a).split(_ROWS) for a in (mean, deviation)), strict=True)
        return torch.cat([win_probabilities(*pair) for pair in pairs]), charge

    def scores(self, at: Coordinates) -> Tensor:
        """Return the mean scores, (n,) or (n, k), by which the majority of all of Q votes."""
        mean = torch.from_numpy(at.z @ self.process.mean)
        return mean[:, 0] if self.process.outputs == 1 else mean
