"""Documentation that runs: every python block and command of the readmes and of docs, in a temporary folder.

The blocks of a page share their names, as a reader would type them one after the other. A block marked ```` ```python
slow ```` takes minutes and is run with the slow tests, on its own; so are the commands of a page, one after the other,
in a folder that holds the files they name. A page of docs/guide writes its own files: all of it is run in order, and
what stands in a block ```` ```output ```` is what the block before it prints. The readmes must say the same in both
languages.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from matplotlib import image
from PIL import Image

from gnomon import catalog
from gnomon.cli.main import VERBS
from gnomon.cli.main import run as gnomon_command
from oracles.computing import Computing

ROOT = Path(__file__).parent.parent
README, CHINESE = ROOT / "README.md", ROOT / "README.zh-CN.md"
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
PAGES = [README, CHINESE, *sorted((ROOT / "docs").glob("*.md"))]
NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?![\w.])")
SECONDS = 20.0
"""Processor time that a block may take, without the compilation of kernels; those that take more are marked slow."""


class Block(NamedTuple):
    page: Path
    line: int
    kind: str
    code: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    fences = re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(page, text.count("\n", 0, one.start(2)), one.group(1).strip(), one.group(2)) for one in fences]


def run(block: Block, names: dict) -> float:
    """Seconds of processor time without compilation; a failure names the line of the page."""
    with Computing() as computing:
        exec(compile("\n" * block.line + block.code, str(block.page), "exec"), names)
    return computing.seconds


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A reader's folder, with the file that docs/data.md speaks of."""
    x = np.random.Generator(np.random.PCG64(0)).normal(size=(60, 12))
    np.savetxt(tmp_path / "big.csv", x, delimiter=",", header=",".join("abcdefghijkl"), comments="")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_blocks_are_found_where_they_stand():
    assert all(one.kind in ("", "output", "python", "python slow") for page in PAGES for one in blocks(page))
    first = next(one for one in blocks(README) if one.kind == "python")
    lines = README.read_text(encoding="utf-8").splitlines()
    assert lines[first.line] == first.code.splitlines()[0] == "import gnomon"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=() if page == README else pytest.mark.slow)
        for page in PAGES
        if "```python\n" in page.read_text(encoding="utf-8")
    ],
)
def test_every_block_of_a_page_runs(page, folder, capsys):
    names = {"__name__": "documentation"}
    took = {block.line: run(block, names) for block in blocks(page) if block.kind == "python"}
    assert {line: seconds for line, seconds in took.items() if seconds > SECONDS} == {}


@pytest.mark.slow
@pytest.mark.parametrize("block", [one for page in PAGES for one in blocks(page) if one.kind == "python slow"],
                         ids=lambda block: f"{block.page.name}:{block.line}")  # fmt: skip
def test_slow_blocks_run(block, folder):
    run(block, {"__name__": "documentation"})


@pytest.fixture
def files(folder):
    """The files that commands of the documentation name, small ones."""
    random, n = np.random.Generator(np.random.PCG64(1)), 600
    people = pl.DataFrame({
        "id": [f"p{i}" for i in range(n)], "age": random.integers(18, 90, n), "city": random.choice(["Bonn", "Ulm"], n),
        "spent": random.normal(100, 20, n),
    })  # fmt: skip
    people = people.with_columns(
        churned=pl.when(pl.col("age") + pl.col("spent") > 150).then(pl.lit("yes")).otherwise(pl.lit("no"))
    )
    people.write_csv("people.csv")
    people.drop("churned").head(9).write_csv("new-people.csv")
    people.drop("churned").head(9).write_csv("new.csv")
    houses = pl.DataFrame({"rooms": random.integers(1, 9, 120), "area": random.normal(90, 30, 120)})
    houses.with_columns(price=1e3 * pl.col("area") + random.normal(0, 5e3, 120)).write_csv("houses.csv")
    houses.head(9).write_csv("new-houses.csv")
    houses.with_columns(rooms=pl.col("rooms") + random.normal(0, 0.3, 120)).write_csv("noisy-houses.csv")
    for kind in ("pets/cat", "pets/dog", "birds/robin", "birds/wren"):
        (folder / kind).mkdir(parents=True)
        for i in range(12):
            image.imsave(folder / kind / f"{i}.png", random.random((8, 8)), cmap="gray")
    (folder / "photos").mkdir()
    for i in (9, 14):
        Image.fromarray(random.integers(0, 256, (i, 12)).astype(np.uint8)).save(folder / "photos" / f"{i}.png")
    (folder / "holiday/images").mkdir(parents=True)
    for i in range(12):
        image.imsave(folder / "holiday/images" / f"{i}.png", random.random((8, 8)))
    names = [f"{i}.png" for i in range(12)]
    pl.DataFrame({"file": names, "caption": ["a lake", "a hill"] * 6}).write_csv(folder / "holiday/captions.csv")
    image.imsave("photo.png", random.random((8, 8)), cmap="gray")
    beans = pl.DataFrame({"long": random.normal(size=90), "wide": random.normal(size=90)})
    beans = beans.with_columns(variety=pl.Series(np.where(beans["long"] > 0, "borlotti", "navy")))
    beans.write_csv("beans.csv")
    pl.DataFrame({"label": ["3", "7"]}).write_csv("numerals.csv")
    days = [f"{y}-{m:02}-{d:02}" for y in (1931, 1958) for m in (3, 11) for d in range(10, 20)]
    Path("backward.tsv").write_text("".join(f"{day}\t{int(day[8:])} {day[5:7]} {day[:4]}\n" for day in days))
    Path("targets.txt").write_text("1942-03-15\n1977-11-11\n")
    cities = {
        "text": ["Ada went to Ulm", "Bonn is large", "New York"],
        "tags": ["B-per O O B-loc", "B-loc O O", "B-loc I-loc"],
    }
    pl.DataFrame({name: column * 6 for name, column in cities.items()}).write_csv("cities.csv")
    np.save("flipped.npy", 16 * random.integers(0, 2, (5, 64)))
    np.savez("spots.npz", X=random.integers(0, 256, (60, 8, 8), dtype=np.uint8), y=random.normal(size=(60, 3)))
    return folder


