"""The laws of a valid certificate, each with a test that fails when it is broken."""

import dataclasses
import math
from dataclasses import replace
from importlib import import_module

import pytest
import torch
from scipy.stats import binom
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pacbayes import (
    Certificate,
    Deterministic,
    Gaussian,
    GaussianConv2d,
    GaussianLinear,
    Network,
    Settings,
    bounds,
    certify,
    dense_network,
    exact_aggregate,
    kl,
    stochastic,
    train,
)
from pacbayes.bounds import catoni, kl_chernoff, small_kl
from pacbayes.certificates.certify import needed_draws, planned_draws, wanted_term
from pacbayes.choices import Predictor
from pacbayes.data.tasks import linear
from pacbayes.networks import quadrature
from pacbayes.networks.posterior import draws_key
from pacbayes.networks.risk import EmpiricalRisk, in_turn, keyed_risk


@pytest.fixture
def network():
    network = dense_network(3, (3, 2), "sign", learned_scale=True)
    with torch.no_grad():
        for p in network.parameters():
            p += 0.2 * torch.randn_like(p)
    return network


@pytest.fixture
def data():
    x = torch.randn(400, 3)
    return x, torch.where(x[:, 0] > 0, 1.0, -1.0)


def test_risk_is_raised_to_its_confidence_value_then_bounded(network, data):
    c = certify(network, *data, delta=0.05, samples=20)
    assert c.draws == 400 * 20
    assert c.risk_upper >= kl_chernoff(c.risk, c.draws, 0.025)
    assert c.risk_upper == pytest.approx(kl_chernoff(c.risk, c.draws, 0.025), abs=1e-7)
    assert c.bound >= small_kl(kl_chernoff(c.risk, c.draws, 0.025), kl(network).item(), 400, 0.025)
    assert c.bound == pytest.approx(small_kl(c.risk_upper, c.kl, 400, 0.025), abs=1e-12)


def test_confidence_value_lies_above_the_exact_empirical_risk(network, data):
    exact = network.double()
    truth = linear(exact_aggregate(exact, data[0].double()), data[1].double()).mean().item()
    c = certify(network, *data, samples=50)
    assert c.risk_upper > truth  # fails with probability 0.025 over seeds; the seed is fixed
    assert c.risk_upper < truth + 0.02


def test_n_is_the_number_of_examples_and_kl_is_complete(network, data):
    c = certify(network, *data, samples=2)
    assert c.n == 400
    assert c.kl >= kl(network).item()
    assert c.kl == pytest.approx(kl(network).item(), rel=1e-8)
    assert math.fsum(c.kl_by_part.values()) == pytest.approx(c.kl, rel=1e-8)
    assert len(c.kl_by_part) == 6


def test_kl_is_that_of_the_moment_not_a_stale_one(network, data):
    before = certify(network, *data, samples=2).kl
    with torch.no_grad():
        network.body.layers[0].bias.mean += 1
    assert certify(network, *data, samples=2).kl > before + 1


def test_where_nothing_is_sampled_nothing_is_paid(data):
    network = Network(Deterministic(nn.Identity()), GaussianLinear(3, 1))
    c = certify(network, *data)
    assert c.draws is None
    assert c.ledger == {"pac-bayes": 0.05}
    assert c.risk_upper == pytest.approx(c.risk, abs=1e-8)
    assert c.risk_upper >= c.risk


def test_a_small_sign_network_can_be_summed_instead(network, data):
    c = certify(network, *data, samples=None)
    x, y = (t.double() for t in data)
    assert c.risk == pytest.approx(linear(exact_aggregate(network.double(), x), y).mean().item())
    assert (c.samples, c.draws, c.ledger) == (0, None, {"pac-bayes": 0.05})
    with pytest.raises(ValueError, match="only sign activations"):
        certify(dense_network(3, (2,), "relu"), *data, samples=None)


