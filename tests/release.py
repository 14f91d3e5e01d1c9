"""Build the wheel and the sdist, and try each in an empty environment: `make release`.

The wheel must bring the native engine. The sdist is installed where no compiler is found, so that
it must do with PyTorch alone. In both, the README's first program runs, and a small network is
trained, certified and verified. Files come to dist only if all of this works.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILERS = ("cc", "gcc", "clang", "tcc")
COMMANDS = (
    ("train", "--dataset", "digits", "--widths", "20", "--epochs", "2", "--out", "run"),
    ("certify", "run"),
    ("verify", "run", "--full"),
)


def main() -> None:
    version = released_version()
    with tempfile.TemporaryDirectory(prefix="pacbayes-release-") as name:
        folder = Path(name)
        wheel, sdist = built(folder / "dist", version)
        tried(wheel, folder / "wheel", version, compiler=True)
        tried(sdist, folder / "sdist", version, compiler=False)
        (ROOT / "dist").mkdir(exist_ok=True)
        for file in (wheel, sdist):
            shutil.copy(file, ROOT / "dist")
            print(f"ready: dist/{file.name}")


def released_version() -> str:
    """Return the version; the changelog must begin with it."""
    source = (ROOT / "src" / "pacbayes" / "__init__.py").read_text()
    version = re.findall(r'^__version__ = "(.*)"$', source, re.MULTILINE)[0]
    first = re.findall(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    if first != version:
        sys.exit(f"failed: CHANGELOG.md begins with {first}, but the version is {version}")
    return version


def built(folder: Path, version: str) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it."""
    run([sys.executable, "-m", "build", "--outdir", folder, ROOT], dict(os.environ))
    files = sorted(folder.iterdir())
    names = [file.name for file in files]
    if len(files) != 2 or not all(name.startswith(f"pacbayes-{version}") for name in names):
        sys.exit(f"failed: expected a wheel and an sdist of pacbayes {version}, got {names}")
    for file in files:
        print(f"built: {file.name}, {file.stat().st_size / 1000:.0f} kB")
    wheel, sdist = sorted(files, key=lambda file: file.suffix != ".whl")
    return wheel, sdist


def tried(file: Path, folder: Path, version: str, *, compiler: bool) -> None:
    """Install a distribution into an empty environment, and use it there."""
    venv.create(folder, with_pip=True)
    environment = environment_of(folder, compiler=compiler)
    python, constraints = folder / "bin" / "python", ROOT / "tests" / "constraints.txt"
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", "--no-compile", "-c", constraints, file], environment)
    run([*pip, "check"], environment)
    where = "with" if compiler else "without"
    print(f"installed: {file.name}, {where} a compiler")

    work = folder / "work"
    work.mkdir()
    pacbayes = folder / "bin" / "pacbayes"
    found = json.loads(run([pacbayes, "info", "--json"], environment, work))
    if found["versions"]["pacbayes"] != version:
        sys.exit(f"failed: {version} was built, {found['versions']['pacbayes']} is installed")
    if compiler == (found["native"] is None):
        sys.exit(f"failed: {where} a compiler, the engine is {found['native'] or 'PyTorch'}")
    print(f"  engine: {found['native'] or 'PyTorch'}")
    print(f"  README: {run([python, '-c', first_program()], environment, work).strip()}")
    for words in COMMANDS:
        said = run([pacbayes, *words], environment, work)
    print(f"  commands: {said.strip().splitlines()[-1]}")


def environment_of(folder: Path, *, compiler: bool) -> dict[str, str]:
    """Return variables with which nothing comes from outside but, if wanted, a compiler."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CC", "CFLAGS")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    paths = [str(folder / "bin"), *([os.environ["PATH"]] if compiler else [])]
    path = os.pathsep.join(paths)
    if not compiler and any(shutil.which(name, path=path) for name in COMPILERS):
        sys.exit(f"failed: there is a compiler in {path}")
    return kept | {"PATH": path, "PYTHONNOUSERSITE": "1", "PACBAYES_CACHE": str(folder / "cache")}


def first_program() -> str:
    """Return the first Python program of the README."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)[0]


def run(command: list[object], environment: dict[str, str], folder: Path = ROOT) -> str:
    """Run a command and return what it prints; if it fails, show that and end."""
    words = [str(word) for word in command]
    done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout + done.stderr, end="", file=sys.stderr)
        shown = " ".join(word for word in words if "\n" not in word)
        sys.exit(f"failed: {shown} (exit code {done.returncode})")
    return done.stdout


if __name__ == "__main__":
    main()
