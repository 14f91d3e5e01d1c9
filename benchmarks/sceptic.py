"""Install only what `pacbayes verify` needs, use it, and weigh it: `make sceptic`.

Two environments are made in a temporary folder: one with this package and the few that `verify`
imports, one with everything that the package requires. In the first, two folders that are committed
are verified. It takes a few minutes; MNIST is downloaded if it is not in the cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("numpy", "pydantic", "python-flint", "rich", "safetensors", "typer")
NETWORK = ROOT / "results" / "certificates" / "ten-relu-learned" / "scale-0.03"
CLASSIFIER = ROOT / "tests" / "formats" / "classifier-1.zip"
FROM_VENV = ("pip", "setuptools", "_distutils_hack", "pkg_resources")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="pacbayes-sceptic-") as name:
        folder = Path(name)
        with zipfile.ZipFile(CLASSIFIER) as archive:
            archive.extractall(folder)
        alone = _environment(folder / "alone", PACKAGES, ("--no-deps", ROOT))
        said = [_verified(alone, run) for run in (NETWORK, folder / "run")]
        full = _environment(folder / "full", ("-c", ROOT / "constraints.txt", ROOT))
        text = _page(_sizes(alone), _sizes(full), said)
    (ROOT / "benchmarks" / "sceptic.md").write_text(text)
    print(text)


def _environment(folder: Path, *installed: tuple[object, ...]) -> Path:
    venv.create(folder, with_pip=True)
    for what in installed:
        _run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", *what)
    return folder


def _verified(environment: Path, run: Path) -> str:
    """Return the last lines of `verify`; a certificate that does not hold ends the program."""
    out = _run(environment / "bin" / "pacbayes", "verify", run)
    return "\n".join(line for line in out.splitlines() if line.startswith("Verified"))


def _run(*command: object) -> str:
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [*map(str, command)], env=clean, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def _sizes(environment: Path) -> Counter[str]:
    """Return the bytes of every folder among the installed packages."""
    (packages,) = environment.glob("lib/python*/site-packages")
    sizes = Counter[str]()
    for path in packages.rglob("*"):
        first = path.relative_to(packages).parts[0]
        if path.is_file() and not first.startswith(FROM_VENV):
            sizes[first.removesuffix(".libs")] += path.stat().st_size
    return sizes


def _page(alone: Counter[str], full: Counter[str], said: list[str]) -> str:
    rows = [f"| {name} | {size / 1e6:.1f} |" for name, size in alone.most_common(8)]
    return "\n".join(
        [
            "# What a sceptic installs",
            "",
            "Made by `make sceptic`: the size of all installed packages, compiled files included,",
            "without pip.",
            "",
            "| environment | MB |",
            "|---|---:|",
            f"| pacbayes, {', '.join(PACKAGES)}, and what these require | {_mega(alone)} |",
            f"| everything that pacbayes requires, with torch for the CPU | {_mega(full)} |",
            "",
            "The largest of the first:",
            "",
            "| package | MB |",
            "|---|---:|",
            *rows,
            "",
            "In it, `pacbayes verify` of a network's folder and of a classifier's:",
            "",
            "```text",
            *said,
            "```",
            "",
        ]
    )


def _mega(sizes: Counter[str]) -> str:
    return f"{sizes.total() / 1e6:.0f}"


if __name__ == "__main__":
    main()
