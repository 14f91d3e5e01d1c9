"""The commands on classifiers other than networks, as a user meets them."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import pacbayes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of numbers, texts and missing values, a test table, and a forest fitted to them."""
    place = tmp_path_factory.mktemp("classifiers")
    rng = np.random.default_rng(0)
    size, colour = rng.normal(size=400), rng.choice(["red", "green", "blue"], 400)
    frame = pd.DataFrame({"size": size, "colour": colour, "owned": rng.choice(["yes", "no"], 400)})
    frame["kind"] = np.where(size + (colour == "red") > 0.3, "good", "bad")
    frame.loc[3, "size"] = np.nan
    frame[:300].to_csv(place / "train.csv", index=False)
    frame[300:].to_csv(place / "test.csv", index=False)
    frame[300:][["owned", "colour", "size"]].to_parquet(place / "new.parquet")
    return place


@pytest.fixture(scope="module")
def forest(folder, run_cli_once):
    arguments = ("--dataset", folder / "train.csv", "--test-data", folder / "test.csv")
    code, out, err = run_cli_once("train", *arguments, "--model", "forest", "--out", folder / "f")
    assert code == 0, err
    assert "Certificate: at most " in out
    assert "Test error: " in out
    return folder / "f"


@pytest.fixture(scope="module")
def run_cli_once():
    def run(*arguments):
        command = [sys.executable, "-m", "pacbayes", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    return run


def test_a_forest_is_verified_with_and_without_predicting_again(forest, run_cli):
    code, out, _ = run_cli("verify", forest)
    assert code == 0
    assert "Not checked: The models give the recorded predictions" in out
    assert "predictions taken as recorded; use --full to make them again" in out
    code, out, _ = run_cli("verify", forest / "certificate.json", "--full")
    assert code == 0
    assert "ok    labels: 300 compared with the data" in out
    assert "ok    predictions made again: 0 of 135 differ" in out
    assert "taken as recorded" not in out
    answer = json.loads(run_cli("verify", forest, "--json")[1])
    assert answer["holds"]


def test_plain_verification_runs_without_torch_and_models(forest):
    code = (
        "import sys, pathlib\n"
        "from pacbayes.verify import verify\n"
        f"assert all(f.holds for f in verify(pathlib.Path({str(forest)!r})))\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'sklearn', 'skops')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_folder_comes_back_that_a_kill_has_left_aside(forest, run_cli, tmp_path):
    shutil.copytree(forest, tmp_path / ".f.old")
    assert run_cli("verify", tmp_path / "f")[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_forged_bound_ends_with_exit_code_one(forest, run_cli, tmp_path):
    shutil.copytree(forest, tmp_path / "f")
    path = tmp_path / "f" / "certificate.json"
    record = json.loads(path.read_text())
    record["certificates"]["random forest"]["bound"] = 0.001
    path.write_text(json.dumps(record))
    code, out, _ = run_cli("verify", tmp_path / "f")
    assert code == 1
    assert "FAIL  bound (held-out)" in out
    assert "The certificate does NOT hold." in out


def test_rows_are_predicted_by_column_name(forest, run_cli, folder, tmp_path):
    code, out, err = run_cli("predict", forest, folder / "test.csv")
    assert code == 0
    assert "error on the labels given: " in err
    code, other, err = run_cli("predict", forest, folder / "new.parquet")
    assert (code, other) == (0, out)
    assert "error on" not in err
    code, _, _ = run_cli("predict", forest, folder / "new.parquet", "--out", tmp_path / "l.csv")
    assert code == 0
    assert (tmp_path / "l.csv").read_text() == out
    expected = pacbayes.load(forest).predict(pd.read_csv(folder / "test.csv"))
    assert out.split() == ["label", *expected]
    code, _, err = run_cli("predict", forest, folder / "test.csv", "--out", forest / "run.json")
    assert (code, "must be a .csv file" in err) == (2, True)


def test_a_certificate_is_issued_again_at_another_delta(forest, run_cli):
    code, out, err = run_cli("certify", forest, "--delta", 0.01)
    assert code == 0
    assert "with probability 0.99" in out
    assert "another choice would not be paid for" in err
    assert run_cli("verify", forest)[0] == 0
    code, out, _ = run_cli("certify", forest, "--json")
    assert json.loads(out)["delta"] == 0.05


def test_a_report_goes_into_the_folder_and_leaves_it_valid(forest, run_cli):
    code, out, _ = run_cli("report", forest)
    assert code == 0
    assert out.splitlines()[0] == str(forest / "report.html")
    page = (forest / "report.html").read_text()
    for text in ("train.csv, random forest", "checks passed", "Columns and features"):
        assert text in page
    assert "error on the test set (100 examples)" in page
    assert "test error: " in page
    assert run_cli("verify", forest)[0] == 0  # the page is no foreign file


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("certify", "--bound", "held-out"), "--bound has no effect on {run}, a classifier"),
        (("verify", "--relearn"), "--relearn has no effect on {run}, a classifier"),
        (("verify", "--data", "x.csv"), "--data has no effect without --full"),
        (("report", "--data", "x.csv"), "--data has no effect on {run}, a classifier"),
        (("export", "--format", "onnx", "--out", "x.onnx"), "cannot be exported as onnx"),
    ],
)
def test_options_without_effect_are_refused(forest, run_cli, arguments, message):
    code, out, err = run_cli(arguments[0], forest, *arguments[1:])
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message.format(run=forest) in err


