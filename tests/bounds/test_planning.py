"""Plans: the bound of the expected count, the spread of that count, and the smallest n of all."""

import itertools
import math
from fractions import Fraction

import pytest
from scipy.stats import binom

from pacbayes.bounds import catoni_fixed, clopper_pearson, small_kl
from pacbayes.bounds.planning import Plan, Split
from pacbayes.training.priors import split as split_examples

HALF = (Split(0.5, 0.03),)


def by_method(rows):
    return {row.method: row for row in rows}


def test_the_typical_bound_is_that_of_the_expected_errors_rounded_up():
    rows = by_method(Plan((Split(0.25, 0.03),), kl=2.0, data_free_kl=300.0).expected(5000))
    assert {row.bound_set for row in rows.values()} == {1250, 5000}
    risk = 38 / 1250  # 37.5 errors expected
    assert rows["held-out"].typical == clopper_pearson(risk, 1250, 0.05)
    assert rows["small-kl"].typical == small_kl(risk, 2.0, 1250, 0.025)
    assert rows["catoni-fixed"].typical == catoni_fixed(risk, 2.0, 1250, 0.025, guess=0.03)
    assert rows["data-free"].typical == small_kl(0.03, 300.0, 5000, 0.025)
    assert rows["data-free"].fraction == 1


def test_a_data_free_prior_has_the_error_of_the_smallest_split():
    plan = Plan((Split(0.5, 0.04), Split(0.2, 0.03), Split(0.7, 0.05)), data_free_kl=100.0)
    (*_, row) = plan.expected(1000)
    assert (row.method, row.bound_set, row.error) == ("data-free", 1000, 0.03)


@pytest.mark.parametrize("error", [0.0, 0.003, 0.03, 0.3])
@pytest.mark.parametrize("n", [40, 1000, 40_000])
def test_the_cautious_bound_is_enough_in_nine_of_ten_samples(n, error):
    m = n // 2
    k = next(k for k in itertools.count() if binom.cdf(k, m, error) >= 0.9)
    k = max(k, math.ceil(Fraction(str(error)) * m))  # never less than typical
    rows = by_method(Plan((Split(0.5, error),)).expected(n))
    assert rows["held-out"].cautious == clopper_pearson(max(0.0, (k - 0.5) / m), m, 0.05)
    assert rows["small-kl"].cautious == small_kl(k / m, 1.0, m, 0.025)
    assert rows["catoni-fixed"].cautious == catoni_fixed(k / m, 1.0, m, 0.025, guess=error)


def test_whole_numbers_of_errors_are_not_rounded_up():
    """0.07 · 100 is just above 7 in floating point, and so is 7/25 · 25 for some sizes."""
    row = by_method(Plan((Split(0.5, 0.07),)).expected(200))["held-out"]
    assert row.typical == clopper_pearson(0.065, 100, 0.05)
    for m in range(10, 60):
        for k in range(m):
            plan = Plan((Split(0.5, k / m),))
            found = by_method(plan.expected(2 * m))["held-out"].typical
            exact = clopper_pearson(float(Fraction(2 * k - 1, 2 * m)) if k else 0.0, m, 0.05)
            assert found == exact


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.4, 0.5, 0.75])
def test_the_bound_set_is_the_one_that_training_leaves(fraction):
    for n in range(100, 140):
        _, bound_set = split_examples(n, 1 - fraction, seed=0)
        assert Plan((Split(fraction, 0.1),)).expected(n)[0].bound_set == len(bound_set)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "bound"), [(0.03, 0.1), (0.03, 0.06), (0.0, 0.02), (0.1, 0.2), (0.2, 0.28)]
)
@pytest.mark.parametrize("cautious", [False, True])
def test_no_smaller_n_gives_the_bound(error, bound, cautious):
    """Look at every n from the smallest on: the bound jumps up with each further error."""
    plan = Plan((Split(0.5, error),), data_free_kl=3.0)

    def of(row):
        return row.cautious if cautious else row.typical

    needed = {row.method: of(row) for row in plan.needed(bound)}
    first = {}
    for n in range(16, max(needed.values()) + 1):
        for row in plan.expected(n):
            if row.method not in first and of(row) <= bound:
                first[row.method] = n
    assert first == needed


def test_needed_examples_share_the_size_of_the_bound_set():
    plan = Plan((Split(0.2, 0.03), Split(0.5, 0.03)))
    for bound in (0.05, 0.04):
        small, half = plan.needed(bound)[:3], plan.needed(bound)[3:]
        for a, b in zip(small, half, strict=True):
            assert a.typical == pytest.approx(2.5 * b.typical, abs=3)
            assert a.cautious == pytest.approx(2.5 * b.cautious, abs=3)
            assert a.cautious > a.typical


def test_a_looser_bound_needs_fewer_examples_and_a_larger_kl_more():
    at = {b: by_method(Plan(HALF).needed(b)) for b in (0.04, 0.05, 0.1)}
    for method in at[0.05]:
        assert at[0.04][method].typical > at[0.05][method].typical > at[0.1][method].typical
    more = by_method(Plan(HALF, kl=5.0).needed(0.05))
    assert more["small-kl"].typical > at[0.05]["small-kl"].typical
    assert more["held-out"] == at[0.05]["held-out"]
    assert at[0.05]["held-out"].typical < at[0.05]["catoni-fixed"].typical
    assert at[0.05]["catoni-fixed"].typical < at[0.05]["small-kl"].typical


@pytest.mark.slow
def test_a_search_without_end_says_so():
    rows = by_method(Plan(HALF, data_free_kl=1e6).needed(0.031))
    assert (rows["data-free"].typical, rows["data-free"].cautious) == (None, None)
    assert rows["held-out"].typical is not None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Split(0.0, 0.1), "a split must be between 0 and 1, got 0"),
        (lambda: Split(1.0, 0.1), "a split must be between 0 and 1, got 1"),
        (lambda: Split(math.nan, 0.1), "a split must be"),
        (lambda: Split(0.5, 1.0), "an error must be at least 0 and below 1, got 1"),
        (lambda: Split(0.5, math.nan), "an error must be"),
        (lambda: Plan(()), "at least one split"),
        (lambda: Plan(HALF, kl=-1.0), "kl must be finite and at least 0, got -1"),
        (lambda: Plan(HALF, data_free_kl=math.inf), "kl must be finite"),
        (lambda: Plan(HALF, data_free_kl=math.nan), "kl must be finite"),
        (lambda: Plan(HALF, delta=1.0), "delta must be in"),
        (lambda: Plan(HALF).expected(0), "n must be between 1 and"),
        (lambda: Plan(HALF).expected(10**10), "n must be between 1 and"),
        (lambda: Plan(HALF).expected(10), "leaves 5 of 10 examples for the bound; it needs at"),
        (lambda: Plan(HALF).needed(0.03), "must be above the error 0.03 and below 1, got 0.03"),
        (lambda: Plan(HALF).needed(1.0), "must be above the error"),
        (lambda: Plan(HALF).needed(math.nan), "must be above the error"),
    ],
)
def test_nonsense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
