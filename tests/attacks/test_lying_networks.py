"""Networks that lie about themselves: each is refused, naming the part, or does not matter."""

import copy
import math
from functools import partial
from types import MethodType

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from pacbayes import (
    Dense,
    Gaussian,
    GaussianLinear,
    Network,
    Settings,
    build_network,
    certify,
    dense_network,
    stochastic,
    train,
)
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.kept import certify_drawn, certify_fixed, certify_network
from pacbayes.certificates.outputs import certify_outputs
from pacbayes.data import load
from pacbayes.data.tasks import Binary
from pacbayes.networks import activations, bodies, heads
from pacbayes.networks.bodies import Deterministic, Evaluated, Sampled
from pacbayes.networks.outputs import ACTIVATIONS, OutputActivation, OutputNetwork, Strip
from pacbayes.networks.posterior import draws_key, gaussians, kl, kl_by_part
from pacbayes.networks.predictors import draw_network, log_ratios
from pacbayes.networks.risk import Sums, in_turn
from pacbayes.randomness import keyed_generator

NONE = torch.zeros((), dtype=torch.float64)
ISSUERS = {
    "certify": partial(certify, samples=2),
    "fixed": certify_fixed,
    "drawn": certify_drawn,
    "network": certify_network,
}


@pytest.fixture
def data():
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    return x, torch.where(x[:, 0] > 0, 1.0, -1.0)


def moved(network):
    """Move the posterior from the prior, so that its KL is worth a lie."""
    with torch.no_grad():
        for g in gaussians(network).values():
            g.mean.add_(torch.randn(g.mean.shape, generator=torch.Generator().manual_seed(1)))
    return network


def dense():
    return moved(dense_network(4, (3,), scale=0.1, learned_scale=True))


class Own(nn.Module):
    """Someone's body on Gaussian weights."""

    def __init__(self):
        super().__init__()
        self.inner = GaussianLinear(4, 3)

    def forward(self, x):
        return x @ self.inner.weight.sample().T + self.inner.bias.sample()


def evaluated():
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    return moved(stochastic(module, scale=0.1, seed=0))


def sampled():
    return moved(Network(Own(), GaussianLinear(3, 1)))


def frozen():
    body = Deterministic(nn.Sequential(nn.Linear(4, 3), nn.ReLU()).requires_grad_(False))
    return moved(Network(body, GaussianLinear(3, 1)))


class NoKl(Gaussian):
    def kl(self):
        return 0 * super().kl()


class OtherSample(Gaussian):
    def sample(self, *sizes):
        return self.mean.expand(*sizes, *self.mean.shape)


class OtherMean(Gaussian):
    @property
    def mean(self):
        return self.prior_mean


class Hidden(Gaussian):
    __class__ = nn.Module


class Moments(GaussianLinear):
    def moments(self, a):
        mean, deviation = super().moments(a)
        return mean, 0 * deviation + 1e-9


class LyingTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.double:
            return torch.zeros_like(args[0].as_subclass(torch.Tensor)).double()
        return super().__torch_function__(func, types, args, kwargs)


class Zero(nn.Module):
    def forward(self, x):
        return 0 * x


class LyingBinary(Binary):
    def loss(self, value, y):
        return 0 * value


class LyingDense(Dense):
    freshness = "exact"


class Seedless(Network):
    @property
    def prior_seed(self):
        return None


class Dictionary(dict):
    pass


def weight(network):
    return network.layer.weight


def into(container, **values):
    """Put values where Python looks first, past the module's own way of setting them."""
    vars(container).update(values)


def registered(g, key, tensor):
    kind = "_parameters" if key in g._parameters else "_buffers"
    vars(g)[kind][key] = tensor


def twice(network):
    hidden = network.body.layers[0]
    hidden.bias = Gaussian(4, mean=torch.zeros(4))
    network.layer.weight = hidden.bias


def swapped_class(part, name, bases, **namespace):
    part.__class__ = type(name, bases, namespace)


