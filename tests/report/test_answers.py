"""Errors of the vote are counted exactly."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from pacbayes.certificates.certificate import read_certificate
from pacbayes.choices import Predictor
from pacbayes.report import answers, training
from pacbayes.report.answers import Answers, confusion, coverage, image_of, picture
from pacbayes.report.training import answers_of


def brute_force(margins, wrong):
    """Return the number answered and their error, for every threshold that occurs."""
    found = []
    for threshold in sorted(set(margins), reverse=True):
        kept = [w for m, w in zip(margins, wrong, strict=True) if m >= threshold]
        found.append((threshold, len(kept), sum(kept) / len(kept)))
    return found


def test_coverage_agrees_with_brute_force():
    rng = np.random.default_rng(0)
    margins = rng.integers(0, 12, 60) / 12  # with ties
    wrong = (rng.random(60) < 1 - margins).astype(float)
    curve = coverage(margins, wrong)
    expected = brute_force(margins.tolist(), wrong.tolist())
    assert [(c.margin, c.answered, c.error) for c in curve] == expected
    assert [c.fraction for c in curve] == [c.answered / 60 for c in curve]


def test_a_long_curve_is_reduced_to_some_of_its_points():
    rng = np.random.default_rng(1)
    margins, wrong = rng.random(3000), (rng.random(3000) < 0.3).astype(float)
    curve = coverage(margins, wrong)
    whole = {(c[1], c[2]) for c in brute_force(margins.tolist(), wrong.tolist())}
    assert len(curve) <= 200
    assert {(c.answered, c.error) for c in curve} <= whole
    assert curve[-1].fraction == 1


def test_where_a_vote_is_unanimous_nothing_is_doubtful():
    shares = np.array([[1.0, 0.0], [0.6, 0.4], [0.0, 1.0], [0.4, 0.6]])
    none = Answers("who", "test", "here", 0.0, (), ("a", "b"), "")
    labels, numbers = np.array([0, 0, 1, 1]), np.arange(4)
    found = none.with_confidence(shares, labels, np.zeros(4), numbers, "")
    assert [d.number for d in found.doubtful] == [1, 3]


def test_confusion_counts_labels_in_rows():
    labels, votes = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 1, 0, 2])
    assert confusion(labels, votes, 3) == ((1, 1, 0), (0, 1, 0), (1, 0, 1))
    votes[3] = -1  # no class
    assert confusion(labels, votes, 3) == ((1, 1, 0, 0), (0, 1, 0, 0), (0, 0, 1, 1))


@pytest.mark.parametrize("predictor", Predictor)
def test_errors_are_those_of_the_test_error(made, table_run, predictor):
    run = table_run if predictor is Predictor.FIXED else made
    found, errors = answers_of(run, run.load_network(), run.load_data(), predictor)
    if predictor is Predictor.FIXED:
        assert [a.part for a in found] == ["training"] * 2
        assert errors is None
        certificate = read_certificate(run.certificate_path(predictor))
        assert found[0].error == pytest.approx(certificate.risk)
        return
    test = json.loads((run.folder / "test.json").read_text())
    assert asdict(errors) == test
    assert found[0].where == "the 20 test examples"
    assert found[0].error == test[predictor.value]
    assert found[-1].error == test["vote"] == found[-1].curve[-1].error
    assert len(found) == (1 if predictor is Predictor.VOTE else 2)


def test_an_example_of_a_sample_has_the_vote_that_it_has_among_all(uncertified, monkeypatch):
    network, data = uncertified.load_network(), uncertified.load_data()
    monkeypatch.setattr(answers, "_SHOWN", 120)
    (whole,), _ = answers_of(uncertified, network, data)
    assert whole.where == "the 120 training examples in the bound set"
    by_number = {d.number: d for d in whole.doubtful}
    for d in whole.doubtful:
        assert d.features == tuple(data.x_train[d.number].tolist())
    monkeypatch.setattr(training, "_VOTED_ON", 50)
    (sample,), _ = answers_of(uncertified, network, data)
    assert sample.where.startswith("50 training examples, drawn at random from the 120 ")
    assert all(by_number[d.number] == d for d in sample.doubtful)
    assert len({d.number for d in sample.doubtful}) == 50
    assert sample.error == np.mean([d.first != d.label for d in sample.doubtful])
    assert sum(map(sum, sample.confusion)) == 50
    assert (sample.range, sample.image) == (whole.range, whole.image)
    assert sample == answers_of(uncertified, network, data)[0][0]


def test_a_test_set_is_voted_on_as_a_whole(made, contents, monkeypatch):
    monkeypatch.setattr(training, "_VOTED_ON", 5)
    (vote,), _ = answers_of(made, made.load_network(), made.load_data(), Predictor.VOTE)
    assert vote.curve == contents.answers[-1].curve


def test_the_least_certain_examples_come_first(contents):
    doubtful = contents.answers[-1].doubtful
    margins = [d.first_share - d.second_share for d in doubtful]
    assert margins == sorted(margins)
    assert min(margins) >= 0
    assert margins[0] == pytest.approx(min(c.margin for c in contents.answers[-1].curve))
    for d in doubtful:
        assert d.first_share + d.second_share == pytest.approx(1)
        assert {d.first, d.second} == set(contents.answers[-1].classes)


def test_only_large_squares_without_negative_values_are_images(contents, images):
    assert contents.answers[-1].image is None
    assert image_of(np.ones((2, 64)), None) == (1, 8, 8)
    assert image_of(-np.ones((2, 64)), None) is None
    assert image_of(np.ones((2, 49)), None) is None
    (found,), _ = answers_of(images, images.load_network(), images.load_data())
    assert found.image == (1, 8, 8)


def test_images_of_a_known_shape_have_one_channel_or_three():
    x = -np.ones((2, 48))
    assert image_of(x, (3, 4, 4)) == (3, 4, 4)
    assert image_of(x, (6, 8)) == (1, 6, 8)
    assert image_of(x, (1, 6, 8)) == (1, 6, 8)
    assert image_of(np.ones((2, 64)), (64,)) == (1, 8, 8)
    assert image_of(x, (2, 4, 6)) is None
    assert image_of(x, (3, 2, 2, 4)) is None


def test_grey_is_ink_on_paper_and_colours_are_as_they_are():
    grey = picture([0, 1, 2, 4, 3, 0], (1, 2, 3), (0, 4))
    np.testing.assert_array_equal(grey, [[255, 191, 128], [0, 64, 255]])
    colours = picture([-1, 1, 0, 1, 1, -1], (3, 1, 2), (-1, 1))  # two pixels: red, green, blue
    np.testing.assert_array_equal(colours, [[[0, 128, 255], [255, 255, 0]]])
    np.testing.assert_array_equal(picture([0.0], (1, 1, 1), (0, 0)), [[255]])
