"""Short labeled texts that every Python carries: what its standard library says of itself."""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gnomon.data.dataset import Dataset
from gnomon.errors import UserValueError

__all__ = ["python_docstrings"]

FAMILIES = {
    "concurrency": ("asyncio", "queue", "threading"),
    "files": ("_pyio", "bz2", "gzip", "lzma", "os", "pathlib", "shutil", "tarfile", "tempfile", "zipfile"),
    "network": ("ftplib", "http", "ipaddress", "smtplib", "socket", "socketserver", "urllib"),
    "numbers": ("_pydecimal", "colorsys", "fractions", "random", "statistics"),
}
"""Modules by what they are for."""
LEAST = 6
"""Words of a text."""


def python_docstrings() -> Dataset:
    """First paragraphs of docstrings of Python's standard library, labeled by what their modules are for.

    The text belongs to the Python version; it is under the PSF license. The rule that makes it: the sources of the
    modules of `FAMILIES` are read and not imported, families and modules in alphabetical order, packages file by file
    without their tests. Of every class, function and module with a docstring the first paragraph is taken, its white
    space made single blanks; one of fewer than `LEAST` words, with a prompt, or that came before is left out.

    Raises
    ------
    UserValueError
        A Python that comes without its sources.

    Examples
    --------
    >>> python_docstrings().classes
    ('concurrency', 'files', 'network', 'numbers')
    """
    library = Path(sysconfig.get_path("stdlib"))
    found: dict[str, int] = {}
    for label, modules in enumerate(FAMILIES.values()):
        for file in (file for module in modules for file in _files(library, module)):
            for text in _paragraphs(file):
                found.setdefault(text, label)
    if not found:
        remedy = "install a complete Python, or give a file of texts"
        raise UserValueError("this Python comes without the sources of its library", str(library), remedy)
    y = np.fromiter(found.values(), np.int64, len(found))
    name = "python-docstrings"
    return Dataset(name, text=tuple(found), y=y, classes=tuple(FAMILIES), source={"name": name})


def _files(library: Path, module: str) -> list[Path]:
    """Sources of a module or package."""
    alone = library / f"{module}.py"
    if alone.exists():
        return [alone]
    inside = sorted((library / module).rglob("*.py"))
    return [file for file in inside if "test" not in file.relative_to(library).parts]


def _paragraphs(file: Path) -> Iterator[str]:
    """First paragraphs of the docstrings of a source."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
        if len(first.split()) >= LEAST and ">>>" not in first:
            yield first