OF_GAUSSIANS = {
    "a subclass without a KL": (
        lambda g: setattr(g, "__class__", NoKl),
        r"layer\.weight \(NoKl\)",
    ),
    "a subclass with another sample": (
        lambda g: setattr(g, "__class__", OtherSample),
        r"layer\.weight \(OtherSample\)",
    ),
    "a subclass with another mean": (
        lambda g: setattr(g, "__class__", OtherMean),
        r"layer\.weight \(OtherMean\)",
    ),
    "a subclass that denies it": (
        lambda g: setattr(g, "__class__", Hidden),
        r"layer\.weight \(Hidden\)",
    ),
    "attributes found by __getattr__": (
        lambda g: swapped_class(g, "Getter", (Gaussian,), __getattr__=lambda s, k: NONE),
        r"layer\.weight \(Getter\)",
    ),
    "attributes found by __getattribute__": (
        lambda g: swapped_class(
            g, "Getter", (Gaussian,), __getattribute__=lambda s, k: object.__getattribute__(s, k)
        ),
        r"layer\.weight \(Getter\)",
    ),
    "a kl of its own": (lambda g: into(g, kl=lambda: NONE), "has 'kl' of its own"),
    "a sample of its own": (lambda g: into(g, sample=g.sample), "has 'sample' of its own"),
    "a mean of its own": (lambda g: into(g, mean=g.prior_mean), "has 'mean' of its own"),
    "a mark": (lambda g: setattr(g, "note", "x"), "has 'note' of its own"),
    "a missing attribute": (lambda g: vars(g).pop("_is_full_backward_hook"), "has no '_is_full"),
    "a forward of its own": (lambda g: into(g, forward=abs), "has 'forward' of its own"),
    "a forward hook": (
        lambda g: g.register_forward_hook(lambda *a: None),
        r"layer\.weight\._forward_hooks is not as",
    ),
    "a state_dict hook": (
        lambda g: g.register_state_dict_post_hook(lambda *a: None),
        r"layer\.weight\._state_dict_hooks is not as",
    ),
    "a parametrization": (
        lambda g: parametrize.register_parametrization(g, "mean", Zero(), unsafe=True),
        r"layer\.weight \(ParametrizedGaussian\)",
    ),
    "another tensor beside": (
        lambda g: g.register_buffer("other", torch.zeros(())),
        r"layer\.weight\._buffers is not as",
    ),
    "a part of its own": (
        lambda g: g.add_module("other", nn.Linear(2, 2)),
        r"layer\.weight\._modules is not as",
    ),
    "a mean that is a buffer": (
        lambda g: vars(g)["_buffers"].update(mean=g._parameters.pop("mean").detach()),
        r"layer\.weight\._buffers is not as",
    ),
    "no prior": (lambda g: registered(g, "prior_mean", None), r"prior_mean is a NoneType"),
    "a prior that is an object": (
        lambda g: registered(g, "prior_mean", [0.0]),
        r"layer\.weight\.prior_mean is a list",
    ),
    "a tensor of its own class": (
        lambda g: registered(g, "prior_mean", g.prior_mean.as_subclass(LyingTensor)),
        r"layer\.weight\.prior_mean is a LyingTensor",
    ),
    "a parameter of its own class": (
        lambda g: registered(g, "mean", nn.Parameter(g.mean.detach().as_subclass(LyingTensor))),
        r"layer\.weight\.mean is a LyingTensor",
    ),
    "a dictionary of its own class": (
        lambda g: vars(g).update(_parameters=Dictionary(g._parameters)),
        r"layer\.weight\._parameters is not as",
    ),
    "prior scales of every weight": (
        lambda g: registered(g, "prior_log_scale", g.prior_log_scale.expand(g.mean.shape).clone()),
        r"prior_log_scale has the shape",
    ),
    "a prior of one number": (
        lambda g: registered(g, "prior_mean", torch.zeros(())),
        r"prior_mean has the shape \(\)",
    ),
    "scales of more weights than there are": (
        lambda g: registered(g, "log_scale", nn.Parameter(torch.zeros(2, *g.mean.shape))),
        r"log_scale has the shape",
    ),
    "whole numbers": (
        lambda g: registered(g, "prior_mean", g.prior_mean.long()),
        r"prior_mean has numbers of the type torch\.int64",
    ),
    "a Gaussian that is none": (
        lambda g: swapped_class(g, "Duck", (nn.Module,), kl=lambda self: NONE),
        r"layer\.weight \(Duck\)",
    ),
}


