"""Random numbers made again without torch are those of the library."""

import numpy as np
import pytest
import torch

from pacbayes import Settings, build_network
from pacbayes.networks.posterior import draws_key, gaussians
from pacbayes.networks.predictors import draw_network
from pacbayes.networks.risk import exact_risk, keyed_risk
from pacbayes.randomness import keyed_generator
from pacbayes.verify.redraw import ACTIVATIONS, is_data_free, is_kept, measure


def moved(activation, classes, widths=(5, 4), *, learned=True):
    """A network away from its prior, examples, and both as a verifier reads them."""
    torch.manual_seed(0)
    settings = Settings(
        activation=activation,
        widths=widths,
        learned_scale=learned,
        estimator="leave-one-out" if widths else "marginal",
    )
    network = build_network(settings, 3, classes)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    index = torch.randint(classes, (47,))
    x = torch.randn(47, 3)
    state = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    prior = {name: tensor for name, tensor in state.items() if "prior_" in name}
    posterior = {name: tensor for name, tensor in state.items() if "prior_" not in name}
    if not learned:
        posterior = {name: t for name, t in posterior.items() if "log_scale" not in name}
    return network, (x, network.task.encode(index)), (prior, posterior), (x.numpy(), index.numpy())


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("samples", [3, 130])
def test_the_same_draws_measure_the_same_risk(activation, classes, learned, samples):
    network, (x, y), laws, data = moved(activation, classes, learned=learned)
    exact = network.double()
    expected = keyed_risk(exact, x, y, samples, draws_key(exact, x, y))
    names = list(gaussians(network))
    found = measure(names, laws, ACTIVATIONS[activation], data, samples, 0.3)
    assert found.mean == pytest.approx(expected.mean, abs=2e-9)
    assert found.within == pytest.approx(expected.within, abs=2e-9)
    assert found.tandem == pytest.approx(expected.tandem, abs=2e-9)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("widths", [(), (5,), (4, 3)])
def test_sums_over_signs_are_exact(classes, widths):
    network, (x, y), laws, data = moved("sign", classes, widths)
    expected = exact_risk(network.double(), x, y)
    found = measure(list(gaussians(network)), laws, ACTIVATIONS["sign"], data, None, 0.3)
    assert found.mean == pytest.approx(expected.mean, abs=2e-9)
    assert found.tandem == pytest.approx(expected.tandem, abs=2e-9)


def test_signs_that_are_doubtful_by_construction_count_as_errors():
    """A unit whose pre-activation is zero, which no accident of rounding makes so often."""
    network, _, (prior, posterior), data = moved("sign", 2, (1,), learned=True)
    for name in posterior:
        posterior[name] = np.full_like(posterior[name], -100.0 if "log" in name else 0.0)
    posterior["layer.weight.mean"] = np.full_like(posterior["layer.weight.mean"], 5.0)
    labels = np.ones(len(data[1]), np.int64)  # the sign of zero is +1, which is this class
    laws, sign = (prior, posterior), ACTIVATIONS["sign"]
    names = list(gaussians(network))
    found = measure(names, laws, sign, (data[0], labels), 4, 1.0)
    assert found.mean == 1.0
    assert found.tandem >= 1.0


def test_too_many_signs_are_not_summed():
    network, _, laws, data = moved("sign", 2, (21,))
    with pytest.raises(ValueError, match="21 sign units are too many to sum exactly"):
        measure(list(gaussians(network)), laws, ACTIVATIONS["sign"], data, None, 1.0)


@pytest.mark.parametrize("learned", [True, False])
def test_a_kept_network_is_recognised(learned):
    network, (x, y), laws, data = moved("relu", 2, learned=learned)
    key = draws_key(network, x, y)
    for number in (0, 3):
        drawn = draw_network(network.double(), keyed_generator(key, number)).weights
        weights = {name: w.numpy() for name, w in drawn.items()}
        assert is_kept(weights, number, laws, data)
        assert not is_kept(weights, number + 1, laws, data)
        other = data[0].copy()
        other[0, 0] += 1e-3
        assert not is_kept(weights, number, laws, (other, data[1]))


@pytest.mark.parametrize("seed", range(20))
def test_priors_of_any_shape_are_functions_of_their_seed(seed):
    """Tensors of fewer than 16 numbers, of a multiple of 16, and of anything else."""
    shapes = (seed % 7 + 1, (seed * 5) % 40 + 1)
    network = build_network(Settings(widths=shapes, seed=seed), 3 + seed, 2 + seed % 3)
    means = [g.prior_mean.numpy().ravel() for g in gaussians(network).values()]
    assert is_data_free(seed, means)
    assert not is_data_free(seed + 1, means)
    means[-1] = means[-1] + np.float32(1e-6)
    assert not is_data_free(seed, means)
