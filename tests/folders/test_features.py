"""Runs on tables as they come: features of the prior's rows, kept, verified and used again."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from pacbayes import Settings, folders
from pacbayes.data import DataError, DataSource
from pacbayes.data.encoding import Encoding, fit_encoding
from pacbayes.files import DamagedFileError, file_sha256, load_tensors, save_tensors
from pacbayes.folders.prediction import predict
from pacbayes.report import collect, page
from pacbayes.training.priors import split
from pacbayes.verify import verify

LEARNED = Settings.of("fast", widths=(6,), epochs=3, prior_epochs=10, prior_fraction=0.5)
FREE = Settings.of("fast", widths=(6,), epochs=3)


def columns(n=240, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.normal(50, 9, n)
    town = rng.choice(["Ulm", "Bonn", "Köln", None], n, p=[0.5, 0.3, 0.1, 0.1])
    well = (age > 50) ^ (town == "Ulm")
    return {
        "id": [f"p{i}" for i in range(n)],
        "age": [None if i % 11 == 5 else float(a) for i, a in enumerate(age)],
        "mass": rng.normal(70, 15, n).tolist(),
        "smoker": [bool(s) for s in rng.random(n) < 0.4],
        "town": town.tolist(),
        "y": ["well" if w else "sick" for w in well],
    }


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "data.parquet"
    parquet.write_table(pa.table(columns()), path)
    return DataSource(str(path), drop=("id",))


def trained(folder, source, settings=LEARNED):
    data = folders.featured(source.read(), settings)
    return folders.train_all(folder, settings, source, data)[0]


def certified(run, bound="held-out"):
    asked = {"delta": 0.05, "bound": bound, "samples": 5}
    return folders.certify_run(run, run.load_network(), run.load_data(), **asked)


def failed(folder, **options):
    return [f.name for f in verify(folder / "certificate-fixed.json", **options) if not f.holds]


def reseal(run):
    """Give run.json the hash of the features, and everything else the hash of run.json."""
    path, before = run.folder / "run.json", run.sha256
    record = json.loads(path.read_text())
    after = file_sha256(run.folder / "features.json")
    path.write_text(path.read_text().replace(record["data"]["features_sha256"], after))
    claim = run.folder / "certificate-fixed.json"
    claim.write_text(claim.read_text().replace(record["data"]["features_sha256"], after))
    posterior = run.folder / "posterior.safetensors"
    tensors, header = load_tensors(posterior)
    old = file_sha256(posterior)
    save_tensors(posterior, tensors, {"run": file_sha256(path)})
    assert header == {"run": before}
    claim.write_text(claim.read_text().replace(old, file_sha256(posterior)))


def test_features_are_those_of_the_priors_rows_and_everything_agrees(tmp_path, table):
    run = trained(tmp_path / "run", table)
    own = split(240, 0.5, 0)[0]
    assert run.encoding == fit_encoding(table.read().train, own)
    stored = (run.folder / "features.json").read_text()
    assert Encoding.model_validate_json(stored) == run.encoding
    assert run.record.data.features == run.load_data().x_train.shape[1] == 8
    certificate = certified(run)
    assert certificate.assumptions.preprocessing.endswith("fitted to the prior's part alone")
    assert certificate.provenance["features_sha256"] == file_sha256(run.folder / "features.json")
    assert failed(run.folder) == []
    certified(run, "small-kl")
    found = list(verify(run.folder / "certificate.json", full=True))
    assert all(finding.holds for finding in found)
    assert "constants fitted to the prior's 120 rows again" in [finding.detail for finding in found]
    again = trained(tmp_path / "run", table)  # the same command resumes it
    assert again.record == run.record


@pytest.mark.parametrize(
    "change",
    [
        lambda columns: columns[0].update(mean=columns[0]["mean"] + 1e-9),
        lambda columns: columns[0].update(fill=0.0),
        lambda columns: columns[3].update(categories=["Ulm", "Bonn"], rare=[]),
        lambda columns: columns[2].update(fill=not columns[2]["fill"]),
    ],
)
def test_features_that_other_rows_had_a_part_in_are_found_out(tmp_path, table, change):
    run = trained(tmp_path / "run", table)
    certified(run)
    path = run.folder / "features.json"
    record = json.loads(path.read_text())
    change(record["columns"])
    path.write_text(json.dumps(record))
    assert "features" in failed(run.folder)  # another hash
    with pytest.raises(DamagedFileError, match=r"features\.json is missing or is not the run's"):
        run.load_data()
    reseal(run)
    assert "features" in failed(run.folder)  # and another encoding


def test_a_file_of_features_is_the_certified_one_to_the_last_byte(tmp_path, table):
    run = trained(tmp_path / "run", table)
    certified(run)
    path = run.folder / "features.json"
    path.write_text(path.read_text() + "\n")  # which says the same
    assert "features" in failed(run.folder)


def test_damaged_features_are_named(tmp_path, table):
    run = trained(tmp_path / "run", table)
    certified(run)
    twice = '{"columns": 1, "columns": 2}'
    for text, fault in (("no JSON", " is damaged"), ("[]", ": as a whole"), (twice, " is damaged")):
        (run.folder / "features.json").write_text(text)
        with pytest.raises(ValueError, match=rf"features\.json{fault}"):
            failed(run.folder)
    (run.folder / "features.json").unlink()
    with pytest.raises(ValueError, match=r"features\.json does not exist"):
        failed(run.folder)


def test_an_assumption_about_preprocessing_cannot_be_left_out(tmp_path, table):
    run = trained(tmp_path / "run", table)
    certified(run)
    path = run.folder / "certificate-fixed.json"
    record = json.loads(path.read_text())
    record["assumptions"]["preprocessing"] = None
    path.write_text(json.dumps(record))
    assert failed(run.folder) == ["assumptions"]


def test_predictions_match_columns_by_name_in_any_file(tmp_path, table):
    test = columns(30, seed=1)
    parquet.write_table(pa.table(test), tmp_path / "test.parquet")
    run = trained(
        tmp_path / "run", DataSource(table.name, test=str(tmp_path / "test.parquet"), drop=("id",))
    )
    certified(run)
    order = ["town", "more", "y", "smoker", "mass", "age"]
    cells = [["" if v is None else v for v in {**test, "more": range(30)}[name]] for name in order]
    lines = [";".join(order), *(";".join(map(str, row)) for row in zip(*cells, strict=True))]
    (tmp_path / "new.csv").write_text("\n".join(lines))
    ask = {"method": "fixed", "samples": 1, "seed": 0, "label": None}
    one, two = (predict(run, str(tmp_path / n), **ask) for n in ("test.parquet", "new.csv"))
    assert one == two
    assert one.error is not None
    assert folders.test_errors(run, run.load_network(), run.load_data()).fixed == one.error
    (tmp_path / "rome.csv").write_text("age,smoker,town,mass\n,maybe,Rome,\n")  # all of it unknown
    assert len(predict(run, str(tmp_path / "rome.csv"), **ask).labels) == 1
    (tmp_path / "less.csv").write_text("age,smoker,mass\n1,yes,2\n")
    with pytest.raises(DataError, match=r"less\.csv: column 'town' of the training set is missing"):
        predict(run, str(tmp_path / "less.csv"), **ask)
    with pytest.raises(DataError, match=r"new\.csv: no column 'answer'"):
        predict(run, str(tmp_path / "new.csv"), **(ask | {"label": "answer"}))
    np.savez(tmp_path / "x.npz", x=np.zeros((3, 4)))
    with pytest.raises(DataError, match="arrays have numbers alone, but column 'smoker'"):
        predict(run, str(tmp_path / "x.npz"), **ask)


def test_without_a_part_for_the_prior_columns_stay_as_they_are(tmp_path, table):
    with pytest.raises(DataError, match=r"'age' has missing values, .*--prior-fraction"):
        trained(tmp_path / "run", table, FREE)
    assert not (tmp_path / "run").exists()
    kept = DataSource(table.name, drop=("id", "age", "mass", "town"))
    with pytest.raises(ValueError, match="examples are duplicates"):
        trained(tmp_path / "run", kept, FREE)
    run = trained(tmp_path / "run", kept, FREE.model_copy(update={"repeats": True}))
    certificate = certified(run)
    assert certificate.assumptions.preprocessing is None
    assert failed(run.folder) == []


def test_copies_are_looked_for_among_rows_and_not_among_features(tmp_path, table):
    part = columns()
    part = {name: [*values, *values[:60]] for name, values in part.items()}
    parquet.write_table(pa.table(part), tmp_path / "data.parquet")
    with pytest.raises(ValueError, match="60 of 300 examples are duplicates"):
        trained(tmp_path / "run", table)
    once = DataSource(table.name, drop=("id",), deduplicate=True)
    assert trained(tmp_path / "run", once).record.data.n == 120


def test_discrete_columns_are_no_near_copies(tmp_path):
    rng = np.random.default_rng(0)
    n = 900
    part = {"u": rng.normal(size=n), "v": rng.normal(size=n)}
    part |= {f"w{i}": rng.choice(["red", "blue"], n) for i in range(4)}
    parquet.write_table(pa.table(part | {"y": rng.choice(["a", "b"], n)}), tmp_path / "a.parquet")
    source = DataSource(str(tmp_path / "a.parquet"))
    assert trained(tmp_path / "run", source).record.data.remarks == ()
    near = {name: np.concatenate([v, v + 1e-5 if name in "uv" else v]) for name, v in part.items()}
    near["y"] = np.tile(rng.choice(["a", "b"], n), 2)
    parquet.write_table(pa.table(near), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="near copies of the prior's examples"):
        trained(tmp_path / "near", source)


def test_a_run_of_an_earlier_version_has_columns_as_they_are(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{a},{b},{'yn'[int(a > 0)]}" for a, b in rng.normal(size=(120, 2))]
    (tmp_path / "a.csv").write_text("\n".join(["u,v,y", *rows]))
    source = DataSource(str(tmp_path / "a.csv"))
    run = folders.train_all(tmp_path / "run", LEARNED, source, source.load())[0]
    path = run.folder / "run.json"
    record = json.loads(path.read_text())
    for name in ("features_sha256", "label"):
        del record["data"][name]
    for name in ("drop", "categorical", "group"):
        del record["data"]["source"][name]
    path.write_text(json.dumps(record))
    (run.folder / "features.json").unlink()
    posterior, _ = load_tensors(run.folder / "posterior.safetensors")
    save_tensors(run.folder / "posterior.safetensors", posterior, {"run": file_sha256(path)})
    old = folders.open_run(run.folder)
    data = old.load_data()
    assert data.x_train.tobytes() == source.load().x_train.tobytes()
    assert certified(old).assumptions.preprocessing is None
    assert failed(old.folder) == []
    (tmp_path / "new.csv").write_text("v,u\n0.5,2\n0.1,-3\n")
    found = predict(old, str(tmp_path / "new.csv"), "fixed", samples=1, seed=0, label=None)
    assert len(found.labels) == 2


def test_the_report_shows_what_became_of_every_column(tmp_path, table):
    run = trained(tmp_path / "run", table)
    shown = page(collect(run.folder))
    for text in ("Columns and features", "fitted to the prior&#x27;s part alone", "town", "Köln"):
        assert text in shown
    assert "--drop id" in shown.replace("</span>", "").replace("<span>", "")
    arrays = DataSource(str(tmp_path / "a.npz"))
    rng = np.random.default_rng(0)
    np.savez(arrays.name, x=rng.normal(size=(60, 2)), y=rng.integers(0, 2, 60))
    other = trained(tmp_path / "arrays", arrays)
    assert not (other.folder / "features.json").exists()
    assert "Columns and features" not in page(collect(other.folder))
