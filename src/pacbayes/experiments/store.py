"""A folder of runs that may be filled by many processes and machines at once.

runs/<key>/configuration.json  column, hyper-parameters and repeat
runs/<key>/lease               who is making the run, touched every few seconds
runs/<key>/run.json, …         an ordinary run folder (`pacbayes.runs.folder`)
runs/<key>/resets.json         attempts that were given up
runs/<key>/summary.json        its results: the run is done
runs/<key>/error.txt           why it failed, if it did
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pacbayes.experiments.columns import Configuration
from pacbayes.files import load_record, remove_parts, save_json, write_atomically
from pacbayes.runs.clock import SYSTEM, Clock
from pacbayes.runs.lease import Lease, names_in
from pacbayes.runs.writing import writer
from pacbayes.training.loop import VACUOUS

__all__ = ["State", "Store", "Summary"]

State = Literal["done", "running", "failed", "waiting"]


@dataclass(frozen=True)
class Summary:
    """A run's best epoch, by bound, or by training loss where the bound is vacuous.

    Attributes:
        learned: False if the run ended early because it had not learned.
        train_linear, bound, kl: those of the best evaluation; the bound in the paper's way.
        test_zero_one: error of the randomised classifier, with new weights for every test example;
            for mlp and pbg, of the sign of their output.
        vote_zero_one: error of the majority vote of a hundred draws; repeats only.
        small_kl: the small-kl bound at the same risk and KL, without a Monte-Carlo term.
        certificate: the bound of certificate.json, Monte-Carlo term included; repeats only. Both
            pay for the priors of resets.
        attempts: number of starts until the run learned.
    """

    learned: bool
    epoch: int
    train_linear: float
    bound: float | None
    kl: float | None
    test_zero_one: float
    vote_zero_one: float | None
    small_kl: float | None
    certificate: float | None
    seconds: float
    attempts: int
    versions: dict[str, str]

    @property
    def guide(self) -> tuple[bool, float, float]:
        """The key by which runs rank: those that learned first, then the bound, then the loss.

        A bound that is missing or prints as 100 % counts as 1.
        """
        bound = 1.0 if self.bound is None else self.bound
        return not self.learned, (bound if bound < VACUOUS else 1.0), self.train_linear


@dataclass(frozen=True)
class Store:
    """Runs by configuration; every method is safe while others work on the same folder.

    Attributes:
        patience: seconds after which an untouched lease is free again.
        clock: the time by which it is.
    """

    folder: Path
    patience: float = 60.0
    clock: Clock = SYSTEM

    def place(self, configuration: Configuration) -> Path:
        """Return the folder of a run."""
        return self.folder / "runs" / configuration.key

    def summary(self, configuration: Configuration) -> Summary | None:
        """Return a finished run's results."""
        path = self.place(configuration) / "summary.json"
        return load_record(Summary, path) if path.exists() else None

    def summaries(
        self, configurations: Iterable[Configuration]
    ) -> list[tuple[Configuration, Summary]]:
        """Return those of the runs that are finished, with their results."""
        pairs = ((c, self.summary(c)) for c in configurations)
        return [(c, summary) for c, summary in pairs if summary is not None]

    def state(self, configuration: Configuration) -> State:
        """Return how far a run is."""
        place = self.place(configuration)
        there = set(names_in(place))  # one call of the file system: many workers ask often
        if "summary.json" in there:
            return "done"
        leases = (self._lease(configuration), self._writer(configuration))
        if any(lease.alive_among(there) for lease in leases):
            return "running"
        return "failed" if "error.txt" in there else "waiting"

    def failure(self, configuration: Configuration) -> str | None:
        """Return why a run failed; None if it did not."""
        try:
            return (self.place(configuration) / "error.txt").read_text().strip()
        except FileNotFoundError:
            return None

    def diverged(self, configuration: Configuration) -> bool:
        """Return whether training diverged, which another try would not change."""
        return "FloatingPointError" in (self.failure(configuration) or "")

    def settled(self, configuration: Configuration) -> bool:
        """Return whether the run has a result; to have diverged is a result."""
        return self.summary(configuration) is not None or self.diverged(configuration)

    def lost(self, configuration: Configuration) -> bool:
        """Return whether the run diverged or never learned."""
        summary = self.summary(configuration)
        return self.diverged(configuration) if summary is None else not summary.learned

    def finish(self, configuration: Configuration, summary: Summary) -> None:
        """Save the results of a run, which is then done."""
        save_json(self.place(configuration) / "summary.json", asdict(summary))
        (self.place(configuration) / "error.txt").unlink(missing_ok=True)

    def fail(self, configuration: Configuration, reason: str) -> None:
        """Save why a run failed; it may be tried again."""
        write_atomically(self.place(configuration) / "error.txt", f"{reason}\n".encode())

    @contextmanager
    def lease(self, configuration: Configuration) -> Iterator[bool]:
        """Yield whether the run is ours to make; while it is, others see the lease.

        It is not while somebody writes to the folder: the writer's lease of a process that was
        killed can become stale some seconds after that of the run.
        """
        place = self.place(configuration)
        place.mkdir(parents=True, exist_ok=True)
        with self._lease(configuration).held() as taken:
            ours = taken and not self._writer(configuration).alive
            if ours:
                remove_parts(place)
            if ours and not (place / "configuration.json").exists():
                save_json(place / "configuration.json", asdict(configuration))
            yield ours

    def _lease(self, configuration: Configuration) -> Lease:
        return Lease(self.place(configuration) / "lease", self.patience, self.clock)

    def _writer(self, configuration: Configuration) -> Lease:
        return writer(self.place(configuration), self.clock)
