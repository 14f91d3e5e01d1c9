"""The C sources by themselves: random numbers, memory, compilers, and the interface."""

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from pacbayes import dense_network
from pacbayes.engine import interface
from pacbayes.engine import library as module
from pacbayes.engine.interface import AdamTensor, Evaluation, Step, Training, Update
from pacbayes.engine.library import available, library
from pacbayes.engine.network import NativeEngine
from pacbayes.paper import baselines

pytestmark = pytest.mark.skipif(not available(), reason="no compiler, or not an AVX2 machine")

N = 1_600_000
HERE, SOURCE = Path(__file__).parent, Path(module.__file__).parent / "c"
CAPABILITY = torch.backends.cpu.get_cpu_capability()
STRICT = [
    *("-Wall", "-Wextra", "-Wconversion", "-Wsign-conversion", "-Wmissing-prototypes"),
    "-Werror",
]
OPTIMISED = [
    *("-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
    *("-shared", "-fPIC"),
]
INSTRUCTIONS = {
    "AVX2": ["-mavx2", "-mfma"],
    "AVX512": ["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma"],
}
KINDS = [  # activation, estimator, learned scales, classes
    ("relu", "marginal", False, 2),
    ("sigmoid", "marginal", True, 3),
    ("sign", "leave-one-out", True, 2),
    ("sign", "local-expectation", False, 2),
    ("sign", "straight-through", True, 11),
    ("relu", "reinforce", False, 2),
    ("sign", "tree", False, 2),
]


def compile_c(compiler, flags, source, out):
    path = shutil.which(compiler)
    if path is None:
        pytest.skip(f"no {compiler}")
    command = [path, "-std=gnu11", "-pthread", *STRICT, *flags, f"-I{SOURCE}", str(source)]
    done = subprocess.run([*command, "-o", str(out), "-lm"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]


def step_of_every_kind(activation, estimator, learned, classes):
    """The loss and gradient of one step of a network with two hidden layers."""
    torch.manual_seed(5)
    x, index = torch.randn(70, 30) * (torch.rand(70, 30) < 0.5), torch.randint(70, (70,))
    y = torch.randint(classes, (70,))
    y = 2.0 * y - 1 if classes == 2 else y
    if estimator == "tree":
        network = baselines.PBGNet(30, (20, 10))
        engine = baselines.native_engine(network, 7)
        parameters = [*network.weights, *network.biases]
    else:
        drawn = estimator == "reinforce"
        rule = "marginal" if drawn else estimator
        network = dense_network(
            30, (20, 10), activation, classes=classes, estimator=rule, learned_scale=learned
        )
        engine = NativeEngine(network, 7, reinforce=drawn)
        parameters = list(network.parameters())
    loss = engine.loss_and_grad(x, y, index, 3, 4)
    return loss, torch.cat([p.grad.flatten() for p in parameters])


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
    """The whole C source: odd shapes, several threads, and allocations that fail."""
    program = tmp_path / "check"
    watch = ["-g", "-O1", "-mavx2", "-mfma", f"-fsanitize={sanitizers}"]
    compile_c("gcc", [*watch, "-fno-sanitize-recover=all"], HERE / "check.c", program)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=300)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("this kernel's address layout is not the thread sanitizer's")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "ok" in done.stdout


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_both_compilers_build_an_engine_that_computes_the_same(compiler, tmp_path, monkeypatch):
    """Without a warning; results agree within rounding with those of the installed build."""
    path = tmp_path / "engine.so"
    compile_c(compiler, [*OPTIMISED, *INSTRUCTIONS[CAPABILITY]], SOURCE / "engine.c", path)
    expected = [step_of_every_kind(*kind) for kind in KINDS]
    monkeypatch.setattr(module, "library", lambda: interface.load(path))
    for kind, (loss, gradient) in zip(KINDS, expected, strict=True):
        other_loss, other_gradient = step_of_every_kind(*kind)
        assert other_loss == pytest.approx(loss, rel=1e-6)
        assert (other_gradient - gradient).abs().max() < 1e-4 * gradient.abs().max(), kind


ROUNDING = ["-O1", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
ARM, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"


def computed(command):
    done = subprocess.run([*command, "show"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    *lines, last = done.stdout.splitlines()
    assert last == "ok"
    return [(kind, float(value), float(size)) for kind, value, size in map(str.split, lines)]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="compares with AVX2")
@pytest.mark.skipif(shutil.which(EMULATOR) is None, reason=f"no {EMULATOR}")
def test_neon_computes_what_avx2_computes(tmp_path):
    """Losses, gradients and evaluations of the same draws, on odd shapes and of every kind."""
    compile_c("gcc", [*ROUNDING, "-mavx2", "-mfma"], HERE / "check.c", tmp_path / "avx2")
    compile_c(ARM, [*ROUNDING, "-static"], HERE / "check.c", tmp_path / "neon")
    pairs = list(
        zip(computed([tmp_path / "avx2"]), computed([EMULATOR, tmp_path / "neon"]), strict=True)
    )
    assert {kind for (kind, _, _), _ in pairs} == {"loss", "gradient", "evaluation"}
    far = [
        (kind, a, b)
        for (kind, a, size), (_, b, _) in pairs
        if abs(a - b) > (1e-12 if kind == "evaluation" else 1e-4) * size + 1e-9
    ]
    # Rounding decides a sign now and then, and where an estimator divides by almost nothing.
    assert "evaluation" not in {kind for kind, _, _ in far}
    assert len(far) < 0.01 * len(pairs)


def test_structures_and_numbers_are_those_of_the_header(tmp_path):
    structures = {
        "pb_step": Step,
        "pb_tensor": AdamTensor,
        "pb_update": Update,
        "pb_training": Training,
        "pb_evaluation": Evaluation,
    }
    names = [(s, field) for s, mirror in structures.items() for field, _ in mirror._fields_]
    expected = [getattr(structures[s], field).offset for s, field in names]
    numbers = [f"offsetof({s}, {field})" for s, field in names]
    expected += [ctypes.sizeof(mirror) for mirror in structures.values()]
    numbers += [f"sizeof({s})" for s in structures]
    members = [*interface.Activation, *interface.Estimator, *interface.Status]
    expected += [*members, interface.ABI]
    numbers += [*(member.name for member in members), "PB_ABI"]
    source = tmp_path / "numbers.c"
    prints = "".join(f'printf("%d\\n", (int)({number}));' for number in numbers)
    includes = '#include <stddef.h>\n#include <stdio.h>\n#include "interface.h"\n'
    source.write_text(f"{includes}int main(void) {{ {prints} return 0; }}\n")
    compile_c("gcc", [], source, tmp_path / "numbers")
    done = subprocess.run([str(tmp_path / "numbers")], capture_output=True, text=True, check=True)
    assert [int(number) for number in done.stdout.split()] == expected


@pytest.mark.parametrize(
    ("code", "number"), [("int pb_abi(void) { return 99; }", "99"), ("int x;", "none")]
)
def test_a_library_with_another_abi_number_is_refused(code, number, tmp_path, monkeypatch):
    """Each build alone, and by the search for one, which then says why there is none."""
    source, path = tmp_path / "stub.c", tmp_path / f"libengine-{CAPABILITY.lower()}.so"
    source.write_text(code)
    compile_c("gcc", ["-shared", "-fPIC", "-Wno-missing-prototypes"], source, path)
    why = f"ABI number {number}, needed {interface.ABI}"
    with pytest.raises(ImportError, match=why):
        interface.load(path)
    monkeypatch.setattr(module, "__file__", str(tmp_path / "library.py"))
    assert module.library.__wrapped__() is None
    assert why in module.why_missing()


def test_a_file_that_is_not_a_library_is_refused(tmp_path):
    (tmp_path / "libengine-avx2.so").write_text("text")
    with pytest.raises(ImportError, match=r"libengine-avx2\.so cannot be loaded on this system"):
        interface.load(tmp_path / "libengine-avx2.so")
