"""Rows that cannot be a sample are found in any kind of table."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from pacbayes.certified.origin import check_batches, check_rows
from pacbayes.data.sample import FittedError, NoSampleError

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
    "texts": [f"text {i}" for i in range(200)],
    "holes": np.where(RNG.random((200, 2)) < 0.02, np.nan, NUMBERS),
}


def again(table, chosen):
    if hasattr(table, "iloc"):
        return table.iloc[chosen]
    return [table[i] for i in chosen] if isinstance(table, list) else table[chosen]


@pytest.mark.parametrize("name", TABLES)
def test_rows_drawn_with_replacement_are_found(name):
    y, chosen = np.zeros(200), RNG.integers(0, 200, 200)
    check_rows(TABLES[name], y, repeats=False)
    with pytest.raises(NoSampleError, match=r"of 200 examples are duplicates"):
        check_rows(again(TABLES[name], chosen), y, repeats=False)
    check_rows(again(TABLES[name], chosen), y, repeats=True)


def test_few_different_rows_are_natural_in_tables_of_categories():
    check_rows(pd.DataFrame({"word": WORDS}), np.zeros(200), repeats=False)
    check_rows(WORDS[:, None].astype(object), np.zeros(200), repeats=False)


def test_the_same_features_with_another_label_are_another_example():
    twice = np.concatenate([NUMBERS, NUMBERS])
    check_rows(twice, np.repeat([0, 1], 200), repeats=False)
    check_rows(twice.astype(object), np.repeat(["x", "y"], 200), repeats=False)


def test_a_table_scaled_to_fit_is_found():
    x = np.random.default_rng(1).normal(size=(200, 4))
    for table in (x - x.mean(0), pd.DataFrame(x - x.mean(0))):
        with pytest.raises(FittedError, match="mean zero"):
            check_rows(table, np.zeros(200), repeats=True)


def test_answers_may_not_depend_on_the_batch():
    check_batches(lambda x: x[:, 0] > 0.5, NUMBERS, NUMBERS[:, 0] > 0.5)
    middle = np.median(NUMBERS[:, 0])
    with pytest.raises(NoSampleError, match="differently to one example"):
        check_batches(lambda x: x[:, 0] > np.median(x), NUMBERS, NUMBERS[:, 0] > middle)
