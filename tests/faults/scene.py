"""The files that faults are injected into: one small folder of every kind, made once."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import pacbayes
from pacbayes import cli
from pacbayes.paper.execution import run
from pacbayes.paper.store import Store
from pacbayes.paper.sweep import Sweep

__all__ = ["FIT", "Outcome", "build", "called", "resume"]

_SMALL = ("--epochs", "2", "--quiet", "--threads", "1")
_ARRAYS = ("train", "--dataset", "data.npz", "--widths", "3", *_SMALL)
_LEARNED = ("train", "--dataset", "data.csv", "--prior-epochs", "2", "--widths", "3", *_SMALL)
FIT = ("train", "--dataset", "data.csv", "--model", "linear", "--out", "classifier")
_STORE = ("--dataset", "digits", "--epochs", "1", "--repeats", "1", "--columns", "mlp,fast-sign")


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit code, its output, and an error that nobody handled."""

    code: int
    out: str
    err: str
    escaped: str | None = None

    @property
    def fault(self) -> str | None:
        """What is wrong with the ending, if anything; errors must be one line, with exit code 2."""
        if self.escaped is not None:
            return self.escaped
        errors = [line for line in self.err.splitlines() if line.startswith("error: ")]
        if self.code not in (0, 1, 2):
            return f"exit code {self.code}"
        if self.code == 2 and (len(errors) != 1 or not self.err.endswith(f"{errors[0]}\n")):
            return f"exit code 2 without one line: {self.err[-300:]!r}"
        return "Traceback" if "Traceback" in self.err else None


def called(*arguments: object) -> Outcome:
    """Run the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = _run([str(argument) for argument in arguments])
        except Exception as error:
            where = error.__traceback__
            while where is not None and where.tb_next is not None:
                where = where.tb_next
            at = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where else ""
            said = f"{type(error).__name__}: {error} at {at}"
            return Outcome(-1, out.getvalue(), err.getvalue(), said)
    return Outcome(code, out.getvalue(), err.getvalue())


def _run(arguments: list[str]) -> int:
    """Run the command line, or what Python alone can do: make a run of a store, load a folder."""
    here = {"make": _make, "load": _load}.get(arguments[0])
    if here is None:
        return cli._run(arguments) or 0
    try:
        here(*arguments[1:])
    except (ValueError, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def _make(folder: str, column: str) -> None:
    store = Store(Path(folder).resolve())
    (configuration,) = Sweep((column,), "digits", 1, 1).repeated(store)
    state = run(configuration, store)
    if state == "busy":
        raise ValueError(f"{folder} is being written by process 0")
    if state == "failed":
        raise ValueError(store.failure(configuration))


def _load(folder: str) -> None:
    pacbayes.load(folder)


def resume(kind: str) -> tuple[str, ...]:
    """Return the command that made a folder, which resumes it."""
    return (*(_ARRAYS if kind == "arrays" else _LEARNED), "--out", kind)


def build(folder: Path, *, whole: bool = True) -> None:
    """Make a folder of every kind inside `folder`; without `whole`, of runs of networks only."""
    folder.mkdir(parents=True, exist_ok=True)
    before = Path.cwd()
    os.chdir(folder)
    try:
        _data()
        for command in _commands(whole=whole):
            if (ended := called(*command)).code:
                sys.exit(f"{' '.join(map(str, command))}: {ended}")
        _unfinished()
        if whole:
            _saved()
    finally:
        os.chdir(before)


def _data() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3)).astype(np.float32)
    y = np.where(x[:, 0] + 0.3 * rng.normal(size=80) > 0, "yes", "no")
    np.savez(Path("data.npz"), x=x, y=y)
    rows = [
        f"{a:.4f},{b:.4f},{'red' if c > 0 else 'blue'},{t}"
        for (a, b, c), t in zip(x, y, strict=True)
    ]
    Path("data.csv").write_text("\n".join(["a,b,colour,answer", *rows]) + "\n")
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"a": x[:, 0], "b": x[:, 1], "answer": pa.array(y.tolist())})
    parquet.write_table(table, "data.parquet")


def _commands(*, whole: bool) -> list[tuple[object, ...]]:
    store = ("reproduce", "table1", "--out", "store", *_STORE, "--workers", "1", "--quiet")
    return [
        resume("arrays"),
        ("certify", "arrays", "-T", "2"),
        ("certify", "arrays", "--bound", "tandem", "-T", "2"),
        ("certify", "arrays", "--bound", "disintegrated"),
        resume("learned"),
        ("certify", "learned"),
        ("certify", "learned", "--per-class"),
        *((FIT, store, ("reproduce", "pack", "--out", "store")) if whole else ()),
    ]


def _unfinished() -> None:
    """Keep folders that a kill has left: before the posterior, and while the prior learned."""
    shutil.copytree("learned", "unfinished")
    for name in ("posterior.safetensors", *(p.name for p in Path("learned").glob("cert*"))):
        Path("unfinished", name).unlink()
    from pacbayes.folders import preparation

    original, saved = preparation.save_tensors, []

    def dying(path: Path, *rest: object) -> None:
        original(path, *rest)
        saved.append(path)
        raise KeyboardInterrupt

    preparation.save_tensors = dying
    with contextlib.suppress(KeyboardInterrupt, SystemExit):
        cli._run([*_LEARNED, "--out", "learning"])
    preparation.save_tensors = original
    assert Path("learning/learning.safetensors").exists()


def _saved() -> None:
    """Save an estimator of scikit-learn's kind."""
    from pacbayes import PACBayesClassifier

    with np.load("data.npz") as arrays:
        x, y = arrays["x"], arrays["y"]
    model = PACBayesClassifier(widths=(), epochs=2, predictor="drawn", random_state=0).fit(x, y)
    model.save("estimator", x, y)
