"""Files that were forged or issued with luck: `verify` refuses them or says whose word it is."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from sklearn.datasets import load_digits

from pacbayes import Settings, folders
from pacbayes.bounds import small_kl, stratified_bernstein
from pacbayes.data import DataSource
from pacbayes.files import file_sha256, save_json, save_tensors
from pacbayes.verify import verify


def make(folder, n=300, *, random=False, **changes):
    """A trained run on data of its own, in a folder beside them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 5)).astype(np.float32)
    y = rng.integers(0, 2, n) if random else (x[:, 0] > 0).astype(int)
    folder.mkdir(exist_ok=True)
    np.savez(folder / "data.npz", x=x, y=y)
    given = {"widths": (8,), "epochs": 2, "prior_epochs": 3} | changes
    source = DataSource(str(folder / "data.npz"))
    run = folders.train_all(folder / "run", Settings.of("fast", **given), source, source.load())[0]
    return run, source.load()


def certify(run, data, **changes):
    given = {"delta": 0.05, "bound": "small-kl", "samples": 20} | changes
    return folders.certify_run(run, run.load_network(), data, **given)


def failed(folder, name="certificate.json", **options):
    return [f.name for f in verify(folder / name, **options) if not f.holds]


def forge(path, **changes):
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | changes))


def replace_everywhere(folder, before, after):
    for path in folder.glob("*.json"):
        path.write_text(path.read_text().replace(before, after))


def reseal(run, posterior):
    """Save a posterior as if the run had made it, and forge the hashes that name it."""
    path = run.folder / "posterior.safetensors"
    before = file_sha256(path)
    tensors = {name: torch.from_numpy(value) for name, value in posterior.items()}
    save_tensors(path, tensors, {"run": file_sha256(run.folder / "run.json")})
    replace_everywhere(run.folder, before, file_sha256(path))


def forge_prior(run, prior):
    """Put another prior into the folder, with every hash made to fit."""
    path = run.folder / "prior.safetensors"
    posterior, before = load_file(run.folder / "posterior.safetensors"), file_sha256(path)
    save_tensors(path, {name: torch.from_numpy(value) for name, value in prior.items()})
    replace_everywhere(run.folder, before, file_sha256(path))
    reseal(run, posterior)


def prior_at_posterior(run):
    posterior = load_file(run.folder / "posterior.safetensors")
    prior = load_file(run.folder / "prior.safetensors")
    names = [name for name in prior if name.endswith("prior_mean")]
    return prior | {n: posterior[n.replace("prior_mean", "mean")] for n in names}


def test_13_a_prior_moved_to_the_posterior_is_not_what_its_seed_draws(tmp_path):
    run, data = make(tmp_path / "a")
    certify(run, data)
    assert failed(run.folder, full=True) == []
    forge_prior(run, prior_at_posterior(run))
    assert failed(run.folder) == ["weights of the network"]


@pytest.mark.parametrize("widths", [(), (3,), (20, 20), (4, 16)])
@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_13_data_free_priors_are_drawn_again_without_torch(widths, seed, tmp_path):
    run, data = make(tmp_path / "a", widths=widths, seed=seed, epochs=1)
    certify(run, data, samples=1)
    assert failed(run.folder) == []
    path = run.folder / "run.json"
    before = file_sha256(path)
    record = json.loads(path.read_text())
    record["settings"]["seed"] = seed + 1  # another seed draws other means
    save_json(path, record)
    replace_everywhere(run.folder, before, file_sha256(path))
    assert "weights of the network" in failed(run.folder)


def test_13_a_learned_prior_is_learned_again(run_cli, tmp_path):
    run, data = make(tmp_path / "a", random=True, prior_fraction=0.5)
    certify(run, data)
    code, out, err = run_cli("verify", run.folder, "--relearn")
    assert code == 0, out
    assert "the same, bit for bit" in err


def test_13_relearning_raises_the_bound_to_what_the_learned_prior_gives(run_cli, tmp_path):
    run, data = make(tmp_path / "a", prior_fraction=0.5, prior_epochs=20)
    honest = certify(run, data)
    posterior = load_file(run.folder / "posterior.safetensors")
    posterior = {k: v + np.float32(0.3 if k.endswith("mean") else 0) for k, v in posterior.items()}
    reseal(run, posterior)
    forge_prior(run, prior_at_posterior(run))
    run = folders.open_run(run.folder)
    lucky = certify(run, data)
    assert lucky.kl < honest.kl + 5
    assert failed(run.folder) == []
    assert run_cli("verify", run.folder, "--relearn")[0] == 1


