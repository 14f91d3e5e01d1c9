"""The movement of layers covers all weights, in units of the prior."""

import math

import pytest

from pacbayes.certificates.certificate import read_certificate


def test_movements_cover_all_weights_and_the_whole_kl(made, contents):
    assert [m.layer for m in contents.movements] == ["layer 1", "the last layer"]
    assert [m.weights for m in contents.movements] == [4 * 4 + 4, 4 + 1]
    whole = math.fsum(m.kl for m in contents.movements)
    certificate = read_certificate(made.folder / "certificate.json")
    assert whole == pytest.approx(certificate.kl, rel=1e-6)
    for m in contents.movements:
        assert sum(m.means.counts) == sum(m.scales.counts) == m.weights
        assert m.rms <= m.largest <= m.means.high == -m.means.low
        low, middle, high = m.quantiles
        assert m.scales.low <= low <= middle <= high <= m.scales.high


def test_movements_are_in_units_of_the_prior(made, contents):
    network = made.load_network()
    g = network.layer.weight
    moved = ((g.mean - g.prior_mean) / g.prior_log_scale.exp()).detach().flatten().tolist()
    g = network.layer.bias
    moved += ((g.mean - g.prior_mean) / g.prior_log_scale.exp()).detach().flatten().tolist()
    last = contents.movements[-1]
    assert last.largest == pytest.approx(max(map(abs, moved)), rel=1e-5)
    assert last.rms == pytest.approx(math.sqrt(sum(m * m for m in moved) / len(moved)), rel=1e-5)
