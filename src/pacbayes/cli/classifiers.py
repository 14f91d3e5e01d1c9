"""The commands on the folder of a saved classifier."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pacbayes.choices import Format
from pacbayes.cli.streams import command, harmless, remark

if TYPE_CHECKING:
    from pacbayes.folders.prediction import Prediction

__all__ = ["certify", "export", "predict"]


def certify(run: Path, delta: float, as_json: bool) -> None:
    """Issue the certificates again from the recorded predictions, at another δ if wanted."""
    from pacbayes.folders.models import issue_again

    certificate = issue_again(run, delta)
    if as_json:
        print(json.dumps(certificate.as_dict()))
        return
    print(f"Certificate: {certificate}")
    print("Assumptions, which no file can show:")
    for assumption in certificate.assumptions:
        print(f"- {assumption}")
    print(f"Written to {run / 'certificate.json'}")
    remark(
        "Predictor, candidates and shares stay as they were: another choice would not be paid for. "
        f"δ must be chosen in advance. Next: {command('verify', run)}"
    )


def predict(run: Path, data: str, label: str | None, out: Path | None, as_json: bool) -> None:
    """Predict labels with the certified predictor; columns are matched by name."""
    from pacbayes.cli.predict import write
    from pacbayes.folders.models import predict_file

    if out is not None:
        _check_out(out, run, data, ".json" if as_json else ".csv")
    prediction = predict_file(run, data, label)
    write(json.dumps(asdict(prediction)) + "\n" if as_json else _as_csv(prediction), out)
    if as_json:
        return
    remark(f"{len(prediction.labels)} predictions by {prediction.predictor}")
    if prediction.error is not None:
        whom = "rows that it answers" if prediction.answered else "labels given"
        remark(f"error on the {whom}: {100 * prediction.error:.2f} %")
    if out is not None:
        remark(f"written to {out}")


def _check_out(out: Path, run: Path, data: str, suffix: str) -> None:
    if out.suffix != suffix:
        raise ValueError(f"--out must be a {suffix} file, got {out}")
    if out.resolve() in [path.resolve() for path in (Path(data), *run.iterdir())]:
        raise ValueError(f"--out {out} would overwrite an input; choose another file")


def _as_csv(prediction: Prediction) -> str:

    columns = {"label": [harmless(label) for label in prediction.labels]}
    if prediction.answered is not None:
        columns["answered"] = ["true" if answer else "false" for answer in prediction.answered]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return buffer.getvalue()


def export(run: Path, format: Format, out: Path) -> None:
    """Explain why there is no such file yet."""
    raise ValueError(
        f"{run}: a classifier of scikit-learn cannot be exported as {format} to the letter "
        "(converters round features to float32, and know no gradient boosting of this version), so "
        "the certificate would not cover the file; use pacbayes predict or pacbayes.load"
    )
