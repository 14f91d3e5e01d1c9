"""Tables as they come: one table, whatever file or data frame it is in; and every refusal."""

import gzip
import math
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from pacbayes.data import DataError
from pacbayes.data.frame import Kind
from pacbayes.data.opening import open_text
from pacbayes.data.reading import read_frame

TEXT = "age,smoker,town,y\n41,yes,Ulm,sick\n,no,Bonn,well\n7.5,NA,?,well\n-1e3,no,Ulm,sick\n"
FRAME = {
    "age": [41.0, None, 7.5, -1e3],
    "smoker": [True, False, None, False],
    "town": ["Ulm", "Bonn", None, "Ulm"],
    "y": ["sick", "well", "well", "sick"],
}


def write(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def cells(column):
    if column.kind is Kind.NUMBER:
        return [None if math.isnan(v) else v for v in column.values.tolist()]
    return [None if v < 0 else column.categories[v] for v in column.values.tolist()]


def test_columns_are_numbers_truth_values_or_categories_with_missing_values(tmp_path):
    frame = read_frame(write(tmp_path, TEXT))
    assert frame.kinds == {"age": Kind.NUMBER, "smoker": Kind.BOOLEAN, "town": Kind.CATEGORY}
    assert [cells(column) for column in frame.columns] == [
        [41, None, 7.5, -1000],
        ["true", "false", None, "false"],
        ["Ulm", "Bonn", None, "Ulm"],
    ]
    assert frame.columns[0].values.dtype == np.float32
    assert cells(frame.label) == ["sick", "well", "well", "sick"]
    assert frame.label.name == "y"


def sources(tmp_path):
    quoted = "\r\n".join(
        ",".join(f'"{c}"' for c in row.split(",")) for row in TEXT.strip().split("\n")
    )
    table = pa.table(FRAME)
    parquet.write_table(table, tmp_path / "a.parquet")
    parquet.write_table(table, tmp_path / "one.pq", row_group_size=1, compression="gzip")
    pandas = pd.DataFrame(FRAME)
    return {
        "comma": write(tmp_path, TEXT),
        "semicolon": write(tmp_path, TEXT.replace(",", ";"), "b.csv"),
        "tab": write(tmp_path, TEXT.replace(",", "\t"), "c.tsv"),
        "gzip": write(tmp_path, gzip.compress(TEXT.encode()), "d.csv.gz"),
        "byte-order mark": write(tmp_path, b"\xef\xbb\xbf" + TEXT.encode(), "e.csv"),
        "quoted": write(tmp_path, quoted, "f.csv"),
        "spaces and empty lines": write(
            tmp_path, "\n" + TEXT.replace(",", " , ").replace("\n", "\n\n"), "g.csv"
        ),
        "old Macintosh": write(tmp_path, TEXT.replace("\n", "\r"), "h.csv"),
        "other cases": write(tmp_path, TEXT.replace("yes", "YES").replace("no", "No"), "i.csv"),
        "true and false": write(
            tmp_path, TEXT.replace("yes", "True").replace("no", "False"), "j.csv"
        ),
        "parquet": tmp_path / "a.parquet",
        "parquet in pieces": str(tmp_path / "one.pq"),
        "arrow": table,
        "polars": pl.DataFrame(FRAME),
        "polars, categorical": pl.DataFrame(FRAME).with_columns(
            pl.col("town").cast(pl.Categorical)
        ),
        "pandas": pandas,
        "pandas, index": pandas.set_index(pd.Index([3, 1, 2, 9], name="id")),
        "pandas, categorical": pandas.astype({"town": "category"}),
        "float32": pa.table({**FRAME, "age": pa.array(FRAME["age"], pa.float32())}),
    }


def test_one_table_has_one_hash_in_any_file(tmp_path):
    hashes = {name: read_frame(source).sha256 for name, source in sources(tmp_path).items()}
    assert hashes == dict.fromkeys(hashes, hashes["comma"])


@pytest.mark.parametrize(
    ("old", "new"),
    [("41", "42"), ("age", "Age"), (",no,", ",yes,"), ("Bonn", "Ulm"), ("7.5,NA", ",NA"),
     ("Ulm,sick\n,", "Ulm,well\n,")],
)  # fmt: skip
def test_the_hash_sees_every_change(tmp_path, old, new):
    assert old in TEXT
    other = read_frame(write(tmp_path, TEXT.replace(old, new, 1), "other.csv"))
    assert other.sha256 != read_frame(write(tmp_path, TEXT)).sha256


names = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=5)
words = names.filter(lambda w: not any(c.isdigit() for c in w)).map(lambda w: f"w{w}")
floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(
    st.lists(st.tuples(floats, st.none() | words, words), min_size=1, max_size=8),
    st.sampled_from(",;\t"),
)
def test_a_table_survives_csv_and_parquet(tmp_path_factory, rows, separator):
    folder = tmp_path_factory.mktemp("round")
    numbers, texts, labels = (list(part) for part in zip(*rows, strict=True))
    table = pl.DataFrame(
        {"u": numbers, "v": texts, "y": labels},
        {"u": pl.Float64, "v": pl.String, "y": pl.String},
    )
    table.write_csv(folder / "a.csv", separator=separator)
    table.write_parquet(folder / "a.parquet")
    if all(text is None for text in texts):
        with pytest.raises(DataError, match="'v' has no value at all"):
            read_frame(folder / "a.csv")
        return
    frame = read_frame(folder / "a.csv")
    assert frame.sha256 == read_frame(folder / "a.parquet").sha256 == read_frame(table).sha256
    assert cells(frame.columns[0]) == numbers
    assert cells(frame.columns[1]) == texts
    assert cells(frame.label) == labels


