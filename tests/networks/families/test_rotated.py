"""A posterior in a basis: the same prior, another Q, and the numbers of full covariances."""

import math

import numpy as np
import pytest
import torch
from scipy.fft import dctn
from torch.distributions import MultivariateNormal, kl_divergence

from pacbayes import Gaussian, GaussianLinear, Settings, build_network, certify, kl, train
from pacbayes.engine.evaluation import sampler
from pacbayes.networks.families.rotated import (
    Rotated,
    Smoothness,
    check_reflections,
    eigenbasis,
    reflected,
    second_moments,
)
from pacbayes.networks.network import first_layer, without_basis
from pacbayes.networks.plain import plain_copy
from pacbayes.networks.posterior import digest_prior, draws_key, kl_by_part
from pacbayes.networks.predictors import draw_network, prior_weights, scores
from pacbayes.networks.sampler import Places, TorchSampler
from pacbayes.training.trainer import Trainer
from pacbayes.verify.bases import _reflected, _smooth

SMOOTH = Smoothness((1, 3, 4), 1.5)


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def posterior(smoothness=None, learned=True):
    """A posterior far from its prior, in a basis, in float64."""
    start = Gaussian(5, 12, scale=0.7, learned_scale=learned)
    g = Rotated(start, smoothness).double()
    g.choose(noise(100, 12) * torch.arange(1, 13) ** 0.5)
    with torch.no_grad():
        g.mean.add_(noise(5, 12, seed=1))
        if learned:
            g.log_scale.add_(0.3 * noise(5, 12, seed=2))
    return g


@pytest.mark.parametrize("size", [1.0, 1e-30, 1e6])
def test_reflections_are_orthonormal_whatever_their_vectors(size):
    vectors = size * noise(30, 30).tril(-1)
    R = reflected(vectors)
    assert torch.allclose(R.T @ R, torch.eye(30, dtype=R.dtype), atol=1e-13)
    assert np.allclose(R, _reflected(vectors.numpy()), atol=1e-13)  # the verifier's own


def test_no_reflections_are_no_basis():
    assert torch.equal(reflected(torch.zeros(4, 4).double()), torch.eye(4).double())


@pytest.mark.parametrize(
    ("vectors", "fault"),
    [
        (torch.full((3, 3), math.nan).tril(-1), "not finite"),
        (torch.eye(3), "no reflection uses"),
        (torch.ones(3, 3), "no reflection uses"),
        (torch.zeros(3, 2), "shape"),
    ],
)
def test_what_is_no_reflection_is_refused(vectors, fault):
    with pytest.raises(ValueError, match=fault):
        check_reflections(vectors, 3)


def test_the_basis_is_that_of_the_eigenvectors():
    x = noise(300, 8) @ noise(8, 8, seed=1)
    R = reflected(eigenbasis(second_moments(x)))
    turned = x @ R
    moments = turned.T @ turned / 300
    assert torch.allclose(moments, moments.diag().diag(), atol=1e-10)
    assert (moments.diag().diff() <= 1e-10).all()


@pytest.mark.parametrize("smoothness", [None, SMOOTH])
@pytest.mark.parametrize("learned", [True, False])
def test_moments_and_kl_are_those_of_full_covariances(smoothness, learned):
    g = posterior(smoothness, learned)
    R, KS = reflected(g.reflections), torch.eye(12).double()
    if smoothness is not None:
        KS = smoothness.matrix()
    C = KS @ R  # W = Z Cᵀ, and a prior of P = W₀(KS)ᵀ + noise of covariance σ²·KS(KS)ᵀ
    own = g.variance.expand_as(g.mean)
    x, layer = noise(7, 12, seed=3), GaussianLinear(12, 5, learned_scale=learned).double()
    layer.weight = g
    with torch.no_grad():
        layer.bias.log_scale.copy_(torch.tensor(math.log(0.7)))
        mean, deviation = layer.moments(x)
    exact, total = torch.zeros(5, dtype=torch.float64), 0.0
    for j in range(5):
        Q = MultivariateNormal(C @ g.mean[j], C @ own[j].diag() @ C.T)
        P = MultivariateNormal(KS @ g.prior_mean[j], 0.49 * KS @ KS.T)
        total += kl_divergence(Q, P).item()
        assert torch.allclose(mean[:, j], x @ Q.mean + layer.bias.mean[j])
        exact = (x @ Q.covariance_matrix * x).sum(-1) + 0.49
        assert torch.allclose(deviation.expand(7, 5)[:, j].square(), exact)
    assert kl(g).item() == pytest.approx(total, rel=1e-7)  # of ln 0.7 in float32
    assert kl_by_part(g)[""] == pytest.approx(total, rel=1e-6)
    assert kl_by_part(g)[""] > kl(g).item()  # rounding is charged


