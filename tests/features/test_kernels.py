"""Kernels against independent formulas: integrals over random layers, series, exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from pacbayes.features.kernels import Kernel


def points(n=5, d=4):
    return np.random.default_rng(0).normal(size=(n, d)) * 0.6


def test_a_polynomial_is_exact_in_fractions():
    x = points(3)
    k = Kernel.parse("0.5*linear^3 + 0.25*linear + 2")(x, x)
    for i in range(3):
        for j in range(3):
            c = sum(Fraction(a) * Fraction(b) for a, b in zip(x[i], x[j], strict=True))
            assert k[i, j] == pytest.approx(float(c**3 / 2 + c / 4 + 2), rel=1e-14)


def test_an_arc_cosine_is_what_an_infinite_layer_of_relus_has():
    """2·E[relu(w·a)·relu(w·b)], w ~ N(0, I), by quadrature over the angle of the plane of a, b."""
    x = points(4)
    turns = np.linspace(0, 2 * np.pi, 200_000, endpoint=False)
    for i, j in ((0, 1), (1, 2), (3, 3)):
        a, b = np.linalg.norm(x[i]), np.linalg.norm(x[j])
        angle = np.arccos(np.clip(x[i] @ x[j] / (a * b), -1, 1))
        relus = np.maximum(np.cos(turns), 0) * np.maximum(np.cos(turns - angle), 0)
        expected = 2 * a * b * 2 * relus.mean()  # E r² = 2 in the plane
        assert Kernel.parse("arc-cosine")(x, x)[i, j] == pytest.approx(expected, rel=1e-8)


def test_a_deep_arc_cosine_is_the_kernel_of_the_kernel():
    x = points()
    one = Kernel.parse("arc-cosine")(x, x)
    values, vectors = np.linalg.eigh(one)
    features = vectors * np.sqrt(np.maximum(values, 0))
    two = Kernel.parse("arc-cosine")(features, features)
    assert np.allclose(Kernel.parse("arc-cosine^2")(x, x), two, atol=1e-12)


def test_a_gaussian_is_a_series_of_powers():
    x = points(2)
    g, (a, b) = 0.7, x
    c = a @ b
    series = sum((2 * g * c) ** p / float(np.prod(np.arange(1.0, p + 1))) for p in range(40))
    expected = np.exp(-g * (a @ a + b @ b)) * series
    assert Kernel.parse("gaussian^0.7")(x, x)[0, 1] == pytest.approx(expected, rel=1e-12)


def test_sums_and_products_are_those_of_their_parts():
    x = points()
    one, two = (Kernel.parse(t)(x, x) for t in ("linear^2", "gaussian^0.5"))
    both = Kernel.parse("2*linear^2*gaussian^0.5 + 3*linear^2 + 0.5")(x, x)
    assert np.allclose(both, 2 * one * two + 3 * one + 0.5, rtol=1e-14)


@pytest.mark.parametrize("text", ["linear^4 + 0.1", "arc-cosine^3", "gaussian^2*linear + linear^2"])
def test_a_kernel_has_no_negative_eigenvalue_and_the_diagonal_is_its_own(text):
    k, x = Kernel.parse(text), points(12)
    assert np.linalg.eigvalsh(k(x, x)).min() > -1e-12
    assert np.allclose(k.diagonal(x), np.diag(k(x, x)), rtol=1e-13)
    assert Kernel.parse(str(k)) == k


@pytest.mark.parametrize("text", ["0.98*linear^5 + 0.02", "arc-cosine^3", "gaussian^3*linear"])
def test_the_error_bound_covers_other_orders_of_summation(text):
    """Values of permuted and of extended precision differ by less than the bound."""
    k = Kernel.parse(text)
    x = np.random.default_rng(1).normal(size=(40, 300))
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    bound = k.error(300, 1.001)
    other = k(x[:, ::-1], x[:, ::-1])
    assert 0 < np.abs(k(x, x) - other).max() < bound < 1e-11
    wide = x.astype(np.longdouble)
    c = (wide @ wide.T).astype(float)
    a = np.square(wide).sum(1).astype(float)
    assert np.abs(k._sum(c, a[:, None], a) - k(x, x)).max() < bound


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("poly5", "'poly5'"),
        ("-1*linear", "positive"),
        ("linear - 0.5", "linear - 0.5"),
        ("linear^2.5", "whole number"),
        ("arc-cosine^4", "depth"),
        ("gaussian^0", "positive"),
        ("", "''"),
        ("nan*linear", "positive"),
    ],
)
def test_what_is_not_a_kernel_is_refused_by_name(text, said):
    with pytest.raises(ValueError, match=said.replace("*", r"\*")):
        Kernel.parse(text)


@pytest.mark.parametrize("text", ["linear", "arc-cosine", "gaussian"])
def test_the_error_bound_grows_with_the_number_of_features(text):
    k = Kernel.parse(text)
    assert k.error(100_000, 1.0) - k.error(0, 1.0) >= 100_000 * 2.0**-53
