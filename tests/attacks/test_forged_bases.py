"""Bases that were forged: each is refused, by `certify` or by `verify`, or does not matter."""

import dataclasses
import json
import shutil
import types

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from pacbayes import Settings, build_network, certify, folders
from pacbayes.data import DataSource
from pacbayes.files import file_sha256, save_json, save_tensors
from pacbayes.networks.families.rotated import Rotated, Smoothness, reflected
from pacbayes.networks.network import first_layer
from pacbayes.verify import verify

FIRST = "body.layers.0.weight"
GIVEN = {"widths": (8,), "epochs": 2, "basis": "eigen"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A certified run in a basis, with a smooth prior, and its data."""
    folder = tmp_path_factory.mktemp("bases")
    x = np.random.default_rng(0).normal(size=(300, 3, 4)).astype(np.float32)
    np.savez(folder / "data.npz", x=x, y=(x[:, 0, 0] > 0).astype(int))
    source = DataSource(str(folder / "data.npz"))
    settings = Settings.of("fast", prior_smooth=1.0, **GIVEN)
    run = folders.train_all(folder / "run", settings, source, source.load())[0]
    network = run.load_network()
    folders.certify_run(run, network, source.load(), delta=0.05, bound="small-kl", samples=20)
    return folder


@pytest.fixture
def run(made, tmp_path):
    """A copy of it, to be forged."""
    shutil.copytree(made, tmp_path / "copy")
    return folders.open_run(tmp_path / "copy" / "run")


def failed(run, *, full=True):
    return [f.name for f in verify(run.folder / "certificate.json", full=full) if not f.holds]


def replace_everywhere(run, before, after):
    for path in run.folder.glob("*.json"):
        path.write_text(path.read_text().replace(before, after))


def reseal(run, name, tensors, owner=None):
    """Save tensors as if the run had made them, and forge the hashes that name them."""
    path = run.folder / f"{name}.safetensors"
    before = file_sha256(path)
    tensors = {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in tensors.items()}
    save_tensors(path, tensors, *([] if owner is None else [owner]))
    replace_everywhere(run, before, file_sha256(path))


def forge_posterior(run, **changes):
    posterior = load_file(run.folder / "posterior.safetensors")
    changes = {f"{FIRST}.{key}": value for key, value in changes.items()}
    owner = {"run": file_sha256(run.folder / "run.json")}
    reseal(run, "posterior", posterior | changes, owner)


def forge_prior(run, **changes):
    prior = load_file(run.folder / "prior.safetensors")
    reseal(run, "prior", prior | {f"{FIRST}.{key}": value for key, value in changes.items()})
    forge_posterior(run)


def forge_settings(run, **changes):
    path, before = run.folder / "run.json", file_sha256(run.folder / "run.json")
    record = json.loads(path.read_text())
    record["settings"] |= changes
    save_json(path, record)
    replace_everywhere(run, before, file_sha256(path))
    forge_posterior(run)


def vectors(run):
    return load_file(run.folder / "posterior.safetensors")[f"{FIRST}.reflections"]


def test_an_honest_run_holds(run):
    assert failed(run) == []


def test_means_drawn_in_the_basis_are_not_what_the_seed_draws(run):
    R = reflected(torch.from_numpy(vectors(run)).double()).numpy()
    means = load_file(run.folder / "prior.safetensors")[f"{FIRST}.prior_mean"]
    forge_prior(run, prior_mean=(means.astype(float) @ R.T).astype(np.float32))
    assert failed(run) == ["weights of the network"]


@pytest.mark.parametrize("scale", [np.float32(0.1), np.full((8, 12), 0.1, np.float32)])
def test_scales_of_the_prior_that_follow_from_data_are_refused(scale, run):
    forge_prior(run, prior_log_scale=np.asarray(scale))
    assert failed(run) == ["weights of the network"]


@pytest.mark.parametrize("smooth", [0.0, 0.5, 9.0])
def test_a_prior_that_is_as_smooth_as_the_data_ask_for_has_another_risk(smooth, run):
    forge_settings(run, prior_smooth=smooth)
    assert "risk of the same draws" in failed(run)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_basis_of_no_numbers_is_refused(bad, run):
    forge_posterior(run, reflections=np.where(vectors(run) != 0, bad, 0).astype(np.float32))
    assert failed(run) == ["weights of the network"]
    with pytest.raises(ValueError, match="finite"):
        reload(run)


def reload(run):
    network = folders.open_run(run.folder).load_network()
    certify(network, *data(run), samples=20)


def data(run):
    return run.load_data().tensors("train")


def test_a_matrix_that_is_not_orthonormal_cannot_be_written_down(run):
    forge_posterior(run, reflections=1000 * vectors(run))
    assert "basis" not in failed(run)  # which is orthonormal, but another than was certified
    assert {"risk of the same draws", "KL(Q|P)"} & set(failed(run))
    forge_posterior(run, reflections=vectors(run) + 0.1 * np.eye(12, dtype=np.float32))
    assert failed(run) == ["basis"]
    with pytest.raises(ValueError, match="no reflection uses"):
        reload(run)


def test_another_basis_is_another_posterior(run):
    forge_posterior(run, reflections=np.tril(vectors(run)[::-1], -1))
    assert "KL(Q|P)" in failed(run) or "risk of the same draws" in failed(run)


def test_a_basis_that_was_not_asked_for_is_refused(run):
    forge_settings(run, basis="none")
    assert failed(run) == ["basis"]
    forge_settings(run, prior_smooth=0.0)
    assert failed(run) == ["weights of the network"]


def test_a_basis_with_another_shape_is_refused(run):
    forge_posterior(run, reflections=vectors(run)[:-1, :-1])
    assert failed(run) == ["weights of the network"]
    with pytest.raises(ValueError, match="not a posterior of the run's network"):
        folders.open_run(run.folder).load_network()


def test_a_shape_that_the_images_do_not_have_is_refused(run):
    path, before = run.folder / "run.json", file_sha256(run.folder / "run.json")
    text = path.read_text()
    record = json.loads(text)
    record["data"]["shape"] = record["data"]["shape"][::-1]
    save_json(path, record)
    replace_everywhere(run, before, file_sha256(path))
    forge_posterior(run)
    assert failed(run) == ["basis"]
    record["data"]["shape"] = [5, 5]
    save_json(path, record)
    with pytest.raises(ValueError, match="images"):
        failed(run)


def network():
    made = build_network(Settings.of("fast", prior_smooth=1.0, **GIVEN), 12, shape=(3, 4))
    first_layer(made).weight.choose(examples()[0])
    with torch.no_grad():
        first_layer(made).weight.mean.add_(0.5)
    return made


def examples():
    x = torch.randn(200, 12, generator=torch.Generator().manual_seed(0))
    return x, torch.where(x[:, 0] > 0, 1.0, -1.0)


class NoKl(Rotated):
    def kl(self):
        return torch.zeros(())


@dataclasses.dataclass(frozen=True)
class OfData(Smoothness):
    def matrix(self):
        return torch.eye(12).double()


def of_class(weight):
    weight.__class__ = NoKl


def of_data(weight):
    weight.smoothness = OfData((1, 3, 4), 1.0)


def own_matrix(weight):
    smoothness = Smoothness((1, 3, 4), 1.0)
    object.__setattr__(smoothness, "matrix", lambda: torch.eye(12).double())
    weight.smoothness = smoothness


def own_numbers(weight):
    weight.smoothness = types.SimpleNamespace(shape=(1, 3, 4), power=1.0)


def own_method(weight):
    weight.seen = lambda a: a


def more_numbers(weight):
    weight.reflections[0, 0] = 0.1


def no_numbers(weight):
    weight.reflections[1, 0] = torch.nan


def other_shape(weight):
    weight.reflections = weight.reflections[:-1]


@pytest.mark.parametrize(
    "lie",
    [of_class, of_data, own_matrix, own_numbers, own_method, more_numbers, no_numbers, other_shape],
)
def test_a_basis_that_lies_is_refused(lie):
    lying = network()
    lie(first_layer(lying).weight)
    with pytest.raises(ValueError, match=r"own posteriors cannot be certified|finite"):
        certify(lying, *examples(), samples=5, repeats=True)


def poisoned(weight):
    weight.seen(torch.zeros(1, 12))  # which keeps its map
    ((vectors, _, _),) = weight._bases
    weight._bases = [(vectors, torch.zeros(12, 12).double(), torch.zeros(12, 12).double())]


def test_what_a_basis_keeps_of_itself_does_not_matter():
    honest, lying = network(), network()
    poisoned(first_layer(lying).weight)
    wanted, found = (certify(n, *examples(), samples=5, repeats=True) for n in (honest, lying))
    assert (found.kl, found.risk, found.bound) == (wanted.kl, wanted.risk, wanted.bound)


def test_a_changed_method_is_noticed(monkeypatch):
    monkeypatch.setattr(Rotated, "seen", lambda self, a: a)
    with pytest.raises(ValueError, match="was changed after it was imported"):
        certify(network(), *examples(), samples=5, repeats=True)


def test_a_smooth_prior_cannot_change_after_data_were_seen():
    late = network()
    late.seal_prior()
    first_layer(late).weight.smoothness = Smoothness((1, 3, 4), 2.0)
    with pytest.raises(ValueError, match="prior changed"):
        certify(late, *examples(), samples=5, repeats=True)
