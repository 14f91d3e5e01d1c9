"""Issue the certificate of a fitted classifier, or say why there is none."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from torch import Tensor

from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import Certificate
from pacbayes.certificates.certify import certify
from pacbayes.certificates.explanation import CertificateWarning, above_constant
from pacbayes.certificates.kept import certify_drawn, certify_fixed, certify_network, prior_error
from pacbayes.choices import Predictor
from pacbayes.data.preprocessing import (
    fitted_before,
    is_searched,
    refuse_hidden_callers,
    transformed,
)
from pacbayes.data.sample import FittedError, NoSampleError, check_split
from pacbayes.sklearn.parameters import own_code

__all__ = ["certificate_or_warning", "kept_if_steady"]

Array = NDArray[Any]
_INSIDE = "; pass the transformer as preprocessing=, which fits it to the prior's part alone"


def certificate_or_warning(
    model: Any, x: Tensor, y: Tensor, *, as_they_came: Tensor
) -> Certificate | None:
    """Return a classifier's certificate, or None with a warning; warn as well if it says little.

    Args:
        model: with its network and preprocessing fitted.
        x, y: all examples, preprocessed, and their labels.
        as_they_came: the examples before preprocessing.
    """
    bound = model.bound_set_
    own = np.setdiff1d(np.arange(len(x)), bound)
    try:
        _check_origin(model)
        if len(own):
            check_split(x.numpy(), own, np.asarray(bound), repeats=model.repeats)
        guess = prior_error(model.network_, x[own], y[own], loss=model.loss) if len(own) else None
        issued = _certify(model, x[bound], y[bound], (as_they_came, y), guess)
    except NoSampleError as error:
        advice = _INSIDE if isinstance(error, FittedError) else ""
        warnings.warn(f"no certificate: {error}{advice}", CertificateWarning, stacklevel=3)
        return None
    labels = model.classes_[model.network_.task.decode(y).numpy()]
    remark = above_constant(issued.bound, labels) if issued.noun == "error" else None
    if remark is None:
        return issued
    warnings.warn(remark, CertificateWarning, stacklevel=3)
    return replace(issued, remarks=(remark,))


def kept_if_steady(model: Any, X: Any, y: Array, *, table: Array, x: Tensor) -> Certificate | None:
    """Return a classifier's certificate, or None with a warning if it answers otherwise by now.

    Args:
        model: fitted, with all that predicts.
        X, y: all examples as they came, and their labels.
        table, x: the same as numbers, and the features of a network that were made of them.
    """
    issued: Certificate | None = model.certificate_
    if issued is None:
        return None
    try:
        _ask_again(model, issued, X, y, table, x)
    except NoSampleError as error:
        warnings.warn(f"no certificate: {error}", CertificateWarning, stacklevel=3)
        return None
    return issued


def _ask_again(model: Any, issued: Certificate, X: Any, y: Array, table: Array, x: Tensor) -> None:
    """Raise NoSampleError if features, or the errors of one kept network, are not as counted."""
    step = model.preprocessing_
    if step is not None and not torch.equal(transformed(step, table), x):
        raise NoSampleError(
            f"the preprocessing {type(step).__name__} gave other features when asked again about "
            "the same examples; it must not change after it was fitted"
        )
    if issued.kind in (Predictor.FIXED, Predictor.DRAWN):
        bound = model.bound_set_
        best = model.top(_safe_indexing(X, bound))
        wrong = int((best != y[bound][:, None]).all(axis=1).sum())
        if wrong > round(issued.risk * issued.n):
            raise NoSampleError(
                f"predict errs on {wrong} examples of the bound set, but the certificate counts "
                f"{round(issued.risk * issued.n)}; what predicts must not change"
            )


def _check_origin(model: Any) -> None:
    """Raise FittedError if an earlier step was fitted to all examples; warn about searches."""
    if (step := fitted_before(model)) is not None:
        raise FittedError(f"{step} was fitted to all examples before this classifier saw them")
    refuse_hidden_callers(model)
    if model.priors == 1 and is_searched(model):
        warnings.warn(
            "a search tries several candidates on the same examples, but priors=1 pays for one; "
            "set priors to their number",
            CertificateWarning,
            stacklevel=4,
        )


def _certify(
    model: Any, x: Tensor, y: Tensor, sample: tuple[Tensor, Tensor], guess: float | None
) -> Certificate:
    """Certify the predictor that a classifier was asked for, or the better of two."""
    own: dict[str, Any] = {"delta": model.delta, "priors": model.priors, "repeats": model.repeats}
    own["sample"] = sample
    own["assumptions"] = _assumptions(model)
    if model.predictor_ not in ("vote", "randomised"):
        own["loss"] = model.loss
    if model.predictor == "fixed":
        return certify_fixed(model.network_, x, y, **own)
    if model.predictor == "best" and model.predictor_ == "fixed":
        return _named(certify_network(model.network_, x, y, guess=guess, **own)[0])
    if model.predictor_ == "drawn":
        return _named(certify_drawn(model.network_, x, y, **own)[0])
    # By Markov's inequality, first-order covers a vote of any number of fresh draws.
    bound = "first-order" if model.predictor_ == "vote" else "small-kl"
    if model.network_.body.freshness == "per-batch":
        own["monte_carlo"] = "stratified-bernstein"
    return certify(model.network_, x, y, bound=bound, samples=model.votes_, **own)


def _assumptions(model: Any) -> Assumptions:
    learned, preprocessing = model.network_.prior_seed is None, None
    if model.preprocessing_ is not None:
        fitted_to = "fitted to the prior's part alone" if learned else "not fitted to examples"
        preprocessing = f"{type(model.preprocessing_).__name__}, {fitted_to}"
    return Assumptions(
        repeats=model.repeats,
        split_seed=model._seed if learned else None,
        preprocessing=preprocessing,
        code=own_code(model._choice),
    )


def _named(certificate: Certificate) -> Certificate:
    """Name where a drawn network is kept."""
    if certificate.kind is not Predictor.DRAWN:
        return certificate
    return replace(certificate, predictor="one network drawn from Q and kept in weights_")
