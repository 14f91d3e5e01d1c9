"""The engine's evaluations in float64 against PyTorch's at the same places."""

import copy

import numpy as np
import pytest
import torch

from pacbayes import GaussianLinear, Network, certify, dense_network
from pacbayes.choices import Predictor
from pacbayes.engine import evaluation as module
from pacbayes.engine.evaluation import NativeSampler, sampler
from pacbayes.engine.library import available
from pacbayes.networks.predictors import decide
from pacbayes.networks.risk import keyed_risk
from pacbayes.networks.sampler import Places, TorchSampler

pytestmark = pytest.mark.skipif(not available(), reason="no compiler, or not an AVX2 machine")


def made(widths, activation="relu", classes=2, *, learned_scale=True, spread=0.3, d=6):
    torch.manual_seed(0)
    options = {"classes": classes, "learned_scale": learned_scale}
    network = dense_network(d, widths, activation, **options).double()
    with torch.no_grad():
        for name, p in network.named_parameters():
            p += (0.2 if "scale" in name else spread) * torch.randn_like(p)
    return network


def examples(n, classes=2, d=6):
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(n, d, generator=generator)
    x[torch.rand(n, d, generator=generator) < 0.4] = 0
    y = torch.randint(classes, (n,), generator=generator)
    return x, 2.0 * y - 1 if classes == 2 else y


@pytest.mark.parametrize("learned_scale", [True, False])
@pytest.mark.parametrize("classes", [2, 3, 12])
@pytest.mark.parametrize("activation", ["relu", "sigmoid", "sign"])
@pytest.mark.parametrize(
    ("widths", "n", "T"), [((1,), 3, 1), ((7, 9, 4), 37, 3), ((30, 33), 5, 300), ((17,), 300, 1)]
)
def test_draws_are_pytorchs_in_float64(widths, n, T, activation, classes, learned_scale):
    network = made(widths, activation, classes, learned_scale=learned_scale)
    x, y = examples(n, classes)
    places = Places.of_set(b"a key of certificates", range(n), T, first=5)
    one, other = NativeSampler(network), TorchSampler(network)
    assert (one.losses(x, y, places) - other.losses(x, y, places)).abs().max() < 1e-12
    assert (one.outputs(x, places) - other.outputs(x, places)).abs().max() < 1e-12


@pytest.mark.parametrize(
    ("spread", "scale", "T"), [(0.3, 1.0, 4000), (30.0, 1.0, 400), (1e30, 1e-30, 400)]
)
def test_signs_that_single_precision_cannot_decide_are_pytorchs(spread, scale, T):
    """Among ten million draws some are within its error; huge sums leave it nothing to decide."""
    network = made((40, 33, 20), "sign", spread=spread)
    with torch.no_grad():
        for name, p in network.named_parameters():
            if "scale" in name:
                p += np.log(scale)
    x, y = examples(50)
    places = Places.of_set(b"a key of certificates", range(50), T)
    one, other = NativeSampler(network), TorchSampler(network)
    assert (one.losses(x, y, places) - other.losses(x, y, places)).abs().max() < 1e-9


@pytest.mark.parametrize("spread", [0.1, 1.5])
def test_many_classes_are_integrated_as_pytorch_does(spread):
    """Scores that are close, and scores that differ by many deviations."""
    network, (x, y) = made((5,), classes=150, spread=spread), examples(6, 150)
    places = Places.of_set(b"key", range(6), 4)
    one, other = NativeSampler(network), TorchSampler(network)
    # Cut off at seven deviations, the grids may differ by 2.2·Φ(−7).
    assert (one.losses(x, y, places) - other.losses(x, y, places)).abs().max() < 5e-12
    outputs = one.outputs(x, places)
    assert (outputs - other.outputs(x, places)).abs().max() < 5e-12
    assert (outputs.sum(-1) - 1).abs().max() < 1e-7
    losses = 1 - outputs.gather(-1, y.expand(4, 6).unsqueeze(-1)).squeeze(-1)
    assert (one.losses(x, y, places) - losses).abs().max() < 1e-12


