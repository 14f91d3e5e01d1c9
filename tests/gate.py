"""The mutation gate: every defect of tests/mutants.py is sown, and must be caught.

`make mutants` runs it, with one process for each core, and exits with 1 if any defect survives. The
tests of a defect stop at the first failure, and what failed must pass without any defect. Results
are appended to a file, with a hash of the defect, the file it is in and its tests. What is there is
not run again. If only the hash has changed, the test that failed last time is run first, else the
tests of the file itself.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import pytest

from mutants import MUTANTS

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 1800  # seconds; a defect that makes its tests endless is caught
NONE = ["no tests ran"]
FORKED = ["torch", "scipy.stats", "sklearn.ensemble", "pandas", "pyarrow.parquet"]  # loaded once
PROCESSES = multiprocessing.get_context("forkserver")
Mutant = tuple[str, str, str, str]  # file, what stands there, the defect, the tests


@dataclass(frozen=True)
class Result:
    """What became of a defect.

    Attributes:
        key: hash of the defect, the file it is in and the tests.
        caught: the test that failed, or how the tests ended otherwise; None if they passed.
    """

    file: str
    there: str
    defect: str
    key: str
    caught: str | None
    seconds: float

    def __str__(self) -> str:
        fate = "SURVIVED" if self.caught is None else "caught"
        return f"{fate}, {self.seconds:.0f} s: {self.file} · {self.change}"

    @property
    def change(self) -> str:
        """The edit, in one line."""
        return f"`{' '.join(self.there.split())}` → `{' '.join(self.defect.split())}`"


def main() -> int:
    options = _options()
    os.environ |= {"OMP_NUM_THREADS": "1", "JOBLIB_MULTIPROCESSING": "0"}  # its pools hang here
    PROCESSES.set_forkserver_preload(FORKED)
    chosen = [m for m in MUTANTS if not options.parts or any(p in m[0] for p in options.parts)]
    _refuse_stale(chosen)
    results = _read(options.log)
    todo = [m for m in chosen if key_of(m) not in results]
    print(f"{len(chosen)} defects, of which {len(chosen) - len(todo)} were sown before", flush=True)
    for i, result in enumerate(_sown(todo, results, options.jobs), 1):
        results[result.key] = result
        with options.log.open("a") as file:
            file.write(json.dumps(asdict(result), ensure_ascii=False) + "\n")
        print(f"{i} of {len(todo)} {result}", flush=True)
    found = [results[key_of(m)] for m in chosen]
    failing = failing_without(found)
    table = _table(found, failing)
    print(table)
    if options.summary:
        options.summary.write_text(table)
    return any(r.caught is None or r.caught in failing for r in found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="only files whose path has one of these parts")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--log", type=Path, default=ROOT / "benchmarks" / "mutants.jsonl")
    parser.add_argument("--summary", type=Path)
    return parser.parse_args()


def _refuse_stale(mutants: Sequence[Mutant]) -> None:
    for file, there, *_ in mutants:
        if there not in (ROOT / "src" / "pacbayes" / file).read_text():
            raise SystemExit(f"{file} has no {there!r}: bring tests/mutants.py up to date")


def _read(log: Path) -> dict[str, Result]:
    """Return all results by their keys."""
    lines = log.read_text().splitlines() if log.exists() else []
    return {result.key: result for result in (Result(**json.loads(line)) for line in lines)}


def key_of(mutant: Mutant) -> str:
    file, *_, tests = mutant
    hasher = hashlib.sha256(json.dumps(mutant).encode())
    for path in (ROOT / "src" / "pacbayes" / file, *_files_of(tests)):
        hasher.update(path.read_bytes())
    return hasher.hexdigest()[:16]


@cache
def _files_of(tests: str) -> list[Path]:
    """Return the files of some tests, and the fixtures beside them."""
    paths = [ROOT / word for word in tests.split() if word.startswith("tests/")]
    files = {p for path in paths for p in (path.rglob("*.py") if path.is_dir() else [path])}
    beside = {folder / "conftest.py" for path in files for folder in path.parents}
    return sorted(files | {path for path in beside if path.exists()})


def _sown(todo: Sequence[Mutant], results: dict[str, Result], jobs: int) -> Iterator[Result]:
    """Yield the result of every defect, in their order."""
    last = {(r.file, r.there, r.defect): r.caught for r in results.values() if r.caught}
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda m: sow(m, last.get(m[:3])), todo)


def sow(mutant: Mutant, last: str | None) -> Result:
    """Run the tests with a defect, first the one that failed the last time."""
    file, there, defect, tests = mutant
    key, began = key_of(mutant), time.monotonic()
    with _copy() as source:
        path = source / "pacbayes" / file
        path.write_text(path.read_text().replace(there, defect, 1))
        failed = failures(source, [last]) if last else []
        if failed in ([], NONE):
            failed = failures(source, _own_first(file, tests))
    if failed == NONE:
        raise SystemExit(f"{tests}: no tests ran")
    caught = failed[0] if failed else None
    return Result(file, there, defect, key, caught, round(time.monotonic() - began, 1))


def _own_first(file: str, tests: str) -> list[str]:
    """Return the tests, and first those of the file itself if they are among them."""
    path = Path("tests", file)
    own = path.with_name(f"test_{path.name}")
    named = any(own.is_relative_to(word) for word in tests.split())
    return [*([str(own)] if named and (ROOT / own).exists() else []), *tests.split()]


@contextmanager
def _copy() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pacbayes-gate-") as name:
        source = Path(name) / "src"
        shutil.copytree(ROOT / "src", source)
        yield source


def failing_without(results: Collection[Result]) -> list[str]:
    """Return the tests that caught a defect, but fail without any."""
    tests = {r.caught for r in results if r.caught and r.caught.startswith("tests/")}
    with _copy() as source:
        failed = failures(source, sorted(tests), all_of_them=True) if tests else []
    if failed and not set(failed) <= tests:
        raise SystemExit(f"without any defect: {failed[0]}")
    return failed


def failures(source: Path, tests: Sequence[str], *, all_of_them: bool = False) -> list[str]:
    """Return the first test that fails with the package in `source`, or all of them.

    If the process does not end as it should, return how it ended.
    """
    out = source.parent / "failures.json"
    out.unlink(missing_ok=True)
    arguments = [*tests] if all_of_them else ["-x", *tests]
    process = PROCESSES.Process(target=_run, args=(ROOT, source, arguments, out))
    process.start()
    process.join(LIMIT)
    if process.is_alive():
        process.kill()
        process.join()
        return [f"no end within {LIMIT} seconds"]
    if process.exitcode in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
        return NONE
    failed: list[str] = json.loads(out.read_text()) if out.exists() else []
    return failed or ([f"exit code {process.exitcode}"] if process.exitcode else [])


class _Failures:
    """Notes the tests and files that fail; a plugin of pytest."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid not in self.names:
            self.names.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.names.append(report.nodeid)


