"""Every estimator against exact enumeration of everything its sampler can do."""

import itertools
import math

import pytest
import torch
from torch import nn
from torch.special import ndtr

from pacbayes import (
    Dense,
    Deterministic,
    GaussianConv2d,
    GaussianLinear,
    Network,
    Sampled,
    Settings,
    build_network,
    dense_network,
    exact_aggregate,
    kl,
)
from pacbayes.networks import activations, heads
from pacbayes.networks.activations import leave_one_out

X = torch.tensor([[0.5, -1.0, 2.0]], dtype=torch.float64)


def small_network(widths, estimator, learned_scale=True):
    network = dense_network(3, widths, "sign", estimator=estimator, learned_scale=learned_scale)
    with torch.no_grad():
        for p in network.parameters():
            p += 0.3 * torch.randn_like(p)
    return network.double()


def every_outcome(network, T, monkeypatch):
    """Value and gradient of E[F̂], summed over all sign vectors its T samples may take.

    Estimates of different examples are independent, so every outcome becomes an example of one
    batch, the sampler is told to return it, and its exact probability weighs it.
    """
    widths = [layer.bias.mean.shape[0] for layer in network.body.layers]
    if network.head is heads.sampled:
        widths.append(1)
    vectors = list(itertools.product((-1.0, 1.0), repeat=sum(widths)))
    outcomes = torch.tensor(list(itertools.product(vectors, repeat=T)), dtype=torch.float64)
    layers = outcomes.transpose(0, 1).split(widths, dim=-1)  # each (T, outcomes, d)

    weights = torch.ones(outcomes.shape[0], dtype=torch.float64)
    below = X.expand(T, len(weights), 3)
    with torch.no_grad():
        for layer, a in zip((*network.body.layers, network.layer), layers, strict=False):
            mean, deviation = layer.moments(below)
            weights = weights * ndtr(a * mean / deviation).prod(-1).prod(0)
            below = a
    assert weights.sum().item() == pytest.approx(1)

    prescribed = iter(layers)
    monkeypatch.setattr(activations, "sample_sign", lambda u, T: next(prescribed))
    monkeypatch.setattr(heads, "sample_sign", lambda u, T: next(prescribed))
    total = (weights * network(X.expand(len(weights), 3), T)).sum()
    return total, torch.autograd.grad(total, list(network.parameters()))


def exact(network):
    total = exact_aggregate(network, X).sum()
    return total, torch.autograd.grad(total, list(network.parameters()))


UNBIASED = [
    ("marginal", 1),
    ("marginal", 2),
    ("leave-one-out", 2),
    ("leave-one-out", 3),
    ("local-expectation", 2),
]


@pytest.mark.parametrize("widths", [(2,), (2, 1), (1, 1, 1)])
@pytest.mark.parametrize(("estimator", "T"), UNBIASED)
def test_sign_estimators_are_unbiased(estimator, T, widths, monkeypatch):
    network = small_network(widths, estimator)
    value, gradients = every_outcome(network, T, monkeypatch)
    expected, truth = exact(network)
    assert value.item() == pytest.approx(expected.item(), abs=1e-12)
    for found, wanted in zip(gradients, truth, strict=True):
        assert torch.allclose(found, wanted, rtol=0, atol=1e-11)


def test_local_expectation_needs_no_second_sample_over_one_hidden_layer(monkeypatch):
    network = small_network((3,), "local-expectation")
    _, gradients = every_outcome(network, 1, monkeypatch)
    for found, wanted in zip(gradients, exact(network)[1], strict=True):
        assert torch.allclose(found, wanted, rtol=0, atol=1e-11)


@pytest.mark.parametrize("T", [1, 2])
def test_sampled_head_is_unbiased_too(T, monkeypatch):
    network = small_network((2,), "marginal")
    network.head = heads.sampled
    value, gradients = every_outcome(network, T, monkeypatch)
    expected, truth = exact(network)
    assert value.item() == pytest.approx(expected.item(), abs=1e-12)
    for found, wanted in zip(gradients, truth, strict=True):
        assert torch.allclose(found, wanted, rtol=0, atol=1e-11)


