"""The same bits in threads, processes, tasks and forks, and torch's own generator left alone."""

import asyncio
import hashlib
import multiprocessing
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import joblib
import numpy as np
import pytest
import torch
from cloudpickle import register_pickle_by_value
from torch import nn

from pacbayes import PACBayesClassifier, Settings, build_network, certify, train
from pacbayes.choices import Predictor
from pacbayes.networks.families.diagonal import GaussianConv2d, GaussianLinear
from pacbayes.networks.network import Network
from pacbayes.networks.predictors import decide
from pacbayes.networks.stochastic import stochastic
from pacbayes.paper.baselines import MLP, MLPFitting, PBGFitting, PBGNet
from pacbayes.randomness import aside, generator_on, seeded
from pacbayes.training.priors import learn_prior
from pacbayes.training.trainer import Trainer

generator = torch.Generator().manual_seed(0)
x = torch.rand(60, 36, generator=generator)
y = torch.where(x[:, 0] + 0.2 * x[:, 1] > 0.6, 1.0, -1.0)
images = x.view(-1, 1, 6, 6)


def settings(**changes):
    given = {"widths": (5,), "epochs": 2, "batch_size": 20, "samples": 2, "evaluation_samples": 3}
    return Settings.of("fast", **(given | {"engine": "torch"} | changes))


def digest(*modules):
    hasher = hashlib.sha256()
    for tensor in (t for module in modules for t in module.state_dict().values()):
        hasher.update(tensor.numpy().tobytes())
    return hasher.hexdigest()


def dense(seed, **changes):
    s = settings(seed=seed, **changes)
    network = build_network(s, 36)
    train(network, x, y, s)
    return digest(network)


def convolution():
    with aside():  # its weights are drawn again
        return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 1))


def any_module(seed):
    network = stochastic(convolution(), seed=seed)
    train(network, images, y, settings(seed=seed))
    return digest(network)


class Noisy(nn.Module):
    """A body that has dropout in training, which is drawn by torch."""

    def __init__(self):
        super().__init__()
        self.conv, self.dropout = GaussianConv2d(1, 3, 3), nn.Dropout(0.3)

    def forward(self, x):
        return self.dropout(self.conv(x).relu().flatten(1))


def own_body(seed):
    with seeded(seed, "prior"):
        network = Network(Noisy(), GaussianLinear(48, 1))
    train(network, images, y, settings(seed=seed))
    return digest(network)


def learned(seed):
    with seeded(0, "prior"):
        start = MLP(36, [5])  # drawn by nn.Linear
    module = nn.Sequential(start[0], nn.ReLU(), nn.Dropout(0.3), start[2])
    return digest(learn_prior(module, x, y, epochs=2, batch_size=20, seed=seed))


def baseline(kind, fitting, seed):
    with seeded(seed, "prior"):
        fit = fitting(kind(36, [4, 3]), x, y, settings(seed=seed))
    for _ in fit.steps():
        pass
    return digest(fit.model)


def classifier(seed, **changes):
    given = {"widths": (5,), "epochs": 2, "prior_epochs": 2, "engine": "torch"} | changes
    model = PACBayesClassifier(random_state=seed, **given)
    return model.fit(x.double().numpy(), y.numpy())


def classified(seed):
    model = classifier(seed)
    return digest(model.network_), model.certificate_.bound


KINDS = {
    "relu": dense,
    "native": partial(dense, engine="auto"),
    "sign": partial(dense, activation="sign"),
    "reinforce": partial(dense, activation="sign", estimator="reinforce", learned_scale=False),
    "any module": any_module,
    "own body": own_body,
    "learned prior": learned,
    "mlp": partial(baseline, MLP, MLPFitting),
    "PBGNet": partial(baseline, PBGNet, PBGFitting),
    "classifier": classified,
}
pytestmark = pytest.mark.filterwarnings("ignore:.*")


def in_threads(work, jobs, threads=8):
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, jobs))


