"""Names and texts that no page would like do no harm, in every section that shows any, and on pages of comparisons."""

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run as command
from gnomon.report.verb import report
from oracles.written_page import Page, checked

NAMES = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\u202egnp.exe", "$x_1^{", "a" * 10_000, "</style>",
    "\u05e9\u05dc\u05d5\u05dd", "\U0001f9ea\U0001f525", "&amp;", "x\u200by",
]  # fmt: skip
FILE = "<b onclick=alert(1)>d.csv"
CLASSES = ["</table><script>alert(2)</script>", "\u202eevil", "\U0001f600 " * 30]


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table with hostile names of columns, classes and file, in the folder where the commands run."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    kind = np.arange(120) % 3
    X = random.normal(size=(120, len(NAMES))) + kind[:, None]
    lines = [",".join([*map(quoted, NAMES), "kind"])]
    lines += [",".join([*map(str, np.round(x, 4)), quoted(CLASSES[k])]) for x, k in zip(X, kind, strict=True)]
    (tmp_path / FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def harmless(file):
    """The page, which runs nothing and turns no direction."""
    text = file.read_text(encoding="utf-8")
    checked(file)
    for word in ("<script", "<img src=x", "<b onclick", "\u202e", "\u200b", "a" * 2000):
        assert word not in text, word
    assert text.count("<style>") == text.count("</style>") == 1
    return Page(file)


@pytest.mark.parametrize(
    ("words", "sections"),
    [
        (["random-forest", FILE, "--target", "kind", "--n-trees", "3"], ["Worst mistakes", "Columns that matter"]),
        (["logistic-regression", FILE, "--target", "kind"], ["Columns that matter", "The confusion matrix as a table"]),
        (["ppca", FILE, "--target", "kind", "--n-components", "3"], ["Reconstructions", "Samples", "Map of rows"]),
        (["kmeans", FILE, "--target", "kind", "--n-clusters", "3"], ["Map of clusters", "What it is made of"]),
        (["vae", FILE, "--target", "kind", "--n-latent", "3", "--epochs", "2"], ["Reconstructions", "Map of rows"]),
    ],
)
def test_names_of_columns_classes_and_files(folder, words, sections):
    assert command(["fit", *words, "--out", "run", "--random-state", "0", "--json"]) == 0
    page = harmless(report("run"))
    assert [one for one in sections if one not in page.text] == []


def test_a_comparison_of_hostile_data(folder, capsys):
    words = ["compare", "decision-tree", "logistic-regression", FILE, "--target", "kind", "--out", "both", "--json"]
    assert command(words) == 0
    page = harmless(folder / "both" / "report.html")
    assert f"Leaderboard: classify on {FILE}" in page.text
    capsys.readouterr()


def test_names_that_are_blank_are_refused_or_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [f"{i % 5},{i},{'ab'[i % 2]}" for i in range(40)]
    (tmp_path / "t.csv").write_text('"   ",b,kind\n' + "\n".join(rows) + "\n")
    status = command(["fit", "decision-tree", "t.csv", "--target", "kind", "--out", "run", "--json"])
    capsys.readouterr()
    if status == 0:
        harmless(report("run"))
    assert status in (0, 2)


def test_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{NAMES[i % len(NAMES)][:500]} was here {i % 7}" for i in range(80)]
    (tmp_path / "<i>t.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert (
        command(
            ["fit", "ngram", "<i>t.txt", "--smoothing", "additive", "--out", "run", "--random-state", "0", "--json"]
        )
        == 0
    )
    page = harmless(report("run"))
    assert any("alert(1)" in cell for row in page.tables["texts"] for cell in row)


def test_translations(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{NAMES[i % 4]} {i % 9}\t{i % 9} {NAMES[i % 4]}" for i in range(60)]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = ["fit", "seq2seq", "pairs.tsv", "--n-hidden", "6", "--epochs", "1", "--out", "run", "--random-state", "0"]
    assert command([*words, "--json"]) == 0
    page = harmless(report("run"))
    assert any("alert(1)" in cell for row in page.tables["translations"] for cell in row)


def test_items_and_users(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    pairs = sorted({(int(u), int(i)) for u, i in random.integers(0, 10, (70, 2))})
    lines = ["user,item", *(f"u{u},{quoted(NAMES[i])}" for u, i in pairs)]
    (tmp_path / "met.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert command(["fit", "implicit-factorization", "met.csv", "--n-factors", "2", "--out", "run", "--json"]) == 0
    harmless(report("run"))


def test_folders_of_images(tmp_path, monkeypatch):
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    for kind in ("<img src=x>", "\u202eevil", "\U0001f600"):
        (tmp_path / "images" / kind).mkdir(parents=True)
        for i in range(12):
            image = random.integers(0, 255, (6, 6)).astype(np.uint8)
            Image.fromarray(image).save(tmp_path / "images" / kind / f"<b>{i}.png")
    assert command(["fit", "logistic-regression", "images", "--out", "run", "--json"]) == 0
    page = harmless(report("run"))
    assert "<img src=x>" in page.text  # as words


def test_chains_of_a_hostile_target(tmp_path):
    def target(x):
        return -0.5 * (x * x).sum(-1)

    target.__qualname__ = "<script>alert(3)</script>"
    gnomon.sample_chain(target, start=2, draws=50, burn_in=20, random_state=0, run=tmp_path / "<u>run")
    page = harmless(report(tmp_path / "<u>run"))
    assert "alert(3)" in page.text
