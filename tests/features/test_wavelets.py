"""Wavelet averages against sums over pixels, written out."""

import numpy as np
import pytest

from pacbayes.features.wavelets import ANGLES, averages, moduli, morlet


def images(*shape):
    return np.random.default_rng(0).random(shape)


def wave(side, j, turn):
    """A Morlet wave in space, from its definition, on a torus of the side."""
    sigma, xi = 0.8 * 2**j, 0.75 * np.pi / 2**j
    at = np.arange(-2 * side, 3 * side)
    found = []
    for frequency in (xi, 0.0):
        total = np.zeros((side, side), complex)
        for v in at:
            u = at
            along, across = u * np.cos(turn) + v * np.sin(turn), v * np.cos(turn) - u * np.sin(turn)
            row = np.exp(
                -(along**2 + (0.5 * across) ** 2) / (2 * sigma**2) + 1j * frequency * along
            )
            total[v % side] += row.reshape(5, side).sum(0) * 0.5 / (2 * np.pi * sigma**2)
        found.append(total)
    return found[0] - found[0].sum() / found[1].sum() * found[1]


def convolved(x, psi):
    """Σ_v x(v)·ψ(u − v) on a torus, pixel by pixel."""
    side = len(x)
    total = np.zeros((side, side), complex)
    for i in range(side):
        for j in range(side):
            total += x[i, j] * np.roll(psi, (i, j), (0, 1))
    return total


@pytest.mark.parametrize("j", [0, 1])
def test_a_morlet_transform_is_that_of_the_wave_in_space(j):
    for turn in (0.0, np.pi / 8, 2.0):
        expected = np.fft.fft2(wave(16, j, turn)).real
        assert np.allclose(morlet(16, 16, j, turn), expected, atol=1e-12)


def test_the_first_scale_is_a_sum_over_pixels():
    x = images(1, 16, 16)
    first = moduli(x)[1][0, 0]  # of the first scale, (8, 4, 4)
    for k in (0, 3):
        energy = np.abs(convolved(x[0], wave(16, 0, np.pi * k / ANGLES)))
        rows = averages(16, 1)
        assert np.allclose(first[k], rows @ energy @ rows.T, atol=1e-12)


def test_the_second_scale_is_taken_half_a_pixel_aside():
    smooth = np.outer(np.cos(2 * np.pi * np.arange(16) / 16), np.ones(16))[None]
    aside = np.outer(np.cos(2 * np.pi * (np.arange(16) + 0.5) / 16), np.ones(16))
    k = 4  # along the rows
    energy = np.abs(convolved(aside, wave(16, 1, np.pi * k / ANGLES)))[::2, ::2]
    rows = averages(8, 2)
    assert np.allclose(moduli(smooth)[1][0, 1, k], rows @ energy @ rows.T, atol=1e-12)


def test_the_second_order_is_the_first_order_of_moduli():
    x = images(2, 16, 16)
    second = moduli(x, second=True)[2]
    energy = np.abs(np.fft.ifft2(np.fft.fft2(x) * morlet(16, 16, 0, np.pi * 3 / ANGLES)))
    assert np.allclose(second[:, 3], moduli(energy)[1][:, 1], atol=1e-12)


def test_averages_keep_the_mass_and_sit_in_the_middle_of_four_pixels():
    fine = averages(16, 1)
    assert fine.shape == (4, 16)
    assert np.allclose(fine.sum(1), 1)
    assert np.allclose(fine, fine[::-1, ::-1])
    assert fine[0].argsort()[-2:].tolist() in ([1, 2], [2, 1])
    assert np.allclose(averages(8, 2), averages(8, 2)[::-1, ::-1])


def test_a_mirrored_image_has_mirrored_averages():
    x = images(1, 32, 32)
    smooth = np.fft.ifft2(np.fft.fft2(x) * (np.hypot.outer(*[np.fft.fftfreq(32)] * 2) < 0.4)).real
    turned = -np.arange(ANGLES) % ANGLES
    for a, b in zip(moduli(smooth)[:2], moduli(smooth[..., ::-1])[:2], strict=True):
        b = b[..., ::-1] if b.ndim == 3 else b[..., turned, :, ::-1]
        assert np.allclose(a, b, atol=1e-3 * a.max())