@pytest.mark.parametrize(
    "changes",
    [
        lambda c: {"risk": 0.75 * c.risk, "risk_upper": 0.75 * c.risk_upper},
        lambda c: {"risk": c.risk - 1e-6, "risk_upper": c.risk_upper - 1e-6},
    ],
    ids=["risk", "a millionth"],
)
@pytest.mark.parametrize("inequality", ["kl-chernoff", "stratified-bernstein"])
@pytest.mark.parametrize("activation", ["relu", "sigmoid", "sign"])
def test_14_the_same_draws_give_another_number(changes, inequality, activation, tmp_path):
    run, data = make(tmp_path / "a", activation=activation)
    c = certify(run, data, monte_carlo=inequality)
    assert failed(run.folder, full=True) == []
    forged = changes(c)
    upper, part = forged["risk_upper"], c.ledger["pac-bayes"]
    forge(run.folder / "certificate.json", **forged, bound=small_kl(upper, c.kl, c.n, part))
    assert "risk of the same draws" in failed(run.folder, full=True)


def test_14_a_better_training_risk_under_an_honest_bound_is_not_what_was_drawn(tmp_path):
    run, data = make(tmp_path / "a")
    certify(run, data)
    forge(run.folder / "certificate.json", risk=0.01)
    assert failed(run.folder) == []
    assert failed(run.folder, full=True) == ["risk of the same draws"]


