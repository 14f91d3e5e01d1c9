"""Catoni's bound at a C fixed in advance: rounded up, tight, violated no more often than δ."""

import itertools
import math

import mpmath
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from pacbayes.bounds import (
    catoni_fixed,
    disintegrated_fixed,
    fixed_c_grid,
    kl_inverse,
    small_kl,
)

mpmath.mp.dps = 50
RISKS, KLS, DELTAS = st.floats(0, 1), st.floats(0, 1e5), st.floats(1e-9, 0.5)
SIZES = st.integers(1, 10**7)
CS = st.floats(1e-4, 30)
WAYS = [{"C": 0.6}, {"C": (0.3, 0.6, 1.2)}, {"guess": 0.1}, {}]


def single(risk, total, n, C):
    """The theorem at one C as printed, in 50 digits."""
    risk, C = mpmath.mpf(risk), mpmath.mpf(C)
    return (1 - mpmath.exp(-C * risk - total / n)) / (1 - mpmath.exp(-C))


def wealth(p, risk, n, grid):
    """ln (1/k) Σ exp(n[−ln(1 − p(1 − e^{−C})) − C·risk]) in 50 digits."""
    p, risk = mpmath.mpf(p), mpmath.mpf(risk)
    logs = [
        n * (-mpmath.log(1 - p * (1 - mpmath.exp(-C))) - C * risk) for C in map(mpmath.mpf, grid)
    ]
    top = max(logs)
    return top + mpmath.log(sum(mpmath.exp(log - top) for log in logs) / len(grid))


def total(kl, delta):
    return mpmath.mpf(kl) - mpmath.log(mpmath.mpf(delta))


@given(RISKS, KLS, st.integers(1, 10**15), st.floats(1e-300, 0.9999), st.floats(1e-9, 700))
def test_one_c_is_the_theorem_rounded_up(risk, kl, n, delta, C):
    truth = single(risk, total(kl, delta), n, C)
    assert min(1, truth) <= catoni_fixed(risk, kl, n, delta, C=C) <= min(1, truth * (1 + 1e-12))


@settings(deadline=None)
@given(RISKS, KLS, SIZES, DELTAS, st.lists(CS, min_size=2, max_size=6))
def test_a_mixture_is_the_root_of_its_equation_rounded_up(risk, kl, n, delta, grid):
    p = catoni_fixed(risk, kl, n, delta, C=grid)
    goal = total(kl, delta)
    assert p >= risk
    assert p == 1 or wealth(p, risk, n, grid) >= goal
    if p * (1 - 1e-12) > risk:
        assert wealth(mpmath.mpf(p) * (1 - mpmath.mpf("1e-12")), risk, n, grid) <= goal


@settings(deadline=None)
@given(RISKS, KLS, SIZES, DELTAS, st.lists(CS, min_size=2, max_size=6))
def test_a_mixture_is_at_most_the_union_bound_and_no_better_than_all_c(risk, kl, n, delta, grid):
    p = catoni_fixed(risk, kl, n, delta, C=grid)
    union = min(single(risk, total(kl, delta / len(grid)), n, C) for C in grid)
    assert p <= min(1, union * (1 + 1e-12))
    assert p >= kl_inverse(risk, (kl - math.log(delta)) / n) * (1 - 1e-9)


@given(st.floats(0.001, 0.9), st.floats(0, 1e4), st.integers(100, 10**7), DELTAS)
def test_the_best_c_gives_small_kl_without_its_surcharge(risk, kl, n, delta):
    p = kl_inverse(risk, (kl - math.log(delta)) / n)
    assume(p < 1 - 1e-9)
    best = math.log(p * (1 - risk) / (risk * (1 - p)))
    assert catoni_fixed(risk, kl, n, delta, C=best) == pytest.approx(p, rel=1e-7)
    for C in (best / 3, best * 0.9, best * 1.1, best * 3):
        assert catoni_fixed(risk, kl, n, delta, C=C) >= p * (1 - 1e-12)


def test_the_example_of_300_examples_and_5_percent():
    """8.7 % at the best C, 9.0 % with a good guess, 9.5 % without, 10.9 % by small-kl."""
    best = fixed_c_grid(300, 0.05)[-1]
    assert catoni_fixed(0.05, 0, 300, 0.05, C=best) == pytest.approx(0.0869, abs=1e-4)
    assert catoni_fixed(0.05, 0, 300, 0.05, guess=0.05) == pytest.approx(0.0896, abs=1e-4)
    assert catoni_fixed(0.05, 0, 300, 0.05) == pytest.approx(0.0946, abs=1e-4)
    assert small_kl(0.05, 0, 300, 0.05) == pytest.approx(0.10876, abs=1e-5)


@pytest.mark.parametrize("n", [1, 8, 60])
@pytest.mark.parametrize("delta", [0.01, 0.05, 0.5])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_exact_violation_probability_without_learning_is_at_most_delta(way, n, delta):
    """With Q = P a single hypothesis of risk p, errors are binomial: enumerate them all."""
    bounds = [catoni_fixed(k / n, 0.0, n, delta, **way) for k in range(n + 1)]
    for p in (0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99):
        violated = sum(binom.pmf(k, n, p) for k in range(n + 1) if bounds[k] < p)
        assert violated <= delta


