"""A convolution with drawn outputs: its gradient, its marginals, and what the draws share."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, conv2d

from pacbayes import stochastic
from pacbayes.networks import local
from pacbayes.networks.local import LocalDraws, draw_convolution
from pacbayes.networks.posterior import gaussians

GEOMETRIES = [
    {},
    {"stride": 2, "padding": 1},
    {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)},
    {"groups": 2, "dilation": 2, "padding": 2},
]


def parts(channels: int, groups: int, sides: int) -> tuple[Tensor, ...]:
    """Return input, means and variances of weights and biases, in float64 with gradients."""
    g = torch.Generator().manual_seed(3)
    kernel = (4, channels // groups, *[3] * sides)
    shapes = ((5, channels, *[6] * sides), kernel, kernel, (4,), (4,))
    a, mean, variance, shift, spread = (
        torch.randn(s, generator=g, dtype=torch.float64) for s in shapes
    )
    every = (a, mean, variance.exp(), shift, spread.exp())
    return tuple(t.detach().requires_grad_() for t in every)


def fixed_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def noise(like: Tensor) -> Tensor:
        g = torch.Generator().manual_seed(4)
        return torch.randn(like.shape, generator=g, dtype=like.dtype)

    monkeypatch.setattr(local, "_noise", noise)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("channels", [2, 1])
def test_values_and_gradients_are_those_of_autograd(geometry, channels, monkeypatch):
    fixed_noise(monkeypatch)
    given = parts(channels, min(channels, geometry.get("groups", 1)), 2)
    geometry = geometry | {"groups": min(channels, geometry.get("groups", 1))}
    a, mean, variance, shift, spread = given
    z = draw_convolution(a, (mean, variance), (shift, spread), **geometry)
    deviation = conv2d(a.square(), variance, spread, **geometry).sqrt()
    half = local._noise(z[:3])
    noise = torch.cat([half, -half[:2]])
    expected = conv2d(a, mean, shift, **geometry) + deviation * noise
    assert torch.allclose(z, expected, rtol=1e-12)
    weights = torch.randn_like(expected)
    found = torch.autograd.grad((z * weights).sum(), given)
    wanted = torch.autograd.grad((expected * weights).sum(), given)
    for f, w in zip(found, wanted, strict=True):
        assert torch.allclose(f, w, rtol=1e-10, atol=1e-12)


def test_one_dimension_without_biases_has_the_gradient_of_differences(monkeypatch):
    fixed_noise(monkeypatch)
    a, mean, variance, _, _ = parts(2, 1, 1)

    def drawn(a: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return draw_convolution(a, (mean, variance), (None, None), stride=2)

    assert torch.autograd.gradcheck(drawn, (a, mean, variance))


def test_only_wanted_gradients_are_computed(monkeypatch):
    a, mean, variance, shift, spread = parts(2, 1, 2)
    masks = []
    real = local._gradients

    def recorded(*args):
        masks.append(args[-1])
        return real(*args)

    monkeypatch.setattr(local, "_gradients", recorded)
    z = draw_convolution(a.detach(), (mean, variance.detach()), (shift, spread.detach()))
    z.sum().backward()
    assert masks == [[False, True, True]]  # of the means alone: fixed scales, first layer
    assert mean.grad is not None


def test_noise_is_normal_moved_in_a_quarter_and_mirrored_in_a_half_of_a_batch():
    torch.manual_seed(0)
    one = torch.ones(5, 1, 100, 100, dtype=torch.float64)
    zero = torch.zeros(2, 1, 1, 1, dtype=torch.float64)
    z = draw_convolution(one, (zero, zero + 1), (None, None))
    assert torch.equal(z[:2], -z[3:])
    second, first = (z[i].movedim(0, -1).flatten() for i in (2, 0))  # as they are in memory
    assert torch.equal(second, first.roll(10_000))
    first = z[:2].flatten()
    n = first.numel()
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        score = (first.pow(power).mean() - moment) / (variance / n) ** 0.5
        assert abs(score) < 5
    corr = (z[0] * z[1]).mean() * (z[0].numel()) ** 0.5
    assert abs(corr) < 5
    assert abs((z[0, 0] * z[0, 1]).mean() * 100) < 5


def test_modules_may_view_drawn_images():
    class Viewing(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.fc = nn.Conv2d(2, 4, 3), nn.Linear(64, 1)

        def forward(self, x):
            a = self.conv(x).relu()
            assert a.view(torch.int32).dtype == torch.int32
            return self.fc(a.view(len(x), -1))

    network = stochastic(Viewing(), last="fc")
    network(torch.randn(3, 2, 6, 6), 2).sum().backward()
    assert all(p.grad is not None for p in network.parameters())


@pytest.mark.parametrize("padding", ["same", 1])
def test_padding_by_name_draws_from_the_same_marginals(padding):
    g = gaussians(stochastic(nn.Conv1d(1, 1, 3), nn.Linear(4, 1), scale=0.5).body.posterior)
    weight, bias = g["weight"].sample(), g["bias"].sample()
    x = torch.randn(1, 1, 4).expand(4000, 1, 4)
    with LocalDraws([(weight, g["weight"]), (bias, g["bias"])]):
        z = conv1d(x, weight, bias, padding=padding)
    mean = conv1d(x[:1], g["weight"].mean, g["bias"].mean, padding=1)
    spread = conv1d(x[:1].square(), g["weight"].variance, g["bias"].variance, padding=1)
    assert ((z.mean(0) - mean[0]).abs() <= 5 * (spread[0] / 4000).sqrt() + 1e-6).all()
    assert ((z.var(0) / spread[0]).log().abs() < 5 * (2 / 4000) ** 0.5).all()
