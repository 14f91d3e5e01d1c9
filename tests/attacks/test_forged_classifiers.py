"""Forged folders of classifiers: `verify` and `load` refuse them, or say whose word it is."""

import json
import os

import numpy as np
import pytest
import skops.io
import torch
from safetensors.numpy import load_file
from scipy.stats import beta
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import FunctionTransformer

import pacbayes
from pacbayes import CertifiedClassifier
from pacbayes.files import file_sha256, save_json, save_tensors
from pacbayes.folders.replaying import replay
from pacbayes.verify import verify


@pytest.fixture(scope="module")
def fitted():
    x, y = load_breast_cancer(return_X_y=True)
    candidates = {"linear": LogisticRegression(max_iter=5000), "bayes": GaussianNB()}
    model = CertifiedClassifier(candidates=candidates, average=False, random_state=0)
    return model.fit(x[:, :5], y), x[:, :5], y


@pytest.fixture
def folder(fitted, tmp_path):
    model, x, y = fitted
    model.save(tmp_path / "model", x)
    np.savetxt(tmp_path / "data.csv", np.column_stack([x, y]), "%.17g", ",")
    return tmp_path / "model"


def failed(folder):
    return {f.name for f in verify(folder) if not f.holds}


def failed_fully(folder, data=None):
    return {f.name for f in verify(folder, full=True, data=data, replay=replay) if not f.holds}


def forge(path, change):
    record = json.loads(path.read_text())
    change(record)
    save_json(path, record)


def reseal(folder):
    """Make all hashes fit again, as any forger would."""

    def rehash(run):
        run["files"] = {name: file_sha256(folder / name) for name in run["files"]}

    forge(folder / "run.json", rehash)
    own = file_sha256(folder / "run.json")
    forge(folder / "certificate.json", lambda issued: issued.update(run_sha256=own))


def forge_evidence(folder, change):
    arrays = load_file(folder / "evidence.safetensors")
    change(arrays)
    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    save_tensors(folder / "evidence.safetensors", tensors)


def forge_claims(folder, change):
    forge(
        folder / "certificate.json", lambda issued: [*map(change, issued["certificates"].values())]
    )


def claim_no_errors(claim):
    claim["losses"] = 0.0
    claim["bound"] = 1 - claim["ledger"][claim["part"]] ** (1 / claim["n"]) + 1e-9


def test_an_honest_folder_holds(folder):
    assert failed(folder) == failed_fully(folder) == set()
    assert failed_fully(folder, folder.parent / "data.csv") == set()


def test_the_bound_is_the_binomial_tail_and_not_less(folder):
    claims = json.loads((folder / "certificate.json").read_text())["certificates"]
    for claim in claims.values():
        errors, n, delta = claim["losses"], claim["n"], claim["ledger"][claim["part"]]
        assert claim["bound"] == pytest.approx(beta.ppf(1 - delta, errors + 1, n - errors))
    forge_claims(folder, lambda claim: claim.update(bound=claim["bound"] * (1 - 1e-7)))
    assert failed(folder) == {"bound (held-out)"}


def test_a_changed_prediction_breaks_the_hash(folder):
    def flip(e):
        e["predictions"][0, 0] = 1 - e["predictions"][0, 0]

    forge_evidence(folder, flip)
    assert "hashes of the files" in failed(folder)


def test_losses_below_those_recorded_fail(folder):
    forge_claims(folder, claim_no_errors)
    assert failed(folder) == {"losses counted", "bound (held-out)"}


def test_forged_predictions_are_the_issuers_word_until_they_are_made_again(folder):
    def perfect(e):
        e["predictions"][:] = e["labels"][e["rows"]]

    forge_evidence(folder, perfect)
    forge_claims(folder, claim_no_errors)
    reseal(folder)
    assert failed(folder) == set()
    words = [f.detail for f in verify(folder) if f.word]
    assert any("The models give the recorded predictions" in word for word in words)
    assert failed_fully(folder) == {"losses counted", "bound (held-out)"}


def test_a_full_check_without_the_models_is_refused(folder):
    with pytest.raises(ValueError, match="the models must run to make their predictions again"):
        list(verify(folder, full=True))
    with pytest.raises(ValueError, match="--data has no effect without --full"):
        list(verify(folder, data=folder.parent / "data.csv"))


