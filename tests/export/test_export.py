"""Exported predictors: what the library computes, for whoever has the file and some noise."""

import json
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from scipy.special import erf, expit, ndtr

from pacbayes import Settings, __version__, folders, predict_randomised
from pacbayes.choices import Predictor
from pacbayes.data import DataSource, tasks
from pacbayes.export import export_run, graphs
from pacbayes.export import predictors as explicit
from pacbayes.files import DamagedFileError, load_json, load_tensors, save_json
from pacbayes.folders.preparation import prepare
from pacbayes.networks.bodies import Sampled
from pacbayes.networks.families.diagonal import GaussianLinear
from pacbayes.networks.network import Network
from pacbayes.networks.posterior import gaussians
from pacbayes.verify.bases import _reflected

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "export.md"
FEATURES = 4
CASES = {  # classes, and what is not the protocol's default
    "sign": (2, {"activation": "sign", "widths": (5, 3), "learned_scale": False}),
    "relu": (2, {"activation": "relu", "widths": (6, 5)}),
    "sigmoid": (2, {"activation": "sigmoid", "widths": (5,)}),
    "linear": (2, {"activation": "relu", "widths": ()}),
    "three relu": (3, {"activation": "relu", "widths": (5,)}),
    "four sign": (4, {"activation": "sign", "widths": (6,), "learned_scale": False}),
    "three linear": (3, {"activation": "sign", "widths": ()}),
    "relu in a basis": (2, {"activation": "relu", "widths": (6, 5), "basis": "eigen"}),
    "three linear in a basis": (3, {"activation": "sign", "widths": (), "basis": "eigen"}),
}
METHODS = ("randomised", "vote", "drawn")
T = 6
# Units of the last place of float64, and what float32's error function leaves of a vote.
CLOSE = {"randomised": 1e-12, "drawn": 1e-12, "vote": 2e-7}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Small runs of every kind, each with a kept network and one or two certificates."""
    folder, made = tmp_path_factory.mktemp("runs"), {}

    def get(case):
        if case in made:
            return made[case]
        k, changes = CASES[case]
        rng = np.random.default_rng(k)
        x = rng.normal(size=(120, FEATURES)).astype(np.float32)
        y = np.array([f"class {i}" for i in x[:, :k].argmax(1)])
        name = folder / f"{case.replace(' ', '-')}.npz"
        np.savez(name, x=x, y=y)
        settings = Settings.of("fast", classes=k, epochs=6, batch_size=20, lam=1e3, **changes)
        data = (source := DataSource(str(name))).load()
        run = prepare(folder / case, settings, source, data)
        for _ in folders.train_run(run, data):
            pass
        for bound in ("small-kl", "tandem", "disintegrated"):
            asked = {"delta": 0.05, "bound": bound, "samples": 5}
            folders.certify_run(run, run.load_network(), data, **asked)
        return made.setdefault(case, run)

    return get


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    """Files of predictors, each made once."""
    folder, made = tmp_path_factory.mktemp("files"), {}

    def get(case, format, method="randomised"):
        out = folder / f"{case}-{method}.{'onnx' if format == 'onnx' else 'pt2'}"
        if out not in made:
            made[out] = export_run(trained(case), out, format, method, samples=T)
        return made[out]

    return get


def noise_of(exported, batch, rng):
    shapes = [[batch if d == "batch" else d for d in p.shape] for p in exported.inputs[1:]]
    return [rng.standard_normal(shape) for shape in shapes]


def ask(exported, x, noise):
    if exported.format == "torch":
        module = torch.export.load(exported.file).module()
        return [a.numpy() for a in module(*map(torch.from_numpy, (x, *noise)))]
    names = [port.name for port in exported.inputs]
    session = onnxruntime.InferenceSession(exported.file)
    score, label = session.run(None, dict(zip(names, (x, *noise), strict=True)))
    return score, np.array([exported.classes.index(str(name)) for name in label])


def by_hand(run, method, x, noise):
    """The predictor from its definition, in numpy and float64."""
    q = {n: (g.mean, g.log_scale) for n, g in gaussians(run.load_network().double()).items()}
    q = {n: (m.detach().numpy(), s.detach().exp().numpy()) for n, (m, s) in q.items()}
    if method == "drawn":
        q = {n: (w.numpy(), np.zeros(())) for n, w in run.load_drawn().items()}
    unit = {"sign": np.sign, "relu": lambda z: np.maximum(z, 0), "sigmoid": expit}
    depth, a = len(run.settings.widths), x.astype(np.float64)
    posterior = load_tensors(run.folder / "posterior.safetensors")[0]
    for name, vectors in posterior.items():
        if name.endswith("reflections"):
            a = a @ _reflected(vectors.double().numpy())
    for i in range(depth):
        mean, s = moments(q, f"body.layers.{i}", a)
        a = unit[run.settings.activation](mean if method == "drawn" else mean + s * noise[i])
    mean, s = moments(q, "layer", a)
    if method == "randomised":
        mean = mean + s * noise[depth]
    k = mean.shape[-1]
    if method == "vote":
        share = erf(mean / s / 2**0.5) if k == 1 else winning(mean, s)
        mean = share.mean(0) if depth else share
    return (mean[:, 0], mean[:, 0] > 0) if k == 1 else (mean, mean.argmax(-1))


def moments(q, layer, a):
    (W, S), (b, s) = q[f"{layer}.weight"], q[f"{layer}.bias"]
    return a @ W.T + b, np.sqrt(a**2 @ np.broadcast_to(S**2, W.shape).T + s**2)


def winning(mean, s):
    """P(y wins) by integrating over y's own noise, on a fine grid."""
    t = np.linspace(-9, 9, 601)
    own = mean[..., :, None, None] + s[..., :, None, None] * t[:, None]  # (…, y, t, 1)
    others = ndtr((own - mean[..., None, None, :]) / s[..., None, None, :])  # (…, y, t, k)
    k = mean.shape[-1]
    product = np.where(np.eye(k, dtype=bool)[:, None, :], 1, others).prod(-1)
    return (product * np.exp(-(t**2) / 2)).sum(-1) * (t[1] - t[0]) / np.sqrt(2 * np.pi)


