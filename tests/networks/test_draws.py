"""One line joins value and score: right forward, unbiased backward."""

import pytest
import torch

from pacbayes.networks.draws import Draw, estimate, leave_one_out


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
