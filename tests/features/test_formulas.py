"""Features are formulas of one example: the batch, its order and its size change nothing."""

import dataclasses

import numpy as np
import pytest

from pacbayes.features.formulas import FORMULAS, ImageFormula, opponent, upright

GREY, COLOUR = (1, 28, 28), (3, 32, 32)


def examples(shape, n=7):
    x = np.random.default_rng(1).random((n, int(np.prod(shape)))).astype(np.float32)
    x[0] = 0  # an empty image
    return x


@pytest.mark.parametrize("name", FORMULAS)
def test_a_feature_does_not_depend_on_the_batch(name):
    shape = COLOUR if name == "colours" else GREY
    x = examples(shape)
    whole = FORMULAS[name](x, shape)
    assert whole.dtype == np.float32
    assert np.isfinite(whole).all()
    for i in range(len(x)):
        assert np.allclose(FORMULAS[name](x[i : i + 1], shape)[0], whole[i], atol=1e-7)
    order = np.random.default_rng(2).permutation(len(x))
    many = np.concatenate([x[order]] * 30)
    assert np.allclose(FORMULAS[name](many, shape)[: len(x)], whole[order], atol=1e-7)


@pytest.mark.parametrize("name", [name for name in FORMULAS if name != "columns"])
def test_features_of_images_are_unit_vectors(name):
    shape = COLOUR if name == "colours" else GREY
    norms = np.linalg.norm(FORMULAS[name](examples(shape), shape)[1:].astype(float), axis=1)
    assert np.allclose(norms, 1, atol=1e-6)


def test_every_formula_has_a_hash_of_its_own():
    hashes = {formula.sha256 for formula in FORMULAS.values()}
    assert len(hashes) == len(FORMULAS)
    other = dataclasses.replace(FORMULAS["strokes"], floor=1e-3)
    assert other.sha256 not in hashes


def test_tables_are_refused_where_images_are_needed():
    with pytest.raises(ValueError, match="--features columns"):
        ImageFormula()(np.zeros((2, 5), np.float32), (5,))


def ellipse(rows, columns, slant, centre=(0.0, 0.0)):
    """A filled ellipse whose columns lean by the rows."""
    at = (2 * np.arange(64) + 1) / 64 - 1
    v, u = np.meshgrid(at - centre[0], at - centre[1], indexing="ij")
    return (((v / rows) ** 2 + ((u - slant * v) / columns) ** 2) < 1).astype(float)[None, None]


def moments(x):
    at = (2 * np.arange(64) + 1) / 64 - 1
    p = x[0, 0] / x.sum()
    m_y, m_x = p.sum(1) @ at, p.sum(0) @ at
    v_y, v_x = p.sum(1) @ (at - m_y) ** 2, p.sum(0) @ (at - m_x) ** 2
    return m_y, m_x, (at - m_y) @ p @ (at - m_x) / v_y, np.sqrt(v_y), np.sqrt(v_x)


def test_upright_images_are_centred_and_not_slanted():
    m_y, m_x, slant, _, _ = moments(upright(ellipse(0.5, 0.25, 0.4, (0.1, -0.15))))
    assert max(abs(m_y), abs(m_x)) < 0.01
    assert abs(slant) < 0.02


def test_upright_images_have_sizes_nearer_to_each_other():
    """σ goes to σ/s with s = (σ/.30)^.7 in rows and (σ/.26)^.5 in columns."""
    for rows, columns in ((0.5, 0.4), (0.7, 0.6)):
        x = ellipse(rows, columns, 0.0)
        before, after = moments(x), moments(upright(x))
        assert after[3] == pytest.approx(before[3] / (before[3] / 0.30) ** 0.7, rel=0.02)
        assert after[4] == pytest.approx(before[4] / (before[4] / 0.26) ** 0.5, rel=0.02)


def test_an_image_with_standard_moments_stays():
    x = ellipse(0.6, 0.52, 0.0)
    assert np.abs(upright(x) - x).mean() < 0.01


def test_opponent_colours_are_a_rotation():
    x = np.random.default_rng(3).random((2, 3, 4, 4))
    y = opponent(x)
    assert np.allclose(np.square(y).sum(1), np.square(x).sum(1))
    grey = np.full((1, 3, 2, 2), 0.7)
    assert np.allclose(opponent(grey)[:, 1:], 0)


def test_the_mirror_image_has_nearly_the_same_features_of_colours():
    shape = COLOUR
    x = examples(shape)[1:].reshape(-1, *shape)
    x = sum(np.roll(x, (i, j), (2, 3)) for i in range(3) for j in range(3)) / 9  # no finest grain
    pair = [x, x[..., ::-1]]
    one, other = (FORMULAS["colours"](p.reshape(len(p), -1), shape) for p in pair)
    assert np.abs(one - other).max() < 2e-3 * np.abs(one).max()


def test_energies_are_smoothed_over_places_and_angles():
    plain = ImageFormula(smooth=False)
    rough, smooth = (dataclasses.replace(plain, smooth=s) for s in (False, True))
    x = np.zeros((1, 28, 28), np.float32)
    x[0, 14, 14] = 1
    sizes = [np.count_nonzero(f(x.reshape(1, -1), GREY) > 0.05) for f in (rough, smooth)]
    assert sizes[1] > sizes[0]
