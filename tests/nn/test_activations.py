"""Activations in numbers: values, derivatives, conventions at kinks, limits, gains, and torch beside them."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
import scipy.special
import torch
from scipy.integrate import quad
from torch.nn import functional

from gnomon.errors import UserTypeError, UserValueError
from gnomon.nn import activations as units
from gnomon.nn.activations import (
    CELU,
    ELU,
    GELU,
    SELU,
    Abs,
    Identity,
    LeakyReLU,
    LogSigmoid,
    Maxout,
    PReLU,
    ReLU,
    Sigmoid,
    Softplus,
    Tanh,
    Threshold,
    dead_fraction,
    derivative,
)  # fmt: skip
from gnomon.recipes.recipe import resolve, shorts
from gnomon.training.optimizers import SGD, AdamW

ELEMENTWISE = [
    Identity(), Sigmoid(), LogSigmoid(), Tanh(), ReLU(), LeakyReLU(), LeakyReLU(1.7), LeakyReLU(-0.5), PReLU(),
    Abs(), ELU(), ELU(2.0), CELU(), CELU(0.5), SELU(), GELU(), GELU("tanh"), Softplus(), Softplus(3.0),
]  # fmt: skip


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


def value(recipe, *points, dtype=torch.float64):
    with torch.no_grad():
        x = torch.tensor(points, dtype=dtype)[:, None]  # rows of one feature
        return recipe.build(1, dtype)(x)[:, 0].numpy()


def slope(recipe, *points, dtype=torch.float64):
    return derivative(recipe, torch.tensor(points, dtype=dtype)[:, None])[:, 0].numpy()


def finite_difference(recipe, points, step=1e-6):
    return (value(recipe, *(points + step)) - value(recipe, *(points - step))) / (2 * step)


# --- values that the rows state -------------------------------------------------------------------------------------

VALUES = [
    pytest.param(Sigmoid(), [-1, 0, 0.5, 1, 2], [0.268941, 0.5, 0.622459, 0.7310586, 0.880797],
                 marks=pytest.mark.spec("DLN-01", "LIN-19", "NLP-13"), id="sigmoid"),
    pytest.param(Tanh(), [-1, 0.5, 1, 2], [-0.761594, 0.462117, 0.7615942, 0.964028],
                 marks=pytest.mark.spec("DLN-02", "LIN-20"), id="tanh"),
    pytest.param(ReLU(), [-2, 0, 3], [0, 0, 3], marks=pytest.mark.spec("DLN-04", "LIN-18", "PRA-060"), id="relu"),
    pytest.param(LeakyReLU(), [-2, 0, 3], [-0.02, 0, 3], marks=pytest.mark.spec("DLN-06", "PRA-060"), id="leaky"),
    pytest.param(LeakyReLU(3.0), [-2, 2], [-6, 2], marks=pytest.mark.spec("DLN-06"), id="a slope above 1"),
    pytest.param(PReLU(), [-2, 0, 3], [-0.5, 0, 3], marks=pytest.mark.spec("DLN-05", "PRA-060"), id="prelu"),
    pytest.param(Abs(), [-2, 0, 3], [2, 0, 3], marks=pytest.mark.spec("DLN-07"), id="abs"),
    pytest.param(ELU(), [-1, 2], [-0.632121, 2], marks=pytest.mark.spec("DLN-08"), id="elu"),
    pytest.param(CELU(2.0), [-1, 2], [-0.786939, 2], marks=pytest.mark.spec("DLN-09"), id="celu"),
    pytest.param(SELU(), [-1, 0.5], [-1.111331, 0.525350], marks=pytest.mark.spec("DLN-10"), id="selu"),
    pytest.param(GELU(), [-1, 2, -0.751792], [-0.158655, 1.954500, -0.169971],
                 marks=pytest.mark.spec("DLN-11"), id="gelu"),
    pytest.param(GELU("tanh"), [-1, 2], [-0.158808, 1.954598], marks=pytest.mark.spec("DLN-11"), id="gelu tanh"),
    pytest.param(Softplus(), [-1], [0.313262], marks=pytest.mark.spec("DLN-12"), id="softplus"),
    pytest.param(Softplus(3.0), [2], [2.000825], marks=pytest.mark.spec("DLN-12"), id="softplus of beta 3"),
    pytest.param(LogSigmoid(), [-1000, -1, 2], [-1000, -1.313262, -0.126928],
                 marks=pytest.mark.spec("DLN-13", "LIN-19", "NLP-13"), id="log-sigmoid"),
    pytest.param(Threshold(), [-1, 0, 1e-9], [0, 0, 1], marks=pytest.mark.spec("DLN-16"), id="threshold"),
    pytest.param(Identity(), [-2, 3], [-2, 3], id="identity"),
]  # fmt: skip


@pytest.mark.parametrize(("recipe", "points", "expected"), VALUES)
def test_values_of_the_rows(recipe, points, expected):
    np.testing.assert_allclose(value(recipe, *points), expected, atol=5.1e-7, rtol=5e-7)


FORMULAS = {
    "sigmoid": (Sigmoid(), scipy.special.expit, lambda x: scipy.special.expit(x) * scipy.special.expit(-x)),
    "log-sigmoid": (LogSigmoid(), scipy.special.log_expit, lambda x: scipy.special.expit(-x)),
    "tanh": (Tanh(), np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "relu": (ReLU(), lambda x: np.maximum(x, 0), lambda x: 1.0 * (x > 0)),
    "leaky": (LeakyReLU(0.3), lambda x: np.where(x > 0, x, 0.3 * x), lambda x: np.where(x > 0, 1, 0.3)),
    "prelu": (PReLU(0.3), lambda x: np.where(x > 0, x, 0.3 * x), lambda x: np.where(x > 0, 1, 0.3)),
    "abs": (Abs(), np.abs, np.sign),
    "elu": (ELU(1.5), lambda x: np.where(x > 0, x, 1.5 * np.expm1(np.minimum(x, 0))),
            lambda x: np.where(x > 0, 1, 1.5 * np.exp(np.minimum(x, 0)))),
    "celu": (CELU(1.5), lambda x: np.where(x > 0, x, 1.5 * np.expm1(np.minimum(x, 0) / 1.5)),
             lambda x: np.where(x > 0, 1, np.exp(np.minimum(x, 0) / 1.5))),
    "gelu": (GELU(), lambda x: x * scipy.special.ndtr(x),
             lambda x: scipy.special.ndtr(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)),
    "softplus": (Softplus(), lambda x: np.logaddexp(0, x), scipy.special.expit),
    "softplus of beta": (Softplus(2.5), lambda x: np.logaddexp(0, 2.5 * x) / 2.5,
                         lambda x: scipy.special.expit(2.5 * x)),
    "selu": (SELU(), lambda x: SELU.scale * np.where(x > 0, x, SELU.alpha * np.expm1(np.minimum(x, 0))),
             lambda x: SELU.scale * np.where(x > 0, 1, SELU.alpha * np.exp(np.minimum(x, 0)))),
}  # fmt: skip

ROWS = {
    "sigmoid": ("DLN-01", "LIN-19", "NLP-13"), "log-sigmoid": ("DLN-13", "NLP-13"), "tanh": ("DLN-02", "LIN-20"),
    "relu": ("DLN-04", "LIN-18"), "leaky": ("DLN-06",), "prelu": ("DLN-05",), "abs": ("DLN-07",), "elu": ("DLN-08",),
    "celu": ("DLN-09",), "gelu": ("DLN-11",), "softplus": ("DLN-12",), "softplus of beta": ("DLN-12",),
    "selu": ("DLN-10",),
}  # fmt: skip


@pytest.mark.parametrize(
    ("recipe", "formula", "slope_formula"),
    [pytest.param(*case, id=name, marks=pytest.mark.spec(*ROWS[name])) for name, case in FORMULAS.items()],
)
def test_value_and_derivative_are_the_formulas(recipe, formula, slope_formula):
    """Softplus's switch to x at 20 costs 2.1e-9, the rest is rounding."""
    x = np.array([-1e4, -700.0, -30.0, -3.3, -1.0, -0.2, 0.2, 1.0, 3.3, 25.0, 700.0, 1e4])
    np.testing.assert_allclose(value(recipe, *x), formula(x), rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(slope(recipe, *x), slope_formula(x), rtol=2.2e-9, atol=1e-15)


@pytest.mark.spec("DLN-63", "PRA-060")
@pytest.mark.parametrize("recipe", ELEMENTWISE, ids=repr)
def test_derivative_agrees_with_finite_differences_away_from_kinks(recipe):
    x = np.array([-4.0, -2.1, -0.7, -0.1, 0.1, 0.6, 1.9, 3.5])
    np.testing.assert_allclose(slope(recipe, *x), finite_difference(recipe, x), rtol=1e-7, atol=1e-9)


@pytest.mark.spec("DLN-63")
@pytest.mark.parametrize(
    "recipe",
    [Identity(), Sigmoid(), LogSigmoid(), Tanh(), ReLU(), LeakyReLU(0.2), ELU(1.5), CELU(0.75), SELU(), Softplus(2.0)],
    ids=repr,
)
def test_the_output_of_a_monotone_unit_fixes_its_slope(recipe):
    x = double(-4.0, -0.7, -0.1, 0.1, 0.6, 3.5)
    y = recipe.build(1, torch.float64)(x)
    np.testing.assert_allclose(recipe.slope_from_output(y), slope(recipe, *x.tolist()), rtol=1e-12, atol=1e-12)


@pytest.mark.spec("DLN-63")
@pytest.mark.parametrize("recipe", [GELU(), Abs(), LeakyReLU(-1.0), PReLU(), Maxout(), Threshold()], ids=repr)
def test_the_output_of_other_units_does_not(recipe):
    with pytest.raises(UserTypeError, match="does not determine its slope"):
        recipe.slope_from_output(double(0.5))


# --- numbers far out, NaN -------------------------------------------------------------------------------------------

ROWS = {
    Sigmoid: ("DLN-01", "LIN-19", "NLP-13"), Tanh: ("DLN-02", "LIN-20"), ReLU: ("DLN-04",), PReLU: ("DLN-05",),
    LeakyReLU: ("DLN-06",), Abs: ("DLN-07",), ELU: ("DLN-08",), CELU: ("DLN-09",), SELU: ("DLN-10",), GELU: ("DLN-11",),
    Softplus: ("DLN-12",), LogSigmoid: ("DLN-13", "NLP-13"),
}  # fmt: skip


def by_row(cases):
    """Cases of a recipe and a value, each with the mark of its own row."""
    return [
        pytest.param(one, value, marks=pytest.mark.spec(*ROWS[type(one)]) if type(one) in ROWS else (), id=repr(one))
        for one, value in cases.items()
    ]


FAR = {
    Sigmoid(): (0.0, 1.0), LogSigmoid(): (-1e4, 0.0), Tanh(): (-1.0, 1.0), ReLU(): (0.0, 1e4),
    LeakyReLU(): (-1e2, 1e4), PReLU(): (-2.5e3, 1e4), Abs(): (1e4, 1e4), ELU(): (-1.0, 1e4), CELU(): (-1.0, 1e4),
    SELU(): (-1.6732632423543772 * 1.0507009873554805, 1.0507009873554805e4), GELU(): (0.0, 1e4),
    GELU("tanh"): (0.0, 1e4), Softplus(): (0.0, 1e4), Identity(): (-1e4, 1e4),
}  # fmt: skip


@pytest.mark.parametrize(("recipe", "expected"), by_row(FAR))
def test_far_out_values_are_the_limits_and_gradients_are_finite(recipe, expected):
    """In single precision at +-1e4, where a naive exponential overflows."""
    found = value(recipe, -1e4, 1e4, dtype=torch.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-30)
    assert np.isfinite(slope(recipe, -1e4, 1e4, dtype=torch.float32)).all()


@pytest.mark.spec("DLN-01", "DLN-02")
@pytest.mark.parametrize("recipe", [Sigmoid(), Tanh()], ids=repr)
def test_saturated_units_pass_no_gradient(recipe):
    assert slope(recipe, -1e3, 1e3, dtype=torch.float32).tolist() == [0, 0]


@pytest.mark.spec("LIN-18")
@pytest.mark.parametrize("recipe", [*ELEMENTWISE, Threshold()], ids=repr)
def test_nan_comes_out(recipe):
    assert np.isnan(value(recipe, math.nan)).all()
    assert np.isnan(value(recipe, 1.0, math.nan)).tolist() == [False, True]


@pytest.mark.spec("DLN-15")
def test_nan_in_one_piece_comes_out_of_maxout():
    assert Maxout().build()(torch.tensor([[1.0, math.nan, 1.0, 2.0]]))[0].isnan().tolist() == [True, False]


# --- conventions at kinks -------------------------------------------------------------------------------------------

AT_ZERO = [
    pytest.param(ReLU(), 0.0, marks=pytest.mark.spec("LIN-18", "DLN-04", "PRA-060"), id="relu"),
    pytest.param(Abs(), 0.0, marks=pytest.mark.spec("DLN-07"), id="abs"),
    pytest.param(LeakyReLU(0.3), 0.3, marks=pytest.mark.spec("DLN-06"), id="leaky"),
    pytest.param(PReLU(0.3), 0.3, marks=pytest.mark.spec("DLN-05"), id="prelu"),
    pytest.param(ELU(2.0), 2.0, marks=pytest.mark.spec("DLN-08"), id="elu"),
    pytest.param(CELU(2.0), 1.0, marks=pytest.mark.spec("DLN-09"), id="celu"),
    pytest.param(Threshold(), 0.0, marks=pytest.mark.spec("DLN-16"), id="threshold"),
]


@pytest.mark.parametrize(("recipe", "expected"), AT_ZERO)
def test_the_slope_at_zero_is_a_convention(recipe, expected):
    assert slope(recipe, 0.0) == pytest.approx(expected, abs=1e-15)


@pytest.mark.spec("DLN-08", "DLN-09")
@pytest.mark.parametrize(("recipe", "left"), [(ELU(2.0), 2.0), (CELU(2.0), 1.0), (ELU(), 1.0)], ids=repr)
def test_slopes_on_both_sides_of_zero(recipe, left):
    np.testing.assert_allclose(slope(recipe, -1e-9, 1e-9), [left, 1.0], rtol=1e-8)


@pytest.mark.spec("DLN-08", "DLN-63")
@pytest.mark.parametrize("recipe", [ReLU(), LeakyReLU(0.2), ELU(), ELU(2.0), ELU(0.3), CELU(2.0), SELU()], ids=repr)
def test_the_slope_at_the_kink_is_that_of_the_left_side(recipe):
    """By one-sided differences of the values; the slope read off the output agrees with it, at -0.0 too."""
    step = 1e-7
    left, right = -value(recipe, -step)[0] / step, value(recipe, step)[0] / step
    assert slope(recipe, 0.0)[0] == pytest.approx(left, abs=2e-7)
    assert slope(recipe, -0.0)[0] == slope(recipe, 0.0)[0]
    assert recipe.slope_from_output(double(0.0, -0.0)).tolist() == pytest.approx([slope(recipe, 0.0)[0]] * 2, abs=1e-15)
    assert right == pytest.approx(SELU.scale if recipe == SELU() else 1.0, abs=1e-12)
    if isinstance(recipe, ELU):
        assert left == pytest.approx(recipe.alpha, rel=1e-7)
        assert (left == pytest.approx(right, abs=1e-6)) == (recipe.alpha == 1)  # smooth for no other alpha


@pytest.mark.spec("DLN-08")
@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5])
def test_elu_stays_above_minus_alpha_and_is_torchs(alpha):
    x = torch.linspace(-30, 30, 601, dtype=torch.float64)
    found = ELU(alpha).build(dtype=torch.float64)(x)
    assert torch.equal(found, functional.elu(x, alpha)) and (found > -alpha - 1e-12).all()
    assert (found[x > -30] > -alpha).all()
    tiny = double(-1e-12, -1e-9)  # exp(x) - 1 would keep four digits
    assert value(ELU(alpha), *tiny.tolist()) == pytest.approx(alpha * np.expm1(tiny.numpy()), rel=1e-15)


