"""A network from any module: Q covers its parameters, and certificates only evaluate it."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from pacbayes import Settings, certify, fold_batch_norm, kl, stochastic, train
from pacbayes.certificates.kept import certify_fixed, certify_network
from pacbayes.networks.families.diagonal import INITIAL_VARIANCE
from pacbayes.networks.posterior import gaussians, kl_by_part
from pacbayes.networks.predictors import draw_network, prior_weights, scores
from pacbayes.networks.risk import keyed_risk, predict_randomised
from pacbayes.networks.stochastic import draw_order


def convolutions(outputs=1):
    return nn.Sequential(
        nn.Unflatten(1, (1, 6, 6)),
        nn.Conv2d(1, 4, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3, padding=2, dilation=2, groups=2, bias=False),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(36, outputs),
    )


class Attention(nn.Module):
    """Embedding, attention, both norms and a parameter of its own, used outside any layer."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 8)
        self.position = nn.Parameter(0.1 * torch.randn(6, 8))
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm, self.groups = nn.LayerNorm(8), nn.GroupNorm(2, 6)
        self.gain = nn.Parameter(torch.tensor(1.5))
        self.fc = nn.Linear(8, 1)

    def forward(self, x):
        z = self.embed(x.long()) + self.position
        z = z + self.attend(z, z, z, need_weights=False)[0]
        return self.fc(self.gain * self.groups(self.norm(z)).mean(1))


@pytest.fixture
def images():
    """Images that are brighter above or below."""
    x = torch.rand(150, 36, generator=torch.Generator().manual_seed(1))
    y = torch.where(x[:, 0] > 0.5, 1.0, -1.0)
    x[:, :18] += 0.5 * y.unsqueeze(1)
    return x, y


@pytest.fixture
def tokens():
    x = torch.randint(5, (100, 6), generator=torch.Generator().manual_seed(2)).float()
    return x, torch.where((x == 1).sum(1) > 1, 1.0, -1.0)


def test_every_parameter_is_covered_once_and_the_module_is_left_alone():
    module = convolutions()
    before = copy.deepcopy(module.state_dict())
    network = stochastic(module)
    names = {"body.posterior.1.weight", "body.posterior.1.bias", "body.posterior.3.weight"}
    assert set(kl_by_part(network)) == names | {"layer.weight", "layer.bias"}
    assert sum(p.numel() for p in network.parameters()) == 2 * sum(
        p.numel() for p in module.parameters()
    )
    assert kl(network).item() == 0
    with torch.no_grad():
        for p in network.parameters():
            p += 1
    assert all(torch.equal(before[k], v) for k, v in module.state_dict().items())


def test_with_known_weights_it_is_the_module_itself(images):
    for module, x, last in (
        (convolutions(10), images[0], None),
        (Attention(), torch.randint(5, (9, 6)).float(), "fc"),
    ):
        network = stochastic(module, last).double()
        expected = module.double().eval()(x.double())
        found = scores(network, prior_weights(network), x)
        assert torch.allclose(found, expected.squeeze(-1), rtol=1e-9, atol=1e-12)


def test_a_draw_evaluates_the_module_at_weights_from_q(images):
    module = convolutions()
    network = stochastic(module, scale=0.3).double()
    with torch.no_grad():
        for g in gaussians(network).values():
            g.log_scale += torch.randn_like(g.log_scale)
    drawn = network.body.draw_with(images[0].double(), 3, np.random.default_rng(5))
    generator = np.random.default_rng(5)
    for t in range(3):
        state = {}
        for name in ("1.weight", "1.bias", "3.weight"):
            g = gaussians(network.body.posterior)[name]
            noise = torch.from_numpy(generator.standard_normal(tuple(g.mean.shape)))
            state[name] = g.mean + g.log_scale.exp() * noise
        again = copy.deepcopy(module).double()[:-1]
        again.load_state_dict(state)
        assert torch.allclose(drawn[t], again(images[0].double()), rtol=1e-12)


