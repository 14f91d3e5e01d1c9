"""What a network is built from, how its prior learns, and code of a user's own."""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from pacbayes.data.foreign import ask
from pacbayes.data.idx import cache_folder
from pacbayes.data.tasks import task_of
from pacbayes.devices import CPU
from pacbayes.files import DamagedFileError, write_atomically
from pacbayes.networks.architecture import build_network
from pacbayes.networks.families.diagonal import Law
from pacbayes.networks.modules import (
    Convolutions,
    ModuleArchitecture,
    OwnModule,
    Shape,
    grouped,
    named_function,
)
from pacbayes.networks.network import Network
from pacbayes.networks.stochastic import Start, draw_order, stochastic
from pacbayes.randomness import stream
from pacbayes.settings import Settings
from pacbayes.training.priors import (
    PlainTraining,
    Teacher,
    as_prior,
    augmentation,
    same_scores,
    settled,
)

__all__ = [
    "CODE",
    "Blueprint",
    "Choice",
    "ModuleRecord",
    "Named",
    "allow",
    "allowed_copy",
    "chosen",
    "save_copy",
]

Named = str | Convolutions | Callable[..., nn.Module] | None


@dataclass(frozen=True)
class Choice:
    """The network that a user chose for a new run: a module's architecture, and its code."""

    architecture: Convolutions | OwnModule
    code: Path | None = None


def chosen(
    network: Named, *, learned: bool = False, shape: Shape = (), **layers: Any
) -> Choice | None:
    """Return the choice that a user names, whose code is thereby allowed to run; None if dense.

    Args:
        network: None or "dense"; "conv" or `Convolutions`; "my_network.py:build", or the function
            itself, which must be in a file.
        learned, shape: whether the prior learns, and the shape of an example; the defaults of
            convolutions follow them.
        layers: fields of `Convolutions` that are not the defaults; a pooling of 0 is none.
    """
    if network is None or network == "dense":
        return None
    if isinstance(network, Convolutions):
        return Choice(network)
    if network == "conv":
        own = layers.keys() & {"channels", "kernels", "strides", "padding"}  # images suit them
        count = len(layers.get("channels", ()))
        usual = Convolutions.usual(count, learned=learned, shape=() if own else shape)
        found = usual | layers
        return Choice(Convolutions(**found | {"pooling": found.get("pooling") or None}))
    path, function = named_function(network) if isinstance(network, str) else _source(network)
    architecture = OwnModule.of(path, function)
    allow(path)
    return Choice(architecture, path)


def _source(function: Callable[..., nn.Module]) -> tuple[Path, str]:
    """Return the file and the name of a function."""
    file, name = inspect.getsourcefile(function), getattr(function, "__qualname__", "?")
    if file is None or not Path(file).is_file() or not name.isidentifier():
        raise ValueError(
            f"the network's function {name} must be at the top of a file, from which it can be "
            "built again; write it to a file and name it, as in my_network.py:build"
        )
    return Path(file), name


