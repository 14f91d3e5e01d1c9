"""Training of kernel networks: gradients, determinism, and a bound that comes down."""

import numpy as np
import pytest
import torch
from torch.special import ndtr

from pacbayes.data import load
from pacbayes.networks.families.process import divergence
from pacbayes.networks.kernel import KernelPrior
from pacbayes.networks.quadrature import win_probabilities
from pacbayes.training.kernel import Head, KernelSettings, train_kernel

DIGITS = KernelPrior("wavelets", "0.98*linear^4 + 0.02", (1, 8, 8))
FEW = KernelSettings(landmarks=300, directions=100, epochs=6)


def head(outputs, n=30, K=5):
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(n, K, generator=generator) * 0.4
    y = torch.randint(0, max(2, outputs), (n,), generator=generator)
    found = Head(
        z, 3 + torch.rand(n, generator=generator), 2 * y - 1 if outputs == 1 else y, outputs
    )
    found.mean = torch.randn(K, outputs, generator=generator)
    return found


@pytest.mark.parametrize("outputs", [1, 3, 10])
def test_gradients_are_those_of_autograd(outputs):
    h = head(outputs)
    loss, in_mean, in_scale = h.slopes(torch.arange(30))
    m, s = (t.double().requires_grad_() for t in (h.mean, h.log_scale))
    z = h.z.double()
    v = z.square() @ (2 * s).exp() + h.rest.double()
    if outputs == 1:
        expected = ndtr(-h.y.double() * (z @ m)[:, 0] / v.sqrt()).mean()
    else:
        p = win_probabilities(z @ m, v.sqrt().unsqueeze(1))
        expected = 1 - p.gather(1, h.y.unsqueeze(1)).mean()
    expected.backward()
    assert loss == pytest.approx(expected.item(), abs=1e-5)
    assert torch.allclose(in_mean.double(), m.grad, atol=1e-5)
    assert torch.allclose(in_scale.double(), s.grad, atol=1e-5)


@pytest.mark.parametrize("outputs", [1, 4])
def test_the_kl_and_its_gradient_are_those_of_the_family(outputs):
    h = head(outputs)
    value, in_mean, in_scale = h.kl()
    assert value == pytest.approx(divergence(h.mean.numpy(), h.log_scale.numpy()), rel=1e-5)
    for p, slope in ((h.mean, in_mean), (h.log_scale, in_scale)):
        old, moved = p.clone(), torch.zeros_like(p)
        moved.view(-1)[3] = 1e-2
        ends = []
        for sign in (1, -1):
            p.copy_(old + sign * moved)
            ends.append(divergence(h.mean.double().numpy(), h.log_scale.double().numpy()))
        p.copy_(old)
        assert (ends[0] - ends[1]) / 2e-2 == pytest.approx(slope.view(-1)[3].item(), rel=1e-3)


@pytest.mark.parametrize("name", ["digits", "ten-digits"])
def test_the_bound_comes_down_and_a_seed_decides_everything(name):
    data = load(name)
    x, y = data.tensors("train")
    seen = []
    one = train_kernel(DIGITS, x, y, len(data.classes), FEW, follow=seen.append)
    two = train_kernel(DIGITS, x, y, len(data.classes), FEW)
    assert [p.epoch for p in seen] == [1, 2, 3, 4, 5, 6]
    assert seen[-1].guide < seen[0].guide - 0.08
    assert (one.process.mean == two.process.mean).all()
    assert (one.process.directions.matrix == two.process.directions.matrix).all()
    other = train_kernel(DIGITS, x, y, len(data.classes), KernelSettings(300, 100, 6, seed=1))
    assert not np.array_equal(other.process.directions.landmarks, one.process.directions.landmarks)


def test_without_epochs_the_means_stay_at_the_prior():
    x, y = load("digits").tensors("train")
    network = train_kernel(DIGITS, x, y, 2, KernelSettings(100, 20, 0))
    assert not network.process.mean.any()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"landmarks": 0}, "landmarks"),
        ({"directions": 0}, "directions"),
        ({"epochs": -1}, "epochs"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(changes, said):
    with pytest.raises(ValueError, match=said):
        KernelSettings(**changes)


def test_unknown_features_are_refused_with_a_suggestion():
    with pytest.raises(ValueError, match="wavelets"):
        KernelPrior("wavelet", "linear", (1, 8, 8))


def test_features_are_kept_by_the_hash_of_formula_and_examples(tmp_path):
    x, _ = load("digits").tensors("train")
    first = DIGITS.of(x[:50], cache=tmp_path)
    (file,) = tmp_path.iterdir()
    before = file.stat().st_mtime_ns
    assert np.array_equal(DIGITS.of(x[:50], cache=tmp_path), first)
    assert file.stat().st_mtime_ns == before
    other = KernelPrior("strokes", "linear", (1, 8, 8)).of(x[:50], cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert not np.array_equal(other, first)
    file.write_bytes(b"damaged")
    assert np.array_equal(DIGITS.of(x[:50], cache=tmp_path), first)
