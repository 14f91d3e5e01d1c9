"""Issue the certificate of a network on its bound set."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from pacbayes import bounds
from pacbayes.bounds.domain import check_probability
from pacbayes.bounds.ledger import Ledger, below, seed_share
from pacbayes.bounds.theorems import BEST_OF, THEOREMS, BoundName, Theorem
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import Certificate, Evidence, issue
from pacbayes.certificates.executors import dask_parts
from pacbayes.choices import MonteCarlo
from pacbayes.data.sample import check_sample
from pacbayes.data.tasks import check_bound_set
from pacbayes.devices import CPU, device_of
from pacbayes.engine.evaluation import sampler
from pacbayes.networks import quadrature
from pacbayes.networks.network import Network
from pacbayes.networks.plain import plain_copy, plain_tensor
from pacbayes.networks.posterior import (
    digest_outside,
    draws_key,
    gaussians,
    has_state_outside,
    kl_by_part,
    parts_of,
)
from pacbayes.networks.risk import (
    EmpiricalRisk,
    Executor,
    Part,
    Sums,
    Work,
    exact_risk,
    in_turn,
    keyed_risk,
)
from pacbayes.networks.stochastic import drawn_means

__all__ = [
    "ROUNDING",
    "SECONDS",
    "assumed",
    "beside",
    "certify",
    "checked_copy",
    "for_seed",
    "guessed",
    "ledger_of",
    "own_code",
    "part_of",
    "planned_draws",
    "wanted_term",
]

# Far above the float64 rounding of a forward pass and of sums, far below any printed digit.
ROUNDING = 1e-9
SECONDS = 150.0  # for the draws of a certificate, unless told otherwise
_MOST = 10_000  # draws for each example
_BLOCKS, _PILOT = 16, 4  # blocks of 64 examples, and draws of each, of the pilot
_CHECKS = 2.5 / _PILOT  # evaluations that check a module, in units of a block's draws


def certify(
    network: Network,
    x: Tensor,
    y: Tensor,
    *,
    delta: float = 0.05,
    bound: BoundName = "small-kl",
    monte_carlo: MonteCarlo = "kl-chernoff",
    samples: int | Literal["auto"] | None = 100,
    seconds: float = SECONDS,
    executor: Executor = in_turn,
    follow: Callable[[int, int], None] | None = None,
    priors: int = 1,
    guess: float | None = None,
    repeats: bool = False,
    sample: tuple[Tensor, Tensor] | None = None,
    assumptions: Assumptions | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Certificate:
    """Certify the randomised classifier on its bound set, or the vote with first-order and tandem.

    The risk is sampled in float64, raised to its upper confidence bound and put through the
    theorem. The draws are keyed by the hash of posterior and data, so there is no seed to try
    again with. δ is halved between the two; all of it goes to the theorem where nothing is
    sampled. A prior drawn from seed s spends only δ/((s + 1)(s + 2)). Every rounding is upwards.

    Args:
        x, y: the bound set, every example once: (n, d), and labels −1/+1, or class indices where
            there are more than two classes.
        bound: the theorem, to be chosen before its value is seen; best-of pays for choosing later.
        monte_carlo: the inequality for the sampled risk, to be chosen in advance as well.
        samples: T, draws for each example; more make the Monte-Carlo term smaller. None sums a
            small all-sign network exactly, which needs no such term. "auto" is 100; where a batch
            shares its draws it is what a term of 0.05 points, or 1 % of the risk, needs.
        seconds: time for draws that a batch shares, if samples is "auto".
        executor: computes the parts of a sampled risk, by default one after the other here; with
            `partial(dask_parts, scheduler=…)` the workers of a cluster do, with the same bits.
        follow: is told after every part how many of how many are done.
        priors: how many priors were tried on the bound set, this one included, each of them fixed
            in advance; all are paid for, so that the best may be chosen.
        guess: the risk expected on the bound set, found without it (see `prior_error`), for
            catoni-fixed.
        repeats: declares that examples naturally occur more than once, which otherwise looks like
            sampling with replacement and is refused.
        sample: all examples and labels before preprocessing, the prior's part included, if x was
            preprocessed; these are then checked instead of x.
        assumptions: what is known of data, split and preprocessing, to be printed with the bound.
    """
    for name, value, choices in (
        ("bound", bound, get_args(BoundName)),
        ("monte_carlo", monte_carlo, get_args(MonteCarlo)),
    ):
        if value not in choices:
            raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    executor = _followed(executor, follow)
    exact = checked_copy(network, x, y, repeats=repeats, sample=sample)
    x, y = beside(exact, x, y)
    sampled = samples is not None and exact.body.freshness != "exact"
    best_of = [theorem for theorem in THEOREMS.values() if theorem.in_best_of]
    theorems = best_of if bound == BEST_OF else [THEOREMS[bound]]
    ledger = ledger_of(delta, theorems, priors, exact.prior_seed, sampled=sampled)
    key = draws_key(exact, x, y)
    if samples == "auto":
        shared = exact.body.freshness == "per-batch"
        part = ledger["monte-carlo"] if sampled else delta
        samples = planned_draws(exact, x, y, key, part, seconds) if shared else 100
    measured = (
        exact_risk(exact, x, y)
        if samples is None
        else keyed_risk(exact, x, y, samples, key, sampler(exact), executor)
    )
    evidence = _evidence(
        exact,
        measured,
        pairs=theorems[0].pairs,
        monte_carlo=monte_carlo if sampled else None,
        delta=ledger["monte-carlo"] if sampled else delta,
    )
    issued = [
        issue(
            theorem.name,
            evidence,
            ledger,
            part_of(theorem, theorems),
            keywords=guessed(theorem, guess),
            assumptions=assumed(exact, assumptions, repeats=repeats),
            provenance=provenance,
        )
        for theorem in theorems
    ]
    return min(issued, key=lambda certificate: certificate.bound)


def checked_copy(
    network: Network,
    x: Tensor,
    y: Tensor,
    *,
    repeats: bool,
    sample: tuple[Tensor, Tensor] | None = None,
) -> Network:
    """Return a plain copy of the network in float64 and evaluation mode, after all checks.

    Certificates ask this copy alone. It is on the CPU if the network's device has no float64.
    """
    if not isinstance(network, Network):
        raise ValueError(
            "a network must come from build_network or stochastic, which give it a prior, got "
            f"{type(network).__name__}"
        )
    exact = plain_copy(network)
    check_bound_set(x, y, exact.task)
    every, labels = (tensor.detach().cpu().numpy() for tensor in sample or (x, y))
    check_sample(every, labels, repeats=repeats)
    exact.seal_prior()
    network._sealed = exact._sealed
    _check_seed(exact)
    if any(part.training for _, part in parts_of(exact)):
        raise ValueError(
            "a module stays in training mode after eval(), so its draws are not from Q; "
            "let eval() reach every module"
        )
    kl_by_part(exact)  # refuses parameters that Q does not cover
    return exact


def _check_seed(network: Network) -> None:
    """Refuse a prior whose means are not those that its seed, which pays for it, draws."""
    seed, every = network.prior_seed, gaussians(network)
    if type(seed) not in (int, type(None)):
        raise ValueError(f"the seed of a prior must be a whole number, got {type(seed).__name__}")
    means = {} if seed is None else drawn_means(network, seed)
    if any(not torch.equal(every[k].prior_mean.cpu(), mean.double()) for k, mean in means.items()):
        raise ValueError(f"seed {seed} does not draw this prior; name the seed that did")


def beside(network: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return examples and labels as plain tensors on the device of a network."""
    place = device_of(network)
    return plain_tensor(x, "x").to(place), plain_tensor(y, "y").to(place)