HARD = [
    "9007199254740993", "1.00000017881393432617187499",
    "1.00000017881393421514957253748434595763683319091796875001",
    "2.2250738585072011e-308", "5e-324", "1e-400", "-0", "+1", ".5", "1.", "1E5", "1e+05",
    "0.1", "123456789012345678901234567890", "16777217", "3.4028235e38", "1.17549435e-38", "1e-45",
    "7.0064923216240853546186479164495e-46", "7.0064923216240853546186479164496e-46",
]  # fmt: skip


def test_hard_numbers_are_rounded_as_python_does(tmp_path):
    path = write(tmp_path, "u,y\n" + "".join(f"{text},a\n" for text in HARD))
    want = np.array([float(text) for text in HARD]).astype(np.float32)
    assert read_frame(path).columns[0].values.tobytes() == want.tobytes()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_any_number_is_read_as_python_reads_it(tmp_path_factory, numbers):
    path = tmp_path_factory.mktemp("numbers") / "a.csv"
    path.write_text("u,y\n" + "".join(f"{x!r},a\n" for x in numbers))
    with np.errstate(over="ignore"):
        want = np.array(numbers).astype(np.float32)
    if np.isfinite(want).all():
        assert read_frame(path).columns[0].values.tobytes() == want.tobytes()
    else:
        with pytest.raises(DataError, match="not a finite float32 number"):
            read_frame(path)


