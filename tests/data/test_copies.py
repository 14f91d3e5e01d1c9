"""Copies of examples are found in any kind of table, exact ones and near ones."""

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy.sparse import csr_array

from pacbayes.data.sample import (
    FittedError,
    NoSampleError,
    _varied,
    check_copies,
    check_near_copies,
    first_of_each,
)
from pacbayes.data.splitting import Split

RNG = np.random.default_rng(0)
NUMBERS = RNG.random((200, 2))
WORDS = RNG.choice(["a", "b"], 200)
MIXED = pd.DataFrame({"number": NUMBERS[:, 0], "word": WORDS})
TABLES = {
    "array": NUMBERS,
    "frame of numbers": pd.DataFrame(NUMBERS),
    "frame": MIXED,
    "objects": MIXED.to_numpy(object),
    "sparse": csr_array(NUMBERS),
    "polars": pl.from_pandas(MIXED),
    "images": RNG.random((200, 1, 3, 3)),
    "tensor": torch.tensor(NUMBERS),
    "bfloat16": torch.tensor(RNG.random((200, 30))).bfloat16(),
    "columns first": np.asfortranarray(NUMBERS),
    "texts": [f"text {i}" for i in range(200)],
    "holes": np.where(RNG.random((200, 2)) < 0.02, np.nan, NUMBERS),
    "categories": pd.DataFrame({i: RNG.choice(list("abcdefghij"), 200) for i in range(4)}),
}
ZEROS = np.zeros(200)
HALVES = Split(np.arange(200), np.arange(200, 400), seed=0)


def again(table, chosen):
    if hasattr(table, "iloc"):
        return table.iloc[chosen]
    return [table[i] for i in chosen] if isinstance(table, list) else table[chosen]


@pytest.mark.parametrize("name", TABLES)
def test_rows_drawn_with_replacement_are_found(name):
    chosen = RNG.integers(0, 200, 200)
    check_copies(TABLES[name], ZEROS, repeats=False)
    with pytest.raises(NoSampleError, match=r"of 200 examples are duplicates.* groups= if"):
        check_copies(again(TABLES[name], chosen), ZEROS, repeats=False)
    check_copies(again(TABLES[name], chosen), ZEROS, repeats=True)


@pytest.mark.parametrize("name", TABLES)
def test_the_first_of_each_is_kept(name):
    np.testing.assert_array_equal(
        first_of_each(again(TABLES[name], [3, 3, 1, 3, 7, 1]), np.array([0, 0, 0, 1, 0, 0])),
        [0, 2, 3, 4],
    )


def test_tables_of_few_categories_repeat_and_must_be_declared():
    few = pd.DataFrame({"word": WORDS})
    with pytest.raises(NoSampleError, match="198 of 200 examples are duplicates"):
        check_copies(few, ZEROS, repeats=False)
    check_copies(few, ZEROS, repeats=True)


def test_some_repeats_are_natural_where_no_column_is_continuous():
    discrete = TABLES["categories"]
    chosen = np.r_[np.arange(190), np.arange(10)]
    check_copies(discrete.iloc[chosen], ZEROS, repeats=False)
    for table in (MIXED.iloc[chosen], NUMBERS[chosen]):
        with pytest.raises(NoSampleError, match="10 of 200"):
            check_copies(table, ZEROS, repeats=False)


def test_rows_without_their_distinctive_value_may_coincide():
    """Where the number is missing, only a word is left."""
    holes = MIXED.copy()
    holes.loc[:9, "number"] = np.nan
    check_copies(holes, ZEROS, repeats=False)
    holes.loc[:30, "number"] = np.nan
    with pytest.raises(NoSampleError, match="29 of 200"):
        check_copies(holes, ZEROS, repeats=False)