def test_straight_through_is_biased_as_documented(monkeypatch):
    network = small_network((2, 1), "straight-through")
    value, gradients = every_outcome(network, 1, monkeypatch)
    expected, truth = exact(network)
    assert value.item() == pytest.approx(expected.item(), abs=1e-12)  # values are right
    last = len(list(network.layer.parameters()))
    for found, wanted in zip(gradients[-last:], truth[-last:], strict=True):
        assert torch.allclose(found, wanted, atol=1e-11)  # so is the last layer's gradient
    worst = max(
        (f - w).abs().max().item() for f, w in zip(gradients[:-last], truth[:-last], strict=True)
    )
    assert worst > 1e-2


@pytest.mark.parametrize("estimator", ["marginal", "leave-one-out", "local-expectation"])
def test_real_samples_agree_with_enumeration(estimator, z_scores):
    """The same with the sampler left in place: 400 replicates of T = 20."""
    network = small_network((3, 2), estimator)
    _, truth = exact(network)
    replicates = []
    for _ in range(400):
        gradients = torch.autograd.grad(network(X, 20).sum(), list(network.parameters()))
        replicates.append(torch.cat([g.flatten() for g in gradients]))
    z = z_scores(torch.stack(replicates), torch.cat([g.flatten() for g in truth]))
    assert z.abs().max() < 5.5  # about 50 entries: false alarm below 1e-5


def test_leave_one_out_and_local_expectation_lower_the_variance():
    """Gradient variance of the last hidden layer at T = 10, in the order they were made for."""
    variances = {}
    for estimator in ("marginal", "leave-one-out", "local-expectation"):
        torch.manual_seed(7)
        network = small_network((5, 5), estimator)
        with torch.no_grad():
            network.layer.bias.mean += 1.0  # a mean output that a baseline can remove
        last = list(network.body.layers[-1].parameters())
        replicates = []
        for _ in range(300):
            gradients = torch.autograd.grad(network(X, 10).sum(), last)
            replicates.append(torch.cat([g.flatten() for g in gradients]))
        variances[estimator] = torch.stack(replicates).var(0).sum().item()
    assert variances["leave-one-out"] < 0.5 * variances["marginal"]
    assert variances["local-expectation"] < 0.5 * variances["leave-one-out"]


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_pathwise_network_has_the_gradient_of_its_expectation(activation, z_scores):
    """Against central differences of F_Q with common random numbers, 3-2-1."""
    network = dense_network(3, (2,), activation, learned_scale=True).double()
    draws, h = 20_000, 1e-4
    for parameter in (network.body.layers[0].weight.mean, network.layer.weight.log_scale):

        def outputs(shift, parameter=parameter):
            torch.manual_seed(5)
            with torch.no_grad():
                parameter.view(-1)[0] += shift
                values = network.draw(X, draws).value[:, 0]
                parameter.view(-1)[0] -= shift
            return values

        slopes = (outputs(h) - outputs(-h)) / (2 * h)
        torch.manual_seed(6)
        gradients = []
        for _ in range(400):
            (g,) = torch.autograd.grad(network(X, 50).sum(), parameter)
            gradients.append(g.flatten()[0])
        gradients = torch.stack(gradients)
        error = (slopes.var() / draws + gradients.var() / 400).sqrt()
        assert abs(slopes.mean() - gradients.mean()) < 5 * error  # false alarm 6e-7


def test_forward_value_is_the_mean_of_the_draws():
    network = dense_network(3, (4,), "sign", estimator="leave-one-out").double()
    torch.manual_seed(1)
    value = network(X, 8)
    torch.manual_seed(1)
    assert torch.allclose(value, network.draw(X, 8).value.mean(0))