def assert_predicts(run, method, x, noise, answer):
    (score, label), (z, y) = answer, by_hand(run, method, x, noise)
    assert score.shape == z.shape
    assert np.abs(score - z).max() <= CLOSE[method] * max(1, np.abs(z).max())
    assert (label == y).all()
    assert label.dtype == np.int64


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_every_predictor_is_what_its_definition_says(trained, case, method):
    run, rng = trained(case), np.random.default_rng(0)
    network, weights = run.load_network().double(), run.load_drawn()
    asked = {"features": FEATURES, "samples": T, "weights": weights}
    e = explicit.explicit(network, Predictor(method), **asked)
    x = rng.normal(size=(50, FEATURES)).astype(np.float32)
    noise = noise_of(e, len(x), rng)
    answer = [a.numpy() for a in e.module(*map(torch.from_numpy, (x, *noise)))]
    assert_predicts(run, method, x, noise, answer)
    layers = len(run.settings.widths)
    assert len(noise) == {"randomised": layers + 1, "vote": layers, "drawn": 0}[method]
    assert all(len(a) == T for a in noise) or method == "randomised"


@pytest.mark.parametrize(
    ("case", "format", "method"),
    [
        ("sign", "onnx", "randomised"),
        ("sign", "torch", "vote"),
        ("relu", "onnx", "vote"),
        ("relu", "torch", "drawn"),
        ("sigmoid", "onnx", "randomised"),
        ("sigmoid", "onnx", "drawn"),
        ("linear", "onnx", "vote"),
        ("linear", "torch", "randomised"),
        ("three relu", "onnx", "vote"),
        ("three relu", "onnx", "drawn"),
        ("three relu", "torch", "vote"),
        ("four sign", "onnx", "randomised"),
        ("three linear", "torch", "drawn"),
    ],
)
def test_a_file_computes_its_predictor_for_any_batch(trained, exported, case, format, method):
    e, rng = exported(case, format, method), np.random.default_rng(1)
    assert e.difference <= CLOSE[method]
    for batch in (1, 23):
        x = rng.normal(size=(batch, FEATURES)).astype(np.float32)
        noise = noise_of(e, batch, rng)
        assert_predicts(trained(case), method, x, noise, ask(e, x, noise))


@pytest.mark.parametrize("case", ["sign", "sigmoid"])
def test_labels_are_those_the_library_draws_from_the_same_noise(
    trained, exported, case, monkeypatch
):
    """The library's uniform number u < Φ(mean/deviation) is Φ(−ε) of the file's normal ε."""
    run, e, rng = trained(case), exported(case, "onnx"), np.random.default_rng(3)
    x = rng.normal(size=(200, FEATURES)).astype(np.float32)
    noise = noise_of(e, len(x), rng)
    _, label = ask(e, x, noise)
    *below, last = (torch.from_numpy(a) for a in noise)
    left = iter([a.unsqueeze(0) for a in below])
    monkeypatch.setattr(torch, "randn", lambda *_, **__: next(left))
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.special.ndtr(-next(left)))
    monkeypatch.setattr(tasks, "uniform_like", lambda _: torch.special.ndtr(-last.squeeze(-1)))
    drawn = predict_randomised(run.load_network().double(), torch.from_numpy(x).double())
    assert (label == (drawn > 0).numpy()).all()
    assert 0 < label.mean() < 1


