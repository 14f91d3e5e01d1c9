"""Formulas as MathML, which browsers show by themselves: no script, no network, no LaTeX.

Sphinx's own way loads MathJax from somebody's server. Docutils has the converter already.
"""

import re

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

# The converter's function names are identifiers, which stand close to their neighbours.
_WORDS = re.compile(r'<mi(?: mathvariant="normal")?>(ln|log|exp|Var)</mi>')
_SPACED = r'<mo form="prefix" lspace="0.17em" rspace="0.17em">\1</mo>'


def _inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(_mathml(node, block=False))
    raise nodes.SkipNode


def _block(writer: HTML5Translator, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="math"))
    if node["number"]:
        number = get_node_equation_number(writer, node)
        writer.body.append(f'<span class="eqno">({number})</span>')
    writer.body.append(_mathml(node, block=True) + "</div>\n")
    raise nodes.SkipNode


def _mathml(node: nodes.Element, *, block: bool) -> str:
    """Raises MathError, which ends the build, where the converter does not know a command."""
    if re.search(r"frac\d\d", node.astext()):  # it would take the two digits for one number
        raise ValueError(f"write \\frac{{1}}{{2}} with braces in {node.astext()}")
    return _WORDS.sub(_SPACED, latex2mathml.tex2mathml(node.astext(), as_block=block))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
