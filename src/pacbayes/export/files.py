"""Write a run's predictors as files: ONNX models or programs of torch.export.

A file takes rows as the run's data have them. Before it is put in place, it must answer rows of the
data as the library does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

import pacbayes
from pacbayes.bounds import percent_up
from pacbayes.certificates.certificate import Certificate, read_certificate
from pacbayes.choices import Format, Predictor
from pacbayes.data.cells import MISSING
from pacbayes.data.foreign import ask
from pacbayes.export.comparison import Library, Rows, is_table, rows_for
from pacbayes.export.encoding import refusing, taking_rows
from pacbayes.export.graphs import (
    Surface,
    as_onnx,
    as_torch,
    ask_onnx,
    ask_torch,
    noise_for,
    onnx_surface,
    torch_surface,
)
from pacbayes.export.predictors import Explicit, Port, explicit
from pacbayes.files import file_sha256, write_atomically
from pacbayes.folders.folder import Run
from pacbayes.folders.prediction import certified_predictor
from pacbayes.networks.network import Network
from pacbayes.networks.predictors import prior_weights

__all__ = ["Export", "covering_certificate", "export_run"]

_ROWS, _VOTED, _DRAWS = 1000, 16, 4096  # rows to compare, of a vote, and the limit for rows times T
# Far above the rounding errors of float64, of the error function of a vote, which is float32, and
# of whole modules in float32.
_FLOAT64, _FLOAT32_ERF, _FLOAT32 = 1e-9, 1e-5, 1e-3
_ROUNDED = "it computes in float32, so that a label may differ from the network's in float64"
_FRAME = """\
import json; columns = json.loads(model.get_modelmeta().custom_metadata_map["columns"])
kinds = {c["name"]: float if c["kind"] == "number" else str for c in columns}
x = {c["input"]: frame[[c["name"]]].to_numpy(kinds[c["name"]]) for c in columns}
"""


@dataclass(frozen=True)
class Export:
    """A description of the file that was written.

    Attributes:
        certificate: the certificate that covers the predictor and its claim, or why none does.
        difference: largest difference between the scores of the file and of the library.
        examples: number of rows that were compared.
        rows: where they come from.
        code: Python that predicts for `frame`, a data frame of pandas with the table's columns; or
            for `x`, an array or tensor.
    """

    file: str
    format: Format
    method: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    classes: tuple[str, ...]
    certificate: str
    difference: float
    examples: int
    rows: str
    code: str


def export_run(
    run: Run,
    out: Path,
    format: Format,
    method: Predictor | str | None = None,
    *,
    samples: int = 100,
) -> Export:
    """Write a predictor of a trained run, after comparing it with the library's.

    Args:
        method: by default the one that `pacbayes predict` uses, with the lowest certificate.
        samples: T, draws of a vote.
    """
    form = _FORMS[format]
    if out.suffix != form.suffix:
        raise ValueError(f"the file name for {format} must end in {form.suffix}, got {out}")
    method = certified_predictor(run) if method is None else Predictor(method)
    network = run.load_network().double().eval()
    weights = _weights(run, network, method)
    features, dtype = run.record.data.features, _arithmetic(network, format)
    predictor = explicit(
        network, method, features=features, samples=samples, weights=weights, dtype=dtype
    )
    rounded = dtype is torch.float32
    on_rows = taking_rows(predictor, run.encoding) if is_table(run) else refusing(predictor)
    surface = form.surface(on_rows, run.record.data.classes)
    metadata = _metadata(run, on_rows, surface, method, rounded=rounded)
    content = form.write(on_rows, surface, metadata)
    rows = rows_for(run, _rows(method, samples))
    noise = noise_for(on_rows, len(rows))
    difference = Library(run, network, method, weights).difference(
        rows,
        noise,
        _answer(form, content, [*form.given(rows), *(e.numpy() for e in noise)]),
        names=bool(surface.classes),
        tolerance=_tolerance(method, rounded=rounded),
    )
    write_atomically(out, content)
    return Export(
        file=str(out),
        format=format,
        method=method.value,
        inputs=surface.inputs,
        outputs=surface.outputs,
        classes=run.record.data.classes,
        certificate=metadata["certificate"]["says"],
        difference=difference,
        examples=len(rows),
        rows=rows.says,
        code=form.code(out, on_rows),
    )


def _answer(
    form: _Form, content: bytes, inputs: Sequence[NDArray[Any]]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return score and label of a file for rows that the library answers."""
    try:
        found: tuple[NDArray[Any], NDArray[Any]] = ask(partial(form.answer, content), inputs)
        return found
    except Exception as error:  # of whatever runs the file
        reason = str(error).strip().partition("\n")[0]
        raise RuntimeError(
            f"the exported graph refuses rows that the library answers ({reason}); nothing was "
            "written"
        ) from error


