"""Folders of images and masks, and the built-in scenes."""

import numpy as np
import pytest
from PIL import Image

import gnomon
from gnomon.errors import UserError


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(0)
    for name in ("images", "masks"):
        (tmp_path / name).mkdir()
    for place in range(3):
        Image.fromarray(random.integers(0, 256, (6, 5, 3)).astype(np.uint8)).save(tmp_path / f"images/{place}.png")
        levels = np.full((6, 5), place, np.uint8)
        levels[0, 0] = 255
        mask = Image.fromarray(levels)
        if place == 1:  # a palette image: what counts is the number, not the color
            mask = mask.convert("P")
            mask.putpalette([200, 10, 10] * 256)
        mask.save(tmp_path / f"masks/{place}.png")
    return tmp_path


@pytest.mark.spec("PRA-119")
def test_images_and_the_levels_of_their_masks(folder):
    data = gnomon.data.load(folder)
    assert data.images == (6, 5, 3)
    assert data.y is None
    assert data.masks.shape == (3, 6, 5)
    assert data.masks[:, 0, 0].tolist() == [-1, -1, -1]
    assert data.masks[:, 3, 3].tolist() == [0, 1, 2]
    half = data.take(np.array([2]), "test")
    assert half.view("masks")[0, 3, 3] == 2
    changed = gnomon.data.load(folder)
    changed.masks[0, 1, 1] = 9
    assert changed.fingerprint != data.fingerprint
    smaller = gnomon.data.load(folder, resize=(3, 5))
    assert smaller.images == (3, 5, 3)
    assert set(np.unique(smaller.masks).tolist()) <= {-1, 0, 1, 2}


def test_what_is_wrong_with_masks_is_said_with_the_file(folder):
    Image.fromarray(np.zeros((6, 4), np.uint8)).save(folder / "masks/2.png")
    with pytest.raises(UserError, match=r"6 x 4 pixels, its image 6 x 5 .*masks/2.png"):
        gnomon.data.load(folder)
    Image.fromarray(np.zeros((6, 5, 3), np.uint8)).save(folder / "masks/2.png")
    with pytest.raises(UserError, match=r"mode RGB .*masks/2.png"):
        gnomon.data.load(folder)
    (folder / "masks/2.png").unlink()
    with pytest.raises(UserError, match=r"no mask .*images/2.png"):
        gnomon.data.load(folder)


def test_data_without_masks_has_no_labels_of_pixels():
    with pytest.raises(UserError, match="pixels of this data have no labels"):
        gnomon.data.load("digits").view("masks")


def test_scenes_hold_every_digit_once_and_label_what_is_bright():
    scenes, digits = gnomon.data.load("digit-scenes"), gnomon.data.load("digits")
    assert scenes.X.shape == (599, 24 * 24)
    assert scenes.X.sum() == digits.X.sum()  # nothing is covered or cut off
    bright = scenes.X.reshape(-1, 24, 24) >= 8
    assert np.array_equal(scenes.masks != 10, bright)
    expected = np.bincount(digits.y, (digits.X >= 8).sum(1), minlength=11)
    assert np.bincount(scenes.masks.ravel(), minlength=11)[:10].tolist() == expected[:10].tolist()
