"""Colors against torchvision 0.28 (parity/torchvision_transforms.json) and closed forms."""

import json
from pathlib import Path

import numpy as np
import pytest

from gnomon.data.augment import ColorJitter, PCAColor
from gnomon.data.augment.colors import recolored
from gnomon.data.image_geometry import grey
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise

KNOWN = json.loads((Path(__file__).parents[2] / "parity" / "torchvision_transforms.json").read_text())
PICTURE, LEVELS = np.array(KNOWN["picture"]), np.array(KNOWN["levels"], np.uint8)
NAMES = ("brightness", "contrast", "saturation", "hue")
NOTHING = np.array([1.0, 1.0, 1.0, 0.0])
RANDOM = np.random.default_rng(0)


def changed(picture, name, factor):
    factors = NOTHING.copy()
    factors[NAMES.index(name)] = factor
    return recolored(picture[None], [factors], [[2, 0, 3, 1]])[0]


@pytest.mark.spec("DLN-139")
@pytest.mark.parametrize("name", NAMES)
def test_each_change_is_that_of_torchvision(name):
    for factor, want in KNOWN["adjusted"][name]["numbers"].items():
        np.testing.assert_allclose(changed(PICTURE, name, float(factor)), want, atol=2e-6)  # its weights are float32
    for factor, want in KNOWN["adjusted"][name]["levels"].items():
        found = changed(LEVELS / 255, name, float(factor)) * 255
        assert np.abs(found - np.array(want)).max() <= 2  # it cuts what comes behind the point, and grey before


@pytest.mark.spec("DLN-139")
def test_factor_one_is_nothing_saturation_zero_is_grey_and_values_are_cut():
    assert np.array_equal(recolored(PICTURE[None], [NOTHING], [[0, 1, 2, 3]])[0], PICTURE)
    assert np.array_equal(ColorJitter(0.0, 0.0, 0.0, 0.0)(LEVELS), LEVELS)
    np.testing.assert_allclose(changed(PICTURE, "saturation", 0.0), np.repeat(grey(PICTURE)[..., None], 3, 2))
    np.testing.assert_allclose(changed(PICTURE, "contrast", 0.0), grey(PICTURE).mean())
    np.testing.assert_allclose(changed(PICTURE, "brightness", 5.0), np.minimum(5 * PICTURE, 1))
    np.testing.assert_allclose(changed(PICTURE, "hue", 1.0), PICTURE, atol=1e-12)
    np.testing.assert_allclose(changed(changed(PICTURE, "hue", 0.3), "hue", -0.3), PICTURE, atol=1e-12)


@pytest.mark.spec("DLN-139")
def test_factors_are_uniform_and_the_order_is_drawn():
    """Means of 6000 within five standard deviations, counts of 24 orders alike: a false alarm in 10,000."""
    jitter = ColorJitter(0.4, 1.5, 0.1, 0.25)
    factors = jitter.factors(6000, Noise(0, "a"))
    for column, (low, high) in enumerate([(0.6, 1.4), (0.0, 2.5), (0.9, 1.1), (-0.25, 0.25)]):
        values, span = factors[:, column], high - low
        assert low <= values.min() < low + span / 500 and high - span / 500 < values.max() <= high
        assert abs(values.mean() - (low + high) / 2) < 5 * span / np.sqrt(12 * 6000)
    images = np.repeat(RANDOM.uniform(0.2, 0.8, (1, 2, 3, 3)), 240, axis=0)
    every = ColorJitter(0.6, 0.6, 0.6, 0.2)
    found, own = every(images, rng=1), every.factors(240, Noise(1, "augment"))
    order = Noise(1, "augment").uniform((240, 4), draw=1).argsort(1, kind="stable")
    assert len(np.unique(order, axis=0)) == 24
    want = images
    for i in range(240):
        for step in order[i]:
            want[i] = changed(want[i], NAMES[step], own[i, step])
    np.testing.assert_allclose(found, want, atol=1e-12)


