"""A plain copy of a network, rebuilt from its tensors: all that a certificate asks for a number.

An object can lie about itself: by its class, by an attribute in the place of a method, by a hook,
by a tensor of its own class. So a certificate is never computed from the network that is given.
Each of the library's parts is built anew from tensors, rules and heads; a part is refused unless
its class, and what it holds, are those of the part built anew. A module of the user's own remains
the user's: it is copied, and evaluated at weights that the library draws, so what its code says of
a Gaussian is never asked. It is refused where it could reach weights that are not drawn.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from pacbayes.data.tasks import Binary, Classes, Task
from pacbayes.devices import in_float64, wide
from pacbayes.networks.activations import FUNCTIONS
from pacbayes.networks.bodies import Body, Dense, Deterministic, Evaluated, Sampled, place
from pacbayes.networks.families import law_of, rotated
from pacbayes.networks.families.diagonal import Gaussian, GaussianLinear, rebuilt
from pacbayes.networks.families.rotated import Rotated, Smoothness
from pacbayes.networks.heads import HEADS
from pacbayes.networks.network import Network
from pacbayes.networks.outputs import ACTIVATIONS, OutputActivation, OutputNetwork, Strip
from pacbayes.networks.posterior import gaussians, parts_of

__all__ = ["holds_arrays", "plain_copy", "plain_tensor"]

_Network = TypeVar("_Network", Network, OutputNetwork)
_OWN = (
    *(Network, OutputNetwork, GaussianLinear, Gaussian, Rotated, Smoothness),
    *(Dense, Deterministic, Sampled, Evaluated),
    *(Task, Binary, Classes, OutputActivation, Strip),
)
_ADVICE = (
    "own posteriors cannot be certified yet: use the library's Gaussian layers and bodies as they "
    "are, and stochastic(module) for a module of your own"
)
_READ = ("training", "architecture", "baseline", "head", "rules", "places", "activation", "_bases")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_DEEP = 4  # levels of containers, closures and objects that are searched


def _methods(own: type) -> dict[str, object]:
    """Return a class's methods and values, without what Python itself notes in a class."""
    every = {k: v for k, v in vars(own).items() if callable(v) or not k.startswith("__")}
    return every | {"bases": own.__bases__}


_AS_IMPORTED = {own: _methods(own) for own in _OWN}
_FUNCTIONS, _ACTIVATIONS = dict(FUNCTIONS), [replace(known) for known in ACTIVATIONS.values()]


def plain_copy(network: _Network) -> _Network:
    """Return a network in float64 and evaluation mode, built anew from tensors alone.

    It is on the CPU if the network's device has no float64.

    Raises:
        ValueError: a part of the network is not the library's own, or not as the library made it.
    """
    _check_classes()
    kind = OutputNetwork if type(network) is OutputNetwork else Network
    state = _state(network, kind, "the network")
    given = gaussians(network)  # refuses one with two names
    parts = state["_modules"]
    body, layer = _body(parts.get("body")), _layer(parts.get("layer"), "layer")
    if kind is OutputNetwork:
        made: Any = OutputNetwork(body, layer, _activation(state.get("activation")))
    else:
        made = Network(body, layer, _known(state.get("head"), HEADS, "the head"))
        made._drawn_by = state.get("_drawn_by")
    made._sealed = state.get("_sealed")
    _compare(network, made, "")
    exact: _Network = in_float64(made).eval()
    if isinstance(exact.body, Deterministic | Sampled | Evaluated):
        _check_own(exact.body.module)  # it was copied and converted by its own methods
        _check_same(given, gaussians(exact))
    return exact


def _check_classes() -> None:
    for own, methods in _AS_IMPORTED.items():
        now = _methods(own)
        for name in now.keys() | methods.keys():
            if now.get(name) is not methods.get(name):
                raise _fault(f"{own.__name__}.{name} was changed after it was imported")
    if FUNCTIONS != _FUNCTIONS:
        raise _fault("the table of activations was changed after it was imported")


