import math

import pytest
import torch

from pacbayes.bounds import catoni, catoni_lambda
from pacbayes.objectives import catoni_objective, fix_lambda


def test_fix_lambda_is_risk_plus_kl_over_lambda():
    assert fix_lambda(torch.tensor(0.1), torch.tensor(50.0), 1000.0).item() == pytest.approx(0.15)


def test_lambda_objective_is_catonis_bound():
    risk, kl = torch.tensor([0.0635, 2363.0], dtype=torch.float64)
    for lam in (2e4, 6e4, 3e5):
        at = torch.tensor(math.log(lam), dtype=torch.float64)
        value = catoni_objective(risk, kl, 60000, 0.05, at)
        assert value.item() == pytest.approx(catoni(0.0635, 2363, 60000, 0.05, lam=lam), rel=1e-10)


def test_its_gradient_vanishes_at_the_best_lambda_and_points_there():
    risk, kl = torch.tensor([0.0635, 2363.0], dtype=torch.float64)
    best = math.log(catoni_lambda(0.0635, 2363, 60000, 0.05))

    def slope(log_lambda):
        at = torch.tensor(log_lambda, dtype=torch.float64, requires_grad=True)
        return torch.autograd.grad(catoni_objective(risk, kl, 60000, 0.05, at), at)[0].item()

    assert slope(best) == pytest.approx(0, abs=1e-6)
    assert slope(best - 0.5) < -1e-3
    assert slope(best + 0.5) > 1e-3
