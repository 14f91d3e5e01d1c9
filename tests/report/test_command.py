"""The command `pacbayes report`."""

import sys
import webbrowser

import pytest

from pacbayes import cli


@pytest.fixture
def run_cli(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["pacbayes", "report", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return run


def test_the_page_goes_into_the_folder_and_opens(run_cli, copied, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    code, out, _ = run_cli(copied.folder)
    page = copied.folder / "report.html"
    assert (code, opened) == (0, [])
    assert out.splitlines()[0] == str(page)
    assert "Next: " in out
    before = page.read_bytes()
    assert run_cli(copied.folder, "--open")[0] == 0
    assert opened == [page.resolve().as_uri()]
    assert page.read_bytes() == before


def test_bad_input_is_one_line_and_nothing_written(run_cli, copied, tmp_path):
    (copied.folder / "posterior.safetensors").unlink()
    (tmp_path / "empty").mkdir()
    for arguments, complaint in (
        ((tmp_path / "empty",), "neither a run folder (it has no run.json) nor a store of runs"),
        ((tmp_path / "missing",), "neither a run folder"),
        ((copied.folder,), "not fully trained"),
        (
            (copied.folder, "--out", tmp_path / "no" / "page.html"),
            "does not exist; create it first",
        ),
        ((copied.folder, "--out", tmp_path / "page.pdf"), "must be an .html file, got 'page.pdf'"),
    ):
        code, out, err = run_cli(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        assert complaint in err
    assert not list(tmp_path.rglob("*.html"))