def guessed(theorem: Theorem, guess: float | None) -> dict[str, float]:
    """Return the guess of the risk as a keyword, if there is one and the theorem takes it."""
    return {"guess": guess} if guess is not None and "guess" in theorem.free else {}


def assumed(network: Network, given: Assumptions | None, *, repeats: bool) -> Assumptions:
    """Return the assumptions of a certificate, with what the network itself shows."""
    if type(given) not in (Assumptions, type(None)):
        raise ValueError(f"assumptions must be Assumptions, got {type(given).__name__}")
    return replace(
        given or Assumptions(),
        repeats=repeats if given is None else given.repeats,
        prior_seed=network.prior_seed,
        body_sha256=digest_outside(network) if has_state_outside(network) else None,
        code=own_code(network.body) if given is None or given.code is None else given.code,
    )


def own_code(body: nn.Module) -> str | None:
    """Return the first class of the user's own that a body runs; None if there is none."""
    module = getattr(body, "module", None)
    classes = [] if module is None else [type(part) for part in module.modules()]
    own = (c.__name__ for c in classes if not c.__module__.startswith("torch.nn."))
    return next(own, None)


def _followed(executor: Executor, follow: Callable[[int, int], None] | None) -> Executor:
    """Return the executor; refuse one that is not the library's, whose sums are its own word."""
    dealt = type(executor) is partial and executor.func is dask_parts and not executor.args
    if executor is not in_turn and not dealt:
        raise ValueError(
            f"executor must be in_turn or partial(dask_parts, scheduler=…), got {executor!r}"
        )
    if follow is None:
        return executor

    def each(work: Work, x: Tensor, y: Tensor, parts: Sequence[Part]) -> Iterator[Sums]:
        for done, sums in enumerate(executor(work, x, y, parts), 1):
            follow(done, len(parts))
            yield sums

    return each


