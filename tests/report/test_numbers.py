"""The numbers that stand in the written page are those of scikit-learn, and of textbook formulas, on the same split."""

import numpy as np
import pytest
from scipy import stats
from sklearn.calibration import calibration_curve
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import confusion_matrix, log_loss, roc_auc_score

from gnomon.cli.main import run as command
from gnomon.errors import number
from gnomon.report.subject import Subject
from gnomon.report.verb import report
from oracles.written_page import Page


def fitted(folder, *words):
    """The page of a fit, and the fit."""
    run = folder / "run"
    assert command(["fit", *words, "--out", str(run), "--random-state", "0", "--json"]) == 0
    return Page(report(run)), Subject.of(run)


@pytest.fixture(scope="module")
def tumors(tmp_path_factory):
    return fitted(tmp_path_factory.mktemp("log"), "logistic-regression", "breast-cancer")


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    return fitted(tmp_path_factory.mktemp("line"), "linear-regression", "diabetes")


def test_the_confusion_matrix_is_scikit_learns(tumors):
    page, subject = tumors
    X, y = subject.examples
    expected = confusion_matrix(y, subject.system.predict(X))
    header, *rows = page.tables["The confusion matrix as a table"]
    assert header[1:] == ["0", "1"] and [row[0] for row in rows] == ["0", "1"]
    assert [[int(one) for one in row[1:]] for row in rows] == expected.tolist()
    assert "#11161a" in (subject.path / "report.html").read_text()  # numbers on light cells stay dark on a dark page
    drawn = page.words["Who was taken for whom"]
    assert sorted(int(one) for one in drawn if one.isdigit()) == sorted([*expected.ravel().tolist(), 0, 0, 1, 1])


def test_areas_and_losses_are_scikit_learns(tumors):
    page, subject = tumors
    X, y = subject.examples
    proba = subject.system.predict_proba(X)
    value = page.column("scores", "value")
    assert value["roc_auc"] == number(float(roc_auc_score(y, proba[:, 1])))
    assert value["log_loss"] == number(float(log_loss(y, proba)))
    assert value["accuracy"] == number(float((subject.system.predict(X) == y).mean()))


def test_the_bins_of_the_calibration_are_scikit_learns(tumors):
    page, subject = tumors
    X, y = subject.examples
    proba = subject.system.predict_proba(X)
    sure, right = proba.max(axis=1), subject.system.predict(X) == y
    share, stated = calibration_curve(right, sure, n_bins=10)
    counts = np.histogram(sure, np.linspace(0, 1, 11))[0]
    expected = [
        [number(float(a)), number(float(b)), str(n)] for a, b, n in zip(stated, share, counts[counts > 0], strict=True)
    ]
    assert page.tables["The calibration as a table"][1:] == expected


def test_permutation_importances_are_scikit_learns(line):
    """Five shuffles against 200 of another generator; five standard deviations: false alarm below 1e-5."""
    page, subject = line
    X, y = subject.examples
    peer = permutation_importance(subject.system, X, y, scoring="neg_mean_squared_error", n_repeats=200, random_state=0)
    shown = page.column("Permutation importances as a table", "importance")
    assert set(shown) == set(subject.held.columns)
    for j, name in enumerate(subject.held.columns):
        error = peer.importances_std[j] * np.sqrt(1 / 5 + 1 / 200)
        assert abs(float(shown[name]) - peer.importances_mean[j]) < 5 * error + 1e-4 * abs(peer.importances_mean[j])


def shown(page, column, names):
    caption = next(one for one in ("coefficients", "for yes") if one in page.tables)
    rows = [one for name, one in page.tables.items() if name.startswith(caption)]
    found = {row[0]: row[rows[0][0].index(column)] for one in rows for row in one[1:]}
    return [float(found[name]) for name in names]


def test_coefficients_of_a_line_are_those_of_ordinary_least_squares(line):
    """Coefficients by scikit-learn; errors s^2 (X'X)^-1, intervals and p of Student's t with n - d - 1 degrees."""
    page, subject = line
    X, y = subject.seen
    peer = LinearRegression().fit(X, y)
    value = np.array([peer.intercept_, *peer.coef_])
    design = np.column_stack([np.ones(len(X)), X])
    degrees = len(X) - design.shape[1]
    error = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * np.sum((y - peer.predict(X)) ** 2) / degrees)
    names, half = ["intercept", *subject.train.columns], stats.t.ppf(0.975, degrees) * error
    p = 2 * stats.t.sf(np.abs(value / error), degrees)
    for column, expected in (
        ("value", value), ("standard error", error), ("95 % from", value - half), ("to", value + half), ("p", p),
    ):  # fmt: skip
        assert shown(page, column, names) == pytest.approx(expected, rel=2e-4), column


def test_coefficients_of_a_logistic_regression_are_those_of_maximum_likelihood(tmp_path):
    """Coefficients by scikit-learn without penalty; errors by the inverse of Fisher's information, p of a normal z."""
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 3)).round(3)
    y = random.random(400) < 1 / (1 + np.exp(-(0.5 + X @ [1.0, -0.7, 0.0])))
    lines = [",".join([*(f"{one:.3f}" for one in row), "yes" if one else "no"]) for row, one in zip(X, y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,kind", *lines]) + "\n")
    page, subject = fitted(tmp_path, "logistic-regression", str(tmp_path / "t.csv"), "--target", "kind", "--l2", "0")
    rows, labels = subject.seen
    peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(rows, labels == "yes")
    value = np.array([peer.intercept_[0], *peer.coef_[0]])
    design = np.column_stack([np.ones(len(rows)), rows])
    chance = peer.predict_proba(rows)[:, 1]
    error = np.sqrt(np.diag(np.linalg.inv((design * (chance * (1 - chance))[:, None]).T @ design)))
    names, p = ["intercept", "a", "b", "c"], 2 * stats.norm.sf(np.abs(value / error))
    for column, expected in (("value", value), ("standard error", error), ("p", p)):
        assert shown(page, column, names) == pytest.approx(expected, rel=5e-4, abs=2e-5), column
