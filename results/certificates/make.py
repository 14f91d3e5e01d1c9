"""Make the certificates on MNIST and Fashion-MNIST: `make certificates`.

For each row, or for those named as arguments: train, certify the best prior scale, certify one
drawn network, verify both and keep the output. All rows take 45 minutes on two cores, and can be
resumed.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

from pacbayes.bounds import clopper_pearson, percent_up

RESULTS = Path(__file__).parent.parent
HERE = RESULTS / "certificates"
LEARNED = "--prior-fraction 0.5 --prior-augmentation images --prior-epochs 200"
SCALES = "--prior-scale 0.02,0.03,0.05"
DEEP = "--widths 100,100,100"  # the paper's network
SMOOTH = "--basis eigen --prior-smooth 2"
CERTIFYING = {  # pays for the choice of the network, and with a smooth prior of that
    "binary-one": " --priors 16",
    **{f"binary-{name}-smooth": " --priors 128" for name in ("one", "relu", "sign")},
}
ROWS = [  # name, folder, options of train, task, prior, best published bound
    ("binary-one", None, "", "binary MNIST, relu, one hidden layer", "data-free", "–"),
    ("binary-relu", "fast-relu", DEEP, "binary MNIST, relu", "data-free", "paper 15.5 %"),
    (
        *("binary-sign", "fast-sign", f"--activation sign {DEEP}"),
        *("binary MNIST, sign", "data-free", "paper 21.7 %"),
    ),
    (
        *("binary-sigmoid", "fast-sigmoid", f"--activation sigmoid {DEEP}"),
        *("binary MNIST, sigmoid", "data-free", "paper 18.8 %"),
    ),
    (
        *("binary-one-smooth", None, SMOOTH),
        *("binary MNIST, relu, one hidden layer", "data-free, smooth", "–"),
    ),
    (
        *("binary-relu-smooth", None, f"{DEEP} {SMOOTH}"),
        *("binary MNIST, relu", "data-free, smooth", "paper 15.5 %"),
    ),
    (
        *("binary-sign-smooth", None, f"--activation sign {DEEP} {SMOOTH}"),
        *("binary MNIST, sign", "data-free, smooth", "paper 21.7 %"),
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
        *("fashion-relu", None, f"--dataset binary-fashion-mnist {DEEP}"),
        *("binary Fashion, relu", "data-free", "–"),
    ),
    (
        *("fashion-relu-learned", None, f"--dataset binary-fashion-mnist {LEARNED} {SCALES}"),
        *("binary Fashion, relu", "learned", "–"),
    ),
]
INTRODUCTION = """\
# Certificates

Every certificate here holds with probability 0.95 (δ = 0.05 in total, Monte-Carlo error included)
and was checked by `pacbayes verify`. The networks have three hidden layers of 100 units, as in the
paper, unless a row says *one*. The seed is 0. `make certificates` made them on two CPU cores. The
linked text files show the commands and their output.

- *Randomised* is the classifier that draws fresh weights for every prediction. *Drawn* is one
  network, drawn from the posterior and kept: the best of ten, which its certificate pays for.
- *One hidden layer* is this library's default with a data-free prior. It was chosen by the bounds
  of dense networks on MNIST, fewer than sixteen, and `--priors 16` pays for the choice.
- *Smooth*: the prior expects smooth images (`--prior-smooth 2`), and the posterior over the first
  layer is diagonal in the eigenbasis of the images instead of the pixels (`--basis eigen`). The
  power 2 and its scaling were chosen among about eight designs by bounds on MNIST, the network
  among fewer than sixteen, and `--priors 128` pays for both choices; the basis is part of the
  posterior and costs nothing.
- *n* is the number of examples in the bound. A learned prior uses the other half of the images and
  may choose among three scales, which the certificate pays for as well.
- *Hold-out* is the bound that a plain hold-out test would give for the same error on n unseen
  examples, by the binomial distribution (Clopper and Pearson 1934). With a learned prior it is the
  fair comparison: the posterior hardly differs from the prior, which never saw those examples.
  With a data-free prior it is hypothetical, because the network learned from all of them.
- *Prior* is the certificate of the network at a learned prior's means, by `--bound held-out`. It is
  a hold-out test in every respect, and the tightest of the three.
- *Test errors* are measured on 10 000 images that were used for nothing else.

