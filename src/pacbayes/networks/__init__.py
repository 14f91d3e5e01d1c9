"""Stochastic networks: Gaussian layers, sampling rules, heads, risk."""
