"""The command line as a user meets it: results, one-line errors, exit codes."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from pacbayes import __version__
from pacbayes.bounds import percent_up
from pacbayes.folders import open_run

CLAIMED = " (training risk taken as claimed; use --full to measure it)."
SMALL = (
    "--prior-fraction",
    "0",
    "--widths",
    "4",
    "--epochs",
    "4",
    "--batch-size",
    "50",
    "--evaluate-every",
    "2",
)


def test_bound_keeps_its_contract(run_cli):
    arguments = ("--risk", 0.0635, "--kl", 2363, "--n", 60000, "--delta", 0.05)
    code, out, _ = run_cli("bound", "catoni", *arguments, "--json")
    assert code == 0
    assert out.count("\n") == 1
    answer = json.loads(out)
    assert answer["bound"] == pytest.approx(0.1552, abs=5e-5)
    assert answer["lambda"] == pytest.approx(59817, rel=1e-3)
    for name, text in (("small-kl", "15.48"), ("mcallester", "20.4"), ("catoni", "15.52")):
        code, out, _ = run_cli("bound", name, *arguments)
        assert code == 0
        assert f"{name}: {text}" in out
    assert "(vacuous)" in run_cli("bound", "mcallester", "--risk", 1, "--kl", 9, "--n", 9)[1]


def test_bound_at_a_fixed_c(run_cli):
    arguments = ("bound", "catoni-fixed", "--risk", 0.05, "--n", 300, "--C", 3)
    assert run_cli(*arguments, "--kl", 0)[1] == "catoni-fixed: 15.5591 %\n"
    assert run_cli(*arguments)[0] == 2


def test_plan_shows_the_bound_of_every_split(run_cli, tmp_path):
    arguments = ("plan", "--n", 5000, "--error", "0.03,0.035", "--split", "0.2,0.5")
    code, out, err = run_cli(*arguments, "--data-free-kl", 800, "--plot", tmp_path / "plan.svg")
    assert (code, err) == (0, "")
    head, *rows = out.splitlines()
    assert head.split()[-4:] == ["held-out", "small-kl", "catoni-fixed", "data-free"]
    assert rows[0].startswith("20 %: 1000     3 %    4.05 % (4.84 %)  5.84 % (6.77 %)")
    assert rows[1].startswith("50 %: 2500     3.5 %  4.19 % (4.67 %)  5.35 % (5.88 %)")
    assert rows[2].startswith("all: 5000      3 %    –")
    assert rows[2].rstrip().endswith("22.90 % (23.54 %)")
    assert rows[3].startswith("Assumed: the model errs as stated")
    assert (tmp_path / "plan.svg").stat().st_size > 10_000
    answer = json.loads(run_cli(*arguments, "--json")[1])
    assert [p["method"] for p in answer["plans"][:3]] == ["held-out", "small-kl", "catoni-fixed"]
    assert answer["plans"][0]["typical"] == pytest.approx(0.04047, abs=5e-6)


def test_plan_shows_the_examples_that_a_bound_needs(run_cli, tmp_path):
    arguments = ("plan", "--bound", 0.05, "--error", 0.03, "--split", 0.25)
    code, out, _ = run_cli(*arguments, "--plot", tmp_path / "plan.png")
    assert code == 0
    assert "25 %           3 %    1443 (3326)  7574 (12174)  4395 (7811)" in out
    (held_out, *_) = json.loads(run_cli(*arguments, "--json")[1])["plans"]
    assert (held_out["typical"], held_out["cautious"]) == (1443, 3326)
    endless = ("plan", "--bound", 0.05, "--error", 0.03, "--data-free-kl", 1e6, "--json")
    assert json.loads(run_cli(*endless)[1])["plans"][-1]["typical"] is None
    assert "over 10⁷ (over 10⁷)" in run_cli(*endless[:-1])[1]


def test_train_certify_predict_plot_from_a_csv(run_cli, csv, tmp_path):
    folder = tmp_path / "run"
    code, out, err = run_cli("train", "--dataset", csv, "--test-data", csv, "--out", folder, *SMALL)
    assert code == 0
    assert f"pacbayes certify {folder}" in out
    assert "epoch    4" in err
    assert "Traceback" not in err

    code, out, _ = run_cli("certify", folder, "-T", 5)
    assert code == 0
    assert "Certificate: at most" in out
    assert "randomised classifier" in out
    assert "majority vote (not covered)" in out
    code, out, _ = run_cli("certify", folder, "-T", 5, "--json")
    certificate = json.loads(out)
    assert certificate["n"] == 200
    assert certificate["test"]["n"] == 200
    assert sum(certificate["ledger"].values()) == certificate["delta"] == 0.05

    code, out, err = run_cli("predict", folder, csv)
    assert code == 0
    assert out.splitlines()[0] == "label"
    assert len(out.splitlines()) == 201
    assert set(out.splitlines()[1:]) <= {"big", "small"}
    assert "randomised classifier" in err
    assert "error on the labels given" in err
    code, out, err = run_cli("predict", folder, csv, "--method", "vote", "--json")
    answer = json.loads(out)
    assert "not covered" in answer["predictor"]
    assert len(answer["votes"]) == 200
    code, out, err = run_cli("predict", folder, csv, "--out", tmp_path / "p.csv")
    assert code == 0
    assert out == ""
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 201

    code, out, _ = run_cli("plot", folder, "--out", tmp_path / "p.png")
    assert code == 0
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_a_small_sign_network_is_certified_exactly(run_cli, csv, tmp_path):
    folder = tmp_path / "run"
    run_cli("train", "--dataset", csv, "--activation", "sign", "--out", folder, *SMALL)
    code, out, _ = run_cli("certify", folder, "--exact", "--json")
    assert code == 0
    assert json.loads(out)["ledger"] == {"pac-bayes": 0.025, "other seeds": 0.025}
    run_cli("train", "--dataset", csv, "--out", tmp_path / "relu", *SMALL)
    code, _, err = run_cli("certify", tmp_path / "relu", "--exact")
    assert code == 2
    assert "only sign activations" in err


@pytest.mark.parametrize("estimator", ["reinforce", "reinforce-per-example"])
def test_the_papers_baseline_trains_too(run_cli, csv, tmp_path, estimator):
    code, _, err = run_cli(
        "train", "--dataset", csv, "--estimator", estimator, "--out", tmp_path / "r", *SMALL
    )
    assert code == 0
    assert "epoch    4" in err


def test_verify_says_what_holds_and_its_code_says_whether_all_does(run_cli, csv, tmp_path):
    run = tmp_path / "run"
    run_cli("train", "--dataset", csv, "--out", run, *SMALL)
    run_cli("certify", run, "--samples", 10)
    code, out, _ = run_cli("verify", run)
    assert code == 0
    path = run / "certificate.json"
    record = json.loads(path.read_text())
    verified = f"Verified: at most {percent_up(record['bound'])} error with probability 0.95"
    assert f"{verified}{CLAIMED}" in out
    assert f"{verified}.\n" in run_cli("verify", tmp_path / "run", "--full")[1]
    path.write_text(json.dumps(record | {"bound": record["bound"] / 2}))
    code, out, _ = run_cli("verify", path)
    assert code == 1
    assert "FAIL  bound (small-kl)" in out
    assert "does NOT hold" in out
    code, out, _ = run_cli("verify", path, "--json")
    assert code == 1
    assert json.loads(out)["holds"] is False
    code, _, err = run_cli("verify", tmp_path / "nowhere.json")
    assert code == 2
    assert "nowhere.json does not exist" in err


def test_bench_finds_out_first_whether_it_can_write(run_cli, tmp_path):
    code, _, err = run_cli("bench", "--out", tmp_path / "nowhere" / "results.md")
    assert code == 2
    assert "nowhere does not exist; create it first" in err


def test_bench_refuses_a_part_of_no_name(run_cli):
    code, _, err = run_cli("bench", "--only", "certificates")
    assert code == 2
    assert "no row has 'certificates' in its name; the names are: step, relu, T = 1;" in err


def test_training_says_which_engine_and_why(run_cli, csv, tmp_path, monkeypatch):
    from pacbayes.engine import library

    train = ("train", "--dataset", csv, *SMALL)
    native = "native engine" if library.available() else "torch engine (the native engine is not"
    assert native in run_cli(*train, "--out", tmp_path / "a")[2]
    err = run_cli(*train, "--engine", "torch", "--out", tmp_path / "b")[2]
    assert "torch engine (asked for)" in err
    err = run_cli(*train, "--estimator", "reinforce", "--out", tmp_path / "c")[2]
    assert "torch engine (native REINFORCE needs fixed scales and two classes)" in err
    per_example = ("--estimator", "reinforce-per-example", "--unit-scale")
    err = run_cli(*train, *per_example, "--out", tmp_path / "e")[2]
    assert "torch engine (the native engine does not draw weights for every example)" in err
    monkeypatch.setattr(library, "library", lambda: None)
    err = run_cli(*train, "--out", tmp_path / "d")[2]
    assert "torch engine (the native engine is not available on this machine" in err


def test_train_as_json_and_again(run_cli, csv, tmp_path):
    arguments = ("train", "--dataset", csv, "--out", tmp_path / "run", *SMALL, "--json")
    code, out, err = run_cli(*arguments)
    assert code == 0
    assert err == ""
    assert json.loads(out)["evaluation"]["epoch"] == 4
    assert run_cli(*arguments) == (0, out, "")  # it was finished


def test_ctrl_c_leaves_a_run_that_resumes(run_cli, csv, tmp_path, monkeypatch):
    from pacbayes import folders
    from pacbayes.folders import run as running

    whole = tmp_path / "whole"
    run_cli("train", "--dataset", csv, "--out", whole, *SMALL)
    original = folders.train_run

    def interrupted(run, data, **given):
        for i, step in enumerate(original(run, data, **given)):
            if i == 1:
                raise KeyboardInterrupt
            yield step

    folder = tmp_path / "run"
    monkeypatch.setattr(running, "train_run", interrupted)
    code, _, err = run_cli("train", "--dataset", csv, "--out", folder, *SMALL)
    assert code == 130
    assert "same command" in err
    assert "Traceback" not in err
    monkeypatch.setattr(running, "train_run", original)
    assert run_cli("train", "--dataset", csv, "--out", folder, *SMALL)[0] == 0
    posteriors = [(f / "posterior.safetensors").read_bytes() for f in (whole, folder)]
    assert posteriors[0] == posteriors[1]


def test_fallback_is_loud(run_cli, csv, tmp_path):
    code, _, err = run_cli(
        "train",
        "--dataset",
        tmp_path / "none.csv",
        "--fallback",
        csv,
        "--out",
        tmp_path / "r",
        *SMALL,
    )
    assert code == 0
    assert "!!!!!!!!" in err
    assert "INSTEAD OF" in err
    misspelt = ("train", "--dataset", "binary-mnits", "--fallback", csv, "--out", tmp_path / "s")
    code, _, err = run_cli(*misspelt)
    assert code == 2
    assert "did you mean 'binary-mnist'?" in err


def test_a_run_that_learned_nothing_is_told_what_to_try(run_cli, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "noise.npz", x=rng.normal(size=(50, 3)), y=rng.integers(0, 2, 50))
    _, out, _ = run_cli(
        "train", "--dataset", tmp_path / "noise.npz", "--out", tmp_path / "r", *SMALL
    )
    assert "learned nothing: 50 examples" in out
    assert "--widths none" in out
    linear = ("--widths", "none", "--epochs", "1", "--quiet")
    _, out, _ = run_cli(
        "train", "--dataset", tmp_path / "noise.npz", "--out", tmp_path / "s", *linear
    )
    assert "--widths" not in out  # what is done already is not advised


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("bound", "catoni", "--risk", "2", "--kl", "1", "--n", "9"),
            "risk must be in [0, 1], got 2",
        ),
        (("bound", "catoni", "--risk", "nan", "--kl", "1", "--n", "9"), "got nan"),
        (("bound", "magic", "--risk", "0", "--kl", "1", "--n", "9"), "'magic' is not one of"),
        (
            ("bound", "small-kl", "--risk", "0", "--kl", "1", "--n", "9", "--lambda", "3"),
            "--lambda",
        ),
        (("bound", "small-kl", "--risk", "0", "--kl", "1", "--n", "9", "--delta", "1"), "got 1.0"),
        (("train", "--out", "{tmp}/r", "--delta", "0"), "--delta: Input should be greater than 0"),
        (("train", "--out", "{tmp}/r", "--samples", "0"), "--samples"),
        (
            ("train", "--out", "{tmp}/r", "--activation", "sign", "--widths", "9,9", "-T", "1"),
            "at least 2 samples, got 1",
        ),
        (("train", "--out", "{tmp}/r", "--widths", "a,b"), "--widths must look like 100,100,100"),
        (("train", "--out", "{tmp}/r", "--lambda", "0.5"), "--lambda"),
        (("train", "--out", "{tmp}/r", "--dataset", "mnst"), "no data set 'mnst'"),
        (("train", "--out", "{tmp}/r", "--dataset", "{tmp}/none.csv"), "no such file"),
        (
            ("train", "--out", "{tmp}/r", "--dataset", "{tmp}/nan.csv"),
            "row 4, column '0': 'inf' is not a finite float32 number",
        ),
        (
            ("train", "--out", "{tmp}/r", "--dataset", "{tmp}/gap.csv", "--prior-fraction", "0"),
            "column '0' has missing values, whose encoding must not be fitted to the bound set",
        ),
        (
            ("train", "--out", "{tmp}/r", "--dataset", "{tmp}/gap.csv", "--drop", "5"),
            "no column '5'; the columns are 0, 1",
        ),
        (("train", "--out", "{tmp}/r", "--dataset", "{tmp}/one.csv"), "1 different values"),
        (("train", "--out", "{tmp}/file/r", "--dataset", "digits"), "file"),
        (("train", "--out", "{tmp}/file", "--dataset", "digits"), "file"),
        (("train",), "Missing option '--out'"),
        (("trian",), "unknown command 'trian'; did you mean 'train'?"),
        (("train", "--epoch", "3"), "unknown option --epoch; did you mean --epochs?"),
        (("train", "--out", "{tmp}/r", "--samples", "100000000000"), "--samples"),
        (("train", "--out", "{tmp}/r", "--batch-size", f"1{'0' * 24}"), "--batch-size"),
        (("train", "--out", "{tmp}/r", "--widths", f"1{'0' * 23}"), "between 1 and 100000"),
        (
            ("train", "--out", "{tmp}/r", "--widths", "none", "--estimator", "reinforce"),
            "reinforce",
        ),
        (("train", "--out", "{tmp}/r", "--threads", "100000"), "--threads"),
        (("train", "--out", "{tmp}/r", "--dataset", "{tmp}/header.csv"), "looks like a header"),
        (
            ("bound", "catoni", "--risk", "0", "--kl", "1", "--n", "9", "--alpha", "1"),
            "alpha must be",
        ),
        (("bound", "catoni", "--risk", "0", "--kl", "1", "--n", f"1{'0' * 330}"), "at most 10**15"),
        (
            ("bound", "small-kl", "--risk", "0", "--kl", "1", "--n", f"1{'0' * 330}"),
            "at most 10**15",
        ),
        (("bound", "catoni", "--risk", "0", "--kl", "1", "--n", "0"), "n must be at least 1"),
        (("bound", "catoni-fixed", "--kl", "0", "--n", "9"), "needs --risk"),
        (
            ("bound", "catoni-fixed", "--risk", "0", "--kl", "1", "--n", "9", "--C", "0"),
            "C must be positive",
        ),
        (("certify", "{tmp}", "--seed", "-1"), "--seed"),
        (("certify", "{tmp}"), "is not a run folder"),
        (("certify", "{tmp}", "-T", "0"), "--samples must be between 1 and 100000, got 0"),
        (("reproduce", "table3", "--out", "{tmp}/r"), "table3"),
        (
            ("reproduce", "table1", "--out", "{tmp}/r", "--columns", "a"),
            "no column 'a'; choose from",
        ),
        (
            ("reproduce", "table1", "--out", "{tmp}/r", "--dataset", "x"),
            "no data set of two classes 'x'",
        ),
        (("reproduce", "table1", "--out", "{tmp}/r", "--executor", "dask"), "go together"),
        (("certify", "{tmp}", "--executor", "dask"), "go together"),
        (("certify", "{tmp}", "--scheduler", "tcp://127.0.0.1:1"), "go together"),
        (("compare", "--n", "3", "--out", "{tmp}/b.png"), "n must be at least 8"),
        (("plan", "--error", "0.1"), "give either --n for the bound to expect, or --bound"),
        (("plan", "--error", "0.1", "--n", "99", "--bound", "0.2"), "give either --n"),
        (("plan", "--error", "0.1,0.2", "--n", "99"), "one for each of the 3 splits, got 2"),
        (("plan", "--error", "x", "--n", "99"), "--error must be numbers such as"),
        (("plan", "--error", "0.1", "--n", "0"), "n must be between 1 and"),
        (("plan", "--error", "0.1", "--n", "20"), "leaves 5 of 20 examples for the bound"),
        (("plan", "--error", "0.1", "--bound", "0.1"), "must be above the error 0.1 and below 1"),
        (("plan", "--error", "0.1", "--n", "99", "--split", "1"), "between 0 and 1, got 1"),
        (("plan", "--error", "0.1", "--n", "99", "--kl", "nan"), "kl must be finite"),
        (("plan", "--error", "0.1", "--n", "99", "--plot", "{tmp}/p.gif"), "got 'p.gif'"),
        (("train", "--out", "{tmp}/r", "--prior-scale", "0.1,-1"), "between 1e-9 and 1e9"),
        (("train", "--out", "{tmp}/r", "--prior-scale", "a"), "--prior-scale must be numbers"),
        (("predict", "{tmp}", "x.csv", "--method", "best"), "'best' is not one of 'randomised'"),
        (("train", "--out", "{tmp}/r", "--prior-scale", "1e-30"), "--prior-scale"),
        (("train", "--out", "{tmp}/r", "--lambda-rate", "-1"), "--lambda-rate"),
        (
            ("train", "--out", "{tmp}/r", "--objective", "optim-lambda", "--lambda-rate", "-1"),
            "--lambda-rate: Input",
        ),
        (("train", "--out", "{tmp}/r", "--lambda", "0"), "--lambda: Input"),
        (("train", "--out", "{tmp}/r", "--prior-epochs", "3"), "give --prior-fraction too"),
        (
            ("train", "--out", "{tmp}/r", "--test-data", "a.csv"),
            "--test-data, or test=, is for",
        ),
        (("train", "--out", "{tmp}/r", "--label", "y"), "--label, or label=, is for a table"),
        (("train", "--out", "{tmp}/r", "--fallback", "digit"), "did you mean 'digits'?"),
        (
            ("train", "--out", "{tmp}/r", "--dataset", "digits", "--data-folder", "x"),
            "--data-folder, or folder=, is for the files",
        ),
        (
            ("train", "--out", "{tmp}/r", "--dataset", "ten-digits", "--data-folder", "x"),
            "MNIST, Fashion-MNIST and CIFAR-10, not for ten-digits; leave it out",
        ),
        (
            ("train", "--out", "{tmp}/r", "--dataset", "digits", "--prior-fraction", "0.0001"),
            "fraction",
        ),
        (
            ("train", "--out", "{tmp}/r", "--dataset", "digits", "--tensorboard", "{tmp}/file/x"),
            "file",
        ),
        (
            (
                *("train", "--out", "{tmp}/r", "--dataset", "digits", "--widths", "5"),
                *("--epochs", "1", "--learning-rate", "1e30", "--quiet"),
            ),
            "training diverged",
        ),
        (("certify", "{tmp}", "--networks", "5"), "needs --bound disintegrated or best-of"),
        (("certify", "{tmp}", "--exact", "--bound", "disintegrated"), "--exact does not go with"),
        (("certify", "{tmp}", "--bound", "disintegrated", "-T", "9"), "--samples 9 has no effect"),
        (("certify", "{tmp}", "--exact", "--monte-carlo", "kl-chernoff"), "no effect with --exact"),
        (("reproduce", "table1", "--out", "{tmp}/file"), "must be a folder for a store of runs"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2_and_leaves_nothing(
    run_cli, tmp_path, arguments, message
):
    (tmp_path / "file").write_text("not a folder")
    for name, cell in (("nan", "inf"), ("gap", "nan")):
        rows = [f"{cell if i == 3 else i},{i % 2}" for i in range(40)]
        (tmp_path / f"{name}.csv").write_text("\n".join(rows))
    (tmp_path / "header.csv").write_text("0,1,y\n" + "1,2,a\n" * 20)
    (tmp_path / "one.csv").write_text("\n".join(f"{i},{1}" for i in range(10)))
    code, out, err = run_cli(*(a.format(tmp=tmp_path) for a in arguments))
    assert code == 2
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert out == ""
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--exact",), "no effect with --exact, which samples no risk"),
        (("--bound", "held-out"), "no effect with --bound held-out, which samples no risk"),
        ((), "--scheduler nonsense: there is no Dask scheduler (missing port"),
    ],
)
def test_a_certificate_that_workers_cannot_draw_is_refused(run_cli, csv, tmp_path, more, message):
    pytest.importorskip("distributed")
    run_cli("train", "--dataset", csv, "--out", tmp_path / "run", *SMALL)
    dask = ("--executor", "dask", "--scheduler", "nonsense")
    bound = () if more else ("--bound", "small-kl")
    code, out, err = run_cli("certify", tmp_path / "run", *dask, *more, *bound)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not list((tmp_path / "run").glob("certificate*"))


def test_predictions_overwrite_nothing_that_a_run_is_made_of(run_cli, csv, tmp_path):
    folder = tmp_path / "run"
    run_cli("train", "--dataset", csv, "--out", folder, *SMALL)
    before = {path: path.read_bytes() for path in (csv, *folder.iterdir())}
    (tmp_path / "new.csv").write_bytes(csv.read_bytes())
    for data, out, more in (
        (csv, csv, ()),
        (tmp_path / "new.csv", csv, ()),
        (csv, folder / "posterior.safetensors", ()),
        (csv, folder / "run.json", ("--json",)),
        (csv, tmp_path / "labels.csv", ("--json",)),
    ):
        code, _, err = run_cli("predict", folder, data, "--out", out, *more)
        assert (code, err.startswith("error: --out ")) == (2, True)
    assert {path: path.read_bytes() for path in (csv, *folder.iterdir())} == before
    assert run_cli("predict", folder, csv, "--out", tmp_path / "labels.csv")[0] == 0


def test_a_run_with_a_named_label_predicts_where_there_is_none(run_cli, tmp_path):
    rows = [f"{'ny'[i % 2]},{i % 2 + 0.01 * i},{0.1 * i}" for i in range(40)]
    (tmp_path / "own.csv").write_text("\n".join(["answer,u,v", *rows]))
    (tmp_path / "new.csv").write_text("u,v\n1,2\n3,4\n")
    asked = ("--dataset", tmp_path / "own.csv", "--label", "answer", "--out", tmp_path / "run")
    assert run_cli("train", *asked, *SMALL)[0] == 0
    code, out, _ = run_cli("predict", tmp_path / "run", tmp_path / "new.csv")
    assert (code, len(out.splitlines())) == (0, 3)
    assert "error on the labels" in run_cli("predict", tmp_path / "run", tmp_path / "own.csv")[2]


def test_a_kept_network_that_is_damaged_hinders_no_other_certificate(run_cli, tmp_path):
    folder = tmp_path / "run"
    train = ("--dataset", "digits", "--widths", "none", "--epochs", "1", "--out", folder)
    assert run_cli("train", *train, "--quiet")[0] == 0
    assert run_cli("certify", folder, "--bound", "disintegrated")[0] == 0
    assert "drawn" in run_cli("certify", folder, "-T", "2", "--json")[1]
    (folder / "drawn.safetensors").write_bytes(b"")
    code, out, _ = run_cli("certify", folder, "-T", "2", "--json")
    assert (code, json.loads(out)["test"]["drawn"]) == (0, None)


def test_verify_says_that_it_counted_the_errors_of_a_drawn_network(run_cli, tmp_path):
    folder = tmp_path / "run"
    train = ("--dataset", "digits", "--widths", "none", "--epochs", "1", "--out", folder)
    assert run_cli("train", *train, "--quiet")[0] == 0
    assert run_cli("certify", folder, "--bound", "disintegrated")[0] == 0
    last = run_cli("verify", folder)[1].splitlines()[-1]
    assert last.startswith("Verified: at most ")
    assert last.endswith(" % error with probability 0.95.")
    assert run_cli("certify", folder, "-T", "2")[0] == 0
    assert "taken as claimed" in run_cli("verify", folder)[1].splitlines()[-1]


@pytest.mark.parametrize("name", ["a[b]c", "o[/x]"])
def test_brackets_in_a_path_are_part_of_it(run_cli, csv, tmp_path, name):
    folder, data = tmp_path / name, tmp_path / "d[bold].csv"
    data.write_bytes(csv.read_bytes())
    code, out, err = run_cli("train", "--dataset", data, "--out", folder, *SMALL)
    assert (code, data.name in err) == (0, True)
    code, out, _ = run_cli("certify", folder)
    assert code == 0
    assert str(folder / "certificate.json") in "".join(out.split("\n"))


def test_one_folder_is_a_run_or_a_store(run_cli, csv, tmp_path):
    run_cli("train", "--dataset", csv, "--out", tmp_path / "run", *SMALL)
    code, _, err = run_cli("reproduce", "table1", "--out", tmp_path / "run")
    assert (code, "must be a folder for a store of runs" in err) == (2, True)
    asked = ("--columns", "mlp", "--dataset", "digits", "--epochs", "1", "--repeats", "1")
    assert run_cli("reproduce", "table1", *asked, "--out", tmp_path / "store")[0] == 0
    code, _, err = run_cli("train", "--dataset", csv, "--out", tmp_path / "store", *SMALL)
    assert (code, "is a store of `pacbayes reproduce`" in err) == (2, True)


def test_damage_is_reported_by_name(run_cli, csv, tmp_path):
    folder = tmp_path / "run"
    run_cli("train", "--dataset", csv, "--out", folder, *SMALL)
    path = folder / "posterior.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    code, _, err = run_cli("certify", folder)
    assert code == 2
    assert "posterior.safetensors is damaged" in err
    assert not (folder / "certificate.json").exists()


@pytest.mark.parametrize("text", ["[]", '"run"', "3"])
def test_verify_reports_a_record_that_is_no_object(run_cli, csv, tmp_path, text):
    folder = tmp_path / "run"
    run_cli("train", "--dataset", csv, "--out", folder, *SMALL)
    run_cli("certify", folder, "-T", 5)
    (folder / "run.json").write_text(text)
    code, _, err = run_cli("verify", folder, "--full")
    assert code == 2
    assert "run.json: as a whole: Input should be an object" in err
    assert "Traceback" not in err


def test_wrong_width_at_prediction(run_cli, csv, tmp_path):
    run_cli("train", "--dataset", csv, "--out", tmp_path / "run", *SMALL)
    (tmp_path / "wide.csv").write_text("1,2,3,4,5,6\n")
    code, _, err = run_cli("predict", tmp_path / "run", tmp_path / "wide.csv")
    assert code == 2
    assert "6 columns, but the training set has 3 features (0, 1, 2)" in err


def test_help_and_version(run_cli):
    code, out, _ = run_cli()
    assert code == 0
    assert "train" in out
    assert run_cli("--version")[1] == f"pacbayes {__version__}\n"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("run.json", lambda r: r.pop("prior_sha256")),
        ("run.json", lambda r: r["data"].pop("features")),
        ("run.json", lambda r: r["data"].update(classes=["one"])),
        ("run.json", lambda r: r["settings"].update(widths=[5])),
        ("history.json", list.clear),
    ],
)
def test_tampered_records_are_refused_in_one_line(run_cli, csv, tmp_path, name, change):
    folder = tmp_path / "run"
    run_cli("train", "--dataset", csv, "--out", folder, *SMALL)
    record = json.loads((folder / name).read_text())
    change(record)
    (folder / name).write_text(json.dumps(record))
    command = ("certify", folder) if name == "run.json" else ("plot", folder, "--out", "p.png")
    code, _, err = run_cli(*command)
    assert code == 2
    assert err.count("\n") == 1


def test_predictions_as_json_can_go_to_a_file_and_unknown_labels_are_refused(
    run_cli, csv, tmp_path
):
    folder = tmp_path / "run"
    run_cli("train", "--dataset", csv, "--out", folder, *SMALL)
    code, out, _ = run_cli("predict", folder, csv, "--json", "--out", tmp_path / "p.json")
    assert (code, out) == (0, "")
    assert len(json.loads((tmp_path / "p.json").read_text())["labels"]) == 200
    (tmp_path / "other.csv").write_text("1,2,3,medium\n")
    code, _, err = run_cli("predict", folder, tmp_path / "other.csv")
    assert code == 2
    assert "'medium' is not among big, small" in err


def test_columns_in_another_order_are_found_by_name(run_cli, tmp_path):
    one = [f"{i % 2},{i % 3},{'ab'[i % 2]}" for i in range(60)]
    other = [f"{i % 3},{i},{'ab'[i % 2]},{i % 2}" for i in range(60)]
    (tmp_path / "one.csv").write_text("\n".join(["u,v,class", *one]))
    (tmp_path / "other.csv").write_text("\n".join(["v,id,class,u", *other]))
    (tmp_path / "less.csv").write_text("v,class\n1,a\n")
    arguments = ("train", "--dataset", tmp_path / "one.csv", "--out", tmp_path / "run")
    assert run_cli(*arguments, "--repeats", *SMALL)[0] == 0
    code, out, err = run_cli("predict", tmp_path / "run", tmp_path / "one.csv")
    assert (code, "error on the labels" in err) == (0, True)
    code, again, err = run_cli("predict", tmp_path / "run", tmp_path / "other.csv")
    assert (code, again, "error on the labels" in err) == (0, out, True)
    code, _, err = run_cli("predict", tmp_path / "run", tmp_path / "less.csv")
    assert (code, "column 'u' of the training set is missing" in err) == (2, True)


def test_what_the_system_refuses_is_said_in_one_line(run_cli, csv, tmp_path):
    code, _, err = run_cli("train", "--dataset", csv, "--out", csv, *SMALL)
    assert (code, err) == (2, f"error: {csv}: file exists\n")


def test_a_run_finds_its_data_from_any_folder(run_cli, csv, tmp_path, monkeypatch):
    monkeypatch.chdir(csv.parent)
    run_cli("train", "--dataset", csv.name, "--out", tmp_path / "run", *SMALL)
    monkeypatch.chdir("/")
    assert run_cli("certify", tmp_path / "run", "-T", 2)[0] == 0


def test_predict_takes_the_label_column_the_run_was_trained_with(run_cli, tmp_path):
    path = tmp_path / "first.csv"
    path.write_text("y,a,b\n" + "".join(f"{i % 2},{i % 2},{i % 3 % 2}\n" for i in range(60)))
    run_cli("train", "--dataset", path, "--label", "y", "--out", tmp_path / "run", *SMALL)
    _, out, _ = run_cli("predict", tmp_path / "run", path, "--json")
    _, named, _ = run_cli("predict", tmp_path / "run", path, "--json", "--label", "y")
    assert out == named


def test_several_prior_scales_are_several_runs_of_which_the_best_is_named(run_cli, csv, tmp_path):
    arguments = ("train", "--dataset", csv, "--out", tmp_path / "run", *SMALL)
    code, out, err = run_cli(*arguments, "--prior-fraction", "0.5", "--prior-scale", "0.3,1")
    assert code == 0
    assert "prior learned: risk" in err
    assert "Best of 2 prior scales" in out
    best = out.rsplit(" ", 1)[-1].strip()
    assert best in (str(tmp_path / "run" / "scale-0.3"), str(tmp_path / "run" / "scale-1"))
    code, out, _ = run_cli("certify", best, "-T", "10")
    assert code == 0
    assert "2 priors tried" in out
    assert run_cli("certify", best, "--bound", "disintegrated")[0] == 0
    code, out, _ = run_cli("verify", best)
    assert code == 0
    drawn, sampled = out.strip().splitlines()[-2:]
    assert drawn.startswith("Verified, certificate-drawn.json: at most ")
    assert drawn.endswith(" error with probability 0.95.")
    assert sampled.endswith("0.95 (training risk taken as claimed; use --full to measure it).")


def test_a_folder_of_several_prior_scales_stands_for_the_best_of_them(run_cli, csv, tmp_path):
    whole = tmp_path / "run"
    arguments = ("train", "--dataset", csv, "--out", whole, *SMALL, "--prior-fraction", "0.5")
    out = run_cli(*arguments, "--prior-scale", "0.3,1")[1]
    best = Path(out.rsplit(" ", 1)[-1].strip())
    histories = [json.loads((run / "history.json").read_text()) for run in whole.glob("scale-*")]
    bounds = [min(e["bound"] for e in history) for history in histories]
    own = json.loads((best / "history.json").read_text())
    assert min(e["bound"] for e in own) == min(bounds) < max(bounds)
    said = f"{whole} has 2 prior scales; the best of them is {best}"
    for command in (
        ("certify", whole),
        ("verify", whole),
        ("predict", whole, csv),
        ("report", whole),
        ("plot", whole, "--out", tmp_path / "plot.png"),
        ("export", whole, "--out", tmp_path / "n.pt2", "--format", "torch"),
    ):
        code, _, err = run_cli(*command)
        assert (code, said in err) == (0, True), err
    assert (best / "certificate-fixed.json").exists() or (best / "certificate-drawn.json").exists()
    assert (best / "report.html").exists()
    assert not any(path.is_file() for path in whole.iterdir())
    with pytest.raises(ValueError, match=r"no run\.json; its runs are .*scale-0\.3, .*scale-1"):
        open_run(whole)
    (whole / "scale-1" / "posterior.safetensors").unlink()
    code, _, err = run_cli("certify", whole)
    assert code == 2
    assert err == (
        f"error: {whole / 'scale-1'} is not fully trained; run the same train command to resume "
        "it\n"
    )


def test_reproduce_makes_runs_then_a_table_and_knows_how_far_it_is(run_cli, tmp_path):
    asked = ("--columns", "mlp", "--dataset", "digits", "--epochs", "1", "--repeats", "1")
    asked += ("--out", tmp_path / "store")
    code, out, _ = run_cli("reproduce", "status", *asked)
    assert (code, out.splitlines()[0]) == (0, "0 done  0 running  0 failed  1 waiting")
    code, out, err = run_cli("reproduce", "table1", *asked, "--as-is")
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split()[:2] == ["mlp", "0"]
    assert not (tmp_path / "store").exists()
    code, out, err = run_cli("reproduce", "table1", *asked, "--format", "csv")
    assert code == 0
    assert out.splitlines()[0].startswith("column,repeats,train linear")
    assert out.splitlines()[1].startswith("mlp,1,")
    assert "1 of 1" in err
    code, out, err = run_cli("reproduce", "table2", *asked)
    assert (code, err) == (0, "")  # nothing is left to make
    code, out, _ = run_cli("reproduce", "status", *asked, "--json")
    assert json.loads(out)["done"] == 1
    code, out, _ = run_cli("reproduce", "status", "--out", tmp_path / "store")  # of what was asked
    assert out.splitlines() == ["1 done  0 running  0 failed  0 waiting"]
    code, out, _ = run_cli("reproduce", "status", *asked[:-2], "--repeats", "2", *asked[-2:])
    assert out.splitlines()[0] == "1 done  0 running  0 failed  1 waiting"
    code, _, err = run_cli("reproduce", "status", "--out", tmp_path / "stroe")
    assert (code, "is not a store of runs" in err) == (2, True)
    code, out, _ = run_cli("reproduce", "slurm", *asked)
    assert out.startswith("#!/bin/bash")


def test_reproduce_shows_the_search_without_the_repeats(run_cli, tmp_path):
    from pacbayes.paper.columns import grid
    from pacbayes.paper.store import Store

    asked = ("--columns", "mlp,fast-relu", "--dataset", "digits", "--epochs", "1")
    asked += ("--out", tmp_path / "store")
    diverged, store = next(grid("mlp", "digits", 1)), Store(tmp_path / "store")
    with store.lease(diverged):
        store.fail(diverged, "FloatingPointError: training diverged in epoch 1")
    code, out, err = run_cli("reproduce", "grid", *asked)
    assert (code, len(out.splitlines())) == (0, 1 + 3)  # what diverged is not tried again
    assert sum("best" in line for line in out.splitlines()) == 1
    assert any(line.startswith("2 runs made") for line in err.splitlines())  # no repeats
    code, out, _ = run_cli("reproduce", "grid", *asked, "--json")
    assert [(p["learning_rate"], p["state"]) for p in json.loads(out)] == [
        *((0.1, "failed"), (0.01, "done"), (0.001, "done"))
    ]
    code, _, err = run_cli("reproduce", "grid", *asked, "--columns", "fast-relu")
    assert code == 2
    assert "have no grid" in err


def test_certify_per_class_and_the_usual_bound_near_a_learned_prior(run_cli, csv, tmp_path):
    run = tmp_path / "run"
    learned = ("--prior-fraction", "0.5", "--prior-epochs", "5")
    assert run_cli("train", "--dataset", csv, "--out", run, *SMALL, *learned)[0] == 0
    code, out, _ = run_cli("certify", run, "--json")
    assert code == 0
    shares = {"pac-bayes, held-out", "pac-bayes, disintegrated-fixed"}
    assert json.loads(out)["ledger"].keys() == shares
    assert json.loads(run_cli("certify", run, "-T", 5, "--json")[1])["bound_name"] == "small-kl"
    code, out, _ = run_cli("certify", run, "--per-class")
    assert code == 0
    assert "all of these hold. Theorem: held-out." in out
    classes = json.loads(run_cli("certify", run, "--per-class", "--json")[1])["classes"]
    names = json.loads((run / "run.json").read_text())["data"]["classes"]
    assert list(classes) == names
    code, out, _ = run_cli("verify", run)
    assert code == 0
    for i, name in enumerate(names):
        head = f"Verified, certificate-fixed-class-{i}.json: at most "
        (line,) = (line for line in out.splitlines() if line.startswith(head))
        assert line.endswith(f" error on class {name} with probability 0.95.")
    page = tmp_path / "page.html"
    assert run_cli("report", run, "--out", page)[0] == 0
    assert len(re.findall(r"✓ all \d+ checks passed", page.read_text())) == len(names)


def test_a_certificate_above_the_error_of_a_constant_answer_is_remarked_on(run_cli, tmp_path):
    x = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    np.savez(tmp_path / "rare.npz", x=x, y=np.arange(300) < 18)
    run, rare = tmp_path / "run", tmp_path / "rare.npz"
    assert run_cli("train", "--dataset", rare, "--out", run, *SMALL, "--quiet")[0] == 0
    _, out, _ = run_cli("certify", run, "-T", 5)
    assert "is above the 6.00 % error of always answering" in " ".join(out.split())
    assert run_cli("report", run)[0] == 0
    assert "is above the 6.00 % error of always answering" in (run / "report.html").read_text()