def test_any_module_can_be_a_body():
    """A small convolutional body, stochastic; a frozen one; dropout; each trains and covers."""
    x = torch.rand(6, 64)
    conv = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), GaussianConv2d(1, 2, 3), nn.ReLU(), nn.Flatten()
    )
    network = Network(conv, GaussianLinear(72, 1))
    assert isinstance(network.body, Sampled)
    assert network.freshness == "per-batch"
    network(x, 3).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())
    assert kl(network).item() == 0

    frozen = nn.Sequential(nn.Linear(64, 5), nn.Tanh()).requires_grad_(False)
    exactly = Network(Deterministic(frozen), GaussianLinear(5, 1))
    assert exactly.freshness == "exact"
    assert torch.equal(exactly(x, 1), exactly(x, 50))

    dropout = Network(nn.Dropout(0.5), GaussianLinear(64, 1))
    samples = dropout.draw(x, 4).value
    assert samples.shape == (4, 6)
    assert not torch.equal(samples[0], samples[1])


def test_what_only_claims_to_be_deterministic_is_refused():
    conv = nn.Sequential(nn.Unflatten(1, (1, 8, 8)), GaussianConv2d(1, 2, 3), nn.Flatten())
    with pytest.raises(ValueError, match="not deterministic; use Sampled"):
        Deterministic(conv)
    noise = type("Noise", (nn.Module,), {"forward": lambda self, x: x + torch.randn_like(x)})
    network = Network(Deterministic(noise()), GaussianLinear(3, 1))
    with torch.no_grad(), pytest.raises(ValueError, match="not deterministic; use Sampled"):
        network.draw(torch.ones(4, 3), 2)


def test_a_head_that_may_sample_is_not_exact():
    head = lambda layer, a: heads.sampled(layer, a)
    network = Network(Deterministic(nn.Identity()), GaussianLinear(3, 1), head)
    assert network.freshness == "per-example"


def test_a_sampled_head_over_a_deterministic_body_is_not_exact():
    network = Network(Deterministic(nn.Identity()), GaussianLinear(3, 1), heads.sampled)
    assert network.freshness == "per-example"
    assert network.draw(X.float(), 9).value.shape == (9, 1)


def test_bad_shapes_and_names_are_refused():
    with pytest.raises(ValueError, match="activation must be one of"):
        dense_network(3, (2,), "tanh")
    with pytest.raises(ValueError, match="estimator must be one of"):
        dense_network(3, (2,), "sign", estimator="magic")
    with pytest.raises(ValueError, match="widths must be positive"):
        dense_network(3, (2, 0), "relu")
    with pytest.raises(ValueError, match="at least 1, got 0"):
        dense_network(3, (2,), "relu")(X.float(), 0)
    with pytest.raises(ValueError, match="every layer needs one rule"):
        Dense([GaussianLinear(2, 2)], [])
    with pytest.raises(ValueError, match=r"needs examples of shape \(B, d\)"):
        dense_network(3, (2,))(torch.zeros(2, 4, 3), 1)


def test_settings_reach_the_network():
    settings = Settings(
        activation="sign", widths=(4, 3), estimator="local-expectation", prior_scale=0.5, seed=3
    )
    network = build_network(settings, 5)
    assert network.head is heads.differenced
    assert network.baseline is leave_one_out
    assert network.body.rules == [activations.sign, activations.sign_straight]
    assert network.layer.weight.prior_log_scale.item() == pytest.approx(math.log(0.5))
    again, other = (
        build_network(settings, 5),
        build_network(settings.model_copy(update={"seed": 4}), 5),
    )
    assert torch.equal(again.layer.weight.mean, network.layer.weight.mean)
    assert not torch.equal(other.layer.weight.mean, network.layer.weight.mean)


