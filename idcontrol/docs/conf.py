"""Configuration of Sphinx, which builds the pages of this folder (``make docs``)."""

from __future__ import annotations

import os
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

os.environ["NUMBA_DISABLE_JIT"] = "1"  # without the JIT, kernels are functions with signatures, and nothing is compiled
sys.path.insert(0, str(Path(__file__).parent))  # for `tables`

project = "idcontrol"
author = "The idcontrol maintainers"
copyright = author
release = metadata.version("idcontrol")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "tables"]
myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_inline", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the notebook stores its outputs; a slow test runs it
nitpicky = False
toc_object_entries = False  # copying 5000 objects into each page would take most of the time of the build
exclude_patterns = ["notes"]  # dated notes, for people who change the code
default_role = "py:obj"  # single backticks in docstrings become links if their target exists
suppress_warnings = ["ref.python"]  # if two classes have a member of the same name, the link goes to the first class

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {"Array": "Array", "Integers": "Integers", "Booleans": "Booleans"}
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"idcontrol {release}"
html_static_path = ["static"]
html_css_files = ["page.css"]
html_math_renderer = "mathml"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False

SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields|Note|Example|Examples):")
QUOTED = re.compile(r"(``.*?``|`.*?`)")
BULLET = re.compile(r"^\s*(?:[*-] )?")
TIGHT = re.compile(r"<mo(?: stretchy=\"false\">([/|])|[^>]*>(‖))</mo>")
"""The operators /, | and ‖ in MathML. By default, browsers draw them with space around them, and the first
of a pair such as |x| raised."""

FORWARD = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")

NUMBERED = ("math", "planner")
"""Pages that docstrings cite by section: "math.md, section 7.3"."""

HEADING = re.compile(r"^(?=#{2,3} (\d+(?:\.\d+)?) )", flags=re.M)
CITATION = re.compile(
    rf"(?<![`/\w])(?:docs/)?({'|'.join(NUMBERED)}|theory/\w+)\.md"  # matches a page
    r"(?:,?(?: (?:sections?|chapters?))? (\d+(?:\.\d+)?))?"  # matches its section, if cited
)
MARKUP = re.compile(r"(?<!\\)([|*]|(?<=\w)_(?=\W|$))")


logger = logging.getLogger(__name__)


def formula(node: nodes.math | nodes.math_block) -> str:
    """Return the formula in MathML, which browsers draw without any script or network."""
    tex = node.astext()
    try:
        drawn = str(tex2mathml(tex, as_block=isinstance(node, nodes.math_block)))
        return TIGHT.sub(r'<mo stretchy="false" lspace="0" rspace="0">\1\2</mo>', drawn)
    except MathError as error:
        logger.warning("formula %r: %s", tex, error, location=node)
        return ""


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within text."""
    self.body.append(formula(node))
    raise nodes.SkipNode


def visit_math_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own."""
    self.body.append(f'<div class="formula">{formula(node)}</div>')
    raise nodes.SkipNode


def name_sections(app: Sphinx, docname: str, source: list[str]) -> None:
    """Give every numbered section of the pages in `NUMBERED` a name, the target of citations."""
    if docname in NUMBERED:
        source[0] = HEADING.sub(rf"({docname}-\1)=\n", source[0])


def plain_text(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Keep reStructuredText from reading ``|x|``, ``a*`` and indented formulas as markup."""
    out: list[str] = []
    verbatim = sections = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        sections |= indent == 0 and SECTION.fullmatch(line.strip()) is not None
        if line.strip() and indent == 0:
            verbatim = out[-2:] == ["::", ""] if not sections else False
        if not sections and indent and line.strip() and not verbatim and (not out or not out[-1].strip()):
            said = next((earlier for earlier in reversed(out) if earlier.strip()), "")
            if not said.endswith("::") and not said.lstrip().startswith(("-", "*")):
                out += ["::", ""]
            verbatim = True
        out.append(line if verbatim and indent else escaped(line))
    if what in ("attribute", "data"):
        out[:0] = ["..", ""]  # an empty comment: without it, napoleon reads the text before a colon as a type
    lines[:] = out


def plain_types(*documented: Any) -> tuple[str, str] | None:
    """Return signature and result type, with each type alias written as its name; None without a signature."""
    *_, signature, result = documented
    if signature is None:
        return None
    return FORWARD.sub(r"\1", signature), FORWARD.sub(r"\1", result or "")


def escaped(line: str) -> str:
    """Return the line with citations of our pages as links, and accidental markup escaped."""
    line = CITATION.sub(link, line)
    bullet = len(line) - len(BULLET.sub("", line))
    parts = QUOTED.split(line[bullet:])
    parts[::2] = [MARKUP.sub(r"\\\1", part) for part in parts[::2]]
    return line[:bullet] + "".join(parts)


def link(citation: re.Match[str]) -> str:
    """Return a link to the page or section that a docstring cites."""
    page, section = citation.groups()
    return f":ref:`{citation[0]} <{page}-{section}>`" if section else f":doc:`{citation[0]} </{page}>`"


def setup(app: Sphinx) -> None:
    """Register the hooks above; Sphinx calls this function when it starts."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    app.connect("autodoc-process-signature", plain_types)
    app.connect("source-read", name_sections)
    app.connect("autodoc-process-docstring", plain_text, priority=400)  # before napoleon