def test_the_ledger_adds_up_and_cannot_overspend(network, data):
    c = certify(network, *data, delta=0.1, samples=2)
    assert sum(c.ledger.values()) == c.delta
    with pytest.raises(ValueError, match="spends more than δ"):
        dataclasses.replace(c, ledger={"pac-bayes": 0.1, "monte-carlo": 1e-18})


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("small-kl", small_kl),
        ("catoni", catoni),
        ("unexpected-bernstein", bounds.unexpected_bernstein),
    ],
)
def test_every_bound_can_be_asked_for(network, data, name, function):
    c = certify(network, *data, bound=name, samples=4)
    assert c.bound == function(c.risk_upper, c.kl, c.n, c.ledger["pac-bayes"])
    assert c.bound_name == name


def test_says_which_predictor_it_covers(network, data):
    assert certify(network, *data, samples=1).predictor.startswith("randomised classifier")


def test_the_papers_way_is_catoni_at_full_delta_without_monte_carlo(network, data):
    c = certify(network, *data, samples=4)
    assert c.catoni == pytest.approx(catoni(c.risk, c.kl, 400, 0.05), rel=1e-12)


def test_the_network_is_left_as_it_was(network, data):
    network.train()
    certify(network, *data, samples=1)
    assert network.training
    assert network.layer.weight.mean.dtype == torch.float32


def test_trainable_parameters_outside_the_posterior_are_refused(data):
    network = Network(nn.Linear(3, 4), GaussianLinear(4, 1))
    with pytest.raises(ValueError, match="outside the posterior"):
        certify(network, *data)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (torch.zeros(400), "labels must be -1 or"),
        (torch.full((400,), torch.nan), "labels must be -1 or"),
        (torch.ones(400, 1), r"shape \(400, 1\) for 400"),
        (torch.ones(399), r"shape \(399,\) for 400"),
    ],
)
def test_labels_other_than_one_sign_each_are_refused(network, data, y, message):
    """With labels 0 and 1 the loss of one class would be ½ whatever is predicted."""
    with pytest.raises(ValueError, match=message):
        certify(network, data[0], y)


def test_features_that_are_not_finite_are_refused(network, data):
    x = data[0].clone()
    x[3, 1] = torch.nan
    with pytest.raises(ValueError, match="finite"):
        certify(network, x, data[1])


def test_state_outside_the_posterior_must_not_have_moved():
    x = torch.randn(100, 3) + 2
    y = torch.where(x[:, 0] > 2, 1.0, -1.0)
    network = Network(nn.BatchNorm1d(3, affine=False), GaussianLinear(3, 1))
    certify(network, x, y, samples=2)  # untouched statistics are a fixed function
    network.train()
    network(x, 1)  # now they have seen the bound set
    with pytest.raises(ValueError, match="outside the posterior changed"):
        certify(network, x, y, samples=2)


def test_conv_bodies_are_certified_with_drawn_weights_not_local_ones():
    """Two equal pixels under a 1×1 kernel: a drawn kernel gives both the same pre-activation."""
    seen = []

    class Probe(nn.Module):
        def forward(self, z):
            seen.append(z.flatten(1).diff().abs().max().item())
            return z.flatten(1)

    body = nn.Sequential(nn.Unflatten(1, (1, 1, 2)), GaussianConv2d(1, 1, 1), Probe())
    network = Network(body, GaussianLinear(2, 1)).train()
    certify(network, torch.ones(8, 2), torch.ones(8), samples=3, repeats=True)
    assert max(seen) == 0


def test_the_risk_is_raised_for_its_roundings(data):
    network = Network(Deterministic(nn.Identity()), GaussianLinear(3, 1))
    c = certify(network, *data)
    assert c.risk + 0.9e-9 < c.risk_upper < c.risk + 1.1e-9


