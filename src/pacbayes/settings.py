"""The settings of a run, validated and frozen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from pacbayes.choices import (
    Activation,
    Augmentation,
    Basis,
    Engine,
    Estimator,
    Objective,
    Precision,
    Protocol,
)
from pacbayes.defaults import batch_size
from pacbayes.paper import printed

__all__ = ["MOST_EPOCHS", "NETWORKS", "OF_LEARNING", "OPTIONS", "Option", "Settings"]

MOST_EPOCHS = 1_000_000
NETWORKS = {
    "dense": "dense",
    "conv": "conv",
    "module": "a module of your own",
    "kernel": "kernel",
}
WITH_LAYERS = ("dense", "conv", "module")


@dataclass(frozen=True)
class Option:
    """How `pacbayes train` offers a setting, and where the setting has an effect.

    Attributes:
        panel: the heading under which the help lists it.
        flags: on the command line, if they are not the setting's name.
        default: on the command line; None leaves the setting to the protocol.
        several: numbers separated by commas.
        networks: the kinds of networks that have it, of `NETWORKS`.
        learning: it is for a prior that learns.
        objective: it is for this objective.
        models: models other than networks have it too.
    """

    help: str
    panel: str
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    default: str | None = None
    several: bool = False
    networks: tuple[str, ...] = WITH_LAYERS
    learning: bool = False
    objective: Objective | None = None
    models: bool = False

    def needs(self, network: str, objective: str | None, *, learned: bool) -> str | None:
        """Return the option that is missing if this one has no effect; None if it has.

        Args:
            network: kind of the network.
            learned: whether the prior learns from a part of the examples.
        """
        if network not in self.networks:
            return "--network " + " or ".join(NETWORKS[kind] for kind in self.networks)
        if self.learning and not learned:
            return "a prior that learns; give --prior-fraction too"
        if self.objective not in (None, objective):
            return f"--objective {self.objective}"
        return None


_run = partial(Option, panel="Run")
_network = partial(Option, panel="Network (posterior Q)")
_prior = partial(Option, panel="Prior P")
_learning = partial(_prior, learning=True)
_objective = partial(Option, panel="Objective")
_steps = partial(Option, panel="Optimisation")
_OTHERS = ("conv", "module")  # networks that are not dense


class Settings(BaseModel):
    """A network, an objective and a schedule; `Settings.of` fills in a protocol's defaults.

    What each field means is the help of its option, on the page of `pacbayes train`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol: Annotated[
        Protocol,
        _run(
            "Default settings, which the other options change.",
            default="fast",
            networks=("dense",),
        ),
    ] = "fast"
    activation: Annotated[
        Activation, _network("Hidden units.", default="relu", networks=("dense",))
    ] = "relu"
    widths: Annotated[
        tuple[int, ...],
        _network(
            "Hidden layers, none for a linear model.  [default: 100; where the prior of images "
            "learns, 100,100,100]",
            several=True,
            networks=("dense", "conv"),
        ),
    ] = (100, 100, 100)
    estimator: Annotated[
        Estimator,
        _network(
            f"Gradient of sign units: {', '.join(get_args(Estimator))}.",
            metavar="NAME",
            networks=("dense",),
        ),
    ] = "leave-one-out"
    learned_scale: Annotated[
        bool,
        _network(
            "Train the standard deviations of Q, or fix them.",
            flags=("--learned-scale/--unit-scale",),
        ),
    ] = False
    basis: Annotated[
        Basis,
        _network(
            "Basis of the inputs in which Q is diagonal: none of its own, or that of their "
            "eigenvectors.  [default: none]",
            networks=("dense",),
        ),
    ] = "none"
    prior_scale: Annotated[
        float,
        _prior(
            "Standard deviation of P, or several to try, each paid for: 0.02,0.05.", several=True
        ),
    ] = Field(1.0, ge=1e-9, le=1e9)  # float32 has squares of these
    prior_scales: tuple[float, ...] = ()  # all that are tried, prior_scale included; each pays
    prior_smooth: Annotated[
        float,
        _prior(
            "How much smoother than noise P expects images to be, such as 2.  [default: 0]",
            networks=("dense",),
        ),
    ] = Field(0.0, ge=0, le=16)
    prior_fraction: Annotated[
        float,
        _prior(
            "Fraction of the examples that P learns from; the bound uses the rest.  [default: 0; "
            "of a table, half or more]"
        ),
    ] = Field(0.0, ge=0, lt=1)
    prior_epochs: Annotated[int, _learning("Epochs of learning P.  [default: 100]")] = Field(
        100, ge=1, le=MOST_EPOCHS
    )
    prior_rate: Annotated[float, _learning("Learning rate for P.  [default: 0.01]")] = Field(
        0.01, gt=0, allow_inf_nan=False
    )
    prior_decay: Annotated[
        float,
        _learning(
            "Weight decay for P, of networks other than dense.  [default: 0]", networks=_OTHERS
        ),
    ] = Field(0.0, ge=0, le=1)
    prior_augmentation: Annotated[
        Augmentation,
        _learning("Rotate and shift the images P learns from, or crop and flip them."),
    ] = "none"
    prior_precision: Annotated[
        Precision,
        _learning(
            "Precision in which P learns, for networks other than dense; bfloat16 is faster on "
            "most GPUs.",
            networks=_OTHERS,
        ),
    ] = "float32"
    prior_finer: Annotated[
        bool,
        _learning(
            "Let P learn finer classes if the data set has them, such as the ten digits of "
            "binary-mnist.",
            networks=_OTHERS,
        ),
    ] = False
    objective: Annotated[
        Objective,
        _objective(
            "Fix λ, learn it, or follow the small-kl bound.  [default: fix-lambda; small-kl with "
            "--prior-fraction]"
        ),
    ] = "fix-lambda"
    lam: Annotated[
        float | None, _objective("λ, or where it starts.  [default: n]", flags=("--lambda",))
    ] = Field(None, gt=1, allow_inf_nan=False)
    lambda_rate: Annotated[
        float,
        _objective("Learning rate of ln λ, for optim-lambda.", objective="optim-lambda"),
    ] = Field(1e-4, ge=0, allow_inf_nan=False)
    epochs: Annotated[
        int,
        _run(
            "Passes over the data; 0 leaves Q at P.  [default: the protocol's]",
            networks=tuple(NETWORKS),
        ),
    ] = Field(200, ge=0, le=MOST_EPOCHS)
    batch_size: Annotated[
        int | None, _steps("Examples per step.  [default: n/100, between 16 and 512]")
    ] = Field(None, ge=1, le=2**31)
    learning_rate: Annotated[float, _steps("Initial learning rate of Adam.")] = Field(
        0.01, gt=0, allow_inf_nan=False
    )
    samples: Annotated[
        int, _steps("Draws per example in training, T.", flags=("--samples", "-T"))
    ] = Field(10, ge=1, le=10_000)
    kl_warmup: Annotated[
        float, _objective("Fraction of the run in which the weight of the KL grows.")
    ] = Field(0.0, ge=0, le=1)
    evaluate_every: Annotated[int, _steps("Epochs between evaluations.  [default: 5]")] = Field(
        5, ge=1, le=MOST_EPOCHS
    )
    evaluation_samples: Annotated[
        int, _steps("Draws per example in evaluations.  [default: 10]")
    ] = Field(10, ge=1, le=10_000)
    engine: Annotated[Engine, _steps("native where possible, or torch.")] = "auto"
    repeats: Annotated[
        bool,
        Option(
            "Declare that examples naturally repeat.",
            "Data",
            models=True,
            networks=tuple(NETWORKS),
        ),
    ] = False
    delta: Annotated[
        float,
        _objective(
            "δ of the bound that guides training.  [default: 0.05]",
            models=True,
            networks=tuple(NETWORKS),
        ),
    ] = Field(0.05, gt=0, lt=1)
    seed: Annotated[
        int, _run("Random seed.  [default: 0]", models=True, networks=tuple(NETWORKS))
    ] = Field(0, ge=0, lt=2**63)

    @field_validator("widths", mode="before")
    @classmethod
    def _no_text(cls, widths: Any) -> Any:
        if isinstance(widths, str):  # its characters would be taken for widths
            raise ValueError(f"widths must be integers such as (100, 100), or (), got {widths!r}")
        return widths

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if any(not 1 <= d <= 100_000 for d in self.widths):
            raise ValueError(f"widths must be between 1 and 100000, got {self.widths}")
        if self.prior_augmentation != "none" and not self.prior_fraction:
            raise ValueError(
                "augmentation is for a prior that learns; give it a fraction of the examples"
            )
        if self.prior_finer and not self.prior_fraction:
            raise ValueError(
                "finer classes are for a prior that learns; give it a fraction of the examples"
            )
        if not self.widths and self.estimator.startswith("reinforce"):
            raise ValueError("reinforce needs hidden layers, got no widths")
        self._check_scales()
        self._check_samples()
        self._check_basis()
        return self

    def _check_basis(self) -> None:
        if self.basis != "none" and not self.learned_scale:
            raise ValueError(
                "a basis has no effect on fixed standard deviations; use --learned-scale "
                "(learned_scale=True) or leave out --basis"
            )
        asked = "basis" if self.basis != "none" else "smooth prior" if self.prior_smooth else None
        if asked and self.prior_fraction:
            raise ValueError(f"a {asked} is for data-free priors; leave out the prior's fraction")
        if asked and self.estimator.startswith("reinforce"):
            raise ValueError(f"{self.estimator} does not take a {asked}; use another estimator")

    def _check_scales(self) -> None:
        scales = self.prior_scales
        if any(not 1e-9 <= scale <= 1e9 for scale in scales):
            raise ValueError(f"prior scales must be between 1e-9 and 1e9, got {scales}")
        if scales and self.prior_scale not in scales:
            raise ValueError(f"prior scale {self.prior_scale} is not among {scales}")
        if len(set(scales)) < len(scales):
            raise ValueError(f"a prior scale occurs twice in {scales}")

    def _check_samples(self) -> None:
        """Refuse one sample where the estimator of sign units needs two."""
        depth = len(self.widths) if self.activation == "sign" else 0
        least = {"leave-one-out": 1, "local-expectation": 2}.get(self.estimator, depth + 1)
        if depth >= least and self.samples < 2:
            raise ValueError(f"{self.estimator} needs at least 2 samples, got {self.samples}")

    def batch(self, n: int) -> int:
        """Return the batch size for n examples."""
        return self.batch_size or batch_size(n)

    @classmethod
    def of(
        cls,
        protocol: Protocol = "fast",
        activation: Activation = "relu",
        objective: Objective | None = None,
        *,
        classes: int = 2,
        **changes: Any,
    ) -> Settings:
        """Return a protocol's defaults for an activation, with changes.

        `paper` is the published protocol at the published best hyper-parameters. `fast` reaches the
        best bound within a minute on two CPU cores (docs/recipes.md); it has other defaults where
        the prior learns from a part of the data.
        """
        _check_choice("activation", activation, get_args(Activation))
        _check_choice("objective", objective, (None, *get_args(Objective)))
        learned_prior = bool(changes.get("prior_fraction"))
        if protocol == "paper":
            chosen = _paper(activation, objective or "fix-lambda")
        else:
            chosen = _fast(activation, objective, classes, learned_prior=learned_prior)
        return cls(**({"protocol": protocol, "activation": activation} | chosen | changes))


