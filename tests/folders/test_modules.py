"""Run folders of convolutions and modules of one's own: as comfortable and as checked as dense."""

import json
from functools import partial

import numpy as np
import pytest
import torch

from pacbayes import Settings, folders
from pacbayes.choices import Predictor
from pacbayes.cli.certify import check_dealt
from pacbayes.data import DataSource
from pacbayes.files import DamagedFileError, load_tensors, save_json, save_tensors
from pacbayes.folders.prediction import module_body, predict
from pacbayes.folders.preparation import prior_steps
from pacbayes.networks.modules import Convolutions
from pacbayes.networks.posterior import kl_by_part
from pacbayes.networks.predictors import count_errors, prior_weights
from pacbayes.training.blueprint import Blueprint
from pacbayes.verify import verify

OWN = """
from torch import nn

class Small(nn.Module):
    def __init__(self, shape, outputs):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(shape[0], 3, 3, bias=False), nn.BatchNorm2d(3)
        self.drop, self.fc = nn.Dropout(0.2), nn.Linear(48, outputs)

    def forward(self, x):
        return self.fc(self.drop(self.norm(self.conv(x)).relu().flatten(1)))

def build(shape, outputs):
    return Small(shape, outputs)

def frozen(shape, outputs):
    module = Small(shape, outputs).eval()
    module.drop.p = 0.0
    for part in (module.conv, module.norm):
        part.requires_grad_(False)
    return module
"""
SMALL = Convolutions(channels=(3, 3), kernels=(3, 2), strides=(1, 1))
COMMON = {"samples": 1, "evaluation_samples": 1, "evaluate_every": 2, "widths": ()}
FREE = Settings.of("fast", epochs=4, batch_size=16, **COMMON)
LEARNED = Settings.of(
    "fast", epochs=0, prior_fraction=0.5, prior_epochs=4, prior_scale=0.003, **COMMON
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PACBAYES_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def source(tmp_path):
    """Images of 6×6 pixels that are brighter on the left or on the right."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    x = rng.random((200, 1, 6, 6), dtype=np.float32)
    x[:, :, :, :3] += 0.5 * y[:, None, None, None]
    np.savez(tmp_path / "images.npz", x=x, y=np.array(["right", "left"])[y])
    np.savez(tmp_path / "test.npz", x=x[:20] + 0.01, y=np.array(["right", "left"])[y[:20]])
    return DataSource(str(tmp_path / "images.npz"), test=str(tmp_path / "test.npz"))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    return path


def trained(folder, source, settings, network):
    return folders.train_all(folder, settings, source, source.load(), folders.chosen(network))[0]


def certified(run, **changes):
    asked = {"delta": 0.05, "bound": "small-kl", "samples": 6} | changes
    return folders.certify_run(run, run.load_network(), run.load_data(), **asked)


def checked(run, predictor=Predictor.RANDOMISED, *, full=True, **options):
    body = module_body(run) if full else None
    found = list(verify(run.certificate_path(predictor), full=full, body=body, **options))
    return [finding for finding in found if not finding.holds], found


def test_a_convolutional_run_is_trained_certified_and_verified(tmp_path, source):
    run = trained(tmp_path / "run", source, FREE, SMALL)
    certificate = certified(run)
    assert run.record.title == "conv 3×3/1 to 3, 2×2/1 to 3"
    assert certificate.draws == 200 * 6 / 64
    assert certificate.monte_carlo == "stratified-bernstein"
    failed, found = checked(run)
    assert failed == []
    (bound,) = (f.bound for f in found if f.bound is not None)
    assert bound == pytest.approx(certificate.bound, abs=1e-8)
    assert bound <= certificate.bound
    assert checked(run, full=False)[0] == []


def test_verify_measures_the_risk_of_the_same_draws(tmp_path, source):
    run = trained(tmp_path / "run", source, FREE, SMALL)
    certified(run, bound="tandem", samples=6, monte_carlo="kl-chernoff")
    assert checked(run, Predictor.VOTE)[0] == []
    path = run.certificate_path(Predictor.VOTE)
    claim = json.loads(path.read_text())
    lower = claim | {"risk": 0.9 * claim["risk"], "risk_upper": 0.9 * claim["risk_upper"]}
    save_json(path, lower | {"bound": claim["bound"] - 0.01})
    assert next(f.name for f in checked(run, Predictor.VOTE)[0]) == "risk of the same draws"


def test_an_interrupted_run_of_a_module_ends_with_the_same_bits(tmp_path, source):
    whole = trained(tmp_path / "whole", source, FREE, SMALL)
    data, network = source.load(), folders.chosen(SMALL)
    part = folders.prepare(tmp_path / "part", FREE, source, data, network)
    for progress in folders.train_run(part, data):
        if progress.evaluation:
            break
    again = trained(tmp_path / "part", source, FREE, SMALL)
    for name in ("prior", "posterior"):
        a, b = (load_tensors(r.folder / f"{name}.safetensors")[0] for r in (whole, again))
        assert a.keys() == b.keys()
        assert all(torch.equal(a[k], b[k]) for k in a)


def test_an_interrupted_prior_of_a_module_ends_with_the_same_bits(tmp_path, source):
    normed = SMALL.model_copy(update={"batch_norm": True})
    whole = trained(tmp_path / "whole", source, LEARNED, normed)
    data, network = source.load(), folders.chosen(normed)
    for progress in prior_steps(tmp_path / "part", LEARNED, source, data, network):
        if progress.epoch == 3:
            break
    assert (tmp_path / "part" / "learning.safetensors").exists()
    again = trained(tmp_path / "part", source, LEARNED, normed)
    a, b = (run.load_prior() for run in (whole, again))
    assert all(torch.equal(a[k], b[k]) for k in a)


def test_a_learned_prior_is_the_folded_module_and_can_be_learned_again(tmp_path, source, file):
    run = trained(tmp_path / "run", source, LEARNED, f"{file}:build")
    network = run.load_network()
    assert sorted(kl_by_part(network)) == [
        "body.posterior.1.conv.bias",
        "body.posterior.1.conv.weight",
        "layer.bias",
        "layer.weight",
    ]
    assert run.record.network.frozen == {}
    prior = folders.learn_again(run, run.load_data())
    saved = run.load_prior()
    assert prior.keys() == saved.keys()
    assert all(np.array_equal(prior[k], saved[k].numpy()) for k in prior)
    certificate = certified(run, bound="best-of")
    assert certificate.assumptions.code.startswith("mine.py:build, SHA-256 ")
    body = module_body(run, prior)
    path = run.certificate_path(certificate.kind)
    assert all(f.holds for f in verify(path, full=True, body=body, prior=prior))


@pytest.mark.parametrize("bound", ["held-out", "disintegrated", "disintegrated-fixed"])
def test_one_network_of_a_module_is_certified_and_its_errors_counted(tmp_path, source, file, bound):
    run = trained(tmp_path / "run", source, LEARNED, f"{file}:build")
    certificate = certified(run, bound=bound)
    failed, found = checked(run, certificate.kind)
    assert failed == []
    assert any(f.measures_risk for f in found)
    failed, found = checked(run, certificate.kind, full=False)
    assert failed == []
    assert not any(f.measures_risk for f in found)
    network, (x, y) = run.load_network().double().eval(), run.bound_set(run.load_data())
    if bound == "held-out":
        assert certificate.risk == count_errors(network, prior_weights(network), x, y) / len(x)


def test_a_claim_of_a_lower_sampled_risk_fails_in_full(tmp_path, source):
    run = trained(tmp_path / "run", source, FREE, SMALL)
    certificate = certified(run, samples=60)
    lower = {"risk": 0.0, "within": 0.0, "risk_upper": certificate.risk}
    path = run.certificate_path(certificate.kind)
    save_json(path, json.loads(path.read_text()) | lower)
    assert checked(run, full=False)[0] == []  # the risk is the issuer's word
    assert "risk of the same draws" in [f.name for f in checked(run)[0]]


def test_a_claim_of_too_few_errors_fails_in_full(tmp_path, source, file):
    run = trained(tmp_path / "run", source, LEARNED, f"{file}:build")
    path = run.certificate_path(certified(run, bound="held-out").kind)
    claim = json.loads(path.read_text())
    save_json(path, claim | {"risk": 0.0, "risk_upper": 0.0})
    assert "errors counted" in [f.name for f in checked(run, Predictor.FIXED)[0]]


def test_frozen_tensors_are_kept_with_the_prior_and_named_by_their_hash(tmp_path, source, file):
    settings = FREE.model_copy(update={"epochs": 2})
    run = trained(tmp_path / "run", source, settings, f"{file}:frozen")
    assert set(run.record.network.frozen) == {
        f"body.module.1.{name}"
        for name in (
            "conv.weight",
            *(f"norm.{k}" for k in ("weight", "bias", "running_mean", "running_var")),
            "norm.num_batches_tracked",
        )
    }
    certificate = certified(run)
    assert certificate.draws is None  # all but the last layer is fixed
    assert checked(run)[0] == []
    path = run.folder / "prior.safetensors"
    tensors, record = load_tensors(path)
    tensors["body.module.1.conv.weight"] += 1
    save_tensors(path, tensors, record)
    with pytest.raises(DamagedFileError, match="not the run's prior"):
        run.load_network()
    names = [f.name for f in verify(run.certificate_path(Predictor.RANDOMISED)) if not f.holds]
    assert names == ["hash of the prior", "assumptions"]


def test_predictions_are_those_of_the_certified_network(tmp_path, source, file):
    run = trained(tmp_path / "run", source, LEARNED, f"{file}:build")
    certificate = certified(run, bound="held-out")
    ask = partial(predict, run, source.name, samples=3, seed=0, label=None)
    fixed = ask(certificate.kind)
    assert fixed.error == pytest.approx(certificate.risk, abs=0.1)
    assert ask("randomised").labels == ask("randomised").labels
    assert len(ask("vote").votes) == 200


def test_code_of_somebody_else_does_not_run(tmp_path, source, file, monkeypatch):
    run = trained(tmp_path / "run", source, LEARNED, f"{file}:build")
    certified(run, bound="held-out")
    monkeypatch.setenv("PACBAYES_CACHE", str(tmp_path / "theirs"))
    assert checked(run, Predictor.FIXED, full=False)[0] == []  # runs no code
    with pytest.raises(ValueError, match=r"not allowed to run here.*pacbayes allow"):
        run.load_network()
    folders.allow(run.folder / "network.py")
    run.load_network()


def test_code_of_the_users_own_is_not_sent_to_workers(tmp_path, source, file):
    run = trained(tmp_path / "run", source, LEARNED, f"{file}:build")
    with pytest.raises(ValueError, match=r"has code of its own \(network.py\)"):
        check_dealt(run, "small-kl", "cpu", exact=False)


def test_code_that_changed_does_not_run(tmp_path, source, file):
    run = trained(tmp_path / "run", source, LEARNED, f"{file}:build")
    copy = run.folder / "network.py"
    copy.write_text(copy.read_text() + "\n# another")
    folders.allow(copy)
    with pytest.raises(DamagedFileError, match="is not the code that the run was made with"):
        run.load_network()


def test_another_network_is_another_run(tmp_path, source, file):
    trained(tmp_path / "run", source, FREE, SMALL)
    other = SMALL.model_copy(update={"channels": (4, 4)})
    with pytest.raises(ValueError, match=r"holds another run \(network is conv .* to 3, requested"):
        trained(tmp_path / "run", source, FREE, other)
    with pytest.raises(ValueError, match=r"requested dense\)"):
        trained(tmp_path / "run", source, FREE, None)
    trained(tmp_path / "own", source, LEARNED, f"{file}:build")
    file.write_text(OWN + "\n# another")
    with pytest.raises(ValueError, match=r"mine.py:build \(SHA-256 .*requested mine.py:build \("):
        trained(tmp_path / "own", source, LEARNED, f"{file}:build")


def test_another_order_of_weights_would_be_other_draws(tmp_path, source):
    run = trained(tmp_path / "run", source, FREE, SMALL)
    path = run.folder / "run.json"
    record = json.loads(path.read_text())
    record["network"]["weights"].reverse()
    save_json(path, record)
    with pytest.raises(DamagedFileError, match="does not describe the run's network"):
        module_body(folders.open_run(run.folder))


def test_a_prior_that_its_seed_does_not_draw_fails(tmp_path, source):
    run = trained(tmp_path / "run", source, FREE, SMALL)
    certified(run)
    path = run.folder / "run.json"
    record = json.loads(path.read_text())
    record["settings"]["seed"] = 1
    save_json(path, record)
    names = [f.name for f in verify(run.certificate_path(Predictor.RANDOMISED)) if not f.holds]
    assert "weights of the network" in names


def test_batch_norm_needs_a_prior_that_learns(tmp_path, source, file):
    with pytest.raises(ValueError, match="normalises by the statistics of a batch"):
        trained(tmp_path / "run", source, FREE, f"{file}:build")
    assert not (tmp_path / "run").exists()


def test_a_module_that_returns_other_shapes_is_refused(tmp_path):
    path = tmp_path / "odd.py"
    path.write_text("from torch import nn\ndef build(shape, outputs): return nn.Flatten()")
    choice = folders.chosen(f"{path}:build")
    blueprint = Blueprint(FREE, 36, 2, choice.architecture, (1, 6, 6), choice.code)
    with pytest.raises(ValueError, match=r"scores of shape \(B, 1\) for 2 classes, got \(2, 36"):
        blueprint.build()


def test_a_function_without_a_file_cannot_be_chosen():
    with pytest.raises(ValueError, match="must be at the top of a file"):
        folders.chosen(lambda shape, outputs: None)
