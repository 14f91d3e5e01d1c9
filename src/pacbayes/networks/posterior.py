"""The posterior of a whole module: its Gaussians by name, their KL, hashes, and keyed draws.

The key of a certificate's draws is a hash of posterior and data, which leaves nothing to choose. A
seed could be tried again until the draws are lucky. The hash is taken for a random oracle: its
draws count as independent of everything that was chosen before it. Whoever changes a posterior
until its draws are lucky still cheats, so a certificate assumes that nobody did.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor, nn

from pacbayes.devices import CPU
from pacbayes.networks.families import diagonal, law_of, of_posterior, rounding
from pacbayes.networks.families.diagonal import (
    Gaussian,
    divergence,
    drawn,
    point_mass,
)
from pacbayes.networks.families.rotated import Rotated

if TYPE_CHECKING:
    from pacbayes.networks.network import Network

__all__ = [
    "Weights",
    "digest_outside",
    "digest_prior",
    "drawn_state",
    "draws_key",
    "gaussians",
    "has_state_outside",
    "kl",
    "kl_by_part",
    "names_of_posterior",
    "outputs_key",
    "parts_of",
    "saved_posterior",
    "sealed",
    "weights_from",
]

Weights = dict[str, Tensor]


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
    state: dict[str, Tensor] = {}
    for name, g in gaussians(module).items():
        law = law_of(g)
        noise = torch.from_numpy(generator.standard_normal(tuple(law.mean.shape))).to(law.mean)
        here = point_mass(law, drawn(law, noise))
        state |= {f"{name}.{key}": tensor for key, tensor in here.items()}
    return state


def weights_from(module: nn.Module, generator: np.random.Generator) -> Weights:
    """Draw θ ~ Q and return the weights by the names of their Gaussians."""
    weights = {}
    for name, g in gaussians(module).items():
        law = law_of(g)
        noise = torch.from_numpy(np.asarray(generator.standard_normal(law.mean.shape)))
        weights[name] = drawn(law, noise.to(law.mean))
    return weights


def names_of_posterior(module: nn.Module) -> set[str]:
    """Return the names of all tensors of Q, trained or not."""
    return {f"{name}.{key}" for name, g in gaussians(module).items() for key in of_posterior(g)}


def saved_posterior(module: nn.Module) -> dict[str, Tensor]:
    """Return what is saved of Q: trained parameters and bases. The rest is P's."""
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    every = gaussians(module).items()
    bases = {f"{k}.reflections": g.reflections for k, g in every if isinstance(g, Rotated)}
    return named | bases


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
    every = gaussians(module).items()
    return {name: divergence(law_of(g)).item() + rounding(g, g.mean) for name, g in every}


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
        for tensor in diagonal.law_of(g).prior:
            hasher.update(tensor.detach().cpu().double().numpy().tobytes())
        if isinstance(g, Rotated) and g.smoothness is not None:
            hasher.update(str(g.smoothness).encode())
    return hasher.hexdigest()


def sealed(module: nn.Module, then: tuple[str, str] | None) -> tuple[str, str]:
    """Return digests of the prior and of the state outside Q; refuse others than they were."""
    now = digest_prior(module), digest_outside(module)
    if then is not None and now[0] != then[0]:
        raise ValueError(
            "the prior changed after the network first saw data; build a new network and set "
            "its prior before it sees its bound set"
        )
    if then is not None and now[1] != then[1]:
        raise ValueError(
            "parameters or buffers outside the posterior changed after the network first saw "
            "data (batch-norm statistics?); freeze them or make them part of Q"
        )
    return now


def _refuse_parameters_outside(module: nn.Module) -> None:
    inside, every = _inside(module), _tensors(module, "_parameters")
    outside = [name for name, p in every if p.requires_grad and id(p) not in inside]
    if outside:
        raise ValueError(
            f"trainable parameters outside the posterior: {', '.join(outside)}; "
            "make them Gaussian layers or freeze them with requires_grad_(False)"
        )


def draws_key(network: Network, x: Tensor, y: Tensor) -> bytes:
    """Return SHA-256 of every Gaussian of Q in the order of names, and of the bound set.

    Means and logarithms of scales count as float64, reflections of a basis and features as float32,
    and labels as int64 class indices, all little-endian. Shape and power of a smooth prior follow
    its posterior as float64.
    """
    hasher = _of_posterior(network)
    hasher.update(_bytes(x, "<f4"))
    hasher.update(_bytes(network.task.decode(y), "<i8"))
    return hasher.digest()


def outputs_key(network: nn.Module, x: Tensor, y: Tensor) -> bytes:
    """Return the same for labels that are numbers, which count as float64."""
    hasher = _of_posterior(network)
    hasher.update(_bytes(x, "<f4"))
    hasher.update(_bytes(y, "<f8"))
    return hasher.digest()


def _of_posterior(network: nn.Module) -> hashlib._Hash:
    hasher = hashlib.sha256()
    for _, g in sorted(gaussians(network).items()):
        for key, tensor in of_posterior(g).items():
            hasher.update(_bytes(tensor, "<f4" if key == "reflections" else "<f8"))
        if isinstance(g, Rotated) and g.smoothness is not None:
            hasher.update(np.array(g.smoothness.numbers, "<f8").data)
    return hasher


def _bytes(tensor: Tensor, kind: str) -> memoryview:
    return np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype=kind).data.cast("B")
