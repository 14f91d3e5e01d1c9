"""The paper's propositions, measured."""

import math

import torch

from pacbayes import dense_network
from pacbayes.experiments.variances import ESTIMATORS, gradient_variances, output_variances


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