def test_models_do_not_run_if_another_check_failed(folder):
    forge_claims(folder, claim_no_errors)
    ran = []
    found = list(verify(folder, full=True, replay=lambda path, data: ran.append(path) or iter(())))
    assert not all(f.holds for f in found)
    assert not ran


def test_the_file_that_is_named_is_the_one_that_is_checked(folder):
    honest = folder / "honest.json"
    honest.write_bytes((folder / "certificate.json").read_bytes())
    forge_claims(folder, claim_no_errors)
    assert all(f.holds for f in verify(honest))
    assert {f.name for f in verify(honest, full=True, replay=replay) if not f.holds} == set()
    assert failed(folder) == {"losses counted", "bound (held-out)"}


def test_swapped_labels_are_found_in_the_data(folder):
    def swap(e):
        e["labels"][e["rows"]] = e["predictions"][0]

    forge_evidence(folder, swap)
    reseal(folder)
    assert "labels" in failed_fully(folder, folder.parent / "data.csv")


def test_another_model_is_found_by_its_predictions(folder):
    good = (folder / "models.skops").read_bytes()
    state = skops.io.loads(good, trusted=skops.io.get_untrusted_types(data=good))
    state["candidates"]["linear"].coef_ *= -1
    (folder / "models.skops").write_bytes(skops.io.dumps(state))
    assert "hashes of the files" in failed(folder)
    reseal(folder)
    assert failed(folder) == set()
    assert {"losses counted", "bound (held-out)"} <= failed_fully(folder)


def test_another_split_is_not_what_the_seed_draws(folder):
    forge_evidence(folder, lambda e: e.update(rows=np.arange(len(e["rows"]))))
    reseal(folder)
    assert "bound set" in failed(folder)


@pytest.mark.parametrize("index", [-1, 569, 2**62])
def test_a_bound_set_outside_the_examples_is_no_evidence(folder, index):
    def forged(e):
        e["rows"][-1] = index

    forge_evidence(folder, forged)
    reseal(folder)
    assert failed(folder) == failed_fully(folder) == {"evidence"}


def test_a_split_of_another_seed_does_not_fit_either(folder):
    forge(folder / "run.json", lambda run: run.update(seed=run["seed"] + 1))
    reseal(folder)
    assert {"bound set", "assumptions"} <= failed(folder)


def test_a_raised_share_of_delta_is_refused(folder):
    def raise_share(claim):
        claim["ledger"]["linear"] *= 1.5
        claim["ledger"]["bayes"] *= 0.5

    forge_claims(folder, raise_share)
    assert "δ ledger" in failed(folder)
    forge(folder / "run.json", lambda run: run["shares"].update(linear=0.75))  # the other: 0.5
    reseal(folder)
    assert "δ ledger" in failed(folder)


def test_a_ledger_that_overspends_is_refused(folder):
    forge_claims(folder, lambda c: c.update(ledger=dict.fromkeys(c["ledger"], c["delta"])))
    assert "δ ledger" in failed(folder)


def test_a_candidate_cannot_lose_its_certificate(folder):
    forge(folder / "certificate.json", lambda issued: issued["certificates"].pop("bayes"))
    assert "certificates" in failed(folder)


def test_a_certificate_must_state_its_assumptions(folder):
    forge_claims(folder, lambda claim: claim.update(assumptions=[]))
    assert failed(folder) == {"assumptions"}


