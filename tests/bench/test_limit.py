"""Products are those of a step, counted by hand."""

import pytest
import torch

from pacbayes.bench.limit import SIDE, bare_products, multiply_adds, products, square_product

WIDTHS, B, T = (4, 3, 2, 1), 5, 7
FIRST, OTHERS = 5 * 4 * 3, 5 * 7 * (3 * 2 + 2)


def test_products_are_counted_by_hand():
    assert multiply_adds(products(WIDTHS, "sign", T, B)) == 2 * (FIRST + OTHERS)
    assert multiply_adds(products(WIDTHS, "relu", T, B)) == 2 * FIRST + 3 * OTHERS


def test_learned_variances_are_products_too_unless_the_inputs_are_signs():
    relu = multiply_adds(products(WIDTHS, "relu", T, B, learned=True))
    assert relu == 2 * (2 * FIRST + 3 * OTHERS)
    sign = multiply_adds(products(WIDTHS, "sign", T, B, learned=True))
    assert sign == 2 * (2 * FIRST + OTHERS)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: bare_products([(2, 3, 4), (5, 6, 7)]), [(2, 3, 4), (5, 6, 7)]),
        (square_product, [(SIDE, SIDE, SIDE)]),
    ],
)
def test_bare_products_multiply_these_shapes_and_nothing_else(monkeypatch, make, expected):
    seen = []
    monkeypatch.setattr(torch, "mm", lambda a, b, out: seen.append((*a.shape, b.shape[1])))
    make()(0)
    assert seen == expected