def test_copies_within_a_group_do_not_count():
    twice, y = pd.concat([MIXED, MIXED]), np.zeros(400)
    check_copies(twice, y, np.tile(np.arange(200), 2), repeats=False)
    with pytest.raises(NoSampleError, match="200 of 400 examples are duplicates"):
        check_copies(twice, y, np.arange(400) // 2, repeats=False)


def test_the_same_features_with_another_label_are_another_example():
    twice = np.concatenate([NUMBERS, NUMBERS])
    check_copies(twice, np.repeat([0, 1], 200), repeats=False)
    check_copies(twice.astype(object), np.repeat(["x", "y"], 200), repeats=False)


def test_columns_scaled_to_fit_are_found():
    x = np.random.default_rng(1).normal(size=(200, 4))
    mixed = pd.DataFrame(x - x.mean(0)).assign(word=WORDS)
    for table in (x - x.mean(0), pd.DataFrame(x - x.mean(0)), mixed):
        with pytest.raises(FittedError, match="mean zero"):
            check_copies(table, ZEROS, repeats=True)


def jittered(table):
    """The table, and below it the same with numbers that differ in the sixth digit."""
    copy = table.copy()
    for name in copy.columns:
        if copy[name].dtype.kind == "f":
            copy[name] += 1e-6 * RNG.normal(size=len(copy))
    return pd.concat([table, copy], ignore_index=True)


@pytest.mark.parametrize("name", ["frame of numbers", "frame"])
def test_near_copies_across_the_split_are_found(name):
    table = jittered(TABLES[name])
    with pytest.raises(NoSampleError, match=r"near copies of other examples .* give groups= if"):
        check_near_copies(table, HALVES, repeats=False)
    check_near_copies(table, HALVES, repeats=True)
    fresh = TABLES[name].iloc[RNG.permutation(200)]
    check_near_copies(fresh, Split(np.arange(100), np.arange(100, 200), 0), repeats=False)


def test_near_copies_are_found_in_tables_with_holes():
    table = jittered(pd.DataFrame(TABLES["holes"]).assign(word=WORDS))
    with pytest.raises(NoSampleError, match="near copies"):
        check_near_copies(table, HALVES, repeats=False)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"number": [0.0, -0.0], "word": ["a", "a"]}),
        pd.DataFrame({"number": [1, 1.0], "word": ["a", "a"]}, dtype=object),
        pd.DataFrame({"number": [1, np.int64(1)], "word": ["a", "a"]}, dtype=object),
        np.array([[1, "a"], [1.0, "a"]], dtype=object),
        csr_array((np.array([1.0, 2, 2, 1]), np.array([0, 1, 1, 0]), np.array([0, 2, 4]))),
    ],
    ids=["zeros", "integers", "numpy", "objects", "sparse"],
)
def test_numbers_written_differently_are_the_same(table):
    np.testing.assert_array_equal(first_of_each(table, np.zeros(2)), [0])


def test_missing_numbers_are_the_same_in_all_their_forms():
    forms = np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64)
    table = np.stack([forms, [1.0, 1.0]], axis=1)
    assert np.isnan(table[:, 0]).all()
    np.testing.assert_array_equal(first_of_each(table, np.zeros(2)), [0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8, bool])
def test_columns_that_differ_in_most_rows_are_those_counted_one_by_one(dtype):
    rng = np.random.default_rng(3)
    n = 3000
    levels = [2, 300, 1400, 1700, 2000, 4000, 10**6]
    columns = [rng.integers(0, k, n) for k in levels]
    columns.append(np.where(np.arange(n) < 0.48 * n, 0, np.arange(n)))
    table = np.stack(columns, axis=1).astype(dtype)
    counted = [j for j, c in enumerate(table.T) if len(np.unique(c)) > n / 2]
    assert _varied(table) == counted
    if dtype is np.float64:
        assert 0 < len(counted) < len(levels)
        assert len(levels) in counted  # in which nearly half are the same
        table[: n // 4] = np.nan
        counted = [j for j, c in enumerate(table.T) if len(np.unique(c[n // 4 :])) > n / 2]
        assert _varied(table) == counted


@pytest.mark.parametrize("levels", [256, None])
def test_the_search_holds_a_large_table_at_most_once_more(levels):
    rng = np.random.default_rng(0)
    x = rng.random((40_000, 200), dtype=np.float32)
    x = x if levels is None else np.floor(x * levels) / np.float32(levels)
    split = Split(np.arange(30_000), np.arange(30_000, 40_000), 0)
    tracemalloc.start()
    check_copies(x, np.zeros(len(x)), repeats=False)
    check_near_copies(x, split, repeats=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * x.nbytes
