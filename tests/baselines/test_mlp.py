"""The unregularised network, and the loop that fits baselines."""

import pytest
import torch

from pacbayes import Settings
from pacbayes.baselines.mlp import MLP, MLPFitting
from pacbayes.data.tasks import linear


def examples(n=80):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 4, generator=generator)
    return x, torch.where(x[:, 0] * x[:, 1] > 0, 1.0, -1.0)


def fitting(**changes):
    torch.manual_seed(1)
    given = {"widths": (20, 20), "epochs": 40, "evaluate_every": 1, "learning_rate": 0.01}
    settings = Settings.of("paper", "relu", **(given | {"batch_size": 16} | changes))
    return MLPFitting(MLP(4, settings.widths), *examples(), settings)


def test_outputs_are_in_range_and_of_the_layers_asked_for():
    model = MLP(4, (20, 30))
    assert [tuple(p.shape) for p in model.parameters()][::2] == [(20, 4), (30, 20), (1, 30)]
    F = model(100 * torch.randn(50, 4))
    assert F.shape == (50,)
    assert F.abs().max() <= 1


def test_it_fits_and_the_best_epoch_is_the_one_of_least_loss():
    run = fitting()
    for _ in run.steps():
        pass
    risks = [e.risk for e in run.history]
    assert min(risks) < 0.1
    assert all(e.bound == 1.0 and e.kl == 0.0 for e in run.history)
    best = MLP(4, (20, 20))
    best.load_state_dict(run.best)
    x, y = examples()
    assert linear(best(x), y).mean().item() == pytest.approx(min(risks), abs=1e-6)


def test_an_interrupted_fit_ends_with_the_same_bits():
    whole, first, second = fitting(epochs=6), fitting(epochs=6), fitting(epochs=6)
    for _ in whole.steps():
        pass
    for progress in first.steps():
        if progress.epoch == 3 and progress.batch == progress.batches:
            break
    second.restore(*first.state())
    for _ in second.steps():
        pass
    assert [e.risk for e in second.history] == [e.risk for e in whole.history]
    assert all(torch.equal(second.best[k], v) for k, v in whole.best.items())


def test_a_fit_that_does_not_learn_is_ended_after_ten_epochs():
    run = fitting(learning_rate=1e-9)
    for _ in run.steps():
        pass
    assert run.hopeless
    assert run.epoch == 10