def test_signed_linear_classifier_of_germain_et_al():
    """erf(μ·x / √2‖x‖) in the paper's bias-free limit: a bias of scale → 0 and mean 0."""
    network = dense_network(3, (), "relu").double()
    with torch.no_grad():
        network.layer.bias.mean.zero_()
    big = 1e6 * X  # the unit bias variance vanishes beside ‖x‖²
    mu = network.layer.weight.mean[0]
    cosine = (mu @ X[0] / (math.sqrt(2) * X[0].norm())).item()
    assert network(big, 1).item() == pytest.approx(math.erf(cosine), abs=1e-9)


@pytest.mark.parametrize("learned_scale", [False, True])
@pytest.mark.parametrize("estimator", ["marginal", "leave-one-out"])
def test_many_classes_have_the_enumerated_value_and_gradient(estimator, learned_scale, z_scores):
    network = dense_network(
        4, (3, 2), "sign", classes=3, estimator=estimator, learned_scale=learned_scale
    ).double()
    x, y = torch.randn(3, 4, dtype=torch.float64), torch.tensor([0, 2, 1])
    parameters = list(network.parameters())
    truth = network.loss(exact_aggregate(network, x), y).mean()
    exact = torch.cat([g.flatten() for g in torch.autograd.grad(truth, parameters)])
    values, gradients = [], []
    for _ in range(400):
        loss = network.loss(network(x, 20), y).mean()
        values.append(loss.detach())
        found = torch.autograd.grad(loss, parameters)
        gradients.append(torch.cat([g.flatten() for g in found]))
    assert z_scores(torch.stack(values), truth.detach()).abs() < 5  # false alarm 6e-7
    assert z_scores(torch.stack(gradients), exact).abs().max() < 5.5  # 64 entries: below 3e-6


@pytest.mark.parametrize(
    ("activation", "estimator"),
    [("relu", "marginal"), ("sign", "marginal"), ("sign", "leave-one-out")],
)
def test_a_label_alone_has_the_value_and_gradient_that_it_has_among_all(activation, estimator):
    network = dense_network(4, (6,), activation, classes=5, estimator=estimator)
    x, y = torch.randn(7, 4), torch.arange(7) % 5
    outcomes = []
    for ask in (
        lambda: network(x, 3)[torch.arange(7), y],
        lambda: network.label_probability(x, y, 3),
    ):
        torch.manual_seed(1)
        p = ask()
        outcomes.append(
            [
                p.detach(),
                *torch.autograd.grad(p.log().sum(), network.parameters(), allow_unused=True),
            ]
        )
    for one, other in zip(*outcomes, strict=True):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-6)
    assert torch.allclose(*(outcome[0] for outcome in outcomes), rtol=1e-12)


def test_probabilities_of_many_classes_sum_to_one():
    network = dense_network(4, (6,), "relu", classes=5)
    total = network(torch.randn(7, 4), 3).sum(-1)
    assert torch.allclose(total, torch.ones(7).double(), atol=1e-6)


@pytest.mark.parametrize("estimator", ["local-expectation", "reinforce", "reinforce-per-example"])
def test_estimators_for_two_classes_are_refused_for_more(estimator):
    with pytest.raises(ValueError, match=f"{estimator} takes two classes, got 3"):
        dense_network(4, (6,), "sign", classes=3, estimator=estimator)


def test_outputs_that_mean_nothing_are_refused():
    with pytest.raises(ValueError, match="got 2 outputs"):
        Network(Deterministic(nn.Identity()), GaussianLinear(3, 2))
    with pytest.raises(ValueError, match="only the aggregated head fits 3 outputs"):
        Network(Deterministic(nn.Identity()), GaussianLinear(3, 3), heads.sampled)
    with pytest.raises(ValueError, match="classes must be at least 2, got 1"):
        dense_network(4, (6,), classes=1)


