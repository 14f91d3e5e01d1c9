"""CSV files: header, label column, and the exact place of every bad cell."""

import csv
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbayes.data import DataError, read_table


def write(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_csv_with_and_without_header(tmp_path):
    plain = read_table(write(tmp_path, "1,2,a\n3,4.5,b\n"))
    headed = read_table(write(tmp_path, "u,v,class\n1,2,a\n3,4.5,b\n"))
    for table in (plain, headed):
        assert table.x.tolist() == [[1, 2], [3, 4.5]]
        assert table.x.dtype == np.float32
        assert table.labels.tolist() == ["a", "b"]


@pytest.mark.parametrize("label", ["class", "0"])
def test_csv_label_by_name_or_position(tmp_path, label):
    table = read_table(write(tmp_path, "class,u,v\nx,1,2\ny,3,4\n"), label)
    assert table.labels.tolist() == ["x", "y"]
    assert table.x.tolist() == [[1, 2], [3, 4]]


def test_a_numeric_header_is_one_where_the_label_is_named_in_it(tmp_path):
    table = read_table(write(tmp_path, "0,1,y\n5,6,a\n7,8,a\n"), "y")
    assert table.x.tolist() == [[5, 6], [7, 8]]


def test_a_header_is_one_even_where_some_names_are_numbers(tmp_path):
    assert read_table(write(tmp_path, "0,width,y\n5,6,a\n7,8,b\n")).x.tolist() == [[5, 6], [7, 8]]


def test_csv_of_just_the_features(tmp_path):
    table = read_table(write(tmp_path, "u,v\n1,2\n3,4\n"), width=2)
    assert table.labels is None
    assert table.x.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no examples"),
        ("u,v,class\n", "a header but no examples"),
        ("1,2,a\n3,nan,b\n", "row 2, column 1: 'nan' is not a finite float32 number"),
        ("1,2,a\n3,inf,b\n", "row 2, column 1: 'inf' is not a finite float32 number"),
        ("1,2,a\n3,1e99,b\n", "row 2, column 1: '1e99' is not a finite float32 number"),
        ("1,2,a\n3,b\n", "row 2: 2 columns, expected 3"),
        ("1,,a\n3,4,b\n", "row 1, column 1: a value is missing"),
        (
            "1,2,a\n3,?,b\n",
            r"row 2, column 1: '\?' is not a number; .*if these are the labels, name",
        ),
        ("1,2,a\n3,4,\n", "row 2, column 2: the label is missing"),
        ("u,v,class\n1,2,a\n3,4, \n", "row 3, column 'class': the label is missing"),
        ("a\nb\n", "separated by commas"),
    ],
)
def test_bad_csv_is_refused_and_the_place_named(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_table(write(tmp_path, text))


def test_features_keep_the_names_of_a_header(tmp_path):
    assert read_table(write(tmp_path, "u,class, v\n1,a,2\n"), "class").names == ("u", "v")
    assert read_table(write(tmp_path, "1,2,a\n")).names is None
    with pytest.raises(DataError, match=r"row 2, column 'v': '\?' is not a number"):
        read_table(write(tmp_path, "u,v,class\n1,?,a\n"))


def test_a_label_column_that_is_not_there_gets_a_suggestion(tmp_path):
    with pytest.raises(DataError, match="no column 'clas'; did you mean 'class'"):
        read_table(write(tmp_path, "u,v,class\n1,2,a\n"), "clas")


def test_the_label_column_of_training_is_taken_where_it_is_and_not_missed_where_not(tmp_path):
    def read(text, usual):
        return read_table(write(tmp_path, text), width=2, usual=usual)

    assert read("y,u,v\na,1,2\n", "y").labels.tolist() == ["a"]
    assert read("u,v\n1,2\n", "y").labels is None
    assert read("a,1,2\n", "0").labels.tolist() == ["a"]
    assert read("1,2\n", "0").labels is None


def test_spaces_around_names_do_not_count(tmp_path):
    table = read_table(write(tmp_path, "y, u ,v\na,1,2\nb,3,4\n"), " y".strip())
    assert table.names == ("u", "v")
    assert read_table(write(tmp_path, "u, y\n1,a\n2,b\n"), "y").labels.tolist() == ["a", "b"]


def test_the_first_bad_row_is_named_whatever_is_wrong_with_later_ones(tmp_path):
    with pytest.raises(DataError, match="row 2, column 0: 'nan' is not a finite float32 number"):
        read_table(write(tmp_path, "1,2,a\nnan,2,b\n3,?,a\n4,a\n"))
    with pytest.raises(DataError, match=r"row 3, column 'v': '\?' is not a number"):
        read_table(write(tmp_path, "u,v,y\n1,2,a\nnan,?,b\n"))


def test_no_label_column_is_suggested_where_one_was_named(tmp_path):
    with pytest.raises(DataError, match=r"'\?' is not a number; .* as they are$"):
        read_table(write(tmp_path, "u,v,y\n3,?,b\n"), label="y")


numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
styles = st.sampled_from(["{!r}", " {!r} ", "{:.9e}", "{:+.12g}", '"{!r}"', "{:.40f}"])


@given(
    st.lists(st.tuples(numbers, numbers, styles, styles), min_size=1, max_size=9),
    st.booleans(),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
)
def test_any_file_of_numbers_is_read_as_by_the_csv_module(tmp_path_factory, rows, header, end):
    path = tmp_path_factory.mktemp("any") / "a.csv"
    lines = ["u,v,y"] * header + [f"{s.format(u)},{t.format(v)},c" for u, v, s, t in rows]
    path.write_text(end.join(lines), newline="")
    with path.open(newline="") as file:
        read = [row for row in csv.reader(file) if row][header:]
    want = np.array([[float(cell) for cell in row[:2]] for row in read]).astype(np.float32)
    table = read_table(path)
    assert table.x.tobytes() == want.tobytes()
    assert table.x.flags.c_contiguous
    assert table.labels.tolist() == ["c"] * len(rows)


@pytest.mark.parametrize("cell", ["1_0", "１", "1e", "0x10", "nan(1)"])
def test_numbers_are_plain(tmp_path, cell):
    path = tmp_path / "a.csv"
    path.write_text(f"u,v,y\n1,2,a\n1,{cell},a\n", encoding="utf-8")
    with pytest.raises(DataError, match=rf"row 3, column 'v': {re.escape(repr(cell))} is not a"):
        read_table(path)


def test_labels_that_mean_missing_elsewhere_are_classes(tmp_path):
    assert read_table(write(tmp_path, "1,2,NA\n3,4,EU\n")).labels.tolist() == ["NA", "EU"]


def test_semicolons_and_tabs_separate_too(tmp_path):
    for separator in ";\t":
        text = "u,v,y\n1,2.5,a\n3,4,b\n".replace(",", separator)
        table = read_table(write(tmp_path, text))
        assert table.x.tolist() == [[1, 2.5], [3, 4]]
        assert table.names == ("u", "v")
