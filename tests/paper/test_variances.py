"""The paper's propositions, measured."""

import math

import pytest
import torch

from pacbayes import Settings, build_network, dense_network, stochastic
from pacbayes.paper.variances import ESTIMATORS, gradient_variances, output_variances


def test_aggregation_lowers_the_variance_and_samples_divide_it():
    network = dense_network(4, (5, 5), "sign")
    head = network.head
    found = output_variances(network, torch.randn(20, 4), (1, 16), repeats=400)
    for a, b in zip(found["aggregated"], found["sampled"], strict=True):
        assert a < b
    for values in found.values():
        assert 10 < values[0] / values[1] < 25  # sixteen, within three of its own errors
    assert network.head is head


def test_better_estimators_vary_less():
    """Where outputs are certain, as after training, a baseline takes most of the variance away."""
    x = torch.randn(30, 4)
    y = torch.where(x[:, 0] > 0, 1.0, -1.0)
    network = dense_network(4, (6, 6), "sign")
    with torch.no_grad():
        network.layer.bias.mean += 3
    found = gradient_variances(network, x, y, (1, 8), repeats=150)
    assert set(found) == set(ESTIMATORS)
    assert math.isnan(found["leave-one-out"][0])  # it needs two samples
    at = {name: values[1] for name, values in found.items()}
    assert max(at["local-expectation"], at["leave-one-out"]) < 0.5 * at["marginal"]
    assert found["marginal"][1] < found["marginal"][0]
    assert at["marginal"] < 0.01 * at["reinforce"]  # what aggregation is for


def relu_by_hand(network, x, y, T, repeats):
    """Return the variance of the pathwise gradient of a network with one hidden layer."""
    (hidden,), last = network.body.layers, network.layer
    found = []
    for _ in range(repeats):
        mean, deviation = hidden.moments(x)
        a = (mean + deviation * torch.randn(T, *mean.shape)).clamp(min=0)
        mean, deviation = last.moments(a)
        loss = 0.5 * (1 - y * torch.erf(mean / deviation / 2**0.5).squeeze(-1)).mean()
        found.append(torch.autograd.grad(loss, list(network.parameters())))
    gradients = [torch.cat([g.flatten() for g in each]) for each in found]
    return torch.stack(gradients).var(0).sum().item()


@pytest.mark.parametrize("learned", [False, True])
def test_the_network_that_is_given_is_measured(learned):
    x = torch.randn(30, 4)
    y = torch.where(x[:, 0] > 0, 1.0, -1.0)
    network = dense_network(4, (6,), "relu", scale=0.5, learned_scale=learned)
    found = gradient_variances(network, x, y, (1, 4), repeats=500)
    assert list(found) == ["pathwise", "reinforce"]
    for T, value in zip((1, 4), found["pathwise"], strict=True):
        assert value == pytest.approx(relu_by_hand(network, x, y, T, 500), rel=0.25)
    assert found["pathwise"][0] < 0.1 * found["reinforce"][0]


def test_more_classes_have_fewer_estimators():
    x, y = torch.randn(20, 4), torch.arange(20) % 3
    network = dense_network(4, (5,), "sign", classes=3)
    found = gradient_variances(network, x, y, (2,), repeats=20)
    assert list(found) == ["marginal", "leave-one-out", "straight-through"]
    assert min(v for values in found.values() for v in values) > 0
    assert list(gradient_variances(dense_network(4, (5,), classes=3), x, y, (2,), 20)) == [
        "pathwise"
    ]
    with pytest.raises(ValueError, match="a sampled sign needs 2 classes, got 3"):
        output_variances(network, x, (1,))


def test_networks_whose_estimators_are_not_known_are_refused():
    x, y = torch.randn(20, 4), torch.ones(20)
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    changed = dense_network(4, (5,), "relu")
    changed.body.rules = dense_network(4, (5,), "sign").body.rules
    flat = build_network(Settings(widths=()), 4)
    for network in (stochastic(module), changed, flat):
        with pytest.raises(ValueError, match="as dense_network builds them, unchanged"):
            gradient_variances(network, x, y, (1,))
