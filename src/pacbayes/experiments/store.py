"""A folder of runs that may be filled by many processes and machines at once.

runs/<key>/configuration.json  what the run is
runs/<key>/lease               who is at it, touched every few seconds
runs/<key>/checkpoint…         where it stands
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
    """A run's best epoch, by bound where it is not vacuous and by training loss otherwise.

    Attributes:
        learned: False where the run was ended early because it had not learned.
        train_linear, bound, kl: of the best evaluation; the bound in the paper's way.
        test_zero_one: of the randomised classifier, new weights for every test example; of mlp and
            pbg of their sign.
        vote_zero_one: of the majority vote of a hundred draws; of repeats only.
        small_kl: the small-kl bound of the same risk and KL, without a Monte-Carlo term.
        certificate: with one, at δ in total, of repeats only; both pay for the priors of resets.
        attempts: starts until the run learned.
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
    """Runs by configuration; every method is safe against others working on the same folder.

    Attributes:
        patience: seconds after which a lease that nobody touched is anybody's.
    """

    folder: Path
    patience: float = 60.0

    def place(self, configuration: Configuration) -> Path:
        return self.folder / "runs" / configuration.key

    def summary(self, configuration: Configuration) -> Summary | None:
        """A finished run's results."""
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
        """Whether its training came to no finite number, which another try would not change."""
        return "FloatingPointError" in (self.failure(configuration) or "")

    def finish(self, configuration: Configuration, summary: Summary) -> None:
        save_json(self.place(configuration) / "summary.json", asdict(summary))
        (self.place(configuration) / "error.txt").unlink(missing_ok=True)

    def fail(self, configuration: Configuration, reason: str) -> None:
        write_atomically(self.place(configuration) / "error.txt", f"{reason}\n".encode())

    @contextmanager
    def lease(self, configuration: Configuration) -> Iterator[bool]:
        """Whether the run is ours to make; while it is, others are told so."""
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
        """Create the lease and return its token; a stale one is first moved away."""
        seen = _token(path)
        if path.exists() and not self._alive(path):
            aside = path.with_name(f"lease.{uuid.uuid4()}")
            try:
                path.rename(aside)
                if _token(aside) != seen:  # somebody was quicker, and this is his
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
            os.link(own, path)  # there with its token at once, or not at all
        except FileExistsError:
            return None
        finally:
            own.unlink(missing_ok=True)
        return token

    def _alive(self, path: Path) -> bool:
        """By the clocks of this machine and of the file's, which must agree within patience."""
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
