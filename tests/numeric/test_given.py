"""Arguments of the wrong kind are refused by name, in one line, whatever function they are given to."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.typing import ArrayLike

from gnomon.contracts import Noise as AnyNoise
from gnomon.errors import UserError, UserTypeError
from gnomon.numeric import convolution, fields, fourier, variations
from gnomon.numeric.given import affordable, answers, checked, checked_complex, floats, numbers, outcomes
from gnomon.numeric.noise import Noise


@checked
def total(x: ArrayLike, n: int = 1, scale: float = 1.0, name: str | None = None, noise: AnyNoise | None = None):
    return float(np.sum(x)) * n * scale


GOOD = [
    [1, 2.5], (1, 2.5), np.array([1, 2.5], np.float32), np.array([1, 2.5], object), torch.tensor([1, 2.5]),
    torch.tensor([1, 2.5], requires_grad=True), torch.tensor([1, 2.5], dtype=torch.bfloat16), pd.Series([1, 2.5]),
    pl.Series([1.0, 2.5]), np.array([1, 9, 2.5, 9])[::2],
]  # fmt: skip


@pytest.mark.parametrize("x", GOOD)
def test_arrays_of_every_kind_are_the_same_numbers(x):
    assert total(x) == 3.5
    assert floats(x, "x").tolist() == [1, 2.5]


def test_a_read_only_array_is_handed_on_untouched():
    x = np.array([1.0, 2.5])
    x.setflags(write=False)
    assert numbers(x, "x") is x


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": "text"}, "x must hold numbers, got a str"),
        ({"x": None}, "x must hold numbers, got a NoneType"),
        ({"x": ["a"]}, "x must hold numbers, got dtype <U1"),
        ({"x": [[1.0], [1.0, 2.0]]}, "x must be an array of numbers with rows of one length"),
        ({"x": np.array([1, None])}, "x must hold numbers, got a NoneType"),
        ({"x": [10**400]}, "x must hold numbers below 1e308"),
        ({"x": [1j]}, "x must hold real numbers, got complex numbers"),
        ({"n": 1.5}, r"n must be a whole number, got 1\.5 \(total\.n\)"),
        ({"n": True}, r"n must be a whole number, got True \(total\.n\)"),
        ({"n": np.array([1])}, r"n must be a whole number, got an array of shape \(1,\) \(total\.n\)"),
        ({"scale": "2"}, r"scale must be a number, got '2' \(total\.scale\)"),
        ({"scale": float("nan")}, r"scale must be a number, got nan \(total\.scale\)"),
        ({"scale": None}, r"scale must be a number, got None \(total\.scale\)"),
        ({"name": 3}, r"name must be text, got 3 \(total\.name\)"),
        (
            {"noise": np.random.default_rng},
            r"noise must be a Noise\(seed, purpose\), got <cyfunction .*\(total\.noise\)",
        ),
    ],
)
def test_other_kinds_are_refused_by_name(given, message):
    with pytest.raises(UserError, match=message) as caught:
        total(**{"x": [1.0], **given})
    assert "\n" not in str(caught.value)


def test_what_fits_is_let_through():
    assert total([1.0], np.int32(2), np.float32(0.5), "a", Noise(0, "a")) == 1.0
    assert total(x=3, name=None) == 3.0


def test_complex_numbers_only_where_they_may_be():
    @checked_complex
    def first(x: ArrayLike):
        return x[0]

    assert first([1j]) == 1j
    with pytest.raises(UserTypeError, match="complex"):
        floats([1j], "x")


def test_answers_and_outcomes_have_the_shape_that_is_asked_for():
    assert answers(torch.ones(3, requires_grad=True), (3,), "f").tolist() == [1, 1, 1]
    with pytest.raises(UserError, match="f must be finite, got nan at index 1"):
        answers([0.0, np.nan], (2,), "f", finite=True)
    with pytest.raises(UserError, match=r"x must broadcast against shape \(2,\), got shape \(3,\)"):
        outcomes(np.ones(3), "x", (2,))
    with pytest.raises(UserError, match=r"1e\+12 numbers would take 8e\+12 bytes \(n\); give fewer"):
        affordable(10**12, "n", "give fewer")


def _box(x):
    return np.ones(len(x))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fourier.fft([1.0], 10**15), "take 1.6e.16 bytes"),
        (lambda: fourier.fft([1.0], 2.0), r"n must be a whole number, got 2\.0 \(fft\.n\)"),
        (lambda: fourier.fft([[1.0], [1.0, 2.0]]), "x must be an array of numbers with rows of one length"),
        (lambda: fourier.coefficients(None, 1.0, 1), r"f must be a function, got None \(coefficients\.f\)"),
        (lambda: fourier.reconstruct([1.0], [np.inf], 1.0), r"coefficients and times must be finite \(c, t\)"),
        (lambda: fourier.cft(lambda x: x[:, 0], [np.arange(2000.0)] * 4), "bytes .grid"),
        (lambda: fourier.cft([1.0, 2.0], {"a": 1}), "grid must hold numbers, got a dict"),
        (lambda: convolution.circular_convolve([1.0], [1.0], 10**15), "bytes .n"),
        (
            lambda: convolution.convolve_functions(lambda x: 0.0, _box, [(0, 1)]),
            "f must return 1024 finite numbers, one per row",
        ),
        (lambda: convolution.convolve_functions(_box, _box, [(0, 1)] * 5), "bytes .points"),
        (
            lambda: convolution.convolve_functions(_box, _box, (0, 1)),
            r"bounds must be finite pairs with lower < upper, got \[0, 1\]",
        ),
        (
            lambda: fields.laplacian(lambda x: x[:, 0].detach().numpy(), torch.ones(2, 2)),
            "f must return a tensor of floating-point numbers, got a ndarray; compute with torch operations",
        ),
        (lambda: fields.laplacian(lambda x: x.sum(1), torch.ones(2, 0)), r"shape \(2, 0\)"),
        (
            lambda: variations.action(lambda t, u, v: u, [0.0, np.nan], [0.0, 1.0]),
            r"u must be finite, got nan \(u, index 1\)",
        ),
        (
            lambda: variations.action(lambda t, u, v: u + 0j, [0.0, 1.0], [0.0, 1.0]),
            r"L must return real floating-point numbers, got torch\.complex128",
        ),
        (
            lambda: variations.residual(lambda t, u, v: u, torch.sin, [0.0, np.inf]),
            r"grid must be finite, got inf \(grid, index 1\)",
        ),
        (
            lambda: variations.solve_boundary_value(lambda t, u, v: v**2, (0.0,), (1.0, 1.0)),
            r"a must be \(time, value\), with None for a value that is free, got \(0\.0,\)",
        ),
        (lambda: variations.solve_boundary_value(lambda t, u, v: v**2, (0, 0), (1, 1), points=10**12), "bytes .points"),
    ],
)
def test_transforms_and_variations_refuse_before_they_start(call, message):
    with pytest.raises(UserError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
