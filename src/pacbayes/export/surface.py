"""The surface of a file: an input for every column of the table, and labels as the data have them.

torch's translation of a predictor takes one matrix and returns indices of classes. An ONNX file
takes texts as they are and returns the classes themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pacbayes.data.frame import Kind
from pacbayes.export.encoding import REFUSED
from pacbayes.export.ports import Explicit, Port, RawColumn

__all__ = ["OPSET", "Surface", "onnx_surface", "surfaced", "torch_surface"]

OPSET = 20  # the first with regular expressions, which find the texts that a table would trim
_PREFIX = "pacbayes/"  # of every value inside the graph, so that columns may have any names
_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)
_SPACE = "".join(f"\\x{{{i:x}}}" for i in range(0x3001) if chr(i).isspace())  # what `strip` removes
_UNTRIMMED = f"(?s)[{_SPACE}].*|.*[{_SPACE}]"
_NOT_FINITE = "refused_number_missing_or_too_large"
_BAD_TEXT = "refused_text_missing_or_with_spaces_around_it"
_MEANINGS = {
    Kind.NUMBER: "number; NaN where it is missing",
    Kind.BOOLEAN: "true, false, yes or no, in any case; empty where it is missing",
    Kind.CATEGORY: "category; empty where it is missing",
}


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
