"""Expected activations against mpmath, sampling and finite differences."""

import mpmath
import pytest
import torch

from pacbayes.networks.expectations import ACTIVATIONS, OutputActivation, Strip

GRID = [(0.0, 0.01), (0.7, 0.3), (-2.0, 1.0), (5.0, 4.0), (-1.0, 30.0), (40.0, 3.0)]
PRECISE = {
    "identity": lambda z: z,
    "relu": lambda z: max(z, mpmath.mpf(0)),
    "probit": lambda z: (1 + mpmath.erf(z / mpmath.sqrt(2))) / 2,
    "erf": mpmath.erf,
    "sigmoid": lambda z: 1 / (1 + mpmath.exp(-z)),
    "tanh": mpmath.tanh,
    "arctan": mpmath.atan,
}
# arctan has branch points at ±i; |arctan z| ≤ π/2 + ½ artanh(½) + … < 2.2 where |Im z| ≤ ½
OWN = {"arctan": OutputActivation(torch.atan, Strip(0.5, 2.2), range=(-1.6, 1.6))}
EVERY = ACTIVATIONS | OWN


def precise(function, mean, deviation):
    """E A(μ + st), split where A may have a kink or turn quickly."""
    with mpmath.workdps(30):
        turn = -mpmath.mpf(mean) / deviation
        near = [turn + k / mpmath.mpf(deviation) for k in (-8, -3, -1, 0, 1, 3, 8)]
        points = sorted({-12, -6, -3, 0, 3, 6, 12} | {p for p in near if -12 < p < 12})
        return mpmath.quad(lambda t: function(mean + deviation * t) * mpmath.npdf(t), points)


def moments(pairs):
    mean, deviation = (
        torch.tensor(column, dtype=torch.float64) for column in zip(*pairs, strict=True)
    )
    return mean, deviation


@pytest.mark.parametrize("name", EVERY)
def test_expectations_are_right_within_their_stated_error(name):
    activation = EVERY[name]
    for mean, deviation in GRID:  # one by one: every deviation has a grid of its own
        found = activation.expectation(*moments([(mean, deviation)])).item()
        size = 1 + abs(mean) + deviation if name in ("identity", "relu") else 1
        assert abs(found - precise(PRECISE[name], mean, deviation)) <= size * activation.error
    together = activation.expectation(*moments(GRID))
    for found, pair in zip(together.tolist(), GRID, strict=True):
        assert found == pytest.approx(float(precise(PRECISE[name], *pair)), abs=1e-9)


@pytest.mark.parametrize("name", ["probit", "erf", "sigmoid", "tanh", "arctan"])
def test_expected_squares_are_right(name):
    activation = EVERY[name]
    for pair in GRID:
        found = activation.square(*moments([pair])).item()
        expected = precise(lambda z: PRECISE[name](z) ** 2, *pair)
        assert abs(found - expected) <= activation.strip.squared.error


@pytest.mark.parametrize("name", EVERY)
def test_gradients_are_those_of_finite_differences(name):
    mean = torch.tensor([-1.0, 0.3, 2.0], dtype=torch.float64, requires_grad=True)
    deviation = torch.tensor([0.5, 1.0, 2.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(EVERY[name].expectation, (mean, deviation))


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "probit", "erf"])
def test_the_strips_bound_the_activation(name):
    """On a fine grid of the strip no value exceeds the stated size, which is not far above."""
    strip = ACTIVATIONS[name].strip
    y = torch.linspace(0, strip.width, 15)
    with mpmath.workdps(20):
        sizes = [
            abs(PRECISE[name](mpmath.mpc(x / 10, v))) for v in y.tolist() for x in range(-60, 61)
        ]
    assert 0.25 * strip.size < max(sizes) <= strip.size


def test_a_quadrature_with_a_wider_strip_than_is_true_would_err():
    """The stated error is not an accident: sigmoid has a pole at iπ."""
    wrong = OutputActivation(torch.sigmoid, Strip(20.0, 1.0))
    found = wrong.expectation(*moments([(0.5, 8.0)])).item()
    assert abs(found - precise(PRECISE["sigmoid"], 0.5, 8.0)) > 1e-6


def test_too_large_deviations_and_functions_without_a_strip_are_refused():
    with pytest.raises(ValueError, match="too large to integrate"):
        ACTIVATIONS["tanh"].expectation(*moments([(0.0, 1e5)]))
    with pytest.raises(ValueError, match="give a strip"):
        OutputActivation(torch.sin).expectation(*moments([(0.0, 1.0)]))
