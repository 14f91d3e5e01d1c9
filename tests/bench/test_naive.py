"""The naive network is right: gradients by enumeration, values of the library, the KL."""

import pytest
import torch

from pacbayes import dense_network, exact_aggregate
from pacbayes.bench.naive import NaiveNetwork
from pacbayes.data.tasks import linear


def twins(activation, widths=(4, 3, 2, 1)):
    """A naive network and one of the library's with the same weights."""
    torch.manual_seed(3)
    naive = NaiveNetwork(widths, activation)
    network = dense_network(widths[0], widths[1:-1], activation, estimator="marginal")
    layers = [*network.body.layers, network.layer]
    with torch.no_grad():
        for layer, weight, bias in zip(layers, naive.weights, naive.biases, strict=True):
            layer.weight.mean.copy_(weight)
            layer.bias.mean.copy_(bias)
    return naive, network, torch.randn(6, 4), torch.tensor([1.0, -1, 1, 1, -1, -1])


def test_naive_signs_have_the_enumerated_gradient(z_scores):
    naive, network, x, y = twins("sign")
    loss = linear(exact_aggregate(network, x), y).mean()
    means = [m for g in (*network.body.layers, network.layer) for m in (g.weight.mean, g.bias.mean)]
    truth = torch.cat([g.flatten() for g in torch.autograd.grad(loss, means)]).double()
    ours = [p for pair in zip(naive.weights, naive.biases, strict=True) for p in pair]
    found = []
    for _ in range(400):
        gradient = torch.autograd.grad(naive.objective(x, y, 50, 1e9), ours)
        found.append(torch.cat([g.flatten() for g in gradient]).double())
    assert z_scores(torch.stack(found), truth).abs().max() < 5.5  # 26 entries: 1e-6


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_naive_paths_have_the_librarys_value(activation):
    naive, network, x, y = twins(activation)
    with torch.no_grad():
        one = torch.stack([naive.objective(x, y, 2000, 1e9) for _ in range(20)]).double()
        other = torch.stack([linear(network(x, 2000), y).mean() for _ in range(20)]).double()
    error = ((one.var() + other.var()) / 20).sqrt()
    assert (one.mean() - other.mean()).abs() < 5 * error  # t with 38 degrees: 1e-5


def test_the_naive_objective_pays_for_the_kl():
    naive, *_, x, y = twins("relu")
    with torch.no_grad():
        naive.weights[0] += 1.0
        torch.manual_seed(0)
        dear = naive.objective(x, y, 1, 2.0)
        torch.manual_seed(0)
        free = naive.objective(x, y, 1, 1e12)
    assert (dear - free).item() == pytest.approx(0.5 * 12 / 2, rel=1e-5)
