"""The example networks build, are what they say, and can be made stochastic."""

import math
from pathlib import Path

import pytest
import torch

from pacbayes import Settings, folders
from pacbayes.networks.posterior import gaussians
from pacbayes.training.blueprint import Blueprint

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PACBAYES_CACHE", str(tmp_path / "cache"))


def blueprint(name, shape, **settings):
    choice = folders.chosen(f"{EXAMPLES / name}:build")
    given = Settings.of("fast", widths=(), samples=1, **settings)
    return Blueprint(given, math.prod(shape), 10, choice.architecture, shape, choice.code)


@pytest.mark.parametrize("channels", [1, 3])
def test_edge_filters_are_fixed_and_blind_to_brightness(channels):
    network = blueprint("oriented.py", (channels, 12, 12)).build()
    assert {name.split(".")[-1] for name in gaussians(network)} == {"weight", "bias"}
    assert [name for name in network.prior_state() if "prior" not in name] == [
        "body.module.1.0.kernel"
    ]
    edges = network.body.module[1][0]
    kernel = edges.kernel.flatten(1)
    assert kernel.sum(1).abs().max() < 1e-6
    assert torch.allclose(kernel.abs().sum(1), torch.full((8,), 6.0))
    flat = edges(torch.full((2, channels, 12, 12), 0.7))
    assert flat.abs().max() < 1e-5


def test_a_vertical_edge_excites_the_filter_across_it():
    network = blueprint("oriented.py", (1, 12, 12)).build()
    x = torch.zeros(1, 1, 12, 12)
    x[..., 6:] = 1.0
    answer = network.body.module[1][0](x).amax((0, 2, 3))
    assert answer.argmax() == 0  # θ = 0: brighter to the right
    assert answer[4] == 0  # θ = π: the other way round


@pytest.mark.parametrize(("shape", "features"), [((1, 12, 12), 392), ((3, 12, 12), 24 * 16 + 48)])
def test_edges_of_a_grid_are_fixed_and_hold_colours(shape, features):
    network = blueprint("edges.py", shape).build()
    assert {name.split(".")[-1] for name in gaussians(network)} == {"weight", "bias"}
    edges = network.body.module[1][0]
    flat = edges(torch.full((1, *shape), 0.7)).flatten()
    assert len(flat) == features
    colours = torch.zeros(0) if shape[0] == 1 else torch.tensor([2.1] * 16 + [0.0] * 32)
    want = torch.cat([torch.zeros(features - len(colours)), colours])
    assert torch.allclose(flat, want, rtol=0, atol=1e-5)


def test_the_edges_of_a_step_are_in_its_part_of_the_grid():
    network = blueprint("edges.py", (1, 12, 12)).build()
    x = torch.zeros(1, 1, 12, 12)
    x[..., 6:] = 1.0
    answer = network.body.module[1][0](x).view(8, 7, 7)
    assert answer.amax((1, 2)).argmax() == 0
    assert answer[0].amax(0).argmax() == 3
    assert answer[4].max() == 0


def test_the_residual_network_is_folded_into_a_prior():
    network = blueprint("residual.py", (3, 16, 16), prior_fraction=0.5).build()
    assert not any("norm" in name for name in gaussians(network))
    assert "body.posterior.1.4.conv1.bias" in gaussians(network)
    assert network.body.at(
        torch.rand(2, 768),
        {k.removeprefix("body.posterior."): g.mean for k, g in gaussians(network).items()},
    ).shape == (2, 64)
