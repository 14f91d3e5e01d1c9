"""The example of fixed wavelet features: they are what the formulas say, and it is certified."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
import torch

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module")
def example():
    specification = importlib.util.spec_from_file_location("scattering", EXAMPLES / "scattering.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def bump(u, v, sigma, turn, slant):
    """An elliptic Gaussian of mass one."""
    along, across = u * np.cos(turn) + v * np.sin(turn), v * np.cos(turn) - u * np.sin(turn)
    return (
        slant / (2 * np.pi * sigma**2) * np.exp(-(along**2 + (slant * across) ** 2) / 2 / sigma**2)
    )


def convolved(x, kernel):
    """A circular convolution in space, whose kernel is a function on the plane."""
    h, w = x.shape
    reach = range(-3, 4)
    u, v = np.meshgrid(np.arange(h), np.arange(w), indexing="ij")
    torus = sum(kernel(u + a * h, v + b * w) for a in reach for b in reach)
    rolled = [[np.roll(torus, (i, j), (0, 1)) * x[i, j] for j in range(w)] for i in range(h)]
    return np.sum(rolled, (0, 1))


def morlet(j, turn, slant):
    sigma, frequency = 0.8 * 2**j, 0.75 * math.pi / 2**j
    grid = np.meshgrid(np.arange(-40, 41), np.arange(-40, 41), indexing="ij")

    def wave(u, v):
        return np.exp(1j * frequency * (u * np.cos(turn) + v * np.sin(turn)))

    window = bump(*grid, sigma, turn, slant)
    mean = (window * wave(*grid)).sum() / window.sum()
    return lambda u, v: bump(u, v, sigma, turn, slant) * (wave(u, v) - mean)


def test_features_are_averages_of_wavelet_moduli_of_orders_up_to_two(example):
    x = torch.rand(1, 1, 8, 12, generator=torch.Generator().manual_seed(0))
    found = example.Scattering((8, 12), scales=2, angles=3)(x).view(1 + 6 + 9, 2, 3)
    image, turns = x[0, 0].double().numpy(), [math.pi * i / 3 for i in range(3)]
    first = [[abs(convolved(image, morlet(j, t, 4 / 3))) for t in turns] for j in (0, 1)]
    second = [abs(convolved(a, morlet(1, t, 4 / 3))) for a in first[0] for t in turns]
    for path, a in zip(found, [image, *first[0], *first[1], *second], strict=True):
        average = convolved(a, lambda u, v: bump(u, v, 1.6, 0.0, 1.0))[::4, ::4]
        assert np.allclose(path.numpy(), average, rtol=1e-4, atol=1e-5)


def test_features_move_with_the_image_and_channels_stand_apart(example):
    body = example.Scattering((8, 8), scales=1, angles=4)
    x = torch.rand(3, 2, 8, 8, generator=torch.Generator().manual_seed(0))
    moved = body(x.roll((2, 4), (2, 3))).view(3, 2, -1, 4, 4)
    assert torch.allclose(moved, body(x).view(3, 2, -1, 4, 4).roll((1, 2), (3, 4)), atol=1e-6)
    assert torch.allclose(body(x)[:, : moved[0, 0].numel()], body(x[:, :1]), atol=1e-6)
    with pytest.raises(ValueError, match=r"multiples of 4, got \(8, 10\)"):
        example.Scattering((8, 10))


def test_a_network_on_fixed_features_is_certified_and_names_them(example):
    certificate, error = example.certify_digits(epochs=30, samples=20)
    assert certificate.n == 1438
    assert certificate.assumptions.frozen_sha256 is not None
    assert certificate.risk < certificate.bound < 0.5
    assert error < 0.15
