"""Features and kernels that are formulas of one example each, so that no prior pays for them."""
