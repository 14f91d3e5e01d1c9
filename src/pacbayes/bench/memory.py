"""Measure the peak memory of a step, in a separate process (Linux)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["peak_megabytes"]

_STATUS = Path("/proc/self/status")
_PROGRAM = """
import sys
from pacbayes.bench.measurements import Case, examples, library_step
from pacbayes.bench.memory import forget_peak, resident
activation, T, batch, widths, engine = sys.argv[1:]
case = Case(activation, int(T), int(batch), tuple(map(int, widths.split(","))))
small = Case(activation, 1, 2, (784, 8, 1))
library_step(small, engine, *examples(20, 784))(0)  # PyTorch and the library load things once
x, y = (t.clone() for t in examples(10 * case.batch, case.widths[0]))
forget_peak()
before = resident("VmRSS")
step = library_step(case, engine, x, y)
for i in range(3):
    step(i)
print(resident("VmHWM") - before)
"""


def forget_peak() -> None:
    """Reset VmHWM to the memory that is resident now."""
    Path("/proc/self/clear_refs").write_text("5")


def resident(field: str) -> float:
    """Return VmRSS or VmHWM of this process, in megabytes."""
    line = next(s for s in _STATUS.read_text().splitlines() if s.startswith(field))
    return int(line.split()[1]) / 1024


def peak_megabytes(
    activation: str, T: int, batch: int, widths: tuple[int, ...], engine: str
) -> float | None:
    """Return the peak memory of three steps without the data: network, Adam, scratch space."""
    given = [activation, str(T), str(batch), ",".join(map(str, widths)), engine]
    command = [sys.executable, "-c", _PROGRAM, *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode else float(done.stdout)  # only Linux has /proc
