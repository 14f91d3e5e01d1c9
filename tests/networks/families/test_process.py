"""The Gaussian process family: its law, its KL, and that AGAᵀ ≼ I is shown, not believed."""

import dataclasses
import math

import mpmath
import numpy as np
import pytest
from scipy import integrate
from scipy.special import ndtr
from scipy.stats import norm

from pacbayes.features.kernels import Kernel
from pacbayes.networks.families.process import Process, directions, divergence

LINEAR, RICH = Kernel.parse("linear"), Kernel.parse("0.9*linear^3 + arc-cosine + 0.1")


def points(n, d=6, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, d))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def process(kernel=RICH, count=4, outputs=1, seed=1):
    rng = np.random.default_rng(seed)
    basis = directions(kernel, points(12), count)
    K = len(basis.matrix)
    return Process(basis, rng.normal(size=(K, outputs)), rng.normal(size=K) * 0.5 - 0.7)


def test_the_law_of_a_score_is_that_of_the_whole_gaussian():
    """Q by its definition: condition (h(x), u) on u, then give u another law."""
    q, x = process(), points(5, seed=3)
    basis = q.directions
    k = RICH(np.concatenate([x, basis.landmarks]), np.concatenate([x, basis.landmarks]))
    A = np.block([[np.eye(5), np.zeros((5, 12))], [np.zeros((len(basis.matrix), 5)), basis.matrix]])
    joint = A @ k @ A.T
    h, u = slice(0, 5), slice(5, None)
    joint[u, u] = np.eye(len(basis.matrix))  # ξ adds I − AGAᵀ to u
    assert np.linalg.eigvalsh(joint).min() > -1e-9  # a law that exists
    gain = joint[h, u] @ np.linalg.inv(joint[u, u])
    mean = gain @ q.mean[:, 0]
    left = joint[h, h] - gain @ joint[u, h]
    variance = np.diag(left + gain @ np.diag(np.exp(2 * q.log_scale)) @ gain.T)
    found_mean, found_variance, _ = q.moments(basis.coordinates(x))
    assert np.allclose(found_mean[:, 0], mean, atol=1e-12)
    assert np.allclose(found_variance, variance, atol=1e-12)


def test_at_the_prior_every_score_has_the_variance_of_the_kernel():
    q, x = process(), points(7, seed=4)
    at_prior = Process(q.directions, 0 * q.mean, 0 * q.log_scale)
    mean, variance, _ = at_prior.moments(q.directions.coordinates(x))
    assert np.allclose(variance, RICH.diagonal(x), rtol=1e-12)
    assert not mean.any()
    assert at_prior.kl == 0


def test_what_the_directions_do_not_reach_keeps_the_priors_variance():
    """Attack: without k(x, x) − |z|² the predictor would depend on data outside Q."""
    basis = directions(LINEAR, np.eye(4, 6, dtype=np.float32)[:2], 2)
    far = np.eye(6, dtype=np.float32)[5:]
    q = Process(basis, np.ones((2, 1)), np.full(2, -3.0))
    mean, variance, _ = q.moments(basis.coordinates(far))
    assert mean[0, 0] == 0
    assert variance[0] == pytest.approx(1, abs=1e-9)


def test_the_closed_form_risk_is_that_of_drawn_heads():
    """Heads of a linear kernel are vectors: 4000 are drawn (false alarm 6·10⁻⁷)."""
    q, rng = process(LINEAR, count=3), np.random.default_rng(5)
    basis, x = q.directions, points(40, seed=6)
    y = np.where(rng.random(40) < 0.5, -1, 1)
    mean, v, _ = q.moments(basis.coordinates(x))
    risk = ndtr(-y * mean[:, 0] / np.sqrt(v)).mean()
    T, K = 4000, len(basis.matrix)
    w = rng.normal(size=(T, 6))  # h ~ P
    gram = basis.matrix @ LINEAR(basis.landmarks, basis.landmarks) @ basis.matrix.T
    extra = np.linalg.cholesky(np.eye(K) - gram + 1e-14 * np.eye(K))
    u = w @ (basis.matrix @ basis.landmarks).T + rng.normal(size=(T, K)) @ extra.T
    new = q.mean[:, 0] + np.exp(q.log_scale) * rng.normal(size=(T, K))  # u ~ Q, h given u stays
    w = w + (new - u) @ (basis.matrix @ basis.landmarks)
    errors = (y * (w @ x.T) <= 0).mean(1)
    assert abs(errors.mean() - risk) < 5 * errors.std() / math.sqrt(T)


