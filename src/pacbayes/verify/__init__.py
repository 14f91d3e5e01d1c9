"""Check a certificate without trusting its issuer.

Everything the bound rests on is computed again from the files beside the certificate, in
outward-rounded interval arithmetic (Arb): hashes, the δ ledger, n, a data-free prior, the KL, the
Monte-Carlo term and the bound of a network; the split, the losses of all recorded predictions and
the bounds of a classifier. The package uses no PyTorch, and nothing of the library except loaders
and checks of data. The sampled risk is taken as claimed unless `full` makes the same draws again,
and predictions are taken as recorded unless `full` makes them again. What runs the issuer's code
for that is passed in by the caller. What no file can show, such as independent examples, is listed
as the issuer's word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from flint import ctx

from pacbayes.verify.classifiers import check_classifier
from pacbayes.verify.findings import Finding
from pacbayes.verify.kernels import check_kernel
from pacbayes.verify.networks import check_network
from pacbayes.verify.records import kind_of
from pacbayes.verify.redraw import Body, Weights

__all__ = ["Finding", "certificates_in", "verify"]

_BITS = 128  # precision of the interval arithmetic
Replay = Callable[[Path, Path | None], Iterator[Finding]]  # of a certificate and its data


def certificates_in(path: Path) -> list[Path]:
    """Return the paths of all certificates in a run folder, or the path itself if it is a file."""
    if not path.is_dir():
        return [path]
    return sorted(path.glob("certificate*.json")) or [path / "certificate.json"]


def verify(
    path: Path,
    *,
    full: bool = False,
    data: Path | None = None,
    prior: Weights | None = None,
    body: Body | None = None,
    replay: Replay | None = None,
) -> Iterator[Finding]:
    """Check a certificate against the folder it lies in, or all certificates in a folder.

    Raises ValueError if files are missing, damaged or malformed.

    Args:
        full: make the draws of the risk again, or the predictions, and derive the bound from them.
        data: where the run's own data file is now, if it has moved.
        prior: a prior to derive the bound with instead of the run's, for example learned again.
        body: activations of a network that is not dense, at given weights; needed for `full`.
        replay: compare the predictions of a classifier's models with those recorded; needed for
            `full`, and called only if all other checks hold.
    """
    ctx.prec = _BITS
    if path.is_dir():
        for file in certificates_in(path):
            yield from verify(file, full=full, data=data, prior=prior, body=body, replay=replay)
    elif (kind := kind_of(path.parent)) == "kernel":
        yield from check_kernel(path, full=full, data=data)
    elif kind != "classifier":
        yield from check_network(path, full, data, prior, body)
    elif full and replay is None:
        raise ValueError("the models must run to make their predictions again")
    elif data is not None and not full:
        raise ValueError("--data has no effect without --full, which predicts the data again")
    else:
        holds = True
        for finding in check_classifier(path, full=full):
            yield finding
            holds = holds and finding.holds
        if replay is not None and full and holds:
            yield from replay(path, data)
