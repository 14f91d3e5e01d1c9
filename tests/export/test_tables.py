"""Exported files take rows as the table has them, and answer them as `pacbayes predict` does."""

import csv
import json
import re
import string
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_breast_cancer

import pacbayes
from pacbayes import folders
from pacbayes.choices import Predictor
from pacbayes.data import DataError, DataSource
from pacbayes.data.cells import MISSING, TRUTH
from pacbayes.data.encoding import BooleanCode, CategoryCode, Encoding, NumberCode
from pacbayes.export import comparison, encoding, export_run, graphs
from pacbayes.folders.folder import Run

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "export.md"
LOADER, _ = re.findall(r"```python\n(.*?)```", DOCUMENTATION.read_text(), re.DOTALL)
QUICK = {"prior_fraction": 0.0, "epochs": 3, "widths": (6,), "batch_size": 20, "lam": 1e3}
LEARNED = {**QUICK, "prior_fraction": 0.5, "prior_epochs": 20}
HARD = ["age", "label", "x", "score", "pacbayes/x", 'größe, "cm"', "paid"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Certified runs on tables of every kind, each made once."""
    folder, known = tmp_path_factory.mktemp("tables"), {}

    def get(case):
        if case not in known:
            table, label, bound, changes = CASES[case]()
            path = folder / f"{case}.csv"
            table.to_csv(path, index=False)
            known[case] = run_on(folder / case, path, label, bound, **changes)
        return known[case]

    return get


def run_on(folder, path, label, bound, **changes):
    run = Run.create(folder, None, DataSource(str(path), label=label), changes)
    data = run.load_data()
    for _ in folders.train_run(run, data):
        pass
    folders.certify_run(run, run.load_network(), data, delta=0.05, bound=bound, samples=5)
    return run


def numbers(n=300):
    """Columns far from the range of features, so that rows cannot pass for them."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, 4))
    x = z * [1e-3, 40, 1e4, 2] + [0, 300, -1e6, 7]
    names = ["a", "b b", "score", "c"]
    return pd.DataFrame(x, columns=names).assign(y=(z[:, 0] + z[:, 1] > 0).astype(int))


def mixed(n=400, seed=0):
    """Numbers, categories, truth values and missing values; three classes with names."""
    rng = np.random.default_rng(seed)
    z, town = rng.normal(size=(n, 2)), rng.choice(["Bonn", "Köln", "Ulm", "Au"], n)
    paid = rng.choice(["yes", "No", "YES"], n)
    rare = np.where(rng.random(n) < 0.03, [f"rare {i % 4}" for i in range(n)], "usual")
    score = z[:, 0] + (town == "Ulm") + (paid == "No") - (rare == "usual")
    columns = [
        z[:, 0] * 20 + 40,
        rng.integers(0, 2, n) > 0,
        z[:, 1],
        town,
        rare,
        z[:, 1] ** 2,
        paid,
    ]
    table = pd.DataFrame(dict(zip(HARD, columns, strict=True))).astype(object)
    for name, share in (("age", 0.1), ("score", 0.1), ("label", 0.05), ("paid", 0.1)):
        table.loc[rng.random(n) < share, name] = rng.choice(["", "?", "NA"])
    names = np.array(["high", "low", "middle"])
    return table.assign(class_=names[np.digitize(score, [-0.5, 0.7])])


def plain(n=200):
    rng = np.random.default_rng(1)
    z = rng.normal(size=(n, 2))
    flags = np.where(z[:, 1] > 0.3, "true", "false")
    return pd.DataFrame({"z": z[:, 0], "flag": flags, "y": np.where(z[:, 0] > 0, "p", "q")})


CASES = {
    "numbers": lambda: (numbers(), "y", "held-out", LEARNED),
    "mixed": lambda: (mixed(), "class_", "disintegrated", LEARNED),
    "plain": lambda: (plain(), "y", "small-kl", QUICK),
}


def predicted(run, path, method=None):
    method = method or folders.certified_predictor(run)
    return folders.predict(run, str(path), method, samples=5, seed=0, label=None)


def loaded(file, path, monkeypatch, capsys):
    """Answer a CSV file by the code of the documentation, and nothing else."""
    folder = path.parent / f"{file.stem}-{path.stem}"
    folder.mkdir()
    (folder / "mine.onnx").write_bytes(file.read_bytes())
    (folder / "new.csv").write_bytes(path.read_bytes())
    monkeypatch.chdir(folder)
    exec(LOADER, names := {})
    return [str(label) for label in names["label"]], capsys.readouterr().out


def test_breast_cancer_has_its_certified_error_when_fed_with_the_columns_of_its_file(
    run_cli, tmp_path, monkeypatch, capsys
):
    path, run, out = tmp_path / "bc.csv", tmp_path / "R", tmp_path / "bc.onnx"
    table = load_breast_cancer(as_frame=True).frame
    table.to_csv(path, index=False)
    assert run_cli("train", "--dataset", path, "--out", run)[0] == 0
    assert run_cli("certify", run)[0] == 0
    code, printed, err = run_cli("export", run, "--format", "onnx", "--out", out)
    assert (code, err) == (0, "")
    assert "for 569 rows of bc.csv and 32 made-up rows." in printed
    assert "bc.onnx: the fixed predictor" in printed
    labels, said = loaded(out, path, monkeypatch, capsys)
    known = predicted(folders.open_run(run), path)
    assert labels == known.labels
    error = np.mean(np.array(labels) != table.target.astype(str))
    assert error == known.error < 0.05
    bound = json.loads((run / "certificate-fixed.json").read_text())["bound"]
    assert f"at most {100 * bound:.2f} % error"[:12] in said
    assert error < bound


@pytest.mark.parametrize("case", CASES)
def test_a_file_answers_every_row_as_predict_does(made, tmp_path, monkeypatch, capsys, case):
    run, out = made(case), tmp_path / "p.onnx"
    method = "fixed" if case == "numbers" else None
    if case == "plain":  # its certificate is that of the randomised classifier, which draws
        folders.certify_run(
            run, run.load_network(), run.load_data(), delta=0.05, bound="disintegrated"
        )
        method = "drawn"
    e = export_run(run, out, "onnx", method)
    source = Path(run.record.data.source.located(run.folder).name)
    labels, said = loaded(out, source, monkeypatch, capsys)
    known = predicted(run, source, Predictor(e.method)).labels
    assert labels == known
    assert len(set(labels)) == len(run.record.data.classes)
    assert "covered by certificate" in said
    assert e.difference < 1e-9


def test_later_rows_may_have_what_the_training_set_did_not(made, tmp_path, monkeypatch, capsys):
    run, out, path = made("mixed"), tmp_path / "p.onnx", tmp_path / "later.csv"
    assert export_run(run, out, "onnx").method == "drawn"
    rng, table = np.random.default_rng(3), mixed(300, seed=2).drop(columns="class_")
    for name in table:  # every column misses values, also those that never did
        table.loc[rng.random(300) < 0.1, name] = rng.choice(["", "n/A", "NaN", "null"])
    table.loc[rng.random(300) < 0.2, HARD[3]] = "Zürich"
    table.loc[rng.random(300) < 0.2, "paid"] = rng.choice(["nO", "yEs", "maybe", "1", "0.0"])
    table[list(reversed(HARD))].assign(extra=1).to_csv(path, index=False, quoting=csv.QUOTE_ALL)
    labels, _ = loaded(out, path, monkeypatch, capsys)
    assert labels == predicted(run, path).labels
    assert len(set(labels)) == 3


def test_numbers_and_truth_values_are_taken_however_they_are_written(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "t.csv"
    month, seen = rng.choice(["1", "2", "10"], 200), rng.choice(["True", "False", "often"], 200)
    table = pd.DataFrame({"month": month, "seen": seen, "paid": rng.choice(["yes", "no"], 200)})
    good = (month == "2") ^ (seen == "True") ^ (table["paid"] == "yes")
    table.assign(y=np.where(good, "good", "bad")).to_csv(path, index=False)
    source = DataSource(str(path), categorical=("month",))
    run = Run.create(tmp_path / "run", None, source, LEARNED | {"repeats": True})
    data = run.load_data()
    for _ in folders.train_run(run, data):
        pass
    folders.certify_run(run, run.load_network(), data, delta=0.05, bound="held-out")
    export_run(run, out := tmp_path / "p.onnx", "onnx", "fixed")
    session = session_of(out)
    label = [o.name for o in session.get_outputs()].index("label")
    for cells in (("2.0", "TRUE", "1"), ("10", "false", "0"), ("1.0", "True", "1.0")):
        row = dict(zip(("month", "seen", "paid"), cells, strict=True))
        found = session.run(None, row_of(session, **row))[label]
        assert [str(c) for c in found] == folders.predict(run, [row], "fixed").labels


def session_of(file):
    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])


