"""A certificate in words: every part is named, and the parts add up."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from pacbayes import Settings, build_network, certify, train
from pacbayes.certificates.explanation import (
    above_constant,
    beside,
    largest_class,
    layer_of,
    sentence,
    steps,
)
from pacbayes.data import DataSource
from pacbayes.folders.prediction import TestErrors as Errors
from pacbayes.folders.record import DataRecord, RunRecord

ERRORS = Errors(randomised=0.05, vote=0.03, votes=100, n=10, drawn=0.04)
LABELS = np.array(["no"] * 94 + ["yes"] * 6)


@pytest.fixture(scope="module")
def issued():
    torch.manual_seed(0)
    x = torch.randn(200, 3)
    settings = Settings.of("fast", "relu", widths=(4, 4), epochs=4, batch_size=50)
    network = build_network(settings, inputs=3)
    train(network, x, x[:, 0].sign(), settings)
    return {b: certify(network, x, x[:, 0].sign(), bound=b) for b in ("small-kl", "tandem")}


def record(name="binary-mnist", widths=(100, 100, 100)):
    source = DataRecord(
        source=DataSource(name), train_sha256="", n=10, features=3, classes=("a", "b")
    )
    settings = Settings.of("fast", "relu", widths=widths)
    return RunRecord(settings=settings, data=source, prior_sha256="", versions={})


@pytest.mark.parametrize("bound", ["small-kl", "tandem"])
def test_the_steps_add_up_to_the_bound(issued, bound):
    found = list(steps(issued[bound]))
    assert math.fsum(s.points for s in found) == pytest.approx(issued[bound].bound, abs=1e-12)
    assert [s.kind for s in found] == ["risk", "monte-carlo", "sample", "kl", "kl", "kl"]
    assert [s.label.removeprefix("learned in ") for s in found[3:]] == [
        *("layer 1", "layer 2"),
        "the last layer",
    ]


def test_what_is_multiplied_says_so(issued):
    assert next(steps(issued["small-kl"])).label == "training risk, sampled"
    assert next(steps(issued["tandem"])).label == "training risk of pairs, four times, sampled"
    labels = [row.label for row in beside(issued["tandem"], None, record())]
    assert "training risk of pairs" in labels
    assert not any("linear loss" in label or "Catoni" in label for label in labels)


def test_the_sentence_says_who_and_over_what(issued):
    text = sentence(issued["small-kl"])
    assert "over the choice of the 200 examples in the bound set and of the sampled" in text
    assert "new examples of the\nrandomised classifier: fresh weights" in text
    assert "of the sampled" not in sentence(replace(issued["small-kl"], draws=None))


def test_the_papers_numbers_stand_beside_comparable_runs_only(issued):
    rows = {r.label: r.theirs for r in beside(issued["small-kl"], ERRORS, record())}
    assert rows["test error, randomised"] == "6.51 %"
    assert rows["training risk (linear loss)"] == "6.35 %"
    assert rows["bound in the paper's way (Catoni, no Monte-Carlo)"] == "15.50 %"
    assert rows["KL(Q|P)"] == "2363"
    for other in (record("digits"), record(widths=(100,))):
        assert {r.theirs for r in beside(issued["small-kl"], ERRORS, other)} == {"–"}


def test_layers_are_counted_from_one():
    assert layer_of("body.layers.0.weight") == "layer 1"
    assert layer_of("body.layers.11.bias") == "layer 12"
    assert layer_of("layer.weight") == "the last layer"


def test_the_largest_class_errs_on_all_others():
    assert largest_class(LABELS) == ("no", pytest.approx(0.06))
    assert largest_class([2, 1, 1, 3]) == (1, 0.5)


def test_every_group_counts_the_same():
    groups = np.array([0] * 94 + [1, 2, 3] * 2)  # one group of no, three of yes
    assert largest_class(LABELS, groups) == ("yes", pytest.approx(0.25))


def test_a_bound_above_the_constant_answer_is_remarked_on():
    assert above_constant(0.0964, LABELS) == (
        "The certificate of 9.64 % is above the 6.00 % error of always answering 'no', the largest "
        "class: certify the error on each class (--per-class, per_class=), weight the classes, or "
        "give more data."
    )
    assert above_constant(0.05, LABELS) is None
    assert above_constant(largest_class(LABELS)[1], LABELS) is None
