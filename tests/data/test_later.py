"""Files after the training set: columns by name, or in order where there are no names."""

import numpy as np
import pytest

from pacbayes.data import DataError
from pacbayes.data.frame import Kind
from pacbayes.data.later import by_position, labels_of, read_later

KINDS = {"u": Kind.NUMBER, "town": Kind.CATEGORY}


def write(tmp_path, text, name="new.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def values(frame):
    return [column.values.tolist() for column in frame.columns]


@pytest.mark.parametrize(
    ("text", "label", "others", "found"),
    [
        ("1,2\n", None, (), None),
        ("1,2,a\n", "2", (), "a"),
        ("1,2,a\n", None, (), "a"),
        ("a,1,2\n", "0", (), "a"),
        ("u,v,y\n1,2,a\n", "y", (), "a"),  # a header helps where the training set had none
        ("u,v\n1,2\n", "y", (), None),
        ("y,u,v\na,1,2\n", "y", (), "a"),
    ],
)
def test_the_order_counts_where_the_training_set_has_no_names(tmp_path, text, label, others, found):
    path = write(tmp_path, text)
    frame = read_later(path, by_position(2), label=label, others=others, in_order=True)
    assert values(frame) == [[1], [2]]
    assert (None if frame.label is None else frame.label.categories[0]) == found


def test_whole_rows_are_taken_apart_by_position(tmp_path):
    kinds = {"1": Kind.NUMBER, "3": Kind.NUMBER}  # 0 was dropped, and 2 has the labels
    frame = read_later(write(tmp_path, "9,1,a,2\n"), kinds, label="2", others=("0",), in_order=True)
    assert (values(frame), frame.label.categories) == ([[1], [2]], ("a",))
    with pytest.raises(DataError, match="5 columns, but the training set has 2 features"):
        read_later(write(tmp_path, "9,1,a,2,7\n"), kinds, label="2", others="0", in_order=True)


def test_a_first_row_of_positions_is_an_example(tmp_path):
    frame = read_later(write(tmp_path, "0,1,a\n5,6,b\n"), by_position(2), label="2", in_order=True)
    assert values(frame) == [[0, 5], [1, 6]]


def test_arrays_have_the_columns_in_order(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([[1, 2], [3, 4]]), y=np.array([True, False]))
    frame = read_later(tmp_path / "a.npz", {"u": Kind.NUMBER, "v": Kind.NUMBER})
    assert frame.names == ("u", "v")
    assert values(frame) == [[1, 3], [2, 4]]
    assert labels_of(frame, ("False", "True"), "here").tolist() == [1, 0]
    with pytest.raises(
        DataError, match=r"arrays have numbers alone, but column 'town' .* category"
    ):
        read_later(tmp_path / "a.npz", KINDS)
    with pytest.raises(DataError, match="2 features, but the network takes 3"):
        read_later(tmp_path / "a.npz", by_position(3))


def test_other_files_and_other_labels_are_refused(tmp_path):
    for name, got in (("a.xlsx", "'.xlsx'"), ("a", "'no suffix'")):
        with pytest.raises(DataError, match=rf"need a .csv, .* or .npz file, got {got}"):
            read_later(write(tmp_path, "1", name), KINDS)
    frame = read_later(write(tmp_path, "y,u,town\ncow,1,Ulm\n"), KINDS, label="y")
    with pytest.raises(DataError, match="here: label 'cow' is not among cat, dog, the labels"):
        labels_of(frame, ("cat", "dog"), "here")
    frame = read_later(write(tmp_path, "u,town\n1,Ulm\n"), KINDS, label="y")
    with pytest.raises(DataError, match="here: no labels; add the labels"):
        labels_of(frame, ("cat", "dog"), "here")
