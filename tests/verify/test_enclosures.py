"""The verifier's own mathematics: tails, counts of errors, and inverses at the ends."""

import math
import random

import pytest
from flint import arb, ctx

from pacbayes import bounds
from pacbayes.verify import enclosures
from pacbayes.verify.enclosures import THEOREMS, Terms


@pytest.fixture(autouse=True)
def precision():
    with ctx.workprec(128):
        yield


def test_a_rate_counts_as_the_errors_it_stands_for():
    rng = random.Random(0)
    for _ in range(2000):
        n = int(10 ** rng.uniform(0.5, 12))
        k = rng.randrange(1, n)
        assert enclosures._errors(arb(k / n), n) == k
        assert enclosures._errors(arb(k) / n, n) == k
        assert enclosures._errors(arb(math.nextafter(k / n, 1.0)), n) in (k, k + 1)
        assert enclosures._errors(arb(k / n * (1 + 1e-15) + 1e-15), n) == k + 1


@pytest.mark.parametrize("n", [1, 2, 30, 10**4, 10**7])
@pytest.mark.parametrize("delta", [1 - 1e-15, 0.05, 1e-100])
def test_the_tail_is_at_least_the_exact_one_and_near_it_or_negligible(n, delta):
    for k in {0, 1 % n, n // 50, n // 2, n - 1}:
        for p in (1e-6, 0.01, (k + 1) / (n + 1), 0.5, 0.9, 1 - 1e-9):
            found = enclosures._tail(k, n, p, arb(delta))
            with ctx.workprec(600):
                exact = (1 - arb(p)).beta_lower(arb(n - k), arb(k + 1), regularized=True)
            assert not found < exact
            if 1 - exact > 1e-20:  # else it is compared with nothing
                assert found - exact <= 1e-25 * (exact + delta)


def test_few_points_of_the_circle_make_the_tail_larger(monkeypatch):
    monkeypatch.setattr(enclosures.math, "asin", lambda _: 1e-9)
    for p in (0.301, 0.31, 0.4):
        exact = (1 - arb(p)).beta_lower(arb(7000), arb(3001), regularized=True)
        assert enclosures._tail(3000, 10**4, p, arb(0.05)) >= exact


def test_a_wrong_root_costs_time_alone(monkeypatch):
    for k, delta in ((0, 0.99), (40, 0.99), (40, 0.05)):
        terms = Terms(arb(k / 100), arb(0), 100, arb(delta), {})
        monkeypatch.undo()
        value = THEOREMS["held-out"].value(terms)
        for wrong in (0.01, 0.5, 1.0):
            monkeypatch.setattr(enclosures, "_root", lambda *_, wrong=wrong: wrong)
            assert THEOREMS["held-out"].value(terms) == value


def test_a_negative_complexity_leaves_the_risk():
    for risk in (0.0, 1e-300, 1e-30, 0.03, 1.0):  # 1 − 1e-300 has more digits than are computed
        terms = Terms(arb(risk), arb(-1000), 500, arb(0.05), {})
        assert THEOREMS["disintegrated"].value(terms) == arb(risk)
        assert bounds.disintegrated(risk, -1000.0, 500, 0.05) == risk


@pytest.mark.parametrize(("k", "delta"), [(0, 1 - 1e-12), (40, 0.99), (40, 0.6), (99, 1e-3)])
def test_a_bound_below_the_errors_counted_is_accepted(k, delta):
    """With δ above one half the tail's solution may be below k/n."""
    terms = Terms(arb(k / 100), arb(0), 100, arb(delta), {})
    value = THEOREMS["held-out"].value(terms)
    bound = bounds.clopper_pearson(k / 100, 100, delta)
    assert value <= bound <= float(value) * (1 + 1e-6)


def test_a_bound_near_0_is_enclosed_as_closely_as_others():
    """Its distance from 1 has more digits than the precision of the other steps."""
    n, delta = 7947154297, 0.9999999999999969
    value = THEOREMS["held-out-mean"].bound(arb(0), arb(0), n, arb(delta), {})
    assert value <= bounds.kl_chernoff(0.0, n, delta)
