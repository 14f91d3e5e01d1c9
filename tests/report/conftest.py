"""Folders to report on, made once, and a parser of pages."""

import shutil
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from pacbayes import folders
from pacbayes.data import DataSource
from pacbayes.paper.store import Store
from pacbayes.report import collect, report
from pacbayes.report import page as page_of
from report.folders import COSTS, fill_store, hostile_source, make, python_model, table_model

VOID = ("img", "link", "meta")


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A run with every kind of certificate, and hostile names of classes and files."""
    folder = tmp_path_factory.mktemp("made")
    return make(folder / "run", hostile_source(folder))


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """A run on images of ten digits."""
    folder = tmp_path_factory.mktemp("images") / "run"
    return make(folder, DataSource("ten-digits"), ("small-kl", "disintegrated"), widths=())


@pytest.fixture(scope="session")
def table_file(tmp_path_factory):
    """A table with columns of every kind, three classes and a missing value."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("table") / "towns.csv"
    frame = pd.DataFrame({"the age": rng.normal(50, 9, 400).round(5)})
    frame["home town"] = rng.choice(["Ulm", "Bonn", "Köln"], 400)
    frame["owns"] = rng.choice(["yes", "no"], 400)
    score = (frame["the age"] - 50) / 9 + (frame["home town"] == "Ulm")
    frame["answer"] = np.where(score > 0.8, "high", np.where(score > -0.4, "middle", "low"))
    frame.loc[3, "home town"] = None
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def table_run(table_file):
    """A network of a table whose certificates are about a fixed and a randomised predictor."""
    settings = {"widths": (6,), "epochs": 2, "prior_fraction": 0.5, "prior_epochs": 20}
    run = folders.Run.create(table_file.parent / "network", None, table_file, settings)
    data = run.load_data()
    for _ in folders.train_run(run, data):
        pass
    for bound in ("held-out", "small-kl"):
        given = {"samples": 5} if bound == "small-kl" else {}
        folders.certify_run(run, run.load_network(), data, delta=0.05, bound=bound, **given)
    return run


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory, request):
    """Return the folder of a kind, made when it is first asked for."""
    place, made = tmp_path_factory.mktemp("kinds"), {}
    given = {
        "mean": {},
        "vote": {"choose": "vote"},
        "costs": {"costs": COSTS, "choose": "cross-validation"},
        "doubt": {"target_error": 0.05},
    }

    def make_one(kind):
        if kind in given:
            return python_model(place / kind, **given[kind])
        if kind == "store":
            return fill_store(Store(place / "store")).folder
        if kind == "table-model":
            return table_model(request.getfixturevalue("table_file"), per_class=True)
        run = {"network": "made", "images": "images", "table-network": "table_run"}[kind]
        return request.getfixturevalue(run).folder

    def folder(kind):
        if kind not in made:
            made[kind] = make_one(kind)
        return made[kind]

    return folder


@pytest.fixture(scope="session")
def pages(folder_of, tmp_path_factory):
    """Return the page about the folder of a kind, made when it is first asked for."""
    place = tmp_path_factory.mktemp("pages")

    def page(kind):
        path = place / f"{kind}.html"
        if not path.exists():
            report(folder_of(kind), path)
        return path.read_text()

    return page


@pytest.fixture(scope="session")
def contents(made):
    return collect(made.folder)


@pytest.fixture(scope="session")
def page(contents):
    return page_of(contents)


@pytest.fixture
def uncertified(tmp_path):
    """A run without a test set, trained but not certified."""
    return make(tmp_path / "run", hostile_source(tmp_path, test=False), ())


@pytest.fixture
def copied(made, tmp_path):
    """A copy of the run and its data that a test may damage."""
    shutil.copytree(made.folder.parent, tmp_path / "copy")
    return folders.open_run(tmp_path / "copy" / "run")


class Reader(HTMLParser):
    """Parse a page into elements with their text; fail if a tag is not closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements = [], []
        self.feed(text)
        self.close()
        assert not self.open, "left open"

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "text": "", **dict(attributes)}
        element["parents"] = [e["tag"] for e in self.open]
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def all(self, *tags):
        return [e for e in self.elements if e["tag"] in tags]


@pytest.fixture(scope="session")
def read():
    return Reader