def test_random_labels_give_no_good_news():
    """Noise fitted for a hundred steps: the certificate must not fall below one half."""
    x = torch.randn(200, 5)
    y = torch.where(torch.rand(200) < 0.5, 1.0, -1.0)
    network = dense_network(5, (20,), "relu")
    optimiser = torch.optim.Adam(network.parameters(), lr=0.1)
    for _ in range(100):
        optimiser.zero_grad()
        linear(network(x, 4), y).mean().backward()
        optimiser.step()
    c = certify(network, x, y, samples=10)
    assert c.risk < 0.45  # it did fit
    assert c.bound > 0.5


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, math.nan])
def test_impossible_deltas_are_refused(network, data, delta):
    with pytest.raises(ValueError, match="delta must be in"):
        certify(network, *data, delta=delta)


def test_unknown_bounds_are_refused(network, data):
    with pytest.raises(ValueError, match="bound must be one of"):
        certify(network, *data, bound="best")


def test_a_vacuous_certificate_says_so(network, data):
    c = certify(network, *data, samples=1)
    assert not c.vacuous
    assert dataclasses.replace(c, bound=1.0).vacuous
    assert isinstance(c, Certificate)


def test_best_of_pays_for_its_choice_in_the_ledger(network, data):
    c = certify(network, *data, delta=0.1, bound="best-of", samples=20)
    assert set(c.ledger) == {
        "pac-bayes, small-kl",
        "pac-bayes, unexpected-bernstein",
        "monte-carlo",
    }
    assert c.ledger["monte-carlo"] == 0.05
    assert sum(c.ledger.values()) <= 0.1
    values = [f(c.risk_upper, c.kl, c.n, 0.025) for f in (small_kl, bounds.unexpected_bernstein)]
    assert c.bound == min(values)
    assert c.bound_name in ("small-kl", "unexpected-bernstein")


def test_another_monte_carlo_inequality(network, data):
    inequality = "stratified-bernstein"
    c = certify(network, *data, samples=20, monte_carlo=inequality)
    truth = linear(exact_aggregate(network.double(), data[0].double()), data[1].double()).mean()
    assert c.monte_carlo == inequality
    assert truth < c.risk_upper < c.risk + 0.05
    pairs, N = 400 * 10, 400 * 20
    expected = bounds.stratified_bernstein(c.risk, c.within, pairs, N, 0.025)
    assert c.risk_upper == pytest.approx(expected, abs=1e-6)
    assert c.risk_upper >= expected


def test_a_single_draw_has_no_variance(network, data):
    with pytest.raises(ValueError, match="stratified-bernstein needs at least two draws"):
        certify(network, *data, samples=1, monte_carlo="stratified-bernstein")
    with pytest.raises(ValueError, match="monte_carlo must be one of kl-chernoff"):
        certify(network, *data, samples=1, monte_carlo="hope")


def test_printed_it_says_whom_it_covers_and_rounds_up(network, data):
    c = replace(certify(network, *data, samples=2), bound=0.12340001)
    assert str(c).startswith("at most 12.35 % error with probability 0.95, by small-kl on 400")
    assert str(c).endswith("fresh weights drawn from Q for every prediction")


def test_contributions_add_up_to_the_bound(network, data):
    c = certify(network, *data, samples=20)
    assert math.fsum(c.contributions.values()) == pytest.approx(c.bound, abs=1e-12)
    assert min(c.contributions.values()) >= 0
    ratio = c.contributions["KL of layer.weight"] / c.contributions["KL of body.layers.0.weight"]
    assert ratio == pytest.approx(
        c.kl_by_part["layer.weight"] / c.kl_by_part["body.layers.0.weight"]
    )
    without = small_kl(c.risk_upper, 0.0, c.n, 0.025)
    assert c.contributions["log terms"] == pytest.approx(without - c.risk_upper)


def test_held_out_is_what_unseen_examples_would_give(network, data):
    c = certify(network, *data, samples=20)
    errors = math.ceil(c.risk * 400)
    assert binom.cdf(errors, 400, c.held_out) == pytest.approx(0.05, abs=1e-8)
    assert c.held_out < c.bound
    assert bounds.clopper_pearson(1.0, 400, 0.05) == 1


