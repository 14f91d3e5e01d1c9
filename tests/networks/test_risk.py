"""Sums and counts over a data set."""

import pytest
import torch
from torch import nn

from pacbayes import (
    Deterministic,
    GaussianConv2d,
    GaussianLinear,
    Network,
    dense_network,
    empirical_risk,
    exact_aggregate,
    majority_vote,
    predict_randomised,
)
from pacbayes.data.tasks import linear
from pacbayes.networks import risk as module
from pacbayes.networks.risk import (
    MOST_EXAMPLES,
    Part,
    Sums,
    Work,
    all_parts,
    exact_risk,
    in_turn,
    keyed_risk,
)


def data(n, d=3):
    x = torch.randn(n, d, dtype=torch.float64)
    return x, torch.where(torch.rand(n) < 0.5, 1.0, -1.0).double()


def test_unequal_blocks_are_summed_not_averaged(monkeypatch):
    """Exact network, 7 examples in blocks of 4 and 3: a mean of means would be wrong."""
    monkeypatch.setattr(module, "_ROWS", 4)
    network = dense_network(3, ()).double()
    x, y = data(7)
    found = empirical_risk(network, x, y, 1)
    assert found.mean == pytest.approx(linear(network(x, 1), y).mean().item(), abs=1e-14)
    assert (found.n, found.draws) == (7, None)


def test_sampled_risk_is_the_exact_one_within_its_error():
    network = dense_network(3, (3, 2), "sign").double()
    x, y = data(500)
    exact = linear(exact_aggregate(network, x), y).mean().item()
    found = empirical_risk(network, x, y, 40)
    assert found.draws == 500 * 40
    assert found.mean == pytest.approx(exact, abs=5 * 0.5 / found.draws**0.5)  # below 6e-7


def test_all_samples_enter_the_mean_that_they_are_counted_for():
    """The variance of the mean over replicates shrinks with T: 1/16 at T = 16."""
    network = dense_network(3, (4,), "sign").double()
    x, y = data(4)

    def spread(samples):
        return torch.tensor([empirical_risk(network, x, y, samples).mean for _ in range(200)]).var()

    assert spread(16).item() == pytest.approx(
        spread(1).item() / 16, rel=0.6
    )  # six errors of √(4/200)


def test_weights_shared_by_a_batch_count_once(monkeypatch):
    monkeypatch.setattr(module, "_FEW", 8)
    body = nn.Sequential(nn.Unflatten(1, (1, 2, 2)), GaussianConv2d(1, 2, 2), nn.Flatten())
    network = Network(body, GaussianLinear(2, 1)).eval()
    x, y = torch.rand(20, 4), torch.ones(20)
    found = empirical_risk(network, x, y, 6)
    assert found.draws == 20 * 6 / 8
    few = empirical_risk(network, x[:5], y[:5], 6)
    assert few.draws == 6


def test_every_example_has_weights_of_its_own():
    network = dense_network(3, (4,), "sign")
    same = torch.ones(1000, 3)
    votes = network.draw(same, 1).value[0]
    assert len(votes.unique()) > 5


def test_randomised_predictions_err_as_often_as_the_linear_loss_says(z_scores):
    network = dense_network(3, (3,), "sign").double()
    x = torch.randn(1, 3, dtype=torch.float64)
    F = exact_aggregate(network, x)
    predictions = predict_randomised(network, x.expand(30_000, 3))
    assert set(predictions.unique().tolist()) == {-1.0, 1.0}
    assert z_scores(predictions.unsqueeze(1), F.detach()).abs().max() < 5  # false alarm 6e-7


def test_majority_vote_approaches_the_aggregate():
    network = dense_network(3, (3,), "sign").double()
    x, _ = data(5)
    vote = majority_vote(network, x, 20_000)
    assert torch.allclose(vote, exact_aggregate(network, x), atol=5 / 20_000**0.5)


def test_deterministic_bodies_are_exact():
    network = Network(Deterministic(nn.Identity()), GaussianLinear(3, 1)).double()
    x, y = data(10)
    assert empirical_risk(network, x, y, 5) == empirical_risk(network, x, y, 5)
    assert empirical_risk(network, x, y, 5).draws is None


