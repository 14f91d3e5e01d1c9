import torch

from pacbayes.losses import linear, zero_one


def test_linear_equals_zero_one_on_signs():
    f = torch.tensor([1.0, 1.0, -1.0, -1.0])
    y = torch.tensor([1.0, -1.0, 1.0, -1.0])
    assert torch.equal(linear(f, y), torch.tensor([0.0, 1.0, 1.0, 0.0]))
    assert torch.equal(zero_one(f, y), linear(f, y))


def test_linear_is_affine_in_the_prediction():
    assert linear(torch.tensor(0.5), torch.tensor(1.0)).item() == 0.25


def test_a_tie_is_an_error_for_either_label():
    assert torch.equal(zero_one(torch.zeros(2), torch.tensor([1.0, -1.0])), torch.ones(2))
