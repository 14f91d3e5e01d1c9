"""Networks with any output activation: aggregation, its variance, and its gradient."""

import itertools

import mpmath
import pytest
import torch
from torch import nn

from pacbayes import Dense, Deterministic, GaussianLinear, kl
from pacbayes.networks import activations
from pacbayes.networks.outputs import ACTIVATIONS, OutputActivation, OutputNetwork, Strip


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
