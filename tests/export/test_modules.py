"""Exported convolutions and modules of one's own compute what the library does."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from scipy.special import erf
from torch import nn
from torch.nn.functional import conv2d, relu

from pacbayes import folders
from pacbayes.choices import Predictor
from pacbayes.export import export_run
from pacbayes.export.predictors import explicit
from pacbayes.folders.folder import Run
from pacbayes.networks.bodies import Deterministic
from pacbayes.networks.families.diagonal import GaussianLinear
from pacbayes.networks.modules import Convolutions
from pacbayes.networks.network import Network
from pacbayes.networks.posterior import gaussians

CODE = """from torch import nn


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, a):
        return (a + self.norm(self.conv(a))).relu()


class Asks(nn.Module):
    def forward(self, a):
        return a if a.isfinite().all() else 0 * a


def build(shape, outputs):
    pooled = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(nn.Conv2d(shape[0], 3, 1), Residual(3), *pooled, nn.Linear(3, outputs))


def asks(shape, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(32, 2), Asks(), nn.Linear(2, outputs))
"""
SHAPE = (2, 4, 4)
CLOSE = {"torch": 1e-12, "onnx": 1e-5}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs with certificates of every kind that export covers."""
    folder = tmp_path_factory.mktemp("modules")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, *SHAPE)).astype(np.float32)
    np.savez(folder / "x.npz", x=x, y=x[:, :, 0, :2].mean(1).argmax(-1) + (x[:, 0, 1, 0] > 1))
    (folder / "own.py").write_text(CODE)

    def make(name, network, bounds, **changes):
        run = Run.create(folder / name, network, folder / "x.npz", changes)
        data = run.load_data()
        for _ in folders.train_run(run, data):
            pass
        for bound, given in bounds.items():
            folders.certify_run(run, run.load_network(), data, delta=0.05, bound=bound, **given)
        return run

    two = Convolutions(channels=(3,), kernels=(2,), strides=(1,))
    learned = {"prior_fraction": 0.5, "prior_epochs": 15, "prior_rate": 0.1}
    return {
        "conv": make("conv", two, {"small-kl": {"samples": 2}, "disintegrated": {}}, epochs=2),
        "own": make("own", f"{folder / 'own.py'}:build", {"held-out": {}}, **learned),
        "asks": lambda: make("asks", f"{folder / 'own.py'}:asks", {}, epochs=1),
    }


def ask(exported, x, noise=()):
    if exported.format == "torch":
        module = torch.export.load(exported.file).module()
        return [a.numpy() for a in module(*map(torch.from_numpy, (x, *noise)))]
    names = [port.name for port in exported.inputs]
    session = onnxruntime.InferenceSession(exported.file)
    return session.run(None, dict(zip(names, (x, *noise), strict=True)))


def examples(batch, seed=1):
    return np.random.default_rng(seed).normal(size=(batch, 32)).astype(np.float32)


def assert_close(found, expected, format):
    score, label = found
    assert np.abs(score - expected).max() <= CLOSE[format] * max(1, np.abs(expected).max())
    assert (label == expected.argmax(-1)).all()


def convolved(weights, x):
    """Activations below the last layer, by the definition of the network."""
    a = torch.from_numpy(x).double().view(-1, *SHAPE)
    name = "body.posterior.1.0"
    return relu(conv2d(a, weights[f"{name}.weight"], weights[f"{name}.bias"])).flatten(1)


@pytest.mark.parametrize("format", ["torch", "onnx"])
def test_a_drawn_network_has_the_scores_of_its_weights(made, format, tmp_path):
    run = made["conv"]
    out = tmp_path / ("p.onnx" if format == "onnx" else "p.pt2")
    e = export_run(run, out, format, "drawn")
    weights = run.load_drawn()
    for batch in (1, 9):
        x = examples(batch)
        a = convolved(weights, x)
        expected = a @ weights["layer.weight"].T + weights["layer.bias"]
        assert_close(ask(e, x), expected.numpy(), format)


