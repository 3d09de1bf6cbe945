"""Fits whose numbers stay finite and mean nothing."""

import warnings

import numpy as np
import pytest

import gnomon
from gnomon.errors import Diverged
from gnomon.training.procedure import compare_losses

RANDOM = np.random.default_rng(0)
X, Y = (RANDOM.random((200, 30)) < 0.3).astype(float), RANDOM.normal(size=200)
CLASSES = RANDOM.integers(0, 2, 200)


@pytest.mark.parametrize(
    ("name", "options", "target"),
    [
        ("mlp-regression", {}, Y),
        ("mlp", {}, CLASSES),
        ("softmax-regression", {}, CLASSES),
        ("linear-regression", {"solver": "gradient"}, Y),
        ("gan", {"batch_size": 50}, None),
    ],
)
def test_a_loss_that_grew_a_thousandfold_ends_the_fit(name, options, target):
    """HB-07: with a learning rate of a million; at a usual one nothing is said."""
    with pytest.raises(Diverged, match="lower the learning rate") as told:
        gnomon.make(name, learning_rate=1e6, epochs=5, random_state=0, **options).fit(X, target)
    assert "\n" not in str(told.value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gnomon.make(name, epochs=5, random_state=0, **options).fit(X, target)


def test_a_loss_that_ended_above_the_first_is_told_of():
    with pytest.warns(UserWarning, match=r"the loss \(cross_entropy\) grew from 0.69\d to .*: lower the learning rate"):
        gnomon.SoftmaxRegression(learning_rate=200.0, epochs=5, random_state=0).fit(X, CLASSES)


def test_the_command_line_ends_with_an_error(tmp_path, capsys):
    """HB-07: exit status 1, one line with the loss."""
    from gnomon.cli.main import run

    table = tmp_path / "table.csv"
    lines = [",".join(f"{v:g}" for v in (*row[:5], c)) for row, c in zip(X, CLASSES, strict=True)]
    table.write_text("\n".join(["a,b,c,d,e,y", *lines]))
    asked = ["fit", "softmax-regression", str(table), "--target", "y", "--learning-rate", "1e6"]
    assert run([*asked, "--epochs", "5", "--out", str(tmp_path / "run")]) == 1
    assert "grew from 0.69" in capsys.readouterr().err


def test_what_a_growth_is():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for first, last in ((1.0, 1.9), (-2.0, -1.0), (np.nan, 5.0), (0.0, 0.5), (3.0, -9.0)):
            compare_losses("x", first, last, 1)
    for first, last in ((1.0, 2.1), (-2.0, 0.1), (0.0, 1.5)):
        with pytest.warns(UserWarning, match="grew"):
            compare_losses("x", first, last, 1)
    for first, last in ((1.0, 1002.0), (-2.0, 2000.0), (0.0, 1001.0)):
        with pytest.raises(Diverged, match="step 7"):
            compare_losses("x", first, last, 7)
