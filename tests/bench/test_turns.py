"""Turns count only on a free machine: a clock that the contenders themselves move."""

import subprocess
import sys

import pytest
import torch

from pacbayes.bench import turns
from pacbayes.bench.turns import (
    SIDE,
    Contest,
    Entrant,
    Plan,
    Timing,
    bare_products,
    compare,
    multiply_adds,
    now,
    products,
    square_product,
    timed,
)


class Clock:
    """CPU and wall time, moved by what runs."""

    def __init__(self):
        self.time = Timing(0.0, 0.0)

    def work(self, cpu, share=1.0):
        """Return a run of so many CPU seconds, on a part of a core."""

        def run(i):
            part = share(self.time.wall) if callable(share) else share
            self.time += Timing(cpu, cpu / part)

        return run


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(turns, "now", lambda: made.time)
    monkeypatch.setattr(turns, "square_product", lambda: made.work(0.01))
    return made


def held(plan=None, threads=1, **runs):
    entrants = {n: r if isinstance(r, Entrant) else Entrant(r) for n, r in runs.items()}
    return compare(Contest("contest", lambda: entrants), plan or Plan(), threads)


def test_rows_are_ratios_of_the_first_to_each_of_the_others(clock):
    rows = held(ours=clock.work(0.2), slow=clock.work(0.8), fast=clock.work(0.1))
    assert [row.name for row in rows] == ["ours ÷ slow", "ours ÷ fast"]
    assert [row.median for row in rows] == pytest.approx([0.25, 2.0])
    assert all(row.low == pytest.approx(row.high) for row in rows)
    assert [row.seconds for row in rows] == pytest.approx([0.2, 0.2])
    assert [row.contest for row in rows] == ["contest"] * 2


def test_cpu_time_does_not_mind_a_share_of_nine_tenths(clock):
    (row,) = held(ours=clock.work(0.2, 0.9), other=clock.work(0.4))
    assert row.median == pytest.approx(0.5)


@pytest.mark.parametrize("busy", ["ours", "other"])
def test_a_row_has_no_number_if_one_of_both_had_less_than_eight_tenths_of_a_core(clock, busy):
    shares = {"ours": 1.0, "other": 1.0} | {busy: 0.79}
    (row,) = held(**{name: clock.work(0.2, share) for name, share in shares.items()})
    assert (row.median, row.low, row.high, row.seconds, row.turns) == (None,) * 4 + (0,)


def test_one_busy_contender_does_not_spoil_the_row_of_another(clock):
    runs = {"ours": clock.work(0.2), "good": clock.work(0.4), "bad": clock.work(0.4, 0.5)}
    good, bad = held(**runs)
    assert good.median == pytest.approx(0.5)
    assert bad.median is None


def test_busy_turns_are_left_out_and_made_up_for(clock):
    calls = []

    def sometimes(i):  # every other turn is shared with another program, and slower
        calls.append(i)
        cpu, share = (0.4, 0.5) if len(calls) % 2 else (0.2, 1.0)
        clock.time += Timing(cpu, cpu / share)

    plan = Plan(turns=4, least=3, seconds=0.01, patience=100.0)
    (row,) = held(plan, ours=sometimes, other=clock.work(0.2))
    assert row.turns == 4
    assert (row.low, row.median, row.high) == pytest.approx((1.0, 1.0, 1.0))


def test_two_free_turns_are_too_few(clock):
    calls = []

    def seldom(i):  # free in its first two turns, after two runs to learn how long it takes
        calls.append(i)
        clock.time += Timing(0.2, 0.2 if len(calls) <= 4 else 0.4)

    plan = Plan(turns=5, least=3, seconds=0.1, patience=1.0)
    (row,) = held(plan, ours=clock.work(0.2), other=seldom)
    assert (row.turns, row.median) == (2, None)


def test_with_several_threads_wall_time_counts(clock, monkeypatch):
    monkeypatch.setattr(turns, "square_product", lambda: clock.work(0.01, 2.0))
    (row,) = held(threads=2, ours=clock.work(0.4, 2.0), other=clock.work(0.4, 1.0))
    assert row.median == pytest.approx(0.5)


@pytest.mark.parametrize(("share", "counts"), [(1.58, False), (1.62, True)])
def test_with_several_threads_the_canary_decides(clock, monkeypatch, share, counts):
    monkeypatch.setattr(turns, "square_product", lambda: clock.work(0.01, share))
    (row,) = held(threads=2, ours=clock.work(0.2, 0.1), other=clock.work(0.2, 0.1))
    assert (row.median is not None) == counts


def test_measuring_ends_when_enough_turns_count(clock):
    (row,) = held(Plan(turns=7, patience=1e9), ours=clock.work(0.2), other=clock.work(0.2))
    assert row.turns == 7


def test_the_least_is_enough_when_patience_ends(clock):
    plan = Plan(turns=100, least=3, seconds=0.1, patience=1.0)
    (row,) = held(plan, ours=clock.work(1.0), other=clock.work(1.0))
    assert row.turns == 3
    assert row.median == pytest.approx(1.0)


def test_a_busy_contest_ends_too(clock):
    plan = Plan(turns=5, least=3, seconds=0.1, patience=10.0)
    start = clock.time.wall
    (row,) = held(plan, ours=clock.work(0.2, 0.5), other=clock.work(0.2, 0.5))
    assert row.median is None
    assert clock.time.wall - start < 25


def test_short_runs_are_repeated_and_time_is_per_run(clock):
    (row,) = held(Plan(seconds=0.1), ours=clock.work(0.001), other=clock.work(0.5))
    assert row.seconds == pytest.approx(0.001)
    assert row.median == pytest.approx(0.002)


def test_a_run_with_less_work_is_scaled(clock):
    tenth = Entrant(clock.work(0.1), scale=10)
    (row,) = held(ours=clock.work(0.2), other=tenth)
    assert row.median == pytest.approx(0.2)


def test_the_clock_counts_children():
    code = "import time\nwhile time.process_time() < 0.3: pass"
    spent = timed(lambda: subprocess.run([sys.executable, "-c", code], check=True))
    assert spent.cpu > 0.25
    assert 0 < spent.share() <= 1.2
    assert now().cpu > spent.cpu


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
