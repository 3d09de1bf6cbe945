"""The page about runs: its numbers against scikit-learn on the same rows, hostile names, what it may load."""

import json
import re

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import confusion_matrix, precision_recall_curve
from sklearn.metrics import roc_curve as peer_curve

import gnomon
from gnomon.cli.main import run as command
from gnomon.errors import UserError
from gnomon.report.figures import drawn_for_a_page
from gnomon.report.page import cell, page, table
from gnomon.report.parts import nearest_rows
from gnomon.report.sections import of_run
from gnomon.report.subject import Subject
from gnomon.report.verb import report
from gnomon.tasks.base import task
from gnomon.tasks.diagnose import of_scored
from gnomon.tasks.mistakes import mistakes
from gnomon.tasks.pictures import rows
from oracles.written_page import Page, checked


def sections_of(run):
    with drawn_for_a_page():
        return of_run(Subject.of(run))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    fits = {
        "log": ["logistic-regression", "breast-cancer"],
        "line": ["linear-regression", "diabetes"],
        "mlp": ["mlp", "digits", "--epochs", "3"],
        "rbm": ["rbm", "digits", "--epochs", "1", "--n-hidden", "4"],
        "words": ["ngram", "python-reference"],
    }
    for name, words in fits.items():
        assert command(["fit", *words, "--out", str(folder / name), "--random-state", "0", "--json"]) == 0
    return folder


@pytest.mark.parametrize("name", ["log", "line", "mlp", "rbm", "words"])
def test_a_page_is_whole_and_loads_nothing(runs, name):
    file = report(runs / name)
    assert file == runs / name / "report.html"
    found = checked(file)
    text = " ".join(found.text)
    assert "Scores" in text and "What was fitted" in text and found.tags.count("h1") == 1
    assert "svg" in found.tags and "viewport" in file.read_text()
    assert report(runs / name).read_text() is not None  # a page that is there is replaced


def test_numbers_of_the_page_are_those_of_the_run(runs):
    text = " ".join(checked(report(runs / "line")).text)
    subject = Subject.of(runs / "line")
    X, y = subject.examples
    assert f"{((y - subject.system.predict(X)) ** 2).mean():.5g}" in text
    train = subject.task.examples(subject.train, subject.system)
    design = np.column_stack([train[0], np.ones(len(train[0]))])
    left = train[1] - design @ np.linalg.lstsq(design, train[1], rcond=None)[0]
    covariance = left @ left / (len(design) - design.shape[1]) * np.linalg.inv(design.T @ design)
    bmi = list(subject.train.columns).index("bmi")
    assert f"{np.sqrt(covariance[bmi, bmi]):.5g}" in text


def drawn(figure):
    return [line.get_xydata() for line in figure.axes[0].get_lines()]


def test_pictures_of_classes_are_scikit_learns(runs):
    subject = Subject.of(runs / "log")
    X, y = subject.examples
    proba = subject.system.predict_proba(X)
    figures = task("classify").figures(subject.system, X, y)
    counts = {text.get_position(): int(text.get_text()) for text in figures["confusion"].axes[0].texts}
    expected = confusion_matrix(y, subject.system.predict(X))
    assert counts == {(j, i): n for (i, j), n in np.ndenumerate(expected) if n}
    positive = subject.system.classes_[1]
    false, true, _ = peer_curve(y, proba[:, 1], pos_label=positive, drop_intermediate=False)
    np.testing.assert_allclose(drawn(figures["roc"])[1], np.column_stack([false, true]), atol=1e-12)
    precision, recall, _ = precision_recall_curve(y, proba[:, 1], pos_label=positive)
    points = drawn(figures["precision_recall"])[0]
    known = {(round(a, 9), round(b, 9)) for a, b in zip(recall, precision, strict=True)}
    assert {(round(a, 9), round(b, 9)) for a, b in points} <= known and points[-1, 0] == 1
    right = subject.system.predict(X) == y
    share, stated = calibration_curve(right, proba.max(axis=1), n_bins=10)
    np.testing.assert_allclose(drawn(figures["calibration"])[1], np.column_stack([stated, share]), atol=1e-12)


def test_pictures_of_numbers_are_the_predictions_and_what_is_left(runs):
    subject = Subject.of(runs / "line")
    X, y = subject.examples
    found = subject.system.predict(X)
    figures = task("regress").figures(subject.system, X, y)
    scattered = {name: np.asarray(one.axes[0].collections[0].get_offsets()) for name, one in figures.items()}
    np.testing.assert_allclose(scattered["predictions"], np.column_stack([y, found]))
    np.testing.assert_allclose(scattered["residuals"], np.column_stack([found, y - found]))


