"""A stranger's check: what is true holds, and whatever is tampered with is noticed."""

import hashlib
import json
import math
import shutil
import subprocess
import sys
from typing import get_args

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from pacbayes import Settings, folders
from pacbayes.bounds.theorems import BoundName
from pacbayes.choices import MonteCarlo, Predictor
from pacbayes.data import DataSource
from pacbayes.folders.preparation import prepare
from pacbayes.verify import certificates_in, verify

NETWORK = "weights of the network"


def make_run(folder, activation="relu", classes=2, **changes):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)).astype(np.float32)
    np.savez(folder / "data.npz", x=x, y=np.clip((x[:, 0] + 1) * classes / 2, 0, classes - 1) // 1)
    settings = Settings.of("fast", activation, **({"widths": (4, 3), "epochs": 3} | changes))
    source = DataSource(str(folder / "data.npz"))
    data = source.load()
    run = prepare(folder / "run", settings, source, data)
    for _ in folders.train_run(run, data):
        pass
    return run, data


def certify(run, data, **changes):
    given = {"delta": 0.05, "bound": "small-kl", "samples": 10, "replace_other": True} | changes
    return folders.certify_run(run, run.load_network(), data, **given)


@pytest.fixture(scope="module")
def issued(tmp_path_factory):
    """A run with its certificate, and its folder."""
    folder = tmp_path_factory.mktemp("issued")
    run, data = make_run(folder)
    certify(run, data)
    return folder


@pytest.fixture
def folder(issued, tmp_path):
    shutil.copytree(issued, tmp_path, dirs_exist_ok=True)
    return tmp_path / "run"


def failures(folder, **options):
    return [f.name for f in verify(folder / "certificate.json", **options) if not f.holds]


def change(folder, **changes):
    path = folder / "certificate.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | changes))
    return record


def test_what_was_issued_holds(folder):
    assert failures(folder, full=True) == []


@pytest.mark.parametrize("bound", get_args(BoundName))
def test_every_theorem_is_verified_and_is_tight(bound, issued, tmp_path):
    shutil.copytree(issued, tmp_path, dirs_exist_ok=True)
    run = folders.open_run(tmp_path / "run")
    c = certify(run, run.load_data(), bound=bound)
    assert failures(tmp_path / "run") == []
    if c.bound < 1:
        change(tmp_path / "run", bound=c.bound * (1 - 1e-9))
        assert failures(tmp_path / "run") == [f"bound ({c.bound_name})"]


@pytest.mark.parametrize("inequality", get_args(MonteCarlo))
def test_every_monte_carlo_inequality_is_verified_and_is_tight(inequality, issued, tmp_path):
    shutil.copytree(issued, tmp_path, dirs_exist_ok=True)
    run = folders.open_run(tmp_path / "run")
    c = certify(run, run.load_data(), monte_carlo=inequality)
    assert failures(tmp_path / "run") == []
    change(tmp_path / "run", risk_upper=c.risk_upper - 3e-6)
    assert "Monte-Carlo term" in failures(tmp_path / "run")


@pytest.mark.parametrize(
    ("activation", "changes"),
    [("sign", {}), ("sigmoid", {"learned_scale": False}), ("sign", {"prior_scale": 0.5})],
)
def test_every_kind_of_network(activation, changes, tmp_path):
    run, data = make_run(tmp_path, activation, **changes)
    certify(run, data)
    assert failures(run.folder, full=True) == []


def test_exact_certificates(tmp_path):
    run, data = make_run(tmp_path, "sign")
    certify(run, data, samples=None)
    assert failures(run.folder) == []
    record = change(run.folder)
    for changes in (
        {"risk_upper": record["risk"] / 2},
        {"samples": 10},
        {"monte_carlo": "kl-chernoff"},
    ):
        change(run.folder, **(record | changes))
        assert "exact risk" in failures(run.folder)


@pytest.mark.parametrize(
    ("tampered", "noticed"),
    [
        ({"n": 600}, "size of the bound set"),
        ({"predictor": "majority vote"}, "predictor"),
        ({"delta": 0.049}, "δ ledger"),
        ({"ledger": {"pac-bayes": 0.05, "monte-carlo": 0.05}}, "δ ledger"),
        ({"ledger": {"pac-bayes": 0.025, "monte-carlo": 0.025}}, "δ ledger"),
        ({"ledger": {"pac-bayes": 0.05}}, "δ ledger"),
        ({"ledger": {"pac-bayes": 0.01, "monte-carlo": 0.01, "other seeds": 0.04}}, "δ ledger"),
        ({"draws": 1e9}, "Monte-Carlo term"),
        ({"draws": 3000.5}, "Monte-Carlo term"),
        ({"risk_upper": 0.0}, "Monte-Carlo term"),
        ({"risk_upper": 1e-9}, "Monte-Carlo term"),
        ({"monte_carlo": None}, "Monte-Carlo term"),
        ({"samples": 0}, "Monte-Carlo term"),
        ({"kl": 0.1}, "KL(Q|P)"),
        ({"bound": 0.01}, "bound (small-kl)"),
        ({"bound": 1e-9}, "bound (small-kl)"),
        ({"bound_name": "catoni", "parameters": {"lambda": 300.0}}, "bound (catoni)"),
        (
            {"bound_name": "catoni", "parameters": {"lambda": 1.5, "alpha": 1e-12}},
            "bound (catoni)",
        ),
        (
            {"monte_carlo": None, "draws": None, "samples": 0, "ledger": {"pac-bayes": 0.05}},
            "exact risk",  # of relu units there is none
        ),
    ],
)
def test_numbers_that_were_changed_are_noticed(tampered, noticed, folder):
    record = change(folder)
    lowered = min(record["bound"], 0.999)  # a vacuous bound would be implied by anything
    change(folder, **({"bound": lowered} | tampered))
    assert noticed in failures(folder)


@pytest.mark.parametrize(
    "malformed",
    [
        {"kl": float("nan")},
        {"kl": None},
        {"risk": -0.1},
        {"risk": "0.1"},
        {"risk_upper": float("nan")},
        {"bound": True},
        {"bound": [0.1]},
        {"delta": 0},
        {"n": 300.5},
        {"samples": float("inf")},
        {"samples": True},
        {"draws": float("inf")},
        {"ledger": [0.05]},
        {"ledger": {"pac-bayes": 0.06, "monte-carlo": -0.01}},
        {"bound_name": "hope"},
        {"within": 3.0},
        {"provenance": {}},
        {"provenance": []},
        {"parameters": []},
    ],
)
def test_what_is_malformed_is_an_error(malformed, folder):
    change(folder, **malformed)
    with pytest.raises(ValueError, match=r"certificate\.json"):
        list(verify(folder / "certificate.json"))


def test_a_key_given_twice_is_an_error(folder):
    path = folder / "certificate.json"
    path.write_text('{"bound": 0.001, ' + path.read_text().strip()[1:])
    with pytest.raises(ValueError, match="a key occurs twice"):
        list(verify(path))


def test_another_run_or_other_data_in_its_record_are_noticed(folder):
    path = folder / "run.json"
    text = path.read_text()
    record = json.loads(text)
    for key, value, noticed in (
        ("prior_sha256", "0" * 64, "hash of the prior"),
        ("data", record["data"] | {"train_sha256": "0" * 64}, "hash of the data"),
        ("data", record["data"] | {"n": 299}, "size of the bound set"),
        (
            "settings",
            record["settings"] | {"widths": [4, 4]},
            "weights of the network",
        ),
        (
            "settings",
            record["settings"] | {"prior_scale": 2.0},
            "weights of the network",
        ),
    ):
        path.write_text(json.dumps(record | {key: value}))
        assert noticed in failures(folder)
        assert "hash of run.json" in failures(folder)
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"run\.json: settings: Field required"):
        failures(folder)