def test_what_float64_may_lose_is_added_first(network, data):
    """A billionth on the risk, the variance and the variance within, before any inequality."""
    r = 0.9e-9
    c = certify(network, *data, samples=20)
    assert c.risk_upper >= kl_chernoff(c.risk + r, c.draws, 0.025)
    c = certify(network, *data, samples=20, monte_carlo="stratified-bernstein")
    expected = bounds.stratified_bernstein(c.risk + r, c.within + r, 4000, 8000, 0.025)
    assert c.risk_upper >= expected


class Noisy(nn.Module):
    """One draw for a whole batch."""

    def __init__(self):
        super().__init__()
        self.weights = GaussianLinear(3, 3)

    def forward(self, x):
        return x @ self.weights.weight.sample().T


def test_draws_that_a_batch_shares_count_once(data):
    c = certify(Network(Noisy(), GaussianLinear(3, 1)), *data, samples=4)
    assert c.draws < 400 * 4 / 50
    assert c.risk_upper >= kl_chernoff(c.risk, c.draws, 0.025)
    network, inequality = Network(Noisy(), GaussianLinear(3, 1)), "stratified-bernstein"
    shared = certify(network, *data, samples=4, monte_carlo=inequality)
    assert shared.draws < 400 * 4 / 50
    needed = bounds.stratified_bernstein(
        shared.risk, shared.within, shared.draws / 2, shared.draws, 0.025
    )
    assert shared.risk_upper >= needed
    with pytest.raises(ValueError, match="at least two draws for every example"):
        certify(network, *data, samples=1, monte_carlo=inequality)


def test_the_quadrature_of_many_classes_is_paid_for():
    """Of twelve classes, where its error exceeds what roundings are charged."""
    network = dense_network(3, (), classes=12)  # nothing is sampled
    x, y = torch.randn(50, 3), torch.randint(12, (50,))
    c = certify(network, x, y)
    assert (c.draws, c.quadrature_step) == (None, quadrature.step(12))
    assert c.quadrature_error == quadrature.error(12, quadrature.step(12)) > 2e-9
    assert c.risk_upper >= c.risk + c.quadrature_error + 0.9e-9
    assert c.ledger == {"pac-bayes": 0.05}
    sampled = certify(dense_network(3, (4,), classes=12), x, y, samples=3)
    upper = kl_chernoff(sampled.risk + sampled.quadrature_error, sampled.draws, 0.025)
    assert sampled.risk_upper > upper


class Stubborn(nn.Module):
    """A body that cannot be put in evaluation mode."""

    def train(self, mode=True):
        return super().train(True)

    def forward(self, x):
        return x


def test_modules_that_stay_in_training_mode_are_refused(data):
    network = Network(Stubborn(), GaussianLinear(3, 1))
    with pytest.raises(ValueError, match="stays in training mode"):
        certify(network, *data, samples=2)


def test_a_prior_that_changed_after_data_were_seen_is_refused(network, data):
    """Trained, then its prior moved to where training ended: KL = 0, and no certificate."""
    settings = Settings.of("fast", "sign", widths=(3, 2), epochs=1)
    train(network, *data, settings)
    assert certify(network, *data, samples=2).kl > 0
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, Gaussian):
                module.prior_mean.copy_(module.mean)
    with pytest.raises(ValueError, match="the prior changed after the network first saw data"):
        certify(network, *data, samples=2)
    with pytest.raises(ValueError, match="the prior changed after the network first saw data"):
        train(network, *data, settings)


def test_a_bound_set_drawn_with_replacement_is_refused(network, data):
    x, y = data
    again = torch.randint(len(x), (len(x),))
    with pytest.raises(ValueError, match="of 400 examples are duplicates"):
        certify(network, x[again], y[again], samples=2)
    certify(network, x[again], y[again], samples=2, repeats=True)


