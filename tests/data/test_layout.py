"""Later files become what the classifier was fitted to, column by column."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from pacbayes.data.frame import Kind
from pacbayes.data.layout import Layout, table_of
from pacbayes.data.reading import read_frame
from pacbayes.data.values import features_sha256


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "size": [0.1, 2.5, np.nan],
            "count": [1, 2, 3],
            "new": [True, False, True],
            "colour": ["red", None, "blue"],
        }
    )


def test_a_data_frame_is_read_back_with_its_types(frame, tmp_path):
    layout = Layout.of(frame)
    assert [kind.value for kind in layout.kinds] == ["number", "number", "boolean", "category"]
    frame[["colour", "new", "count", "size"]].to_csv(tmp_path / "new.csv", index=False)
    found, labels = layout.read(tmp_path / "new.csv")
    assert labels is None
    pd.testing.assert_frame_equal(found, frame)
    assert features_sha256(found) == features_sha256(frame)


def test_columns_without_names_go_by_position(tmp_path):
    x = np.random.default_rng(0).normal(size=(9, 3))
    np.savetxt(tmp_path / "plain.csv", x, "%.17g", ",")
    np.savetxt(tmp_path / "named.csv", x, "%.17g", ",", header="a,b,c", comments="")
    np.savetxt(tmp_path / "labelled.csv", np.column_stack([x, np.arange(9) % 2]), "%.17g", ",")
    layout = Layout.of(x)
    for name in ("plain", "named", "labelled"):
        found, labels = layout.read(tmp_path / f"{name}.csv")
        np.testing.assert_array_equal(found, x)
        assert (labels is None) == (name != "labelled")
    with pytest.raises(ValueError, match="4 columns, but the training set has 2 features"):
        Layout.of(x[:, :2]).read(tmp_path / "labelled.csv")


def test_numbers_are_read_in_float64(tmp_path):
    (tmp_path / "data.csv").write_text("a,b,y\n0.1,1e300,u\n0.3,2,v\n")
    read = read_frame(tmp_path / "data.csv", dtype=np.float64)
    np.testing.assert_array_equal(table_of(read), [[0.1, 1e300], [0.3, 2.0]])


def test_a_file_of_several_kinds_becomes_an_array_of_objects(tmp_path):
    (tmp_path / "data.csv").write_text("a,b,c,y\n1,yes,red,u\n,no,blue,v\n2,,red,u\n")
    found = table_of(read_frame(tmp_path / "data.csv", dtype=np.float64))
    assert found[:, 1].tolist() == [True, False, None]
    assert found[:, 2].tolist() == ["red", "blue", "red"]
    assert np.isnan(found[1, 0])
    layout = Layout(kinds=(Kind.NUMBER, Kind.BOOLEAN, Kind.CATEGORY), names=("a", "b", "c"))
    again, labels = layout.read(tmp_path / "data.csv", "y")
    assert labels == ["u", "v", "u"]
    assert features_sha256(again) == features_sha256(found)


def test_what_is_no_table_has_no_layout():
    assert Layout.of(["some", "texts"]) is None
    assert Layout.of(csr_array(np.eye(3))) is None


def test_the_hash_knows_values_and_not_their_storage(frame):
    x = np.arange(6.0).reshape(2, 3)
    assert features_sha256(x) == features_sha256(np.asfortranarray(x))
    assert features_sha256(x) == features_sha256(x.astype(">f8"))
    others = [x + 1, x.astype(np.float32), x.T, x.tolist(), csr_array(x), frame, frame[::-1]]
    hashes = [features_sha256(other) for other in others]
    assert len({features_sha256(x), *hashes}) == 8
    assert features_sha256(csr_array(x)) == features_sha256(csr_array(x).tocsc().tocsr())