@pytest.mark.parametrize("shape", [(1, 3, 4), (2, 5, 5)])
def test_a_smooth_prior_is_the_cosine_transform_of_scaled_noise(shape):
    found = Smoothness(shape, 2.0).matrix().numpy()
    x = noise(3, *shape).numpy()
    f = np.hypot(*np.meshgrid(np.arange(shape[1]), np.arange(shape[2]), indexing="ij"))
    scales = (1 + f / 4) ** -2.0
    wanted = dctn(x, axes=(2, 3), norm="ortho") * scales / np.sqrt((scales**2).mean())
    assert np.allclose(x.reshape(3, -1) @ found, wanted.reshape(3, -1), atol=1e-12)
    assert np.allclose(found, _smooth(2.0, shape), atol=1e-12)  # the verifier's own
    assert np.trace(found @ found.T) == pytest.approx(math.prod(shape))


@pytest.mark.parametrize(
    ("shape", "power", "fault"),
    [((3, 4), 1.0, "images"), ((1, 0, 4), 1.0, "images"), ((1, 3, 4), 0.0, "power")],
)
def test_nonsense_of_smoothness_is_refused(shape, power, fault):
    with pytest.raises(ValueError, match=fault):
        Smoothness(shape, power)


def data(n=400):
    x = noise(n, 12).float() * torch.linspace(2, 0.1, 12)
    return x, torch.where(x[:, 0] + x[:, 1] > 0, 1.0, -1.0)


def trained(shape=None, **changes):
    given = {"widths": (8,), "epochs": 4, "batch_size": 50, "basis": "eigen"} | changes
    settings = Settings.of("fast", given.pop("activation", "relu"), **given)
    network, (x, y) = build_network(settings, 12, shape=shape), data()
    history = train(network, x, y, settings)
    return network, x, y, history