def test_a_loader_is_refused(network, data):
    loader = DataLoader(TensorDataset(*data), shuffle=True)
    with pytest.raises(ValueError, match=r"the bound set must be two tensors.*got DataLoader"):
        certify(network, loader, data[1])


@pytest.mark.parametrize(
    ("fitted", "message"),
    [
        (lambda x: (x - x.mean(0)) / x.std(0), "mean zero"),
        (lambda x: (x - x.mean(0)) @ torch.linalg.svd(x - x.mean(0))[2].T, "mean zero"),  # PCA
        (lambda x: (x - x.amin(0)) / (x.amax(0) - x.amin(0)), r"spans exactly \[0, 1\]"),
    ],
)
def test_preprocessing_fitted_to_the_bound_set_is_refused(network, data, fitted, message):
    x, y = data
    with pytest.raises(ValueError, match=message):
        certify(network, fitted(x), y, samples=2)
    half = fitted(torch.cat([x, torch.randn(400, 3)]))[:400]  # fitted to more: not to be seen
    certify(network, half, y, samples=2)


def test_votes_are_certified_by_their_own_theorems(network, data):
    first = certify(network, *data, bound="first-order", samples=20)
    assert first.predictor == Predictor.VOTE.sentence
    assert first.bound == bounds.first_order(first.risk_upper, first.kl, 400, 0.025)
    tandem = certify(network, *data, bound="tandem", samples=21)
    assert tandem.predictor == Predictor.VOTE.sentence
    assert tandem.draws == 400 * 10
    assert tandem.risk < first.risk
    assert tandem.risk_upper >= kl_chernoff(tandem.risk, tandem.draws, 0.025)
    assert tandem.bound == bounds.tandem(tandem.risk_upper, tandem.kl, 400, 0.025)
    assert tandem.held_out is None  # pairs have no hold-out
    for c, factor in ((first, 2), (tandem, 4)):
        assert math.fsum(c.contributions.values()) == pytest.approx(c.bound)
        assert c.contributions["risk"] == min(1.0, factor * c.risk)
    with pytest.raises(ValueError, match="needs at least two draws"):
        certify(network, *data, bound="tandem", monte_carlo="stratified-bernstein", samples=20)


def test_a_product_of_two_integrals_errs_twice_as_much():
    network = dense_network(3, (), classes=12)
    x, y = torch.randn(50, 3), torch.randint(12, (50,))
    c = certify(network, x, y, bound="tandem")
    assert c.risk_upper >= c.risk + 2 * c.quadrature_error + 1.8e-9


@pytest.mark.parametrize("values", [2, 3])
def test_features_of_two_values_may_balance_by_themselves(values):
    x = torch.randn(96, 3).sign() if values == 2 else torch.randn(96, 3)
    x = torch.cat([x, -x])
    y = torch.where(torch.rand(192) < 0.5, 1.0, -1.0)
    network = dense_network(3, ())
    if values == 2:
        certify(network, x, y, repeats=True)
    else:
        with pytest.raises(ValueError, match="mean zero"):
            certify(network, x, y)


def test_clipped_features_are_not_fitted_ones():
    x = (0.5 + 0.3 * torch.randn(500, 4)).clamp(0, 1)
    certify(dense_network(4, ()), x, torch.ones(500))


def test_few_repeats_are_no_offence_and_more_are():
    x, y = torch.randn(500, 3), torch.ones(500)
    network = dense_network(3, ())
    x[1:6] = x[0]
    certify(network, x, y)
    x[6] = x[0]
    with pytest.raises(ValueError, match="6 of 500 examples are duplicates"):
        certify(network, x, y)


def test_a_body_that_looks_at_its_batch_is_not_deterministic():
    body = Deterministic(nn.BatchNorm1d(3, affine=False, track_running_stats=False))
    with pytest.raises(ValueError, match="different activations when it is called again"):
        certify(Network(body, GaussianLinear(3, 1)).eval(), torch.randn(60, 3), torch.ones(60))