@pytest.mark.parametrize("case", ["sigmoid", "sign", "four sign"])
def test_fed_with_the_noise_it_states_it_is_the_randomised_classifier(trained, exported, case):
    """How often each class is predicted, beside the library: 4 examples, at most 16 numbers, each
    beyond 4.8 standard errors with probability 2e-6; a false alarm has at most 3e-5."""
    run, e, rng, draws = trained(case), exported(case, "onnx"), np.random.default_rng(4), 4000
    network, k = run.load_network().double(), len(run.record.data.classes)
    for example in rng.normal(size=(4, FEATURES)).astype(np.float32):
        x = np.tile(example, (draws, 1))
        _, label = ask(e, x, noise_of(e, draws, rng))
        drawn = predict_randomised(network, torch.from_numpy(x).double())
        ours = ((drawn > 0).long() if k == 2 else drawn).numpy()
        for y in range(1 if k == 2 else k):
            p, q = (label == y).mean(), (ours == y).mean()
            both = (p + q) / 2
            assert abs(p - q) <= 4.8 * np.sqrt(2 * both * (1 - both) / draws)


def test_metadata_say_what_it_is_and_what_covers_it(trained, exported):
    run = trained("four sign")
    model = onnx.load(exported("four sign", "onnx").file)
    said = {p.key: p.value for p in model.metadata_props}
    assert said["pacbayes"] == __version__
    assert said["run_sha256"] == run.sha256
    assert said["method"] == "randomised"
    assert json.loads(said["classes"]) == [f"class {i}" for i in range(4)]
    x, first, last = json.loads(said["inputs"])
    assert x["shape"] == ["batch", FEATURES]
    assert (first["shape"], last["shape"]) == (["batch", 6], ["batch", 4])
    assert "standard normal" in first["meaning"]
    assert "standard normal" in model.graph.input[1].doc_string
    assert model.graph.input[1].type.tensor_type.shape.dim[0].dim_param == "batch"
    claim = load_json(run.folder / "certificate.json")
    covered = json.loads(said["certificate"])
    assert covered["file"] == "certificate.json"
    assert (covered["bound"], covered["delta"]) == (claim["bound"], 0.05)
    assert covered["says"].startswith("covered by certificate.json (small-kl, δ = 0.05)")
    assert "fresh noise" in covered["says"]

    extra = {graphs.METADATA: ""}
    torch.export.load(exported("three linear", "torch", "drawn").file, extra_files=extra)
    said = json.loads(extra[graphs.METADATA])
    assert said["certificate"]["file"] == "certificate-drawn.json"
    assert said["certificate"]["bound_name"] == "disintegrated"
    assert "noise" not in said["certificate"]["says"]
    assert said["run_sha256"] == trained("three linear").sha256


def test_files_tell_nothing_of_the_machine_and_hold_no_examples(exported):
    files = [exported("sign", "onnx").file, exported("sign", "torch", "vote").file]
    assert not [name for name in files if b".py" in Path(name).read_bytes()]
    assert not any(node.metadata_props for node in onnx.load(files[0]).graph.node)
    with zipfile.ZipFile(files[1]) as archive:
        (inputs,) = [i for i in archive.infolist() if "sample_inputs" in i.filename]
    assert inputs.file_size < 1000


def test_only_what_a_certificate_is_about_is_covered(trained, exported, tmp_path):
    assert "not covered" in exported("relu", "onnx", "vote").certificate
    exact = exported("linear", "onnx", "vote")  # nothing is drawn: all of Q votes
    assert exact.certificate.startswith("covered by certificate-vote.json (tandem")
    out = tmp_path / "p.pt2"
    run = trained("sigmoid")
    vote = run.certificate_path(Predictor.VOTE)
    for name, says in (("tandem", "not covered"), ("first-order", "covered by certificate-vote")):
        save_json(vote, load_json(run.folder / "certificate.json") | {"bound_name": name})
        assert export_run(run, out, "torch", "vote").certificate.startswith(says)
    vote.unlink()
    path = run.folder / "certificate.json"
    claim = load_json(path)
    try:
        other = {**claim["provenance"], "posterior_sha256": "0"}
        save_json(path, claim | {"provenance": other})
        assert "another posterior" in export_run(run, out, "torch", "randomised").certificate
        save_json(path, {"bound": 0.1})
        with pytest.raises(DamagedFileError, match=r"certificate.json is damaged"):
            export_run(run, out, "torch", "randomised")
        path.unlink()
        says = export_run(run, out, "torch", "randomised").certificate
        assert says == "not covered by a certificate: the run has no certificate.json"
    finally:
        save_json(path, claim)


