"""The names a user chooses from; free of torch, so that the command line starts at once."""

from __future__ import annotations

from enum import Enum
from typing import Literal, NamedTuple

__all__ = [
    "Activation",
    "Augmentation",
    "Basis",
    "Device",
    "Engine",
    "Estimator",
    "Format",
    "Model",
    "MonteCarlo",
    "Objective",
    "Precision",
    "Predictor",
    "Protocol",
]

Activation = Literal["relu", "sigmoid", "sign"]
Augmentation = Literal["none", "images", "crops"]
Basis = Literal["none", "eigen"]
Device = Literal["cpu", "cuda", "mps", "auto"]
Engine = Literal["auto", "torch", "native"]
Estimator = Literal[
    "marginal",
    "leave-one-out",
    "local-expectation",
    "straight-through",
    "reinforce",
    "reinforce-per-example",
]
Format = Literal["onnx", "torch"]
Model = Literal["network", "boosting", "forest", "linear", "best"]
Objective = Literal["fix-lambda", "optim-lambda", "small-kl"]
Precision = Literal["float32", "bfloat16"]
Protocol = Literal["fast", "paper"]
MonteCarlo = Literal["kl-chernoff", "stratified-bernstein"]


class Predictor(Enum):
    """A way to predict: with a posterior Q, or fixed. Every certificate covers exactly one."""

    RANDOMISED = "randomised"
    VOTE = "vote"
    DRAWN = "drawn"
    FIXED = "fixed"

    @property
    def title(self) -> str:
        """Its heading in reports."""
        return _PREDICTORS[self].title

    @property
    def file(self) -> str:
        """The name of its certificate in a run folder."""
        return _PREDICTORS[self].file

    @property
    def sentence(self) -> str:
        """What its certificate says it covers."""
        return _PREDICTORS[self].sentence


class _Texts(NamedTuple):
    title: str
    file: str
    sentence: str


_PREDICTORS = {
    Predictor.RANDOMISED: _Texts(
        "The randomised classifier",
        "certificate.json",
        "randomised classifier: fresh weights drawn from Q for every prediction",
    ),
    Predictor.VOTE: _Texts(
        "The majority vote",
        "certificate-vote.json",
        "majority vote of all of Q, which a vote of many draws approaches",
    ),
    Predictor.DRAWN: _Texts(
        "One network, drawn and kept",
        "certificate-drawn.json",
        "one network drawn from Q and kept, whose weights are in drawn.safetensors",
    ),
    Predictor.FIXED: _Texts(
        "The network at the prior's means",
        "certificate-fixed.json",
        "network at the prior's means, which was fixed before the bound set was seen",
    ),
}
