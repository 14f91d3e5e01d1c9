"""Parts of a risk: every draw of every example once, and sums that depend on nothing else."""

import pytest
import torch

from pacbayes.networks.parts import MOST_EXAMPLES, Part, Sums, Work, all_parts, in_turn


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