A certificate is about the distribution that its examples were drawn from. On Fashion-MNIST the
networks err more often on the published test images than on training images that the prior never
saw. There the test error may lie above the certificate.
"""
COLUMNS = (
    *("task", "prior", "n", "randomised: certificate", "hold-out", "test error"),
    *("drawn: certificate", "test error", "prior: certificate", "test error"),
    "published elsewhere",
)


def call(command: str) -> str:
    """Return the output of a pacbayes command."""
    arguments = [sys.executable, "-c", "from pacbayes.cli import main; main()"]
    done = subprocess.run(
        [*arguments, *shlex.split(command)], stdout=subprocess.PIPE, text=True, cwd=RESULTS.parent
    )
    if done.returncode:
        raise SystemExit(f"pacbayes {command}: exit code {done.returncode}")
    return done.stdout


def make(name: str, folder: Path, options: str) -> Path:
    """Certify and verify a row's best run, write the output to `name`.txt, return the folder."""
    train = f"train {options} --out {folder.relative_to(RESULTS.parent)}".replace("  ", " ")
    best = Path(json.loads(call(f"{train} --json"))["run"])
    drawn = f"{best}/certificate-drawn.json"
    learned = "--prior-fraction" in options
    usual = " --bound small-kl" if learned else ""  # near a learned prior, best-of is the default
    paid = CERTIFYING.get(name, "")
    for part, commands in (
        ("", [f"certify {best}{usual}{paid}", f"verify {best}/certificate.json --full"]),
        (
            "-drawn",
            [f"certify {best} --bound disintegrated --networks 10{paid}", f"verify {drawn}"],
        ),
        ("-fixed", [f"certify {best} --bound held-out", f"verify {best}/certificate-fixed.json"]),
    ):
        if part == "-fixed" and not learned:
            continue
        out = HERE / f"{name}{part}.txt"
        if not out.exists():
            text = "" if part else f"$ pacbayes {train}\n\n"
            for command in commands:
                text += f"$ pacbayes {command}\n{call(command)}\n"
            out.write_text(text)
    return RESULTS.parent / best


def fixed(name: str, run: Path, test: dict[str, float]) -> tuple[str, str]:
    """Return certificate and test error of the network at the prior's means, if it learned."""
    path = run / "certificate-fixed.json"
    if not path.exists():
        return "–", "–"
    bound = percent_up(json.loads(path.read_text())["bound"])
    return f"[**{bound}**]({name}-fixed.txt)", f"{100 * test['fixed']:.2f} %"


def page(rows: list[tuple[str, Path, str, str, str]]) -> str:
    """Return README.md for certified runs: name, folder, task, prior, best published bound."""
    lines = [INTRODUCTION, f"| {' | '.join(COLUMNS)} |", f"|---|---|{'---:|' * 8}---|"]
    for name, run, task, prior, published in rows:
        names = ("certificate", "certificate-drawn", "test")
        c, drawn, test = (json.loads((run / f"{part}.json").read_text()) for part in names)
        cells = [
            f"[{task}]({name}.txt)",
            prior,
            str(c["n"]),
            f"**{percent_up(c['bound'])}**",
            percent_up(clopper_pearson(c["risk"], c["n"], c["delta"])),
            f"{100 * test['randomised']:.2f} %",
            f"[**{percent_up(drawn['bound'])}**]({name}-drawn.txt)",
            f"{100 * test['drawn']:.2f} %",
            *fixed(name, run, test),
            published,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def made(name: str) -> Path | None:
    """Return the folder of a row's best run, which its text names, or None before it is there."""
    texts = [HERE / f"{name}{part}.txt" for part in ("", "-drawn")]
    if not all(text.exists() for text in texts):
        return None
    command = next(line for line in texts[0].read_text().splitlines() if "pacbayes certify" in line)
    return RESULTS.parent / command.split()[3]


def main(names: list[str]) -> None:
    wrong = set(names) - {name for name, *_ in ROWS}
    if wrong:
        raise SystemExit(f"no such row: {min(wrong)}; there are {', '.join(r[0] for r in ROWS)}")
    for name, folder, options, *_ in ROWS:
        if name in names or not names:
            make(name, RESULTS / folder if folder else HERE / name, options)
    rows = [(name, made(name), *rest) for name, _, _, *rest in ROWS]
    (HERE / "README.md").write_text(page([row for row in rows if row[1]]))


if __name__ == "__main__":
    main(sys.argv[1:])
