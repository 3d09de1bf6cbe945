"""Hidden squares, and mixtures of pictures with their labels."""

import numpy as np
import pytest
from scipy import stats

from gnomon.data.augment import CutMix, Cutout, Mixup
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise

RANDOM = np.random.default_rng(0)
IMAGES, CODES = RANDOM.uniform(0.1, 0.9, (30, 6, 8, 2)), RANDOM.integers(0, 3, 30)


def test_a_square_around_a_uniform_center_is_hidden():
    """4000 centers on 48 pixels, every count within six standard deviations: a false alarm in 10 million."""
    cutout = Cutout(size=0.5, fill=0.0)
    found = cutout(IMAGES, rng=1)
    windows = cutout.windows(30, (6, 8), Noise(1, "augment"))
    for i, (top, left, bottom, right) in enumerate(windows):
        want = IMAGES[i].copy()
        want[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)] = 0.0
        assert np.array_equal(found[i], want) and bottom - top == right - left == 3
    many = cutout.windows(4000, (6, 8), Noise(0, "a"))[:, :2] + 1
    assert many.min(0).tolist() == [0, 0] and many.max(0).tolist() == [5, 7]
    counts = np.histogramdd(many, [np.arange(7), np.arange(9)])[0]
    assert np.abs(counts - 4000 / 48).max() < 6 * np.sqrt(4000 / 48)
    boxes = [[1, 1, 2, 2]]
    assert cutout(IMAGES[0], boxes, rng=0).boxes.tolist() == boxes


@pytest.mark.parametrize("mixing", [Mixup(alpha=0.7), CutMix(alpha=2.0)])
def test_labels_are_mixed_as_pictures_are(mixing):
    """Pictures of one value each: the mean of a mixture says its shares."""
    values = np.array([0.0, 1.0, 0.5])[CODES]
    images = np.broadcast_to(values[:, None, None, None], IMAGES.shape).copy()
    mixed, targets = mixing(images, CODES, 4, rng=2)
    np.testing.assert_allclose(mixed.mean((1, 2, 3)), targets @ [0.0, 1.0, 0.5, 7.0], atol=1e-12)
    np.testing.assert_allclose(targets.sum(1), 1)
    assert targets.shape == (30, 4) and ((targets > 0.01) & (targets < 0.99)).any()
    assert not targets[:, 3].any()


def test_shares_have_the_law_of_a_beta():
    """Kolmogorov-Smirnov at 1e-6."""
    n = 5000
    for alpha in (0.2, 1.0, 3.0):
        _, share = Mixup(alpha).mix(np.zeros((n, 1, 1, 1)), np.ones((n, 1, 1, 1)), Noise(0, "a"))
        assert stats.kstest(share, stats.beta(alpha, alpha).cdf).pvalue > 1e-6
    windows = CutMix().windows(n, (1000, 1000), Noise(0, "a"))
    inside = windows[(windows[:, :2] > 0).all(1) & (windows[:, 2:] < 1000).all(1)]
    sides = inside[:, 2:] - inside[:, :2]
    assert np.array_equal(sides[:, 0], sides[:, 1])
    # a side of s sticks out of neither end with probability 1 - s, and s^2 is uniform: E (1 - s)^2 = 1/6
    assert abs(len(inside) / n - 1 / 6) < 5 * np.sqrt(5 / 36 / n)


def test_a_rectangle_of_the_other_picture_counts_by_its_area():
    other = IMAGES[::-1]
    mixed, share = CutMix().mix(IMAGES, other, Noise(3, "a"))
    for i, (top, left, bottom, right) in enumerate(CutMix().windows(30, (6, 8), Noise(3, "a"))):
        want = IMAGES[i].copy()
        want[top:bottom, left:right] = other[i, top:bottom, left:right]
        assert np.array_equal(mixed[i], want)
        assert share[i] == pytest.approx(1 - (bottom - top) * (right - left) / 48)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Mixup()(IMAGES), "image and y must be"),
        (lambda: Mixup()(IMAGES, CODES[:4]), "image and y must be"),
        (lambda: CutMix()(IMAGES[0], CODES), "image and y must be"),
        (lambda: Mixup()(IMAGES, CODES, 2), "n_classes must be at least 3"),
        (lambda: Mixup()(IMAGES, CODES, "many"), "n_classes must be at least 3"),
        (lambda: Mixup()(IMAGES, CODES, 4.5), "n_classes must be at least 3"),
        (lambda: Mixup()(IMAGES, CODES, 10**13), "codes from 0 without gaps"),
        (lambda: Mixup(alpha=0.0)(IMAGES, CODES), "alpha must be"),
        (lambda: Mixup().expand(IMAGES, CODES), "mixed pictures have no label"),
        (lambda: Cutout(size=0.0)(IMAGES), "size must be"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(call, said):
    with pytest.raises(UserError, match=said) as error:
        call()
    assert "\n" not in str(error.value)