@pytest.mark.parametrize("issuer", ISSUERS)
@pytest.mark.parametrize("attack", OF_GAUSSIANS)
def test_a_gaussian_that_is_not_exactly_one_is_refused(attack, issuer, data):
    network = dense()
    apply, message = OF_GAUSSIANS[attack]
    apply(weight(network))
    with pytest.raises(ValueError, match=message) as caught:
        ISSUERS[issuer](network, *data)
    assert "cannot be certified yet" in str(caught.value)
    assert "\n" not in str(caught.value)


def layers(network):
    return network.body.layers


OF_NETWORKS = {
    "network": (lambda n: setattr(n, "__class__", Seedless), r"the network \(Seedless\)"),
    "loss": (lambda n: into(n, loss=lambda v, y: 0 * v), "the network has 'loss'"),
    "draw": (lambda n: into(n, draw=n.draw), "the network has 'draw'"),
    "draw_with": (lambda n: into(n, draw_with=n.draw_with), "the network has 'draw_with'"),
    "prior_seed": (lambda n: n._modules.update(prior_seed=Zero()), r"network\._modules is not as"),
    "freshness": (lambda n: into(n, freshness="exact"), "the network has 'freshness'"),
    "seal_prior": (lambda n: into(n, seal_prior=lambda: None), "the network has 'seal_prior'"),
    "another body in front": (lambda n: into(n, body=n.body), "the network has 'body'"),
    "another layer in front": (lambda n: into(n, layer=n.layer), "the network has 'layer'"),
    "layers in front": (lambda n: into(n.body, layers=n.body.layers), "body has 'layers'"),
    "forward hook": (
        lambda n: n.register_forward_hook(lambda *a: None),
        r"the network\._forward_hooks",
    ),
    "pre-hook of the body": (
        lambda n: n.body.register_forward_pre_hook(lambda *a: None),
        r"body\._forward_pre_hooks",
    ),
    "task": (lambda n: setattr(n, "task", LyingBinary()), r"the network\.task is not as"),
    "loss of the task": (
        lambda n: vars(n.task).update(loss=lambda v, y: 0 * v),
        r"the network\.task is not as",
    ),
    "head": (lambda n: setattr(n, "head", lambda *a: heads.aggregated(*a)), "the head"),
    "head, wrapped": (lambda n: setattr(n, "head", partial(heads.aggregated)), "the head"),
    "rule": (
        lambda n: setattr(n.body, "rules", [lambda m, d, T: activations.relu(m, 0 * d, T)]),
        r"a rule of the body \(<lambda>\)",
    ),
    "body": (lambda n: setattr(n.body, "__class__", LyingDense), r"body \(LyingDense\)"),
    "freshness of the body": (lambda n: into(n.body, freshness="exact"), "body has 'freshness'"),
    "draws of the body": (lambda n: into(n.body, draw_with=None), "body has 'draw_with'"),
    "list of layers": (
        lambda n: swapped_class(layers(n), "Layers", (nn.ModuleList,)),
        r"body\.layers \(Layers\)",
    ),
    "layer": (lambda n: setattr(layers(n)[0], "__class__", Moments), r"layers\.0 \(Moments\)"),
    "moments": (lambda n: into(n.layer, moments=n.layer.moments), "layer has 'moments'"),
    "a layer that is none": (
        lambda n: n._modules.update(layer=nn.Linear(3, 1)),
        r"layer \(Linear\)",
    ),
    "no layer": (lambda n: n._modules.pop("layer"), r"layer \(NoneType\)"),
    "a Gaussian with two names": (twice, r"one Gaussian is used as body\.layers\.0\.bias and as"),
    "one more Gaussian": (
        lambda n: n.layer.add_module("more", Gaussian(2)),
        r"layer\._modules is not as",
    ),
    "a parameter beside": (
        lambda n: n.body.register_parameter("more", nn.Parameter(torch.zeros(2))),
        r"body\._parameters is not as",
    ),
    "a prior that follows": (
        lambda n: weight(n).prior_mean.copy_(weight(n).mean.detach()),
        "the prior changed after the network first saw data",
    ),
}


@pytest.mark.parametrize("issuer", ISSUERS)
@pytest.mark.parametrize("attack", OF_NETWORKS)
def test_a_part_that_is_not_exactly_the_librarys_is_refused(attack, issuer, data):
    network = dense()
    network(data[0], 1)  # it sees data
    apply, message = OF_NETWORKS[attack]
    apply(network)
    with pytest.raises(ValueError, match=message):
        ISSUERS[issuer](network, *data)


