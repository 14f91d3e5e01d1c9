import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbayes.bounds import mcallester, small_kl

arguments = (st.floats(0, 1), st.floats(0, 1e5), st.integers(8, 10**7), st.floats(1e-9, 0.999))


@given(*arguments)
def test_rounded_up_and_within_a_hair(risk, kl, n, delta):
    with mpmath.workdps(60):
        complexity = mpmath.mpf(kl) + mpmath.log(2 * mpmath.sqrt(n) / mpmath.mpf(delta))
        truth = mpmath.mpf(risk) + mpmath.sqrt(complexity / (2 * n))
        assert min(1, truth) <= mcallester(risk, kl, n, delta) <= min(1, truth * (1 + 1e-12))


def test_needs_eight_examples():
    with pytest.raises(ValueError, match="n must be at least 8"):
        mcallester(0.1, 1, 7, 0.05)


@given(*arguments)
def test_never_tighter_than_small_kl_from_which_it_follows_by_pinsker(risk, kl, n, delta):
    assert mcallester(risk, kl, n, delta) >= small_kl(risk, kl, n, delta) - 1e-9
