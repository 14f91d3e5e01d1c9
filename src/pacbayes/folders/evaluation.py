"""Evaluate a run's module for `verify`, which has no PyTorch of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pacbayes.files import DamagedFileError
from pacbayes.folders.folder import Run
from pacbayes.networks.bodies import Deterministic, Evaluated

__all__ = ["module_body"]

Array = NDArray[Any]
_BLOCK = 500  # examples at a time, whose activations may be large


def module_body(
    run: Run, prior: Mapping[str, Array] | None = None
) -> Callable[[Mapping[str, Array], Array], Array] | None:
    """Return the activations of a run's module at given weights, in float64; None if it is dense.

    Args:
        prior: tensors outside Q to use instead of the run's own, for example learned again.
    """
    if run.record.network is None:
        return None
    start = run.start_network()
    if run.blueprint.record(start) != run.record.network:  # the order of weights is that of draws
        raise DamagedFileError(f"{run.folder / 'run.json'} does not describe the run's network")
    network = start.double().eval()
    if prior is not None:
        frozen = {k: torch.from_numpy(np.array(prior[k])) for k in run.record.network.frozen}
        network.load_state_dict(network.state_dict() | frozen)
    body = network.body
    assert isinstance(body, Evaluated | Deterministic)

    @torch.no_grad()
    def activations(weights: Mapping[str, Array], x: Array) -> Array:
        blocks = torch.from_numpy(np.ascontiguousarray(x, dtype=float)).split(_BLOCK)
        if isinstance(body, Deterministic):
            found = [body.draw(block, 1).value[0] for block in blocks]
        else:
            names = (name for name in weights if name.startswith("body.posterior."))
            drawn = {
                name.removeprefix("body.posterior."): torch.from_numpy(np.array(weights[name]))
                for name in names
            }
            found = [body.checked(block, drawn) for block in blocks]
        activations: Array = torch.cat(found).numpy()
        return activations

    return activations
