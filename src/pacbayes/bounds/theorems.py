"""The table of theorems: every bound by name, the predictor it covers, and what it leaves free.

`certify`, `pacbayes bound`, `pacbayes compare` and their help read this table. `verify` keeps a
table of its own on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pacbayes.bounds.catoni import ALPHA, catoni, catoni_lambda
from pacbayes.bounds.domain import check
from pacbayes.bounds.fixed_c import catoni_fixed, disintegrated_fixed
from pacbayes.bounds.monte_carlo import clopper_pearson, kl_chernoff, unexpected_bernstein
from pacbayes.bounds.small_kl import catoni_c, mcallester, quadratic, small_kl, split_kl, thiemann
from pacbayes.bounds.votes import c_bound, disintegrated, first_order, tandem
from pacbayes.choices import Predictor

__all__ = [
    "BEST_OF",
    "THEOREMS",
    "BoundName",
    "CertificateBound",
    "Theorem",
    "TheoremName",
    "calculate",
]


def _nothing_chosen(risk: float, kl: float, n: int, delta: float, **given: Any) -> dict[str, float]:
    return {}


@dataclass(frozen=True)
class Theorem:
    """A bound on the error of one predictor.

    Attributes:
        bound: value at (risk, KL, n, δ), with the free parameters as keywords.
        predictor: which predictor it covers.
        citation: where it is proved.
        factor: what Markov's inequality multiplies the risk by.
        has_kl: whether it charges for a posterior; a predictor fixed beforehand has none.
        pairs: whether its risk is that of pairs of draws, which err together.
        certifies: whether `certify` issues it.
        in_best_of: whether `best-of` chooses among it and others.
        free: free parameters: option of `pacbayes bound` → keyword of the function.
        needed: options without a default.
        chosen: the free parameters it uses where none are given, by option.
    """

    name: str
    bound: Callable[..., float]
    predictor: Predictor
    citation: str
    factor: float = 1.0
    has_kl: bool = True
    pairs: bool = False
    certifies: bool = True
    in_best_of: bool = False
    free: Mapping[str, str] = field(default_factory=dict)
    needed: tuple[str, ...] = ("risk",)
    chosen: Callable[..., dict[str, float]] = _nothing_chosen

    def check_options(self, given: Iterable[str]) -> None:
        """Refuse options that do not belong to the theorem, and missing ones."""
        given = set(given)
        for option in given - {"risk"} - set(self.free):
            raise ValueError(f"--{option} does not belong to {self.name}")
        for option in self.needed:
            if option not in given:
                raise ValueError(f"{self.name} needs --{option}")


def _split_kl(
    risk: float, kl: float, n: int, delta: float, *, levels: Sequence[float], parts: Sequence[float]
) -> float:
    return split_kl(levels, parts, kl, n, delta)


def _c_bound(risk: float, kl: float, n: int, delta: float, *, disagreement: float) -> float:
    return c_bound(risk, disagreement, kl, n, delta)


def _held_out(risk: float, kl: float, n: int, delta: float) -> float:
    """Bound the error of a fixed predictor: the largest p with P(Bin(n, p) ≤ errors) ≥ δ."""
    check(risk, kl, n, delta)
    if kl:
        raise ValueError(f"held-out is for a predictor fixed beforehand, whose KL is 0, got {kl}")
    return clopper_pearson(risk, n, delta)


def _held_out_mean(risk: float, kl: float, n: int, delta: float) -> float:
    """Bound the mean loss in [0, 1] of a fixed predictor: kl⁻¹(mean, ln(1/δ)/n)."""
    check(risk, kl, n, delta)
    if kl:
        raise ValueError(f"held-out is for a predictor fixed beforehand, whose KL is 0, got {kl}")
    return kl_chernoff(risk, n, delta)


def _catoni_chosen(
    risk: float, kl: float, n: int, delta: float, *, lam: float | None = None, alpha: float = ALPHA
) -> dict[str, float]:
    best = catoni_lambda(risk, kl, n, delta, alpha=alpha) if lam is None else lam
    return {"lambda": best, "alpha": alpha}


_OF_RANDOMISED = (
    Theorem("small-kl", small_kl, Predictor.RANDOMISED, "Langford & Seeger 2001", in_best_of=True),
    Theorem(
        "catoni",
        catoni,
        Predictor.RANDOMISED,
        "Catoni 2007, as in Biggs & Guedj 2020",
        free={"lambda": "lam", "alpha": "alpha"},
        chosen=_catoni_chosen,
    ),
    Theorem(
        "unexpected-bernstein",
        unexpected_bernstein,
        Predictor.RANDOMISED,
        "Mhammedi, Grünwald & Guedj 2019",
        in_best_of=True,
        free={"second-moment": "second_moment"},
    ),
)
_OF_VOTES = (
    Theorem("first-order", first_order, Predictor.VOTE, "Langford & Shawe-Taylor 2003", factor=2.0),
    Theorem("tandem", tandem, Predictor.VOTE, "Masegosa et al. 2020", factor=4.0, pairs=True),
)
_RELAXED = (  # never below small-kl, so that nobody needs a certificate by them
    Theorem(
        "catoni-c",
        catoni_c,
        Predictor.RANDOMISED,
        "Germain et al. 2009",
        certifies=False,
        free={"C": "C"},
    ),
    Theorem(
        "mcallester",
        mcallester,
        Predictor.RANDOMISED,
        "McAllester 1999, Maurer 2004",
        certifies=False,
    ),
    Theorem(
        "quadratic", quadratic, Predictor.RANDOMISED, "Pérez-Ortiz et al. 2021", certifies=False
    ),
    Theorem(
        "thiemann",
        thiemann,
        Predictor.RANDOMISED,
        "Thiemann et al. 2017",
        certifies=False,
        free={"lambda": "lam"},
    ),
)
_OTHERS = (
    Theorem(
        "split-kl",
        _split_kl,
        Predictor.RANDOMISED,
        "Wu & Seldin 2022",
        certifies=False,
        free={"levels": "levels", "parts": "parts"},
        needed=("levels", "parts"),
    ),
    Theorem(
        "c-bound",
        _c_bound,
        Predictor.VOTE,
        "Lacasse et al. 2007",
        certifies=False,
        free={"disagreement": "disagreement"},
        needed=("disagreement", "risk"),
    ),
    Theorem(
        "disintegrated",
        disintegrated,
        Predictor.DRAWN,
        "Rivasplata et al. 2020",
        free={"networks": "networks"},
    ),
    Theorem(
        "held-out",
        _held_out,
        Predictor.FIXED,
        "Clopper & Pearson 1934",
        has_kl=False,
    ),
    Theorem(
        "held-out-mean",
        _held_out_mean,
        Predictor.FIXED,
        "Hoeffding 1963, Theorem 1",
        has_kl=False,
    ),
)
_AT_A_FIXED_C = (
    Theorem(
        "catoni-fixed",
        catoni_fixed,
        Predictor.RANDOMISED,
        "Catoni 2007, Theorem 1.2.1",
        free={"C": "C", "guess": "guess"},
    ),
    Theorem(
        "disintegrated-fixed",
        disintegrated_fixed,
        Predictor.DRAWN,
        "Catoni 2007, Rivasplata et al. 2020",
        free={"C": "C", "guess": "guess", "networks": "networks"},
    ),
)
_ALL = (*_OF_RANDOMISED, *_RELAXED, *_OF_VOTES, *_OTHERS, *_AT_A_FIXED_C)
THEOREMS: dict[str, Theorem] = {theorem.name: theorem for theorem in _ALL}
BEST_OF = "best-of"

if TYPE_CHECKING:
    TheoremName: TypeAlias = str
    BoundName: TypeAlias = str
    CertificateBound: TypeAlias = str
else:  # the command line offers exactly what the table has
    _certified = (*(t.name for t in THEOREMS.values() if t.certifies), BEST_OF)
    TheoremName = Literal[tuple(THEOREMS)]
    _one_network = (Predictor.DRAWN, Predictor.FIXED)  # see `certificates.kept`
    _sampled = [t.name for t in THEOREMS.values() if t.predictor not in _one_network]
    BoundName = Literal[tuple(name for name in _certified if name in (*_sampled, BEST_OF))]
    CertificateBound = Literal[_certified]


def calculate(
    name: TheoremName,
    risk: float | None,
    kl: float | None,
    n: int,
    delta: float,
    free: dict[str, Any],
) -> dict[str, Any]:
    """Return a bound with the numbers it was computed from, free parameters included.

    Args:
        kl: KL(Q|P); for a drawn network, ln(dQ/dP) at the drawn weights; for `held-out`, None.
        free: free parameters by the names of their options.
    """
    theorem = THEOREMS[name]
    theorem.check_options([*free, *(["risk"] if risk is not None else [])])
    if kl is None:
        if theorem.has_kl:
            raise ValueError(f"{name} needs --kl")
        kl = 0.0
    numbers = (risk or 0.0, kl, n, delta)
    given = {theorem.free[option]: value for option, value in free.items()}
    used = theorem.chosen(*numbers, **given)
    keywords = given | {theorem.free[option]: value for option, value in used.items()}
    result: dict[str, Any] = {"name": name, "risk": risk, "kl": kl, "n": n, "delta": delta}
    return {**result, **free, "bound": theorem.bound(*numbers, **keywords), **used}
