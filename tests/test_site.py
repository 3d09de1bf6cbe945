"""The documentation site: a page for every system and every row of the specification, links that hold, a search that
finds Chinese, and a build without a warning."""

from __future__ import annotations

import doctest
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest

from gnomon import catalog
from gnomon.catalog.words import OF_SYSTEMS

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "docs" / "extensions")]  # scripts, not packages of the project

SYSTEM = [pytest.param(one, id=one.name) for one in catalog.ENTRIES]


@pytest.fixture(scope="module")
def tool():
    pytest.importorskip("docutils", reason="the extra docs is not installed")
    return importlib.import_module("write_system_pages")


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
    assert all(f"\n- :ref:`{row} <row-{row.lower()}>`: " in text for row in entry.rows)
    assert f".. figure:: ../pictures/{entry.name}.png" in text and "\n   >>> " in text
    assert ":math:`" in text or ".. math::" in text


@pytest.mark.parametrize("entry", SYSTEM)
def test_the_example_of_a_system_is_among_the_doctests(entry):
    """`pytest src` runs them all; here only that there is one, so that the example of a page is one that runs."""
    found = doctest.DocTestFinder(recurse=False).find(catalog.load_class(entry), entry.class_name)
    assert [one for one in found if one.examples]


def test_the_indexes_lead_to_every_page(pages):
    families = re.findall(r":doc:`([\w-]+)`", pages["docs/systems/index.rst"])
    assert families == [one.name for one in catalog.ENTRIES]
    assert re.findall(r":target: systems/([\w-]+)\.html", pages["docs/gallery.rst"]) == families
    for page in (ROOT / "docs").glob("*.md"):
        assert f"   docs/{page.name}\n" in pages["index.rst"]
    for page in (ROOT / "docs" / "guide").glob("*.md"):
        assert f"   docs/guide/{page.name}\n" in pages["index.rst"]
    for page in (ROOT / "docs" / "decisions").glob("0*.md"):
        assert f"\n{page.name}\n" in pages["docs/decisions/README.md"]


def test_links_between_pages_hold(pages):
    known = {*pages, *(file.relative_to(ROOT).as_posix() for file in ROOT.glob("docs/static/*.png"))}
    for name, text in pages.items():
        prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL) if name.endswith(".md") else ""
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
            assert (ROOT / name).parent.joinpath(link).resolve().relative_to(ROOT).as_posix() in known, (name, link)


# --- the specification ----------------------------------------------------------------------------------------------


def test_every_row_has_a_part_that_says_whether_it_is_built(tool, pages):
    rows = tool.specification.rows()
    named = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        for call in re.findall(r"mark\.spec\(([^()]*)\)", file.read_text(encoding="utf-8")):
            named |= set(re.findall(r'"([A-Z]{3}-\d+)"', call))
    assert len(rows) > 1000 and len(named & set(rows)) > 300
    for name, row in rows.items():
        part = pages[f"docs/spec/{row.page}.rst"].partition(f".. _row-{name.lower()}:\n")[2].partition(".. _row-")[0]
        assert row.fields and f"\n:Kind: {row.kind}\n" in part, name
        assert (":Status: not built" in part) == (name not in named), name
        assert (":Tests: - `" in part) == (name in named), name


MARKS = """
import pytest
from gnomon.nn.dropout import Dropout
import gnomon

CASES = [pytest.param(1, marks=pytest.mark.spec("XYZ-01"))]
BOTH = pytest.mark.spec("XYZ-02", "XYZ-03")


@pytest.fixture
def layer():
    return Dropout(0.5)


def helper():
    return gnomon.RBM()


@pytest.mark.parametrize("case", CASES)
def test_cases(case):
    helper()


@BOTH
def test_both(layer):
    pass


@pytest.mark.spec("XYZ-04")
class TestAll:
    def test_own(self):
        gnomon.make("kmeans")


def test_none():
    pass
"""


def test_marks_are_found_where_pytest_finds_them(tool, tmp_path):
    (tmp_path / "test_marks.py").write_text(MARKS)
    module = importlib.import_module("pages.evidence").Module(tmp_path / "test_marks.py")
    found = {test.name: (rows, {one.name for one in module.uses(test)}) for test, rows in module.tests()}
    assert found == {
        "test_cases": ({"XYZ-01"}, {"RBM"}),
        "test_both": ({"XYZ-02", "XYZ-03"}, {"Dropout"}),
        "test_own": ({"XYZ-04"}, {"KMeans"}),
    }


def test_a_source_page_has_a_target_for_every_line():
    page = importlib.import_module("source_pages").page("src/gnomon/x.py", 'a = """1\n<b>"""\n\n\ndef f(): ...\n')
    assert re.findall(r'<span id="L(\d+)">', page) == ["1", "2", "3", "4", "5"]
    assert "&lt;b&gt;" in page and 'href="../../../index.html"' in page


