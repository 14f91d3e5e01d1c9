"""A stochastic network from any module: Q and P over all of its parameters."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import is_lazy
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from pacbayes.data.foreign import give
from pacbayes.devices import CPU
from pacbayes.networks.bodies import Body, Deterministic, Evaluated
from pacbayes.networks.families.diagonal import (
    INITIAL_VARIANCE,
    Gaussian,
    GaussianLinear,
    truncated_normal,
)
from pacbayes.networks.network import Network
from pacbayes.networks.plain import holds_arrays
from pacbayes.networks.posterior import gaussians
from pacbayes.randomness import aside, seeded

__all__ = ["Start", "draw_order", "drawn_means", "fold_batch_norm", "stochastic"]

_NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


def stochastic(
    module: nn.Module,
    last: str | nn.Linear | None = None,
    *,
    scale: float = 1.0,
    learned_scale: bool = True,
    seed: int | None = None,
    example: Tensor | None = None,
) -> Network:
    """Make a network with Q and P over every trainable parameter of a deterministic module.

    The module's final `nn.Linear` becomes the last layer, which is integrated exactly; the rest is
    evaluated at drawn parameters. The module itself is not changed. Frozen parameters and buffers
    stay outside Q: they must not have seen the bound set. If all but the last layer is frozen, the
    network's output is exact.

    Args:
        module: maps examples (B, …) to scores: one for two classes, one each for more.
        last: name of the module's final `nn.Linear`, after which nothing may follow; found by
            itself in an `nn.Sequential`, or with an example. Or a layer to put on top of a module
            without one.
        scale: prior standard deviation of every parameter.
        learned_scale: whether Q has a trainable standard deviation for every parameter.
        seed: draw the prior's means anew, weights and biases as those of a dense network and norms
            as one and zero; a certificate pays for the seed. None takes the module's own
            parameters, which must not have seen the bound set.
        example: a batch (B, …) to find the final layer with, if the module is not a sequence.

    Raises:
        ValueError: the module has randomness or a memory of its own, or no final layer was found.
    """
    rest, linear = _split(copy.deepcopy(module), last, example)
    for part in (rest, linear):
        _check(part)
    layer = _gaussian(linear, scale, learned_scale)
    if any(p.requires_grad for p in rest.parameters()):
        body: Body = Evaluated(rest, scale=scale, learned_scale=learned_scale)
    else:
        body = Deterministic(rest)
    network = Network(body, layer)
    if seed is not None:
        _set_means(network, drawn_means(network, seed))
    network.set_prior_seed(seed)
    return network


@dataclass(frozen=True)
class Start:
    """Where a data-free prior has the means of one Gaussian: drawn, or at one or zero."""

    name: str
    shape: tuple[int, ...]
    kind: Literal["normal", "one", "zero"]


def draw_order(network: Network) -> list[Start]:
    """Return every Gaussian of a network in the order in which a data-free prior is drawn."""
    found = []
    for name, g in gaussians(network).items():
        owner, kind = _owner(network.body, name), "normal"
        if isinstance(owner, _NORMS):
            kind = "one" if name.endswith(".weight") else "zero"
        found.append(Start(name, tuple(g.mean.shape), kind))  # type: ignore[arg-type]
    return found


def drawn_means(network: Network, seed: int) -> dict[str, Tensor]:
    """Draw the means of a data-free prior: those of norms are one and zero, all others normal.

    Every Gaussian is drawn once, so that `verify` can draw the same from names and shapes alone.
    """
    deviation, fixed = math.sqrt(INITIAL_VARIANCE), {"one": torch.ones, "zero": torch.zeros}
    with seeded(seed, "prior"):
        return {
            start.name: truncated_normal(start.shape, deviation)
            if start.kind == "normal"
            else fixed[start.kind](start.shape, device=CPU)
            for start in draw_order(network)
        }


def _owner(body: Body, name: str) -> nn.Module | None:
    """Return the part of the module that has a Gaussian's draw as its parameter."""
    prefix = "body.posterior."
    if not isinstance(body, Evaluated) or not name.startswith(prefix):
        return None
    return body.module.get_submodule(name.removeprefix(prefix).rpartition(".")[0])


def _split(
    module: nn.Module, last: str | nn.Linear | None, example: Tensor | None
) -> tuple[nn.Module, nn.Linear]:
    """Take the final layer out of a module, where the identity stays."""
    if isinstance(last, nn.Linear):
        return module, copy.deepcopy(last)
    name = (_final(module) or _called_last(module, example)) if last is None else last
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
    return ".".join(path) if type(module) is nn.Linear else None


