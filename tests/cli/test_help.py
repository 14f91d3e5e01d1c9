"""Help: a purpose in a line, examples that work, options where one looks for them."""

import re
import shlex
import subprocess
import sys

import pytest
import typer

from pacbayes import cli

GROUP = typer.main.get_command(cli.app)
COMMANDS = list(GROUP.commands)


def examples(text):
    return re.findall(r"^  (pacbayes .*)$", text, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("columns", ["40", "80"])
def test_every_command_has_a_purpose_and_examples_that_parse(run_cli, name, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    code, out, err = run_cli(name, "--help")
    assert (code, err) == (0, "")
    assert f"Usage: pacbayes {name} [OPTIONS]" in out
    found = examples(out)
    assert len(found) >= 2
    for line in found:
        _, command, *arguments = shlex.split(line)
        assert command == name
        GROUP.commands[name].make_context(name, arguments)  # raises unless every option fits


@pytest.mark.parametrize("name", COMMANDS)
def test_purposes_fit_into_the_list_of_commands(run_cli, name):
    purpose = GROUP.commands[name].help.partition("\n")[0]
    assert purpose.endswith(".")
    assert re.search(rf"^  {name} +{re.escape(purpose)}$", run_cli("--help")[1], re.MULTILINE)


def test_every_option_says_what_it_is():
    for command in GROUP.commands.values():
        for option in command.params:
            assert option.help, f"{command.name} {option.name}"


def test_commands_come_in_the_order_of_their_use_after_a_start_of_three_lines(run_cli):
    _, out, _ = run_cli("--help")
    start = examples(out)
    assert [line.split()[1] for line in start] == ["train", "certify", "verify"]
    places = [out.index(f"\n  {name} ") for name in ("train", "certify", "verify", "predict")]
    assert places == sorted(places)
    for line in start:
        _, command, *arguments = shlex.split(line)
        GROUP.commands[command].make_context(command, arguments)


def test_the_options_of_train_are_in_sections(run_cli):
    _, out, _ = run_cli("train", "--help")
    headings = re.findall(r"^(\S.*):$", out, re.MULTILINE)
    assert headings[:4] == ["Examples", "Run", "Data", "Models other than networks"]
    assert headings[4:8] == [
        "Network (posterior Q)",
        "Convolutions (--network conv)",
        "Kernels (--network kernel)",
        "Prior P",
    ]
    assert headings[8:] == ["Objective", "Optimisation", "Options"]
    prior = out.partition("Prior P:")[2].partition("Objective:")[0]
    assert prior.count("--prior-") == 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("trian", "unknown command 'trian'; did you mean 'train'?"),
        ("quux", "unknown command 'quux'; see pacbayes --help"),
        ("--versoin", "unknown option --versoin; did you mean --version?"),
        ("train --epoch 3", "unknown option --epoch; did you mean --epochs?"),
        (
            "train --prior-faction 1",
            "unknown option --prior-faction; did you mean --prior-fraction?",
        ),
        ("train --out r --activation rleu", "'sign'; did you mean 'relu'?"),
        ("train --out r --activation ReLU", "did you mean 'relu'?"),
        ("train --out r --dataset binary-mnits", "did you mean 'binary-mnist'?"),
        ("train --out r --estimator reinforced", "did you mean 'reinforce'?"),
        ("train --out r --epochs ten", "got 'ten'"),
        ("certify r --bound tandm", "did you mean 'tandem'?"),
        ("bound smal-kl --kl 1 --n 9", "did you mean 'small-kl'?"),
        ("bound", "Missing argument 'NAME'. Choose from: small-kl, catoni"),
        ("reproduce tabel1 --out r", "did you mean 'table1'?"),
        ("reproduce table1 --columns fix-lamda-relu --out r", "did you mean 'fix-lambda-relu'?"),
        ("reproduce table1 --dataset digit --out r", "did you mean 'digits'?"),
    ],
)
def test_what_is_misspelt_gets_a_suggestion_in_one_line(run_cli, arguments, message):
    code, out, err = run_cli(*arguments.split())
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", sorted(GROUP.commands))
def test_a_command_alone_is_the_command_among_all(name):
    alone = typer.main.get_command(cli._app(name))
    assert list(alone.commands) == [name]
    one, other = alone.commands[name], GROUP.commands[name]
    pages = [c.get_help(typer.Context(c, info_name=f"pacbayes {name}")) for c in (one, other)]
    assert pages[0] == pages[1]
    assert one.callback.__doc__ == other.callback.__doc__


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_the_list_of_commands_imports_none_of_them(arguments):
    heavy = {"numpy", "pydantic", "rich", "torch", "pacbayes.settings", "pacbayes.bounds"}
    code = f"import sys; sys.argv = ['pacbayes', *{arguments}]; from pacbayes.cli import main\n"
    code += "try: main()\nexcept SystemExit: pass\n"
    code += f"sys.exit(', '.join({heavy} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