# --- one unit is the limit of another -------------------------------------------------------------------------------

X = np.linspace(-3, 3, 41)
LIMITS = [
    pytest.param(LeakyReLU(0.0), ReLU(), 0, marks=pytest.mark.spec("DLN-04", "PRA-060"), id="leaky of slope 0 is relu"),
    pytest.param(LeakyReLU(-1.0), Abs(), 0, marks=pytest.mark.spec("DLN-07"), id="leaky of slope -1 is abs"),
    pytest.param(PReLU(0.01), LeakyReLU(), 0, marks=pytest.mark.spec("DLN-05"), id="prelu at a fixed slope is leaky"),
    pytest.param(Softplus(1e6), ReLU(), 1e-6, marks=pytest.mark.spec("DLN-04", "DLN-12"), id="softplus tends to relu"),
    pytest.param(CELU(), ELU(), 1e-15, marks=pytest.mark.spec("DLN-09"), id="celu of alpha 1 is elu"),
    pytest.param(CELU(1e-7), ReLU(), 1e-7, marks=pytest.mark.spec("DLN-09"), id="celu tends to relu"),
    pytest.param(CELU(1e7), Identity(), 1e-6, marks=pytest.mark.spec("DLN-09"), id="celu tends to the identity"),
]


@pytest.mark.parametrize(("one", "other", "tolerance"), LIMITS)
def test_limits(one, other, tolerance):
    np.testing.assert_allclose(value(one, *X), value(other, *X), atol=tolerance, rtol=0)


