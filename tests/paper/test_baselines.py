"""PBGNet as published: its tree, its gradients, its KL and its bound; and the unregularised mlp."""

import copy
import itertools
import math

import pytest
import torch

from pacbayes import Settings
from pacbayes.bounds import catoni_c
from pacbayes.data.tasks import linear
from pacbayes.engine.library import available
from pacbayes.paper.baselines import MLP, MLPFitting, PBGFitting, PBGNet
from pacbayes.training.loop import Evaluation


def network(widths, inputs=3):
    model = PBGNet(inputs, widths).double()
    with torch.no_grad():
        for p in model.parameters():
            p += 0.3 * torch.randn_like(p)
    return model


X = torch.tensor([[0.5, -1.0, 2.0], [1.0, 0.2, -0.3]], dtype=torch.float64)


def test_the_exact_forward_is_the_published_sum_written_out():
    model = network((2, 2))
    for p in model.parameters():
        p.requires_grad_(False)
    for x, found in zip(X, model.exact(X), strict=True):
        W1, W2, W3 = model.weights
        b1, b2, b3 = model.biases
        F1 = [math.erf(float(W1[i] @ x + b1[i]) / (math.sqrt(2) * float(x.norm()))) for i in (0, 1)]
        F2 = []
        for i in (0, 1):
            total = 0.0
            for s in itertools.product((-1, 1), repeat=2):
                chance = math.prod(0.5 + 0.5 * f * v for f, v in zip(F1, s, strict=True))
                z = float(W2[i] @ torch.tensor(s).double() + b2[i])
                total += chance * math.erf(z / math.sqrt(2 * 2))
            F2.append(total)
        out = 0.0
        for s in itertools.product((-1, 1), repeat=2):
            chance = math.prod(0.5 + 0.5 * f * v for f, v in zip(F2, s, strict=True))
            out += chance * math.erf(float(W3[0] @ torch.tensor(s).double() + b3[0]) / 2)
        assert found.item() == pytest.approx(out, abs=1e-12)


def test_one_hidden_layer_is_sampled_and_differentiated_without_bias(z_scores):
    model = network((4,))
    parameters = [p for name, p in model.named_parameters() if name != "log_C"]
    exact = torch.autograd.grad(model.exact(X).sum(), parameters)
    truth = torch.cat([g.flatten() for g in exact])
    values, gradients = [], []
    for _ in range(600):
        F = model(X, 20)
        values.append(F.detach())
        found = torch.autograd.grad(F.sum(), parameters)
        gradients.append(torch.cat([g.flatten() for g in found]))
    assert z_scores(torch.stack(values), model.exact(X).detach()).abs().max() < 5
    assert z_scores(torch.stack(gradients), truth).abs().max() < 5.5  # 21 entries: below 1e-6


def test_the_incoming_gradient_is_the_score_of_the_signs():
    """mean over T of erf(·)·s_i / 2p(s_i), with the very signs that were drawn."""
    model = network((4,))
    torch.manual_seed(3)
    F1 = model._first(X)
    with torch.no_grad():
        s = 2 * (torch.rand(5, *F1.shape, dtype=F1.dtype) < 0.5 + 0.5 * F1).double() - 1
    p = 0.5 + 0.5 * s * F1
    into = (model._above(1, s) * s / (2 * p)).mean(0)  # (B, d)
    wanted = torch.autograd.grad((F1 * into.detach()).sum(), model.weights[0])
    torch.manual_seed(3)
    found = torch.autograd.grad(model(X, 5).sum(), model.weights[0])
    assert torch.allclose(found[0], wanted[0], atol=1e-12)


def test_the_kl_counts_a_layer_as_often_as_the_tree_has_it():
    model = PBGNet(3, (4, 5)).double()
    with torch.no_grad():
        for W in model.weights:
            W += 1.0
        for i, b in enumerate(model.biases):
            b.fill_(float(i + 1))
    by_layer = [5 * (4 * 3 + 4 * 1), 1 * (5 * 4 + 5 * 4), 5 + 9]  # copies·(weights + biases)
    assert model.kl().item() == pytest.approx(0.5 * sum(by_layer))


def test_the_bound_is_twice_catonis_at_the_learned_c():
    x = torch.randn(60, 3)
    y = torch.where(x[:, 0] > 0, 1.0, -1.0)
    settings = Settings.of("paper", "sign", widths=(4,), samples=5, epochs=3, evaluate_every=1)
    fitting = PBGFitting(PBGNet(3, (4,)), x, y, settings)
    for _ in fitting.steps():
        pass
    last = fitting.history[-1]
    assert last.lam != 1.0  # it is learned
    value = 2 * catoni_c(last.risk, last.kl, 60, 0.05, C=last.lam)
    assert last.bound == pytest.approx(min(1.0, value))
    assert fitting.divergence().item() == pytest.approx(last.kl)


