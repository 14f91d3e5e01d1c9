"""Moments of the pre-activation are those of drawn weights."""

import pytest
import torch

from pacbayes.networks.families.diagonal import GaussianConv2d, GaussianLinear


def scaled(layer):
    with torch.no_grad():
        for g in (layer.weight, layer.bias):
            if g.learned_scale:
                g.log_scale += 0.4 * torch.randn_like(g.log_scale)
    return layer.double()


@pytest.mark.parametrize("learned_scale", [False, True])
def test_linear_moments_against_the_closed_form_entry_by_entry(learned_scale):
    layer = scaled(GaussianLinear(3, 2, scale=0.7, learned_scale=learned_scale))
    a = torch.randn(4, 3, dtype=torch.float64)
    mean, deviation = layer.moments(a)
    deviation = deviation.expand_as(mean)
    variance = layer.weight.variance.expand(2, 3)
    bias = layer.bias.variance.expand(2)
    for i in range(4):
        for k in range(2):
            assert mean[i, k].item() == pytest.approx(
                sum(layer.weight.mean[k, j] * a[i, j] for j in range(3)).item()
                + layer.bias.mean[k].item()
            )
            assert deviation[i, k].item() ** 2 == pytest.approx(
                sum(variance[k, j] * a[i, j] ** 2 for j in range(3)).item() + bias[k].item()
            )


def test_linear_moments_are_those_of_drawn_weights(z_scores):
    layer = scaled(GaussianLinear(3, 2, learned_scale=True))
    a = torch.randn(3, dtype=torch.float64)
    z = (layer.weight.sample(20_000) @ a + layer.bias.sample(20_000)).detach()
    mean, deviation = layer.moments(a)
    assert z_scores(z, mean.detach()).abs().max() < 5  # false alarm below 2e-6
    assert z_scores((z - mean.detach()) ** 2, deviation.detach() ** 2).abs().max() < 5


def test_a_zero_input_still_has_the_biass_variance():
    _, deviation = GaussianLinear(3, 2).moments(torch.zeros(1, 3))
    assert torch.equal(deviation, torch.ones(1, 1))


def test_conv_pixels_have_the_same_marginals_in_training_and_evaluation(z_scores):
    layer = scaled(GaussianConv2d(2, 3, 2, stride=2, padding=1, learned_scale=True))
    x = torch.randn(1, 2, 3, 3, dtype=torch.float64)
    with torch.no_grad():
        layer.train()
        local = torch.stack([layer(x) for _ in range(4000)])
        layer.eval()
        drawn = torch.stack([layer(x) for _ in range(4000)])
    error = (local.var(0) / 4000 + drawn.var(0) / 4000).sqrt()
    assert ((local.mean(0) - drawn.mean(0)) / error).abs().max() < 5.5  # 12 pixels, below 5e-7
    ratio = local.var(0) / drawn.var(0)
    assert (ratio.log() / (2 * (1 / 2000) ** 0.5)).abs().max() < 5.5


def test_conv_draws_share_weights_across_pixels_only_in_evaluation():
    layer = GaussianConv2d(1, 1, 1)
    x = torch.ones(1, 1, 1, 2)  # two equal pixels
    assert layer.eval()(x).flatten().diff().item() == 0
    assert layer.train()(x).flatten().diff().item() != 0


@pytest.mark.parametrize("shape", [(5, 4), (3, 5, 4)])
@pytest.mark.parametrize("learned_scale", [False, True])
def test_moments_have_the_slopes_of_finite_differences(shape, learned_scale):
    layer = GaussianLinear(4, 2, scale=0.7, learned_scale=learned_scale).double()
    a = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turned = a.transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()

    def moments(a, *_):
        return layer.moments(a)

    assert torch.autograd.gradcheck(moments, (turned, *layer.parameters()))
