"""Certificates on MNIST and Fashion-MNIST, from nothing: `make certificates`, resumable.

For each row: train, certify the best prior scale, certify one drawn network, verify both, and keep
what was printed. Half an hour on two cores.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

from pacbayes.bounds import percent_up

RESULTS = Path(__file__).parent.parent
HERE = RESULTS / "certificates"
LEARNED = "--prior-fraction 0.5 --prior-augmentation images --prior-epochs 200"
SCALES = "--prior-scale 0.02,0.03,0.05"
ROWS = [  # name, folder, options of train, task, prior, best published beside it
    ("binary-relu", "fast-relu", "", "binary MNIST, relu", "data-free", "paper 15.5 %"),
    (
        *("binary-sign", "fast-sign", "--activation sign"),
        *("binary MNIST, sign", "data-free", "paper 21.7 %"),
    ),
    (
        *("binary-sigmoid", "fast-sigmoid", "--activation sigmoid"),
        *("binary MNIST, sigmoid", "data-free", "paper 18.8 %"),
    ),
    (
        *("binary-relu-learned", None, f"{LEARNED} {SCALES}"),
        *("binary MNIST, relu", "learned", "–"),
    ),
    (
        *("ten-relu-learned", None, f"--dataset mnist {LEARNED} {SCALES}"),
        *("MNIST, ten classes, relu", "learned", "PAC-Bayes with Backprop 2.79 %"),
    ),
    (
        *("fashion-relu", None, "--dataset binary-fashion-mnist"),
        *("binary Fashion, relu", "data-free", "–"),
    ),
    (
        *("fashion-relu-learned", None, f"--dataset binary-fashion-mnist {LEARNED} {SCALES}"),
        *("binary Fashion, relu", "learned", "–"),
    ),
]
INTRODUCTION = """\
# Certificates

δ = 0.05 in total, Monte-Carlo error included, each verified by `pacbayes verify`; seed 0, made by
`make certificates` on two CPU cores. The network is 784-100-100-100-1 (or 10). *Drawn* is one
network drawn from Q and kept, the best of ten. Test errors are of 10 000 images that nothing
looked at. Commands and what they print are in the text files.

A certificate is about the distribution its bound set was drawn from. The published test images
of Fashion-MNIST err more than training images that the prior never saw, so there the test error
may lie above the certificate.
"""
COLUMNS = (
    *("task", "prior", "certificate, randomised", "test error", "certificate, drawn"),
    *("test error, drawn", "beside", "n"),
)


def call(command: str) -> str:
    """What a command prints; the commands are the ones a user would type."""
    arguments = [sys.executable, "-c", "from pacbayes.cli import main; main()"]
    done = subprocess.run(
        [*arguments, *shlex.split(command)], stdout=subprocess.PIPE, text=True, cwd=RESULTS.parent
    )
    if done.returncode:
        raise SystemExit(f"pacbayes {command}: exit code {done.returncode}")
    return done.stdout


def make(name: str, folder: Path, options: str) -> Path:
    """The row's best run, certified and verified, its output in `name`.txt."""
    train = f"train {options} --out {folder.relative_to(RESULTS.parent)}".replace("  ", " ")
    best = Path(json.loads(call(f"{train} --json"))["run"])
    drawn = f"{best}/certificate-drawn.json"
    for part, commands in (
        ("", [f"certify {best}", f"verify {best}/certificate.json --full"]),
        ("-drawn", [f"certify {best} --bound disintegrated --networks 10", f"verify {drawn}"]),
    ):
        out = HERE / f"{name}{part}.txt"
        if not out.exists():
            text = "" if part else f"$ pacbayes {train}\n\n"
            for command in commands:
                text += f"$ pacbayes {command}\n{call(command)}\n"
            out.write_text(text)
    return RESULTS.parent / best


def table(rows: list[tuple[str, Path, str, str, str]]) -> str:
    """Markdown of certified runs: name, folder, task, prior, beside."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for name, run, task, prior, beside in rows:
        names = ("certificate", "certificate-drawn", "test")
        c, drawn, test = (json.loads((run / f"{part}.json").read_text()) for part in names)
        cells = [
            f"[{task}](results/certificates/{name}.txt)",
            prior,
            f"**{percent_up(c['bound'])}**",
            f"{100 * test['randomised']:.2f} %",
            f"[**{percent_up(drawn['bound'])}**](results/certificates/{name}-drawn.txt)",
            f"{100 * test['drawn']:.2f} %",
            beside,
            str(c["n"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    done = []
    for name, folder, options, task, prior, beside in ROWS:
        run = make(name, RESULTS / folder if folder else HERE / name, options)
        done.append((name, run, task, prior, beside))
        links = table(done).replace("(results/certificates/", "(")
        (HERE / "README.md").write_text(f"{INTRODUCTION}\n{links}")


if __name__ == "__main__":
    main()
