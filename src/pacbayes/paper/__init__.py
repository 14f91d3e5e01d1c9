"""The paper's experiments: columns and grids, a store of runs, executors, tables and figures."""
