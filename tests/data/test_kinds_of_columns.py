"""What kinds of columns a network takes, a model takes too, from files and in memory."""

from datetime import date, datetime, time, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from pacbayes import folders
from pacbayes.data import DataError, read_frame
from pacbayes.data.cells import days_of
from pacbayes.data.encoding import DateCode, Encoding, fit_encoding, plain_encoding
from pacbayes.data.frame import Kind
from pacbayes.data.layout import table_of
from pacbayes.data.preprocessing import TableEncoder
from pacbayes.data.refitting import features, plain, refit

N = 120
RNG = np.random.default_rng(0)
PLACE = RNG.integers(0, 3, N)
GAPS = RNG.random(N) < 0.1
DAYS = pd.to_datetime("2020-01-01") + pd.to_timedelta(RNG.integers(0, 999, N), unit="D")


def chosen(*values):
    return np.array([*values], object)[PLACE]


TAKEN = {
    "numbers": RNG.normal(size=N).round(3),
    "numbers with gaps": np.where(GAPS, np.nan, RNG.normal(size=N).round(3)),
    "whole numbers": RNG.integers(0, 9, N),
    "whole numbers with gaps": pd.array(np.where(GAPS, None, PLACE), "Int64"),
    "decimals": chosen(Decimal("1.5"), Decimal("2.25"), Decimal("-3.0")),
    "truth values": PLACE > 0,
    "truth values with gaps": pd.array(np.where(GAPS, None, PLACE > 0), "boolean"),
    "yes and no": chosen("yes", "no", "yes"),
    "texts": chosen("red", "green", "blue"),
    "texts with gaps": chosen("red", None, "blue"),
    "categories": pd.Categorical(chosen("red", "green", "blue")),
    "dates": DAYS,
    "dates with gaps": DAYS.where(~GAPS),
    "dates with a zone": DAYS.tz_localize("Europe/Berlin"),
    "dates as objects": chosen(date(2020, 1, 1), date(2021, 2, 3), None),
    "times of day": chosen(time(12), time(6, 30), time(23, 59, 1)),
    "durations": pd.to_timedelta(PLACE * 36, unit="h"),
}
REFUSED = {
    "complex numbers": PLACE + 1j,
    "lists": np.array([[1, 2]] * N + [[]], object)[:-1],
}


def frame(values):
    kind = np.where(RNG.random(N) < 0.5, "good", "bad")
    return pd.DataFrame({"x": values, "other": RNG.normal(size=N), "kind": kind})


def as_features(source):
    """What a network is given: fitted to half of the rows."""
    rows = read_frame(source, label="kind")
    return fit_encoding(rows, range(0, N, 2)).apply(rows)


def as_table(source):
    """What a model of `train --model` is given."""
    return TableEncoder().fit_transform(table_of(read_frame(source, label="kind", dtype=float)))


def as_they_come(source):
    return TableEncoder().fit_transform(source[["x", "other"]])


WAYS = (as_features, as_table, as_they_come)


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("way", WAYS)
def test_networks_and_models_take_the_same_kinds(way, name):
    table = frame(TAKEN[name])
    found = way(table)
    assert len(found) == N
    assert (found[:, 0] != found[0, 0]).any()  # the column counts


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("way", WAYS)
def test_networks_and_models_refuse_the_same_kinds(way, name):
    with pytest.raises((ValueError, TypeError)):
        way(frame(REFUSED[name]))


@pytest.mark.parametrize("name", [name for name in TAKEN if name != "durations"])
@pytest.mark.parametrize("way", [as_features, as_table])
def test_a_file_has_the_values_of_the_frame_that_was_written(way, name, tmp_path):
    """Durations are not written to CSV files in a way that is read back."""
    table = frame(TAKEN[name])
    table.to_csv(tmp_path / "a.csv", index=False)
    table.to_parquet(tmp_path / "a.parquet")
    for file in ("a.csv", "a.parquet"):
        np.testing.assert_array_equal(way(tmp_path / file), way(table))


MOMENTS = (datetime(1850, 2, 3, 4, 5, 6, 789), datetime(1970, 1, 1), datetime(2199, 12, 31, 23, 59))


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M:%S.%f", "%Y/%m/%dT%H:%M:%S.%fZ"])
def test_dates_are_the_days_that_the_calendar_counts(moment, form):
    text = moment.strftime(form)
    expected = moment.replace(tzinfo=timezone.utc).timestamp() / 86_400
    assert days_of(text) == pytest.approx(expected, abs=1e-9)
    column = read_frame(
        frame(pd.Series([moment] * N).astype("datetime64[us]")), dtype=float
    ).columns[0]
    assert (column.kind, column.values[0]) == (Kind.DATE, days_of(text))


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("2020-2-1", 18293.0),
        ("2020-02-01 06:00+02:00", 18293 + 4 / 24),
        ("2020-02-01 23:00 -0330", 18294 + 2.5 / 24),
        ("18:00", 0.75),
        ("1/2/2020", None),
        ("2020-02-30", None),
        ("2020-02-01 25:00", None),
        ("soon", None),
    ],
)
def test_dates_begin_with_their_year(text, days):
    assert days_of(text) == days


@pytest.mark.parametrize("odd", ["01/02/2020", "2020-02-30"])
def test_dates_that_cannot_be_told_are_refused(odd, tmp_path):
    frame([odd] * N).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match=f"such as '{odd}', whose order is not known"):
        read_frame(tmp_path / "a.csv")


def test_a_first_row_that_is_an_example_with_a_date_is_refused(tmp_path):
    frame(DAYS).to_csv(tmp_path / "a.csv", index=False, header=False)
    with pytest.raises(DataError, match="the first row looks like an example"):
        read_frame(tmp_path / "a.csv")


def test_columns_of_numbers_may_have_dates_for_names(tmp_path):
    text = "2020-01-01,2020-01-02,kind\n" + "1.5,2,a\n2.5,3,b\n" * 4
    (tmp_path / "a.csv").write_text(text)
    assert read_frame(tmp_path / "a.csv").names == ("2020-01-01", "2020-01-02")


def test_dates_are_standardised_and_the_verifier_finds_the_same():
    rows = read_frame(frame(TAKEN["dates with gaps"]), label="kind")
    for encoding, codes in (
        (fit_encoding(rows, range(0, N, 2)), refit(rows, range(0, N, 2))),
        (plain_encoding(read_frame(frame(DAYS), label="kind")), plain(rows)),
    ):
        assert isinstance(encoding.columns[0], DateCode)
        assert Encoding.model_validate_json(encoding.model_dump_json()) == encoding
        assert [code.model_dump() for code in encoding.columns] == codes
    encoding = fit_encoding(rows, range(0, N, 2))
    np.testing.assert_array_equal(encoding.apply(rows), features(rows, refit(rows, range(0, N, 2))))


def test_a_network_of_dates_is_certified_verified_and_exported(tmp_path, run_cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = frame(DAYS)
    table["kind"] = np.where(pd.Timestamp("2021-05-01") < DAYS, "late", "early")
    table.to_csv("a.csv", index=False)
    options = ("--epochs", "3", "--prior-epochs", "5", "--repeats")
    assert run_cli("train", "--dataset", "a.csv", "--out", "run", *options)[0] == 0
    for command in ("certify", "verify", "report"):
        assert run_cli(command, "run")[0] == 0
    assert run_cli("verify", "run", "--full")[0] == 0
    assert run_cli("export", "run", "--format", "onnx", "--out", "a.onnx")[0] == 0
    run = folders.open_run(tmp_path / "run")
    assert run.encoding.kinds == {"x": Kind.DATE, "other": Kind.NUMBER}
