"""A run's predictors as files that run without this library."""

from pacbayes.export.files import Export, export_run

__all__ = ["Export", "export_run"]
