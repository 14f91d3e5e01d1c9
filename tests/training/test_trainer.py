"""The loop: the paper's rules, and runs that stop anywhere and end the same."""

import math
import subprocess
import sys

import pytest
import torch
from torch import nn

from pacbayes import GaussianLinear, Network, Settings, Trainer, build_network, catoni, kl, train
from pacbayes.data.tasks import linear
from pacbayes.networks.predictors import draw_weights
from pacbayes.randomness import Generators, seeded, stream
from pacbayes.training.loop import _LONGEST_STEP, Evaluation, _Adam
from pacbayes.training.objectives import small_kl_lambda


def toy(n=60):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 4, generator=generator)
    return x, torch.where(x[:, 0] + 0.3 * x[:, 1] > 0, 1.0, -1.0)


def trainer(**changes):
    settings = Settings(
        **{
            "activation": "relu",
            "widths": (6, 5),
            "epochs": 6,
            "batch_size": 16,
            "samples": 3,
            "evaluate_every": 2,
            "learned_scale": True,
            "learning_rate": 0.05,
            **changes,
        }
    )
    return Trainer(build_network(settings, 4), *toy(), settings)


def finish(t):
    for _ in t.steps():
        pass
    return t


def same(one, other):
    (tensors, record), (others, other_record) = one.state(), other.state()
    for r in (record, other_record):
        r.pop("seconds")
        for e in r["history"]:
            e.pop("seconds")
    return (
        record == other_record
        and tensors.keys() == others.keys()
        and all(torch.equal(tensors[k], others[k]) for k in tensors)
    )


CASES = [
    {},
    {"activation": "sign", "estimator": "local-expectation"},
    {"objective": "optim-lambda", "lambda_rate": 0.1},
    {"protocol": "paper"},
    {"kl_warmup": 0.5, "activation": "sigmoid"},
    {"estimator": "reinforce"},
    {"estimator": "reinforce-per-example", "activation": "sign"},
]


@pytest.mark.parametrize("changes", CASES)
@pytest.mark.parametrize("stop_after", [1, 3, 4])
def test_an_interrupted_run_ends_bit_identical_to_an_uninterrupted_one(changes, stop_after):
    whole = finish(trainer(**changes))
    first = trainer(**changes)
    for progress in first.steps():
        if progress.epoch == stop_after and progress.batch == progress.batches:
            break
    second = trainer(**changes)
    second.restore(*first.state())
    torch.rand(100)  # whatever else happened in between
    assert same(finish(second), whole)


def test_another_seed_gives_another_run():
    assert not same(finish(trainer()), finish(trainer(seed=1)))


def test_the_callers_random_numbers_neither_change_nor_are_changed():
    torch.manual_seed(9)
    expected = torch.rand(5)
    torch.manual_seed(9)
    disturbed, drawn = trainer(), []
    for _ in disturbed.steps():
        if len(drawn) < 5:
            drawn.append(torch.rand(1))
    assert torch.equal(torch.cat(drawn), expected)
    assert same(disturbed, finish(trainer()))


def test_training_learns_and_keeps_the_best_epoch_by_bound():
    t = finish(trainer(epochs=30, evaluate_every=1, lam=1e4))
    assert t.history[-1].risk < 0.6 * t.history[0].risk
    best = min(t.history, key=lambda e: e.bound)
    t.network.load_state_dict(t.network.state_dict() | t.best)
    assert kl(t.network).item() == best.kl


def test_train_leaves_the_network_at_its_best_epoch():
    t = trainer(epochs=20, evaluate_every=1)
    history = train(t.network, t.x, t.y, t.settings)
    assert kl(t.network).item() == min(history, key=lambda e: e.bound).kl


@pytest.mark.parametrize("per_example", [False, True])
def test_reinforce_steps_use_the_score_of_the_loss(per_example):
    t = trainer(estimator="reinforce-per-example" if per_example else "reinforce")
    torch.manual_seed(1)
    (found,) = torch.autograd.grad(t._losses(t.x, t.y)[0].mean(), t.network.layer.weight.mean)
    torch.manual_seed(1)
    draw = draw_weights(t.network, t.x, 3, per_example=per_example)
    loss = 0.5 * (1 - t.y * draw.value)
    (wanted,) = torch.autograd.grad((loss * draw.log_prob).mean(), t.network.layer.weight.mean)
    assert torch.allclose(found, wanted, atol=1e-6)
    assert found.abs().max() > 1e-3


