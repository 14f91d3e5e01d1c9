"""The native engine: the C sources in `c/`, their loader, and the networks it can train."""
