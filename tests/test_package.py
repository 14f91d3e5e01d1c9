"""What is installed is what the sources say: metadata, version, extras, wheel tag, sdist."""

import importlib.util
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from hatchling.builders.sdist import SdistBuilder
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import pacbayes
from pacbayes.extras import EXTRAS

ROOT = Path(__file__).parent.parent
PROJECT = ProjectMetadata(str(ROOT), PluginManager()).config["project"]
LINUX = sysconfig.get_platform() == "linux-x86_64"


def loaded(path):
    specification = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


build = loaded(ROOT / "src" / "build_engine.py")


def names(requirements):
    return {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}


def test_there_is_one_version():
    metadata = ProjectMetadata(str(ROOT), PluginManager())
    assert "version" in PROJECT["dynamic"]
    assert metadata.hatch.version.cached == pacbayes.__version__
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == pacbayes.__version__
    changes = (ROOT / "CHANGELOG.md").read_text()
    released = re.findall(r"^## \[(\d.*)\] - (.*)$", changes, re.MULTILINE)
    assert released[0] == (pacbayes.__version__, str(citation["date-released"]))


def test_the_package_says_that_it_is_typed():
    assert "Typing :: Typed" in PROJECT["classifiers"]
    assert (Path(pacbayes.__file__).parent / "py.typed").exists()


def test_extras_are_those_that_errors_name():
    offered = PROJECT["optional-dependencies"]
    assert {extra: names(offered[extra]) for extra in EXTRAS} == {
        extra: set(packages) for extra, packages in EXTRAS.items()
    }
    everything = next(line for line in offered["dev"] if line.startswith("pacbayes["))
    assert set(re.findall(r"\w+", everything)) == {"pacbayes", "docs", *EXTRAS}
    assert not names(PROJECT["dependencies"]) & {p for needs in EXTRAS.values() for p in needs}


def test_ci_tests_every_supported_python_and_the_oldest_torch():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    matrix = jobs["tests"]["strategy"]["matrix"]
    pythons = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert matrix["python"] == pythons
    assert PROJECT["requires-python"] == f">={pythons[0]}"
    floor = next(line for line in PROJECT["dependencies"] if line.startswith("torch"))
    assert matrix["torch"] == [floor.replace(">=", "==") + ".*", "torch"]


def test_the_sdist_has_what_tests_need_and_no_results():
    files = {
        Path(file.path).relative_to(ROOT).as_posix()
        for file in SdistBuilder(str(ROOT)).recurse_included_files()
    }
    assert {path.split("/")[0] for path in files} == {
        *(".github", "docs", "examples", "src", "tests", "Makefile"),
        *("README.md", "CHANGELOG.md", "CITATION.cff"),
    }  # and pyproject.toml and LICENSE, which hatchling always adds
    assert {"src/build_engine.py", "tests/constraints.txt"} <= files
    assert {"src/pacbayes/py.typed", "src/pacbayes/engine/c/engine.c"} <= files
    assert not [path for path in files if path.endswith((".so", ".png", ".safetensors", ".pyc"))]
    assert sum((ROOT / path).stat().st_size for path in files) < 4_000_000


# An ELF file needs what stands in it as strings that end with zero.
@pytest.mark.parametrize(
    ("library", "glibc"),
    [
        (b"\0libc.so.6\0GLIBC_2.2.5\0GLIBC_2.14\0GLIBC_2.9\0", (2, 14)),
        (b"\0libm.so.6\0libc.so.6\0libpthread.so.0\0GLIBC_2.28\0GLIBC_2.3.4\0", (2, 28)),
        (b"\0libc.so.6\0libgomp.so.1\0GLIBC_2.14\0", None),  # a library that glibc does not have
        (b"\0libc.so.6\0GLIBC_2.14\0GLIBC_ABI_DT_RELR\0", None),  # a need without a number
        (b"\0libc.musl-x86_64.so.1\0", None),
    ],
)
def test_the_newest_glibc_a_library_names_is_needed(library, glibc):
    assert build.needed_glibc(library) == glibc


