"""What a page shows about a network, read from its run folder or computed once."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from pacbayes.bounds import percent_up
from pacbayes.certificates.certificate import Certificate, read_certificate
from pacbayes.certificates.explanation import (
    Beside,
    beside,
    largest_class,
    paper_result,
    percent,
    remarked,
    steps,
)
from pacbayes.choices import Predictor
from pacbayes.data import Dataset
from pacbayes.data.encoding import BooleanCode, CategoryCode, Encoding, NumberCode
from pacbayes.folders.code import FILE
from pacbayes.folders.folder import Run
from pacbayes.folders.prediction import TestErrors
from pacbayes.folders.record import RunRecord
from pacbayes.networks.gaussian import gaussians, kl_by_part
from pacbayes.networks.modules import OwnModule
from pacbayes.networks.network import Network
from pacbayes.networks.weights import log_ratios
from pacbayes.report.charts import Mark
from pacbayes.report.commands import certify_command, train_command
from pacbayes.report.contents import Commands, Contents, Shown, Table, Unit, portable
from pacbayes.report.training import layer_movements
from pacbayes.report.voting import answers_of
from pacbayes.training.checkpoints import read_history
from pacbayes.verify import Finding, verify

__all__ = ["collect"]

_HASHES = {"posterior_sha256": "posterior", "drawn_sha256": "drawn network"}  # of a certificate
Row = tuple[str, ...]
_FITTED = (
    "The constants were fitted to the prior's part alone and are stored in features.json; verify "
    "fits them again."
)
_SHOWN = 12  # categories of a column


class _Checked(NamedTuple):
    """A certificate in the folder and the checks of `verify`."""

    file: str
    certificate: Certificate
    findings: tuple[Finding, ...]


def collect(run: Run, file: Path | None = None, test: Path | None = None) -> Contents:
    """Collect the contents of the page about a trained run, without writing anything.

    Whatever can be derived is derived, not read: a file may have been changed.

    Args:
        file, test: where the run's own data are now, if they have moved.
    """
    network, record = run.load_network(), run.record
    # `verify` reads the data itself, so they are loaded after it: never twice at a time.
    there = [path for p in Predictor if (path := run.certificate_path(p)).exists()]
    checked = [_checked(run, network, path, file) for path in there]
    of_classes = [_checked(run, network, p, file) for k in Predictor for p in run.class_paths(k)]
    checked.sort(key=lambda c: c.certificate.bound)  # `predict` answers with the lowest
    data = run.load_data(file, test)
    covered = checked[0].certificate.kind if checked else None
    answers, errors = answers_of(run, network, data, covered)
    guess = _guess(data)
    return Contents(
        title=f"{Path(record.data.source.name).name}, {_units(record)}",
        lead=_lead(run),
        certificates=tuple(_shown(run, c, data, errors, guess) for c in checked),
        claims=tuple(_claims(of_classes)),
        uncertified=_uncertified(run),
        commands=tuple(_commands(run, checked)),
        facts=tuple(_facts(record, checked)),
        settings=tuple(_settings(record)),
        training=(read_history(run.folder / "history.json"), run.best),
        movements=layer_movements(network, record.layer_names),
        columns=None if data.encoding is None else _encoded(data.encoding),
        answers=answers,
    )


def _units(record: RunRecord) -> str:
    return record.title.rpartition(" ")[2] if record.network is None else record.title


def _lead(run: Run) -> str:
    """Summarise the run in a line or two."""
    s, data = run.record.settings, run.record.data
    parts = [
        f"network {run.record.title}",
        f"objective {s.objective}",
        f"{'learned' if s.learned_scale else 'fixed'} standard deviations",
    ]
    if s.prior_fraction:
        share = f"{100 * s.prior_fraction:.2f}".rstrip("0").rstrip(".")
        parts.append(f"prior learned from {share} % of the data")
    parts += [f"{s.protocol} protocol", f"{s.epochs} epochs", f"n = {data.n} examples"]
    return f"{portable(run.folder)}: {'; '.join(parts)}."


def _checked(run: Run, network: Network, path: Path, file: Path | None) -> _Checked:
    findings = tuple(verify(path, data=file))  # raises an error if the file is malformed
    claimed = read_certificate(path)
    parts = _parts(run, network, claimed.kind)
    return _Checked(path.name, replace(claimed, kl_by_part=parts), findings)


def _parts(run: Run, network: Network, predictor: Predictor) -> dict[str, float]:
    """Return the KL of every Gaussian, or ln(dQ/dP) of a drawn network; a fixed one has none."""
    if predictor is Predictor.FIXED:
        return {}
    if predictor is Predictor.DRAWN:
        ratios = log_ratios(network, run.load_drawn())
        return {name: ratios[name] for name in gaussians(network)}  # in the order of the layers
    return kl_by_part(network)


def _shown(
    run: Run, checked: _Checked, data: Dataset, errors: TestErrors | None, guess: Beside
) -> Shown:
    """Make the view of a certificate: the one place that reads this kind of record."""
    c, record = checked.certificate, run.record
    measured = any(finding.measures_risk for finding in checked.findings)
    found = steps(c, record.layer_names)
    return Shown(
        key=c.kind.value,
        file=checked.file,
        title=c.kind.title,
        certificate=remarked(c, data.y_train, data.groups, data.classes),
        # nothing is sampled where errors are counted or the risk is exact
        steps=tuple(s for s in found if s.kind != "monte-carlo" or c.draws or s.points),
        beside=(*beside(c, errors, record), guess),
        findings=checked.findings,
        marks=tuple(_marks(c, errors, record)),
        paper=None if paper_result(record) is None else f"paper, {_column(record)}",
        unchecked="" if measured else "the training risk was not recomputed",
    )


def _guess(data: Dataset) -> Beside:
    """Return the yardstick: the error of a classifier that has learned nothing."""
    label, error = largest_class(data.y_train, data.groups)
    name = data.classes[label]
    return Beside(f"error of always answering '{name}', the largest class", percent(error))


def _marks(c: Certificate, errors: TestErrors | None, record: RunRecord) -> Iterator[Mark]:
    if (held_out := c.held_out) is not None and c.kind is not Predictor.FIXED:
        yield Unit().mark("held-out bound", held_out, percent_up(held_out))
    theirs = paper_result(record) if c.kind is Predictor.RANDOMISED else None
    others = {
        f"paper, {_column(record)}": None if theirs is None else theirs.bound,
        "test error": getattr(errors, c.kind.value, None),
    }
    for name, value in others.items():
        if value is not None:
            yield Unit().mark(name, value, percent(value))


def _column(record: RunRecord) -> str:
    """Return the name of the run's column in the paper's table."""
    return f"{record.settings.objective} {record.settings.activation}"


def _claims(checked: list[_Checked]) -> Iterator[Table]:
    """Yield the errors that are certified on each class, predictor by predictor."""
    for kind, group in groupby(checked, key=lambda i: i.certificate.kind):
        found = list(group)
        note = ". The examples of each class are counted alone, and the classes share δ."
        claims = [(c, findings) for _, c, findings in found]
        yield Table.of_claims(f"{kind.title}, class by class", claims, note)


def _uncertified(run: Run) -> Commands:
    return Commands(
        "This run is trained but not certified: nothing is guaranteed about its error yet. "
        "The bound shown during training is only a guide; it leaves out the Monte-Carlo error.",
        (f"pacbayes certify {shlex.quote(str(portable(run.folder)))}",),
        "Issue a certificate with:",
    )


def _commands(run: Run, checked: list[_Checked]) -> Iterator[Commands]:
    folder = shlex.quote(str(portable(run.folder)))
    issued = [certify_command(c.certificate, run.record, run.folder) for c in checked]
    again = issued or [f"pacbayes certify {folder}"]
    yield Commands("Reproduce", (train_command(run.record, run.folder), *again), _code(run.record))
    if checked:
        lines = (f"pacbayes verify {folder}", f"pacbayes verify {folder} --full")
        note = "Without --full, the training risk is not recomputed."
        yield Commands("Verify", lines, note)


def _facts(record: RunRecord, checked: list[_Checked]) -> Iterator[Table]:
    """Yield ledgers, hashes and versions."""
    versions = {"training": record.versions}
    for file, c, _ in checked:
        yield Table.of_ledger(file, c.ledger, c.delta)
        versions[file] = c.provenance.get("versions", {})
    yield Table.of_hashes(dict(_hashes(record, checked)))
    yield Table.of_versions(versions)


def _code(record: RunRecord) -> str:
    """Say where the code of a module of the user's own is."""
    if record.network is None or not isinstance(record.network.architecture, OwnModule):
        return ""
    file = Path(record.network.architecture.file).name
    return f"{file} is the file {FILE} in the folder. Read it before it runs."


