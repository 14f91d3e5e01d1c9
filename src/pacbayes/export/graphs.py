"""Turn a predictor into the bytes of a file, and run such bytes."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.export import Dim, ExportedProgram

from pacbayes.export.ports import Explicit
from pacbayes.export.surface import OPSET, Surface, surfaced
from pacbayes.extras import require

__all__ = ["METADATA", "as_onnx", "as_torch", "ask_onnx", "ask_torch", "noise_for"]

METADATA = "pacbayes.json"  # an extra file in a torch program


def noise_for(predictor: Explicit, batch: int) -> list[Tensor]:
    """Return noise for the predictor's inputs, the same in every call."""
    generator = torch.Generator().manual_seed(0)
    sizes = [[int(size) for size in port.sizes(batch)] for port in predictor.noise]
    return [torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes]


def _program(predictor: Explicit) -> ExportedProgram:
    batch, x = Dim("batch"), predictor.inputs[0]
    sizes = [{} if p.batch_axis is None else {p.batch_axis: batch} for p in predictor.inputs]
    shapes: dict[str, Any] = {"x": sizes[0]}
    if predictor.noise:
        shapes["noise"] = tuple(sizes[1:])
    rows = torch.zeros(3, int(x.shape[1]), dtype=getattr(torch, x.dtype))
    arguments = (rows, *noise_for(predictor, 3))
    try:
        with redirect_stderr(io.StringIO()):  # torch prints the graph of a module that it refuses
            program = torch.export.export(predictor.module, arguments, dynamic_shapes=shapes)
    except Exception as error:  # whatever the code of a module of the user's own does
        reason = str(error).strip().partition("\n")[0]
        raise RuntimeError(
            f"torch {torch.__version__} cannot trace this network: {reason}; its operations must "
            "not depend on the values of its input"
        ) from error
    program.example_inputs = None  # they would be saved in the file
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # it contains paths of this machine
    return program


def as_torch(predictor: Explicit, _: Surface, metadata: Mapping[str, Any]) -> bytes:
    """Return a file for `torch.export.load`, with the metadata as an extra file."""
    buffer, text = io.BytesIO(), json.dumps(metadata, indent=2, ensure_ascii=False)
    with _quiet():
        torch.export.save(_program(predictor), buffer, extra_files={METADATA: text})
    return buffer.getvalue()


def ask_torch(content: bytes, inputs: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return score and label. Give it only bytes made here: torch's loader trusts its files."""
    with _quiet():
        program = torch.export.load(io.BytesIO(content)).module()
        score, label = program(*map(torch.from_numpy, inputs))
    return score.numpy(), label.numpy()


def as_onnx(predictor: Explicit, surface: Surface, metadata: Mapping[str, Any]) -> bytes:
    """Return a checked ONNX model, with the metadata among its properties."""
    require("export", "--format onnx")
    import onnx

    model = surfaced(_translated(predictor), predictor, surface)
    onnx.helper.set_model_props(model, {name: _text(value) for name, value in metadata.items()})
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    return content


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _translated(predictor: Explicit) -> Any:
    """Return torch's translation of the predictor, an ONNX model."""
    try:
        with _quiet():
            program = torch.onnx.export(
                _program(predictor),
                dynamo=True,
                verbose=False,
                opset_version=OPSET if predictor.columns else None,
                input_names=[port.name for port in predictor.inputs],
                output_names=[port.name for port in predictor.outputs],
            )
    except torch.onnx.OnnxExporterError as error:  # its message has many lines
        raise RuntimeError(
            f"torch {torch.__version__} cannot translate this network to ONNX; try --format torch"
        ) from error
    assert program is not None
    return program.model_proto


def ask_onnx(content: bytes, inputs: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return score and label, computed by onnxruntime."""
    import onnxruntime

    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4  # what it says of a graph is for whoever made it
    session = onnxruntime.InferenceSession(content, quiet)
    names = [node.name for node in session.get_inputs()]
    score, label = session.run(["score", "label"], dict(zip(names, inputs, strict=True)))
    return score, label


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence torch's remarks about itself and about packages that are not needed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = logging.root.manager.disable
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(before)
