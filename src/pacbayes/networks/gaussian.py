"""A Gaussian over a tensor of weights, its prior, and the KL between the two."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pacbayes.devices import CPU, wide
from pacbayes.randomness import generator_on, normal

__all__ = [
    "INITIAL_VARIANCE",
    "Gaussian",
    "Law",
    "digest_outside",
    "digest_prior",
    "divergence",
    "drawn_state",
    "gaussians",
    "has_state_outside",
    "kl",
    "kl_by_part",
    "law_of",
    "log_ratio",
    "parts_of",
    "truncated_normal",
]

INITIAL_VARIANCE = 0.05  # of the truncated normal that means start from (Experiments; a variance)


class Gaussian(nn.Module):
    r"""Q = N(μ, diag σ²) beside its prior P = N(μ₀, σ₀² I), frozen at construction.

    The means start at a truncated normal of variance 0.05, cut at two standard deviations, and the
    scales at σ₀; P is Q at that time. μ₀ and σ₀ are buffers: saved and hashed, never trained.

    Args:
        shape: shape of the weight tensor.
        scale: σ₀, and also σ unless the scales are learned.
        learned_scale: whether every weight has its own trainable σ.
        mean: where the means start instead; it must not have seen the bound set.
    """

    prior_mean: Tensor
    prior_log_scale: Tensor
    log_scale: Tensor

    def __init__(
        self,
        *shape: int,
        scale: float = 1.0,
        learned_scale: bool = False,
        mean: Tensor | None = None,
    ) -> None:
        super().__init__()
        if not (scale > 0 and math.isfinite(scale)):
            raise ValueError(f"scale must be positive and finite, got {scale}")
        if mean is None:
            mean = truncated_normal(shape, math.sqrt(INITIAL_VARIANCE))
        mean = mean.detach().clone(memory_format=torch.contiguous_format)
        self.mean = nn.Parameter(mean)
        self.register_buffer("prior_mean", mean.clone())
        start = torch.tensor(math.log(scale), device=mean.device)
        self.register_buffer("prior_log_scale", start)
        if learned_scale:
            self.log_scale = nn.Parameter(torch.full(shape, math.log(scale), device=mean.device))
        else:
            self.register_buffer("log_scale", start.clone())

    @property
    def learned_scale(self) -> bool:
        """Whether the standard deviations are trained."""
        return isinstance(self.log_scale, nn.Parameter)

    @property
    def variance(self) -> Tensor:
        """σ², in the shape of the weights if learned, otherwise a scalar."""
        return (2 * self.log_scale).exp()

    def sample(self, *sizes: int) -> Tensor:
        """Draw weights from Q, `(*sizes, *shape)`, with a path to μ and σ."""
        shape = (*sizes, *self.mean.shape)
        return self.mean + self.log_scale.exp() * normal(shape, self.mean)

    def log_density(self, weights: Tensor) -> Tensor:
        """Return log q(w), summed over the weights' own dimensions, without a path through w."""
        log_q: Tensor = _LogDensity.apply(self.mean, self.log_scale, weights.detach())
        return log_q

    def kl(self) -> Tensor:
        """Return KL(Q|P) in float64, with a gradient (`divergence`)."""
        return divergence(Law(self.mean, self.log_scale, self.prior_mean, self.prior_log_scale))


class Law(NamedTuple):
    """The tensors of Q = N(μ, diag σ²) and P = N(μ₀, σ₀² I), from which certificates compute."""

    mean: Tensor
    log_scale: Tensor
    prior_mean: Tensor
    prior_log_scale: Tensor


def law_of(g: Gaussian) -> Law:
    """Return the tensors that a Gaussian has registered, whatever its attributes say."""
    tensors = {**vars(g)["_buffers"], **vars(g)["_parameters"]}
    return Law(*(tensors[field] for field in Law._fields))