def rows(*cells, y="a", header="u,v,y"):
    return header + "\n" + "".join(f"1,{cell},{y}\n" for cell in cells)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no examples; the file is empty"),
        ("\n\n", "no examples; the file is empty"),
        ("u,v,y\n", "a header but no examples"),
        ("u\n1\n", "only one column; fields must be separated by commas, semicolons or tabs"),
        (rows("2", "1_0"), "row 3, column 'v': '1_0' is not a number, but the column has numbers"),
        (rows("2", "１"), "row 3, column 'v': '１' is not a number, but the column has numbers"),
        (rows("2", "oops"), "'oops' is not a number.*; correct it, leave it empty, or make it cat"),
        (rows("red", "3"), "row 3, column 'v': '3' is a number, but the column begins with other"),
        (rows("", "?", "red", "3"), "row 5, column 'v': '3' is a number, but"),
        (rows("inf"), "row 2, column 'v': 'inf' is not a finite float32 number; correct it"),
        (rows("1", "", "-Infinity"), "row 4, column 'v': '-Infinity' is not a finite float32"),
        (rows("1e99"), "row 2, column 'v': '1e99' is not a finite float32 number"),
        (rows("2", "3,4"), "row 3: 4 columns, expected 3 as in the first row"),
        (rows("2") + "5,6\n", "row 3: 2 columns, expected 3 as in the first row"),
        (rows("2", header="u,u,y"), "two columns are named 'u'; rename one of them"),
        (rows("2", y=""), "row 2, column 'y': the label is missing"),
        (rows("2", y="NA"), "row 2, column 'y': the label is missing"),
        (rows("", "NA"), "column 'v' has no value at all; leave it out with --drop v"),
        (rows("1.5.2024", "2.5.2024"), "dates or times such as '1.5.2024', whose order is not kn"),
        (rows("2024-05-01", "2024-13-01"), "write them with the year first, .*, or leave the col"),
        (rows("12:30", "25:00"), "dates or times such as '25:00'"),
        (rows(*(f"id{i}" for i in range(30))), "'v' has a different text in every row.*--drop v"),
        (rows('"1,5"', '"2,5"'), r"column 'v' has decimal commas \('1,5'\); write numbers with a"),
        (rows("1", '"2,5"'), "row 3, column 'v': '2,5' has a decimal comma; write numbers with a"),
        ("5,red,a\n6,blue,b\n7,red,a\n", "the first row looks like an example, since 'red' occurs"),
        (b"u,v,y\n1,\xff,a\n", r"not a readable CSV file \(.*\); save it as UTF-8 text"),
        (b"u,v,y\n1,2\0,a\n", "it has NUL bytes.*; save it as UTF-8 text"),
        ("u,v,y\n1,2,a\n".encode("utf-16"), "it has NUL bytes.*; save it as UTF-8 text"),
        (gzip.compress(TEXT.encode(), mtime=0)[:-9], "not a readable CSV file"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_by_name(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_frame(write(tmp_path, text))


def test_kinds_that_cannot_be_used_are_refused_unless_dropped():
    base = {"u": [1, 2], "y": ["a", "b"]}
    for values, message in [
        ([[1], [2]], "column 'v' has values of type list<.*; give numbers or texts, or leave"),
        ([b"a", b"b"], "column 'v' has values of type binary"),
        ([float("inf"), 1.0], "row 1, column 'v': 'inf' is not a finite"),
    ]:
        table = pa.table({"v": values, **base})
        with pytest.raises(DataError, match=message):
            read_frame(table)
        assert read_frame(table, drop=["v"]).names == ("u",)
    dates = pa.table({"v": [date(2024, 1, 1), date(2024, 1, 2)], **base})
    with pytest.raises(DataError, match=r"column 'v' has dates or times \(date32"):
        read_frame(dates, kinds={"u": Kind.NUMBER, "v": Kind.NUMBER})
    with pytest.raises(DataError, match=r"need a path or a data frame .*, got ndarray"):
        read_frame(np.zeros((2, 2)))
    with pytest.raises(DataError, match=r"two columns are named|Duplicate column names"):
        read_frame(pd.DataFrame([[1, 2, 3]], columns=["u", "u", "y"]))
    with pytest.raises(DataError, match="a header but no examples"):
        read_frame(pl.DataFrame({"u": [], "y": []}))


def test_damaged_parquet_missing_files_and_folders_are_refused(tmp_path):
    with pytest.raises(DataError, match="not a readable Parquet file"):
        read_frame(write(tmp_path, "no parquet", "a.parquet"))
    parquet.write_table(pa.table(FRAME), tmp_path / "b.parquet")
    damaged = bytearray((tmp_path / "b.parquet").read_bytes())
    damaged[4:60] = b"\xff" * 56
    with pytest.raises(DataError, match="damaged"):
        read_frame(write(tmp_path, bytes(damaged), "c.parquet"))
    with pytest.raises(DataError, match="no such file"):
        read_frame(tmp_path / "none.csv")
    with pytest.raises(DataError, match="a folder, not a file"):
        read_frame(tmp_path)


def test_sizes_are_checked_before_memory_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("pacbayes.data.arrays._available_memory", lambda: 1e5)
    bomb = gzip.compress(b"u,v,y\n" + b"1,2,a\n" * 100_000)
    assert len(bomb) < 1e4
    with pytest.raises(DataError, match=r"its examples take .* GiB, more than half"):
        read_frame(write(tmp_path, bomb, "a.csv.gz"))
    parquet.write_table(pa.table({"u": np.zeros(100_000), "y": ["a"] * 100_000}), tmp_path / "a.pq")
    with pytest.raises(DataError, match=r"its examples take .* GiB, more than half"):
        read_frame(tmp_path / "a.pq")


def test_a_file_that_unpacks_to_too_much_is_not_unpacked_twice(tmp_path, monkeypatch):
    monkeypatch.setattr("pacbayes.data.arrays._available_memory", lambda: 1e5)
    monkeypatch.setattr("pacbayes.data.opening._dialect", None)
    bomb = gzip.compress(b"u,v,y\n" + b"1,2,a\n" * 100_000)
    with pytest.raises(DataError, match="more than half"):
        read_frame(write(tmp_path, bomb, "a.csv.gz"))


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("pacbayes.data.opening._LONGEST", 1 << 20)
    path = write(tmp_path, gzip.compress(b"u,v,y\n1,2," + b"a" * (1 << 22)), "a.csv.gz")
    with pytest.raises(DataError, match=r"not a readable CSV file .a line of"):
        read_frame(path)


def test_long_lines_and_many_chunks_are_read(tmp_path):
    wide = ",".join(["123.4567890" + "0" * 90] * 20_000)
    header = ",".join(f"x{i}" for i in range(20_000))
    frame = read_frame(write(tmp_path, f"{header},y\n{wide},a\n{wide},b\n"))
    assert (len(frame.columns), len(frame)) == (20_000, 2)
    long = "u,v,y\n" + "".join(f'{i},"w{i % 3},\n""{"é" * (i % 50)}",a\n' for i in range(60_000))
    frame = read_frame(write(tmp_path, long, "long.csv"))
    assert frame.columns[0].values.tolist() == list(range(60_000))
    assert cells(frame.columns[1])[59_999] == 'w2,\n"' + "é" * (59_999 % 50)


def test_values_that_come_late_decide_and_are_named(tmp_path):
    empty = "1,,a\n" * 300_000
    frame = read_frame(write(tmp_path, f"u,v,y\n{empty}1,red,a\n1,,a\n"))
    assert frame.columns[1].missing.sum() == 300_001
    assert cells(frame.columns[1])[-2] == "red"
    frame = read_frame(write(tmp_path, f"u,v,y\n{empty}1,2.5,a\n"))
    assert frame.columns[1].values[-1] == 2.5
    with pytest.raises(DataError, match="row 300003, column 'v': 'red' is not a number, but"):
        read_frame(write(tmp_path, f"u,v,y\n{empty}1,2.5,a\n1,red,a\n"))
    with pytest.raises(DataError, match="row 300003: 2 columns, expected 3"):
        read_frame(write(tmp_path, f"u,v,y\n{empty}1,2.5,a\n1,red\n"))


def test_columns_can_be_dropped_and_declared_categorical(tmp_path):
    path = write(tmp_path, "id,zip,u,y\n" + "".join(f"i{i},{i % 3},1,a\n" for i in range(30)))
    frame = read_frame(path, drop=["id"], categorical=["zip"])
    assert frame.kinds == {"zip": Kind.CATEGORY, "u": Kind.NUMBER}
    assert frame.columns[0].categories == ("0", "1", "2")
    with pytest.raises(DataError, match="no column 'idd'; did you mean 'id'"):
        read_frame(path, drop=["idd"])
    with pytest.raises(DataError, match="no column 'age'; the columns are id, zip, u, y"):
        read_frame(path, label="age")
    with pytest.raises(DataError, match="'y' has the labels and cannot be dropped"):
        read_frame(path, drop=["y"])
    with pytest.raises(DataError, match="no column is left"):
        read_frame(path, drop=["id", "zip", "u"])


def test_the_label_is_the_last_column_or_the_one_asked_for(tmp_path):
    path = write(tmp_path, "y,u\n1,2\n0,3\n")
    assert read_frame(path).label.name == "u"
    for label in ("y", "0"):
        frame = read_frame(path, label=label)
        assert cells(frame.label) == ["1", "0"]
        assert frame.names == ("u",)


def test_a_file_without_a_header_names_columns_by_position(tmp_path):
    frame = read_frame(write(tmp_path, "1,?,a\n2,3,b\n"))
    assert frame.headless
    assert frame.names == ("0", "1")
    later = read_frame(write(tmp_path, "5,6\n", "new.csv"), kinds=frame.kinds)
    assert later.label is None
    assert [cells(column) for column in later.columns] == [[5], [6]]
    labelled = read_frame(write(tmp_path, "5,6,a\n", "new.csv"), kinds=frame.kinds, label="2")
    assert cells(labelled.label) == ["a"]
    with pytest.raises(DataError, match="4 columns, but the training set has 2 features"):
        read_frame(write(tmp_path, "5,6,7,8\n", "new.csv"), kinds=frame.kinds)


def test_a_column_may_be_named_like_one_of_its_values(tmp_path):
    path = write(tmp_path, "age,sick,y\n5,sick,a\n6,well,b\n7,sick,a\n")
    assert read_frame(path).names == ("age", "sick")


def test_columns_without_a_name_can_be_dropped(tmp_path):
    path = write(tmp_path, ",u,y\n0,5,a\n1,6,b\n")
    assert read_frame(path, drop=["column 0"]).names == ("u",)


def test_later_tables_are_matched_by_name(tmp_path):
    kinds = read_frame(write(tmp_path, TEXT)).kinds
    permuted = write(tmp_path, "town,y,age,smoker\nKöln,well,3,yes\n", "new.csv")
    frame = read_frame(permuted, label="y", kinds=kinds)
    assert frame.names == ("age", "smoker", "town")
    assert [cells(column) for column in frame.columns] == [[3], ["yes"], ["Köln"]]
    assert cells(frame.label) == ["well"]
    unlabelled = write(tmp_path, "town,age,smoker\n12,3,yes\n", "new.csv")
    frame = read_frame(unlabelled, label="y", kinds=kinds)
    assert frame.label is None
    assert cells(frame.columns[2]) == ["12"]  # a category that looks like a number
    extra = write(tmp_path, "id,town,age,smoker,rank\n7,Ulm,3,yes,1\n", "new.csv")
    assert read_frame(extra, kinds=kinds).names == ("age", "smoker", "town")
    with pytest.raises(DataError, match="column 'smoker', 'town' of the training set is missing"):
        read_frame(write(tmp_path, "age,y\n1,well\n", "new.csv"), label="y", kinds=kinds)
    misspelt = write(tmp_path, "age,smokr,town\n1,yes,Ulm\n", "new.csv")
    with pytest.raises(
        DataError, match="'smoker' of the training set is missing; did you mean 'smok"
    ):
        read_frame(misspelt, kinds=kinds)
    text = write(tmp_path, "age,smoker,town\nold,yes,Ulm\n", "new.csv")
    with pytest.raises(DataError, match=r"'old' is not a number.*leave it empty$"):
        read_frame(text, kinds=kinds)
    hole = write(tmp_path, "age,smoker,town\n,,\n", "new.csv")
    assert [cells(c) for c in read_frame(hole, kinds=kinds).columns] == [[None]] * 3


def test_the_separator_is_the_one_that_fits_every_row(tmp_path):
    for text, separator in [
        ("a;b;y\n1,5;2;u\n", ";"),
        ("a,b;c,y\n1,2,u\n", ","),
        ("a\tb, c\ty\n1\t2\tu\n", "\t"),
        ('"a;b",c\n1,2\n', ","),
    ]:
        assert open_text(write(tmp_path, text)).separator == separator
