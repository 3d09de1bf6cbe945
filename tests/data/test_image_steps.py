"""Steps of images: the mean image, contrast of wholes and of windows, whitening, sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from sklearn.decomposition import PCA
from torch.nn.functional import interpolate

from gnomon.data import GCN, LCN, CenterCrop, PixelMean, Resize, ResizeCrop, Whitening, contrast
from gnomon.data.image_contrast import contrasts, window_means
from gnomon.data.image_steps import AsTheyAre, ImagePreprocessing, ImageStep, SymmetricRange
from gnomon.errors import UserError
from gnomon.recipes.recipe import named, shorts


def images(n: int = 40, shape: tuple[int, ...] = (5, 6, 3), seed: int = 0) -> Any:
    return np.random.default_rng(seed).gamma(2.0, 0.1, size=(n, *shape))


ONE_TO_THREE = np.array([[[1.0, 2.0, 3.0]]])


def test_the_choices_of_the_slot():
    assert shorts(ImagePreprocessing) == [
        "center-crop", "gcn", "lcn", "none", "pixel-mean", "resize", "resize-crop", "symmetric", "whitening",
    ]  # fmt: skip


# --- the mean image -----------------------------------------------------------------------------------------------


@pytest.mark.spec("PRA-121")
def test_the_mean_image_of_training_is_taken_off_everywhere():
    train, test = images() + 1e6, images(seed=1)
    step = PixelMean().fit(train)
    assert np.abs(step.transform(train).mean(0)).max() < 1e-9
    assert np.allclose(step.transform(test), test - train.mean(0), rtol=0, atol=1e-8)  # training's mean, not its own
    assert np.allclose(step.inverse_transform(step.transform(test)), test, rtol=0, atol=1e-8)
    assert step.state()["mean"].shape == (5, 6, 3)


@pytest.mark.spec("PRA-121")
def test_the_mean_image_is_summed_in_float64_in_chunks_and_by_weight():
    train = (images(300) + 4096).astype(np.float32)  # sums of float32 would lose half of the digits
    whole, chunks = PixelMean().fit(train), ImageStep(PixelMean())
    for start in range(0, 300, 7):
        chunks.partial_fit(train[start : start + 7])
    exact = train.astype(np.float64).mean(0)
    assert np.abs(whole.state()["mean"] - exact).max() < 1e-9
    assert np.abs(chunks.state()["mean"] - exact).max() < 1e-9
    weights = np.arange(300) % 3
    weighed = np.average(train.astype(np.float64), axis=0, weights=weights)
    assert np.abs(PixelMean().fit(train, weights).state()["mean"] - weighed).max() < 1e-9
    with pytest.raises(UserError, match="images of 5 x 6 x 3, got 6 x 5 x 3"):
        whole.transform(images(2, (6, 5, 3)))
    with pytest.raises(UserError, match="images of 5 x 6 x 3, got 5 x 6"):
        whole.transform(images(2, (5, 6)))
    with pytest.raises(UserError, match="learns from training images"):
        PixelMean().transform(train)


# --- contrast -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRA-122")
def test_contrast_is_the_standard_deviation_of_all_numbers():
    assert contrast([1, 2, 3]) == pytest.approx(0.8164966, abs=1e-7)
    x = images()
    found = contrasts(x.reshape(len(x), -1))
    for image, other in zip(x, found, strict=True):
        assert contrast(image) == pytest.approx(np.std(image), rel=1e-12) and other == pytest.approx(np.std(image))
    levels = np.array([[[100, 255, 250], [3, 255, 1]]], np.uint8)  # squares of bytes would run over
    assert contrast(levels) == pytest.approx(np.std(levels.astype(float)), rel=1e-12)
    assert contrast(np.full((3, 3, 3), 0.1)) == 0
    for wrong, words in (([], "pixels"), ([np.nan], "finite"), (["a"], "numbers")):
        with pytest.raises(UserError, match=words):
            contrast(wrong)


@pytest.mark.spec("PRA-123")
def test_global_contrast_normalization_by_hand():
    found = GCN().transform(ONE_TO_THREE)
    assert np.allclose(found, [[[-1.2247449, 0, 1.2247449]]], rtol=0, atol=1e-7)
    assert np.linalg.norm(found) == pytest.approx(np.sqrt(3))
    assert np.allclose(GCN(lam=10.0, eps=0.0).transform(ONE_TO_THREE), [[[-0.30618622, 0, 0.30618622]]], atol=1e-8)
    assert np.allclose(GCN(s=2.5, eps=1.0).transform(ONE_TO_THREE), [[[-2.5, 0, 2.5]]])  # 0.82 is below eps


@pytest.mark.spec("PRA-123")
def test_global_contrast_normalization_puts_images_on_a_sphere_along_their_direction():
    x = images()
    found = GCN(s=1.5).transform(x)
    assert np.abs(found.mean((1, 2, 3))).max() < 1e-12
    assert np.allclose(found.std((1, 2, 3)), 1.5)
    assert np.allclose(np.linalg.norm(found.reshape(len(x), -1), axis=1), 1.5 * np.sqrt(5 * 6 * 3))
    centered = x - x.mean((1, 2, 3), keepdims=True)
    cosine = (found * centered).sum((1, 2, 3)) / np.linalg.norm(found.reshape(40, -1), axis=1)
    assert np.allclose(cosine, np.linalg.norm(centered.reshape(40, -1), axis=1))
    # the range of the pixels decides what lam is: 10 of 0..255 is 10 / 255**2 of 0..1
    assert np.allclose(GCN(lam=10.0).transform(255 * x), GCN(lam=10.0 / 255**2).transform(x))


@pytest.mark.spec("PRA-123")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_image_becomes_zero_or_is_refused(dtype):
    flat = np.full((1, 7, 9, 3), 0.1, dtype)
    assert not GCN().transform(flat).any() and not GCN(lam=10.0, eps=0.0).transform(flat).any()
    with pytest.raises(UserError, match="constant, and has no contrast"):
        GCN(eps=0.0).transform(flat)
    assert not GCN().apply(torch.from_numpy(flat), {}).any()
    with pytest.raises(UserError, match="loses what the images were"):
        GCN().fit(flat).inverse_transform(flat)


# --- local contrast -----------------------------------------------------------------------------------------------


def locally(x: Any, window: tuple[int, int], lam: float, eps: float, joined: bool, inside: bool) -> Any:
    """Window by window, two passes: mean first, then the variance about it."""
    out, (up, left) = np.empty_like(x), (window[0] // 2, window[1] // 2)
    n, rows, columns, channels = x.shape
    padded = np.pad(x, ((0, 0), (up, up), (left, left), (0, 0)), mode="symmetric")
    for i in range(n):
        for r in range(rows):
            for c in range(columns):
                seen = padded[i, r : r + window[0], c : c + window[1]]
                if inside:
                    seen = x[i, max(r - up, 0) : r + up + 1, max(c - left, 0) : c + left + 1]
                for k in range(channels):
                    part = seen if joined else seen[..., k]
                    out[i, r, c, k] = (x[i, r, c, k] - part.mean()) / max(eps, np.sqrt(lam + part.var()))
    return out


@pytest.mark.spec("PRA-125")
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("border", ["reflect", "inside"])
def test_local_contrast_normalization_is_that_of_every_window(border, joined):
    x = images(3)
    for window, lam, eps in (((3, 5), 0.0, 1e-8), ((5, 3), 0.01, 1e-8), ((3, 3), 0.0, 0.2)):
        found = LCN(window, per_channel=not joined, lam=lam, eps=eps, border=border).transform(x)
        assert np.allclose(found, locally(x, window, lam, eps, joined, border == "inside"), rtol=1e-9, atol=1e-9)


@pytest.mark.spec("PRA-125")
def test_gaussian_windows_are_those_of_scipy():
    x, lam = images(2), 1e-3
    for sigma in (0.8, 2.5):  # the second reaches beyond the image
        mean = gaussian_filter(x, (0, sigma, sigma, 0))
        variance = gaussian_filter(x * x, (0, sigma, sigma, 0)) - mean**2
        found = LCN(sigma=sigma, lam=lam).transform(x)
        assert np.allclose(found, (x - mean) / np.sqrt(lam + variance), rtol=1e-9, atol=1e-9)
    reach = np.arange(-3, 4)  # int(4 * 0.8 + 0.5)
    weights = np.exp(-(reach**2) / (2 * 0.8**2))
    assert np.allclose(window_means(9, 1, 0.8)[4, 1:8], weights / weights.sum(), rtol=1e-12)


@pytest.mark.spec("PRA-125")
def test_a_window_over_the_whole_image_is_global_normalization_at_its_center():
    x = images(4, (5, 7, 3))
    for lam in (0.0, 0.3):
        found = LCN((5, 7), per_channel=False, lam=lam, border="inside").transform(x)
        assert np.allclose(found[:, 2, 3], GCN(lam=lam).transform(x)[:, 2, 3], rtol=1e-10)
        assert np.allclose(LCN((5, 7), per_channel=False, lam=lam).transform(x)[:, 2, 3], found[:, 2, 3], rtol=1e-10)


@pytest.mark.spec("PRA-125")
def test_constant_regions_are_zero_and_edges_stand_out_in_dark_and_bright_alike():
    x = np.full((1, 8, 20), 0.1)
    x[:, :, 5:10], x[:, :, 10:15], x[:, :, 15:] = 0.2, 0.8, 0.9  # equal steps in the dark and in the light
    found = LCN((3, 3), lam=0.0, eps=1e-4).transform(x)
    assert np.abs(found[:, :, [0, 1, 2, 7, 12, 18]]).max() < 1e-9
    assert np.allclose(found[:, :, 4:6], found[:, :, 14:16], atol=1e-9) and found[0, 0, 5] > 0.7
    assert np.abs(LCN().transform(np.full((1, 6, 6), 0.3, np.float32))).max() < 1e-5
    # a variance of E[x^2] - m^2 that rounding makes negative would be NaN
    assert np.isfinite(LCN((3, 3), lam=0.0).transform(1e6 + x)).all()
    local = LCN((3, 3), lam=1e-3)
    assert np.allclose(local.transform(1e6 + x), local.transform(x), rtol=0, atol=1e-6)  # no digits are lost to a level
    with pytest.raises(UserError, match="constant"):
        LCN((3, 3), lam=0.0, eps=0.0).transform(np.zeros((1, 4, 4)))
    weak, strong = (np.abs(LCN((3, 3), lam=lam).transform(x)).max() for lam in (1.0, 0.0))
    assert weak < 0.2 < strong
    for window in ((2, 3), (3,)):
        with pytest.raises(UserError, match="odd numbers"):
            LCN(window)


# --- whitening ----------------------------------------------------------------------------------------------------


def related(n: int = 400) -> Any:
    return images(n, (12,)).reshape(n, 12) @ np.random.default_rng(3).normal(size=(12, 12)) + 5


@pytest.mark.spec("PRA-124")
def test_whitening_is_that_of_scikit_learn_and_its_covariance_the_unit_matrix():
    x = related().reshape(400, 2, 3, 2)
    step = Whitening("pca", eps=0.0).fit(x)
    found = step.transform(x)
    peer = PCA(whiten=True).fit_transform(x.reshape(400, 12))
    signs = np.sign((found * peer).sum(0))
    assert found.shape == (400, 12) and np.allclose(found, signs * peer, rtol=1e-8, atol=1e-8)
    assert np.allclose(np.cov(found.T), np.eye(12), atol=1e-9)
    largest = np.abs(step.state()["components"]).argmax(0)
    assert (step.state()["components"][largest, np.arange(12)] > 0).all()
    image = Whitening("zca", eps=0.0).fit(x)
    assert np.allclose(np.cov(image.transform(x).reshape(400, 12).T), np.eye(12), atol=1e-8)
    for one in (step, image):
        assert np.allclose(
            one.inverse_transform(one.transform(x)), x.reshape(one.inverse_transform(one.transform(x)).shape)
        )


@pytest.mark.spec("PRA-124")
def test_the_matrix_of_zca_is_symmetric_and_the_nearest_to_the_images():
    x = related().reshape(400, 3, 4)
    found = {kind: Whitening(kind, eps=0.0).fit(x).transform(x).reshape(400, 12) for kind in ("zca", "pca")}
    flat = x.reshape(400, 12) - x.reshape(400, 12).mean(0)
    matrix = np.linalg.lstsq(flat, found["zca"], rcond=None)[0]
    assert np.allclose(matrix, matrix.T, atol=1e-8)
    assert ((found["zca"] - flat) ** 2).sum() < ((found["pca"] - flat) ** 2).sum()


@pytest.mark.spec("PRA-124")
def test_whitening_in_chunks_by_weight_and_of_too_few_images():
    x, weights = related(60).reshape(60, 3, 4), np.arange(60) % 3
    chunks = ImageStep(Whitening())
    for start in range(0, 60, 11):
        chunks.partial_fit(x[start : start + 11], weights[start : start + 11])
    whole, again = Whitening().fit(x, weights), ImageStep(Whitening())
    assert np.allclose(chunks.transform(x), whole.transform(x))
    assert np.allclose(Whitening().fit(x, 7.0 * weights).transform(x), whole.transform(x))
    assert np.allclose(Whitening().fit(x, weights > 0).transform(x), Whitening().fit(x[weights > 0]).transform(x))
    covariance = np.cov(x.reshape(60, 12).T, aweights=weights, ddof=0) / (1 - 1 / 40)  # 40 images have a weight
    assert np.allclose((whole.state()["factors"] ** -2 - 0.01).sum(), np.trace(covariance))
    again.load(chunks.state())
    assert np.array_equal(again.transform(x), chunks.transform(x))
    twelve = x[:9]  # of 12 numbers: 8 directions
    with pytest.raises(UserError, match="variance in 8 of 12 components"):
        Whitening(eps=0.0).fit(twelve).transform(twelve)
    few = Whitening("pca", eps=0.0, n_components=8).fit(twelve).transform(twelve)
    assert np.allclose(np.cov(few.T), np.eye(8), atol=1e-8)
    assert np.isfinite(Whitening().fit(twelve).transform(twelve)).all()
    for wrong, data, words in (
        (Whitening(), x[:1], "at least 2 images"), (Whitening(n_components=13), x, "at most 12"),
        (Whitening(), np.zeros((2, 65, 64)), "at most 4096 numbers"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=words):
            wrong.fit(data).transform(data)


# --- sizes --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRA-117")
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [True, False])
def test_resizing_is_that_of_torch(mode, antialias):
    for shape, size in (((7, 5), (4, 9)), ((8, 8), (3, 16)), ((2, 3), (5, 1))):
        x = images(2, (*shape, 3))
        wanted = interpolate(torch.from_numpy(x).movedim(-1, 1), size, mode=mode, antialias=antialias).movedim(1, -1)
        assert np.allclose(Resize(size, mode, antialias).transform(x), wanted, rtol=1e-12, atol=1e-12)
        inside = Resize(size, mode, antialias).apply(torch.from_numpy(x), {})
        assert np.allclose(inside, wanted, rtol=1e-12, atol=1e-12)
        assert np.allclose(Resize(size, mode, antialias).transform(np.full((1, *shape), 0.3)), 0.3)  # constants stay


@pytest.mark.spec("PRA-117")
def test_resizing_by_hand():
    x = np.array([[[1.0, 2.0], [3.0, 4.0]]])
    assert np.array_equal(Resize((4, 4), "nearest").transform(x)[0], np.kron(x[0], np.ones((2, 2))))
    # borders on each other: pixel i of 4 lies at (i + 1/2) / 2 - 1/2; corners on each other would give 0, 1/3, 2/3, 1
    assert np.allclose(Resize((1, 4)).transform([[[0.0, 1.0]]]), [[[0, 0.25, 0.75, 1]]])
    stripes = np.tile([0.0, 1.0], 8)[None, None]
    assert np.ptp(Resize((1, 8)).transform(stripes)[..., 1:-1]) < 1e-12  # half grey
    assert np.ptp(Resize((1, 5), antialias=False).transform(stripes)) > 0.5  # patterns that were not there


@pytest.mark.spec("PRA-117")
def test_crops_begin_at_half_of_what_is_left_rounded_down():
    x = np.arange(7 * 8.0).reshape(1, 7, 8)
    assert np.array_equal(CenterCrop((4, 3)).transform(x), x[:, 1:5, 2:5])  # 1.5 and 2.5: torchvision takes 2 and 2
    assert np.array_equal(CenterCrop((7, 8)).transform(x), x)
    with pytest.raises(UserError, match="7 x 8 are too small for a crop of 8 x 2"):
        CenterCrop((8, 2)).transform(x)
    with pytest.raises(UserError, match="two whole numbers"):
        CenterCrop((8,))


@pytest.mark.spec("PRA-117")
def test_the_shorter_side_is_brought_to_the_size_and_the_rest_cropped():
    x = images(2, (6, 15, 3))
    found = ResizeCrop((4, 4)).transform(x)
    assert np.allclose(found, Resize((4, 10)).transform(x)[:, :, 3:7])  # proportions kept
    assert ResizeCrop((3, 9)).transform(images(1, (20, 10))).shape == (1, 3, 9)
    assert np.allclose(ResizeCrop((6, 15)).transform(x), x)


# --- all ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("short", shorts(ImagePreprocessing))
def test_a_step_is_saved_changes_nothing_that_it_was_given_and_computes_tensors_alike(short):
    recipe = named(ImagePreprocessing, short)()
    x = images(30, (33, 34)) if short == "center-crop" else images(30, (4, 5, 2)) / 4
    x.flags.writeable = False
    step, again = recipe.fit(x), ImageStep(recipe)
    found = step.transform(x)
    again.load(step.state())
    assert np.array_equal(again.transform(x), found)
    assert found.dtype == np.float64 and step.transform(x.astype(np.float32)).dtype == np.float32
    arrays = {name: torch.tensor(value) for name, value in step.state().items()}
    batch = x if x.ndim == 4 else x[..., None]
    tensor = recipe.apply(torch.tensor(batch), arrays)
    assert tuple(tensor.shape[1:]) == recipe.shape_after(batch.shape[1:])
    assert np.allclose(tensor.numpy().reshape(found.shape), found, rtol=1e-12, atol=1e-12)
    for wrong, words in ((x[0, 0], "shape"), (np.full_like(x, np.nan), "finite"), (np.full(x.shape, "a"), "images")):
        with pytest.raises(UserError, match=words):
            step.transform(wrong)
    with pytest.raises(UserError, match="not fitted"):
        ImageStep(recipe).transform(x)


def test_the_range_and_nothing_go_both_ways():
    levels = np.array([[[0, 51, 255]]], np.uint8)
    assert np.allclose(SymmetricRange().transform(levels), [[[-1, -0.6, 1]]])
    for recipe in (SymmetricRange(), AsTheyAre()):
        x = images() / 4
        assert np.allclose(recipe.fit(x).inverse_transform(recipe.fit(x).transform(x)), x)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: CenterCrop(3), "size must be"),
        (lambda: CenterCrop((1.5, 2)), "size must be"),
        (lambda: Resize((-1, 3)), "size must be"),
        (lambda: ResizeCrop((0, 3)), "size must be"),
        (lambda: Resize((3, 3), "cubic"), "mode must be"),
        (lambda: GCN(s=-1.0), "s must be"),
        (lambda: GCN(s="a"), "s must be"),
        (lambda: GCN().transform(None), "X must be an array of images"),
        (lambda: GCN().transform([np.zeros((2, 2)), np.zeros((3, 3))]), "X is ragged"),
        (lambda: LCN(window=3), "window must be"),
        (lambda: LCN(window=(3.0, 3.0)), "window must be"),
        (lambda: LCN(window=(10**12 + 1, 3)), "window must be"),
        (lambda: LCN(sigma=-1.0), "sigma must be"),
        (lambda: LCN(sigma=1e12), "sigma must be"),
        (lambda: LCN(border="wrap"), "border must be"),
        (lambda: Whitening("mahalanobis"), "kind must be"),
    ],
)
def test_settings_and_arrays_that_cannot_be_used_are_refused_in_one_line(call, said):
    with pytest.raises(UserError, match=said) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.spec("PRA-121", "PRA-124")
def test_only_what_came_out_of_a_step_goes_back_through_it():
    x = images()
    components = Whitening("pca").fit(x)
    for wrong in (x, components.transform(x)[:, :5], components.transform(x)[0], components.transform(x)[:0]):
        with pytest.raises(UserError, match=r"X must have the shape \(n, 90\)"):
            components.inverse_transform(wrong)
    for wrong in (np.zeros((2, 90)), np.zeros((6, 3))):  # the second is as wide as an image has channels
        with pytest.raises(UserError, match="X must have the shape"):
            PixelMean().fit(x).inverse_transform(wrong)