def test_a_prior_on_the_memory_of_the_posterior_is_refused(data):
    network = dense()
    g = weight(network)
    g.prior_mean.data = g.mean.data
    train(network, *data, Settings(epochs=1, batch_size=50, engine="torch"))
    with pytest.raises(ValueError, match="the prior changed"):
        certify(network, *data, samples=2)


class Confident(Sampled):
    def draw_with(self, x, T, generator):
        return torch.zeros(T, len(x), 3)


class Blind(Own):
    """Hides its Gaussians from those who ask it."""

    def named_modules(self, *args, **kwargs):
        return iter([("", self)])

    def named_parameters(self, *args, **kwargs):
        return iter(())

    def modules(self):
        return iter([self])


class Forgets(Own):
    """Forgets in copies what its weights are worth."""

    def __deepcopy__(self, memo):
        made = Forgets()
        with torch.no_grad():
            for name, g in gaussians(made).items():
                g.mean.copy_(gaussians(self)[name].prior_mean)
        return made


class Converts(Own):
    """Forgets them when it is converted."""

    def _apply(self, fn, *args):
        super()._apply(fn, *args)
        with torch.no_grad():
            for g in gaussians(self).values():
                g.mean.copy_(g.prior_mean)
        return self


class Reclasses(Own):
    """Changes a class when it goes to evaluation mode."""

    def train(self, mode=True):
        self.inner.weight.__class__ = NoKl
        return super().train(mode)


def body_of(network):
    return network.body.module


def remember(network, value):
    body_of(network).memory = value


def forwarded(network):
    own = body_of(network)
    own.forward = lambda x: type(own).forward(own, x)


OF_MODULES = {
    "class of the body": (
        sampled,
        lambda n: setattr(n.body, "__class__", Confident),
        r"body \(Confident\)",
    ),
    "Gaussian": (
        sampled,
        lambda n: setattr(body_of(n).inner.weight, "__class__", NoKl),
        r"body\.module\.inner\.weight \(NoKl\)",
    ),
    "kl": (
        sampled,
        lambda n: into(body_of(n).inner.weight, kl=lambda: NONE),
        r"body\.module\.inner\.weight has 'kl'",
    ),
    "forgetting": (
        sampled,
        lambda n: setattr(body_of(n), "__class__", Forgets),
        "copies itself with other Gaussian weights",
    ),
    "forgetting when converted": (
        sampled,
        lambda n: setattr(body_of(n), "__class__", Converts),
        "copies itself with other Gaussian weights",
    ),
    "another class in evaluation mode": (
        sampled,
        lambda n: setattr(body_of(n), "__class__", Reclasses),
        r"body\.module\.inner\.weight \(NoKl\)",
    ),
    "shared": (
        sampled,
        lambda n: setattr(body_of(n), "again", body_of(n).inner),
        "one Gaussian is used as",
    ),
    "draws": (sampled, lambda n: into(n.body, draw_with=None), "body has 'draw_with'"),
    "evaluation": (evaluated, lambda n: into(n.body, checked=n.body.at), "body has 'checked'"),
    "drawing": (evaluated, lambda n: into(n.body, _drawn=None), "body has '_drawn'"),
    "places": (evaluated, lambda n: n.body.places.pop("0.bias"), r"body\.places was changed"),
    "posterior": (
        evaluated,
        lambda n: swapped_class(n.body.posterior, "Tree", (nn.Module,)),
        r"body\.posterior \(Tree\)",
    ),
    "a Gaussian in the posterior": (
        evaluated,
        lambda n: into(n.body.posterior.get_submodule("0.weight"), kl=lambda: NONE),
        r"body\.posterior\.0\.weight has 'kl'",
    ),
    "one more Gaussian": (
        evaluated,
        lambda n: n.body.posterior.add_module("more", Gaussian(2)),
        r"body\.places was changed",
    ),
    "a Gaussian in the module": (
        evaluated,
        lambda n: body_of(n).add_module("2", Gaussian(2)),
        "body.module has Gaussian weights of its own",
    ),
    "a frozen one": (
        frozen,
        lambda n: body_of(n).add_module("2", Gaussian(2)),
        "not deterministic",
    ),
}
OF_ALL_MODULES = {
    "a forward of its own": (forwarded, "has a method 'forward' of its own"),
    "a train of its own": (
        lambda n: into(body_of(n), train=lambda m: None),
        "has a method 'train'",
    ),
    "a hook": (
        lambda n: body_of(n).register_forward_hook(lambda m, i, o: o),
        "has a forward hook",
    ),
    "a hook before": (
        lambda n: body_of(n).register_forward_pre_hook(lambda m, i: i),
        "has a forward hook",
    ),
    "a table": (lambda n: remember(n, {"y": [torch.zeros(2)]}), "holds a tensor"),
    "a closure": (lambda n: remember(n, partial(abs, lambda: n)), "reaches a module outside"),
    "a method of another": (lambda n: remember(n, nn.Linear(4, 3).forward), "reaches a module"),
    "an object": (
        lambda n: remember(n, type("Box", (), {})()) or into(body_of(n).memory, it=[Own()]),
        "reaches a module outside",
    ),
    "itself in a closure": (
        lambda n: (lambda own: remember(n, lambda x: own(x)))(body_of(n)),
        "reaches a module outside",
    ),
}
OF_MODULES |= {
    f"{name}, {kind.__name__}": (kind, apply, message)
    for name, (apply, message) in OF_ALL_MODULES.items()
    for kind in (sampled, evaluated, frozen)
}