def row_of(session, **cells):
    """One row of a table by the names of its inputs, with 0 or an empty text in other cells."""
    row = {}
    for node in session.get_inputs():
        text = "string" in node.type
        value = cells.get(node.name, "" if text else 0.0)
        row[node.name] = np.array([[value]], object if text else float)
    return row


def test_columns_keep_their_names_where_the_graph_does_not_need_them(made, tmp_path):
    run, out = made("mixed"), tmp_path / "p.onnx"
    e = export_run(run, out, "onnx")
    columns = json.loads(session_of(out).get_modelmeta().custom_metadata_map["columns"])
    assert [c["name"] for c in columns] == HARD
    inputs = ["age", "column_label", "x", "column_score", "column_pacbayes/x", *HARD[5:]]
    assert [c["input"] for c in columns] == [port.name for port in e.inputs] == inputs
    number, boolean, category = "number", "boolean", "category"
    kinds = [number, boolean, number, category, category, number, boolean]
    assert [c["kind"] for c in columns] == kinds
    taken = graphs._input_names(surface_of(["score", "column_score", "column_column_score"]))
    assert len(set(taken.values())) == 3
    assert taken["column_score"] == "column_score"


def surface_of(names):
    column = [NumberCode(name=name) for name in names]
    network = encoding.Explicit(torch.nn.Identity(), (), (graphs.Port("score", (), "", ""),))
    assert not network.noise
    return encoding.taking_rows(network, Encoding(columns=tuple(column)))


