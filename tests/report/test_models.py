"""The numbers of a model's page are those of its evidence, computed independently."""

import numpy as np
import pytest
from scipy.stats import beta

import pacbayes
from pacbayes.report import collect
from report.folders import COSTS


def steps_of(contents):
    return {step.label: step.points for step in contents.certificates[0].steps}


def clopper_pearson(errors, n, delta):
    return beta.ppf(1 - delta, errors + 1, n - errors)


@pytest.mark.parametrize(("kind", "claims"), [("mean", 1), ("doubt", 3), ("table-model", 4)])
def test_each_part_is_what_the_bound_grows_by(kind, claims, folder_of):
    model = pacbayes.load(folder_of(kind))
    c, found = model.certificate_, steps_of(collect(folder_of(kind)))
    share = model.evidence_.shares[model.chosen_]
    errors, n = round(c.losses), c.n
    grown = [errors / n] + [
        clopper_pearson(errors, n, delta) for delta in (0.05, 0.05 * share, 0.05 * share / claims)
    ]
    parts = dict(zip(("finite sample", "choice among the candidates", "other claims"),
                     np.diff(grown), strict=True))  # fmt: skip
    assert found.pop(f"{c.quantity} on the bound set, counted") == errors / n
    assert found == pytest.approx({k: v for k, v in parts.items() if v > 1e-12}, abs=1e-6)
    assert ("other claims" in found) == (claims > 1)


def test_the_parts_of_a_vote_begin_with_twice_its_weighted_error(folder_of):
    model, e = pacbayes.load(folder_of("vote")), pacbayes.load(folder_of("vote")).evidence_
    wrong = np.array([p != e.labels[e.rows] for p in e.predictions.values()])
    assert model.certificate_.theorem in ("first-order", "tandem")
    weights = e.weights / e.weights.sum()
    once, pairs = weights @ wrong.mean(1), weights @ (wrong @ wrong.T / wrong.shape[1]) @ weights
    own = 2 * once if model.certificate_.theorem == "first-order" else 4 * pairs
    first, *_ = steps_of(collect(folder_of("vote"))).values()
    assert first == pytest.approx(own, rel=1e-6)


def test_a_vote_is_compared_with_a_hold_out_of_as_many_examples(folder_of):
    c = pacbayes.load(folder_of("vote")).certificate_
    held_out = 100 * clopper_pearson(round(c.risk * c.n), c.n, c.delta)
    (shown,) = collect(folder_of("vote")).certificates
    (mark,) = (m for m in shown.marks if m.text.startswith("held-out bound: "))
    assert mark.value == pytest.approx(held_out, abs=1e-6)
    assert any("n unseen examples" in row.label for row in shown.beside)


@pytest.mark.parametrize("kind", ["mean", "costs"])
def test_guessing_is_the_yardstick(kind, folder_of):
    e = pacbayes.load(folder_of(kind)).evidence_
    costs = np.array(COSTS if kind == "costs" else [[0, 1], [1, 0]])
    least = costs[e.labels].mean(0).min()
    row = collect(folder_of(kind)).certificates[0].beside[-1]
    assert " of always answering " in row.label
    assert row.ours == (f"{least:.4g}" if kind == "costs" else f"{100 * least:.2f} %")


@pytest.mark.parametrize("kind", ["mean", "costs", "vote", "doubt", "table-model"])
def test_answers_are_those_of_the_model_itself(kind, folder_of):
    model, (answers,) = pacbayes.load(folder_of(kind)), collect(folder_of(kind)).answers
    e = model.evidence_
    predicted = e.predictions.get(model.chosen_)
    if predicted is None:  # a vote: by a loop over examples
        votes = np.zeros((len(e.rows), len(model.classes_)))
        for weight, labels in zip(e.weights, e.predictions.values(), strict=True):
            for i, label in enumerate(labels):
                votes[i, label] += weight
        predicted = votes.argmax(1)
    labels = e.labels[e.rows]
    assert answers.error == pytest.approx((predicted != labels).mean())
    counts = np.zeros_like(np.array(answers.confusion))
    for label, answer in zip(labels, predicted, strict=True):
        counts[label, answer] += 1
    assert counts.tolist() == [list(row) for row in answers.confusion]
    assert bool(answers.curve) == (kind == "vote")


def test_candidates_are_side_by_side_with_their_own_bounds(folder_of):
    model, found = pacbayes.load(folder_of("mean")), collect(folder_of("mean")).candidates
    for row, mark, (name, c) in zip(
        found.rows, found.marks, model.certificates_.items(), strict=True
    ):
        assert row[1:] == (f"{100 * model.evidence_.shares[name]:.1f} %",
                           f"{c.losses:.0f} of {c.n}", c.shown)  # fmt: skip
        assert (mark.value, mark.reach) == pytest.approx((100 * c.risk, 100 * c.bound))
        assert ("<strong>" in row[0]) == (name == model.chosen_)
