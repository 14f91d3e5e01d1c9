"""A scikit-learn classifier that comes with a certificate."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import Certificate
from pacbayes.certificates.certify import certify
from pacbayes.certificates.kept import certify_drawn, certify_fixed, certify_network
from pacbayes.choices import Activation, Engine, Predictor
from pacbayes.data.pipelines import fitted_before, is_searched, refuse_fitted_state
from pacbayes.data.preprocessing import fitted, refuse_batch_effects, transformed
from pacbayes.data.sample import FittedError, NoSampleError, check_split
from pacbayes.data.tasks import task_of
from pacbayes.networks.architecture import build_network
from pacbayes.networks.keys import draws_key
from pacbayes.networks.network import Network
from pacbayes.networks.predictors import Decisions, decide
from pacbayes.networks.weights import draw_network, prior_weights
from pacbayes.randomness import keyed_generator
from pacbayes.settings import Settings
from pacbayes.training.priors import Teacher, as_prior, split
from pacbayes.training.trainer import Trainer

__all__ = ["CertificateWarning", "PACBayesClassifier"]

Array = NDArray[Any]
PredictorName = Literal["best", "fixed", "drawn", "vote", "randomised"]
_ONE_NETWORK = ("fixed", "drawn")  # predictors with weights of their own
_BOUND_SET = 8  # least number of examples in it


class CertificateWarning(UserWarning):
    """A classifier was fitted, but it cannot be certified."""


class PACBayesClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A stochastic neural network with a certificate for the errors of `predict` on new examples.

    A prior learns from one part of the training examples and the posterior from the rest. The
    certificate is derived from that rest too, so no example is held out from training.

    Args:
        activation: activation of the hidden layers: relu, sigmoid or sign.
        widths: widths of the hidden layers; none give a linear classifier.
        predictor: the predictor that is used and certified. `fixed` is the network at the prior's
            means, which never saw the bound set, so that its certificate is a hold-out test;
            `drawn` is one network drawn from the posterior and kept; `best` certifies both, sharing
            δ, and keeps the better (without a part for the prior it is `drawn`). `vote` is the
            majority of `votes` draws; `randomised` draws weights for every prediction. The last two
            draw anew for every new example, and the same again for the same example.
        prior_fraction: fraction of the examples that the prior learns from; 0 means a data-free
            prior.
        prior_scale: standard deviation of the prior's weights; None is the protocol's default.
        prior_epochs, epochs, batch_size, learning_rate, samples: training settings; None is the
            default of `Settings.of` for the protocol `fast`.
        preprocessing: a transformer, cloned and fitted to the prior's part alone, so that the
            certificate stays valid; `auto` standardises if there is such a part. A transformer
            fitted before this classifier, as in a pipeline, has seen the bound set; where that can
            be detected, no certificate is issued.
        priors: how many candidates a search tries on the same examples, whatever it varies; all are
            paid for.
        delta: probability with which the certificate may fail.
        votes: draws of a vote, and draws for the risk of a vote or randomised classifier.
        repeats: declares that examples naturally occur more than once.
        engine: native where possible, or torch.
        random_state: an int makes everything reproducible, predictions included.
        verbose: print every evaluation.

    Attributes:
        certificate_: at most `certificate_.bound` error with probability 1 − δ; None if a
            `CertificateWarning` says why.
        classes_, n_features_in_, feature_names_in_: as usual; the set of classes counts as known
            beforehand.
        predictor_, votes_: as fitted and certified, whatever is set afterwards.
        network_: the posterior and its prior.
        weights_: weights of the fixed or drawn network, by their names in `network_`.
        preprocessing_: the fitted transformer, or None.
        history_: all evaluations.
        n_iter_: epochs trained; fewer after Ctrl-C, which keeps the best so far.

    >>> from sklearn.datasets import load_breast_cancer
    >>> x, y = load_breast_cancer(return_X_y=True)
    >>> model = PACBayesClassifier(random_state=0).fit(x, y)
    >>> bool(model.certificate_.bound < 0.2)
    True
    """

    def __init__(
        self,
        activation: Activation = "relu",
        widths: Sequence[int] = (100,),
        *,
        predictor: PredictorName = "best",
        prior_fraction: float = 0.5,
        prior_scale: float | None = None,
        prior_epochs: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        samples: int | None = None,
        preprocessing: Any = "auto",
        priors: int = 1,
        delta: float = 0.05,
        votes: int = 100,
        repeats: bool = False,
        engine: Engine = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.activation = activation
        self.widths = widths
        self.predictor = predictor
        self.prior_fraction = prior_fraction
        self.prior_scale = prior_scale
        self.prior_epochs = prior_epochs
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.samples = samples
        self.preprocessing = preprocessing
        self.priors = priors
        self.delta = delta
        self.votes = votes
        self.repeats = repeats
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> PACBayesClassifier:
        """Learn a prior, then the posterior, then certify.

        Ctrl-C ends the phase it falls into and keeps the best so far.
        """
        self._forget()
        self._check_parameters()
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, index = np.unique(y, return_inverse=True)
        k, n = len(self.classes_), len(X)
        if k < 2:
            raise ValueError(f"need examples of at least two classes, got one class, {y[0]}")
        if n <= _BOUND_SET:
            raise ValueError(f"need more than {_BOUND_SET} examples, got n_samples = {n}")
        self._seed = int(check_random_state(self.random_state).randint(2**31))
        settings = self._settings(k, n)
        own, bound = np.zeros(0, np.int64), np.arange(n)
        if settings.prior_fraction:
            own, bound = split(n, settings.prior_fraction, self._seed)
        self.preprocessing_ = fitted(self.preprocessing, X[own], y[own])
        x = transformed(self.preprocessing_, X)
        labels = task_of(k).encode(torch.from_numpy(index))
        refuse_batch_effects(self.preprocessing_, X)
        network = self._prior(x[own], labels[own], settings)
        self._train(network, x[bound], labels[bound], settings)
        self.network_ = network.double().eval()
        self.predictor_, self.votes_ = self._wanted(len(own)), self.votes
        try:
            self._check_origin()
            if len(own):
                check_split(x[own].numpy(), x[bound].numpy(), repeats=self.repeats)
            as_they_came = torch.tensor(X), labels
            self.certificate_: Certificate | None = self._certify(
                x[bound], labels[bound], as_they_came
            )
        except NoSampleError as error:
            self.certificate_ = None
            advice = (
                "; pass the transformer as preprocessing=, which fits it to the prior's part alone"
            )
            advice = advice if isinstance(error, FittedError) else ""
            warnings.warn(f"no certificate: {error}{advice}", CertificateWarning, stacklevel=2)
        if self.certificate_ is not None:
            self.predictor_ = self.certificate_.kind.value
        self._keep(x[bound], labels[bound])
        if self.predictor_ in _ONE_NETWORK:
            self.temperature_ = _temperature(self._scores(x), index)
        return self

    def _wanted(self, own: int) -> str:
        """Return the predictor that is asked for; without a certificate, the best is the fixed."""
        if self.predictor != "best":
            return self.predictor
        return "fixed" if own else "drawn"

    def _keep(self, x: Tensor, y: Tensor) -> None:
        """Keep the weights that predict, if they are those of one network."""
        self.weights_: dict[str, Tensor] = {}
        if self.predictor_ == "fixed":
            self.weights_ = prior_weights(self.network_)
        elif self.predictor_ == "drawn":  # the same draw as the certificate's
            key = draws_key(self.network_, x, y)
            self.weights_ = draw_network(self.network_, keyed_generator(key, 0)).weights

    def decision_function(self, X: Any) -> Array:
        """Return scores, (n,) or (n, k): a drawn network's, else F̂ or logarithms of shares."""
        z = self._scores(self._checked(X))
        whole = z.ndim == 1 or self.predictor_ in _ONE_NETWORK
        return z if whole else np.log(np.maximum(z, 1e-300))

    def predict_proba(self, X: Any) -> Array:
        """Return shares of the votes, (n, k), the probabilities by which `randomised` draws.

        For one network, return its scores at a temperature fitted to the training examples. No
        certificate covers these.
        """
        z = self._scores(self._checked(X))
        if self.predictor_ in _ONE_NETWORK:
            z = z / self.temperature_
            p = expit(z) if z.ndim == 1 else softmax(z, axis=1)
        else:
            p = (1 + z) / 2 if z.ndim == 1 else z
        return p if p.ndim == 2 else np.stack([1 - p, p], axis=1)

    def predict(self, X: Any) -> Array:
        """Predict labels with the certified predictor."""
        chosen = self._decide(self._checked(X), Predictor(self.predictor_))
        labels: Array = self.classes_[chosen.index.numpy()]
        return labels

    def _forget(self) -> None:
        """Remove all results of an earlier fit, so that a failed one leaves nothing behind."""
        for name in [name for name in vars(self) if name.endswith("_") and name[0] != "_"]:
            delattr(self, name)

    def _check_origin(self) -> None:
        """Refuse to certify data that an earlier step was fitted to; warn about searches."""
        if (step := fitted_before(self)) is not None:
            raise FittedError(f"{step} was fitted to all examples before this classifier saw them")
        if self.priors == 1 and is_searched(self):
            warnings.warn(
                "a search tries several candidates on the same examples, but priors=1 pays for "
                "one; set priors to their number",
                CertificateWarning,
                stacklevel=2,
            )

    def _check_parameters(self) -> None:
        if self.predictor not in (names := get_args(PredictorName)):
            raise ValueError(f"predictor must be one of {', '.join(names)}, got {self.predictor!r}")
        for name in ("votes", "priors"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
        if not isinstance(self.widths, Sequence):
            raise ValueError(f"widths must be a sequence such as (100,), got {self.widths!r}")
        if not 0 <= self.prior_fraction < 1:
            raise ValueError(f"prior_fraction must be in [0, 1), got {self.prior_fraction}")
        refuse_fitted_state(self.preprocessing)

    def _settings(self, k: int, n: int) -> Settings:
        names = ("prior_scale", "prior_epochs", "epochs", "batch_size", "learning_rate", "samples")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        given |= {
            "widths": tuple(self.widths),
            "prior_fraction": min(self.prior_fraction, 1 - _BOUND_SET / n),
            "delta": self.delta,
            "repeats": self.repeats,
            "engine": self.engine,
            "seed": self._seed,
        }
        try:
            return Settings.of("fast", self.activation, classes=k, **given)
        except ValidationError as error:  # its text has several lines
            wrong = error.errors()[0]
            name = ".".join(map(str, wrong["loc"])) or "settings"
            raise ValueError(f"{name}: {wrong['msg']}, got {wrong['input']!r}") from None

    def _checked(self, X: Any) -> Tensor:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return transformed(self.preprocessing_, X).double()

    def _prior(self, x: Tensor, y: Tensor, settings: Settings) -> Network:
        k = len(self.classes_)
        if not len(x):  # always the first prior, which costs least
            return build_network(settings.model_copy(update={"seed": 0}), x.shape[1], k)
        teacher = Teacher(x, y, settings, k)
        self._follow(teacher, "prior")
        return as_prior(teacher, settings)

    def _train(self, network: Network, x: Tensor, y: Tensor, settings: Settings) -> None:
        trainer = Trainer(network, x, y, settings)
        self._follow(trainer, "posterior")
        network.load_state_dict(network.state_dict() | trainer.best)
        self.history_, self.n_iter_ = trainer.history, trainer.epoch

    def _follow(self, trainer: Trainer, what: str) -> None:
        try:
            for progress in trainer.steps():
                if self.verbose and (e := progress.evaluation):
                    line = f"{what}, epoch {e.epoch}: risk {e.risk:.4f}, KL {e.kl:.1f}"
                    print(f"{line}, bound {e.bound:.4f}", file=sys.stderr)
        except KeyboardInterrupt:
            print(f"interrupted: keeping the {what} as it is", file=sys.stderr)

    def _certify(self, x: Tensor, y: Tensor, sample: tuple[Tensor, Tensor]) -> Certificate:
        own: dict[str, Any] = {"delta": self.delta, "priors": self.priors, "repeats": self.repeats}
        own["sample"] = sample
        own["assumptions"] = self._assumptions()
        if self.predictor == "fixed":
            return certify_fixed(self.network_, x, y, **own)
        if self.predictor == "best" and self.predictor_ == "fixed":
            return _named(certify_network(self.network_, x, y, **own)[0])
        if self.predictor_ == "drawn":
            return _named(certify_drawn(self.network_, x, y, **own)[0])
        # By Markov's inequality, first-order covers a vote of any number of fresh draws.
        bound = "first-order" if self.predictor_ == "vote" else "small-kl"
        return certify(self.network_, x, y, bound=bound, samples=self.votes_, **own)

    def _assumptions(self) -> Assumptions:
        learned, preprocessing = self.network_.prior_seed is None, None
        if self.preprocessing_ is not None:
            fitted_to = "fitted to the prior's part alone" if learned else "not fitted to examples"
            preprocessing = f"{type(self.preprocessing_).__name__}, {fitted_to}"
        return Assumptions(
            repeats=self.repeats,
            split_seed=self._seed if learned else None,
            preprocessing=preprocessing,
        )

    def _scores(self, x: Tensor) -> Array:
        """Return the drawn network's scores, or the mean output of a vote."""
        one = self.predictor_ in _ONE_NETWORK
        by = Predictor(self.predictor_) if one else Predictor.VOTE
        output = self._decide(x, by).output
        assert output is not None
        return output.numpy()

    def _decide(self, x: Tensor, predictor: Predictor) -> Decisions:
        return decide(
            self.network_,
            predictor,
            x,
            seed=self._seed,
            samples=self.votes_,
            weights=self.weights_,
        )


def _named(certificate: Certificate) -> Certificate:
    """Name where a drawn network is kept."""
    if certificate.kind is not Predictor.DRAWN:
        return certificate
    return replace(certificate, predictor="one network drawn from Q and kept in weights_")


def _temperature(z: Array, index: Array) -> float:
    """Return the temperature at which scores fit the examples best (Guo et al. 2017)."""
    wide = np.stack([np.zeros_like(z), z], axis=1) if z.ndim == 1 else z
    size = float(np.abs(wide).mean()) or 1.0

    def surprise(log_t: float) -> float:
        log_p = log_softmax(wide / (size * np.exp(log_t)), axis=1)
        return -float(np.take_along_axis(log_p, index[:, None], 1).mean())

    return size * float(np.exp(minimize_scalar(surprise, bounds=(-4, 4), method="bounded").x))