def divergence(law: Law) -> Tensor:
    r"""KL(Q|P) = ½ Σ [σ²/σ₀² − 1 − ln(σ²/σ₀²) + (μ − μ₀)²/σ₀²], in float64."""
    s0 = wide(law.prior_log_scale)
    shift = (wide(law.mean) - wide(law.prior_mean)).flatten()
    r = 2 * (wide(law.log_scale) - s0)
    squares = torch.dot(shift, shift) * (-2 * s0).exp()
    return 0.5 * (squares + (r.expm1() - r).sum() * (shift.numel() / r.numel()))


def log_ratio(law: Law, weights: Tensor) -> Tensor:
    r"""ln(dQ/dP) = Σ [½(w − μ₀)²/σ₀² − ½(w − μ)²/σ² + ln(σ₀/σ)] at weights, in float64."""
    s, s0 = wide(law.log_scale), wide(law.prior_log_scale)
    far = (weights - wide(law.prior_mean)) * (-s0).exp()
    near = (weights - wide(law.mean)) * (-s).exp()
    return (0.5 * (far.square() - near.square()) + s0 - s).sum()


def truncated_normal(shape: tuple[int, ...], deviation: float) -> Tensor:
    """Draw normal numbers within two standard deviations, drawing again those that are not.

    Written out so that a data-free prior is a function of its seed and shapes that no release of
    torch can change; on the CPU, so that neither can a device.
    """
    cut = float(np.float32(2 * deviation))  # as the numbers are

    def draw() -> Tensor:
        numbers = torch.empty(shape, device="cpu", dtype=torch.float32)
        return numbers.normal_(0.0, deviation, generator=generator_on(numbers.device))

    result = draw()
    while (outside := result.abs() > cut).any():
        result = torch.where(outside, draw(), result)
    return result


class _LogDensity(torch.autograd.Function):
    """−Σ[½z² + ln σ + ½ln 2π] at z = (w − μ)/σ, with its score: z/σ in μ and z² − 1 in ln σ.

    Written out because a hundred draws of all weights are large and autograd would pass over them
    ten times.
    """

    @staticmethod
    def forward(ctx: Any, mean: Tensor, log_scale: Tensor, w: Tensor) -> Tensor:
        z = (w - mean).mul_((-log_scale).exp()).flatten(w.dim() - mean.dim())  # (…, weights)
        ctx.save_for_backward(z, log_scale)
        ctx.shape = mean.shape
        squares = torch.linalg.vector_norm(z, dim=-1).square()
        count = z.shape[-1] / log_scale.numel()
        logs = log_scale.sum() * count + 0.5 * math.log(math.tau) * z.shape[-1]
        log_q: Tensor = -0.5 * squares - logs
        return log_q

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        z, log_scale = ctx.saved_tensors
        rows, g = z.flatten(0, -2), grad.flatten()
        mean = (g @ rows).view(ctx.shape) * (-log_scale).exp()
        if not ctx.needs_input_grad[1]:
            return mean, None, None
        spread = (g @ rows.square() - g.sum()).view(ctx.shape)
        return mean, spread.sum_to_size(log_scale.shape), None


