"""The engine's double-precision functions: Φ, e^x, Philox and normals, against high precision."""

import re

import mpmath
import numpy as np
import pytest
from scipy import stats

from pacbayes.engine import library as module
from pacbayes.engine.library import available, library
from pacbayes.networks.sampler import Places, philox

pytestmark = pytest.mark.skipif(not available(), reason="no compiler, or not an AVX2 machine")


def applied(name, x):
    x, out = np.ascontiguousarray(x, float), np.empty(len(x))
    getattr(library(), name)(x.ctypes.data, out.ctypes.data, len(x))
    return out


def keyed(key, pair, draws, places):
    """Normals and uniforms of a pair of units, (2, count, 2)."""
    draws, places = (np.ascontiguousarray(a, np.uint64) for a in (draws, places))
    out = np.empty((2, len(draws), 2))
    args = (draws.ctypes.data, places.ctypes.data, out[0].ctypes.data, out[1].ctypes.data)
    library().pb_keyed(key, pair, *args, len(draws))
    return out


@pytest.mark.parametrize(
    ("table", "terms", "half"), [("TAIL", 13, 0.5), ("BROAD_TAIL", 16, 1.0625)]
)
def test_the_tables_of_the_tail_are_chebyshevs(table, terms, half):
    """Interpolation at Chebyshev points of 16 intervals, computed again in 60 digits."""
    source = (module.Path(module.__file__).parent / "c" / "tail.inc").read_text()
    text = re.search(rf"double {table}\[.*?;", source, re.DOTALL)[0]
    numbers = [float.fromhex(word) for word in re.findall(r"-?0x1\.\w+p[-+]\d+", text)]
    columns = np.array(numbers).reshape(terms, 16)[::-1]
    with mpmath.workdps(60):
        width = mpmath.mpf(re.search(r"TAIL_WIDTH (\S+)", source)[1])
        angles = [mpmath.pi * (2 * k + 1) / (2 * terms) for k in range(terms)]
        nodes = [half * mpmath.cos(angle) for angle in angles]
        powers = mpmath.matrix([[s**j for j in range(terms)] for s in nodes])
        for n in range(16):
            tails = [mpmath.erfc((n + s) * width / mpmath.sqrt(2)) / 2 for s in nodes]
            expected = mpmath.lu_solve(powers, mpmath.matrix(tails))
            for found, wanted in zip(columns[:, n], expected, strict=True):
                assert abs(found - wanted) <= abs(wanted) * 2.0**-52 + mpmath.mpf(10) ** -50


def test_cumulatives_are_exact_to_the_last_bits():
    u = np.concatenate([np.linspace(-9, 9, 3001), [0.0, -0.0, 40.0, -40.0, np.inf, -np.inf]])
    with mpmath.workdps(40):
        pairs = zip(u, applied("pb_cumulative", u), strict=True)
        errors = [abs(p - mpmath.ncdf(x)) for x, p in pairs]
    assert max(errors) < 2.3e-16
    assert np.isnan(applied("pb_cumulative", [np.nan]))


@pytest.mark.parametrize("step", [0.0, 0.05, 0.2])
def test_cumulatives_of_close_points_are_exact_to_the_last_bits(step):
    u = np.concatenate([np.linspace(-9, 9, 1501), [0.0, -0.0, 40.0, -40.0, np.inf]])
    out = np.empty((len(u), 4))
    library().pb_near_cumulative(u.ctypes.data, step, out.ctypes.data, len(u))
    with mpmath.workdps(40):
        errors = [
            abs(p - mpmath.ncdf(mpmath.mpf(x) + v * mpmath.mpf(step)))
            for x, row in zip(u.tolist(), out.tolist(), strict=True)
            for v, p in enumerate(row)
        ]
    assert max(errors) < 7e-16


def test_exponentials_are_exact_to_the_last_bits():
    x = np.linspace(-690, 690, 3001)
    with mpmath.workdps(40):
        pairs = zip(x, applied("pb_exponential", x), strict=True)
        errors = [abs(y / mpmath.exp(v) - 1) for v, y in pairs]
    assert max(errors) < 4e-16
    assert np.isnan(applied("pb_exponential", [np.nan]))


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [  # known answers of the authors' library, Random123
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_known_answers(counter, key, words):
    one, two = words[0] | words[1] << 32, words[2] | words[3] << 32
    joined = key[0] | key[1] << 32
    found = philox(joined, *(np.array(c, np.uint64) for c in counter))
    assert tuple(map(int, found)) == (one, two)
    uniforms = keyed(joined, counter[0], [counter[1]], [counter[2] | counter[3] << 32])[1, 0]
    assert uniforms.tolist() == [((w >> 12) + 0.5) * 2.0**-52 for w in (one, two)]


def test_normals_are_box_and_mullers_in_high_precision():
    draws = np.arange(2000)
    normals, uniforms = keyed(2**63 + 17, 5, draws, draws**3)
    with mpmath.workdps(40):
        for (U, V), (a, b) in zip(uniforms.tolist(), normals.tolist(), strict=True):
            radius, angle = mpmath.sqrt(-2 * mpmath.log(U)), 2 * mpmath.pi * mpmath.mpf(V)
            assert abs(a - radius * mpmath.cos(angle)) < 1.5e-15
            assert abs(b - radius * mpmath.sin(angle)) < 1.5e-15


def test_python_and_c_draw_the_same_numbers():
    places = Places(12345678901234567, np.arange(5, dtype=np.uint64) + 2**33, 7, first=3)
    draws, examples = np.repeat(np.arange(3, 10), 5), np.tile(places.examples, 7)
    normals, uniforms = keyed(places.key, 11, draws, examples)
    assert np.array_equal(places.uniforms(11, 2), uniforms.reshape(7, 5, 2))
    assert np.abs(places.normals(11, 2) - normals.reshape(7, 5, 2)).max() < 5e-15
    assert np.array_equal(places.normals(10, 3)[..., 2], places.normals(11, 2)[..., 0])


def test_normals_are_normal_and_independent_of_their_neighbours():
    """Kolmogorov–Smirnov, tails and correlations: five tests at 1e-4 have a false alarm of 5e-4."""
    draws, examples = np.divmod(np.arange(400_000), 1000)
    normals = keyed(99, 0, draws, examples)[0]
    assert stats.kstest(normals.ravel(), "norm").pvalue > 1e-4
    beyond = int((np.abs(normals) > 4).sum())
    assert stats.binomtest(beyond, normals.size, 2 * stats.norm.sf(4)).pvalue > 1e-4
    a, b = normals.T
    for one, other in ((a, b), (a[:-1], a[1:]), (a[:-1000], a[1000:])):
        r = np.mean(one * other) * len(one) ** 0.5
        assert 2 * stats.norm.sf(abs(r)) > 1e-4
