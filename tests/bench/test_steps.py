"""Contenders for a step do the same work."""

import pytest
import torch

from pacbayes.bench import steps
from pacbayes.bench.limit import SIDE
from pacbayes.bench.steps import Case, convolutions, dense_steps, examples, library_step, naive_step
from pacbayes.engine.library import available

TINY = Case("sign", 2, 3, (4, 3, 2, 1))
engine = pytest.mark.skipif(not available(), reason="no native engine")


def test_examples_are_as_sparse_as_mnist():
    x, y = examples(512, 784)
    assert 0.15 < (x != 0).float().mean() < 0.23
    assert x.shape == (512, 784)
    assert y.unique().tolist() == [-1, 1]


def test_labels_are_all_of_k_classes():
    _, y = examples(30, 16, 10)
    assert y.unique().tolist() == list(range(10))


def test_batches_are_ten_and_disjoint():
    rows = torch.cat([TINY.index(i) for i in range(10)])
    assert rows.tolist() == list(range(30))
    assert TINY.index(13).tolist() == TINY.index(3).tolist()


@engine
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("activation", ["relu", "sigmoid", "sign"])
def test_both_engines_step_on_the_same_risk(activation, classes, learned):
    case = Case(activation, 400, 64, (16, 6, classes), learned)
    data = case.data()
    ours, torchs = (library_step(case, engine, *data)(0) for engine in ("native", "torch"))
    assert ours == pytest.approx(torchs, abs=0.01)
    assert 0.1 < ours < 0.9


def test_a_naive_step_changes_every_parameter(monkeypatch):
    made = []
    network = steps.NaiveNetwork
    monkeypatch.setattr(steps, "NaiveNetwork", lambda *a: made.append(network(*a)) or made[0])
    case = Case("relu", 4, 32, (16, 5, 1))
    step = naive_step(case, *case.data())
    before = [p.detach().clone() for p in made[0].parameters()]
    step(0)
    moved = zip(before, made[0].parameters(), strict=True)
    assert all(not torch.equal(old, new) for old, new in moved)


def test_contenders_have_the_names_that_were_asked_for():
    found = dense_steps(TINY, "torch", "naive", "products", "limit")
    ours = ["native"] if available() else []
    assert list(found) == [*ours, "torch", "naive", "products", "limit"]
    for entrant in found.values():
        entrant.run(0)


def test_the_limit_is_scaled_to_the_steps_multiplications():
    found = dense_steps(TINY, "limit", "products")
    counted = 2 * (3 * 4 * 3 + 3 * 2 * (3 * 2 + 2))
    assert found["limit"].scale == pytest.approx(counted / SIDE**3)
    assert found["products"].scale == 1


def test_both_convolutions_have_the_same_module(monkeypatch):
    made = []
    monkeypatch.setattr(steps, "adam_step", lambda module, *_: made.append(module))
    seen = []
    trainer = steps.Trainer
    monkeypatch.setattr(steps, "Trainer", lambda n, *a: seen.append(n) or trainer(n, *a))
    assert list(convolutions()) == ["stochastic", "plain"]
    count = sum(p.numel() for p in made[0].parameters())
    means = [p for name, p in seen[0].named_parameters() if name.endswith("mean")]
    assert sum(p.numel() for p in means) == count
