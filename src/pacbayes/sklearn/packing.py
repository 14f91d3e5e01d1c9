"""A fitted classifier as plain arrays and texts: among other models, or for another process."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray

from pacbayes.data.encoding import Encoding
from pacbayes.data.layout import Layout
from pacbayes.data.preprocessing import Standardiser
from pacbayes.networks.modules import OwnModule
from pacbayes.networks.network import Network
from pacbayes.settings import Settings
from pacbayes.sklearn.parameters import Input
from pacbayes.training.blueprint import Blueprint
from pacbayes.training.loop import Evaluation

if TYPE_CHECKING:
    from pacbayes.sklearn.classifier import PACBayesClassifier

__all__ = ["carried", "packed", "restored", "unpacked"]

_PLAIN = (
    *("classes_", "n_features_in_", "feature_names_in_", "bound_set_", "n_iter_"),
    *("predictor_", "votes_", "temperature_", "_seed"),
)


def packed(model: PACBayesClassifier) -> dict[str, Any]:
    """Return parameters, constants and weights, without the classifier's own certificate."""
    if model.network is not None:
        raise ValueError(
            "a PACBayesClassifier with a network of its own cannot be kept among other models; "
            "save it by its own method save"
        )
    scaling: Any = model.preprocessing_
    return {
        "parameters": model.get_params(deep=False),
        "plain": {name: getattr(model, name) for name in _PLAIN if hasattr(model, name)},
        "settings": model._settings.model_dump_json(),
        "network": {k: v.numpy() for k, v in model.network_.state_dict().items()},
        "weights": {k: v.numpy() for k, v in model.weights_.items()},
        "history": [asdict(evaluation) for evaluation in model.history_],
        "encoding": scaling.encoding_.model_dump_json() if _standard(scaling) else None,
        "preprocessing": None if _standard(scaling) else scaling,
        "input": _input_of(model),
    }


def _input_of(model: PACBayesClassifier) -> dict[str, Any]:
    own = model._input
    layout = own.layout and own.layout.model_dump_json()
    return {"raw": own.raw, "layout": layout, "missing": own.missing}


def _standard(preprocessing: Any) -> bool:
    return isinstance(preprocessing, Standardiser)


def unpacked(state: dict[str, Any]) -> PACBayesClassifier:
    """Return the classifier with the same predictions; its certificate is None."""
    from pacbayes.sklearn.classifier import PACBayesClassifier

    model = PACBayesClassifier(**state["parameters"])
    for name in _PLAIN:
        if name in state["plain"]:
            setattr(model, name, state["plain"][name])
    model._settings = Settings.model_validate_json(state["settings"])
    weights = {name: torch.from_numpy(array) for name, array in state["network"].items()}
    inputs = next(w.shape[1] for name, w in weights.items() if name.endswith(".weight.mean"))
    model._blueprint = Blueprint(model._settings, inputs, len(model.classes_))
    network = model._blueprint.build().double().eval()
    network.load_state_dict(weights)
    model.network_ = network
    model.weights_ = {name: torch.from_numpy(array) for name, array in state["weights"].items()}
    model.history_ = [Evaluation(**evaluation) for evaluation in state["history"]]
    model.preprocessing_ = state["preprocessing"]
    if state["encoding"] is not None:
        model.preprocessing_ = Standardiser.of(Encoding.model_validate_json(state["encoding"]))
    model.certificate_, model._choice, model._shape = None, None, None
    own = state.get("input", {"raw": False, "layout": None, "missing": False})
    layout = own["layout"] and Layout.model_validate_json(own["layout"])
    model._input = Input(own["raw"], layout, own["missing"])
    return model


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
