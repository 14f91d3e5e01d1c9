"""Langford–Seeger and its relaxations: rounded up, ordered, violated no more often than δ."""

import itertools
import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, multinomial

from pacbayes.bounds import (
    binary_kl,
    catoni_c,
    kl_inverse,
    mcallester,
    quadratic,
    small_kl,
    split_kl,
    thiemann,
)

mpmath.mp.dps = 60
ARGUMENTS = (st.floats(0, 1), st.floats(0, 1e5), st.integers(8, 10**7), st.floats(1e-9, 0.999))
ALL = [small_kl, mcallester, quadratic, thiemann, catoni_c]


def formula(bound, risk, c, parameter):
    """Each relaxation as its theorem has it, to sixty digits."""
    r = mpmath.mpf(risk)
    if bound is mcallester:
        return r + mpmath.sqrt(c / 2)
    if bound is quadratic:
        return (mpmath.sqrt(r + c / 2) + mpmath.sqrt(c / 2)) ** 2
    x = mpmath.mpf(parameter)
    if bound is thiemann:
        return r / (1 - x / 2) + c / (x * (1 - x / 2))
    return (1 - mpmath.exp(-x * r - c)) / (1 - mpmath.exp(-x))


@pytest.mark.parametrize("bound", ALL[1:])
@given(*ARGUMENTS, st.floats(1e-3, 1.999))
def test_relaxations_are_their_formulas_rounded_up(bound, risk, kl, n, delta, parameter):
    c = (mpmath.mpf(kl) + mpmath.log(2 * mpmath.sqrt(n) / mpmath.mpf(delta))) / n
    given_it = {thiemann: {"lam": parameter}, catoni_c: {"C": parameter}}.get(bound, {})
    truth = formula(bound, risk, c, parameter)
    assert min(1, truth) <= bound(risk, kl, n, delta, **given_it) <= min(1, truth * (1 + 1e-12))


@pytest.mark.parametrize("bound", ALL[1:])
@given(*ARGUMENTS)
def test_relaxations_are_never_tighter(bound, risk, kl, n, delta):
    assert bound(risk, kl, n, delta) >= small_kl(risk, kl, n, delta) - 1e-9


@given(st.floats(0.001, 0.9), st.floats(0, 1e4), st.integers(100, 10**7), st.floats(1e-9, 0.999))
def test_the_best_parameters_are_the_best(risk, kl, n, delta):
    best = small_kl(risk, kl, n, delta)
    if best < 1:
        assert catoni_c(risk, kl, n, delta) == pytest.approx(best, rel=1e-7)
    at = thiemann(risk, kl, n, delta)
    for lam in (0.01, 0.1, 0.5, 1.0, 1.5, 1.9):
        assert at <= thiemann(risk, kl, n, delta, lam=lam) * (1 + 1e-12)


def test_parameters_outside_their_range_are_refused():
    with pytest.raises(ValueError, match=r"lambda must be in \(0, 2\), got 2"):
        thiemann(0.1, 1, 100, 0.05, lam=2)
    with pytest.raises(ValueError, match="C must be positive and finite, got 0"):
        catoni_c(0.1, 1, 100, 0.05, C=0)


@given(st.floats(0, 1), st.floats(0, 1e5), st.integers(8, 10**7), st.floats(1e-9, 0.999))
def test_at_or_beyond_the_exact_inverse(risk, kl, n, delta):
    p = small_kl(risk, kl, n, delta)
    if p < 1:
        q, p = mpmath.mpf(risk), mpmath.mpf(p)
        value = q * mpmath.log(q / p) if q else mpmath.mpf(0)
        value += (1 - q) * mpmath.log((1 - q) / (1 - p)) if q < 1 else mpmath.mpf(0)
        bound = (mpmath.mpf(kl) + mpmath.log(2 * mpmath.sqrt(n) / mpmath.mpf(delta))) / n
        assert value >= bound


def test_is_the_root_of_its_equation():
    p = small_kl(0.05, 2000, 60000, 0.05)
    right = (2000 + math.log(2 * math.sqrt(60000) / 0.05)) / 60000
    assert binary_kl(0.05, p) == pytest.approx(right, rel=1e-9)


@pytest.mark.parametrize("n", [8, 30, 200])
@pytest.mark.parametrize("delta", [0.01, 0.05, 0.5])
@pytest.mark.parametrize("bound", ALL)
def test_exact_violation_probability_without_learning_is_at_most_delta(bound, n, delta):
    """With Q = P a single hypothesis of risk p, errors are binomial: enumerate them all."""
    bounds = [bound(k / n, 0.0, n, delta) for k in range(n + 1)]
    for p in (0.001, 0.01, 0.1, 0.3, 0.5, 0.9):
        violated = sum(binom.pmf(k, n, p) for k in range(n + 1) if bounds[k] < p)
        assert violated <= delta


@pytest.mark.parametrize("n", [8, 25])
@pytest.mark.parametrize("delta", [0.05, 0.3])
@pytest.mark.parametrize("bound", ALL)
def test_exact_violation_probability_of_two_hypotheses_for_all_posteriors_at_once(bound, n, delta):
    """P uniform on two independent hypotheses; a sample is bad if any of 21 posteriors is."""
    weights = [i / 20 for i in range(21)]
    kls = [sum(v * math.log(2 * v) for v in (w, 1 - w) if v) for w in weights]
    counts = list(itertools.product(range(n + 1), repeat=2))
    values = [
        [bound((w * a + (1 - w) * b) / n, k, n, delta) for a, b in counts]
        for w, k in zip(weights, kls, strict=True)
    ]
    for p, q in ((0.02, 0.02), (0.1, 0.3), (0.4, 0.5)):
        risks = [w * p + (1 - w) * q for w in weights]
        bad = [
            any(v[i] < r for v, r in zip(values, risks, strict=True)) for i in range(len(counts))
        ]
        chances = (binom.pmf(a, n, p) * binom.pmf(b, n, q) for a, b in counts)
        assert sum(c for c, violated in zip(chances, bad, strict=True) if violated) <= delta


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-0.1, 1, 100, 0.05), "risk must be in"),
        ((math.nan, 1, 100, 0.05), "risk must be in"),
        ((0.1, -1, 100, 0.05), "kl must be finite"),
        ((0.1, math.inf, 100, 0.05), "kl must be finite"),
        ((0.1, 1, 7, 0.05), "n must be at least 8 and at most"),
        ((0.1, 1, 100, 0.0), "delta must be in"),
        ((0.1, 1, 100, 1.0), "delta must be in"),
    ],
)
@pytest.mark.parametrize("bound", ALL)
def test_arguments_outside_the_theorem_are_refused(bound, arguments, message):
    with pytest.raises(ValueError, match=message):
        bound(*arguments)


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
