"""The generator from known codes: linear regression on encoded codes, a known renderer, masks, interpolation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

import gnomon
from gnomon.cli.main import run as run_command
from gnomon.data.dataset import Dataset
from gnomon.errors import UserTypeError, UserValueError
from gnomon.nn.encoders import ConvDecoder, DenseDecoder
from gnomon.numeric.noise import Noise
from gnomon.training.group import Group

LINEAR: dict[str, Any] = {
    "generator": DenseDecoder(hidden=()), "batch_size": None, "learning_rate": 0.1, "schedule": "cosine",
    "epochs": 400, "dtype": "float64", "random_state": 0,
}  # fmt: skip


def codes(n: int, seed: int) -> np.ndarray:
    """Row and column of a place, an angle in degrees and one of three kinds."""
    random = np.random.default_rng(seed)
    place, angle = random.uniform(-1, 1, (n, 2)), random.uniform(0, 360, n)
    return np.column_stack([place, angle, random.choice([2.0, 5.0, 9.0], n)])


def encoded(Z: np.ndarray) -> np.ndarray:
    """By hand: the place, sine and cosine, a column for each kind."""
    turned = np.radians(Z[:, 2])
    return np.column_stack([Z[:, :2], np.sin(turned), np.cos(turned), Z[:, 3:] == [[2.0, 5.0, 9.0]]])


def drawn(Z: np.ndarray, side: int = 12) -> np.ndarray:
    """A renderer: a round spot at a place, and a smaller one beside it in the direction of the angle."""
    rows, columns = np.mgrid[:side, :side]
    middle = side / 2 - 0.5 + 1.5 * Z[:, :2]
    beside = middle + 2.5 * np.column_stack([np.sin(np.radians(Z[:, 2])), np.cos(np.radians(Z[:, 2]))])
    spots = [
        height * np.exp(-((rows - at[:, 0, None, None]) ** 2 + (columns - at[:, 1, None, None]) ** 2) / (2 * width**2))
        for at, height, width in ((middle, 0.6, 1.5), (beside, 1.0, 1.0))
    ]
    return np.minimum(sum(spots), 1.0).reshape(len(Z), -1)


@pytest.mark.spec("GEN-085")
def test_a_linear_generator_is_the_linear_regression_on_encoded_codes() -> None:
    """Angles by sine and cosine, kinds by columns of 0 and 1; what 400 degrees are, 40 are too."""
    Z, W = codes(120, 0), np.random.default_rng(1).normal(size=(7, 9))
    X = encoded(Z) @ W + 0.3 * np.random.default_rng(2).normal(size=(120, 9))
    ours = gnomon.CodeGenerator(angles=(2,), categories=(3,), **LINEAR).fit(Z, X)
    np.testing.assert_allclose(ours.model_.ask("encode", Z)[:, 2:], encoded(Z)[:, 2:], rtol=0, atol=1e-12)
    theirs, new = LinearRegression().fit(encoded(Z), X), codes(50, 3)
    np.testing.assert_allclose(ours.predict(new), theirs.predict(encoded(new)), rtol=0, atol=1e-4)
    np.testing.assert_allclose(ours.predict(new + [0, 0, 360, 0]), ours.predict(new), rtol=0, atol=1e-9)
    half = gnomon.CodeGenerator(angles=(2,), categories=(3,), turn=180.0, **{**LINEAR, "epochs": 2}).fit(Z, X)
    np.testing.assert_allclose(half.predict(new + [0, 0, 180, 0]), half.predict(new), rtol=0, atol=1e-9)


@pytest.mark.spec("GEN-085")
def test_weights_of_rows_are_those_of_weighted_least_squares() -> None:
    Z, weight = codes(60, 0)[:, :3], np.random.default_rng(4).integers(0, 4, 60).astype(float)
    X = np.column_stack([Z[:, 0] ** 2, Z[:, 1], Z[:, 0] * Z[:, 1], Z[:, 2] / 100])
    ours = gnomon.CodeGenerator(**LINEAR).fit(Z, X, sample_weight=weight)
    theirs = LinearRegression().fit(Z, X, sample_weight=weight)
    np.testing.assert_allclose(ours.predict(Z), theirs.predict(Z), rtol=0, atol=1e-4)


@pytest.mark.spec("GEN-085", "GEN-108")
def test_up_convolutions_recover_a_renderer() -> None:
    """Codes that no training image had: pixels within 0.05 (root mean square), the spot's place within 0.25 pixels.

    An angle as a plain number is torn apart at 0 and 360 degrees; encoded it is not.
    """
    Z, new = codes(500, 0)[:, :3], codes(200, 1)[:, :3]
    X, true = drawn(Z).astype(np.float32), drawn(new)
    options: dict[str, Any] = {"generator": ConvDecoder(channels=(16, 8), batch_norm=False), "random_state": 0}
    model = gnomon.CodeGenerator(angles=(2,), epochs=40, learning_rate=0.01, schedule="cosine", **options).fit(Z, X)
    found = model.predict(new)
    assert np.sqrt(np.mean((found - true) ** 2)) < 0.05 < 0.3 * true.std()
    off = np.linalg.norm(center(found) - center(true), axis=1)
    assert np.sqrt(np.mean(off**2)) < 0.25
    around = np.array([[0.0, 0.0, 359.9], [0.0, 0.0, 0.1]])
    assert np.abs(np.diff(model.predict(around), axis=0)).max() < 0.02


def center(images: np.ndarray) -> np.ndarray:
    """Where the middle of the brighter half of an image is, row and column."""
    side = int(images.shape[1] ** 0.5)
    bright = np.clip(images.reshape(-1, side, side) - 0.3, 0, None)
    places = np.arange(side)
    total = bright.sum((1, 2))
    return np.column_stack([bright.sum(2) @ places, bright.sum(1) @ places]) / total[:, None]


@pytest.mark.spec("GEN-085")
def test_of_labels_alone_it_draws_the_mean_of_each() -> None:
    """The least squares of what has one code; with a mask too, p E(x | inside) + (1 - p) background is the mean."""
    random = np.random.default_rng(0)
    kind = np.repeat([0.0, 1.0, 2.0], 40)
    inside = random.random((120, 16)) < np.linspace(0.2, 0.8, 3)[kind.astype(int), None]
    X = np.where(inside, 2.0 + kind[:, None] + random.normal(size=(120, 16)), 0.5)
    means = np.stack([X[kind == k].mean(0) for k in range(3)])
    plain = gnomon.CodeGenerator(categories=(0,), **LINEAR).fit(kind[:, None], X)
    np.testing.assert_allclose(plain.predict([[0], [1], [2]]), means, atol=1e-3)
    masked = gnomon.CodeGenerator(categories=(0,), mask=1.0, background=0.5, **LINEAR).fit(kind[:, None], X)
    np.testing.assert_allclose(masked.predict([[0], [1], [2]]), means, atol=0.02)
    with torch.no_grad():
        images, logits = masked.model_.parts(masked.model_.encode(torch.ones(1, 1, dtype=torch.float64)))
    assert logits is not None
    share = inside[kind == 1].mean(0)
    np.testing.assert_allclose(logits[0].sigmoid(), share, atol=0.01)
    own = [X[(kind == 1) & inside[:, j], j].mean() for j in range(16)]
    np.testing.assert_allclose(images[0], own, atol=0.02)


@pytest.mark.spec("GEN-085")
@pytest.mark.parametrize("mask", [0.0, 0.7])
def test_the_loss_by_hand(mask: float) -> None:
    """Squares inside the true mask alone, in units of the spread; the mask's cross-entropy beside them."""
    Z, X = codes(30, 0), np.maximum(drawn(codes(30, 0), side=4) - 0.2, 0)
    weight = np.random.default_rng(1).random(30)
    model = gnomon.CodeGenerator(angles=(2,), mask=mask, generator="dense", epochs=1, dtype="float64", random_state=0)
    model.fit(Z, X)
    batch = gnomon.data.Batch({"X": Z, "y": X}, np.arange(30), np.arange(30), weight)
    loss = model.make_objective()(model.model_, batch, noise=Noise(0, "fit"), phase="fit", group=Group())
    with torch.no_grad():
        images, logits = model.model_.parts(model.model_.encode(torch.from_numpy(Z)))
    spread = np.sqrt(((X - X.mean(0)) ** 2).mean())
    off = ((images.numpy() - X) / spread) ** 2 / 2
    expected = float((off.mean(1) * weight).sum() / weight.sum())
    if mask:
        assert logits is not None
        on, p = X != 0, 1 / (1 + np.exp(-logits.numpy()))
        crossed = -np.where(on, np.log(p), np.log1p(-p))
        expected = float((((off * on).mean(1) + mask * crossed.mean(1)) * weight).sum() / weight.sum())
    assert float(loss.total().detach()) == pytest.approx(expected, rel=1e-10)


