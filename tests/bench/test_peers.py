"""Other packages train the same network; those that are not installed are named."""

from importlib.metadata import PackageNotFoundError, version

import pytest
import torch

from pacbayes.bench import peers
from pacbayes.bench.peers import PEERS, beside
from pacbayes.bench.steps import Case, adam_step
from pacbayes.bench.turns import MissingError
from pacbayes.engine.library import available

CASE = Case("relu", 3, 32, (16, 6, 5, 1), learned=True)


def installed(package):
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


@pytest.mark.parametrize("package", PEERS)
def test_a_peer_has_a_mean_and_a_scale_for_every_weight_and_learns(package):
    if not installed(package):
        pytest.skip(f"{package} is not installed")
    torch.manual_seed(0)
    network, objective = PEERS[package](CASE)
    weights = 16 * 6 + 6 + 6 * 5 + 5 + 5 + 1
    sizes = {p.data_ptr(): p.numel() for p in network.parameters()}  # blitz has two names for each
    assert sum(sizes.values()) == 2 * weights
    before = [p.detach().clone() for p in network.parameters()]
    x, y = CASE.data()
    adam_step(network, objective, CASE, x, y)(0)
    moved = zip(before, network.parameters(), strict=True)
    assert all(not torch.equal(old, new) for old, new in moved)
    assert network(x).shape == (len(x), 1)


@pytest.mark.parametrize("package", PEERS)
def test_a_peer_makes_t_passes(package, monkeypatch):
    if not installed(package):
        pytest.skip(f"{package} is not installed")
    network, objective = PEERS[package](CASE)
    passes = []
    network.register_forward_hook(lambda *_: passes.append(1))
    objective(*(t[:4] for t in CASE.data()))
    assert len(passes) == 3


def test_a_package_that_is_not_installed_is_named(monkeypatch):
    def nowhere(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr(peers, "version", nowhere)
    with pytest.raises(MissingError, match="torchbnn is not installed"):
        beside("torchbnn", CASE)


@pytest.mark.skipif(not available(), reason="no native engine")
def test_the_engine_is_first_and_the_peer_has_its_version(monkeypatch):
    monkeypatch.setattr(peers, "version", lambda _: "1.2")
    plain = torch.nn.Linear(16, 1)
    monkeypatch.setitem(PEERS, "torchbnn", lambda case: (plain, lambda x, y: plain(x).mean()))
    assert list(beside("torchbnn", CASE)) == ["native", "torchbnn 1.2"]