def _check_choice(name: str, value: str | None, choices: tuple[str | None, ...]) -> None:
    if value not in choices:
        known = ", ".join(choice for choice in choices if choice is not None)
        raise ValueError(f"{name} must be one of {known}, got {value!r}")


def _paper(activation: Activation, objective: Objective) -> dict[str, Any]:
    """Return the paper's best hyper-parameters."""
    if objective == "small-kl":
        raise ValueError("the paper has no objective small-kl; use protocol fast")
    result = printed.RESULTS[objective, activation]
    return {
        "objective": objective,
        "learning_rate": result.learning_rate,
        "samples": result.samples,
        "estimator": "marginal",
        "batch_size": 256,
    }


def _fast(
    activation: Activation, objective: Objective | None, classes: int, *, learned_prior: bool
) -> dict[str, Any]:
    """Return this library's recipe, which differs near a learned prior."""
    chosen = {"learned_scale": True, "learning_rate": 0.03} | _FAST[activation]
    if classes > 2:  # local-expectation would need an integral for every unit
        chosen |= {"estimator": "leave-one-out"}
    if learned_prior:
        return chosen | _NEAR_A_LEARNED_PRIOR | {"objective": objective or "small-kl"}
    return chosen | {"widths": (100,), "objective": objective or "fix-lambda"}


_FAST: dict[str, dict[str, Any]] = {
    "relu": {"epochs": 100, "samples": 4, "kl_warmup": 0.1},
    "sigmoid": {"epochs": 80, "samples": 4, "kl_warmup": 0.3},
    "sign": {"epochs": 40, "samples": 10, "kl_warmup": 0.3, "estimator": "local-expectation"},
}
_NEAR_A_LEARNED_PRIOR: dict[str, Any] = {
    "epochs": 30,
    "learning_rate": 0.0005,
    "prior_scale": 0.03,
    "kl_warmup": 0.0,
}
OPTIONS = {
    name: option
    for name, field in Settings.model_fields.items()
    for option in field.metadata
    if isinstance(option, Option)
}
OF_LEARNING = tuple(name for name, option in OPTIONS.items() if option.learning)
