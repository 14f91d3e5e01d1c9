"""Certificates of bounded output activations, by linear and squared losses."""

import numpy as np
import pytest
import torch
from torch import nn

from pacbayes import Dense, Deterministic, GaussianLinear, bounds, kl
from pacbayes.certificates.outputs import certify_outputs, expected_losses
from pacbayes.networks import activations
from pacbayes.networks.outputs import ACTIVATIONS, OutputNetwork


def labelled(n=200, low=0.0):
    """Two labels for each example: independent questions."""
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(0)) + 0.1
    return x, torch.where(x[:, :2] > 0, 1.0, low)


def dense(activation="sigmoid"):
    body = Dense([GaussianLinear(3, 8, learned_scale=True)], [activations.relu])
    return OutputNetwork(body, GaussianLinear(8, 2, learned_scale=True), activation)


@pytest.mark.parametrize(("name", "low"), [("sigmoid", 0.0), ("tanh", -1.0)])
@pytest.mark.parametrize("loss", ["linear", "squared"])
def test_losses_are_the_mean_over_drawn_outputs(name, low, loss, z_scores):
    mean = torch.tensor([[0.4, -2.0]], dtype=torch.float64)
    deviation = torch.tensor([[1.5, 0.7]], dtype=torch.float64)
    y = torch.tensor([[1.0, low]], dtype=torch.float64)
    found = expected_losses(ACTIVATIONS[name], loss, mean, deviation, y)
    drawn = ACTIVATIONS[name].function(mean + deviation * torch.randn(50_000, 1, 2).double())
    distance = (drawn - y).abs() / (1 - low)
    losses = distance if loss == "linear" else distance**2
    assert z_scores(losses.mean(-1), found).abs().max() < 4.5  # below 1e-5


@pytest.mark.parametrize("loss", ["linear", "squared"])
def test_it_learns_and_the_certificate_holds_on_new_data(loss):
    network, (x, y) = dense(), labelled()
    optimiser = torch.optim.Adam(network.parameters(), lr=0.05)
    for _ in range(150):
        mean, deviation = network.moments(network.body.draw(x, 2).value)
        risk = expected_losses(network.activation, loss, mean, deviation, y).mean()
        optimiser.zero_grad()
        (risk + kl(network) / len(x)).backward()
        optimiser.step()
    c = certify_outputs(network, x, y, loss=loss, samples=20)
    assert c.risk < c.risk_upper < c.bound < 0.75
    upper = bounds.kl_chernoff(c.risk + c.quadrature_error + 1e-9, 200 * 20, 0.025)
    assert c.risk_upper == pytest.approx(upper, abs=1e-12)
    assert c.bound == pytest.approx(bounds.small_kl(c.risk_upper, c.kl, 200, 0.025))
    fresh = torch.randn(4000, 3) + 0.1
    labels = torch.where(fresh[:, :2] > 0, 1.0, 0.0)
    distance = (network(fresh, 50) - labels).abs().mean(-1)
    assert (distance if loss == "linear" else distance**2).mean() < c.bound


def test_the_squared_loss_of_fresh_weights_is_certified_not_that_of_their_mean():
    """Otherwise the last layer would be free to hedge without paying."""
    network = OutputNetwork(Deterministic(nn.Identity()), GaussianLinear(3, 2, scale=3), "sigmoid")
    x, y = labelled()
    c = certify_outputs(network, x, y, loss="squared")
    assert c.monte_carlo is None
    assert c.risk > (network(x, 1) - y).square().mean().item() + 0.02


@pytest.mark.parametrize("rule", [activations.sign, activations.relu, activations.sigmoid])
def test_draws_by_a_generator_have_the_distribution_of_torchs(rule):
    """First and second moments of both layers' units, products of units included."""
    layers = [GaussianLinear(3, 4, scale=0.7), GaussianLinear(4, 2, learned_scale=True)]
    body, T = Dense(layers, [rule, rule]).double(), 20_000
    x = torch.randn(5, 3).double()
    with torch.no_grad():
        drawn = body.draw(x, T).value, body.draw_with(x, T, np.random.default_rng(3))
    first, second = (torch.cat([a, a * a, a[..., :1] * a[..., 1:]], -1) for a in drawn)
    error = (first.var(0) + second.var(0)).clamp(min=1e-15) / T
    assert ((first.mean(0) - second.mean(0)).abs() < 4.5 * error.sqrt() + 1e-12).all()
    assert second[..., 0].std(0).min() > 0.1  # units are drawn


def test_unbounded_activations_wrong_labels_and_copies_are_refused():
    x, y = labelled()
    with pytest.raises(ValueError, match="bounded output activation"):
        certify_outputs(dense("relu"), x, y)
    with pytest.raises(ValueError, match="labels must be between 0 and 1"):
        certify_outputs(dense(), x, 2 * y)
    with pytest.raises(ValueError, match=r"y of shape \(200, 2\)"):
        certify_outputs(dense(), x, y[:, 0])
    with pytest.raises(ValueError, match="duplicates"):
        certify_outputs(dense(), x.repeat(2, 1), y.repeat(2, 1))
    with pytest.raises(ValueError, match="loss must be one of linear, squared"):
        certify_outputs(dense(), x, y, loss="hinge")


def test_a_prior_that_moved_is_refused():
    network, (x, y) = dense(), labelled()
    certify_outputs(network, x, y, samples=2)
    network.layer.weight.prior_mean += 1
    with pytest.raises(ValueError, match="build a new network"):
        certify_outputs(network, x, y, samples=2)


def test_the_seed_of_a_data_free_prior_spends_its_share():
    x, y = labelled()
    c = certify_outputs(dense(), x, y, samples=4, prior_seed=2)
    assert c.ledger["pac-bayes"] + c.ledger["monte-carlo"] <= 0.05 / 12
    assert c.assumptions.prior_seed == 2
    assert c.bound > certify_outputs(dense(), x, y, samples=4).bound or c.bound == 1


def test_code_of_ones_own_stands_among_the_assumptions():
    x, y = labelled()
    said = "The code of Own keeps nothing of the bound set outside its tensors."
    for module, own in ((nn.Sequential(Own()), True), (nn.Tanh(), False)):
        network = OutputNetwork(Deterministic(module), GaussianLinear(3, 2), "sigmoid")
        assert (said in certify_outputs(network, x, y).assumptions.sentences()) == own
    dense_ones = certify_outputs(dense(), x, y, samples=2).assumptions.sentences()
    assert not any("The code of" in sentence for sentence in dense_ones)


class Own(nn.Tanh):
    """A class that is not PyTorch's."""


def test_a_prior_that_changed_after_the_data_were_seen_is_refused():
    network, (x, y) = dense(), labelled()
    certify_outputs(network, x, y)
    with torch.no_grad():
        network.layer.weight.prior_mean.add_(0.1)
    with pytest.raises(ValueError, match="changed after the network first saw data"):
        certify_outputs(network, x, y)
