"""Runs to report on, made once, and a parser of pages."""

import shutil
from html.parser import HTMLParser

import numpy as np
import pytest

from pacbayes import Settings, runs
from pacbayes.data import DataSource
from pacbayes.report import run_page
from pacbayes.report.contents import collect
from pacbayes.runs import prediction
from pacbayes.runs.preparation import prepare

HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(2)>')
VOID = ("img", "link", "meta")


def make(folder, source, certified=("small-kl", "tandem", "disintegrated"), **changes):
    """Train a small run and issue the certificates asked for."""
    settings = {"widths": (4,), "epochs": 6, "evaluate_every": 2, "batch_size": 32, **changes}
    data = source.load()
    settings = Settings.of("fast", "relu", classes=len(data.classes), **settings)
    run = prepare(folder, settings, source, data)
    for _ in runs.train_run(run, data):
        pass
    network = run.load_network()
    for bound in certified:
        shared = {"delta": 0.05, "samples": 5, "networks": 2}
        runs.certify_run(run, network, data, bound=bound, **shared)
        prediction.test_errors(run, network, data)
    return run


def hostile_source(folder, test=True):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4)).astype(np.float32)
    y = np.where(x[:, 0] > 0, *HOSTILE)
    np.savez(folder / "data & <b>.npz", x=x, y=y)
    np.savez(folder / "test.npz", x=x[:20], y=y[:20])
    path = str(folder / "data & <b>.npz")
    return DataSource(path, test=str(folder / "test.npz") if test else None)


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
def contents(made):
    return collect(made)


@pytest.fixture(scope="session")
def page(contents):
    return run_page(contents)


@pytest.fixture(scope="session")
def image_page(images):
    return run_page(collect(images))


@pytest.fixture
def uncertified(tmp_path):
    """A run without a test set, trained but not certified."""
    return make(tmp_path / "run", hostile_source(tmp_path, test=False), ())


@pytest.fixture
def copied(made, tmp_path):
    """A copy of the run and its data that a test may damage."""
    shutil.copytree(made.folder.parent, tmp_path / "copy")
    return runs.open_run(tmp_path / "copy" / "run")


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
