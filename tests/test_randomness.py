import ast
import asyncio
import itertools
from pathlib import Path
from typing import get_args

import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional

import pacbayes
from pacbayes.randomness import (
    Generators,
    Purpose,
    aside,
    category,
    drawing_from,
    generator_on,
    integer,
    normal,
    normal_like,
    one_by_one,
    permutation,
    redirected,
    seeded,
    stream,
    uniform,
    uniform_like,
)

CPU = torch.device("cpu")
like = torch.zeros(4, 5, dtype=torch.float64)
crosswise = torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last)
DRAWS = {  # ours, and torch's
    normal: (lambda: normal((3, 7), like), lambda: torch.randn(3, 7, dtype=torch.float64)),
    normal_like: (lambda: normal_like(crosswise), lambda: torch.randn_like(crosswise)),
    uniform: (lambda: uniform((3, 7), like), lambda: torch.rand(3, 7, dtype=torch.float64)),
    uniform_like: (lambda: uniform_like(crosswise), lambda: torch.rand_like(crosswise)),
    category: (lambda: category(like + 0.2), lambda: torch.multinomial(like + 0.2, 1).squeeze(-1)),
    permutation: (lambda: permutation(40), lambda: torch.randperm(40)),
    integer: (lambda: torch.tensor(integer(2**63 - 1)), lambda: torch.randint(2**63 - 1, ())),
}
FOREIGN = {
    "randn": lambda: torch.randn(3, 4),
    "randn_like": lambda: torch.randn_like(crosswise),
    "rand": lambda: torch.rand(3, dtype=torch.float64),
    "rand_like": lambda: torch.rand_like(like),
    "randint": lambda: torch.randint(9, (5,)),
    "randint from": lambda: torch.randint(3, 9, (5,)),
    "randint_like": lambda: torch.randint_like(like, 9),
    "randperm": lambda: torch.randperm(30),
    "normal": lambda: torch.normal(like, 2.0),
    "normal_": lambda: torch.empty(30).normal_(),
    "bernoulli": lambda: torch.bernoulli(like + 0.5),
    "multinomial": lambda: torch.multinomial(like + 0.2, 3),
    "dropout": lambda: functional.dropout(like + 1, 0.5),
    "dropout2d": lambda: functional.dropout2d(crosswise + 1, 0.5),
    "rrelu": lambda: functional.rrelu(like - 1, training=True),
    "gumbel": lambda: functional.gumbel_softmax(like),
    "linear": lambda: nn.Linear(5, 4).weight.detach(),
    "attention": lambda: functional.scaled_dot_product_attention(
        *torch.ones(3, 1, 6, 2), dropout_p=0.5
    ),
}


@pytest.fixture
def global_generator():
    """Torch's own generator, which a test must leave as it is."""
    torch.manual_seed(1)
    before = torch.get_rng_state()
    yield
    assert torch.equal(torch.get_rng_state(), before)


def test_purposes_and_seeds_have_streams_of_their_own():
    streams = [stream(s, p) for s, p in itertools.product(range(50), get_args(Purpose))]
    assert len(set(streams)) == len(streams)


def test_no_large_seed_runs_into_another_purpose():
    words = [[stream(s + k * 2**32, p) for p in get_args(Purpose)] for s in (7,) for k in range(4)]
    flat = [w for row in words for w in row]
    assert len(set(flat)) == len(flat)


@pytest.mark.parametrize(("ours", "torchs"), DRAWS.values(), ids=[f.__name__ for f in DRAWS])
def test_a_seeded_block_draws_what_torch_draws_from_that_seed(ours, torchs):
    torch.manual_seed(stream(7, "prediction"))
    expected = [torchs(), torchs()]
    before = torch.get_rng_state()
    with seeded(7, "prediction"):
        found = [ours(), ours()]
    assert torch.equal(torch.get_rng_state(), before)
    for a, b in zip(expected, found, strict=True):
        assert torch.equal(a, b)
        assert a.stride() == b.stride()
    assert not torch.equal(*found)


@pytest.mark.parametrize(("ours", "torchs"), DRAWS.values(), ids=[f.__name__ for f in DRAWS])
def test_without_a_block_torch_decides(ours, torchs):
    torch.manual_seed(3)
    expected = torchs()
    torch.manual_seed(3)
    assert torch.equal(ours(), expected)