@pytest.mark.parametrize("delta", [0.05, 0.3])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_exact_violation_probability_of_two_hypotheses_for_all_posteriors_at_once(way, delta):
    """P uniform on two independent hypotheses; a sample is bad if any of 21 posteriors is."""
    n, weights = 15, [i / 20 for i in range(21)]
    kls = [sum(v * math.log(2 * v) for v in (w, 1 - w) if v) for w in weights]
    counts = list(itertools.product(range(n + 1), repeat=2))
    values = [
        [catoni_fixed((w * a + (1 - w) * b) / n, kl, n, delta, **way) for a, b in counts]
        for w, kl in zip(weights, kls, strict=True)
    ]
    for p, q in ((0.02, 0.02), (0.1, 0.3), (0.3, 0.3), (0.4, 0.5)):
        risks = [w * p + (1 - w) * q for w in weights]
        bad = [
            any(v[i] < r for v, r in zip(values, risks, strict=True)) for i in range(len(counts))
        ]
        chances = (binom.pmf(a, n, p) * binom.pmf(b, n, q) for a, b in counts)
        assert sum(c for c, violated in zip(chances, bad, strict=True) if violated) <= delta


@pytest.mark.parametrize("delta", [0.05, 0.5])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_exact_violation_probability_of_the_best_of_three_kept(way, delta):
    """Q is all on the classifier that errs least, P uniform: dQ/dP = 3 there."""
    n = 8
    bounds = [disintegrated_fixed(k / n, math.log(3), n, delta, **way) for k in range(n + 1)]
    for risks in ((0.1, 0.25, 0.5), (0.4, 0.4, 0.4), (0.7, 0.7, 0.8)):
        violated = 0.0
        for errors in itertools.product(range(n + 1), repeat=3):
            best = min(range(3), key=errors.__getitem__)
            if bounds[errors[best]] < risks[best]:
                chances = (binom.pmf(k, n, p) for k, p in zip(errors, risks, strict=True))
                violated += math.prod(chances)
        assert violated <= delta


def test_exact_violation_probability_where_the_ratio_is_below_one():
    """P is all on one classifier except for 1 %, Q uniform: its log-ratio is ln(½/0.99) < 0."""
    n, delta, prior, risks = 20, 0.3, (0.99, 0.01), (0.3, 0.4)
    violated = 0.0
    for weight, p in zip(prior, risks, strict=True):
        ratio = math.log(0.5 / weight)
        bounds = [disintegrated_fixed(k / n, ratio, n, delta, C=1.0) for k in range(n + 1)]
        violated += sum(0.5 * binom.pmf(k, n, p) for k in range(n + 1) if bounds[k] < p)
    assert violated <= delta


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_bound_grows_with_risk_and_kl_and_falls_with_n_and_delta(way):
    def rises(values):
        return all(a < b for a, b in itertools.pairwise(values))

    way = way if "C" in way else {"C": fixed_c_grid(500, **way)}
    assert rises([catoni_fixed(r, 2, 500, 0.05, **way) for r in (0, 0.01, 0.1, 0.3, 0.6)])
    assert rises([catoni_fixed(0.1, kl, 500, 0.05, **way) for kl in (0, 0.1, 1, 10, 60)])
    assert rises([catoni_fixed(0.1, 2, n, 0.05, **way) for n in (10**6, 5000, 500, 60)])
    assert rises([catoni_fixed(0.1, 2, 500, d, **way) for d in (0.5, 0.05, 0.01, 1e-9)])


@given(RISKS, KLS, SIZES, DELTAS)
def test_a_drawn_network_pays_its_log_ratio_in_place_of_the_kl(risk, ratio, n, delta):
    of_q = catoni_fixed(risk, ratio, n, delta, C=0.7)
    assert of_q <= disintegrated_fixed(risk, ratio, n, delta, C=0.7) <= of_q * (1 + 1e-9)


def test_each_network_kept_pays():
    five = disintegrated_fixed(0.05, 3.0, 600, 0.05, C=0.6, networks=5)
    assert five == pytest.approx(catoni_fixed(0.05, 3.0, 600, 0.01, C=0.6), rel=1e-9)
    assert five > disintegrated_fixed(0.05, 3.0, 600, 0.05, C=0.6)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_drawn_network_far_below_its_prior_is_not_bounded_below_its_risk(way):
    for ratio in (-1000.0, -1e300, math.log(0.05)):
        assert disintegrated_fixed(0.05, ratio, 600, 0.05, **way) >= 0.05
    floored = single(0.05, 0, 600, 0.6)
    found = disintegrated_fixed(0.05, -1000.0, 600, 0.05, C=0.6)
    assert floored <= found <= floored + 1e-12