@pytest.mark.spec("GEN-085")
def test_interpolation_takes_the_shorter_way_and_mixes_kinds() -> None:
    Z, W = codes(120, 0), np.random.default_rng(1).normal(size=(7, 9))
    model = gnomon.CodeGenerator(angles=(2,), categories=(3,), **{**LINEAR, "epochs": 100}).fit(Z, encoded(Z) @ W)
    start, end = np.array([0.0, 1.0, 350.0, 2.0]), np.array([1.0, 0.0, 30.0, 9.0])
    images = model.interpolate(start, end, 5)
    np.testing.assert_allclose(images[[0, -1]], model.predict([start, end]), atol=1e-9)
    halfway = model.predict([[0.5, 0.5, 10.0, 2.0], [0.5, 0.5, 10.0, 9.0]]).mean(0)  # the model is linear
    np.testing.assert_allclose(images[2], halfway, atol=1e-9)
    np.testing.assert_allclose(model.interpolate(end, start, 5), images[::-1], atol=1e-9)


def test_mistakes_are_said_in_a_line() -> None:
    Z, X = codes(20, 0), np.zeros((20, 16))
    for options, said in (
        ({"angles": (4,)}, "angles must be columns 0 to 3, got 4"),
        ({"categories": (9,)}, "categories must be columns 0 to 3, got 9"),
        ({"angles": (-1,)}, "angles must be .*from 0"),
        ({"angles": (1,), "categories": (1,)}, "column 1 must not be an angle and a category"),
        ({"generator": "conv", "image_shape": (3, 4)}, "image_shape must have 16 numbers, got 3 x 4 x 1"),
    ):
        with pytest.raises(UserValueError, match=said):
            gnomon.CodeGenerator(epochs=1, **options).fit(Z, X)  # type: ignore[arg-type]
    model = gnomon.CodeGenerator(categories=(3,), epochs=1, random_state=0).fit(Z, X)
    with pytest.raises(UserValueError, match=r"column 3 must hold a category of the training rows, got 4.*2, 5, 9"):
        model.predict([[0, 0, 0, 4]])
    with pytest.raises(UserValueError, match="codes of one shape"):
        model.interpolate([0, 0], [0, 0, 0, 2])
    with pytest.raises(UserTypeError, match="angles must be a tuple of columns"):
        gnomon.CodeGenerator(angles=2, epochs=1).fit(Z, X)  # type: ignore[arg-type]


