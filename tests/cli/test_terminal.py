"""What a user sees on a terminal, in a pipe and in a file: the same facts."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import pacbayes

ENVIRONMENT = os.environ | {
    "PYTHONPATH": str(Path(pacbayes.__file__).parent.parent),
    "PYTHONUNBUFFERED": "",
}
COMMAND = [sys.executable, "-m", "pacbayes"]
COLOUR = re.compile(r"\x1b\[[0-9;]*[349][0-9]m")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SMALL = ("--prior-fraction", "0", "--widths", "none", "--epochs", "4", "--evaluate-every", "2")


@pytest.fixture
def on_a_terminal(run_cli, monkeypatch):
    """Everything that a command shows on a pseudo-terminal."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")

    def run(*arguments):
        ours, theirs = pty.openpty()
        shown = []
        reader = threading.Thread(target=_read, args=(ours, shown))
        reader.start()
        with os.fdopen(theirs, "w") as terminal, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", terminal)
            patch.setattr(sys, "stderr", terminal)
            assert run_cli(*arguments)[0] == 0
        reader.join()
        os.close(ours)
        return b"".join(shown).decode()

    return run


def _read(terminal, shown):
    with contextlib.suppress(OSError):  # how Linux says that the other end is closed
        while piece := os.read(terminal, 1 << 16):
            shown.append(piece)


def _hear_ctrl_c():
    """To which whatever a shell started in the background is deaf, as these tests may be."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def facts(text):
    """Evaluations, without the times, which differ."""
    return re.findall(r"epoch +\d+  risk +\S+ %  KL +\S+  bound +\S+ %", ESCAPES.sub("", text))


def test_a_terminal_and_a_pipe_get_the_same_facts(on_a_terminal, run_cli, csv, tmp_path):
    train = ("train", "--dataset", csv, *SMALL, "--out")
    shown = on_a_terminal(*train, tmp_path / "a")
    _, out, err = run_cli(*train, tmp_path / "b")
    assert "\x1b" not in out + err
    assert COLOUR.search(shown)
    assert len(facts(shown)) == 2
    assert facts(shown) == facts(err)
    assert re.search(r"epoch +2 .* bound .* s left", err)
    assert re.search(r"epoch 4 of 4, .* s left, bound \S+ % ", ESCAPES.sub("", shown))
    for text, folder in ((shown, tmp_path / "a"), (out, tmp_path / "b")):
        assert re.search(r"Trained in \S+ s\. Bound \S+ % \(a guide, not yet a certificate\)", text)
        assert f"Written to {folder}" in text
        assert f"Next: pacbayes certify {folder}" in text


def test_no_color_is_honoured_and_a_narrow_terminal_still_says_it_all(
    on_a_terminal, csv, tmp_path, monkeypatch
):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "44")
    shown = on_a_terminal("train", "--dataset", csv, *SMALL, "--out", tmp_path / "a")
    assert not COLOUR.search(shown)
    assert re.search(r"epoch 4 of 4, .* s left, bound \S+ %", shown)


def test_quiet_is_the_summary_alone(run_cli, csv, tmp_path):
    code, out, err = run_cli("train", "--dataset", csv, *SMALL, "--out", tmp_path / "a", "--quiet")
    assert (code, err) == (0, "")
    assert out.count("\n") == 3


def test_without_a_terminal_a_slow_epoch_gives_a_sign_of_life(run_cli, csv, tmp_path, monkeypatch):
    from pacbayes.cli import progress

    monkeypatch.setattr(progress, "_SILENCE", 0.0)
    _, _, err = run_cli("train", "--dataset", csv, *SMALL, "--out", tmp_path / "a")
    assert re.search(r"^epoch 1 of 4, .* s left$", err, re.MULTILINE)
    assert re.search(r"^epoch 3 of 4, .* s left, bound \S+ %$", err, re.MULTILINE)


def test_a_finished_run_and_a_resumed_one_say_so(run_cli, csv, tmp_path):
    train = ("train", "--dataset", csv, *SMALL, "--out", tmp_path / "a")
    run_cli(*train)
    code, out, err = run_cli(*train)
    assert code == 0
    assert out.startswith("Already trained.")
    assert "already trained, best bound so far" in err
    (tmp_path / "a" / "posterior.safetensors").unlink()
    _, out, err = run_cli(*train)
    assert out.startswith("Trained in")
    assert "resuming, best bound so far" in err


def test_a_run_that_was_killed_before_its_first_evaluation_resumes(
    run_cli, csv, tmp_path, monkeypatch
):
    from pacbayes import folders
    from pacbayes.folders import run as running
    from pacbayes.training import loop

    late = ("--evaluate-every", 4)
    train = ("train", "--dataset", csv, *SMALL, *late, "--out", tmp_path / "a")
    original = folders.train_run

    def interrupted(run, data, **given):
        for step in original(run, data, **given):
            if step.epoch == 2:
                raise KeyboardInterrupt
            yield step

    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(running, "train_run", interrupted)
    assert run_cli(*train)[0] == 130
    assert (tmp_path / "a" / "checkpoint.safetensors").exists()
    monkeypatch.setattr(running, "train_run", original)
    code, _, err = run_cli(*train)
    assert code == 0
    assert "\nresuming\n" in err


def test_every_step_says_how_long_it_took_and_what_comes_next(run_cli, csv, tmp_path):
    run = tmp_path / "a run"  # commands to copy are quoted
    run_cli("train", "--dataset", csv, *SMALL, "--out", run)
    _, _, err = run_cli("predict", run, csv)
    assert f"No certificate covers this predictor yet: pacbayes certify '{run}'\n" in err
    _, out, err = run_cli("certify", run, "-T", 5)
    assert f"Written to {run}" in " ".join(out.split())  # a long path is wrapped
    assert re.fullmatch(rf"Took \S+ s\. Next: pacbayes verify '{run}'\n", err)
    _, _, err = run_cli("verify", run)
    assert re.fullmatch(rf"\d+ checks, \S+ s\. Next: pacbayes predict '{run}' DATA\n", err)
    _, _, err = run_cli("predict", run, csv, "--out", tmp_path / "p.csv")
    assert f"written to {tmp_path / 'p.csv'}" in err
    assert re.search(r"Took \S+ s\.$", err)


@pytest.mark.parametrize("lines", [0, 1])
@pytest.mark.parametrize("command", ["--help", "--version"])
def test_a_reader_that_leaves_early_is_no_error(lines, command):
    process = subprocess.Popen(
        [*COMMAND, command], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for _ in range(lines):
        process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() in ((141,) if lines == 0 else (0, 141))


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_in_one_line_and_the_run_resumes(csv, tmp_path, times):
    train = ("train", "--dataset", csv, "--widths", "4", "--epochs", "100000", "--out")
    command = [*COMMAND, *map(str, (*train, tmp_path / "a"))]
    process = subprocess.Popen(
        command,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_hear_ctrl_c,
    )
    for line in process.stderr:
        if line.startswith("epoch"):
            break
    process.send_signal(signal.SIGINT)
    if times > 1:  # once more, when the first is being answered
        for line in process.stderr:
            if line.startswith("interrupted"):
                break
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    err = f"\n{line}{err}" if times > 1 else err
    assert process.returncode == 130
    assert out == ""
    assert err.endswith("\ninterrupted; run the same command again to resume\n")
    assert "Traceback" not in err
    assert (tmp_path / "a" / "checkpoint.safetensors").exists()