def test_other_classes_or_a_prior_that_learned_are_noticed(folder):
    path = folder / "run.json"
    record = json.loads(path.read_text())
    record["data"]["classes"][0] = "other"
    path.write_text(json.dumps(record))
    assert "classes" in failures(folder)
    record["settings"]["prior_fraction"] = 0.5
    path.write_text(json.dumps(record))
    assert "bound set" in failures(folder)


def test_numbers_that_are_not_finite_float32_are_noticed(folder):
    path = folder / "posterior.safetensors"
    weights = load_file(path)
    for bias in (weights["layer.bias.mean"] * np.nan, weights["layer.bias.mean"].astype(float)):
        save_file(weights | {"layer.bias.mean": bias}, path)
        assert NETWORK in failures(folder)


def test_a_missing_variance_within_examples_is_noticed(folder):
    change(folder, monte_carlo="stratified-bernstein", within=None, risk_upper=0.999)
    assert "Monte-Carlo term" in failures(folder)


def test_a_split_is_for_learned_priors_only(tmp_path):
    run, data = make_run(tmp_path, prior_fraction=0.5, prior_epochs=2)
    certify(run, data)
    path = run.folder / "run.json"
    record = json.loads(path.read_text())
    assert failures(run.folder) == []
    for part, changes in (
        ("settings", {"prior_fraction": 0.0}),
        ("settings", {"seed": 1}),
        ("data", {"split_sha256": None}),
    ):
        path.write_text(json.dumps(record | {part: record[part] | changes}))
        assert "bound set" in failures(run.folder)


