"""Whole steps of the engine, its own random numbers drawn again and put through float64 torch."""

import copy

import numpy as np
import pytest
import torch

from pacbayes import dense_network
from pacbayes.data.tasks import linear
from pacbayes.engine.library import available, library
from pacbayes.engine.network import NativeEngine
from pacbayes.networks import activations
from pacbayes.paper import baselines

pytestmark = pytest.mark.skipif(not available(), reason="no compiler, or not an AVX2 machine")

LANES = 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 8
TILE_ROWS = 12 if LANES == 16 else 6
KINDS = [
    ("relu", "marginal"),
    ("sigmoid", "marginal"),
    ("sign", "marginal"),
    ("sign", "leave-one-out"),
    ("sign", "local-expectation"),
    ("sign", "straight-through"),
]


def up(count, unit):
    return -(-count // unit) * unit


def chunk_inputs(T, widths):
    """As in space.inc: 64 rows or more that fill vectors best, or 256 for wide layers."""
    rows = 256 if max(widths) > 384 else 64
    best = least = -(-rows // T)
    for i in range(least, 256 // T + 1):
        if (-i * T % LANES) * best < (-best * T % LANES) * i:
            best = i
    return best


def drawn(function, key, count, dtype):
    out = np.zeros(up(count, 2 * LANES), dtype)
    getattr(library(), function)(*key, out.ctypes.data, len(out))
    return out


def first_words(words, m, T, width):
    """Of the first layer: (inputs, vectors of units, T, lanes) as (T, inputs, units)."""
    op = up(width, 16)
    block = words[: m * op * T].reshape(m, op // LANES, T, LANES)
    return block.transpose(2, 0, 1, 3).reshape(T, m, op)[:, :, :width]


def replay(widths, T, B, key, *, signs):
    """Every layer's words or normals, (T, B, width)."""
    n, out = chunk_inputs(T, widths), [np.zeros((T, B, w)) for w in widths]
    for c, s in enumerate(range(0, B, n)):
        m = min(n, B - s)
        R, op = up(m * T, LANES), up(widths[0], 16)
        # Normals are drawn two vectors at a time for a tile of units; words for each unit.
        tiles = [[min(TILE_ROWS, w - j) for j in range(0, w, TILE_ROWS)] for w in widths[1:]]
        if signs:
            z = drawn("pb_words", (*key, c), m * op * T + R * sum(widths[1:]), np.uint32)
            z = (z.view(np.int32).astype(np.int64) + 2**31).astype(float)
            out[0][:, s : s + m] = first_words(z, m, T, widths[0])
            at, tiles = m * op * T, [[w] for w in widths[1:]]
        else:
            count = R * op + sum(up(u * R, 2 * LANES) for t in tiles for u in t)
            z = drawn("pb_normals", (*key, c), count, np.float32)
            rows = z[: R * op].reshape(R, op)[: m * T, : widths[0]]
            out[0][:, s : s + m] = rows.reshape(m, T, -1).transpose(1, 0, 2)
            at = R * op
        for layer, units in enumerate(tiles, 1):
            parts = []
            for u in units:
                parts.append(z[at : at + u * R].reshape(u, R)[:, : m * T])
                at += u * R if signs else up(u * R, 2 * LANES)
            block = np.concatenate(parts).reshape(-1, m, T)
            out[layer][:, s : s + m] = block.transpose(2, 1, 0)
    return [torch.from_numpy(o) for o in out]


def agrees(
    network, native, kind, widths, T, B, monkeypatch, *, key=(3, 9), dense=False, log_loss=False
):
    """Loss and every gradient of one step, against float64 autograd on the same draws."""
    generator = torch.Generator().manual_seed(B)
    d = network.body.layers[0].weight.mean.shape[1]
    x = torch.randn(B, d, generator=generator) * 2 / d**0.5
    if not dense:
        x[torch.rand(B, d, generator=generator) < 0.6] = 0
    y = torch.randint(network.classes, (B,), generator=generator)
    y = 2.0 * y - 1 if network.classes == 2 else y
    index = torch.randint(B, (B,), generator=generator)  # some twice, some never
    loss = native.loss_and_grad(x, y, index, *key, log_loss=log_loss) / B
    found = [p.grad.double().clone() for p in network.parameters()]
    assert native.loss(x, y, index, *key) / B == pytest.approx(loss, abs=1e-9)

    draws, near = iter(replay(widths, T, B, key, signs=kind[0] == "sign")), []

    def sample_sign(u, samples):
        z = next(draws)
        tail = torch.erfc(u.detach().abs() * 0.5**0.5).mul(0.5).expand(z.shape)
        near.append((((z + 0.5) / 2**32 - tail).abs() < tail * 1e-5 + 2.0**-32).any().item())
        return torch.where((z < torch.floor(tail * 2**32)) ^ (u.detach() > 0), 1.0, -1.0).double()

    monkeypatch.setattr(activations, "sample_sign", sample_sign)
    monkeypatch.setattr(activations, "_normal", lambda mean, dev, samples: mean + dev * next(draws))
    exact = copy.deepcopy(network).double()
    losses = exact.loss(exact(x[index].double(), T), y[index])
    truth = losses.mean()
    objective = -torch.log1p(-losses).mean() if log_loss else truth
    gradients = torch.autograd.grad(objective, list(exact.parameters()))
    monkeypatch.undo()
    if any(near):  # a draw within rounding of its probability may fall on either side
        return
    assert loss == pytest.approx(truth.item(), abs=3e-6)
    for ours, theirs in zip(found, gradients, strict=True):
        assert (ours - theirs).abs().max() < 1e-3 * theirs.abs().max() + 1e-7


def made(kind, widths, d, *, learned_scale, scale, classes=2):
    torch.manual_seed(1)
    network = dense_network(
        d,
        widths,
        kind[0],
        classes=classes,
        estimator=kind[1],
        learned_scale=learned_scale,
        scale=scale,
    )
    with torch.no_grad():
        for p in network.parameters():
            p += 0.3 * torch.randn_like(p)
    return network


@pytest.mark.parametrize(("learned_scale", "scale"), [(False, 0.5), (True, 1.0)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("widths", "T", "B", "d"),
    [
        ((3,), 2, 5, 4),
        ((17, 33), 7, 150, 70),
        ((130, 20), 10, 37, 130),
        ((150, 140), 50, 9, 65),
        ((5, 16, 1, 40, 3), 3, 70, 20),
        ((401, 530), 3, 170, 20),
    ],
)
def test_a_step_is_float64s_with_the_same_draws(
    widths, T, B, d, kind, learned_scale, scale, monkeypatch
):
    network = made(kind, widths, d, learned_scale=learned_scale, scale=scale)
    agrees(network, NativeEngine(network, T), kind, widths, T, B, monkeypatch)


@pytest.mark.parametrize("kind", KINDS[::3])
def test_one_engine_takes_batches_of_every_size(kind, monkeypatch):
    network = made(kind, (17, 9), 70, learned_scale=True, scale=1.0)
    native = NativeEngine(network, 7)
    for B in (200, 64, 65, 3, 128):
        agrees(network, native, kind, (17, 9), 7, B, monkeypatch, key=(3, B), dense=B == 64)


@pytest.mark.parametrize("classes", [3, 10, 37])
@pytest.mark.parametrize("learned_scale", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[1] != "local-expectation"])
def test_a_step_with_many_classes_is_float64s(kind, learned_scale, classes, monkeypatch):
    network = made(kind, (17, 9), 20, learned_scale=learned_scale, scale=1.0, classes=classes)
    agrees(network, NativeEngine(network, 7), kind, (17, 9), 7, 70, monkeypatch)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[5]])
def test_the_log_loss_is_float64s(kind, classes, monkeypatch):
    network = made(kind, (17, 9), 20, learned_scale=True, scale=1.0, classes=classes)
    native = NativeEngine(network, 7)
    agrees(network, native, kind, (17, 9), 7, 70, monkeypatch, log_loss=True)


def drawn_layers(network, key):
    """A draw of every weight and bias in float64, with its score, laid out as in reinforce.inc."""
    layers, sizes = [*network.body.layers, network.layer], []
    for i, y in enumerate(layers):
        out, d = y.weight.mean.shape
        op = up(out, 16)
        sizes += [d * op if i == 0 else up(out * d, 16), op]
    parts = np.split(drawn("pb_normals", key, sum(sizes), np.float32), np.cumsum(sizes))[:-1]
    found = []
    for i, y in enumerate(layers):
        out, d = y.weight.mean.shape
        block = parts[2 * i]
        noise = block.reshape(d, -1)[:, :out].T if i == 0 else block[: out * d].reshape(out, d)
        noises = [torch.tensor(n.copy()).double() for n in (noise, parts[2 * i + 1][:out])]
        sigma = y.weight.log_scale.double().exp()
        means = (y.weight.mean.double(), y.bias.mean.double())
        found.append([(m + sigma * n, n / sigma) for m, n in zip(means, noises, strict=True)])
    return found


@torch.no_grad()
def reinforced(network, x, y, T, key):
    """Loss and gradient of the means, from the same draws, in float64."""
    total, gradient = 0.0, 0.0
    for t in range(T):
        layers, a = drawn_layers(network, (*key, t)), x.double()
        for ((W, _), (b, _)), rule in zip(
            layers, [*network.body.rules, activations.sign], strict=True
        ):
            a = activations.FUNCTIONS[rule](a @ W.T + b)
        loss = (a.squeeze(-1) != y).double().mean().item()
        scores = [score.flatten() for layer in layers for _, score in layer]
        total, gradient = total + loss / T, gradient + loss / T * torch.cat(scores)
    return total, gradient


@pytest.mark.parametrize("activation", ["relu", "sigmoid", "sign"])
@pytest.mark.parametrize(
    ("widths", "T", "B", "d", "threads"),
    [
        ((3,), 1, 5, 4, 1),
        ((17, 33), 7, 150, 70, 3),
        ((20, 130, 5), 11, 600, 37, 2),
        ((9,), 3, 257, 6, 2),
        ((9, 8), 4, 300, 6, 1),
    ],
)
def test_reinforce_is_float64s_with_the_same_draws(activation, widths, T, B, d, threads):
    network = made((activation, "marginal"), widths, d, learned_scale=False, scale=0.5)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(B, d, generator=generator).relu()
    y = torch.where(torch.rand(B, generator=generator) < 0.5, 1.0, -1.0)
    with torch.no_grad():
        for i, layer in enumerate([*network.body.layers, network.layer]):  # no two scales alike
            layer.weight.log_scale.add_(0.1 * i)
            layer.bias.log_scale.copy_(layer.weight.log_scale)
    native, key = NativeEngine(network, T, reinforce=True), (7, 11)
    torch.set_num_threads(threads)
    losses = [native.loss_and_grad(x, y, torch.arange(B), *key) / B for _ in range(2)]
    torch.set_num_threads(1)
    loss, gradient = reinforced(network, x, y, T, key)
    found = torch.cat([p.grad.flatten() for p in network.parameters()])
    assert losses == pytest.approx([loss] * 2, abs=1e-12)
    torch.testing.assert_close(found.double(), gradient, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("T", [1, 2, 10, 33, 100])
@pytest.mark.parametrize("widths", [(3,), (17, 5), (20, 33, 4)])
def test_pbgnets_tree_is_torchs_on_the_same_draws(widths, T, monkeypatch):
    """Loss and every gradient of one step of PBGNet."""
    generator, B, key = torch.Generator().manual_seed(T), 5 + 200 // T, (7, T)
    torch.manual_seed(T)
    model = baselines.PBGNet(40, widths)
    with torch.no_grad():
        for p in model.parameters():
            p += 0.3 * torch.randn(p.shape, generator=generator)
    x = torch.randn(B, 40, generator=generator)
    x[torch.rand(B, 40, generator=generator) < 0.6] = 0
    y = torch.randint(2, (B,), generator=generator) * 2.0 - 1
    index = torch.randint(B, (B,), generator=generator)
    native = baselines.native_engine(model, T)
    loss = native.loss_and_grad(x, y, index, *key) / B
    found = [p.grad for p in (*model.weights, *model.biases)]
    assert native.loss(x, y, index, *key) / B == pytest.approx(loss, abs=1e-9)

    draws, near = iter(replay(widths, T, B, key, signs=True)), []

    def sample_signs(F, samples):
        z = next(draws)
        tail = (0.5 - 0.5 * F.abs()).expand(z.shape)
        near.append((((z + 0.5) / 2**32 - tail).abs() < 5e-7).any().item())
        return torch.where((z < torch.floor(tail * 2**32)) ^ (F > 0), 1.0, -1.0).double()

    monkeypatch.setattr(baselines, "sample_signs", sample_signs)
    exact = copy.deepcopy(model).double()
    truth = linear(exact(x[index].double(), T), y[index]).mean()
    gradients = torch.autograd.grad(truth, [*exact.weights, *exact.biases])
    assert not any(near)  # no draw within rounding of its probability
    assert loss == pytest.approx(truth.item(), abs=3e-6)
    for ours, theirs in zip(found, gradients, strict=True):
        assert (ours - theirs).abs().max() < 1e-3 * theirs.abs().max() + 1e-7
