"""Write table.md from the runs in this folder: `python results/table.py`."""

from __future__ import annotations

import json
from pathlib import Path

from pacbayes.bounds import catoni, percent_up
from pacbayes.paper import printed

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
    """Return one run: its settings, and what `certify` found."""
    run, certificate, test = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("run", "certificate", "test")
    )
    s = run["settings"]
    return (
        f"{s['activation']}, {s['protocol']}, learned scales, T = {s['samples']}",
        str(s["epochs"]),
        f"{100 * certificate['risk']:.2f}",
        f"{100 * test['randomised']:.2f}",
        f"{100 * test['vote']:.2f}",
        f"{certificate['kl']:.0f}",
        _up(catoni(*(certificate[name] for name in ("risk", "kl", "n", "delta")))),
        f"**{_up(certificate['bound'])}**",
    )


def paper_row(activation: str) -> tuple[str, ...]:
    p = printed.RESULTS["fix-lambda", activation]
    risks = (f"{100 * p.train_linear:.2f}", f"{100 * p.test_zero_one:.2f}", "–", f"{p.kl:.0f}")
    name = f"*paper: {activation}, fix-λ, unit variance, T = {p.samples}*"
    return (name, "200", *risks, f"{100 * p.bound:.1f}", "–")


def table(folders: list[Path]) -> str:
    """Return Markdown; every run stands above the paper's fix-λ for the same network."""
    rows = [line for f in folders for line in (row(f), paper_row(_activation(f)))]
    lines = [HEADINGS, ("---",) * len(HEADINGS), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _activation(folder: Path) -> str:
    activation: str = json.loads((folder / "run.json").read_text())["settings"]["activation"]
    return activation


def _up(value: float) -> str:
    return percent_up(value).removesuffix(" %")


if __name__ == "__main__":
    text = table(sorted(path.parent for path in HERE.glob("*/test.json")))
    (HERE / "table.md").write_text(text)
    print(text, end="")
