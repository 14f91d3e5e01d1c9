"""The names a user chooses from; free of torch, so that the command line knows them at once."""

from __future__ import annotations

from typing import Literal

__all__ = [
    "PREDICTOR",
    "Activation",
    "Augmentation",
    "BoundName",
    "Engine",
    "Estimator",
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
BoundName = Literal[_ForRandomised, "best-of"]
Theorem = Literal[_ForRandomised, "split-kl", "first-order", "tandem", "c-bound", "disintegrated"]
MonteCarlo = Literal["kl-chernoff", "empirical-bernstein", "stratified-bernstein"]

PREDICTOR = "randomised classifier: fresh weights drawn from Q for every prediction"
