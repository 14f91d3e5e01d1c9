"""The last layer: aggregated, differenced, sampled."""

import math

import pytest
import torch
from torch.special import ndtr

from pacbayes.networks import heads
from pacbayes.networks.activations import Draw, estimate
from pacbayes.networks.families.diagonal import GaussianLinear


def layer_and_activations(learned_scale=True):
    layer = GaussianLinear(3, 1, learned_scale=learned_scale).double()
    if learned_scale:
        with torch.no_grad():
            layer.weight.log_scale += 0.4 * torch.randn(1, 3)
            layer.bias.log_scale -= 0.2
    a = torch.tensor([[[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]]], dtype=torch.float64)  # (1, 2, 3)
    return layer, a


def draw(a):
    return Draw(a, a.new_zeros(()))


@pytest.mark.parametrize("learned_scale", [False, True])
def test_aggregate_is_the_expected_sign_over_drawn_weights(learned_scale, z_scores):
    layer, a = layer_and_activations(learned_scale)
    a = a * 0.8  # any activations, not only signs
    W, b = layer.weight.sample(40_000), layer.bias.sample(40_000)
    signs = torch.sign(W @ a[0].T + b.unsqueeze(1)).squeeze(1).detach()  # (K, 2)
    expected = heads.aggregated(layer, draw(a)).value[0].detach()
    assert z_scores(signs, expected).abs().max() < 5  # false alarm 1e-6


def test_aggregate_matches_the_papers_formula_with_bias():
    layer, a = layer_and_activations(learned_scale=False)
    value = heads.aggregated(layer, draw(a)).value[0, 0].item()
    mean = (layer.weight.mean @ a[0, 0] + layer.bias.mean).item()
    assert value == pytest.approx(math.erf(mean / (math.sqrt(2) * math.sqrt(3 + 1))))


def test_differenced_value_is_the_aggregate_and_its_slope_the_half_difference():
    layer, a = layer_and_activations()
    a.requires_grad_()
    output = heads.differenced(layer, draw(a)).value
    assert torch.allclose(output, heads.aggregated(layer, draw(a)).value)
    (slope,) = torch.autograd.grad(output.sum(), a)
    for b in range(2):
        for i in range(3):
            up, down = a.detach().clone(), a.detach().clone()
            up[0, b, i], down[0, b, i] = 1.0, -1.0
            ends = [heads.aggregated(layer, draw(end)).value[0, b].item() for end in (up, down)]
            assert slope[0, b, i].item() == pytest.approx((ends[0] - ends[1]) / 2, abs=1e-12)


def test_differenced_leaves_the_last_layers_own_gradient_alone():
    layer, a = layer_and_activations()
    parameters = list(layer.parameters())
    ours = torch.autograd.grad(heads.differenced(layer, draw(a)).value.sum(), parameters)
    plain = torch.autograd.grad(heads.aggregated(layer, draw(a)).value.sum(), parameters)
    for one, other in zip(ours, plain, strict=True):
        assert torch.allclose(one, other)


def test_sampled_sign_has_the_aggregates_mean_and_scored_gradient(z_scores):
    layer, a = layer_and_activations()
    many = draw(a.expand(20_000, 2, 3))
    output = heads.sampled(layer, many)
    assert set(output.value.unique().tolist()) == {-1.0, 1.0}
    aggregate = heads.aggregated(layer, draw(a)).value
    assert z_scores(output.value, aggregate[0].detach()).abs().max() < 5  # false alarm 1e-6
    # Score of the mean's derivative, sample by sample: ± φ(u)/Φ(±u) / deviation.
    mean, deviation = layer.moments(a[0])
    u = (mean / deviation).squeeze(-1).detach()
    s = output.value
    phi = torch.exp(-u.square() / 2) / math.sqrt(2 * math.pi)
    per_sample = s * s * phi / ndtr(s * u)
    exact = 2 * phi  # dF/du
    assert z_scores(per_sample, exact).abs().max() < 5
    (bias_gradient,) = torch.autograd.grad(estimate(output).mean(0).sum(), layer.bias.mean)
    assert bias_gradient.item() == pytest.approx(
        (per_sample.mean(0) / deviation.squeeze(-1)).sum().item(), rel=1e-9
    )


@pytest.mark.parametrize("learned_scale", [False, True])
def test_class_probabilities_are_how_often_drawn_weights_choose_the_class(learned_scale, z_scores):
    layer = GaussianLinear(3, 4, learned_scale=learned_scale).double()
    a = torch.randn(1, 2, 3, dtype=torch.float64)
    if learned_scale:
        with torch.no_grad():
            layer.weight.log_scale += 0.4 * torch.randn(4, 3)
            layer.bias.log_scale += 0.4 * torch.randn(4)
    W, b = layer.weight.sample(40_000), layer.bias.sample(40_000)
    winners = (W @ a[0].T + b.unsqueeze(-1)).argmax(1).detach()  # (K, 2)
    chosen = torch.nn.functional.one_hot(winners, 4).double()  # (K, 2, 4)
    expected = heads.aggregated(layer, draw(a)).value[0].detach()  # (2, 4)
    assert z_scores(chosen, expected).abs().max() < 5  # 8 frequencies: false alarm 5e-6
