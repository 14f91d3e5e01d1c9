"""Families of posteriors: what Q is beside a fixed P, one file each."""