def test_groups_are_not_bounded_by_the_binomial_tail(fitted, tmp_path):
    _, x, y = fitted
    model = CertifiedClassifier(GaussianNB(), random_state=0)
    model.fit(x, y, groups=np.arange(len(y)) // 2).save(tmp_path / "model")
    forge_claims(tmp_path / "model", lambda claim: claim.update(theorem="held-out"))
    assert failed(tmp_path / "model") == {"losses counted"}


@pytest.mark.parametrize("change", [{"n": 10**6}, {"scale": 2.0}, {"theorem": "kl-chernoff"}])
def test_other_claims_do_not_fit_the_count(folder, change):
    forge_claims(folder, lambda claim: claim.update(change))
    assert "losses counted" in failed(folder)


def test_a_key_may_not_occur_twice(folder):
    path = folder / "certificate.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 1, "format": 1', 1))
    with pytest.raises(ValueError, match="a key occurs twice"):
        failed(folder)


def test_a_type_that_would_execute_code_is_refused_by_name(folder, tmp_path):
    evil = tmp_path / "executed"
    state = {"candidates": {"linear": FunctionTransformer(os.system)}, "evil": str(evil)}
    (folder / "models.skops").write_bytes(skops.io.dumps(state))
    reseal(folder)
    with pytest.raises(ValueError, match=r"holds posix\.system, which is not trusted"):
        pacbayes.load(folder)
    with pytest.raises(ValueError, match=r"posix\.system"):
        failed_fully(folder)


@pytest.mark.parametrize(
    "model", [RandomForestClassifier(3, random_state=0), HistGradientBoostingClassifier(max_iter=3)]
)
def test_a_tree_that_leads_out_of_its_nodes_is_refused(model, fitted, tmp_path):
    _, x, y = fitted
    CertifiedClassifier(model, random_state=0).fit(x, y).save(tmp_path / "model")
    path = tmp_path / "model" / "models.skops"
    good = path.read_bytes()

    def forged(change):
        state = skops.io.loads(good, trusted=skops.io.get_untrusted_types(data=good))
        (estimator,) = state["candidates"].values()
        change(estimator)
        path.write_bytes(skops.io.dumps(state))
        reseal(tmp_path / "model")

    def point_far_away(estimator):
        if hasattr(estimator, "estimators_"):
            estimator.estimators_[0].tree_.children_left[0] = 10**6
        else:
            estimator._predictors[0][0].nodes["left"][0] = 10**6

    def read_too_far(estimator):
        estimator.n_features_in_ = 1

    for change in (point_far_away, read_too_far):
        forged(change)
        with pytest.raises(ValueError, match="a tree leads out of its own nodes"):
            pacbayes.load(tmp_path / "model")
    forged(lambda estimator: None)
    assert (pacbayes.load(tmp_path / "model").predict(x[:9]) >= 0).all()


def forge_models(folder, change):
    path = folder / "models.skops"
    state = skops.io.loads(path.read_bytes(), trusted=skops.io.get_untrusted_types(file=path))
    change(state)
    path.write_bytes(skops.io.dumps(state))
    reseal(folder)


def test_a_claim_about_unanswered_examples_is_none_about_errors(folder):
    forge(folder / "run.json", lambda run: run.update(claims=["unanswered"]))
    forge(
        folder / "certificate.json",
        lambda issued: claim_no_errors(issued["certificates"][issued["chosen"]]),
    )
    reseal(folder)
    assert failed(folder) == {"evidence"}


@pytest.mark.parametrize("words", [{"quantity": "error on Mars"}, {"predictor": "an oracle"}])
def test_what_is_bounded_is_said_as_it_was_counted(folder, words):
    forge_claims(folder, lambda claim: claim.update(words))
    assert failed(folder) == {"words of the certificates"}


def test_free_errors_make_no_error_rate(folder):
    forge(folder / "run.json", lambda run: run.update(costs=[[0, 0], [1, 0]]))
    reseal(folder)
    assert failed(folder) == {"words of the certificates"}


def refused(check, folder):
    """Whether a check fails, or says in a sentence why it cannot be made."""
    try:
        return bool(check(folder))
    except ValueError:
        return True


def swap_classes(state):
    state["attributes"]["classes_"] = state["attributes"]["classes_"][::-1].copy()
    for model in state["candidates"].values():
        model.classes_ = model.classes_[::-1].copy()


def swap_candidates(state):
    first, second = state["candidates"].items()
    state["candidates"] = {first[0]: second[1], second[0]: first[1]}
    state["candidates"] = dict(reversed(state["candidates"].items()))


def add_attribute(state):
    state["attributes"]["predict"] = np.sign


@pytest.mark.parametrize("change", [swap_classes, swap_candidates, add_attribute])
def test_models_answer_for_their_own_names_and_classes(folder, change):
    forge_models(folder, change)
    assert refused(failed_fully, folder)


@pytest.mark.parametrize(
    "fields",
    [{"costs": [[0, 0], [0, 0]]}, {"fraction": 1e308}, {"chosen": "vote"}, {"classes": ["a", "a"]}],
)
def test_impossible_fields_fail_in_a_sentence(folder, fields):
    forge(folder / "run.json", lambda run: run.update(fields))
    if "chosen" in fields:
        forge(folder / "certificate.json", lambda issued: issued.update(fields))
    reseal(folder)
    assert refused(failed, folder)
