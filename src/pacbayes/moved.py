"""Modules that have moved: their old names keep working until version 2, with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["APART", "MOVED", "keep_old_names"]

# Old name -> new name, below pacbayes; a package stands for all modules in it.
MOVED = {
    "bench.limit": "bench.turns",
    "bench.naive": "bench.steps",
    "bench.peers": "bench.steps",
    "bench.tables": "bench.contests",
    "bounds.bernstein": "bounds.monte_carlo",
    "bounds.brent": "bounds.catoni",
    "bounds.split_kl": "bounds.small_kl",
    "certificates.cluster": "certificates.executors",
    "certificates.drawing": "certificates.certify",
    "certificates.reading": "certificates.certificate",
    "certificates.remarks": "certificates.explanation",
    "certificates.units": "losses.bounded",
    "certified": "models",
    "data.arrow": "data.opening",
    "data.blocks": "data.values",
    "data.checks": "data.tasks",
    "data.columns": "data.frame",
    "data.fitting": "data.encoding",
    "data.labels": "data.dataset",
    "data.pipelines": "data.preprocessing",
    "data.references": "data.foreign",
    "data.sizes": "data.arrays",
    "data.tables": "data.source",
    "data.text_file": "data.opening",
    "export.coverage": "export.files",
    "export.modules": "export.predictors",
    "export.ports": "export.predictors",
    "export.rows": "export.comparison",
    "export.surface": "export.graphs",
    "folders.blueprint": "training.blueprint",
    "folders.clock": "folders.leases",
    "folders.code": "training.blueprint",
    "folders.creation": "folders.preparation",
    "folders.evaluation": "folders.prediction",
    "folders.features": "folders.folder",
    "folders.lease": "folders.leases",
    "folders.several": "folders.run",
    "folders.versions": "folders.record",
    "folders.writing": "folders.leases",
    "models.certificate": "certificates.certificate",
    "models.contest": "models.choosing",
    "models.copies": "data.sample",
    "models.encoder": "data.preprocessing",
    "models.evidence": "models.claims",
    "models.losses": "losses.bounded",
    "models.modules": "models.asking",
    "models.origin": "models.asking",
    "models.saved": "folders.models",
    "models.saved.data_file": "folders.storing",
    "models.saved.folder": "folders.models",
    "models.saved.issuing": "folders.models",
    "models.saved.kinds": "folders.record",
    "models.saved.loading": "folders.opening",
    "models.saved.networks": "folders.models",
    "models.saved.predicting": "folders.models",
    "models.saved.record": "folders.record",
    "models.saved.replaying": "folders.replaying",
    "models.saved.storing": "folders.storing",
    "models.saved.trees": "folders.storing",
    "models.splitting": "data.splitting",
    "models.tables": "data.values",
    "models.training": "folders.fitting",
    "models.votes": "models.candidates",
    "networks.draws": "networks.activations",
    "networks.evaluated": "networks.bodies",
    "networks.exact": "networks.network",
    "networks.expectations": "networks.outputs",
    "networks.folding": "networks.stochastic",
    "networks.gaussian": "networks.posterior",
    "networks.grouping": "networks.modules",
    "networks.keys": "networks.posterior",
    "networks.layers": "networks.families.diagonal",
    "networks.local_convolution": "networks.local",
    "networks.parts": "networks.risk",
    "networks.places": "networks.sampler",
    "networks.weights": "networks.predictors",
    "paper.archive": "paper.store",
    "paper.executors": "paper.sweep",
    "paper.variances": "paper.figures",
    "report.commands": "report.networks",
    "report.voting": "report.training",
    "runs": "folders",
    "sklearn.carrying": "sklearn.packing",
    "sklearn.examples": "sklearn.parameters",
    "sklearn.images": "sklearn.parameters",
    "sklearn.saving": "folders.estimators",
    "sklearn.temperature": "sklearn.learning",
    "training.learning": "training.priors",
    "training.schedules": "training.loop",
}

# Names that are not where the rest of their module is.
APART = {
    "certificates.units.certify_losses": "certificates.certificate",
    "models.saved.record.read_certificates": "folders.models",
    "networks.gaussian.INITIAL_VARIANCE": "networks.families.diagonal",
    "networks.gaussian.Law": "networks.families.diagonal",
    "networks.gaussian.log_ratio": "networks.families.diagonal",
    "networks.gaussian.truncated_normal": "networks.families.diagonal",
}


def new_name(old: str) -> str | None:
    """Return where the module `old` is now, or None if it has not moved."""
    parts = old.removeprefix("pacbayes.").split(".")
    for k in range(len(parts), 0, -1):
        if (known := ".".join(parts[:k])) in MOVED:
            new = ".".join(["pacbayes", MOVED[known], *parts[k:]])
            return new_name(new) or new  # it may have moved more than once
    return None


class _Callable(ModuleType):
    """A moved module that has the name of a function in its package, and is called for it."""

    def __call__(self, *arguments: Any, **given: Any) -> Any:
        return vars(self)["_function"](*arguments, **given)


class _Moved(MetaPathFinder, Loader):
    """Finds a module under its old name: an empty module that asks the new one for everything."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("pacbayes.") or new_name(fullname) is None:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        new = new_name(module.__name__)
        assert new is not None
        name = f"{module.__name__} is now {new}; the old name ends in version 2.0"
        warnings.warn(name, DeprecationWarning, stacklevel=2)
        moved = import_module(new)
        package, _, last = module.__name__.rpartition(".")
        function = vars(sys.modules[package]).get(last)  # whose place in the package it now takes
        if callable(function):
            vars(module)["_function"] = function
            module.__class__ = _Callable
        vars(module)["__getattr__"] = partial(_attribute, module.__name__, moved)
        vars(module)["__all__"] = getattr(moved, "__all__", [])


def _attribute(old: str, moved: ModuleType, name: str) -> Any:
    """Return what the module `old` had under a name, from where it is now."""
    old = old.removeprefix("pacbayes.").replace("certified.", "models.")
    apart = APART.get(f"{old}.{name}")
    return getattr(moved if apart is None else import_module(f"pacbayes.{apart}"), name)


def keep_old_names() -> None:
    """Let `import` find moved modules, once all other ways have failed."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.append(_Moved())
