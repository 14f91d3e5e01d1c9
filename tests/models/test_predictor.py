"""Anything that answers can be certified, if it was fixed beforehand."""

import numpy as np
import pytest
import torch

from pacbayes import bounds, certify_predictor
from pacbayes.data.sample import NoSampleError


@pytest.fixture(scope="module")
def sample():
    x = np.random.default_rng(0).random((400, 2))
    return x, (x[:, 0] > 0.5).astype(int)


def rule(x):
    return np.asarray(x[:, 0] > 0.55, int)


def test_a_rule_is_certified_by_its_errors(sample):
    x, y = sample
    c = certify_predictor(rule, x, y, delta=0.01)
    errors = int((rule(x) != y).sum())
    assert c.bound == bounds.clopper_pearson(errors / 400, 400, 0.01)
    assert (c.losses, c.n, c.ledger) == (errors, 400, {"held-out": 0.01})
    assert any("before anyone saw" in sentence for sentence in c.assumptions)


def test_a_torch_module_is_a_predictor(sample):
    x, y = (torch.tensor(part) for part in sample)
    c = certify_predictor(lambda x: (x[:, 0] > 0.55).long(), x, y)
    assert c.bound == certify_predictor(rule, *sample).bound


def test_groups_are_counted_instead_of_examples(sample):
    x, y = sample
    groups = np.arange(400) // 8
    c = certify_predictor(rule, x, y, groups=groups)
    mean = (rule(x) != y).mean()
    assert (c.n, c.unit, c.theorem) == (50, "groups", "held-out-mean")
    assert c.bound == pytest.approx(bounds.kl_chernoff(mean, 50, 0.05), rel=1e-9)
    assert "error within a new group" in str(c)
    assert c.assumptions[0].startswith("The groups are independent")


def test_costs_need_the_order_of_their_classes(sample):
    x, y = sample
    c = certify_predictor(rule, x, y, classes=[0, 1], costs=[[0, 1], [5, 0]])
    assert c.risk == pytest.approx(5 * (rule(x) != y).mean())  # it only misses class 1
    assert c.scale == 5
    with pytest.raises(ValueError, match="costs need classes="):
        certify_predictor(rule, x, y, costs=[[0, 1], [5, 0]])


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        (lambda x: x, "one label for each"),
        (lambda x: x[:, 0] > x[:, 0].mean(), "different answer for one example than for a batch"),
    ],
)
def test_what_is_no_predictor_of_single_examples_is_refused(sample, predict, message):
    with pytest.raises(ValueError, match=message):
        certify_predictor(predict, *sample)


def test_repeated_examples_are_refused_unless_declared(sample):
    x, y = (np.concatenate([part, part]) for part in sample)
    with pytest.raises(NoSampleError, match="400 of 800 examples are duplicates"):
        certify_predictor(rule, x, y)
    assert certify_predictor(rule, x, y, repeats=True).n == 800


@pytest.mark.parametrize("n", [0, 399])
def test_there_must_be_a_label_for_each_example(sample, n):
    x, y = sample
    with pytest.raises(ValueError, match="need one label for each example"):
        certify_predictor(rule, x, y[:n])