# --- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pages.rst", "pages.specification", "chinese_search"])
def test_examples_of_the_tools_run(tool, name):
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted and not done.failed


@pytest.mark.parametrize(
    ("text", "marked"),
    [("W_* of |x|", r"W\_\* of \|x\|"), ("``a_`` and b_", r"``a_`` and b\_"), (":math:`x_*`", ":math:`x_*`")],
)
def test_only_code_and_formulas_keep_their_marks(text, marked):
    assert importlib.import_module("pages.rst").escaped(text) == marked


# --- the built site -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tool, pages, tmp_path_factory):
    """The site that `make docs` has built where it is that of this source, else one of our own."""
    built, known = ROOT / "build" / "docs", ROOT / "build" / "docs" / tool.DIGEST
    if known.exists() and known.read_text() == tool.digest(pages):
        return built
    folder = tmp_path_factory.mktemp("site")
    tool.write(folder / "source", ROOT / "build" / "pictures")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", str(ROOT / "docs")]
    done = subprocess.run(
        [*command, str(folder / "source"), str(folder / "site")], capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder / "site"


@pytest.mark.slow
def test_the_site_shows_titles_formulas_and_pictures_without_a_network(site):
    for entry in catalog.ENTRIES:
        html = unescape((site / "docs" / "systems" / f"{entry.name}.html").read_text(encoding="utf-8"))
        assert entry.title_zh in re.search(r"<title>(.*?)</title>", html, re.S)[1]
        assert re.search(rf'<img [^>]*src="\.\./\.\./_images/{entry.name}\d*\.png"', html)
    assert "<math " in (site / "docs" / "systems" / "rbm.html").read_text(encoding="utf-8")
    network = [
        (page.name, found)
        for page in site.rglob("*.html")
        for found in re.findall(r"<(?:script|link|img)\b[^>]*https?://[^>]*>", page.read_text(encoding="utf-8"))
    ]
    assert network == []


@pytest.mark.slow
def test_every_link_of_the_site_leads_to_a_file_and_a_place_in_it(site):
    texts = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    places = {os.path.normpath(page): set(re.findall(r'\bid="([^"]+)"', text)) for page, text in texts.items()}
    broken = []
    for page, text in texts.items():
        for link in set(re.findall(r'<(?:a|link)\b[^>]*\bhref="([^"]+)"', text)):
            if re.match(r"(https?|mailto|data):", link):
                continue
            path, _, place = unescape(link).partition("#")
            path = path.partition("?")[0]
            file = os.path.normpath(page.parent / path if path else page)
            if not os.path.exists(file) or (place and file in places and place not in places[file]):
                broken.append((page.relative_to(site).as_posix(), link))
    assert broken == []


WORDS = {
    "玻尔兹曼机": "systems/rbm", "玻尔": "systems/rbm", "泊松": "words", "松": "words", "卷积": "systems/lenet",
    "高斯混合": "systems/gaussian-mixture", "K均值": "systems/kmeans", "boltzmann": "systems/rbm",
}  # fmt: skip
"""What people type, and a page that they look for."""
FIRST = ("玻尔兹曼机", "卷积", "高斯混合", "K均值")
"""Half or more of a name of a system: systems of that name stand first."""


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
def test_the_index_of_the_search_holds_parts_of_chinese_words(site, word):
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    english = importlib.import_module("chinese_search").SearchEnglishAndChinese({})
    parts = [one for one in english.split(word) if len(word) == 1 or len(one) > 1 or one.isascii()]
    found = []
    for part in parts:
        pages = (index[kind].get(english.stem(part).lower(), []) for kind in ("terms", "titleterms"))
        found.append({one for some in pages for one in (some if isinstance(some, list) else [some])})
    assert f"docs/{WORDS[word]}" in {index["docnames"][one] for one in set.intersection(*found)}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no Chromium")
@pytest.mark.parametrize("word", WORDS)
def test_the_search_of_a_browser_finds_chinese(site, word, tmp_path):
    address = f"{(site / 'search.html').as_uri()}?q={quote(word)}"
    flags = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", "--virtual-time-budget=20000", "--dump-dom",
    ]  # fmt: skip
    done = subprocess.run(
        ["chromium", *flags, f"--user-data-dir={tmp_path / 'profile'}", address],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    results = done.stdout.partition('<ul role="list" class="search">')[2].partition("</ul>")[0]
    links = re.findall(r'<a href="([^"#]+)', results)
    assert f"docs/{WORDS[word]}.html" in links
    if word in FIRST:
        named = [one.name for one in catalog.ENTRIES if word in f"{one.title_zh} {OF_SYSTEMS.get(one.name, '')}"]
        first = list(dict.fromkeys(links))[: max(1, len(named))]
        assert first[0].startswith("docs/systems/") and f"docs/{WORDS[word]}.html" in first
