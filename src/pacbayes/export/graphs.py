"""Turn a predictor into the bytes of a file, and run such bytes.

torch's translation of a predictor takes one matrix and returns indices of classes. An ONNX file has
a surface around it: an input for every column of the table, which takes texts as they are, and
labels as the data have them.
"""

from __future__ import annotations

import io
import json
import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.export import Dim, ExportedProgram

from pacbayes.data.frame import Kind
from pacbayes.export.encoding import REFUSED
from pacbayes.export.predictors import Explicit, Port, RawColumn
from pacbayes.extras import require

__all__ = [
    "METADATA",
    "OPSET",
    "Surface",
    "as_onnx",
    "as_torch",
    "ask_onnx",
    "ask_torch",
    "noise_for",
    "onnx_surface",
    "surfaced",
    "torch_surface",
]

METADATA = "pacbayes.json"  # an extra file in a torch program
OPSET = 20  # the first with regular expressions, which find the texts that a table would trim
_PREFIX = "pacbayes/"  # of every value inside the graph, so that columns may have any names
_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)
_SPACE = "".join(f"\\x{{{i:x}}}" for i in range(0x3001) if chr(i).isspace())  # what `strip` removes
_UNTRIMMED = f"(?s)[{_SPACE}].*|.*[{_SPACE}]"
_NOT_FINITE = "refused_number_missing_or_too_large"
_BAD_TEXT = "refused_text_missing_or_with_spaces_around_it"
_MEANINGS = {
    Kind.NUMBER: "number; NaN where it is missing",
    Kind.DATE: "date, in days since 1970-01-01; NaN where it is missing",
    Kind.BOOLEAN: "true, false, yes or no, in any case; empty where it is missing",
    Kind.CATEGORY: "category; empty where it is missing",
}


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


@dataclass(frozen=True)
class Surface:
    """What a file takes and returns.

    Attributes:
        columns: the input of each column of the table, by the name of the column.
        classes: what `label` says of each index; empty if it is the index.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    columns: Mapping[str, str]
    classes: tuple[str, ...] = ()


def torch_surface(predictor: Explicit, _: tuple[str, ...]) -> Surface:
    """Return the predictor's own inputs and outputs; tables of numbers alone have such files."""
    for column in predictor.columns:
        if not column.numeric:
            raise ValueError(
                f"column {column.name!r} has texts, which a torch program cannot take; "
                "use --format onnx"
            )
    names = {column.name: "x" for column in predictor.columns}
    return Surface(predictor.inputs, predictor.outputs, names)


def onnx_surface(predictor: Explicit, classes: tuple[str, ...]) -> Surface:
    """Return an input for every column of a table, and labels as the data have them."""
    score, _ = predictor.outputs
    label = Port("label", ("batch",), "string", "class, as in the data")
    if _integers(classes):
        label = Port("label", ("batch",), "int64", "class, as in the data")
    inputs, names = list(predictor.inputs), _input_names(predictor)
    if names:
        inputs[:1] = [_port(column, names[column.name]) for column in predictor.columns]
    return Surface(tuple(inputs), (score, label), names, classes)


def _integers(classes: tuple[str, ...]) -> bool:
    """Tell whether all classes are whole numbers as they are usually written."""
    return all(_INTEGER.fullmatch(name) for name in classes)


def _input_names(predictor: Explicit) -> dict[str, str]:
    """Return a name for the input of each column: its own, unless the graph has it already."""
    reserved = {port.name for port in (*predictor.noise, *predictor.outputs)}
    taken = reserved | {column.name for column in predictor.columns}
    names: dict[str, str] = {}
    for column in predictor.columns:
        name = column.name
        if name in reserved or name.startswith(_PREFIX):
            while name in taken:  # its own name is
                name = f"column_{name}"
        taken.add(name)
        names[column.name] = name
    return names


def _port(column: RawColumn, name: str) -> Port:
    dtype = "float64" if column.numeric else "string"
    return Port(name, ("batch", 1), dtype, _MEANINGS[column.kind])


