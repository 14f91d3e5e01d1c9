"""Run folders: prepare, train, certify, open and predict with them."""

from pacbayes.folders.folder import Run, featured, open_run
from pacbayes.folders.opening import load, open
from pacbayes.folders.prediction import TrainedNetwork, certified_predictor, predict, test_errors
from pacbayes.folders.preparation import learn_again, prepare
from pacbayes.folders.run import (
    best_run,
    certify_classes,
    certify_run,
    engine_note,
    planned_runs,
    train_all,
    train_run,
    usual_bound,
)
from pacbayes.training.blueprint import allow, chosen

__all__ = [
    "Run",
    "TrainedNetwork",
    "allow",
    "best_run",
    "certified_predictor",
    "certify_classes",
    "certify_run",
    "chosen",
    "engine_note",
    "featured",
    "learn_again",
    "load",
    "open",
    "open_run",
    "planned_runs",
    "predict",
    "prepare",
    "test_errors",
    "train_all",
    "train_run",
    "usual_bound",
]
