"""The C sources by themselves: random numbers, and memory."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pacbayes.engine import library as module
from pacbayes.engine.library import available, library

pytestmark = pytest.mark.skipif(not available(), reason="no compiler, or not an AVX2 machine")

N = 1_600_000


def normals(*key):
    out = np.zeros(N, np.float32)
    library().pb_normals(*key, out.ctypes.data, N)
    return out


def test_normals_are_normal():
    """Kolmogorov–Smirnov and four moments at a false-alarm rate of 1e-6 each."""
    z = normals(1, 2, 3).astype(np.float64)
    assert stats.kstest(z[:200_000], "norm").pvalue > 1e-6
    moments = [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]
    for k, mean, variance in moments:
        assert abs((z**k).mean() - mean) < 4.9 * (variance / N) ** 0.5
    tail = (np.abs(z) > 4).mean()
    p = 2 * stats.norm.sf(4)
    assert abs(tail - p) < 4.9 * (p / N) ** 0.5


def test_words_are_uniform_in_every_bit_and_byte():
    words = np.zeros(N, np.uint32)
    library().pb_words(1, 2, 3, words.ctypes.data, N)
    for bit in range(32):
        ones = int(((words >> bit) & 1).sum())
        assert abs(ones - N / 2) < 5.5 * N**0.5 / 2  # 32 bits: false alarm 1e-6
    for shift in (0, 8, 16, 24):
        counts = np.bincount((words >> shift) & 255, minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-6


def test_streams_are_uncorrelated_across_seeds_steps_chunks_and_lanes():
    base = normals(1, 2, 3).astype(np.float64)
    others = [
        normals(1, 2, 4),
        normals(1, 3, 3),
        normals(2, 2, 3),
        np.roll(base, 1),
        np.roll(base, 16),
    ]
    for other in others:
        assert abs((base * other).mean()) < 5.2 * N**-0.5  # five pairs: false alarm 1e-6


@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_sanitizers_find_nothing(sanitizers, tmp_path):
    """The whole C source, odd shapes and several threads included."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc")
    source = Path(module.__file__).parent / "c"
    program = tmp_path / "check"
    flags = [
        "-g",
        "-O1",
        "-std=gnu11",
        "-mavx2",
        "-mfma",
        "-pthread",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]
    command = [compiler, *flags, f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
    files = [f"-I{source}", str(Path(__file__).parent / "check.c"), "-o", str(program), "-lm"]
    subprocess.run([*command, *files], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=300)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("this kernel's address layout is not the thread sanitizer's")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "ok" in done.stdout