def test_a_prior_that_no_seed_gives_is_noticed(folder):
    """A data-free prior's means are cut at two deviations; a posterior's are not."""
    path = folder / "prior.safetensors"
    weights = load_file(path)
    save_file(weights | {"layer.weight.prior_mean": weights["layer.weight.prior_mean"] + 1}, path)
    assert NETWORK in failures(folder)


def test_damaged_weights_are_an_error(folder):
    for content in (b"", b"garbage", (folder / "prior.safetensors").read_bytes()[:200]):
        (folder / "prior.safetensors").write_bytes(content)
        with pytest.raises(ValueError, match=r"prior\.safetensors is damaged"):
            failures(folder)


def test_linear_models_are_exact(tmp_path):
    run, data = make_run(tmp_path, widths=())
    c = certify(run, data)
    assert c.draws is None
    assert c.samples == 0
    assert failures(run.folder, full=True) == []


def test_an_output_that_is_no_number_is_noticed(folder):
    path = folder / "posterior.safetensors"
    weights = load_file(path)
    save_file({k: v * 0 + (400 if "log" in k else 0) for k, v in weights.items()}, path)
    assert "risk of the same draws" in failures(folder, full=True)


def test_a_kl_one_part_in_a_billion_too_small_is_noticed(folder):
    record = change(folder)
    change(folder, kl=record["kl"] * (1 - 3e-9))
    assert failures(folder) == ["KL(Q|P)"]


def test_hashes_of_another_prior_posterior_or_data_are_noticed(folder):
    provenance = change(folder)["provenance"]
    for key, noticed in (
        ("prior_sha256", "hash of the prior"),
        ("posterior_sha256", "hash of the posterior"),
        ("data_sha256", "hash of the data"),
    ):
        change(folder, provenance=provenance | {key: "0" * 64})
        assert noticed in failures(folder)


@pytest.mark.parametrize("name", ["prior", "posterior"])
def test_weights_that_were_changed_are_noticed(name, folder):
    path = folder / f"{name}.safetensors"
    weights = load_file(path)
    key = next(k for k in weights if k.endswith("bias.mean") or k.endswith("bias.prior_mean"))
    save_file(weights | {key: weights[key] * 0.5}, path)
    assert f"hash of the {name}" in failures(folder)
    save_file({k: v * 0.5 if "mean" in k else v for k, v in weights.items()}, path)
    assert f"hash of the {name}" in failures(folder)