@pytest.mark.parametrize("build", ["convolutions", "one", "attention"])
def test_training_draws_have_the_marginals_of_drawn_weights(build, z_scores):
    """Before any nonlinearity every output has the same mean and variance, drawn either way."""
    bodies = {
        "convolutions": (nn.Conv2d(2, 4, 2, stride=2, padding=1, groups=2), (2, 2, 3, 3)),
        "one": (nn.Conv1d(2, 3, 2, dilation=2, bias=False), (2, 2, 4)),
        "attention": (nn.LayerNorm(4), (2, 4)),
    }
    layer, shape = bodies[build]
    body = stochastic(nn.Sequential(layer, nn.Flatten()), nn.Linear(8, 1), scale=0.5).double().body
    x = torch.randn(shape, dtype=torch.float64)
    T = 4000
    local = body.draw(x, T).value.detach()
    with torch.no_grad():
        drawn = body.draw(x, T).value
    error = (local.var(0) / T + drawn.var(0) / T).sqrt()
    assert ((local.mean(0) - drawn.mean(0)) / error).abs().max() < 5.5  # 48 outputs: below 2e-6
    ratio = (local.var(0) / drawn.var(0)).log()
    assert (ratio / (2 / T**0.5)).abs().max() < 5.5


def test_local_draws_are_independent_pixel_by_pixel_and_draws_from_q_are_not():
    body = stochastic(nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten()), nn.Linear(2, 1)).body
    x = torch.ones(1, 1, 1, 2)  # two equal pixels
    assert body.draw(x, 1).value.diff().item() != 0
    with torch.no_grad():
        assert body.draw(x, 1).value.diff().item() == 0


@pytest.mark.parametrize("layer", [nn.Conv1d(1, 2, 2, bias=False), nn.Linear(3, 4, bias=False)])
def test_zeros_without_a_bias_leave_finite_slopes(layer):
    module = nn.Sequential(layer, nn.Flatten(), nn.Linear(4, 1))
    network = stochastic(module)
    network(torch.zeros(3, 1, 3), 2).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters())


def test_a_convolution_learns_and_is_certified(images):
    network = stochastic(convolutions(), seed=0)
    settings = Settings.of("fast", epochs=20, samples=1, evaluate_every=20, lam=1e5)
    history = train(network, *images, settings)
    assert history[-1].risk < 0.35
    found = certify(network, *images, samples=8)
    assert found.draws == 150 * 8 / 64
    assert found.assumptions.prior_seed == 0
    assert found.ledger["other seeds"] == pytest.approx(0.025)
    assert found.bound >= found.risk_upper >= found.risk
    assert found.kl == pytest.approx(kl(network.double()).item(), rel=1e-6)


def test_attention_on_tokens_learns_and_is_certified(tokens):
    network = stochastic(Attention(), "fc", scale=0.05)
    settings = Settings.of("fast", epochs=30, samples=2, evaluate_every=30, lam=1e5)
    train(network, *tokens, settings)
    found = certify(network, *tokens, samples=4, repeats=True)
    assert found.risk < 0.3
    assert found.assumptions.prior_seed is None
    assert "body.posterior.gain" in found.kl_by_part


def test_a_seed_draws_weights_as_dense_networks_do_and_norms_as_one_and_zero():
    networks = [stochastic(Attention(), "fc", seed=3) for _ in range(2)]
    first, second = (gaussians(n) for n in networks)
    assert all(torch.equal(first[k].mean, second[k].mean) for k in first)
    assert networks[0].prior_seed == 3
    assert (first["body.posterior.norm.weight"].mean == 1).all()
    assert (first["body.posterior.groups.bias"].mean == 0).all()
    weights = torch.cat(
        [first[f"body.posterior.{k}.weight"].mean for k in ("embed", "attend.out_proj")]
    )
    assert 0.3 < weights.abs().max() <= 2 * INITIAL_VARIANCE**0.5 + 1e-6
    other = stochastic(Attention(), "fc", seed=4)
    assert not torch.equal(gaussians(other)["layer.weight"].mean, first["layer.weight"].mean)


