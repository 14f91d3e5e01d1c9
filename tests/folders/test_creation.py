"""Runs that a program creates in one call."""

import numpy as np
import pytest
from torch import nn

from pacbayes import Settings, folders
from pacbayes.data import DataSource
from pacbayes.files import load_tensors
from pacbayes.folders.folder import Run, open_run
from pacbayes.networks.modules import Convolutions

ONE = Convolutions(channels=(2,), kernels=(3,), strides=(1,))


def build(shape, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 3), nn.Linear(3, outputs))


@pytest.fixture
def images(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 80)
    x = rng.normal(y[:, None, None, None], 1, (80, 1, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "images.npz", x=x, y=y)
    return tmp_path / "images.npz"


def test_a_created_run_trains_and_is_certified(images, tmp_path):
    run = Run.create(tmp_path / "run", ONE, images, {"epochs": 1})
    assert not run.trained
    data = run.load_data()
    for _ in folders.train_run(run, data):
        pass
    certificate = folders.certify_run(
        run, run.load_network(), data, delta=0.05, bound="small-kl", samples=2
    )
    assert certificate.n == 80
    assert (run.settings.epochs, run.settings.learning_rate, run.settings.samples) == (1, 0.03, 1)
    assert run.record.network.architecture == ONE
    assert run.record.network.shape == (1, 4, 4)
    assert Run.create(str(tmp_path / "run"), ONE, str(images), run.settings) == open_run(run.folder)


def test_a_prior_that_learns_is_learned_at_once(images, tmp_path):
    changes = {"prior_fraction": 0.5, "prior_epochs": 1, "learned_scale": True}
    run = Run.create(tmp_path / "run", build, DataSource(str(images)), changes)
    assert run.record.network.architecture.title == "test_creation.py:build"
    assert run.record.data.n == 40
    assert run.settings.prior_scale == 0.003
    prior = load_tensors(run.folder / "prior.safetensors")[0]
    assert prior["layer.weight.prior_mean"].shape == (1, 3)


def test_the_usual_network_depends_on_the_data_and_the_prior(source, images, tmp_path):
    dense = Run.create(tmp_path / "dense", None, source)
    assert dense.record.network is None
    assert dense.settings == Settings.of()
    given = Settings.of("fast", epochs=2, prior_fraction=0.5, prior_epochs=1)
    learned = Run.create(tmp_path / "conv", "conv", images, given)
    assert learned.record.network.architecture.batch_norm
    assert learned.settings == given.model_copy(update={"widths": ()})


@pytest.mark.parametrize(
    ("network", "data", "settings", "complaint"),
    [
        ("cnv", None, {}, "must be named as in my_network.py:build, got 'cnv'"),
        (lambda shape, outputs: None, None, {}, "must be at the top of a file"),
        (ONE, None, {"activation": "sign"}, "a module takes relu and fast"),
        (ONE, "digit", {}, "did you mean 'digits'"),
        (Convolutions(), None, {}, "too small for a convolution"),
    ],
)
def test_bad_requests_are_refused_and_leave_nothing(
    network, data, settings, complaint, images, tmp_path
):
    with pytest.raises(ValueError, match=complaint):
        Run.create(tmp_path / "run", network, data or images, settings)
    assert not (tmp_path / "run").exists()
