"""Networks with any output activation: aggregation, its variance, and its gradient."""

import itertools

import pytest
import torch
from torch import nn

from pacbayes import Dense, Deterministic, GaussianLinear, kl
from pacbayes.networks import activations
from pacbayes.networks.expectations import ACTIVATIONS
from pacbayes.networks.outputs import OutputNetwork


def network(activation, outputs=2, hidden=activations.relu):
    body = Dense([GaussianLinear(3, 4, learned_scale=True)], [hidden])
    return OutputNetwork(body, GaussianLinear(4, outputs, learned_scale=True), activation).double()


X = torch.tensor([[0.5, -1.0, 0.3], [1.0, 0.2, -0.4]], dtype=torch.float64)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_aggregate_is_the_mean_of_drawn_weights(name, z_scores):
    net = network(name)
    function = ACTIVATIONS[name].function
    with torch.no_grad():
        aggregated = net.draw(X, 20_000).value
        hidden = net.body.draw(X, 20_000).value  # (T, B, 4)
        W, b = net.layer.weight.sample(20_000), net.layer.bias.sample(20_000)
        drawn = function((W.unsqueeze(1) @ hidden.unsqueeze(-1)).squeeze(-1) + b.unsqueeze(1))
    error = (aggregated.var(0) / 20_000 + drawn.var(0) / 20_000).sqrt()
    assert ((aggregated.mean(0) - drawn.mean(0)) / error).abs().max() < 5  # below 1e-5 in all
    assert (aggregated.var(0) < drawn.var(0)).all()  # aggregation has less variance


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "probit"])
def test_gradients_vary_less_than_those_of_sampled_outputs(name):
    net = network(name)

    def gradients(value):
        return torch.autograd.grad(value.mean(0).sum(), net.layer.weight.mean)[0]

    def sampled():
        mean, deviation = net.moments(net.body.draw(X, 1).value)
        return ACTIVATIONS[name].function(mean + deviation * torch.randn_like(mean))

    own = torch.stack([gradients(net.draw(X, 1).value) for _ in range(300)])
    other = torch.stack([gradients(sampled()) for _ in range(300)])
    assert own.var(0).sum() < 0.8 * other.var(0).sum()
    error = (own.var(0) / 300 + other.var(0) / 300).sqrt()
    assert ((own.mean(0) - other.mean(0)) / error).abs().max() < 5


def test_sign_units_below_are_summed_exactly_and_their_gradient_is_unbiased(z_scores):
    """Enumerate all 2⁴ activations; score-function draws have the same mean and gradient."""
    net = network("sigmoid", hidden=activations.sign)
    layer = net.body.layers[0]
    states = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=4)), dtype=torch.float64)

    def exact():
        mean, deviation = layer.moments(X)
        up = torch.special.ndtr(mean / deviation).unsqueeze(-2)
        weight = torch.where(states > 0, up, 1 - up).prod(-1)  # (B, 16)
        return weight @ net.activation.expectation(*net.moments(states))

    expected = exact()
    (slope,) = torch.autograd.grad(expected.sum(), layer.weight.mean)
    values, slopes = [], []
    for _ in range(400):
        value = net(X, 20)
        slopes.append(torch.autograd.grad(value.sum(), layer.weight.mean)[0])
        values.append(value.detach())
    assert z_scores(torch.stack(values), expected.detach()).abs().max() < 5
    assert z_scores(torch.stack(slopes), slope).abs().max() < 5


def test_a_deterministic_body_has_an_exact_aggregate():
    net = OutputNetwork(Deterministic(nn.Tanh()), GaussianLinear(3, 5), "erf").double()
    mean, deviation = net.layer.moments(X.tanh())
    expected = torch.erf(mean / (1 + 2 * deviation**2).sqrt())
    assert torch.allclose(net(X, 7), expected)
    assert kl(net).item() == 0


def test_unknown_activations_are_refused_by_name():
    with pytest.raises(ValueError, match="identity, relu, probit"):
        network("softplus")
