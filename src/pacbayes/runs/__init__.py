"""Run folders: prepare, train, certify, open and predict with them."""

from pacbayes.runs.blueprint import chosen
from pacbayes.runs.code import allow
from pacbayes.runs.features import featured
from pacbayes.runs.folder import Run, open_run
from pacbayes.runs.prediction import certified_predictor, predict, test_errors
from pacbayes.runs.preparation import learn_again, prepare
from pacbayes.runs.run import certify_classes, certify_run, engine_note, train_run
from pacbayes.runs.several import best_run, planned_runs, train_all

__all__ = [
    "Run",
    "allow",
    "best_run",
    "certified_predictor",
    "certify_classes",
    "certify_run",
    "chosen",
    "engine_note",
    "featured",
    "learn_again",
    "open_run",
    "planned_runs",
    "predict",
    "prepare",
    "test_errors",
    "train_all",
    "train_run",
]
