"""A scikit-learn classifier that certifies any other."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_random_state, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_is_fitted, column_or_1d, validate_data

from pacbayes.bounds.domain import check_probability
from pacbayes.certificates.certificate import Certificate
from pacbayes.certificates.explanation import CertificateWarning
from pacbayes.data.dataset import classes_of
from pacbayes.data.foreign import apart
from pacbayes.data.later import are_dicts
from pacbayes.data.sample import NoSampleError, check_examples, first_of_each
from pacbayes.data.splitting import Fraction, split_off
from pacbayes.losses.bounded import loss_of
from pacbayes.models.asking import check_answers, check_origin
from pacbayes.models.candidates import answer, mean_weights, named, probabilities, ranked
from pacbayes.models.choosing import Choice, Chosen, Contest, choose, evidence_of
from pacbayes.sklearn.parameters import forget

__all__ = ["CertifiedClassifier"]

Array = NDArray[Any]


def _delegated(name: str) -> Any:
    """Offer a method if the chosen estimator has it; before fitting, if the given one does."""

    def offered(self: Any) -> bool:
        if hasattr(self, "estimator_"):
            return hasattr(self.estimator_, name)
        return name == "predict_proba" if self.estimator is None else hasattr(self.estimator, name)

    return available_if(offered)


class CertifiedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Any classifier, with a certificate for the errors of `predict` on new examples.

    A random part of the examples, the bound set, is set aside. Candidates are fitted to the others,
    and the errors of the best on the bound set give the certificate, by the exact binomial tail
    (Clopper & Pearson 1934). δ is shared among the candidates, so the best may be chosen by its
    bound.

    Args:
        estimator: a classifier or pipeline to certify alone. It gets examples as they come: arrays,
            data frames, strings, missing values.
        candidates: classifiers to choose from, as a list or dict; by default gradient boosting, a
            random forest, extra trees, logistic regression and a neural network, for tables of
            numbers and categories.
        choose: `bound` chooses on the bound set, which shares of δ pay for. `cross-validation`
            chooses within the other examples, which costs no δ but fits each candidate five times
            more. `vote` certifies a weighted majority of the candidates.
        average: let the mean of the candidates' `predict_proba` be one more candidate. Among the
            default candidates, logistic regression has the weight min(1, 1000/n) in it.
        shares: each candidate's share of δ, by name or in order (the mean is the last, `mean`). By
            default 90 % for the mean, and equal shares of the rest for the others.
        bound_fraction: fraction of the examples, or groups, in the bound set; `auto` takes
            45 % of up to 1000, 36 % of 2500, 25 % of 10,000 and so on (`pacbayes.defaults`).
        per_class: also certify the error on each class; δ is shared with these certificates.
        costs: (k, k), the cost of answering class j to an example of class i, in the order of
            `classes_`. The certificate is then about the mean cost.
        loss: what is certified: `error`, or `top-3` and the like, where an answer is the three
            likeliest labels (`top`) and errs if the label is not among them. Candidates then need
            `predict_proba`.
        target_error: abstain where confidence is low, so that the cross-validated error among the
            answered examples is at most this; `answers` tells which are answered.
        delta: probability with which any of the certificates may fail.
        repeats: declares that examples naturally occur more than once. Otherwise copies, exact and
            near, cost the certificate; give `groups` if examples belong together.
        deduplicate: keep only the first of examples that are the same, label included.
        n_jobs: candidates fitted in parallel.
        random_state: an int makes the split and the default candidates reproducible.
        verbose: print every candidate's result.

    Attributes:
        certificate_: at most `certificate_.bound` error with probability 1 − δ; None if a
            `CertificateWarning` says why.
        certificates_: of all candidates, by name; they hold at once.
        class_certificates_: with `per_class`, by label.
        answered_certificate_, unanswered_certificate_: with `target_error`, the error among
            answered examples and the share of unanswered ones.
        threshold_: the confidence from which examples are answered.
        estimator_, chosen_: the chosen classifier, fitted, and its name.
        candidates_: all fitted classifiers, by name.
        weights_: of a vote, by name.
        bound_set_: indices of the bound set.
        evidence_: what the certificates were counted from; `save` writes it.
        classes_, n_features_in_, feature_names_in_: as usual; the set of classes counts as known
            beforehand.

    >>> from sklearn.datasets import load_breast_cancer
    >>> x, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedClassifier(random_state=0).fit(x, y)
    >>> bool(model.certificate_.bound < 0.1)
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        candidates: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        choose: Choice = "bound",
        average: bool = True,
        shares: Mapping[str, float] | Sequence[float] | None = None,
        bound_fraction: Fraction = "auto",
        per_class: bool = False,
        costs: Any = None,
        loss: str = "error",
        target_error: float | None = None,
        delta: float = 0.05,
        repeats: bool = False,
        deduplicate: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.candidates = candidates
        self.choose = choose
        self.average = average
        self.shares = shares
        self.bound_fraction = bound_fraction
        self.per_class = per_class
        self.costs = costs
        self.loss = loss
        self.target_error = target_error
        self.delta = delta
        self.repeats = repeats
        self.deduplicate = deduplicate
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, groups: Any = None) -> CertifiedClassifier:
        """Fit the candidates to one part of the examples, and certify the best on the other.

        Args:
            X, y: examples and their labels.
            groups: label of each example's group, if only groups are independent of each other (the
                records of one patient). A group goes to one side as a whole, n counts groups, and
                the certificate is about the mean error within a new group.
        """
        forget(self)
        check_probability(self.delta)
        _, y = validate_data(self, X, y, skip_check_array=True)
        if getattr(self, "n_features_in_", 1) == 0:
            raise ValueError(f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
        X, y, groups = indexable(X, apart(_check_y(y)), groups)
        if not len(y):
            raise ValueError("need examples to fit, got none")
        self.classes_, _ = classes_of(y)
        check_classification_targets(y)
        if len(self.classes_) < 2:
            raise ValueError(f"need examples of at least two classes, got one class, {y[0]}")
        defaults = self.estimator is None and self.candidates is None
        members = None if groups is None else apart(column_or_1d(groups))
        kept = first_of_each(X, y) if self.deduplicate else None
        seed = int(check_random_state(self.random_state).randint(2**31))
        contest = Contest(
            X=X,
            y=y,
            groups=members,
            classes=self.classes_,
            split=split_off(len(y), self.bound_fraction, seed, members, kept),
            candidates=named(self.estimator, self.candidates, seed),
            weights=mean_weights(len(y)) if defaults else {},
            loss=loss_of(self.classes_, self.costs, self.loss),
            settings=self.get_params(deep=False),
            quiet=(CertificateWarning, *((ConvergenceWarning,) if defaults else ())),
        )
        chosen = choose(contest)
        self._keep(chosen, contest)
        self._withhold_or_warn(chosen, contest)
        return self

    def predict(self, X: Any) -> Array:
        """Predict labels with the certified classifier.

        Columns of another container or type become those that were fitted, or are refused.
        """
        rows = self._rows(X)
        return answer(self.estimator_, rows)

    @_delegated("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Return the chosen classifier's probabilities, (n, k). No certificate covers these."""
        rows = self._rows(X)
        return probabilities(self.estimator_, rows, self.classes_)

    @_delegated("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Array:
        """Return the chosen classifier's scores."""
        rows = self._rows(X)
        return answer(self.estimator_, rows, "decision_function")

    def top(self, X: Any) -> Array:
        """Return the labels that the certificate counts, the likeliest first, (n, k).

        They are the K likeliest with the loss top-K, and those of `predict` otherwise.
        """
        rows, k = self._rows(X), loss_of(self.classes_, self.costs, self.loss).labels
        return ranked(self.estimator_, rows, self.classes_, k).reshape(-1, k)

    def answers(self, X: Any) -> Array:
        """Return whether each example is answered: its confidence reaches `threshold_`."""
        check_is_fitted(self, "threshold_")
        answered: Array = self.predict_proba(X).max(axis=1) >= self.threshold_
        return answered

    def save(self, folder: str | Path, X: Any = None) -> None:
        """Write the fitted classifier, its certificates and their evidence to a folder.

        `pacbayes.load` returns it, and the commands certify, verify, predict, report and export
        take the folder. Nothing in it is executed when it is loaded.

        Args:
            folder: a new or empty folder, or one of an earlier `save`, which is replaced.
            X: the examples given to `fit`, to be stored as well, so that `verify --full` can
                predict them again without another file.
        """
        from pacbayes.folders.models import save_classifier

        save_classifier(self, Path(folder), X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        _take_input_tags(tags, named(self.estimator, self.candidates, 0).values())
        return tags

    def _rows(self, X: Any) -> Any:
        """Return examples as the candidates were fitted to them; refuse what does not match."""
        check_is_fitted(self)
        layout = self.evidence_.layout
        if layout is not None and (layout.from_file or are_dicts(X)):
            return layout.rows(X)
        if hasattr(self, "n_features_in_") and getattr(X, "ndim", 2) == 1:
            raise ValueError(f"X must have rows and columns. Reshape your data; got {X!r}")
        validate_data(self, X, reset=False, skip_check_array=True)
        return X if layout is None else layout.rows(X)

    def _keep(self, chosen: Chosen, contest: Contest) -> None:
        self.estimator_, self.chosen_ = chosen.estimator, chosen.name
        self.candidates_ = chosen.fitted
        self.bound_set_ = contest.split.bound
        self.evidence_ = evidence_of(chosen, contest)
        self.certificate_: Certificate | None = chosen.certificate
        self.certificates_ = chosen.certificates
        if self.choose == "vote":
            self.weights_ = chosen.weights
        if self.per_class:
            self.class_certificates_ = chosen.of_classes
        if self.target_error is not None:
            self.threshold_ = chosen.threshold
            self.answered_certificate_ = chosen.answered
            self.unanswered_certificate_ = chosen.unanswered
        if self.verbose:
            for name, certificate in self.certificates_.items():
                print(f"{name}: {certificate}", file=sys.stderr)

    def _withhold_or_warn(self, chosen: Chosen, contest: Contest) -> None:
        """Withdraw all certificates if examples are visibly no sample, or answers are not steady.

        Warn about useless certificates.
        """
        try:
            check_origin(self)
            declared = {"repeats": self.repeats, "deduplicated": self.deduplicate}
            check_examples(contest.X, contest.y, contest.groups, contest.split, **declared)
            there = _safe_indexing(contest.X, contest.split.bound)
            check_answers(self, there, chosen.predicted, chosen.answers)
        except NoSampleError as error:
            self.certificate_, self.certificates_ = None, {}
            for name in ("class_certificates_", "answered_certificate_", "unanswered_certificate_"):
                if hasattr(self, name):
                    setattr(self, name, None)
            warnings.warn(f"no certificate: {error}", CertificateWarning, stacklevel=3)
            return
        assert self.certificate_ is not None
        for remark in self.certificate_.remarks:
            warnings.warn(remark, CertificateWarning, stacklevel=3)


def _take_input_tags(tags: Any, candidates: Iterable[Any]) -> None:
    """Set the tags of input that all candidates have."""
    inputs = [get_tags(_first(candidate)).input_tags for candidate in candidates]
    for name in ("allow_nan", "sparse", "string", "categorical"):
        setattr(tags.input_tags, name, all(getattr(tag, name) for tag in inputs))


def _first(model: Any) -> Any:
    """Return what receives the features: the first step of a pipeline, or the model itself."""
    return model[0] if isinstance(model, Pipeline) else model