@pytest.mark.spec("DLN-01", "DLN-02", "LIN-20")
def test_sigmoid_and_tanh_are_one_function():
    np.testing.assert_allclose(value(Sigmoid(), *X) + value(Sigmoid(), *-X), 1, rtol=1e-15)
    np.testing.assert_allclose(2 * value(Sigmoid(), *(2 * X)) - 1, value(Tanh(), *X), atol=1e-15)
    two = scipy.special.softmax(np.stack([X, 0 * X], 1), axis=1)[:, 0]
    np.testing.assert_allclose(value(Sigmoid(), *X), two, rtol=1e-14)


@pytest.mark.spec("DLN-12")
def test_softplus_of_x_less_softplus_of_minus_x_is_x():
    np.testing.assert_allclose(value(Softplus(), *X) - value(Softplus(), *-X), X, atol=1e-15)


@pytest.mark.spec("DLN-12")
@pytest.mark.parametrize("beta", [1.0, 4.0])
def test_softplus_jumps_by_no_more_than_2e_9_where_it_becomes_linear(beta):
    edge = 20 / beta
    below, above = value(Softplus(beta), edge, math.nextafter(edge, 100))
    assert 2.0e-9 / beta < below - above < 2.1e-9 / beta
    assert abs(np.diff(slope(Softplus(beta), edge, math.nextafter(edge, 100)))[0]) < 2.1e-9


