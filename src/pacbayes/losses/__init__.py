"""Bounded losses, and what they are averaged over."""