@pytest.mark.spec("PRA-081")
def test_the_worst_mistakes_are_those_that_a_loop_finds(runs):
    subject = Subject.of(runs / "mlp")
    X, y = subject.examples
    found = mistakes(subject.system, X, y, most=9)
    proba, classes = subject.system.predict_proba(X), subject.system.classes_
    expected = sorted(((-float(p.max()), i) for i, p in enumerate(proba) if classes[p.argmax()] != y[i]))
    assert found.wrong == len(expected) > 9
    assert found.places.tolist() == [i for _, i in expected[:9]]
    assert (found.predicted != found.true).all() and (np.diff(found.size) <= 0).all()
    np.testing.assert_allclose(found.stated, [proba[i][classes.tolist().index(y[i])] for i in found.places])
    off = mistakes(*(lambda s: (s.system, *s.examples))(Subject.of(runs / "line")), most=5)
    line = Subject.of(runs / "line")
    true = np.abs(line.examples[1] - line.system.predict(line.examples[0]))
    assert off.places.tolist() == np.argsort(-true)[:5].tolist() and off.stated is None
    header, rows = off.table(line.held)
    assert [row[0] for row in rows] == np.asarray(line.held.rows)[off.places].tolist() and header[:2] == ["row", "true"]


def test_the_same_run_gives_the_same_bytes(runs):
    assert report(runs / "log").read_bytes() == report(runs / "log").read_bytes()


def test_the_data_are_read_as_the_fit_read_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{i % 7},{i};{'ab'[i % 2]}" for i in range(40)]
    (tmp_path / "t.csv").write_text("size;kind\n" + "\n".join(rows) + "\n")
    words = [
        "fit",
        "decision-tree",
        "t.csv",
        "--target",
        "kind",
        "--decimal",
        ",",
        "--separator",
        ";",
        "--out",
        "run",
        "--json",
    ]
    assert command(words) == 0
    data = next(one for one in sections_of("run") if one.title == "Data")
    assert "<bdi>size</bdi>" in data.body and "numbers" in data.body


def test_a_comparison_without_room_for_its_report_keeps_its_board(tmp_path, monkeypatch, capsys):
    def full(*given):
        raise UserError("the disk is full")

    monkeypatch.setattr("gnomon.report.verb.write_atomically", full)
    assert command(["compare", "decision-tree", "iris", "--out", str(tmp_path / "a")]) == 0
    shown = capsys.readouterr()
    assert "decision-tree" in shown.out and "there is no report: the disk is full" in shown.err


def test_several_runs_are_ranked_where_they_can_be(runs):
    file = report([runs / "mlp", runs / "log", runs / "line"], runs / "all.html")
    found = checked(file)
    titles = [part for part in found.text if part.startswith("Leaderboard: ")]
    assert {"Leaderboard: classify on digits", "Leaderboard: regress on diabetes"} <= set(titles)


HOSTILE = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\u202egnp.exe", "$x_1^{", "a" * 10_000, "</style>",
    "&amp;",
]  # fmt: skip


