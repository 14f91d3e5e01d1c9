"""The verifier's features and kernels are written apart from the library's, and agree with it."""

import numpy as np
import pytest

from pacbayes.features.formulas import FORMULAS
from pacbayes.features.kernels import Kernel
from pacbayes.networks.kernel import KernelPrior
from pacbayes.verify import formulas

SHAPES = {"colours": (3, 16, 16), "columns": (7,)}
TEXTS = ["0.98*linear^5 + 0.02", "arc-cosine^2*linear + 3", "2*gaussian^0.7", "arc-cosine"]


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("side", [28, 8, 13])
def test_features_agree_to_the_last_bits(name, side):
    shape = SHAPES.get(name, (1, side, side))
    x = np.random.default_rng(side).random((4, int(np.prod(shape)))).astype(np.float32)
    x[1] = 0
    own, theirs = formulas.features(name, x, shape), FORMULAS[name](x, shape)
    assert own.dtype == theirs.dtype == np.float32
    assert np.abs(own - theirs).max() < 1.2e-7  # a unit in the last place of 1


def test_images_that_touch_their_frame_agree():
    x = np.zeros((3, 1, 28, 28), np.float32)
    x[0, 0, :, -2:] = 1
    x[1, 0, :3] = 1
    x[2, 0] = np.eye(28)[::-1]
    x = x.reshape(3, -1)
    own, theirs = (f("strokes") for f in (own_of(x), theirs_of(x)))
    assert np.abs(own - theirs).max() < 1.2e-7


def own_of(x):
    return lambda name: formulas.features(name, x, (1, 28, 28))


def theirs_of(x):
    return lambda name: FORMULAS[name](x, (1, 28, 28))


@pytest.mark.parametrize("text", TEXTS)
def test_kernels_and_their_spelling_agree(text):
    x = np.random.default_rng(0).normal(size=(6, 5))
    terms, theirs = formulas.parse_kernel(text), Kernel.parse(text)
    squares = np.square(x).sum(1)
    own = formulas.kernel_of(terms)(x @ x.T, squares[:, None], squares)
    assert np.allclose(own, theirs(x, x), rtol=1e-12)
    assert formulas.spelled(terms) == str(theirs)
    assert 0.5 * theirs.error(5, 2.0) < formulas.kernel_error(terms, 5, 2.0)
    assert formulas.kernel_error(terms, 5, 2.0) < theirs.error(5, 2.0)


@pytest.mark.parametrize("name", FORMULAS)
def test_hashes_agree(name):
    prior = KernelPrior(name, "0.5*linear^2 + gaussian^0.25", (1, 8, 8))
    assert formulas.formula_sha256(name, prior.kernel, prior.shape) == prior.sha256
    assert set(formulas.NAMES) == set(FORMULAS)


@pytest.mark.parametrize("text", ["linear - 1", "-1*linear", "cubic", "linear^1.5", "gaussian^0"])
def test_what_is_no_kernel_is_refused(text):
    with pytest.raises(ValueError, match=r"kernel|float"):
        formulas.parse_kernel(text)