def test_options_of_networks_are_refused_for_other_models(run_cli, folder, tmp_path):
    given = ("train", "--dataset", folder / "train.csv", "--out", tmp_path / "x")
    code, _, err = run_cli(*given, "--model", "linear", "--epochs", 3)
    assert code == 2
    assert "--epochs has no effect on --model linear; leave it out" in err
    code, _, err = run_cli(*given, "--model", "tree")
    assert code == 2
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "notes.txt").touch()
    code, _, err = run_cli(*given, "--model", "linear")
    assert (code, "has other files (notes.txt)" in err) == (2, True)
    assert sorted(p.name for p in (tmp_path / "x").iterdir()) == ["notes.txt"]


def test_columns_may_be_dropped_or_declared_categorical(run_cli, folder, tmp_path):
    frame = pd.read_csv(folder / "train.csv").assign(id=range(300), month=np.arange(300) % 12)
    frame.to_csv(tmp_path / "wide.csv", index=False)
    given = ("--dataset", tmp_path / "wide.csv", "--label", "kind", "--model", "linear")
    columns = ("--drop", "id", "--categorical", "month")
    code, _, err = run_cli("train", *given, *columns, "--out", tmp_path / "linear")
    assert code == 0, err
    layout = json.loads((tmp_path / "linear" / "run.json").read_text())["layout"]
    assert layout["names"] == ["size", "colour", "owned", "month"]
    assert layout["kinds"] == ["number", "category", "boolean", "category"]
    assert run_cli("verify", tmp_path / "linear", "--full")[0] == 0
    frame.drop(columns=["id", "kind"]).to_csv(tmp_path / "new.csv", index=False)
    assert run_cli("predict", tmp_path / "linear", tmp_path / "new.csv")[0] == 0
    code, _, err = run_cli("train", "--dataset", "digits", "--drop", "id", *given[4:], "--out", "x")
    assert (code, "is for a table" in err) == (2, True)


def test_groups_are_named_by_a_column(run_cli, folder, tmp_path):
    frame = pd.read_csv(folder / "train.csv").assign(owner=np.arange(300) // 3)
    frame.to_csv(tmp_path / "owned.csv", index=False)
    given = ("--dataset", tmp_path / "owned.csv", "--label", "kind", "--group", "owner")
    code, out, err = run_cli("train", *given, "--model", "linear", "--out", tmp_path / "g")
    assert code == 0, err
    assert "mean error within a new group" in out
    assert run_cli("verify", tmp_path / "g", "--full")[0] == 0


def test_the_best_of_all_models_and_a_named_data_set(run_cli, folder, tmp_path):
    given = ("--dataset", folder / "train.csv", "--model", "best", "--seed", 1, "--delta", 0.1)
    code, out, _ = run_cli("train", *given, "--out", tmp_path / "best", "--json")
    assert code == 0
    answer = json.loads(out)
    assert answer["certificate"]["delta"] == 0.1
    assert len(answer["certificate"]["ledger"]) == 6
    code, _, err = run_cli(
        "train", "--dataset", "digits", "--model", "linear", "--out", tmp_path / "digits"
    )
    assert code == 0, err
    assert run_cli("verify", tmp_path / "digits", "--full")[0] == 0
    assert run_cli("predict", tmp_path / "digits", "digits")[0] == 0


def test_classes_costs_and_doubt_have_certificates_of_their_own(run_cli, folder, tmp_path):
    given = ("--dataset", folder / "train.csv", "--model", "linear", "--out", tmp_path / "m")
    code, out, _ = run_cli("train", *given, "--per-class", "--target-error", 0.1, "--json")
    assert code == 0
    others = json.loads(out)["others"]
    assert {"error on answered examples", "share of unanswered examples"} < others.keys()
    assert sum(name.startswith("error on class ") for name in others) == 2
    assert run_cli("verify", tmp_path / "m", "--full")[0] == 0
    assert run_cli("report", tmp_path / "m")[0] == 0
    page = (tmp_path / "m" / "report.html").read_text()
    passed = re.findall(r"✓ all \d+ checks passed", page)
    assert len(passed) == len(others)  # and not the certificate again
    assert "<td>–</td>" not in page.replace("costs</th><td>–</td>", "")  # there are none
    assert "It answers " in page
    label = min(others, key=lambda name: not name.startswith("error on class "))[15:]
    assert run_cli("train", *given, "--cost", f"{label}=10")[0] == 0
    code, out, _ = run_cli("verify", tmp_path / "m")
    assert code == 0
    assert re.search(r"Verified: at most [\d.]{1,6} cost with probability 0.95", out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "linear", "--cost", "nobody=2"), "--cost nobody=2: give one of "),
        (("--cost", "x=2"), "--cost needs --model boosting, forest, linear or best"),
        (("--target-error", "0.1"), "--target-error needs --model boosting"),
        (("--per-class",), "use pacbayes certify --per-class later"),
    ],
)
def test_costs_of_no_class_and_options_of_other_models(run_cli, folder, tmp_path, options, message):
    data = ("--dataset", folder / "train.csv", "--out", tmp_path / "m")
    code, _, err = run_cli("train", *data, *options)
    assert (code, message in err, (tmp_path / "m").exists()) == (2, True, False)
