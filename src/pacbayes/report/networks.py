"""What a page shows about a network, from its run folder, and the commands that made it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

from pacbayes.bounds import percent_up
from pacbayes.certificates.certificate import Certificate, read_certificate
from pacbayes.certificates.explanation import (
    beside,
    paper_result,
    percent,
    remarked,
    steps,
)
from pacbayes.choices import Predictor
from pacbayes.data import Dataset
from pacbayes.data.encoding import BooleanCode, CategoryCode, DateCode, Encoding, NumberCode
from pacbayes.data.source import DataSource
from pacbayes.defaults import for_module
from pacbayes.folders.folder import Run
from pacbayes.folders.prediction import TestErrors
from pacbayes.folders.record import RunRecord
from pacbayes.folders.run import planned_runs, scale_text
from pacbayes.networks.modules import Convolutions, OwnModule
from pacbayes.networks.network import Network
from pacbayes.networks.posterior import gaussians, kl_by_part
from pacbayes.networks.predictors import log_ratios
from pacbayes.report.answers import guess
from pacbayes.report.charts import Mark
from pacbayes.report.contents import Claims, Commands, Contents, Shown, Table, Unit, portable
from pacbayes.report.training import answers_of, layer_movements
from pacbayes.settings import OPTIONS, Settings
from pacbayes.training.blueprint import CODE
from pacbayes.training.checkpoints import read_history
from pacbayes.verify import Finding, verify

__all__ = ["certify_command", "collect", "option_words", "train_command"]

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
    return Contents(
        folder=run.folder,
        data=Path(record.data.source.name).name,
        predictor=_units(record),
        about=_about(record),
        certificates=tuple(_shown(run, c, data, errors) for c in checked),
        claims=tuple(_claims(of_classes)),
        unchecked="the training risk is not recomputed",
        uncertified=_uncertified(run),
        again=_again(run, checked),
        hashes=dict(_hashes(record, checked)),
        settings=_settings(record),
        versions={"training": record.versions}
        | {c.file: c.certificate.provenance.get("versions", {}) for c in checked},
        new="new.csv" if record.data.source.is_table else "new.npz",
        columns=None if data.encoding is None else _encoded(data.encoding),
        training=(read_history(run.folder / "history.json"), run.best),
        movements=layer_movements(network, record.layer_names),
        answers=answers,
    )


def _units(record: RunRecord) -> str:
    return record.title.rpartition(" ")[2] if record.network is None else record.title


def _about(record: RunRecord) -> str:
    """Summarise the run in a line or two."""
    s, data = record.settings, record.data
    parts = [
        f"network {record.title}",
        f"objective {s.objective}",
        f"{'learned' if s.learned_scale else 'fixed'} standard deviations",
    ]
    if s.prior_fraction:
        share = f"{100 * s.prior_fraction:.2f}".rstrip("0").rstrip(".")
        parts.append(f"prior learned from {share} % of the data")
    parts += [f"{s.protocol} protocol", f"{s.epochs} epochs", f"n = {data.n} examples"]
    return "; ".join(parts)


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


def _shown(run: Run, checked: _Checked, data: Dataset, errors: TestErrors | None) -> Shown:
    """Make the view of a certificate: the one place that reads this kind of record."""
    c, record = checked.certificate, run.record
    found = steps(c, record.layer_names)
    constant = guess(data.y_train, data.classes, data.groups)
    return Shown(
        key=c.kind.value,
        file=checked.file,
        title=c.kind.title,
        certificate=remarked(c, data.y_train, data.groups, data.classes),
        # nothing is sampled where errors are counted or the risk is exact
        steps=tuple(s for s in found if s.kind != "monte-carlo" or c.draws or s.points),
        beside=(*beside(c, errors, record), constant),
        findings=checked.findings,
        marks=tuple(_marks(c, errors, record)),
        paper=None if paper_result(record) is None else f"paper, {_column(record)}",
    )


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


def _claims(checked: list[_Checked]) -> Iterator[Claims]:
    """Yield the errors that are certified on each class, predictor by predictor."""
    note = ". The examples of each class are counted alone, and the classes share δ."
    for kind, group in groupby(checked, key=lambda i: i.certificate.kind):
        found = tuple((c, findings) for _, c, findings in group)
        yield Claims(f"{kind.title}, class by class", found, note)


def _uncertified(run: Run) -> Commands:
    return Commands(
        "This run is trained but not certified: nothing is guaranteed about its error yet. "
        "The bound shown during training is only a guide; it leaves out the Monte-Carlo error.",
        (f"pacbayes certify {shlex.quote(str(portable(run.folder)))}",),
        "Issue a certificate with:",
    )


def _again(run: Run, checked: list[_Checked]) -> Commands:
    issued = [certify_command(c.certificate, run.record, run.folder) for c in checked]
    again = issued or [f"pacbayes certify {shlex.quote(str(portable(run.folder)))}"]
    trained = train_command(run.record, run.folder)
    return Commands("Reproduce", (trained, *again), _code(run.record))


def _code(record: RunRecord) -> str:
    """Say where the code of a module of the user's own is."""
    if record.network is None or not isinstance(record.network.architecture, OwnModule):
        return ""
    file = Path(record.network.architecture.file).name
    return f"{file} is the file {CODE} in the folder. Read it before it runs."