def test_a_weight_outside_the_prior_is_noticed(folder):
    path = folder / "posterior.safetensors"
    weights = load_file(path)
    save_file(weights | {"body.extra.mean": np.ones(3, np.float32)}, path)
    assert NETWORK in failures(folder)
    removed = {k: v for k, v in weights.items() if k != "layer.weight.log_scale"}
    save_file(removed, path)
    assert NETWORK in failures(folder)


def test_a_risk_that_sampling_does_not_give_is_noticed_in_full(folder):
    record = change(folder)
    low = record["risk"] / 3
    change(folder, risk=low, risk_upper=record["risk_upper"] / 2)
    assert "risk of the same draws" not in failures(folder)
    assert "risk of the same draws" in failures(folder, full=True)


def test_what_is_no_certificate_is_an_error(folder, tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        list(verify(tmp_path / "nothing.json"))
    (folder / "posterior.safetensors").rename(folder / "away")
    with pytest.raises(ValueError, match=r"posterior\.safetensors does not exist"):
        list(verify(folder / "certificate.json"))
    (folder / "away").rename(folder / "posterior.safetensors")
    change(folder, format=1)
    with pytest.raises(ValueError, match="format: Input should be 4, got 1; issue it again"):
        list(verify(folder / "certificate.json"))
    (folder / "certificate.json").write_text('{"format": 4}')
    with pytest.raises(ValueError, match="predictor: Field required"):
        list(verify(folder / "certificate.json"))
    (folder / "certificate.json").write_text("[1")
    with pytest.raises(ValueError, match="is damaged"):
        list(verify(folder / "certificate.json"))


def test_it_needs_no_torch():
    code = "import sys, pacbayes.verify; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_kl_is_enclosed_not_guessed(folder):
    """Against float64: the claimed KL, less what certificates add, lies within the enclosure."""
    run = folders.open_run(folder)
    from pacbayes import kl

    with torch.no_grad():
        value = kl(run.load_network().double()).item()
    finding = next(f for f in verify(folder / "certificate.json") if f.name == "KL(Q|P)")
    enclosed = float(finding.detail.split("claimed, ")[1].split()[0].strip("["))
    assert enclosed == pytest.approx(value, rel=1e-10)
    assert math.isfinite(value)


@pytest.mark.parametrize("activation", ["relu", "sign"])
def test_many_classes_are_verified_and_their_quadrature_error_cannot_be_left_out(
    activation, tmp_path
):
    run, data = make_run(
        tmp_path, activation, classes=4, estimator="leave-one-out", prior_fraction=0.5
    )
    c = certify(run, data)
    assert len(data.classes) == 4
    assert c.quadrature_error > 0
    assert failures(run.folder, full=True) == []
    change(run.folder, quadrature_error=c.quadrature_error * (1 - 1e-6))
    assert failures(run.folder) == ["quadrature"]
    change(run.folder, quadrature_error=c.quadrature_error, quadrature_step=None)
    assert failures(run.folder) == ["quadrature"]
    change(run.folder, quadrature_step=c.quadrature_step, risk=c.risk_upper)
    assert failures(run.folder) == ["Monte-Carlo term"]


def test_a_risk_too_small_for_many_classes_is_noticed_by_sampling(tmp_path):
    run, data = make_run(tmp_path, classes=4)
    certify(run, data, samples=100)
    record = change(run.folder)
    lowered = {"risk": 0.2, "risk_upper": 0.25, "bound": 0.999}
    assert record["risk"] > 0.4
    change(run.folder, **lowered)
    assert "risk of the same draws" in failures(run.folder, full=True)


def drawn_failures(folder):
    return [f.name for f in verify(folder / "certificate-drawn.json") if not f.holds]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("activation", ["relu", "sigmoid", "sign"])
def test_a_kept_network_is_verified_whole(activation, classes, tmp_path):
    run, data = make_run(tmp_path, activation, classes=classes, estimator="leave-one-out")
    c = certify(run, data, bound="disintegrated", networks=3)
    path = run.folder / "certificate-drawn.json"
    assert drawn_failures(run.folder) == []
    record = json.loads(path.read_text())
    for changes, name in (
        ({"risk": c.risk - 1 / 300, "risk_upper": c.risk - 1 / 300}, "errors counted"),
        ({"kl": c.kl - 1e-6 * abs(c.kl)}, "ln(dQ/dP)"),
        ({"bound": c.bound - 1e-6}, "bound (disintegrated)"),
        ({"parameters": {**c.parameters, "networks": 4.0}}, "bound (disintegrated)"),
        ({"predictor": Predictor.RANDOMISED.sentence}, "predictor"),
        ({"risk_upper": 1.0}, "errors counted"),
        ({"ledger": {"pac-bayes, disintegrated": 0.05}}, "δ ledger"),
    ):
        path.write_text(json.dumps(record | changes))
        assert name in drawn_failures(run.folder), name
    path.write_text(json.dumps(record))
    drawn = load_file(run.folder / "drawn.safetensors")
    drawn["layer.bias"] = drawn["layer.bias"] + 1e-3
    save_file(drawn, run.folder / "drawn.safetensors")
    assert drawn_failures(run.folder) == ["hash of the drawn network"]


@pytest.mark.parametrize("bound", ["first-order", "tandem"])
def test_a_votes_certificate_is_verified_and_is_tight(bound, tmp_path):
    run, data = make_run(tmp_path, prior_fraction=0.5, epochs=2, prior_epochs=40)
    c = certify(run, data, bound=bound, samples=30)
    path = run.folder / "certificate-vote.json"
    assert c.bound < 1
    assert all(f.holds for f in verify(path, full=True))
    record = json.loads(path.read_text())
    for changes, name in (
        ({"bound": c.bound * (1 - 1e-9)}, f"bound ({bound})"),
        ({"risk_upper": c.risk_upper * (1 - 1e-4)}, "Monte-Carlo term"),
        ({"draws": 300.0 * 30}, "Monte-Carlo term"),
        ({"bound_name": "small-kl"}, "predictor"),
    ):
        path.write_text(json.dumps(record | changes))
        assert name in [f.name for f in verify(path) if not f.holds], name


def test_free_parameters_of_catoni_are_not_free_to_change(tmp_path):
    run, data = make_run(tmp_path, prior_fraction=0.5, epochs=2, prior_epochs=40)
    c = certify(run, data, bound="catoni", samples=30)
    assert c.bound < 1
    assert failures(run.folder) == []
    for key, value in (("alpha", 1.1), ("lambda", 1.0)):
        change(run.folder, parameters={**c.parameters, key: value})
        assert failures(run.folder) == ["bound (catoni)"]


def forge_drawn(folder, change):
    """Other weights, their hash made to fit."""
    path, claim = folder / "drawn.safetensors", folder / "certificate-drawn.json"
    drawn = load_file(path)
    change(drawn)
    save_file(drawn, path)
    record = json.loads(claim.read_text())
    record["provenance"]["drawn_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    claim.write_text(json.dumps(record | {"kl": 1e9, "bound": 1.0, "risk": 1.0, "risk_upper": 1.0}))


def test_weights_that_the_seed_does_not_give_are_noticed(tmp_path):
    """However small the change, and whatever else is made to fit."""
    run, data = make_run(tmp_path, widths=(40, 30))
    certify(run, data, bound="disintegrated", networks=3)
    forge_drawn(run.folder, lambda drawn: None)
    assert drawn_failures(run.folder) == []

    def nudge(drawn):
        drawn["layer.bias"] = drawn["layer.bias"] + 1e-6

    forge_drawn(run.folder, nudge)
    assert drawn_failures(run.folder) == ["weights drawn by their key"]


@pytest.mark.parametrize(
    "parameters", [{"networks": 3.0}, {"networks": 3.0, "network": 3.0}, {"network": 0.0}]
)
def test_which_network_was_kept_must_be_said(tmp_path, parameters):
    run, data = make_run(tmp_path)
    certify(run, data, bound="disintegrated", networks=3)
    path = run.folder / "certificate-drawn.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"parameters": parameters}))
    assert "weights drawn by their key" in drawn_failures(run.folder)


def test_a_drawn_network_of_another_shape_is_noticed(tmp_path):
    run, data = make_run(tmp_path)
    certify(run, data, bound="disintegrated")
    forge_drawn(run.folder, lambda drawn: drawn.pop("layer.bias"))
    assert drawn_failures(run.folder) == ["hash of the drawn network"]


def test_weights_that_are_not_numbers_are_noticed(tmp_path):
    run, data = make_run(tmp_path)
    certify(run, data, bound="disintegrated")

    def spoil(drawn):
        drawn["layer.bias"] = drawn["layer.bias"] * np.nan

    forge_drawn(run.folder, spoil)
    assert "weights drawn by their key" in drawn_failures(run.folder)


def test_a_tandem_risk_too_small_is_noticed_by_sampling(tmp_path):
    run, data = make_run(tmp_path)
    certify(run, data, bound="tandem", samples=20)
    path = run.folder / "certificate-vote.json"
    record = json.loads(path.read_text())
    assert record["risk"] > 0.1
    path.write_text(json.dumps(record | {"risk": 0.0, "risk_upper": 0.01}))
    assert "risk of the same draws" in [f.name for f in verify(path, full=True) if not f.holds]


def test_a_tandem_certificate_pays_for_two_integrals(tmp_path):
    """Of twelve classes without hidden layers: exact, so that nothing else hides the second."""
    run, data = make_run(tmp_path, classes=12, widths=())
    c = certify(run, data, bound="tandem")
    path = run.folder / "certificate-vote.json"
    assert all(f.holds for f in verify(path))
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"risk_upper": c.risk + 1.5 * c.quadrature_error}))
    assert "exact risk" in [f.name for f in verify(path) if not f.holds]


