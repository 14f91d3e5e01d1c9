"""Foreign code gets copies that share no memory, and what it answers is copied too."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy.sparse import csr_array

from pacbayes.data.foreign import apart, ask, give

NUMBERS = np.arange(12.0).reshape(4, 3)


def overwrite(value):
    """Change all numbers in place, as far as the object lets itself be changed."""
    if isinstance(value, pd.DataFrame | pd.Series):
        for i in range(len(value)):
            value.iloc[i] = -1
    elif isinstance(value, pl.DataFrame):
        value[0, 0] = -1.0
        value.insert_column(0, pl.Series("new", [0.0] * len(value)))
    elif isinstance(value, list | tuple):
        for item in value:
            overwrite(item)
    elif isinstance(value, dict):
        overwrite(list(value.values()))
        value.clear()
    elif isinstance(value, csr_array):
        value.data[:] = -1
    else:
        value[...] = -1
    return value


def frame():
    return pd.DataFrame(NUMBERS.copy(), index=[3, 1, 2, 0])


def shown(value):
    if isinstance(value, dict):
        return shown(list(value.values()))
    if isinstance(value, list | tuple):
        return repr(list(map(shown, value)))
    if isinstance(value, csr_array):
        return repr(value.toarray())
    return repr((value, getattr(value, "index", None)))


KINDS = {
    "array": NUMBERS.copy,
    "masked": lambda: np.ma.masked_array(NUMBERS.copy(), NUMBERS > 5),
    "frame": frame,
    "series": lambda: frame()[1],
    "polars": lambda: pl.DataFrame(NUMBERS.copy()),
    "tensor": lambda: torch.tensor(NUMBERS),
    "sparse": lambda: csr_array(NUMBERS),
    "list": lambda: [NUMBERS.copy(), torch.tensor(NUMBERS)],
    "pair": lambda: (NUMBERS.copy(), [NUMBERS.copy()]),
    "dict": lambda: {"x": NUMBERS.copy()},
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_foreign_code_does_to_its_copy_does_not_matter(kind):
    value = KINDS[kind]()
    before = shown(value)
    overwrite(apart(value))
    assert shown(value) == before
    ask(overwrite, value)
    give(lambda *, x: overwrite(x), x=value)
    assert shown(value) == before
    assert type(apart(value)) is type(value)
    assert shown(overwrite(value)) != before  # so the test can fail


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_copied_too(kind):
    buffer = KINDS[kind]()
    first = ask(lambda: buffer)
    before = shown(first)
    overwrite(buffer)
    assert shown(first) == before


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_layout_stays_as_it_is(order):
    value = np.asarray(NUMBERS, order=order)
    assert apart(value).flags[f"{order}_CONTIGUOUS"]
    images = torch.rand(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    assert apart(images).is_contiguous(memory_format=torch.channels_last)


def test_what_cannot_be_written_can_be_in_a_copy(tmp_path):
    fixed = NUMBERS.copy()
    fixed.flags.writeable = False
    mapped = np.memmap(tmp_path / "x", np.float64, "w+", shape=(4, 3))
    for value in (fixed, mapped):
        copied = apart(value)
        copied += 1
        assert type(copied) is np.ndarray
        assert (value + 1 == copied).all()


@pytest.mark.parametrize(
    ("build", "cell_of"),
    [
        (lambda cell: np.array([cell, None], object), lambda a: a[0]),
        (lambda cell: pd.Series([cell, None]), lambda s: s.iloc[0]),
        (lambda cell: pd.DataFrame({"a": [1, 2], "b": [cell, "text"]}), lambda f: f["b"].iloc[0]),
        (lambda cell: [(cell, 1)], lambda rows: rows[0][0]),
    ],
)
def test_objects_inside_are_copied_if_they_can_change(build, cell_of):
    cell = ["as it was"]
    whole = build(cell)
    assert cell_of(whole) is cell
    cell_of(apart(whole)).append("changed")
    assert cell == ["as it was"]


def test_missing_values_and_types_of_a_frame_stay():
    table = pd.DataFrame(
        {
            "word": pd.Series(["a", None], dtype="string"),
            "kind": pd.Categorical(["a", "b"]),
            "count": pd.array([1, None], dtype="Int64"),
            "mixed": pd.Series([1, pd.NA], dtype=object),
            "lists": pd.Series([[1], [2]], dtype=object),
        }
    )
    pd.testing.assert_frame_equal(apart(table), table)
    assert apart(pa.table({"x": [1, 2]})).equals(pa.table({"x": [1, 2]}))


def test_gradients_pass_through_copies():
    x = torch.ones(3, requires_grad=True)
    ask(lambda a: a.square(), x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_what_cannot_be_copied_is_refused_by_name():
    with pytest.raises(ValueError, match="data of type generator cannot be copied"):
        apart(i for i in range(3))


def test_calls_need_no_torch():
    code = "import sys, pacbayes.data.foreign; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
