"""Certificates are issued again from the evidence alone."""

import json

import numpy as np
import pytest
from scipy.stats import beta

import pacbayes
from pacbayes import CertifiedClassifier
from pacbayes.folders.models import issue_again
from pacbayes.verify import verify

from .conftest import FAST, numbers
from .test_models import KINDS


@pytest.mark.filterwarnings("ignore::pacbayes.CertificateWarning")  # votes are loose
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("grouped", [False, True], ids=["examples", "groups"])
def test_the_same_delta_gives_the_same_certificates(kind, grouped, tmp_path):
    x, y = numbers()
    groups = np.arange(len(y)) // 3 if grouped else None
    model = CertifiedClassifier(**({"candidates": FAST, "random_state": 0} | KINDS[kind]))
    model.fit(x, y, groups=groups).save(tmp_path / "model")
    before = (tmp_path / "model" / "certificate.json").read_text()
    assert issue_again(tmp_path / "model", 0.05) == model.certificate_
    assert json.loads((tmp_path / "model" / "certificate.json").read_text()) == json.loads(before)


def test_another_delta_changes_the_bounds_and_not_the_predictor(fitted, saved):
    model, x, _ = fitted
    c = issue_again(saved, 0.001)
    part = 0.001 * model.evidence_.shares[c.part]
    errors, n = c.losses, c.n
    assert c.bound == pytest.approx(beta.ppf(1 - part, errors + 1, n - errors))
    assert all(f.holds for f in verify(saved))
    again = pacbayes.load(saved)
    assert again.certificate_ == c
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


def test_a_withheld_certificate_is_not_issued_later(saved):
    (saved / "certificate.json").unlink()
    with pytest.raises(ValueError, match="withheld when the classifier was fitted"):
        issue_again(saved, 0.05)


def test_delta_must_be_a_probability(saved):
    with pytest.raises(ValueError, match="must be in"):
        issue_again(saved, 1.5)