def test_the_kl_of_one_score_is_an_integral():
    m, s = np.array([[0.7], [-0.4]]), np.log([0.5, 1.6])
    total = 0.0
    for mean, log in zip(m[:, 0], s, strict=True):
        q, p = norm(mean, math.exp(log)), norm()
        total += integrate.quad(lambda t: q.pdf(t) * (q.logpdf(t) - p.logpdf(t)), -15, 15)[0]  # noqa: B023
    assert divergence(m, s) == pytest.approx(total, rel=1e-9)


def test_the_kl_of_several_scores_is_that_of_their_contrasts():
    """KL of Gaussians in all K·k numbers, with their mean over classes left at the prior."""
    rng, K, k = np.random.default_rng(7), 3, 4
    m, s = rng.normal(size=(K, k)), rng.normal(size=K) * 0.4
    centre = np.full((k, k), 1 / k)
    mean, cov = (m @ (np.eye(k) - centre)).ravel(), np.zeros((K * k, K * k))
    for j in range(K):
        block = np.exp(2 * s[j]) * (np.eye(k) - centre) + centre
        cov[j * k : (j + 1) * k, j * k : (j + 1) * k] = block
    log_det = np.linalg.slogdet(cov)[1]
    full = 0.5 * (np.trace(cov) + mean @ mean - K * k - log_det)
    assert divergence(m, s) == pytest.approx(full, rel=1e-12)


def test_a_common_shift_of_all_scores_costs_nothing():
    m, s = np.random.default_rng(8).normal(size=(3, 4)), np.zeros(3)
    assert divergence(m + np.array([[1.0], [2.0], [3.0]]), s) == pytest.approx(divergence(m, s))


@pytest.mark.parametrize("kernel", [LINEAR, RICH, Kernel.parse("gaussian^0.5")])
@pytest.mark.parametrize("count", [1, 5, 12])
def test_directions_are_shown_to_be_a_contraction_and_nearly_orthonormal(kernel, count):
    basis = directions(kernel, points(12), count)
    exact = largest_eigenvalue(basis)
    assert exact <= basis.largest <= 1
    assert exact > 1 - 1e-5  # nothing is given away


def largest_eigenvalue(basis):
    """Of AGAᵀ in 60 digits, with the kernel's values in 60 digits too."""
    with mpmath.workdps(60):
        b = mpmath.matrix(basis.landmarks.astype(float).tolist())
        A, n = mpmath.matrix(basis.matrix.tolist()), len(basis.landmarks)
        c, G = b * b.T, mpmath.matrix(n, n)
        for i in range(n):
            for j in range(n):
                G[i, j] = exactly(basis.kernel, c[i, j], c[i, i], c[j, j])
        return float(max(mpmath.eigsy(A * G * A.T, eigvals_only=True)))


def exactly(kernel, c, a, b):
    total = mpmath.mpf(0)
    for coefficient, factors in kernel.terms:
        product = mpmath.mpf(coefficient)
        for name, number in factors:
            if name == "linear":
                product *= c ** int(number)
            elif name == "gaussian":
                product *= mpmath.exp(-mpmath.mpf(number) * (a + b - 2 * c))
            else:
                norms = mpmath.sqrt(a * b)
                t = min(max(c / norms, mpmath.mpf(-1)), mpmath.mpf(1))
                root = mpmath.sqrt(1 - t * t) + (mpmath.pi - mpmath.acos(t)) * t
                product *= norms * root / mpmath.pi
        total += product
    return total


@pytest.mark.parametrize(
    "changed",
    [
        lambda b: dataclasses.replace(b, matrix=b.matrix * 1.001),
        lambda b: dataclasses.replace(b, landmarks=points(12, seed=9)),
        lambda b: dataclasses.replace(b, landmarks=b.landmarks[::-1].copy()),
        lambda b: dataclasses.replace(b, matrix=np.vstack([b.matrix, b.matrix[:1]])),
        lambda b: dataclasses.replace(b, kernel=Kernel.parse("2*linear^3 + arc-cosine + 0.1")),
    ],
    ids=["scaled", "other landmarks", "permuted landmarks", "one direction twice", "kernel"],
)
def test_a_basis_that_is_no_contraction_is_not_shown_to_be_one(changed):
    assert changed(directions(RICH, points(12), 6)).largest > 1


def test_equal_landmarks_give_fewer_directions():
    twice = np.concatenate([points(4), points(4)])
    assert len(directions(LINEAR, twice, 8).matrix) == 4


def test_coordinates_do_not_depend_on_the_batch():
    basis, x = directions(RICH, points(12), 6), points(50, seed=2)
    whole, single = basis.coordinates(x), basis.coordinates(x[7:8])
    assert np.allclose(whole.z[7], single.z[0], atol=1e-13)
    assert (whole.z[7] - single.z[0] <= whole.error[7]).all()


