import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from pacbayes import CertifiedClassifier

FAST = {"linear": LogisticRegression(), "bayes": GaussianNB()}


def numbers(n=300):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4))
    return x, (x[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)


def table(n=300):
    """A data frame of numbers, texts, integers and truth values with missing ones, and labels."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "count": rng.integers(0, 9, n),
            "new": rng.random(n) < 0.5,
        }
    )
    labels = np.where(frame["size"] + (frame["colour"] == "red") > 0.3, "good", "bad")
    frame.loc[3, "size"] = np.nan
    frame.loc[5, "colour"] = None
    return frame, labels


@pytest.fixture(scope="session")
def fitted():
    """A classifier of two fast candidates, with everything it was fitted to."""
    x, y = numbers()
    return CertifiedClassifier(candidates=FAST, random_state=0).fit(x, y), x, y


@pytest.fixture
def saved(fitted, tmp_path):
    """A folder of that classifier, with its features."""
    model, x, _ = fitted
    model.save(tmp_path / "model", x)
    return tmp_path / "model"