def test_the_prior_never_moves():
    t = trainer()
    before = {k: v.clone() for k, v in t.network.state_dict().items() if "prior" in k}
    finish(t)
    after = t.network.state_dict()
    assert len(before) == 12
    assert all(torch.equal(after[k], v) for k, v in before.items())
    assert kl(t.network) > 0


def test_optim_lambda_moves_weights_and_lambda_on_alternate_batches():
    t = trainer(objective="optim-lambda", lambda_rate=1.0, epochs=1)
    weights, lambdas = [], []
    for _ in t.steps():
        weights.append(t.network.layer.weight.mean.detach().clone())
        lambdas.append(t.objective.log_lambda.item())
    # 60 examples in batches of 16: weights, λ, weights, λ.
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])
    assert lambdas[0] == math.log(60)
    assert lambdas[1] != lambdas[0]
    assert lambdas[2] == lambdas[1]
    assert t.history[-1].lam == pytest.approx(math.exp(lambdas[3]))


def test_optim_lambda_alternates_across_epochs_of_a_single_batch():
    t = trainer(objective="optim-lambda", lambda_rate=1.0, epochs=4, batch_size=60)
    lambdas = [t.objective.log_lambda.item() for _ in t.steps()]
    assert [b != a for a, b in zip([math.log(60), *lambdas], lambdas, strict=False)] == [
        False,
        True,
        False,
        True,
    ]


def test_where_every_bound_is_vacuous_the_best_epoch_is_the_one_of_least_risk():
    t = trainer(epochs=12, evaluate_every=1, lam=1e9, learning_rate=30.0, learned_scale=False)
    history = train(t.network, t.x, t.y, t.settings)
    assert {e.bound for e in history} == {1.0}
    assert kl(t.network).item() == min(history, key=lambda e: e.risk).kl


def test_digits_of_a_bound_that_prints_as_all_rank_nothing():
    one, other = (Evaluation(1, r, 1e6, b, 60, 1, 0) for r, b in ((0.2, 1 - 1e-12), (0.3, 0.9996)))
    assert one.guide < other.guide
    assert Evaluation(1, 0.4, 1, 0.999, 60, 1, 0).guide < one.guide
    t = trainer(protocol="paper")
    t.history = [Evaluation(e, 0.3, 1e6, 1 - 10.0 ** (e - 9), 60, 1, 0) for e in range(1, 5)]
    assert t.learning_rate(0.5) == 0.05 / 4  # they fall, and are no improvement


def test_fix_lambda_keeps_lambda_at_n_or_as_given():
    for lam, expected in ((None, 60), (90, 90)):
        history = finish(trainer(lam=lam)).history
        assert [e.lam for e in history] == pytest.approx([expected] * 3)


def test_paper_protocol_uses_the_halved_rate():
    t = trainer(protocol="paper")
    t.history = [Evaluation(e, 0.4, 1, b, 60, 1, 0) for e, b in ((1, 0.5), (2, 0.4), (3, 0.45))]
    assert t.learning_rate(0.5) == 0.05 / 2
    t.history = t.history[:2]
    assert t.learning_rate(0.5) == 0.05


@pytest.mark.parametrize(("protocol", "last"), [("paper", 10), ("fast", 14)])
def test_only_the_paper_protocol_gives_up_on_runs_that_do_not_learn(protocol, last):
    t = trainer(protocol=protocol, epochs=14, learning_rate=1e-9)
    t.y = torch.where(torch.rand(60) < 0.5, 1.0, -1.0)
    finish(t)
    assert t.history[-1].risk > 0.45
    assert t.epoch == last
    assert t.finished


@pytest.mark.parametrize("growth", [1.0, 1.05, 1.11, 1.2])
def test_no_step_of_adam_is_longer_than_seven_and_a_third_rates(growth):
    p = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    adam, steps = torch.optim.Adam([p], lr=1.0, eps=0.0), []
    for i in range(-5000, 200):  # a burst when all averages are warm
        before, p.grad = p.item(), torch.full_like(p, 1e-12 * growth ** max(i, 0))
        adam.step()
        steps.append(abs(p.item() - before))
    assert max(steps) < _LONGEST_STEP
    assert growth != 1.11 or max(steps) > 7.1  # near the worst there is


