"""Bounds as pure functions of numbers; each result is rounded up and at most one."""

from pacbayes.bounds.binary_kl import binary_kl, kl_inverse
from pacbayes.bounds.catoni import ALPHA, catoni, catoni_lambda
from pacbayes.bounds.domain import percent_up
from pacbayes.bounds.mcallester import mcallester
from pacbayes.bounds.monte_carlo import kl_chernoff
from pacbayes.bounds.small_kl import small_kl

__all__ = [
    "ALPHA",
    "binary_kl",
    "catoni",
    "catoni_lambda",
    "kl_chernoff",
    "kl_inverse",
    "mcallester",
    "percent_up",
    "small_kl",
]
