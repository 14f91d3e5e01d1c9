"""The section on provenance: commands, δ ledgers, hashes, versions and settings."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from itertools import chain

from pacbayes.networks.modules import OwnModule
from pacbayes.report.contents import IssuedCertificate, RunContents
from pacbayes.report.markup import Html, element, join, table
from pacbayes.report.page import Section, card, command_block, details
from pacbayes.runs.code import FILE

__all__ = ["provenance_section"]

_HASHES = {"posterior_sha256": "posterior", "drawn_sha256": "drawn network"}  # of a certificate


def provenance_section(contents: RunContents) -> Section:
    """Write how to check and repeat the run: commands, hashes and versions."""
    body = join(
        card(_commands(contents)),
        *(card(_ledger(issued)) for issued in contents.issued),
        card(_hashes(contents)),
        card(_versions(contents)),
        card(_settings(contents)),
    )
    return Section("provenance", "Reproduce and verify", body)


def _commands(contents: RunContents) -> Html:
    folder = shlex.quote(str(contents.folder))
    certify = [i.command for i in contents.issued] or [f"pacbayes certify {folder}"]
    return join(
        element("h3", "Reproduce"),
        *map(command_block, (contents.command, *certify)),
        _code(contents),
        _verify_commands(folder) if contents.issued else Html(),
    )


def _code(contents: RunContents) -> Html:
    """Say where the code of a module of the user's own is."""
    network = contents.record.network
    if network is None or not isinstance(network.architecture, OwnModule):
        return Html()
    text = f"{network.architecture.file} is the file {FILE} in the folder. Read it before it runs."
    return element("p", text, class_="note")


def _verify_commands(folder: str) -> Html:
    return join(
        element("h3", "Verify"),
        command_block(f"pacbayes verify {folder}"),
        command_block(f"pacbayes verify {folder} --full"),
        element("p", "Without --full, the training risk is not recomputed.", class_="note"),
    )


def _ledger(issued: IssuedCertificate) -> Html:
    c = issued.certificate
    rows = [
        [name, f"{part:.6g}", f"{100 * part / c.delta:.1f} %"] for name, part in c.ledger.items()
    ]
    total = sum(c.ledger.values())
    rows.append([element("strong", "total"), f"{total:.6g}", f"of δ = {c.delta:g}"])
    caption = f"δ ledger of {issued.file}: how its failure probability is divided"
    return table(caption, ["part", "δ", "share"], rows)


def _hashes(contents: RunContents) -> Html:
    record = contents.record
    found = {"training data": record.data.train_sha256, "prior": record.prior_sha256}
    if record.network is not None and isinstance(record.network.architecture, OwnModule):
        found[f"code, {FILE}"] = record.network.architecture.sha256
    if record.data.split_sha256 is not None:
        found["split"] = record.data.split_sha256
    if record.data.features_sha256 is not None:
        found["features"] = record.data.features_sha256
    for issued in contents.issued:
        found |= _certified_hashes(issued)
    rows: list[list[str]] = [[name, element("code", value)] for name, value in found.items()]
    return table("SHA-256 hashes", ["object", "hash"], rows, class_="plain")


def _certified_hashes(issued: IssuedCertificate) -> dict[str, str]:
    recorded = issued.certificate.provenance
    return {name: str(recorded[key]) for key, name in _HASHES.items() if key in recorded}


def _versions(contents: RunContents) -> Html:
    columns = {"training": contents.record.versions}
    columns |= {i.file: i.certificate.provenance.get("versions", {}) for i in contents.issued}
    components = dict.fromkeys(chain(*columns.values()))
    rows = [_version_row(component, columns.values()) for component in components]
    caption = "Software and hardware; results are bit-identical only where these agree"
    return table(caption, ["component", *columns], rows, class_="wide")


def _version_row(component: str, columns: Iterable[dict[str, str]]) -> list[str]:
    return [component, *(str(versions.get(component, "–")) for versions in columns)]


def _settings(contents: RunContents) -> Html:
    settings = contents.record.settings.model_dump(mode="json")
    rows = [[name.replace("_", " "), _shown(value)] for name, value in settings.items()]
    data = contents.record.data
    rows += [
        ["network", contents.record.title],
        ["data", data.source.name],
        ["examples in the bound set", f"{data.n}"],
        ["features", f"{data.features}"],
        ["classes", ", ".join(data.classes)],
    ]
    return details("All settings", ["setting", "value"], rows, class_="plain")


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "–" if value is None else str(value)
