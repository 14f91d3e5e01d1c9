"""Carry a fitted classifier to another process where its network is of a user's own classes.

Their module has no name that another process could import, so the state holds the code that builds
the network, and its tensors, instead of the network itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from numpy.typing import NDArray

from pacbayes.folders.blueprint import Blueprint
from pacbayes.networks.modules import OwnModule
from pacbayes.networks.network import Network

__all__ = ["carried", "restored"]


@dataclass(frozen=True)
class _Carried:
    """What a network is built from, the code for it, and its tensors."""

    blueprint: Blueprint
    code: bytes
    tensors: dict[str, NDArray[Any]]

    def network(self) -> Network:
        """Build the network again; this runs the code, whose hash is checked."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "network.py"
            path.write_bytes(self.code)
            network = replace(self.blueprint, code=path).build().double().eval()
        network.load_state_dict({k: torch.from_numpy(v) for k, v in self.tensors.items()})
        return network


def carried(state: dict[str, Any]) -> dict[str, Any]:
    """Return a classifier's state, with a network of the user's own in parts."""
    blueprint, network = state.get("_blueprint"), state.get("network_")
    if network is None or blueprint is None or not isinstance(blueprint.architecture, OwnModule):
        return state
    code = blueprint.architecture.read(blueprint.code)
    tensors = {k: v.numpy().copy() for k, v in network.state_dict().items()}
    return state | {"network_": _Carried(blueprint, code, tensors)}


def restored(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state that `carried` was given."""
    found = state.get("network_")
    return state | {"network_": found.network()} if isinstance(found, _Carried) else state
