"""A short version of the campaign against the inverses, `make inverses`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from inverses import cases
from inverses.cases import KINDS, Case, run
from pacbayes import bounds
from pacbayes.bounds import binomial

TESTS = Path(__file__).parent


@pytest.mark.parametrize("name", KINDS)
def test_random_cases_are_neither_too_small_nor_too_large(name):
    for i in range(12):
        assert run(-i, name).fault is None


@pytest.mark.parametrize("name", ["clopper_pearson", "small_kl", "catoni_fixed", "c_bound"])
@pytest.mark.parametrize(("by", "fault"), [(-3e-13, "too small"), (1e-4, "too large")])
def test_a_bound_that_is_off_is_seen(name, by, fault, monkeypatch):
    def off(rng):
        case = KINDS[name](rng) or KINDS["small_kl"](rng)
        bound = case.bound + by * (case.bound - case.risk)
        return Case(case.call, bound, case.risk, case.excess)

    monkeypatch.setitem(cases.KINDS, "off", off)
    assert fault in [str(run(i, "off").fault).split(": ")[-1] for i in range(20)]


def test_the_campaign_continues_and_repeats_faults(tmp_path):
    log = tmp_path / "log.jsonl"
    command = [sys.executable, "-m", "inverses", "--log", str(log), "--cases"]

    def campaign(count):
        done = subprocess.run([*command, str(count)], cwd=TESTS, capture_output=True, text=True)
        lines = log.read_text().splitlines()
        return done.returncode, [json.loads(line) for line in lines if line.endswith("]")]

    first = campaign(5)
    assert first[0] == 0
    assert [record[0] for record in first[1]] == [0, 1, 2, 3, 4]
    log.write_text(log.read_text().replace("null", '"too small"', 1) + "[5, ")
    code, records = campaign(7)
    assert code == 0
    assert [record[0] for record in records] == [0, 1, 2, 3, 4, 0, 5, 6]


def test_the_case_that_was_below_the_exact_bound():
    exact = cases.exact.tail_excess(1, 296443368, 0.05)
    assert not exact(1.600259948320886e-08) >= 0
    assert exact(bounds.clopper_pearson(1 / 296443368, 296443368, 0.05)) >= 0


@pytest.mark.parametrize("wrong", [0.0, 1e-3, 0.3, 0.999999, 1.0, float("nan"), 2.0])
@pytest.mark.parametrize(("k", "n"), [(0, 50), (3, 50), (49, 50), (7, 10**11), (10**10, 10**11)])
def test_a_wrong_quantile_of_scipy_costs_time_alone(k, n, wrong, monkeypatch):
    cases.ctx.prec = cases.exact.BITS
    for delta in (0.05, 0.9, 1e-9):
        monkeypatch.setattr(binomial, "_scipy_quantile", lambda: lambda *_: wrong)
        found = binomial.upper_limit(k, n, delta)
        excess = cases.exact.tail_excess(k, n, delta)
        assert found == 1 or excess(found) >= 0
