"""The probability that one of several Gaussian scores is the largest."""

import itertools

import mpmath as mp
import pytest
import torch
from torch.special import ndtr

from pacbayes.networks import quadrature
from pacbayes.networks.quadrature import error, step, win_probabilities


def scores(k, spread=0.5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mean = 2 * torch.randn(20, k, generator=generator, dtype=torch.float64)
    deviation = (spread * torch.randn(20, k, generator=generator, dtype=torch.float64)).exp()
    return mean, deviation


def exact(mean, deviation, y):
    """The integral in thirty digits, in the other variable: that of class y's own score."""
    with mp.workdps(30):
        m, s = ([mp.mpf(float(v)) for v in t] for t in (mean, deviation))

        def f(t):
            others = (k for k in range(len(m)) if k != y)
            return mp.npdf(t) * mp.fprod(mp.ncdf((m[y] + s[y] * t - m[k]) / s[k]) for k in others)

        return mp.quad(f, [-12, -8, -4, -2, 0, 2, 4, 8, 12])


@pytest.mark.parametrize("k", [3, 10])
@pytest.mark.parametrize("spread", [0.0, 0.7])
def test_probabilities_are_the_integrals_within_the_proved_error(k, spread):
    mean, deviation = scores(k, spread)
    found = win_probabilities(mean, deviation)
    for i, y in itertools.product(range(2), range(0, k, 3)):
        truth = exact(mean[i], deviation[i], y)
        assert abs(float(mp.mpf(found[i, y].item()) - truth)) <= error(k, step(k))


@pytest.mark.parametrize("H", [1.5, 1.2, 0.9])
def test_the_proved_error_covers_coarse_grids_too_and_is_not_idle(H, monkeypatch):
    """Coarse enough that the rule's error is far above rounding: proved ≥ measured > 0."""
    monkeypatch.setattr(quadrature, "step", lambda classes: H)
    mean, deviation = scores(4, 0.3)
    measured = 0.0
    for i in range(3):
        found = win_probabilities(mean[i], deviation[i])
        truth = [float(exact(mean[i], deviation[i], y)) for y in range(4)]
        measured = max(measured, (found - torch.tensor(truth).double()).abs().max().item())
    assert 1e-11 < measured <= error(4, H)
    assert error(4, H) < 3e5 * measured


@pytest.mark.parametrize("k", [2, 3, 10, 40])
def test_one_of_the_classes_wins(k):
    mean, deviation = scores(k)
    total = win_probabilities(mean, deviation).sum(-1)
    assert (total - 1).abs().max() <= k * error(k, step(k)) + 1e-12


def test_two_classes_are_the_closed_form():
    mean, deviation = scores(2)
    gap = (mean[:, 0] - mean[:, 1]) / deviation.square().sum(-1).sqrt()
    assert torch.allclose(win_probabilities(mean, deviation)[:, 0], ndtr(gap), atol=1e-9, rtol=0)


def test_one_deviation_may_stand_for_all():
    mean, deviation = scores(5)
    one = deviation[:, :1]
    assert torch.equal(win_probabilities(mean, one), win_probabilities(mean, one.expand(20, 5)))


def test_gradients_are_finite_differences():
    mean, deviation = scores(4)
    inputs = (mean[:4].requires_grad_(), deviation[:4].requires_grad_())
    assert torch.autograd.gradcheck(win_probabilities, inputs, atol=1e-6)


def test_far_apart_means_leave_no_doubt_and_no_nan():
    mean = torch.tensor([[1e4, 0.0, -1e4], [0.0, 0.0, -500.0]], dtype=torch.float64)
    mean.requires_grad_()
    found = win_probabilities(mean, torch.ones_like(mean))
    expected = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], dtype=torch.float64)
    assert torch.allclose(found, expected, atol=1e-9)
    (gradient,) = torch.autograd.grad(found.square().sum(), mean)
    assert torch.isfinite(gradient).all()


def test_more_classes_take_a_finer_grid():
    assert step(10) == 0.4
    assert step(100) < 0.4
    for k in (3, 10, 30, 100):
        assert error(k, step(k)) <= 1e-8


def test_deviations_beyond_integration_are_refused():
    with pytest.raises(ValueError, match="differ too much"):
        win_probabilities(torch.zeros(1, 3), torch.tensor([[1.0, 1.0, 1e6]]))


@pytest.mark.parametrize(("k", "H"), [(3, 0.9), (10, 0.4), (10, 0.6), (100, 0.2)])
def test_the_proved_error_is_its_formula(k, H):
    with mp.workdps(30):
        values = []
        for i in range(1, 40):
            a = mp.mpf(i) / 10
            E = mp.quad(lambda t: mp.exp(t * t / 2), [0, a])
            M = mp.ncdf(1 / E) + mp.npdf(1 / E) * E
            values.append(2 * mp.exp(a * a / 2) * M ** (k - 1) / mp.expm1(2 * mp.pi * a / H))
        truth = min(values) + mp.mpf("2.2") * mp.ncdf(-quadrature.REACH)
    assert float(truth) <= error(k, H) <= float(truth) * (1 + 1e-6)