@pytest.mark.skipif(not LINUX, reason="other systems have no glibc")
def test_the_engine_is_tagged_with_the_glibc_that_readelf_sees():
    libraries = sorted((ROOT / "src" / "pacbayes" / "engine").glob("libengine-*.so"))
    if not libraries or not shutil.which("readelf"):
        pytest.skip("needs the built engine and readelf")
    needs = [
        subprocess.run(["readelf", "-V", path], capture_output=True, text=True, check=True).stdout
        for path in libraries
    ]
    versions = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", "".join(needs))
    major, minor = max((int(major), int(minor)) for major, minor in versions)
    assert build.platform_tag(libraries) == f"manylinux_{major}_{minor}_x86_64"


def test_what_is_not_portable_is_tagged_for_this_system(tmp_path, monkeypatch):
    (tmp_path / "odd.so").write_bytes(b"\0libgomp.so.1\0GLIBC_2.14\0")
    (tmp_path / "fine.so").write_bytes(b"\0libc.so.6\0GLIBC_2.14\0")
    monkeypatch.setattr(build.sysconfig, "get_platform", lambda: "linux-x86_64")
    assert build.platform_tag([tmp_path / "fine.so"]) == "manylinux_2_14_x86_64"
    assert build.platform_tag([tmp_path / "fine.so", tmp_path / "odd.so"]) == "linux_x86_64"
    monkeypatch.setattr(build.sysconfig, "get_platform", lambda: "macosx-11.0-x86_64")
    assert build.platform_tag([tmp_path / "fine.so"]) == "macosx_11_0_x86_64"


def built(root, target="wheel"):
    """What the hook tells hatchling, and what it warns of."""
    warnings, data = [], {"artifacts": [], "pure_python": True}
    app = SimpleNamespace(display_warning=warnings.append)
    hook = build.NativeEngineHook(str(root), {}, None, None, "", target, app)
    hook.initialize("standard", data)
    return data, warnings


@pytest.fixture
def sources(tmp_path):
    """A package whose engine is one line."""
    folder = tmp_path / "src" / "pacbayes" / "engine"
    (folder / "c").mkdir(parents=True)
    (folder / "c" / "engine.c").write_text("int pb_abi(void) { return 1; }\n")
    (folder / "libengine-old.so").write_text("of an earlier build")
    return tmp_path


@pytest.mark.skipif(not LINUX or not shutil.which("cc"), reason="needs a compiler for x86-64")
def test_a_wheel_with_the_engine_serves_every_python_3(sources):
    data, warnings = built(sources)
    assert warnings == []
    assert data["artifacts"] == [f"src/pacbayes/engine/libengine-{name}.so" for name in build.X86]
    assert re.fullmatch(r"py3-none-(many)?linux_\w*x86_64", data["tag"])
    assert data["pure_python"] is False
    assert not (sources / "src" / "pacbayes" / "engine" / "libengine-old.so").exists()


@pytest.mark.parametrize("obstacle", ["no compiler", "broken compiler", "another machine"])
def test_a_wheel_without_the_engine_is_pure(sources, monkeypatch, obstacle):
    monkeypatch.delenv("CC", raising=False)
    if obstacle == "no compiler":
        monkeypatch.setenv("PATH", "")
    elif obstacle == "broken compiler":
        monkeypatch.setenv("CC", "false")
    else:
        monkeypatch.setattr(build.platform, "machine", lambda: "riscv64")
    data, warnings = built(sources)
    assert data == {"artifacts": [], "pure_python": True}  # hatchling then says py3-none-any
    assert all(warning.startswith("native engine not built") for warning in warnings)
    assert warnings
    assert not list(sources.rglob("*.so"))


def test_an_sdist_builds_nothing(sources):
    assert built(sources, "sdist") == ({"artifacts": [], "pure_python": True}, [])


def test_every_mutant_still_has_its_place_in_the_sources():
    mutants = loaded(ROOT / "tests" / "mutants.py").MUTANTS
    sources = {file: (ROOT / "src" / "pacbayes" / file).read_text() for file, *_ in mutants}
    assert [m[:2] for m in mutants if m[1] not in sources[m[0]]] == []