@pytest.mark.parametrize(
    ("cell", "complaint"),
    [
        ({"age": np.inf}, "refused_number_missing_or_too_large"),
        ({"age": -1e39}, "refused_number_missing_or_too_large"),
        ({"column_score": " Ulm"}, "refused_text_missing_or_with_spaces"),
        ({"column_score": "Ulm\u2003"}, "refused_text_missing_or_with_spaces"),
        ({"paid": "yes\n"}, "refused_text_missing_or_with_spaces"),
    ],
)
def test_a_file_refuses_what_it_cannot_answer_as_predict_does(made, tmp_path, cell, complaint):
    export_run(made("mixed"), out := tmp_path / "p.onnx", "onnx")
    session = session_of(out)
    session.run(None, row_of(session))
    with pytest.raises(Exception, match=complaint):
        session.run(None, row_of(session, **cell))
    with pytest.raises(Exception, match="Unexpected input data type"):
        session.run(None, row_of(session) | {"age": np.zeros((1, 1), np.float32)})


def test_what_was_never_fitted_is_refused_where_it_is_missing(made, tmp_path):
    run, out, path = made("plain"), tmp_path / "p.onnx", tmp_path / "new.csv"
    e = export_run(run, out, "onnx", "randomised")
    session, noise = session_of(out), {}
    noise = {p.name: np.zeros((1, p.shape[1])) for p in e.inputs[2:]}
    session.run(None, {"z": [[0.0]], "flag": [["Unknown"]], **noise})
    for z, flag in (("", "true"), ("0.5", "N/a")):
        path.write_text(f"z,flag\n{z},{flag}\n")
        with pytest.raises(DataError, match="is missing"):
            predicted(run, path)
        with pytest.raises(Exception, match="refused_"):
            session.run(None, {"z": [[float(z or "nan")]], "flag": [[flag]], **noise})


