"""Figures of what a store has."""

import math
from dataclasses import asdict, replace

import pytest
import torch
from matplotlib.image import imread

from pacbayes import Settings, build_network, dense_network, stochastic
from pacbayes.files import save_json
from pacbayes.paper import figures
from pacbayes.paper.columns import COLUMNS, chosen
from pacbayes.paper.execution import run
from pacbayes.paper.figures import ESTIMATORS, gradient_variances, output_variances
from pacbayes.paper.store import Store
from pacbayes.paper.sweep import Sweep
from pacbayes.paper.tables import Line
from pacbayes.training.loop import Evaluation


def test_figures_are_drawn_of_what_there_is(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "_T", (2, 4))
    store, sweep = Store(tmp_path), Sweep(["mlp", "fast-relu"], "digits", 2, repeats=1)
    assert [p.stem for p in figures.draw_figures(sweep, store)] == ["variances"]
    for column in sweep.columns:
        run(replace(chosen(column, "digits", 2), repeat=1), store)
    drawn = list(figures.draw_figures(sweep, store))
    assert [p.stem for p in drawn] == ["curves", "votes", "variances"]
    for path in drawn:
        assert imread(path).std() > 0.05


def test_every_column_has_a_line_of_its_own(tmp_path, summarised):
    store, sweep = Store(tmp_path), Sweep(COLUMNS, repeats=1)
    evaluation = Evaluation(5, 0.1, 1000.0, 0.2, 6e4, 0.1, 1.0)
    for c in sweep.repeated(store):
        with store.lease(c):
            save_json(store.place(c) / "history.json", [asdict(evaluation)])
            store.finish(c, summarised())
    lines = figures._curves(sweep, store).axes[1].lines
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == len(COLUMNS)


def test_a_run_that_only_guesses_is_no_best_bound(tmp_path, summarised):
    store, sweep = Store(tmp_path), Sweep(["reinforce-relu"])
    for c in replace(sweep, search="paper").searched():
        learned = c.learning_rate == 0.1 and c.samples > 1
        with store.lease(c):
            store.finish(c, summarised(learned=learned, bound=0.9 if learned else 0.52))
    (line,) = figures._samples(sweep, store).axes[0].lines
    assert line.get_xydata().tolist() == [[10, 90], [50, 90], [100, 90]]


def test_votes_are_drawn_even_where_nobody_errs(summarised):
    perfect = Line("fast-relu", [summarised(test_zero_one=0.0, vote_zero_one=0.0)])
    assert figures._votes([perfect]) is not None


def test_aggregation_lowers_the_variance_and_samples_divide_it():
    network = dense_network(4, (5, 5), "sign")
    head = network.head
    found = output_variances(network, torch.randn(20, 4), (1, 16), repeats=400)
    for a, b in zip(found["aggregated"], found["sampled"], strict=True):
        assert a < b
    for values in found.values():
        assert 10 < values[0] / values[1] < 25  # sixteen, within three of its own errors
    assert network.head is head


def test_better_estimators_vary_less():
    """Where outputs are certain, as after training, a baseline takes most of the variance away."""
    x = torch.randn(30, 4)
    y = torch.where(x[:, 0] > 0, 1.0, -1.0)
    network = dense_network(4, (6, 6), "sign")
    with torch.no_grad():
        network.layer.bias.mean += 3
    found = gradient_variances(network, x, y, (1, 8), repeats=150)
    assert set(found) == set(ESTIMATORS)
    assert math.isnan(found["leave-one-out"][0])  # it needs two samples
    at = {name: values[1] for name, values in found.items()}
    assert max(at["local-expectation"], at["leave-one-out"]) < 0.5 * at["marginal"]
    assert found["marginal"][1] < found["marginal"][0]
    assert at["marginal"] < 0.01 * at["reinforce"]  # what aggregation is for


def relu_by_hand(network, x, y, T, repeats):
    """Return the variance of the pathwise gradient of a network with one hidden layer."""
    (hidden,), last = network.body.layers, network.layer
    found = []
    for _ in range(repeats):
        mean, deviation = hidden.moments(x)
        a = (mean + deviation * torch.randn(T, *mean.shape)).clamp(min=0)
        mean, deviation = last.moments(a)
        loss = 0.5 * (1 - y * torch.erf(mean / deviation / 2**0.5).squeeze(-1)).mean()
        found.append(torch.autograd.grad(loss, list(network.parameters())))
    gradients = [torch.cat([g.flatten() for g in each]) for each in found]
    return torch.stack(gradients).var(0).sum().item()


@pytest.mark.parametrize("learned", [False, True])
def test_the_network_that_is_given_is_measured(learned):
    x = torch.randn(30, 4)
    y = torch.where(x[:, 0] > 0, 1.0, -1.0)
    network = dense_network(4, (6,), "relu", scale=0.5, learned_scale=learned)
    found = gradient_variances(network, x, y, (1, 4), repeats=500)
    assert list(found) == ["pathwise", "reinforce"]
    for T, value in zip((1, 4), found["pathwise"], strict=True):
        assert value == pytest.approx(relu_by_hand(network, x, y, T, 500), rel=0.25)
    assert found["pathwise"][0] < 0.1 * found["reinforce"][0]


def test_more_classes_have_fewer_estimators():
    x, y = torch.randn(20, 4), torch.arange(20) % 3
    network = dense_network(4, (5,), "sign", classes=3)
    found = gradient_variances(network, x, y, (2,), repeats=20)
    assert list(found) == ["marginal", "leave-one-out", "straight-through"]
    assert min(v for values in found.values() for v in values) > 0
    assert list(gradient_variances(dense_network(4, (5,), classes=3), x, y, (2,), 20)) == [
        "pathwise"
    ]
    with pytest.raises(ValueError, match="a sampled sign needs 2 classes, got 3"):
        output_variances(network, x, (1,))


def test_networks_whose_estimators_are_not_known_are_refused():
    x, y = torch.randn(20, 4), torch.ones(20)
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    changed = dense_network(4, (5,), "relu")
    changed.body.rules = dense_network(4, (5,), "sign").body.rules
    flat = build_network(Settings(widths=()), 4)
    for network in (stochastic(module), changed, flat):
        with pytest.raises(ValueError, match="as dense_network builds them, unchanged"):
            gradient_variances(network, x, y, (1,))