@pytest.mark.parametrize("attack", OF_MODULES)
def test_a_body_is_refused_where_it_could_reach_other_weights(attack, data):
    make, apply, message = OF_MODULES[attack]
    network = make()
    apply(network)
    with pytest.raises(ValueError, match=message):
        certify(network, *data, samples=2)


@pytest.mark.parametrize("make", [evaluated, frozen])
@pytest.mark.parametrize("issuer", ["fixed", "drawn", "network"])
def test_a_kept_network_of_a_module_is_checked_too(make, issuer, data):
    network = make()
    ISSUERS[issuer](network, *data)
    body_of(network).register_forward_hook(lambda m, i, o: o)
    with pytest.raises(ValueError, match="has a forward hook"):
        ISSUERS[issuer](network, *data)


def test_gaussians_that_a_module_hides_are_charged(data):
    seen = sampled()
    blind = copy.deepcopy(seen)
    body_of(blind).__class__ = Blind
    one, two = (certify(network, *data, samples=2) for network in (seen, blind))
    assert two.kl == one.kl > 1
    assert two.kl_by_part == one.kl_by_part
    assert two.bound == one.bound


def test_what_is_attached_to_a_tensor_does_not_matter(data):
    network = dense()
    honest = certify(network, *data, samples=2)
    g = weight(network)
    for tensor in (g.mean, g.prior_mean):
        tensor.double = tensor.to = tensor.detach = tensor.clone = lambda *a, **k: 1 / 0
    with pytest.raises(ZeroDivisionError):
        g.mean.double()
    found = certify(network, *data, samples=2)
    assert (found.bound, found.kl) == (honest.bound, honest.kl)


def test_methods_of_the_network_are_not_asked_even_where_nothing_was_checked(data, monkeypatch):
    """A copy is made of tensors, so that a check that is forgotten does not cost the truth."""
    from pacbayes.networks import plain

    network = dense()
    honest = certify(network, *data, samples=2)
    into(weight(network), kl=lambda: NONE, sample=None, variance=NONE)
    into(network, loss=lambda v, y: 0 * v, freshness="exact", prior_seed=None)
    into(network.body, draw_with=None, freshness="exact")
    monkeypatch.setattr(plain, "_compare", lambda *a: None)
    network.seal_prior()
    found = certify(network, *data, samples=2)
    assert (found.bound, found.kl, found.ledger) == (honest.bound, honest.kl, honest.ledger)


def test_the_kl_of_a_certificate_is_that_of_tensors():
    network = dense()
    honest = kl_by_part(network)
    for g in gaussians(network).values():
        g.__class__ = NoKl
        into(g, kl=lambda: NONE, mean=g.prior_mean)
    assert kl_by_part(network) == honest
    assert sum(honest.values()) > 1