def by_hand(network, x):
    """F_Q of a 2-hidden-layer sign network with nested Python loops over every activation."""
    first, second = network.body.layers

    def q(layer, a, below):
        mean, deviation = layer.moments(below)
        p = 0.5 * (1 + torch.erf(a * mean / (math.sqrt(2) * deviation)))
        return p.prod().item()

    total = 0.0
    for a1 in itertools.product((-1.0, 1.0), repeat=2):
        for a2 in itertools.product((-1.0, 1.0), repeat=3):
            s1, s2 = torch.tensor(a1).double(), torch.tensor(a2).double()
            mean, deviation = network.layer.moments(s2)
            output = math.erf((mean / deviation).item() / math.sqrt(2))
            total += output * q(second, s2, s1) * q(first, s1, x)
    return total


@pytest.mark.parametrize("learned_scale", [False, True])
def test_iterated_sum_against_nested_loops(learned_scale):
    network = dense_network(4, (2, 3), "sign", learned_scale=learned_scale).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    F = exact_aggregate(network, x)
    for i in range(3):
        assert F[i].item() == pytest.approx(by_hand(network, x[i]), abs=1e-12)


def test_sum_is_the_average_over_drawn_weights(z_scores):
    """Weights drawn from Q, plain forward passes: the meaning of F_Q, with nothing in common."""
    network = dense_network(3, (2, 2), "sign").double()
    x = torch.randn(2, 3, dtype=torch.float64)
    a = x.expand(40_000, 2, 3)
    with torch.no_grad():
        for layer in (*network.body.layers, network.layer):
            W, b = layer.weight.sample(40_000), layer.bias.sample(40_000)
            a = torch.sign(a @ W.mT + b.unsqueeze(1))
        expected = exact_aggregate(network, x)
    assert z_scores(a.squeeze(-1), expected).abs().max() < 5  # false alarm 1e-6


def test_gradient_against_finite_differences():
    network = dense_network(3, (2, 2), "sign", learned_scale=True).double()
    x = torch.randn(2, 3, dtype=torch.float64)
    parameters = list(network.parameters())

    def f(*values):
        with torch.no_grad():
            for p, v in zip(parameters, values, strict=True):
                p.copy_(v)
        return exact_aggregate(network, x).sum().item()

    gradients = torch.autograd.grad(exact_aggregate(network, x).sum(), parameters)
    start = [p.detach().clone() for p in parameters]
    h = 1e-6
    for k, gradient in enumerate(gradients):
        for index in itertools.islice(itertools.product(*map(range, gradient.shape)), 4):
            up, down = [s.clone() for s in start], [s.clone() for s in start]
            up[k][index] += h
            down[k][index] -= h
            slope = (f(*up) - f(*down)) / (2 * h)
            assert gradient[index].item() == pytest.approx(slope, abs=1e-8)


def test_without_hidden_layers_it_is_the_signed_linear_classifier():
    network = dense_network(4, (), "sign").double()
    x = torch.randn(5, 4, dtype=torch.float64)
    mu, beta = network.layer.weight.mean[0], network.layer.bias.mean[0]
    expected = torch.erf((x @ mu + beta) / (2 * (x.square().sum(1) + 1)).sqrt())
    assert torch.allclose(exact_aggregate(network, x), expected)
    assert torch.allclose(network(x, 1), expected)  # nothing is sampled


def test_too_large_a_sum_is_refused_with_its_size():
    with pytest.raises(ValueError, match=r"widths \[30\] for 1 examples needs \d+ numbers"):
        exact_aggregate(dense_network(4, (30,), "sign"), torch.zeros(1, 4))


def test_units_that_are_not_signs_are_refused():
    with pytest.raises(ValueError, match="only sign activations"):
        exact_aggregate(dense_network(4, (2,), "relu"), torch.zeros(1, 4))


def test_deterministic_bodies_are_exact_and_others_refused():
    body = nn.Linear(4, 3).requires_grad_(False)
    x = torch.randn(2, 4)
    network = Network(Deterministic(body), GaussianLinear(3, 1))
    assert torch.equal(exact_aggregate(network, x), network(x, 7))
    with pytest.raises(ValueError, match="deterministic"):
        exact_aggregate(Network(Sampled(body), GaussianLinear(3, 1)), x)
