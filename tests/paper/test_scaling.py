"""Many workers on one store: no run is lost, and none is taken from a worker that is alive."""

from dataclasses import replace

import pytest

from pacbayes.folders.leases import Lease
from pacbayes.paper.store import Store
from simulation import Conditions, simulate
from simulation.world import Misfortunes

HARD = Conditions(
    workers=24,
    runs=40,
    work=120.0,
    starting=0.1,
    most=7_200.0,
    misfortunes=Misfortunes(lifetime=600.0, fatal=1e-3, alertness=600.0, stall=120.0),
)


@pytest.mark.parametrize("seed", [0, 1])
def test_no_run_is_lost_or_made_twice_while_its_worker_is_heard_of(seed, tmp_path):
    outcome = simulate(tmp_path, replace(HARD, seed=seed))
    assert outcome.faults == []
    assert min(outcome.killed, outcome.stalled) > 10  # else it says little
    attempts = [a for each in outcome.attempts.values() for a in each]
    assert len(attempts) > len(outcome.attempts)  # some were taken over


def test_a_seed_means_the_same_again(tmp_path):
    few = replace(HARD, workers=6, runs=8)
    first, second = (simulate(tmp_path / name, few) for name in ("a", "b"))
    assert first == second


def test_without_misfortunes_every_run_is_made_once_and_nothing_is_left(tmp_path):
    never = Misfortunes(lifetime=1e9, fatal=0.0, alertness=1e9)
    outcome = simulate(tmp_path, replace(HARD, misfortunes=never))
    assert (outcome.faults, outcome.killed, outcome.stalled, outcome.left) == ([], 0, 0, [])
    assert {len(each) for each in outcome.attempts.values()} == {1}


def early(lease, file):
    """A lease that counts as stale after a quarter of its time."""
    return lease.clock.now() - file.stat().st_mtime < lease.patience / 4


def overwritten(lease, file, token):
    """A lease that two can create at once."""
    file.write_text(token)
    lease.clock.stamp(file)
    return True


@pytest.mark.parametrize(("name", "defect"), [("_fresh", early), ("_created", overwritten)])
def test_a_lease_that_does_not_hold_is_noticed(name, defect, tmp_path, monkeypatch):
    monkeypatch.setattr(Lease, name, defect)
    faults = simulate(tmp_path, replace(HARD, runs=24)).faults
    assert any("after a sign of life" in fault or "made again" in fault for fault in faults)


def test_a_store_that_forgets_results_is_noticed(tmp_path, monkeypatch):
    finish = Store.finish

    def forgetful(store, c, summary):
        if c.repeat != 3:
            finish(store, c, summary)
        else:
            finish(store, c, replace(summary, epoch=2))

    monkeypatch.setattr(Store, "finish", forgetful)
    faults = simulate(tmp_path, replace(HARD, workers=6, runs=8)).faults
    assert [fault.endswith("is lost") for fault in faults] == [True]
