"""Certificates of kernel networks: the whole of δ, no draws, and attacks that must be refused."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy.special import ndtr

from pacbayes import KernelPrior, KernelSettings, bounds, certify_kernel, train_kernel
from pacbayes.data import load
from pacbayes.features.kernels import Kernel
from pacbayes.networks.families.process import Directions, Process

PRIOR = KernelPrior("wavelets", "0.98*linear^4 + 0.02", (1, 8, 8))
SETTINGS = KernelSettings(landmarks=300, directions=100, epochs=60)


@pytest.fixture(scope="module", params=["digits", "ten-digits"])
def trained(request):
    data = load(request.param)
    x, y = data.tensors("train")
    return train_kernel(PRIOR, x, y, len(data.classes), SETTINGS), x, y


def test_the_risk_is_the_closed_form_and_the_theorem_has_all_of_delta(trained):
    network, x, y = trained
    c = certify_kernel(network, x, y)
    assert c.ledger == {"pac-bayes": 0.05}
    assert (c.samples, c.draws, c.monte_carlo) == (0, None, None)
    assert c.bound == bounds.small_kl(c.risk_upper, c.kl, len(x), 0.05) < 0.8
    assert c.risk < c.risk_upper < c.risk + 1e-5
    assert c.kl == pytest.approx(network.process.kl) == pytest.approx(sum(c.kl_by_part.values()))
    features = PRIOR.of(x).astype(float)
    basis = network.process.directions
    z = Kernel.parse(PRIOR.kernel)(features, basis.landmarks) @ basis.matrix.T
    v = z**2 @ np.exp(2 * network.process.log_scale) + 1 - (z**2).sum(1)
    means = z @ network.process.mean
    if means.shape[1] == 1:
        risk = ndtr(-y.numpy() * means[:, 0] / np.sqrt(v)).mean()
        assert c.risk == pytest.approx(risk, abs=1e-6)  # norms of float32 are not quite 1
    else:
        noise = np.random.default_rng(0).normal(size=(2000, 1, 10))
        drawn = (means[:300] + np.sqrt(v[:300, None]) * noise).argmax(2) != y[:300].numpy()
        risk = certify_kernel(network, x[:300], y[:300]).risk
        assert abs(drawn.mean() - risk) < 5 * drawn.mean(1).std() / math.sqrt(2000)


def test_the_certificate_names_features_and_kernel(trained):
    c = certify_kernel(*trained)
    said = " ".join(c.assumptions)
    assert PRIOR.sha256 in said
    assert "features wavelets and kernel 0.98*linear^4 + 0.02" in said
    assert "The prior was fixed before the bound set was seen." in said


@pytest.mark.parametrize("bound", ["catoni", "unexpected-bernstein", "first-order", "tandem"])
def test_every_theorem_of_a_posterior_is_offered(trained, bound):
    c = certify_kernel(*trained, bound=bound)
    assert c.theorem == bound
    assert c.bound <= 1


def test_best_of_pays_for_choosing_and_priors_for_trying(trained):
    best, many = certify_kernel(*trained, bound="best-of"), certify_kernel(*trained, priors=256)
    assert math.fsum(best.ledger.values()) <= 0.05
    assert len(best.ledger) > 1
    assert many.ledger["pac-bayes"] == pytest.approx(0.05 / 256)
    assert many.bound > certify_kernel(*trained).bound


def forged(network, **changes):
    basis = dataclasses.replace(network.process.directions, **changes)
    return dataclasses.replace(
        network, process=dataclasses.replace(network.process, directions=basis)
    )


def test_attack_directions_that_are_longer_than_the_prior_allows(trained):
    """They would hide a scale, and take the rest's variance away."""
    network, x, y = trained
    basis = network.process.directions
    for changes in (
        {"matrix": basis.matrix * 1.01},
        {"landmarks": basis.landmarks[::-1].copy()},
        {"landmarks": basis.landmarks * np.float32(1.01)},
        {"matrix": np.vstack([basis.matrix[:-1], basis.matrix[:1]])},
    ):
        with pytest.raises(ValueError, match="not shown to be orthonormal"):
            certify_kernel(forged(network, **changes), x, y)


def test_attack_a_kernel_other_than_the_priors(trained):
    network, x, y = trained
    for kernel in ("0.9*linear^4 + 0.1", "0.5*linear^4 + 0.01"):  # the second is a contraction too
        with pytest.raises(ValueError, match="under the network's kernel"):
            certify_kernel(forged(network, kernel=Kernel.parse(kernel)), x, y)


def test_attack_a_subclass_with_numbers_of_its_own(trained):
    """No object is asked for a number of its own certificate."""
    network, x, y = trained

    class Sly(Process):
        @property
        def kl(self):
            return 0.0

    class Slick(Directions):
        @property
        def largest(self):
            return 0.0

    p = network.process
    for process in (
        Sly(p.directions, p.mean, p.log_scale),
        Process(Slick(**vars_of(p.directions)), p.mean, p.log_scale),
    ):
        with pytest.raises(ValueError, match="subclass"):
            certify_kernel(dataclasses.replace(network, process=process), x, y)


def vars_of(basis):
    return {f.name: getattr(basis, f.name) for f in dataclasses.fields(basis)}


def test_attack_scales_that_are_not_numbers(trained):
    network, x, y = trained
    broken = dataclasses.replace(network.process, log_scale=network.process.log_scale * np.nan)
    with pytest.raises(ValueError, match="finite"):
        certify_kernel(dataclasses.replace(network, process=broken), x, y)


def test_examples_that_repeat_are_refused(trained):
    network, x, y = trained
    with pytest.raises(ValueError, match="repeat"):
        certify_kernel(network, torch.cat([x, x]), torch.cat([y, y]))


def test_labels_that_are_not_of_the_task_are_refused(trained):
    network, x, y = trained
    with pytest.raises(ValueError, match="labels must be"):
        certify_kernel(network, x, y * 0 + 77)
