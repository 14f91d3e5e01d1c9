"""Estimators, callables and modules that change, keep or mix what they are given.

Each is honest, because it got copies, or leaves no certificate and is named.
"""

import functools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import nn

import pacbayes
from pacbayes import CertificateWarning, CertifiedClassifier, PACBayesClassifier, certify_predictor
from pacbayes.data.sample import NoSampleError
from pacbayes.networks.bodies import Deterministic
from pacbayes.networks.frozen import frozen_features
from pacbayes.networks.predictors import prior_weights, scores
from pacbayes.networks.stochastic import stochastic

pytestmark = pytest.mark.filterwarnings("ignore:The certificate of .* is above")


def examples(n=2000, seed=0):
    """Two classes that a mean of 300 hides from whoever was fitted to other units."""
    rng = np.random.default_rng(seed)
    x = rng.normal(300, 50, (n, 4))
    return x, (x[:, 0] + rng.normal(0, 20, n) > 300).astype(int)


NEW = examples(20_000, seed=1)
IN_PLACE = make_pipeline(StandardScaler(copy=False), LogisticRegression(C=1e-4))
KNN = KNeighborsClassifier(15)


def halved(x):
    x *= 0.5
    return x


class Rule(ClassifierMixin, BaseEstimator):
    """Answers by the first feature; what is hostile is added below."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict(self, X):
        return (np.asarray(X)[:, 0] > 300).astype(int)

    def predict_proba(self, X):
        p = self.predict(X)
        return np.stack([1 - p, p], axis=1).astype(float)


class SortsInFit(Rule):
    def fit(self, X, y):
        X[:] = np.sort(X, axis=0)
        y[:] = np.sort(y)
        return super().fit(X, y)


class OverwritesInFit(Rule):
    def fit(self, X, y):
        super().fit(X, y)
        X[:], y[:] = 0, 0
        return self


class OverwritesInPredict(Rule):
    def predict(self, X):
        answers = super().predict(X)
        X[:] = 0
        return answers


class AnswersInOneBuffer(Rule):
    def predict(self, X):
        if not hasattr(self, "buffer_"):
            self.buffer_ = np.zeros(100_000, int)
        self.buffer_[: len(X)] = super().predict(X)
        return self.buffer_[: len(X)]


class AnswersAViewOfItsInput(Rule):
    def predict(self, X):
        X[:, 0] = super().predict(X)
        return X[:, 0]


class WritesIntoItsFirstAnswer(Rule):
    def predict(self, X):
        answers = super().predict(X)
        if hasattr(self, "first_"):
            self.first_[:] = 0
        else:
            self.first_ = answers
        return answers


class ReadsWhatItKept(Rule):
    """Whoever changes an array that was predicted before changes the answers."""

    def predict(self, X):
        if not hasattr(self, "kept_"):
            self.kept_ = X
        return ((np.asarray(X)[:, 0] > 300) ^ (np.asarray(self.kept_)[0, 0] < -1e6)).astype(int)


class CountsItsCalls(Rule):
    def predict(self, X):
        self.calls_ = getattr(self, "calls_", 0) + 1
        good = super().predict(X)
        return good if self.calls_ == 1 else 1 - good


class Guesses(Rule):
    def predict(self, X):
        return super().predict(X) ^ (np.random.default_rng().random(len(X)) < 0.1)


class SeesTheSizeOfItsBatch(Rule):
    def predict(self, X):
        return (np.asarray(X)[:, 0] > 300 + 50 * (len(X) > 500)).astype(int)


class SeesSmallBatches(Rule):
    def predict(self, X):
        return (np.asarray(X)[:, 0] > 300 + 50 * (1 < len(X) <= 500)).astype(int)


class SeesItsNeighbours(Rule):
    def predict(self, X):
        first, answers = np.asarray(X)[:, 0], super().predict(X)
        answers[1:] ^= first[1:] > first[:-1] + 150
        return answers


class KnowsTheFirstOfABatch(Rule):
    def predict(self, X):
        answers = super().predict(X)
        if len(X) > 1:
            answers[0] = 1 - answers[0]
        return answers


def honest(model, x=NEW[0], y=NEW[1]):
    """Check that the counted answers are those of the model, and its error below the bound."""
    assert model.certificate_ is not None
    assert (model.predict(x) != y).mean() <= model.certificate_.bound
    for name, candidate in model.candidates_.items():
        if name in model.certificates_:
            bound = model.certificates_[name].bound
            assert (candidate.predict(np.array(x)) != y).mean() <= bound, name


HONEST = {
    "scaler first": {"linear": IN_PLACE, "knn": KNN},
    "scaler last": {"knn": KNN, "linear": IN_PLACE},
    "scaler amid": {"knn": KNN, "linear": IN_PLACE, "rule": Rule()},
    "function": {"linear": make_pipeline(FunctionTransformer(halved), KNN), "knn": KNN},
    "sorts": {"hostile": SortsInFit(), "knn": KNN},
    "overwrites in fit": {"hostile": OverwritesInFit(), "knn": KNN},
    "overwrites in predict": {"hostile": OverwritesInPredict(), "knn": KNN},
    "one buffer": {"hostile": AnswersInOneBuffer(), "knn": KNN},
    "view": {"hostile": AnswersAViewOfItsInput(), "knn": KNN},
    "first answer": {"hostile": WritesIntoItsFirstAnswer(), "knn": KNN},
    "kept": {"hostile": ReadsWhatItKept(), "knn": KNN},
}
WITHHELD = {
    "counts": (CountsItsCalls(), "when asked again about the same examples"),
    "guesses": (Guesses(), "when asked again about the same examples"),
    "batch": (SeesTheSizeOfItsBatch(), "than to a batch|in another order"),
    "halves": (SeesSmallBatches(), "about half of the examples at a time"),
    "neighbours": (SeesItsNeighbours(), "than to a batch|in another order"),
    "first": (KnowsTheFirstOfABatch(), "than to a batch|in another order"),
}


@pytest.mark.parametrize("average", [True, False])
def test_an_in_place_scaler_does_not_reach_the_other_candidates(average):
    x, y = examples()
    before = x.copy()
    given = {"linear": IN_PLACE, "knn": KNN}
    model = CertifiedClassifier(candidates=given, average=average, random_state=0).fit(x, y)
    assert np.array_equal(x, before)
    honest(model)
    alone = CertifiedClassifier(
        candidates={"linear": make_pipeline(StandardScaler(), LogisticRegression(C=1e-4)),
                    "knn": KNN}, average=average, random_state=0).fit(x, y)  # fmt: skip
    assert model.certificate_.bound == alone.certificate_.bound


@pytest.mark.parametrize("how", ["bound", "vote", "cross-validation"])
@pytest.mark.parametrize("kind", HONEST)
def test_what_works_in_place_gets_an_honest_certificate(kind, how):
    x, y = examples()
    before = x.copy(), y.copy()
    groups = np.arange(len(y)) if kind == "sorts" else None
    model = CertifiedClassifier(candidates=HONEST[kind], choose=how, random_state=0)
    honest(model.fit(x, y, groups))
    assert np.array_equal(x, before[0])
    assert np.array_equal(y, before[1])


@pytest.mark.parametrize("how", ["bound", "vote"])
@pytest.mark.parametrize("kind", WITHHELD)
def test_what_does_not_answer_the_same_again_leaves_no_certificate(kind, how):
    hostile, message = WITHHELD[kind]
    model = CertifiedClassifier(candidates={"it": hostile, "knn": KNN}, choose=how, random_state=0)
    with pytest.warns(CertificateWarning, match=message) as caught:
        model.fit(*examples())
    assert model.certificate_ is None
    assert model.certificates_ == {}
    assert any("no certificate: candidate 'it'" in str(w.message) for w in caught)


def test_a_candidate_that_is_not_chosen_answers_again_too():
    given = {"it": Guesses(), "rule": Rule()}
    model = CertifiedClassifier(candidates=given, average=False, random_state=0)
    with pytest.warns(CertificateWarning, match="candidate 'it' gave .* of 7.. different answers"):
        model.fit(*examples())


def test_answered_examples_are_asked_about_again():
    class Wavering(Rule):
        def predict_proba(self, X):
            self.calls_ = getattr(self, "calls_", 0) + 1
            sure = 1.0 if self.calls_ % 2 else 0.6
            p = np.where(self.predict(X) == 1, sure, 1 - sure)
            return np.stack([1 - p, p], axis=1)

    model = CertifiedClassifier(Wavering(), target_error=0.2, random_state=0)
    with pytest.warns(CertificateWarning, match="'Wavering' gave .* when asked again"):
        model.fit(*examples())
    assert model.answered_certificate_ is None


@pytest.mark.parametrize("kind", ["pandas", "polars", "read-only", "memory-mapped", "objects"])
def test_containers_of_every_kind_stay_as_they_are(kind, tmp_path):
    x, y = examples()
    mapped = np.memmap(tmp_path / "x", np.float64, "w+", shape=x.shape)
    mapped[:] = x
    fixed = x.copy()
    fixed.flags.writeable = False
    given = {
        "pandas": pd.DataFrame(x, columns=list("abcd")),
        "polars": pl.DataFrame(x, schema=list("abcd")),
        "read-only": fixed,
        "memory-mapped": mapped,
        "objects": x.astype(object),
    }[kind]
    model = CertifiedClassifier(candidates={"linear": IN_PLACE, "knn": KNN}, random_state=0)
    model.fit(given, y)
    assert np.array_equal(np.asarray(given, float), x)
    same = CertifiedClassifier(candidates={"linear": IN_PLACE, "knn": KNN}, random_state=0)
    assert model.certificate_.bound == same.fit(x, y).certificate_.bound


@pytest.mark.parametrize("jobs", [1, 2])
def test_workers_get_copies(jobs):
    x, y = examples(600)
    given = {"linear": IN_PLACE, "again": IN_PLACE, "knn": KNN}  # which every worker can import
    model = CertifiedClassifier(candidates=given, n_jobs=jobs, random_state=0).fit(x, y)
    alone = CertifiedClassifier(candidates=given, random_state=0).fit(x, y)
    assert {k: c.bound for k, c in model.certificates_.items()} == {
        k: c.bound for k, c in alone.certificates_.items()
    }


# --- certify_predictor ---


def rule(x):
    return (np.asarray(x)[:, 0] > 300).astype(int)


def shifted_in_place(x):
    x -= 300
    return (x[:, 0] > 0).astype(int)


def zeroed(x):
    found = rule(x)
    x[:] = 0
    return found


def one_buffer(x, buffer=np.zeros(100_000, int)):  # noqa: B008
    buffer[: len(x)] = rule(x)
    return buffer[: len(x)]


def clipped_in_place(x):
    np.clip(x, 0, 600, out=x)
    return rule(x)


def unsteady(kind):
    return functools.partial(type(kind).predict, kind)


@pytest.mark.parametrize("predict", [rule, one_buffer, clipped_in_place])
def test_predictors_that_answer_the_same_are_certified_by_their_errors(predict):
    x, y = examples()
    before = x.copy()
    assert certify_predictor(predict, x, y).losses == (rule(x) != y).sum()
    assert np.array_equal(x, before)


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        (shifted_in_place, "changes the examples that it is given"),
        (zeroed, "changes the examples that it is given"),
        (unsteady(CountsItsCalls()), "2000 of 2000 different answers when asked again"),
        (unsteady(Guesses()), "different answers when asked again"),
        (unsteady(SeesTheSizeOfItsBatch()), "one example than for a batch"),
        (unsteady(KnowsTheFirstOfABatch()), "one example than for a batch"),
        (unsteady(SeesItsNeighbours()), "in another order"),
        (lambda x: rule(x) ^ (1 < len(x) < 2000), "about half of the examples at a time"),
    ],
)
def test_predictors_that_do_not_are_refused_by_their_cause(predict, message):
    with pytest.raises(NoSampleError, match=message):
        certify_predictor(predict, *examples())


def test_a_predictor_cannot_rewrite_the_labels_that_it_is_compared_with():
    x, y = examples()
    truth = y.copy()

    def predict(x):
        y[:] = 1
        return np.ones(len(x), int)

    assert certify_predictor(predict, x, y).losses == (truth != 1).sum()


# --- modules of torch ---


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.last = nn.BatchNorm1d(4), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.norm(x))


NET = Net()


def by_global(x):
    return NET(x).argmax(1)


class Holder:
    shared = NET

    def __init__(self, net):
        self.parts = {"deep": [net]}

    def predict(self, x):
        return self.parts["deep"][0](x).argmax(1)

    def __call__(self, x):
        return by_global(x)

    @staticmethod
    def by_class(x):
        return Holder.shared(x).argmax(1)


class Slotted:
    __slots__ = ("net",)

    def __init__(self, net):
        self.net = net

    def __call__(self, x):
        return self.net(x).argmax(1)


def with_default(x, net=NET):
    return net(x).argmax(1)


def with_keyword(x, *, net=NET):
    return net(x).argmax(1)


def applied(net, x):
    return net(x).argmax(1)


PLACES = {
    "itself": nn.Sequential(NET, nn.Softmax(1)),
    "method": NET.forward,
    "closure": (lambda net: lambda x: net(x).argmax(1))(NET),
    "deeper closure": (lambda net: lambda x: (lambda: net(x))().argmax(1))(NET),
    "global": by_global,
    "global of an inner function": lambda x: next(by_global(x) for _ in range(1)),
    "default": with_default,
    "keyword": with_keyword,
    "partial": functools.partial(applied, NET),
    "named": functools.partial(with_keyword, net=NET),
    "attribute": Holder(NET).predict,
    "call": Holder(None),
    "class": Holder.by_class,
    "slots": Slotted(NET),
    "wrapped": functools.lru_cache(with_default),
}


@pytest.fixture
def tensors():
    x, y = examples(400)
    x = torch.tensor((x - 300) / 50, dtype=torch.float32)
    yield x, torch.tensor(y)
    NET.train()


@pytest.mark.parametrize("place", PLACES)
def test_a_module_in_training_mode_is_found_wherever_it_is(place, tensors):
    NET.train()
    with pytest.raises(NoSampleError, match=r"in training mode.*call model\.eval\(\)"):
        certify_predictor(PLACES[place], *tensors)


@pytest.mark.parametrize("place", [p for p in PLACES if p not in ("itself", "method", "wrapped")])
def test_the_same_module_in_evaluation_mode_is_certified(place, tensors):
    NET.eval()
    assert certify_predictor(PLACES[place], *tensors).n == 400


def test_an_exported_graph_has_no_mode(tensors):
    NET.eval()
    sizes = {"x": {0: torch.export.Dim("n", min=1)}}
    with torch.no_grad():
        traced = torch.export.export(NET, (tensors[0],), dynamic_shapes=sizes).module()
    own = (lambda net: lambda x: net(x).argmax(1))(traced)
    assert certify_predictor(own, *tensors).n == 400


class Counting(nn.Module):
    """Keeps the number of its calls in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return (x[:, 0] > 0).long()