KINDS = {
    "relu": {},
    "sign": {"activation": "sign", "widths": (6, 5)},
    "linear": {"widths": ()},
    "torch": {"engine": "torch"},
    "smooth": {"shape": (3, 4), "prior_smooth": 1.0},
    "smooth alone": {"shape": (3, 4), "prior_smooth": 1.0, "basis": "none"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_training_in_a_basis_ends_with_the_kl_and_risk_that_it_says(kind):
    network, x, y, history = trained(**KINDS[kind])
    best = min(history, key=lambda e: e.guide)
    assert kl(network).item() == pytest.approx(best.kl, rel=1e-5)
    c = certify(network, x, y, samples=50, repeats=True)
    assert c.kl == pytest.approx(best.kl, rel=1e-5)
    assert c.risk == pytest.approx(best.risk, abs=0.03)
    chosen = first_layer(network).weight.reflections.any()
    assert bool(chosen) == (kind != "smooth alone")


def test_without_its_basis_a_network_is_the_same_on_turned_inputs():
    network, x, _, _ = trained()
    plain, turned = without_basis(network), first_layer(network).weight.all_seen(x)
    assert without_basis(plain) is plain
    assert type(first_layer(plain).weight) is Gaussian
    assert first_layer(plain).weight.mean is first_layer(network).weight.mean  # shared
    assert kl(plain).item() == pytest.approx(kl(network).item(), rel=1e-6)
    a, b = first_layer(network).moments(x), first_layer(plain).moments(turned)
    assert all(torch.allclose(u, v, atol=1e-4) for u, v in zip(a, b, strict=True))


def test_the_prior_does_not_notice_a_basis():
    settings = Settings.of("fast", "relu", widths=(8,), basis="eigen")
    network, plain = (build_network(s, 12) for s in (settings, Settings.of("fast", widths=(8,))))
    assert digest_prior(network) == digest_prior(plain)
    first_layer(network).weight.choose(data()[0])
    assert digest_prior(network) == digest_prior(plain)
    assert network.prior_seed == 0
    assert kl(network).item() == pytest.approx(0, abs=1e-6)  # Q is at P in every basis


def test_a_smooth_prior_is_another_prior():
    every = [
        build_network(Settings.of("fast", widths=(8,), prior_smooth=p), 12, shape=(3, 4))
        for p in (0, 1, 2)
    ]
    assert len({digest_prior(network) for network in every}) == 3


def test_the_key_of_draws_follows_the_basis():
    network, x, y, _ = trained()
    before = draws_key(plain_copy(network), x, y)
    assert before == draws_key(network, x, y)  # in any precision
    first_layer(network).weight.reflections[1, 0] += 1e-3
    assert draws_key(network, x, y) != before


def test_the_key_of_draws_follows_the_smoothness_of_the_prior():
    network, x, y, _ = trained(shape=(3, 4), prior_smooth=1.0)
    before = draws_key(network, x, y)
    first_layer(network).weight.smoothness = Smoothness((1, 3, 4), 1.1)
    assert draws_key(network, x, y) != before


@pytest.mark.parametrize("activation", ["relu", "sign"])
def test_the_engine_draws_what_pytorch_does_in_a_basis(activation):
    network, x, y, _ = trained(activation=activation)
    exact = plain_copy(network)
    places = Places.of_set(b"key of twelve bytes", range(30), 7)
    found = sampler(exact).losses(x[:30], y[:30], places)
    assert torch.allclose(found, TorchSampler(exact).losses(x[:30], y[:30], places), atol=1e-9)


def test_a_drawn_network_is_evaluated_in_the_basis_of_its_weights():
    network, x, _, _ = trained()
    exact = plain_copy(network)
    drawn = draw_network(exact, np.random.default_rng(0)).weights
    first = first_layer(exact).weight
    z = x.double() @ (drawn["body.layers.0.weight"] @ first.coordinates.T).T
    a = torch.relu(z + drawn["body.layers.0.bias"])
    wanted = (a @ drawn["layer.weight"].T + drawn["layer.bias"]).squeeze(-1)
    assert torch.allclose(scores(exact, drawn, x), wanted)
    at_prior = build_network(Settings.of("fast", widths=(8,)), 12)
    both = (scores(net, prior_weights(net), x) for net in (exact, at_prior))
    assert torch.allclose(*both, atol=1e-6)


def test_a_stopped_run_goes_on_with_the_basis_it_had():
    settings = Settings.of("fast", widths=(8,), epochs=4, batch_size=50, basis="eigen")
    x, y = data()
    whole = Trainer(build_network(settings, 12), x, y, settings)
    list(whole.steps())
    part, states = Trainer(build_network(settings, 12), x, y, settings), None
    for progress in part.steps():
        if progress.batch == progress.batches and progress.epoch == 2:
            states = part.state()
            break
    tensors = {name: tensor.clone() for name, tensor in states[0].items()}
    network = build_network(settings, 12)
    first_layer(network).weight.choose(noise(50, 12, seed=9).float())  # as another machine might
    other = Trainer(network, x, y, settings)
    other.restore(tensors, states[1])
    list(other.steps())
    assert [e.kl for e in other.history] == [e.kl for e in whole.history]
    assert all(torch.equal(other.best[name], p) for name, p in whole.best.items())


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"learned_scale": False}, "no effect on fixed"),
        ({"prior_fraction": 0.5}, "data-free"),
        ({"estimator": "reinforce", "activation": "sign"}, "does not take a basis"),
    ],
)
def test_where_a_basis_has_no_place_it_is_refused(changes, fault):
    with pytest.raises(ValueError, match=fault):
        Settings.of("fast", changes.pop("activation", "relu"), basis="eigen", **changes)


@pytest.mark.parametrize("shape", [None, (12,), (3, 5)])
def test_a_smooth_prior_needs_images(shape):
    with pytest.raises(ValueError, match="leave out --prior-smooth"):
        build_network(Settings.of("fast", prior_smooth=1), 12, shape=shape)
