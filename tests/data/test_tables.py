"""Tables before and after features are computed: one hash, copies, and refusals."""

import gzip
import hashlib
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from pacbayes.data import DataError, DataSource, Tables, dataset, load, source, splitting
from pacbayes.data.frame import Kind


def mixed(n=120):
    rng = np.random.default_rng(0)
    lines = ["id,age,smoker,town,y"]
    for i in range(n):
        age = "" if i % 9 == 4 else f"{rng.normal(50, 9):.3f}"
        town = ["Ulm", "Bonn", "NA", "Köln"][rng.integers(4)]
        lines.append(f"p{i},{age},{'yes' if i % 2 else 'no'},{town},{'ab'[i % 3 == 0]}")
    return "\n".join(lines) + "\n"


def write(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_tables_of_numbers_have_the_hash_they_always_had(tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    y = np.arange(20) % 2
    rows = [",".join(map(repr, row.tolist())) + f",{'ab'[k]}" for row, k in zip(x, y, strict=True)]
    want = hashlib.sha256(x.tobytes() + y.astype("<i8").tobytes()).hexdigest()
    for header in ([], ["u,v,w,y"]):
        source = DataSource(write(tmp_path, "\n".join([*header, *rows])))
        assert source.read().train_sha256 == source.load().train_sha256 == want
        assert source.read().fitted(range(10)).train_sha256 == want
        assert source.load().x_train.tobytes() == x.tobytes()


def test_a_table_is_the_same_in_any_file(tmp_path):
    text = mixed()
    columns = [line.split(",") for line in text.splitlines()]
    names, cells = columns[0], list(zip(*columns[1:], strict=True))
    arrow = pa.table(dict(zip(names, map(list, cells), strict=True)))
    parquet.write_table(arrow, tmp_path / "a.parquet")
    files = {
        "a.csv": text,
        "b.tsv": text.replace(",", "\t"),
        "c.csv": text.replace(",", ";"),
        "d.csv.gz": gzip.compress(text.encode()),
        "e.TSV.GZ": gzip.compress(text.replace(",", "\t").encode()),
    }
    paths = [write(tmp_path, content, name) for name, content in files.items()]
    read = [DataSource(path, drop=("id",)).read() for path in (*paths, tmp_path / "a.parquet")]
    assert {tables.train_sha256 for tables in read} == {read[0].train_sha256}
    assert read[0].train.kinds == {
        "age": Kind.NUMBER, "smoker": Kind.BOOLEAN, "town": Kind.CATEGORY
    }  # fmt: skip
    assert read[0].classes == ("a", "b")


def test_features_are_fitted_to_some_rows_alone(tmp_path):
    tables = DataSource(write(tmp_path, mixed()), drop=("id",)).read()
    assert isinstance(tables, Tables)
    data = tables.fitted(range(60))
    names = ("age", "age is missing", "smoker", "town=Bonn", "town=Köln", "town=Ulm")
    assert data.names == (*names, "town is missing")
    assert data.x_train.shape == (120, 7)
    ages = data.x_train[:60, 0].astype(float)
    assert abs(ages.mean()) < 1e-6
    assert abs(ages.std() - 1) < 1e-6
    assert data.train_sha256 == tables.train_sha256 != data.rows.take(range(119)).sha256
    with pytest.raises(DataError, match=r"data\.csv: column 'age' has missing values, whose"):
        tables.plain()


def test_test_examples_are_encoded_alike_whatever_the_order_of_columns(tmp_path):
    train = write(tmp_path, mixed())
    test = write(tmp_path, "town,y,smoker,age\nUlm,a,yes,50\nRome,b,,\n", "test.csv")
    tables = DataSource(train, test=test, drop=("id",)).read()
    data = tables.fitted(range(100))
    assert data.y_test.tolist() == [0, 1]
    assert data.x_test[:, 1:].tolist() == [[0, 1, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0]]


def test_copies_are_found_among_rows_as_they_are(tmp_path):
    rows = mixed().splitlines()
    path = write(tmp_path, "\n".join([*rows, *rows[3:6]]))
    assert len(DataSource(path).read()) == 123
    once = DataSource(path, deduplicate=True).read()
    assert len(once) == len(once.y_train) == 120
    raw = once.train.as_numbers()
    assert np.isfinite(raw).all()
    assert len(np.unique(raw, axis=0)) == 120


def test_a_table_with_missing_numbers_is_hashed_by_cell(tmp_path):
    path = write(tmp_path, "u,v,y\n" + "1,,a\n3,5,b\n" * 5)
    tables = DataSource(path).read()
    assert tables.train.numbers is not None
    assert tables.train_sha256 == tables.train.sha256


def test_a_missing_number_is_not_its_mean(tmp_path):
    path = write(tmp_path, "u,v,y\n" + "1,5,a\n3,5,a\n2,5,a\n,5,a\n" + "0,8,b\n4,8,b\n" * 4)
    raw = DataSource(path).read().train.as_numbers()
    assert raw[3].tolist() != raw[2].tolist()


def test_columns_that_are_dropped_or_declared_are_recorded(tmp_path):
    text = mixed().replace("Ulm", "7").replace("Bonn", "8").replace("Köln", "9")
    path = write(tmp_path, text)
    source = DataSource(path, drop=("id", "age"), categorical=("town",))
    assert source.read().train.kinds == {"smoker": Kind.BOOLEAN, "town": Kind.CATEGORY}
    assert str(source) == f"{path}, drop id, age, categorical town"
    with pytest.raises(DataError, match="no column 'idd'; did you mean 'id'"):
        DataSource(path, drop=("idd",)).read()
    with pytest.raises(DataError, match=r"'id' has a different text in every row.*--drop id"):
        DataSource(path).read()


def test_arrays_and_tables_can_test_each_other(tmp_path):
    x, y = np.arange(20.0).reshape(10, 2), np.arange(10) % 2
    np.savez(tmp_path / "a.npz", x=x, y=y)
    table = write(tmp_path, "u,v,y\n" + "".join(f"{i},{i + 1},{i % 2}\n" for i in range(10)))
    data = load(str(tmp_path / "a.npz"), test=table)
    assert data.x_test[3].tolist() == [3, 4]
    data = load(table, test=tmp_path / "a.npz")
    assert (data.x_test[3].tolist(), data.y_test.tolist()) == ([6, 7], y.tolist())


def test_plain_columns_are_not_filled_in(tmp_path):
    train = write(tmp_path, "u,v,y\n" + "".join(f"{i},yes,{i % 2}\n" for i in range(10)))
    test = write(tmp_path, "u,v,y\n1,no,0\n2,,1\n", "test.csv")
    with pytest.raises(DataError, match=r"example 1 .*: column 'v' is missing, which it never was"):
        load(train, test=test)


def test_a_table_of_numbers_of_which_one_is_missing_has_the_hash_of_its_cells(tmp_path):
    rows = "".join(f"{i},{i % 7},{'ab'[i % 2]}\n" for i in range(60))
    whole, lacking = (
        DataSource(write(tmp_path, f"u,v,y\n{first}\n{rows}", f"{i}.csv")).read()
        for i, first in enumerate(("1.5,2,a", "1.5,,a"))
    )
    assert whole.train_sha256 != whole.train.sha256
    assert lacking.train_sha256 == lacking.train.sha256


def test_the_hash_the_split_and_the_check_are_made_once(tmp_path, monkeypatch):
    made = Counter()

    def counted(module, name):
        function = getattr(module, name)

        def call(*args, **kwargs):
            made[name] += 1
            return function(*args, **kwargs)

        monkeypatch.setattr(module, name, call)

    counted(splitting, "split")
    counted(source, "rows_sha256")
    counted(dataset, "rows_sha256")
    counted(dataset, "check_sample")
    tables = DataSource(write(tmp_path, mixed()), drop=("id",)).read()
    before, own = tables.train_sha256, tables.split(0.5, 1)[0]
    data = tables.fitted(own)
    for _ in range(2):
        assert data.train_sha256 == before
        assert data.split(0.5, 1)[0] is own
        assert data.remarks(0.5, 1, repeats=True) == []
    assert made == {"split": 1, "rows_sha256": 1, "check_sample": 1}
    assert not np.array_equal(data.split(0.5, 2)[0], own)
    fewer = data.deduplicated()
    assert fewer.train_sha256 == before  # nothing repeats, but it was computed again
    assert made["rows_sha256"] == 2
