"""Rows that belong together: whole groups on one side, n counts groups, each has its mean error."""

import json
from fractions import Fraction

import numpy as np
import pytest

from pacbayes import Settings, folders
from pacbayes.bounds import kl_chernoff
from pacbayes.data import DataError, DataSource
from pacbayes.folders.prediction import predict
from pacbayes.networks.predictors import prior_weights, scores
from pacbayes.training.priors import split
from pacbayes.verify import verify

LEARNED = Settings.of("fast", widths=(6,), epochs=3, prior_epochs=10, prior_fraction=0.5)
FREE = Settings.of("fast", widths=(6,), epochs=3)


def rows(groups=60, seed=0, spread=0.02):
    """Up to seven rows of each patient, nearly the same."""
    rng = np.random.default_rng(seed)
    for g in range(groups):
        base = rng.normal(size=2)
        label = "sick" if base[0] + 0.5 * rng.normal() > 0 else "well"
        for u, v in base + spread * rng.normal(size=(rng.integers(1, 8), 2)):
            yield f"{u},p{g},{v},{label}"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["u,patient,v,y", *rows()]))
    return DataSource(str(path), group="patient")


def trained(folder, source, settings=LEARNED):
    data = folders.featured(source.read(), settings)
    return folders.train_all(folder, settings, source, data)[0]


def certified(run, bound="held-out", **changes):
    asked = {"delta": 0.05, "bound": bound, "samples": 5} | changes
    return folders.certify_run(run, run.load_network(), run.load_data(), **asked)


def failed(path, **options):
    return [f.name for f in verify(path, **options) if not f.holds]


def test_groups_are_split_whole(table):
    groups = table.read().groups
    own, bound = split(len(groups), 0.5, 0, groups)
    assert sorted([*own, *bound]) == list(range(len(groups)))
    assert not set(groups[own]) & set(groups[bound])
    assert len(np.unique(groups[own])) == len(np.unique(groups[bound])) == 30
    assert split(60, 0.5, 0)[0].tolist() == np.unique(groups[own]).tolist()


def test_n_counts_groups_and_each_counts_its_mean_error(tmp_path, table):
    run = trained(tmp_path / "run", table)
    assert run.record.data.n == 30
    assert run.record.data.names == ("u", "v")  # the group is not a feature
    c = certified(run)
    data, network = run.load_data(), run.load_network()
    x, y = run.bound_set(data)
    groups = run.bound_groups(data).numpy()
    wrong = network.task.margin(scores(network.double(), prior_weights(network), x.double()), y)
    wrong = (wrong <= 0).numpy()
    means = [wrong[groups == g].mean() for g in np.unique(groups)]
    assert 0 < np.mean(means) < 1
    assert c.risk == pytest.approx(np.mean(means), rel=1e-8)
    assert Fraction(c.risk) >= Fraction(sum(means)) / 30
    assert (c.n, c.bound_name, c.unit) == (30, "held-out-mean", "groups")
    assert c.bound == kl_chernoff(c.risk, 30, 0.05)
    assert "on 30 groups" in str(c)
    assert failed(run.folder / "certificate-fixed.json") == []


@pytest.mark.parametrize("bound", ["best-of", "disintegrated", "disintegrated-fixed"])
def test_one_network_is_certified_on_groups_and_verified(tmp_path, table, bound):
    run = trained(tmp_path / "run", table)
    c = certified(run, bound)
    assert c.n == 30
    assert failed(run.folder / c.kind.file) == []
    with pytest.raises(ValueError, match="which certify one network"):
        certified(run, "tandem")


def test_a_data_free_prior_has_all_groups(tmp_path, table):
    run = trained(tmp_path / "run", table, FREE)
    c = certified(run, "disintegrated")
    assert c.n == 60
    assert failed(run.folder / "certificate-drawn.json") == []
    for bound in ("small-kl", "best-of"):
        with pytest.raises(
            ValueError, match=f"--bound {bound} is not offered for groups; use held-out, dis"
        ):
            certified(run, bound)
    with pytest.raises(ValueError, match="--per-class is not offered for groups"):
        folders.certify_classes(
            run, run.load_network(), run.load_data(), delta=0.05, bound="held-out", samples=2
        )


