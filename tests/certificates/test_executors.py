"""A certificate has the same bits whoever draws its parts, and whoever is killed meanwhile."""

import os
import signal
from contextlib import contextmanager
from functools import partial

import pytest
import torch
from torch import nn

from pacbayes import dense_network, stochastic
from pacbayes.certificates import executors
from pacbayes.certificates.executors import dask_parts
from pacbayes.engine.evaluation import NativeSampler, sampler
from pacbayes.engine.library import available
from pacbayes.networks.risk import Part, Work, in_turn, keyed_risk

distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]


@contextmanager
def workers(n, **given):
    with distributed.LocalCluster(
        n_workers=n, threads_per_worker=1, processes=True, dashboard_address=None, **given
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster():
    with workers(2) as made:
        yield made


def dense(activation="relu", classes=2, widths=(30, 20)):
    torch.manual_seed(0)
    return dense_network(6, widths, activation, classes=classes, learned_scale=True).double().eval()


def conv():
    layers = nn.Conv2d(1, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 1, bias=False)
    module = nn.Sequential(nn.Unflatten(1, (1, 2, 3)), *layers)
    return stochastic(module, seed=0, learned_scale=True).double().eval()


def examples(n, classes=2):
    generator = torch.Generator().manual_seed(n)
    y = torch.randint(classes, (n,), generator=generator)
    return torch.randn(n, 6, generator=generator), 2.0 * y - 1 if classes == 2 else y


def measured(network, n=300, samples=130, classes=2, executor=in_turn):
    x, y = examples(n, classes)
    return keyed_risk(network, x, y, samples, b"key", sampler(network), executor)


NETWORKS = {
    "native": (dense(), {}),
    "native, three classes": (dense("sign", 3), {"classes": 3}),
    "torch, nothing drawn": (dense(widths=()), {}),
    "torch, draws shared": (conv(), {"samples": 102}),
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_workers_return_the_same_bits(kind, cluster, monkeypatch):
    monkeypatch.setattr(NativeSampler, "rows", 3000)
    network, given = NETWORKS[kind]
    dealt = partial(dask_parts, scheduler=cluster.scheduler_address)
    assert measured(network, **given, executor=dealt) == measured(network, **given)


def test_a_worker_killed_in_the_middle_changes_nothing(cluster, monkeypatch):
    monkeypatch.setattr(NativeSampler, "rows", 20_000)
    network, killed = dense(), []

    def executor(work, x, y, parts):
        for sums in dask_parts(work, x, y, parts, cluster.scheduler_address):
            if not killed:  # most parts are still to come; those sent ahead may all be done
                busiest = max(cluster.scheduler.workers.values(), key=lambda w: len(w.processing))
                killed.append(cluster.workers[busiest.name].process.pid)
                os.kill(killed[0], signal.SIGKILL)
            yield sums

    found = measured(network, 4000, 200, executor=executor)
    assert killed
    assert found == measured(network, 4000, 200)


def avx512():
    return available() and torch.backends.cpu.get_cpu_capability() == "AVX512"


@pytest.mark.skipif(not avx512(), reason="needs a processor with two builds of the engine")
def test_a_worker_with_other_bits_is_refused():
    network = dense(classes=3)
    with workers(1, env={"ATEN_CPU_CAPABILITY": "avx2"}) as made:
        dealt = partial(dask_parts, scheduler=made.scheduler_address)
        with pytest.raises(ValueError, match=r"a worker on .* has the losses \w+ instead of \w+"):
            measured(network, classes=3, executor=dealt)


def job(network, threads=None):
    losses = _OfSampler(sampler(network))
    x, y = examples(50)
    return executors._job(Work(losses, 4, 50, threads), x, y, Part(0, 50, 0, 4))


class _OfSampler:
    def __init__(self, own):
        self.sampler = own

    def __call__(self, x, y, part):
        from pacbayes.networks.sampler import Places

        return self.sampler.losses(x, y, Places.of_set(b"", range(part.start, part.stop), 4))


@pytest.mark.skipif(not available(), reason="no engine")
def test_a_worker_with_another_version_or_engine_is_refused(monkeypatch):
    one = job(dense())
    one.check()
    assert one.part.stop == 20
    assert job(dense(), threads=1).part.stop == 50  # bits may depend on company there
    for place, value, name in (
        ("pacbayes.__version__", "9.9", "pacbayes 9.9 instead of "),
        ("pacbayes.certificates.executors.available", lambda: False, "the engine PyTorch instead"),
    ):
        with monkeypatch.context() as changed:
            changed.setattr(place, value)
            other = executors._Job(one.work, one.x, one.y, one.part, one.expected)
            with pytest.raises(ValueError, match=name):
                other.check()


@pytest.mark.parametrize(("kind", "threads"), [("native", None), ("torch, draws shared", 1)])
def test_threads_matter_where_torch_draws(kind, threads, monkeypatch):
    network, found = NETWORKS[kind][0], []

    def executor(work, x, y, parts):
        found.append(work.threads)
        return in_turn(work, x, y, parts)

    measured(network, samples=2, executor=executor)
    assert found == [torch.get_num_threads() if threads else None]


def test_torchs_threads_are_those_of_the_one_who_asks_and_come_back():
    before = torch.get_num_threads()
    with executors._threads(3):
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == before
    with executors._threads(None):
        assert torch.get_num_threads() == before


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense", "foo://127.0.0.1:1"])
def test_an_address_without_a_scheduler_is_refused_in_one_line(address, monkeypatch):
    monkeypatch.setattr(executors, "_ANSWER", 1.0)
    dealt = partial(dask_parts, scheduler=address)
    with pytest.raises(ValueError, match=f"--scheduler {address}: there is no Dask scheduler") as e:
        measured(dense(), executor=dealt)
    assert "\n" not in str(e.value)


def test_a_scheduler_without_workers_is_refused(monkeypatch):
    monkeypatch.setattr(executors, "_PATIENCE", 0.2)
    with workers(0) as made:
        dealt = partial(dask_parts, scheduler=made.scheduler_address)
        with pytest.raises(RuntimeError, match=r"the scheduler tcp.* has no workers; start some"):
            measured(dense(), executor=dealt)


def test_a_scheduler_that_goes_away_is_said_in_one_line(monkeypatch):
    monkeypatch.setattr(NativeSampler, "rows", 20_000)
    with workers(1) as made:

        def executor(work, x, y, parts):
            for sums in dask_parts(work, x, y, parts, made.scheduler_address):
                made.close()
                yield sums

        with pytest.raises(RuntimeError, match=r"lost the scheduler .*; run the same"):
            measured(dense(), 4000, 200, executor=executor)


def test_errors_of_a_worker_are_raised_here(cluster):
    network = dense(classes=3)
    with torch.no_grad():
        network.layer.weight.log_scale[0] -= 30
        network.layer.bias.log_scale[0] -= 30
    dealt = partial(dask_parts, scheduler=cluster.scheduler_address)
    with pytest.raises(ValueError, match="differ too much to integrate"):
        measured(network, classes=3, executor=dealt)
