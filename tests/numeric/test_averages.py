"""The exponentially weighted average: numbers by hand, pandas beside it, weights, state."""

import numpy as np
import pandas as pd
import pytest
import torch

from gnomon.errors import UserError, UserValueError
from gnomon.numeric.averages import ExponentialAverage

STREAM = np.random.default_rng(0).normal(size=(40, 3))


def run(g, stream):
    average = ExponentialAverage(g)
    for x in stream:
        average.update(x)
    return average


@pytest.mark.spec("DLN-30")
def test_three_values_by_hand():
    average = run(0.9, [1.0, 2.0, 3.0])
    assert average.value == pytest.approx(0.561, rel=1e-14)
    assert average.corrected == pytest.approx(2.070111, abs=5e-7)


@pytest.mark.spec("DLN-30")
@pytest.mark.parametrize("g", [0.0, 0.5, 0.999999])
def test_a_constant_stream_shows_the_sum_of_the_weights(g):
    average = run(g, [7.0] * 5)
    assert average.value == pytest.approx(7 * (1 - g**5), rel=1e-9)
    assert average.corrected == pytest.approx(7, rel=1e-9)


@pytest.mark.spec("DLN-30")
@pytest.mark.parametrize("g", [0.3, 0.9])
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_the_corrected_form_is_pandas_ewm(g, kind):
    expected = pd.DataFrame(STREAM).ewm(alpha=1 - g, adjust=True).mean().to_numpy()[-1]
    average = run(g, [kind(x) for x in STREAM])
    np.testing.assert_allclose(average.corrected, expected, rtol=1e-12)
    weights = (1 - g) * g ** np.arange(39, -1, -1.0)
    np.testing.assert_allclose(average.value, weights @ STREAM, rtol=1e-12)
    assert weights.sum() == pytest.approx(1 - g**40)


@pytest.mark.spec("DLN-30")
@pytest.mark.parametrize("g", [1.0, -0.1, 1.5, float("nan"), "0.9", True])
def test_a_share_outside_zero_to_one_is_refused(g):
    with pytest.raises(UserError, match=r"ExponentialAverage.g\)"):
        ExponentialAverage(g)


def test_the_streams_arrays_are_neither_kept_nor_changed():
    average, x = ExponentialAverage(0.5), np.ones(2)
    first = average.update(x)
    x[:] = 9
    average.update(np.ones(2))
    assert first.tolist() == [0.5, 0.5] and average.value.tolist() == [0.75, 0.75]


@pytest.mark.spec("DLN-30")
def test_reset_and_state():
    average = run(0.9, STREAM[:20])
    other = ExponentialAverage(0.9)
    other.load(average.state())
    for x in STREAM[20:]:
        other.update(x)
    np.testing.assert_array_equal(other.corrected, run(0.9, STREAM).corrected)
    other.reset()
    assert (other.count, other.value) == (0, 0.0)
    with pytest.raises(UserValueError, match="no value yet"):
        _ = other.corrected
    other.load(run(0.9, [1.0, 2.0]).state())
    assert other.update(3.0) == pytest.approx(0.561, rel=1e-14)


def test_a_loaded_average_goes_on_with_tensors():
    average, whole = ExponentialAverage(0.9), run(0.9, [torch.as_tensor(x) for x in STREAM])
    average.load(run(0.9, STREAM[:20]).state())
    for x in STREAM[20:]:
        average.update(torch.as_tensor(x))
    assert torch.equal(average.corrected, whole.corrected)


def test_another_shape_is_refused():
    average = run(0.9, [np.ones(3)])
    with pytest.raises(
        UserValueError, match=r"x must keep the shape \(3,\), got \(1,\); call reset before another shape"
    ):
        average.update(np.ones(1))