def test_assumptions_and_words_are_about_groups(tmp_path, table):
    run = trained(tmp_path / "run", table)
    c = certified(run)
    assert next(c.assumptions.sentences()).startswith("The groups (column 'patient') are indep")
    found = list(verify(run.folder / "certificate-fixed.json"))
    assert any("The groups (column 'patient') of" in f.detail for f in found if f.word)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"bound_name": "held-out"}, "groups"),  # counts errors, but means are not binomial
        ({"n": 60}, "size of the bound set"),
        ({"risk": 0.01, "risk_upper": 0.01}, "errors counted"),
        ({"bound": 0.05}, "bound (held-out-mean)"),
        (
            {"assumptions": {"data": "../data.csv", "repeats": False, "split_seed": 0}},
            "assumptions",
        ),
    ],
)
def test_forged_claims_about_groups_are_found_out(tmp_path, table, changes, fault):
    run = trained(tmp_path / "run", table)
    certified(run)
    path = run.folder / "certificate-fixed.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert fault in failed(path)


def test_a_bound_slightly_too_low_is_found_out(tmp_path, table):
    run = trained(tmp_path / "run", table)
    c = certified(run)
    path = run.folder / "certificate-fixed.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"bound": c.bound - 1e-6}))
    assert failed(path) == ["bound (held-out-mean)"]


def test_near_copies_of_a_group_are_refused_without_it_and_the_remedy_named(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["u,patient,v,y", *rows(300, spread=1e-4)]))
    with pytest.raises(ValueError, match=r"near copies .*which rows belong together with --group"):
        trained(tmp_path / "run", DataSource(str(path), drop=("patient",)))
    run = trained(tmp_path / "run", DataSource(str(path), group="patient"))
    assert run.record.data.n == 150


def test_copies_within_a_group_are_natural_and_others_are_not(tmp_path):
    once = list(rows(60))
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["u,patient,v,y", *once, *once]))
    source = DataSource(str(path), group="patient")
    assert trained(tmp_path / "run", source).record.data.n == 30
    others = [line.replace(",p", ",q") for line in once]
    path.write_text("\n".join(["u,patient,v,y", *once, *others]))
    with pytest.raises(ValueError, match="examples are duplicates"):
        trained(tmp_path / "other", source)


def test_predictions_need_no_group(tmp_path, table):
    run = trained(tmp_path / "run", table)
    (tmp_path / "new.csv").write_text("v,u\n1,2\n")
    found = predict(run, str(tmp_path / "new.csv"), "fixed", samples=1, seed=0, label=None)
    assert len(found.labels) == 1
    again = predict(run, table.name, "fixed", samples=1, seed=0, label=None)
    assert again.error < 0.5


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"group": "patent"}, "no column 'patent'; did you mean 'patient'"),
        ({"group": "y"}, "column 'y' has the labels and cannot be the group"),
    ],
)
def test_bad_groups_are_refused(table, source, message):
    with pytest.raises(DataError, match=message):
        DataSource(table.name, **source).read()


def test_missing_groups_and_few_groups_are_refused(tmp_path, table):
    path = tmp_path / "gap.csv"
    path.write_text("\n".join(["u,patient,v,y", *rows()]).replace("p7,", ","))
    with pytest.raises(DataError, match="column 'patient': the group is missing"):
        DataSource(str(path), group="patient").read()
    path.write_text("\n".join(["u,patient,v,y", *rows(14)]))
    with pytest.raises(ValueError, match=r"14 examples to the prior|at least 8"):
        trained(tmp_path / "run", DataSource(str(path), group="patient"))
    path.write_text("\n".join(["u,patient,v,y", *rows(7)]))
    with pytest.raises(DataError, match="the bound set has 7 groups; at least 8 are needed"):
        trained(tmp_path / "run", DataSource(str(path), group="patient"), FREE)


def test_the_command_line_takes_groups(run_cli, tmp_path, table):
    asked = ("--widths", "4", "--epochs", "2", "--prior-epochs", "5", "--quiet")
    folder = tmp_path / "run"
    train = ("train", "--dataset", table.name, "--group", "patient", "--out", folder, *asked)
    assert run_cli(*train)[0] == 0
    code, out, _ = run_cli("certify", folder)
    n = json.loads((folder / "run.json").read_text())["data"]["n"]
    assert (code, 8 <= n < 60) == (0, True)
    assert f"the {n} groups in the bound set" in out
    assert "mean error within a new group" in out
    assert run_cli("verify", folder)[0] == 0
    assert run_cli("report", folder)[0] == 0
    page = (folder / "report.html").read_text()
    assert "--group patient" in page.replace("<span>", "").replace("</span>", "")
    code, _, err = run_cli("train", "--dataset", "digits", "--group", "u", "--out", tmp_path / "r")
    assert (code, "--group, or group=, is for a table" in err) == (2, True)