def surfaced(model: Any, predictor: Explicit, surface: Surface) -> Any:
    """Return torch's translation of a predictor, behind the surface.

    Traces of how and where the translation was made are removed.
    """
    from onnx import compose, helper

    _tidy(model.graph)
    inner = compose.add_prefix(model, _PREFIX)
    labels = _constant("classes", *_of_classes(surface.classes))
    own, constants = _rows(predictor, surface)
    noise = [_node("Identity", [port.name], _inside(port.name)) for port in predictor.noise]
    answers = [
        helper.make_node("Identity", [_inside("score")], ["score"]),
        helper.make_node("Gather", [labels.name, _inside("label")], ["label"]),
    ]
    graph = helper.make_graph(
        [*own, *noise, *inner.graph.node, *answers],
        "pacbayes",
        [_value(port) for port in surface.inputs],
        [_value(port) for port in surface.outputs],
        initializer=[*inner.graph.initializer, *constants, labels],
    )
    versions = {o.domain: o.version for o in inner.opset_import} | {"ai.onnx.ml": 2}
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(*pair) for pair in versions.items()],
        ir_version=inner.ir_version,
        functions=list(inner.functions),
        producer_name="pacbayes",
    )


def _tidy(graph: Any) -> None:
    """Name what refuses a row, and remove traces of how and where the graph was made."""
    for node in graph.node:
        scopes = [p.value for p in node.metadata_props if p.key.endswith("name_scopes")]
        if node.op_type == "Gather" and "'refusal'" in "".join(scopes):
            node.name = _NOT_FINITE
        if node.op_type == "Gather" and "texts_" in node.input[0]:
            node.name = f"{_BAD_TEXT}_{node.name}"
        del node.metadata_props[:]
    del graph.value_info[:]


def _rows(predictor: Explicit, surface: Surface) -> tuple[list[Any], list[Any]]:
    """Return nodes that make the matrix of the rows, and constants that they need."""
    if not predictor.columns:
        return [_node("Identity", [predictor.inputs[0].name], _inside("x"))], []
    from onnx import TensorProto

    refused, nodes, parts = _constant("refused", TensorProto.INT64, REFUSED), list[Any](), []
    for i, column in enumerate(predictor.columns):
        name = surface.columns[column.name]
        if not column.numeric:
            nodes += _coded(column, name, i, refused.name)
            name = _inside(f"code_{i}")
        parts.append(name)
    used = [refused] if nodes else []
    return [*nodes, _node("Concat", parts, _inside("x"), axis=1)], used


def _coded(column: RawColumn, name: str, i: int, refused: str) -> list[Any]:
    """Return nodes from texts to their codes, as numbers; a table would trim some, so refuse."""
    from onnx import TensorProto, helper

    known, wide, code = (_inside(f"{word}_{i}") for word in ("known", "untrimmed", "whole"))
    codes = helper.make_node(
        "LabelEncoder",
        [name],
        [known],
        domain="ai.onnx.ml",
        keys_strings=list(column.codes),
        values_int64s=list(column.codes.values()),
        default_int64=column.other,
    )
    return [
        codes,
        _node("RegexFullMatch", [name], wide, pattern=_UNTRIMMED),
        _node("Where", [wide, refused, known], code),
        _node("Cast", [code], _inside(f"code_{i}"), to=TensorProto.DOUBLE),
    ]


def _of_classes(classes: tuple[str, ...]) -> tuple[int, list[Any]]:
    from onnx import TensorProto

    if _integers(classes):
        return TensorProto.INT64, [int(name) for name in classes]
    return TensorProto.STRING, [name.encode() for name in classes]


def _inside(name: str) -> str:
    return f"{_PREFIX}{name}"


def _node(kind: str, inputs: list[str], output: str, **attributes: Any) -> Any:
    from onnx import helper

    return helper.make_node(kind, inputs, [output], **attributes)


def _constant(name: str, kind: int, value: Any) -> Any:
    from onnx import helper

    whole = isinstance(value, list)
    return helper.make_tensor(
        _inside(name), kind, [len(value)] if whole else [], value if whole else [value]
    )


def _value(port: Port) -> Any:
    """Return the declaration of an input or output."""
    from onnx import TensorProto, helper

    kinds = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}
    kinds |= {"int64": TensorProto.INT64, "string": TensorProto.STRING}
    return helper.make_tensor_value_info(
        port.name, kinds[port.dtype], list(port.shape), doc_string=port.meaning
    )
