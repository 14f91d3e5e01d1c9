"""Train other models than networks: gradient boosting, forests, linear models, the best of all."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pacbayes.choices import Model

if TYPE_CHECKING:
    from pacbayes.models.training import FittedModel

__all__ = ["train"]


def train(
    out: Path,
    model: Model,
    seed: int | None,
    dataset: str,
    test_data: Path | None,
    label: str | None,
    drop: list[str] | None,
    categorical: list[str] | None,
    group: str | None,
    repeats: bool | None,
    deduplicate: bool,
    per_class: bool,
    cost: list[str] | None,
    target_error: float | None,
    delta: float | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Fit and certify a classifier, and save it with its certificate."""
    started = time.monotonic()
    from pacbayes.cli import console
    from pacbayes.models.training import check_folder, costs_of, read_examples, train_model

    check_folder(out)
    columns = {"drop": tuple(drop or ()), "categorical": tuple(categorical or ())}
    examples = read_examples(dataset, label=label, test=test_data, group=group, **columns)
    with console.waiting(f"fitting {model} to {len(examples.y)} examples"):
        fitted = train_model(
            out,
            model,
            examples,
            dataset,
            seed=seed or 0,
            delta=0.05 if delta is None else delta,
            costs=costs_of(cost or (), examples.y),
            repeats=bool(repeats),
            deduplicate=deduplicate,
            per_class=per_class,
            target_error=target_error,
        )
    if as_json:
        print(json.dumps(_as_dict(fitted, out)))
    else:
        _show(fitted, out, quiet=quiet)
        console.remark(
            f"Took {console.took(started)}. Next: {console.command('verify', out)}", quiet=quiet
        )


def _as_dict(fitted: FittedModel, out: Path) -> dict[str, object]:
    c = fitted.model.certificate_
    return {
        "run": str(out),
        "chosen": fitted.model.chosen_,
        "certificate": None if c is None else c.as_dict(),
        "others": {c.quantity: c.as_dict() for c in fitted.others},
        "test_error": fitted.test_error,
        "remarks": fitted.remarks,
    }


def _show(fitted: FittedModel, out: Path, *, quiet: bool) -> None:
    from pacbayes.certificates.explanation import percent

    model = fitted.model
    if not quiet and len(model.certificates_) > 1:
        for name, c in model.certificates_.items():
            errors = f"{c.losses:g} errors on {c.n} {c.unit}"
            print(f"  {name:20} {errors}, bound {c.shown}")
    print(f"Certificate: {model.certificate_ or 'none'}")
    for c in fitted.others:
        print(f"  {c.quantity}: at most {c.shown}, on {c.n} {c.unit}")
    for remark in fitted.remarks:
        print(f"Note: {remark}.")
    if fitted.test_error is not None:
        print(f"Test error: {percent(fitted.test_error)} of {fitted.test_size} examples.")
    print(f"Written to {out}")
