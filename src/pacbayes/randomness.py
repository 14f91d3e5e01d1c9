"""Independent random streams from one seed, one for each purpose, and every draw made from them.

Whatever the library draws by torch comes from the generators that `drawing_from` installs for the
current thread or asyncio task, never from torch's own generator, which belongs to the whole
process. Where none are installed, as in a loop of your own, torch's own is used, so that
`torch.manual_seed` decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "Generators",
    "Purpose",
    "aside",
    "category",
    "drawing_from",
    "generator_on",
    "integer",
    "keyed_generator",
    "normal",
    "normal_like",
    "one_by_one",
    "permutation",
    "redirected",
    "seeded",
    "stream",
    "uniform",
    "uniform_like",
]

Purpose = Literal["prior", "training", "prediction", "split", "prior training", "network"]
_NUMBERS: dict[Purpose, int] = {
    "prior": 0,
    "training": 1,
    "prediction": 3,
    "split": 4,
    "prior training": 5,
    "network": 6,  # the first weights of a module, before its prior is drawn or learned
}
_CPU = torch.device("cpu")


def stream(seed: int, purpose: Purpose) -> int:
    """Return a 64-bit seed for one purpose, from numpy's SeedSequence."""
    sequence = np.random.SeedSequence(seed, spawn_key=(_NUMBERS[purpose],))
    words = sequence.generate_state(1, np.uint64)
    return int(words[0])


def keyed_generator(key: bytes, *place: int) -> np.random.Generator:
    """Return the generator of one block of draws: the key's own SeedSequence at a place."""
    sequence = np.random.SeedSequence(int.from_bytes(key, "little"), spawn_key=place)
    return np.random.default_rng(sequence)


class Generators:
    """Torch generators from one seed: the CPU's, and one for every other device in use.

    Each kind of device has an algorithm of its own, so the same seed gives other numbers there.

    Args:
        seed: 64 bits.
        states: where generators continue, by type of device; others start from the seed.
    """

    def __init__(self, seed: int, states: Mapping[str, Tensor] | None = None) -> None:
        self._seed, self._states = seed, dict(states or {})
        self._made: dict[torch.device, torch.Generator] = {}
        self.on(_CPU)

    def on(self, device: torch.device) -> torch.Generator:
        """Return a device's generator."""
        if device not in self._made:
            generator = torch.Generator(device).manual_seed(self._seed)
            if device.type in self._states:
                generator.set_state(self._states[device.type])
            self._made[device] = generator
        return self._made[device]

    def states(self) -> dict[str, Tensor]:
        """Return where the generators are, by type of device, as tensors on the CPU."""
        return self._states | {d.type: g.get_state() for d, g in self._made.items()}


_current: ContextVar[Generators | None] = ContextVar("generators", default=None)


@contextmanager
def drawing_from(generators: Generators) -> Iterator[None]:
    """Draw from these generators inside the context, in this thread or asyncio task alone."""
    token = _current.set(generators)
    try:
        yield
    finally:
        _current.reset(token)


def seeded(seed: int, purpose: Purpose) -> AbstractContextManager[None]:
    """Draw from the stream of a seed and a purpose inside the context."""
    return drawing_from(Generators(stream(seed, purpose)))


def one_by_one(function: Callable[[Tensor], Tensor], x: Tensor, seed: int) -> Tensor:
    """Apply a function that draws to each example alone, from a stream of the example's own.

    Draws are then fresh for every new example, independent of its batch, and the same when the same
    example comes again.
    """
    key, out = stream(seed, "prediction").to_bytes(8, "little"), []
    for row in x.unbind():
        digest = hashlib.sha256(key + row.cpu().contiguous().numpy().tobytes()).digest()
        with drawing_from(Generators(int.from_bytes(digest[:8], "little"))):
            out.append(function(row.unsqueeze(0)))
    return torch.cat(out)


def generator_on(device: torch.device) -> torch.Generator | None:
    """Return the current generator of a device; None stands for torch's own."""
    generators = _current.get()
    return None if generators is None else generators.on(device)


