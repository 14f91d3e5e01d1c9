"""Pictures of a run."""

from __future__ import annotations

import io
from pathlib import Path

from pacbayes.bounds import percent_up
from pacbayes.checkpoint import load_json, write_atomically
from pacbayes.runs import Run

__all__ = ["plot_history"]


def plot_history(run: Run, out: Path) -> None:
    """Bound, risk and KL over the epochs of a run."""
    from matplotlib.figure import Figure

    if out.suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"the picture must be a .png, .svg or .pdf file, got {out.name!r}")
    path = run.folder / "history.json"
    history = load_json(path) if path.exists() else []
    if not history:
        raise ValueError(f"{run.folder} has no evaluations yet")
    epochs = [e["epoch"] for e in history]

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    last = history[-1]
    for key, label, colour in (
        ("bound", f"bound on the error\n{percent_up(last['bound'], 1)}", "#b3402a"),
        ("risk", f"training risk\n{100 * last['risk']:.1f} %", "#2a6ab3"),
    ):
        values = [100 * e[key] for e in history]
        left.plot(epochs, values, color=colour, linewidth=2)
        left.annotate(
            label,
            (epochs[-1], values[-1]),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=colour,
        )
    left.set_ylim(bottom=0)
    left.set_ylabel("per cent")
    right.plot(epochs, [e["kl"] for e in history], color="#3a7d44", linewidth=2)
    right.set_ylim(bottom=0)
    right.set_ylabel("KL(Q|P), nats")
    for axes in (left, right):
        axes.set_xlabel("epoch")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    s = run.settings
    figure.suptitle(
        f"{run.record.data.source.name}, {s.activation}, {s.objective}, {s.protocol} protocol"
    )
    content = io.BytesIO()
    figure.savefig(content, format=out.suffix[1:], dpi=160)
    write_atomically(out, content.getvalue())