def test_a_folder_has_the_certificates_in_it(tmp_path):
    assert certificates_in(tmp_path) == [tmp_path / "certificate.json"]
    for name in ("certificate-vote.json", "certificate.json", "test.json"):
        (tmp_path / name).write_text("{}")
    names = [path.name for path in certificates_in(tmp_path)]
    assert names == ["certificate-vote.json", "certificate.json"]
    assert certificates_in(tmp_path / "test.json") == [tmp_path / "test.json"]


def test_a_folder_is_checked_with_all_certificates_in_it(tmp_path):
    run, data = make_run(tmp_path)
    for bound in ("small-kl", "disintegrated"):
        certify(run, data, bound=bound)
    each = [finding for path in certificates_in(run.folder) for finding in verify(path)]
    assert list(verify(run.folder)) == each
    assert sum(f.bound is not None for f in each) == 2
    change(run.folder, bound=0.01)
    assert [f.name for f in verify(run.folder) if not f.holds] == ["bound (small-kl)"]


def test_findings_say_whether_they_measured_the_risk(folder):
    path = folder / "certificate.json"
    assert not any(f.measures_risk for f in verify(path))
    assert [f.name for f in verify(path, full=True) if f.measures_risk] == [
        "risk of the same draws"
    ]


def test_a_failed_check_names_both_values(folder):
    change(folder, n=600)
    details = {f.name: f.detail for f in verify(folder / "certificate.json") if not f.holds}
    assert details["size of the bound set"] == "300 found, 600 in the certificate"


