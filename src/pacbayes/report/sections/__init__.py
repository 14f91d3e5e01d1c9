"""The sections of the page about a run, one module for each."""
