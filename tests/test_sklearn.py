"""The scikit-learn classifier: its conventions, and whom its certificate is about."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.estimator_checks import parametrize_with_checks

from pacbayes import defaults, kl
from pacbayes.sklearn import CertificateWarning, PACBayesClassifier
from pacbayes.sklearn.parameters import settings_of
from pacbayes.training.priors import split
from pacbayes.training.trainer import Trainer

pytestmark = pytest.mark.filterwarnings("ignore:The certificate of")  # few epochs say little
PREDICTORS = ("drawn", "vote", "randomised")
_RANDOM = "predictions are drawn from predict_proba, so they are not its argmax"


def expected_failures(model):
    return {"check_classifiers_train": _RANDOM} if model.predictor == "randomised" else {}


@parametrize_with_checks(
    [PACBayesClassifier(predictor=p, prior_epochs=100) for p in PREDICTORS],  # few steps, for speed
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore::pacbayes.sklearn.CertificateWarning")
def test_scikit_learn_has_nothing_to_say(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cancer():
    x, y = load_breast_cancer(return_X_y=True)
    return x, np.where(y == 1, "benign", "malignant")


@pytest.fixture(scope="module")
def models(cancer):
    return {p: PACBayesClassifier(predictor=p, random_state=0).fit(*cancer) for p in PREDICTORS}


def test_the_certificate_counts_the_errors_that_predict_makes(models, cancer):
    x, y = cancer
    model = models["drawn"]
    bound = model.bound_set_
    errors = (model.predict(x[bound]) != y[bound]).sum()
    assert model.certificate_.n == len(bound)
    assert model.certificate_.risk * len(bound) == pytest.approx(errors, abs=1e-6)
    assert errors / len(bound) < model.certificate_.bound < 0.15


def test_each_predictor_is_the_one_its_certificate_names(models):
    names = [models[p].certificate_.predictor.split(",")[0] for p in PREDICTORS]
    assert "kept" in models["drawn"].certificate_.predictor
    assert "vote" in models["vote"].certificate_.predictor
    assert "randomised" in models["randomised"].certificate_.predictor, names


def test_labels_come_back_as_they_were(models, cancer):
    x, y = cancer
    for model in models.values():
        assert set(model.predict(x)) == {"benign", "malignant"}
        assert model.score(x, y) > 0.95


@pytest.mark.parametrize("predictor", ["drawn", "vote"])
def test_probabilities_sum_to_one_and_agree_with_predictions(models, cancer, predictor):
    x, _ = cancer
    model = models[predictor]
    p = model.predict_proba(x)
    np.testing.assert_allclose(p.sum(1), 1)
    assert (model.classes_[p.argmax(1)] == model.predict(x)).all()
    assert (model.classes_[(model.decision_function(x) > 0).astype(int)] == model.predict(x)).all()


@pytest.fixture(scope="module")
def unsure(cancer):
    """A randomised linear classifier that has hardly learned, so that its draws matter."""
    x, y = cancer
    model = PACBayesClassifier(
        predictor="randomised", prior_fraction=0.0, epochs=1, widths=(), random_state=0
    )
    return model.fit(x / x.max(), y)


def test_the_randomised_classifier_draws_by_its_probabilities(unsure, cancer):
    x, _ = cancer
    many = x[:1] / x.max() + np.arange(4000)[:, None] * 1e-7  # as good as the same, and all new
    p = unsure.predict_proba(many)[:, 1].mean()
    share = (unsure.predict(many) == unsure.classes_[1]).mean()
    assert 0.01 < p < 0.99
    assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / 4000)  # false alarm 6e-7


def test_asked_one_by_one_it_draws_as_for_all_at_once(unsure, cancer):
    x = cancer[0][:60] / cancer[0].max()
    alone = [unsure.predict(x[i : i + 1])[0] for i in range(60)]
    np.testing.assert_array_equal(alone, unsure.predict(x))
    assert len(set(alone)) == 2  # not one draw for all


def test_what_is_set_after_fitting_changes_nothing_that_is_certified(cancer):
    x, y = cancer
    model = PACBayesClassifier(epochs=1, prior_epochs=2, random_state=0).fit(x, y)
    before = model.predict(x), model.predict_proba(x)
    model.set_params(predictor="vote", votes=3)
    np.testing.assert_array_equal(model.predict(x), before[0])
    np.testing.assert_array_equal(model.predict_proba(x), before[1])


def test_every_parameter_of_the_certificate_is_used(cancer):
    for predictor in PREDICTORS:
        model = PACBayesClassifier(
            predictor=predictor, delta=0.01, priors=3, votes=7, epochs=5, prior_epochs=2
        ).fit(*cancer)
        c = model.certificate_
        assert c.delta == 0.01
        assert sum(c.ledger.values()) == pytest.approx(0.01)
        assert len([part for part in c.ledger if "pac-bayes" in part]) == 3
        assert c.samples == (0 if predictor == "drawn" else 7)


def test_the_network_is_that_of_the_best_epoch(cancer, monkeypatch):
    monkeypatch.setattr(Trainer, "bound", lambda self, risk, kl: 0.1 + abs(self.epoch - 10) / 100)
    model = PACBayesClassifier(epochs=20, prior_epochs=2, random_state=0).fit(*cancer)
    (tenth,) = (e for e in model.history_ if e.epoch == 10)
    assert kl(model.network_).item() == pytest.approx(tenth.kl, rel=1e-6)


def test_scores_are_the_drawn_networks_in_float64(models, cancer):
    x, _ = cancer
    model = models["drawn"]
    a = np.asarray(model.preprocessing_.transform(x), np.float32).astype(np.float64)
    w = {name: tensor.numpy() for name, tensor in model.weights_.items()}
    a = np.maximum(0, a @ w["body.layers.0.weight"].T + w["body.layers.0.bias"])
    z = a @ w["layer.weight"][0] + w["layer.bias"][0]
    np.testing.assert_allclose(model.decision_function(x), z, rtol=1e-10, atol=1e-12)


def test_a_vote_is_of_as_many_draws_as_are_asked_for(cancer):
    x, y = cancer
    model = PACBayesClassifier(predictor="vote", epochs=1, prior_epochs=2, random_state=0)
    some = [clone(model).set_params(votes=v).fit(x, y).predict_proba(x[:40]) for v in (1, 400)]
    exact = clone(model).set_params(votes=4000).fit(x, y).predict_proba(x[:40])
    errors = [np.abs(p - exact).mean() for p in some]
    assert errors[1] < errors[0] / 5  # in expectation a twentieth


def test_preprocessing_that_looks_at_the_batch_is_refused(cancer):
    centred = FunctionTransformer(lambda a: a - a.mean(0))
    with pytest.raises(
        ValueError, match="gives a different result for one example than for a batch"
    ):
        PACBayesClassifier(preprocessing=centred).fit(*cancer)


def test_what_is_preprocessed_inside_is_not_taken_for_fitted():
    rng = np.random.default_rng(0)
    x, y = rng.exponential(size=(80, 2)), np.arange(80) % 2
    inside = QuantileTransformer(n_quantiles=10)
    for seed in range(5):
        model = PACBayesClassifier(
            preprocessing=inside, epochs=1, prior_epochs=1, random_state=seed
        )
        assert model.fit(x, y).certificate_ is not None


def test_preprocessing_may_change_the_number_of_features_and_be_sparse(cancer):
    halves = FunctionTransformer(lambda a: csr_matrix(a[:, ::2] / 1000))
    for fraction in (0.0, 0.5):
        model = PACBayesClassifier(
            preprocessing=halves, prior_fraction=fraction, epochs=1, prior_epochs=1
        )
        assert model.fit(*cancer).predict(cancer[0][:3]).shape == (3,)


def test_features_beyond_float32_are_refused(models):
    with pytest.raises(ValueError, match="too large for float32"):
        models["drawn"].predict(np.full((1, 30), 1e300))


def test_the_temperature_is_the_likeliest(models, cancer):
    x, y = cancer
    model = models["drawn"]
    z, truth = model.decision_function(x), y == model.classes_[1]

    def likelihood(t):
        wide = np.stack([np.zeros_like(z), z / t], axis=1)
        return log_softmax(wide, axis=1)[np.arange(len(z)), truth.astype(int)].mean()

    best = likelihood(model.temperature_)
    assert best > likelihood(model.temperature_ * 1.05)
    assert best > likelihood(model.temperature_ / 1.05)


def test_preprocessing_sees_the_prior_s_part_alone(cancer):
    x, y = cancer
    model = PACBayesClassifier(epochs=1, prior_epochs=1, random_state=0).fit(x, y)
    own, bound = split(len(x), defaults.prior_fraction(len(x)), model._seed)
    np.testing.assert_allclose(model.preprocessing_.mean_, x[own].mean(0))
    changed = x.copy()
    changed[bound] *= 3
    other = clone(model).fit(changed, y)
    np.testing.assert_array_equal(other.preprocessing_.mean_, model.preprocessing_.mean_)
    for a, b in zip(other.network_.buffers(), model.network_.buffers(), strict=True):
        assert (a == b).all()  # the prior, too


@pytest.mark.parametrize(
    "step",
    [StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler(), PCA(whiten=True)],
    ids=lambda step: type(step).__name__,
)
def test_a_step_fitted_before_it_costs_the_certificate(step):
    x, y = np.random.default_rng(0).normal(3, 1, (200, 4)), np.arange(200) % 2
    model = PACBayesClassifier(epochs=1, prior_epochs=1, random_state=0)
    pipeline = make_pipeline(step, model)
    with pytest.warns(CertificateWarning, match="no certificate.*was fitted to.*preprocessing="):
        pipeline.fit(x, y)
    assert pipeline[-1].certificate_ is None
    assert len(pipeline.predict(x)) == 200
    with pytest.warns(CertificateWarning, match="no certificate.*fitted to it.*preprocessing="):
        model.fit(step.fit_transform(x), y)  # out of sight, but visible in the features
    assert model.certificate_ is None


def test_a_step_that_learns_nothing_costs_nothing(cancer):
    x, y = cancer
    model = PACBayesClassifier(epochs=1, prior_epochs=1, random_state=0)
    for step in (Normalizer(), FunctionTransformer(lambda a: a / 1000)):
        assert make_pipeline(step, model).fit(x, y)[-1].certificate_ is not None


def test_a_data_free_prior_takes_only_preprocessing_that_learns_nothing(cancer):
    model = PACBayesClassifier(prior_fraction=0.0, preprocessing=StandardScaler())
    with pytest.raises(ValueError, match="StandardScaler must be fitted to the prior's part"):
        model.fit(*cancer)
    model.set_params(preprocessing=Normalizer(), epochs=1).fit(*cancer)
    assert model.certificate_.n == len(cancer[0])


def test_examples_that_occur_again_cost_the_certificate(cancer):
    x, y = np.concatenate([cancer[0]] * 2), np.concatenate([cancer[1]] * 2)
    model = PACBayesClassifier(epochs=1, prior_epochs=1, random_state=0)
    with pytest.warns(CertificateWarning, match="are duplicates"):
        model.fit(x, y)
    assert model.set_params(repeats=True).fit(x, y).certificate_ is not None


def test_many_classes(cancer):
    x, y = load_digits(return_X_y=True)
    for predictor in PREDICTORS:
        model = PACBayesClassifier(predictor=predictor, random_state=0).fit(x / 16, y)
        assert model.score(x / 16, y) > 0.95
        assert model.predict_proba(x[:5]).shape == model.decision_function(x[:5]).shape == (5, 10)
        assert model.certificate_.bound < (0.25 if predictor == "vote" else 0.12)


def test_every_prior_that_is_tried_is_paid_for(models, cancer):
    searched = clone(models["drawn"]).set_params(priors=6).fit(*cancer)
    assert searched.certificate_.risk == models["drawn"].certificate_.risk
    assert searched.certificate_.bound > models["drawn"].certificate_.bound
    assert len(searched.certificate_.ledger) == 6


def test_it_can_be_searched_over(cancer):
    model = PACBayesClassifier(epochs=2, prior_epochs=5, priors=2, random_state=0)
    search = GridSearchCV(model, {"widths": [(), (20,)]}, cv=2).fit(*cancer)
    assert search.best_estimator_.certificate_.bound < 0.5


def test_a_seed_makes_everything_the_same(models, cancer):
    x, _ = cancer
    for model in models.values():
        again = clone(model).fit(*cancer)
        assert again.certificate_ == model.certificate_
        np.testing.assert_array_equal(again.predict(x), model.predict(x))
    other = clone(models["drawn"]).set_params(random_state=1).fit(*cancer)
    assert other.certificate_ != models["drawn"].certificate_


def test_ctrl_c_keeps_the_best_so_far(cancer, monkeypatch, capsys):
    steps = Trainer.steps

    def interrupted(self):
        for progress in steps(self):
            yield progress
            if self.epoch == 7 and progress.batch == progress.batches:
                raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "steps", interrupted)
    model = PACBayesClassifier(random_state=0).fit(*cancer)
    assert model.n_iter_ == 7
    assert model.history_[-1].epoch == 5
    assert model.certificate_ is not None
    assert "keeping the prior as it is" in capsys.readouterr().err


def test_evaluations_are_shown_when_asked_for(capsys):
    x, y = load_iris(return_X_y=True)
    PACBayesClassifier(epochs=5, prior_epochs=2, verbose=1, random_state=0).fit(x, y)
    assert "posterior, epoch 5: risk 0." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"predictor": "mean"}, "drawn, vote, randomised, got 'mean'"),
        ({"delta": 2.0}, r"^delta: .*, got 2\.0$"),
        ({"epochs": -3}, r"^epochs: .*, got -3$"),
        ({"prior_fraction": 1.5}, "prior_fraction"),
        ({"priors": 0}, "priors must be a positive integer, got 0"),
        ({"activation": "tanh"}, "activation"),
        ({"votes": 0}, "votes must be a positive integer, got 0"),
        ({"widths": 100}, r"widths must be a sequence such as \(100,\), got 100"),
    ],
)
def test_wrong_values_are_refused(cancer, change, message):
    with pytest.raises(ValueError, match=message):
        PACBayesClassifier(epochs=1, prior_epochs=1).set_params(**change).fit(*cancer)


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits])
def test_the_default_is_within_a_little_of_its_priors_hold_out(load):
    """Nine tenths of δ instead of all of it: 0.1 nats."""
    x, y = load(return_X_y=True)
    best = PACBayesClassifier(random_state=0).fit(x, y)
    alone = PACBayesClassifier(predictor="fixed", random_state=0).fit(x, y)
    assert alone.certificate_.bound <= best.certificate_.bound
    assert best.certificate_.bound < alone.certificate_.bound + 0.003
    assert best.predictor_ == best.certificate_.kind.value
    assert np.array_equal(best.predict(x), alone.predict(x))  # the same weights here
    assert best.predict_proba(x).shape == (len(x), len(best.classes_))


def test_without_a_part_for_the_prior_the_best_network_is_drawn():
    x, y = load_breast_cancer(return_X_y=True)
    model = PACBayesClassifier(widths=(), prior_fraction=0, epochs=2, random_state=0)
    assert model.fit(x / 1000, y).predictor_ == "drawn"


def test_where_the_posterior_wins_its_drawn_network_predicts():
    """A prior of twenty examples and one epoch, which hardly learns anything."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 5))
    y = x @ [1.0, -2.0, 0.5, 0.0, 1.0] > 0
    model = PACBayesClassifier(
        widths=(),
        prior_fraction=0.01,
        prior_epochs=1,
        prior_scale=0.3,
        epochs=40,
        learning_rate=0.05,
        preprocessing=None,
        random_state=3,
    ).fit(x, y)
    assert (model.predictor_, model.certificate_.kind.value) == ("drawn", "drawn")
    assert model.certificate_.ledger["pac-bayes, disintegrated-fixed"] == pytest.approx(0.005)
    errors = (model.predict(x[20:]) != y[20:]).mean()
    assert errors < model.certificate_.bound
    fixed = PACBayesClassifier(**model.get_params() | {"predictor": "fixed"}).fit(x, y)
    assert errors < (fixed.predict(x) != y).mean()