@pytest.mark.parametrize("activation", ["relu", "sign"])
def test_bits_do_not_depend_on_threads_nor_on_company(activation):
    network, (x, y) = made((20, 9), activation), examples(120)
    places, native = Places.of_set(b"key", range(120), 30), NativeSampler(network)
    expected = native.losses(x, y, places)
    for threads in (2, 5):
        torch.set_num_threads(threads)
        assert torch.equal(native.losses(x, y, places), expected)
    torch.set_num_threads(1)
    part = range(50, 71)
    for first, draws in ((0, 30), (7, 1), (10, 20)):
        found = native.losses(x[50:71], y[50:71], Places.of_set(b"key", part, draws, first))
        assert torch.equal(found, expected[first : first + draws, 50:71])


@pytest.mark.parametrize(("samples", "rows"), [(3, 1000), (130, 1000), (130, 200)])
def test_the_risk_is_pytorchs_whatever_the_blocks(samples, rows, monkeypatch):
    monkeypatch.setattr(NativeSampler, "rows", rows)
    network, (x, y) = made((8, 5), "sign"), examples(47)
    one = keyed_risk(network, x, y, samples, b"key", NativeSampler(network))
    other = keyed_risk(network, x, y, samples, b"key")
    assert (one.n, one.samples, one.draws) == (47, samples, 47 * samples)
    for name in ("mean", "variance", "within", "tandem"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-13)


def test_certificates_are_the_same_without_the_engine(monkeypatch):
    network, (x, y) = made((8, 5), "relu").float(), examples(60)
    native = certify(network, x, y, samples=10)
    monkeypatch.setattr(module, "library", lambda: None)
    assert sampler(network).__class__ is TorchSampler
    other = certify(network, x, y, samples=10)
    assert native.risk == pytest.approx(other.risk, abs=1e-13)
    assert native.bound == pytest.approx(other.bound, abs=1e-12)


@pytest.mark.parametrize("classes", [2, 4])
def test_predictions_are_the_same_without_the_engine_and_one_by_one(classes):
    network, (x, _) = made((8, 5), "sign", classes).float(), examples(40, classes)
    for predictor in (Predictor.RANDOMISED, Predictor.VOTE):
        native = decide(network, predictor, x, seed=3, samples=9, sampler=sampler(network))
        torch_s = decide(network, predictor, x, seed=3, samples=9)
        assert torch.equal(native.index, torch_s.index)
        one_by_one = [
            decide(network, predictor, row, seed=3, samples=9, sampler=sampler(network)).index
            for row in x.split(1)
        ]
        assert torch.equal(native.index, torch.cat(one_by_one))


def test_what_is_not_finite_is_left_to_pytorch_or_shows():
    network, (x, y) = made((8,)), examples(9)
    spoilt = copy.deepcopy(network)
    with torch.no_grad():
        spoilt.body.layers[0].weight.mean[0, 0] = float("nan")
    assert not NativeSampler.takes(spoilt)
    x[3, 2] = float("nan")
    losses = NativeSampler(network).losses(x, y, Places.of_set(b"key", range(9), 4))
    assert losses[:, 3].isnan().all()
    assert losses[:, np.arange(9) != 3].isfinite().all()


def test_scores_that_cannot_be_integrated_are_refused():
    network, (x, y) = made((8,), classes=3), examples(9, 3)
    with torch.no_grad():
        network.layer.weight.log_scale[0] -= 30
        network.layer.bias.log_scale[0] -= 30
    with pytest.raises(ValueError, match="differ too much to integrate"):
        NativeSampler(network).losses(x, y, Places.of_set(b"key", range(9), 4))


def test_other_networks_are_not_taken():
    class Own(GaussianLinear):
        pass

    network = made((4,))
    assert not NativeSampler.takes(Network(network.body, Own(4, 1)))
    assert not NativeSampler.takes(dense_network(6, ()))
    with pytest.raises(ValueError, match="dense networks of one activation"):
        NativeSampler(dense_network(6, ()))
    assert sampler(Network(torch.nn.Linear(6, 4), GaussianLinear(4, 1))) is None
    with pytest.raises(ValueError, match=r"examples of shape \(3, 6\), got \(3, 5\)"):
        NativeSampler(network).outputs(torch.zeros(3, 5), Places.of_set(b"", range(3), 1))