def test_a_module_as_given_has_no_seed_to_pay_for(images):
    network = stochastic(convolutions())
    assert network.prior_seed is None
    assert "other seeds" not in certify(network, *images, samples=2).ledger


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.two(self.one(x))


def test_tied_weights_are_one_gaussian_and_one_draw():
    network = stochastic(Tied(), nn.Linear(4, 1)).double()
    names = {"one.weight", "one.bias", "two.bias"}
    assert set(gaussians(network.body.posterior)) == names
    x = torch.randn(5, 4, dtype=torch.float64)
    weights = draw_network(network, np.random.default_rng(0)).weights
    own = {name: weights[f"body.posterior.{name}"] for name in names}
    W = own["one.weight"]
    expected = (x @ W.T + own["one.bias"]) @ W.T + own["two.bias"]
    assert torch.allclose(network.body.at(x, own), expected)


def test_frozen_parameters_stay_outside_q_and_are_hashed(images):
    module = convolutions()
    module[1].requires_grad_(False)
    network = stochastic(module)
    assert "body.posterior.1.weight" not in kl_by_part(network)
    assert certify(network, *images, samples=2).assumptions.body_sha256 is not None
    with torch.no_grad():
        network.body.module[1].weight += 1
    with pytest.raises(ValueError, match="outside the posterior changed"):
        certify(network, *images, samples=2)


class Mixing(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


class Noisy(nn.Module):
    def forward(self, x):
        return x + 1e-3 * torch.randn_like(x)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x


class Stray(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return x


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (nn.BatchNorm1d(36), "depend on each other"),
        (nn.BatchNorm1d(36, track_running_stats=False).eval(), "depend on each other"),
        (nn.Dropout(0.1), "set its p to 0"),
        (nn.LazyLinear(36), "call the module once"),
        (Stray(torch.ones(36)), "a parameter or a buffer"),
        (Stray([torch.ones(36)]), "a parameter or a buffer"),
        (Stray({"labels": (np.ones(36),)}), "a parameter or a buffer"),
        (nn.GRU(36, 36), "use cells"),
        (stochastic(nn.Sequential(nn.Linear(2, 1))).layer.weight, "Gaussian already"),
    ],
)
def test_what_q_cannot_cover_is_refused_at_once(part, says):
    with pytest.raises(ValueError, match=says):
        stochastic(nn.Sequential(part, nn.Linear(36, 1)))


@pytest.mark.parametrize(
    ("part", "says"),
    [(Mixing(), "in another batch"), (Noisy(), "in another batch"), (Counting(), "its buffers")],
)
def test_what_mixes_examples_or_remembers_is_refused_when_certified(part, says, images):
    network = stochastic(nn.Sequential(part, nn.Linear(36, 4), nn.ReLU(), nn.Linear(4, 1)))
    with pytest.raises(ValueError, match=says):
        certify(network, *images, samples=2)
    with pytest.raises(ValueError, match=says):
        certify_fixed(network, *images)


def test_batch_norm_with_frozen_statistics_is_a_fixed_map(images):
    module = nn.Sequential(nn.BatchNorm1d(36), nn.Linear(36, 1)).eval()
    network = stochastic(module)
    settings = Settings.of("fast", epochs=1, evaluate_every=1)
    train(network, *images, settings)
    assert torch.equal(network.body.module[0].running_mean, torch.zeros(36))
    assert certify(network, *images, samples=2).assumptions.body_sha256


def test_a_last_layer_must_be_named_or_given():
    for last in (None, "norm", "missing"):
        with pytest.raises(ValueError, match="name it, as in"):
            stochastic(Attention(), last)
    nested = nn.Sequential(nn.Linear(3, 2), nn.Sequential(nn.ReLU(), nn.Linear(2, 1)))
    assert gaussians(stochastic(nested))["layer.weight"].mean.shape == (1, 2)


