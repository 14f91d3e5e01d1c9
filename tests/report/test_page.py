"""The page of a run is self-contained, well-formed, reproducible, and agrees with the files."""

import json
import math
import re
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise

import pytest

from pacbayes.bounds import percent_up
from pacbayes.report import report, run_page, votes
from pacbayes.report.contents import collect
from pacbayes.report.reading import read_certificate
from pacbayes.report.sections.certificates import pieces


@pytest.fixture(params=["page", "image_page"])
def any_page(request):
    return request.getfixturevalue(request.param)


def test_nothing_is_loaded_from_anywhere(any_page, read):
    assert not re.search(r"https?://|@import|url\(", any_page)
    for element in read(any_page).elements:
        assert element["tag"] not in ("script", "iframe", "object", "embed", "base", "form")
        assert not any(name.startswith("on") for name in element)
        for name in ("src", "href", "srcset", "xlink:href"):
            assert element.get(name, "#").startswith(("#", "data:"))
    policy = next(e for e in read(any_page).all("meta") if "http-equiv" in e)
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_it_is_well_formed_and_declares_its_language(any_page, read):
    assert any_page.startswith("<!doctype html>\n<html lang=")
    page = read(any_page)  # which refuses what is not closed
    ids = [e["id"] for e in page.elements if "id" in e]
    assert len(ids) == len(set(ids))
    for link in page.all("a"):
        assert link["href"].removeprefix("#") in ids
    named = [e["aria-labelledby"].split() for e in page.elements if "aria-labelledby" in e]
    assert {name for names in named for name in names} <= set(ids)


