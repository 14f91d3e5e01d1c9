"""The settings of a run, validated and frozen."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from pacbayes.choices import (
    Activation,
    Augmentation,
    Engine,
    Estimator,
    Objective,
    Precision,
    Protocol,
)
from pacbayes.defaults import batch_size
from pacbayes.paper import printed

__all__ = ["MOST_EPOCHS", "Settings"]

MOST_EPOCHS = 1_000_000


class Settings(BaseModel):
    """A network, an objective and a schedule; `Settings.of` fills in a protocol's defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol: Protocol = "fast"
    activation: Activation = "relu"
    widths: tuple[int, ...] = (100, 100, 100)
    estimator: Estimator = "leave-one-out"
    learned_scale: bool = False
    prior_scale: float = Field(1.0, ge=1e-9, le=1e9)  # float32 has squares of these
    prior_scales: tuple[float, ...] = ()  # all that are tried, prior_scale included; each pays
    prior_fraction: float = Field(
        0.0, ge=0, lt=1
    )  # fraction of the examples that the prior learns from
    prior_epochs: int = Field(100, ge=1, le=MOST_EPOCHS)  # epochs of learning the prior
    prior_rate: float = Field(0.01, gt=0, allow_inf_nan=False)
    prior_decay: float = Field(0.0, ge=0, le=1)  # weight decay of a module that is a prior
    prior_augmentation: Augmentation = "none"
    prior_precision: Precision = "float32"  # of products when a module that is a prior learns
    prior_finer: bool = False  # the prior learns finer classes, which the labels are groups of
    objective: Objective = "fix-lambda"
    lam: float | None = Field(
        None, gt=1, allow_inf_nan=False
    )  # λ or its initial value; None means n
    lambda_rate: float = Field(1e-4, ge=0, allow_inf_nan=False)  # learning rate of ln λ
    epochs: int = Field(200, ge=0, le=MOST_EPOCHS)  # 0 leaves Q at P
    batch_size: int | None = Field(None, ge=1, le=2**31)  # None: n/100, between 16 and 512
    learning_rate: float = Field(0.01, gt=0, allow_inf_nan=False)
    samples: int = Field(10, ge=1, le=10_000)  # T in training
    kl_warmup: float = Field(0.0, ge=0, le=1)  # fraction of the run in which the KL's weight grows
    evaluate_every: int = Field(5, ge=1, le=MOST_EPOCHS)  # epochs
    evaluation_samples: int = Field(10, ge=1, le=10_000)  # T in evaluations
    engine: Engine = "auto"  # native where possible
    repeats: bool = False  # declares that examples naturally repeat
    delta: float = Field(0.05, gt=0, lt=1)
    seed: int = Field(0, ge=0, lt=2**63)

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
        return self

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