def _rows(method: Predictor, samples: int) -> int:
    """Return how many rows to compare: fewer where each needs many draws."""
    if method is not Predictor.VOTE:
        return _ROWS
    return max(1, min(_VOTED, _DRAWS // samples))


def _tolerance(method: Predictor, *, rounded: bool) -> float:
    if rounded:
        return _FLOAT32
    return _FLOAT32_ERF if method is Predictor.VOTE else _FLOAT64


def _weights(run: Run, network: Network, method: Predictor) -> dict[str, Tensor]:
    """Return the weights of the predictor, if it is one network."""
    if method is Predictor.DRAWN:
        return run.load_drawn()
    return prior_weights(network) if method is Predictor.FIXED else {}


def _arithmetic(network: Network, format: Format) -> torch.dtype:
    """Return float64, but float32 for modules in ONNX: onnxruntime has no other convolutions."""
    dense = network.architecture is not None
    return torch.float64 if dense or format != "onnx" else torch.float32


def _metadata(
    run: Run, predictor: Explicit, surface: Surface, method: Predictor, *, rounded: bool
) -> dict[str, Any]:
    sampled = bool(predictor.noise)
    names = surface.columns
    return {
        "pacbayes": pacbayes.__version__,
        "run_sha256": run.sha256,
        "method": method.value,
        "classes": list(run.record.data.classes),
        "columns": [
            {"name": c.name, "kind": c.kind.value, "input": names[c.name]}
            for c in predictor.columns
        ],
        "missing": list(MISSING),
        "inputs": [asdict(port) for port in surface.inputs],
        "outputs": [asdict(port) for port in surface.outputs],
        "certificate": covering_certificate(run, method, sampled=sampled, rounded=rounded),
    }


def covering_certificate(
    run: Run, method: Predictor, *, sampled: bool, rounded: bool
) -> dict[str, Any]:
    """Return the claim of the certificate in the folder, if it covers this predictor.

    Args:
        sampled: whether the predictor takes noise.
        rounded: whether it computes in float32 what the certificate covers in float64.
    """
    path = run.certificate_path(method)
    if not path.exists():
        return _uncovered(f"the run has no {path.name}")
    c = read_certificate(path)
    if c.provenance.get("posterior_sha256") != file_sha256(run.folder / "posterior.safetensors"):
        return _uncovered(f"{path.name} covers another posterior")
    if method is Predictor.VOTE and sampled and c.bound_name != "first-order":  # holds for any T
        return _uncovered(f"{c.bound_name} covers the vote of all of Q, not of T draws")
    says = _covered(path, c, sampled=sampled)
    if rounded:
        return _uncovered(f"{_ROUNDED}, which would be {says}; --format torch is")
    claim = {"bound_name": c.bound_name, "bound": c.bound, "delta": c.delta}
    return {"says": says, "file": path.name, "sha256": file_sha256(path), **claim}


def _uncovered(why: str) -> dict[str, Any]:
    return {"says": f"not covered by a certificate: {why}"}


def _covered(path: Path, c: Certificate, *, sampled: bool) -> str:
    terms = f"{c.bound_name}, δ = {c.delta:g}"
    says = f"covered by {path.name} ({terms}): at most {percent_up(c.bound)} error"
    fresh = " if every prediction has fresh noise" if sampled else ""
    nothing = " (vacuous: it says nothing)" if c.vacuous else ""
    return f"{says}{fresh}{nothing}"


def _torch_code(out: Path, predictor: Explicit) -> str:
    drawn = [f"torch.randn({_sizes(port)}, dtype=torch.float64)" for port in predictor.noise]
    names = [column.name for column in predictor.columns]
    rows = f"x = torch.tensor(frame[{names}].to_numpy(float))\n" if names else ""
    return (
        f"import torch; predict = torch.export.load({str(out)!r}).module()\n{rows}"
        f"score, label = predict({', '.join(['x', *drawn])})"
    )


def _onnx_code(out: Path, predictor: Explicit) -> str:
    rows = "frame" if predictor.columns else "x"
    drawn = [f'"{port.name}": normal(size=({_sizes(port, rows)}))' for port in predictor.noise]
    generator = "import numpy; normal = numpy.random.default_rng().normal; " if drawn else ""
    given = ", ".join(["**x" if predictor.columns else '"x": x', *drawn])
    return (
        f"{generator}import onnxruntime; model = onnxruntime.InferenceSession({str(out)!r})\n"
        f"{_FRAME if predictor.columns else ''}"
        f"score, label = model.run(None, {{{given}}})"
    )


def _sizes(port: Port, rows: str = "x") -> str:
    return ", ".join(map(str, port.sizes(f"len({rows})")))


class _Form(NamedTuple):
    """A kind of file: how it is named, written, run, and used in Python."""

    suffix: str
    surface: Callable[[Explicit, tuple[str, ...]], Surface]
    write: Callable[[Explicit, Surface, Mapping[str, Any]], bytes]
    given: Callable[[Rows], list[NDArray[Any]]]
    answer: Callable[[bytes, Sequence[NDArray[Any]]], tuple[NDArray[Any], NDArray[Any]]]
    code: Callable[[Path, Explicit], str]


_FORMS: dict[Format, _Form] = {
    "onnx": _Form(".onnx", onnx_surface, as_onnx, lambda r: r.columns, ask_onnx, _onnx_code),
    "torch": _Form(".pt2", torch_surface, as_torch, lambda r: [r.matrix], ask_torch, _torch_code),
}
