"""Coverage on labels that are fair coins, where every predictor errs half of the time.

A certificate below one half is then a violation, whatever was chosen. With everything the issuer
may choose chosen in his favour, violations must stay within δ. The limit is exceeded with
probability below 10⁻⁶ if they do.
"""

import numpy as np
import pytest
import torch
from scipy.stats import binom

from pacbayes import PACBayesClassifier, Settings, build_network, certify, folders
from pacbayes.bounds import small_kl
from pacbayes.data import DataSource

pytestmark = pytest.mark.filterwarnings("ignore:The certificate of .* is above")  # few data

DELTA, REDRAWS = 0.5, 60
LIMIT = binom.isf(1e-6, REDRAWS, DELTA)


def coins(redraw, n, d=3):
    rng = np.random.default_rng(redraw)
    x = torch.from_numpy(rng.normal(size=(n, d)).astype(np.float32))
    return x, torch.from_numpy(rng.choice([-1.0, 1.0], n).astype(np.float32))


def test_the_best_of_many_seeds_holds_because_every_seed_pays():
    """Power: without payment nine redraws of ten are violated, and the limit is nearly eight.

    The networks are not trained and hardly random, so that their risks are those of coins.
    """
    violated = unpaid = 0
    for redraw in range(REDRAWS):
        x, y = coins(redraw, 8, 20)
        issued = []
        for seed in range(80):
            network = build_network(Settings(widths=(), prior_scale=0.001, seed=seed), 20)
            issued.append(certify(network, x, y, delta=DELTA, repeats=True))
        violated += min(c.bound for c in issued) < 0.5
        unpaid += min(small_kl(c.risk_upper, c.kl, c.n, DELTA) for c in issued) < 0.5
    assert violated <= LIMIT < unpaid


@pytest.mark.parametrize("predictor", ["drawn", "randomised"])
def test_a_trained_classifier_holds(predictor):
    """Power: a bound without its log terms is violated in most redraws."""
    violated, naive = 0, 0
    for redraw in range(REDRAWS):
        x, y = coins(redraw, 40)
        model = PACBayesClassifier(
            widths=(), epochs=3, prior_epochs=3, delta=DELTA, predictor=predictor, votes=2
        )
        model.set_params(random_state=redraw).fit(x.numpy(), y.numpy())
        violated += model.certificate_.bound < 0.5
        naive += model.certificate_.risk < 0.5
    assert violated <= LIMIT
    assert naive > 0.3 * REDRAWS


def test_a_run_with_every_mechanism_on_holds(tmp_path):
    violated = 0
    for redraw in range(20):
        x, y = coins(redraw, 60)
        folder = tmp_path / str(redraw)
        folder.mkdir()
        np.savez(folder / "data.npz", x=x.numpy(), y=y.numpy())
        source = DataSource(str(folder / "data.npz"))
        settings = Settings.of(
            "fast",
            widths=(),
            epochs=2,
            prior_epochs=2,
            prior_fraction=0.5,
            seed=redraw,
            prior_scales=(0.03, 0.1),
            prior_scale=0.03,
        )
        made = folders.train_all(folder / "run", settings, source, source.load())
        for run in made:
            c = folders.certify_run(
                run, run.load_network(), source.load(), delta=DELTA, bound="best-of", samples=2
            )
            violated += c.bound < 0.5
    assert violated <= binom.isf(1e-6, 20, DELTA)
