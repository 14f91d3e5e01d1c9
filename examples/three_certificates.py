"""Print the paper's bound beside the certificates of two runs: the end of `make run`.

python examples/three_certificates.py NETWORK_RUN KERNEL_RUN
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pacbayes.bounds import percent_up
from pacbayes.paper.printed import RESULTS

PAPER = RESULTS["fix-lambda", "relu"]


def row(name: str, bound: str, risk: float, kl: float, test: float) -> str:
    """Return one line of the table; risks are fractions."""
    return f"{name:<46} {bound:>8} {100 * risk:9.2f} % {kl:7.0f} {100 * test:9.2f} %"


def run_row(name: str, folder: Path) -> str:
    """Return the line of a certified run."""
    certificate, test = (
        json.loads((folder / f"{file}.json").read_text()) for file in ("certificate", "test")
    )
    c = certificate
    return row(name, percent_up(c["bound"]), c["risk"], c["kl"], test["randomised"])


def main(network: Path, kernel: Path) -> None:
    """Print the table."""
    data = json.loads((network / "run.json").read_text())["data"]["source"]["name"]
    print(f"\n{data}, data-free prior, with probability 0.95:\n")
    print(f"{'':<46} {'error ≤':>8} {'train risk':>11} {'KL':>7} {'test error':>11}")
    if data == "binary-mnist":
        bound = f"{100 * (PAPER.bound or 1):.1f} %"
        paper = (PAPER.train_linear, PAPER.kl or 0, PAPER.test_zero_one)
        print(row("the paper's bound, three layers of 100 relu", bound, *paper))
    print(run_row("one layer of 100 relu, Q in the inputs' basis", network))
    print(run_row("Gaussian process on wavelet energies", kernel))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
