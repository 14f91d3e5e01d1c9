"""A folder of runs that may be filled by many processes and machines at once.

runs/<key>/configuration.json  column, hyper-parameters and repeat
runs/<key>/lease               who is making the run, touched every few seconds
runs/<key>/run.json, …         an ordinary run folder (`pacbayes.runs.folder`)
runs/<key>/resets.json         attempts that were given up
runs/<key>/summary.json        its results: the run is done
runs/<key>/error.txt           why it failed, if it did
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pacbayes.experiments.columns import Configuration
from pacbayes.files import load_record, save_json, write_atomically

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


@dataclass(frozen=True)
class Store:
    """Runs by configuration; every method is safe while others work on the same folder.

    Attributes:
        patience: seconds after which an untouched lease is free again.
    """

    folder: Path
    patience: float = 60.0

    def place(self, configuration: Configuration) -> Path:
        return self.folder / "runs" / configuration.key

    def summary(self, configuration: Configuration) -> Summary | None:
        """Return a finished run's results."""
        path = self.place(configuration) / "summary.json"
        return load_record(Summary, path) if path.exists() else None

    def state(self, configuration: Configuration) -> State:
        place = self.place(configuration)
        if (place / "summary.json").exists():
            return "done"
        if self._alive(place / "lease"):
            return "running"
        return "failed" if (place / "error.txt").exists() else "waiting"

    def failure(self, configuration: Configuration) -> str | None:
        try:
            return (self.place(configuration) / "error.txt").read_text().strip()
        except FileNotFoundError:
            return None

    def diverged(self, configuration: Configuration) -> bool:
        """Return whether training diverged, which another try would not change."""
        return "FloatingPointError" in (self.failure(configuration) or "")

    def finish(self, configuration: Configuration, summary: Summary) -> None:
        save_json(self.place(configuration) / "summary.json", asdict(summary))
        (self.place(configuration) / "error.txt").unlink(missing_ok=True)

    def fail(self, configuration: Configuration, reason: str) -> None:
        write_atomically(self.place(configuration) / "error.txt", f"{reason}\n".encode())

    @contextmanager
    def lease(self, configuration: Configuration) -> Iterator[bool]:
        """Yield whether the run is ours to make; while it is, others see the lease."""
        place = self.place(configuration)
        place.mkdir(parents=True, exist_ok=True)
        path = place / "lease"
        token = self._take(path)
        if token is None:
            yield False
            return
        if not (place / "configuration.json").exists():
            save_json(place / "configuration.json", asdict(configuration))
        done = threading.Event()
        beat = threading.Thread(target=self._beat, args=(path, token, done), daemon=True)
        beat.start()
        try:
            yield True
        finally:
            done.set()
            beat.join()
            if _token(path) == token:
                path.unlink(missing_ok=True)

    def _take(self, path: Path) -> str | None:
        """Create the lease and return its token; move a stale one away first."""
        seen = _token(path)
        if path.exists() and not self._alive(path):
            aside = path.with_name(f"lease.{uuid.uuid4()}")
            try:
                path.rename(aside)
                if _token(aside) != seen:  # somebody else was quicker
                    os.link(aside, path)
                    return None
            except (FileNotFoundError, FileExistsError):
                return None
            finally:
                aside.unlink(missing_ok=True)
        token = f"{socket.gethostname()} {os.getpid()} {uuid.uuid4()}"
        own = path.with_name(f"lease.{uuid.uuid4()}")
        own.write_text(token)
        try:
            os.link(own, path)  # appears with its token at once, or not at all
        except FileExistsError:
            return None
        finally:
            own.unlink(missing_ok=True)
        return token

    def _alive(self, path: Path) -> bool:
        """Return whether a lease is fresh, by clocks that must agree within `patience`."""
        try:
            return abs(time.time() - path.stat().st_mtime) < self.patience
        except OSError:
            return False

    def _beat(self, path: Path, token: str, done: threading.Event) -> None:
        while not done.wait(self.patience / 6):
            if _token(path) == token:
                with suppress(OSError):
                    os.utime(path)


def _token(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