def test_a_saved_state_may_be_loaded_before_the_first_look(data):
    def build():
        return Network(nn.BatchNorm1d(3, affine=False), GaussianLinear(3, 1))

    other = build()
    other.body.module.running_mean += 1.0  # fixed before any look
    network = build()
    network.load_state_dict(other.state_dict())
    certify(network, *data, samples=2)


@pytest.mark.parametrize("mode", [True, False])
def test_ones_own_loop_is_a_first_look_in_either_mode(data, mode):
    network = dense_network(3, (4,)).train(mode)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.1)
    linear(network(data[0], 2), data[1]).mean().backward()
    optimiser.step()
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, Gaussian):
                module.prior_mean.copy_(module.mean)
    with pytest.raises(ValueError, match="the prior changed after the network first saw data"):
        certify(network, *data, samples=2)


def test_ones_own_training_is_a_first_look():
    x = torch.randn(100, 3) + 2
    y = torch.where(x[:, 0] > 2, 1.0, -1.0)
    network = Network(nn.BatchNorm1d(3, affine=False), GaussianLinear(3, 1)).train()
    network(x, 1)  # its statistics see the bound set
    with pytest.raises(ValueError, match="outside the posterior changed"):
        certify(network, x, y, samples=2)


@pytest.mark.parametrize("delta", [5, "0.05", None])
def test_an_impossible_delta_is_named_as_it_was_given(network, data, delta):
    with pytest.raises(ValueError, match=rf"delta must be in \(0, 1\), got {delta!r}"):
        certify(network, *data, delta=delta)


def test_a_module_without_a_prior_is_refused(data):
    with pytest.raises(ValueError, match=r"build_network or stochastic.* got Linear"):
        certify(nn.Linear(data[0].shape[1], 1), *data)


@pytest.mark.parametrize("part", ["pac-bayes", "monte-carlo"])
def test_a_ledger_without_a_part_that_was_spent_is_refused(network, data, part):
    certificate = certify(network, *data, samples=2)
    ledger = {name: share for name, share in certificate.ledger.items() if name != part}
    with pytest.raises(ValueError, match=f"no part for '{part}"):
        replace(certificate, ledger=ledger)


@pytest.fixture
def module():
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


def test_a_certificate_s_term_is_about_what_was_wanted(module, examples):
    certificate = certify(module, *examples, samples="auto", monte_carlo="stratified-bernstein")
    term = certificate.risk_upper - certificate.risk
    assert term == pytest.approx(wanted_term(certificate.risk), rel=0.3)


def test_the_pilot_has_other_draws_than_the_certificate(module, examples, monkeypatch):
    keys = []
    certifying = import_module("pacbayes.certificates.certify")
    measure = certifying.keyed_risk

    def noted(module, x, y, samples, key):
        keys.append(key)
        return measure(module, x, y, samples, key)

    monkeypatch.setattr(certifying, "keyed_risk", noted)
    key = draws_key(module, *examples)
    planned_draws(module.double().eval(), *(t.double() for t in examples), key, 0.01)
    assert len(keys) == 1
    assert key not in keys


def test_little_time_means_few_draws(module, examples):
    x, y = (t.double() for t in examples)
    assert planned_draws(module.double().eval(), x, y, b"key", 0.01, seconds=1e-9) == 2


def test_networks_that_draw_for_every_example_take_a_hundred():
    from pacbayes import dense_network

    x = torch.rand(50, 3, generator=torch.Generator().manual_seed(0))
    y = torch.where(x[:, 0] > 0.5, 1.0, -1.0)
    assert certify(dense_network(3, (4,)), x, y, samples="auto").samples == 100


def test_an_executor_has_the_parts_in_order(module, examples):
    seen = []

    def executor(work, x, y, parts):
        seen.extend(part.stop - part.start for part in parts)
        return in_turn(work, x, y, parts)

    keyed_risk(module.double().eval(), *examples, 2, b"key", executor=executor)
    assert seen == [64, 64, 64, 64, 44]