@pytest.mark.spec("DLN-11")
def test_the_two_forms_of_gelu_differ_by_up_to_5e_4():
    x = np.linspace(-6, 6, 20_001)
    gap = np.abs(value(GELU(), *x) - value(GELU("tanh"), *x)).max()
    assert 4e-4 < gap < 5e-4


@pytest.mark.spec("DLN-11")
def test_gelu_dips_where_the_row_says():
    x = np.linspace(-2, 0, 200_001)
    lowest = x[np.argmin(value(GELU(), *x))]
    assert lowest == pytest.approx(-0.751792, abs=1e-5)
    assert slope(GELU(), -0.751791525) == pytest.approx(0, abs=1e-8)


# --- SELU -----------------------------------------------------------------------------------------------------------


def moments(function, mean, variance):
    """Mean and variance of f(z), z ~ N(mean, variance), by quadrature split at the kink."""
    spread = math.sqrt(variance)

    def density(z):
        return math.exp(-0.5 * ((z - mean) / spread) ** 2) / (spread * math.sqrt(2 * math.pi))

    def expected(power):
        ends = (mean - 12 * spread, min(max(0.0, mean - 12 * spread), mean + 12 * spread), mean + 12 * spread)
        return sum(
            quad(lambda z: function(z) ** power * density(z), a, b, epsabs=1e-13, epsrel=1e-12, limit=200)[0]
            for a, b in itertools.pairwise(ends)
        )

    first = expected(1)
    return first, expected(2) - first**2


