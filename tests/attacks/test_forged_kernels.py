"""Folders of kernel networks that were forged, and inputs that magnify roundings: all refused."""

import json
import shutil

import mpmath
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from pacbayes.data import DataSource
from pacbayes.features.kernels import Kernel
from pacbayes.files import file_sha256, save_json, save_tensors
from pacbayes.folders.kernels import (
    certify_kernel_run,
    create_kernel,
    open_kernel,
    train_kernel_run,
)
from pacbayes.networks.families.process import directions
from pacbayes.networks.kernel import KernelPrior
from pacbayes.training.kernel import KernelSettings, train_kernel
from pacbayes.verify import formulas, verify
from pacbayes.verify.enclosures import THEOREMS

EXAMPLES = 200


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A certified folder of a kernel network on a table, which lies beside it."""
    folder = tmp_path_factory.mktemp("kernels")
    x = np.random.default_rng(0).normal(size=(EXAMPLES, 3))
    rows = [f"{a:.6f},{b:.6f},{c:.6f},{'yes' if a > 0 else 'no'}" for a, b, c in x]
    (folder / "data.csv").write_text("\n".join(["a,b,c,label", *rows]))
    source = DataSource(str(folder / "data.csv"))
    data = source.load()
    prior = KernelPrior("columns", "arc-cosine^2 + 1", (3,))
    settings = KernelSettings(landmarks=60, directions=20, epochs=40)
    run = create_kernel(folder / "run", prior, source, data, settings)
    train_kernel_run(run, data)
    certify_kernel_run(run, data)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy" / "run"


def failed(folder, *, full=True):
    return [f.name for f in verify(folder / "certificate.json", full=full) if not f.holds]


def claim(folder, **changes):
    path = folder / "certificate.json"
    save_json(path, json.loads(path.read_text()) | changes)


def replace(folder, before, after):
    for path in folder.glob("*.json"):
        path.write_text(path.read_text().replace(before, after))


def reseal(folder, **changes):
    """Save tensors as if the run had made them, and forge the hash that names them."""
    path = folder / "posterior.safetensors"
    before, tensors = file_sha256(path), load_file(path) | changes
    arrays = {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in tensors.items()}
    save_tensors(path, arrays, {"run": file_sha256(folder / "run.json")})
    replace(folder, before, file_sha256(path))


def test_an_honest_folder_holds(folder):
    assert failed(folder) == []


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", ["held-out", "held-out-mean", "disintegrated"])
def test_a_theorem_of_one_network_is_not_for_all_of_them(name, full, folder):
    predictor = THEOREMS[name].predictor  # held-out bounds have no KL
    claim(folder, bound_name=name, predictor=predictor, parameters={"networks": 1, "network": 0})
    assert "predictor" in failed(folder, full=full)


def test_a_better_training_risk_under_an_honest_bound_is_refused(folder):
    claim(folder, risk=0.05)
    assert "risk of the same draws" in failed(folder)


def test_another_loss_is_refused(folder):
    claim(folder, noun="top-2 error")
    assert failed(folder) == ["predictor"]


@pytest.mark.parametrize("field", ["mean", "scale", "name"])
def test_columns_that_predictions_would_see_otherwise_are_refused(field, folder):
    """Such as standardised by all the data: features.json says it to `predict`, run.json seals."""
    path, value = folder / "features.json", {"mean": 5.0, "scale": -3.0, "name": "b"}[field]
    record = json.loads(path.read_text())
    record["columns"][0][field] = value
    before = file_sha256(path)
    save_json(path, record)
    replace(folder, before, file_sha256(path))
    reseal(folder)
    open_kernel(folder)
    assert failed(folder) == ["columns"]


def test_a_folder_without_its_columns_is_refused(folder):
    path = folder / "run.json"
    record = json.loads(path.read_text())
    record["data"]["features_sha256"] = None
    save_json(path, record)
    reseal(folder)
    assert failed(folder) == ["columns"]


def test_tensors_that_are_too_good_are_refused(folder):
    q = load_file(folder / "posterior.safetensors")
    reseal(folder, matrix=1.0001 * q["matrix"])
    assert "directions" in failed(folder)
    reseal(folder, matrix=q["matrix"], mean=0.5 * q["mean"])
    assert "risk of the same draws" in failed(folder)
    reseal(folder, mean=2 * q["mean"])
    assert "KL(Q|P)" in failed(folder)
    reseal(folder, mean=q["mean"], log_scale=q["log_scale"] - 1)
    assert "KL(Q|P)" in failed(folder)
    reseal(folder, log_scale=q["log_scale"], landmarks=q["landmarks"][::-1])
    assert "directions" in failed(folder)
    reseal(folder, landmarks=q["landmarks"][:0], matrix=q["matrix"][:, :0])
    assert failed(folder) == ["posterior"]
    reseal(folder, landmarks=q["landmarks"] * np.float32(1e30), matrix=q["matrix"])
    assert "directions" in failed(folder)


def of_both(text):
    """Return a kernel of the library and of `verify`, as functions of ⟨a, b⟩, and their charges."""
    terms = formulas.parse_kernel(text)
    one = np.ones(1)
    own, other = Kernel.parse(text), formulas.kernel_of(terms)
    charges = own.error(1, 1.0), formulas.kernel_error(terms, 1, 1.0)
    return (lambda c: own._sum(c, one, one), lambda c: other(c, one, one)), charges


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_near_duplicates_do_not_magnify_the_rounding_of_an_arc_cosine(depth):
    draw = np.random.default_rng(depth)
    away = np.exp2(draw.uniform(-53, 0, 400))
    c = 1 - np.rint(away * 2.0**53) * 2.0**-53  # cosines just below one
    with mpmath.workprec(300):
        exact = []
        for t in map(mpmath.mpf, c.tolist()):
            for _ in range(depth):
                t = (mpmath.sqrt(1 - t * t) + (mpmath.pi - mpmath.acos(t)) * t) / mpmath.pi
            exact.append(t)
        for k, charge in zip(*of_both(f"arc-cosine^{depth}"), strict=True):
            pairs = zip(k(c).tolist(), exact, strict=True)
            assert max(abs(mpmath.mpf(a) - b) for a, b in pairs) <= charge


@pytest.mark.parametrize("square", [1e-20, 1e60])
def test_values_beyond_float64_have_no_bound_of_their_rounding(square):
    """With 1e300·c^20 all of a relative error, and the bound of it, would vanish at c = 1e-20."""
    text = "1e300*linear^20"
    assert Kernel.parse(text).error(3, square) == np.inf
    assert formulas.kernel_error(formulas.parse_kernel(text), 3, square) == np.inf


def test_what_lies_far_from_all_landmarks_is_charged_for_its_own_rounding():
    x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    basis = directions(Kernel.parse("linear^3"), x, 5)
    near, far = (basis.coordinates(scale * x).total_error.max() for scale in (1, 100))
    assert far > 1e5 * near


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_features_of_impossible_size_are_refused_in_words(scale):
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    y = torch.where(x[:, 0] > 0, 1.0, -1.0)
    prior = KernelPrior("columns", "linear^5", (3,))
    with pytest.raises(ValueError, match="scale features or kernel"):
        train_kernel(prior, x * scale, y, 2, KernelSettings(epochs=1))


def test_an_example_without_any_variance_is_a_coin(tmp_path):
    x = np.random.default_rng(0).normal(size=(EXAMPLES, 3)).astype(np.float32)
    x[7] = 0  # where k(x, x) = 0, so that h(x) = 0
    np.savez(tmp_path / "data.npz", x=x, y=(x[:, 0] > 0).astype(int))
    source = DataSource(str(tmp_path / "data.npz"))
    data, prior = source.load(), KernelPrior("columns", "linear", (3,))
    run = create_kernel(tmp_path / "run", prior, source, data, KernelSettings(epochs=5))
    network = train_kernel_run(run, data)
    value, charge = network.output(network.coordinates(torch.from_numpy(x[7:8])))
    assert (value.item(), charge.item()) == (0, 1)
    certify_kernel_run(run, data)
    assert failed(run.folder) == []


@pytest.mark.parametrize(
    "one", ["gaussian^0.1234567", "gaussian^1000000", "0.1234567890123*linear^3"]
)
def test_kernels_that_differ_in_any_digit_have_different_hashes(one):
    other = one.replace("7", "8").replace("1000000", "999999.5")
    shape = (1, 8, 8)
    hashes = {KernelPrior("strokes", k, shape).sha256 for k in (one, other)}
    assert hashes == {formulas.formula_sha256("strokes", k, shape) for k in (one, other)}
    assert len(hashes) == 2
    assert Kernel.parse(str(Kernel.parse(one))) == Kernel.parse(one)
