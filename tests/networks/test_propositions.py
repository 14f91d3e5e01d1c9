"""The paper's three variance propositions, measured.

Naive: F̂ = mean of sign(w·η); aggregated: F̂* = mean of erf(μ·η / √2‖η‖), same η.
"""

import math

import pytest
import torch

from pacbayes import dense_network
from pacbayes.networks import heads

K, T = 20_000, 4


def outputs(activation, head):
    """K replicates of F̂ at T samples, for one example."""
    torch.manual_seed(3)
    network = dense_network(6, (5, 4), activation, estimator="marginal").double()
    network.head = head
    x = torch.randn(1, 6, dtype=torch.float64).expand(K, 6)
    with torch.no_grad():
        return network.draw(x, T).value.mean(0)


@pytest.mark.parametrize("activation", ["relu", "sigmoid", "sign"])
def test_aggregation_lowers_the_variance_of_the_output_and_of_the_loss(activation):
    naive, aggregated = outputs(activation, heads.sampled), outputs(activation, heads.aggregated)
    F = aggregated.mean().item()
    assert naive.mean().item() == pytest.approx(F, abs=5 * (2 / (K * T)) ** 0.5)
    # Var F̂ = (1 − F²)/T exactly; a variance of K replicates has relative error near √(2/K).
    margin = 6 * (2 / K) ** 0.5
    assert naive.var().item() == pytest.approx((1 - F**2) / T, rel=margin)
    assert aggregated.var() < naive.var() * (1 - margin)
    # ℓ_lin has a quarter of the variance, and the 0-1 loss of one network is ¼(1 − F²).
    loss = [0.5 * (1 - f) for f in (aggregated, naive)]
    assert loss[0].var() < loss[1].var() * (1 - margin)
    assert loss[1].var() < 0.25 * (1 - F**2)


def gradients(activation):
    """K replicates of the last layer's ∂F̂/∂μ, by aggregation and by REINFORCE on the weights."""
    torch.manual_seed(4)
    network = dense_network(6, (5, 4), activation, estimator="marginal").double()
    x = torch.randn(1, 6, dtype=torch.float64).expand(K, 6)
    with torch.no_grad():
        eta = network.body.draw(x, T).value  # (T, K, 4)
        eta = torch.cat([eta, torch.ones(T, K, 1, dtype=torch.float64)], -1)  # bias as a unit
        mu = torch.cat([network.layer.weight.mean[0], network.layer.bias.mean])
        unit = eta / eta.norm(dim=-1, keepdim=True)
        aggregated = (
            unit * math.sqrt(2 / math.pi) * torch.exp(-0.5 * (unit @ mu) ** 2).unsqueeze(-1)
        )
        w = mu + torch.randn_like(eta)
        naive = torch.sign((w * eta).sum(-1, keepdim=True)) * (w - mu)  # the score is w − μ
    return aggregated.mean(0), naive.mean(0)  # (K, 5)


@pytest.mark.parametrize("activation", ["relu", "sigmoid", "sign"])
def test_aggregation_lowers_the_gradients_covariance_in_every_direction(activation):
    """Smallest eigenvalue of Cov Ĝ − Cov Ĝ* at least (1 − 2/π)/T, within its standard error."""
    aggregated, naive = gradients(activation)
    assert torch.allclose(aggregated.mean(0), naive.mean(0), atol=6 * (1 / (K * T)) ** 0.5)
    difference = naive.T.cov() - aggregated.T.cov()
    smallest = torch.linalg.eigvalsh(difference)[0].item()
    # Entries of Cov Ĝ ≈ I/T have standard error ≤ √2/(T√K); the operator norm of the 5×5 error
    # is below 5 times that.
    error = 5 * math.sqrt(2 / K) / T
    assert smallest >= (1 - 2 / math.pi) / T - error
    assert error < 0.2 * (1 - 2 / math.pi) / T  # the test can fail


def test_the_librarys_last_layer_gradient_is_the_papers_formula():
    torch.manual_seed(5)
    network = dense_network(3, (4,), "relu").double()
    x = torch.randn(1, 3, dtype=torch.float64)
    torch.manual_seed(6)
    eta = network.body.draw(x, 1).value[0, 0]
    torch.manual_seed(6)
    (found,) = torch.autograd.grad(network(x, 1).sum(), network.layer.weight.mean)
    mu, beta = network.layer.weight.mean[0], network.layer.bias.mean[0]
    norm = (eta @ eta + 1).sqrt()
    u = (mu @ eta + beta) / norm
    expected = eta / norm * math.sqrt(2 / math.pi) * torch.exp(-0.5 * u**2)
    assert torch.allclose(found[0], expected)