def test_variances_are_those_of_the_draws():
    """One sampled unit and a saturated head: losses are coins of known bias."""
    network = dense_network(1, (1,), "sign")
    with torch.no_grad():
        network.body.layers[0].weight.mean.fill_(1.0)
        network.body.layers[0].bias.mean.zero_()
        network.layer.weight.mean.fill_(1e4)
        network.layer.bias.mean.zero_()
    x = torch.tensor([[0.0], [3.0]]).repeat(500, 1)
    torch.manual_seed(1)
    found = empirical_risk(network, x, torch.ones(1000), 21)
    p = torch.special.ndtr(-x / (x.square() + 1).sqrt()).flatten()  # P(loss = 1)
    within = (p * (1 - p)).mean().item()
    total = (p.mean() * (1 - p.mean())).item()
    assert found.within == pytest.approx(within, abs=5 * 0.25 / 1e4**0.5)
    assert found.variance == pytest.approx(total, abs=5 * 0.25 / 2.1e4**0.5)
    assert empirical_risk(network, x, torch.ones(1000), 1).within is None


def test_many_classes_are_drawn_as_often_as_their_probabilities_say(z_scores):
    network = dense_network(3, (3,), "sign", classes=4).double()
    x = torch.randn(1, 3, dtype=torch.float64)
    predictions = predict_randomised(network, x.expand(30_000, 3))
    found = torch.nn.functional.one_hot(predictions, 4).double()
    assert z_scores(found, exact_aggregate(network, x).detach()[0]).abs().max() < 5  # below 3e-6
    vote = majority_vote(network, x, 20_000)
    assert torch.allclose(vote, exact_aggregate(network, x), atol=5 / 20_000**0.5)


def test_the_risk_of_many_classes_is_the_exact_one_within_its_error():
    network = dense_network(3, (3, 2), "sign", classes=4).double()
    x, y = torch.randn(300, 3, dtype=torch.float64), torch.randint(4, (300,))
    found, exact = empirical_risk(network, x, y, 40), module.exact_risk(network, x, y)
    assert exact.draws is None
    assert found.mean == pytest.approx(exact.mean, abs=5 * 0.5 / found.draws**0.5)  # below 6e-7
    with pytest.raises(ValueError, match="labels must be from 0 to 3, got 4"):
        empirical_risk(network, x, y + 1, 1)
    with pytest.raises(ValueError, match="must be integers"):
        empirical_risk(network, x, y.double(), 1)


def test_pairs_err_together_as_often_as_the_squares_say():
    network = dense_network(3, (3, 2), "sign").double()
    x, y = data(500)
    exact = linear(exact_aggregate(network, x), y).square().mean().item()
    assert module.exact_risk(network, x, y).tandem == pytest.approx(exact, abs=1e-12)
    found = empirical_risk(network, x, y, 41).of_pairs()
    assert found.draws == 500 * 20
    assert found.mean == pytest.approx(exact, abs=5 * 0.5 / found.draws**0.5)  # below 6e-7
    alone = empirical_risk(dense_network(3, ()).double(), x, y, 1)
    assert alone.of_pairs().draws is None
    with pytest.raises(ValueError, match="needs at least 2 samples, got 1"):
        empirical_risk(network, x, y, 1).of_pairs()


@pytest.mark.parametrize("activation", ["sign", "relu"])
@pytest.mark.parametrize("classes", [2, 4])
def test_draws_by_a_key_measure_the_same_risk(activation, classes):
    """Against draws by torch: 45 examples and 1000 draws each, five deviations."""
    torch.manual_seed(0)
    network = dense_network(3, (4, 3), activation, classes=classes).double()
    x = torch.randn(45, 3).double()
    y = network.task.encode(torch.randint(classes, (45,)))
    keyed, drawn = keyed_risk(network, x, y, 1000, b"key"), empirical_risk(network, x, y, 1000)
    error = ((keyed.within + drawn.within) / 45_000) ** 0.5
    assert abs(keyed.mean - drawn.mean) < 5 * error
    assert keyed.within == pytest.approx(drawn.within, rel=0.1)
    assert keyed.tandem == pytest.approx(drawn.tandem, rel=0.1)
    assert (keyed.n, keyed.samples, keyed.draws) == (45, 1000, 45_000)


def test_a_key_determines_the_draws_and_another_gives_others():
    network, x = dense_network(3, (4,)).double(), torch.randn(45, 3).double()
    y = torch.ones(45)
    one = keyed_risk(network, x, y, 150, b"key")
    torch.manual_seed(5)
    assert keyed_risk(network, x, y, 150, b"key") == one
    assert keyed_risk(network, x, y, 150, b"yek").mean != one.mean


