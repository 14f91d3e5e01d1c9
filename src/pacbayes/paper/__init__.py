"""The paper's experiments: columns and baselines, sweeps, the store of runs, tables and figures."""