class Drifting(nn.Module):
    """Batch norm that goes on learning in evaluation mode."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean.data.lerp_(x.mean(0), 1e-6)
        return (x[:, 0] > self.mean[0]).long()


class Learning(Drifting):
    """The same, so fast that answers change."""

    def forward(self, x):
        self.mean.data += 0.3
        return (x[:, 0] > self.mean[0]).long()


class OfTorch(Rule):
    """A rule with a module in it, which counts its calls or stays in training mode."""

    def __init__(self, trains=False):
        self.trains = trains

    def predict(self, X):
        if not hasattr(self, "net_"):
            self.net_ = nn.Dropout() if self.trains else Counting().eval()
        if not self.trains:
            self.net_(torch.zeros(1, 4))
        return super().predict(X)


@pytest.mark.parametrize(
    ("trains", "message"),
    [(True, "'it' uses a Dropout in training mode"), (False, "'it' changes while it answers")],
)
def test_modules_inside_candidates_are_found_too(trains, message):
    given = {"it": OfTorch(trains), "knn": KNN}
    model = CertifiedClassifier(candidates=given, random_state=0)
    with pytest.warns(CertificateWarning, match=message):
        model.fit(*examples())
    assert model.certificate_ is None


@pytest.mark.parametrize("module", [Counting, Drifting, Learning])
def test_a_module_that_changes_while_it_answers_is_refused(module, tensors):
    net = module().eval()
    with pytest.raises(NoSampleError, match=f"a parameter or buffer of a {module.__name__}"):
        certify_predictor(lambda x: net(x), *tensors)


def test_a_module_that_is_put_into_training_mode_while_it_answers_is_refused(tensors):
    net = nn.Sequential(nn.Linear(4, 2)).eval()

    def predict(x):
        return net.train()(x).argmax(1)

    with pytest.raises(NoSampleError, match="training mode"):
        certify_predictor(predict, *tensors)


class InPlace(nn.Module):
    """Halves its input in place, as a first layer with inplace=True would change it."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x):
        return torch.tanh(self.inner(x.mul_(0.5)))


