"""Build the native engine beside its sources; where that fails, the package works without it."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FLAGS = [
    *("-O3", "-std=gnu11", "-Wall", "-Wextra"),
    *("-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
    *("-shared", "-fPIC", "-pthread"),
]
BUILDS = {
    "avx2": ["-mavx2", "-mfma"],
    "avx512": [
        *("-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma"),
        "-mprefer-vector-width=512",
    ],
}


class NativeEngineHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        folder = Path(self.root) / "src" / "pacbayes" / "engine"
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        for stale in folder.glob("libengine-*.so"):
            stale.unlink()
        if compiler is None or platform.machine() not in ("x86_64", "AMD64"):
            self.app.display_warning("no C compiler for the native engine: torch alone will serve")
            return
        for name, flags in BUILDS.items():
            target = folder / f"libengine-{name}.so"
            part = target.with_suffix(".part")
            files = [str(folder / "c" / "engine.c"), "-o", str(part), "-lm"]
            command = [*shlex.split(compiler), *FLAGS, *flags, *files]
            try:
                subprocess.run(command, capture_output=True, text=True, check=True)
            except (OSError, subprocess.CalledProcessError) as error:
                detail = getattr(error, "stderr", None) or str(error)
                self.app.display_warning(f"the {name} engine was not built: {detail[:500]}")
                continue
            part.replace(target)
            build_data["artifacts"].append(f"src/pacbayes/engine/{target.name}")
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
