import torch

from pacbayes.networks.losses import linear, missed, wrong_class, zero_one


def test_linear_equals_zero_one_on_signs():
    f = torch.tensor([1.0, 1.0, -1.0, -1.0])
    y = torch.tensor([1.0, -1.0, 1.0, -1.0])
    assert torch.equal(linear(f, y), torch.tensor([0.0, 1.0, 1.0, 0.0]))
    assert torch.equal(zero_one(f, y), linear(f, y))


def test_linear_is_affine_in_the_prediction():
    assert linear(torch.tensor(0.5), torch.tensor(1.0)).item() == 0.25


def test_a_tie_is_an_error_for_either_label():
    assert torch.equal(zero_one(torch.zeros(2), torch.tensor([1.0, -1.0])), torch.ones(2))


def test_missed_is_what_is_left_of_the_right_class():
    p = torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]])
    y = torch.tensor([1, 2])
    assert torch.allclose(missed(p, y), torch.tensor([0.8, 0.6]))
    several = torch.stack([p, p.flip(-1)])  # (T, B, k)
    assert torch.allclose(missed(several, y), torch.tensor([[0.8, 0.6], [0.8, 0.7]]))


def test_a_class_that_is_not_the_largest_alone_is_wrong():
    p = torch.tensor([[0.7, 0.2, 0.1], [0.4, 0.4, 0.2]])
    assert wrong_class(p, torch.tensor([0, 0])).tolist() == [0.0, 1.0]
    assert wrong_class(p, torch.tensor([1, 1])).tolist() == [1.0, 1.0]


def test_wrong_classes_are_those_that_are_not_the_largest_to_the_last_bit():
    p = torch.rand(2000, 10).softmax(-1)
    y = torch.randint(10, (2000,))
    assert torch.equal(wrong_class(p, y).bool(), p.argmax(-1) != y)
    assert torch.equal(wrong_class(p.double(), y).bool(), p.argmax(-1) != y)