def test_14_a_variance_that_was_forged_is_measured_again(tmp_path):
    run, data = make(tmp_path / "a")
    c = certify(run, data, monte_carlo="stratified-bernstein")
    pairs, part = c.n * (c.samples // 2), c.ledger["monte-carlo"]
    upper = stratified_bernstein(c.risk + 1e-9, 0.0, pairs, c.draws, part)
    bound = small_kl(upper, c.kl, c.n, c.ledger["pac-bayes"])
    forge(run.folder / "certificate.json", within=0.0, risk_upper=upper, bound=bound)
    assert failed(run.folder) == []
    assert "risk of the same draws" in failed(run.folder, full=True)


def test_14_more_draws_than_were_made_are_made_now(tmp_path):
    run, data = make(tmp_path / "a")
    c = certify(run, data, samples=2)
    path = run.folder / "certificate.json"
    upper = c.risk + 4e-3
    bound = small_kl(upper, c.kl, c.n, c.ledger["pac-bayes"])
    forge(path, samples=2000, draws=2000.0 * c.n, risk_upper=upper, bound=bound)
    assert failed(run.folder) == []
    own = [f.bound for f in verify(path, full=True) if f.bound is not None]
    honest = certify(run, data, samples=2000)
    assert own == [pytest.approx(honest.bound, abs=1e-8)]


def test_14_verify_prints_its_own_number(run_cli, tmp_path):
    run, data = make(tmp_path / "a")
    certify(run, data)
    forge(run.folder / "certificate.json", bound=0.987)
    code, out, _ = run_cli("verify", run.folder, "--full")
    assert code == 0
    assert "Verified: at most 98.7" not in out


def test_15_every_field_is_checked_or_marked_as_the_issuers_word(run_cli, tmp_path):
    run, data = make(tmp_path / "a", prior_fraction=0.5)
    certify(run, data)
    path = run.folder / "certificate.json"
    assumptions = json.loads(path.read_text())["assumptions"]
    for changes in ({"data": "mnist"}, {"repeats": True}, {"split_seed": 1}, {"body_sha256": "0"}):
        forge(path, assumptions=assumptions | changes)
        assert failed(run.folder) == ["assumptions"]
    forge(path, assumptions=assumptions)
    out = run_cli("verify", run.folder)[1]
    assert "Not checked: The examples of ../data.npz are independent" in out
    assert "Not checked: No other split was tried than that of seed 0" in out
    assert "Not checked: The prior learned from its own part alone" in out


def test_15_features_are_looked_at_again(tmp_path):
    run, data = make(tmp_path / "a")
    certify(run, data)
    path, before = tmp_path / "a" / "data.npz", data.train_sha256
    fitted = (data.x_train - data.x_train.mean(0)) / data.x_train.std(0)
    np.savez(path, x=fitted, y=data.y_train)
    replace_everywhere(
        run.folder,
        before,
        folders.open_run(run.folder).record.data.source.located(run.folder).load().train_sha256,
    )
    assert "examples" in failed(run.folder)


def test_16_a_report_derives_what_it_shows(tmp_path):
    from pacbayes.certificates.explanation import percent, steps
    from pacbayes.report import collect

    rng = np.random.default_rng(1)
    x = rng.normal(size=(100, 5)).astype(np.float32)
    make(tmp_path / "a")
    np.savez(tmp_path / "a" / "test.npz", x=x, y=(x[:, 0] > 0).astype(int))
    source = DataSource(str(tmp_path / "a" / "data.npz"), test=str(tmp_path / "a" / "test.npz"))
    settings = Settings.of("fast", widths=(8,), epochs=2)
    run = folders.train_all(tmp_path / "a" / "other", settings, source, source.load())[0]
    c = certify(run, source.load())
    network = run.load_network()
    honest = folders.test_errors(run, network, source.load())
    forge(run.folder / "test.json", randomised=0.0, vote=0.0)
    forge(run.folder / "certificate.json", kl_by_part=dict.fromkeys(c.kl_by_part, 1.0))
    (shown,) = collect(run.folder).certificates
    rows = {row.label: row.ours for row in shown.beside}
    assert rows["test error, randomised"] == percent(honest.randomised)
    assert rows["test error, majority vote (not covered)"] == percent(honest.vote)
    for step, own in zip(shown.steps, steps(c, run.record.layer_names), strict=True):
        assert step.points == pytest.approx(own.points, rel=1e-9)
    record = json.loads((run.folder / "certificate.json").read_text())
    assert not {"held_out", "catoni", "contributions"} & record.keys()


def test_18_a_run_and_its_data_can_move_together(run_cli, tmp_path):
    run, data = make(tmp_path / "a")
    certify(run, data)
    shutil.move(tmp_path / "a", tmp_path / "b")
    for command in ("verify", "certify", "report"):
        assert run_cli(command, tmp_path / "b" / "run")[0] == 0
    (tmp_path / "b" / "data.npz").rename(tmp_path / "elsewhere.npz")
    for command in ("verify", "certify", "report"):
        code, _, err = run_cli(command, tmp_path / "b" / "run")
        assert (code, "no such file" in err) == (2, True)
        moved = (tmp_path / "b" / "run", "--data", tmp_path / "elsewhere.npz")
        assert run_cli(command, *moved)[0] == 0
    np.savez(tmp_path / "other.npz", x=data.x_train + 1, y=data.y_train)
    assert run_cli("certify", tmp_path / "b" / "run", "--data", tmp_path / "other.npz")[0] == 2
    assert run_cli("verify", tmp_path / "b" / "run", "--data", tmp_path / "other.npz")[0] == 1
    exported = ("--format", "torch", "--out", tmp_path / "b" / "m.pt2")
    assert run_cli("export", tmp_path / "b" / "run", *exported)[0] == 0  # without any data


def test_9_there_is_no_seed_to_try_again_with(run_cli, tmp_path):
    run, data = make(tmp_path / "a")
    first = certify(run, data)
    torch.manual_seed(17)
    np.random.seed(17)
    assert certify(run, data) == first
    assert certify(run, data, bound="catoni", replace_other=True).risk == first.risk
    kept = certify(run, data, bound="disintegrated")
    assert certify(run, data, bound="disintegrated") == kept
    code, _, err = run_cli("certify", run.folder, "--seed", "1")
    assert (code, "--seed" in err) == (2, True)


def test_9_the_seed_of_a_data_free_prior_is_paid_for_by_its_number(tmp_path):
    parts = {}
    for seed in (0, 1, 5):
        run, data = make(tmp_path / str(seed), seed=seed, epochs=1)
        c = certify(run, data)
        assert failed(run.folder) == []
        parts[seed] = c.ledger["pac-bayes"]
        assert parts[seed] == pytest.approx(0.025 / ((seed + 1) * (seed + 2)))
        forge(run.folder / "certificate.json", ledger={"pac-bayes": 0.025, "monte-carlo": 0.025})
        assert "δ ledger" in failed(run.folder)
    run, data = make(tmp_path / "learned", seed=5, prior_fraction=0.5, epochs=1)
    assert certify(run, data).ledger["pac-bayes"] == 0.025  # its split is an assumption


@pytest.mark.parametrize("jitter", [0.01, 0.003])
def test_4_near_copies_across_the_split_are_refused(jitter, run_cli, tmp_path):
    """60 digits, each 40 times: the prior has seen the bound set."""
    rng = np.random.default_rng(0)
    x = np.repeat(load_digits().data[:60] / 16, 40, axis=0)
    y = np.repeat(load_digits().target[:60] > 4, 40)
    np.savez(tmp_path / "a.npz", x=x + jitter * rng.normal(size=x.shape), y=y)
    train = (
        "train",
        "--dataset",
        tmp_path / "a.npz",
        "--prior-fraction",
        "0.5",
        "--widths",
        "8",
        "--epochs",
        "1",
        "--prior-epochs",
        "1",
    )
    code, _, err = run_cli(*train, "--out", tmp_path / "run")
    assert code == 2
    assert "of the bound set are near copies of the prior's examples" in err
    assert "--repeats" in err
    assert run_cli(*train, "--repeats", "--out", tmp_path / "run")[0] == 0
    out = run_cli("certify", tmp_path / "run", "-T", "2")[1]
    assert "Examples that repeat are natural in these data (declared by --repeats)" in out
    out = run_cli("verify", tmp_path / "run")[1]
    assert "near copies" in out
    assert "Not checked: Examples that repeat are natural in these data" in out


def test_4_a_tenth_of_repeated_rows_is_natural_in_a_table_of_discrete_features(run_cli, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (400, 8)).astype(np.float32)
    y = x[:, 0] > 1
    np.savez(tmp_path / "a.npz", x=np.concatenate([x, x[:20]]), y=np.concatenate([y, y[:20]]))
    train = ("train", "--dataset", tmp_path / "a.npz", "--widths", "none", "--epochs", "1")
    code, out, _ = run_cli(*train, "--out", tmp_path / "run")
    assert code == 0
    assert "examples are duplicates, as is natural where features are discrete" in out
    np.savez(tmp_path / "b.npz", x=np.concatenate([x, x[:90]]), y=np.concatenate([y, y[:90]]))
    again = ("train", "--dataset", tmp_path / "b.npz", *train[3:])
    code, _, err = run_cli(*again, "--out", tmp_path / "other")
    assert (code, "--deduplicate" in err, "--repeats" in err) == (2, True, True)
    assert run_cli(*again, "--deduplicate", "--out", tmp_path / "other")[0] == 0
    certified = run_cli("certify", tmp_path / "other", "--json")[1]
    assert json.loads(certified)["n"] <= 400
    assert run_cli("verify", tmp_path / "other")[0] == 0


def test_14_signs_that_are_always_at_zero_are_errors(tmp_path):
    run, data = make(tmp_path / "a", activation="sign", widths=(3,), random=True)
    posterior = load_file(run.folder / "posterior.safetensors")
    for name in ("weight", "bias"):  # a unit whose pre-activation is within 1e-9 of zero
        posterior[f"body.layers.0.{name}.mean"][0] = 0.0
        posterior[f"body.layers.0.{name}.log_scale"][0] = -24.0
    certify(run, data)
    reseal(run, posterior)
    c = certify(run := folders.open_run(run.folder), data)
    lower = {"risk": 0.0, "risk_upper": 0.01, "bound": small_kl(0.01, c.kl, c.n, 0.0125)}
    forge(run.folder / "certificate.json", **lower)
    assert "risk of the same draws" in failed(run.folder, full=True)


def test_13_a_held_out_certificate_is_of_the_network_in_the_folder(tmp_path):
    run, data = make(tmp_path / "a", prior_fraction=0.5, prior_epochs=20)
    certify(run, data, bound="held-out")
    learned = folders.learn_again(run, data)
    prior = load_file(run.folder / "prior.safetensors")
    for name in ("layer.weight.prior_mean", "layer.bias.prior_mean"):
        prior[name] = -prior[name]
    forge_prior(run, prior)
    found = failed(run.folder, "certificate-fixed.json", prior=learned)
    assert found == ["errors counted"]


def test_15_removed_copies_are_an_assumption(run_cli, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    np.savez(
        tmp_path / "a.npz", x=x[[*range(200), *range(60)]], y=[*(x[:, 0] > 0), *(x[:60, 0] > 0)]
    )
    train = ("train", "--dataset", tmp_path / "a.npz", "--widths", "none", "--epochs", "1")
    assert run_cli(*train, "--deduplicate", "--out", tmp_path / "run")[0] == 0
    assert "copies were removed" in run_cli("certify", tmp_path / "run")[1]
    code, out, _ = run_cli("verify", tmp_path / "run")
    assert (code, "Not checked: New examples do not repeat either" in out) == (0, True)
    path = tmp_path / "run" / "certificate.json"
    record = json.loads(path.read_text())
    forge(path, assumptions=record["assumptions"] | {"deduplicated": None})
    assert failed(tmp_path / "run") == ["assumptions"]


def test_13_a_prior_without_a_part_of_its_own_did_not_learn(tmp_path):
    run, data = make(tmp_path / "a", prior_fraction=0.5)
    certify(run, data)
    path = run.folder / "run.json"
    before = file_sha256(path)
    record = json.loads(path.read_text())
    record["settings"]["prior_fraction"] = 1e-9
    index = torch.arange(300)
    save_tensors(run.folder / "split.safetensors", {"bound": index})
    record["data"] |= {"n": 300, "split_sha256": file_sha256(run.folder / "split.safetensors")}
    save_json(path, record)
    replace_everywhere(run.folder, before, file_sha256(path))
    assert "bound set" in failed(run.folder)
