"""Classifiers in folders: saved and loaded as plain data, and checked without running them."""