@pytest.mark.parametrize("format", ["torch", "onnx"])
def test_a_randomised_network_draws_all_weights_from_its_noise(made, format, tmp_path):
    run, rng = made["conv"], np.random.default_rng(2)
    out = tmp_path / ("p.onnx" if format == "onnx" else "p.pt2")
    e = export_run(run, out, format, "randomised")
    q = {
        n: (g.mean.double(), g.log_scale.double()) for n, g in gaussians(run.load_network()).items()
    }
    below = [n for n in q if n.startswith("body.")]
    sizes = [q[n][0].numel() for n in below]
    assert [p.shape for p in e.inputs[1:]] == [(sum(sizes),), ("batch", 3)]
    assert "whose examples share them" in e.inputs[1].meaning
    x, noise = examples(7), [rng.standard_normal(sum(sizes)), rng.standard_normal((7, 3))]
    parts = np.split(noise[0], np.cumsum(sizes)[:-1])
    weights = {}
    for n, part in zip(below, parts, strict=True):
        mean, log_scale = q[n]
        weights[n] = (mean + log_scale.exp() * torch.from_numpy(part).view(mean.shape)).detach()
    a = convolved(weights, x).detach()
    (W, S), (b, s) = q["layer.weight"], q["layer.bias"]
    variance = a**2 @ (2 * S).exp().expand(W.shape).T + (2 * s).exp()
    z = a @ W.T + b + variance.sqrt() * torch.from_numpy(noise[1])
    assert_close(ask(e, x, noise), z.detach().numpy(), format)


@pytest.mark.parametrize("format", ["torch", "onnx"])
def test_a_fixed_module_predicts_as_the_library(made, format, tmp_path):
    run = made["own"]
    out = tmp_path / ("p.onnx" if format == "onnx" else "p.pt2")
    e = export_run(run, out, format, "fixed")
    x = 5 * examples(40)
    _, label = ask(e, x)
    np.savez(tmp_path / "new.npz", x=x.reshape(-1, *SHAPE))
    ours = folders.predict(
        run, str(tmp_path / "new.npz"), "fixed", samples=1, seed=0, label=None
    ).labels
    assert [e.classes[i] for i in label] == ours
    assert len(set(ours)) > 1


def test_only_float64_is_covered(made, tmp_path):
    fixed = export_run(made["own"], tmp_path / "p.pt2", "torch", "fixed")
    assert fixed.certificate.startswith("covered by certificate-fixed.json (held-out, δ = 0.05)")
    onnx_file = export_run(made["own"], tmp_path / "p.onnx", "onnx", "fixed")
    assert onnx_file.certificate.startswith("not covered by a certificate: it computes in float32")
    said = {p.key: p.value for p in onnx.load(onnx_file.file).metadata_props}
    assert "bound" not in json.loads(said["certificate"])
    assert not [f for f in tmp_path.iterdir() if b".py" in f.read_bytes()]


def test_a_vote_of_modules_is_refused_in_one_line(made, run_cli, tmp_path):
    arguments = ("--format", "torch", "--method", "vote", "--out", tmp_path / "p.pt2")
    code, _, err = run_cli("export", made["conv"].folder, *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert "use --method fixed, drawn or randomised" in err
    assert not list(tmp_path.iterdir())


def test_a_module_that_cannot_be_traced_is_refused_in_one_line(made, run_cli, tmp_path):
    arguments = ("--format", "torch", "--method", "fixed", "--out", tmp_path / "p.pt2")
    code, _, err = run_cli("export", made["asks"]().folder, *arguments)
    assert code != 0
    assert err.count("\n") == 1
    assert "cannot trace this network" in err
    assert not list(tmp_path.iterdir())


def test_fixed_features_vote_without_noise():
    torch.manual_seed(0)
    features = nn.Sequential(nn.Linear(3, 4), nn.Tanh()).double()
    network = Network(Deterministic(features), GaussianLinear(4, 1)).double().eval()
    e = explicit(network, Predictor.VOTE, features=3)
    x = torch.randn(5, 3)
    score, _ = e.module(x)
    mean, deviation = network.layer.moments(features(x.double()))
    expected = erf((mean / deviation / 2**0.5).detach().numpy()[:, 0])
    np.testing.assert_allclose(score.detach().numpy(), expected, atol=1e-6)
    assert not e.noise
