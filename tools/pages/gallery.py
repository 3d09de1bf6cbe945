"""The gallery: the picture of every system, by family."""

from __future__ import annotations

from pages.pictures import captions
from pages.rst import heading
from pages.systems import families

HEAD = """
Every picture was drawn when this site was built, by a fit of the system to small data; it leads to the system's page.
"""


def page() -> str:
    """The page with all pictures."""
    lines = [*heading("Gallery", "="), HEAD]
    for title, found in families():
        drawn = [one for one in found if one.name in captions()]
        if not drawn:
            continue
        lines += [*heading(title, "-"), ".. container:: gallery", ""]
        for one in drawn:
            lines += [
                f"   .. figure:: pictures/{one.name}.png", f"      :alt: {captions()[one.name]}",
                f"      :target: systems/{one.name}.html", "", f"      :doc:`{one.name} <systems/{one.name}>`", "",
            ]  # fmt: skip
    return "\n".join(lines)
