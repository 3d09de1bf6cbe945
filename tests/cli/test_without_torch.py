"""Fits and answers that need no torch do not import it: it takes longer than they do."""

import subprocess
import sys

import pytest

CODE = """
import sys
from gnomon.cli.main import run

for words in {commands!r}:
    assert run(words.split()) == 0, words
    assert "torch" not in sys.modules, words
"""


def check(commands, folder):
    given = [sys.executable, "-c", CODE.format(commands=commands)]
    done = subprocess.run(given, capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stderr


def test_trees_and_lines_import_no_torch(tmp_path):
    line = ["fit linear-regression diabetes --out line", "evaluate line", "predict line diabetes --std"]
    check(["fit decision-tree wine --out tree", "evaluate tree", *line, "report tree", "report line"], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("words", [
    "kmeans iris", "gaussian-mixture iris", "bernoulli-mixture digits", "ppca iris", "gaussian-classifier iris",
    "bayesian-regression diabetes", "svm iris", "logistic-regression iris", "random-forest iris",
    "histogram-boosting iris", "ngram python-reference",
])  # fmt: skip
def test_other_fits_without_gradients_import_no_torch(words, tmp_path):
    check([f"fit {words} --out r", "evaluate r"], tmp_path)
