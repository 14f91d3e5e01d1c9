"""A stochastic network from any module: Q and P over all of its parameters."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import is_lazy

from pacbayes.networks.evaluated import Evaluated
from pacbayes.networks.gaussian import INITIAL_VARIANCE, Gaussian, truncated_normal
from pacbayes.networks.layers import GaussianLinear
from pacbayes.networks.network import Network
from pacbayes.randomness import aside, seeded

__all__ = ["stochastic"]

_NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


def stochastic(
    module: nn.Module,
    last: str | nn.Linear | None = None,
    *,
    scale: float = 1.0,
    learned_scale: bool = True,
    seed: int | None = None,
) -> Network:
    """Make a network with Q and P over every trainable parameter of a deterministic module.

    The module's final `nn.Linear` becomes the last layer, which is integrated exactly; the rest is
    evaluated at drawn parameters. The module itself is not changed. Frozen parameters and buffers
    stay outside Q: they must not have seen the bound set.

    Args:
        module: maps examples (B, …) to scores: one for two classes, one each for more.
        last: name of the module's final `nn.Linear`, after which nothing may follow; found by
            itself in an `nn.Sequential`. Or a layer to put on top of a module without one.
        scale: prior standard deviation of every parameter.
        learned_scale: whether Q has a trainable standard deviation for every parameter.
        seed: draw the prior's means anew, weights and biases as those of a dense network and norms
            as one and zero; a certificate pays for the seed. None takes the module's own
            parameters, which must not have seen the bound set.

    Raises:
        ValueError: the module has randomness or a memory of its own, or no final layer was found.
    """
    body, linear = _split(copy.deepcopy(module), last)
    for part in (body, linear):
        _check(part)
    if seed is not None:
        with seeded(seed, "prior"), torch.no_grad():
            for part in (body, linear):
                _draw_means(part)
    layer = _gaussian(linear, scale, learned_scale)
    evaluated = Evaluated(body, scale=scale, learned_scale=learned_scale)
    network = Network(evaluated, layer)
    network.set_prior_seed(seed)
    return network


def _split(module: nn.Module, last: str | nn.Linear | None) -> tuple[nn.Module, nn.Linear]:
    """Take the final layer out of a module, where the identity stays."""
    if isinstance(last, nn.Linear):
        return module, copy.deepcopy(last)
    name = _final(module) if last is None else last
    linear = dict(module.named_modules()).get(name or "")
    if type(linear) is not nn.Linear or not name:
        raise ValueError(
            f"no final nn.Linear found in {type(module).__name__} (last={last!r}); name it, as in "
            "last='fc', or give a layer to put on top, as in last=nn.Linear(64, 10)"
        )
    module.set_submodule(name, nn.Identity())
    return module, linear


def _final(module: nn.Module) -> str | None:
    """Return the name of the last part of nested `nn.Sequential`."""
    path = []
    while isinstance(module, nn.Sequential) and len(module):
        path.append(str(len(module) - 1))
        module = module[-1]
    return ".".join(path) or None


def _gaussian(linear: nn.Linear, scale: float, learned_scale: bool) -> GaussianLinear:
    shape = linear.in_features, linear.out_features
    with aside():  # the means it draws are replaced
        layer = GaussianLinear(*shape, scale=scale, learned_scale=learned_scale)
    bias = torch.zeros(linear.out_features) if linear.bias is None else linear.bias
    layer.weight = Gaussian(
        *linear.weight.shape, scale=scale, learned_scale=learned_scale, mean=linear.weight
    )
    layer.bias = Gaussian(*bias.shape, scale=scale, learned_scale=learned_scale, mean=bias)
    return layer


def _draw_means(module: nn.Module) -> None:
    deviation = math.sqrt(INITIAL_VARIANCE)
    for part in module.modules():
        for name, p in part.named_parameters(recurse=False):
            if not p.requires_grad:
                continue
            if isinstance(part, _NORMS):
                p.fill_(1.0 if name == "weight" else 0.0)
            else:
                p.copy_(truncated_normal(tuple(p.shape), deviation))


def _check(module: nn.Module) -> None:
    """Refuse what Q cannot cover or a draw of θ does not determine."""
    for name, part in module.named_modules():
        if fault := next(_faults(part), None):
            raise ValueError(f"{name or 'the module'} ({type(part).__name__}) {fault}")


def _faults(part: nn.Module) -> Iterator[str]:
    if isinstance(part, Gaussian):
        yield "is Gaussian already; build Network(body, layer) from Gaussian layers"
    if isinstance(part, _BatchNorm) and (part.training or part.running_mean is None):
        yield (
            "normalises by the statistics of a batch, so that examples depend on each other; learn "
            "a prior with it on its own part of the data and fold it into the layer before "
            "(learn_prior does both, fold_batch_norm the latter), or freeze statistics from other "
            "data with eval()"
        )
    if isinstance(part, _DropoutNd) and part.p > 0:
        yield "adds noise that is not part of Q; set its p to 0, since drawn weights are noise"
    if any(is_lazy(p) for p in part.parameters(recurse=False)):
        yield "has no shape yet; call the module once on an example"
    if isinstance(part, nn.RNNBase):
        yield "keeps copies of its weights; use cells, such as nn.GRUCell, in a loop"
    own = {k: v for k, v in vars(part).items() if k not in vars(nn.Module())}
    if stray := [name for name, value in own.items() if _holds_arrays(value)]:
        yield f"holds a tensor {stray[0]} that nothing hashes; make it a parameter or a buffer"


def _holds_arrays(value: object) -> bool:
    """Return whether a value is a tensor or an array, or a container of one."""
    if isinstance(value, dict):
        return any(map(_holds_arrays, value.values()))
    if isinstance(value, list | tuple | set):
        return any(map(_holds_arrays, value))
    return isinstance(value, Tensor | np.ndarray)
