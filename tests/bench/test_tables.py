"""The report has every number, and says busy where there is none."""

from pacbayes.bench.contests import Measurements
from pacbayes.bench.tables import report
from pacbayes.bench.turns import Row

NUMBER = Row("step, relu, T = 10", "native ÷ torch", 0.0471, 0.04, 0.123, 0.00234, 15)
LONG = Row("fit", "a ÷ b", 0.5, 0.4, 0.6, 2.345, 3)
BUSY = Row("votes", "native ÷ torch", None, None, None, None, 2)


def test_the_report_has_every_number():
    text = report(Measurements([NUMBER, LONG], []))
    assert "| step, relu, T = 10 | native ÷ torch | 0.047 | 0.040 – 0.12 | 2.34 ms |\n" in text
    assert "| fit | a ÷ b | 0.50 | 0.40 – 0.60 | 2.35 s |\n" in text
    assert "torch 2." in text
    assert "Skipped" not in text
    assert "Warning" not in text


def test_a_busy_row_has_no_number_and_the_last_line_warns():
    text = report(Measurements([NUMBER, BUSY], []))
    assert "| votes | native ÷ torch | busy | | |\n" in text
    assert text.splitlines()[-1].startswith("Warning: 1 of 2 rows have no number")


def test_what_was_skipped_is_listed():
    text = report(Measurements([NUMBER], ["step, torchbnn: torchbnn is not installed"]))
    assert "- step, torchbnn: torchbnn is not installed\n" in text


def test_the_rule_of_the_text_is_the_rule_of_the_code():
    assert report(Measurements([], [])).count("80 %") == 2
