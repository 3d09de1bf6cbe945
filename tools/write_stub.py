"""Write src/gnomon/__init__.pyi from the lazy names of the package: ``python tools/write_stub.py``.

The stub re-exports, so that editors and type checkers see the real signatures. A test keeps it fresh.
"""

from __future__ import annotations

from pathlib import Path

import gnomon

STUB = Path(__file__).parent.parent / "src" / "gnomon" / "__init__.pyi"

HEAD = '''\
"""Written by tools/write_stub.py."""

'''
TAIL = """\

def catalog() -> tuple[Entry, ...]:
    \"\"\"Every system, gnomon's own first, then those of plug-ins.\"\"\"
"""


def render() -> str:
    """The text of the stub."""
    lines = ["from gnomon._version import __version__ as __version__", "from gnomon.catalog import Entry"]
    for name, where in gnomon._WHERE.items():
        module, _, attribute = where.partition(":")
        if not attribute:
            module, _, attribute = module.rpartition(".")
        lines.append(f"from {module} import {attribute} as {name}")
    return HEAD + "\n".join(sorted(lines, key=_order)) + "\n" + TAIL


def _order(line: str) -> tuple[str, str, str]:
    """As ruff sorts imports: by module, then constants before classes before functions."""
    _, module, _, name, *_ = line.split()
    return module, "0" if name.isupper() else "1" if name[:1].isupper() else "2", name


if __name__ == "__main__":
    STUB.write_text(render(), encoding="utf-8")