@pytest.mark.parametrize("engine", ["torch", "auto"])
def test_several_hidden_layers_are_evaluated_at_the_t_of_training(engine):
    """Their output is biased in T; that of one hidden layer is not."""
    x = torch.randn(400, 3)
    y = torch.where(x[:, 0] > 0, 1.0, -1.0)
    for widths, expected in (((8,), 7), ((8, 8), 1), ((8, 8, 8), 1)):
        settings = Settings.of(
            "paper", "sign", widths=widths, samples=1, evaluation_samples=7, engine=engine
        )
        model = network(widths).float()
        with torch.no_grad():
            for W in model.weights:
                W *= 5
        fitting = PBGFitting(model, x, y, settings)
        same = settings.model_copy(update={"evaluation_samples": expected})
        found, wanted = fitting.measured_risk(), PBGFitting(model, x, y, same).measured_risk()
        assert fitting.evaluation_samples == expected
        assert (found == wanted) or engine == "torch"  # torch draws anew
        assert found == pytest.approx(wanted, abs=0.1)


def test_the_sampled_output_of_two_hidden_layers_depends_on_t():
    """At T = 1 both units of the second layer copy the same sign; in the tree each has its own."""
    model = PBGNet(1, (1, 2)).double()
    with torch.no_grad():
        for p, value in zip(model.weights, (0.0, 9.0, 2.0), strict=True):
            p.fill_(value)
        model.biases[2].fill_(2.0)
    x = torch.ones(20_000, 1, dtype=torch.float64)
    assert model(x, 1).mean().item() == pytest.approx((math.erf(3) + math.erf(-1)) / 2, abs=0.03)
    tree = (math.erf(3) + math.erf(-1)) / 4 + math.erf(1) / 2
    assert model.exact(x[:1]).item() == pytest.approx(tree)
    assert model(x[:20], 2000).mean().item() == pytest.approx(tree, abs=0.03)


def test_the_rate_follows_the_own_bound_which_improves_where_twice_that_is_vacuous():
    x, y = torch.randn(60, 3), torch.ones(60)
    settings = Settings.of("paper", "sign", widths=(4, 4), samples=5, learning_rate=0.1)
    fitting = PBGFitting(PBGNet(3, (4, 4)), x, y, settings)
    for epoch, kl in enumerate((3000.0, 60.0, 50.0, 40.0, 30.0)):
        fitting.history.append(Evaluation(epoch, 0.4, kl, 1.0, 2.0, 0.1, 0.0))
    own = [fitting.guide(e) for e in fitting.history]
    assert own[1:] == pytest.approx(
        [catoni_c(0.4, e.kl, 60, 0.05, C=2.0) for e in fitting.history[1:]]
    )
    assert own[0] == pytest.approx(1 / (1 - math.exp(-2.0)))  # above 1: it has no limit there
    assert fitting.learning_rate(0.5) == 0.1
    fitting.history.append(Evaluation(5, 0.4, 40.0, 1.0, 2.0, 0.1, 0.0))
    assert fitting.learning_rate(0.5) == 0.05


def test_the_objective_is_the_bound_of_the_batch():
    x = torch.randn(40, 3)
    y = torch.where(x[:, 0] > 0, 1.0, -1.0)
    fitting = PBGFitting(
        PBGNet(3, (4,)), x, y, Settings.of("paper", "sign", widths=(4,), samples=5)
    )
    torch.manual_seed(0)
    found = fitting.objective(x, y).item()
    torch.manual_seed(0)
    risk = (0.5 * (1 - y * fitting.output(x, 5))).mean().item()
    assert found == pytest.approx(catoni_c(risk, 0.0, 40, 0.05, C=1.0), rel=1e-5)


def test_large_exact_sums_are_refused():
    with pytest.raises(ValueError, match="at most 16 units in a layer, got 17"):
        PBGNet(3, (17,)).exact(torch.randn(1, 3))


def test_a_native_step_descends_the_bound_whoever_gives_the_gradient_of_the_risk():
    """The engine's part played by the exact sum: risk, KL and C then move as autograd has it."""
    x, model = torch.randn(40, 3), network((4, 3)).float()
    y = torch.where(x[:, 0] > 0, 1.0, -1.0)
    settings = Settings.of("paper", "sign", widths=(4, 3), samples=5, engine="torch")
    ours, theirs = (PBGFitting(copy.deepcopy(model), x, y, settings) for _ in range(2))

    class Exact:
        def loss_and_grad(self, x, y, index, seed, step):
            risk = linear(ours.model.exact(x[index]), y[index]).mean()
            risk.backward()
            return risk.item() * len(index)

    assert ours.native is None  # torch was asked for
    ours.native, theirs.output = Exact(), lambda x, T: theirs.model.exact(x)
    for number in range(3):
        index = torch.arange(number, 40)
        for fitting in (ours, theirs):
            fitting.step(index, number, 0.1, 0.0)
    for p, q in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        assert torch.allclose(p, q, atol=1e-5)
    assert not torch.equal(ours.model.log_C, model.log_C)


