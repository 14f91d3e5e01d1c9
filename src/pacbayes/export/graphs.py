"""Turn a predictor into the bytes of a file, and run such bytes."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

from pacbayes.export.predictors import Explicit
from pacbayes.extras import require

__all__ = ["METADATA", "as_onnx", "as_torch", "ask_onnx", "ask_torch", "noise_for"]

METADATA = "pacbayes.json"  # an extra file in a torch program


def noise_for(predictor: Explicit, batch: int) -> list[Tensor]:
    """Return noise for the predictor's inputs, the same in every call."""
    generator = torch.Generator().manual_seed(0)
    sizes = ([batch if d == "batch" else int(d) for d in p.shape] for p in predictor.inputs[1:])
    return [torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes]


def _program(predictor: Explicit) -> ExportedProgram:
    batch, features = Dim("batch"), int(predictor.inputs[0].shape[1])
    free = [{p.shape.index("batch"): batch} for p in predictor.inputs]
    shapes: dict[str, Any] = {"x": free[0]}
    if free[1:]:
        shapes["noise"] = tuple(free[1:])
    arguments = (torch.zeros(3, features), *noise_for(predictor, 3))
    program = torch.export.export(predictor.module, arguments, dynamic_shapes=shapes)
    program.example_inputs = None  # they would be saved in the file
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # it contains paths of this machine
    return program


def as_torch(predictor: Explicit, metadata: Mapping[str, Any]) -> bytes:
    """Return a file for `torch.export.load`, with the metadata as an extra file."""
    buffer, text = io.BytesIO(), json.dumps(metadata, indent=2, ensure_ascii=False)
    with _quiet():
        torch.export.save(_program(predictor), buffer, extra_files={METADATA: text})
    return buffer.getvalue()


def ask_torch(content: bytes, inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return score and label. Give it only bytes made here: torch's loader trusts its files."""
    with _quiet():
        score, label = torch.export.load(io.BytesIO(content)).module()(*inputs)
    return score, label


def as_onnx(predictor: Explicit, metadata: Mapping[str, Any]) -> bytes:
    """Return a checked ONNX model, with the metadata among its properties."""
    require("export", "--format onnx")
    import onnx

    try:
        with _quiet():
            program = torch.onnx.export(
                _program(predictor),
                dynamo=True,
                verbose=False,
                input_names=[port.name for port in predictor.inputs],
                output_names=[port.name for port in predictor.outputs],
            )
    except torch.onnx.OnnxExporterError as error:  # its message has many lines
        raise RuntimeError(
            f"torch {torch.__version__} cannot translate this network to ONNX; try --format torch"
        ) from error
    assert program is not None
    model = program.model_proto
    _describe(model.graph, predictor)
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in metadata.items()}
    onnx.helper.set_model_props(model, texts)
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    return content


def _describe(graph: Any, predictor: Explicit) -> None:
    """Describe inputs and outputs, and remove traces of how and where the graph was made."""
    for node in graph.node:
        del node.metadata_props[:]
    del graph.value_info[:]
    ports, values = predictor.inputs + predictor.outputs, (*graph.input, *graph.output)
    for port, value in zip(ports, values, strict=True):
        del value.metadata_props[:]
        value.doc_string = port.meaning
        axis = port.shape.index("batch")
        value.type.tensor_type.shape.dim[axis].dim_param = "batch"


def ask_onnx(content: bytes, inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return score and label, computed by onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content)
    names = [node.name for node in session.get_inputs()]
    given = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
    score, label = (torch.from_numpy(np.asarray(array)) for array in session.run(None, given))
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