def _hashes(record: RunRecord, checked: list[_Checked]) -> Iterator[tuple[str, str]]:
    data = record.data
    yield from (("training data", data.train_sha256), ("prior", record.prior_sha256))
    if record.network is not None and isinstance(record.network.architecture, OwnModule):
        yield f"code, {FILE}", record.network.architecture.sha256
    for name, value in (("split", data.split_sha256), ("features", data.features_sha256)):
        if value is not None:
            yield name, value
    for _, c, _ in checked:
        for key, name in _HASHES.items():
            if key in c.provenance:
                yield name, str(c.provenance[key])


def _settings(record: RunRecord) -> Iterator[tuple[str, str]]:
    for name, value in record.settings.model_dump(mode="json").items():
        yield name, _text(value)
    data = record.data
    yield "network", record.title
    yield "data", Path(data.source.name).name
    yield "examples in the bound set", f"{data.n}"
    yield "features", f"{data.features}"
    yield "classes", ", ".join(data.classes)


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "–" if value is None else str(value)


def _encoded(encoding: Encoding) -> Table:
    """Return how the columns of a table became features."""
    return Table(
        caption=f"{len(encoding.columns)} columns, {len(encoding.names)} features",
        header=("column", "kind", "features", "missing values"),
        rows=tuple(_ROWS[type(code)](code) for code in encoding.columns),
        note="The columns are the features; nothing was fitted." if encoding.plain else _FITTED,
        class_="plain",
    )


def _number(code: NumberCode) -> Row:
    same = (code.mean, code.scale) == (0, 1)
    done = "as it is" if same else f"(x − {code.mean:.6g})/{code.scale:.6g}"
    return (code.name, "number", done, _missing(f"{code.fill:.6g}", code.missing))


def _boolean(code: BooleanCode) -> Row:
    fill = "true" if code.fill else "false"
    return (code.name, "boolean", "1 if true, 0 if false", _missing(fill, code.missing))


def _category(code: CategoryCode) -> Row:
    done = f"one for each of {_listed(code.categories)}" if code.categories else ""
    rare = f"one for the rare {_listed(code.rare)}" if code.rare else ""
    absent = "an indicator column" if code.missing else "all zeros, as for an unseen category"
    return (code.name, "category", "; ".join(filter(None, (done, rare))), absent)


def _missing(fill: str, marked: bool) -> str:
    return f"{fill}, plus an indicator column" if marked else f"none seen; {fill} if one occurs"


def _listed(words: tuple[str, ...]) -> str:
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


_ROWS: dict[type, Callable[..., Row]] = {
    NumberCode: _number,
    BooleanCode: _boolean,
    CategoryCode: _category,
}
