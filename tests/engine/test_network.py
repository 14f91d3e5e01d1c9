"""The native engine against the torch path and against exact enumeration."""

import copy
import multiprocessing
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from scipy import stats

from pacbayes import (
    Dense,
    GaussianLinear,
    Network,
    Settings,
    Trainer,
    build_network,
    dense_network,
    exact_aggregate,
    kl,
)
from pacbayes.data.tasks import linear
from pacbayes.engine import library as module
from pacbayes.engine.library import available, library
from pacbayes.engine.network import NativeEngine, unsupported
from pacbayes.networks import activations, heads
from pacbayes.networks.activations import leave_one_out, no_baseline

pytestmark = pytest.mark.skipif(not available(), reason="no compiler, or not an AVX2 machine")

SIGN = ["marginal", "leave-one-out", "local-expectation", "straight-through"]


def toy(n=5, d=5):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n, d, generator=generator)
    x[0, 2] = x[1, 0] = 0  # the engine skips zeros
    y = torch.where(torch.rand(n, generator=generator) < 0.5, 1.0, -1.0)
    return x, y, torch.arange(n)


def network_of(activation, estimator="marginal", widths=(7, 4), *, learned_scale=True, d=5):
    network = dense_network(d, widths, activation, estimator=estimator, learned_scale=learned_scale)
    with torch.no_grad():
        for p in network.parameters():
            p += 0.3 * torch.randn_like(p)
    return network


def gradients(network):
    return torch.cat([p.grad.flatten() for p in network.parameters()]).double()


def replicates(network, samples, K):
    x, y, index = toy()
    native, losses, found = NativeEngine(network, samples), [], []
    for step in range(K):
        losses.append(native.loss_and_grad(x, y, index, seed=3, step=step) / len(x))
        found.append(gradients(network))
    return torch.tensor(losses, dtype=torch.float64), torch.stack(found)


@pytest.mark.parametrize("learned_scale", [False, True])
@pytest.mark.parametrize("widths", [(3,), (3, 2)])
@pytest.mark.parametrize("estimator", SIGN[:3])
def test_sign_networks_have_the_enumerated_value_and_gradient(
    estimator, widths, learned_scale, z_scores
):
    network = network_of("sign", estimator, widths, learned_scale=learned_scale)
    losses, found = replicates(network, samples=20, K=500)
    x, y, _ = toy()
    exact = network.double()
    loss = linear(exact_aggregate(exact, x.double()), y.double()).mean()
    truth = torch.autograd.grad(loss, list(exact.parameters()))
    assert z_scores(losses.unsqueeze(1), loss.detach()).abs().max() < 5  # false alarm 6e-7
    z = z_scores(found, torch.cat([g.flatten() for g in truth]))
    assert z.abs().max() < 5.5  # at most 60 entries: false alarm below 3e-6


