"""Sampling rules: right distributions, right gradients, right far into the tails."""

import math

import mpmath
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from torch.special import ndtr

from pacbayes.networks import activations
from pacbayes.networks.activations import Draw, estimate, leave_one_out

K = 20_000


@pytest.mark.parametrize("rule", [activations.sign, activations.sign_straight])
def test_signs_are_plus_one_with_probability_phi(rule, z_scores):
    mean = torch.tensor([[-1.0, 0.0, 0.5, 3.0]], dtype=torch.float64)
    deviation = torch.full((1, 1), 2.0, dtype=torch.float64)
    a = rule(mean, deviation, K).value.squeeze(1)
    assert set(a.unique().tolist()) == {-1.0, 1.0}
    assert z_scores((a + 1) / 2, ndtr(mean / 2).squeeze(0)).abs().max() < 5  # false alarm 3e-6


@pytest.mark.parametrize(
    ("rule", "function"),
    [
        (activations.relu, lambda z: max(z, 0.0)),
        (activations.sigmoid, lambda z: 1 / (1 + math.exp(-z))),
    ],
)
def test_pathwise_units_have_the_gradient_of_the_integral(rule, function, z_scores):
    """Value and derivatives in mean and deviation against quadrature and finite differences."""

    def integral(mean, deviation):
        density = norm(mean, deviation).pdf
        return quad(lambda z: function(z) * density(z), mean - 12, mean + 12, points=[0.0])[0]

    m, s, h = 0.3, 1.2, 1e-5
    mean = torch.full((K, 1), m, dtype=torch.float64, requires_grad=True)
    deviation = torch.full((K, 1), s, dtype=torch.float64, requires_grad=True)
    value = rule(mean, deviation, 1).value[0]
    value.sum().backward()
    found = torch.cat([value.detach(), mean.grad, deviation.grad], 1)
    expected = torch.tensor(
        [
            integral(m, s),
            (integral(m + h, s) - integral(m - h, s)) / (2 * h),
            (integral(m, s + h) - integral(m, s - h)) / (2 * h),
        ],
        dtype=torch.float64,
    )
    assert z_scores(found, expected).abs().max() < 5  # false alarm 2e-6


def test_shapes_first_layer_and_above():
    mean, deviation = torch.zeros(4, 3), torch.ones(4, 1)
    for rule in (
        activations.relu,
        activations.sigmoid,
        activations.sign,
        activations.sign_straight,
    ):
        first = rule(mean, deviation, 5)
        assert first.value.shape == (5, 4, 3)
        above = rule(first.value, deviation, 5)
        assert above.value.shape == (5, 4, 3)
        assert (first.log_prob + above.log_prob).shape in {(5, 4), ()}


def test_samples_and_examples_are_drawn_independently(z_scores):
    """Products of different entries of centred samples average to zero."""
    mean, deviation = torch.zeros(2, 2, dtype=torch.float64), torch.ones(2, 1, dtype=torch.float64)
    a = activations.sign(mean, deviation, K).value  # (K, 2, 2)
    pairs = torch.stack(
        [a[:, 0, 0] * a[:, 0, 1], a[:, 0, 0] * a[:, 1, 0], a[1:, 0, 0].new_zeros(K)], 1
    )
    pairs[1:, 2] = a[1:, 0, 0] * a[:-1, 0, 0]
    assert z_scores(pairs, torch.zeros(3, dtype=torch.float64)).abs().max() < 5


@pytest.mark.parametrize("u", [-30.0, -8.0, -1.0, 0.0, 1.0, 8.0, 30.0])
@pytest.mark.parametrize("a", [-1.0, 1.0])
@pytest.mark.parametrize("T", [None, 3])
def test_log_probability_and_score_hold_in_the_tails(u, a, T):
    """log Φ(au) and its derivative against 50 digits, where log(½(1 + erf)) is long since −∞."""
    mpmath.mp.dps = 50
    at = torch.tensor([[u]], dtype=torch.float64, requires_grad=True)
    signs = torch.full((1, 1) if T is None else (T, 1, 1), a, dtype=torch.float64)
    log_q = activations.log_sign_probability(signs, at).flatten()[0]
    (score,) = torch.autograd.grad(log_q, at)
    exact = mpmath.log(mpmath.ncdf(a * u))
    derivative = a * mpmath.npdf(u) / mpmath.ncdf(a * u)
    assert log_q.item() == pytest.approx(float(exact), rel=1e-10, abs=1e-14)
    assert score.item() == pytest.approx(float(derivative), rel=1e-8, abs=1e-14)


def test_scores_stay_finite_in_float32():
    u = torch.tensor([[-1e4, -200.0, 200.0, 1e4]], requires_grad=True)
    for sign in (-1.0, 1.0):
        log_q = activations.log_sign_probability(torch.full((1, 4), sign), u).sum()
        (score,) = torch.autograd.grad(log_q, u)
        assert score.isfinite().all()


def test_straight_through_has_the_path_of_the_expectation():
    u = torch.tensor([[0.7]], dtype=torch.float64, requires_grad=True)
    value = activations.sign_straight(u, torch.ones(1, 1, dtype=torch.float64), 1).value
    (slope,) = torch.autograd.grad(value.sum(), u)
    assert slope.item() == pytest.approx(2 * norm.pdf(0.7))


def bernoulli_gradient(baseline):
    """Expected gradient of the estimator of E[v(a)], a = ±1 with P(1) = p, by enumeration."""
    p = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    value = torch.tensor([[2.0], [-5.0]], dtype=torch.float64)  # v(1), v(−1)
    log_prob = torch.stack([p.log(), (1 - p).log()]).unsqueeze(1)
    weights = log_prob.exp().detach()
    total = (weights * estimate(Draw(value, log_prob), baseline)).sum()
    return total.item(), torch.autograd.grad(total, p)[0].item()


@pytest.mark.parametrize("baseline", [0.0, 3.7, -100.0])
def test_score_part_has_the_expectations_gradient_for_any_constant_baseline(baseline):
    value, gradient = bernoulli_gradient(baseline)
    assert value == pytest.approx(2 * 0.3 - 5 * 0.7, abs=1e-12)
    assert gradient == pytest.approx(2 + 5, abs=1e-10)


def test_pathwise_part_passes_through_unchanged():
    x = torch.tensor([[1.5]], requires_grad=True)
    out = estimate(Draw(x**2, torch.zeros(())))
    assert out.item() == 2.25
    assert torch.autograd.grad(out, x)[0].item() == 3.0


def test_leave_one_out_is_the_mean_of_the_others_and_has_no_gradient():
    value = torch.tensor([[1.0], [2.0], [6.0]], requires_grad=True)
    baseline = leave_one_out(value)
    assert baseline.flatten().tolist() == [4.0, 3.5, 1.5]
    assert not baseline.requires_grad


def test_leave_one_out_refuses_a_single_sample():
    with pytest.raises(ValueError, match="at least 2 samples, got 1"):
        leave_one_out(torch.zeros(1, 4))
