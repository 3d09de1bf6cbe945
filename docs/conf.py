"""How Sphinx builds the documentation site (`make docs`) from what tools/write_system_pages.py gathers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, NumpyDocstring
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from gnomon import __version__

project = "gnomon"
author = "The gnomon developers"
copyright = author
version = release = __version__

sys.path.insert(0, str(Path(__file__).parent / "extensions"))
extensions = ["myst_parser", "chinese_search", "source_pages"]
myst_heading_anchors = 3
smartquotes = False
default_role = "literal"
highlight_language = "none"

html_theme = "furo"
html_title = "gnomon"
html_math_renderer = "mathml"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]

LOGGER = logging.getLogger(__name__)
SECTIONS = Config(
    napoleon_use_param=False, napoleon_use_rtype=False, napoleon_custom_sections=[("Attributes", "params_style")]
)


class Numpydoc(SphinxDirective):
    """A docstring with the sections of numpydoc."""

    has_content: ClassVar[bool] = True

    def run(self) -> list[nodes.Node]:
        """The nodes of the docstring."""
        return self.parse_text_to_nodes(str(NumpyDocstring(list(self.content), SECTIONS, what="class")))


def formula(writer: Any, node: nodes.math | nodes.math_block) -> None:
    """A formula as MathML, which browsers draw without a script from the network."""
    block = isinstance(node, nodes.math_block)
    text = node.astext().replace("\\dots", "\\ldots")  # unknown to docutils
    try:
        writer.body.append(tex2mathml(text, as_block=block))
    except MathError as error:
        LOGGER.warning("%s: %s", text, error, location=node)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("numpydoc", Numpydoc)
    app.add_html_math_renderer("mathml", inline_renderers=(formula, None), block_renderers=(formula, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
