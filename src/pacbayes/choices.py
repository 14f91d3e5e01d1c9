"""The names a user chooses from; free of torch, so that the command line knows them at once."""

from __future__ import annotations

from typing import Literal

__all__ = [
    "DRAWN",
    "RANDOMISED",
    "VOTE",
    "Activation",
    "Augmentation",
    "BoundName",
    "CertificateBound",
    "Engine",
    "Estimator",
    "Format",
    "Method",
    "MonteCarlo",
    "Objective",
    "Protocol",
    "Theorem",
]

Activation = Literal["relu", "sigmoid", "sign"]
Augmentation = Literal["none", "images"]
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
Method = Literal["randomised", "vote", "drawn"]
Objective = Literal["fix-lambda", "optim-lambda", "small-kl"]
Protocol = Literal["fast", "paper"]
_ForRandomised = Literal[
    "small-kl",
    "catoni",
    "catoni-c",
    "mcallester",
    "quadratic",
    "thiemann",
    "unexpected-bernstein",
]
_ForVote = Literal["first-order", "tandem"]
BoundName = Literal[_ForRandomised, _ForVote, "best-of"]
CertificateBound = Literal[BoundName, "disintegrated"]
Theorem = Literal[_ForRandomised, _ForVote, "split-kl", "c-bound", "disintegrated"]
MonteCarlo = Literal["kl-chernoff", "empirical-bernstein", "stratified-bernstein"]

RANDOMISED = "randomised classifier: fresh weights drawn from Q for every prediction"
VOTE = "majority vote of all of Q, which a vote of many draws approaches"
DRAWN = "one network drawn from Q and kept, whose weights are in drawn.safetensors"
