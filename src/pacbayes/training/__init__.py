"""Training: the loop, objectives, and priors learned from data."""
