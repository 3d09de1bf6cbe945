"""Gather the pages of the documentation site in a folder: ``python tools/write_system_pages.py build/docs-source``.

The folder has the layout of the repository, so that the links between pages hold as they are. Beside the pages that
people write it has one for each system of the catalog, made from its card, its pictures, the rows of the specification
and the indexes (`tools/pages`); `make docs` has Sphinx read it.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from pages import gallery, specification, systems, words
from pages.pictures import captions, files, pictures

from gnomon import catalog

ROOT = Path(__file__).parent.parent
COPIED = (
    "README.md", "README.zh-CN.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs/*.md", "docs/guide/*.md",
    "docs/decisions/*.md",
)  # fmt: skip
SHOWN = ("docs/**/*.py", "docs/static/*", "src/gnomon/**/*.py", "tests/**/*.py")
"""What the site shows, or is made by, beside its pages."""
DIGEST = "digest.txt"
"""Of all that a site is made of; `make docs` copies it beside the site once Sphinx had nothing to say."""
FOLDER_LINK = re.compile(r"(?<=\]\()(?!https?:)([^)#]+)(?=\))")
GUIDE = ("table", "images", "text", "ratings", "binary-matrix")

INDEX = """gnomon
======

Infer hidden structure from data: many kinds of models behind the same few verbs, judged by honest scores.
The search finds systems and parts by their English and Chinese names.

From a file to a report, a page for each kind of data: {kinds}. :doc:`The gallery <docs/gallery>` shows what each
system does; :doc:`the specification <docs/spec/index>` says what is built and which tests hold it.

.. toctree::
   :caption: Start
   :maxdepth: 1

   Overview <README.md>
   概览 <README.zh-CN.md>

.. toctree::
   :caption: From a file to a report
   :maxdepth: 1

{guide}

.. toctree::
   :caption: Topics
   :maxdepth: 1

{topics}

.. toctree::
   :caption: Reference
   :maxdepth: 1

   docs/gallery
   docs/systems/index
   docs/parts.md
   docs/words
   docs/spec/index

.. toctree::
   :caption: Project
   :maxdepth: 1

   How to add a system <CONTRIBUTING.md>
   CHANGELOG.md
   docs/decisions/README.md
"""


def index() -> str:
    """The first page."""
    topics = [file.name for file in sorted((ROOT / "docs").glob("*.md")) if file.name != "parts.md"]
    return INDEX.format(
        kinds=", ".join(f":doc:`{name.replace('-', ' ')} <docs/guide/{name}>`" for name in GUIDE),
        guide="\n".join(f"   docs/guide/{name}.md" for name in GUIDE),
        topics="\n".join(f"   docs/{name}" for name in topics),
    )


def decisions_page(text: str) -> str:
    """The list of decisions, followed by what Sphinx wants to know of its order."""
    pages = sorted(file.name for file in (ROOT / "docs" / "decisions").glob("0*.md"))
    return text + "\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"


def copied(file: Path) -> str:
    """The text of a page; a link to a folder leads to its index."""

    def target(link: re.Match[str]) -> str:
        folder = file.parent / link[0]
        if not folder.is_dir():
            return link[0]
        return f"{link[0]}/{'README.md' if (folder / 'README.md').exists() else 'index.rst'}"

    return FOLDER_LINK.sub(target, file.read_text(encoding="utf-8"))


def pages(drawn: Collection[str] | None = None) -> dict[str, str]:
    """Every page of the site by its path.

    Parameters
    ----------
    drawn : collection of str, optional
        Names of the systems that have a picture; all that there is a way to draw where left out.
    """
    drawn = captions() if drawn is None else drawn
    found = {
        file.relative_to(ROOT).as_posix(): copied(file) for pattern in COPIED for file in sorted(ROOT.glob(pattern))
    }
    found["docs/decisions/README.md"] = decisions_page(found["docs/decisions/README.md"])
    found |= {f"docs/systems/{one.name}.rst": systems.page(catalog.card(one), drawn) for one in catalog.ENTRIES}
    found |= specification.pages()
    return found | {
        "index.rst": index(), "docs/systems/index.rst": systems.index(), "docs/gallery.rst": gallery.page(drawn),
        "docs/words.rst": words.page(),
    }  # fmt: skip


def digest(found: Mapping[str, str]) -> str:
    """Of the pages, their pictures, and all that the site shows beside them."""
    made = hashlib.sha256(repr(sorted(found.items())).encode())
    made.update(repr(sorted(file.name for file in files(Path()).values())).encode())
    for file in sorted({file for pattern in SHOWN for file in ROOT.glob(pattern) if file.is_file()}):
        if "__pycache__" not in file.parts:
            made.update(file.relative_to(ROOT).as_posix().encode() + hashlib.sha256(file.read_bytes()).digest())
    return made.hexdigest()


def write(folder: Path, cache: Path) -> None:
    """Write every page and picture; what the folder held before is removed.

    Parameters
    ----------
    folder : Path
    cache : Path
        Where pictures are kept from one time to the next.
    """
    shutil.rmtree(folder, ignore_errors=True)
    drawn = pictures(cache)
    found = pages(drawn)
    for name, text in found.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "docs" / "pictures").mkdir()
    for name, file in drawn.items():
        shutil.copyfile(file, folder / "docs" / "pictures" / f"{name}.png")
    (folder / "docs" / "static").mkdir()
    for file in ROOT.glob("docs/static/*.png"):  # of the readmes
        shutil.copyfile(file, folder / "docs" / "static" / file.name)
    (folder / DIGEST).write_text(digest(found), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Gather the pages of the documentation site.")
    parser.add_argument("folder", type=Path, help="its content is replaced")
    parser.add_argument("--pictures", type=Path, default=ROOT / "build" / "pictures", help="where pictures are kept")
    arguments = parser.parse_args()
    write(arguments.folder, arguments.pictures)
