"""PACBayesClassifier with convolutions and with modules of one's own."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from torch import nn

import pacbayes
from pacbayes import PACBayesClassifier
from pacbayes.networks.modules import Convolutions
from pacbayes.verify import verify

SMALL = Convolutions(channels=(3,), kernels=(3,), strides=(1,))
QUICK = {"random_state": 0, "prior_epochs": 3}


def build(shape, outputs):
    first = nn.Linear(int(np.prod(shape)), 4)
    return nn.Sequential(nn.Flatten(), first, nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, outputs))


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    x = rng.normal(size=(120, 1, 4, 5)).astype(np.float32)
    x[:, 0, 1:3] += 3.0 * y[:, None, None] - 1.5
    return x, np.array(["no", "yes"])[y]


@pytest.fixture(scope="module")
def conv(images):
    return PACBayesClassifier(network=SMALL, **QUICK).fit(*images)


def test_images_and_rows_of_pixels_are_the_same_examples(conv, images):
    x, y = images
    rows = PACBayesClassifier(network=SMALL, image_shape=(1, 4, 5), **QUICK)
    rows.fit(x.reshape(120, -1), y)
    assert rows.certificate_ == conv.certificate_
    np.testing.assert_array_equal(rows.predict_proba(x), conv.predict_proba(x.reshape(120, -1)))


def test_the_certificate_counts_the_errors_of_predict_on_the_bound_set(conv, images):
    x, y = images
    assert conv.predictor_ == "fixed"
    rest = conv.bound_set_
    assert conv.certificate_.n == len(rest) < 120
    assert conv.certificate_.risk == pytest.approx(np.mean(conv.predict(x[rest]) != y[rest]))
    p = conv.predict_proba(x)
    assert p.shape == (120, 2)
    np.testing.assert_allclose(p.sum(1), 1)
    assert conv.preprocessing_ is None


@pytest.mark.filterwarnings("ignore::pacbayes.CertificateWarning")  # it learns too little
@pytest.mark.parametrize("predictor", ["drawn", "vote", "randomised"])
def test_every_predictor_of_a_data_free_prior_is_certified(images, predictor):
    x, y = images
    asked = {"prior_fraction": 0, "epochs": 1, "votes": 2, "predictor": predictor}
    model = PACBayesClassifier(network=SMALL, random_state=0, **asked).fit(x, y)
    assert model.predictor_ == predictor
    assert model.certificate_.n == 120
    assert model.certificate_.assumptions.prior_seed == 0
    np.testing.assert_array_equal(model.predict(x[:9]), model.predict(x)[:9])


def test_it_is_cloned_shown_and_pickled(conv, images):
    again = clone(conv)
    assert again.get_params()["network"] == SMALL
    assert "Convolutions" in repr(again)
    assert again.set_params(network=None).network is None
    loaded = pickle.loads(pickle.dumps(conv))
    np.testing.assert_array_equal(loaded.predict(images[0]), conv.predict(images[0]))


def test_classes_of_ones_own_travel_to_another_process(images, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from torch import nn\n"
        "class Mine(nn.Module):\n"
        "    def __init__(self, outputs):\n"
        "        super().__init__()\n"
        "        self.fc = nn.Linear(20, outputs)\n"
        "    def forward(self, x):\n"
        "        return self.fc(x.flatten(1).relu())\n"
        "def build(shape, outputs):\n"
        "    return Mine(outputs)\n"
    )
    model = PACBayesClassifier(network=f"{file}:build", **QUICK)
    model.fit(*images)
    carried = pickle.dumps(model)
    np.save(tmp_path / "x.npy", images[0][:20])
    (tmp_path / "model").write_bytes(carried)
    file.unlink()
    code = "import pickle, numpy; m = pickle.load(open('model', 'rb'))\n"
    code += "print(m.predict(numpy.load('x.npy')).tolist())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(model.predict(images[0][:20]).tolist())


@pytest.mark.parametrize("network", [SMALL, build], ids=["conv", "own"])
def test_what_was_saved_is_verified_and_predicts_the_same(network, images, tmp_path):
    x, y = images
    model = PACBayesClassifier(network=network, **QUICK).fit(x, y)
    model.save(tmp_path / "run", x, y)
    path = tmp_path / "run" / "certificate-fixed.json"
    assert all(finding.holds for finding in verify(path))
    loaded = pacbayes.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict_proba(x), model.predict_proba(x))
    assert loaded.certificate_.bound == model.certificate_.bound
    assert loaded.network_.state_dict().keys() == model.network_.state_dict().keys()
    loaded.save(tmp_path / "again", x, y)
    assert clone(loaded).fit(x, y).certificate_.bound == model.certificate_.bound


def test_code_of_ones_own_stands_among_the_assumptions(images):
    model = PACBayesClassifier(network=build, **QUICK).fit(*images)
    assert model.certificate_.assumptions.code.startswith("test_sklearn_networks.py:build, SHA-256")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": "cnv"}, "as in my_network.py:build, got 'cnv'"),
        ({"activation": "sign"}, "'sign' is for dense networks"),
        ({"image_shape": (1, 5, 4)}, r"but examples have shape \(1, 4, 5\)"),
        ({"network": Convolutions()}, "too small for a convolution"),
    ],
)
def test_wrong_values_are_refused(images, change, message):
    with pytest.raises(ValueError, match=message):
        PACBayesClassifier(network=SMALL, **QUICK).set_params(**change).fit(*images)


def test_rows_that_are_no_images_are_refused_by_convolutions(images):
    with pytest.raises(ValueError, match="convolutions need images"):
        PACBayesClassifier(network=SMALL, **QUICK).fit(images[0].reshape(120, -1), images[1])
