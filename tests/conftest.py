"""What the tests share: one seed, a yardstick for means, data sets, the command line."""

import signal
import sys

import numpy as np
import pytest
import torch
from hypothesis import settings

from pacbayes import cli
from pacbayes.data import DataSource
from pacbayes.paper.store import Summary

# Examples are the same in every run: a failure is a fact, not an accident.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")
torch.set_num_threads(1)  # everything here is small, and threads that wait for each other are slow


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(20201)


@pytest.fixture
def z_scores():
    """Deviations of the mean of independent replicates (K, …) from a value, in standard errors."""

    def compute(replicates: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        K = len(replicates)
        error = replicates.std(0) / K**0.5
        return (replicates.mean(0) - expected) / error.clamp(min=1e-15)

    return compute


@pytest.fixture
def source(tmp_path):
    """A small data set of one's own, with a test part."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4)).astype(np.float32)
    y = np.where(x[:, 0] > 0, "yes", "no")
    np.savez(tmp_path / "data.npz", x=x, y=y)
    np.savez(tmp_path / "test.npz", x=x[:20], y=y[:20])
    return DataSource(str(tmp_path / "data.npz"), test=str(tmp_path / "test.npz"))


@pytest.fixture
def summarised():
    """The summary of a run that learned, with changes."""

    def make(**changes):
        given = {"learned": True, "epoch": 5, "train_linear": 0.06, "test_zero_one": 0.07}
        given |= dict.fromkeys(("bound", "kl", "vote_zero_one", "small_kl", "certificate"))
        given |= {"seconds": 120.0, "attempts": 1, "versions": {}}
        return Summary(**(given | changes))

    return make


@pytest.fixture
def run_cli(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["pacbayes", *map(str, arguments)])
        interrupt = signal.getsignal(signal.SIGINT)
        with pytest.raises(SystemExit) as ended:
            cli.main()
        signal.signal(signal.SIGINT, interrupt)  # which an interrupted command ignores at its end
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return run


@pytest.fixture
def csv(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    rows = [f"{a:.4f},{b:.4f},{c:.4f},{'big' if a + b > 0 else 'small'}" for a, b, c in x]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(rows) + "\n")
    return path