def plain_tensor(tensor: object, name: str) -> Tensor:
    """Return a tensor without a gradient, nor anything else that was attached to it."""
    if type(tensor) not in (Tensor, nn.Parameter):
        raise _fault(f"{name} is a {type(tensor).__name__}, not a plain tensor")
    return Tensor.detach(tensor)  # type: ignore[arg-type]


def holds_arrays(value: object) -> bool:
    """Return whether a value is a tensor or an array, or a container of one."""
    return any(isinstance(found, Tensor | np.ndarray) for found in _reached(value))


def _body(part: object) -> Body:
    if type(part) is Dense:
        state = _state(part, Dense, "body")
        layers = _state(state["_modules"].get("layers"), nn.ModuleList, "body.layers")["_modules"]
        rules = [_known(rule, FUNCTIONS, "a rule of the body") for rule in state.get("rules", [])]
        return Dense([_layer(layer, f"body.layers.{i}") for i, layer in layers.items()], rules)
    if type(part) is Evaluated:
        return _evaluated(part)
    for kind in (Deterministic, Sampled):
        if type(part) is kind:
            return kind(_copied(_state(part, kind, "body")["_modules"].get("module")))
    raise _fault(f"body ({type(part).__name__}) is not one of the library's own")


def _evaluated(body: Evaluated) -> Evaluated:
    parts = _state(body, Evaluated, "body")["_modules"]
    made = Evaluated(nn.Identity())
    made.module = _copied(parts.get("module"))
    if gaussians(made.module):
        raise _fault("body.module has Gaussian weights of its own")
    made.posterior = nn.Module()
    for name, g in gaussians(_posterior(parts.get("posterior"))).items():
        place(made.posterior, name, _gaussian(g, f"body.posterior.{name}"))
    places = vars(body).get("places")
    if type(places) is not dict or set(places) != set(gaussians(made.posterior)):
        raise _fault("body.places was changed")
    made.places = {name: list(every) for name, every in places.items()}
    return made


def _posterior(part: object) -> nn.Module:
    if type(part) is not nn.Module:
        raise _fault(f"body.posterior ({type(part).__name__}) is not one of the library's own")
    return part


def _layer(part: object, name: str) -> GaussianLinear:
    parts = _state(part, GaussianLinear, name)["_modules"]
    made = GaussianLinear(0, 0)  # whose tensors are replaced
    made.weight = _gaussian(parts.get("weight"), f"{name}.weight")
    made.bias = _gaussian(parts.get("bias"), f"{name}.bias")
    return made


def _gaussian(part: object, name: str) -> Gaussian:
    """Build a Gaussian from the four tensors of another."""
    family = Rotated if type(part) is Rotated else Gaussian
    state = _state(part, family, name)
    both = {**state["_buffers"], **state["_parameters"]}
    tensors = {key: plain_tensor(tensor, f"{name}.{key}") for key, tensor in both.items()}
    for key, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise _fault(f"{name}.{key} has numbers of the type {tensor.dtype}")
    try:
        learned = "log_scale" in state["_parameters"]
        made = (
            rebuilt(tensors, learned_scale=learned)
            if family is Gaussian
            else rotated.rebuilt(tensors, state.get("smoothness"), learned_scale=learned)
        )
    except ValueError as error:
        raise _fault(f"{name}.{error}") from None
    _compare(part, made, name)
    return made


def _activation(given: object) -> OutputActivation:
    """Return an activation of the library's; another's expectations would be its own word."""
    for known in _ACTIVATIONS:
        if type(given) is OutputActivation and given == known:
            return known
    raise _fault("the output activation is not one of the library's own")


def _known(given: Any, allowed: Any, name: str) -> Any:
    if not any(given is known for known in allowed):
        raise _fault(
            f"{name} ({getattr(given, '__name__', given)}) is not one of the library's own"
        )
    return given


