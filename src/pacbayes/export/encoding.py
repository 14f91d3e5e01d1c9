"""The encoding of a table inside a graph, so that it takes rows as the table has them.

A graph answers what the library answers or refuses: what the library refuses becomes an index out
of range, which no runtime looks up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice, product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pacbayes.data.cells import MISSING, TRUTH, is_number
from pacbayes.data.encoding import BooleanCode, CategoryCode, Encoding, NumberCode
from pacbayes.data.frame import MISSING_CODE, Column, Kind
from pacbayes.data.later import in_training, spellings_of
from pacbayes.export.predictors import Explicit, Port, RawColumn

__all__ = ["REFUSED", "refusing", "taking_rows"]

REFUSED = 1 << 40  # a code beyond every table of codes
_OTHER = ""  # stands for any text that the encoding does not know, which a missing one never is


def _columns(encoding: Encoding) -> tuple[RawColumn, ...]:
    """Return the columns that an encoding takes, in its order."""
    return tuple(_raw(code, plain=encoding.plain) for code in encoding.columns)


def _raw(code: NumberCode | BooleanCode | CategoryCode, *, plain: bool) -> RawColumn:
    if isinstance(code, NumberCode):
        return RawColumn(code.name, Kind(code.kind))
    words = _words(code)
    missing = REFUSED if plain else len(words) + 1
    codes = {word: i for i, word in enumerate(words)}
    codes |= {word: missing for absent in MISSING for word in _cases(absent)}
    codes = {word: _code_of(word, code, codes) for word in _spelled_otherwise(code)} | codes
    return RawColumn(code.name, Kind(code.kind), codes, len(words))


def _words(code: BooleanCode | CategoryCode) -> list[str]:
    """Return the texts that have features of their own."""
    if isinstance(code, CategoryCode):
        return [*code.categories, *code.rare]
    return [word for truth in TRUTH for word in _cases(truth)]


def _spelled_otherwise(code: BooleanCode | CategoryCode) -> Iterator[str]:
    """Yield numbers and truth values as libraries write them, which `predict` takes too."""
    if isinstance(code, BooleanCode):
        yield from ("0", "1", "0.0", "1.0")
        return
    for word in spellings_of(_words(code)):
        if is_number(word) and float(word).is_integer():
            yield str(int(float(word)))
        yield from [repr(float(word))] if is_number(word) else []
        yield from [] if is_number(word) else (*_cases("true"), *_cases("false"))


def _code_of(word: str, code: BooleanCode | CategoryCode, codes: dict[str, int]) -> int:
    """Return the code of the text that `predict` takes a text for; it refuses some."""
    try:
        meant = in_training(word, Kind(code.kind), spellings_of(_words(code)))
    except ValueError:
        return REFUSED
    return codes.get(meant, len(_words(code)))


def _cases(word: str) -> Iterator[str]:
    """Yield the spellings of a word that `str.lower` makes the same."""
    return map("".join, product(*({c.lower(), c.upper()} for c in word)))


class _Encoder(nn.Module):
    """Features (n, d) of rows (n, columns): numbers, NaN where one is missing, and codes."""

    number_places: Tensor
    fill: Tensor
    mean: Tensor
    scale: Tensor
    indicators: Tensor
    order: Tensor

    def __init__(self, encoding: Encoding) -> None:
        super().__init__()
        places = list(enumerate(encoding.columns))
        numbers = [(i, code) for i, code in places if isinstance(code, NumberCode)]
        texts = [(i, code) for i, code in places if not isinstance(code, NumberCode)]
        self.text_places = [i for i, _ in texts]
        for i, code in texts:
            self.register_buffer(f"texts_{i}", _features_of_texts(code))
        self._register("number_places", [i for i, _ in numbers])
        # In a plain encoding nothing is filled in, so that a missing number is refused.
        fill = [float("nan") if encoding.plain else code.fill for _, code in numbers]
        self._register("fill", fill)
        self._register("mean", [code.mean for _, code in numbers])
        self._register("scale", [code.scale for _, code in numbers])
        self._register("indicators", [j for j, (_, code) in enumerate(numbers) if code.missing])
        self._register("order", _order(encoding))

    def _register(self, name: str, values: list[Any]) -> None:
        integer = name in ("number_places", "indicators", "order")
        dtype = torch.int64 if integer else torch.float64
        self.register_buffer(name, torch.tensor(values, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        parts = self._numbers(x) if len(self.number_places) else []
        for i in self.text_places:
            parts.append(getattr(self, f"texts_{i}").index_select(0, x[:, i].long()))
        return torch.cat(parts, 1).index_select(1, self.order)

    def _numbers(self, x: Tensor) -> list[Tensor]:
        """Return numbers standardised, and whether they are missing where a feature says so."""
        given = x.index_select(1, self.number_places).float().double()  # tables are read in float32
        absent = given.isnan()
        filled = torch.where(absent, self.fill, given)
        parts = [((filled - self.mean) / self.scale).float()]
        if len(self.indicators):
            parts.append(absent.float().index_select(1, self.indicators))
        return parts


def _features_of_texts(code: BooleanCode | CategoryCode) -> Tensor:
    """Return the library's features of every known text, of another one and of a missing one."""
    words = _words(code)
    values = np.array([*range(len(words) + 1), MISSING_CODE], np.int32)
    column = Column(code.name, Kind.CATEGORY, values, (*words, _OTHER))
    return torch.from_numpy(code.apply(column))


def _order(encoding: Encoding) -> list[int]:
    """Return where each feature stands in the parts of `_Encoder.forward`."""
    numbers = [code for code in encoding.columns if isinstance(code, NumberCode)]
    flags = len(numbers) + sum(code.missing for code in numbers)
    value, flag, text = count(), count(len(numbers)), count(flags)
    order: list[int] = []
    for code in encoding.columns:
        if not isinstance(code, NumberCode):
            order += islice(text, len(code.names))
            continue
        order.append(next(value))
        if code.missing:
            order.append(next(flag))
    return order


class _Refusal(nn.Module):
    """The same features; a row that has one that is not finite is looked up beyond the last row."""

    def forward(self, features: Tensor) -> Tensor:
        n, refused = features.shape[0], ~features.isfinite().all(1)
        return features.index_select(0, torch.arange(n) + n * refused.long())


class _OnRows(nn.Module):
    """A predictor of features, applied to rows."""

    def __init__(self, encoder: nn.Module, predictor: nn.Module) -> None:
        super().__init__()
        self.encoder, self.refusal, self.predictor = encoder, _Refusal(), predictor

    def forward(self, x: Tensor, *noise: Tensor) -> tuple[Tensor, Tensor]:
        answer: tuple[Tensor, Tensor] = self.predictor(self.refusal(self.encoder(x)), *noise)
        return answer


def refusing(predictor: Explicit) -> Explicit:
    """Return a predictor of features that refuses those that are not finite."""
    return replace(predictor, module=_OnRows(nn.Identity(), predictor.module).eval())


def taking_rows(predictor: Explicit, encoding: Encoding) -> Explicit:
    """Return the predictor of rows of a table: numbers, and codes of texts, in float64."""
    names = tuple(code.name for code in encoding.columns)
    x = Port("x", ("batch", len(names)), "float64", _meaning(names))
    module = _OnRows(_Encoder(encoding), predictor.module).eval()
    inputs = (x, *predictor.noise)
    return replace(predictor, module=module, inputs=inputs, columns=_columns(encoding))


def _meaning(names: tuple[str, ...]) -> str:
    some = ", ".join(names[:5]) + (", …" if names[5:] else "")
    return f"columns {some}, as in the table; NaN where a number is missing"