@pytest.mark.parametrize(
    ("owner", "name", "lie"),
    [
        (Gaussian, "kl", lambda self: NONE),
        (Gaussian, "sample", lambda self, *sizes: self.mean),
        (Gaussian, "__getattr__", lambda self, name: NONE),
        (GaussianLinear, "moments", lambda self, a: (a, a)),
        (Network, "loss", lambda self, v, y: 0 * v),
        (Network, "prior_seed", property(lambda self: None)),
        (Network, "__getattribute__", object.__getattribute__),
        (Dense, "freshness", "exact"),
        (Evaluated, "at", lambda self, x, *a: x),
        (Binary, "loss", lambda self, v, y: 0 * v),
        (Binary, "margin", lambda self, v, y: y.abs()),
    ],
)
def test_a_class_that_was_changed_is_refused(owner, name, lie, data, monkeypatch):
    network = dense()
    monkeypatch.setattr(owner, name, lie, raising=False)
    with pytest.raises(ValueError, match=rf"{owner.__name__}\.{name} was changed"):
        certify(network, *data, samples=2)
    monkeypatch.undo()
    certify(network, *data, samples=2)


def test_a_table_of_rules_that_was_changed_is_refused(data, monkeypatch):
    network = dense()
    monkeypatch.setitem(activations.FUNCTIONS, activations.relu, torch.sigmoid)
    with pytest.raises(ValueError, match="the table of activations was changed"):
        certify(network, *data, samples=2)


def test_a_class_put_in_the_place_of_the_librarys_is_refused(data, monkeypatch):
    monkeypatch.setattr("pacbayes.networks.families.diagonal.Gaussian", NoKl)
    network = dense()
    assert kl(network) == 0
    with pytest.raises(ValueError, match=r"body\.layers\.0\.weight \(NoKl\)"):
        certify(network, *data, samples=2)
    monkeypatch.setattr(bodies, "Dense", LyingDense)


@pytest.mark.parametrize(
    "executor",
    [
        lambda work, x, y, parts: iter([Sums()]),
        partial(in_turn),
        partial(lambda *a, scheduler: iter([Sums()]), scheduler="tcp://localhost:1"),
        MethodType(lambda self, *a: iter([Sums()]), 1),
    ],
)
def test_sums_are_not_taken_from_anybody(executor, data):
    with pytest.raises(ValueError, match="executor must be in_turn or partial"):
        certify(dense(), *data, samples=2, executor=executor)


@pytest.mark.parametrize("which", [0, 1])
def test_examples_and_labels_are_plain_tensors(which, data):
    given = list(data)
    given[which] = data[which].as_subclass(LyingTensor)
    for issue in ISSUERS.values():
        with pytest.raises(ValueError, match=f"{'xy'[which]} is a LyingTensor"):
            issue(dense(), *given)


