"""Grids as arrays: where each pixel lies, one scale of gray for all, what is flat on it."""

import numpy as np
import pytest

from gnomon.errors import UserValueError
from gnomon.evaluation import chain_grid, filter_grid, flat_filters, sample_grid


def tile(grid, i, j, height, width):
    """The image in line i and column j."""
    return grid[i * (height + 1) : (i + 1) * (height + 1) - 1, j * (width + 1) : (j + 1) * (width + 1) - 1]


@pytest.mark.spec("REP-035")
def test_each_column_of_the_weights_is_an_image():
    W = np.arange(18.0).reshape(6, 3) - 3  # 6 pixels, 3 units
    grid = filter_grid(W, (2, 3))
    assert grid.shape == (6, 8)
    for unit, (i, j) in enumerate([(0, 0), (0, 1), (1, 0)]):
        assert np.array_equal(tile(grid, i, j, 2, 3), (W[:, unit].reshape(2, 3) + 3) / 17)
    border = np.ones_like(grid, bool)
    for i, j in ((0, 0), (0, 1), (1, 0)):
        tile(border, i, j, 2, 3)[:] = False
    assert (grid[border] == 1).all() and border.sum() == 48 - 18
    assert np.array_equal(filter_grid(W, (2, 3), across=3), np.concatenate([*(
        np.pad((W[:, k].reshape(2, 3) + 3) / 17, ((0, 1), (0, 1)), constant_values=1) for k in range(3)
    )], axis=1))  # fmt: skip


@pytest.mark.spec("REP-035")
def test_dead_units_show_on_the_common_scale_alone():
    random = np.random.default_rng(0)
    W = random.normal(size=(16, 4))
    W[:, 1] *= 1e-3  # dead: it holds what it was drawn with
    W[:, 2] = 0.25
    common, each = filter_grid(W, (4, 4)), filter_grid(W, (4, 4), scale="each")
    assert np.ptp(tile(common, 0, 1, 4, 4)) < 0.01 < 0.5 < np.ptp(tile(common, 0, 0, 4, 4))
    assert np.ptp(tile(common, 1, 0, 4, 4)) == 0
    assert np.ptp(tile(each, 0, 1, 4, 4)) == 1  # scaled by itself it looks like any other
    assert flat_filters(W).tolist() == [1, 2]
    assert flat_filters(np.zeros((4, 2))).tolist() == [0, 1]
    assert flat_filters(1e300 * W).tolist() == [1, 2]


@pytest.mark.spec("REP-035")
def test_a_column_for_each_chain_and_data_beside():
    chains = np.arange(3 * 2 * 4.0).reshape(3, 2, 4)  # 3 chains, 2 draws
    grid = chain_grid(chains, (2, 2))
    assert grid.shape == (6, 9)
    for chain in range(3):
        for draw in range(2):
            assert np.array_equal(tile(grid, draw, chain, 2, 2), chains[chain, draw].reshape(2, 2) / 23)
    data = np.arange(12.0).reshape(3, 4) + 35  # one scale for both
    beside = chain_grid(chains, (2, 2), data=data)
    assert beside.shape == (6, 9 + 3 + 6)
    assert np.allclose(beside[:, :9][grid != 1], (grid * 23 / 46)[grid != 1])
    assert (beside[:, 9:12] == 1).all()
    for k, (i, j) in enumerate([(0, 4), (0, 5), (1, 4)]):
        assert np.allclose(tile(beside, i, j, 2, 2), data[k].reshape(2, 2) / 46)
    assert (tile(beside, 1, 5, 2, 2) == 1).all()
    assert chain_grid(chains, (2, 2), data=data[:1]).shape == (6, 15)


@pytest.mark.spec("GEN-143")
def test_samples_stand_in_their_order():
    samples = np.random.default_rng(1).uniform(size=(5, 12))
    grid = sample_grid(samples, (2, 2, 3))
    assert grid.shape == (6, 9, 3) and (grid[3:6, 6:] == 1).all()
    low, high = samples.min(), samples.max()
    for k in range(5):
        assert np.allclose(tile(grid, *divmod(k, 3), 2, 2), (samples[k].reshape(2, 2, 3) - low) / (high - low))
    large = sample_grid(samples, (2, 2, 3), factor=2)
    assert np.array_equal(tile(large, 0, 0, 4, 4), tile(grid, 0, 0, 2, 2).repeat(2, 0).repeat(2, 1))


def test_what_is_missing_or_constant_raises_no_warning():
    grid = sample_grid([[np.nan, 1.0], [np.nan, np.nan]], (1, 2), scale="each")
    assert np.isnan(grid[0, 0]) and grid[0, 1] == 0
    assert sample_grid(np.zeros((1, 4)), (2, 2, 1)).shape == (3, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sample_grid(np.ones((2, 5)), (2, 2)), "samples must hold at least one image of 2 x 2 values"),
        (lambda: sample_grid(np.ones((0, 4)), (2, 2)), "at least one image"),
        (lambda: sample_grid(np.ones((1, 4)), (2, 2), scale="own"), "scale must be common or each, got 'own'"),
        (lambda: sample_grid(np.ones((1, 4)), (4,)), "shape must be height and width"),
        (lambda: sample_grid(np.ones((1, 8)), (2, 2, 2)), "perhaps 1 or 3 channels"),
        (lambda: sample_grid(np.ones((1, 4)), (2, 2), across=0), "across must be at least 1, got 0"),
        (lambda: sample_grid(np.ones((1, 4)), (2, 2), factor=0), "factor must be at least 1"),
        (lambda: chain_grid(np.ones((1, 0, 4)), (2, 2)), "chains must be"),
        (lambda: chain_grid(np.ones((1, 1, 4)), (2, 2), data=np.ones((1, 3))), "data must hold"),
        (lambda: flat_filters(np.ones((2, 2)), below=1.5), r"below must be in \(0, 1\), got 1.5"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(UserValueError, match=message):
        call()