@pytest.mark.parametrize("method", METHODS)
def test_a_graph_that_computes_something_else_is_not_written(
    trained, tmp_path, monkeypatch, method
):
    run, out = trained("relu"), tmp_path / "p.pt2"
    out.write_text("as it was")
    labelled = explicit._labelled
    monkeypatch.setattr(explicit, "_labelled", lambda s: labelled(s + 1e-4))
    with pytest.raises(RuntimeError, match="nothing was written"):
        export_run(run, out, "torch", method)
    monkeypatch.setattr(explicit, "_labelled", lambda s: (s.squeeze(-1), labelled(-s)[1]))
    with pytest.raises(RuntimeError, match="nothing was written"):
        export_run(run, out, "torch", method)
    assert [p.name for p in tmp_path.iterdir()] == ["p.pt2"]
    assert out.read_text() == "as it was"


def test_bad_requests_are_refused(trained, tmp_path, monkeypatch):
    run = trained("relu")
    with pytest.raises(ValueError, match=r"must end in .onnx, got p.pt2"):
        export_run(run, Path("p.pt2"), "onnx")
    network = Network(Sampled(torch.nn.Identity()), GaussianLinear(3, 1))
    with pytest.raises(ValueError, match="a body Sampled of your own cannot be exported"):
        explicit.explicit(network, Predictor.VOTE, features=3)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ValueError, match=r"needs onnxruntime: pip install 'pacbayes\[export\]'"):
        export_run(run, tmp_path / "p.onnx", "onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("format", "method"), [("onnx", "randomised"), ("torch", "vote")])
def test_the_command_prints_two_lines_that_run_the_file(run_cli, trained, tmp_path, format, method):
    out = tmp_path / ("p.onnx" if format == "onnx" else "p.pt2")
    arguments = ("--format", format, "--method", method, "-T", 3, "--out", out)
    code, printed, err = run_cli("export", trained("sigmoid").folder, *arguments)
    assert (code, err) == (0, "")
    assert "input   x        float32  (batch, 4)" in printed
    dtype = "string" if format == "onnx" else "int64 "
    assert f"output  label    {dtype}   (batch)" in printed
    count = 120 if method == "randomised" else 16
    assert f"predict, given the same noise, for {count} rows of sigmoid.npz" in printed
    assert "Scores differ by at most " in printed
    lines = printed.splitlines()[-2:]
    x = np.random.default_rng(0).normal(size=(9, FEATURES)).astype(np.float32)
    names = {"x": x if format == "onnx" else torch.from_numpy(x)}
    exec("\n".join(lines), names)
    assert len(names["score"]) == len(names["label"]) == 9


def test_what_the_documentation_shows_for_arrays_runs(exported, tmp_path, monkeypatch):
    _, arrays = re.findall(r"```python\n(.*?)```", DOCUMENTATION.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)  # tests/export/test_tables.py runs the program for tables
    Path("arrays.onnx").write_bytes(Path(exported("sign", "onnx").file).read_bytes())
    exec(arrays, names := {})
    assert names["score"].shape == (5,)
    assert set(names["label"]) <= {"class 0", "class 1"}


def test_the_command_answers_in_json_and_complains_in_one_line(run_cli, trained, tmp_path):
    folder, out = trained("linear").folder, tmp_path / "p.pt2"
    code, printed, _ = run_cli("export", folder, "--format", "torch", "--out", out, "--json")
    assert code == 0
    assert json.loads(printed)["difference"] <= 1e-12
    for arguments, complaint in (
        (("--format", "onnx", "--out", out), "must end in .onnx"),
        (("--format", "pmml", "--out", out), "pmml"),
        (("--format", "torch", "--out", out, "-T", 0), "--samples must be between 1"),
        (("--format", "torch", "--out", tmp_path / "no" / "p.pt2"), "no such file"),
    ):
        code, printed, err = run_cli("export", folder, *arguments)
        assert (code, printed) == (2, "")
        assert err.startswith("error: ")
        assert complaint in err
        assert err.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["p.pt2"]
