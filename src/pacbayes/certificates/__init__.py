"""Certificates: the record, how one is issued, and how it is explained."""