@pytest.mark.parametrize("classes", [2, 4])
def test_a_held_out_certificate_is_verified_and_is_tight(classes, tmp_path):
    run, data = make_run(
        tmp_path, classes=classes, prior_fraction=0.5, prior_epochs=20, prior_scales=(0.03, 0.1)
    )
    c = certify(run, data, bound="held-out")
    path = run.folder / "certificate-fixed.json"
    assert [f.name for f in verify(path) if not f.holds] == []
    assert any(f.measures_risk for f in verify(path))
    (own,) = (f.bound for f in verify(path) if f.bound is not None)
    assert own == pytest.approx(c.bound, rel=1e-6)
    assert own <= c.bound
    record = json.loads(path.read_text())
    for changes, name in (
        ({"bound": c.bound * (1 - 1e-6)}, "bound (held-out)"),
        ({"risk": c.risk - 1 / c.n, "risk_upper": c.risk - 1 / c.n}, "errors counted"),
        ({"bound_name": "small-kl"}, "predictor"),
        ({"ledger": {"pac-bayes": 0.05}}, "δ ledger"),  # another scale was tried
    ):
        path.write_text(json.dumps(record | changes))
        assert name in [f.name for f in verify(path) if not f.holds], name


def test_the_better_of_two_networks_is_verified(tmp_path):
    run, data = make_run(tmp_path, prior_fraction=0.5, prior_epochs=20)
    c = certify(run, data, bound="best-of")
    path = run.certificate_path(c.kind)
    assert all(f.holds for f in verify(path))
    record = json.loads(path.read_text())
    whole = {"pac-bayes, held-out": 0.05, "pac-bayes, disintegrated-fixed": 0.005}
    path.write_text(json.dumps(record | {"ledger": whole}))
    assert "δ ledger" in [f.name for f in verify(path) if not f.holds]


