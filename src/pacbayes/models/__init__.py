"""Certificates for predictors of any kind, from examples that they never saw."""
