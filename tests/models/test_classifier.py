"""The classifier that certifies any other: scikit-learn's conventions, and its certificates."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from pacbayes import CertificateWarning, CertifiedClassifier, PACBayesClassifier, bounds
from pacbayes.data.splitting import split_off

TREE = DecisionTreeClassifier(max_depth=3, random_state=0)
FAST = {"bayes": GaussianNB(), "tree": TREE}
SCALED = make_pipeline(StandardScaler(), LogisticRegression())
LINEAR = {"weak": make_pipeline(StandardScaler(), LogisticRegression(C=0.01)), "strong": SCALED}


@parametrize_with_checks(
    [
        CertifiedClassifier(LogisticRegression()),
        CertifiedClassifier(candidates=FAST),
        CertifiedClassifier(),
    ]
)
@pytest.mark.filterwarnings("ignore::pacbayes.sklearn.CertificateWarning")
def test_scikit_learn_has_nothing_to_say(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cancer():
    x, y = load_breast_cancer(return_X_y=True)
    return x, np.where(y == 1, "benign", "malignant")


@pytest.fixture(scope="module")
def model(cancer):
    return CertifiedClassifier(candidates=FAST, random_state=0).fit(*cancer)


def test_the_certificate_counts_the_errors_that_predict_makes(model, cancer):
    x, y = cancer
    c, held = model.certificate_, model.bound_set_
    errors = int((model.predict(x[held]) != y[held]).sum())
    assert (c.n, c.losses) == (len(held), errors)
    assert c.bound == bounds.clopper_pearson(errors / c.n, c.n, c.ledger[c.part])
    assert errors / c.n < c.bound < 0.15


def test_the_bound_set_is_drawn_from_the_recorded_seed(model, cancer):
    record = model.certificate_.provenance
    split = split_off(len(cancer[1]), "auto", record["seed"])
    np.testing.assert_array_equal(split.bound, model.bound_set_)
    assert record["bound_set_sha256"] == split.sha256
    assert any(str(record["seed"]) in sentence for sentence in model.certificate_.assumptions)


def test_candidates_never_see_the_bound_set(model, cancer):
    x, y = cancer
    own = np.setdiff1d(np.arange(len(y)), model.bound_set_)
    alone = clone(TREE).fit(x[own], y[own])
    np.testing.assert_array_equal(model.candidates_["tree"].predict(x), alone.predict(x))


def test_all_candidates_are_paid_for_and_the_smallest_bound_is_chosen(model):
    shares = model.certificate_.ledger
    assert list(shares) == ["bayes", "tree", "mean"]
    assert list(shares.values()) == pytest.approx([0.0025, 0.0025, 0.045])
    issued = {name: c.bound for name, c in model.certificates_.items()}
    assert model.chosen_ == min(issued, key=issued.get)
    assert model.certificate_ is model.certificates_[model.chosen_]
    assert model.certificates_["tree"].part == "tree"


def test_a_single_estimator_spends_all_of_delta(cancer):
    model = CertifiedClassifier(GaussianNB(), delta=0.01, random_state=0).fit(*cancer)
    assert model.certificate_.ledger == {"GaussianNB": 0.01}
    assert isinstance(model.estimator_, GaussianNB)


def test_stated_shares_are_the_ones_spent(cancer):
    given = CertifiedClassifier(candidates=FAST, average=False, shares={"tree": 3, "bayes": 1})
    assert list(given.fit(*cancer).certificate_.ledger.values()) == pytest.approx([0.0125, 0.0375])


def test_a_choice_by_cross_validation_costs_no_delta(cancer):
    x, y = cancer
    model = CertifiedClassifier(candidates=FAST, choose="cross-validation", random_state=0)
    model.fit(x, y)
    own = np.setdiff1d(np.arange(len(y)), model.bound_set_)
    scores = {name: cross_val_score(c, x[own], y[own], cv=5).mean() for name, c in FAST.items()}
    assert model.chosen_ == max(scores, key=scores.get)
    assert list(model.certificate_.ledger.values()) == [0.05]


class Coin(ClassifierMixin, BaseEstimator):
    """Answers by a coin that belongs to the seed and the example."""

    def __init__(self, seed=0):
        self.seed = seed

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return (np.floor(X[:, 0] * 1e9).astype(np.int64) >> self.seed) & 1


@pytest.mark.filterwarnings("ignore::pacbayes.sklearn.CertificateWarning")
def test_the_best_of_many_coins_and_a_memory_is_certified_as_often_as_promised():
    """Labels are coins too, so every error is ½. False-alarm rate 1e-4; unpaid choices fail."""
    delta, times = 0.2, 200
    coins = [Coin(seed) for seed in range(8)]
    candidates = [*coins, KNeighborsClassifier(1)]
    violations = 0
    for seed in range(times):
        rng = np.random.default_rng(seed)
        x, y = rng.random((80, 1)), rng.integers(0, 2, 80)
        model = CertifiedClassifier(candidates=candidates, delta=delta, random_state=seed)
        violations += model.fit(x, y).certificate_.bound < 0.5
    assert binom.sf(violations - 1, times, delta) > 1e-4
    assert violations > 0  # it could fail


@pytest.mark.filterwarnings("ignore::pacbayes.sklearn.CertificateWarning")
def test_certificates_of_classes_answers_and_groups_hold_as_often_as_promised():
    """Whole groups are right or wrong together. False-alarm rate 1e-4 for each count."""
    delta, times, wrong = 0.2, 150, {"all": 0, "one": 0}
    for seed in range(times):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(60), 4)
        x = np.repeat(rng.random((60, 1)), 4, axis=0) + 1e-4 * rng.random((240, 1))
        y = np.repeat(rng.integers(0, 2, 60), 4)
        model = CertifiedClassifier(
            KNeighborsClassifier(1), per_class=True, delta=delta, random_state=seed
        ).fit(x, y, groups=groups)
        certificates = [model.certificate_, *model.class_certificates_.values()]
        own = np.setdiff1d(np.arange(240), model.bound_set_)
        grid = np.linspace(0, 1, 4001)[:, None]
        share = (model.predict(grid) == 1).mean()  # P(answer is 1), whatever the label
        truth = [0.5, share, 1 - share]
        assert not set(groups[own]) & set(groups[model.bound_set_])
        failed = [c.bound < t - 1e-3 for c, t in zip(certificates, truth, strict=True)]
        wrong["all"] += any(failed)
        wrong["one"] += failed[0]
    assert all(binom.sf(count - 1, times, delta) > 1e-4 for count in wrong.values())


def test_classes_are_certified_on_their_own_examples(cancer):
    x, y = cancer
    model = CertifiedClassifier(candidates=FAST, per_class=True, random_state=0).fit(x, y)
    held = model.bound_set_
    predicted = model.predict(x[held])
    for label, c in model.class_certificates_.items():
        theirs = y[held] == label
        errors = int((predicted[theirs] != label).sum())
        assert (c.n, c.losses) == (theirs.sum(), errors)
        assert c.bound == bounds.clopper_pearson(errors / c.n, c.n, c.ledger[c.part])
        assert c.part == f'"{model.chosen_}", class {label}'
    assert len(c.ledger) == 9  # three candidates: all examples and two classes each
    assert sum(c.ledger.values()) == pytest.approx(0.05)


def test_costs_are_certified_in_their_units(cancer):
    x, y = cancer
    costs = [[0, 1], [10, 0]]  # missing a malignant case costs ten times as much
    model = CertifiedClassifier(candidates=FAST, costs=costs, random_state=0).fit(x, y)
    held = model.bound_set_
    predicted = model.predict(x[held])
    missed = ((y[held] == "malignant") & (predicted == "benign")).sum()
    alarms = ((y[held] == "benign") & (predicted == "malignant")).sum()
    c = model.certificate_
    assert c.losses == pytest.approx(10 * missed + alarms)
    assert c.bound == pytest.approx(
        10 * bounds.kl_chernoff(c.losses / 10 / c.n, c.n, c.ledger[c.part]), rel=1e-9
    )
    assert c.quantity == "cost"


def test_abstaining_certifies_the_answers_and_their_number(cancer):
    x, y = cancer
    model = CertifiedClassifier(
        candidates=LINEAR, average=False, target_error=0.01, random_state=0
    ).fit(x, y)
    held = model.bound_set_
    own = np.setdiff1d(np.arange(len(y)), held)
    answers = model.answers(x[held])
    wrong = model.predict(x[held]) != y[held]
    answered, unanswered = model.answered_certificate_, model.unanswered_certificate_
    assert (answered.n, answered.losses) == (answers.sum(), wrong[answers].sum())
    assert (unanswered.n, unanswered.losses) == (len(held), (~answers).sum())
    assert len(answered.ledger) == 6
    p = cross_val_predict(LINEAR[model.chosen_], x[own], y[own], cv=5, method="predict_proba")
    certain = p.max(1) >= model.threshold_
    assert (model.classes_[p.argmax(1)] != y[own])[certain].mean() <= 0.01
    assert 0.2 < certain.mean() < 1


def test_the_mean_abstains_by_its_own_confidence(cancer):
    model = CertifiedClassifier(
        candidates=LINEAR, shares=[1e-6, 1e-6, 1], target_error=0.01, random_state=0
    ).fit(*cancer)
    assert model.chosen_ == "mean"
    assert 0.5 < model.threshold_ < 1


def test_a_vote_is_certified_by_a_theorem_for_votes(cancer):
    x, y = cancer
    model = CertifiedClassifier(candidates=FAST, choose="vote", random_state=0).fit(x, y)
    c = model.certificate_
    assert c.theorem in ("first-order", "tandem")
    assert sum(model.weights_.values()) == pytest.approx(1)
    assert c.ledger == pytest.approx({"first-order": 0.025, "tandem": 0.025})
    assert c.bound > (model.predict(x[model.bound_set_]) != y[model.bound_set_]).mean()
    assert "vote" in str(c)
    with pytest.raises(ValueError, match="leave per_class out"):
        CertifiedClassifier(candidates=FAST, choose="vote", per_class=True).fit(x, y)


def test_groups_stay_together_and_are_counted(cancer):
    x, y = cancer
    groups = np.arange(len(y)) // 3
    model = CertifiedClassifier(candidates=FAST, random_state=0).fit(x, y, groups=groups)
    c, held = model.certificate_, model.bound_set_
    assert not set(groups[held]) & set(np.delete(groups, held))
    assert (c.n, c.unit, c.theorem) == (len(set(groups[held])), "groups", "held-out-mean")
    wrong = pd.Series(model.predict(x[held]) != y[held])
    assert c.risk == pytest.approx(wrong.groupby(groups[held]).mean().mean())
    assert "within a new group" in str(c)
    by_cross_validation = CertifiedClassifier(candidates=FAST, choose="cross-validation")
    assert by_cross_validation.fit(x, y, groups=groups).certificate_.unit == "groups"


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    age = rng.normal(40, 12, 400)
    city = rng.choice(["Rome", "Oslo", "Lima"], 400)
    label = np.where((age > 40) ^ (city == "Rome") ^ (rng.random(400) < 0.1), "yes", "no")
    frame = pd.DataFrame({"age": age, "city": city, "member": rng.random(400) < 0.5})
    frame.loc[rng.random(400) < 0.1, "age"] = np.nan
    frame.loc[rng.random(400) < 0.1, "city"] = None
    return frame, pd.Series(label)


def test_a_pipeline_gets_the_table_as_it_is(people):
    x, y = people
    coder = make_column_transformer(
        (SimpleImputer(), ["age"]), (OneHotEncoder(handle_unknown="ignore"), ["city"])
    )
    model = CertifiedClassifier(make_pipeline(coder, TREE), random_state=0).fit(x, y)
    assert model.certificate_.bound < 0.5
    assert list(model.feature_names_in_) == ["age", "city", "member"]
    assert set(model.predict(x)) == {"yes", "no"}


def test_without_arguments_any_table_will_do(people):
    x, y = people
    model = CertifiedClassifier(random_state=0).fit(x, y)
    assert list(model.candidates_) == [
        *("gradient boosting", "random forest", "extra trees", "logistic regression"),
        *("neural network", "mean"),
    ]
    assert model.certificate_.bound < 0.45
    assert model.predict_proba(x.head(3)).shape == (3, 2)
    again = CertifiedClassifier(random_state=0, n_jobs=2).fit(x, y)
    np.testing.assert_array_equal(model.predict(x), again.predict(x))
    assert model.certificate_ == again.certificate_


def test_texts_are_examples_too():
    rng = np.random.default_rng(0)
    spam = rng.integers(0, 2, 300)
    texts = [f"{'buy now' if s else 'see you'} {rng.integers(10**9)}" for s in spam]
    model = CertifiedClassifier(make_pipeline(CountVectorizer(), MultinomialNB()), random_state=0)
    assert model.fit(texts, spam).certificate_.bound < 0.05
    assert model.predict(["buy now"]) == [1]


def test_our_own_network_can_be_a_candidate(cancer):
    network = PACBayesClassifier(widths=(4,), epochs=2, prior_epochs=5, random_state=0)
    model = CertifiedClassifier(network, random_state=0).fit(*cancer)
    assert model.certificate_.theorem == "held-out"


def test_it_works_where_scikit_learn_expects_a_classifier(cancer):
    x, y = cancer
    model = CertifiedClassifier(SCALED, random_state=0)
    assert cross_val_score(model, x, y, cv=3, n_jobs=2).min() > 0.9
    assert clone(model).get_params()["random_state"] == 0
    model.fit(x, y)
    np.testing.assert_array_equal(model.decision_function(x) > 0, model.predict(x) == "malignant")
    without = CertifiedClassifier(LinearSVC(random_state=0)).fit(x / x.max(0) / 7, y)
    assert not hasattr(without, "predict_proba")


def test_no_certificate_after_a_step_fitted_to_everything(cancer):
    pipeline = make_pipeline(StandardScaler(), CertifiedClassifier(candidates=FAST))
    with pytest.warns(CertificateWarning, match=r"StandardScaler .* was fitted to all examples"):
        pipeline.fit(*cancer)
    assert pipeline[-1].certificate_ is None
    assert pipeline[-1].certificates_ == {}
    standardised = StandardScaler().fit_transform(cancer[0])
    model = CertifiedClassifier(candidates=FAST, per_class=True)
    with pytest.warns(CertificateWarning, match="mean zero on the training set"):
        model.fit(standardised, cancer[1])
    assert model.certificate_ is model.class_certificates_ is None


def test_no_certificate_for_the_winner_of_a_search(cancer):
    search = GridSearchCV(CertifiedClassifier(TREE), {"estimator__max_depth": [1, 2]}, cv=2)
    with pytest.warns(CertificateWarning, match="give them as candidates="):
        search.fit(*cancer)
    assert search.best_estimator_.certificate_ is None


def test_no_certificate_for_repeated_examples_unless_they_are_natural(people):
    x, y = (pd.concat([part, part], ignore_index=True) for part in people)
    with pytest.warns(CertificateWarning, match=r"\d+ of 800 examples are duplicates"):
        model = CertifiedClassifier(random_state=0, candidates=[_coded(TREE)]).fit(x, y)
    assert model.certificate_ is None
    declared = CertifiedClassifier(random_state=0, candidates=[_coded(TREE)], repeats=True)
    assert declared.fit(x, y).certificate_ is not None


def _coded(model):
    return make_pipeline(make_column_transformer((SimpleImputer(), ["age"])), model)


def test_near_copies_in_a_table_with_strings_cost_the_certificate(people):
    x, y = people
    table = pd.concat([x, x.assign(age=x["age"] + 1e-6)], ignore_index=True)
    labels = pd.concat([y, y], ignore_index=True)
    model = CertifiedClassifier(_coded(TREE), random_state=0)
    with pytest.warns(CertificateWarning, match="% of the bound set are near copies"):
        assert model.fit(table, labels).certificate_ is None


@pytest.mark.filterwarnings("ignore:The certificate of")
def test_examples_that_belong_together_can_be_copies_of_each_other(people):
    x, y = people
    table, labels = pd.concat([x, x]), pd.concat([y, y])
    patients = np.tile(np.arange(len(x)), 2)
    model = CertifiedClassifier(_coded(TREE), random_state=0)
    assert model.fit(table, labels, groups=patients).certificate_.unit == "groups"


@pytest.mark.filterwarnings("ignore:The certificate of")
def test_copies_can_be_removed_before_the_split():
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"age": rng.normal(size=300), "city": rng.choice(["Rome", "Oslo"], 300)})
    y = x["age"] > 0
    model = CertifiedClassifier(_coded(TREE), deduplicate=True, random_state=0)
    model.fit(pd.concat([x, x]), pd.concat([y, y]))
    once = CertifiedClassifier(_coded(TREE), random_state=0).fit(x, y)
    np.testing.assert_array_equal(model.bound_set_, once.bound_set_)
    assert model.certificate_.bound == once.certificate_.bound
    sentence = "New examples do not repeat either: copies were removed (by deduplicate=True)."
    assert sentence in model.certificate_.assumptions


def test_assumptions_name_what_nobody_can_check(model):
    sentences = model.certificate_.assumptions
    seed = model.certificate_.provenance["seed"]
    assert f"No other split was tried than that of seed {seed}." in sentences
    assert any("never saw the bound set" in s for s in sentences)
    assert any("independent" in s for s in sentences)
    assert any("chosen in advance" in s for s in sentences)
    assert any("than the ledger pays for" in s for s in sentences)
    assert not any("repeat" in s for s in sentences)  # nothing was declared


def test_names_of_candidates_and_classes_cannot_collide(cancer):
    x, y = cancer
    names = ["tree", "tree, class benign", '"tree"', '"tree", class benign', "all"]
    model = CertifiedClassifier(
        candidates=dict.fromkeys(names, TREE), average=False, per_class=True, random_state=0
    ).fit(x, y)
    assert len(model.certificate_.ledger) == 3 * len(names)
    assert set(model.certificate_.ledger.values()) == {model.certificate_.ledger['"tree"']}
    assert sum(model.certificate_.ledger.values()) == pytest.approx(0.05)


def test_a_certificate_worse_than_guessing_comes_with_a_warning():
    rng = np.random.default_rng(0)
    x, y = rng.random((60, 2)), np.where(rng.random(60) < 0.8, "common", "rare")
    with pytest.warns(CertificateWarning, match="always answering 'common', the largest class"):
        model = CertifiedClassifier(TREE, random_state=0).fit(x, y)
    assert "always answering 'common'" in str(model.certificate_).splitlines()[1]
    assert model.certificates_[model.chosen_] is model.certificate_
    x, y = load_iris(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CertifiedClassifier(TREE, random_state=0).fit(x, y)


def test_a_failed_fit_leaves_nothing_behind(cancer):
    model = CertifiedClassifier(candidates=FAST, random_state=0).fit(*cancer)
    with pytest.raises(ValueError, match="at least two classes"):
        model.fit(cancer[0], np.zeros(len(cancer[1])))
    assert not hasattr(model, "certificate_")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"delta": 0}, "delta must be in"),
        ({"bound_fraction": 1.5}, "bound_fraction must be"),
        ({"choose": "luck"}, "choose must be one of bound, cross-validation, vote, got 'luck'"),
        ({"costs": [[0, 1, 2]]}, "costs must be 2 × 2"),
        ({"shares": [1]}, "shares must name each of bayes, tree, mean"),
    ],
)
def test_wrong_parameters_are_refused_in_one_sentence(cancer, given, message):
    with pytest.raises(ValueError, match=message):
        CertifiedClassifier(candidates=FAST, **given).fit(*cancer)


def test_verbose_tells_every_result(cancer, capsys):
    CertifiedClassifier(candidates=FAST, verbose=1, random_state=0).fit(*cancer)
    assert capsys.readouterr().err.count("at most") == 3
