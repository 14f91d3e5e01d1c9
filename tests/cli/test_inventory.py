"""What `pacbayes info` finds."""

import json
import sys
from pathlib import Path

import pytest
import torch

from pacbayes import __version__
from pacbayes.cli import info
from pacbayes.engine import interface
from pacbayes.engine import library as engine


def test_the_cache_is_looked_into(tmp_path, monkeypatch):
    monkeypatch.setenv("PACBAYES_CACHE", str(tmp_path / "cache"))
    assert info.take_inventory().cached == {}
    (tmp_path / "cache" / "mnist").mkdir(parents=True)
    (tmp_path / "cache" / "mnist" / "train").write_bytes(b"x" * 70)
    (tmp_path / "cache" / "mnist" / "test").write_bytes(b"x" * 7)
    found = info.take_inventory()
    assert found.cache == str(tmp_path / "cache")
    assert found.cached == {"mnist": 77}


def test_the_engine_is_named_or_its_absence_explained(monkeypatch):
    found = info.take_inventory()
    assert (found.native in ("avx2", "avx512")) == engine.available()
    assert (found.why_torch is None) == engine.available()
    monkeypatch.setattr(engine, "library", lambda: None)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    found = info.take_inventory()
    assert found.native is None
    assert (
        found.why_torch == "the native engine needs AVX2, AVX-512 or ARM; PyTorch reports DEFAULT"
    )
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    monkeypatch.setattr(engine, "__file__", "/nowhere/engine.py")
    assert "not built" in info.take_inventory().why_torch


@pytest.mark.skipif(not engine.available(), reason="the native engine is not built")
def test_a_library_of_another_version_is_not_used_and_info_says_so(monkeypatch):
    monkeypatch.setattr(interface, "ABI", interface.ABI + 1)
    monkeypatch.setattr(engine, "library", engine.library.__wrapped__)  # search again
    found = info.take_inventory()
    assert found.native is None
    assert "another version of pacbayes" in found.why_torch
    assert f"ABI number {interface.ABI - 1}, needed {interface.ABI}" in found.why_torch


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the name")
def test_the_processor_is_called_what_linux_calls_it():
    name = info.take_inventory().platform.split(", ", 2)[2]
    assert f": {name}\n" in Path("/proc/cpuinfo").read_text()


def test_an_extra_is_there_if_all_it_needs_is(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    extras = info.take_inventory().extras
    missing = {name for name, there in extras.items() if not there}
    assert missing == {"export"}


def test_info_shows_it_all(run_cli, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PACBAYES_CACHE", str(tmp_path / "own"))
    monkeypatch.setattr(info, "missing", lambda extra: [extra])
    code, out, err = run_cli("info")
    assert (code, err) == (0, "")
    assert f"pacbayes  {__version__}\ntorch     {torch.__version__}\n" in out
    assert "cache     ~/own: empty\n" in out
    assert "cluster not installed (pip install 'pacbayes[cluster]')" in out
    record = json.loads(run_cli("info", "--json")[1])
    assert record["versions"]["torch"] == torch.__version__
    assert record["threads"] == torch.get_num_threads()
