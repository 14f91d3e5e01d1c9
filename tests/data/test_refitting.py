"""The verifier's own encoding agrees with the library's, and shares no code with it."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbayes.data import DataError, refitting
from pacbayes.data.encoding import fit_encoding, plain_encoding
from pacbayes.data.frame import Column, Frame, Kind
from pacbayes.data.refitting import features, plain, refit


def column(name, values):
    if all(v is None or isinstance(v, float) for v in values):
        cells = [np.nan if v is None else v for v in values]
        return Column(name, Kind.NUMBER, np.array(cells, np.float32))
    words = tuple(sorted({v for v in values if v is not None}))
    codes = [-1 if v is None else words.index(v) for v in values]
    return Column(name, Kind.CATEGORY, np.array(codes, np.int32), words)


def columns_of(encoding):
    return json.loads(encoding.model_dump_json())["columns"]


numbers = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-1e6, max_value=1e6)
words = st.sampled_from(["yes", "No", "TRUE", "red", "blue", "mauve"])
cells = st.lists(st.none() | numbers, min_size=12, max_size=40)
texts = st.lists(st.none() | words, min_size=12, max_size=40)
truth = st.lists(st.none() | st.sampled_from(["yes", "NO", "Yes"]), min_size=12, max_size=40)


@given(cells, texts, truth, st.integers(1, 12))
def test_constants_and_features_agree_to_the_last_bit(u, v, w, own):
    n = min(map(len, (u, v, w)))
    frame = Frame(
        tuple(column(name, part[:n]) for name, part in zip("uvw", (u, v, w), strict=True))
    )
    try:
        encoding = fit_encoding(frame, range(own))
    except DataError:
        return  # a column without any value
    codes = refit(frame, range(own))
    assert codes == columns_of(encoding)
    assert features(frame, codes).tobytes() == encoding.apply(frame).tobytes()


def test_many_categories_are_ranked_alike():
    rng = np.random.default_rng(0)
    values = [f"w{i}" for i in rng.zipf(1.3, 3000) % 150]
    frame = Frame((column("v", values),))
    encoding = fit_encoding(frame, range(2000))
    assert len(encoding.columns[0].categories) == 50
    assert refit(frame, range(2000)) == columns_of(encoding)


def test_five_rows_are_enough_for_a_category_of_its_own():
    frame = Frame((column("v", [*"aaaaabbbb", None]),))
    assert refit(frame, range(10)) == columns_of(fit_encoding(frame, range(10)))
    assert refit(frame, range(10))[0]["categories"] == ["a"]


def test_plain_columns_agree():
    truth = Column("w", Kind.BOOLEAN, np.array([1, 0, 1], np.int32), ("false", "true"))
    frame = Frame((column("u", [1.5, -0.0, 3e38]), truth))
    assert plain(frame) == columns_of(plain_encoding(frame))
    assert features(frame, plain(frame)).tobytes() == plain_encoding(frame).apply(frame).tobytes()


@pytest.mark.parametrize("module", ["fitting", "encoding", "cells"])
def test_no_code_is_shared(module):
    tree = ast.parse(Path(refitting.__file__).read_text())
    imported = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert f"pacbayes.data.{module}" not in imported
