"""PAC-Bayes bounds as pure functions of numbers. Every bound is rounded up.

Notation in this package: P is the prior, Q the posterior, n the size of the bound set, δ the
failure probability, R the risk and R_S the empirical risk on the bound set. The arguments `risk`
and `kl` are E_Q R_S and KL(Q|P) unless the function says otherwise.
"""

from pacbayes.bounds.binary_kl import binary_kl, kl_inverse, kl_inverse_below
from pacbayes.bounds.catoni import ALPHA, catoni, catoni_lambda
from pacbayes.bounds.domain import confidence, percent_up
from pacbayes.bounds.fixed_c import catoni_fixed, disintegrated_fixed, fixed_c_grid
from pacbayes.bounds.monte_carlo import (
    bernstein,
    betting,
    clopper_pearson,
    empirical_bernstein,
    kl_chernoff,
    stratified_bernstein,
    unexpected_bernstein,
)
from pacbayes.bounds.small_kl import catoni_c, mcallester, quadratic, small_kl, split_kl, thiemann
from pacbayes.bounds.votes import c_bound, disintegrated, first_order, tandem

__all__ = [
    "ALPHA",
    "bernstein",
    "betting",
    "binary_kl",
    "c_bound",
    "catoni",
    "catoni_c",
    "catoni_fixed",
    "catoni_lambda",
    "clopper_pearson",
    "confidence",
    "disintegrated",
    "disintegrated_fixed",
    "empirical_bernstein",
    "first_order",
    "fixed_c_grid",
    "kl_chernoff",
    "kl_inverse",
    "kl_inverse_below",
    "mcallester",
    "percent_up",
    "quadratic",
    "small_kl",
    "split_kl",
    "stratified_bernstein",
    "tandem",
    "thiemann",
    "unexpected_bernstein",
]
