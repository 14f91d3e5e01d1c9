"""The iterated sum is the definition: it needs no faith in samplers."""

import itertools
import math

import pytest
import torch
from torch import nn

from pacbayes import dense_network, exact_aggregate
from pacbayes.networks.bodies import Deterministic, Sampled
from pacbayes.networks.layers import GaussianLinear
from pacbayes.networks.network import Network


def by_hand(network, x):
    """F_Q of a 2-hidden-layer sign network with nested Python loops over every activation."""
    first, second = network.body.layers

    def q(layer, a, below):
        mean, deviation = layer.moments(below)
        p = 0.5 * (1 + torch.erf(a * mean / (math.sqrt(2) * deviation)))
        return p.prod().item()

    total = 0.0
    for a1 in itertools.product((-1.0, 1.0), repeat=2):
        for a2 in itertools.product((-1.0, 1.0), repeat=3):
            s1, s2 = torch.tensor(a1).double(), torch.tensor(a2).double()
            mean, deviation = network.layer.moments(s2)
            output = math.erf((mean / deviation).item() / math.sqrt(2))
            total += output * q(second, s2, s1) * q(first, s1, x)
    return total


@pytest.mark.parametrize("learned_scale", [False, True])
def test_iterated_sum_against_nested_loops(learned_scale):
    network = dense_network(4, (2, 3), "sign", learned_scale=learned_scale).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    F = exact_aggregate(network, x)
    for i in range(3):
        assert F[i].item() == pytest.approx(by_hand(network, x[i]), abs=1e-12)


def test_sum_is_the_average_over_drawn_weights(z_scores):
    """Weights drawn from Q, plain forward passes: the meaning of F_Q, with nothing in common."""
    network = dense_network(3, (2, 2), "sign").double()
    x = torch.randn(2, 3, dtype=torch.float64)
    a = x.expand(40_000, 2, 3)
    with torch.no_grad():
        for layer in (*network.body.layers, network.layer):
            W, b = layer.weight.sample(40_000), layer.bias.sample(40_000)
            a = torch.sign(a @ W.mT + b.unsqueeze(1))
        expected = exact_aggregate(network, x)
    assert z_scores(a.squeeze(-1), expected).abs().max() < 5  # false alarm 1e-6


def test_gradient_against_finite_differences():
    network = dense_network(3, (2, 2), "sign", learned_scale=True).double()
    x = torch.randn(2, 3, dtype=torch.float64)
    parameters = list(network.parameters())

    def f(*values):
        with torch.no_grad():
            for p, v in zip(parameters, values, strict=True):
                p.copy_(v)
        return exact_aggregate(network, x).sum().item()

    gradients = torch.autograd.grad(exact_aggregate(network, x).sum(), parameters)
    start = [p.detach().clone() for p in parameters]
    h = 1e-6
    for k, gradient in enumerate(gradients):
        for index in itertools.islice(itertools.product(*map(range, gradient.shape)), 4):
            up, down = [s.clone() for s in start], [s.clone() for s in start]
            up[k][index] += h
            down[k][index] -= h
            slope = (f(*up) - f(*down)) / (2 * h)
            assert gradient[index].item() == pytest.approx(slope, abs=1e-8)


def test_without_hidden_layers_it_is_the_signed_linear_classifier():
    network = dense_network(4, (), "sign").double()
    x = torch.randn(5, 4, dtype=torch.float64)
    mu, beta = network.layer.weight.mean[0], network.layer.bias.mean[0]
    expected = torch.erf((x @ mu + beta) / (2 * (x.square().sum(1) + 1)).sqrt())
    assert torch.allclose(exact_aggregate(network, x), expected)
    assert torch.allclose(network(x, 1), expected)  # nothing is sampled


def test_too_large_a_sum_is_refused_with_its_size():
    with pytest.raises(ValueError, match=r"widths \[30\] for 1 examples needs \d+ numbers"):
        exact_aggregate(dense_network(4, (30,), "sign"), torch.zeros(1, 4))


def test_units_that_are_not_signs_are_refused():
    with pytest.raises(ValueError, match="only sign activations"):
        exact_aggregate(dense_network(4, (2,), "relu"), torch.zeros(1, 4))


def test_deterministic_bodies_are_exact_and_others_refused():
    body = nn.Linear(4, 3).requires_grad_(False)
    x = torch.randn(2, 4)
    network = Network(Deterministic(body), GaussianLinear(3, 1))
    assert torch.equal(exact_aggregate(network, x), network(x, 7))
    with pytest.raises(ValueError, match="deterministic"):
        exact_aggregate(Network(Sampled(body), GaussianLinear(3, 1)), x)