class Writes(nn.Module):
    """Writes on the weights that it is evaluated at."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x):
        a = self.inner(x)
        self.inner.weight.data.mul_(1.0 - 1e-10)
        return a


def test_a_module_that_writes_on_a_kept_network_does_not_change_it(data):
    module = nn.Sequential(Writes(), nn.ReLU(), nn.Linear(3, 1))
    network = moved(stochastic(module, seed=0, scale=0.1))
    kept = certify_drawn(network, *data)[1]
    again = draw_network(network.double(), keyed_generator(draws_key(network, *data), 0))
    assert again.log_ratio == kept.log_ratio == log_ratios(network, kept.weights)
    assert all(torch.equal(kept.weights[name], w) for name, w in again.weights.items())


def test_a_seed_is_a_whole_number(data):
    network = build_network(Settings(widths=(3,)), 4)
    network._drawn_by = (
        type("Cheap", (int,), {"__add__": lambda s, o: 0})(0),
        network._drawn_by[1],
    )
    with pytest.raises(ValueError, match="whole number, got Cheap"):
        certify(network, *data, samples=2)


class Silent(Assumptions):
    def sentences(self):
        return iter(())


def test_assumptions_are_of_the_librarys_class(data):
    with pytest.raises(ValueError, match="assumptions must be Assumptions, got Silent"):
        certify(dense(), *data, samples=2, assumptions=Silent())


def outputs(activation="sigmoid"):
    body = Dense([GaussianLinear(4, 3)], [activations.relu])
    return moved(OutputNetwork(body, GaussianLinear(3, 1), activation))


class LyingActivation(OutputActivation):
    def expectation(self, mean, deviation):
        return torch.ones_like(mean)


SIGMOID = ACTIVATIONS["sigmoid"]


def patched(network):
    own = copy.deepcopy(SIGMOID)
    vars(own).update(expectation=lambda m, d: 0 * m)
    network.activation = own


OF_OUTPUTS = {
    "Gaussian": (lambda n: setattr(weight(n), "__class__", NoKl), r"layer\.weight \(NoKl\)"),
    "kl": (lambda n: into(weight(n), kl=lambda: NONE), r"layer\.weight has 'kl'"),
    "moments": (lambda n: into(n, moments=None), "the network has 'moments'"),
    "class": (
        lambda n: swapped_class(n, "Mine", (OutputNetwork,)),
        r"the network \(Mine\) is not one",
    ),
    "activation": (
        lambda n: setattr(n, "activation", LyingActivation(**vars(SIGMOID))),
        "the output activation is not one of the library's own",
    ),
    "closed form": (
        lambda n: setattr(
            n,
            "activation",
            OutputActivation(torch.sigmoid, closed=lambda m, d: 0 * m, range=(0.0, 1.0)),
        ),
        "the output activation is not one of the library's own",
    ),
    "strip": (
        lambda n: setattr(
            n, "activation", OutputActivation(torch.sigmoid, Strip(20.0, 1.0), range=(0.0, 1.0))
        ),
        "the output activation is not one of the library's own",
    ),
}


@pytest.mark.parametrize("attack", OF_OUTPUTS)
def test_networks_of_outputs_are_checked_too(attack, data):
    x, y = data[0], (data[1] > 0).float().unsqueeze(1)
    network = outputs()
    certify_outputs(network, x, y, samples=2)
    apply, message = OF_OUTPUTS[attack]
    apply(network)
    with pytest.raises(ValueError, match=message):
        certify_outputs(network, x, y, samples=2)


def test_a_copied_activation_is_the_same_and_a_patched_one_does_not_matter(data):
    x, y = data[0], (data[1] > 0).float().unsqueeze(1)
    network = outputs()
    honest = certify_outputs(network, x, y, samples=2)
    patched(network)
    assert certify_outputs(network, x, y, samples=2).bound == honest.bound


def test_a_seed_that_did_not_draw_the_prior_is_refused(data):
    network = build_network(Settings(widths=(3,), seed=12345), 4)
    network.set_prior_seed(0)
    with pytest.raises(ValueError, match="seed 0 does not draw this prior"):
        certify(network, *data, samples=2)
    module = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.ReLU(), nn.Linear(3, 1))
    for made in (build_network(Settings(widths=(3,), seed=3), 4), stochastic(module, seed=3)):
        assert certify(made, *data, samples=2).assumptions.prior_seed == 3


def test_the_lie_that_halved_the_certificate_of_digits_is_refused():
    x, y = load("digits").tensors("train")
    settings = Settings.of("fast", "sign", widths=(30,), epochs=20)
    network = build_network(settings, x.shape[1])
    train(network, x, y, settings)
    honest = certify(network, x, y)
    assert honest.bound < 0.4
    assert math.isclose(honest.kl, kl(network).item(), rel_tol=1e-8)
    weight(network).kl = lambda: NONE
    with pytest.raises(ValueError, match=r"layer\.weight has 'kl' of its own; own posteriors"):
        certify(network, x, y)
    del weight(network).kl
    for g in gaussians(network).values():
        g.__class__ = NoKl
    assert kl(network) == 0
    with pytest.raises(ValueError, match=r"body\.layers\.0\.weight \(NoKl\) is not one"):
        certify(network, x, y)
    for g in gaussians(network).values():
        g.__class__ = Gaussian
    assert certify(network, x, y).bound == honest.bound


def test_what_a_user_may_do_is_certified(data):
    network = dense()
    honest = certify(network, *data, samples=2)
    copied = copy.deepcopy(network)
    copied.baseline = lambda value: 0.0  # of training alone
    loaded = dense_network(4, (3,), scale=0.1, learned_scale=True)
    loaded.load_state_dict(network.state_dict())
    for other in (copied, loaded, network.double(), network.eval()):
        found = certify(other, *data, samples=2)
        assert (found.bound, found.kl) == (honest.bound, honest.kl)


def test_parametrizations_in_a_module_of_ones_own_are_certified(data):
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    parametrizations.weight_norm(module[0])
    assert certify(stochastic(module, seed=0), *data, samples=2).bound <= 1
