"""The numbers printed in Biggs & Guedj 2020, to stand beside ours.

Fractions, not percentages. The mean KLs of fix-λ sign and relu are swapped in the paper's
appendix and are given here as the main table's bounds require them (see docs/paper.md).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DELTA", "RESULTS", "N", "PaperResult"]

N = 60_000
DELTA = 0.05


@dataclass(frozen=True)
class PaperResult:
    """One column of the main table (mean of ten runs) and of the hyper-parameter table."""

    train_linear: float
    test_zero_one: float
    bound: float
    kl: float
    learning_rate: float
    samples: int


RESULTS: dict[tuple[str, str], PaperResult] = {
    ("fix-lambda", "sign"): PaperResult(0.0877, 0.0873, 0.217, 3571, 0.01, 100),
    ("fix-lambda", "sigmoid"): PaperResult(0.0760, 0.0788, 0.188, 3011, 0.1, 10),
    ("fix-lambda", "relu"): PaperResult(0.0635, 0.0651, 0.155, 2363, 0.1, 50),
    ("optim-lambda", "sign"): PaperResult(0.0671, 0.0685, 0.226, 5561, 0.01, 100),
    ("optim-lambda", "sigmoid"): PaperResult(0.0647, 0.0684, 0.193, 4000, 0.1, 10),
    ("optim-lambda", "relu"): PaperResult(0.0541, 0.0561, 0.160, 3204, 0.1, 100),
}
