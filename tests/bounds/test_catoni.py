"""Catoni's bound against the theorem in high precision, and against the paper's table."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from pacbayes.bounds import catoni, catoni_lambda
from pacbayes.bounds.catoni import _bound, minimiser
from pacbayes.paper import printed

mpmath.mp.dps = 60

risks = st.floats(0, 1)
kls = st.floats(0, 1e6)
sizes = st.integers(1, 10**7)
deltas = st.floats(1e-12, 0.999)


def exact(risk, kl, n, delta, lam, alpha):
    """The main theorem as printed, in 60 digits."""
    risk, kl, delta, lam, alpha = map(mpmath.mpf, (risk, kl, delta, lam, alpha))
    log = mpmath.log
    union = 2 * log(log(alpha**2 * lam) / log(alpha))
    t = risk + alpha / lam * (kl - log(delta) + union)
    gamma = lam / n
    return (1 - mpmath.exp(-gamma * t)) / (1 - mpmath.exp(-gamma))


@settings(max_examples=500)
@given(risks, kls, sizes, deltas, st.floats(1.001, 1e9), st.floats(1.0001, 3))
def test_never_below_the_theorem_and_within_a_hair_of_it(risk, kl, n, delta, lam, alpha):
    truth = exact(risk, kl, n, delta, lam, alpha)
    value = catoni(risk, kl, n, delta, lam=lam, alpha=alpha)
    assert value >= min(1, truth)
    assert value <= min(1, truth * (1 + 1e-12))


@given(risks, st.floats(0, 1e5), st.integers(8, 10**6), deltas)
def test_no_lambda_on_a_fine_grid_beats_the_chosen_one(risk, kl, n, delta):
    best = catoni(risk, kl, n, delta)
    for k in range(1, 400):
        lam = math.exp(k / 400 * math.log(1000 * n))
        assert catoni(risk, kl, n, delta, lam=lam) >= best - 1e-7


@pytest.mark.parametrize(("column", "result"), list(printed.RESULTS.items()))
def test_the_papers_six_bounds_follow_from_its_losses_and_kls(column, result):
    bound = catoni(result.train_linear, result.kl, printed.N, printed.DELTA)
    assert 100 * bound == pytest.approx(100 * result.bound, abs=0.05)


def test_as_printed_the_papers_swapped_kls_do_not_give_its_bounds():
    sign, relu = printed.RESULTS["fix-lambda", "sign"], printed.RESULTS["fix-lambda", "relu"]
    assert catoni(sign.train_linear, relu.kl, printed.N, printed.DELTA) == pytest.approx(
        0.189, abs=5e-4
    )
    assert catoni(relu.train_linear, sign.kl, printed.N, printed.DELTA) == pytest.approx(
        0.182, abs=5e-4
    )


def test_the_command_line_contract():
    assert catoni(0.0635, 2363, 60000, 0.05) == pytest.approx(0.15523, abs=1e-5)
    assert catoni_lambda(0.0635, 2363, 60000, 0.05) == pytest.approx(59817, rel=1e-3)


@pytest.mark.parametrize(
    "bad", [{"lam": 1.0}, {"lam": math.nan}, {"alpha": 1.0}, {"alpha": math.inf}]
)
def test_lambda_and_alpha_must_be_above_one(bad):
    with pytest.raises(ValueError, match="must be above 1"):
        catoni(0.1, 10, 100, 0.05, **bad)


def test_hopeless_numbers_are_vacuous_not_large():
    assert catoni(1.0, 1e9, 10, 0.05) == 1.0


@pytest.mark.parametrize(("loss", "kl", "bound"), [(0.260, 15020, 0.609), (0.186, 13613, 0.511)])
def test_the_paper_s_printed_losses_of_reinforce_have_bounds_below_one(loss, kl, bound):
    assert catoni(loss, kl, 60_000, 0.05) == pytest.approx(bound, abs=5e-4)


def scipys(f, low, high, tolerance):
    options = {"xatol": tolerance}
    return minimize_scalar(f, bounds=(low, high), method="bounded", options=options).x


@pytest.mark.parametrize(
    "f",
    [
        *(math.cos, math.exp, abs, lambda x: x, lambda x: -x, lambda x: 0.0),
        *(lambda x: (x - 1.7) ** 2, lambda x: math.sin(5 * x) + 0.1 * x),
        *(lambda x: float(x > 1), lambda x: abs(x - 2) ** 0.5),
    ],
)
@pytest.mark.parametrize(("low", "high"), [(-1.0, 4.0), (0.0, 1e-3), (1.0, 30.0)])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-9])
def test_minima_are_scipys_bit_by_bit(f, low, high, tolerance):
    assert minimiser(f, low, high, tolerance) == scipys(f, low, high, tolerance)


def test_minima_of_catonis_bound_are_scipys_bit_by_bit():
    random = np.random.default_rng(0)
    for _ in range(300):
        risk, kl = random.uniform(0, 0.9), random.exponential(1000)
        n, low = int(random.integers(10, 100_000)), random.uniform(0.1, 10)

        def f(x, risk=risk, kl=kl, n=n):
            return _bound(risk, kl, n, 0.05, math.exp(x), 1.1)

        assert minimiser(f, low, low + 0.3, 1e-9) == scipys(f, low, low + 0.3, 1e-9)


def test_what_is_smallest_is_found():
    assert minimiser(lambda x: (x - 1.7) ** 2, 0.0, 5.0, 1e-9) == pytest.approx(1.7, abs=1e-8)
