"""Labels are put in order, or refused with what is wrong about them."""

import numpy as np
import pytest

from pacbayes import CertifiedClassifier, PACBayesClassifier
from pacbayes.data.dataset import classes_of

X = np.random.default_rng(0).normal(size=(60, 2))
SURROGATE = np.array(["ill", "\udcff"] * 30)
MIXED = np.array([1, "ill"] * 30, dtype=object)


def test_labels_are_indices_among_the_classes():
    classes, index = classes_of(np.array(["b", "a", "b"]))
    assert classes.tolist() == ["a", "b"]
    assert classes[index].tolist() == ["b", "a", "b"]


@pytest.mark.parametrize("model", [CertifiedClassifier(), PACBayesClassifier()])
@pytest.mark.parametrize(
    ("y", "says"),
    [
        (SURROGATE, r"'\\udcff' is not valid Unicode"),
        (MIXED, "all texts or all numbers, got int, s"),
    ],
)
def test_labels_without_an_order_or_an_encoding_are_refused(model, y, says):
    with pytest.raises(ValueError, match=says):
        model.fit(X, y)
