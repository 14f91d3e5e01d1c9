"""What a folder holds, by its run.json."""

from __future__ import annotations

import json
from pathlib import Path

from pacbayes.files import recover

__all__ = ["CLASSIFIER", "NETWORK", "kind_of"]

NETWORK, CLASSIFIER = "network", "classifier"


def kind_of(folder: Path) -> str:
    """Return the kind of a run folder; run folders of networks do not name theirs."""
    path = folder / "run.json"
    if not folder.exists():
        recover(folder)
    if not path.is_file():
        raise ValueError(f"{folder} is not a run folder: it has no run.json")
    try:
        record = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}; restore it from a copy") from error
    kind = record.get("kind", NETWORK) if isinstance(record, dict) else NETWORK
    if kind not in (NETWORK, CLASSIFIER):
        raise ValueError(f"{path}: kind {kind!r} is unknown; it may need a newer pacbayes")
    return str(kind)
