"""Build the native engine into the wheel, and tag the wheel for every Python 3 of the platform.

The engine is plain C that is loaded with ctypes, so it does not depend on the Python version. If it
cannot be built, the wheel is pure Python and the package uses PyTorch alone.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FLAGS = [
    *("-O3", "-std=gnu11", "-Wall", "-Wextra"),
    *("-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
    *("-shared", "-fPIC", "-pthread"),
]
X86 = {
    "avx2": ["-mavx2", "-mfma"],
    "avx512": [
        *("-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma"),
        "-mprefer-vector-width=512",
    ],
}
ARM: dict[str, list[str]] = {"neon": []}  # every 64-bit ARM processor has it
BUILDS = {"x86_64": X86, "AMD64": X86, "aarch64": ARM, "arm64": ARM}
GLIBC_LIBRARIES = {b"libc.so.6", b"libm.so.6", b"libpthread.so.0"}


class NativeEngineHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        folder = Path(self.root) / "src" / "pacbayes" / "engine"
        for stale in folder.glob("libengine-*.so"):
            stale.unlink()
        if built := self._build(folder):
            build_data["artifacts"] += [f"src/pacbayes/engine/{path.name}" for path in built]
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform_tag(built)}"

    def _build(self, folder: Path) -> list[Path]:
        """Compile every build of the engine at once, and return those that succeeded."""
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        builds = BUILDS.get(platform.machine(), {})
        if compiler is None or not builds:
            reason = "no C compiler" if compiler is None else f"no {platform.machine()} version"
            self.app.display_warning(f"native engine not built ({reason}): PyTorch is used")
            return []

        def compiled(name: str) -> Path | None:
            target = folder / f"libengine-{name}.so"
            part = target.with_suffix(".part")
            files = [str(folder / "c" / "engine.c"), "-o", str(part), "-lm"]
            command = [*shlex.split(compiler), *FLAGS, *builds[name], *files]
            try:
                subprocess.run(command, capture_output=True, text=True, check=True)
            except (OSError, subprocess.CalledProcessError) as error:
                detail = getattr(error, "stderr", None) or str(error)
                self.app.display_warning(f"native engine not built for {name}: {detail[:500]}")
                return None
            return part.replace(target)

        with ThreadPoolExecutor() as pool:
            return [path for path in pool.map(compiled, builds) if path is not None]


def platform_tag(libraries: Sequence[Path]) -> str:
    """Return the platform part of the wheel's tag: manylinux with the glibc that is needed."""
    local = re.sub(r"\W", "_", sysconfig.get_platform())
    needs = [needed_glibc(path.read_bytes()) for path in libraries]
    if not local.startswith("linux") or None in needs:
        return local
    major, minor = max(need for need in needs if need is not None)
    return local.replace("linux", f"manylinux_{major}_{minor}", 1)


def needed_glibc(library: bytes) -> tuple[int, int] | None:
    """Return the glibc version that an ELF library needs, or None if glibc is not all it needs.

    An ELF file holds the names of the libraries and symbol versions it needs as strings that end
    with a zero byte. Reading all such strings can name too much, but never misses one.
    """
    libraries = set(re.findall(rb"lib[\w+-]+\.so[\d.]*(?=\0)", library))
    versions = set(re.findall(rb"GLIBC_([\w.]+)(?=\0)", library))
    numbers = [re.fullmatch(rb"(\d+)\.(\d+)(\.\d+)?", version) for version in versions]
    if not libraries <= GLIBC_LIBRARIES or not numbers or None in numbers:
        return None
    return max((int(number[1]), int(number[2])) for number in numbers if number is not None)
