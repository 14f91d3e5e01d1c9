"""Show for which directions of the inputs Q pays: `make directions`, which writes this page.

One hidden layer of 100 relu units learns binary MNIST three times, with seed 0: Q diagonal in the
pixels; diagonal in the eigenbasis of the images, beside the same prior; and that beside a prior
which expects smooth images. KL(Q|P) of the first layer's weights (*weights 1*) is a sum over
inputs, so every direction has its nats and its eigenvalue: the mean square of the images along it,
as the layer sees them; the figure leaves out directions of less than 0.01 nats. Certificates hold
with probability 0.95, and pay for sixteen networks or, with the smooth prior, for 128 pairs of a
network and a prior.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import torch

from pacbayes.bounds import percent_up
from pacbayes.folders import open_run
from pacbayes.networks.families import law_of
from pacbayes.networks.families.rotated import Rotated, second_moments
from pacbayes.networks.posterior import gaussians

HERE = Path(__file__).parent
STORE = HERE / "directions.jsonl"
RUNS = HERE.parent / "runs" / "directions"
DESIGNS = {  # options of train and certify
    "pixels": ("", "--priors 16"),
    "eigenbasis": ("--basis eigen", "--priors 16"),
    "eigenbasis, smooth prior": ("--basis eigen --prior-smooth 2", "--priors 128"),
}
MOST = 0.9  # of the KL of the layer
LEAST = 0.01  # nats that the figure shows


def call(command: str) -> None:
    start = [sys.executable, "-c", "from pacbayes.cli import main; main()"]
    subprocess.run([*start, *shlex.split(command)], check=True)


@torch.no_grad()
def measure(name: str, folder: Path) -> dict[str, object]:
    """Return what a certified run pays for each direction of its images, largest eigenvalue first.

    The nats of a direction are those of all 100 weights along it.
    """
    run = open_run(folder)
    network = run.load_network()
    first, *others = gaussians(network).values()
    x, _ = run.bound_set(run.load_data())
    if isinstance(first, Rotated):
        eigenvalues = second_moments(x.flatten(1), first.coordinates).diag()
    else:
        eigenvalues = second_moments(x.flatten(1)).diag()
    mean, log_scale, prior_mean, prior_log_scale = (tensor.double() for tensor in law_of(first))
    ratio = (2 * (log_scale - prior_log_scale)).exp()
    far = (mean - prior_mean).square() * (-2 * prior_log_scale).exp()
    nats = ((ratio + far - 1 - ratio.log()) / 2).sum(0)
    torch.testing.assert_close(nats.sum(), first.kl(), rtol=1e-9, atol=0)
    order = eigenvalues.argsort(descending=True)
    certificate, test = (
        json.loads((folder / f"{file}.json").read_text()) for file in ("certificate", "test")
    )
    return {
        "name": name,
        "bound": certificate["bound"],
        "risk": certificate["risk"],
        "test": test["randomised"],
        "kl": certificate["kl"],
        "others": sum(g.kl().item() for g in others),
        "eigenvalues": [float(f"{value:.4g}") for value in eigenvalues[order].tolist()],
        "nats": [float(f"{value:.4g}") for value in nats[order].tolist()],
    }


def table(found: list[dict]) -> str:
    lines = ["# Where the KL is\n", (__doc__ or "").strip() + "\n"]
    lines += ["![nats against eigenvalues](directions.svg)\n"]
    lines += ["| Q is diagonal in | certificate | training risk | test error | KL | of weights 1 |"]
    lines[-1] += f" directions with {MOST:.0%} of it | in the 50 largest |".replace("%", " %")
    lines += [f"|---|{'---:|' * 7}"]
    for r in found:
        nats = torch.tensor(r["nats"], dtype=torch.float64)
        shares = nats.sort(descending=True).values.cumsum(0) / nats.sum()
        cells = (
            *(r["name"], percent_up(r["bound"]), f"{100 * r['risk']:.2f} %"),
            *(f"{100 * r['test']:.2f} %", f"{r['kl']:.0f}", f"{r['kl'] - r['others']:.0f}"),
            str(int((shares < MOST).sum()) + 1),
            f"{nats[:50].sum() / nats.sum():.0%}".replace("%", " %"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def draw(found: list[dict]) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "directions", "font.size": 8}
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, 3, figsize=(9, 3), sharex=True, sharey=True, layout="constrained"
    )
    for place, r in zip(axes, found, strict=True):
        every = zip(r["eigenvalues"], r["nats"], strict=True)
        place.plot(*zip(*(pair for pair in every if pair[1] > LEAST), strict=True), ".", ms=3)
        place.set(xscale="log", yscale="log", title=f"{r['name']}: {sum(r['nats']):.0f} nats")
        place.set(xlabel="eigenvalue", xlim=(1e-4, 1e4), ylim=(LEAST, 500))
        place.grid(alpha=0.3)
    axes[0].set(xlabel="mean square of the pixel", ylabel="nats")
    figure.savefig(HERE / "directions.svg", metadata={"Date": None})


def read() -> list[dict]:
    return [json.loads(line) for line in STORE.read_text().splitlines()]


def main() -> None:
    found = []
    for name, (training, certifying) in DESIGNS.items():
        folder = RUNS / name.replace(", ", "-").replace(" ", "-")
        if not (folder / "certificate.json").exists():  # what is there is kept
            call(f"train --dataset binary-mnist {training} --out {folder}")
            call(f"certify {folder} {certifying}")
        found.append(measure(name, folder))
    STORE.write_text("".join(f"{json.dumps(r)}\n" for r in found))
    (HERE / "directions.md").write_text(table(found))
    draw(found)


if __name__ == "__main__":
    main()
