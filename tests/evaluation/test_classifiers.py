"""What a classifier shows of itself: macro F1 and who was taken for whom, in Python and on the command line."""

import json

import numpy as np
import pytest
from sklearn import metrics
from sklearn.datasets import load_iris

import gnomon
from gnomon.cli.main import run
from gnomon.errors import UserError
from gnomon.evaluation.confusion import confusion_matrix

X, y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])


@pytest.fixture(scope="module")
def model():
    return gnomon.SoftmaxRegression(epochs=30, random_state=0).fit(X[::2], NAMES[y[::2]])


def test_macro_f1_and_the_matrix_are_scikit_learns(model):
    truth, predicted = NAMES[y[1::2]], model.predict(X[1::2])
    score = model.evaluate(X[1::2], truth)["macro_f1"]
    assert score.value == pytest.approx(metrics.f1_score(truth, predicted, average="macro"), abs=1e-12)
    assert 0 < score.stderr < 0.1 and score.n == 75
    matrix = model.confusion_matrix(X[1::2], truth)
    assert matrix.classes.tolist() == NAMES.tolist()
    assert np.array_equal(matrix.weight, metrics.confusion_matrix(truth, predicted))


def test_a_class_unknown_to_the_fit_counts_as_wrong(model):
    truth = np.append(NAMES[y[1::2]][:-1], "other")
    score = model.evaluate(X[1::2], truth)["macro_f1"]
    expected = metrics.f1_score(truth, model.predict(X[1::2]), average="macro")
    assert score.value == pytest.approx(expected, abs=1e-12) and "'other' in row 74" in score.note
    with pytest.raises(UserError, match="'other' is in no training row"):
        model.confusion_matrix(X[1::2], truth)


def test_the_command_line_shows_the_matrix(tmp_path, capsys):
    out = str(tmp_path / "run")
    assert run(["fit", "softmax-regression", "wine", "--epochs", "20", "--out", out]) == 0
    capsys.readouterr()
    assert run(["evaluate", out]) == 0
    text = capsys.readouterr().out
    assert "macro_f1" in text and "true \\ predicted" in text
    assert run(["evaluate", out, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    counts = np.array(found["confusion"]["counts"])
    assert counts.shape == (3, 3) and counts.sum() == found["n"]
    assert found["scores"]["accuracy"]["value"] == pytest.approx(np.trace(counts) / counts.sum())


def test_averages_over_classes_are_not_certain_where_few_rows_agree():
    """Of 4, 6 and 10 rows that are all right: Wilson's interval of 9 / (1/4 + 1/6 + 1/10) rows, by its formula."""
    y = np.repeat([0, 1, 2], [4, 6, 10])
    n, z = 9 / (1 / 4 + 1 / 6 + 1 / 10), 1.959963984540054
    for name in ("recall", "precision", "f_score"):
        score = getattr(confusion_matrix(y, y), name)(average="macro")
        assert (score.value, score.stderr, score.trials) == (1, 0, pytest.approx(n))
        assert score.interval() == pytest.approx((n / (n + z * z), 1.0))
    right = confusion_matrix(y, y).recall(average="weighted")
    assert right.trials == pytest.approx(20)  # shares of 4, 6 and 10 in 20 are the accuracy
    wrong = confusion_matrix(y, (y + 1) % 3).recall(average="macro")
    assert wrong.value == 0 and wrong.interval() == pytest.approx((0.0, z * z / (n + z * z)))
    some = confusion_matrix(y, np.where(np.arange(20) == 7, 0, y)).recall(average="macro")
    assert some.trials == 0 and some.stderr > 0
