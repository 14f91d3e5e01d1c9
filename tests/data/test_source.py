"""Where data come from: names, files, arguments that go together, and fall-backs."""

from pathlib import Path

import numpy as np
import pytest

from pacbayes.data import DataError, DataSource, load, load_with_fallback


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("".join(f"{i},{i * i},{'dog' if i % 2 else 'cat'}\n" for i in range(10)))
    return str(path)


def test_own_files_with_a_test_part(tmp_path):
    train, test = tmp_path / "a.csv", tmp_path / "b.csv"
    train.write_text("".join(f"{i},{i * i},{'dog' if i % 2 else 'cat'}\n" for i in range(10)))
    test.write_text("1,1,dog\n2,4,cat\n")
    data = load(str(train), test=test)
    assert data.classes == ("cat", "dog")
    assert data.signs("test").tolist() == [1.0, -1.0]
    test.write_text("1,1,cow\n")
    with pytest.raises(DataError, match="'cow' is not among cat, dog"):
        load(str(train), test=test)
    test.write_text("1,dog\n2,cat\n")
    with pytest.raises(DataError, match="'cat' is not a number, but the column has numbers"):
        load(str(train), test=test)
    test.write_text("1,2,3,dog\n")
    with pytest.raises(DataError, match=r"4 columns, but the training set has 2 features \(0, 1\)"):
        load(str(train), test=test)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"] * 9, r"have 1 different values \(a\), but 2 to 100 classes"),
        ([*range(101)] * 2, r"have 101 different values \(0, 1, 10, 100, 11…\), but 2 to 100"),
    ],
)
def test_labels_that_are_no_classes_are_refused(tmp_path, labels, message):
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{i},{label}\n" for i, label in enumerate(labels)))
    with pytest.raises(DataError, match=message):
        load(str(path))


def test_too_few_examples_no_labels_and_unknown_names(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1,a\n2,b\n3,a\n")
    with pytest.raises(DataError, match="has 3 training examples; at least 8 are needed"):
        load(str(path))
    np.savez(tmp_path / "a.npz", x=np.zeros((9, 2)))
    with pytest.raises(DataError, match="no labels"):
        load(str(tmp_path / "a.npz"))
    with pytest.raises(DataError, match="no data set 'mnst'; did you mean 'mnist'"):
        load("mnst")
    with pytest.raises(DataError, match="no data set 'wine'; give one of binary-mnist"):
        load("wine")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (DataSource("mnst"), "no data set 'mnst'; did you mean 'mnist'"),
        (DataSource("mnist", test="t.csv"), "test=, is for your own file, not for mnist"),
        (DataSource("mnist", label="y"), "label=, is for a table .*, not for mnist"),
        (DataSource("a.npz", label="y"), "label=, is for a table .*, not for a.npz"),
        (DataSource("a.npz", drop=("u",)), "--drop, or drop=, is for a table .*, not for a.npz"),
        (DataSource("digits", categorical=("u",)), "--categorical, .* not for digits; leave"),
        (DataSource("a.npz", group="u"), "--group, or group=, is for a table .*, not for a.npz"),
        (DataSource("digits", folder="f"), "--data-folder.* not for digits; leave it out"),
        (DataSource("ten-digits", folder="f"), "--data-folder.* not for ten-digits; leave it out"),
        (DataSource("a.csv", folder="f"), "--data-folder.* not for a.csv; leave it out"),
    ],
)
def test_arguments_without_effect_are_refused(source, message):
    with pytest.raises(DataError, match=message):
        source.check()
    with pytest.raises(DataError, match=message):
        load_with_fallback(source, DataSource("digits"))


@pytest.mark.parametrize(
    "source",
    [
        DataSource("ten-digits"),
        DataSource("binary-fashion-mnist", folder="f"),
        DataSource("a.csv", test="b.csv", label="y"),
        DataSource("a.npz", test="b.npz"),
        DataSource("a.csv.gz", label="y", drop=("id",), categorical=("zip",), group="patient"),
        DataSource("A.PARQUET", label="y"),
    ],
)
def test_arguments_that_go_together_are_accepted(source):
    source.check()


def test_a_recorded_source_loads_even_if_it_would_be_refused_today():
    assert DataSource("ten-digits", folder="f").load().name == "ten-digits"


def test_paths_are_recorded_as_seen_from_the_run_and_found_from_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = DataSource("a.csv", test="b.csv", label="y")
    seen = source.seen_from(Path("runs/one"))
    assert seen == DataSource("../../a.csv", None, "../../b.csv", "y")
    moved = tmp_path / "elsewhere" / "one"  # with the data two folders above it
    assert seen.located(moved).name == str(tmp_path / "a.csv")
    named = DataSource("mnist", folder="f")
    assert named.seen_from(Path("run")) == DataSource("mnist", "../f")
    absolute = DataSource(str(tmp_path / "a.csv"))  # as earlier versions recorded it
    assert absolute.located(Path("anywhere")) == absolute


def test_files_that_moved_are_named_and_other_data_have_none(tmp_path):
    own = DataSource("a.csv", test="b.csv")
    assert own.moved(Path("c.csv"), None) == DataSource("c.csv", test="b.csv")
    assert own.moved(None, Path("d.csv")) == DataSource("a.csv", test="d.csv")
    for source, file, test in (("digits", "c.csv", None), ("a.csv", None, "d.csv")):
        with pytest.raises(DataError, match=r"\.csv has no effect"):
            DataSource(source).moved(file and Path(file), test and Path(test))


def test_repeated_training_examples_can_be_removed(tmp_path):
    x = np.arange(20, dtype=np.float32).reshape(10, 2)
    y = np.arange(10) % 2
    np.savez(tmp_path / "a.npz", x=x[[*range(10), 3, 3, 4]], y=[*y, 1, 0, 0])
    once = load(str(tmp_path / "a.npz"), deduplicate=True)
    assert np.array_equal(once.x_train, x[[*range(10), 3]])  # the second 3 has another label
    assert once.y_train.tolist() == [*y, 0]
    assert len(load(str(tmp_path / "a.npz")).x_train) == 13


def test_the_fall_back_is_used_only_if_the_source_cannot_be_obtained(csv, tmp_path):
    own, missing = DataSource(csv), DataSource(str(tmp_path / "none.csv"))
    used, data, reason = load_with_fallback(own, DataSource("digits"))
    assert (used, data.name, reason) == (own, csv, None)
    used, data, reason = load_with_fallback(missing, own)
    assert (used, data.name) == (own, csv)
    assert "none.csv: no such file" in reason


def test_without_a_usable_fall_back_the_error_is_raised(csv, tmp_path):
    missing, other = (DataSource(str(tmp_path / name)) for name in ("none.csv", "other.csv"))
    with pytest.raises(DataError, match=r"none\.csv: no such file"):
        load_with_fallback(missing)
    with pytest.raises(DataError, match=r"(?s)none\.csv.*fall-back cannot be used.*other\.csv"):
        load_with_fallback(missing, other)
    with pytest.raises(DataError, match="did you mean 'digits'"):
        load_with_fallback(DataSource(csv), DataSource("digit"))


def test_a_source_prints_what_was_given():
    assert str(DataSource("a.csv", label="y")) == "a.csv, label y"
    assert Path(str(DataSource("mnist"))).name == "mnist"
