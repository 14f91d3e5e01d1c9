"""A row gets the same answer in whatever way it comes in, or is refused.

For models and networks, trained at the shell or fitted in memory, whole or loaded: each way in
(shell or Python, a container) times each change that a container or a user makes on the way.
"""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import pacbayes
from pacbayes import CertifiedClassifier, PACBayesClassifier, folders
from pacbayes.data import DataError
from pacbayes.data.values import features_sha256
from pacbayes.folders.fitting import read_examples, train_model
from pacbayes.folders.models import predict_file
from pacbayes.models.candidates import default_candidates

pytestmark = pytest.mark.filterwarnings("ignore")

N, NEW = 240, 200
FEATURES = ["size", "count", "owned", "colour", "month", "weight", "since"]


def table():
    """Numbers with and without gaps, whole ones, truth values, texts, dates, and categories."""
    rng = np.random.default_rng(0)
    n = N + NEW
    size, weight = rng.normal(size=n).round(3), rng.normal(size=n).round(3)
    frame = pd.DataFrame(
        {
            "id": np.arange(n),
            "size": np.where(rng.random(n) < 0.1, np.nan, size),
            "count": rng.integers(0, 9, n),
            "owned": rng.choice(["yes", "no"], n),
            "colour": rng.choice(["red", "green", "blue", None], n, p=[0.4, 0.3, 0.2, 0.1]),
            "month": rng.integers(1, 5, n),
            "weight": weight,
        }
    )
    score = size + (frame["owned"] == "yes") + (frame["colour"] == "red") - 2 * weight
    score += np.where(frame["month"] == 3, 2, 0) + frame["count"] / 4
    quarters = pd.to_timedelta(6 * rng.integers(0, 4000, n), unit="h")
    frame["since"] = (pd.Timestamp("2020-01-01") + quarters).where(rng.random(n) > 0.1)
    score += (frame["since"] > pd.Timestamp("2021-06-01")) * 1.5
    frame["kind"] = np.where(score > score.median(), "good", "bad")
    return frame


# What happens to a table on the way. Values mean the same, so answers must be the same.

SAME = {
    "as it is": lambda f: f,
    "columns permuted": lambda f: f[FEATURES[::-1]],
    "features alone": lambda f: f[FEATURES],
    "another column": lambda f: f.assign(aside="x")[["aside", *f.columns]],
    "whole numbers as floats": lambda f: f.astype({"count": float, "month": float}),
    "categories": lambda f: f.astype({"colour": "category", "owned": "category"}),
    "a category of numbers": lambda f: f.astype({"month": "category"}),
    "other categories first": lambda f: f.assign(
        colour=pd.Categorical(f["colour"], ["violet", "red", "blue", "green"])
    ),
    "truth values": lambda f: f.assign(owned=f["owned"] == "yes"),
    "truth values as 0 and 1": lambda f: f.assign(owned=(f["owned"] == "yes").astype(int)),
    "truth values as True and False": lambda f: f.assign(
        owned=np.where(f["owned"] == "yes", "True", "FALSE")
    ),
    "numbers as texts": lambda f: f.assign(
        weight=[repr(w) for w in f["weight"]], count=f["count"].astype(str)
    ),
    "categories as texts": lambda f: f.assign(month=f["month"].astype(str)),
    "numbers as objects": lambda f: f.astype({"weight": object, "count": object, "month": object}),
    "nullable types": lambda f: f.convert_dtypes(),
    "nullable truth values": lambda f: f.assign(owned=(f["owned"] == "yes").astype("boolean")),
    "missing as None": lambda f: f.astype({"size": object}).where(f.notna(), None),
    "missing as NA": lambda f: f.assign(size=f["size"].astype("Float64")),
    "missing as an empty text": lambda f: f.assign(colour=f["colour"].fillna("")),
    "missing as ?": lambda f: f.assign(
        size=["?" if s != s else repr(s) for s in f["size"]], colour=f["colour"].fillna("NA")
    ),
    "spaces": lambda f: f.assign(colour=" " + f["colour"] + " "),
    "dates as texts": lambda f: f.assign(since=f["since"].dt.strftime("%Y/%m/%d %H:%M:%S")),
    "dates in seconds": lambda f: f.astype({"since": "datetime64[s]"}),
    "dates with a zone": lambda f: f.assign(
        since=f["since"].dt.tz_localize("UTC").dt.tz_convert("Asia/Kolkata")
    ),
    "a number for each row": lambda f: f.set_index(np.arange(len(f))[::-1] * 7),
}

# What cannot be matched: the column is named.