def _hashes(record: RunRecord, checked: list[_Checked]) -> Iterator[tuple[str, str]]:
    data = record.data
    yield from (("training data", data.train_sha256), ("prior", record.prior_sha256))
    if record.network is not None and isinstance(record.network.architecture, OwnModule):
        yield f"code, {CODE}", record.network.architecture.sha256
    for name, value in (("split", data.split_sha256), ("features", data.features_sha256)):
        if value is not None:
            yield name, value
    for _, c, _ in checked:
        for key, name in _HASHES.items():
            if key in c.provenance:
                yield name, str(c.provenance[key])


def _settings(record: RunRecord) -> dict[str, Any]:
    data = record.data
    return record.settings.model_dump(mode="json") | {
        "network": record.title,
        "data": Path(data.source.name).name,
        "examples in the bound set": data.n,
        "features": data.features,
        "classes": data.classes,
    }


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
    return (code.name, code.kind, done, _missing(f"{code.fill:.6g}", code.missing))


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
    DateCode: _number,
    BooleanCode: _boolean,
    CategoryCode: _category,
}


def train_command(record: RunRecord, folder: Path) -> str:
    """Return the `pacbayes train` command of a run, with only the options that are not defaults.

    Paths are those that a page shows.
    """
    words = ["pacbayes", "train", *_data_options(_portable(record.data.source.located(folder)))]
    changed = _changed(record)
    words += _network_options(record)
    for name, value in (changed | _for_table(record)).items():
        words += _option(name, value)
    words += _threads(record.versions)
    return shlex.join([*words, "--out", str(portable(_out(record.settings, folder)))])


def _portable(source: DataSource) -> DataSource:
    folder, test = (path and str(portable(Path(path))) for path in (source.folder, source.test))
    name = str(portable(Path(source.name))) if source.is_file else source.name
    return replace(source, name=name, folder=folder, test=test)


def _data_options(source: DataSource) -> list[str]:
    options = {
        "--dataset": source.name,
        "--data-folder": source.folder,
        "--test-data": source.test,
        "--label": source.label,
        "--group": source.group,
    }
    words = option_words(options) + (["--deduplicate"] if source.deduplicate else [])
    for option, names in (("--drop", source.drop), ("--categorical", source.categorical)):
        words += [word for name in names for word in (option, name)]
    return words


def option_words(options: Mapping[str, object]) -> list[str]:
    """Return the words of options and their values; an option that is None is left out."""
    given = ((option, str(value)) for option, value in options.items() if value is not None)
    return list(chain.from_iterable(given))


