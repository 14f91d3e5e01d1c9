"""The paper's baselines with models of their own: an unregularised network, and PBGNet."""
