"""Write src/gnomon/__init__.pyi from the lazy names of the package: ``python tools/write_stub.py``.

The stub re-exports, so that editors and type checkers see the real signatures.
"""

from __future__ import annotations

from pathlib import Path

import gnomon
from gnomon.catalog import ENTRIES

STUB = Path(__file__).parent.parent / "src" / "gnomon" / "__init__.pyi"


def render() -> str:
    """The text of the stub."""
    classes = {entry.class_name: entry.where for entry in ENTRIES}
    lines = ["from typing import Any", ""]
    for name, where in sorted((gnomon._WHERE | classes).items(), key=lambda item: (item[1], item[0])):
        module, _, attribute = where.partition(":")
        if not attribute and name != "catalog":
            lines.append(f"from gnomon import {name} as {name}")
        elif name == "catalog":
            lines.append("from gnomon.catalog import catalog as catalog")
        else:
            lines.append(f"from {module} import {attribute} as {name}")
    return "\n".join([*lines, "", "__version__: str", "", "def make(name: str, **params: Any) -> Any: ...", ""])


if __name__ == "__main__":
    STUB.write_text(render(), encoding="utf-8")
