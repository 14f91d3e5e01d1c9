"""The nearest name, whatever its case; silence where none is near."""

import pytest

from pacbayes.spelling import did_you_mean

NAMES = ("binary-mnist", "mnist", "digits")


@pytest.mark.parametrize(
    ("word", "meant"), [("minst", "mnist"), ("MNIST", "mnist"), ("binary-mnits", "binary-mnist")]
)
def test_a_name_written_almost_right_is_found(word, meant):
    assert did_you_mean(word, NAMES) == f"; did you mean {meant!r}?"


def test_nothing_is_guessed_where_nothing_is_near():
    assert did_you_mean("wine", NAMES) == ""
    assert did_you_mean("", NAMES) == ""
