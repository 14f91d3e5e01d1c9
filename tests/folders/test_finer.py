"""A prior may learn finer classes; the certificate is on the classes that they are groups of."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from pacbayes import Settings, folders
from pacbayes.choices import Predictor
from pacbayes.data import DataError, DataSource
from pacbayes.folders.prediction import module_body
from pacbayes.networks.modules import Convolutions
from pacbayes.networks.predictors import prior_weights, scores
from pacbayes.training.blueprint import Choice
from pacbayes.training.priors import learn_prior, split
from pacbayes.verify import verify

SMALL = Convolutions(channels=(4,), kernels=(3,), strides=(2,))
SETTINGS = Settings.of(
    "fast",
    epochs=0,
    prior_fraction=0.5,
    prior_epochs=6,
    prior_scale=0.003,
    prior_finer=True,
    batch_size=32,
    samples=1,
    evaluation_samples=1,
    widths=(),
)
DIGITS = DataSource("digits")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finer") / "run"
    made = folders.train_all(folder, SETTINGS, DIGITS, DIGITS.load(), Choice(SMALL))[0]
    data = DIGITS.load()
    folders.certify_run(made, made.load_network(), data, delta=0.05, bound="held-out")
    return made


def failures(run):
    path = run.certificate_path(Predictor.FIXED)
    return [f.name for f in verify(path, full=True, body=module_body(run)) if not f.holds]


def test_the_prior_is_the_network_that_learned_ten_digits(run):
    ten = DataSource("ten-digits").load()
    x, digits = ten.tensors()
    own, rest = map(torch.from_numpy, split(len(x), 0.5, SETTINGS.seed))
    module = torch.nn.Sequential(torch.nn.Unflatten(1, (1, 8, 8)), SMALL.build((1, 8, 8), 10))
    learned = learn_prior(
        module, x[own], digits[own], epochs=6, learning_rate=SETTINGS.prior_rate, batch_size=32
    )
    p = learned(x[rest]).double().softmax(-1)
    network = run.load_network().double().eval()
    found = scores(network, prior_weights(network), x[rest])
    want = p[:, 5:].sum(1) - p[:, :5].sum(1)
    assert torch.allclose(found, want, rtol=0, atol=1e-4)


def test_the_record_has_the_groups_and_the_run_is_built_from_it(run):
    assert run.record.network.groups == (0,) * 5 + (1,) * 5
    assert folders.open_run(run.folder).blueprint.groups == run.record.network.groups


def test_the_prior_learned_again_is_the_same(run):
    again = folders.learn_again(run, DIGITS.load())
    kept = run.load_network().prior_state()
    assert all((again[name] == tensor.numpy()).all() for name, tensor in kept.items())


def test_groups_that_are_not_the_classes_are_refused(run, tmp_path):
    record = json.loads((run.folder / "run.json").read_text())
    for groups in ([0] * 10, [0] * 5 + [2] * 5, [0, -1]):
        record["network"]["groups"] = groups
        (tmp_path / "run.json").write_text(json.dumps(record))
        with pytest.raises(ValueError, match="finer classes must belong to all classes"):
            folders.open_run(tmp_path)


def test_a_run_verifies_in_full_and_other_groups_are_not_believed(run, tmp_path):
    assert failures(run) == []
    folder = shutil.copytree(run.folder, tmp_path / "forged")
    record = json.loads((folder / "run.json").read_text())
    record["network"]["groups"] = [1, 0] * 5
    (folder / "run.json").write_text(json.dumps(record))
    assert failures(folders.open_run(folder))


def test_finer_classes_need_data_that_have_them(tmp_path):
    ten = DataSource("ten-digits")
    with pytest.raises(DataError, match="no finer classes"):
        folders.prepare(tmp_path / "run", SETTINGS, ten, ten.load(), Choice(SMALL))


def test_a_dense_network_does_not_learn_finer_classes(tmp_path):
    with pytest.raises(DataError, match="other than dense"):
        folders.prepare(tmp_path / "run", SETTINGS, DIGITS, DIGITS.load())


def test_a_prior_that_does_not_learn_has_no_finer_classes():
    with pytest.raises(ValueError, match="finer classes are for a prior that learns"):
        Settings.of("fast", prior_finer=True)


def test_deduplicated_data_keep_the_finer_classes_of_what_is_left():
    data = DIGITS.load()
    twice = replace(
        data,
        x_train=data.x_train[[0, 0, *range(1, 20)]],
        y_train=data.y_train[[0, 0, *range(1, 20)]],
        finer=replace(data.finer, labels=data.finer.labels[[0, 0, *range(1, 20)]]),
    )
    kept = twice.deduplicated()
    assert (kept.finer.labels == data.finer.labels[:20]).all()
