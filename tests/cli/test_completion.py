"""The tab key, by the protocol that a shell speaks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pacbayes

SOURCE = str(Path(pacbayes.__file__).parent.parent)
MAIN = "from pacbayes.cli import main; main()"


@pytest.fixture
def offered(tmp_path):
    """What bash offers for the last word of a line; a space at its end begins a new one."""
    for run in ("runs/one", "runs/two/scale-1", "other", "runs/.hidden"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "run.json").write_text("{}")
    (tmp_path / "runs" / "empty").mkdir()

    def complete(line):
        words = line.split(" ")
        own = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        own |= {"_PACBAYES_COMPLETE": "complete_bash", "PYTHONPATH": SOURCE}
        environment = os.environ | own
        command = [sys.executable, "-c", MAIN]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return done.stdout.split()

    return complete


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("pacbayes tr", ["train"]),
        ("pacbayes pl", ["plot", "plan"]),
        ("pacbayes plan --data", ["--data-free-kl"]),
        ("pacbayes train --prior-s", ["--prior-scale", "--prior-smooth"]),
        ("pacbayes train --dataset bin", ["binary-mnist", "binary-fashion-mnist"]),
        ("pacbayes train --dataset mine.c", []),  # the shell's own: files
        ("pacbayes train --activation s", ["sigmoid", "sign"]),
        ("pacbayes train --estimator l", ["leave-one-out", "local-expectation"]),
        ("pacbayes certify ", ["other", "runs/one", "runs/two/scale-1"]),
        ("pacbayes verify runs/t", ["runs/two/scale-1"]),
        ("pacbayes plot runs/", ["runs/one", "runs/two/scale-1"]),
        ("pacbayes predict ./o", ["./other"]),
        ("pacbayes predict runs/one dig", ["digits"]),
        ("pacbayes predict runs/one digits --method v", ["vote"]),
        ("pacbayes reproduce table1 --columns pbg,ml", ["pbg,mlp"]),
    ],
)
def test_names_and_run_folders_are_completed(offered, line, words):
    assert offered(line) == words


def test_bash_gets_a_script():
    environment = os.environ | {"_PACBAYES_COMPLETE": "source_bash"}
    command = [sys.executable, "-c", MAIN]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "complete -o default -F _pacbayes_completion pacbayes" in done.stdout


def test_completing_does_without_torch():
    code = (
        "import sys; from pacbayes.cli import options as o; "
        "o.complete_datasets(''), o.complete_columns(''), o.complete_runs(''); "
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