def normal(shape: Sequence[int], like: Tensor) -> Tensor:
    """Draw standard normal numbers in the precision and on the device of another tensor."""
    generator = generator_on(like.device)
    return torch.randn(shape, dtype=like.dtype, device=like.device, generator=generator)


def normal_like(like: Tensor) -> Tensor:
    """Draw standard normal numbers in the shape and the layout of another tensor."""
    return torch.empty_like(like).normal_(generator=generator_on(like.device))


def uniform(shape: Sequence[int], like: Tensor) -> Tensor:
    """Draw numbers from [0, 1) in the precision and on the device of another tensor."""
    generator = generator_on(like.device)
    return torch.rand(shape, dtype=like.dtype, device=like.device, generator=generator)


def uniform_like(like: Tensor) -> Tensor:
    """Draw numbers from [0, 1) in the shape and the layout of another tensor."""
    return torch.empty_like(like).uniform_(generator=generator_on(like.device))


def category(probabilities: Tensor) -> Tensor:
    """Draw an index for every row of probabilities, (B, k)."""
    generator = generator_on(probabilities.device)
    return torch.multinomial(probabilities, 1, generator=generator).squeeze(-1)


def permutation(n: int) -> Tensor:
    """Draw an order of n examples on the CPU, the same for every device."""
    return torch.randperm(n, generator=generator_on(_CPU), device=_CPU)


def integer(high: int) -> int:
    """Draw an integer below a limit on the CPU, the same for every device."""
    return int(torch.randint(high, (), generator=generator_on(_CPU), device=_CPU))


def redirected() -> AbstractContextManager[object]:
    """Let code that is not ours draw from the current generators, if there are any.

    A module of the user's (dropout, `torch.randn`) or of torch's (`nn.init`) draws from torch's own
    generator, which every thread shares. Inside this context, and in this thread alone, each of its
    draws on the CPU is given the current generator instead, with the same numbers as torch's own
    generator would have given at that state. On other devices this holds for operations that take
    a generator; fused dropout on a GPU draws from the GPU's own.
    """
    generators = _current.get()
    return nullcontext() if generators is None else _Redirection(generators)


@contextmanager
def aside() -> Iterator[None]:
    """Redirect draws whose values do not matter; without current generators, to some of its own."""
    with drawing_from(_current.get() or Generators(0)), redirected():
        yield


class _Redirection(TorchDispatchMode):
    """Give every random operation without a generator the current one of its device."""

    supports_higher_order_operators = True  # they pass, and their operations come here

    def __init__(self, generators: Generators) -> None:
        super().__init__()
        self._generators = generators

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # to skip it, torch would import its compiler, which takes seconds

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = dict(kwargs or {})
        taking = _taking_generator(func)
        if taking is None or named.get("generator") is not None:
            return func(*args, **named)
        like = next((a for a in args if isinstance(a, Tensor)), None)
        given = named.get("device") or (torch.get_default_device() if like is None else like.device)
        generator = self._generators.on(torch.device(given))
        if (fill := _LIKE.get(func)) is not None:  # older releases have no other form of these
            return fill(torch.empty_like(*args, **named), generator=generator)
        return taking(*args, **named, generator=generator)


_LIKE: dict[Any, Callable[..., Tensor]] = {
    torch.ops.aten.randn_like.default: Tensor.normal_,
    torch.ops.aten.rand_like.default: Tensor.uniform_,
}
_FORMS: dict[Any, Any] = {op: op for op in _LIKE}  # of operations that were seen


def _taking_generator(func: Any) -> Any:
    """Return the form of an operation that takes a generator; None if there is none."""
    if func not in _FORMS:
        _FORMS[func] = _find_form(func)
    return _FORMS[func]


def _find_form(func: Any) -> Any:
    if not isinstance(func, torch._ops.OpOverload):
        return None
    if any(a.name == "generator" for a in func._schema.arguments):
        return func
    name = func._schema.overload_name
    return getattr(func.overloadpacket, f"{name}_generator" if name else "generator", None)