COMMANDS = {
    page: [
        line
        for block in blocks(page)
        if block.kind == ""
        for line in block.code.splitlines()
        if line.startswith("gnomon ")
    ]
    for page in PAGES
    if page != CHINESE  # has those of the other one
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("page", [page for page, lines in COMMANDS.items() if lines], ids=lambda page: page.name)
def test_every_command_of_a_page_ends_well(page, files):
    for line in COMMANDS[page]:
        if "new.csv" in line and "beans" in line:
            pl.read_csv("beans.csv").drop("variety").head(5).write_csv("new.csv")
        shorter = re.sub(r"--trials \d+", "--trials 4", line)  # a search of thirty fits ends no differently
        shorter = re.sub(r"(max.updates[ =])(\d+)", lambda found: found[1] + str(min(50, int(found[2]))), shorter)
        assert gnomon_command(shlex.split(shorter, comments=True)[1:]) == 0, f"{page.name}: {line}"


def printed(expected: str, found: str) -> bool:
    """Whether a text was printed: ``...`` is anything, blanks are alike, numbers with a point may differ by 2 %."""
    parts = NUMBER.split(expected)
    pattern = r"(-?\d+\.\d+)".join(
        r"\s+".join(re.escape(word).replace(r"\.\.\.", ".*?") for word in re.split(r"\s+", part)) for part in parts
    )
    match = re.fullmatch(pattern.replace(r".*?\s+", r".*?\s*"), found, re.DOTALL)
    known = [float(one) for one in NUMBER.findall(expected)]
    return match is not None and np.allclose([float(one) for one in match.groups()], known, rtol=0.02, atol=1e-9)


@pytest.mark.parametrize(
    ("expected", "same"),
    [("a  0.50\n...\n", True), ("a 0.505 b\nc 7\n", True), ("a 0.6 b\nc 7\n", False), ("a 0.5\n", False),
     ("... c 7\n", True), ("a 0.5 ...\nc 8\n", False)],
)  # fmt: skip
def test_what_is_printed_is_compared(expected, same):
    assert printed(expected, "a   0.5  b\nc 7\n") == same


def compare_outputs(found: list[Block], capsys) -> None:
    """Run blocks in order; a block ``output`` is what the one before it prints."""
    names, said = {"__name__": "documentation"}, ""
    for block in found:
        assert block.kind in ("", "python", "output")
        if block.kind == "output":
            assert printed(block.code, said), f"{block.page.name}:{block.line}:\n{said}"
            continue
        capsys.readouterr()
        if block.kind == "python":
            run(block, names)
        for line in block.code.splitlines() if block.kind == "" else ():
            assert gnomon_command(shlex.split(line)[1:]) == 0, f"{block.page.name}: {line}"
        said = capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_readme_shows_what_its_examples_print(folder, capsys):
    known = blocks(README)
    outputs = [i for i, one in enumerate(known) if one.kind == "output"]
    assert len(outputs) == 6
    compare_outputs([one for i in outputs for one in known[i - 1 : i + 1]], capsys)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_a_page_of_the_guide_leads_from_a_file_to_a_report(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    compare_outputs(blocks(page), capsys)
    assert len(list(tmp_path.glob("*-run/report.html"))) == 1


def test_a_block_that_fails_is_told_by_its_line():
    block = Block(README, 6, "python", "x = 1\ny = no_such_name\n")
    with pytest.raises(NameError) as told:
        run(block, {})
    assert told.traceback[-1].lineno + 1 == 8 and Path(told.traceback[-1].path) == README


def test_both_readmes_have_the_same_code():
    english, chinese = (
        [re.sub(r"\s*#.*", "", block.kind + "\n" + block.code) for block in blocks(page)] for page in (README, CHINESE)
    )
    assert english == chinese and len(english) > 4


def test_both_readmes_list_every_system():
    spec = importlib.util.spec_from_file_location("write_readme", README.parent / "tools" / "write_readme.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    for page in (README, CHINESE):
        assert page.read_text(encoding="utf-8") == tool.render(page.name), "run python tools/write_readme.py"
        rows = re.findall(r"^\|.*`.*\|$", page.read_text(encoding="utf-8"), re.MULTILINE)
        names = {name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row)}
        assert names == {entry.name for entry in catalog.ENTRIES}


def test_commands_of_the_readme_exist():
    told = {name for block in blocks(README) for name in re.findall(r"^(?:\.venv/bin/)?gnomon (\w+)", block.code, re.M)}
    assert {"info", "fit", "diagnose", "list"} <= told <= set(VERBS)


@pytest.mark.parametrize("page", [*PAGES, *GUIDE], ids=lambda page: page.name)
def test_links_and_names_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (page.parent / link).exists(), link
    for name in re.findall(r"`(gnomon(?:\.\w+)+)", text):
        assert resolved(name), name


def resolved(name: str) -> bool:
    """Whether a dotted name is a module, or a name inside one."""
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:k]))
        except ImportError:
            continue
        for part in parts[k:]:
            found = getattr(found, part, None)
        return found is not None
    return False
