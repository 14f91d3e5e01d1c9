"""Averages of an image's wavelet moduli, by FFT: Morlet waves of two scales and eight angles.

The scattering transform (Bruna and Mallat 2013) of orders 0 to 2. Convolutions are circular. The
second scale is computed at half the resolution, half a pixel aside, so that a mirrored image has
mirrored averages.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import scipy.fft
from numpy.typing import NDArray

__all__ = ["ANGLES", "STEP", "averages", "moduli", "morlet"]

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
ANGLES = 8
STEP = 4  # pixels between averages
_WIDTH = 1.6  # standard deviation of an average, in pixels


def moduli(x: Array, *, second: bool = False) -> tuple[Array, Array, Array | None]:
    """Return averages of orders 0, 1 and, if asked for, 2, of images (…, h, w).

    Shapes are (…, h', w'), (…, 2, 8, h', w') by scale and angle, and (…, 8, 8, h', w') by the
    angles of the first and of the second scale, with a side of h' = h/4.
    """
    fine, coarse = _waves(*x.shape[-2:])
    spectrum = scipy.fft.fft2(x)
    small = _modulus(spectrum, fine)
    large = _modulus(spectrum, coarse, halved=True)
    first = np.stack([_averaged(small, 1), _averaged(large, 2)], -4)
    if not second:
        return _averaged(x, 1), first, None
    twice = _modulus(scipy.fft.fft2(small), coarse, halved=True)
    return _averaged(x, 1), first, _averaged(twice, 2)


def _modulus(spectrum: Complex, waves: Complex, *, halved: bool = False) -> Array:
    """Return |x * ψ| for all angles, (…, 8, h, w), or at every second pixel."""
    product = spectrum[..., None, :, :] * waves
    if halved:  # the spectrum of every second number is folded
        *lead, h, w = product.shape
        folds = product.reshape(*lead, 2, h // 2, 2, w // 2)
        product = 0.25 * (folds[..., 0, :, 0, :] + folds[..., 0, :, 1, :])
        product += 0.25 * (folds[..., 1, :, 0, :] + folds[..., 1, :, 1, :])
    y = scipy.fft.ifft2(product, overwrite_x=True)
    squares: Array = np.square(y.real)
    squares += np.square(y.imag)
    return np.sqrt(squares, out=squares)


def _averaged(x: Array, distance: int) -> Array:
    rows, columns = (averages(side, distance) for side in x.shape[-2:])
    found: Array = rows @ x @ columns.T
    return found


@cache
def averages(side: int, distance: int) -> Array:
    """Return a matrix of Gaussian averages of numbers on a circle, centred in every four pixels.

    Args:
        side: how many numbers there are.
        distance: pixels from one number to the next, 1, or 2 and then half a pixel aside.
    """
    length = side * distance
    at = distance * np.arange(side) + (distance - 1) / 2
    centres = STEP * np.arange(length // STEP)[:, None] + (STEP - 1) / 2
    apart = at - centres + length * np.arange(-2, 3)[:, None, None]
    window: Array = np.exp(-((apart / _WIDTH) ** 2) / 2).sum(0)
    window /= window.sum(1, keepdims=True)
    return window


@cache
def _waves(h: int, w: int) -> tuple[Complex, Complex]:
    """Return the transforms of the waves of both scales, (8, h, w); the second half a pixel on."""
    turns = [np.pi * i / ANGLES for i in range(ANGLES)]
    fine, coarse = (np.stack([morlet(h, w, j, turn) for turn in turns]) for j in (0, 1))
    aside = np.fft.fftfreq(h)[:, None] + np.fft.fftfreq(w)
    moved = coarse.astype(np.complex128)
    moved *= np.exp(1j * np.pi * aside)
    return fine.astype(np.complex128), moved


def morlet(h: int, w: int, j: int, turn: float) -> Array:
    """Return the transform of a wave of scale 2^j less a Gaussian, so that its mean is zero."""
    sigma, frequency = 0.8 * 2**j, 0.75 * np.pi / 2**j
    wave, bump = (_gabor(h, w, sigma, turn, f) for f in (frequency, 0.0))
    found: Array = (wave - wave[0, 0] / bump[0, 0] * bump).real
    return found


def _gabor(h: int, w: int, sigma: float, turn: float, frequency: float) -> Complex:
    """Return the transform of a plane wave under a Gaussian of mass one, on a torus."""
    slant = 4 / ANGLES
    v, u = np.meshgrid(np.arange(-2 * h, 3 * h), np.arange(-2 * w, 3 * w), indexing="ij")
    along = u * np.cos(turn) + v * np.sin(turn)
    across = v * np.cos(turn) - u * np.sin(turn)
    window = np.exp(-(along**2 + (slant * across) ** 2) / (2 * sigma**2))
    whole = slant / (2 * np.pi * sigma**2) * window * np.exp(1j * frequency * along)
    torus = whole.reshape(5, h, 5, w).sum((0, 2))
    found: Complex = np.fft.fft2(torus)
    return found
