"""The Monte-Carlo term covers at least as often as it says."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pacbayes.bounds import (
    bernstein,
    betting,
    clopper_pearson,
    empirical_bernstein,
    kl_chernoff,
    small_kl,
    stratified_bernstein,
    unexpected_bernstein,
)
from pacbayes.bounds.monte_carlo import _bets


@pytest.mark.parametrize("delta", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("draws", [1, 10, 100])
def test_exact_violation_probability_of_bernoulli_draws(draws, delta):
    upper = [kl_chernoff(k / draws, draws, delta) for k in range(draws + 1)]
    for p in (0.001, 0.02, 0.2, 0.5, 0.9, 0.999):
        violated = sum(binom.pmf(k, draws, p) for k in range(draws + 1) if upper[k] < p)
        assert violated <= delta


def test_unequal_weights_count_as_one_over_the_largest():
    """Two weighted coins, every outcome enumerated: N = 1/max w covers, N = 2 would not always."""
    weights, delta = np.array([0.9, 0.1]), 0.25

    def violation(draws, p):
        total = 0.0
        for outcome in itertools.product((0, 1), repeat=2):
            probability = np.prod([p if o else 1 - p for o in outcome])
            total += probability * (kl_chernoff(float(weights @ outcome), draws, delta) < p)
        return total

    grid = np.linspace(0.01, 0.99, 99)
    assert max(violation(1 / weights.max(), p) for p in grid) <= delta
    assert max(violation(2, p) for p in grid) > delta


def test_shrinks_as_draws_grow_and_never_falls_below_the_mean():
    values = [kl_chernoff(0.1, draws, 0.05) for draws in (10, 100, 1000, 10**6)]
    assert values == sorted(values, reverse=True)
    assert 0.1 <= values[-1] < 0.101


@pytest.mark.parametrize("bad", [(-0.1, 10, 0.05), (0.1, 0.5, 0.05), (0.1, 10, 0.0)])
def test_nonsense_is_refused(bad):
    with pytest.raises(ValueError, match="must be"):
        kl_chernoff(*bad)


@pytest.mark.parametrize("delta", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("draws", [2, 10, 100])
def test_exact_violation_probability_of_bernsteins(draws, delta):
    counts = range(draws + 1)
    for p in (0.001, 0.02, 0.2, 0.5, 0.9, 0.999):
        known = [bernstein(k / draws, p * (1 - p), draws, delta) for k in counts]
        sample = [k * (draws - k) / draws / (draws - 1) for k in counts]
        unknown = [empirical_bernstein(k / draws, sample[k], draws, delta) for k in counts]
        for upper in (known, unknown):
            assert sum(binom.pmf(k, draws, p) for k in counts if upper[k] < p) <= delta


def test_bernstein_is_the_root_of_its_equation():
    found = bernstein(0.05, 0.01, 5000, 0.02)
    e = found - 0.05
    assert 5000 * e**2 / (2 * (0.01 + e / 3)) == pytest.approx(-np.log(0.02), rel=1e-9)


def test_empirical_bernstein_is_its_formula():
    log = np.log(2 / 0.02)
    expected = 0.05 + np.sqrt(2 * 0.01 * log / 5000) + 7 * log / (3 * 4999)
    assert empirical_bernstein(0.05, 0.01, 5000, 0.02) == pytest.approx(expected, rel=1e-12)


def test_stratified_bernstein_covers_and_is_tighter_where_examples_differ():
    """300 coins of known biases, T = 10 each: violations in 2000 repetitions, all seeded."""
    rng = np.random.default_rng(0)
    p = np.concatenate([np.full(280, 0.01), np.full(20, 0.95)])
    T, delta, violated, wins = 10, 0.1, 0, 0
    for _ in range(2000):
        x = (rng.random((T, 300)) < p).astype(float)
        within = (0.5 * (x[::2] - x[1::2]) ** 2).mean()
        upper = stratified_bernstein(x.mean(), within, x.size / 2, x.size, delta)
        violated += upper < p.mean()
        wins += upper < kl_chernoff(x.mean(), x.size, delta)
    # At most δ; were it exactly δ, a count this high would come once in 10⁵.
    assert violated <= binom.ppf(1 - 1e-5, 2000, delta)
    assert wins > 1900


def test_stratified_bernstein_with_a_wrong_variance_would_not_cover():
    """The test above can fail: with half the variance and no Chernoff term it does."""
    rng = np.random.default_rng(1)
    x = (rng.random((4000, 3000)) < 0.5).mean(1)
    upper = np.array([bernstein(m, 0.25 * 0.2, 3000, 0.1) for m in x])
    assert (upper < 0.5).mean() > 0.15


def test_betting_covers_and_gains_on_quiet_draws():
    rng = np.random.default_rng(2)
    violated = 0
    for _ in range(1000):
        violated += betting(rng.beta(0.2, 1.8, 200), 0.1) < 0.1
    assert violated <= binom.ppf(1 - 1e-5, 1000, 0.1)
    quiet = rng.normal(0.3, 0.01, 2000).clip(0, 1)
    assert betting(quiet, 0.05) < kl_chernoff(quiet.mean(), 2000, 0.05)
    assert betting(quiet, 0.05) > 0.3


def test_bets_are_fixed_before_each_draw():
    """Bets up to a draw stay what they were whatever comes from that draw on."""
    rng = np.random.default_rng(3)
    x = rng.random(2000)
    bets = _bets(x, 0.05)
    for k in (0, 1, 17, 1999):
        other = np.concatenate([x[:k], 1 - x[k:]])
        assert np.array_equal(_bets(other, 0.05)[: k + 1], bets[: k + 1])
    assert 0 < bets.min() < bets.max() <= 0.5


@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-6])
def test_betting_ends_where_one_over_delta_was_won(delta):
    x = np.random.default_rng(4).beta(1, 9, 3000)
    m = betting(x, delta)
    won = np.log1p(_bets(x, delta) * (m - x)).sum()
    assert won == pytest.approx(-np.log(delta), rel=1e-6)
    assert won >= -np.log(delta)


@pytest.mark.parametrize(
    "call",
    [
        lambda: bernstein(0.1, -1, 10, 0.1),
        lambda: empirical_bernstein(0.1, 0.1, 1, 0.1),
        lambda: empirical_bernstein(0.1, -0.1, 10, 0.1),
        lambda: stratified_bernstein(0.1, 0.6, 5, 10, 0.1),
        lambda: betting([], 0.1),
        lambda: betting([1.5], 0.1),
        lambda: betting([0.5], 1.0),
    ],
)
def test_more_nonsense_is_refused(call):
    with pytest.raises(ValueError, match="must be"):
        call()


@pytest.mark.parametrize("n", [1, 2, 37, 300, 5000, 10**6])
@pytest.mark.parametrize("delta", [0.5, 0.05, 0.0125, 0.01, 1e-10])
def test_clopper_pearson_is_above_the_exact_quantile_and_near_it(n, delta):
    for errors in {min(k, n - 1) for k in (0, 1, 2, 5, n // 50, n // 3, n - 1)}:
        bound = clopper_pearson(errors / n, n, delta)
        if bound == 1:  # within rounding of it
            assert delta ** (1 / n) < 1e-9 or errors == n - 1
            continue
        assert _tail(errors, n, bound) <= arb(delta)
        assert _tail(errors, n, bound * (1 - 3e-9)) >= arb(delta)


def _tail(errors, n, p):
    """P(Bin(n, p) ≤ errors) in interval arithmetic."""
    with ctx.workprec(600):
        return (1 - arb(p)).beta_lower(arb(n - errors), arb(errors + 1), regularized=True)


def test_clopper_pearson_counts_the_errors_of_a_rate_exactly():
    for n in range(1, 300):
        for errors in range(1, n):
            expected = clopper_pearson((errors - 0.5) / n, n, 0.05)
            assert clopper_pearson(errors / n, n, 0.05) == expected


mpmath.mp.dps = 60


@given(
    st.floats(0, 1), st.floats(0, 1), st.floats(0, 1e5), st.integers(1, 10**7), st.floats(1e-9, 0.9)
)
def test_is_the_least_over_its_grid_rounded_up(risk, V, kl, n, delta):
    V = max(V, risk**2)
    k = max(1, math.ceil(math.log2(0.5 * math.sqrt(n / -math.log(delta)))))

    def at(i):
        g = mpmath.mpf(2) ** -i
        price = (mpmath.mpf(kl) + mpmath.log(k / mpmath.mpf(delta))) / (n * g)
        return mpmath.mpf(risk) + (-mpmath.log(1 - g) - g) / g * mpmath.mpf(V) + price

    truth = min(at(i) for i in range(1, k + 1))
    found = unexpected_bernstein(risk, kl, n, delta, second_moment=V)
    assert min(1, truth) <= found <= min(1, truth * (1 + 1e-11) + 1e-14)


@pytest.mark.parametrize("n", [1, 8, 30, 200])
@pytest.mark.parametrize("delta", [0.01, 0.05, 0.5])
def test_exact_violation_probability_without_learning_is_at_most_delta(n, delta):
    bounds = [unexpected_bernstein(k / n, 0.0, n, delta) for k in range(n + 1)]
    for p in (0.001, 0.01, 0.1, 0.3, 0.5, 0.9):
        violated = sum(binom.pmf(k, n, p) for k in range(n + 1) if bounds[k] < p)
        assert violated <= delta


def test_a_loss_that_varies_little_is_worth_something():
    little = unexpected_bernstein(0.3, 500, 60000, 0.05, second_moment=0.09)
    assert little < unexpected_bernstein(0.3, 500, 60000, 0.05)
    assert little < small_kl(0.3, 500, 60000, 0.05)


def test_nonsense_is_refused_by_bernstein():
    with pytest.raises(ValueError, match=r"second_moment must be in \[risk², 1\], got 2"):
        unexpected_bernstein(0.1, 1, 10, 0.05, second_moment=2)
    with pytest.raises(ValueError, match="second_moment must be"):
        unexpected_bernstein(0.5, 1, 10, 0.05, second_moment=0.1)


@pytest.mark.parametrize("V", [0.0, 1e-6, 0.3, 1.0])
@pytest.mark.parametrize("n", [10**k for k in range(8, 16)])
def test_a_tiny_bound_is_neither_below_the_exact_one_nor_far_above(n, V):
    """−ln(1 − γ) − γ loses digits for small γ, which best suit large n."""
    for i in range(30):
        kl, delta = i / 7, 0.05
        k = math.ceil(math.log2(0.5 * math.sqrt(n / -math.log(delta))))
        with mpmath.workdps(60):
            price = mpmath.mpf(kl) + mpmath.log(k / mpmath.mpf(delta))
            gammas = (mpmath.mpf(2) ** -i for i in range(1, k + 1))
            exact = min((-mpmath.log1p(-g) - g) / g * V + price / (n * g) for g in gammas)
            found = unexpected_bernstein(0.0, kl, n, delta, second_moment=V)
            assert exact <= found <= exact * (1 + mpmath.mpf("1e-6"))