def test_charges_cover_what_rounding_does():
    """Against the same numbers in 40 digits."""
    q, x = process(count=12, outputs=1), points(4, seed=11)
    q = dataclasses.replace(q, mean=q.mean * 20, log_scale=q.log_scale - 4)
    mean, v, charge = q.moments(q.directions.coordinates(x))
    with mpmath.workdps(40):
        for i, row in enumerate(x.astype(float)):
            b = [[mpmath.mpf(t) for t in r] for r in q.directions.landmarks.astype(float).tolist()]
            a = [mpmath.mpf(t) for t in row]
            squares = [mpmath.fsum(s * s for s in r) for r in b]
            own = mpmath.fsum(s * s for s in a)
            inner = [mpmath.fsum(s * t for s, t in zip(a, r, strict=True)) for r in b]
            k = [exactly(RICH, c, own, s) for c, s in zip(inner, squares, strict=True)]
            z = [mpmath.fsum(mpmath.mpf(p) * t for p, t in zip(r, k, strict=True))
                 for r in q.directions.matrix.tolist()]  # fmt: skip
            exact_mean = mpmath.fsum(
                mpmath.mpf(m) * t for m, t in zip(q.mean[:, 0], z, strict=True)
            )
            scales = [mpmath.exp(2 * mpmath.mpf(s)) for s in q.log_scale]
            exact_v = exactly(RICH, own, own, own)
            exact_v += mpmath.fsum((s - 1) * t * t for s, t in zip(scales, z, strict=True))
            exact = mpmath.ncdf(exact_mean / mpmath.sqrt(exact_v))
            found = mpmath.ncdf(mpmath.mpf(mean[i, 0]) / mpmath.sqrt(mpmath.mpf(v[i])))
            assert abs(exact - found) <= charge[i] < 1e-8


def test_no_variance_is_charged_in_full():
    basis = directions(LINEAR, np.eye(2, 2, dtype=np.float32), 2)
    q = Process(basis, np.ones((2, 1)), np.full(2, -40.0))
    nothing = np.zeros((1, 2), np.float32)
    assert q.moments(basis.coordinates(nothing))[2].tolist() == [1.0]


@pytest.mark.parametrize("count", [0, 13])
def test_a_number_of_directions_that_cannot_be_is_refused(count):
    with pytest.raises(ValueError, match="between 1 and the number of landmarks, 12"):
        directions(LINEAR, points(12), count)


def test_a_kernel_that_is_zero_is_refused():
    with pytest.raises(ValueError, match="zero on all landmarks"):
        directions(LINEAR, np.zeros((3, 2), np.float32), 2)


def test_a_product_that_claims_sharpness_is_sharp():
    from pacbayes.networks.families.process import _sharp_product

    rng = np.random.default_rng(12)
    a = rng.normal(size=(20, 300)) * np.exp(rng.normal(size=(20, 1)) * 4)
    b = rng.normal(size=(300, 10))
    found, error = _sharp_product(a, b)
    exact = np.array([[math.fsum(r * c) for c in b.T] for r in a.astype(np.longdouble)], float)
    with mpmath.workdps(50):
        sums = [[mpmath.fsum(mpmath.mpf(s) * mpmath.mpf(t) for s, t in zip(r, c, strict=True))
                 for c in b.T.tolist()] for r in a.tolist()]  # fmt: skip
        apart = mpmath.sqrt(mpmath.fsum((sums[i][j] - mpmath.mpf(found[i, j])) ** 2
                                        for i in range(20) for j in range(10)))  # fmt: skip
    assert float(apart) <= error < 1e-13 * np.abs(a).max() * 300
    assert np.allclose(exact, found)


def test_coordinates_name_what_is_theirs():
    at = process().directions.coordinates(points(3))
    assert (at.z.shape, at.total.shape, at.error.shape) == ((3, 4), (3,), (3,))


def test_errors_of_the_kernel_are_charged_to_the_largest_eigenvalue(monkeypatch):
    basis = directions(RICH, points(12), 6)
    norm = np.linalg.norm(basis.matrix, 2)
    before = basis.largest
    monkeypatch.setattr(Kernel, "error", lambda *_: 1e-3)
    assert basis.largest >= before + 0.999e-3 * 12 * norm**2


def test_errors_of_coordinates_are_charged_to_the_risk():
    q = process()
    at = q.directions.coordinates(points(5, seed=3))
    worse = at._replace(error=at.error + 1e-6)
    _, v, before = q.moments(at)
    moved = np.linalg.norm(q.mean) * 1e-6 / np.sqrt(v)  # φ(0) times this, if the mean is 0
    assert (q.moments(worse)[2] >= before + 0.3989 * moved).all()
