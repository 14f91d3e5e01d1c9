"""Batch norm folded into the layer before it: the same function, with nothing left to move."""

from __future__ import annotations

import copy

from torch import fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = ["fold_batch_norm"]

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