def selu(x):
    return 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * math.expm1(x))


@pytest.mark.spec("DLN-10")
def test_selu_keeps_mean_0_and_variance_1():
    np.testing.assert_allclose(moments(selu, 0.0, 1.0), [0, 1], atol=1e-9)
    np.testing.assert_allclose(moments(lambda z: float(value(SELU(), z)[0]), 0.0, 1.0), [0, 1], atol=1e-9)
    np.testing.assert_allclose(SELU().moment_map(0.0, 1.0), [0, 1], atol=1e-9)


@pytest.mark.spec("DLN-10")
@pytest.mark.parametrize(("mean", "variance"), [(0.1, 0.8), (-0.5, 1.5), (2.0, 0.3), (-4.0, 0.5), (0.0, 16.0)])
def test_the_moment_map_is_quadrature(mean, variance):
    np.testing.assert_allclose(SELU().moment_map(mean, variance), moments(selu, mean, variance), rtol=1e-9, atol=1e-9)


@pytest.mark.spec("DLN-10")
def test_the_fixed_point_attracts():
    point = (0.1, 1.5)
    for _ in range(60):
        point = SELU().moment_map(0.0, point[1] + point[0] ** 2)  # weights of mean 0 and variance 1 / fan_in
    np.testing.assert_allclose(point, (0, 1), atol=1e-6)