@pytest.mark.skipif(not available(), reason="no compiler, or not an AVX2 machine")
def test_the_engine_is_used_and_evaluates_what_torch_does():
    x, model = torch.randn(500, 3), network((4, 3)).float()
    with torch.no_grad():
        for W in model.weights:
            W *= 5
    y = torch.where(model.exact(x) > 0, 1.0, -1.0)
    native = PBGFitting(model, x, y, Settings.of("paper", "sign", widths=(4, 3), samples=5))
    exact = linear(model.exact(x), y).mean().item()
    assert exact < 0.4
    # A mean over the rows feeds the next layer: biased by a little at T = 10, so no z-score.
    assert native.measured_risk() == pytest.approx(exact, abs=0.02)
    before = [p.detach().clone() for p in model.parameters()]
    assert native.native is not None
    next(native.steps())
    assert not any(torch.equal(p, q) for p, q in zip(before, model.parameters(), strict=True))


@pytest.mark.skipif(not available(), reason="no compiler, or not an AVX2 machine")
def test_what_the_engine_cannot_take_is_left_to_torch_or_refused():
    x, y = torch.randn(40, 3), torch.ones(40)
    settings = Settings.of("paper", "sign", widths=(4,), samples=5)
    frozen, strided, blank = network((4,)).float(), network((4,)).float(), x.clone()
    frozen.biases[0].requires_grad_(False)
    strided.weights[0] = torch.nn.Parameter(strided.weights[0].detach().T.contiguous().T)
    blank[7] = 0
    cases = [
        (frozen, x, "frozen"),
        (strided, x, "contiguous"),
        (network((4,)).float(), blank, "zero"),
    ]
    cases.append((network((4,)), x.double(), "float32"))
    insisting = settings.model_copy(update={"engine": "native"})
    for model, examples, why in cases:
        assert PBGFitting(model, examples, y.to(examples), settings).native is None
        with pytest.raises(ValueError, match=why):
            PBGFitting(model, examples, y.to(examples), insisting)


def test_what_is_negligible_is_so_in_the_kl_too():
    """Moved by that, a weight of the first layer adds what one of an ordinary network would."""
    x, y = torch.randn(40, 3), torch.ones(40)
    for widths in ((4,), (4, 5), (4, 5, 6)):
        settings = Settings.of("paper", "sign", widths=widths, samples=5)
        fitting = PBGFitting(PBGNet(3, widths).double(), x.double(), y.double(), settings)
        with torch.no_grad():
            fitting.model.weights[0][0, 0] += fitting.negligible
        assert fitting.divergence().item() == pytest.approx(0.5 * 2.5e-4**2, rel=1e-6)


def noise_free(n=80):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 4, generator=generator)
    return x, torch.where(x[:, 0] * x[:, 1] > 0, 1.0, -1.0)


def mlp_fitting(**changes):
    torch.manual_seed(1)
    given = {"widths": (20, 20), "epochs": 40, "evaluate_every": 1, "learning_rate": 0.01}
    settings = Settings.of("paper", "relu", **(given | {"batch_size": 16} | changes))
    return MLPFitting(MLP(4, settings.widths), *noise_free(), settings)


def test_outputs_are_in_range_and_of_the_layers_asked_for():
    model = MLP(4, (20, 30))
    assert [tuple(p.shape) for p in model.parameters()][::2] == [(20, 4), (30, 20), (1, 30)]
    F = model(100 * torch.randn(50, 4))
    assert F.shape == (50,)
    assert F.abs().max() <= 1


def test_it_fits_and_the_best_epoch_is_the_one_of_least_loss():
    run = mlp_fitting()
    for _ in run.steps():
        pass
    risks = [e.risk for e in run.history]
    assert min(risks) < 0.1
    assert all(e.bound == 1.0 and e.kl == 0.0 for e in run.history)
    best = MLP(4, (20, 20))
    best.load_state_dict(run.best)
    x, y = noise_free()
    assert linear(best(x), y).mean().item() == pytest.approx(min(risks), abs=1e-6)


def test_an_interrupted_fit_ends_with_the_same_bits():
    whole, first, second = mlp_fitting(epochs=6), mlp_fitting(epochs=6), mlp_fitting(epochs=6)
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
    run = mlp_fitting(learning_rate=1e-9)
    for _ in run.steps():
        pass
    assert run.hopeless
    assert run.epoch == 10