@pytest.mark.parametrize("scale", [0.5, 1.0, 10.0])
def test_steps_that_cannot_matter_any_more_are_left_out_and_evaluations_go_on(scale):
    """4 epochs of 4 batches are left at a rate of 0.05·2⁻ʰ, whose steps are 7.3 rates at most."""
    t = trainer(protocol="paper", prior_scale=scale, learned_scale=False)
    flat = [Evaluation(0, 0.4, 1, 1.0, 60, 1, 0)]
    least = math.ceil(math.log2(7.3 * 0.05 * 4 * 4 / (2.5e-4 * min(scale, 1))))
    for h, spent in ((least - 1, False), (least, True)):
        t.epoch, t.history = 2, flat * (h + 2)  # one evaluation has no two before it
        assert t.spent == spent
        before = [p.detach().clone() for p in t.network.parameters()]
        epoch = t._one_epoch(Generators(t.seed))
        batches = list(epoch)
        assert batches[-1].batch == 4
        moved = [torch.equal(p, q) for p, q in zip(before, t.network.parameters(), strict=True)]
        assert all(moved) == spent
    assert batches[-1].epoch == 3
    t.history = flat * (least + 2)
    finish(t)
    assert [e.epoch for e in t.history[-2:]] == [4, 6]
    assert not trainer(protocol="fast", learning_rate=1e-12).spent


def test_a_diverged_run_says_so():
    t = trainer(learning_rate=1e30, epochs=2)
    with pytest.raises(FloatingPointError, match="diverged in epoch"):
        finish(t)


def test_lambda_descends_catonis_bound_at_its_rate():
    """A network without hidden layers has an exact risk, so the step is known."""
    settings = trainer(
        widths=(), objective="optim-lambda", lambda_rate=0.5, delta=0.02, lam=800.0
    ).settings
    t = Trainer(build_network(settings, 4), *toy(5000), settings)
    with torch.no_grad():
        t.network.layer.weight.mean += 0.5
    everything = torch.arange(10)
    risk = linear(t.network(t.x[:10], 1), t.y[:10]).mean().item()
    divergence = kl(t.network).item()

    def bound(log_lambda):
        return catoni(risk, divergence, 5000, 0.02, lam=math.exp(log_lambda))

    h, start = 1e-4, math.log(800.0)
    slope = (bound(start + h) - bound(start - h)) / (2 * h)
    assert abs(slope) > 1e-3
    t.step(everything, 1, 0.0, 0.0)
    assert t.objective.log_lambda.item() == pytest.approx(start - 0.5 * slope, abs=1e-5)


def test_lambda_stays_above_one():
    t = trainer(widths=(), objective="optim-lambda", lambda_rate=1e9, lam=300.0)
    t.step(torch.arange(10), 1, 0.0, 0.0)
    assert t.objective.log_lambda.item() == pytest.approx(1e-6)


@pytest.mark.parametrize("engine", ["torch", "auto"])
def test_evaluations_are_catonis_bound_at_the_given_delta(engine):
    for e in finish(trainer(engine=engine, delta=0.001)).history:
        assert e.bound == catoni(e.risk, e.kl, 60, 0.001)


@pytest.mark.parametrize("engine", ["torch", "auto"])
def test_the_scheduled_rate_is_the_one_used(engine):
    """Adam's first step is its rate, whatever the gradient."""
    t = trainer(engine=engine, batch_size=60)  # one step is an epoch
    before = t.network.layer.weight.mean.detach().clone()
    next(t.steps())
    moved = (t.network.layer.weight.mean - before).abs().max().item()
    assert moved == pytest.approx(t.learning_rate(0.0), rel=1e-2)
    assert t.learning_rate(0.0) < 0.05 / 10


@pytest.mark.parametrize("engine", ["torch", "auto"])
def test_the_kls_weight_grows_from_nothing_to_one(engine):
    def step(done, **changes):
        t = trainer(engine=engine, **changes)
        with torch.no_grad():
            t.network.layer.weight.mean += 1.0
        with seeded(1, "training"):
            t.weight_step(torch.arange(60), 0, 0.05, done)
        # After one step Adam's first moment is a tenth of the gradient it was given.
        return 10 * t.optimiser.state[t.network.layer.weight.mean]["exp_avg"]

    free, penalised = step(0.0, lam=1e9), step(0.0, lam=1.5)
    assert torch.allclose(penalised - free, torch.full_like(free, 1 / 1.5), atol=1e-4)
    assert torch.allclose(step(0.0, lam=1.5, kl_warmup=0.5), free, atol=1e-6)
    half = step(0.25, lam=1.5, kl_warmup=0.5)
    assert torch.allclose(half - free, torch.full_like(free, 0.5 / 1.5), atol=1e-4)
    assert torch.allclose(step(0.9, lam=1.5, kl_warmup=0.5), penalised, atol=1e-6)