def test_a_moment_map_needs_a_variance():
    with pytest.raises(UserValueError, match=r"variance must be positive, got 0\.0"):
        SELU().moment_map(1.0, 0.0)


# --- units that learn, or that join features ------------------------------------------------------------------------


@pytest.mark.spec("DLN-05", "PRA-060")
@pytest.mark.parametrize("per_channel", [True, False])
def test_the_gradient_of_a_prelus_slope_is_the_sum_over_what_shares_it(per_channel):
    random = np.random.default_rng(0)
    x, g = random.normal(size=(2, 6, 3))
    module = PReLU(per_channel=per_channel).build(3, torch.float64)
    module(torch.from_numpy(x)).backward(torch.from_numpy(g))
    expected = (x * (x < 0) * g).sum(0)
    assert module.weight.tolist() == [0.25] * (3 if per_channel else 1)
    np.testing.assert_allclose(module.weight.grad, expected if per_channel else [expected.sum()], rtol=1e-12)


@pytest.mark.spec("DLN-05")
def test_the_channel_of_a_prelu_is_axis_1():
    module = PReLU().build(2)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([0.0, 1.0]))
        images = module(-torch.ones(1, 2, 4, 4))
    assert images[0, 0].abs().sum() == 0 and (images[0, 1] == -1).all()


@pytest.mark.spec("DLN-05")
@pytest.mark.parametrize("recipe", [SGD(weight_decay=0.5), AdamW(weight_decay=0.5)], ids=repr)
@pytest.mark.parametrize("per_channel", [True, False])
def test_weight_decay_leaves_the_slope_of_a_prelu_alone(recipe, per_channel):
    """With gradients of 0 the weights of a layer shrink and the slopes stay."""
    weight, unit = torch.nn.Parameter(torch.ones(3, 3)), PReLU(per_channel=per_channel).build(3)
    for parameter in (weight, unit.weight):
        parameter.grad = torch.zeros_like(parameter)
    recipe.build([weight, unit.weight], 0.1).step()
    assert bool((weight < 1).all())
    assert unit.weight.tolist() == [0.25] * (3 if per_channel else 1)