def _run(root: Path, source: Path, arguments: list[str], out: Path) -> None:
    """Run pytest with the package in `source`; end with its exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.chdir(root)
    os.environ["PYTHONPATH"] = str(source)
    sys.path.insert(0, str(source))
    found = _Failures()
    code = pytest.main(["-q", "-p", "no:cacheprovider", *arguments], [found])
    out.write_text(json.dumps(found.names))
    sys.exit(code)


def _table(results: Collection[Result], failing: Collection[str]) -> str:
    """Return the summary: defects by file, and those that were not caught."""
    version = next(
        line.split('"')[1]
        for line in (ROOT / "src" / "pacbayes" / "__init__.py").read_text().splitlines()
        if line.startswith("__version__")
    )
    all_of = Counter(r.file for r in results)
    missed = [r for r in results if r.caught is None]
    unsound = [r for r in results if r.caught in failing]
    hours = sum(r.seconds for r in results) / 3600
    lines = [
        "# Mutants",
        "",
        "Made by `make mutants`. Each defect is one edit; the tests must notice it.",
        "",
        f"pacbayes {version}: {len(results) - len(missed) - len(unsound)} of {len(results)} "
        f"caught, in {hours:.1f} hours of one process.",
        "",
        "| file | defects | caught |",
        "|---|---:|---:|",
        *(
            f"| `{file}` | {n} | {n - sum(r.file == file for r in (*missed, *unsound))} |"
            for file, n in sorted(all_of.items())
        ),
        *(["", "Not caught:", ""] if missed or unsound else []),
        *(f"- `{r.file}`: {r.change}" for r in missed),
        *(f"- `{r.file}`: {r.caught} fails without any defect" for r in unsound),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
