"""The table of contests, how rows are chosen, and what is skipped."""

import json
from dataclasses import asdict

import pytest
from typer.testing import CliRunner

from pacbayes import bench, cli
from pacbayes.bench import contests
from pacbayes.bench.contests import CONTESTS, Measurements, choose, measure, report
from pacbayes.bench.turns import Contest, Entrant, MissingError, Plan, Row

NUMBER = Row("step", "native ÷ torch", 0.5, 0.4, 0.6, 0.01, 9)
BUSY = Row("fit", "a ÷ b", None, None, None, None, 1)


def names(found):
    return [contest.name for contest in found]


def test_names_are_unique():
    assert len(set(names(CONTESTS))) == len(CONTESTS)


@pytest.mark.parametrize(
    ("part", "count"),
    [
        ("step, ", 21),
        ("width 1000", 2),
        ("step, relu, 100 classes", 1),
        ("certificate", 4),
        ("predictions", 1),
        ("votes", 1),
        ("fit", 1),
        ("torchbnn", 1),
    ],
)
def test_a_part_of_a_name_chooses(part, count):
    assert len(choose([part])) == count
    assert all(part in name for name in names(choose([part])))


def test_several_parts_choose_in_the_order_of_the_table():
    assert names(choose(["fit", "votes"])) == ["votes", "fit"]
    assert choose() == CONTESTS


def test_quick_is_one_kind_of_step_for_each_unit():
    units = ("relu", "sigmoid", "sign")
    assert names(choose(quick=True)) == [f"step, {unit}, T = 10" for unit in units]
    assert names(choose(["fit"], quick=True)) == ["fit"]


def test_an_unknown_part_is_refused_with_the_names():
    with pytest.raises(
        ValueError, match="no row has 'fits' in its name; the names are: step, relu"
    ):
        choose(["step", "fits"])


def test_what_is_missing_is_skipped_with_its_reason(monkeypatch):
    def nothing():
        raise MissingError("it is not installed")

    seen = []
    compare = contests.compare
    monkeypatch.setattr(contests, "compare", lambda c, p, t: seen.append(p) or compare(c, p, t))
    monkeypatch.setattr(contests, "Plan", lambda **_: Plan(turns=2, least=2, patience=0.0))
    idle = {"a": Entrant(lambda i: sum(range(99))), "b": Entrant(lambda i: sum(range(99)))}
    found = measure([Contest("one", nothing), Contest("two", lambda: idle)], quick=True)
    assert found.skipped == ["one: it is not installed"]
    assert [row.contest for row in found.rows] == ["two"]
    assert len(seen) == 2


def test_the_warning_is_one_line_and_only_for_busy_rows():
    assert Measurements([NUMBER], []).warning == ""
    warning = Measurements([NUMBER, BUSY], []).warning
    assert warning.startswith("1 of 2 rows have no number")
    assert "\n" not in warning


@pytest.fixture
def run(monkeypatch):
    """The command with given rows instead of measured ones."""

    def call(rows, *arguments):
        monkeypatch.setattr(bench, "measure", lambda *_, **__: Measurements(rows, []))
        return CliRunner().invoke(cli.app, ["bench", *map(str, arguments)])

    return call


def test_the_command_prints_json_or_writes_a_file(run, tmp_path):
    assert json.loads(run([NUMBER], "--json").stdout) == asdict(Measurements([NUMBER], []))
    out = tmp_path / "results.md"
    assert run([NUMBER], "--out", out).stdout == f"{out}\n"
    assert "native ÷ torch" in out.read_text()


def test_the_command_ends_with_the_warning(run, tmp_path):
    assert run([BUSY]).output.splitlines()[-1].startswith("Warning: 1 of 1 rows")
    told = run([BUSY], "--out", tmp_path / "results.md")
    assert told.stderr.startswith("Warning: 1 of 1 rows")
    told = run([BUSY], "--json")
    assert json.loads(told.stdout)["rows"][0]["median"] is None
    assert told.stderr.startswith("Warning: 1 of 1 rows")


SHORT = Row("step, relu, T = 10", "native ÷ torch", 0.0471, 0.04, 0.123, 0.00234, 15)
LONG = Row("fit", "a ÷ b", 0.5, 0.4, 0.6, 2.345, 3)
UNMEASURED = Row("votes", "native ÷ torch", None, None, None, None, 2)


def test_the_report_has_every_number():
    text = report(Measurements([SHORT, LONG], []))
    assert "| step, relu, T = 10 | native ÷ torch | 0.047 | 0.040 – 0.12 | 2.34 ms |\n" in text
    assert "| fit | a ÷ b | 0.50 | 0.40 – 0.60 | 2.35 s |\n" in text
    assert "torch 2." in text
    assert "Skipped" not in text
    assert "Warning" not in text


def test_a_busy_row_has_no_number_and_the_last_line_warns():
    text = report(Measurements([SHORT, UNMEASURED], []))
    assert "| votes | native ÷ torch | busy | | |\n" in text
    assert text.splitlines()[-1].startswith("Warning: 1 of 2 rows have no number")


def test_what_was_skipped_is_listed():
    text = report(Measurements([SHORT], ["step, torchbnn: torchbnn is not installed"]))
    assert "- step, torchbnn: torchbnn is not installed\n" in text


def test_the_rule_of_the_text_is_the_rule_of_the_code():
    assert report(Measurements([], [])).count("80 %") == 2