@pytest.mark.spec("DLN-15", "PRA-060")
@pytest.mark.parametrize(("second", "same"), [(0.0, ReLU()), (-1.0, Abs())], ids=["relu", "abs"])
def test_maxout_of_two_pieces_is_relu_or_abs(second, same):
    x = torch.from_numpy(X)
    pieces = torch.stack([x, second * x], 1)
    np.testing.assert_array_equal(Maxout().build()(pieces)[:, 0], value(same, *X))


@pytest.mark.spec("DLN-15", "PRA-060")
def test_maxout_takes_the_largest_of_neighbors():
    x = np.random.default_rng(0).normal(size=(5, 12))
    found = Maxout(3).build()(torch.from_numpy(x))
    np.testing.assert_array_equal(found, x.reshape(5, 4, 3).max(2))
    assert Maxout(3).build()(torch.empty(0, 12)).shape == (0, 4)
    assert Maxout(3).widening == 3 and ReLU().widening == 1


@pytest.mark.spec("DLN-15")
def test_a_maxout_layer_is_convex_in_its_input():
    random = np.random.default_rng(0)
    weight, a, b = random.normal(size=(12, 5)), *random.normal(size=(2, 200, 5))
    unit = Maxout(4).build()
    at = lambda x: unit(torch.from_numpy(x @ weight.T)).numpy()  # noqa: E731
    for t in (0.2, 0.5, 0.9):
        assert (at(t * a + (1 - t) * b) <= t * at(a) + (1 - t) * at(b) + 1e-12).all()


@pytest.mark.spec("DLN-15", "PRA-060")
def test_the_gradient_of_maxout_goes_to_the_first_of_the_largest():
    x = torch.tensor([[2.0, 2.0, 1.0, 0.0, 5.0, 5.0]], requires_grad=True)
    Maxout(3).build()(x).sum().backward()
    assert x.grad.tolist() == [[1, 0, 0, 0, 1, 0]]
    random = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 6))).requires_grad_()
    assert torch.autograd.gradcheck(Maxout(3).build(), random)


@pytest.mark.spec("DLN-15")
def test_features_that_do_not_divide_are_refused():
    with pytest.raises(UserValueError, match="maxout needs a multiple of 2 features, got 5"):
        Maxout().build()(torch.ones(1, 5))


@pytest.mark.spec("DLN-16")
def test_threshold_units_are_and_and_or():
    inputs = double(0, 0, 0, 1, 1, 0, 1, 1).reshape(4, 2)
    unit = Threshold().build()
    assert unit(inputs.sum(1) - 1.5).tolist() == [0, 0, 0, 1]
    assert unit(inputs.sum(1) - 0.5).tolist() == [0, 1, 1, 1]


@pytest.mark.spec("DLN-16")
def test_a_threshold_passes_a_gradient_only_straight_through():
    x = (-1.5, -0.5, 0.5, 1.5)
    assert slope(Threshold(), *x).tolist() == [0, 0, 0, 0]
    assert slope(Threshold(True), *x).tolist() == [0, 1, 1, 0]
    assert slope(Threshold(True), -1.001, -1.0, 1.0, 1.001).tolist() == [0, 1, 1, 0]
    assert not Threshold().trainable and Threshold(True).trainable and ReLU().trainable


# --- diagnostics, gains, recipes ------------------------------------------------------------------------------------


@pytest.mark.spec("DLN-04", "LIN-18", "PRA-060")
def test_units_off_in_every_row_are_dead():
    x = torch.tensor([[1.0, 1.0, -1.0], [-1.0, 2.0, 0.5]]) + torch.tensor([0.0, -100.0, 0.0])
    assert dead_fraction(ReLU().build()(x)) == pytest.approx(1 / 3)
    images = torch.zeros(2, 4, 3, 3)
    images[1, 2, 0, 0] = 1
    assert dead_fraction(images) == 0.75
    with pytest.raises(
        UserValueError, match=r"outputs must be \(rows, units\) and not empty, got an array of shape \(3,\)"
    ):
        dead_fraction(np.ones(3))


