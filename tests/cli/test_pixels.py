"""A model that labels pixels on the command line: fit, predict any size, evaluate, report."""

import json

import numpy as np
import pytest
from PIL import Image

from gnomon.cli.main import run

TINY = ["--channels", "3x4", "--convolutions", "1", "--max-updates", "6", "--random-state", "0"]


def said(capsys, *words, status=0):
    assert run(list(words)) == status, capsys.readouterr().err
    found = capsys.readouterr()
    return found.out if not status else found.err


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pixels") / "run"
    assert run(["fit", "fcn", "digit-scenes", *TINY, "--out", str(folder)]) == 0
    return str(folder)


@pytest.fixture
def images(tmp_path):
    random = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for name, size in (("a", (9, 30)), ("b", (24, 24))):
        Image.fromarray(random.integers(0, 256, size).astype(np.uint8)).save(tmp_path / f"images/{name}.png")
    return tmp_path / "images"


@pytest.mark.spec("PRA-119")
def test_masks_of_images_of_any_size(capsys, fitted, images, tmp_path):
    out = said(capsys, "predict", fitted, str(images))
    assert out.splitlines()[0].startswith("image,rows,columns,0,1,")
    assert out.splitlines()[1].startswith("a.png,9,30,")
    masks = tmp_path / "found"
    assert "2 masks" in said(capsys, "predict", fitted, str(images), "--out", str(masks))
    levels = np.asarray(Image.open(masks / "a.png"))
    assert levels.shape == (9, 30)
    shares = dict(zip(out.splitlines()[0].split(",")[3:], map(float, out.splitlines()[1].split(",")[3:]), strict=True))
    for label, share in shares.items():
        assert (levels == int(label)).mean() == pytest.approx(share)
    facts = json.loads(said(capsys, "predict", fitted, str(images), "--json"))
    assert facts["images"]["rows"] == [9, 24]


@pytest.mark.spec("PRA-119")
def test_what_was_written_scores_as_masks_again(capsys, fitted, images, tmp_path):
    (images / "a.png").unlink()
    said(capsys, "predict", fitted, str(tmp_path / "images"), "--out", str(tmp_path / "masks"))
    facts = json.loads(said(capsys, "evaluate", fitted, str(tmp_path), "--json"))
    assert facts["scores"]["pixel_accuracy"]["value"] == 1.0
    proba = tmp_path / "p.npy"
    said(capsys, "predict", fitted, str(images), "--proba", "--out", str(proba))
    assert np.load(proba).shape == (1, 24, 24, 11)


@pytest.mark.spec("PRA-119")
def test_a_report_shows_images_with_true_and_predicted_labels(capsys, fitted, tmp_path):
    page = tmp_path / "page.html"
    said(capsys, "report", fitted, "--out", str(page))
    assert "Images, truth, prediction" in page.read_text()
    said(capsys, "evaluate", fitted, "--figures", str(tmp_path / "drawn"))
    assert (tmp_path / "drawn" / "labeled_pixels.svg").exists()


def test_a_built_in_set_is_scored_by_name(capsys, fitted):
    facts = json.loads(said(capsys, "evaluate", fitted, "digit-scenes", "--json"))
    assert facts["n"] == 599
    assert facts["scores"]["pixel_accuracy"]["kind"] == "exact"
    assert "have no labels" in said(capsys, "evaluate", fitted, "digits", status=2)


def test_what_does_not_go_with_pixels_is_refused(capsys, fitted, images, tmp_path):
    for words, what in (
        (["--keep", "file"], "--keep does not go with"),
        (["--proba"], "probabilities of pixels are an array"),
        (["--out", str(tmp_path / "x.npy")], "several sizes"),
        (["--out", str(images)], "not empty"),
    ):
        assert what in said(capsys, "predict", fitted, str(images), *words, status=2)
    assert "a label for each pixel" in said(capsys, "show", fitted, status=2)
    assert "holds no images" in said(capsys, "predict", fitted, __file__, status=2)
    assert "have no labels" in said(capsys, "fit", "fcn", "digits", status=2)
    colored = tmp_path / "c.npy"
    np.save(colored, np.zeros((2, 8, 8, 3)))
    assert "one channel" in said(capsys, "predict", fitted, str(colored), status=2)
    np.save(tmp_path / "t.npy", np.full((2, 8, 8), "x"))
    assert "must hold numbers" in said(capsys, "predict", fitted, str(tmp_path / "t.npy"), status=2)
