"""A run's predictors as files for those who do not have this library."""

from pacbayes.export.files import Export, export_run

__all__ = ["Export", "export_run"]
