"""Contenders for a step do the same work."""

from importlib.metadata import PackageNotFoundError, version

import pytest
import torch

from pacbayes import dense_network, exact_aggregate
from pacbayes.bench import steps
from pacbayes.bench.steps import (
    PEERS,
    Case,
    NaiveNetwork,
    adam_step,
    beside,
    convolutions,
    dense_steps,
    examples,
    library_step,
    naive_step,
)
from pacbayes.bench.turns import SIDE, MissingError
from pacbayes.data.tasks import linear
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


CASE = Case("relu", 3, 32, (16, 6, 5, 1), learned=True)


def installed(package):
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


@pytest.mark.parametrize("package", PEERS)
def test_a_peer_has_a_mean_and_a_scale_for_every_weight_and_learns(package):
    if not installed(package):
        pytest.skip(f"{package} is not installed")
    torch.manual_seed(0)
    network, objective = PEERS[package](CASE)
    weights = 16 * 6 + 6 + 6 * 5 + 5 + 5 + 1
    sizes = {p.data_ptr(): p.numel() for p in network.parameters()}  # blitz has two names for each
    assert sum(sizes.values()) == 2 * weights
    before = [p.detach().clone() for p in network.parameters()]
    x, y = CASE.data()
    adam_step(network, objective, CASE, x, y)(0)
    moved = zip(before, network.parameters(), strict=True)
    assert all(not torch.equal(old, new) for old, new in moved)
    assert network(x).shape == (len(x), 1)


@pytest.mark.parametrize("package", PEERS)
def test_a_peer_makes_t_passes(package, monkeypatch):
    if not installed(package):
        pytest.skip(f"{package} is not installed")
    network, objective = PEERS[package](CASE)
    passes = []
    network.register_forward_hook(lambda *_: passes.append(1))
    objective(*(t[:4] for t in CASE.data()))
    assert len(passes) == 3


def test_a_package_that_is_not_installed_is_named(monkeypatch):
    def nowhere(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr("pacbayes.bench.steps.version", nowhere)
    with pytest.raises(MissingError, match="torchbnn is not installed"):
        beside("torchbnn", CASE)


@pytest.mark.skipif(not available(), reason="no native engine")
def test_the_engine_is_first_and_the_peer_has_its_version(monkeypatch):
    monkeypatch.setattr("pacbayes.bench.steps.version", lambda _: "1.2")
    plain = torch.nn.Linear(16, 1)
    monkeypatch.setitem(PEERS, "torchbnn", lambda case: (plain, lambda x, y: plain(x).mean()))
    assert list(beside("torchbnn", CASE)) == ["native", "torchbnn 1.2"]
