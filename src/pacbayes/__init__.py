"""Stochastic neural networks trained on PAC-Bayes objectives, with certificates that hold.

Names are imported when first used, so that the command line does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pacbayes.moved import keep_old_names

if TYPE_CHECKING:
    from pacbayes.bounds import catoni, kl_inverse, mcallester, small_kl
    from pacbayes.certificates.certificate import Certificate
    from pacbayes.certificates.certify import certify
    from pacbayes.certificates.kernel import certify_kernel
    from pacbayes.folders.opening import load
    from pacbayes.models.classifier import CertifiedClassifier
    from pacbayes.models.predictor import certify_predictor
    from pacbayes.networks.architecture import build_network, dense_network
    from pacbayes.networks.bodies import Dense, Deterministic, Sampled
    from pacbayes.networks.families.diagonal import Gaussian, GaussianConv2d, GaussianLinear
    from pacbayes.networks.frozen import frozen_features, frozen_sha256
    from pacbayes.networks.kernel import KernelNetwork, KernelPrior
    from pacbayes.networks.network import Network, exact_aggregate
    from pacbayes.networks.posterior import kl
    from pacbayes.networks.risk import empirical_risk, majority_vote, predict_randomised
    from pacbayes.networks.stochastic import fold_batch_norm, stochastic
    from pacbayes.settings import Settings
    from pacbayes.sklearn import CertificateWarning, PACBayesClassifier
    from pacbayes.training.kernel import KernelSettings, train_kernel
    from pacbayes.training.priors import learn_prior
    from pacbayes.training.trainer import Trainer, train

__version__ = "1.0.0"

_HOMES = {
    "bounds": ("catoni", "kl_inverse", "mcallester", "small_kl"),
    "certificates.certificate": ("Certificate",),
    "certificates.certify": ("certify",),
    "certificates.kernel": ("certify_kernel",),
    "models.classifier": ("CertifiedClassifier",),
    "folders.opening": ("load",),
    "models.predictor": ("certify_predictor",),
    "networks.bodies": ("Dense", "Deterministic", "Sampled"),
    "networks.frozen": ("frozen_features", "frozen_sha256"),
    "networks.families.diagonal": ("Gaussian", "GaussianConv2d", "GaussianLinear"),
    "networks.posterior": ("kl",),
    "networks.kernel": ("KernelNetwork", "KernelPrior"),
    "networks.architecture": ("build_network", "dense_network"),
    "networks.network": ("Network", "exact_aggregate"),
    "networks.risk": ("empirical_risk", "majority_vote", "predict_randomised"),
    "networks.stochastic": ("fold_batch_norm", "stochastic"),
    "settings": ("Settings",),
    "sklearn": ("CertificateWarning", "PACBayesClassifier"),
    "training.kernel": ("KernelSettings", "train_kernel"),
    "training.priors": ("learn_prior",),
    "training.trainer": ("Trainer", "train"),
}
__all__ = [
    "Certificate",
    "CertificateWarning",
    "CertifiedClassifier",
    "Dense",
    "Deterministic",
    "Gaussian",
    "GaussianConv2d",
    "GaussianLinear",
    "KernelNetwork",
    "KernelPrior",
    "KernelSettings",
    "Network",
    "PACBayesClassifier",
    "Sampled",
    "Settings",
    "Trainer",
    "build_network",
    "catoni",
    "certify",
    "certify_kernel",
    "certify_predictor",
    "dense_network",
    "empirical_risk",
    "exact_aggregate",
    "fold_batch_norm",
    "frozen_features",
    "frozen_sha256",
    "kl",
    "kl_inverse",
    "learn_prior",
    "load",
    "majority_vote",
    "mcallester",
    "predict_randomised",
    "small_kl",
    "stochastic",
    "train",
    "train_kernel",
]

keep_old_names()


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"pacbayes.{module}"), name)
    raise AttributeError(f"module 'pacbayes' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
