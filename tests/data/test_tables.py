"""Your own files of examples, and everything that can be wrong with them."""

import numpy as np
import pytest

from pacbayes.data import DataError, check_names, read_table


def write(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_npz_flattens_images_and_may_lack_labels(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(12).reshape(3, 2, 2), y=np.array([0, 1, 0]))
    table = read_table(tmp_path / "a.npz")
    assert table.x.shape == (3, 4)
    assert table.labels.tolist() == [0, 1, 0]
    np.savez(tmp_path / "b.npz", x=np.zeros((3, 2)))
    assert read_table(tmp_path / "b.npz").labels is None


def test_other_names_or_another_order_are_refused():
    check_names(("u", "v"), ("u", "v"), "here")
    check_names(None, ("u", "v"), "here")
    with pytest.raises(DataError, match="here: column 'v' where the training set has 'u'"):
        check_names(("v", "u"), ("u", "v"), "here")


def test_a_column_taken_for_labels_is_named_where_the_width_is_wrong(tmp_path):
    with pytest.raises(DataError, match="2 features, but the network takes 5; the last column was"):
        read_table(write(tmp_path, "1,2,3\n4,5,6\n"), width=5)


def test_bad_npz_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    for arrays, message in [
        ({"z": np.zeros(2)}, "no array named x"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(2)}, r"y must have shape \(3,\)"),
        ({"x": np.array([["a", "b"]])}, "must hold numbers"),
        ({"x": np.zeros((0, 2))}, "no examples"),
        ({"x": np.array(3.0)}, "no examples"),
        ({"x": np.array([[1.0, np.nan]])}, "nan in example 0, feature 1"),
    ]:
        np.savez(path, **arrays)
        with pytest.raises(DataError, match=message):
            read_table(path)
    np.save(tmp_path / "array.npy", np.zeros((3, 2)))
    for content in (b"not a zip", b"", (tmp_path / "array.npy").read_bytes()):
        path.write_bytes(content)
        with pytest.raises(DataError, match="not a readable"):
            read_table(path)


def test_pickled_objects_are_never_opened(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([{"evil": 1}], dtype=object))
    with pytest.raises(DataError, match="not a readable"):
        read_table(tmp_path / "a.npz")


def test_wrong_width_suffix_path_and_column_are_named(tmp_path):
    path = write(tmp_path, "1,2,a\n3,4,b\n")
    with pytest.raises(DataError, match="2 features, but the network takes 5"):
        read_table(path, width=5)
    with pytest.raises(DataError, match="no column 'age'"):
        read_table(path, label="age")
    with pytest.raises(DataError, match="no such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(DataError, match=r"need a \.npz or \.csv"):
        read_table(write(tmp_path, "1", "data.txt"))


def test_a_folder_is_not_a_file(tmp_path):
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(DataError, match="a folder, not a file"):
        read_table(tmp_path / "a.csv")
