"""The posterior over a tensor, its frozen prior, and a KL that forgets nothing."""

import math

import pytest
import torch
from packaging.version import Version
from torch import nn
from torch.distributions import Normal, kl_divergence

from pacbayes.networks.architecture import dense_network
from pacbayes.networks.families.diagonal import Gaussian, GaussianConv2d, GaussianLinear
from pacbayes.networks.posterior import kl, kl_by_part


def moved(gaussian: Gaussian) -> Gaussian:
    with torch.no_grad():
        gaussian.mean += torch.randn_like(gaussian.mean)
        if gaussian.learned_scale:
            gaussian.log_scale += 0.3 * torch.randn_like(gaussian.log_scale)
    return gaussian


@pytest.mark.parametrize("learned_scale", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.1, 3.0])
def test_kl_agrees_with_torch_distributions(scale, learned_scale):
    g = moved(Gaussian(7, 5, scale=scale, learned_scale=learned_scale))
    q = Normal(g.mean.double(), g.log_scale.double().exp().expand(7, 5))
    p = Normal(g.prior_mean.double(), g.prior_log_scale.double().exp())
    assert g.kl().dtype == torch.float64
    assert g.kl().item() == pytest.approx(kl_divergence(q, p).sum().item(), rel=1e-12)


def test_kl_is_zero_at_the_prior_and_grows_from_there():
    g = Gaussian(4, 3, learned_scale=True)
    assert g.kl().item() == 0
    with torch.no_grad():
        g.log_scale.fill_(1e-4)
    assert g.kl().item() == pytest.approx(12 * 1e-8, rel=1e-3)  # ½(e^r − 1 − r), r = 2·10⁻⁴


def test_small_moves_are_not_lost_to_float32():
    g = Gaussian(1)
    with torch.no_grad():
        g.mean.copy_(g.prior_mean + 2.0**-12)
    shift = g.mean.double() - g.prior_mean.double()
    assert g.kl().item() == 0.5 * shift.item() ** 2


def test_initial_means_are_a_truncated_normal_of_variance_one_twentieth():
    means = Gaussian(400, 400).mean.detach()
    cut = 2 * math.sqrt(0.05)
    assert means.abs().max() <= cut
    # The variance of a standard normal cut at ±2 is 0.7737; 160 000 draws, six standard errors.
    truncated = 0.05 * 0.77374
    assert means.var().item() == pytest.approx(truncated, abs=6 * truncated * (2 / 160_000) ** 0.5)
    assert means.mean().item() == pytest.approx(0, abs=6 * (truncated / 160_000) ** 0.5)


def test_the_prior_is_the_initial_posterior_and_stays_when_the_posterior_moves():
    g = Gaussian(3, 2, learned_scale=True)
    assert torch.equal(g.prior_mean, g.mean)
    before = g.prior_mean.clone()
    torch.optim.Adam(g.parameters(), lr=0.1).step(
        lambda: (g.zero_grad(), (g.sample() ** 2).sum().backward())[1]
    )
    assert not torch.equal(g.mean, before)
    assert torch.equal(g.prior_mean, before)
    assert "prior_mean" not in dict(g.named_parameters())


def test_kl_walks_every_module_weights_and_biases_and_scales():
    network = dense_network(5, (4, 3), "relu", learned_scale=True)
    names = [n for n, m in network.named_modules() if isinstance(m, Gaussian)]
    assert len(names) == 6  # three layers, a weight and a bias each
    total = 0.0
    for name in names:
        alone = moved(network.get_submodule(name)).kl().item()
        assert alone > 0
        total += alone
        assert kl(network).item() == pytest.approx(total, rel=1e-12)
    parts = kl_by_part(network)
    assert sorted(parts) == sorted(names)
    assert sum(parts.values()) == pytest.approx(total, rel=1e-12)


def test_kl_sees_convolutions_and_nested_containers():
    body = nn.Sequential(nn.Sequential(GaussianConv2d(1, 2, 3)), nn.ReLU())
    moved(body[0][0].bias)
    assert kl(body).item() == pytest.approx(body[0][0].bias.kl().item())


@pytest.mark.parametrize("learned_scale", [False, True])
def test_kls_gradient_against_finite_differences(learned_scale):
    g = moved(Gaussian(3, 2, scale=2.0, learned_scale=learned_scale)).double()
    for parameter in g.parameters():
        (gradient,) = torch.autograd.grad(3 * g.kl(), parameter)
        for i in range(6):
            ends = []
            for h in (1e-6, -1e-6):
                with torch.no_grad():
                    parameter.view(-1)[i] += h
                    ends.append(3 * g.kl().item())
                    parameter.view(-1)[i] -= h
            slope = (ends[0] - ends[1]) / 2e-6
            assert gradient.view(-1)[i].item() == pytest.approx(slope, abs=1e-7)


def test_a_trainable_parameter_outside_the_posterior_is_refused_by_name():
    module = nn.Sequential(nn.Linear(3, 4), GaussianLinear(4, 1))
    with pytest.raises(ValueError, match=r"outside the posterior: 0\.weight, 0\.bias"):
        kl(module)
    with pytest.raises(ValueError, match="outside the posterior"):
        kl_by_part(module)
    module[0].requires_grad_(False)
    assert kl(module).item() == 0


def test_samples_and_density_match_the_distribution(z_scores):
    g = moved(Gaussian(3, learned_scale=True)).double()
    draws = g.sample(4000)
    scale = g.log_scale.exp()
    assert z_scores(draws.detach(), g.mean.detach()).abs().max() < 5  # false alarm below 2e-6
    assert z_scores((draws - g.mean).detach() ** 2, scale.detach() ** 2).abs().max() < 5
    expected = Normal(g.mean, scale).log_prob(draws[:2]).sum(-1)
    assert torch.allclose(g.log_density(draws[:2]), expected)
    (score,) = torch.autograd.grad(g.log_density(draws[:1]).sum(), g.mean)
    wanted = (draws[0] - g.mean) / scale**2  # the score alone: no path through the weights
    assert torch.allclose(score, wanted.detach())
    for fixed in (False, True):
        g = moved(Gaussian(4, 3, learned_scale=not fixed)).double()
        draws, parameters = g.sample(2, 5).detach(), list(g.parameters())
        weights = torch.randn(2, 5, dtype=torch.float64)
        truth = Normal(g.mean, g.log_scale.exp()).log_prob(draws).sum((-1, -2))
        assert torch.allclose(g.log_density(draws), truth)
        ours = torch.autograd.grad((weights * g.log_density(draws)).sum(), parameters)
        theirs = torch.autograd.grad((weights * truth).sum(), parameters)
        assert all(torch.allclose(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_impossible_scales_are_refused(scale):
    with pytest.raises(ValueError, match="scale must be positive"):
        Gaussian(2, scale=scale)


@pytest.mark.skipif(
    Version(torch.__version__) < Version("2.13"), reason="older versions draw by inversion"
)
@pytest.mark.parametrize("shape", [(100, 784), (7,), (1,), (3, 5), (16,), (33,)])
def test_initial_means_are_torchs_truncated_normal_bit_for_bit(shape):
    deviation = math.sqrt(0.05)
    torch.manual_seed(11)
    ours, after = Gaussian(*shape).mean.detach(), torch.rand(())
    torch.manual_seed(11)
    theirs = torch.nn.init.trunc_normal_(
        torch.empty(shape), std=deviation, a=-2 * deviation, b=2 * deviation
    )
    assert torch.equal(ours, theirs)
    assert torch.equal(after, torch.rand(()))
