"""A certificate above the error of a constant answer says so."""

import numpy as np
import pytest

from pacbayes.certificates.explanation import above_constant, largest_class

LABELS = np.array(["no"] * 94 + ["yes"] * 6)


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
