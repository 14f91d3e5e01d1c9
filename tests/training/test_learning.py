"""Learning a prior from any module: plain training, folded, resumed with the same bits."""

import pytest
import torch
from torch import nn

from pacbayes import learn_prior, stochastic
from pacbayes.certificates.kept import certify_fixed, certify_network
from pacbayes.networks.gaussian import digest_prior, gaussians
from pacbayes.training import learning


def module(outputs=1):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Unflatten(1, (1, 6, 6)),
        nn.Conv2d(1, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Flatten(),
        nn.Linear(64, outputs),
    )


def examples(n, seed, classes=2):
    g = torch.Generator().manual_seed(seed)
    x, label = torch.rand(n, 36, generator=g), torch.randint(classes, (n,), generator=g)
    x[torch.arange(n), label] += 1.0
    x[torch.arange(n), label + 6] += 1.0
    return x, (2.0 * label - 1 if classes == 2 else label)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_prior_learns_from_its_part_and_is_certified_on_the_other(classes):
    start = module(1 if classes == 2 else 3)
    before = {k: v.clone() for k, v in start.state_dict().items()}
    learned = learn_prior(start, *examples(400, 0, classes), epochs=10, batch_size=32)
    assert all(torch.equal(before[k], v) for k, v in start.state_dict().items())
    assert not any(isinstance(part, nn.BatchNorm2d) for part in learned.modules())
    network = stochastic(learned, scale=0.01)
    assert torch.equal(gaussians(network)["body.posterior.1.weight"].mean, learned[1].weight)
    assert len(digest_prior(network)) == 64
    bound_set = examples(300, 1, classes)
    held_out = certify_fixed(network, *bound_set)
    assert held_out.risk < held_out.bound < 0.15
    best, _ = certify_network(network, *bound_set)
    assert best.bound < 0.2


def test_an_interrupted_prior_ends_with_the_same_bits(tmp_path, monkeypatch):
    given = {"epochs": 4, "batch_size": 32, "augment": shifted}
    x, y = examples(200, 0)
    whole = learn_prior(module(), x, y, **given)
    monkeypatch.setattr(learning, "run_to_end", stop_after(2, learning.run_to_end))
    with pytest.raises(KeyboardInterrupt):
        learn_prior(module(), x, y, **given, checkpoint=tmp_path / "c.safetensors")
    monkeypatch.undo()
    resumed = learn_prior(module(), x, y, **given, checkpoint=tmp_path / "c.safetensors")
    assert all(
        torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True)
    )
    with pytest.raises(ValueError, match="belongs to other examples"):
        learn_prior(module(), x + 1, y, **given, checkpoint=tmp_path / "c.safetensors")


def shifted(x, generator):
    return x + 0.1 * torch.rand(len(x), 1, generator=generator)


def stop_after(epochs, run_to_end):
    def run(loop, save):
        for progress in run_to_end(loop, save):
            yield progress
            if loop.epoch == epochs:
                save()
                raise KeyboardInterrupt

    return run


def test_products_in_bfloat16_train_weights_in_float32():
    x, y = examples(400, 0)
    narrow = learn_prior(module(), x, y, epochs=10, batch_size=32, precision="bfloat16")
    assert {p.dtype for p in narrow.parameters()} == {torch.float32}
    plain = learn_prior(module(), x, y, epochs=10, batch_size=32)
    assert not torch.equal(narrow[1].weight, plain[1].weight)
    unseen, label = examples(300, 1)
    assert (narrow(unseen).squeeze(1) * label <= 0).float().mean() < 0.1


def test_examples_are_augmented_until_shortly_before_the_end():
    x = torch.zeros(2, 3)
    shown = [learning.augmented(x, shifted, 0, epoch, 100) for epoch in (0, 1, 96, 97, 99)]
    assert [bool(s.any()) for s in shown] == [True, True, True, False, False]
    assert not torch.equal(shown[0], shown[1])
    assert torch.equal(shown[0], learning.augmented(x, shifted, 0, 0, 100))


def test_statistics_can_stay_frozen_instead():
    learned = learn_prior(module(), *examples(100, 0), epochs=1, fold=False)
    assert isinstance(learned[2], nn.BatchNorm2d)
    assert not learned[2].training
    stochastic(learned)  # is accepted


def test_wrong_labels_are_refused():
    x, _ = examples(50, 0)
    with pytest.raises(ValueError, match="labels must be -1 or"):
        learn_prior(module(), x, torch.zeros(50), epochs=1)