@torch.no_grad()
def _called_last(module: nn.Module, example: Tensor | None) -> str | None:
    """Return the name of the `nn.Linear` whose output, unchanged, is that of the module."""
    if example is None:
        return None
    module = copy.deepcopy(module).eval()
    calls: list[tuple[str, Tensor, int]] = []

    def note(name: str, output: Tensor) -> None:
        calls.append((name, output, output._version))

    linears = [(name, m) for name, m in module.named_modules() if type(m) is nn.Linear]
    for name, linear in linears:
        linear.register_forward_hook(lambda _, __, output, name=name: note(name, output))
    output = give(module, example)
    names = [name for name, _, _ in calls]
    for name, own, version in calls:
        if own is output and output._version == version and names.count(name) == 1:
            return name
    return None


def _gaussian(linear: nn.Linear, scale: float, learned_scale: bool) -> GaussianLinear:
    shape = linear.in_features, linear.out_features
    with aside():  # the means it draws are replaced
        layer = GaussianLinear(*shape, scale=scale, learned_scale=learned_scale)
    bias = linear.weight.new_zeros(linear.out_features) if linear.bias is None else linear.bias
    layer.weight = Gaussian(
        *linear.weight.shape, scale=scale, learned_scale=learned_scale, mean=linear.weight
    )
    layer.bias = Gaussian(*bias.shape, scale=scale, learned_scale=learned_scale, mean=bias)
    return layer


@torch.no_grad()
def _set_means(network: Network, means: dict[str, Tensor]) -> None:
    every = gaussians(network)
    for name, mean in means.items():
        every[name].mean.copy_(mean)
        every[name].prior_mean.copy_(mean)


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
    if stray := [name for name, value in own.items() if holds_arrays(value)]:
        yield f"holds a tensor {stray[0]} that nothing hashes; make it a parameter or a buffer"


_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def fold_batch_norm(module: nn.Module) -> nn.Module:
    r"""Return a copy in evaluation mode whose batch norms are part of the layers before them.

        γ·((W∗a + b) − m)/√(v + ε) + β  =  (γW/√(v + ε))∗a + γ·(b − m)/√(v + ε) + β

    Only statistics of data that a prior may learn from can be folded: the result is a prior's mean.
    A batch norm stays, with its statistics frozen, where no linear layer or convolution feeds it
    alone.

    Raises:
        ValueError: the module's order of layers depends on its input.
    """
    folded = copy.deepcopy(module).eval()
    if not any(isinstance(part, _BatchNorm) for part in folded.modules()):
        return folded
    parts = dict(folded.named_modules())
    for before, norm in _pairs(folded):
        layer, batch_norm = parts[before], parts[norm]
        if isinstance(layer, nn.Linear):
            fused: nn.Module = fuse_linear_bn_eval(layer, batch_norm)
        else:
            fused = fuse_conv_bn_eval(layer, batch_norm)
        trained = any(p.requires_grad for p in (*layer.parameters(), *batch_norm.parameters()))
        fused.requires_grad_(trained)  # the new bias too
        folded.set_submodule(before, fused)
        folded.set_submodule(norm, nn.Identity())
    return folded


def _pairs(module: nn.Module) -> list[tuple[str, str]]:
    """Return names of layers and of the batch norms that alone use their output."""
    try:
        graph = fx.symbolic_trace(module).graph
    except Exception as error:  # whatever a forward function does with a stand-in for tensors
        raise ValueError(
            f"the order of layers in {type(module).__name__} depends on its input ({error}); fold "
            "its parts one by one, or freeze their statistics with eval()"
        ) from error
    calls = [str(node.target) for node in graph.nodes if node.op == "call_module"]
    found = []
    for node in graph.nodes:
        if node.op != "call_module" or not isinstance(_part(module, node), _BatchNorm):
            continue
        before = node.args[0]
        once = all(calls.count(str(n.target)) == 1 for n in (before, node))
        if before.op == "call_module" and len(before.users) == 1 and once:
            layer = _part(module, before)
            if type(layer) is nn.Linear or type(layer) in _CONVOLUTIONS:
                found.append((str(before.target), str(node.target)))
    return found


def _part(module: nn.Module, node: fx.Node) -> nn.Module:
    return module.get_submodule(str(node.target))