def test_it_is_accessible_to_screen_readers(any_page, read):
    page = read(any_page)
    levels = [int(e["tag"][1]) for e in page.all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    assert {e["tag"] for e in page.elements} >= {"header", "nav", "main", "section", "footer"}
    assert page.all("a")[0]["href"] == "#content"
    assert all(e["alt"] for e in page.all("img"))
    outer = [e for e in page.all("svg") if "svg" not in e["parents"]]
    assert len(outer) >= 8
    assert all(e["role"] == "img" and e["aria-labelledby"] for e in outer)
    assert all(e["text"] for e in page.all("title", "desc"))
    tables = page.all("table")
    assert len(page.all("caption")) == len(tables)
    assert all(e.get("scope") in ("col", "row") for e in page.all("th"))


def test_its_numbers_are_those_of_the_certificates(made, page, read):
    text = re.sub(r"\s+", " ", read(page).all("main")[0]["text"])
    hashes = [e["text"] for e in read(page).all("code")]
    for name in ("certificate.json", "certificate-vote.json", "certificate-drawn.json"):
        c = json.loads((made.folder / name).read_text())
        assert f"at most {percent_up(c['bound'])} error" in text
        assert f"over the choice of the {c['n']} training examples" in text
        assert f"this bounds the error on new examples of the {c['predictor']}." in text
        issued = read_certificate(made.folder / name)
        if issued.held_out is not None:
            assert f"held-out bound: {percent_up(issued.held_out)}" in text
        for part in ("risk", "monte-carlo", "log terms"):
            assert f"{100 * issued.contributions[part]:.3f}" in text
        for assumption in issued.assumptions.sentences():
            assert assumption in text
        for key in ("data_sha256", "prior_sha256", "posterior_sha256"):
            assert c["provenance"][key] in hashes
        for part, delta in c["ledger"].items():
            assert f"{part}{delta:.6g}" in text
    test = json.loads((made.folder / "test.json").read_text())
    assert f"test error: {100 * test['randomised']:.2f} %" in text
    assert f"test error: {100 * test['drawn']:.2f} %" in text
    assert text.count("checks passed") == 3


def test_the_pieces_of_the_bar_add_up_to_the_bound(contents):
    for issued in contents.issued:
        c = issued.certificate
        parts = pieces(c)
        assert math.fsum(p.value for p in parts) == pytest.approx(100 * c.bound, abs=1e-9)
        assert all(p.value >= 0 for p in parts)


def test_a_comparable_result_of_the_paper_is_on_the_same_axis(contents, page, read):
    record = contents.record
    source = record.data.source
    data = record.data.model_copy(update={"source": replace(source, name="binary-mnist")})
    settings = record.settings.model_copy(update={"widths": (100, 100, 100)})
    known = record.model_copy(update={"data": data, "settings": settings})
    compared = run_page(replace(contents, record=known))
    assert "paper, fix-lambda relu: 15.50 %" not in page
    texts = [e["text"] for e in read(compared).all("text")]
    assert texts.count("paper, fix-lambda relu: 15.50 %") == 1  # beside the randomised one only


def test_layers_are_merged_if_one_contributes_less_than_zero(contents):
    c = contents.issued[2].certificate
    shifted = dict(c.kl_by_part)
    shifted["layer.weight"] -= 100
    shifted["body.layers.0.weight"] += 100
    parts = pieces(replace(c, kl_by_part=shifted))
    assert [p.class_ for p in parts] == ["risk", "monte-carlo", "sample", "kl"]
    assert math.fsum(p.value for p in parts) == pytest.approx(100 * c.bound, abs=1e-9)


def test_names_of_classes_and_files_are_never_markup(made, page, read):
    names = made.record.data.classes
    assert any("<script>" in name for name in names)
    for name in names:
        assert name not in page
        assert name in read(page).all("main")[0]["text"]
    assert "data & <b>.npz, relu" in read(page).all("h1")[0]["text"]


def test_images_are_shown_as_images_and_other_examples_as_a_table(page, image_page, read):
    images = read(image_page).all("img")
    assert len(images) == 12
    assert all(e["src"].startswith("data:image/png;base64,") for e in images)
    assert all(re.fullmatch(r"test example \d+: label \d, vote \d", e["alt"]) for e in images)
    assert not read(page).all("img")
    assert "Least certain test examples" in read(page).all("main")[0]["text"]


def test_every_chart_has_its_numbers_in_a_table(contents, page, read):
    text = read(page).all("main")[0]["text"]
    for e in contents.history:
        assert f"{e.epoch}{100 * e.risk:.3f}{e.kl:.2f}{100 * e.bound:.3f}" in text
    for m in contents.movements:
        assert f"{m.layer}{m.weights}{m.kl:.4g}{m.rms:.4g}{m.largest:.4g}" in text
    last = contents.votes.curve[-1]
    assert f"100.0 %20{last.margin:.3f}{100 * last.error:.2f} %" in text
    counts = [int(n) for row in contents.votes.confusion for n in row]
    cells = [e for e in read(page).all("td") if e.get("class") in ("right", "wrong", "none")]
    assert [int(e["text"]) for e in cells] == counts


def test_the_same_run_gives_the_same_bytes(made, tmp_path):
    report(made.folder, tmp_path / "a.html")
    report(made.folder, tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_without_a_test_set_training_examples_are_labelled_as_such(uncertified, read):
    text = read(run_page(collect(uncertified))).all("main")[0]["text"]
    assert "so they are among the 120 training examples in the bound set." in text
    assert "the error on training examples is optimistic" in text
    assert "test examples" not in text
    assert "test error" not in text
    assert "trained but not certified" in text
    assert f"pacbayes certify {uncertified.folder}" in text
    assert "pacbayes verify" not in text
    assert "No certificate covers them" in text


def test_a_sample_of_the_training_examples_is_named_as_one(uncertified, read, monkeypatch):
    monkeypatch.setattr(votes, "_VOTED_ON", 30)
    text = read(run_page(collect(uncertified))).all("main")[0]["text"]
    sample = "30 training examples, drawn at random from the 120 in the bound set."
    assert f"so they are among {sample}" in text
    assert f"% of {sample} There is no test set; the error on training examples" in text


def test_a_failed_verification_is_shown(copied, read):
    path = copied.folder / "certificate.json"
    path.write_text(path.read_text().replace('"n": 120', '"n": 12000'))
    text = read(run_page(collect(copied))).all("main")[0]["text"]
    assert "does NOT hold. Failed: size of the bound set" in text
    assert text.count("checks passed") == 2


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
