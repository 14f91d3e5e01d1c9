"""How the documentation is built: `make docs`."""

import os
import re
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import pacbayes

sys.path.insert(0, str(Path(__file__).parent))  # for extensions of our own
os.environ.setdefault("OMP_NUM_THREADS", "1")  # notebooks are small, and threads that wait are slow

project = "pacbayes"
version = release = pacbayes.__version__
language = "en-GB"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "commandline",
    "mathml",
]
exclude_patterns = ["**/.ipynb_checkpoints"]

highlight_language = "none"  # blocks without a language are for a shell
html_theme = "furo"
html_title = "pacbayes"
html_show_copyright = False
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_theme_options = {"navigation_with_keys": True}

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "force"  # a cache would not notice that the library has changed
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

# Annotations that are imported for type checking alone stay words, which may name several things.
suppress_warnings = ["ref.python"]
default_role = "py:obj"  # what docstrings have in backticks is a link where it is a name
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # torch's say nothing of ours
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_use_ivar = True
napoleon_use_rtype = False

# Links that lead out of docs/ are for readers of the repository. What is a page of the site as well
# is found there instead; other files are offered for download, as MyST does by itself.
_PAGES = {
    "../benchmarks": "measurements/index.md",
    "../results": "measurements/index.md",
    "../benchmarks/directions.md": "measurements/directions.md",
    "../benchmarks/growth.md": "measurements/growth.md",
    "../benchmarks/inverses.md": "measurements/inverses.md",
    "../benchmarks/priors.md": "measurements/priors.md",
    "../benchmarks/reading.md": "measurements/reading.md",
    "../benchmarks/recipes.md": "measurements/recipes.md",
    "../benchmarks/results.md": "measurements/speed.md",
    "../benchmarks/scaling.md": "measurements/scaling.md",
    "../benchmarks/sceptic.md": "measurements/sceptic.md",
    "../benchmarks/tables.md": "measurements/tables.md",
    "../benchmarks/tuning.md": "measurements/tuning.md",
    "../benchmarks/waiting.md": "measurements/speed.md",
    "../results/certificates/README.md": "measurements/certificates.md",
    "../results/certificates/modules.md": "measurements/modules.md",
    "../results/paper/table1.md": "measurements/paper.md",
    "../src/pacbayes/networks/quadrature.py": "api/networks.md#networks-quadrature",
}


def _inwards(app: Sphinx, docname: str, source: list[str]) -> None:
    def target(match: re.Match[str]) -> str:
        path = match.group(1)
        return f"](/{_PAGES[path.rstrip('/')]})" if path.rstrip("/") in _PAGES else match.group(0)

    source[0] = re.sub(r"\]\((\.\./[^)\s]+)\)", target, source[0])


def _from_there(app: Sphinx, path: Path, docname: str, source: list[str]) -> None:
    """Links of an included file are relative to its own folder."""
    here = Path(app.srcdir, docname).parent
    folder = os.path.relpath(path.parent, here)
    source[0] = re.sub(r"\]\(([\w-]+\.txt)\)", rf"]({folder}/\1)", source[0])


def _plain(app: Sphinx, what: str, name: str, it: Any, options: Any, lines: list[str]) -> None:
    """In docstrings |x| is an absolute value, and a star that nothing closes stands for itself."""
    lone = re.compile(r"(?<![\w*`])\*(?=\w)(?![^*]*\w\*)")
    lines[:] = [lone.sub(r"\\*", line.replace("|", r"\|")) for line in lines]


def setup(app: Sphinx) -> None:
    app.connect("source-read", _inwards)
    app.connect("include-read", _from_there)
    app.connect("autodoc-process-docstring", _plain)
