"""Networks drawn once and kept."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn

from pacbayes import (
    Deterministic,
    GaussianConv2d,
    GaussianLinear,
    Network,
    bounds,
    dense_network,
    kl,
)
from pacbayes.certificates.kept import certify_drawn, certify_fixed, certify_network, prior_error
from pacbayes.choices import Predictor
from pacbayes.networks.posterior import draws_key
from pacbayes.networks.predictors import draw_network, scores
from pacbayes.randomness import keyed_generator


def moved(activation="relu", classes=2, widths=(4, 3), **options):
    network = dense_network(3, widths, activation, classes=classes, **options)
    with torch.no_grad():
        for p in network.parameters():
            p += 0.2 * torch.randn_like(p)
    return network


def draws(network, count):
    generator = np.random.default_rng(0)
    return [draw_network(network, generator) for _ in range(count)]


@pytest.mark.parametrize("learned_scale", [False, True])
def test_weights_have_the_posteriors_moments_and_the_log_ratio_its_kl(learned_scale, z_scores):
    network = moved(learned_scale=learned_scale)
    found = draws(network, 3000)
    for name in ("body.layers.1.weight", "layer.bias"):
        g = network.get_submodule(name)
        weights = torch.stack([d.weights[name] for d in found])
        centred = weights - g.mean.detach().double()
        assert z_scores(centred, torch.zeros(())).abs().max() < 5.5  # below 1e-6 each
        spread = g.variance.detach().double()
        assert z_scores(centred.square(), spread).abs().max() < 5.5
    ratios = torch.tensor([math.fsum(d.log_ratio.values()) for d in found], dtype=torch.float64)
    assert z_scores(ratios, kl(network).detach()).abs() < 5  # its mean is the KL


def test_the_log_ratio_is_that_of_the_densities():
    network = moved(learned_scale=True)
    (drawn,) = draws(network, 1)
    for name, ratio in drawn.log_ratio.items():
        g = network.get_submodule(name)
        q = torch.distributions.Normal(g.mean.double(), g.log_scale.double().exp())
        p = torch.distributions.Normal(g.prior_mean.double(), g.prior_log_scale.double().exp())
        w = drawn.weights[name]
        assert ratio == pytest.approx((q.log_prob(w) - p.log_prob(w)).sum().item(), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("activation", ["relu", "sigmoid", "sign"])
def test_drawn_networks_err_on_average_as_often_as_the_randomised_classifier(
    activation, classes, z_scores
):
    network = moved(activation, classes, estimator="marginal").double()
    x = torch.randn(5, 3, dtype=torch.float64)
    y = torch.tensor([1.0, -1, 1, 1, -1]) if classes == 2 else torch.tensor([0, 1, 2, 3, 0])
    outputs = torch.stack([scores(network, d.weights, x) for d in draws(network, 3000)])
    predicted = outputs.sign() if classes == 2 else outputs.argmax(-1)
    many = network.draw(x, 20_000).value
    risk = network.loss(many, y)
    error = ((predicted != y).double().var(0) / 3000 + risk.var(0) / 20_000).sqrt()
    difference = (predicted != y).double().mean(0) - risk.mean(0)
    assert (difference / error).abs().max() < 5  # five examples: false alarm 3e-6


def test_the_certificate_is_of_the_best_network_and_every_one_pays():
    network = moved()
    x, y = torch.randn(200, 3), torch.where(torch.rand(200) < 0.5, 1.0, -1.0)
    c, kept = certify_drawn(network, x, y, networks=4, delta=0.1, priors=2)
    key = draws_key(network, x, y)
    found = [draw_network(network, keyed_generator(key, number)) for number in range(4)]
    values = []
    for d in found:
        risk = (scores(network, d.weights, x).sign() != y).double().mean().item()
        ratio = math.fsum(d.log_ratio.values())
        values.append(bounds.disintegrated(risk, ratio, 200, 0.05, networks=4))
    best = min(range(4), key=values.__getitem__)
    assert torch.equal(kept.weights["layer.weight"], found[best].weights["layer.weight"])
    assert values[best] <= c.bound == pytest.approx(values[best], abs=1e-7)
    assert (c.predictor, c.bound_name, c.draws) == (Predictor.DRAWN.sentence, "disintegrated", None)
    assert c.ledger == {"pac-bayes": 0.05, "other prior 1, pac-bayes": 0.05}
    assert math.fsum(c.contributions.values()) == pytest.approx(c.bound)
    one, _ = certify_drawn(network, x, y, delta=0.1)
    assert one.kl == pytest.approx(math.fsum(found[0].log_ratio.values()), rel=1e-8)


def test_ties_are_errors():
    network = moved(widths=())
    x = torch.randn(50, 3)
    zero = {name: torch.zeros_like(w) for name, w in draws(network, 1)[0].weights.items()}
    from pacbayes.networks.predictors import count_errors as _errors

    assert _errors(network, zero, x, torch.ones(50)) == 50
    assert _errors(network, zero, x, -torch.ones(50)) == 50


def test_bodies_that_cannot_be_kept_are_refused():
    x, y = torch.randn(20, 4), torch.ones(20)
    conv = nn.Sequential(nn.Unflatten(1, (1, 2, 2)), GaussianConv2d(1, 2, 2), nn.Flatten())
    with pytest.raises(ValueError, match="only a dense network"):
        certify_drawn(Network(conv, GaussianLinear(2, 1)), x, y)
    fixed = Network(Deterministic(nn.Linear(4, 2).requires_grad_(False)), GaussianLinear(2, 1))
    assert certify_drawn(fixed.double(), x.double(), y)[0].n == 20


class Stuck(nn.Module):
    def train(self, mode=True):
        return super().train(True)

    def forward(self, x):
        return x


@pytest.mark.parametrize(
    ("network", "change", "message"),
    [
        (lambda: moved(widths=()), lambda x: x.repeat(2, 1)[:20], "are duplicates"),
        (lambda: moved(widths=()), lambda x: x - x.mean(0), "mean zero"),
        (
            lambda: Network(Deterministic(nn.Linear(3, 2)), GaussianLinear(2, 1)),
            lambda x: x,
            "outside the posterior",
        ),
        (
            lambda: Network(Deterministic(Stuck()), GaussianLinear(3, 1)),
            lambda x: x,
            "stays in training mode",
        ),
    ],
)
def test_what_certify_refuses_is_refused_here_too(network, change, message):
    x = change(torch.randn(40, 3) if message != "are duplicates" else torch.randn(10, 3))
    with pytest.raises(ValueError, match=message):
        certify_drawn(network(), x, torch.ones(len(x)))


def test_a_prior_that_moved_after_the_first_look_is_refused():
    network, x, y = moved(widths=()), torch.randn(20, 3), torch.ones(20)
    certify_drawn(network, x, y)
    with torch.no_grad():
        network.layer.weight.prior_mean.copy_(network.layer.weight.mean)
    with pytest.raises(ValueError, match="the prior changed after the network first saw data"):
        certify_drawn(network, x, y)


def test_no_network_is_none():
    with pytest.raises(ValueError, match="networks must be at least 1, got 0"):
        certify_drawn(moved(), torch.randn(20, 3), torch.ones(20), networks=0)


@pytest.mark.parametrize("classes", [2, 4])
def test_the_network_at_the_priors_means_is_certified_by_the_binomial_tail(classes):
    network = moved(classes=classes)
    x = torch.randn(200, 3)
    y = network.task.encode(torch.randint(classes, (200,)))
    c = certify_fixed(network, x, y, delta=0.1, priors=2)
    with torch.no_grad():
        z = x.double()
        for layer in network.body.layers:
            z = torch.relu(z @ layer.weight.prior_mean.double().T + layer.bias.prior_mean)
        z = z @ network.layer.weight.prior_mean.double().T + network.layer.bias.prior_mean
    index = (z[:, 0] > 0).long() if classes == 2 else z.argmax(1)
    errors = int((index != network.task.decode(y)).sum())
    assert c.risk == c.risk_upper == errors / 200
    assert binom.cdf(errors, 200, c.bound) == pytest.approx(0.05, rel=1e-6)
    assert (c.kind, c.bound_name, c.kl, c.kl_by_part) == (Predictor.FIXED, "held-out", 0.0, {})
    assert math.fsum(c.contributions.values()) == pytest.approx(c.bound)
    assert c.ledger == {"pac-bayes": 0.05, "other prior 1, pac-bayes": 0.05}


def test_the_better_of_two_networks_is_kept_and_both_are_paid_for():
    x = torch.randn(300, 3)
    y = torch.where(x[:, 0] > 0, 1.0, -1.0)
    still, learned = (dense_network(3, (), scale=s) for s in (0.01, 0.3))
    with torch.no_grad():
        for g in (still.layer.weight, learned.layer.weight):
            g.mean.copy_(torch.tensor([[1.0, 0.0, 0.0]]))
        still.layer.weight.prior_mean.copy_(still.layer.weight.mean)
        learned.layer.weight.prior_mean.copy_(-0.5 * learned.layer.weight.mean)  # always wrong
        learned.layer.weight.log_scale.fill_(-4.0)
        for network in (still, learned):
            network.layer.bias.mean.zero_()
            network.layer.bias.prior_mean.zero_()
    shares = {"pac-bayes, held-out": 0.045, "pac-bayes, disintegrated-fixed": 0.005}
    for network, kind in ((still, Predictor.FIXED), (learned, Predictor.DRAWN)):
        c, weights = certify_network(network, x, y, guess=0.1)
        assert c.kind is kind
        assert c.ledger == pytest.approx(shares)
        part = c.ledger[f"pac-bayes, {c.bound_name}"]
        if kind is Predictor.FIXED:
            assert c.bound == bounds.clopper_pearson(c.risk, 300, part)
            assert torch.equal(weights["layer.weight"], network.layer.weight.prior_mean.double())
        else:
            assert c.bound == bounds.disintegrated_fixed(c.risk, c.kl, 300, part, guess=0.1)
            assert scores(network, weights, x).sign().eq(y).double().mean() > 0.9


def test_the_priors_error_on_its_own_part_is_the_guess_of_the_risk():
    network, x = moved(), torch.randn(200, 3)
    y = torch.where(torch.rand(200) < 0.5, 1.0, -1.0)
    assert prior_error(network, x, y) == certify_fixed(network, x, y).risk


def test_a_guess_goes_to_the_theorem_that_takes_one():
    network, x = moved(), torch.randn(200, 3)
    y = torch.where(x[:, 0] > 0, 1.0, -1.0)
    c, _ = certify_drawn(network, x, y, bound="disintegrated-fixed", networks=2, guess=0.3)
    assert c.parameters["guess"] == 0.3
    assert c.bound == bounds.disintegrated_fixed(c.risk, c.kl, 200, 0.05, guess=0.3, networks=2)
    assert math.fsum(c.contributions.values()) == pytest.approx(c.bound)
    assert "guess" not in certify_drawn(network, x, y, guess=0.3)[0].parameters