def test_activations_of_a_wrong_shape_are_refused(images):
    network = stochastic(nn.Unflatten(1, (1, 6, 6)), nn.Linear(36, 1))
    with pytest.raises(ValueError, match=r"nn.Flatten"):
        network(images[0], 1)


def test_the_network_at_the_priors_means_and_one_drawn_are_certified(images):
    network = stochastic(convolutions(), scale=0.01)
    fixed = certify_fixed(network, *images)
    margins = images[1] * scores(network.double(), prior_weights(network), images[0])
    assert fixed.risk == (margins <= 0).double().mean().item()
    best, weights = certify_network(network, *images)
    assert best.bound <= 1
    assert set(weights) == set(gaussians(network))


def test_shared_draws_have_the_variance_of_their_blocks(images):
    network = stochastic(convolutions()).double().eval()
    x, y = images[0][:128], images[1][:128]  # two blocks
    found = keyed_risk(network, x, y, 300, b"key")
    variances = []
    for inputs, labels in zip(x.split(64), y.split(64), strict=True):
        value = network.draw_with(inputs.double(), 1000, np.random.default_rng(1))
        variances.append(network.loss(value, labels).mean(1).var().item())
    assert found.within == pytest.approx(sum(variances) / 2, rel=0.25)  # four standard errors
    assert found.draws == 600


def test_stratified_bernstein_uses_the_blocks_and_is_tighter(images):
    network = stochastic(convolutions(), scale=0.05)
    kinds = ("kl-chernoff", "stratified-bernstein")
    loose, tight = (certify(network, *images, samples=60, monte_carlo=kind) for kind in kinds)
    assert tight.risk == loose.risk
    assert tight.risk < tight.risk_upper < loose.risk_upper


def test_predictions_are_drawn_one_by_one(images):
    network = stochastic(convolutions()).eval()
    assert set(predict_randomised(network, images[0][:20]).tolist()) <= {-1.0, 1.0}


@pytest.mark.slow
def test_labels_of_shared_draws_have_the_same_distribution_each():
    torch.manual_seed(0)
    network = stochastic(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), seed=0).eval()
    x = torch.tensor([[0.4, -1.0]])
    labels = predict_randomised(network, x.expand(20_000, 2), shared=4).view(-1, 4)
    wanted = network.draw(x, 20_000).value.double()  # F of 20 000 networks
    apart = labels.double().mean() - wanted.mean()
    spread = (labels.double().mean(1).var() / 5_000 + wanted.var() / 20_000).sqrt()
    assert abs(apart) < 5 * spread  # false alarm 6e-7


class Twice(nn.Module):
    """Its last layer is used twice, or its output is changed afterwards."""

    def __init__(self, mode):
        super().__init__()
        self.first, self.fc, self.mode = nn.Linear(36, 36), nn.Linear(36, 36), mode

    def forward(self, x):
        a = self.fc(self.first(x))
        if self.mode == "again":
            return self.fc(a)
        return a.mul_(2.0) if self.mode == "in place" else a + 1 if self.mode == "sum" else a


def test_the_final_layer_is_found_by_an_example():
    network = stochastic(Attention(), seed=0, example=torch.zeros(2, 6))
    assert "body.posterior.embed.weight" in gaussians(network)
    assert network.layer.weight.mean.shape == (1, 8)
    plain = stochastic(Twice("plain"), example=torch.zeros(2, 36))
    assert sorted(gaussians(plain)) == [
        "body.posterior.first.bias",
        "body.posterior.first.weight",
        "layer.bias",
        "layer.weight",
    ]


@pytest.mark.parametrize("mode", ["again", "in place", "sum"])
def test_a_layer_that_something_follows_is_not_final(mode):
    with pytest.raises(ValueError, match=r"no final nn.Linear found"):
        stochastic(Twice(mode), example=torch.ones(2, 36))


