"""Compare the speed of this library with others and with the limit of the machine."""

from pacbayes.bench.contests import CONTESTS, Measurements, choose, measure, report

__all__ = ["CONTESTS", "Measurements", "choose", "measure", "report"]