@pytest.mark.spec("DLN-139", "PRA-128")
def test_grey_whole_and_transparent_images():
    flat = RANDOM.random((2, 4, 5, 1))
    found = recolored(flat, [[0.5, 1, 0.1, 0.3], [1, 0.5, 0.1, 0.3]], [[0, 1, 2, 3]] * 2)
    np.testing.assert_allclose(found[0], 0.5 * flat[0])
    np.testing.assert_allclose(found[1], 0.5 * flat[1] + 0.5 * flat[1].mean())
    see_through = RANDOM.random((3, 4, 4))
    for one in (ColorJitter(0.5, 0.5, 0.5, 0.2), PCAColor(sd=2.0).fit(see_through)):
        assert np.array_equal(one(see_through, rng=0)[..., 3], see_through[..., 3])
        assert not np.array_equal(one(see_through, rng=0)[..., :3], see_through[..., :3])
    assert ColorJitter()(LEVELS, rng=0).dtype == np.uint8 and PCAColor().fit(LEVELS)(LEVELS).dtype == np.uint8
    assert ColorJitter()(RANDOM.random((4, 5)), rng=0).shape == (4, 5)
    for one in (ColorJitter(), PCAColor()):
        with pytest.raises(UserError, match="image must have 1 channel, or 3"):
            one(RANDOM.random((4, 5, 2)))


@pytest.mark.spec("PRA-128")
def test_components_are_those_of_the_covariance_of_all_pixels():
    images, weight = RANDOM.random((300, 4, 5, 3)) @ RANDOM.random((3, 3)) / 3, RANDOM.uniform(0, 2, 300)
    pixels = images.reshape(-1, 3)
    covariance = np.cov(pixels.T, aweights=np.repeat(weight, 20), ddof=0)
    components = np.array(PCAColor().fit(images, weight).components).reshape(3, 3)
    sizes = np.linalg.norm(components, axis=1)
    np.testing.assert_allclose(np.sort(np.linalg.eigvalsh(covariance))[::-1], sizes, rtol=1e-9)
    np.testing.assert_allclose(covariance @ components.T, components.T * sizes, rtol=1e-9)
    flat = RANDOM.random((9, 4, 5))
    np.testing.assert_allclose(PCAColor().fit(flat[..., None]).components, [flat.var()], rtol=1e-9)


@pytest.mark.spec("PRA-128")
def test_added_colors_have_the_stated_covariance_and_are_one_for_a_picture():
    """Of 20,000 draws: each entry within five standard deviations, a false alarm in 300,000."""
    images = 0.3 + 0.3 * RANDOM.random((50, 4, 5, 3)) @ RANDOM.dirichlet([1, 1, 1], 3)
    fitted = PCAColor(sd=0.1).fit(images)
    added, n = fitted.colors(20_000, Noise(2, "a")), 20_000
    values, vectors = np.linalg.eigh(np.cov(images.reshape(-1, 3).T, ddof=0))
    want = 0.01 * vectors @ np.diag(values**2) @ vectors.T
    spread = np.sqrt((np.outer(np.diag(want), np.diag(want)) + want**2) / n)
    assert (np.abs(added.T @ added / n - want) < 5 * spread).all()
    assert (np.abs(added.mean(0)) < 5 * np.sqrt(np.diag(want) / n)).all()
    change = PCAColor(sd=1.0, components=fitted.components)(images, rng=3) - images
    assert np.ptp(change, axis=(1, 2)).max() < 1e-12 and len(np.unique(change[:, 0, 0, 0].round(9))) == 50


@pytest.mark.spec("PRA-128")
def test_no_spread_is_no_change_values_are_cut_and_an_unfitted_one_says_so():
    fitted = PCAColor(sd=0.0).fit(LEVELS)
    assert np.array_equal(fitted(LEVELS), LEVELS)
    strong = PCAColor(sd=100.0).fit(PICTURE)(np.repeat(PICTURE[None], 20, axis=0), rng=0)
    assert strong.min() == 0 and strong.max() == 1
    with pytest.raises(UserError, match="pca-color was not fitted"):
        PCAColor()(PICTURE)
    with pytest.raises(UserError, match="components must be 9 numbers"):
        PCAColor(components=(1.0,))(PICTURE)
    for wrong in ([1.0, 2.0], [0.0] * 3, [-1.0, 1.0, 1.0]):
        with pytest.raises(UserError, match="sample_weight"):
            PCAColor().fit(np.repeat(PICTURE[None], 3, axis=0), wrong)