def test_a_torch_program_takes_the_numbers_of_a_table(made, tmp_path):
    run, out = made("numbers"), tmp_path / "p.pt2"
    e = export_run(run, out, "torch", "fixed")
    source = run.record.data.source.located(run.folder).name
    names = {"frame": pd.read_csv(source)}
    exec(e.code, names)
    known = predicted(run, source, Predictor.FIXED).labels
    assert [e.classes[i] for i in names["label"]] == known
    extra = {"pacbayes.json": ""}
    torch.export.load(out, extra_files=extra)
    columns = json.loads(extra["pacbayes.json"])["columns"]
    assert [c["name"] for c in columns] == ["a", "b b", "score", "c"]
    assert [c["input"] for c in columns] == ["x"] * 4
    with pytest.raises(Exception, match="index"):
        torch.export.load(out).module()(torch.full((1, 4), torch.inf).double())


def test_a_torch_program_takes_no_texts(run_cli, made, tmp_path):
    out = tmp_path / "p.pt2"
    code, printed, err = run_cli("export", made("mixed").folder, "--format", "torch", "--out", out)
    assert (code, printed) == (2, "")
    assert err == (
        "error: column 'label' has texts, which a torch program cannot take; use --format onnx\n"
    )
    assert not list(tmp_path.iterdir())


def broken_scale(monkeypatch):
    number = encoding._Encoder._numbers
    monkeypatch.setattr(
        encoding._Encoder, "_numbers", lambda s, x: [a * 1.001 for a in number(s, x)]
    )


def features_as_input(monkeypatch):
    """The defect that made this file: the encoding is left to whoever uses the file."""
    monkeypatch.setattr(encoding._Encoder, "_numbers", lambda s, x: [x[:, s.number_places].float()])


def unknown_category(monkeypatch):
    """Categories that the training set did not have pass for one that it had."""
    raw = encoding._raw

    def known(code, *, plain):
        column = raw(code, plain=plain)
        object.__setattr__(column, "other", 0)
        return column

    monkeypatch.setattr(encoding, "_raw", known)


def swapped_classes(monkeypatch):
    of = graphs._of_classes
    monkeypatch.setattr(graphs, "_of_classes", lambda c: of(tuple(reversed(c))))


def columns_in_another_order(monkeypatch):
    columns = comparison.Rows.columns.fget
    swapped = property(lambda r: [*columns(r)[:-2], *reversed(columns(r)[-2:])])
    monkeypatch.setattr(comparison.Rows, "columns", swapped)


def another_prediction(monkeypatch):
    """`pacbayes predict` reads its rows otherwise than the graph and the scores."""
    predict = comparison.predict

    def otherwise(*arguments, **given):
        found = predict(*arguments, **given)
        return type(found)(found.predictor, found.labels[::-1], None, None)

    monkeypatch.setattr(comparison, "predict", otherwise)


