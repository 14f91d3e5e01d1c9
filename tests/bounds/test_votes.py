"""Votes and drawn networks: formulas, and violations enumerated."""

import itertools
import math

import pytest
from scipy.stats import binom, multinomial

from pacbayes.bounds import (
    c_bound,
    disintegrated,
    first_order,
    kl_inverse,
    kl_inverse_below,
    small_kl,
    tandem,
)


def test_first_order_doubles_the_gibbs_bound():
    assert first_order(0.05, 100, 6000, 0.05) == 2 * small_kl(0.05, 100, 6000, 0.05)
    assert first_order(0.6, 100, 6000, 0.05) == 1


def test_tandem_is_four_times_the_bound_of_pairs():
    c = (2 * 100 + math.log(2 * math.sqrt(6000) / 0.05)) / 6000
    assert tandem(0.01, 100, 6000, 0.05) == pytest.approx(4 * kl_inverse(0.01, c), rel=1e-12)
    assert tandem(0.01, 100, 6000, 0.05) >= 4 * kl_inverse(0.01, c)


def test_c_bound_is_its_formula():
    logs = math.log(4 * math.sqrt(60000) / 0.05)
    r = kl_inverse(0.1, (50 + logs) / 60000)
    d = kl_inverse_below(0.15, (100 + logs) / 60000)
    found = c_bound(0.1, 0.15, 50, 60000, 0.05)
    assert found == pytest.approx(1 - (1 - 2 * r) ** 2 / (1 - 2 * d), rel=1e-9)
    assert c_bound(0.49, 0.3, 1000, 6000, 0.05) == 1
    assert c_bound(0.5, 0.0, 0.0, 60000, 0.05) == 1  # r just above one half


@pytest.mark.parametrize("delta", [0.05, 0.4])
@pytest.mark.parametrize(
    "joint", [(0.9, 0.04, 0.04, 0.02), (0.6, 0.2, 0.15, 0.05), (0.97, 0.01, 0.01, 0.01)]
)
def test_exact_violation_probability_for_a_vote_of_two(joint, delta):
    """Q = P uniform on two classifiers; joint probabilities of who errs: none, one, other, both.

    A tie counts as an error, so the vote errs wherever anyone does.
    """
    n, vote = 12, 1 - joint[0]
    violated = dict.fromkeys(("first", "tandem", "c"), 0.0)
    for one, other, both in itertools.product(range(n + 1), repeat=3):
        if one + other + both > n:
            continue
        weight = multinomial.pmf([n - one - other - both, one, other, both], n, joint)
        risk, pair = (0.5 * (one + other) + both) / n, (0.25 * (one + other) + both) / n
        disagreement = 0.5 * (one + other) / n
        violated["first"] += weight * (first_order(risk, 0.0, n, delta) < vote)
        violated["tandem"] += weight * (tandem(pair, 0.0, n, delta) < vote)
        violated["c"] += weight * (c_bound(risk, disagreement, 0.0, n, delta) < vote)
    assert max(violated.values()) <= delta


@pytest.mark.parametrize("delta", [0.05, 0.5])
def test_exact_violation_probability_of_the_best_of_three_kept(delta):
    """Q is all on the classifier that errs least, P uniform: dQ/dP = 3 there."""
    n, risks = 8, (0.1, 0.25, 0.5)
    violated = 0.0
    for errors in itertools.product(range(n + 1), repeat=3):
        weight = math.prod(binom.pmf(k, n, p) for k, p in zip(errors, risks, strict=True))
        best = min(range(3), key=errors.__getitem__)
        bound = disintegrated(errors[best] / n, math.log(3), n, delta)
        violated += weight * (bound < risks[best])
    assert violated <= delta


def test_each_network_kept_pays():
    one = disintegrated(0.05, 300.0, 6000, 0.05)
    assert disintegrated(0.05, 300.0, 6000, 0.05, networks=10) > one
    assert one == pytest.approx(small_kl(0.05, 300.0, 6000, 0.05), rel=1e-9)
    assert disintegrated(0.05, 300.0, 6000, 0.05, networks=10) == pytest.approx(
        small_kl(0.05, 300.0, 6000, 0.005), rel=1e-9
    )
    assert disintegrated(0.05, -1000.0, 6000, 0.05) == pytest.approx(0.05, abs=1e-6)


def test_the_lower_inverse_is_below_and_tight():
    for q in (0.0, 1e-9, 0.1, 0.5, 0.999, 1.0):
        for c in (0.0, 1e-6, 0.01, 1.0, 50.0):
            p = kl_inverse_below(q, c)
            assert 0 <= p <= q
            assert p == pytest.approx(1 - kl_inverse(1 - q, c), abs=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: c_bound(0.1, 0.6, 1, 100, 0.05), "disagreement must be at most 1/2"),
        (lambda: tandem(-1, 1, 100, 0.05), "risk must be"),
        (lambda: disintegrated(0.1, math.nan, 100, 0.05), "log_ratio must be finite"),
        (lambda: disintegrated(0.1, 1.0, 100, 0.05, networks=0), "networks must be a whole"),
        (lambda: disintegrated(0.1, 1.0, 100, 0.05, networks=1.5), "networks must be a whole"),
        (lambda: disintegrated(0.1, 1.0, 100, 0.05, networks=math.nan), "networks must be a whole"),
    ],
)
def test_nonsense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_many_networks_at_the_smallest_delta_do_not_overflow():
    found = disintegrated(0.1, 5.0, 10**9, 1e-299, networks=10**6)
    assert found == pytest.approx(
        disintegrated(0.1, 5.0 + math.log(10), 10**9, 1e-298, networks=10**6)
    )
    assert found < 0.1005