def failing(path, **options):
    return [f.name for f in verify(path, **options) if not f.holds]


@pytest.mark.parametrize("bound", ["catoni-fixed", "disintegrated-fixed"])
@pytest.mark.parametrize("classes", [2, 4])
def test_a_bound_at_a_fixed_c_is_verified_and_is_tight(bound, classes, tmp_path):
    run, data = make_run(tmp_path, classes=classes, prior_fraction=0.5, prior_epochs=20)
    c = certify(run, data, bound=bound, samples=30)
    path = run.certificate_path(c.kind)
    assert c.bound < 1
    assert failing(path, full=True) == []
    record = json.loads(path.read_text())
    for changes in (
        {"bound": c.bound * (1 - 1e-7)},
        {"kl": c.kl - 1e-6 * abs(c.kl)},
        {"delta": 0.04, "ledger": {name: part / 2 for name, part in c.ledger.items()}},
    ):
        path.write_text(json.dumps(record | changes))
        assert failing(path), changes
    for guess in (c.parameters["guess"] + 0.25, 0.999, -1.0):  # chosen after the fact
        parameters = {**c.parameters, "guess": guess}
        path.write_text(json.dumps(record | {"parameters": parameters, "bound": 0.999}))
        assert "guess of the risk" in failing(path)


def test_a_data_free_prior_has_no_guess_of_the_risk(folder):
    run = folders.open_run(folder)
    c = certify(run, run.load_data(), bound="catoni-fixed")
    assert "guess" not in c.parameters
    assert failures(folder) == []
    change(folder, parameters={"guess": 0.1})
    assert "guess of the risk" in failures(folder)


@pytest.mark.parametrize("values", [{"C": 1.0}, {"c": 0.5}])
def test_values_of_c_of_ones_own_have_no_effect(values, folder):
    run = folders.open_run(folder)
    c = certify(run, run.load_data(), bound="catoni-fixed")
    change(folder, parameters=values)
    assert failures(folder) == []
    change(folder, parameters=values, bound=c.bound * (1 - 1e-7))
    assert failures(folder) == ["bound (catoni-fixed)"]


def certify_classes(run, data, **changes):
    given = {"delta": 0.05, "bound": "held-out", "samples": 10} | changes
    return folders.certify_classes(run, run.load_network(), data, **given)