@pytest.mark.parametrize("learned_scale", [False, True])
@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_pathwise_gradients_are_those_of_float64_autograd_with_the_same_noise(
    activation, learned_scale
):
    """The engine's own normals, drawn again in its order, put through torch in float64."""
    network = network_of(activation, learned_scale=learned_scale)
    x, y, index = toy()
    T = 3  # the examples fit one chunk
    native = NativeEngine(network, T)
    loss = native.loss_and_grad(x, y, index, seed=3, step=9) / len(x)
    found = gradients(network)

    lanes = 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 8
    rows, padded = len(x) * T, 16
    assert rows <= padded
    R = -(-rows // lanes) * lanes
    counts = [R * padded, 4 * R]  # the first layer (rows, units), the next (units, rows)
    starts = [0, -(-counts[0] // (2 * lanes)) * 2 * lanes]  # normals come in pairs of vectors
    words = np.zeros(starts[1] + counts[1] + 2 * lanes, np.float32)
    library().pb_normals(3, 9, 0, words.ctypes.data, len(words))
    normals = torch.from_numpy(words).double()
    first, second = (normals[s : s + c] for s, c in zip(starts, counts, strict=True))
    noise = [first.view(R, padded)[:rows, :7], second.view(4, R).T[:rows]]

    exact = network.double()
    a = x.double().repeat_interleave(T, 0)  # rows ordered (input, sample)
    for i, layer in enumerate(exact.body.layers):
        mean, deviation = layer.moments(a)
        a = getattr(torch, activation)(mean + deviation * noise[i])
    mean, deviation = exact.layer.moments(a)
    F = torch.erf(mean / deviation * 0.5**0.5).view(len(x), T).mean(1)
    expected = linear(F, y.double()).mean()
    truth = torch.autograd.grad(expected, list(exact.parameters()))
    assert loss == pytest.approx(expected.item(), abs=1e-6)
    difference = found - torch.cat([g.flatten() for g in truth])
    assert difference.abs().max() < 1e-6


def test_straight_through_is_the_same_biased_estimator_as_torchs():
    network = network_of("sign", "straight-through")
    _, found = replicates(network, samples=20, K=500)
    x, y, _ = toy()
    other = []
    for _ in range(500):
        loss = linear(network(x, 20), y).mean()
        gradient = torch.autograd.grad(loss, list(network.parameters()))
        other.append(torch.cat([g.flatten() for g in gradient]).double())
    other = torch.stack(other)
    error = ((found.var(0) + other.var(0)) / 500).sqrt()
    assert ((found.mean(0) - other.mean(0)) / error).abs().max() < 5.5  # 150 entries: 6e-6


@pytest.mark.parametrize("samples", [1, 2, 7, 100, 3000])
@pytest.mark.parametrize("widths", [(1,), (17, 33), (5, 16, 1, 40)])
def test_odd_shapes_agree_with_torch_in_value(widths, samples):
    """Batch 1 and more, T up to thousands; the mean of each within six standard errors."""
    network = network_of("relu", widths=widths, d=3)
    x, y, _ = toy(n=9, d=3)
    for index in (torch.arange(1), torch.arange(9).flip(0)):
        native = NativeEngine(network, samples).loss(x, y, index, seed=1, step=0) / len(index)
        with torch.no_grad():
            F = network.draw(x[index], 4000).value
        expected = linear(F.mean(0), y[index]).mean().item()
        spread = 0.5 * F.var(0).mean().sqrt().item()
        error = spread * (1 / (len(index) * samples) + 1 / (len(index) * 4000)) ** 0.5
        assert abs(native - expected) < 6 * error + 1e-6


@pytest.mark.parametrize(("activation", "samples"), [("relu", 3), ("sign", 10), ("sign", 200)])
def test_results_do_not_depend_on_the_number_of_threads(activation, samples):
    network = network_of(activation, "leave-one-out")
    x, y, index = toy(n=300)
    outcomes = []
    for threads in (1, 2, 3, 7):
        torch.set_num_threads(threads)
        native = NativeEngine(network, samples)
        outcomes.append((native.loss_and_grad(x, y, index, 5, 6), gradients(network)))
    torch.set_num_threads(1)
    for loss, gradient in outcomes[1:]:
        assert loss == outcomes[0][0]
        assert torch.equal(gradient, outcomes[0][1])


def test_strided_and_double_inputs_are_read_right_and_wrong_ones_refused():
    network = network_of("relu")
    x, y, index = toy(n=50)
    native = NativeEngine(network, 4)
    expected = native.loss(x, y, index, 1, 1)
    strided = torch.stack([x, x], 2)[:, :, 0]
    assert not strided.is_contiguous()
    assert native.loss(strided, y.double(), index.int(), 1, 1) == expected
    for bad in (index + 1, index - 1):
        with pytest.raises(ValueError, match="index must lie between 0 and 49"):
            native.loss(x, y, bad, 1, 1)
    with pytest.raises(ValueError, match=r"needs examples of shape \(50, 5\).*got \(50, 4\)"):
        native.loss(x[:, :4], y, index, 1, 1)


def test_seed_step_and_repetition():
    network = network_of("sign", "leave-one-out")
    x, y, index = toy(n=50)
    native = NativeEngine(network, 4)
    first = native.loss(x, y, index, 1, 1)
    assert native.loss(x, y, index, 1, 1) == first
    assert native.loss(x, y, index, 1, 2) != first
    assert native.loss(x, y, index, 2, 1) != first
    assert native.loss_and_grad(x, y, index, 1, 1) == first


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("learned_scale", [False, True])
def test_a_step_of_adam_is_torchs_on_the_risk_plus_the_kl(learned_scale, threads):
    torch.set_num_threads(threads)
    network = dense_network(70, (130, 4), learned_scale=learned_scale, scale=0.5)
    with torch.no_grad():
        for p in network.parameters():
            p += 0.3 * torch.randn_like(p)
    other = copy.deepcopy(network).double()
    native = NativeEngine(network, 1)
    fast = torch.optim.Adam(network.parameters(), lr=0.01)
    slow = torch.optim.Adam(other.parameters(), lr=0.01)
    for step in range(4):
        generator = torch.Generator().manual_seed(step)
        slow.zero_grad()
        (0.3 * kl(other)).backward()
        for p, q in zip(network.parameters(), other.parameters(), strict=True):
            p.grad = torch.randn(p.shape, generator=generator) * 10.0 ** (1 - 3 * step)
            q.grad += p.grad
        slow.step()
        native.adam_step(fast, 0.3)
    torch.set_num_threads(1)
    for p, q in zip(network.parameters(), other.parameters(), strict=True):
        assert (p - q).abs().max() < 1e-6
        for name in ("step", "exp_avg", "exp_avg_sq"):
            assert torch.allclose(
                fast.state[p][name].double(), slow.state[q][name].double(), rtol=2e-6, atol=2e-6
            )


KINDS = [  # activation, estimator, learned scales, classes, log loss
    ("relu", "marginal", True, 2, False),
    ("relu", "marginal", False, 2, True),
    ("sigmoid", "marginal", True, 3, False),
    ("sign", "leave-one-out", False, 2, True),
    ("relu", "reinforce", False, 2, False),
]


@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_one_call_have_the_bits_of_single_steps(kind):
    activation, estimator, learned, classes, log_loss = kind
    drawn = estimator == "reinforce"
    rule = "marginal" if drawn else estimator
    options = {"classes": classes, "estimator": rule, "learned_scale": learned}
    single = dense_network(5, (7, 4), activation, **options)
    at_once = copy.deepcopy(single)
    x, y, _ = toy(n=60)
    y = y if classes == 2 else torch.arange(60) % classes
    batches = list(torch.randperm(60, generator=torch.Generator().manual_seed(2)).split(25))
    rates, coefficients = [0.1, 0.02, 0.3], [0.0, 0.5, 0.01]
    engine, adam = NativeEngine(single, 3, reinforce=drawn), torch.optim.Adam(single.parameters())
    losses = []
    for n, index in enumerate(batches):
        losses.append(engine.loss_and_grad(x, y, index, 3, 8 + n, log_loss=log_loss))
        adam.param_groups[0]["lr"] = rates[n]
        engine.adam_step(adam, coefficients[n])
    other = NativeEngine(at_once, 3, reinforce=drawn)
    others = torch.optim.Adam(at_once.parameters())
    steps = (batches, 3, 8, others, rates, coefficients)
    assert other.train(x, y, *steps, log_loss=log_loss) == losses
    for p, q in zip(single.parameters(), at_once.parameters(), strict=True):
        assert torch.equal(p, q)
        assert torch.equal(p.grad, q.grad)
        for name, slot in adam.state[p].items():
            assert torch.equal(slot, others.state[q][name])
    assert not torch.equal(single.layer.bias.mean, dense_network(5, (7, 4)).layer.bias.mean)


def test_a_step_that_fails_ends_a_call_and_those_before_it_count():
    network, (x, y, index) = network_of("relu"), toy()
    native, adam = NativeEngine(network, 2), torch.optim.Adam(network.parameters())
    steps = ([index, index + 1, index], 1, 1, adam, [0.1] * 3, [0.1] * 3)
    with pytest.raises(ValueError, match="between 0 and 4, got values from 0 to 5"):
        native.train(x, y, *steps)
    assert {int(slot["step"]) for slot in adam.state.values()} == {1}


def test_a_call_makes_many_steps_of_a_small_network_and_one_of_a_large_one():
    assert NativeEngine(dense_network(10, (100,)), 4).at_once(152) > 100
    assert NativeEngine(dense_network(784, (100, 100, 100)), 100).at_once(256) == 1


def test_denormal_numbers_are_flushed_inside_and_nowhere_else():
    network = network_of("relu")
    adam = torch.optim.Adam(network.parameters())
    for p in network.parameters():
        p.grad = torch.zeros_like(p)
        # The one is denormal, the other the smallest normal number, which decays below it.
        slots = {"exp_avg": torch.full_like(p, 1e-39), "exp_avg_sq": torch.full_like(p, 1.1755e-38)}
        adam.state[p] = {"step": torch.zeros(()), **slots}
    NativeEngine(network, 1).adam_step(adam, 0.0)
    for name in ("exp_avg", "exp_avg_sq"):
        assert all((adam.state[p][name] == 0).all() for p in network.parameters())
    assert torch.full((3,), 1e-39).mul(2).min() > 0


def test_a_probability_is_met_to_the_last_bit_it_can_be(z_scores):
    """One sign unit and a head that reports it: frequencies of 2·10⁵ draws against Φ."""
    for u in (-4.0, -1.0, 0.0, 2.5):
        network = dense_network(1, (1,), "sign")
        with torch.no_grad():
            network.body.layers[0].weight.mean.zero_()
            network.body.layers[0].bias.mean.fill_(u * 2**0.5)  # x = 1: the deviation is √2
            network.layer.weight.mean.fill_(1.0)
            network.layer.bias.mean.zero_()
        x, y = torch.ones(2000, 1), torch.ones(2000)
        loss = NativeEngine(network, 100).loss(x, y, torch.arange(2000), 1, 0) / 2000
        size = torch.erf(torch.tensor(0.5)).item()  # of the output: erf(1/√2·√2)
        p = 0.5 + (1 - 2 * loss) / (2 * size)
        expected = stats.norm.cdf(u)
        assert abs(p - expected) < 5 * (expected * (1 - expected) / 2e5) ** 0.5 + 1e-6


@pytest.mark.parametrize("u", [-6.5, -5.5, 3.0, 5.5, 6.5])
def test_scores_hold_far_out(u):
    """Straight-through's slope of one unit is 2φ(u), however small."""
    network = dense_network(1, (1,), "sign", estimator="straight-through")
    with torch.no_grad():
        network.body.layers[0].weight.mean.zero_()
        network.body.layers[0].bias.mean.fill_(u * 2**0.5)
        network.layer.weight.mean.fill_(1.0)
        network.layer.bias.mean.zero_()
    NativeEngine(network, 1).loss_and_grad(torch.ones(1, 1), torch.ones(1), torch.arange(1), 1, 1)
    a = 1.0 if u > 0 else -1.0  # the other side has probability below 3e-8
    du = -0.5 * stats.norm.pdf(a * 0.5**0.5) * 2 * (1 / 2**0.5 - 0.5 * (a / 2**0.5) / 2 * 2 * a)
    expected = du * 2 * stats.norm.pdf(u) / 2**0.5
    found = network.body.layers[0].bias.mean.grad.item()
    assert found == pytest.approx(expected, rel=1e-4)


def test_what_is_not_a_number_shows():
    network = network_of("relu")
    x, y, index = toy(n=20)
    native = NativeEngine(network, 3)
    before = native.loss_and_grad(x, y, index, 1, 1)
    spoilt = x.clone()
    spoilt[19, 3] = float("nan")
    assert np.isnan(native.loss_and_grad(spoilt, y, index, 1, 1))
    assert native.loss_and_grad(x, y, index, 1, 1) == before  # and leaves nothing behind
    assert gradients(network).isfinite().all()
    with torch.no_grad():
        network.body.layers[0].weight.mean.fill_(float("nan"))
    assert np.isnan(native.loss(x, y, index, 1, 1))


def test_misuse_is_an_error_not_a_crash():
    network = network_of("relu")
    for samples in (0, -3):
        with pytest.raises(ValueError, match=f"samples must be at least 1, got {samples}"):
            NativeEngine(network, samples)
    native, (x, y, index) = NativeEngine(network, 2), toy()
    with pytest.raises(ValueError, match="adam_step needs a gradient"):
        native.adam_step(torch.optim.Adam(network.parameters()), 0.1)
    for bad in (index[:0], index > 2):
        with pytest.raises(ValueError, match="index must list the numbers"):
            native.loss(x, y, bad, 1, 1)


def frozen(network):
    network.layer.weight.mean.requires_grad_(False)
    return network


def transposed(network):
    mean = network.body.layers[0].weight.mean
    mean.data = mean.data.t().contiguous().t()
    return network


def changed(rules, head=heads.aggregated, baseline=no_baseline, activation="relu"):
    """Build a network that the engine takes, then change how it samples."""
    network = dense_network(5, [3] * len(rules), activation, estimator="marginal")
    assert unsupported(network, torch.zeros(3, 5)) is None
    network.body.rules, network.head, network.baseline = list(rules), head, baseline
    return network


def resized():
    network = dense_network(5, (3,))
    network.body.layers[0], network.layer = GaussianLinear(5, 4), GaussianLinear(4, 1)
    return network


def by_hand():
    return Network(Dense([GaussianLinear(5, 3)], [activations.relu]), GaussianLinear(3, 1))


def sharing():
    layer = GaussianLinear(5, 5)
    return Network(Dense([layer, layer], [activations.relu] * 2), GaussianLinear(5, 1))


def mixed_scales():
    layers = [GaussianLinear(5, 3, learned_scale=True)]
    return Network(Dense(layers, [activations.relu]), GaussianLinear(3, 1))


@pytest.mark.parametrize(
    "network",
    [
        dense_network(5, (2,)).double(),
        frozen(dense_network(5, (2,))),
        transposed(dense_network(5, (2,))),
        sharing(),
        mixed_scales(),
        by_hand(),
        resized(),
        changed([activations.relu], head=heads.sampled),
        changed([activations.relu], head=lambda layer, a: heads.aggregated(layer, a)),
        changed([activations.relu], head=heads.differenced),
        changed([activations.relu], baseline=leave_one_out),
        changed([activations.relu, activations.sigmoid]),
        changed([lambda mean, deviation, T: activations.relu(mean, deviation, T)]),
        changed([activations.sign], baseline=lambda value: 0.3, activation="sign"),
        changed([activations.sign, activations.sign_straight], activation="sign"),
        changed([activations.sign], head=heads.differenced, activation="sign"),
    ],
)
def test_what_it_cannot_take_is_left_to_torch(network):
    assert unsupported(network, torch.zeros(3, 5)).startswith("the native engine ")


def test_what_the_library_makes_it_takes():
    for activation in ("relu", "sigmoid", "sign"):
        for estimator in SIGN:
            network = dense_network(5, (2, 3), activation, estimator=estimator)
            assert unsupported(network, torch.zeros(3, 5)) is None
    assert "float32" in unsupported(dense_network(5, (2,)), torch.zeros(3, 5).double())


def test_reinforce_takes_two_classes_and_fixed_scales():
    many = dense_network(5, (3,), "relu", classes=3)
    for network in (many, dense_network(5, (3,), "relu", learned_scale=True)):
        with pytest.raises(ValueError, match="two classes and fixed scales"):
            NativeEngine(network, 4, reinforce=True)


def test_leave_one_out_refuses_a_single_sample():
    x, y, index = toy()
    native = NativeEngine(network_of("sign", "leave-one-out"), 1)
    native.loss(x, y, index, 1, 1)
    with pytest.raises(ValueError, match="at least 2 samples, got 1"):
        native.loss_and_grad(x, y, index, 1, 1)


def test_threads_of_the_caller_take_turns():
    x, y, index = toy(n=200)
    native = NativeEngine(network_of("sign"), 50)
    expected = [native.loss(x, y, index, 1, step) for step in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda step: native.loss(x, y, index, 1, step), range(8)))
    assert found == expected


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_threads_of_its_own():
    x, y, index = toy(n=200)
    native = NativeEngine(network_of("sign"), 50)
    torch.set_num_threads(2)
    expected = native.loss(x, y, index, 1, 1)
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    child = fork.Process(target=lambda: answers.put(native.loss(x, y, index, 1, 1)))
    child.start()
    child.join(60)
    torch.set_num_threads(1)
    assert child.exitcode == 0
    assert answers.get() == expected


def test_a_lack_of_memory_is_an_error_not_a_crash():
    code = (
        "import resource, torch; from pacbayes import dense_network\n"
        "from pacbayes.engine.network import NativeEngine\n"
        "from pacbayes.engine.library import library; library()\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 2**27, used + 2**27))\n"
        "NativeEngine(dense_network(4, (100, 100, 100)), 100_000)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "MemoryError: no memory for the native engine" in done.stderr


def test_without_a_build_torch_serves_and_native_is_refused(monkeypatch):
    monkeypatch.setattr(module, "library", lambda: None)
    settings = Settings(widths=(3,), samples=2, epochs=1)
    network, (x, y, _) = build_network(settings, 5), toy(n=20)
    assert Trainer(network, x, y, settings).native is None
    with pytest.raises(ValueError, match=r"not available on this machine .*; use --engine torch"):
        Trainer(network, x, y, settings.model_copy(update={"engine": "native"}))


def test_both_engines_train_to_the_same_bound_within_seed_noise():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1000, 6, generator=generator)
    y = torch.where(x[:, 0] + 0.5 * x[:, 1] > 0, 1.0, -1.0)
    bounds = {"torch": [], "native": []}
    for engine, found in bounds.items():
        for seed in range(6):
            settings = Settings.of("fast", "sign", widths=(8,), epochs=10, engine=engine, seed=seed)
            trainer = Trainer(build_network(settings, 6), x, y, settings)
            assert (trainer.native is None) == (engine == "torch")
            for _ in trainer.steps():
                pass
            found.append(trainer.history[-1].bound)
    one, other = (np.array(b) for b in bounds.values())
    error = ((one.var(ddof=1) + other.var(ddof=1)) / 6) ** 0.5
    assert abs(one.mean() - other.mean()) < 5 * error  # t with some ten degrees: below 1e-3
    assert other.mean() < 0.3


def test_a_new_optimiser_starts_counting_anew_and_a_restored_one_goes_on():
    network = network_of("relu")
    x, y, index = toy()
    native = NativeEngine(network, 2)

    def stepped(optimiser, count):
        for _ in range(count):
            native.loss_and_grad(x, y, index, 1, 1)
            native.adam_step(optimiser, 0.1)
        return [int(slot["step"]) for slot in optimiser.state.values()]

    first, second = (torch.optim.Adam(network.parameters()) for _ in range(2))
    count = len(list(network.parameters()))
    assert stepped(first, 3) == [3] * count
    assert stepped(second, 2) == [2] * count
    assert stepped(first, 1) == [4] * count
    restored = torch.optim.Adam(network.parameters())
    restored.load_state_dict(copy.deepcopy(first.state_dict()))
    assert stepped(restored, 1) == [5] * count
