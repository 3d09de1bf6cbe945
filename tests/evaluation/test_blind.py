"""The blind test: balanced, random and reproducible lists, intervals against SciPy, nothing but pixels to tell by."""

import base64
import json
import os
import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from scipy.stats import binomtest

import gnomon
from gnomon.cli.main import run
from gnomon.errors import UserError, UserValueError
from gnomon.evaluation import TrialScore, exact_interval, make_blind_trial, score_trial
from gnomon.tasks.blind_folders import SEAL, make_blind_folder, score_blind_folder
from gnomon.tasks.blind_sheets import read_answers
from oracles.commands import call


@pytest.mark.spec("GEN-143")
@pytest.mark.parametrize("n", [1, 7, 20, 300])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_intervals_are_scipys(n, level):
    for hits in {0, 1, n // 3, n // 2, n - 1, n}:
        peer = binomtest(hits, n).proportion_ci(level, method="exact")
        assert exact_interval(hits, n, level) == pytest.approx((peer.low, peer.high), abs=1e-12)


@pytest.mark.spec("GEN-143")
def test_the_interval_covers_at_its_level():
    """By summing binomial probabilities: at no rate does it cover less than it says."""
    from scipy.stats import binom

    ends = np.array([exact_interval(k, 15, 0.9) for k in range(16)])
    for rate in np.linspace(0.01, 0.99, 99):
        inside = (ends[:, 0] <= rate) & (rate <= ends[:, 1])
        assert binom.pmf(np.arange(16), 15, rate)[inside].sum() >= 0.9


@pytest.mark.spec("GEN-143")
def test_a_trial_is_balanced_and_the_same_again():
    real, made = np.arange(40.0)[:, None], -1 - np.arange(30.0)[:, None]
    for seed in range(20):
        trial = make_blind_trial(real, made, 50, random_state=seed)
        assert (trial.truth == "real").sum() == (trial.truth == "model").sum() == 25
        assert ((trial.items[:, 0] >= 0) == (trial.truth == "real")).all()
        assert len(np.unique(trial.items)) == 50  # none twice
        whole = np.concatenate([real, made])
        assert (np.where(trial.truth == "real", whole[trial.places, 0], -1 - trial.places) == trial.items[:, 0]).all()
    again = make_blind_trial(real, made, 50, random_state=19)
    assert np.array_equal(again.items, trial.items) and np.array_equal(again.truth, trial.truth)
    other = make_blind_trial(real, made, 50, random_state=20)
    assert not np.array_equal(other.truth, trial.truth)


@pytest.mark.spec("GEN-143")
def test_no_place_of_the_list_says_what_stands_there():
    """Over 2,000 trials of 10 items each place is real in half of them, and so is what follows a real one.

    z within 4.5 at 10 + 9 places: a false alarm in 7,000 runs.
    """
    real, made = np.zeros((5, 1)), np.ones((5, 1))
    truth = np.array([make_blind_trial(real, made, random_state=seed).truth == "real" for seed in range(2000)])
    assert (np.abs(truth.mean(axis=0) - 0.5) < 4.5 * 0.5 / np.sqrt(2000)).all()
    both = (truth[:, 1:] & truth[:, :-1]).mean(axis=0)
    chance = 0.5 * 4 / 9
    assert (np.abs(both - chance) < 4.5 * np.sqrt(chance * (1 - chance) / 2000)).all()


@pytest.mark.spec("GEN-143")
def test_the_fooling_rate_counts_model_items_alone():
    truth = ["model"] * 10 + ["real"] * 12
    answers = ["real"] * 4 + ["model"] * 6 + ["real"] * 9 + ["model"] * 3
    found = score_trial(truth, answers)
    assert (found.fooling_rate, found.real_rate, found.right) == (0.4, 0.75, 15)
    peer = binomtest(4, 10).proportion_ci(0.95, method="exact")
    assert found.fooling_interval == pytest.approx((peer.low, peer.high), abs=1e-12)
    assert found.p_value == pytest.approx(binomtest(15, 22, alternative="greater").pvalue, rel=1e-12)
    trusting = score_trial(truth, ["real"] * 22)
    assert trusting.fooling_rate == trusting.real_rate == 1 and trusting.p_value > 0.4


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    table = "\n".join(f"{i % 7},{0.25 * (i % 5):.2f}" for i in range(80))
    (folder / "t.csv").write_text(f"count,answer\n{table}\n")
    for name, *words in (
        ("rbm", "rbm", "digits", "--epochs", "1", "--n-hidden", "8"),
        ("mix", "gaussian-mixture", "digits", "--n-components", "3", "--covariance", "diag"),
        ("table", "gaussian-mixture", str(folder / "t.csv"), "--n-components", "2"),
        ("text", "ngram", "python-reference"),
        ("tree", "decision-tree", "iris"),
    ):
        assert run(["fit", *words, "--random-state", "0", "--out", str(folder / name), "--json"]) == 0
    return folder


def unsealed(folder):
    content = (folder / "key.sealed").read_bytes().removeprefix(SEAL)
    return json.loads(zlib.decompress(base64.b64decode(content))[32:])


def chunks(png):
    """Names and contents of the parts of a PNG but for the pixels."""
    at, found = 8, []
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        found.append((png[at + 4 : at + 8], b"" if png[at + 4 : at + 8] == b"IDAT" else png[at + 8 : at + 8 + length]))
        at += 12 + length
    return found


@pytest.mark.spec("GEN-143")
@pytest.mark.parametrize("name", ["rbm", "mix"])
def test_nothing_but_the_pixels_tells_which_is_which(runs, tmp_path, name):
    """Names are numbers, sizes, forms and times are equal, and no level of gray belongs to one kind alone."""
    test = make_blind_folder(runs / name, tmp_path / "test", n=40, random_state=3)
    files = sorted(test.path.glob("*.png"))
    assert [one.name for one in files] == [f"{i:03}.png" for i in range(1, 41)]
    assert {one.name for one in test.path.iterdir()} == {one.name for one in files} | {
        "answers.csv", "instructions.txt", "key.sealed",
    }  # fmt: skip
    assert len({one.stat().st_size for one in files}) == 1 and len({one.stat().st_mtime_ns for one in files}) == 1
    assert len({(one.stat().st_mode, one.stat().st_nlink) for one in files}) == 1
    parts = [chunks(one.read_bytes()) for one in files]
    assert all(one == parts[0] for one in parts)
    images = np.array([np.asarray(Image.open(one).convert("RGB")) for one in files])
    assert images.shape[1:] == (96, 96, 3)
    assert (images[..., 0] == images[..., 1]).all()
    key = unsealed(test.path)
    data, held = gnomon.data.load("digits"), key["truth"]
    view = data.view("binary") if name == "rbm" else data.X
    top = 1 if name == "rbm" else 16
    known = {np.rint(row * (255 / top)).astype(int).tobytes() for row in view}
    small = images[:, ::12, ::12, 0].astype(int).reshape(40, -1)
    real = np.array([one.tobytes() in known for one in small])
    assert (real == (np.array(held) == "real")).all() and real.sum() == 20
    levels = {0, 255} if top == 1 else {int(one) for one in np.rint(np.arange(17) * 255 / 16)}
    assert set(np.unique(small[~real])) <= levels and set(np.unique(small[real])) <= levels
    sheet = (test.path / "answers.csv").read_text().splitlines()
    assert sheet == ["item,answer", *(f"{one.name}," for one in files)]
    plain = b"".join(one.read_bytes() for one in test.path.iterdir() if one.suffix != ".png")
    assert b'"truth"' not in plain and b"\x00" not in plain  # the key cannot be read by chance
    assert os.fspath(runs).encode() not in plain


@pytest.mark.spec("GEN-143")
def test_samples_are_the_first_and_real_ones_are_held_out(runs, tmp_path):
    test = make_blind_folder(runs / "mix", tmp_path / "test", n=30, random_state=5)
    key, system = unsealed(test.path), gnomon.load(runs / "mix")
    from gnomon.report.subject import Subject

    subject = Subject.of(runs / "mix")
    assert test.source == "held-out rows"
    images = np.array([np.asarray(Image.open(test.path / one).convert("L"))[::12, ::12] for one in key["items"]])
    images = images.reshape(30, -1).astype(int)
    held = {np.rint(row * (255 / 16)).astype(int).tobytes() for row in subject.held.X}
    drawn = np.clip(np.floor(system.sample(15, random_state=5).astype(float)), 0, 16)
    drawn = {np.rint(row * 255 / 16).astype(int).tobytes() for row in drawn}
    for image, truth in zip(images, key["truth"], strict=True):
        assert image.tobytes() in (held if truth == "real" else drawn)
    again = make_blind_folder(runs / "mix", tmp_path / "again", n=30, random_state=5)
    for one in test.path.glob("*.png"):
        assert (again.path / one.name).read_bytes() == one.read_bytes()
    assert unsealed(again.path)["truth"] == key["truth"]


@pytest.mark.spec("GEN-143")
def test_a_person_is_scored_and_told_what_looks_do_not_show(runs, tmp_path, capsys):
    folder = tmp_path / "test"
    assert call(capsys, "blind", "make", runs / "rbm", "--out", folder, "-n", "20", "--seed", "1")["n"] == 20
    key = unsealed(folder)
    answers = ["real" if i % 3 else truth for i, truth in enumerate(key["truth"])]
    lines = [f"{item},{answer}" for item, answer in zip(key["items"], answers, strict=True)]
    (folder / "answers.csv").write_text("item,answer\n" + "\n".join(lines) + "\n")
    found = call(capsys, "blind", "score", folder)
    one = found["sheets"]["answers.csv"]
    fooled = sum(a == "real" and t == "model" for a, t in zip(answers, key["truth"], strict=True))
    peer = binomtest(fooled, 10).proportion_ci(0.95, method="exact")
    assert one["fooling_rate"] == fooled / 10 and one["real_rate"] == 1
    assert one["fooling_interval"] == pytest.approx([peer.low, peer.high], abs=1e-12)
    from gnomon.report.subject import Subject
    from gnomon.tasks.base import task

    subject = Subject.of(runs / "rbm")
    known = subject.task.examples(subject.train, subject.system)[0]
    beside = task("generate").scores(subject.system, subject.examples[0], None, (known, None))
    assert found["beside"] == {name: beside[name].value for name in ("memorized", "coverage")}
    assert run(["blind", "score", str(folder)]) == 0
    said = capsys.readouterr().out
    assert f"{fooled / 10:.0%} ({fooled} of 10)" in said and "neither copies nor gaps" in said


@pytest.mark.spec("GEN-143")
def test_rows_and_sentences_stand_in_the_sheet(runs, tmp_path):
    """Numbers have the decimals of their column, so that whole numbers do not tell."""
    make_blind_folder(runs / "table", tmp_path / "rows", n=12, random_state=0)
    lines = [one.split(",") for one in (tmp_path / "rows" / "answers.csv").read_text().splitlines()]
    assert lines[0] == ["item", "answer", "count", "answer (data)"] and len(lines) == 13
    assert all(row[2].lstrip("-").isdigit() and len(row[3].partition(".")[2]) == 2 for row in lines[1:])
    sheet = "\n".join([",".join(lines[0]), *(",".join([row[0], "real", *row[2:]]) for row in lines[1:])])
    (tmp_path / "rows" / "answers.csv").write_text(sheet)
    scores, _ = score_blind_folder(tmp_path / "rows")
    assert scores["answers.csv"] == TrialScore(6, 6, 6, 6)
    make_blind_folder(runs / "text", tmp_path / "words", n=8, random_state=0)
    text = (tmp_path / "words" / "answers.csv").read_text().splitlines()
    assert text[0] == "item,answer,text" and len(text) == 9 and not list((tmp_path / "words").glob("*.png"))


ITEMS = [f"{i:03}.png" for i in range(1, 4)]


@pytest.mark.parametrize(
    "content",
    [
        b"item,answer\n001.png,real\n002.png,model\n003.png,real\n",
        b"\xef\xbb\xbfitem;answer\r\n001.png;real\r\n002.png;model\r\n003.png;real\r\n",  # Excel, German
        "item\tanswer\n001.png\treal\n002.png\tmodel\n003.png\treal\n".encode("utf-16"),
        b"Item , ANSWER \n\n 003.png,  Real \n001.PNG,REAL\n2,fake\n\n",  # another order, numbers alone
        b"item,answer,remark\n1,r,\n2,m,blurred\n3,r,\n",
        b'item,answer\n"images/001.png",real\n002.png,model\n003.png,real\n,\n',
    ],
)  # fmt: skip
def test_sheets_as_programs_write_them(tmp_path, content):
    (tmp_path / "a.csv").write_bytes(content)
    assert read_answers(tmp_path / "a.csv", ITEMS) == ["real", "model", "real"]


def test_a_workbook_is_a_sheet(tmp_path):
    from openpyxl import Workbook

    book = Workbook()
    for row in (["item", "answer"], ["001.png", "real"], ["2", "Model"], ["003.png", "real"]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    assert read_answers(tmp_path / "a.xlsx", ITEMS) == ["real", "model", "real"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("item,answer\n001.png,real\n003.png,real\n", r"item 002.png must be answered \(a.csv\); write real or model"),
        ("item,answer\n001.png,real\n", "item 002.png and 1 item more must be answered"),
        ("item,answer\n1,real\n2,\n3,real\n", "item 002.png must be answered"),
        ("item,answer\n1,reel\n2,real\n3,real\n", r"answer must be real or model, got 'reel' \(a.csv, item 001.png\)"),
        ("item,answer\n1,real\n1,real\n3,real\n", "item 001.png is answered twice"),
        ("item,answer\n1,real\n4,real\n3,real\n", r"unknown item 4 \(a.csv\); the items are 001.png to 003.png"),
        ("item,answer\nfoo.png,real\n", "unknown item 'foo.png'"),
        ("name,answer\n1,real\n", "must have the columns item and answer, got 'name', 'answer'"),
        ("", "the file is empty"),
        ("item,answer\n1,real,x\n", "3 fields, expected 2"),
    ],
)
def test_mistakes_in_a_sheet_are_one_line(tmp_path, content, message):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(UserValueError, match=message) as error:
        read_answers(tmp_path / "a.csv", ITEMS)
    assert "\n" not in str(error.value)


def test_mistakes_in_making_and_scoring(runs, tmp_path, capsys):
    for words, message in (
        (["make", runs / "tree", "--out", tmp_path / "a"], "decision-tree does not draw samples"),
        (["make", runs / "rbm", "--out", tmp_path / "a", "-n", "5"], "n must be an even number of at least 2, got 5"),
        (["make", runs / "rbm", "--out", tmp_path / "a", "-n", "0"], "n must be an even number"),
        (["make", runs / "rbm", "--out", tmp_path / "a", "-n", "800"], "n must be at most 718, got 800"),
        (["make", runs / "rbm", "--out", runs / "rbm"], "exists and is not empty"),
        (["make", tmp_path / "no", "--out", tmp_path / "a"], "no"),
        (["score", runs / "rbm"], "holds no key of a blind test"),
    ):
        assert run(["blind", *map(str, words)]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "a").exists()
    test = make_blind_folder(runs / "rbm", tmp_path / "test", n=4, random_state=0)
    (tmp_path / "sheet.csv").write_text("item,answer\n1,real\n2,real\n3,real\n4,model\n")
    assert list(score_blind_folder(test.path, [tmp_path / "sheet.csv"])[0]) == ["sheet.csv"]
    with pytest.raises(UserError, match="given twice"):
        score_blind_folder(test.path, [tmp_path / "sheet.csv"] * 2)
    with pytest.raises(UserError, match="file not found"):
        score_blind_folder(test.path, [tmp_path / "shet.csv"])
    with pytest.raises(UserError, match=r"must end in .csv, .tsv or .xlsx"):
        score_blind_folder(test.path, [test.path / "instructions.txt"])
    with pytest.raises(UserError, match=r"level must be in \(0, 1\)"):
        score_blind_folder(test.path, [tmp_path / "sheet.csv"], level=95)
    (test.path / "002.png").write_bytes((test.path / "001.png").read_bytes())
    with pytest.raises(UserError, match=r"002.png has been changed since the test was made"):
        score_blind_folder(test.path, [tmp_path / "sheet.csv"])
    for damage in (b"", SEAL + b"abcd\n", SEAL + b"!", (test.path / "key.sealed").read_bytes()[:-30] + b"AAAA"):
        (test.path / "key.sealed").write_bytes(damage)
        with pytest.raises(UserError, match="the key must be as it was written"):
            score_blind_folder(test.path, [tmp_path / "sheet.csv"])
    gnomon.RBM(n_hidden=1, epochs=1, random_state=0).fit(np.eye(4)).save(tmp_path / "arrays")
    with pytest.raises(UserError, match="fitted to arrays"):
        make_blind_folder(tmp_path / "arrays", tmp_path / "b")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: make_blind_trial(np.zeros((2, 1)), np.zeros((2, 2))), "items must be of one shape"),
        (lambda: make_blind_trial(np.zeros((2, 1)), np.zeros((3, 1)), 6), "even number from 2 to 4, got 6"),
        (lambda: make_blind_trial(np.zeros((2, 1)), np.zeros((3, 1)), 3), "even number from 2 to 4, got 3"),
        (lambda: score_trial(["real", "model"], ["real"]), "there must be 2 answers, got 1"),
        (lambda: score_trial(["real", "model"], ["real", "fake"]), "answers must be real or model, got 'fake'"),
        (lambda: score_trial(["real", "real"], ["real", "real"]), "truth must hold real and model items"),
        (lambda: score_trial(["real", "model"], ["real", "real"], level=2), "level must be in"),
        (lambda: exact_interval(3, 2), r"hits must be in \[0, n\]"),
        (lambda: exact_interval(1, 2, 1.0), "level must be in"),
    ],
)
def test_mistakes(function, message):
    with pytest.raises(UserValueError, match=message):
        function()