REFUSED = {
    "a column is missing": (lambda f: f.drop(columns="weight"), "weight"),
    "two are missing": (lambda f: f.drop(columns=["weight", "size"]), "size"),
    "a name is spelled otherwise": (lambda f: f.rename(columns={"owned": "Owned"}), "owned"),
    "texts for numbers": (lambda f: f.assign(weight="heavy"), "weight"),
    "truth values for numbers": (lambda f: f.assign(weight=f["weight"] > 0), "weight"),
    "numbers for texts": (lambda f: f.assign(colour=np.arange(len(f)) % 3), "colour"),
    "codes for texts": (lambda f: f.assign(colour=pd.Categorical(f["colour"]).codes), "colour"),
    "other numbers for truth values": (
        lambda f: f.assign(owned=np.where(f["owned"] == "yes", 2, 1)),
        "owned",
    ),
    "dates for numbers": (lambda f: f.assign(weight=pd.Timestamp("2020-01-01")), "weight"),
    "numbers for dates": (lambda f: f.assign(since=np.arange(len(f))), "since"),
    "texts for dates": (lambda f: f.assign(since="lately"), "since"),
    "dates of no known order": (lambda f: f.assign(since="01/02/2020"), "since"),
    "infinite numbers": (lambda f: f.assign(weight=np.inf), "weight"),
}


