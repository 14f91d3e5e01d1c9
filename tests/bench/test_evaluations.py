"""The engine and PyTorch issue the same certificate and make the same decisions."""

import pytest
import torch

from pacbayes.bench.evaluations import certificates, fits, predictions
from pacbayes.bench.turns import MissingError
from pacbayes.choices import Predictor
from pacbayes.engine.library import available

engine = pytest.mark.skipif(not available(), reason="no native engine")


@engine
@pytest.mark.parametrize(("activation", "classes"), [("relu", 2), ("sign", 2), ("relu", 10)])
def test_both_measure_the_same_risk(activation, classes):
    found = certificates(activation, classes, count=12, few=12)
    ours, other = (entrant.run(0).mean for entrant in found.values())
    assert ours == pytest.approx(other, rel=1e-12)
    assert 0 < ours < 1


@engine
@pytest.mark.parametrize("predictor", [Predictor.RANDOMISED, Predictor.VOTE])
def test_both_decide_alike(predictor):
    ours, other = (e.run(0).index for e in predictions(predictor, count=40, few=40).values())
    assert torch.equal(ours, other)
    assert len(ours) == 40


@engine
def test_few_examples_are_scaled_to_all():
    for found in (
        certificates("relu", count=40, few=8),
        predictions(Predictor.VOTE, count=40, few=8),
    ):
        assert [entrant.scale for entrant in found.values()] == [1, 5]


def test_without_an_engine_there_is_nothing_to_compare(monkeypatch):
    monkeypatch.setattr("pacbayes.bench.evaluations.available", lambda: False)
    with pytest.raises(MissingError, match="the native engine is not built"):
        certificates("relu", count=4, few=4)


def test_both_classifiers_are_fitted():
    assert list(fits(200)) == ["PACBayesClassifier", "MLPClassifier"]
    for entrant in fits(200).values():
        entrant.run(0)