def test_samples_are_those_of_the_settings(monkeypatch):
    asked = []
    t = trainer(engine="torch", samples=3, evaluation_samples=5, epochs=1, evaluate_every=1)
    draw = t.network.draw
    monkeypatch.setattr(t.network, "draw", lambda x, T: (asked.append(T), draw(x, T))[1])
    finish(t)
    assert asked == [3, 3, 3, 3, 5]
    native = trainer(samples=3, evaluation_samples=5)
    if native.native is not None:
        assert (native.native.samples, native.evaluator.samples) == (3, 5)


def test_every_epoch_sees_every_example_once_in_an_order_of_its_own(monkeypatch):
    t = trainer(epochs=2)
    seen = []

    def make_steps(batches):
        seen.extend(b.index for b in batches)
        yield [0.5] * len(batches)

    monkeypatch.setattr(t, "make_steps", make_steps)
    finish(t)
    epochs = torch.cat(seen).view(2, 60)
    assert torch.equal(epochs.sort(1).values, torch.arange(60).expand(2, 60))
    assert not torch.equal(epochs[0], epochs[1])
    assert not torch.equal(epochs[0], torch.arange(60))


def test_the_papers_rule_for_hopeless_runs():
    t = trainer(protocol="paper", epochs=200)
    t.history = [Evaluation(5, 0.6, 1, 1, 60, 1, 0)]
    assert not t.hopeless
    t.history.append(Evaluation(10, 0.449, 1, 1, 60, 1, 0))
    assert not t.hopeless
    t.history = [Evaluation(10, 0.451, 1, 1, 60, 1, 0), Evaluation(15, 0.1, 1, 1, 60, 1, 0)]
    assert t.hopeless


def test_bodies_train_in_training_mode_and_are_evaluated_in_evaluation_mode():
    modes = []

    class Probe(nn.Module):
        def forward(self, x):
            modes.append((self.training, torch.is_grad_enabled()))
            return x

    settings = Settings(epochs=1, batch_size=30, samples=1, evaluation_samples=1)
    train(Network(Probe(), GaussianLinear(4, 1)), *toy(), settings)
    assert {training for training, learning in modes if learning} == {True}
    assert {training for training, learning in modes if not learning} == {False}


def test_training_has_its_own_random_stream():
    assert trainer(seed=5).seed == stream(5, "training")


@pytest.mark.parametrize("y", [torch.zeros(60), torch.ones(60, 1), torch.ones(59)])
def test_labels_other_than_one_sign_each_are_refused(y):
    t = trainer()
    with pytest.raises(ValueError, match="label"):
        Trainer(t.network, t.x, y, t.settings)


def test_evaluations_reuse_no_training_steps_random_numbers():
    t = trainer(epochs=4, evaluate_every=1)
    if t.native is None:
        pytest.skip("torch draws from one generator")
    trained, evaluated = [], []
    make, loss = t.native.train, t.evaluator.loss

    def followed(x, y, batches, seed, first, *rest, **options):
        trained.extend(range(first, first + len(batches)))
        return make(x, y, batches, seed, first, *rest, **options)

    t.native.train = followed
    t.evaluator.loss = lambda *a: (evaluated.append(a[-1]), loss(*a))[1]
    finish(t)
    assert len(set(trained)) == 16
    assert len(set(evaluated)) == 4
    assert not set(trained) & set(evaluated)


