"""Every command runs once, each with the files that others have made."""

import pytest

from pacbayes.cli import _COMMANDS

FEW = "-T", 2
TRAIN = "--dataset", "digits", "--epochs", 1, "--widths", 3, "--evaluation-samples", 2
REPRODUCE = "--dataset", "digits", "--columns", "mlp", "--repeats", 1, "--epochs", 1
TOUR = {  # in this order, after `train`
    "certify": ("run", *FEW),
    "verify": ("run", "--full"),
    "predict": ("run", "digits", "--out", "labels.csv"),
    "report": ("run", "--out", "report.html"),
    "plot": ("run", "--out", "plot.png"),
    "export": ("run", "--format", "torch", "--out", "run.pt2"),
    "bound": ("small-kl", "--risk", 0.05, "--kl", 30, "--n", 1000),
    "compare": ("--n", 1000, "--out", "bounds.png"),
    "plan": ("--n", 500, "--error", 0.1),
    "reproduce": ("table1", *REPRODUCE, "--workers", 1, "--out", "sweep"),
    "info": (),
    "allow": ("run",),
    "bench": ("--quick", "--only", "nothing of that name"),
}
REFUSED = {"allow": "needs no code of its own", "bench": "nothing of that name"}  # by one line


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tour")


@pytest.fixture(autouse=True)
def _there(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_the_tour_has_every_command():
    assert {"train", *TOUR} == set(_COMMANDS)


def test_a_network_is_trained(run_cli):
    code, _, err = run_cli("train", *TRAIN, *FEW, "--out", "run")
    assert code == 0, err


@pytest.mark.parametrize("command", TOUR)
def test_a_command_runs(command, run_cli):
    code, out, err = run_cli(command, *TOUR[command])
    if command in REFUSED:
        assert (code, REFUSED[command] in err.splitlines()[-1]) == (2, True), err
    else:
        assert (code, bool(out + err)) == (0, True), err
