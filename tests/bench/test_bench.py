"""The benchmark measures what it says: a naive network that is right, products counted by hand."""

import json
from dataclasses import asdict
from itertools import pairwise

import pytest
import torch
from typer.testing import CliRunner

from pacbayes import bench, cli, dense_network, exact_aggregate
from pacbayes.bench.limit import multiply_adds, products, sgemm_rate
from pacbayes.bench.measurements import (
    Case,
    Growth,
    Measurements,
    Ratio,
    evaluations,
    examples,
    growth,
    measure,
    steps,
)
from pacbayes.bench.naive import NaiveNetwork
from pacbayes.data.tasks import linear
from pacbayes.engine.library import available

TINY = Case("sign", 2, 3, (4, 3, 2, 1))


def twins(activation, widths=(4, 3, 2, 1)):
    """A naive network and one of the library's with the same weights."""
    torch.manual_seed(3)
    naive = NaiveNetwork(widths, activation)
    network = dense_network(widths[0], widths[1:-1], activation, estimator="marginal")
    layers = [*network.body.layers, network.layer]
    with torch.no_grad():
        for layer, weight, bias in zip(layers, naive.weights, naive.biases, strict=True):
            layer.weight.mean.copy_(weight)
            layer.bias.mean.copy_(bias)
    return naive, network, torch.randn(6, 4), torch.tensor([1.0, -1, 1, 1, -1, -1])


def test_naive_signs_have_the_enumerated_gradient(z_scores):
    naive, network, x, y = twins("sign")
    loss = linear(exact_aggregate(network, x), y).mean()
    means = [m for g in (*network.body.layers, network.layer) for m in (g.weight.mean, g.bias.mean)]
    truth = torch.cat([g.flatten() for g in torch.autograd.grad(loss, means)]).double()
    ours = [p for pair in zip(naive.weights, naive.biases, strict=True) for p in pair]
    found = []
    for _ in range(400):
        gradient = torch.autograd.grad(naive.objective(x, y, 50, 1e9), ours)
        found.append(torch.cat([g.flatten() for g in gradient]).double())
    assert z_scores(torch.stack(found), truth).abs().max() < 5.5  # 26 entries: 1e-6


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_naive_paths_have_the_librarys_value(activation):
    naive, network, x, y = twins(activation)
    with torch.no_grad():
        one = torch.stack([naive.objective(x, y, 2000, 1e9) for _ in range(20)]).double()
        other = torch.stack([linear(network(x, 2000), y).mean() for _ in range(20)]).double()
    error = ((one.var() + other.var()) / 20).sqrt()
    assert (one.mean() - other.mean()).abs() < 5 * error  # t with 38 degrees: 1e-5


def test_the_naive_objective_pays_for_the_kl():
    naive, *_, x, y = twins("relu")
    with torch.no_grad():
        naive.weights[0] += 1.0
        torch.manual_seed(0)
        dear = naive.objective(x, y, 1, 2.0)
        torch.manual_seed(0)
        free = naive.objective(x, y, 1, 1e12)
    assert (dear - free).item() == pytest.approx(0.5 * 12 / 2, rel=1e-5)


def test_products_are_counted_by_hand():
    widths, B, T = (4, 3, 2, 1), 5, 7
    first, others = 5 * 4 * 3, 5 * 7 * (3 * 2 + 2)
    assert multiply_adds(products(widths, "relu", T, B, gradient=False)) == first + others
    assert multiply_adds(products(widths, "sign", T, B)) == 2 * (first + others)
    assert multiply_adds(products(widths, "relu", T, B)) == 2 * first + 3 * others


def test_examples_are_as_sparse_as_mnist():
    x, y = examples(512, 784)
    assert 0.15 < (x != 0).float().mean() < 0.23
    assert x.shape == (512, 784)
    assert y.unique().tolist() == [-1, 1]


def test_every_contender_is_measured():
    found = list(steps([TINY], 3, 0.001))
    names = ["native", "torch"] if available() else ["torch"]
    limits = [f"{names[0]} ÷ limit", "products ÷ limit"]
    assert [r.name for r in found] == [f"{n} ÷ naive" for n in names] + limits
    assert all(0 < r.low <= r.median <= r.high for r in found)
    assert sgemm_rate(0.01) > 0
    assert len(list(evaluations([TINY], 2))) == available()


def test_growth_begins_with_its_own_measure(monkeypatch):
    monkeypatch.setattr("pacbayes.bench.measurements.peak_megabytes", lambda *_: 1.0)
    found = list(growth(TINY, 2, 0.001))
    assert found[0].case == TINY
    changed = [asdict(g.case) for g in found[1:]]
    for field in ("T", "batch", "widths"):
        assert any(c[field] != getattr(TINY, field) for c in changed)
    assert len({len(c["widths"]) for c in changed}) == 3


def test_the_report_has_every_number():
    ratio = Ratio(TINY, "native ÷ naive", 0.0471, 0.04, 0.123)
    text = bench.report(Measurements([ratio], [ratio], [Growth(TINY, 2.5, None)]))
    assert text.count("| sign | 2 | native ÷ naive | 0.047 | 0.040 – 0.12 |") == 2
    assert "| sign | 2 | 3 | 4-3-2-1 | 2.50 | – |" in text
    assert "torch 2." in text


def test_the_command(monkeypatch, tmp_path):
    few = Measurements([Ratio(TINY, "native ÷ naive", 0.5, 0.4, 0.6)], [], [])
    monkeypatch.setattr(bench, "measure", lambda quick: few)
    run = CliRunner().invoke(cli.app, ["bench", "--quick", "--json"])
    assert json.loads(run.stdout)["steps"][0]["median"] == 0.5
    out = tmp_path / "results.md"
    CliRunner().invoke(cli.app, ["bench", "--out", str(out)])
    assert "native ÷ naive" in out.read_text()


def test_quick_is_one_kind_of_step_for_each_unit(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "pacbayes.bench.measurements.steps", lambda cases, *_: asked.extend(cases) or []
    )
    measure(quick=True)
    assert [(c.activation, c.T) for c in asked] == [("relu", 10), ("sigmoid", 10), ("sign", 10)]
    assert all(pair == (784, 100) for pair in [next(pairwise(c.widths)) for c in asked])