@pytest.mark.parametrize(
    ("case", "format", "method", "breaks"),
    [
        ("numbers", "onnx", "fixed", broken_scale),
        ("numbers", "torch", "fixed", features_as_input),
        ("numbers", "onnx", "fixed", features_as_input),
        ("numbers", "onnx", "randomised", features_as_input),
        ("mixed", "onnx", "drawn", unknown_category),
        ("mixed", "onnx", "drawn", swapped_classes),
        ("numbers", "onnx", "fixed", columns_in_another_order),
        ("numbers", "torch", "fixed", another_prediction),
        ("mixed", "onnx", "vote", broken_scale),
    ],
)
def test_a_broken_file_is_not_put_in_place(
    run_cli, made, tmp_path, monkeypatch, case, format, method, breaks
):
    out = tmp_path / ("p.onnx" if format == "onnx" else "p.pt2")
    out.write_text("as it was")
    run = made(case)
    breaks(monkeypatch)
    arguments = ("--format", format, "--method", method, "-T", 5, "--out", out)
    code, printed, err = run_cli("export", run.folder, *arguments)
    assert (code, printed) == (2, "")
    assert err.startswith("error: the exported graph ")
    assert err.endswith("nothing was written\n")
    assert err.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == [out.name]
    assert out.read_text() == "as it was"


