"""table.md, from the runs in this folder: `python results/table.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pacbayes import paper
from pacbayes.bounds import catoni, percent_up

HERE = Path(__file__).parent
HEADINGS = (
    "run",
    "epochs",
    "train risk",
    "test error",
    "majority vote, test",
    "KL",
    "Catoni bound, the paper's way",
    "**certificate**",
)


def row(folder: Path) -> tuple[str, ...]:
    """One run: its settings, and what `certify` found."""
    run, certificate, test = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("run", "certificate", "test")
    )
    s = run["settings"]
    scales = "learned scales" if s["learned_scale"] else "unit variance"
    rate = f", λ at {s['lambda_rate']:g}" if s["objective"] == "optim-lambda" else ""
    return (
        f"{s['activation']}, {s['objective']}, {s['protocol']}, {scales}, T = {s['samples']}{rate}",
        str(s["epochs"]),
        f"{100 * certificate['risk']:.2f}",
        f"{100 * test['randomised']:.2f}",
        f"{100 * test['vote']:.2f}",
        f"{certificate['kl']:.0f}",
        _up(catoni(*(certificate[name] for name in ("risk", "kl", "n", "delta")))),
        f"**{_up(certificate['bound'])}**",
    )


def paper_row(objective: str, activation: str) -> tuple[str, ...]:
    p = paper.RESULTS[objective, activation]
    risks = (f"{100 * p.train_linear:.2f}", f"{100 * p.test_zero_one:.2f}", "–", f"{p.kl:.0f}")
    name = f"*paper: {activation}, {objective}, unit variance, T = {p.samples}*"
    return (name, "200", *risks, f"{100 * p.bound:.1f}", "–")


def table(folders: list[Path]) -> str:
    """Markdown; every run stands above the paper's column for the same network and objective."""
    rows: list[tuple[str, ...]] = []
    for objective, activation in paper.RESULTS:
        ours = [row(f) for f in folders if _column(f) == (objective, activation)]
        if ours:
            rows += [*ours, paper_row(objective, activation)]
    lines = [HEADINGS, ("---",) * len(HEADINGS), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _column(folder: Path) -> tuple[str, Any]:
    settings: dict[str, Any] = json.loads((folder / "run.json").read_text())["settings"]
    return settings["objective"], settings["activation"]


def _up(value: float) -> str:
    return percent_up(value).removesuffix(" %")


if __name__ == "__main__":
    text = table(sorted(path.parent for path in HERE.glob("*/test.json")))
    (HERE / "table.md").write_text(text)
    print(text, end="")
