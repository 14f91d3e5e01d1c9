import math

import mpmath
import pytest
import torch

from pacbayes import dense_network, kl
from pacbayes.bounds import catoni, catoni_lambda, small_kl
from pacbayes.training.objectives import (
    backward_with_kl,
    catoni_objective,
    small_kl_lambda,
    small_kl_objective,
)


@pytest.mark.parametrize("learned_scale", [False, True])
def test_backward_with_kl_is_the_gradient_of_risk_plus_kl_over_lambda(learned_scale):
    network = dense_network(3, (4,), scale=0.7, learned_scale=learned_scale).double()
    with torch.no_grad():
        for p in network.parameters():
            p += 0.3 * torch.randn_like(p)
    parameters = list(network.parameters())
    x = torch.randn(5, 3, dtype=torch.float64)
    torch.manual_seed(1)
    objective = network(x, 2).mean() + kl(network) / 50
    wanted = torch.autograd.grad(objective, parameters)
    torch.manual_seed(1)
    backward_with_kl(network(x, 2).mean(), network, 1 / 50)
    for p, gradient in zip(parameters, wanted, strict=True):
        assert torch.allclose(p.grad, gradient, atol=1e-12)


def test_backward_with_kl_leaves_what_is_frozen_alone_and_reaches_what_the_risk_does_not():
    network = dense_network(3, (4,))
    network.layer.bias.mean.requires_grad_(False)
    with torch.no_grad():
        network.layer.weight.mean += 1
    backward_with_kl(torch.zeros((), requires_grad=True), network, 0.5)
    assert network.layer.bias.mean.grad is None
    assert torch.allclose(network.layer.weight.mean.grad, torch.full((1, 4), 0.5))


def test_lambda_objective_is_catonis_bound():
    risk, k = torch.tensor([0.0635, 2363.0], dtype=torch.float64)
    for lam in (2e4, 6e4, 3e5):
        at = torch.tensor(math.log(lam), dtype=torch.float64)
        value = catoni_objective(risk, k, 60000, 0.05, at)
        assert value.item() == pytest.approx(catoni(0.0635, 2363, 60000, 0.05, lam=lam), rel=1e-10)


def test_its_gradient_vanishes_at_the_best_lambda_and_points_there():
    risk, k = torch.tensor([0.0635, 2363.0], dtype=torch.float64)
    best = math.log(catoni_lambda(0.0635, 2363, 60000, 0.05))

    def slope(log_lambda):
        at = torch.tensor(log_lambda, dtype=torch.float64, requires_grad=True)
        return torch.autograd.grad(catoni_objective(risk, k, 60000, 0.05, at), at)[0].item()

    assert slope(best) == pytest.approx(0, abs=1e-6)
    assert slope(best - 0.5) < -1e-3
    assert slope(best + 0.5) > 1e-3


CASES = [(0.05, 2000.0, 60000), (0.002, 30.0, 30000), (0.4, 1.0, 100), (1e-6, 5.0, 5000)]


@pytest.mark.parametrize(("q", "k", "n"), CASES)
def test_small_kl_objective_is_the_bound_with_its_slopes(q, k, n):
    risk, divergence = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (q, k))
    value = small_kl_objective(risk, divergence, n, 0.05)
    assert value.item() == pytest.approx(small_kl(q, k, n, 0.05), rel=1e-9)
    slopes = torch.autograd.grad(value, (risk, divergence))

    def bound(q, k):
        return mpmath_inverse(q, (mpmath.mpf(k) + mpmath.log(2 * mpmath.sqrt(n) / 0.05)) / n)

    with mpmath.workdps(40):
        truth = (mpmath.diff(lambda v: bound(v, k), q), mpmath.diff(lambda v: bound(q, v), k))
    for found, wanted in zip(slopes, truth, strict=True):
        assert found.item() == pytest.approx(float(wanted), rel=1e-6)
    assert small_kl_lambda(q, k, n, 0.05) == pytest.approx(float(truth[0] / truth[1]), rel=1e-6)


def mpmath_inverse(q, c):
    """kl⁻¹ by bisection, to more digits than a numerical derivative asks for."""
    low, high = mpmath.mpf(q), mpmath.mpf(1)
    for _ in range(700):
        p = (low + high) / 2
        value = q * mpmath.log(q / p) + (1 - q) * mpmath.log((1 - q) / (1 - p))
        low, high = (p, high) if value < c else (low, p)
    return high


def test_lambda_stays_usable_at_the_edges():
    for risk, k, n in ((0.0, 0.0, 100), (1.0, 0.0, 100), (0.5, 1e6, 100)):
        assert 1 < small_kl_lambda(risk, k, n, 0.05) < 1e9
