"""A scikit-learn classifier that comes with a certificate."""

from pacbayes.certificates.explanation import CertificateWarning
from pacbayes.sklearn.classifier import PACBayesClassifier

__all__ = ["CertificateWarning", "PACBayesClassifier"]