def _network_options(record: RunRecord) -> list[str]:
    """Return the options that choose a network other than dense."""
    if record.network is None:
        return []
    architecture = record.network.architecture
    if not isinstance(architecture, Convolutions):
        return ["--network", architecture.title]
    learned = bool(record.settings.prior_fraction)
    usual = Convolutions.usual(len(architecture.channels), learned=learned)
    usual = dict(Convolutions(**(usual | {"channels": architecture.channels})))
    words = ["--network", "conv"]
    for name in ("channels", "kernels", "strides"):
        words += _option(name, getattr(architecture, name))
    for name in ("padding", "batch_norm", "pooling", "widths"):
        value = getattr(architecture, name)
        words += _option(name, 0 if value is None else value) if value != usual[name] else []
    return words


def _changed(record: RunRecord) -> dict[str, object]:
    """Return the settings that `pacbayes train` has to be told."""
    s = record.settings
    own, usual = dict(s), dict(_usual(record))
    changed = {name: value for name, value in own.items() if value != usual[name]}
    if changed.pop("prior_scales", ()):
        changed["prior_scale"] = tuple(map(scale_text, s.prior_scales))  # its own is one of them
    if record.network is not None:
        changed.pop("widths", None)  # of dense networks alone
    return {"protocol": s.protocol, "activation": s.activation} | changed


def _for_table(record: RunRecord) -> dict[str, object]:
    """Return the settings whose defaults depend on the number of rows of a table."""
    s = record.settings
    dense = record.network is None
    if not dense or not record.data.source.is_table or s.protocol != "fast":
        return {}
    learned = {"prior_epochs": s.prior_epochs} if s.prior_fraction else {}
    return {"widths": s.widths, "prior_fraction": s.prior_fraction, **learned}


def _usual(record: RunRecord) -> Settings:
    """Return the settings of a run with default options except for protocol and activation.

    Other defaults depend on the objective and on whether the prior is learned, so they are taken
    for the run's own objective and prior. The batch size of a module depends on the number of all
    examples, which is not recorded, so that a command always has it.
    """
    s = record.settings
    given: dict[str, Any] = {"prior_fraction": s.prior_fraction} if s.prior_fraction else {}
    if record.network is not None:
        given = for_module(record.data.n, given) | {"batch_size": None}
    given["classes"] = len(record.data.classes)
    first = Settings.of(s.protocol, s.activation, **given)
    usual = Settings.of(s.protocol, s.activation, s.objective, **given)
    return usual.model_copy(update={"objective": first.objective, "prior_fraction": 0.0})


def _option(name: str, value: object) -> list[str]:
    """Return the option of a setting as `pacbayes train` spells it."""
    flags = OPTIONS[name].flags if name in OPTIONS else ()
    on, _, off = (flags[0] if flags else f"--{name.replace('_', '-')}").partition("/")
    if isinstance(value, bool):
        switch = on if value else off or f"--no-{on[2:]}"
        return [switch] if value or off or name not in OPTIONS else []  # off where it is not given
    text = ",".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
    return [on, text]


def _out(s: Settings, folder: Path) -> Path:
    """Return the folder that --out names: the parent where several prior scales were tried."""
    if not s.prior_scales:
        return folder
    planned = {own.name for own, _ in planned_runs(folder.parent, s)}
    return folder.parent if folder.name in planned else folder


def certify_command(c: Certificate, record: RunRecord, folder: Path) -> str:
    """Return the `pacbayes certify` command that issued a certificate."""
    words = ["pacbayes", "certify", str(portable(folder)), "--delta", str(c.delta)]
    chosen_late = f"pac-bayes, {c.bound_name}" in c.ledger
    words += ["--bound", "best-of" if chosen_late else c.bound_name]
    words += [] if c.class_name is None else ["--per-class"]
    words += _sampling(c, record)
    return shlex.join(words + _threads(c.provenance.get("versions", {})))


def _sampling(c: Certificate, record: RunRecord) -> list[str]:
    if c.kind is Predictor.FIXED:
        return []
    if c.kind is Predictor.DRAWN:
        return ["--networks", f"{c.parameters['networks']:.0f}"]
    if c.draws is not None:
        return ["--monte-carlo", str(c.monte_carlo), "--samples", str(c.samples)]
    return ["--exact"] if record.settings.widths else []  # a linear model is never sampled


def _threads(versions: dict[str, str]) -> list[str]:
    return ["--threads", versions["threads"]] if "threads" in versions else []