def parts_of(module: nn.Module, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Yield the module and all of its parts by name, one that is used twice under both names.

    It reads what is registered: a class may override `named_modules`, and hide a part of Q there.
    """
    yield name, module
    for key, part in vars(module)["_modules"].items():
        if part is not None:
            yield from parts_of(part, f"{name}.{key}" if name else key)


def _tensors(
    module: nn.Module, kind: Literal["_parameters", "_buffers"]
) -> Iterator[tuple[str, Tensor]]:
    """Yield every registered tensor once, by its first name."""
    seen: set[int] = set()
    for name, part in parts_of(module):
        for key, tensor in vars(part)[kind].items():
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                yield f"{name}.{key}" if name else key, tensor


def gaussians(module: nn.Module) -> dict[str, Gaussian]:
    """Return every Gaussian in the module by its name there.

    Raises:
        ValueError: a Gaussian has two names. Its KL would count once, but layers that draw locally
            would draw it twice.
    """
    found: dict[str, Gaussian] = {}
    names: dict[int, str] = {}
    for name, m in parts_of(module):
        if isinstance(m, Gaussian):
            if names.setdefault(id(m), name) != name:
                raise ValueError(
                    f"one Gaussian is used as {names[id(m)]} and as {name}; "
                    "give every layer its own weights"
                )
            found[name] = m
    return found


def drawn_state(module: nn.Module, generator: np.random.Generator) -> dict[str, Tensor]:
    """Draw θ ~ Q and return the state in which every Gaussian is a point mass at θ.

    Whatever a module does with its Gaussians (sample them, use their means or their moments), in
    this state it is evaluated at θ. So no module has to be trusted to sample from Q.
    """
    state = {}
    for name, g in gaussians(module).items():
        noise = torch.from_numpy(generator.standard_normal(tuple(g.mean.shape))).to(g.mean)
        state[f"{name}.mean"] = (g.mean + g.log_scale.exp() * noise).detach()
        state[f"{name}.log_scale"] = torch.full_like(g.log_scale, -math.inf)
    return state


def kl(module: nn.Module) -> Tensor:
    """Return KL(Q|P) over all Gaussians in the module, a float64 scalar with a gradient.

    Raises:
        ValueError: a trainable parameter is not part of a Gaussian, so Q does not cover it.
    """
    _refuse_parameters_outside(module)
    parts = [g.kl() for g in gaussians(module).values()]
    return torch.stack(parts).sum() if parts else torch.zeros((), dtype=torch.float64, device=CPU)


def kl_by_part(module: nn.Module) -> dict[str, float]:
    """Return the same KL for every Gaussian, by its name in the network."""
    _refuse_parameters_outside(module)
    return {name: divergence(law_of(g)).item() for name, g in gaussians(module).items()}


def digest_outside(module: nn.Module) -> str:
    """Return a SHA-256 of every parameter and buffer outside all Gaussians, in any precision.

    They predict without being part of Q, so they must not change after data were seen.
    """
    hasher = hashlib.sha256()
    for name, tensor in _outside(module):
        value = tensor.detach().cpu()
        exact = value.double() if value.is_floating_point() else value
        hasher.update(f"{name} {tuple(exact.shape)}".encode())
        hasher.update(exact.contiguous().numpy().tobytes())
    return hasher.hexdigest()


def has_state_outside(module: nn.Module) -> bool:
    """Return whether anything but Gaussians takes part in predictions."""
    return bool(_outside(module))


def _outside(module: nn.Module) -> list[tuple[str, Tensor]]:
    every = (*_tensors(module, "_parameters"), *_tensors(module, "_buffers"))
    inside = _inside(module)
    return sorted((name, tensor) for name, tensor in every if id(tensor) not in inside)


def _inside(module: nn.Module) -> set[int]:
    """Return the identities of all tensors of Gaussians."""
    every = gaussians(module).values()
    both = [(*_tensors(g, "_parameters"), *_tensors(g, "_buffers")) for g in every]
    return {id(tensor) for tensors in both for _, tensor in tensors}


def digest_prior(module: nn.Module) -> str:
    """Return a SHA-256 of the priors of all Gaussians, the same in any precision."""
    hasher = hashlib.sha256()
    for g in gaussians(module).values():
        for tensor in (g.prior_mean, g.prior_log_scale):
            hasher.update(tensor.detach().cpu().double().numpy().tobytes())
    return hasher.hexdigest()


def _refuse_parameters_outside(module: nn.Module) -> None:
    inside, every = _inside(module), _tensors(module, "_parameters")
    outside = [name for name, p in every if p.requires_grad and id(p) not in inside]
    if outside:
        raise ValueError(
            f"trainable parameters outside the posterior: {', '.join(outside)}; "
            "make them Gaussian layers or freeze them with requires_grad_(False)"
        )