# --- data ----------------------------------------------------------------------------------------------------------


def call(capsys: pytest.CaptureFixture[str], *words: Any) -> Any:
    status = run_command([*map(str, words), "--json"])
    out = capsys.readouterr()
    assert status == 0, out.err
    return json.loads(out.out)


@pytest.mark.spec("GEN-085")
def test_labeled_images_are_drawn_from_their_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Digits by their labels: what is drawn of a label is near the mean of its images, and a file of labels asks."""
    call(
        capsys, "fit", "code-generator", "digits", "--target", "images", "--epochs", 5, "--generator", "dense",
        "--holdout", 0, "--random-state", 0, "--out", tmp_path / "run",
    )  # fmt: skip
    (tmp_path / "labels.csv").write_text("label\n3\n7\n")
    found = np.array(call(capsys, "predict", tmp_path / "run", tmp_path / "labels.csv")["predictions"])
    digits = gnomon.data.load("digits")
    assert digits.X is not None and digits.y is not None
    means = np.stack([digits.X[digits.y == k].mean(0) / 16 for k in (3, 7)])
    assert np.sqrt(np.mean((found - means) ** 2)) < 0.05
    assert run_command(["report", str(tmp_path / "run")]) == 0
    assert run_command(["fit", "linear-regression", "iris", "--target", "images"]) == 2


def test_images_with_codes_from_an_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Z = codes(40, 0)[:, :3]
    np.savez(tmp_path / "spots.npz", X=np.rint(255 * drawn(Z)).astype(np.uint8).reshape(-1, 12, 12), y=Z)
    turned = gnomon.data.images_by_codes(gnomon.data.load(tmp_path / "spots.npz"))
    assert turned.columns == ("code_1", "code_2", "code_3") and turned.y is not None
    np.testing.assert_array_equal(turned.X, Z)
    np.testing.assert_allclose(turned.y, drawn(Z), atol=0.5 / 255)
    boards = call(
        capsys, "compare", "code-generator:generator=dense,epochs=2", "linear-regression", tmp_path / "spots.npz",
        "--target", "images", "--out", tmp_path / "runs",
    )  # fmt: skip
    assert "linear-regression" in json.dumps(boards)
    for data, said in (
        (Dataset("t", np.zeros((2, 3))), "this data has none"),
        (Dataset("i", np.zeros((2, 4)), images=(2, 2)), "no labels and no codes"),
    ):
        with pytest.raises(UserValueError, match=said):
            gnomon.data.images_by_codes(data)
