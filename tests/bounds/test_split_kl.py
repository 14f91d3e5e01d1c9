"""Split-kl: small-kl for two values, and valid for three."""

import math

import pytest
from scipy.stats import multinomial

from pacbayes.bounds import kl_inverse, small_kl, split_kl


def test_with_two_values_it_is_small_kl():
    for risk in (0.0, 0.1, 0.7, 1.0):
        found = split_kl([0, 1], [risk], 30, 500, 0.05)
        assert found == pytest.approx(small_kl(risk, 30, 500, 0.05), rel=1e-12)
        assert found >= small_kl(risk, 30, 500, 0.05) or found == 1


def test_is_its_formula():
    c = (7 + math.log(2 * 2 * math.sqrt(200) / 0.05)) / 200
    expected = -1 + 1 * kl_inverse(0.4, c) + 0.5 * kl_inverse(0.1, c)
    found = split_kl([-1, 0, 0.5], [0.4, 0.1], 7, 200, 0.05)
    assert found == pytest.approx(expected, rel=1e-9)
    assert found >= expected


@pytest.mark.parametrize("delta", [0.05, 0.5])
def test_exact_violation_probability_of_a_loss_with_three_values(delta):
    n = 20
    for p in ((0.9, 0.08, 0.02), (0.5, 0.3, 0.2), (0.1, 0.1, 0.8)):
        truth, violated = 0.5 * p[1] + p[2], 0.0
        for middle in range(n + 1):
            for top in range(n + 1 - middle):
                parts = [(middle + top) / n, top / n]
                if split_kl([0, 0.5, 1], parts, 0.0, n, delta) < truth:
                    violated += multinomial.pmf([n - middle - top, middle, top], n, p)
        assert violated <= delta


@pytest.mark.parametrize(
    ("levels", "parts", "message"),
    [
        ([0], [], "levels must be two or more increasing numbers"),
        ([0, 0], [0.1], "levels must be two or more increasing numbers"),
        ([0, 1], [0.1, 0.1], "2 levels need 1 parts, got 2"),
        ([0, 1, 2], [0.1, 0.2], "parts must not increase"),
        ([0, 1], [1.5], "risk must be in"),
    ],
)
def test_nonsense_is_refused(levels, parts, message):
    with pytest.raises(ValueError, match=message):
        split_kl(levels, parts, 1.0, 100, 0.05)
