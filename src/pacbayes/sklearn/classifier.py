"""The classifier: scikit-learn's interface to a network, its training and its certificate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from pacbayes import defaults
from pacbayes.choices import Activation, Engine, Predictor
from pacbayes.data.dataset import classes_of
from pacbayes.data.preprocessing import fitted, in_numbers, refuse_batch_effects, transformed
from pacbayes.data.tasks import task_of
from pacbayes.engine.evaluation import sampler
from pacbayes.losses.bounded import likeliest, loss_of
from pacbayes.networks.posterior import draws_key
from pacbayes.networks.predictors import Decisions, decide, draw_network, prior_weights
from pacbayes.randomness import keyed_generator
from pacbayes.sklearn.certifying import certificate_or_warning, kept_if_steady
from pacbayes.sklearn.learning import learn_prior, likeliest_temperature, train_posterior
from pacbayes.sklearn.packing import carried, restored
from pacbayes.sklearn.parameters import (
    PredictorName,
    blueprint_of,
    check_loss,
    check_parameters,
    choice_of,
    examples_of,
    flat,
    forget,
    settings_of,
    shape_of,
)
from pacbayes.training.priors import split

__all__ = ["PACBayesClassifier"]

Array = NDArray[Any]
_ONE_NETWORK = ("fixed", "drawn")  # predictors with weights of their own


class PACBayesClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A stochastic neural network with a certificate for the errors of `predict` on new examples.

    A prior learns from one part of the training examples and the posterior from the rest. The
    certificate is derived from that rest too, so no example is held out from training.

    Args:
        activation: activation of the hidden layers: relu, sigmoid or sign.
        widths: widths of the hidden layers; none give a linear classifier.
        network: None for these dense layers; "conv" or `networks.modules.Convolutions`; or your own
            module, as "my_network.py:build" or the function itself, at the top of a file. It is
            called with the shape of an example and the number of scores.
        image_shape: channels, height and width, if a network takes examples as images. Rows hold
            their pixels in this order; arrays (n, channels, height, width) need no such parameter.
        predictor: the predictor that is used and certified. `fixed` is the network at the prior's
            means, which never saw the bound set, so that its certificate is a hold-out test;
            `drawn` is one network drawn from the posterior and kept; `best` certifies both, sharing
            δ, and keeps the better (without a part for the prior it is `drawn`). `vote` is the
            majority of `votes` draws; `randomised` draws weights for every prediction. The last two
            draw anew for every new example, and the same again for the same example.
        prior_fraction: fraction of the examples that the prior learns from; 0 means a data-free
            prior, and None the default for so many examples (`pacbayes.defaults`).
        prior_scale: standard deviation of the prior's weights; None is the protocol's default.
        prior_epochs, epochs, batch_size, learning_rate, samples: training settings; None is the
            default: of `pacbayes.defaults` for the prior's epochs, and of `Settings.of` for the
            protocol `fast` otherwise.
        preprocessing: a transformer, cloned and fitted to the prior's part alone, so that the
            certificate stays valid; `auto` standardises if there is such a part and the network is
            dense. A transformer gets examples as they come: data frames, strings, missing values.
            One that was fitted before this classifier, as in a pipeline, has seen the bound set;
            where that can be detected, no certificate is issued.
        priors: how many candidates a search tries on the same examples, whatever it varies; all are
            paid for.
        delta: probability with which the certificate may fail.
        loss: what is certified: `error`, or `top-3` and the like, where an answer is the three
            labels with the best scores (`top`) of a fixed or drawn network. Training does not
            depend on it.
        votes: draws of a vote, and draws for the risk of a vote or randomised classifier.
        repeats: declares that examples naturally occur more than once.
        engine: native where possible, or torch.
        random_state: an int makes everything reproducible, predictions included.
        verbose: print every evaluation.

    Attributes:
        certificate_: at most `certificate_.bound` error with probability 1 − δ; None if a
            `CertificateWarning` says why.
        bound_set_: indices of the examples that it counts on.
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
        widths: Sequence[int] = defaults.WIDTHS,
        *,
        network: Any = None,
        image_shape: Sequence[int] | None = None,
        predictor: PredictorName = "best",
        prior_fraction: float | None = None,
        prior_scale: float | None = None,
        prior_epochs: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        samples: int | None = None,
        preprocessing: Any = "auto",
        priors: int = 1,
        delta: float = 0.05,
        loss: str = "error",
        votes: int = 100,
        repeats: bool = False,
        engine: Engine = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.activation = activation
        self.widths = widths
        self.network = network
        self.image_shape = image_shape
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
        self.loss = loss
        self.votes = votes
        self.repeats = repeats
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> PACBayesClassifier:
        """Learn a prior, then the posterior, then certify.

        Ctrl-C ends the phase it falls into and keeps the best so far.
        """
        forget(self)
        check_parameters(self)
        self._shape = shape_of(self, X)
        given = flat(X)
        X, y, self._input = examples_of(self, given, y)
        self.classes_, index = classes_of(y)
        check_classification_targets(y)
        k, n = len(self.classes_), len(y)
        if k < 2:
            raise ValueError(f"need examples of at least two classes, got one class, {y[0]}")
        check_loss(self, self.classes_)
        self._seed = int(check_random_state(self.random_state).randint(2**31))
        settings = settings_of(self, k, n, self._seed)
        self._settings, self._choice = settings, choice_of(self, settings, self._shape)
        own, bound = np.zeros(0, np.int64), np.arange(n)
        if settings.prior_fraction:
            own, bound = split(n, settings.prior_fraction, self._seed)
        self.bound_set_ = bound
        none = self._choice is not None and self.preprocessing == "auto"
        there = _safe_indexing(X, own)
        self.preprocessing_ = fitted(None if none else self.preprocessing, there, y[own])
        x = transformed(self.preprocessing_, X)
        labels = task_of(k).encode(torch.from_numpy(index))
        refuse_batch_effects(self.preprocessing_, X)
        verbose = bool(self.verbose)
        blueprint = blueprint_of(settings, x.shape[1], k, self._choice, self._shape)
        self._blueprint = blueprint
        network = learn_prior(x[own], labels[own], blueprint, verbose=verbose)
        trainer = train_posterior(network, x[bound], labels[bound], settings, verbose=verbose)
        self.history_, self.n_iter_ = trainer.history, trainer.epoch
        self.network_ = network.double().eval()
        self.predictor_, self.votes_ = self._wanted(len(own)), self.votes
        self.certificate_ = certificate_or_warning(self, x, labels, as_they_came=in_numbers(X))
        if self.certificate_ is not None:
            self.predictor_ = self.certificate_.kind.value
        self._keep(x[bound], labels[bound])
        if self.predictor_ in _ONE_NETWORK:
            self.temperature_ = likeliest_temperature(self._scores(x), index)
        self.certificate_ = kept_if_steady(self, given, y, table=X, x=x)
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

    def top(self, X: Any) -> Array:
        """Return the labels that the certificate counts, the best scores first, (n, k).

        They are the K best of one network with the loss top-K, and those of `predict` otherwise.
        """
        k = loss_of(self.classes_, None, self.loss).labels
        if k == 1:
            return self.predict(X).reshape(-1, 1)
        return likeliest(self._scores(self._checked(X)), self.classes_, k)

    def __getstate__(self) -> dict[str, Any]:
        return carried(super().__getstate__())

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(restored(state))

    def save(self, folder: str | Path, X: Any, y: Any, *, data: bool = True) -> None:
        """Write a run folder, which `pacbayes.load` and all commands take.

        The preprocessing is kept if it is `auto` or None.

        Args:
            folder: a new or empty folder, or one of an earlier `save`, which is replaced.
            X, y: the examples given to `fit`, from which certificates are checked.
            data: keep a copy of them in the folder; without, `verify` needs them as `--data`.
        """
        from pacbayes.folders.estimators import save_estimator  # folders are made of classifiers

        save_estimator(self, Path(folder), X, y, data=data)

    def _checked(self, X: Any) -> Tensor:
        check_is_fitted(self)
        return transformed(self.preprocessing_, self._input.rows(self, flat(X))).double()

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
            sampler=sampler(self.network_),
        )
