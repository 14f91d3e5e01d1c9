"""Which predictor predicted, in the labels of the data."""

import pytest

from pacbayes import Settings, runs
from pacbayes.data import DataError
from pacbayes.predictions import predict
from pacbayes.predictions import test_errors as errors_of

SETTINGS = Settings.of("fast", "relu", widths=(5,), epochs=6, evaluate_every=2, batch_size=32)


def trained(folder, source):
    data = source.load()
    run = runs.prepare(folder, SETTINGS, source, data)
    for _ in runs.train_run(run, data):
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
    alone = runs.DataSource(source.name)
    run = trained(tmp_path / "alone", alone)
    assert errors_of(run, run.load_network(), run.load_data()) is None


def test_a_named_data_set_of_another_width_is_refused(tmp_path, source):
    run = trained(tmp_path / "run", source)
    with pytest.raises(DataError, match="digits: 64 features, but the network takes 4"):
        predict(run, "digits", "vote", samples=1, seed=0, label=None)
