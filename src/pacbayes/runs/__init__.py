"""Run folders: create, train, certify, open and predict with them."""

from pacbayes.runs.folder import (
    CHECKPOINT_SECONDS,
    Run,
    certify_run,
    engine_note,
    open_run,
    train_run,
)

__all__ = ["CHECKPOINT_SECONDS", "Run", "certify_run", "engine_note", "open_run", "train_run"]
