"""Damage to files, drawn from a seeded generator: bits, lengths, structure, and whole files."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pacbayes.files import load_tensors, save_tensors

__all__ = ["damage"]

_VALUES: tuple[Any, ...] = (
    *(None, True, False, "", "x", -1, 0, 1, -0.5, 1e300, 1e-320, float("nan"), float("inf")),
    *([], {}, [1], [None], {"a": 1}, [[[]]], "9" * 400, "\ud800", "a\nb", "../../x", "\0", "/"),
)
_WIDE = (2**31, 2**32, 2**53 + 1, 2**62, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400, 10**4000)
_TOO_LONG = "9" * 5000  # a number that Python refuses to read


def damage(path: Path, others: list[Path], rng: random.Random) -> str:
    """Damage a file in one of the ways that its kind allows; return what was done."""
    ways: list[Callable[[Path, random.Random], str]] = [_bytes, _bytes]
    if path.suffix == ".json":
        ways += [_structure] * 4
    if path.suffix == ".safetensors":
        ways += [_tensors] * 3
    if path.suffix == ".npz":
        ways += [_archive] * 4
    if path.suffix == ".csv":
        ways += [_cells] * 3
    if rng.random() < 0.15:
        return _exchanged(path, others, rng)
    return rng.choice(ways)(path, rng)


def _exchanged(path: Path, others: list[Path], rng: random.Random) -> str:
    """Put something else in the place of a file: another file, a folder, a link, or nothing."""
    namesakes = [p for p in others if p.name == path.name]
    way = rng.choice(["other", "other", "namesake", "namesake", "removed", "folder", "link"])
    if way in ("other", "namesake"):
        other = rng.choice(namesakes if way == "namesake" and namesakes else others)
        content, own = other.read_bytes(), path.read_bytes()
        path.write_bytes(content)
        if rng.random() < 0.5:
            other.write_bytes(own)
            return f"exchanged with {other}"
        return f"replaced by {other}"
    path.unlink()
    if way == "folder":
        path.mkdir()
    elif way == "link":
        path.symlink_to(path.name)
    return way


def _bytes(path: Path, rng: random.Random) -> str:
    content = bytearray(path.read_bytes())
    size = len(content)
    way = rng.choice(["flip", "flip", "flip", "cut", "zero", "insert", "remove", "empty", "noise"])
    at = rng.randrange(size) if size else 0
    if way == "flip":
        for _ in range(rng.choice([1, 1, 2, 10])):
            content[rng.randrange(size)] ^= 1 << rng.randrange(8)
    elif way == "cut":
        del content[at:]
    elif way == "zero":
        content[at : at + 16] = bytes(len(content[at : at + 16]))
    elif way == "insert":
        content[at:at] = rng.randbytes(rng.randrange(1, 9))
    elif way == "remove":
        del content[at : at + rng.randrange(1, 9)]
    elif way == "empty":
        content.clear()
    else:
        content[:] = rng.randbytes(rng.randrange(1, 300))
    path.write_bytes(content)
    return f"{way} at {at}"


def _places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    pairs = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [place, *(p for k, v in list(pairs) for p in _places(v, (*place, k)))]


def _structure(path: Path, rng: random.Random) -> str:
    """Replace or remove one value of a JSON file, or add a key."""
    record = json.loads(path.read_text())
    return _write_json(path, *_changed(record, rng))


def _write_json(path: Path, record: Any, said: str) -> str:
    text = json.dumps(record, indent=2)
    path.write_text(text.replace(f'"{_TOO_LONG}"', _TOO_LONG))
    return said


def _changed(record: Any, rng: random.Random) -> tuple[Any, str]:
    place = rng.choice(_places(record))
    if not place:
        value = rng.choice(_VALUES)
        return value, f"all = {value!r:.40}"
    *way, last = place
    holder = record
    for step in way:
        holder = holder[step]
    kind = rng.choice(["remove", "replace", "replace", "add", "number", "wide"])
    if kind == "remove":
        del holder[last]
    elif kind == "add" and isinstance(holder, dict):
        holder[f"{last} "] = holder[last]
    elif kind == "number" and isinstance(holder[last], int | float):
        holder[last] = rng.choice(
            [-holder[last], holder[last] * 10, holder[last] + 0.5, str(holder[last])]
        )
    elif kind == "wide" and isinstance(holder[last], int | float):
        wide = rng.choice([*_WIDE, _TOO_LONG])
        holder[last] = -wide if isinstance(wide, int) and rng.random() < 0.3 else wide
    else:
        holder[last] = rng.choice(_VALUES)
    shown = repr(holder[last])[:40] if kind != "remove" else ""
    return record, f"{kind} {'.'.join(map(str, place))} {shown}"


def _tensors(path: Path, rng: random.Random) -> str:
    """Rewrite tensors or the record with a digest that is right."""
    try:
        tensors, record = load_tensors(path)
    except ValueError:
        return _bytes(path, rng)
    if rng.random() < 0.5 and record is not None:
        record, said = _changed(record, rng)
    elif not tensors:
        return _bytes(path, rng)
    else:
        name = rng.choice(sorted(tensors))
        tensor = tensors.pop(name)
        said = rng.choice(["remove", "rename", "shape", "type", "nan", "empty", "scalar", "large"])
        real = tensor.is_floating_point()
        other = rng.choice([torch.float16, torch.int32, torch.bool, torch.float64])
        changed = {
            "rename": {f"{name}.x": tensor},
            "shape": {name: tensor.flatten()[:-1]},
            "type": {name: tensor.to(other)},
            "nan": {name: torch.full_like(tensor, float("nan") if real else -7)},
            "empty": {name: tensor.flatten()[:0]},
            "scalar": {name: torch.zeros((), dtype=tensor.dtype)},
            "large": {name: torch.full_like(tensor, 1e30 if real else 99)},
        }
        tensors |= changed.get(said, {})
        said = f"{said} {name}"
    save_tensors(path, tensors, record)
    return said


def _archive(path: Path, rng: random.Random) -> str:
    """Rewrite an archive of arrays with one member that is not as it should be."""
    with np.load(path) as arrays:
        members = {name: _npy(arrays[name]) for name in ("x", "y")}
    name = rng.choice(["x", "y"])
    content, said = _member(members[name], rng)
    members[name] = content
    pack = rng.choice(
        [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2]
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", pack) as archive:
        for member, data in members.items():
            archive.writestr(f"{member}{rng.choice(['.npy'] * 9 + [''])}", data)
    whole = bytearray(buffer.getvalue())
    for _ in range(rng.choice([0, 0, 1, 3])):
        whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
    path.write_bytes(whole)
    return f"{said} {name}, method {pack}"


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def _member(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    array = np.load(io.BytesIO(content))
    headers = [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999999, 9), }",
        b"{'descr': '|O', 'fortran_order': False, 'shape': (80,), }",
        b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (80,), }",
        b"{'descr': '<f4', 'fortran_order': 7, 'shape': (80, 3), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (-80, 3), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (80L, 3), }",
        b"(" * 300,
        b"'''",
        b"\t{\n  'descr'",
        b"{'descr': '<M8[s]', 'fortran_order': False, 'shape': (80,), }",
        b"{'descr': 'zz', 'fortran_order': False, 'shape': (80,), }",
        b"{'descr': ('<f4', (1,)), 'fortran_order': False, 'shape': (80,), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': 80, }",
        b"{'descr': '<U99999999', 'fortran_order': False, 'shape': (80,), }",
    ]
    way = rng.choice(["header", "header", "object", "text", "cut", "kind", "version", "flip"])
    if way == "header":
        header = rng.choice(headers).ljust(118) + b"\n"
        version = rng.choice([b"\x01\x00", b"\x02\x00", b"\x03\x00"])
        length = len(header).to_bytes(2 if version == b"\x01\x00" else 4, "little")
        return b"\x93NUMPY" + version + length + header + content[128:], f"header {header[:60]!r}"
    if way == "object":
        return _npy(np.array([None, {}] * 40, object)), way
    if way == "text":
        return rng.randbytes(rng.randrange(200)), way
    if way == "cut":
        return content[: rng.randrange(len(content))], way
    if way == "kind":
        kinds: list[Any] = [
            array[:-1], array.reshape(-1)[0], array[:0], np.full(80, np.nan), array[..., None],
            np.full(80, "a\udc80"), np.full(80, b"\xff"), np.arange(80) * 1j, np.full(80, 1e300),
            np.arange(80).astype("M8[s]"), np.zeros(80, [("a", "f4")]), np.full((80, 0), 1.0),
        ]  # fmt: skip
        return _npy(rng.choice(kinds)), way
    if way == "version":
        return b"\x93NUMPY" + bytes([rng.randrange(9), rng.randrange(3)]) + content[8:], way
    changed = bytearray(content)
    for _ in range(rng.choice([1, 5])):
        changed[rng.randrange(min(140, len(changed)))] = rng.randrange(256)
    return bytes(changed), way


def _cells(path: Path, rng: random.Random) -> str:
    """Change one cell of a table."""
    lines = [line.split(",") for line in path.read_text().splitlines()]
    row = rng.choice([0, rng.randrange(len(lines))])
    cell = rng.choice(
        ["", "nan", "1_0", "\uff11\uff12", "inf", "1e400", '"', "a\nb", "\x00", "=1+1", "9" * 5000]
    )
    lines[row][rng.randrange(len(lines[row]))] = cell
    path.write_text("\n".join(map(",".join, lines)) + "\n")
    return f"cell in row {row}: {cell[:20]!r}"