class Copying(InPlace):
    def forward(self, x):
        return torch.tanh(self.inner(x * 0.5))


def twins():
    torch.manual_seed(0)
    first, second = InPlace(), Copying()
    second.load_state_dict(first.state_dict())
    return first, second


def test_in_place_modules_are_certified_as_if_they_copied(tensors):
    x, y = tensors
    y, before = 2.0 * y - 1, x.clone()
    results = []
    for module in twins():
        whole = nn.Sequential(module, nn.Linear(3, 1))
        drawn = stochastic(whole, last=nn.Linear(1, 1), seed=0)
        frozen = pacbayes.Network(Deterministic(module), pacbayes.GaussianLinear(3, 1))
        means = {"layer.weight.mean": torch.ones(1, 3), "layer.bias.mean": torch.zeros(1)}
        frozen.load_state_dict(frozen.state_dict() | means)
        results.append(
            [
                pacbayes.certify(drawn, x, y, samples=4).bound,
                frozen_features(module, x).sum().item(),
                frozen.draw(x, 3).value.sum().item(),
            ]
        )
        assert torch.equal(x, before)
    assert results[0] == results[1]


class WritesItsWeights(Copying):
    def forward(self, x):
        a = super().forward(x)
        with torch.no_grad():
            self.inner.weight.mul_(0.5)
        return a