@pytest.mark.parametrize("bound", ["held-out", "small-kl", "tandem", "catoni-fixed"])
@pytest.mark.parametrize("classes", [2, 3])
def test_each_class_has_a_certificate_on_its_own_examples(bound, classes, tmp_path):
    run, data = make_run(tmp_path, classes=classes, prior_fraction=0.5, prior_epochs=20)
    issued = certify_classes(run, data, bound=bound)
    assert [c.class_name for c in issued] == list(data.classes)
    assert sum(c.n for c in issued) == run.record.data.n
    paths = sorted(run.folder.glob("certificate*.json"))
    assert len(paths) == classes
    for c, path in zip(issued, paths, strict=True):
        assert failing(path, full=True) == []
        assert sum(c.ledger.values()) <= 0.05
        record = json.loads(path.read_text())
        another = issued[0].class_name if c is issued[-1] else issued[-1].class_name
        for changes in (
            {"class_name": None},
            {"class_name": another},
            {"class_name": "none of them"},
            {"bound": c.bound * (1 - 1e-6)} if c.bound < 1 else {"n": c.n + 1},
            {
                "ledger": {
                    k: v / 2 if k == "other classes" else 1.01 * v for k, v in c.ledger.items()
                }
            },
        ):
            path.write_text(json.dumps(record | changes))
            assert failing(path), changes


def test_errors_of_all_classes_are_the_errors_of_all_examples(tmp_path):
    run, data = make_run(tmp_path, classes=4, prior_fraction=0.5, prior_epochs=20)
    every = certify(run, data, bound="held-out")
    issued = certify_classes(run, data)
    assert sum(round(c.risk * c.n) for c in issued) == round(every.risk * every.n)


def test_a_class_pays_for_the_seed_of_a_data_free_prior_too(tmp_path):
    run, data = make_run(tmp_path, seed=3)
    for c in certify_classes(run, data, bound="small-kl"):
        path = run.class_path(c.kind, data.classes.index(c.class_name))
        own = 0.05 - c.ledger["other classes"]
        assert own <= 0.025
        assert c.ledger["pac-bayes"] + c.ledger["monte-carlo"] <= own / 20
        assert failing(path) == []
        record = json.loads(path.read_text())
        greedy = c.ledger | {"pac-bayes": own / 2, "other seeds": own / 4}
        path.write_text(json.dumps(record | {"ledger": greedy}))
        assert "δ ledger" in failing(path)


@pytest.mark.parametrize("bound", ["best-of", "disintegrated", "disintegrated-fixed"])
def test_classes_have_one_predictor_in_common(bound, tmp_path):
    run, data = make_run(tmp_path, prior_fraction=0.5, prior_epochs=2)
    with pytest.raises(ValueError, match="--per-class needs one predictor for all classes"):
        certify_classes(run, data, bound=bound)


def test_a_class_with_few_examples_is_refused(tmp_path):
    run, data = make_run(tmp_path, classes=16, prior_fraction=0.5, prior_epochs=2)
    with pytest.raises(ValueError, match=r"class \d+.0 has \d examples in the bound set"):
        certify_classes(run, data)
    assert list(run.folder.glob("certificate*.json")) == []


def test_a_prior_learned_again_makes_its_own_guess_of_the_risk(tmp_path):
    run, data = make_run(tmp_path, prior_fraction=0.5, prior_epochs=20)
    c = certify(run, data, bound="disintegrated-fixed")
    path = run.certificate_path(c.kind)
    prior = load_file(run.folder / "prior.safetensors")
    assert failing(path, prior=prior) == []
    turned = {k: -v if k == "layer.weight.prior_mean" else v for k, v in prior.items()}
    (found,) = (f for f in verify(path, prior=turned) if f.name == "guess of the risk")
    assert f"{c.parameters['guess']} claimed" in found.detail
    assert failing(path, prior=turned) == ["ln(dQ/dP)", "bound (disintegrated-fixed)"]
