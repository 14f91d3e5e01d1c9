"""The number of draws that a batch shares follows from a pilot with draws of its own."""

from importlib import import_module

import pytest
import torch
from torch import nn

from pacbayes import bounds, certify, stochastic
from pacbayes.certificates.certify import needed_draws, planned_draws, wanted_term
from pacbayes.networks.keys import draws_key
from pacbayes.networks.parts import in_turn
from pacbayes.networks.risk import EmpiricalRisk, keyed_risk


@pytest.fixture
def network():
    return stochastic(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)), seed=0)


@pytest.fixture
def examples():
    x = torch.rand(300, 3, generator=torch.Generator().manual_seed(0))
    return x, torch.where(x[:, 0] > 0.5, 1.0, -1.0)


@pytest.mark.parametrize(("mean", "within"), [(0.03, 1e-4), (0.3, 4e-3), (0.01, 1e-6)])
def test_the_least_number_of_draws_makes_the_term_small_enough(mean, within):
    n, delta = 6400, 0.0125
    T = needed_draws(EmpiricalRisk(mean, 1024, 4, 64.0, within=within), n, delta)

    def term(T):
        N = n * T / 64
        return bounds.stratified_bernstein(mean, within, N / 2, N, delta) - mean

    assert T % 2 == 0
    assert term(T) <= wanted_term(mean) < term(T - 2 or 1)


def test_a_certificate_s_term_is_about_what_was_wanted(network, examples):
    certificate = certify(network, *examples, samples="auto", monte_carlo="stratified-bernstein")
    term = certificate.risk_upper - certificate.risk
    assert term == pytest.approx(wanted_term(certificate.risk), rel=0.3)


def test_the_pilot_has_other_draws_than_the_certificate(network, examples, monkeypatch):
    keys = []
    certifying = import_module("pacbayes.certificates.certify")
    measure = certifying.keyed_risk

    def noted(network, x, y, samples, key):
        keys.append(key)
        return measure(network, x, y, samples, key)

    monkeypatch.setattr(certifying, "keyed_risk", noted)
    key = draws_key(network, *examples)
    planned_draws(network.double().eval(), *(t.double() for t in examples), key, 0.01)
    assert len(keys) == 1
    assert key not in keys


def test_little_time_means_few_draws(network, examples):
    x, y = (t.double() for t in examples)
    assert planned_draws(network.double().eval(), x, y, b"key", 0.01, seconds=1e-9) == 2


def test_networks_that_draw_for_every_example_take_a_hundred():
    from pacbayes import dense_network

    x = torch.rand(50, 3, generator=torch.Generator().manual_seed(0))
    y = torch.where(x[:, 0] > 0.5, 1.0, -1.0)
    assert certify(dense_network(3, (4,)), x, y, samples="auto").samples == 100


def test_an_executor_has_the_parts_in_order(network, examples):
    seen = []

    def executor(work, x, y, parts):
        seen.extend(part.stop - part.start for part in parts)
        return in_turn(work, x, y, parts)

    keyed_risk(network.double().eval(), *examples, 2, b"key", executor=executor)
    assert seen == [64, 64, 64, 64, 44]