def test_a_module_cannot_write_into_the_weights_of_a_kept_network(tensors):
    x = tensors[0].double()
    whole = nn.Sequential(WritesItsWeights(), nn.Linear(3, 1))
    network = stochastic(whole, seed=0).double().eval()
    weights = prior_weights(network)
    before = {name: w.clone() for name, w in weights.items()}
    assert torch.equal(scores(network, weights, x), scores(network, weights, x))
    assert all(torch.equal(w, before[name]) for name, w in weights.items())


# --- preprocessing of PACBayesClassifier ---

QUICK = {"widths": (), "epochs": 2, "prior_epochs": 2, "random_state": 0}


def test_in_place_preprocessing_is_as_good_as_copying():
    x, y = examples(400)
    before = x.copy()
    bounds = []
    for copy in (True, False):
        model = PACBayesClassifier(preprocessing=StandardScaler(copy=copy), **QUICK).fit(x, y)
        bounds.append(model.certificate_.bound)
        assert np.array_equal(x, before)
    assert bounds[0] == bounds[1]


class Tiring(StandardScaler):
    """Gives other features once it was asked about many examples a few times."""

    def __init__(self, steady=2):
        super().__init__()
        self.steady = steady

    def transform(self, X, copy=None):
        self.calls_ = getattr(self, "calls_", 0) + (len(X) > 1)
        return super().transform(X) * (1.0 if self.calls_ <= self.steady else -1.0)


@pytest.mark.parametrize(
    ("steady", "message"),
    [
        (2, "Tiring gave other features when asked again"),
        (3, r"predict errs on \d+ examples of the bound set, but the certificate counts"),
    ],
)
def test_preprocessing_that_changes_leaves_no_certificate(steady, message):
    x, y = examples(800)
    given = QUICK | {"epochs": 20, "prior_epochs": 50, "predictor": "fixed"}
    with pytest.warns(CertificateWarning, match=message):
        model = PACBayesClassifier(preprocessing=Tiring(steady), **given).fit(x, y)
    assert model.certificate_ is None


def test_honest_models_get_no_warning_from_being_asked_again():
    with warnings.catch_warnings():
        warnings.simplefilter("error", CertificateWarning)
        x, y = examples(600)
        model = CertifiedClassifier(candidates=[KNN, LogisticRegression()], random_state=0)
        honest(model.fit(x, y))
        PACBayesClassifier(preprocessing=StandardScaler(), **QUICK).fit((x - 290) / 50, y)