@pytest.mark.parametrize("draw", FOREIGN.values(), ids=FOREIGN)
def test_code_that_is_not_ours_can_be_redirected(draw):
    torch.manual_seed(stream(7, "training"))
    expected = [draw(), draw()]
    before = torch.get_rng_state()
    with seeded(7, "training"), redirected():
        found = [draw(), draw()]
    assert torch.equal(torch.get_rng_state(), before)
    assert all(map(torch.equal, expected, found))
    assert not torch.equal(*found)


def test_a_generator_that_code_brings_along_stays_its_own(global_generator):
    expected = torch.rand(3, generator=torch.Generator().manual_seed(2))
    with seeded(7, "training"), redirected():
        found = torch.rand(3, generator=torch.Generator().manual_seed(2))
        empty = torch.empty(3).uniform_(generator=torch.Generator().manual_seed(2))
    assert torch.equal(found, expected)
    assert torch.equal(empty, expected)


def test_dropout_keeps_its_gradient_when_redirected(global_generator):
    x = torch.ones(50, requires_grad=True)
    with seeded(7, "training"), redirected():
        y = functional.dropout(x, 0.5)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert set(y.tolist()) == {0.0, 2.0}


def test_nothing_is_redirected_without_generators():
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    with redirected():
        assert torch.equal(torch.rand(3), expected)


def test_what_does_not_matter_is_drawn_aside(global_generator):
    with aside():
        assert not torch.equal(torch.rand(3), torch.rand(3))
    with seeded(4, "prior"):
        inside = torch.cat([uniform((3,), like), uniform((3,), like)])
    with seeded(4, "prior"), aside():  # where there are generators, these
        assert torch.equal(torch.rand(6, dtype=torch.float64), inside)


def test_blocks_nest_and_end_whatever_happens(global_generator):
    def interrupted(outer):
        with seeded(2, "prior"), redirected():
            assert generator_on(CPU) is not outer
            raise KeyboardInterrupt

    with seeded(1, "prior"):
        outer = generator_on(CPU)
        with pytest.raises(KeyboardInterrupt):
            interrupted(outer)
        assert generator_on(CPU) is outer
    assert generator_on(CPU) is None


def test_states_continue_a_stream(global_generator):
    generators = Generators(5)
    with drawing_from(generators):
        normal((9,), like)
        states = generators.states()
        expected = normal((9,), like)
    with drawing_from(Generators(6, states)):
        assert torch.equal(normal((9,), like), expected)


def test_asyncio_tasks_draw_by_themselves(global_generator):
    async def drawn(seed):
        with seeded(seed, "training"):
            numbers = []
            for _ in range(5):
                numbers.append(uniform((), like).item())
                await asyncio.sleep(0)
        return numbers

    async def together():
        return await asyncio.gather(*map(drawn, range(8)))

    assert asyncio.run(together()) == [asyncio.run(drawn(seed)) for seed in range(8)]


def test_examples_draw_by_themselves_whatever_their_company(global_generator):
    def draw(row):
        return uniform((len(row),), row)

    x = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    drawn = one_by_one(draw, x, seed=1)
    assert len(drawn.unique()) == 6
    assert torch.equal(one_by_one(draw, x[[4, 1]], 1), drawn[[4, 1]])
    assert not torch.equal(one_by_one(draw, x, 2), drawn)


def test_draws_keyed_by_examples_are_uniform():
    x = torch.arange(4000, dtype=torch.float64).unsqueeze(1)
    drawn = one_by_one(lambda row: uniform((len(row),), row), x, seed=3)
    assert stats.kstest(drawn.numpy(), "uniform").pvalue > 1e-4  # false alarm 1e-4


RANDOM = {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "multinomial"}
RANDOM |= {"bernoulli", "bernoulli_", "normal_", "uniform_", "exponential_", "xavier_normal_"}
GLOBAL = {"fork_rng", "set_rng_state", "get_rng_state"}


def test_no_room_draws_from_torchs_own_generator():
    for path in Path(pacbayes.__file__).parent.rglob("*.py"):
        if path.parent.name == "bench":  # measures torch as it is
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            where, called = f"{path.name}:{node.lineno}", ast.unparse(node.func)
            if node.func.attr in RANDOM and (called.startswith("torch.") or called.endswith("_")):
                assert any(k.arg == "generator" for k in node.keywords), where
            assert node.func.attr not in GLOBAL, where
            assert called != "torch.manual_seed", where