class ModuleRecord(BaseModel):
    """A network other than dense: what builds its module, and every tensor that predicts.

    Attributes:
        shape: of an example, which the module is called with.
        weights: the Gaussians of Q, in the order in which a data-free prior is drawn.
        frozen: shapes of the tensors outside Q, by name; their values are saved with the prior.
        groups: the class of every finer class that the module has scores of; empty if it has
            scores of the classes themselves.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    architecture: ModuleArchitecture
    shape: tuple[int, ...]
    weights: tuple[Start, ...] = ()
    frozen: dict[str, tuple[int, ...]] = {}
    groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class Blueprint:
    """A run's network before it has weights.

    Attributes:
        features, classes: sizes of the data.
        architecture: of a module; None for the dense network that the settings describe.
        shape: of an example, which a module is called with.
        code: file with the function of an `OwnModule`.
        groups: the class of every finer class that a prior learns; empty if it learns the classes.
    """

    settings: Settings
    features: int
    classes: int
    architecture: Convolutions | OwnModule | None = None
    shape: Shape = ()
    code: Path | None = None
    groups: tuple[int, ...] = ()

    def build(self) -> Network:
        """Build the network: its prior drawn from the seed, or still to be learned."""
        if self.architecture is None:
            return build_network(self.settings, self.features, self.classes, self.shape or None)
        module = self._module()
        return self._stochastic(settled(module) if self.settings.prior_fraction else module)

    def teacher(self, x: Tensor, y: Tensor) -> Teacher | PlainTraining:
        """Return the training of a prior on its own part of the data, on the device of x."""
        s = self.settings
        if self.architecture is None:
            return Teacher(x, y, s, self.classes)
        alone = {
            "protocol": "fast",
            "epochs": s.prior_epochs,
            "evaluate_every": s.prior_epochs,
            "learning_rate": s.prior_rate,
            "seed": stream(s.seed, "prior training") >> 1,
        }
        augment = augmentation(s.prior_augmentation, self.shape)
        return PlainTraining(self._module().to(x.device), x, y, s.model_copy(update=alone), augment)

    def as_prior(self, teacher: Teacher | PlainTraining) -> Network:
        """Build the network with prior and posterior at learned weights, on the CPU."""
        if isinstance(teacher, Teacher):
            return as_prior(teacher, self.settings)
        learned = copy.deepcopy(teacher.model)
        folded = same_scores(learned.eval(), settled(learned), teacher.x)
        return self._stochastic(folded.to(CPU))

    def record(self, network: Network) -> ModuleRecord | None:
        """Return what run.json says of a network that is not dense."""
        if self.architecture is None:
            return None
        order = draw_order(network)
        own = {f"{start.name}.{kind}" for start in order for kind in Law._fields}
        outside = {k: tuple(v.shape) for k, v in network.state_dict().items() if k not in own}
        return ModuleRecord(
            architecture=self.architecture,
            shape=self.shape,
            weights=tuple(order),
            frozen=outside,
            groups=self.groups,
        )

    def _module(self) -> nn.Module:
        """Return a module on rows of features, with its first weights."""
        seed, classes = self.settings.seed, len(self.groups) or self.classes
        outputs = task_of(classes).outputs
        if isinstance(self.architecture, OwnModule):
            assert self.code is not None
            module = self.architecture.build(self.shape, outputs, seed, self.code)
        else:
            assert self.architecture is not None
            module = self.architecture.build(self.shape, outputs, seed)
        whole = module if len(self.shape) < 2 else nn.Sequential(_unflatten(self.shape), module)
        self._check_scores(whole, outputs, classes)
        return whole

    @torch.no_grad()
    def _check_scores(self, module: nn.Module, outputs: int, classes: int) -> None:
        """Raise ValueError unless the module gives scores to examples."""
        found = ask(copy.deepcopy(module).eval(), self._zeros()).shape
        if tuple(found) != (2, outputs):
            raise ValueError(
                f"the module must return scores of shape (B, {outputs}) for {classes} "
                f"classes, got {tuple(found)} for B = 2"
            )

    def _zeros(self) -> Tensor:
        """Return two examples, to call a module with that was just built."""
        return torch.zeros(2, self.features, device=CPU)

    def _stochastic(self, module: nn.Module) -> Network:
        s = self.settings
        return stochastic(
            grouped(module, self.groups) if self.groups else module,
            scale=s.prior_scale,
            learned_scale=s.learned_scale,
            seed=None if s.prior_fraction else s.seed,
            example=self._zeros(),
        )


def _unflatten(shape: Shape) -> nn.Module:
    return nn.Unflatten(1, shape)


CODE = "network.py"


def allow(path: Path) -> str:
    """Allow a file's content to run on this machine; return its SHA-256."""
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    folder = cache_folder() / "allowed"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / sha256, f"{path.resolve()}\n".encode())
    return sha256


def save_copy(folder: Path, path: Path) -> None:
    """Copy a file that builds a network into the run folder."""
    write_atomically(folder / CODE, path.read_bytes())


def allowed_copy(folder: Path, sha256: str) -> Path:
    """Return the run's own copy of the code; refuse another file, or one that is not allowed."""
    path = folder / CODE
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise DamagedFileError(f"{path} is missing or is not the code that the run was made with")
    if not (cache_folder() / "allowed" / sha256).is_file():
        raise ValueError(
            f"{path} is code that was not allowed to run here; read it, and if you trust it, run: "
            f"pacbayes allow {folder}"
        )
    return path
