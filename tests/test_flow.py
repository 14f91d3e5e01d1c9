"""How many modules of the library a task runs through, and which of them call each other.

Each task runs in a process that has imported everything before, so that functions are counted which
run for the task, and not what imports do.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import pacbayes

ROOT = Path(pacbayes.__file__).parent
OPTIMIZED = 0x1  # functions have this flag; bodies of modules and classes do not

# Modules that a task may run through, at most; the goals are 40, 15 and 14.
BUDGETS = {"train": 50, "certify": 51, "verify": 27, "fit": 28}
# Modules of which each calls the other: by functions handed over, and by subclasses of a loop.
BOTH_WAYS = {
    ("certificates.certify", "certificates.kept"),
    ("cli.progress", "folders.run"),
    ("cli.train", "folders.run"),
    ("data.dataset", "data.source"),
    ("folders.preparation", "training.loop"),
    ("folders.run", "training.loop"),
    ("models.asking", "models.classifier"),
    ("training.loop", "training.trainer"),
    ("training.objectives", "training.trainer"),
}


def module_of(code: CodeType) -> str | None:
    """Return the module of a function of ours."""
    path = Path(code.co_filename)
    if not code.co_flags & OPTIMIZED or not path.is_relative_to(ROOT):
        return None
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def traced(act: Callable[[], Any]) -> dict[str, list[Any]]:
    """Return the modules that a task runs through, and who calls whom directly."""
    known: dict[CodeType, str | None] = {}
    modules, calls = set(), set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        codes = frame.f_code, frame.f_back.f_code if frame.f_back else None
        for code in codes:
            if code is not None and code not in known:
                known[code] = module_of(code)
        called, caller = (None if code is None else known[code] for code in codes)
        if called is not None:
            modules.add(called)
            if caller not in (None, called):
                calls.add((caller, called))

    sys.setprofile(note)
    try:
        with contextlib.suppress(SystemExit):
            act()
    finally:
        sys.setprofile(None)
    return {"modules": sorted(modules), "calls": sorted(calls)}


def command(*arguments: object) -> None:
    from pacbayes import cli

    sys.argv = ["pacbayes", *map(str, arguments)]
    cli.main()


def all_tasks() -> dict[str, dict[str, list[Any]]]:
    """Run every task in the working folder."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    for found in pkgutil.walk_packages(pacbayes.__path__, "pacbayes."):
        if "__main__" not in found.name and "libengine" not in found.name:
            importlib.import_module(found.name)
    model = pacbayes.CertifiedClassifier(LogisticRegression())
    x = np.random.default_rng(0).normal(size=(200, 3))
    y = x.sum(1) > 0
    colours = np.where(x[:, 2] > 0, "red", "blue")
    rows = [f"{a:.4f},{b:.4f},{c},{d}" for (a, b, _), c, d in zip(x, colours, y, strict=True)]
    Path("table.csv").write_text("\n".join(["a,b,colour,label", *rows]) + "\n")
    few = "--epochs", 2, "--prior-epochs", 2
    tasks = {
        "train": lambda: command("train", "--dataset", "table.csv", "--out", "run", *few),
        "certify": lambda: command("certify", "run"),
        "verify": lambda: command("verify", "run"),
        "fit": lambda: model.fit(x, y),
    }
    return {name: traced(task) for name, task in tasks.items()}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(
        [sys.executable, "-W", "ignore", __file__],
        cwd=tmp_path_factory.mktemp("flow"),
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(process.stdout)


@pytest.mark.parametrize("name", BUDGETS)
def test_a_task_runs_through_few_modules(name, tasks):
    modules = tasks[name]["modules"]
    assert 5 < len(modules) <= BUDGETS[name], modules


def test_no_other_modules_call_each_other(tasks):
    calls = {tuple(pair) for task in tasks.values() for pair in task["calls"]}
    both = {(a, b) for a, b in calls if a < b and (b, a) in calls}
    assert both <= BOTH_WAYS


def test_the_tracer_sees_callers_and_functions_but_no_imports():
    found = traced(lambda: pacbayes.kl_inverse(0.1, 0.2))
    assert "bounds.binary_kl" in found["modules"]
    found = traced(lambda: pacbayes.small_kl(0.1, 3.0, 100, 0.05))
    assert ["bounds.small_kl", "bounds.binary_kl"] in [list(pair) for pair in found["calls"]]
    assert not traced(lambda: importlib.reload(importlib.import_module("pacbayes.moved")))["calls"]


if __name__ == "__main__":
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        found = all_tasks()
    print(json.dumps(found))
