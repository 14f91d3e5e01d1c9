"""The table at the end of `make run` shows what the folders say, and the paper's bound."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "examples" / "three_certificates.py"


def folder(place, data, bound, risk, kl, test):
    place.mkdir()
    record = {"run": {"data": {"source": {"name": data}}}, "test": {"randomised": test}}
    record["certificate"] = {"bound": bound, "risk": risk, "kl": kl}
    for name, content in record.items():
        (place / f"{name}.json").write_text(json.dumps(content))
    return place


@pytest.mark.parametrize("data", ["binary-mnist", "digits"])
def test_every_line_has_the_numbers_of_its_folder(data, tmp_path):
    runs = (
        folder(tmp_path / "network", data, 0.07031, 0.023, 1328.2, 0.0288),
        folder(tmp_path / "kernel", data, 0.02375, 0.0079, 426.4, 0.0093),
    )
    done = subprocess.run(
        [sys.executable, SCRIPT, *runs], capture_output=True, text=True, check=True
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    numbers = [[word for word in line if word[0].isdigit()] for line in lines[-2:]]
    assert numbers[0][-4:] == ["7.04", "2.30", "1328", "2.88"]  # the bound is rounded up
    assert numbers[1][-4:] == ["2.38", "0.79", "426", "0.93"]
    assert ("15.5" in done.stdout) == (data == "binary-mnist")
