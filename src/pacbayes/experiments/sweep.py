"""Which runs a table needs: the grid first, then the repeats of its winners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from pacbayes.experiments.columns import ADDED, Configuration, chosen, grid
from pacbayes.experiments.store import Store
from pacbayes.files import load_record, save_json
from pacbayes.training.loop import VACUOUS

__all__ = ["Grid", "Sweep"]

Grid = Literal["chosen", "paper"]
_REMEMBERED = "sweep.json"


@dataclass(frozen=True)
class Sweep:
    """What was asked for: columns, how their hyper-parameters are found, how many repeats."""

    columns: Sequence[str]
    dataset: str = "binary-mnist"
    epochs: int | None = None
    repeats: int = 10
    search: Grid = "chosen"

    def remember(self, store: Store) -> None:
        """Leave what was asked for, so that `status` needs the store's folder alone."""
        store.folder.mkdir(parents=True, exist_ok=True)
        save_json(store.folder / _REMEMBERED, asdict(self))

    def or_last(self, store: Store) -> Sweep:
        """What was asked for last; of a store that does not say, this."""
        if not store.folder.is_dir():
            raise ValueError(f"no store of runs at {store.folder}; make one by reproduce table1")
        path = store.folder / _REMEMBERED
        return load_record(Sweep, path) if path.exists() else self

    def searched(self) -> list[Configuration]:
        """Every point of the grid, none where the paper's choice is taken."""
        if self.search == "chosen":
            return []
        return [c for column in self.columns for c in grid(column, self.dataset, self.epochs)]

    def winner(self, column: str, store: Store) -> Configuration | None:
        """The best point of a column's grid; None while a point is missing that did not diverge.

        By bound where one is not vacuous, else by training loss, among the runs that learned.
        """
        if self.search == "chosen" or column in ADDED:
            return chosen(column, self.dataset, self.epochs)
        points = list(grid(column, self.dataset, self.epochs))
        missing = [c for c in points if store.state(c) != "done"]
        if not all(store.diverged(c) for c in missing):
            return None
        found = [(c, s) for c in points if (s := store.summary(c)) is not None]
        found = [(c, s) for c, s in found if s.learned] or found
        if not found:
            return None
        bounds = [s.bound for _, s in found if s.bound is not None]
        by = "bound" if bounds and min(bounds) < VACUOUS else "train_linear"
        return min(found, key=lambda pair: getattr(pair[1], by))[0]

    def repeated(self, store: Store) -> list[Configuration]:
        """The repeats of the winners that are known by now; repeats count from 1.

        One that never learned or diverged, however often it was reset, is followed by another, so
        that as many as were asked for may learn; twice as many are made at most.
        """
        winners = [self.winner(column, store) for column in self.columns]
        wanted, found = dict.fromkeys(self.columns, self.repeats), []
        for r in range(2 * self.repeats):
            for w in winners:
                if w is not None and wanted[w.column]:
                    found.append(replace(w, repeat=r + 1))
                    summary = store.summary(found[-1])
                    lost = store.diverged(found[-1]) if summary is None else not summary.learned
                    wanted[w.column] -= not lost
        return found

    def shown(self, store: Store) -> dict[str, Configuration]:
        """Of every column the first repeat that learned: its course is what is drawn."""
        found: dict[str, Configuration] = {}
        for c in self.repeated(store):
            if (summary := store.summary(c)) is not None and summary.learned:
                found.setdefault(c.column, c)
        return found
