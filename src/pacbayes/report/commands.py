"""The commands that make a run and its certificates again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from pacbayes.certificates.certificate import Certificate
from pacbayes.runs.record import RunRecord
from pacbayes.settings import Settings

__all__ = ["certify_command", "train_command"]

_APART = ("protocol", "activation", "objective", "prior_scale", "prior_scales")


def train_command(record: RunRecord, folder: Path) -> str:
    """`pacbayes train` with the options that differ from what it would choose itself."""
    s, source = record.settings, record.data.source
    words = ["pacbayes", "train", "--dataset", source.name]
    for option, text in (
        ("--data-folder", source.folder),
        ("--test-data", source.test),
        ("--label", source.label),
    ):
        words += [] if text is None else [option, text]
    learned: dict[str, Any] = {"prior_fraction": s.prior_fraction} if s.prior_fraction else {}
    classes = len(record.data.classes)
    usual = Settings.of(s.protocol, s.activation, classes=classes, **learned)
    words += ["--protocol", s.protocol, "--activation", s.activation]
    if s.objective != usual.objective:
        words += ["--objective", s.objective]
        usual = Settings.of(s.protocol, s.activation, s.objective, classes=classes, **learned)
    if s.prior_scales:
        words += ["--prior-scale", ",".join(f"{scale!r}" for scale in s.prior_scales)]
    elif s.prior_scale != usual.prior_scale:
        words += ["--prior-scale", repr(s.prior_scale)]
    if learned:
        words += ["--prior-fraction", repr(s.prior_fraction)]
    for name in Settings.model_fields:
        value = getattr(s, name)
        if name not in (*_APART, *learned) and value != getattr(usual, name):
            words += _option(name, value)
    words += ["--threads", record.versions["threads"]] if "threads" in record.versions else []
    of_several = bool(s.prior_scales) and folder.name == f"scale-{s.prior_scale:g}"
    return shlex.join([*words, "--out", str(folder.parent if of_several else folder)])


def _option(name: str, value: object) -> list[str]:
    if name == "learned_scale":
        return ["--learned-scale" if value else "--unit-scale"]
    if name == "repeats":
        return ["--repeats"]
    if name == "widths":
        assert isinstance(value, tuple)
        return ["--widths", ",".join(map(str, value)) or "none"]
    option = "lambda" if name == "lam" else name.replace("_", "-")
    return [f"--{option}", str(value)]


def certify_command(c: Certificate, record: RunRecord, folder: Path) -> str:
    """`pacbayes certify` as it was called."""
    words = ["pacbayes", "certify", str(folder), "--delta", repr(c.delta)]
    chosen_late = f"pac-bayes, {c.bound_name}" in c.ledger
    words += ["--bound", "best-of" if chosen_late else c.bound_name]
    if c.bound_name == "disintegrated":
        words += ["--networks", f"{c.parameters['networks']:.0f}"]
    elif c.draws is not None:
        words += ["--monte-carlo", str(c.monte_carlo), "--samples", str(c.samples)]
    elif record.settings.widths:  # without hidden units nothing is ever sampled
        words += ["--exact"]
    seed = c.provenance.get("certificate_seed", record.settings.seed)
    words += ["--seed", str(seed)] if seed != record.settings.seed else []
    threads = c.provenance.get("versions", {}).get("threads")
    return shlex.join(words + (["--threads", threads] if threads else []))