def test_without_the_data_made_up_rows_are_compared(made, tmp_path, monkeypatch):
    run, out = made("mixed"), tmp_path / "p.onnx"
    monkeypatch.setattr(comparison, "_own", lambda run, limit: None)
    assert export_run(run, out, "onnx").rows == "32 made-up rows"
    for breaks in (broken_scale, unknown_category):
        with monkeypatch.context() as patch:
            breaks(patch)
            with pytest.raises(RuntimeError, match="nothing was written"):
                export_run(run, tmp_path / "q.onnx", "onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["p.onnx"]


def test_data_that_are_gone_are_said_to_be(run_cli, made, tmp_path):
    run, out = made("numbers"), tmp_path / "p.onnx"
    path = Path(run.record.data.source.located(run.folder).name)
    moved = path.rename(path.with_suffix(".moved"))
    try:
        code, printed, _ = run_cli("export", run.folder, "--format", "onnx", "--out", out)
    finally:
        moved.rename(path)
    assert code == 0
    assert "for 32 made-up rows." in printed


def test_nothing_is_downloaded_to_compare(tmp_path, monkeypatch):
    monkeypatch.setenv("PACBAYES_CACHE", str(tmp_path))
    assert not comparison._at_hand(DataSource("binary-mnist"))
    (tmp_path / "mnist").mkdir()
    assert comparison._at_hand(DataSource("binary-mnist"))
    assert comparison._at_hand(DataSource("cifar-10", folder=str(tmp_path)))
    assert comparison._at_hand(DataSource("digits"))


def test_made_up_rows_have_every_text_and_one_that_is_new():
    categories = tuple(f"c{i:02}" for i in range(45))
    codes = (
        NumberCode(name="z", mean=5.0, scale=2.0, fill=1.0),
        CategoryCode(name="c", categories=categories, rare=("unseen", "r"), missing=True),
        BooleanCode(name="b"),
    )
    cells = comparison._made_up(Encoding(columns=codes), 100).cells
    assert {*cells["c"]} == {*categories, "r", "unseen", "unseen?", *MISSING, "NA", "NaN"}
    assert {*TRUTH, "YES", "unseen", *MISSING} <= {*cells["b"]}
    assert len(cells["z"]) == 56
    assert 0 < np.isnan(cells["z"]).sum() < 24
    assert abs(np.nanmean(cells["z"]) - 5) < 2
    plainly = comparison._made_up(
        Encoding(columns=(NumberCode(name="z"), BooleanCode(name="b"))), 100
    )
    assert not np.isnan(plainly.cells["z"]).any()
    assert not {*MISSING} & set(plainly.cells["b"])


def test_a_graph_knows_every_spelling_that_the_reader_of_tables_knows():
    """Whatever Python's `lower` makes one of the words, and no more."""
    column = encoding._raw(BooleanCode(name="b", missing=True), plain=False)
    letters = {*"".join((*TRUTH, *MISSING))}
    others = {c for c in map(chr, range(sys.maxunicode + 1)) if c.lower() in letters}
    assert others <= {*string.ascii_letters, *letters}  # so that the spellings can be listed
    words = 4 + sum(2**n for n in (4, 5, 3, 2)) + 1 + 1 + 4 + 2**2 * 2 + 8 + 16 - 4
    assert len(column.codes) == words  # four are numbers
    assert column.codes["1"] == column.codes["1.0"] == column.codes["true"]
    assert column.codes["0"] == column.codes["0.0"] == column.codes["false"]
    for word, code in column.codes.items():
        assert (code == column.other + 1) == (word.lower() in MISSING)


def test_only_spaces_that_the_reader_trims_are_refused():
    trimmed = [c for c in map(chr, range(sys.maxunicode + 1)) if not c.strip()]
    assert {int(code, 16) for code in re.findall(r"\{(\w+)\}", graphs._SPACE)} == {
        *map(ord, trimmed)
    }


def test_a_saved_classifier_is_exported_for_its_own_columns(tmp_path):
    table = numbers()
    model = pacbayes.PACBayesClassifier(epochs=3, random_state=0)
    x, y = table.drop(columns="y"), table.y
    model.fit(x, y).save(tmp_path / "R", x, y)
    run = folders.open_run(tmp_path / "R")
    e = export_run(run, tmp_path / "p.onnx", "onnx")
    assert (e.method, e.rows) == (model.predictor_, "300 rows of data.parquet and 32 made-up rows")
    names = {"frame": x}
    exec(e.code, names)
    assert (names["label"] == model.predict(x)).all()
    assert 0.05 < names["label"].mean() < 0.95


@pytest.mark.parametrize("scaled", ["auto", None])
def test_a_saved_classifier_of_arrays_is_exported_too(tmp_path, scaled):
    table = numbers()
    x, y = table.drop(columns="y").to_numpy() / [1, 300, 1e6, 7], np.where(table.y, "no", "yes")
    model = pacbayes.PACBayesClassifier(
        epochs=3, random_state=0, preprocessing=scaled, predictor="fixed"
    )
    model.fit(x, y).save(tmp_path / "R", x, y)
    e = export_run(folders.open_run(tmp_path / "R"), tmp_path / "p.onnx", "onnx")
    assert e.method == "fixed"
    session = session_of(tmp_path / "p.onnx")
    given = {"x": x.astype(np.float32)}
    if scaled:
        given = {str(i): column[:, None] for i, column in enumerate(x.T)}
    assert (session.run(["label"], given)[0] == model.predict(x)).all()
    first = next(iter(given))
    with pytest.raises(Exception, match="refused_number"):
        session.run(None, given | {first: np.full_like(given[first], np.inf)})


def test_images_are_answered_as_predict_does(run_cli, tmp_path):
    run, out, x = tmp_path / "R", tmp_path / "p.onnx", tmp_path / "x.npz"
    rng = np.random.default_rng(0)
    images = rng.normal(size=(120, 1, 6, 6)).astype(np.float32)
    labels = np.digitize(images[:, 0, :3, :3].mean((1, 2)), [-0.1, 0.1]) + 5
    np.savez(x, x=images, y=labels)
    asked = ("--network", "conv", "--epochs", 2, "--prior-fraction", 0.5, "--prior-epochs", 20)
    assert run_cli("train", "--dataset", x, *asked, "--out", run)[0] == 0
    assert run_cli("certify", run, "--bound", "held-out")[0] == 0
    code, printed, _ = run_cli("export", run, "--format", "onnx", "--out", out)
    assert code == 0
    assert "for 120 rows of x.npz." in printed
    session = session_of(out)
    flat = images.reshape(120, -1)
    found = session.run(["label"], {"x": flat})[0]
    assert found.dtype == np.int64
    assert found.astype(str).tolist() == predicted(folders.open_run(run), x).labels
    assert len(set(found)) > 1
    with pytest.raises(Exception, match="refused_number"):
        session.run(None, {"x": np.where(flat == flat.max(), np.nan, flat)})
