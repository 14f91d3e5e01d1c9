"""Damaged inputs: every command answers them in one line with exit code 2, or does its work."""

from __future__ import annotations

import os
import random
import shutil
import signal
import warnings
from collections.abc import Sequence
from pathlib import Path

from faults.mutations import damage
from faults.scene import called, resume

__all__ = ["case", "warm"]

_NETWORK: Sequence[tuple[object, ...]] = (
    ("certify", "RUN", "-T", "2"),
    ("certify", "RUN", "--bound", "disintegrated"),
    ("verify", "RUN"),
    ("verify", "RUN", "--full"),
    ("predict", "RUN", "DATA"),
    ("report", "RUN"),
    ("export", "RUN", "--format", "onnx", "--out", "out.onnx"),
    ("export", "RUN", "--format", "onnx", "--method", "drawn", "--out", "out.onnx"),
    ("plot", "RUN", "--out", "out.png"),
)
_OFTEN = _NETWORK[:6] * 4  # the others take seconds
_CLASSIFIER = (
    ("certify", "RUN"),
    ("verify", "RUN"),
    ("verify", "RUN", "--full"),
    ("predict", "RUN", "DATA"),
    ("report", "RUN"),
)
_STORE = (
    ("reproduce", "status", "--out", "store"),
    ("reproduce", "table1", "--out", "store", "--as-is"),
    ("reproduce", "table2", "--out", "store", "--as-is"),
    ("reproduce", "grid", "--out", "store", "--as-is"),
    ("reproduce", "pack", "--out", "store"),
    ("report", "store"),
)
_LOAD = ("load", "RUN")
_KINDS = {  # commands on a folder, and the data that they predict
    "arrays": ((*_NETWORK, *_OFTEN, resume("arrays")), "data.npz"),
    "learned": ((*_NETWORK, *_OFTEN, resume("learned")), "data.csv"),
    "unfinished": (
        (resume("unfinished"), resume("unfinished"), ("plot", "RUN", "--out", "a.png")),
        "",
    ),
    "learning": ((resume("learning"),), ""),
    "classifier": ((*_CLASSIFIER, _LOAD), "data.csv"),
    "estimator": ((*_NETWORK[2:5] * 4, _NETWORK[7], *[_LOAD] * 4), "data.csv"),
    "store": (_STORE, ""),
}
_DATA = {
    "data.npz": (resume("new"), ("predict", "arrays", "data.npz"), ("verify", "arrays")),
    "data.csv": (resume("new"), ("predict", "learned", "data.csv"), ("verify", "learned")),
    "data.parquet": (("predict", "learned", "data.parquet"),),
}


def case(number: int, scene: Path, work: Path) -> tuple[str, str | None]:
    """Damage one file and run one command; return what was done, and what went wrong."""
    rng = random.Random(number)
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(scene, work)
    os.chdir(work)
    if rng.random() < 0.3:
        name = rng.choice(sorted(_DATA))
        path, command = Path(name), rng.choice(_DATA[name])
        others = sorted(Path().glob("data.*"))
        if name == "data.npz" and command[0] == "train":
            command = (*resume("arrays")[:-1], "new")
        elif command[0] == "train":
            command = tuple(name if word == "data.csv" else word for word in command)
    else:
        kind = rng.choice([kind for kind in sorted(_KINDS) if Path(kind).exists()])
        commands, data = _KINDS[kind]
        files = sorted(p for p in Path(kind).rglob("*") if p.is_file() and _matters(p))
        path, command = rng.choice(files), rng.choice(commands)
        elsewhere = [p for p in Path().rglob("*.*") if p.is_file() and p.suffix == path.suffix]
        others = [p for p in (files if rng.random() < 0.5 else sorted(elsewhere)) if p != path]
        others = others or [Path("data.npz")]
        command = tuple({"RUN": kind, "DATA": data}.get(str(word), word) for word in command)
    done = f"{path}: {damage(path, others, rng)}; {' '.join(map(str, command))}"
    return done, _fault(command)


def warm(scene: Path, work: Path) -> None:
    """Run the commands that import most, so that the processes of the cases need not."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(scene, work)
    os.chdir(work)
    for command in (*_NETWORK[4:], *_STORE, ("load", "classifier")):
        words = {"RUN": "learned", "DATA": "data.csv"}
        called(*(words.get(str(word), word) for word in command))


def _matters(path: Path) -> bool:
    return "checkpoint" not in path.name or "store" not in path.parts


def _fault(command: tuple[object, ...]) -> str | None:
    signal.alarm(120)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ended = called(*command)
    finally:
        signal.alarm(0)
    stray = [p for p in Path().rglob(".*") if not p.is_dir()]
    return ended.fault or (f"left {stray}" if stray else None)