def test_a_frozen_body_is_exact(images):
    module = convolutions()
    for p in module[:-1].parameters():
        p.requires_grad_(False)
    network = stochastic(module, seed=0)
    assert network.freshness == "exact"
    assert sorted(gaussians(network)) == ["layer.bias", "layer.weight"]
    certificate = certify(network, *images)
    assert certificate.draws is None
    assert certificate.assumptions.body_sha256 is not None


def test_tied_weights_are_drawn_once_in_the_recorded_order():
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    module[2].weight = module[0].weight
    order = draw_order(stochastic(module, seed=3))
    assert [start.name.removeprefix("body.posterior.") for start in order] == [
        "0.weight",
        "0.bias",
        "2.bias",
        "layer.weight",
        "layer.bias",
    ]
    assert {start.kind for start in order} == {"normal"}


def test_norms_start_at_one_and_zero():
    network = stochastic(Attention(), seed=0, example=torch.zeros(2, 6))
    kinds = {start.name: start.kind for start in draw_order(network)}
    every = gaussians(network)
    assert {k for k, kind in kinds.items() if kind != "normal"} == {
        f"body.posterior.{norm}.{part}"
        for norm in ("norm", "groups")
        for part in ("weight", "bias")
    }
    for name, kind in kinds.items():
        if kind != "normal":
            assert (every[name].prior_mean == (1.0 if kind == "one" else 0.0)).all()


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.conv2, self.norm2 = nn.Conv2d(4, 4, 3, padding="same", groups=2), nn.BatchNorm2d(4)
        self.norm3, self.fc = nn.BatchNorm1d(4), nn.Linear(4, 5)
        self.norm4 = nn.BatchNorm1d(5)

    def forward(self, x):
        a = self.norm1(self.conv1(x)).relu()
        a = (a + self.norm2(self.conv2(a))).relu().mean((2, 3))
        return self.norm4(self.fc(self.norm3(a)))


def trained(module, x):
    """The module with statistics and gains that training left."""
    for _ in range(3):
        module(x)
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
                part.weight.uniform_(0.5, 2)
                part.bias.normal_()
    return module


def test_the_function_stays_and_norms_after_layers_go():
    x = 3 + 2 * torch.randn(50, 3, 6, 6, dtype=torch.float64)
    module = trained(Residual().double(), x)
    state = copy.deepcopy(module.state_dict())
    folded = fold_batch_norm(module)
    assert torch.allclose(folded(x), module.eval()(x), rtol=1e-10)
    left = [name for name, part in folded.named_modules() if "BatchNorm" in type(part).__name__]
    assert left == ["norm3"]  # after a mean, not after a layer
    assert all(torch.equal(state[k], v) for k, v in module.state_dict().items())
    stochastic(folded, nn.Linear(5, 1))  # is accepted


def test_a_layer_that_is_also_used_elsewhere_is_not_folded():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)

        def forward(self, x):
            a = self.fc(x)
            return a + self.norm(a)

    class Twice(Both):
        def forward(self, x):
            return self.norm(self.fc(self.fc(x)))

    x = torch.randn(20, 3, dtype=torch.float64)
    for kind in (Both, Twice):
        module = trained(kind().double(), x)
        folded = fold_batch_norm(module)
        assert torch.allclose(folded(x), module.eval()(x), rtol=1e-10)
        assert isinstance(folded.norm, nn.BatchNorm1d)


def test_a_module_that_looks_at_its_input_is_refused():
    class Looking(nn.Sequential):
        def forward(self, x):
            return super().forward(x) if x.sum() > 0 else x

    with pytest.raises(ValueError, match="one by one"):
        fold_batch_norm(Looking(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    assert isinstance(fold_batch_norm(Looking(nn.Linear(2, 2)))[0], nn.Linear)
