"""Devices: without a GPU, the same code runs on the device `meta`, which is not the CPU.

Fake tensors of a fake `cuda` would need a build of torch with CUDA, to be indexed.
"""

import copy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import pacbayes
from pacbayes import devices, folders, stochastic
from pacbayes.data import DataSource
from pacbayes.data.augmentation import crops_and_flips, moved_images
from pacbayes.folders import run as issuing
from pacbayes.folders.record import versions
from pacbayes.networks import risk as risks
from pacbayes.networks.architecture import dense_network
from pacbayes.networks.network import Network
from pacbayes.networks.posterior import gaussians, kl
from pacbayes.networks.predictors import _drawn_index, draw_network
from pacbayes.networks.sampler import Places, TorchSampler
from pacbayes.randomness import Generators
from pacbayes.settings import Settings
from pacbayes.training import trainer as trainers
from pacbayes.training.trainer import Trainer

GPU, CPU = torch.device("meta"), torch.device("cpu")
KINDS = ["meta", "cpu"]
SOURCE = str(Path(pacbayes.__file__).parent)
NAMES = "zeros ones full empty tensor arange randn rand randint eye linspace"
FACTORIES = {getattr(torch, name): name for name in NAMES.split()}


class OfTheLibrary(TorchFunctionMode):
    """Refuse tensors that the library makes without a device; answer what meta ones cannot.

    Tensors on the device `meta` have shapes and no values. A copy of one on the CPU is ones.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        named = kwargs or {}
        caller = sys._getframe(1).f_code.co_filename
        if func in FACTORIES and caller.startswith(SOURCE):
            assert "device" in named, f"torch.{FACTORIES[func]} without a device in {caller}"
        own = args[0] if args and isinstance(args[0], torch.Tensor) else None
        if own is None or own.device != GPU:
            return func(*args, **named)
        if func is torch.Tensor.item:
            return 0.5
        if func in (torch.equal, torch.allclose):
            return True
        if func is torch.Tensor.__bool__:  # the rare branch there needs values
            return not caller.endswith("activations.py")
        if func in (torch.Tensor.to, torch.Tensor.cpu) and _target(args[1:]) == CPU:
            return torch.ones(own.shape, dtype=_dtype(own, args), requires_grad=own.requires_grad)
        return func(*args, **named)


def _target(args):
    """Return the device among the arguments of Tensor.to, or that of a tensor among them."""
    found = [getattr(a, "device", a) for a in args if isinstance(a, torch.Tensor | torch.device)]
    return found[0] if found else None


def _dtype(own, args):
    """Return the precision of the last tensor among the arguments of Tensor.to."""
    return next((a.dtype for a in reversed(args) if isinstance(a, torch.Tensor)), own.dtype)


@pytest.fixture
def fake(monkeypatch):
    """Compute on tensors without values."""
    monkeypatch.setattr(Generators, "on", lambda *_: None)  # there is none of this device
    monkeypatch.setattr(Generators, "states", lambda _: {})
    monkeypatch.setattr(Network, "seal_prior", lambda _: None)
    adam = sys.modules["torch.optim.optimizer"]
    monkeypatch.setattr(adam, "_get_fused_kernels_supported_devices", lambda: KINDS)
    for module in (risks, trainers):
        monkeypatch.setattr(module, "check_examples", lambda *_: None)
    with OfTheLibrary():
        yield


def conv(classes):
    outputs = 1 if classes == 2 else classes
    layers = nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, outputs, bias=False)
    return stochastic(nn.Sequential(*layers), seed=0)


NETWORKS = {
    "dense": (dense_network(36, (5, 4)), (36,)),
    "dense, learned scales": (dense_network(36, (5,), classes=3, learned_scale=True), (36,)),
    "conv": (conv(2), (1, 6, 6)),
    "conv, three classes": (conv(3), (1, 6, 6)),
}


@pytest.fixture(params=NETWORKS)
def case(request, fake):
    """A network and examples on the fake GPU."""
    network, shape = NETWORKS[request.param]
    x = torch.empty(8, *shape, device=GPU)
    kind = torch.float32 if network.classes == 2 else torch.int64
    return copy.deepcopy(network).to(GPU), x, torch.ones(8, dtype=kind, device=GPU)


@pytest.fixture(params=[True, False], ids=["float64", "no float64"])
def has_float64(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(devices, "_WITHOUT_FLOAT64", ("meta",))
    return request.param


@pytest.mark.filterwarnings("ignore:.*meta parameter")
@pytest.mark.parametrize("objective", ["fix-lambda", "optim-lambda"])
def test_training_stays_on_the_device(case, has_float64, objective):
    network, x, y = case
    asked = Settings.of("fast", "relu", objective, epochs=1, samples=2, batch_size=4)
    trainer = Trainer(network, x, y, asked)
    assert trainer.native is None
    for number in range(2):
        trainer.step(torch.arange(4, device=GPU), number, 0.01, 0.0)
    if has_float64:  # otherwise the path of the gradient is cut by a copy without values
        assert all(p.device == p.grad.device == GPU for p in network.parameters())
    trainer.measured_risk()
    assert trainer.objective.log_lambda.device == CPU
    tensors, record = trainer.state()
    assert {tensor.device for tensor in tensors.values()} == {CPU}
    again = Trainer(network, x, y, asked)
    again.restore(tensors | {"generator": torch.empty(1, device=CPU)}, record)
    kept = [t for slots in again.optimiser.state.values() for t in slots.values()]
    assert {t.device for t in (*kept, *again.best.values())} == {GPU}


def test_the_kl_is_in_float64(case, has_float64):
    divergence = kl(case[0])
    assert divergence.dtype == torch.float64
    assert divergence.device == (GPU if has_float64 else CPU)


def test_a_vote_and_a_prediction_are_on_the_device(case):
    network, x, _ = case
    assert risks.majority_vote(network, x, 3).device == GPU
    assert risks.predict_randomised(network, x).device == GPU


def test_keyed_draws_are_moved_to_the_device(case, has_float64):
    network, x, y = case
    drawn = draw_network(network, np.random.default_rng(0))
    where = GPU if has_float64 else CPU
    assert {w.device for w in drawn.weights.values()} == {where}
    exact = devices.in_float64(network)
    losses = risks.keyed_risk(exact, x.to(where), y.to(where), 3, b"key" * 8)
    assert losses.n == 8
    if network.body.freshness == "per-example":
        places = Places.of_set(b"key" * 8, range(8), 2)
        assert TorchSampler(network).outputs(x, places).device == where


def test_augmented_images_stay_on_the_device(fake):
    generator = torch.Generator()
    x = torch.empty(4, 2, 8, 8, device=GPU)
    for augment in (moved_images, crops_and_flips):
        assert augment(x, generator).device == GPU


def test_a_layer_without_a_bias_starts_on_the_device(fake):
    module = nn.Sequential(nn.Linear(3, 1, bias=False)).to(GPU)
    network = stochastic(module, learned_scale=True)
    assert {t.device for t in network.state_dict().values()} == {GPU}
    assert all(g.prior_log_scale.device == GPU for g in gaussians(network).values())


def test_a_label_is_drawn_on_the_device_of_its_shares(fake):
    assert _drawn_index(torch.empty(4, 3, device=GPU).double(), np.full(4, 0.5)).device == GPU


def test_a_factory_without_a_device_is_noticed(fake):
    code = compile("torch.zeros(2)", f"{SOURCE}/networks/careless.py", "eval")
    with pytest.raises(AssertionError, match="zeros without a device"):
        eval(code, {"torch": torch})


def test_examples_elsewhere_are_refused():
    network = dense_network(3, ())
    with pytest.raises(ValueError, match=r"network is on cpu and its examples are on meta"):
        devices.check_together(network, torch.empty(2, 3, device="meta"))


@pytest.mark.parametrize(
    ("cuda", "mps", "auto"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")]
)
def test_auto_takes_the_fastest_device(monkeypatch, cuda, mps, auto):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: int(cuda))
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert devices.device_named("auto").type == auto


def test_a_device_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(devices, "available", lambda: ["mps", "cpu"])
    with pytest.raises(ValueError, match=r"device cuda is not available .* which has mps, cpu"):
        devices.device_named("cuda")
    with pytest.raises(ValueError, match="must be cpu, cuda, mps or auto, got 'gpu'"):
        devices.device_named("gpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_train_refuses_a_missing_device_before_it_reads_data(run_cli, tmp_path):
    asked = ("train", "--dataset", "digits", "--device", "cuda", "--out", tmp_path / "run")
    code, _, err = run_cli(*asked)
    assert code == 2
    assert "device cuda is not available on this machine, which has" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_certify_refuses_a_missing_device(run_cli, tmp_path):
    code, _, err = run_cli("certify", tmp_path, "--device", "cuda")
    assert code == 2
    assert "device cuda is not available on this machine, which has" in err


def test_a_run_is_certified_on_the_device_of_its_network(tmp_path, monkeypatch):
    source = DataSource("digits")
    data = source.load()
    asked = Settings.of("fast", widths=(), epochs=1, samples=1)
    run = folders.train_all(tmp_path / "run", asked, source, data)[0]
    seen = []

    def caught(network, x, y, **given):
        seen.append((x.device, y.device))
        raise InterruptedError

    monkeypatch.setattr(issuing, "certify", caught)
    network = run.load_network().to(GPU)
    with pytest.raises(InterruptedError):
        folders.certify_run(run, network, data, delta=0.05, bound="small-kl")
    assert seen == [(GPU, GPU)]


def test_versions_name_a_device_other_than_the_cpu():
    assert "device" not in versions()
    assert versions(torch.device("mps"))["device"] == "mps"
