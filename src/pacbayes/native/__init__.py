"""The engine in C, and what calls it from Python."""
