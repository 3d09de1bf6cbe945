"""The gallery: the picture of every system, by family."""

from __future__ import annotations

from collections.abc import Collection

from pages.pictures import captions
from pages.rst import heading
from pages.systems import families

HEAD = """
Every picture was drawn when this site was built, by a fit of the system to small data; it leads to the system's page.
"""


def page(drawn: Collection[str]) -> str:
    """The page with the pictures of these systems."""
    lines = [*heading("Gallery", "="), HEAD]
    for title, found in families():
        shown = [one for one in found if one.name in drawn]
        if not shown:
            continue
        lines += [*heading(title, "-"), ".. container:: gallery", ""]
        for one in shown:
            lines += [
                f"   .. figure:: pictures/{one.name}.png", f"      :alt: {captions()[one.name]}",
                f"      :target: systems/{one.name}.html", "", f"      :doc:`{one.name} <systems/{one.name}>`", "",
            ]  # fmt: skip
    return "\n".join(lines)
