"""The documentation site: a page for every system of the catalog, and a build without a warning."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from gnomon import catalog

ROOT = Path(__file__).parent.parent
SYSTEM = [pytest.param(one, id=one.name) for one in catalog.ENTRIES]


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("write_system_pages", ROOT / "tools" / "write_system_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(tool):
    return tool.pages()


@pytest.mark.parametrize("entry", SYSTEM)
def test_every_system_has_a_page_with_all_its_parameters(pages, entry):
    text, card = pages[f"docs/systems/{entry.name}.rst"], catalog.card(entry)
    title, line = re.search(r"^(.+)\n(=+)$", text, re.M).groups()
    assert title.endswith(f" · {entry.title_zh}") and len(line) > len(title)
    assert {f"``{verb}``" for verb in card.verbs} <= set(re.search(r"^:Verbs: (.+)$", text, re.M)[1].split(", "))
    parameters = text.partition("\nParameters\n---")[2].partition("\nRecipes for ")[0]
    assert re.findall(r"^   \* - ``(\w+)``$", parameters, re.M) == [p.name for p in card.parameters]
    written = set(re.findall(r"^   \* - ``([\w.]+)``\n     - ``([\w-]+)``$", text, re.M))
    assert {(address, recipe.short) for address, recipe, _ in card.fields()} == written
    assert all(f"\n- {row}: " in text for row in entry.rows)


def test_the_indexes_lead_to_every_page(pages):
    families = re.findall(r":doc:`([\w-]+)`", pages["docs/systems/index.rst"])
    assert families == [one.name for one in catalog.ENTRIES]
    for page in (ROOT / "docs").glob("*.md"):
        assert f"   docs/{page.name}\n" in pages["index.rst"]
    for page in (ROOT / "docs" / "decisions").glob("0*.md"):
        assert f"\n{page.name}\n" in pages["docs/decisions/README.md"]


def test_links_between_pages_hold(pages):
    for name, text in pages.items():
        prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL) if name.endswith(".md") else ""
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
            assert (ROOT / name).parent.joinpath(link).resolve().relative_to(ROOT).as_posix() in pages, (name, link)


@pytest.mark.parametrize(
    ("text", "marked"),
    [("W_* of |x|", r"W\_\* of \|x\|"), ("``a_`` and b_", r"``a_`` and b\_"), (":math:`x_*`", ":math:`x_*`")],
)
def test_only_code_and_formulas_keep_their_marks(tool, text, marked):
    assert tool.escaped(text) == marked


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tool, tmp_path):
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    source, site = tmp_path / "source", tmp_path / "site"
    tool.write(source)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-c",
        str(ROOT / "docs"),
        str(source),
        str(site),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for entry in catalog.ENTRIES:
        html = unescape((site / "docs" / "systems" / f"{entry.name}.html").read_text(encoding="utf-8"))
        assert entry.title_zh in re.search(r"<title>(.*?)</title>", html, re.S)[1]
    assert "<math " in (site / "docs" / "systems" / "rbm.html").read_text(encoding="utf-8")
    network = [
        (page.name, found)
        for page in site.rglob("*.html")
        for found in re.findall(r"<(?:script|link|img)\b[^>]*https?://[^>]*>", page.read_text(encoding="utf-8"))
    ]
    assert network == []
