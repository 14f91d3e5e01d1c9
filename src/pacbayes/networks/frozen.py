"""Features of a frozen body: computed once, in evaluation mode, and cached by hash."""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType

import numpy as np
import torch
from torch import Tensor, nn

from pacbayes.data.foreign import ask
from pacbayes.data.idx import cache_folder
from pacbayes.files import DamagedFileError, load_tensors, save_tensors
from pacbayes.networks.families.diagonal import Gaussian

__all__ = ["cache_path", "cached_features", "frozen_features", "frozen_sha256"]

_FORMAT = 1  # of cached files; raise it when features would be computed differently
_CLOSE = {torch.float32: 1e-4, torch.float64: 1e-9}  # relative rounding in batches of other sizes
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.Size)


def frozen_features(
    module: nn.Module, x: Tensor, *, batch_size: int = 256, cache: bool | Path = False
) -> Tensor:
    """Return a frozen module's features of examples, (n, d), without a gradient.

    The module runs on a copy in evaluation mode, so that batch norm uses the statistics that it
    has and dropout is off. The features are then data like any other: train and certify a network
    on them, and put the module's `frozen_sha256` among the certificate's assumptions.

    Args:
        module: maps examples (B, …) to features (B, d), each by itself; it must not have seen the
            bound set.
        x: examples, (n, …), on the module's device.
        cache: keep the features in the folder of cached data, or in a folder of your own. A file
            is used only if module, examples and its contents have their hashes, and if its first
            features are the ones that the module computes now.

    Raises:
        ValueError: the module mixes examples, draws random numbers, changes when it is evaluated,
            has Gaussian weights, or does not return finite features (B, d).
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    if x.dim() < 2 or not len(x):
        raise ValueError(f"examples must have a shape (n, …) with n ≥ 1, got {tuple(x.shape)}")
    if any(isinstance(part, Gaussian) for part in module.modules()):
        raise ValueError("a module with Gaussian weights is not frozen; train it as a network")
    body, before = copy.deepcopy(module).eval(), frozen_sha256(module)
    with torch.no_grad():
        first = _checked(body, x[:batch_size])
        path = cache_path(cache, before, x)
        found = None if path is None else cached_features(path, first, len(x))
        if found is not None:
            return found.to(first.device)
        blocks = [first, *(_features(body, block) for block in x[batch_size:].split(batch_size))]
    if frozen_sha256(body) != before:
        raise ValueError(
            "the module changes when it is evaluated; features must not depend on earlier "
            "examples: leave out its running statistics or counters"
        )
    features = torch.cat(blocks)
    if path is not None:
        with suppress(OSError):  # a cache that cannot be written costs time alone
            path.parent.mkdir(parents=True, exist_ok=True)
            save_tensors(path, {"features": features.cpu()})
    return features


def frozen_sha256(module: nn.Module) -> str:
    """Return a SHA-256 of a module: its structure, code, attributes, parameters and buffers.

    Training mode and gradients do not count. Functions that the module's methods call are not
    covered.
    """
    hasher = hashlib.sha256(f"pacbayes frozen {_FORMAT}".encode())
    for name, part in module.named_modules(remove_duplicate=False):
        hasher.update(f"\n{name} {_name(type(part))}".encode())
        for kind in type(part).__mro__:
            if kind is not object and kind.__module__.split(".")[0] != "torch":
                hasher.update(_code(kind).encode())
        own = {k: v for k, v in vars(part).items() if k not in vars(nn.Module())}
        for piece in _pieces({**own, **part._parameters, **part._buffers}):
            hasher.update(piece)
    return hasher.hexdigest()


def _name(thing: object) -> str:
    """Return the qualified name of a class or function, or of the class of anything else."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}.{named.__qualname__}"


def _code(thing: type | FunctionType) -> str:
    """Return the source of a class or function, or what Python compiled where there is none."""
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        functions = [thing] if isinstance(thing, FunctionType) else list(vars(thing).values())
        return repr([_compiled(f.__code__) for f in functions if isinstance(f, FunctionType)])


def _compiled(code: CodeType) -> tuple[object, ...]:
    inner = [_compiled(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return code.co_name, code.co_code, code.co_names, inner


def _pieces(value: object) -> Iterator[bytes]:
    """Yield the contents of an attribute, or the name of its class if it is not plain."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().resolve_conj().numpy()
    if isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            yield f"\n{key}=".encode()
            yield from _pieces(value[key])
    elif isinstance(value, list | tuple | set):
        yield f"{len(value)} of ".encode()
        for item in sorted(value, key=str) if isinstance(value, set) else value:
            yield from _pieces(item)
    elif isinstance(value, FunctionType):
        yield _code(value).encode()
    else:
        yield (repr(value) if isinstance(value, _PLAIN) else _name(value)).encode()


def _features(body: nn.Module, x: Tensor) -> Tensor:
    a = ask(body, x)
    if not isinstance(a, Tensor) or a.dim() != 2 or len(a) != len(x):
        shown = tuple(a.shape) if isinstance(a, Tensor) else type(a).__name__
        raise ValueError(
            f"a frozen body must return features of shape ({len(x)}, d) for {len(x)} examples, got "
            f"{shown}; end it with nn.Flatten() or a mean over positions"
        )
    if not a.isfinite().all():
        raise ValueError("a frozen body must return finite features, got some that are not")
    return a


def _checked(body: nn.Module, x: Tensor) -> Tensor:
    """Return features; refuse a module that mixes examples or draws random numbers."""
    a, half = _features(body, x), (len(x) + 1) // 2
    for part, alone in ((a.flip(0)[:half], x.flip(0)[:half]), (a[-1:], x[-1:])):
        if not _close(part, _features(body, alone)):
            raise ValueError(
                "the module returns different features for an example alone or in another batch "
                "(randomness of its own, or statistics of the batch); a frozen body must evaluate "
                "every example by itself: use batch norm with running statistics, and no noise"
            )
    return a


def _close(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    tolerance = _CLOSE.get(b.dtype, 1e-2) * a.abs().max().clamp(min=1e-30)
    return bool(((a - b).abs() <= tolerance).all())


def cache_path(cache: bool | Path, body: str, x: Tensor) -> Path | None:
    """Return the file of features, named by the hashes of the module and of the examples."""
    if cache is False:
        return None
    hasher = hashlib.sha256(body.encode())
    for piece in _pieces(x):
        hasher.update(piece)
    folder = cache_folder() / "features" if cache is True else Path(cache)
    return folder / f"{hasher.hexdigest()}.safetensors"


def cached_features(path: Path, first: Tensor, n: int) -> Tensor | None:
    """Return the features of a file, if it is whole and begins with features computed now."""
    try:
        found = load_tensors(path)[0].get("features")
    except (OSError, DamagedFileError):
        return None
    if found is None or found.dim() != 2 or len(found) != n:
        return None
    return found if _close(found[: len(first)], first.cpu()) else None
