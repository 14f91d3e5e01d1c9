"""Certify a network on fixed wavelet features of images: nothing of the features is learned.

The scattering transform (Bruna and Mallat 2013) convolves an image with Morlet wavelets, takes the
modulus, and averages: once for the first order, twice for the second. Its filters are formulas, so
the features have seen no data and cost nothing; only the network on top of them has a KL.

    python examples/scattering.py [--epochs 100]
"""

from __future__ import annotations

import argparse
import math

import torch
from torch import Tensor, nn

from pacbayes import (
    Certificate,
    Settings,
    build_network,
    certify,
    frozen_features,
    frozen_sha256,
    majority_vote,
    train,
)
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.data import load


class Scattering(nn.Module):
    """Averages of an image's wavelet moduli of orders 0 to 2, (B, c, h, w) to (B, paths·h'·w').

    Convolutions are circular. An average is over about 2^J pixels, and one in 2^J is kept.

    Args:
        size: height and width of the images, multiples of 2^J; pad smaller ones.
        scales: J, octaves of wavelets.
        angles: L, orientations of wavelets.
    """

    waves: Tensor
    rows: Tensor
    columns: Tensor

    def __init__(self, size: tuple[int, int], scales: int = 2, angles: int = 8) -> None:
        super().__init__()
        if any(side % 2**scales for side in size):
            raise ValueError(f"sides must be multiples of {2**scales}, got {size}")
        turns = [math.pi * i / angles for i in range(angles)]
        waves = [[morlet(size, j, turn, 4 / angles) for turn in turns] for j in range(scales)]
        self.register_buffer("waves", torch.stack([torch.stack(octave) for octave in waves]))
        for name, side in zip(("rows", "columns"), size, strict=True):
            self.register_buffer(name, averages(side, scales))

    def forward(self, x: Tensor) -> Tensor:
        paths, layer = [x.unsqueeze(2)], [(-1, x.unsqueeze(2))]
        for _ in range(2):
            layer = [
                (j, torch.fft.ifft2(torch.fft.fft2(a).unsqueeze(3) * octave).abs().flatten(2, 3))
                for before, a in layer
                for j, octave in enumerate(self.waves)
                if j > before
            ]
            paths += [a for _, a in layer]
        return (self.rows @ torch.cat(paths, 2) @ self.columns.T).flatten(1)


def averages(side: int, scales: int) -> Tensor:
    """Return a matrix (side/2^J, side) of Gaussian averages on a circle, every 2^J-th kept."""
    at = torch.arange(-2 * side, 3 * side, dtype=torch.float64)
    window = (-((at / (0.8 * 2 ** (scales - 1))) ** 2) / 2).exp().view(5, side).sum(0)
    window /= window.sum()
    rolled = [window.roll(shift) for shift in range(0, side, 2**scales)]
    return torch.stack(rolled).float()


def gabor(size: tuple[int, int], sigma: float, turn: float, wave: float, slant: float) -> Tensor:
    """Return the Fourier transform of a plane wave under a Gaussian of mass one, on a torus."""
    sides = (torch.arange(-2 * side, 3 * side, dtype=torch.float64) for side in size)
    u, v = torch.meshgrid(*sides, indexing="ij")
    along, across = u * math.cos(turn) + v * math.sin(turn), v * math.cos(turn) - u * math.sin(turn)
    window = (-(along**2 + (slant * across) ** 2) / (2 * sigma**2)).exp()
    whole = torch.polar(window * slant / (2 * math.pi * sigma**2), wave * along)
    torus = whole.view(5, size[0], 5, size[1]).sum((0, 2))
    return torch.fft.fft2(torus)


def morlet(size: tuple[int, int], j: int, turn: float, slant: float) -> Tensor:
    """Return the transform of a wave of scale 2^j less a Gaussian, so that its mean is zero."""
    sigma, frequency = 0.8 * 2**j, 0.75 * math.pi / 2**j
    wave, bump = (gabor(size, sigma, turn, f, slant) for f in (frequency, 0.0))
    return (wave - wave[0, 0] / bump[0, 0] * bump).real.float()


def certify_digits(epochs: int, samples: int) -> tuple[Certificate, float]:
    """Train on features of scikit-learn's digits; return the certificate and the test error."""
    data = load("digits")
    body = Scattering((8, 8), scales=1, angles=6)
    (x, y), (x_test, y_test) = (data.images(part) for part in ("train", "test"))
    features, unseen = (frozen_features(body, images) for images in (x, x_test))
    settings = Settings.of("fast", widths=(20,), epochs=epochs, evaluate_every=epochs)
    network = build_network(settings, features.shape[1], 2)
    train(network, features, y, settings)
    certificate = certify(
        network,
        features,
        y,
        samples=samples,
        sample=(x.flatten(1), y),
        assumptions=Assumptions("digits", frozen_sha256=frozen_sha256(body)),
    )
    vote = majority_vote(network.eval(), unseen, 100).sign()
    return certificate, (vote != y_test).double().mean().item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--samples", type=int, default=200)
    arguments = parser.parse_args()
    certificate, error = certify_digits(arguments.epochs, arguments.samples)
    print(f"certificate {certificate.bound:.3f}, test error of the majority vote {error:.3f}")
    print(*certificate.assumptions.sentences(), sep="\n")
