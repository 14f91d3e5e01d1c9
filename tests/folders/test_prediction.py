"""Which predictor predicted, in the labels of the data."""

import numpy as np
import pytest

from pacbayes import Settings, folders
from pacbayes.choices import Predictor
from pacbayes.data import DataError, DataSource
from pacbayes.files import DamagedFileError, load_json, save_json
from pacbayes.folders import prediction
from pacbayes.folders.prediction import certified_predictor, predict
from pacbayes.folders.prediction import test_errors as errors_of
from pacbayes.folders.preparation import prepare
from pacbayes.networks import predictors
from pacbayes.networks.predictors import Decisions, prior_weights, scores

SETTINGS = Settings.of("fast", "relu", widths=(5,), epochs=6, evaluate_every=2, batch_size=32)


def trained(folder, source):
    data = source.load()
    run = prepare(folder, SETTINGS, source, data)
    for _ in folders.train_run(run, data):
        pass
    return run


def test_predictions_name_their_predictor_and_use_the_datas_labels(tmp_path, source):
    run = trained(tmp_path / "run", source)
    by_chance = predict(run, source.test, "randomised", samples=1, seed=0, label=None)
    assert by_chance.predictor.startswith("randomised classifier")
    assert set(by_chance.labels) <= {"yes", "no"}
    assert by_chance.votes is None
    by_vote = predict(run, source.test, "vote", samples=200, seed=0, label=None)
    assert "not covered" in by_vote.predictor
    assert len(by_vote.votes) == 20
    wrong = [
        label != ("yes" if vote > 0 else "no")
        for label, vote in zip(by_vote.labels, by_vote.votes, strict=True)
    ]
    assert not any(wrong)
    assert by_vote.error <= 0.5


def test_test_errors_are_those_of_the_test_part(tmp_path, source):
    run = trained(tmp_path / "run", source)
    errors = errors_of(run, run.load_network(), run.load_data())
    assert errors.n == 20
    assert 0 <= errors.vote <= 1
    alone = DataSource(source.name)
    run = trained(tmp_path / "alone", alone)
    assert errors_of(run, run.load_network(), run.load_data()) is None


def test_a_named_data_set_of_another_width_is_refused(tmp_path, source):
    run = trained(tmp_path / "run", source)
    with pytest.raises(DataError, match="digits: 64 features, but the network takes 4"):
        predict(run, "digits", "vote", samples=1, seed=0, label=None)


def test_predictions_point_the_right_way(tmp_path, source):
    """A linear classifier of separable classes errs far less than half, by either method."""
    settings = Settings.of("fast", "relu", widths=(), epochs=100, lam=1e4)
    data = source.load()
    run = prepare(tmp_path / "run", settings, source, data)
    for _ in folders.train_run(run, data):
        pass
    for method in ("randomised", "vote"):
        assert predict(run, source.name, method, samples=50, seed=0, label=None).error < 0.25
    errors = errors_of(run, run.load_network(), data)
    assert errors.vote < 0.25
    assert errors.randomised < 0.4


def test_each_error_is_that_of_its_own_predictor(tmp_path, source, monkeypatch):
    run = trained(tmp_path / "run", source)
    data = run.load_data()
    labels, asked = data.tensors("test")[1], []

    def decide(network, predictor, x, *, seed, samples, sampler):
        asked.append(samples)
        return Decisions((labels < 0).long(), 0.1 * labels)  # labels wrong, votes right

    monkeypatch.setattr(prediction, "decide", decide)
    errors = errors_of(run, run.load_network(), data)
    assert (errors.randomised, errors.vote) == (1.0, 0.0)
    assert set(asked) == {errors.votes} == {100}


def test_a_vote_has_the_samples_asked_for(tmp_path, source, monkeypatch):
    run, asked = trained(tmp_path / "run", source), []
    of_content = predictors.Places.of_content
    monkeypatch.setattr(
        predictors.Places,
        "of_content",
        lambda x, seed, draws: (asked.append(draws), of_content(x, seed, draws))[1],
    )
    predict(run, source.test, "vote", samples=7, seed=0, label=None)
    assert set(asked) == {7}


def test_a_kept_network_predicts_the_class_of_its_largest_score(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    x = (3 * np.eye(3)[y] + 0.3 * rng.normal(size=(300, 3))).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    source = DataSource(str(tmp_path / "data.npz"))
    settings = Settings.of("fast", "relu", widths=(), epochs=3, prior_fraction=0.5)
    run = prepare(tmp_path / "run", settings, source, source.load())
    for _ in folders.train_run(run, source.load()):
        pass
    with pytest.raises(ValueError, match="has no drawn network"):
        predict(run, source.name, "drawn", samples=1, seed=0, label=None)
    asked = {"delta": 0.05, "bound": "disintegrated", "samples": None}
    folders.certify_run(run, run.load_network(), source.load(), **asked)
    for method in ("randomised", "vote", "drawn"):
        found = predict(run, source.name, method, samples=20, seed=0, label=None)
        assert found.error < 0.1, method
    path = run.folder / "drawn.safetensors"
    path.write_bytes(path.read_bytes()[:-8] + bytes(8))
    with pytest.raises(ValueError, match="is not the network that certificate-drawn"):
        predict(run, source.name, "drawn", samples=1, seed=0, label=None)


def test_the_predictor_with_the_lowest_certificate_predicts_by_default(tmp_path, source):
    run = trained(tmp_path / "run", source)
    assert certified_predictor(run) is Predictor.RANDOMISED
    data = source.load()
    folders.certify_run(run, run.load_network(), data, delta=0.05, bound="small-kl", samples=2)
    record = load_json(run.certificate_path(Predictor.RANDOMISED)) | {"bound": 0.4}
    for predictor, bound in ((Predictor.VOTE, 0.3), (Predictor.FIXED, 0.2), (Predictor.DRAWN, 0.4)):
        save_json(run.certificate_path(predictor), record | {"bound": bound})
    assert certified_predictor(run) is Predictor.FIXED
    prediction = predict(run, source.name, "fixed", samples=1, seed=0, label=None)
    assert prediction.predictor == Predictor.FIXED.sentence
    network = run.load_network()
    x = source.load().tensors("train")[0]
    index = network.task.decide(scores(network, prior_weights(network), x.double()))
    assert prediction.labels == [run.record.data.classes[i] for i in index.tolist()]
    save_json(run.certificate_path(Predictor.DRAWN), [])
    with pytest.raises(DamagedFileError, match=r"certificate-drawn\.json is damaged"):
        certified_predictor(run)