@pytest.fixture(autouse=True)
def _torchs_own_generator_stays():
    before = torch.get_rng_state()
    yield
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("work", KINDS.values(), ids=KINDS)
def test_eight_threads_train_as_one(work):
    jobs = [0, 1, 2, 3] * 4
    one_by_one = [work(seed) for seed in jobs[:4]]
    assert len(set(one_by_one)) == 4
    torch.manual_seed(5)  # which must not matter
    before = torch.get_rng_state()
    assert in_threads(work, jobs) == one_by_one * 4
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(20201)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_joblib_trains_the_same(backend):
    register_pickle_by_value(sys.modules[__name__])  # no process can import a test
    expected = [dense(seed) for seed in range(2)]
    pool = joblib.Parallel(n_jobs=2, backend=backend)
    assert pool(joblib.delayed(dense)(seed) for seed in range(2)) == expected


def test_a_forked_process_trains_the_same():
    expected = [own_body(0), any_module(1)]
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:
        assert [pool.apply(own_body, (0,)), pool.apply(any_module, (1,))] == expected


def test_asyncio_tasks_train_the_same():
    async def steps(trainer):
        for _ in trainer.steps():
            await asyncio.sleep(0)  # another trainer's step comes between
        return digest(trainer.model)

    def trainers():
        return [
            Trainer(build_network(s, 36), x, y, s)
            for s in (settings(seed=seed, activation="sign") for seed in range(3))
        ]

    async def together():
        return await asyncio.gather(*map(steps, trainers()))

    assert asyncio.run(together()) == [asyncio.run(steps(t)) for t in trainers()]


@pytest.mark.parametrize("predictor", ["randomised", "vote", "drawn"])
def test_threads_that_share_a_classifier_predict_the_same(predictor):
    model = classifier(0, predictor=predictor, prior_fraction=0.0)
    rows = x.double().numpy()
    expected = model.predict_proba(rows), model.predict(rows)
    for found in in_threads(lambda _: (model.predict_proba(rows), model.predict(rows)), range(16)):
        assert all(map(np.array_equal, found, expected))


def networks():
    with seeded(0, "prior"):
        own = Network(Noisy(), GaussianLinear(48, 1))
    return [stochastic(convolution(), seed=0).eval(), own.eval()]


@pytest.mark.parametrize("network", networks(), ids=["any module", "own body"])
def test_threads_that_share_a_network_draw_and_certify_the_same(network):
    def ask(number):
        part = images[number : number + 8]
        found = [
            decide(network, p, part, seed=1, samples=3).index
            for p in (Predictor.RANDOMISED, Predictor.VOTE)
        ]
        return *(f.tolist() for f in found), certify(network, images, y, samples=2).bound

    expected = [ask(number) for number in range(4)]
    assert in_threads(ask, [0, 1, 2, 3] * 4) == expected * 4


@pytest.mark.parametrize("at", [1, 4])
def test_an_interrupted_step_leaves_nothing_behind(at, monkeypatch):
    s = settings(seed=1)
    network, calls = build_network(s, 36), iter(range(1, 100))
    trainer, loss = Trainer(network, x, y, s), network.loss

    def interrupted(*given):
        if next(calls) == at:
            raise KeyboardInterrupt
        return loss(*given)

    monkeypatch.setattr(network, "loss", interrupted)
    with pytest.raises(KeyboardInterrupt):
        for _ in trainer.steps():
            pass
    assert generator_on(torch.device("cpu")) is None


def test_fitting_certifying_and_predicting_leave_torchs_generator_alone():
    torch.manual_seed(9)
    before = torch.get_rng_state()
    model = classifier(0, predictor="randomised", prior_fraction=0.0)
    model.predict(x.double().numpy())
    for network in networks():
        train(network, images, y, settings())
        certify(network, images, y, samples=3)
        decide(network.eval(), Predictor.VOTE, images, seed=0, samples=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(20201)


def test_the_state_of_torchs_generator_does_not_matter():
    for work in KINDS.values():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            first = work(0)
            torch.manual_seed(2)
            assert work(0) == first