def ways_in(folder):
    """Each way from a data frame to rows: a file, or a container in memory."""

    def csv(frame, name="new.csv"):
        frame.to_csv(folder / name, index=False)
        return folder / name

    def parquet(frame):
        frame.to_parquet(folder / "new.parquet")
        return folder / "new.parquet"

    return {
        "CSV": csv,
        "gz": lambda f: csv(f, "new.csv.gz"),
        "Parquet": parquet,
        "pandas": lambda f: f,
        "polars": pl.from_pandas,
        "Arrow": lambda f: pa.Table.from_pandas(f, preserve_index=False),
        "dicts": lambda f: f.to_dict("records"),
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ways")
    frame = table()
    frame[:N].to_csv(folder / "train.csv", index=False)
    frame[:N].to_parquet(folder / "train.parquet")
    return folder


def model_folder(place, model, train="train.csv"):
    out = place / f"{model}-{train}"
    examples = read_examples(str(place / train), label="kind", drop=["id"], categorical=["month"])
    given = {"repeats": True}
    train_model(out, model, examples, str(place / train), **given)
    return out


def network_folder(place):
    source = pacbayes.data.DataSource(
        str(place / "train.csv"), label="kind", drop=("id",), categorical=("month",)
    )
    settings = {"epochs": 2, "prior_epochs": 5}
    run = folders.Run.create(place / "network", None, source, settings)
    for _ in folders.train_run(run, run.load_data()):
        pass
    return run.folder


@pytest.fixture(scope="module", params=["forest", "linear", "network"])
def trained(request, place):
    """A function of a file or of rows in memory that gives answers, of what the shell trained."""
    if request.param == "network":
        run = folders.open_run(network_folder(place))
        method = folders.certified_predictor(run)
        return lambda source: folders.predict(run, source, method).labels
    folder = model_folder(place, request.param)
    model = pacbayes.load(folder)

    def ask(source):
        if hasattr(source, "suffix"):
            return predict_file(folder, str(source)).labels
        return model.predict(source).tolist()

    return ask


def rows():
    return table()[N:].drop(columns="kind")


@pytest.fixture(scope="module")
def expected(trained, place):
    """The answers to a file written as that of the training set; they depend on each column."""
    frame = rows()
    frame.to_csv(place / "expected.csv", index=False)
    answers = trained(place / "expected.csv")
    for name in FEATURES:
        frame.assign(**{name: frame[name].to_numpy()[::-1]}).to_csv(place / "other.csv")
        assert trained(place / "other.csv") != answers
    return answers


WAYS = list(ways_in(None))


def came_in(way, folder, frame):
    """A data frame in a way in; skips what the container cannot hold."""
    try:
        return ways_in(folder)[way](frame)
    except (pa.ArrowException, TypeError) as error:
        return pytest.skip(f"{way}: {error}")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", SAME)
def test_every_way_in_gives_the_same_answers(trained, expected, tmp_path, way, change):
    assert trained(came_in(way, tmp_path, SAME[change](rows()))) == expected


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", REFUSED)
def test_what_cannot_be_matched_is_refused_by_name(trained, tmp_path, way, change):
    make, column = REFUSED[change]
    source = came_in(way, tmp_path, make(rows()))
    with pytest.raises(DataError, match=f"^[^\n]*'{column}'[^\n]*$"):
        trained(source)


def test_rows_without_names_are_refused_where_the_training_set_has_other_than_numbers(trained):
    cells = rows()[FEATURES].to_numpy(object)
    for source in (cells, cells.tolist()):
        with pytest.raises(DataError, match="arrays have numbers alone, but column 'owned'"):
            trained(source)


def test_a_row_of_dicts_that_lacks_a_value_is_refused(trained):
    found = rows().to_dict("records")
    del found[3]["size"]
    with pytest.raises(DataError, match="row 3 has no 'size'; give None if it is missing"):
        trained(found)


def test_two_columns_of_one_name_are_refused(trained):
    frame = rows()
    with pytest.raises(DataError, match=r"Duplicate column names found: .*'size'"):
        trained(pd.concat([frame, frame["size"]], axis=1))


def test_words_that_are_no_truth_values_are_refused_by_models(place, tmp_path):
    folder = model_folder(place, "linear")
    frame = rows().assign(owned=lambda f: f["owned"].str[0])
    frame.to_csv(tmp_path / "new.csv")
    for ask in (
        lambda: pacbayes.load(folder).predict(frame),
        lambda: predict_file(folder, str(tmp_path / "new.csv")),
    ):
        with pytest.raises(DataError, match=r"column 'owned': '.' is neither true nor false"):
            ask()


NUMBERS = ["size", "count", "weight"]


def numbers():
    return table()[[*NUMBERS, "kind"]].fillna({"size": 0.0})


def test_numbers_without_names_come_in_the_order_of_the_training_set(place):
    frame = numbers()
    frame[:N].to_csv(place / "numbers.csv", index=False)
    folder, x = place / "of-numbers", frame[N:][NUMBERS]
    train_model(folder, "forest", read_examples(str(place / "numbers.csv")), "x", repeats=True)
    model = pacbayes.load(folder)
    expected = model.predict(x).tolist()
    assert model.predict(x[NUMBERS[::-1]]).tolist() == expected
    for source in (
        x.to_numpy(),
        x.to_numpy().tolist(),
        x.to_numpy(object),
        x.to_numpy().T.copy().T,
    ):
        assert model.predict(source).tolist() == expected
    for source in (x.to_numpy()[:, :2], frame[N:].assign(kind=1).to_numpy()):
        with pytest.raises(DataError, match=r"the rows: \d columns, but the training set has 3"):
            model.predict(source)
    with pytest.raises(DataError, match="need rows and columns"):
        model.predict(x.to_numpy()[0])


def test_a_file_without_a_header_goes_by_order(place, tmp_path):
    frame = numbers()
    frame[:N].to_csv(place / "plain.csv", index=False, header=False)
    train_model(
        place / "plain", "forest", read_examples(str(place / "plain.csv")), "x", repeats=True
    )
    model, x = pacbayes.load(place / "plain"), frame[N:][NUMBERS]
    expected = model.predict(x.to_numpy()).tolist()
    x.to_csv(tmp_path / "plain.csv", index=False, header=False)
    x.to_csv(tmp_path / "named.csv", index=False)
    for name in ("plain.csv", "named.csv"):
        assert predict_file(place / "plain", str(tmp_path / name)).labels == expected
    for source in (x, pl.from_pandas(x), x.set_axis(range(3), axis=1)):
        assert model.predict(source).tolist() == expected
    with pytest.raises(DataError, match="4 columns, but the training set has 3 features"):
        model.predict(frame[N:])  # the last may be a label, or the first a number of the row


# Fitted in memory: the columns that were fitted, in their order, as scikit-learn has it; values of
# another type become those that were fitted.

FILES = ("CSV", "gz", "Parquet")
OTHER_TEXTS = (
    "truth values as True and False",
    "missing as an empty text",
    "missing as ?",
    "spaces",
)
IN_ORDER = {
    name: change
    for name, change in SAME.items()
    if name not in ("columns permuted", "another column", "as it is", *OTHER_TEXTS)
}


def in_memory():
    """Models that look at columns by name, by type, and by the encoder of this library."""
    forest = RandomForestClassifier(30, random_state=0)
    boosting = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    return {
        "texts": (forest, lambda f: f.drop(columns="since")),
        "types": (
            boosting,
            lambda f: f.drop(columns="since").astype({"owned": "category", "colour": "category"}),
        ),
        "truth": (None, lambda f: f.assign(owned=f["owned"] == "yes")),
        "nullable": (None, lambda f: f.drop(columns="since").convert_dtypes()),
    }


@pytest.fixture(scope="module", params=list(in_memory()))
def fitted(request, place):
    """A model fitted to a data frame, that model loaded, and rows like those it was fitted to."""
    estimator, types = in_memory()[request.param]
    frame = types(table()[FEATURES])
    if isinstance(estimator, RandomForestClassifier):
        one_hot = OneHotEncoder(handle_unknown="ignore")
        encoder = make_column_transformer((one_hot, ["owned", "colour"]), remainder="passthrough")
        estimator = make_pipeline(encoder, estimator)
    if estimator is None:
        estimator = default_candidates(0)["random forest"]
    model = CertifiedClassifier(estimator, random_state=0, repeats=True)
    model.fit(frame[:N], table()["kind"][:N])
    model.save(place / request.param)
    trusted = ["functools.partial", "sklearn.utils.validation.check_array"]
    return model, pacbayes.load(place / request.param, trusted=trusted), frame[N:]


@pytest.mark.parametrize("change", IN_ORDER)
@pytest.mark.parametrize("way", ["CSV", "Parquet", "pandas", "polars", "Arrow", "dicts"])
def test_a_model_of_a_data_frame_gives_the_same_answers_or_refuses(fitted, tmp_path, way, change):
    model, loaded, there = fitted
    expected = model.predict(there).tolist()
    source = came_in(way, tmp_path, IN_ORDER[change](rows())[list(there.columns)])
    for each in (model, loaded):
        try:
            rows_of = each.evidence_.layout.read(source)[0] if way in FILES else source
            found = each.predict(rows_of).tolist()
        except ValueError:
            continue
        assert found == expected


def test_a_model_of_a_data_frame_takes_most_ways_in(fitted, tmp_path):
    """The test above holds also for a model that refuses everything; this one does not."""
    model, _, there = fitted
    expected = model.predict(there).tolist()
    frame = rows()[list(there.columns)]
    if str(there["owned"].dtype) == "bool":
        frame["owned"] = there["owned"]
    for way in ("Parquet", "pandas", "polars", "Arrow", "dicts"):
        source = came_in(way, tmp_path, frame)
        if way == "Parquet":
            source = model.evidence_.layout.read(source)[0]
        assert model.predict(source).tolist() == expected, way


@pytest.mark.parametrize("change", [name for name in REFUSED if name != "infinite numbers"])
def test_a_model_of_a_data_frame_refuses_what_cannot_be_matched(fitted, change):
    make, column = REFUSED[change]
    names = [*fitted[2].columns, "Owned"]
    if column not in names:
        pytest.skip(f"the model was not fitted to {column}")
    for each in fitted[:2]:
        with pytest.raises(ValueError, match=column):
            each.predict(make(rows())[lambda f: [n for n in f.columns if n in names]])


def test_columns_in_another_order_are_refused_as_scikit_learn_does(fitted):
    for each in fitted[:2]:
        with pytest.raises(ValueError, match="must be in the same order"):
            each.predict(fitted[2].iloc[:, ::-1])


@pytest.mark.parametrize("container", [list, np.array], ids=["list", "array"])
def test_rows_of_objects_are_matched_by_kind(container):
    """Their columns have no names, but a column of another kind is converted or refused."""
    frame = table().assign(owned=lambda f: f["owned"] == "yes")
    cells = frame[FEATURES[:-1]].to_numpy(object)
    estimator = default_candidates(0)["random forest"]
    model = CertifiedClassifier(estimator, random_state=0, repeats=True)
    model.fit(cells[:N].tolist() if container is list else cells[:N], frame["kind"][:N])
    there = cells[N:]
    expected = model.predict(there).tolist()
    texts = there.copy()
    texts[:, 1], texts[:, 5] = [str(v) for v in there[:, 1]], [repr(v) for v in there[:, 5]]
    for source in (there, there.tolist()):
        assert model.predict(source).tolist() == expected
    if container is list:  # what scikit-learn makes of a list depends on all of its cells
        with pytest.raises(DataError, match="takes lists with the types that were fitted"):
            model.predict(texts)
    else:
        assert model.predict(texts).tolist() == expected
    swapped = there.copy()
    swapped[:, [0, 3]] = there[:, [3, 0]]
    with pytest.raises(DataError, match="column '0'"):
        model.predict(swapped)


def test_dates_in_an_array_stay_as_they_were_fitted():
    cells = table()[["weight", "since"]].bfill().to_numpy(object)
    estimator = default_candidates(0)["random forest"]
    model = CertifiedClassifier(estimator, random_state=0, repeats=True)
    model.fit(cells[:N], table()["kind"][:N])
    assert len(set(model.predict(cells[N:]).tolist())) == 2
    texts = cells.copy()
    texts[:, 1] = [str(v) for v in cells[:, 1]]
    with pytest.raises(DataError, match="fitted to an array of dates; give such an array"):
        model.predict(texts)


def test_a_frame_of_another_library_must_stay_one():
    frame = pl.from_pandas(numbers())
    x, y = frame.drop("kind"), frame["kind"].to_numpy()
    model = PACBayesClassifier(preprocessing=StandardScaler(), random_state=0, prior_epochs=20)
    model.fit(x[:N], y[:N])
    assert len(set(model.predict(x[N:]).tolist())) == 2
    for other in (x[N:].to_pandas(), x[N:].to_arrow(), x[N:].to_numpy()):
        with pytest.raises(DataError, match="the classifier takes data frames of polars"):
            model.predict(other)
    with pytest.raises(DataError, match=r"column 'count' is .*string.*, but was int64"):
        model.predict(x[N:].with_columns(pl.col("count").cast(pl.String)))


@pytest.fixture(scope="module")
def network(place):
    """A network of numbers alone, fitted to a data frame, and that network loaded."""
    frame = numbers()
    model = PACBayesClassifier(random_state=0, prior_epochs=50, repeats=True)
    model.fit(frame[:N][NUMBERS], frame["kind"][:N])
    model.save(place / "classifier", frame[:N][NUMBERS], frame["kind"][:N])
    return model, pacbayes.load(place / "classifier"), place / "classifier", frame[N:][NUMBERS]


@pytest.mark.parametrize(
    "change", ["as it is", "whole numbers as floats", "numbers as texts", "numbers as objects"]
)
@pytest.mark.parametrize("way", WAYS)
def test_a_network_fitted_to_a_data_frame(network, tmp_path, way, change):
    model, loaded, folder, there = network
    frame = there.assign(id=0, month=1, owned="no", colour="red")
    source = came_in(way, tmp_path, SAME[change](frame)[NUMBERS])
    expected = model.predict(there).tolist()
    if way in FILES:
        assert (
            folders.predict(folders.open_run(folder), source, model.predictor_).labels == expected
        )
    elif way == "dicts":
        with pytest.raises((ValueError, TypeError)):
            loaded.predict(source)
    else:
        for each in (model, loaded):
            assert each.predict(source).tolist() == expected


def test_a_network_refuses_columns_in_another_order(network):
    for each in network[:2]:
        for source in (network[3][NUMBERS[::-1]], pl.from_pandas(network[3][NUMBERS[::-1]])):
            with pytest.raises(ValueError, match="must be in the same order"):
                each.predict(source)
        with pytest.raises(ValueError, match="could not convert string to float"):
            each.predict(network[3].assign(count="many"))


def test_a_folder_of_an_earlier_version_knows_no_spellings(place):
    """Numbers among its categories are taken as they are written."""
    layout = pacbayes.load(model_folder(place, "linear", "train.parquet")).evidence_.layout
    assert layout.spellings == {"month": ("1", "2", "3", "4")}
    old = layout.model_validate(layout.model_dump(exclude={"spellings", "levels", "headless"}))
    assert features_sha256(old.rows(rows())) == features_sha256(layout.rows(rows()))
    with pytest.raises(DataError, match="'1' is a number, but the training set has other texts"):
        layout.model_copy(update={"spellings": {}}).rows(rows())


class Codes(TransformerMixin, BaseEstimator):
    """Numbers of categories by their places among all, as some libraries read them."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return np.stack([X["owned"].cat.codes, X["weight"].astype(float)], axis=1)


def test_columns_keep_their_categories_and_what_objects_hold():
    """Two frames of the same types may differ in the order of categories, and in objects."""
    frame = table()[["owned", "weight"]].astype({"owned": "category", "weight": object})
    model = CertifiedClassifier(make_pipeline(Codes(), GaussianNB()), random_state=0, repeats=True)
    model.fit(frame[:N], table()["kind"][:N])
    there = frame[N:]
    expected = model.predict(there).tolist()
    other = there["owned"].cat.set_categories(["yes", "unseen", "no"])
    assert (other.cat.codes != there["owned"].cat.codes).any()
    assert model.predict(there.assign(owned=other)).tolist() == expected
    texts = pd.Series([f" {v!r} " for v in there["weight"]], there.index, object)
    assert model.predict(there.assign(weight=texts)).tolist() == expected
    with pytest.raises(DataError, match="column 'weight': 'x' is not a number"):
        model.predict(there.assign(weight=pd.Series("x", there.index, object)))
