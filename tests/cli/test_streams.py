"""Results go out whatever standard output is, and a failure to print them is exit code 2."""

import errno
import io
import os
import subprocess
import sys

import pytest

from pacbayes import cli
from pacbayes.cli.streams import remark, shout

BOUND = [sys.executable, "-m", "pacbayes", "bound", "small-kl", "--risk", "0.1", "--kl", "10"]
BOUND += ["--n", "1000"]
LESS = "verify: \u03b4 \u2264 0.05, 1 \u2212 \u03b1\u2026 \u6f22\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_every_encoding_takes_every_text(monkeypatch, encoding):
    taken = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(taken, encoding, newline="\n"))
    monkeypatch.setattr(sys, "argv", ["pacbayes", "--version"])
    monkeypatch.setattr(cli, "_run", lambda arguments: print(LESS, end=""))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    sys.stdout.flush()
    assert not ended.value.code
    said = taken.getvalue().decode(encoding)
    assert said == LESS if encoding == "utf-8" else said.startswith("verify: delta <= 0.05, 1 - ")


def test_a_full_output_is_an_error_in_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(BOUND, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "error: standard output: no space left on device\n"


def test_a_closed_output_is_an_error_in_one_line():
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *BOUND], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "error: standard output: bad file descriptor\n"


def test_a_closed_standard_error_is_no_error():
    done = subprocess.run(["sh", "-c", '"$@" 2>&-', "sh", *BOUND], stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert done.stdout


def test_a_valid_certificate_is_printed_in_ascii():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(BOUND, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_remarks_that_a_full_standard_error_does_not_take_are_lost(monkeypatch):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(sys, "stderr", Full())
    remark("took 2 s")
    shout("a warning")
