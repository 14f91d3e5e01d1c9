"""How fast a step is: the engine, the torch path, naive eager torch and the limit, side by side."""

from pacbayes.bench.measurements import Case, Measurements, measure
from pacbayes.bench.tables import report

__all__ = ["Case", "Measurements", "measure", "report"]
