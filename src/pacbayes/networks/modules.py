"""Architectures other than dense: convolutions, and a function in a file of the user's own.

They are plain records, written to run.json, from which the same module can be built again.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import nn

from pacbayes.devices import CPU
from pacbayes.randomness import redirected, seeded

__all__ = ["Convolutions", "ModuleArchitecture", "OwnModule", "Shape", "grouped", "named_function"]

Shape = tuple[int, ...]
_LEAST_SIDE = 9  # of images that a kernel of 5 and one of 3, with strides of 2, leave a pixel of
Count = Annotated[int, Field(ge=1, le=10_000)]


class Convolutions(BaseModel):
    """2-d convolutions with relu, perhaps an average over a grid, and dense layers on top.

    Attributes:
        channels, kernels, strides: of every convolution.
        padding: keep the size of an image where the stride is one.
        batch_norm: after every convolution; for a prior that learns, which folds it.
        pooling: side of the grid of averages that images are reduced to; None leaves them.
        widths: of hidden dense layers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["conv"] = "conv"
    channels: Annotated[tuple[Count, ...], Field(min_length=1)] = (16, 32)
    kernels: tuple[Count, ...] = (5, 3)
    strides: tuple[Count, ...] = (2, 2)
    padding: bool = False
    batch_norm: bool = False
    pooling: Count | None = None
    widths: tuple[Count, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Convolutions:
        if not len(self.channels) == len(self.kernels) == len(self.strides):
            raise ValueError(
                f"every convolution needs channels, a kernel and a stride, got {self.channels}, "
                f"{self.kernels} and {self.strides}"
            )
        return self

    @classmethod
    def usual(cls, layers: int = 0, *, learned: bool, shape: Shape = ()) -> dict[str, Any]:
        """Return default fields: few weights where each costs, more where the prior learns them.

        Args:
            layers: number of convolutions that the user gave channels for; 0 for the default.
            shape: of an example; small images take other kernels.
        """
        found: dict[str, Any] = {"channels": (16, 32), "kernels": (5, 3), "strides": (2, 2)}
        if learned:
            found |= {"channels": (24, 32, 48, 64, 64), "strides": (1, 2, 1, 2, 1)}
            found |= {"kernels": (3,) * 5, "padding": True, "batch_norm": True, "pooling": 2}
        elif shape[1:] and min(shape[1:]) < _LEAST_SIDE:
            found |= {"kernels": (3, 3), "strides": (1, 2), "padding": True}
        if layers:  # of another number: kernels of 3, every other convolution halves the image
            found["kernels"] = (3,) * layers
            found["strides"] = tuple(1 + i % 2 for i in range(layers))
        return found

    @property
    def title(self) -> str:
        """The network in a few words, such as conv 5×5/2 to 16, 3×3/2 to 32."""
        each = zip(self.kernels, self.strides, self.channels, strict=True)
        text = ", ".join(f"{k}×{k}/{s} to {c}" for k, s, c in each)
        dense = "".join(f", dense {d}" for d in self.widths)
        return f"conv {text}{', batch norm' if self.batch_norm else ''}{dense}"

    def build(self, shape: Shape, outputs: int, seed: int = 0) -> nn.Module:
        """Build the module for images of a shape, with a number of scores."""
        if len(shape) != 3:
            raise ValueError(
                f"convolutions need images of shape (channels, height, width), got examples of "
                f"shape {shape}; use a data set of images or an .npz file of (n, c, h, w)"
            )
        sides = self._sides(shape)
        with _first_weights(seed):
            layers = self._layers(shape[0])
            if self.pooling is not None:
                layers.append(nn.AdaptiveAvgPool2d(self.pooling))
                sides = (self.pooling, self.pooling)
            layers.append(nn.Flatten())
            sizes = (self.channels[-1] * sides[0] * sides[1], *self.widths, outputs)
            for i, (d, e) in enumerate(pairwise(sizes)):
                layers += [nn.Linear(d, e), *([nn.ReLU()] if i < len(self.widths) else [])]
        faster = {"memory_format": torch.channels_last}
        return nn.Sequential(*layers).to(**faster)  # type: ignore[call-overload,no-any-return]

    def _layers(self, inputs: int) -> list[nn.Module]:
        layers: list[nn.Module] = []
        each = zip(self.channels, self.kernels, self.strides, strict=True)
        for channels, kernel, stride in each:
            padding = kernel // 2 if self.padding else 0
            bias = not self.batch_norm
            layers.append(nn.Conv2d(inputs, channels, kernel, stride, padding, bias=bias))
            layers += [nn.BatchNorm2d(channels)] if self.batch_norm else []
            layers.append(nn.ReLU())
            inputs = channels
        return layers

    def _sides(self, shape: Shape) -> tuple[int, ...]:
        """Return height and width after all convolutions."""
        sides = shape[1:]
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            margin = 2 * (kernel // 2) if self.padding else 0
            if min(sides) + margin < kernel:
                raise ValueError(
                    f"images of {sides[0]}×{sides[1]} pixels are too small for a convolution of "
                    f"{kernel}×{kernel}; use smaller kernels, smaller strides or fewer layers"
                )
            sides = tuple((side + margin - kernel) // stride + 1 for side in sides)
        return sides


class OwnModule(BaseModel):
    """A module that a function in a Python file builds, by the hash of the file.

    The function takes the shape of an example and the number of scores, and returns an `nn.Module`.

    Attributes:
        file: name of the file; a run folder has a copy of it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["file"] = "file"
    file: str
    function: str
    sha256: str

    @classmethod
    def of(cls, path: Path, function: str) -> OwnModule:
        """Describe a function in a file, which is read but not run."""
        return cls(file=path.name, function=function, sha256=_sha256(_read(path)))

    @property
    def title(self) -> str:
        """The network in a few words."""
        return f"{self.file}:{self.function}"

    def read(self, path: Path) -> bytes:
        """Return the code; raise ValueError if the file is not the recorded one."""
        code = _read(path)
        if _sha256(code) != self.sha256:
            raise ValueError(f"{path} is not the file that the network was built from")
        return code

    def build(self, shape: Shape, outputs: int, seed: int, path: Path) -> nn.Module:
        """Run the code and build the module; refuse a file that is not the recorded one."""
        code = self.read(path)
        with _first_weights(seed):
            module = self._function(code, path)(shape, outputs)
        if not isinstance(module, nn.Module):
            raise ValueError(
                f"{self.title} must return an nn.Module, got {type(module).__name__}; it is called "
                "with the shape of an example and the number of scores"
            )
        return module

    def _function(self, code: bytes, path: Path) -> Callable[..., Any]:
        name = f"pacbayes_network_{self.sha256[:16]}"
        if name not in sys.modules:
            own = ModuleType(name)
            own.__file__ = str(path)
            sys.modules[name] = own  # dataclasses look their module up there
            try:
                exec(compile(code, str(path), "exec"), own.__dict__)
            except BaseException:
                del sys.modules[name]
                raise
        function: Callable[..., Any] | None = getattr(sys.modules[name], self.function, None)
        if not callable(function):
            raise ValueError(f"{path} has no function {self.function!r}")
        return function


ModuleArchitecture = Annotated[Convolutions | OwnModule, Field(discriminator="kind")]


def named_function(text: str) -> tuple[Path, str]:
    """Return file and function of a name such as my_network.py:build."""
    file, _, function = text.rpartition(":")
    if not file.endswith(".py") or not function.isidentifier():
        raise ValueError(f"a network must be named as in my_network.py:build, got {text!r}")
    return Path(file), function


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error


def _sha256(code: bytes) -> str:
    return hashlib.sha256(code).hexdigest()


@contextmanager
def _first_weights(seed: int) -> Iterator[None]:
    """Let layers take their first weights from a stream of the seed, not from torch's generator."""
    with seeded(seed, "network"), redirected():
        yield


def grouped(module: nn.Module, groups: tuple[int, ...]) -> nn.Sequential:
    """Put the probability of every group on top of a module with scores of finer classes.

    P(group | x) = Σ softmax(scores)_c over the classes c of the group. Two groups have one score,
    P(1 | x) − P(0 | x).

    Args:
        groups: the group of every finer class, from 0.
    """
    count = max(groups) + 1
    members = torch.zeros(count, len(groups), device=CPU)
    members[list(groups), list(range(len(groups)))] = 1.0
    weight = members[1:] - members[:1] if count == 2 else members
    last = nn.Linear(len(groups), len(weight), device=CPU)
    with torch.no_grad():
        last.weight.copy_(weight)
        last.bias.zero_()
    return nn.Sequential(module, nn.Softmax(-1), last)
