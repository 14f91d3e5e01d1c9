"""The commands that reproduce a run and its certificates."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from pacbayes.certificates.certificate import Certificate
from pacbayes.choices import Predictor
from pacbayes.data.source import DataSource
from pacbayes.defaults import for_module
from pacbayes.folders.record import RunRecord
from pacbayes.folders.several import planned_runs, scale_text
from pacbayes.networks.modules import Convolutions
from pacbayes.report.contents import portable
from pacbayes.settings import Settings

__all__ = ["certify_command", "option_words", "train_command"]

_SPELLING: dict[str, Callable[[Any], list[str]]] = {  # settings whose option is spelled differently
    "batch_norm": lambda norm: ["--batch-norm" if norm else "--no-batch-norm"],
    "lam": lambda value: ["--lambda", str(value)],
    "learned_scale": lambda learned: ["--learned-scale" if learned else "--unit-scale"],
    "padding": lambda padding: ["--padding" if padding else "--no-padding"],
    "pooling": lambda side: ["--pooling", str(side or 0)],
    "prior_scales": lambda scales: ["--prior-scale", ",".join(map(scale_text, scales))],
    "repeats": lambda _: ["--repeats"],
    "widths": lambda widths: ["--widths", ",".join(map(str, widths)) or "none"],
}


def train_command(record: RunRecord, folder: Path) -> str:
    """Return the `pacbayes train` command of a run, with only the options that are not defaults.

    Paths are those that a page shows.
    """
    words = ["pacbayes", "train", *_data_options(_shown(record.data.source.located(folder)))]
    changed = _changed(record)
    words += _network_options(record)
    for name, value in (changed | _for_table(record)).items():
        words += _option(name, value)
    words += _threads(record.versions)
    return shlex.join([*words, "--out", str(portable(_out(record.settings, folder)))])


def _shown(source: DataSource) -> DataSource:
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
        words += _option(name, ",".join(map(str, getattr(architecture, name))))
    for name in ("padding", "batch_norm", "pooling", "widths"):
        value = getattr(architecture, name)
        words += _option(name, value) if value != usual[name] else []
    return words


def _changed(record: RunRecord) -> dict[str, object]:
    """Return the settings that `pacbayes train` has to be told."""
    s = record.settings
    own, usual = dict(s), dict(_usual(record))
    changed = {name: value for name, value in own.items() if value != usual[name]}
    if s.prior_scales:
        changed.pop("prior_scale", None)  # it is one of them
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
    if name in _SPELLING:
        return _SPELLING[name](value)
    return [f"--{name.replace('_', '-')}", str(value)]


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
