"""The page of every kind of folder is self-contained, well-formed, and agrees with the files."""

import html
import json
import math
import re
import shutil
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest

from pacbayes.bounds import percent_up
from pacbayes.certificates import explanation
from pacbayes.certificates.certificate import read_certificate
from pacbayes.certificates.explanation import largest_class
from pacbayes.files import load_tensors
from pacbayes.paper.printed import RESULTS
from pacbayes.report import SECTIONS, collect, networks, report, training
from pacbayes.report import page as page_of
from pacbayes.report.certificates import pieces
from pacbayes.report.contents import portable
from report.folders import HOSTILE, KINDS, python_model

ABOUT_ONE = [kind for kind in KINDS if kind != "store"]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_folder = pytest.mark.parametrize("kind", ABOUT_ONE)


@every_kind
def test_nothing_is_loaded_from_anywhere(kind, pages, read):
    page = pages(kind)
    assert not re.search(r"https?://|@import|url\(", page)
    for element in read(page).elements:
        assert element["tag"] not in ("script", "iframe", "object", "embed", "base", "form")
        assert not any(name.startswith("on") for name in element)
        for name in ("src", "href", "srcset", "xlink:href"):
            assert element.get(name, "#").startswith(("#", "data:"))
    policy = next(e for e in read(page).all("meta") if "http-equiv" in e)
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@every_kind
def test_it_is_well_formed_and_declares_its_language(kind, pages, read):
    assert pages(kind).startswith("<!doctype html>\n<html lang=")
    page = read(pages(kind))  # which refuses what is not closed
    ids = [e["id"] for e in page.elements if "id" in e]
    assert len(ids) == len(set(ids))
    for link in page.all("a"):
        assert link["href"].removeprefix("#") in ids
    named = [e["aria-labelledby"].split() for e in page.elements if "aria-labelledby" in e]
    assert {name for names in named for name in names} <= set(ids)


