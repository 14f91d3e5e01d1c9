"""Networks without hidden layers in the native engine: nothing is sampled, so all is exact."""

import copy

import pytest
import torch

from pacbayes import Network, Settings, Trainer, build_network, dense_network
from pacbayes.engine.library import available
from pacbayes.engine.network import NativeEngine, unsupported
from pacbayes.networks.bodies import Deterministic

pytestmark = pytest.mark.skipif(not available(), reason="no compiler, or not an AVX2 machine")


def made(d, classes, *, learned_scale, scale=1.0, activation="relu"):
    torch.manual_seed(d)
    options = {"classes": classes, "learned_scale": learned_scale, "scale": scale}
    network = dense_network(d, (), activation, **options)
    with torch.no_grad():
        for p in network.parameters():
            p += 0.3 * torch.randn_like(p)
    return network


def examples(n, d, classes):
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(n, d, generator=generator)
    x[torch.rand(n, d, generator=generator) < 0.4] = 0
    y = torch.randint(classes, (n,), generator=generator)
    return x, 2.0 * y - 1 if classes == 2 else y


@pytest.mark.parametrize("log_loss", [False, True])
@pytest.mark.parametrize(("learned_scale", "scale"), [(False, 0.5), (True, 1.0)])
@pytest.mark.parametrize("classes", [2, 3, 16, 37])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (5, 16), (200, 70)])
def test_a_step_is_float64s(n, d, classes, learned_scale, scale, log_loss):
    network = made(d, classes, learned_scale=learned_scale, scale=scale)
    x, y = examples(n, d, classes)
    index = torch.randint(n, (n,), generator=torch.Generator().manual_seed(0))
    native = NativeEngine(network, 7)
    loss = native.loss_and_grad(x, y, index, 1, 2, log_loss=log_loss) / n
    assert native.loss(x, y, index, 5, 6) / n == loss  # nothing is drawn
    exact = copy.deepcopy(network).double()
    losses = exact.loss(exact(x[index].double(), 1), y[index])
    assert loss == pytest.approx(losses.mean().item(), abs=3e-6)
    objective = -torch.log1p(-losses).mean() if log_loss else losses.mean()
    truth = torch.autograd.grad(objective, list(exact.parameters()))
    for p, expected in zip(network.parameters(), truth, strict=True):
        assert (p.grad - expected).abs().max() < 1e-3 * expected.abs().max() + 1e-7


@pytest.mark.parametrize("classes", [2, 5])
def test_results_do_not_depend_on_the_number_of_threads(classes):
    network = made(9, classes, learned_scale=True)
    x, y = examples(700, 9, classes)
    outcomes = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        loss = NativeEngine(network, 1).loss_and_grad(x, y, torch.arange(700), 1, 2)
        outcomes.append((loss, torch.cat([p.grad.flatten() for p in network.parameters()])))
    torch.set_num_threads(1)
    assert outcomes[0][0] == outcomes[1][0]
    assert torch.equal(outcomes[0][1], outcomes[1][1])


@pytest.mark.parametrize("activation", ["relu", "sign"])
def test_both_engines_train_to_the_same_history(activation):
    """Nothing is sampled, so only rounding differs from step to step."""
    x, y = examples(300, 6, 2)
    found = []
    for engine in ("torch", "native"):
        settings = Settings.of("fast", activation, widths=(), epochs=3, engine=engine)
        trainer = Trainer(build_network(settings, 6), x, y, settings)
        assert (trainer.native is None) == (engine == "torch")
        for _ in trainer.steps():
            pass
        found.append([each.bound for each in trainer.history])
    assert found[0] == pytest.approx(found[1], abs=1e-4)


def test_another_body_without_weights_and_reinforce_are_left_to_torch():
    network = dense_network(5, ())
    assert unsupported(network, torch.zeros(3, 5)) is None
    body = Deterministic(torch.nn.ReLU())
    other = Network(body, network.layer, architecture=network.architecture)
    assert unsupported(other, torch.zeros(3, 5)).startswith("the native engine ")
    assert unsupported(dense_network(5, (), classes=3), torch.zeros(3, 5)).endswith("two classes")
    with pytest.raises(ValueError, match="needs hidden layers"):
        NativeEngine(network, 2, reinforce=True)
