"""Find out which sweeps the runs in a store belong to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pacbayes.paper.columns import COLUMNS, Configuration
from pacbayes.paper.store import Store
from pacbayes.paper.sweep import Sweep
from pacbayes.paper.tables import Line, lines
from pacbayes.training.loop import Evaluation

__all__ = ["StoredSweep", "find_sweeps"]


@dataclass(frozen=True)
class StoredSweep:
    """The runs of a store that share a data set and a number of epochs.

    Attributes:
        lines: the rows of the paper's tables.
        histories: for each column, the evaluations of the first repeat that learned.
    """

    sweep: Sweep
    lines: tuple[Line, ...]
    histories: dict[str, tuple[Evaluation, ...]]

    @property
    def name(self) -> str:
        """The data set, and the epochs if they are not the paper's."""
        epochs = self.sweep.epochs
        return self.sweep.dataset + ("" if epochs is None else f", {epochs} epochs")


def find_sweeps(store: Store) -> list[StoredSweep]:
    """Return the sweeps whose runs are in a store."""
    groups: dict[tuple[str, int | None], list[Configuration]] = {}
    for c in store.configurations():
        groups.setdefault((c.dataset, c.epochs), []).append(c)
    sweeps = [_sweep(group, store) for _, group in sorted(groups.items(), key=str)]
    return [StoredSweep(s, tuple(lines(s, store)), s.histories(store)) for s in sweeps]


def _sweep(group: Sequence[Configuration], store: Store) -> Sweep:
    """Return the sweep of configurations of one data set: the one that shows the most repeats."""
    present = {c.column for c in group}
    columns = [name for name in COLUMNS if name in present]
    chosen = Sweep(columns, group[0].dataset, group[0].epochs, _repeats(group, store))
    searched = replace(chosen, search="paper")
    return max(chosen, searched, key=lambda s: sum(c in group for c in s.repeated(store)))


def _repeats(group: Sequence[Configuration], store: Store) -> int:
    """Return the number of repeats asked for; repeats that never learned were replaced."""
    learned = Counter(c.column for c in group if c.repeat and _learned(c, store))
    return max(learned.values(), default=1)


def _learned(c: Configuration, store: Store) -> bool:
    summary = store.summary(c)
    return summary is None or summary.learned