@given(st.integers(1, 10**15))
def test_the_grid_halves_c_from_3_to_where_half_of_all_answers_are_wrong(n):
    grid = fixed_c_grid(n)
    assert grid[0] == 3
    assert [a / b for a, b in itertools.pairwise(grid)] == pytest.approx(
        [2] * (len(grid) - 1), 0.01
    )
    assert len(grid) == 1 or 2.48 / math.sqrt(n) <= grid[-1] <= 5.02 / math.sqrt(n)


@given(st.floats(0, 0.6), st.integers(30, 10**6))
def test_a_guess_has_half_of_the_weight_near_the_best_c(guess, n):
    grid, half = fixed_c_grid(n, guess), len(fixed_c_grid(n))
    assert grid[:half] == fixed_c_grid(n)
    assert set(grid[half:]) == {grid[-1]}
    assert len(grid) == 2 * half
    risk = max(guess, 0.25 / n)
    best = kl_inverse(risk, 3 / n)  # what the best C gives at δ = e⁻³
    assert catoni_fixed(risk, 0, n, math.exp(-3), C=grid[-1]) <= best + 0.1 * (best - risk) + 1e-9


@given(RISKS, st.integers(1, 10**15), st.floats(1e-300, 0.999999))
def test_every_guess_gives_a_grid_and_a_bound(guess, n, delta):
    grid = fixed_c_grid(n, guess)
    assert all(0 < C < 100 for C in grid)
    assert all(float(f"{C:.3g}") == C for C in grid)
    assert 0 < catoni_fixed(guess, 0.0, n, delta, guess=guess) <= 1


@pytest.mark.parametrize("factor", [0.25, 0.5, 2, 4])
@pytest.mark.parametrize("n", [300, 2500, 30_000])
@pytest.mark.parametrize("kl", [0, 1, 3])
def test_a_guess_four_times_off_or_none_still_beats_small_kl(factor, n, kl):
    for risk in (0.01, 0.05, 0.15):
        for way in ({"guess": risk * factor}, {"guess": 0.0}, {}):
            assert catoni_fixed(risk, kl, n, 0.05, **way) < small_kl(risk, kl, n, 0.05)


def test_the_grid_needs_an_example():
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        fixed_c_grid(0)


@pytest.mark.parametrize("bound", [catoni_fixed, disintegrated_fixed])
@pytest.mark.parametrize(
    ("arguments", "free", "message"),
    [
        ((-0.1, 1, 100, 0.05), {"C": 1}, "risk must be in"),
        ((math.nan, 1, 100, 0.05), {"C": 1}, "risk must be in"),
        ((0.1, math.inf, 100, 0.05), {"C": 1}, "must be finite"),
        ((0.1, 1, 0, 0.05), {"C": 1}, "n must be at least 1"),
        ((0.1, 1, 100, 0.0), {"C": 1}, "delta must be in"),
        ((0.1, 1, 100, 0.05), {"C": 0}, "C must be positive and finite, got 0"),
        ((0.1, 1, 100, 0.05), {"C": math.nan}, "C must be positive and finite, got nan"),
        ((0.1, 1, 100, 0.05), {"C": math.inf}, "C must be positive and finite, got inf"),
        ((0.1, 1, 100, 0.05), {"C": ()}, "C must be positive and finite"),
        ((0.1, 1, 100, 0.05), {"C": (1, -1)}, "C must be positive and finite"),
        ((0.1, 1, 100, 0.05), {"C": 1, "guess": 0.1}, "give C or a guess of the risk, not both"),
        ((0.1, 1, 100, 0.05), {"guess": 1.5}, r"guess of the risk must be in \[0, 1\], got 1.5"),
        ((0.1, 1, 100, 0.05), {"guess": math.nan}, "guess of the risk must be in"),
    ],
)
def test_arguments_outside_the_theorem_are_refused(bound, arguments, free, message):
    with pytest.raises(ValueError, match=message):
        bound(*arguments, **free)


def test_other_nonsense_is_refused():
    with pytest.raises(ValueError, match="kl must be finite and at least 0, got -1"):
        catoni_fixed(0.1, -1, 100, 0.05, C=1)
    with pytest.raises(ValueError, match="networks must be a whole number"):
        disintegrated_fixed(0.1, 1, 100, 0.05, C=1, networks=1.5)


@pytest.mark.parametrize("delta", [0.9995, 1 - 1e-6, 1 - 1e-10, 1 - 2**-53])
@pytest.mark.parametrize("n", [1, 50, 10**6, 10**12])
def test_a_price_of_next_to_nothing_raises_the_risk_by_next_to_nothing(n, delta):
    """ln(1/δ) drowns in ln k and in the roundings of a sum of k terms near 1."""
    grid, goal = (0.01, 0.3, 1.0), total(0, delta)
    for p in (
        catoni_fixed(0.0, 0.0, n, delta, C=grid),
        disintegrated_fixed(0.0, 0.0, n, delta, C=grid),
    ):
        assert wealth(p, 0.0, n, grid) >= goal
        assert wealth(mpmath.mpf(p) * (1 - mpmath.mpf("1e-6")), 0.0, n, grid) < goal
    assert disintegrated_fixed(0.0, -5.0, n, delta, C=grid) < 1e-300