def _copied(module: object) -> nn.Module:
    """Copy a module of the user's own; refuse what it could use in the place of drawn weights."""
    if not isinstance(module, nn.Module):
        raise _fault(f"body.module ({type(module).__name__}) is not a module")
    _check_own(module)
    return copy.deepcopy(module)


def _check_same(given: dict[str, Gaussian], copied: dict[str, Gaussian]) -> None:
    """Refuse a module whose copy has other weights than it has itself."""
    pairs = [(g, copied[name]) for name, g in given.items() if name in copied]
    every = [(wide(a), b) for g, h in pairs for a, b in zip(law_of(g), law_of(h), strict=True)]
    if not given.keys() == copied.keys() or not all(
        torch.allclose(a, b, rtol=0, atol=0, equal_nan=True) for a, b in every
    ):
        raise _fault("body.module copies itself with other Gaussian weights")


def _check_own(module: nn.Module) -> None:
    """Check the Gaussians in a user's module, and that it can reach no other weights."""
    parts = dict(parts_of(module, "body.module"))
    registered, fresh = {id(part) for part in parts.values()}, vars(nn.Module())
    for name, part in parts.items():
        if isinstance(part, Gaussian):
            _gaussian(part, name)
            continue
        for key, value in vars(part).items():
            if callable(getattr(nn.Module, key, None)):
                raise _fault(f"{name} has a method {key!r} of its own; write it into a class")
            if key in _HOOKS and value:
                raise _fault(f"{name} has a forward hook; write it into the forward of a class")
            for found in _reached(value) if key not in fresh else ():
                if isinstance(found, nn.Module) and id(found) not in registered:
                    raise _fault(f"{name}.{key} reaches a module outside body.module")
                if isinstance(found, Tensor | np.ndarray):
                    raise _fault(
                        f"{name}.{key} holds a tensor that nothing hashes; make it a buffer"
                    )


def _reached(value: object) -> Iterator[object]:
    """Yield a value and what it holds: in containers, objects, closures and arguments."""
    level, seen = [value], set()
    for _ in range(_DEEP):
        yield from level
        seen |= {id(item) for item in level}
        level = [item for outer in level for item in _held(outer) if id(item) not in seen]


def _held(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, FunctionType):
        defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        return [*map(_content, value.__closure__ or ()), *defaults]
    if isinstance(value, nn.Module | Tensor | np.ndarray | type | ModuleType):
        return []
    return list(getattr(value, "__dict__", {}).values())


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _state(part: object, kind: type, name: str) -> dict[str, Any]:
    """Return what a part holds; refuse one of another class."""
    if type(part) is not kind:
        raise _fault(f"{name} ({type(part).__name__}) is not one of the library's own")
    return vars(part)


def _compare(given: object, made: nn.Module, name: str) -> None:
    """Refuse a part that does not hold exactly what the part built anew does."""
    shown = name or "the network"
    own, expected = _state(given, type(made), shown), vars(made)
    for key in sorted(own.keys() ^ expected.keys()):
        raise _fault(f"{shown} has {key!r} of its own" if key in own else f"{shown} has no {key!r}")
    for key in sorted(expected.keys() - set(_READ)):
        _compare_values(own[key], expected[key], f"{shown}.{key}")
    for key, part in expected["_modules"].items():
        if not (key == "module" and isinstance(made, Deterministic | Sampled | Evaluated)):
            _compare(own["_modules"][key], part, f"{name}.{key}" if name else key)


def _compare_values(own: object, expected: object, name: str) -> None:
    same = type(own) is type(expected) and _plainly(own) == _plainly(expected)
    if not same:
        raise _fault(f"{name} is not as the library made it")


def _plainly(value: Any) -> object:
    """Return what is compared: of tensors, hooks and modules the names and classes."""
    if isinstance(value, dict):
        return {key: type(held) for key, held in value.items()}
    return value, getattr(value, "__dict__", None)


def _fault(fault: str) -> ValueError:
    return ValueError(f"{fault}; {_ADVICE}")
