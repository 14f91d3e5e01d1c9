import pytest
import torch

from pacbayes.data.tasks import Binary, Classes, linear, task_of

BINARY, THREE, TEN = Binary(), Classes(3), Classes(10)


def test_linear_equals_zero_one_on_signs():
    f = torch.tensor([1.0, 1.0, -1.0, -1.0])
    y = torch.tensor([1.0, -1.0, 1.0, -1.0])
    assert torch.equal(linear(f, y), torch.tensor([0.0, 1.0, 1.0, 0.0]))
    assert torch.equal(BINARY.wrong(f, y), linear(f, y))
    assert torch.equal(BINARY.loss(f, y), linear(f, y))


def test_linear_is_affine_in_the_prediction():
    assert linear(torch.tensor(0.5), torch.tensor(1.0)).item() == 0.25


def test_a_tie_is_an_error_for_either_label():
    assert torch.equal(BINARY.wrong(torch.zeros(2), torch.tensor([1.0, -1.0])), torch.ones(2))


def test_the_loss_of_k_classes_is_one_minus_the_labels_probability():
    p = torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]])
    y = torch.tensor([1, 2])
    assert torch.allclose(THREE.loss(p, y), torch.tensor([0.8, 0.6]))
    several = torch.stack([p, p.flip(-1)])  # (T, B, k)
    assert torch.allclose(THREE.loss(several, y), torch.tensor([[0.8, 0.6], [0.8, 0.7]]))
    assert torch.allclose(THREE.label_probability(p, y), torch.tensor([0.2, 0.4]))


def test_a_class_that_is_not_the_largest_alone_is_wrong():
    p = torch.tensor([[0.7, 0.2, 0.1], [0.4, 0.4, 0.2]])
    assert THREE.wrong(p, torch.tensor([0, 0])).tolist() == [0.0, 1.0]
    assert THREE.wrong(p, torch.tensor([1, 1])).tolist() == [1.0, 1.0]


def test_wrong_classes_are_those_that_are_not_the_largest_to_the_last_bit():
    p = torch.rand(2000, 10).softmax(-1)
    y = torch.randint(10, (2000,))
    assert torch.equal(TEN.wrong(p, y).bool(), p.argmax(-1) != y)
    assert torch.equal(TEN.wrong(p.double(), y).bool(), p.argmax(-1) != y)


@pytest.mark.parametrize("task", [BINARY, TEN])
def test_decisions_margins_and_shares_agree(task):
    index = torch.randint(task.classes, (500,))
    value = 2 * torch.rand(500) - 1 if task is BINARY else torch.rand(500, 10).softmax(-1)
    y, shares = task.encode(index), task.shares(value)
    assert shares.shape == (500, task.classes)
    assert torch.allclose(shares.sum(-1), torch.ones(500))
    assert torch.equal(task.decode(y), index)
    assert torch.equal(task.decide(value), shares.argmax(-1))
    assert torch.equal(task.margin(value, y) > 0, task.decide(value) == index)
    assert torch.allclose(1 - task.loss(value, y), shares.gather(1, index[:, None])[:, 0])


@pytest.mark.parametrize("task", [BINARY, THREE])
def test_drawn_labels_have_the_outputs_probabilities(task):
    torch.manual_seed(0)
    value = torch.tensor(0.4) if task is BINARY else torch.tensor([0.5, 0.3, 0.2])
    labels = task.decode(task.draw(value.expand(100_000, *value.shape)))
    found = torch.bincount(labels, minlength=task.classes) / 100_000
    assert (found - task.shares(value)).abs().max() < 0.008  # 5σ: false alarm below 1e-6


def test_labels_that_are_not_allowed_are_refused():
    for task, y, message in (
        (BINARY, torch.tensor([1.0, 0.0]), "labels must be -1 or \\+1, got 0"),
        (THREE, torch.tensor([0, 3]), "labels must be from 0 to 2, got 3"),
        (THREE, torch.tensor([0.0, 1.0]), "must be integers, got torch.float32"),
    ):
        with pytest.raises(ValueError, match=message):
            task.check_labels(y)


def test_the_number_of_classes_says_the_task():
    assert task_of(2) == BINARY
    assert task_of(3) == THREE
    assert (THREE.outputs, BINARY.outputs) == (3, 1)
    with pytest.raises(ValueError, match="at least 2, got 1"):
        task_of(1)
    with pytest.raises(ValueError, match="for two use Binary"):
        Classes(2)
