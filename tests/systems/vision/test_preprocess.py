"""Preprocessing as a setting of the image networks: learned from training images, saved, applied to all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run
from gnomon.data import GCN, LCN, PixelMean, Whitening
from gnomon.data.image_steps import ImagePreprocessing
from gnomon.errors import UserError
from gnomon.nn.image_steps import ImageStepLayer
from gnomon.recipes.recipe import Recipe


def scans(n: int = 40, shape: tuple[int, ...] = (7, 9, 3), seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return np.clip(random.random((n, *shape)) * 0.5 + 0.3 * y[:, None, None, None], 0, 1), y


def network(preprocess: str | Recipe, **options: Any) -> Any:
    return gnomon.CNN(
        layers="3c3-4", norm="none", epochs=1, batch_size=16, random_state=0, preprocess=preprocess, **options
    )


STEPS: list[tuple[str, ImagePreprocessing]] = [
    ("PRA-121", PixelMean()), ("PRA-123", GCN(s=2.0, lam=0.01)), ("PRA-124", Whitening(n_components=20)),
    ("PRA-125", LCN(window=(5, 3))),
]  # fmt: skip


@pytest.mark.parametrize(
    "recipe", [pytest.param(recipe, marks=pytest.mark.spec(row), id=recipe.short) for row, recipe in STEPS]
)
def test_a_network_sees_what_the_step_of_the_training_images_makes(recipe, tmp_path):
    X, y = scans()
    other, _ = scans(10, seed=1)
    net = network(recipe).fit(X, y)
    step = recipe.fit(X)
    seen = step.transform(X)
    shift, spread = seen.mean((0, 1, 2)), seen.std((0, 1, 2))
    wanted = (step.transform(other) - shift) / spread
    found = net.model_.ask("first", other)
    assert np.allclose(np.moveaxis(found, 1, -1), wanted, rtol=1e-6, atol=1e-6)
    net.save(tmp_path / "run")
    again = gnomon.load(tmp_path / "run")
    assert isinstance(again.model_.preparation, ImageStepLayer) and again.model_.preparation.recipe == recipe
    assert np.array_equal(again.predict_proba(other), net.predict_proba(other))
    # one image alone, and beside others: statistics are those of training
    assert np.allclose(net.predict_proba(other)[:1], net.predict_proba(other[:1]))


@pytest.mark.spec("PRA-117")
def test_images_are_brought_to_the_size_that_a_network_needs():
    X, y = scans(shape=(7, 9, 3))
    with pytest.raises(UserError, match="7 x 9 x 3 are too small"):
        network("none").set_params(layers="3c3-p2-p2-p2-p2").fit(X, y)
    net = network("resize-crop").set_params(layers="3c3-p2-p2-p2-p2", preprocess__size=(16, 16)).fit(X, y)
    assert net.model_.shape == (16, 16, 3) and net.model_.ask("first", X).shape == (40, 3, 16, 16)
    assert net.predict(X[:3]).shape == (3,)
    with pytest.raises(UserError, match="7 x 9 x 3"):
        net.predict(X[:, :6])


@pytest.mark.spec("PRA-116")
def test_bytes_and_numbers_in_the_unit_range_are_one_and_the_same():
    X, y = scans()
    levels = gnomon.data.from_unit(X)
    with pytest.warns(UserWarning, match="divided by 255"):
        of_bytes = network("symmetric").fit(levels, y)
    of_floats = network("symmetric").fit(gnomon.data.to_unit(levels), y)
    assert np.array_equal(of_bytes.predict_proba(levels), of_floats.predict_proba(levels / np.float32(255)))


def test_what_a_network_cannot_take_is_refused_in_one_line():
    X, y = scans()
    for recipe, words in (
        (Whitening("pca"), "a network needs images, got components"),
        ("center-crop", "7 x 9 x 3 are too small for a crop of 32 x 32"),
    ):
        with pytest.raises(UserError, match=words):
            network(recipe).fit(X, y)


@pytest.mark.spec("PRA-125")
def test_the_command_line_keeps_the_step_with_the_run(tmp_path, capsys):
    out = tmp_path / "run"
    fit = ["fit", "cnn", "digits", "--layers", "4c3-lcn3-p2-8", "--epochs", "1", "--out", str(out)]
    options = ["--preprocess", "lcn", "--preprocess.window", "5x5", "--preprocess.lam", "0.01"]
    assert run([*fit, *options]) == 0
    net = gnomon.load(out)
    assert net.preprocess == LCN(window=(5, 5), lam=0.01)
    assert run(["evaluate", str(out)]) == 0
    assert run(["fit", "cnn", "digits", "--preprocess", "contrast"]) == 2
    assert "preprocess" in capsys.readouterr().err
