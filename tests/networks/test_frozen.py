"""Features of a frozen body: each example by itself, computed once, and cached by hash."""

import copy

import pytest
import torch
from torch import nn

from pacbayes import Settings, certify, dense_network, frozen_features, frozen_sha256, train
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.files import load_tensors, save_tensors
from pacbayes.networks.families.diagonal import GaussianLinear


def normed():
    """A body with batch norm and dropout, in training mode."""
    torch.manual_seed(0)
    body = nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(0.5), nn.Flatten()
    )
    body(torch.rand(50, 2, 5, 5) + 1)  # statistics of other data
    return body


@pytest.fixture
def x():
    return torch.rand(30, 2, 5, 5, generator=torch.Generator().manual_seed(1))


class Own(nn.Module):
    """A body of one's own that can be given any defect."""

    def __init__(self, call=lambda x: x):
        super().__init__()
        self.call = call
        self.power = 2

    def forward(self, x):
        return self.call(x.flatten(1)) ** self.power


def test_the_body_runs_in_evaluation_mode_and_is_not_touched(x):
    body = normed()
    before = copy.deepcopy(body.state_dict())
    found = frozen_features(body, x, batch_size=7)
    assert body.training
    assert all(torch.equal(v, before[k]) for k, v in body.state_dict().items())
    norm = body[1]
    z = (body[0](x) - norm.running_mean.view(-1, 1, 1)) / (
        norm.running_var.view(-1, 1, 1) + norm.eps
    ).sqrt()
    assert torch.allclose(found, z.relu().flatten(1), atol=1e-5)
    assert not found.requires_grad
    assert found.shape == (30, 27)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (Own(lambda a: a - a.mean(0)), "alone or in another batch"),
        (Own(lambda a: a + torch.rand_like(a)), "alone or in another batch"),
        (Own(lambda a: a.flip(0)), "alone or in another batch"),
        (nn.Sequential(nn.Flatten(), nn.BatchNorm1d(50, track_running_stats=False)), "alone or"),
        (Own(lambda a: a / 0), "finite features"),
        (Own(lambda a: a.sum(1)), r"shape \(30, d\) for 30 examples, got \(30,\); end it"),
        (Own(lambda a: a[:1]), r"got \(1, 50\)"),
        (nn.Sequential(nn.Flatten(), GaussianLinear(50, 2)), "not frozen"),
    ],
)
def test_what_is_not_a_frozen_body_is_refused(body, says, x):
    with pytest.raises(ValueError, match=says):
        frozen_features(body, x)


class Counting(nn.Module):
    """A body that remembers how many examples it has seen."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += len(x)
        return x.flatten(1)


def test_a_body_with_a_memory_is_refused(x):
    with pytest.raises(ValueError, match="changes when it is evaluated"):
        frozen_features(Counting(), x)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"x": torch.zeros(0, 3)}, r"n ≥ 1, got \(0, 3\)"),
        ({"x": torch.zeros(3)}, r"got \(3,\)"),
    ],
)
def test_bad_arguments_are_refused(change, says):
    with pytest.raises(ValueError, match=says):
        frozen_features(**({"module": Own(), "x": torch.zeros(3, 2)} | change))


def test_features_are_computed_once(x, tmp_path, monkeypatch):
    monkeypatch.setenv("PACBAYES_CACHE", str(tmp_path))
    seen = []
    body = normed().eval()
    body.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    first = frozen_features(body, x, batch_size=8, cache=True)
    alone = len(seen)
    assert torch.equal(frozen_features(body, x, batch_size=8, cache=True), first)
    assert seen[alone:] == [8, 4, 1]  # only the first block, and its checks
    assert len(list((tmp_path / "features").iterdir())) == 1
    assert torch.equal(frozen_features(body, x, batch_size=8), first)


def cached(body, x, folder):
    """Fill the cache; return its only file."""
    frozen_features(body, x, batch_size=8, cache=folder)
    (file,) = folder.iterdir()
    return file


def test_a_damaged_file_is_computed_again(x, tmp_path):
    body = normed()
    file = cached(body, x, tmp_path / "cache")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert torch.equal(frozen_features(body, x, cache=tmp_path / "cache"), frozen_features(body, x))
    assert load_tensors(file)[0]["features"].shape == (30, 27)


@pytest.mark.parametrize("change", [lambda a: a + 0.1, lambda a: a[:-1], lambda a: a.double()])
def test_a_whole_file_of_other_features_is_computed_again(change, x, tmp_path):
    body = normed()
    file = cached(body, x, tmp_path / "cache")
    right = load_tensors(file)[0]["features"]
    save_tensors(file, {"features": change(right)})
    assert torch.equal(frozen_features(body, x, batch_size=8, cache=tmp_path / "cache"), right)


def test_a_cache_that_cannot_be_written_does_no_harm(x, tmp_path):
    (tmp_path / "file").write_text("in the way")
    found = frozen_features(normed(), x, cache=tmp_path / "file" / "cache")
    assert torch.allclose(found, frozen_features(normed(), x))


@pytest.mark.parametrize(
    "change",
    [
        lambda b: setattr(b, "power", 3),
        lambda b: setattr(b, "call", lambda a: a + 1),
        lambda b: setattr(b, "_stray", torch.ones(1)),
        lambda b: setattr(b, "stray", [torch.ones(1)]),
        lambda b: b.register_buffer("more", torch.zeros(1)),
        lambda b: b.add_module("inner", nn.ReLU()),
        lambda b: setattr(b, "__class__", Counting),
    ],
)
def test_the_hash_knows_structure_attributes_code_and_tensors(change):
    body = Own()
    before = frozen_sha256(body)
    assert frozen_sha256(copy.deepcopy(body).train()) == before
    change(body)
    assert frozen_sha256(body) != before


def test_the_hash_knows_every_weight_and_statistic_but_not_the_mode():
    body = normed()
    before = frozen_sha256(body)
    assert frozen_sha256(copy.deepcopy(body).eval().requires_grad_(False)) == before
    for tensor in (*body.parameters(), *body.buffers()):
        kept = tensor.detach().clone()
        with torch.no_grad():
            tensor.add_(1)
            assert frozen_sha256(body) != before
            tensor.copy_(kept)
    assert frozen_sha256(body) == before


def test_code_without_a_source_counts_too():
    def compiled(text):
        space = {"nn": nn}
        exec(f"class Body(nn.Module):\n    def forward(self, x): return {text}", space)
        return frozen_sha256(space["Body"]())

    assert compiled("x + 1") == compiled("x + 1")
    assert len({compiled(text) for text in ("x + 1", "x + 2", "x.exp()", "x.sin()")}) == 4


def test_other_examples_have_features_of_their_own(x, tmp_path):
    for examples in (x, x + 1, x[:20], x.clone()):
        frozen_features(normed(), examples, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_features_are_data_and_the_certificate_names_their_body(x):
    body = normed()
    features = frozen_features(body, x)
    y = torch.where(features[:, 0] > features[:, 0].median(), 1.0, -1.0)
    network = dense_network(27, ())
    train(network, features, y, Settings.of("fast", widths=(), epochs=2))
    assumptions = Assumptions(frozen_sha256=frozen_sha256(body))
    certificate = certify(network, features, y, sample=(x.flatten(1), y), assumptions=assumptions)
    assert certificate.assumptions.frozen_sha256 == frozen_sha256(body)
    assert any(frozen_sha256(body) in text for text in certificate.assumptions.sentences())
    assert certificate.monte_carlo is None
    assert "frozen" not in " ".join(certify(network, features, y).assumptions.sentences())