def test_a_certificate_above_the_constant_answer_says_so_loudly():
    """Six per cent are positive, and nothing tells them apart."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 3)), np.where(np.arange(300) % 17 == 0, "ill", "well")
    model = PACBayesClassifier(widths=(4,), epochs=1, prior_epochs=2, random_state=0)
    says = r"above the 6\.00 % error of always answering 'well', the largest class"
    with pytest.warns(CertificateWarning, match=says):
        model.fit(x, y)
    first, remark = str(model.certificate_).splitlines()
    assert first.startswith("at most")
    assert "above the 6.00 % error" in remark
    assert "remarks" not in model.certificate_.as_dict()


def test_the_bound_set_is_where_errors_are_counted(models, cancer):
    model = models["drawn"]
    fraction = defaults.prior_fraction(len(cancer[0]))
    np.testing.assert_array_equal(split(len(cancer[0]), fraction, model._seed)[1], model.bound_set_)


def test_a_linear_network_learns_a_small_table():
    """A hundred epochs of 75 examples are 500 steps, after which it errs on a fifth of iris."""
    x, y = load_iris(return_X_y=True)
    model = PACBayesClassifier(widths=(), predictor="fixed", epochs=1, random_state=0).fit(x, y)
    assert model.score(x, y) > 0.9


def test_epochs_and_fraction_that_are_given_are_used(cancer):
    x, _ = cancer
    model = PACBayesClassifier(prior_fraction=0.25, epochs=1, prior_epochs=3, random_state=0)
    settings = settings_of(model, 2, len(x), 0)
    assert (settings.prior_fraction, settings.prior_epochs) == (0.25, 3)
    settings = settings_of(PACBayesClassifier(), 2, len(x), 0)
    own = round(defaults.prior_fraction(len(x)) * len(x))
    assert settings.prior_fraction == defaults.prior_fraction(len(x))
    assert settings.prior_epochs == defaults.prior_epochs(own, settings.batch(own)) > 100
