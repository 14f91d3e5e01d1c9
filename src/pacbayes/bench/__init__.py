"""Compare the speed of a training step: native engine, this library's PyTorch, plain PyTorch."""

from pacbayes.bench.measurements import Case, Measurements, measure
from pacbayes.bench.tables import report

__all__ = ["Case", "Measurements", "measure", "report"]