@pytest.mark.parametrize("engine", ["torch", "auto"])
def test_small_kls_lambda_follows_the_epochs_risk_and_kl(engine, monkeypatch):
    t = trainer(engine=engine, objective="small-kl", epochs=2, lam=7.0)
    risks, lambdas = [], []
    make = t.make_steps

    def followed(batches):
        for found in make(batches):
            lambdas.append(t.lam)
            sizes = [len(b.index) for b in batches[len(risks) % len(batches) :]]
            risks.extend(r * size for r, size in zip(found, sizes, strict=False))
            yield found

    monkeypatch.setattr(t, "make_steps", followed)
    steps = t.steps()
    while t.epoch < 1:
        next(steps)
    count, made = len(lambdas), len(risks)
    assert made == 4
    assert lambdas == pytest.approx([7.0] * count)
    expected = small_kl_lambda(sum(risks) / t.n, kl(t.network).item(), t.n, t.settings.delta)
    assert t.objective.log_lambda.exp().item() == pytest.approx(expected)
    next(steps)
    assert lambdas[count] == pytest.approx(expected)
    assert 0 < sum(risks[:made]) / t.n < 1


@pytest.mark.parametrize(
    "changes",
    [
        {"kl_warmup": 0.5},
        {"activation": "sign"},
        {"objective": "small-kl", "learned_scale": True},
        {"objective": "optim-lambda"},
        {"estimator": "reinforce", "learned_scale": False},
    ],
)
def test_steps_made_in_one_call_give_the_bits_of_steps_made_one_by_one(changes):
    found = []
    for count in (1, 3, 100):
        t = trainer(epochs=3, evaluate_every=1, batch_size=16, **changes)
        if t.native is None:
            pytest.skip("no native engine")
        t.native.at_once = lambda batch, count=count: count
        found.append((t, [p.batch for p in t.steps()]))
    (one, batches), (few, _), (whole, _) = found
    assert batches == [1, 2, 3, 4] * 3
    assert same(one, few)
    assert same(one, whole)
    if changes.get("objective") != "optim-lambda":  # where every other step is on λ
        assert [b for _, b in found[1:]] == [[3, 4] * 3, [4] * 3]


def test_a_step_on_the_log_loss_descends_it():
    """The first step of Adam is rate·sign of the gradient, here of −ln(1 − loss)."""
    t = trainer(engine="torch", lam=1e15, kl_warmup=0.0, epochs=1)
    t.log_loss = True
    p = t.network.layer.weight.mean
    start, index = p.detach().clone(), torch.arange(16)
    torch.manual_seed(1)
    losses, _ = t._losses(t.x[index], t.y[index])
    (wanted,) = torch.autograd.grad(-torch.log(1 - losses).mean(), p)
    (linear,) = torch.autograd.grad(t._losses(t.x[index], t.y[index])[0].mean(), p)
    torch.manual_seed(1)
    t.weight_step(index, 0, 1e-3, 0.0)
    assert torch.allclose(start - p.detach(), 1e-3 * wanted.sign(), atol=1e-6)
    assert torch.allclose(p.grad, wanted, atol=1e-6)
    assert not torch.allclose(wanted, linear, atol=1e-3)


def test_a_first_run_does_not_import_torchs_compiler():
    """It would take as long as the rest of a short run, in every process."""
    code = (
        "import sys, torch\nfrom torch import nn\n"
        "from pacbayes import Settings, build_network, learn_prior, stochastic, train\n"
        "x = torch.randn(60, 4); y = torch.where(x[:, 0] > 0, 1.0, -1.0)\n"
        "for engine in ('auto', 'torch'):\n"
        "    settings = Settings.of('fast', widths=(3,), epochs=1, engine=engine)\n"
        "    train(build_network(settings, 4), x, y, settings)\n"
        "module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))\n"
        "train(stochastic(learn_prior(module, x, y, epochs=1)), x, y, settings)\n"
        "print([name for name in ('torch._dynamo', 'sympy') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_step_of_the_loops_adam_is_that_of_torchs():
    torch.manual_seed(0)
    ours, theirs = nn.Linear(5, 3), nn.Linear(5, 3)
    theirs.load_state_dict(ours.state_dict())
    adams = [
        kind(m.parameters(), lr=0.1, fused=True)
        for kind, m in ((_Adam, ours), (torch.optim.Adam, theirs))
    ]
    for _ in range(3):
        for module, adam in zip((ours, theirs), adams, strict=True):
            adam.zero_grad()
            module(torch.ones(2, 5)).square().sum().backward()
            adam.step()
    assert all(map(torch.equal, ours.parameters(), theirs.parameters()))
    assert all(p.requires_grad and p.is_leaf for p in ours.parameters())