def test_hostile_names_do_no_harm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    X, kind = random.normal(size=(120, len(HOSTILE))), np.arange(120) % 3
    quote = lambda text: '"' + text.replace('"', '""') + '"'  # noqa: E731
    lines = [",".join([*(quote(name) for name in HOSTILE), "kind"])]
    lines += [",".join([*map(str, np.round(row + k, 4)), quote(HOSTILE[k])]) for row, k in zip(X, kind, strict=True)]
    name = "<b>d.csv"
    (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert command(["fit", "random-forest", name, "--target", "kind", "--out", "run", "--n-trees", "3", "--json"]) == 0
    file = report("run", tmp_path / "page.html")
    text = file.read_text(encoding="utf-8")
    checked(file)
    assert "<script>alert" not in text and "<img src=x" not in text and "\u202e" not in text
    assert "a" * 2000 not in text and text.count("<style>") == text.count("</style>") == 1


def test_cells_are_escaped_and_cut():
    assert cell("a<b>&") == "<bdi>a&lt;b&gt;&amp;</bdi>"
    assert cell("x" * 200).endswith("x…</bdi>") and 'title="' + "x" * 200 in cell("x" * 200)
    assert "\u202e" not in cell("\u202eabc") and "\x00" not in cell("a\x00b")
    one = table(["a", "b"], [("<i>", 1)], right=[1], caption='"q"')
    assert 'aria-label="&quot;q&quot;"' in one and '<th scope="row">' in one and '<td class="n">' in one
    assert page("t<", "lead", []).startswith("<!DOCTYPE html>")


def test_a_wide_table_and_many_classes_stay_small(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(1)
    kind = np.arange(600) % 100
    X = random.normal(size=(600, 200)) + kind[:, None] * 0.02
    head = ",".join([*(f"column_{i}" for i in range(200)), "kind"])
    rows = [",".join([*(f"{v:.3f}" for v in row), f"class {k}"]) for row, k in zip(X, kind, strict=True)]
    (tmp_path / "wide.csv").write_text("\n".join([head, *rows]) + "\n")
    assert (
        command(["fit", "gaussian-classifier:".rstrip(":"), "wide.csv", "--target", "kind", "--out", "run", "--json"])
        == 0
    )
    found = checked(report("run"))
    assert "column_199" in " ".join(found.text)


def test_mistakes_of_a_table_with_texts_show_them_as_they_were_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(2)
    lines = (
        f"{random.choice(['Ulm', 'Bonn'])},{random.normal():.3f},{random.choice(['yes', 'no'])}" for _ in range(90)
    )
    (tmp_path / "people.csv").write_text("\n".join(["city,size,left", *lines]) + "\n")
    assert command(["fit", "decision-tree", "people.csv", "--target", "left", "--out", "run", "--json"]) == 0
    subject = Subject.of("run")
    found = mistakes(subject.system, *subject.examples)
    header, rows = found.table(subject.held)
    assert [row[header.index("city")] for row in rows] == [
        subject.held.frame["city"].to_list()[i] for i in found.places
    ]
    assert "city" in " ".join(checked(report("run")).text)


def test_runs_that_cannot_be_shown_are_told_in_one_line(tmp_path, capsys):
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 2
    gnomon.LogisticRegression().fit(X, y, run=tmp_path / "arrays")
    text = " ".join(checked(report(tmp_path / "arrays")).text)
    assert "the run was fitted to arrays, which it does not keep" in text
    with pytest.raises(UserError):
        report(tmp_path / "nothing")
    with pytest.raises(UserError, match="at least one run"):
        report([])
    with pytest.raises(UserError):
        report(3)
    with pytest.raises(UserError):
        report(tmp_path / "arrays", tmp_path / "arrays" / "config.json" / "r.html")
    assert command(["report", str(tmp_path / "nothing")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_command_names_the_file(runs, capsys):
    assert command(["report", str(runs / "log"), "--out", str(runs / "p.html"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"] == str(runs / "p.html")
    assert command(["report", str(runs / "log")]) == 0
    assert re.fullmatch(r"the report is .*report\.html\n", capsys.readouterr().out)


def test_comparisons_and_fits_write_their_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert command(["compare", "decision-tree", "svm", "iris", "--out", "both", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["report"] == "both/report.html"
    text = " ".join(checked(tmp_path / "both" / "report.html").text)
    assert "class shares" in text and "Leaderboard: classify on iris" in text and "Worst mistakes" in text
    assert command(["fit", "decision-tree", "iris", "--out", "tree", "--report", "--json"]) == 0
    told = capsys.readouterr()
    assert "the report is tree/report.html" in told.err and json.loads(told.out)["run"] == "tree"
    checked(tmp_path / "tree" / "report.html")


def test_samples_stand_beside_the_nearest_training_rows(runs):
    random = np.random.default_rng(0)
    known, samples = random.normal(size=(60, 3)) * [1, 10, 100], random.normal(size=(7, 3)) * [1, 10, 100]
    places, distances = nearest_rows(samples, known)
    scaled = known / known.std(0)
    for one, place, distance in zip(samples / known.std(0), places, distances, strict=True):
        each = [np.linalg.norm(one - row) for row in scaled]
        assert place == int(np.argmin(each)) and distance == pytest.approx(min(each))
    constant = np.column_stack([known, np.ones(60)])  # a column that does not vary
    assert nearest_rows(constant[:1], constant)[1].tolist() == [0.0]
    titles = [one.title for one in sections_of(runs / "rbm")]
    assert "Samples" in titles and "What it is made of" in titles
    assert "Samples" not in [one.title for one in sections_of(runs / "log")]


def test_lines_of_images_are_as_long_as_asked():
    images = np.arange(6.0).repeat(4).reshape(6, 4)
    figure = rows(images, (2, 2), "", across=3)
    picture = figure.axes[0].get_images()[0].get_array()
    width, height = figure.get_size_inches()
    assert height / width == pytest.approx(6 / 9)  # as the grid is, so that nothing is left blank above and below
    assert picture.shape == (6, 9) and [picture[0, 0], picture[0, 3], picture[3, 0]] == [0.0, 0.2, 0.6]


def test_the_diagnosis_of_a_page_is_that_of_the_command(runs, tmp_path):
    assert command(["fit", "mlp", "digits", "--epochs", "2", "--monitor", "--out", str(tmp_path / "m"), "--json"]) == 0
    for run, same in ((runs / "line", True), (runs / "rbm", False), (tmp_path / "m", False)):
        subject = Subject.of(run)
        found = of_scored(run, subject.system, *subject.examples, subject.seen, subject.scores)
        whole = gnomon.diagnose(run)
        assert [one.check for one in found.findings] == [one.check for one in whole.findings]
        assert set(found.skipped) == set(whole.skipped)
        assert not same or found.findings == whole.findings  # of the others 1,000 training rows are scored
        page = Page(report(run, tmp_path / "page.html"))
        assert [row[1] for row in page.tables["diagnosis"][1:]] == [one.what for one in found.findings]