def test_every_block_of_examples_and_draws_has_draws_of_its_own():
    """The same example in three blocks, and more draws than a block has."""
    network = dense_network(3, (4,)).double()
    x = torch.ones(60, 3).double()
    y = torch.ones(60)
    blocks = [keyed_risk(network, x[:n], y[:n], 100, b"key").mean * n for n in (20, 40, 60)]
    sums = [blocks[0], blocks[1] - blocks[0], blocks[2] - blocks[1]]
    assert len({round(s, 9) for s in sums}) == 3
    first, both = (keyed_risk(network, x[:20], y[:20], T, b"key").mean for T in (100, 200))
    assert 2 * both - first != pytest.approx(first, abs=1e-12)


def test_every_block_of_a_body_that_shares_draws_has_a_generator_of_its_own():
    """The same example in two blocks of 64."""
    body = nn.Sequential(nn.Unflatten(1, (1, 2, 2)), GaussianConv2d(1, 2, 2), nn.Flatten())
    network = Network(body, GaussianLinear(2, 1)).double().eval()
    x, y = torch.ones(128, 4).double(), torch.ones(128)
    first, both = (keyed_risk(network, x[:n], y[:n], 3, b"key") for n in (64, 128))
    assert both.mean != pytest.approx(first.mean, abs=1e-9)


def test_an_exact_network_draws_nothing_by_its_key():
    network, x = dense_network(3, ()).double(), torch.randn(45, 3).double()
    one, two = (keyed_risk(network, x, torch.ones(45), T, b"key") for T in (1, 300))
    assert one == two
    assert (one.draws, one.samples) == (None, 0)
    assert one.mean == pytest.approx(exact_risk(network, x, torch.ones(45)).mean, abs=1e-12)


@pytest.mark.parametrize(("n", "size", "draws", "most"), [(7, 3, 5, 2), (6, 3, 2, 2), (2, 9, 1, 4)])
def test_parts_have_every_draw_of_every_example_once(n, size, draws, most):
    parts = all_parts(n, size, draws, most)
    found = [
        (i, t)
        for p in parts
        for i in range(p.start, p.stop)
        for t in range(p.first, p.first + p.draws)
    ]
    assert sorted(found) == [(i, t) for i in range(n) for t in range(draws)]
    assert max(p.stop - p.start for p in parts) == parts[0].stop == min(n, size)
    assert max(p.draws for p in parts) <= most


def test_sums_are_those_of_their_definitions():
    losses = torch.rand(5, 3, generator=torch.Generator().manual_seed(0)).double()
    found = Sums.of(losses, 0.5, 4)
    pairs = [(losses[0], losses[1]), (losses[2], losses[3])]
    assert found.total == pytest.approx(0.5 * losses.sum().item() / 5)
    assert found.squares == pytest.approx((losses**2).sum().item())
    assert found.within == pytest.approx(sum(((a - b) ** 2).sum() / 2 for a, b in pairs))
    assert found.shared == pytest.approx(sum(((a - b).sum() / 4) ** 2 / 2 for a, b in pairs))
    assert found.tandem == pytest.approx(sum((a * b).sum() for a, b in pairs))
    assert found.drawn == 15
    assert (found + found).drawn == 30


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(100, 1000), (2, MOST_EXAMPLES), (1, MOST_EXAMPLES)])
def test_the_bits_of_sums_do_not_depend_on_threads(shape):
    """Torch alone would sum 100 000 numbers otherwise with other threads, in half of all cases."""
    before = torch.get_num_threads()
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        losses = torch.rand(*shape, generator=generator, dtype=torch.float64)
        for each in (losses, losses.T.contiguous().T):
            found = set()
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                found.add(Sums.of(each, 1.0, shape[1]))
            torch.set_num_threads(before)
            assert len(found) == 1


def test_losses_are_clamped_and_the_share_of_draws_counts():
    work = Work(lambda x, y, part: torch.tensor([[1.5, -0.5], [0.5, 0.5]]).double(), 8, 2)
    x = y = torch.zeros(4)
    [sums] = in_turn(work, x, y, [Part(0, 2, 4, 2)])
    assert sums.total == 2 / 8 * (0.75 + 0.25)
