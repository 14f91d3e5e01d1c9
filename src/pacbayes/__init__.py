"""Stochastic neural networks trained on PAC-Bayes objectives, with certificates that hold.

Names are imported when first used, so that the command line does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pacbayes.bodies import Dense, Deterministic, Sampled
    from pacbayes.bounds import catoni, kl_inverse, mcallester, small_kl
    from pacbayes.certificate import Certificate, certify
    from pacbayes.enumeration import exact_aggregate
    from pacbayes.estimator import CertificateWarning, PACBayesClassifier
    from pacbayes.gaussian import Gaussian, kl
    from pacbayes.layers import GaussianConv2d, GaussianLinear
    from pacbayes.network import Network, build_network, dense_network
    from pacbayes.risk import empirical_risk, majority_vote, predict_randomised
    from pacbayes.settings import Settings
    from pacbayes.training import Trainer, train

__version__ = "0.1.0"

_HOMES = {
    "bodies": ("Dense", "Deterministic", "Sampled"),
    "bounds": ("catoni", "kl_inverse", "mcallester", "small_kl"),
    "certificate": ("Certificate", "certify"),
    "enumeration": ("exact_aggregate",),
    "estimator": ("CertificateWarning", "PACBayesClassifier"),
    "gaussian": ("Gaussian", "kl"),
    "layers": ("GaussianConv2d", "GaussianLinear"),
    "network": ("Network", "build_network", "dense_network"),
    "risk": ("empirical_risk", "majority_vote", "predict_randomised"),
    "settings": ("Settings",),
    "training": ("Trainer", "train"),
}
__all__ = [
    "Certificate",
    "CertificateWarning",
    "Dense",
    "Deterministic",
    "Gaussian",
    "GaussianConv2d",
    "GaussianLinear",
    "Network",
    "PACBayesClassifier",
    "Sampled",
    "Settings",
    "Trainer",
    "build_network",
    "catoni",
    "certify",
    "dense_network",
    "empirical_risk",
    "exact_aggregate",
    "kl",
    "kl_inverse",
    "majority_vote",
    "mcallester",
    "predict_randomised",
    "small_kl",
    "train",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"pacbayes.{module}"), name)
    raise AttributeError(f"module 'pacbayes' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
