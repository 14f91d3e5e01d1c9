"""The page of a store shows the tables of its runs."""

import base64

import pytest

from pacbayes.paper.store import Store
from pacbayes.report import report
from pacbayes.report.sweeps import find_sweeps
from report.folders import fill_store, put

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


@pytest.fixture
def store(tmp_path):
    return fill_store(Store(tmp_path / "store"))


def test_runs_are_grouped_by_data_set_and_epochs(store):
    paper, digits = find_sweeps(store)
    assert (paper.sweep.dataset, paper.sweep.epochs, paper.sweep.repeats) == (
        *("binary-mnist", None),
        2,
    )
    assert list(paper.sweep.columns) == ["fix-lambda-sign", "fast-relu"]
    assert [len(line.summaries) for line in paper.lines] == [2, 1]
    assert (digits.sweep.dataset, digits.sweep.epochs) == ("digits", 5)


def test_the_tables_compare_our_numbers_with_the_papers(store, tmp_path, read):
    (store.folder / "figures").mkdir()
    (store.folder / "figures" / "votes.png").write_bytes(PIXEL)
    report(store.folder, tmp_path / "page.html")
    page = read((tmp_path / "page.html").read_text())
    rows = [e["text"] for e in page.all("tr")]
    assert any(row.startswith("fix-lambda-sign28.00 ± 0.008.77") and "21.7+" in row for row in rows)
    assert any(
        "0.0110033500 ± 035711.0 ± 0.0350" in row for row in rows
    )  # rate, T, layers, KL, minutes
    text = page.all("main")[0]["text"]
    assert "fix-lambda-sign: 25.00 %" in text
    assert "paper: 21.7 %" in text
    assert "No runs yet: mlp, pbg" in text
    assert "--dataset digits --columns fix-lambda-relu --repeats 1 --epochs 5" in text.replace(
        " \\\n ", ""
    )
    assert [e["alt"] for e in page.all("img")] == ["votes, as drawn by pacbayes reproduce figures"]
    ids = [e["id"] for e in page.elements if "id" in e]
    assert len(ids) == len(set(ids))


def test_a_store_without_results_has_a_page(store, tmp_path):
    for path in store.folder.glob("runs/*/*.json"):
        if path.name != "configuration.json":
            path.unlink()
    report(store.folder, tmp_path / "page.html")
    assert "0 finished runs" in (tmp_path / "page.html").read_text()


def test_a_damaged_configuration_is_named_in_the_error(store, tmp_path):
    path = next(store.folder.glob("runs/*/configuration.json"))
    path.write_text('{"colour": "red"}')
    with pytest.raises(ValueError, match=r"configuration\.json is damaged"):
        report(store.folder, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_points_of_a_search_have_a_table_and_do_not_hide_repeats(store, tmp_path):
    put(store, "mlp", 0, bound=None)
    put(store, "fix-lambda-sign", 3)
    paper, _ = find_sweeps(store)
    assert (paper.sweep.search, paper.sweep.repeats) == ("chosen", 3)
    assert [len(line.summaries) for line in paper.lines] == [0, 3, 1]
    report(store.folder, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Every point of the search" in page
    assert page.count("not run") == 2  # of mlp's three points


def test_repeats_of_every_winner_are_shown(tmp_path):
    store = Store(tmp_path / "store")
    for rate, bound in ((0.1, 0.2), (0.01, 0.3), (0.001, 0.4)):
        for samples in (1, 10, 50, 100):
            point = {"learning_rate": rate, "samples": samples}
            put(store, "fix-lambda-sign", 0, bound=bound + samples / 1e4, **point)
            put(store, "fix-lambda-relu", 0, bound=bound + abs(samples - 50) / 1e4, **point)
    for repeat in (1, 2):
        put(store, "fix-lambda-sign", repeat, learning_rate=0.1, samples=1)
        put(store, "fix-lambda-relu", repeat)  # 0.1 and 50, the paper's
    (found,) = find_sweeps(store)
    assert found.sweep.search == "paper"
    assert [len(line.summaries) for line in found.lines] == [2, 2]


def test_a_plain_network_has_no_bound(store, tmp_path, read):
    put(store, "mlp", 1, bound=1.0)
    report(store.folder, tmp_path / "page.html")
    rows = [e["text"] for e in read((tmp_path / "page.html").read_text()).all("tr")]
    assert "mlp58.000––" in rows


def test_a_sweep_whose_winners_were_repeated_is_a_search(tmp_path):
    store = Store(tmp_path / "store")
    for rate, repeat in ((0.1, 0), (0.01, 0), (0.001, 0), (0.1, 1), (0.1, 2)):
        put(store, "mlp", repeat, bound=None, learning_rate=rate)
    (found,) = find_sweeps(store)
    assert (found.sweep.search, found.sweep.repeats) == ("paper", 2)
    assert [len(line.summaries) for line in found.lines] == [2]
