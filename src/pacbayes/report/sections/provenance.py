"""What a run and its certificates rest on, and how to make and check them again."""

from __future__ import annotations

import shlex

from pacbayes.report.contents import Issued, RunFacts
from pacbayes.report.markup import Html, element, join, table
from pacbayes.report.page import Section, card, command_block

__all__ = ["provenance"]


def provenance(facts: RunFacts) -> Section:
    body = join(
        card(_commands(facts)),
        *(card(_ledger(issued)) for issued in facts.issued),
        card(_hashes(facts)),
        card(_versions(facts)),
        card(_settings(facts)),
    )
    return Section("provenance", "Make it again, check it", body)


def _commands(facts: RunFacts) -> Html:
    folder = shlex.quote(str(facts.folder))
    certify = [i.command for i in facts.issued] or [f"pacbayes certify {folder}"]
    parts = [
        element("h3", "Make it again"),
        command_block(facts.command),
        *(command_block(command) for command in certify),
    ]
    if facts.issued:
        parts += [
            element("h3", "Check it"),
            command_block(f"pacbayes verify {folder}"),
            command_block(f"pacbayes verify {folder} --full"),
            element("p", "Without --full the training risk is taken as claimed.", class_="note"),
        ]
    return join(*parts)


def _ledger(issued: Issued) -> Html:
    c = issued.certificate
    rows = [
        [name, f"{part:.6g}", f"{100 * part / c.delta:.1f} %"] for name, part in c.ledger.items()
    ]
    spent = sum(c.ledger.values())
    rows.append([element("strong", "spent"), f"{spent:.6g}", f"of δ = {c.delta:g}"])
    caption = f"The δ ledger of {issued.file}: what its failure probability is spent on"
    return table(caption, ["part", "δ", "share"], rows)


def _hashes(facts: RunFacts) -> Html:
    record = facts.record
    found = {"training data": record.data.train_sha256, "prior": record.prior_sha256}
    if record.data.split_sha256 is not None:
        found["split"] = record.data.split_sha256
    for issued in facts.issued:
        for key, name in (("posterior_sha256", "posterior"), ("drawn_sha256", "drawn network")):
            if key in issued.certificate.provenance:
                found[name] = str(issued.certificate.provenance[key])
    rows: list[list[str]] = [[name, element("code", value)] for name, value in found.items()]
    return table("Hashes, SHA-256", ["of", "value"], rows, class_="plain")


def _versions(facts: RunFacts) -> Html:
    columns = [facts.record.versions]
    columns += [i.certificate.provenance.get("versions", {}) for i in facts.issued]
    names = list(dict.fromkeys(name for column in columns for name in column))
    header = ["", "training", *(i.file for i in facts.issued)]
    rows = [[name, *(str(column.get(name, "–")) for column in columns)] for name in names]
    return table("Versions that its last bits depend on", header, rows, class_="wide")


def _settings(facts: RunFacts) -> Html:
    settings = facts.record.settings.model_dump(mode="json")
    rows = [[name.replace("_", " "), _shown(value)] for name, value in settings.items()]
    data = facts.record.data
    rows += [
        ["data", data.source.name],
        ["examples in the bound set", f"{data.n}"],
        ["features", f"{data.features}"],
        ["classes", ", ".join(data.classes)],
    ]
    inner = table("Settings", ["setting", "value"], rows, class_="plain", hidden_caption=True)
    return element("details", element("summary", "All settings"), inner)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "–" if value is None else str(value)