GAINS = [
    (Identity(), 1.0), (ReLU(), math.sqrt(2)), (LeakyReLU(0.5), math.sqrt(2 / 1.25)), (SELU(), 1.0), (Abs(), 1.0),
    (PReLU(), math.sqrt(2 / 1.0625)), (Threshold(), math.sqrt(2)), (Maxout(2), 1.0),
]  # fmt: skip


@pytest.mark.spec("DLN-75")
@pytest.mark.parametrize(("recipe", "expected"), GAINS, ids=repr)
def test_gains_with_a_closed_form(recipe, expected):
    assert recipe.gain == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("recipe", [GELU(), Tanh(), Softplus(), ELU(2.0)], ids=repr)
def test_gains_by_another_quadrature(recipe):
    mean, variance = moments(lambda z: float(value(recipe, z)[0]), 0.0, 1.0)
    assert recipe.gain == pytest.approx(1 / math.sqrt(variance + mean**2), rel=1e-7)


def test_the_gain_of_three_pieces():
    """The second moment of the largest of three normals, by another quadrature and in closed form."""
    density = lambda z: 3 * scipy.special.ndtr(z) ** 2 * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)  # noqa: E731
    second = quad(lambda z: z * z * density(z), -12, 12, epsabs=1e-13)[0]
    assert Maxout(3).gain == pytest.approx(1 / math.sqrt(second), rel=1e-9)
    assert second == pytest.approx(1 + math.sqrt(3) / (2 * math.pi), rel=1e-9)


TORCH = {
    ReLU(): functional.relu,
    LeakyReLU(0.2): partial(functional.leaky_relu, negative_slope=0.2),
    PReLU(): torch.nn.PReLU().double(),
    ELU(2.0): partial(functional.elu, alpha=2.0),
    CELU(2.0): partial(functional.celu, alpha=2.0),
    SELU(): functional.selu,
    GELU(): functional.gelu,
    GELU("tanh"): partial(functional.gelu, approximate="tanh"),
    Softplus(2.0, 15.0): partial(functional.softplus, beta=2.0, threshold=15.0),
    LogSigmoid(): functional.logsigmoid,
    Sigmoid(): torch.sigmoid,
    Tanh(): torch.tanh,
}


@pytest.mark.parametrize(("recipe", "theirs"), by_row(TORCH))
def test_the_fields_reach_torch(recipe, theirs):
    x = torch.linspace(-9, 9, 181, dtype=torch.float64)
    assert torch.equal(recipe.build(1, torch.float64)(x), theirs(x))


def test_every_recipe_of_the_module_has_a_short_name_and_builds():
    recipes = [getattr(units, name) for name in units.__all__ if name[0].isupper() and name != "Activation"]
    assert sorted(recipe.short for recipe in recipes) == sorted(shorts(units.Activation))
    for recipe in recipes:
        assert resolve(recipe.short, units.Activation) == recipe()
        assert recipe().build(4)(torch.ones(2, 4)).shape == (2, 4 // recipe().widening)


BAD = [
    (CELU(0.0), "(0, inf)"), (CELU(-1.0), "(0, inf)"), (Softplus(0.0), "(0, inf)"), (ELU(-1.0), "(0, inf)"),
    (Maxout(1), "[2, inf)"), (LeakyReLU(math.inf), "(-inf, inf)"), (GELU("tahn"), "tanh"),
]  # fmt: skip


@pytest.mark.spec("DLN-09", "DLN-12")
@pytest.mark.parametrize(("recipe", "words"), BAD, ids=lambda case: repr(case))
def test_fields_out_of_range_are_refused(recipe, words):
    with pytest.raises(UserValueError) as error:
        recipe.build()
    assert words in str(error.value)


def test_a_derivative_by_element_needs_a_unit_of_one_piece():
    with pytest.raises(UserTypeError, match="maxout"):
        derivative(Maxout(), torch.ones(2, 2))
