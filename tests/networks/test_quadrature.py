"""The probability that one of several Gaussian scores is the largest."""

import itertools

import mpmath as mp
import pytest
import torch
from torch.special import ndtr

from pacbayes.networks import quadrature
from pacbayes.networks.quadrature import error, label_probability, step, win_probabilities


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


@pytest.mark.slow
@pytest.mark.parametrize("k", [3, 10])
@pytest.mark.parametrize("spread", [0.0, 0.7])
def test_probabilities_are_the_integrals_within_the_proved_error(k, spread):
    mean, deviation = scores(k, spread)
    found = win_probabilities(mean, deviation)
    for i, y in itertools.product(range(2), range(0, k, 3)):
        truth = exact(mean[i], deviation[i], y)
        assert abs(float(mp.mpf(found[i, y].item()) - truth)) <= error(k, step(k))


@pytest.mark.slow
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


def of_label(mean, deviation, y):
    return win_probabilities(mean, deviation).gather(-1, y.unsqueeze(-1)).squeeze(-1)


def logarithm_and_slopes(function, mean, deviation, y):
    """The loss's most demanding form: −ln P, whose gradient must not vanish where P is tiny."""
    inputs = [t.clone().requires_grad_() for t in (mean, deviation)]
    value = function(*inputs, y).log()
    return [value.detach(), *torch.autograd.grad(value.sum(), inputs)]


@pytest.mark.parametrize("k", [3, 10])
@pytest.mark.parametrize("spread", [0.0, 0.7])
def test_the_labels_probability_and_its_slopes_are_those_among_all_classes(k, spread):
    mean, deviation = scores(k, spread)
    y = torch.arange(20) % k
    mean[0, 0] -= 9  # an unlikely label
    for spreads in (deviation, deviation[:, :1]):  # one may stand for all
        found = logarithm_and_slopes(label_probability, mean, spreads, y)
        expected = logarithm_and_slopes(of_label, mean, spreads, y)
        for one, other in zip(found, expected, strict=True):
            assert torch.allclose(one, other, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("k", "spread", "tolerance"),
    [(20, 0.0, 1e-5), (100, 0.0, 1e-4), (100, 0.1, 1e-5), (1000, 0.1, 1e-3)],
)
def test_the_labels_slopes_are_near_enough_on_the_coarser_grid(k, spread, tolerance):
    mean, deviation = scores(k, spread)
    mean[:5] = 0  # no label is sure to win
    y = mean.argmax(-1) * (torch.arange(20) % 2)
    found = logarithm_and_slopes(label_probability, mean, deviation, y)
    expected = logarithm_and_slopes(of_label, mean, deviation, y)
    for one, other in zip(found, expected, strict=True):
        assert (one - other).abs().max() < tolerance * other.abs().max()


def test_the_labels_slopes_are_finite_differences_in_any_shape():
    mean, deviation = scores(4)
    inputs = mean[:6].view(2, 3, 4).requires_grad_(), deviation[:6].view(2, 3, 4).requires_grad_()
    y = torch.tensor([3, 0, 2])  # of both rows
    assert torch.autograd.gradcheck(lambda *t: label_probability(*t, y), inputs, atol=1e-6)


def test_the_labels_probability_is_the_same_in_blocks_of_any_size(monkeypatch):
    mean, deviation = scores(10)
    y = torch.arange(20) % 10
    whole = logarithm_and_slopes(label_probability, mean, deviation, y)
    monkeypatch.setattr(quadrature, "_NUMBERS", {True: 1, False: 1})
    for one, other in zip(
        whole, logarithm_and_slopes(label_probability, mean, deviation, y), strict=True
    ):
        assert torch.allclose(one, other, rtol=1e-12, atol=0)


def test_a_label_far_from_winning_has_finite_slopes():
    mean = torch.tensor([[1e4, 0.0, -1e4], [0.0, 0.0, -60.0], [30.0, 0.0, 9.0]]).double()
    for y in range(3):
        inputs = (mean.clone().requires_grad_(), torch.ones(3, 3).double().requires_grad_())
        found = label_probability(*inputs, torch.tensor(y))
        assert torch.allclose(found, of_label(*inputs, torch.full((3,), y)), rtol=1e-9, atol=1e-300)
        slopes = torch.autograd.grad((found / found.detach().clamp(min=1e-300)).sum(), inputs)
        assert all(t.isfinite().all() for t in slopes)


def test_more_classes_take_a_finer_grid():
    assert step(12) == quadrature._TRAINING_STEP == 0.4
    assert step(13) < 0.4
    for k in (3, 10, 30, 100):
        assert error(k, step(k)) <= 1e-8


def test_deviations_beyond_integration_are_refused():
    with pytest.raises(ValueError, match="differ too much"):
        win_probabilities(torch.zeros(1, 3), torch.tensor([[1.0, 1.0, 1e6]]))
    with pytest.raises(ValueError, match="differ too much"):
        label_probability(torch.zeros(1, 3), torch.tensor([[1.0, 1.0, 1e6]]), torch.tensor([1]))


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
