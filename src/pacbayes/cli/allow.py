"""Allow the code of a run that somebody else made."""

from __future__ import annotations

from pacbayes.cli.options import RunFolder

__all__ = ["allow"]


def allow(run: RunFolder) -> None:
    """Allow a run's own code to run on this machine.

    Read it first: it is in the run folder.
    A run made with --network FILE.py:FUNCTION has a copy of the file, network.py. Training allows
    the file that you name; the code in a folder from somebody else does not run until you allow it.

    pacbayes allow runs/theirs

    pacbayes allow downloads/residual
    """
    from pacbayes import folders
    from pacbayes.folders.code import FILE

    path = run / FILE
    if not path.is_file():
        raise ValueError(f"{run} has no {FILE}: its network needs no code of its own")
    print(f"Allowed {path}, SHA-256 {folders.allow(path)}")