@every_kind
def test_it_is_accessible_to_screen_readers(kind, pages, read):
    page = read(pages(kind))
    levels = [int(e["tag"][1]) for e in page.all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    assert {e["tag"] for e in page.elements} >= {"header", "nav", "main", "section", "footer"}
    assert page.all("a")[0]["href"] == "#content"
    assert all(e["alt"] for e in page.all("img"))
    outer = [e for e in page.all("svg") if "svg" not in e["parents"]]
    assert outer
    assert all(e["role"] == "img" and e["aria-labelledby"] for e in outer)
    assert all(e["text"] for e in page.all("title", "desc"))
    tables = page.all("table")
    assert len(page.all("caption")) == len(tables)
    assert all(e.get("scope") in ("col", "row") for e in page.all("th"))


@every_kind
def test_it_is_titled_and_names_no_directory_of_this_machine(kind, pages, folder_of, read):
    page = read(pages(kind))
    assert page.all("h1")[0]["text"] == KINDS[kind]
    assert str(folder_of(kind).parent) not in html.unescape(pages(kind))


@every_folder
def test_a_verdict_comes_first_and_its_parts_add_up_to_the_bound(kind, pages, folder_of, read):
    contents, page = collect(folder_of(kind)), read(pages(kind))
    claims = [e["text"] for e in page.all("p") if e.get("class") == "claim"]
    verdicts = [e["text"] for e in page.all("p") if e.get("class", "").startswith("verdict")]
    assert len(verdicts) == len(claims) == len(contents.certificates)
    assert all("checks passed" in text for text in verdicts)
    bounds = [c.certificate.bound for c in contents.certificates]
    assert bounds == sorted(bounds)
    for claim, c in zip(claims, contents.certificates, strict=True):
        bound = c.certificate.bound
        assert claim == f"at most {c.unit.up(bound)} {c.certificate.quantity}"
        assert math.fsum(s.points for s in c.steps) == pytest.approx(bound, abs=1e-9)
        assert all(s.points >= -1e-12 for s in c.steps if s.kind != "kl")
        drawn = pieces(c)
        total = c.unit.times * bound
        assert math.fsum(p.value for p in drawn) == pytest.approx(total, abs=1e-9)
        assert all(p.value >= 0 for p in drawn)
        assert [s.label for s in c.steps if s.kind == "monte-carlo" and not s.points] == []
        text = page.all("main")[0]["text"]
        assert all(assumption in text for assumption in c.certificate.assumptions)
        assert all(finding.name in text for finding in c.findings)
        assert " of always answering '" in c.beside[-1].label


@every_folder
def test_it_says_how_to_check_and_what_was_hashed(kind, pages, folder_of, read):
    page = read(pages(kind))
    assert any(f"pacbayes verify {portable(folder_of(kind))}" in e["text"] for e in page.all("pre"))
    hashes = [e["text"] for e in page.all("code")]
    assert len(hashes) >= 2
    assert all(re.fullmatch("[0-9a-f]{64}", text) for text in hashes)


@every_folder
def test_confusions_are_those_of_the_first_certificate_s_predictor(kind, pages, folder_of, read):
    contents = collect(folder_of(kind))
    if contents.certificates[0].key != "vote":
        assert " (certified)" in contents.answers[0].who
    counts = [str(n) for a in contents.answers for row in a.confusion for n in row]
    cells = [e for e in read(pages(kind)).all("td") if e.get("class") in ("right", "wrong", "none")]
    assert [e["text"] for e in cells] == counts
    for a in contents.answers:
        right = sum(a.confusion[i][i] for i in range(len(a.classes)))
        assert a.error == pytest.approx(1 - right / sum(map(sum, a.confusion)))


@every_folder
def test_the_same_folder_gives_the_same_bytes(kind, pages, folder_of, tmp_path):
    report(folder_of(kind), tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == pages(kind)


@pytest.mark.parametrize("kind", ["network", "mean"])
def test_names_of_classes_and_files_are_never_markup(kind, pages, read):
    for name in HOSTILE:
        assert name not in pages(kind)
        assert name in read(pages(kind)).all("main")[0]["text"]


def test_paths_are_seen_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(portable(tmp_path / "runs" / "mine")) == "runs/mine"
    assert str(portable(tmp_path.parent / "other" / "mine")) == "mine"


def test_its_numbers_are_those_of_the_certificates(made, page, read):
    text = re.sub(r"\s+", " ", read(page).all("main")[0]["text"])
    hashes = [e["text"] for e in read(page).all("code")]
    for name in ("certificate.json", "certificate-vote.json", "certificate-drawn.json"):
        c = json.loads((made.folder / name).read_text())
        assert f"at most {percent_up(c['bound'])} error" in text
        assert f"over the choice of the {c['n']} examples in the bound set" in text
        assert f"this bounds the error on new examples of the {c['predictor']}." in text
        issued = read_certificate(made.folder / name)
        if issued.held_out is not None:
            assert f"held-out bound: {percent_up(issued.held_out)}" in text
        for part in ("risk", "log terms"):
            assert f"{100 * issued.contributions[part]:.3f}" in text
        for key in ("data_sha256", "prior_sha256", "posterior_sha256"):
            assert c["provenance"][key] in hashes
        for part, delta in c["ledger"].items():
            assert f"{part}{delta:.6g}" in text
    test = json.loads((made.folder / "test.json").read_text())
    assert f"test error: {100 * test['randomised']:.2f} %" in text
    assert f"test error: {100 * test['drawn']:.2f} %" in text
    label, error = largest_class(made.load_data().y_train)
    name = made.record.data.classes[label]
    guess = f"error of always answering '{name}', the largest class{100 * error:.2f} %"
    assert text.count(guess) == 3


def test_a_comparable_result_of_the_paper_is_on_the_same_axis(made, page, read, monkeypatch):
    result = RESULTS["fix-lambda", "relu"]
    for module in (explanation, networks):
        monkeypatch.setattr(module, "paper_result", lambda record: result)
    compared = page_of(collect(made.folder))
    shown = f"paper, fix-lambda relu: {100 * result.bound:.2f} %"
    assert shown not in page
    texts = [e["text"] for e in read(compared).all("text")]
    assert texts.count(shown) == 1  # beside the randomised one only


def test_layers_are_merged_if_one_contributes_less_than_zero(contents):
    drawn = next(c for c in contents.certificates if c.key == "drawn")
    *rest, first, last = drawn.steps
    shifted = (replace(first, points=first.points + 1), replace(last, points=last.points - 1))
    parts = pieces(replace(drawn, steps=(*rest, *shifted)))
    assert [p.class_ for p in parts] == [s.kind for s in rest] + ["kl"]
    assert math.fsum(p.value for p in parts) == pytest.approx(
        100 * drawn.certificate.bound, abs=1e-9
    )


def test_images_are_shown_as_images_and_rows_with_the_columns_of_the_file(pages, read):
    images = read(pages("images")).all("img")
    assert len(images) == 12
    assert all(e["src"].startswith("data:image/png;base64,") for e in images)
    assert all(re.fullmatch(r"test example \d+: label \d, vote \d", e["alt"]) for e in images)
    page = read(pages("table-network"))
    assert not page.all("img")
    (head,) = (e["text"] for e in page.all("tr") if "second" in e["text"])
    assert head.endswith("probabilitythe agehome townowns")


def test_cells_of_doubtful_rows_are_those_of_the_file(table_file, table_run):
    rows = [line.split(",") for line in table_file.read_text().splitlines()[1:]]
    (bound_set,) = load_tensors(table_run.folder / "split.safetensors")[0].values()
    doubtful = collect(table_run.folder).answers[-1].doubtful
    for d in doubtful:
        age, town, owns, answer = rows[bound_set[d.number]]
        assert float(d.cells[0]) == pytest.approx(float(age), rel=1e-3)
        assert d.cells[1:] == (town or "missing", {"yes": "true", "no": "false"}[owns])
        assert d.label == answer


def test_sections_on_the_posterior_say_that_another_predictor_is_certified(pages):
    said = "This is about Q, which the first certificate does not cover."
    assert pages("table-network").count(said) == 2
    assert said not in pages("network")


def test_every_chart_has_its_numbers_in_a_table(contents, page, read):
    text = read(page).all("main")[0]["text"]
    for e in contents.training[0]:
        assert f"{e.epoch}{100 * e.risk:.3f}{e.kl:.2f}{100 * e.bound:.3f}" in text
    for m in contents.movements:
        assert f"{m.layer}{m.weights}{m.kl:.4g}{m.rms:.4g}{m.largest:.4g}" in text
    last = contents.answers[-1].curve[-1]
    assert f"100.0 %20{last.margin:.3f}{100 * last.error:.2f} %" in text


def test_without_a_test_set_training_examples_are_labelled_as_such(uncertified, read):
    text = read(page_of(collect(uncertified.folder))).all("main")[0]["text"]
    assert "so they are among the 120 training examples in the bound set." in text
    assert "the error on training examples is optimistic" in text
    assert "test examples" not in text
    assert "test error" not in text
    assert "trained but not certified" in text
    assert f"pacbayes certify {uncertified.folder.name}" in text
    assert "pacbayes verify" not in text
    assert "These are measurements, not bounds." in text


def test_a_sample_of_the_training_examples_is_named_as_one(uncertified, read, monkeypatch):
    monkeypatch.setattr(training, "_VOTED_ON", 30)
    text = read(page_of(collect(uncertified.folder))).all("main")[0]["text"]
    sample = "30 training examples, drawn at random from the 120 in the bound set."
    assert f"so they are among {sample}" in text
    assert f"% of {sample} There is no test set; the error on training examples" in text


def test_a_failed_verification_is_shown(copied, read):
    path = copied.folder / "certificate.json"
    path.write_text(path.read_text().replace('"n": 120', '"n": 12000'))
    text = read(page_of(collect(copied.folder))).all("main")[0]["text"]
    assert "does NOT hold. Failed: size of the bound set" in text
    assert text.count("checks passed") == 2


@pytest.mark.filterwarnings("ignore::pacbayes.certificates.explanation.CertificateWarning")
def test_a_withheld_certificate_is_said_to_be_withheld(tmp_path, read):
    folder = python_model(tmp_path / "model", copies=True)
    assert not (folder / "certificate.json").exists()
    text = read(page_of(collect(folder))).all("main")[0]["text"]
    assert "The certificate was withheld" in text
    assert "at most" not in text
    assert "pacbayes verify" not in text
    assert "Confusion matrix" in text


@pytest.mark.parametrize("change", [("bound", 0.001), ("losses", 0.0), ("delta", 0.2)])
def test_nothing_is_derived_from_a_model_that_fails(change, folder_of, tmp_path, read):
    shutil.copytree(folder_of("mean"), tmp_path / "model")
    path = tmp_path / "model" / "certificate.json"
    record = json.loads(path.read_text())
    record["certificates"]["mean"][change[0]] = change[1]
    path.write_text(json.dumps(record))
    contents = collect(tmp_path / "model")
    assert "does NOT hold" in read(page_of(contents)).all("main")[0]["text"]
    assert [s.label for s in contents.certificates[0].steps] == ["claimed, not confirmed"]
    assert (contents.answers, contents.candidates) == ((), None)


def channel(value):
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def luminance(colour):
    red, green, blue = (channel(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_light_and_dark_colours_have_enough_contrast():
    style = files("pacbayes.report").joinpath("style.css").read_text()
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#\w{6})\b", block))
        for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
    )
    for colours in (light, dark):
        for ground in ("paper", "card"):
            for text in ("ink", "muted", "accent", "good", "bad"):
                assert contrast(colours[text], colours[ground]) >= 4.5, text
            for shape in ("risk", "monte-carlo", "sample", "kl"):
                assert contrast(colours[shape], colours[ground]) >= 3, shape


def test_the_recipe_of_a_section_serves_every_kind_of_folder(folder_of, read, monkeypatch):
    recipe = (Path(__file__).parents[2] / "docs" / "contributing.md").read_text()
    (code,) = re.findall(
        r"^```python\n(.*?def remarks_section.*?)^```", recipe, re.DOTALL | re.MULTILINE
    )
    names = {}
    exec(compile(code, "contributing.md", "exec"), names)
    monkeypatch.setattr("pacbayes.report.SECTIONS", (*SECTIONS, names["remarks_section"]))
    for kind in ("table-network", "mean"):
        contents = collect(folder_of(kind))
        first, *others = contents.certificates
        remarked = replace(first.certificate, remarks=("<b>It says little.</b>",))
        for c, count in ((remarked, 1), (replace(first.certificate, remarks=()), 0)):
            shown = replace(contents, certificates=(replace(first, certificate=c), *others))
            page = read(page_of(shown))
            assert [e["text"] for e in page.all("h2")].count("Remarks") == count
            cells = [e["text"] for e in page.all("td")]
            assert cells.count("<b>It says little.</b>") == count


def test_a_certificate_may_break_across_printed_pages():
    """Otherwise the whole certificate, verdict and all, moves to page 2."""
    style = files("pacbayes.report").joinpath("style.css").read_text()
    kept = re.findall(r"([^{}]+)\{ break-inside: avoid; \}", style.partition("@media print")[2])
    assert not {"article", "section", "main"} & {s.strip() for k in kept for s in k.split(",")}
    assert any("figure" in k for k in kept)
