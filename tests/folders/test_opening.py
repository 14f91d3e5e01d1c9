"""Every kind of folder is opened, loaded, asked and certified in one way."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

import pacbayes
from pacbayes import CertifiedClassifier, PACBayesClassifier, Settings, folders
from pacbayes.choices import Predictor
from pacbayes.data import DataSource
from pacbayes.folders.kernels import create_kernel, train_kernel_run
from pacbayes.networks.kernel import KernelPrior
from pacbayes.training.kernel import KernelSettings
from pacbayes.verify import verify

KINDS = ("trained", "kernel", "estimator", "classifier")


def rows(n=200):
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(n, 3)).astype(np.float32).astype(float), columns=list("abc"))
    return x, np.where(x["a"] + 0.3 * rng.normal(size=n) > 0, "yes", "no")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of each kind, the file of their examples, and what was saved."""
    place, (x, y) = tmp_path_factory.mktemp("folders"), rows()
    file = place / "rows.csv"
    x.assign(label=y).to_csv(file, index=False)
    source = DataSource(str(file), label="label")
    settings = Settings.of("fast", "relu", widths=(4,), epochs=4, prior_fraction=0.5)
    read = source.read()
    run = folders.prepare(place / "trained", settings, source, folders.featured(read, settings))
    for _ in folders.train_run(run, run.load_data()):
        pass
    prior, own = KernelPrior("columns", "linear", (3,)), KernelSettings(landmarks=50, epochs=20)
    kernel = create_kernel(place / "kernel", prior, source, read.plain(), own)
    train_kernel_run(kernel, kernel.load_data())
    network = PACBayesClassifier(widths=(4,), epochs=4, prior_epochs=4, random_state=0).fit(x, y)
    network.save(place / "estimator", x, y)
    model = CertifiedClassifier(GaussianNB(), random_state=0).fit(x, y)
    model.save(place / "classifier", x)
    return place, file, {"estimator": network, "classifier": model}


@pytest.mark.parametrize("name", KINDS)
def test_a_folder_predicts_what_is_loaded_from_it(made, name):
    place, file, saved = made
    x, y = rows()
    opened = folders.open(place / name)
    predictor = pacbayes.load(place / name)
    labels = list(map(str, predictor.predict(x)))
    if name in saved:
        assert labels == saved[name].predict(x).tolist()
    found = opened.predict(file, "label")
    assert (found.labels == labels, len(labels)) == (True, 200)
    assert found.error == np.mean(np.array(labels) != y)


@pytest.mark.parametrize("name", KINDS)
def test_a_folder_is_certified_and_verified(made, name):
    place, _, saved = made
    certificate = folders.open(place / name).certify(delta=0.05)
    assert 0 < certificate.bound < 1
    if name in saved:
        assert certificate.bound == saved[name].certificate_.bound
    assert pacbayes.load(place / name).certificate_.bound == certificate.bound
    findings = list(verify(place / name))
    assert all(finding.holds for finding in findings)
    assert certificate.bound >= max(f.bound for f in findings if f.bound is not None)


def test_every_manifest_names_its_kind_and_those_that_do_not_are_networks(made):
    place, _, _ = made
    kinds = {name: json.loads((place / name / "run.json").read_text())["kind"] for name in KINDS}
    same = {"trained": "network", "estimator": "network", "classifier": "classifier"}
    assert kinds == same | {"kernel": "kernel"}
    path = place / "trained" / "run.json"
    text = path.read_text()
    path.write_text(json.dumps({k: v for k, v in json.loads(text).items() if k != "kind"}))
    assert folders.open(place / "trained").kind == "network"
    path.write_text(text.replace('"network"', '"forest"', 1))
    with pytest.raises(ValueError, match="kind 'forest' is unknown; it may need a newer pacbayes"):
        folders.open(place / "trained")
    path.write_text(text)


def test_a_network_is_loaded_with_the_predictor_that_its_certificate_covers(made):
    place, file, _ = made
    folders.open(place / "trained").certify(delta=0.05)
    loaded = pacbayes.load(place / "trained")
    assert loaded.certificate_.kind is loaded.predictor_
    assert loaded.predictor_ in (Predictor.DRAWN, Predictor.FIXED)
    assert loaded.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(loaded.predict(rows()[0]), loaded.predict(file))


def test_a_folder_of_prior_scales_opens_as_the_best_of_them(made, tmp_path):
    place, _, _ = made
    bounds = {"scale-0.1": 0.4, "scale-0.3": 0.3}
    for name, bound in bounds.items():
        (tmp_path / name).mkdir()
        for file in (place / "trained").iterdir():
            (tmp_path / name / file.name).write_bytes(file.read_bytes())
        history = json.loads((tmp_path / name / "history.json").read_text())
        changed = json.dumps([e | {"bound": bound} for e in history])
        (tmp_path / name / "history.json").write_text(changed)
    assert folders.open(tmp_path).folder == tmp_path / "scale-0.3"


def test_other_folders_are_refused_in_one_line(made, tmp_path):
    place, _, _ = made
    with pytest.raises(ValueError, match=r"is not a run folder: it has no run\.json$"):
        folders.open(tmp_path)
    with pytest.raises(ValueError, match=r"it has no run\.json; its runs are .*classifier, .*"):
        folders.open(place)
    with pytest.raises(ValueError, match="holds a classifier, not a network; use pacbayes"):
        folders.open_run(place / "classifier")