def _evidence(
    network: Network,
    measured: EmpiricalRisk,
    *,
    pairs: bool,
    monte_carlo: MonteCarlo | None,
    delta: float,
) -> Evidence:
    """Raise the measured risk to its upper confidence bound, roundings and quadrature included."""
    parts, grid = kl_by_part(network), quadrature.accuracy(network.outputs)
    risk = measured.of_pairs() if pairs else measured
    slack = (ROUNDING + grid[1]) * (2 if pairs else 1)  # the error of a product of two
    mean = min(1.0, risk.mean + slack)
    return Evidence.sampled(
        risk,
        mean if monte_carlo is None else _upper(risk, mean, slack, monte_carlo, delta),
        kl=math.fsum(parts.values()) * (1 + ROUNDING),
        kl_by_part=parts,
        monte_carlo=monte_carlo,
        quadrature_step=grid[0],
        quadrature_error=grid[1],
    )


def for_seed(delta: float, seed: int | None, spend: Callable[[float], Ledger]) -> Ledger:
    """Let a prior drawn from a seed spend its share of δ, the rest belonging to other seeds."""
    check_probability(delta)
    if seed is None:
        return spend(delta)
    return spend(below(Fraction(delta) * seed_share(seed))).within(delta, "other seeds")


def ledger_of(
    delta: float, theorems: list[Theorem], priors: int, seed: int | None, *, sampled: bool
) -> Ledger:
    """Half of δ for the sampled risk and half for the theorems, equally for every prior."""
    return for_seed(delta, seed, lambda own: _halves(own, theorems, priors, sampled=sampled))


def _halves(delta: float, theorems: list[Theorem], priors: int, *, sampled: bool) -> Ledger:
    halves = [{part_of(t, theorems): Fraction(1, len(theorems)) for t in theorems}]
    halves += [{"monte-carlo": Fraction(1)}] if sampled else []
    shares = {name: share / len(halves) for half in halves for name, share in half.items()}
    return Ledger.shared(delta, shares, priors)


def part_of(theorem: Theorem, theorems: list[Theorem]) -> str:
    """Return the name of a theorem's part of the ledger, alone or among several."""
    return "pac-bayes" if len(theorems) == 1 else f"pac-bayes, {theorem.name}"


def _upper(
    risk: EmpiricalRisk, mean: float, slack: float, inequality: MonteCarlo, delta: float
) -> float:
    """Return the upper confidence bound of a mean whose draws each err by at most `slack`."""
    draws = risk.draws or 1.0
    if inequality == "kl-chernoff":
        return bounds.kl_chernoff(mean, draws, delta)
    if risk.within is None:
        raise ValueError(
            f"{inequality} needs at least two draws for every example; use kl-chernoff"
        )
    pairs = draws / risk.samples * (risk.samples // 2)
    return bounds.stratified_bernstein(mean, min(0.5, risk.within + 4 * slack), pairs, draws, delta)


def wanted_term(risk: float) -> float:
    """Return the Monte-Carlo term to aim at: 0.05 points, or one hundredth of the risk if larger.

    >>> wanted_term(0.2), wanted_term(0.01)
    (0.002, 0.0005)
    """
    return max(0.0005, 0.01 * risk)


def planned_draws(
    network: Network,
    x: torch.Tensor,
    y: torch.Tensor,
    key: bytes,
    delta: float,
    seconds: float = SECONDS,
) -> int:
    """Return T, the draws for each example that make the Monte-Carlo term small enough.

    A pilot estimates risk, variance and speed. Its draws have a key of their own, so that the
    draws of the certificate are independent of the number. If time is short, T is what fits in.

    Args:
        network: in float64 and evaluation mode.
        key: of the certificate's draws.
        delta: of the Monte-Carlo term.
        seconds: time for all draws, at the pilot's speed.
    """
    start = time.perf_counter()
    index = _spread_blocks(len(x))
    pilot = hashlib.sha256(key + b"pilot").digest()
    risk = keyed_risk(network, x[index], y[index], _PILOT, pilot)
    passed = time.perf_counter() - start
    once = passed / (_PILOT * (1 + _CHECKS)) * len(x) / len(index)  # seconds for one draw of all
    affordable = max(2, int(seconds / once) // 2 * 2)
    return min(needed_draws(risk, len(x), delta), affordable)


def _spread_blocks(n: int) -> torch.Tensor:
    """Return the indices of a few blocks of examples, spread over all of them."""
    blocks = torch.arange(n, device=CPU).split(64)
    count = min(_BLOCKS, len(blocks))
    chosen = torch.linspace(0, len(blocks) - 1, count, device=CPU).long().tolist()
    return torch.cat([blocks[i] for i in chosen])


def needed_draws(risk: EmpiricalRisk, n: int, delta: float) -> int:
    """Return the least even T whose Monte-Carlo term is as wanted, by stratified Bernstein."""

    def term(T: int) -> float:
        draws, within = n * T / min(64, n), risk.within or 0.5
        upper = bounds.stratified_bernstein(risk.mean, within, draws / 2, draws, delta)
        return upper - risk.mean

    wanted, low, high = wanted_term(risk.mean), 1, math.ceil(_MOST / 2)  # halves of T
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if term(2 * middle) <= wanted else (middle + 1, high)
    return 2 * low
