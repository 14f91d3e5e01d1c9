"""REINFORCE on drawn weights, in both forms of the appendix."""

import pytest
import torch
from torch import nn

from pacbayes import dense_network, exact_aggregate
from pacbayes.data.tasks import linear
from pacbayes.networks.activations import Draw, estimate
from pacbayes.networks.bodies import Deterministic
from pacbayes.networks.families.diagonal import GaussianLinear
from pacbayes.networks.network import Network
from pacbayes.networks.predictors import draw_weights

X = torch.tensor([[0.5, -1.0], [1.0, 0.3], [-0.2, 0.8]], dtype=torch.float64)
Y = torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)


def risk(network, T, per_example):
    draw = draw_weights(network, X, T, per_example=per_example)
    return estimate(Draw(linear(draw.value, Y), draw.log_prob)).mean()


@pytest.mark.parametrize("learned_scale", [False, True])
@pytest.mark.parametrize("per_example", [False, True])
def test_gradient_of_the_loss_is_unbiased(per_example, learned_scale, z_scores):
    network = dense_network(2, (2,), "sign", learned_scale=learned_scale).double()
    parameters = list(network.parameters())
    truth = torch.autograd.grad(linear(exact_aggregate(network, X), Y).mean(), parameters)
    replicates = []
    for _ in range(600):
        gradients = torch.autograd.grad(risk(network, 50, per_example), parameters)
        replicates.append(torch.cat([g.flatten() for g in gradients]))
    z = z_scores(torch.stack(replicates), torch.cat([g.flatten() for g in truth]))
    assert z.abs().max() < 5.5  # at most 18 entries: false alarm below 1e-6


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
@pytest.mark.parametrize("per_example", [False, True])
def test_units_with_a_path_agree_with_the_pathwise_gradient(activation, per_example):
    network = dense_network(2, (2,), activation).double()
    parameter = network.body.layers[0].bias.mean

    def replicates(risk_of):
        return torch.stack([torch.autograd.grad(risk_of(), parameter)[0] for _ in range(500)])

    scored = replicates(lambda: risk(network, 100, per_example))
    pathwise = replicates(lambda: linear(network(X, 10), Y).mean())
    error = (scored.var(0) / 500 + pathwise.var(0) / 500).sqrt()
    assert ((scored.mean(0) - pathwise.mean(0)) / error).abs().max() < 5  # false alarm 1e-6


def test_a_shared_draw_gives_equal_inputs_equal_outputs_and_a_fresh_one_does_not():
    network = dense_network(2, (3,), "relu").double()
    x = X[:1].expand(50, 2)
    shared = draw_weights(network, x, 20, per_example=False)
    assert torch.equal(shared.value, shared.value[:, :1].expand(20, 50))
    assert shared.log_prob.shape == (20, 1)
    fresh = draw_weights(network, x, 20, per_example=True)
    assert not torch.equal(fresh.value, fresh.value[:, :1].expand(20, 50))
    assert fresh.log_prob.shape == (20, 50)
    assert set(fresh.value.unique().tolist()) == {-1.0, 1.0}


def test_only_dense_bodies_have_weights_to_draw():
    network = Network(Deterministic(nn.Identity()), GaussianLinear(2, 1))
    with pytest.raises(ValueError, match="dense body"):
        draw_weights(network, X.float(), 1)
