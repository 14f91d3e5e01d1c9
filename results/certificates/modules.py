"""Certify convolutional and residual networks: `make modules`, or with names of rows.

For each row: train, certify and verify in full, and keep the output. What was begun is resumed, and
what is there is kept. The table in modules.md has the rows that were made.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NamedTuple

from make import DEEP, HERE, RESULTS, call

from pacbayes.bounds import clopper_pearson, percent_up
from pacbayes.choices import Predictor


class Row(NamedTuple):
    """A run: options of train and certify, what it is, and what was published elsewhere."""

    options: str
    certifying: str
    task: str
    network: str
    prior: str
    published: str


_EDGES = "fixed edge filters, one convolution"
_DEEP = "five convolutions, batch norm"
_IMAGES, _CROPS = "--prior-augmentation images", "--prior-augmentation crops"
_SEVEN = (
    "--network conv --channels 24,32,48,48,64,64,64 --strides 1,2,1,1,2,1,1 --prior-fraction 0.7 "
    f"--prior-epochs 40 --prior-rate 0.005 --prior-decay 0.05 --batch-size 128 {_IMAGES}"
)
_ORIENTED = "--network examples/oriented.py:build"
_POOLED = "--network examples/edges.py:build"
_TWO = "two convolutions"
ROWS = {
    "binary-conv": Row(
        "--network conv", "", "binary MNIST", _TWO, "data-free", "paper, dense 15.5 %"
    ),
    "ten-conv": Row(
        *("--dataset mnist --network conv", "", "MNIST, ten classes", _TWO, "data-free"),
        "Lotfi et al. 2022, compression 11.6 %",
    ),
    "binary-oriented": Row(
        *(_ORIENTED, "--priors 8"),
        *("binary MNIST", _EDGES, "data-free", "paper, dense 15.5 %"),
    ),
    "ten-oriented": Row(
        *(f"--dataset mnist {_ORIENTED} --epochs 30 --learning-rate 0.01", "--priors 8"),
        *("MNIST, ten classes", _EDGES, "data-free", "Lotfi et al. 2022, compression 11.6 %"),
    ),
    "ten-dense": Row(
        *(f"--dataset mnist {DEEP} --epochs 50 --evaluate-every 10", "", "MNIST, ten classes"),
        *(
            "dense, three layers of 100, for comparison",
            "data-free",
            "García-Pérez et al. 2025 34.2 %",
        ),
    ),
    "binary-edges": Row(
        *(_POOLED, "--priors 16"),
        *("binary MNIST", "fixed edge features, 100 relu units", "data-free", "–"),
    ),
    "cifar-edges": Row(
        *("--dataset cifar-10 " + _POOLED, "--priors 16"),
        *("CIFAR-10", "fixed edges and colours, 50 relu units", "data-free", "–"),
    ),
    "binary-conv-learned": Row(
        f"{_SEVEN} --prior-finer",
        *("", "binary MNIST", "seven convolutions, batch norm", "learned", "–"),
    ),
    "ten-conv-learned": Row(
        f"--dataset mnist {_SEVEN}",
        *(
            "",
            "MNIST, ten classes",
            "seven convolutions, batch norm",
            "learned",
            "PAC-Bayes with Backprop 1.55 %",
        ),
    ),
    "fashion-conv-learned": Row(
        f"--dataset fashion-mnist --network conv --prior-fraction 0.7 --prior-epochs 12 {_CROPS}",
        *("", "Fashion-MNIST, ten classes", _DEEP, "learned", "–"),
    ),
    "cifar-residual-learned": Row(
        "--dataset cifar-10 --network examples/residual.py:build --prior-fraction 0.8 "
        f"--prior-epochs 25 --prior-rate 0.01 --prior-decay 0.05 {_CROPS}",
        *("", "CIFAR-10", "residual, 175 000 weights", "learned", "PAC-Bayes with Backprop 16.7 %"),
    ),
}
INTRODUCTION = """\
# Certificates of networks that are not dense

Every certificate here holds with probability 0.95 (δ = 0.05 in total, Monte-Carlo error included)
and was checked by `pacbayes verify --full`. The seed is 0. `make modules` made them, each with one
thread on a processor that other work shared. The linked text files show the commands and their
output.

- A *data-free* prior is random weights. The certificate covers the randomised classifier, which
  draws fresh weights for every prediction. Edge filters are formulas, fixed outside Q
  ([`oriented.py`](../../examples/oriented.py) and [`edges.py`](../../examples/edges.py)). Seven
  networks like the first and six like the second were tried on binary MNIST, and nine on CIFAR-10.
  `--priors` pays for the choice.
- A *learned* prior learned from the examples that are not counted in n. The certificate is the
  better of the held-out theorem and of one network drawn near the prior, which share δ. On binary
  MNIST the prior learned all ten digits (`--prior-finer`), and adds up their probabilities.
- *Hold-out* is the bound that a plain hold-out test gives for the same error on n unseen examples
  (Clopper and Pearson 1934), with all of δ. With a data-free prior it is hypothetical: the network
  learned from all examples.
- *Test errors*, of the certified predictor, are measured on 10 000 images used for nothing else.
"""
COLUMNS = "task | network | prior | n | certificate | theorem | risk | hold-out | test error"


def certify(name: str, row: Row) -> Path:
    """Train, certify and verify a row; return its folder."""
    folder = (HERE / name).relative_to(RESULTS.parent)
    out = HERE / f"{name}.txt"
    if not out.exists():
        certifying = f"certify {folder} {row.certifying}".rstrip()
        commands = [f"train {row.options} --out {folder}", certifying]
        text = "".join(f"$ pacbayes {c}\n{call(c)}\n" for c in commands)
        check = f"verify {folder} --full"
        out.write_text(f"{text}$ pacbayes {check}\n{call(check)}")
    return HERE / name


def line(name: str, folder: Path) -> str:
    """Return a row of the table."""
    row = ROWS[name]
    path = min(folder.glob("certificate*.json"))
    c, test = (json.loads(p.read_text()) for p in (path, folder / "test.json"))
    kind = next(p for p in Predictor if p.file == path.name)
    cells = [
        f"[{row.task}]({name}.txt)",
        row.network,
        row.prior,
        str(c["n"]),
        f"**{percent_up(c['bound'])}**",
        c["bound_name"],
        f"{100 * c['risk']:.2f} %",
        percent_up(clopper_pearson(c["risk"], c["n"], c["delta"])),
        f"{100 * test[kind.value]:.2f} %",
        row.published,
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    for name in sys.argv[1:] or ROWS:
        certify(name, ROWS[name])
    made = [name for name in ROWS if (HERE / f"{name}.txt").exists()]
    head = [INTRODUCTION, f"| {COLUMNS} | published elsewhere |", f"|---|---|---|{'---:|' * 6}---|"]
    text = "\n".join([*head, *(line(name, HERE / name) for name in made)])
    (HERE / "modules.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
