"""Gradient checks: exact on quadratics, order of the error, wrong backwards caught and named, kinks, noise."""

import itertools
import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

import gnomon
from gnomon.errors import UserError
from gnomon.evaluation.gradients import gradcheck, gradient_check
from oracles.wrong import ClosedForm, Flipped, Squares

A = np.array([[3.0, 1.0], [1.0, 2.0]])
COUNTER = itertools.count()
POINT = {"x": [0.5, -1.5], "c": [[2.0]]}


def quadratic(p):
    return p["x"] @ A @ p["x"] + float(p["c"][0, 0]) ** 2


def exponential(p):
    return np.exp(p["x"]).sum()


def slope(p):
    return {"x": 2 * A @ p["x"], "c": 2 * p["c"]}


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::15], y[::15]


def squared(output, y):
    return (output - y[:, None]).square().mean()


def inputs():
    random = np.random.default_rng(0)
    return random.normal(size=(7, 3)), random.normal(size=7)


@pytest.mark.spec("DLN-65")
def test_a_quadratic_is_exact_to_rounding_and_the_point_stays():
    report = gradcheck(quadratic, POINT, slope, eps=1e-2)
    assert report.passed and bool(report)
    assert all(one.error < 1e-12 for one in report.parameters)
    assert report.worst.numeric == pytest.approx(report.worst.analytic, rel=1e-12)
    assert POINT == {"x": [0.5, -1.5], "c": [[2.0]]}


@pytest.mark.spec("DLN-65")
def test_a_flipped_sign_is_detected_and_named():
    report = gradcheck(quadratic, POINT, lambda p: {**slope(p), "c": -2 * p["c"]})
    assert not report.passed and report.worst.name == "c"
    assert (report.worst.index, report.worst.analytic) == ((0, 0), -4.0)
    assert report.worst.numeric == pytest.approx(4.0, rel=1e-8)
    assert report.worst.error == pytest.approx(1.0, rel=2e-3)
    assert str(report).startswith("the gradient of c is wrong") and "[0, 0] analytic -4, numeric 4" in str(report)
    left_out = gradcheck(quadratic, POINT, lambda p: {"x": 2 * A @ p["x"]})
    assert left_out.worst.name == "c" and left_out.worst.analytic == 0
    transposed = gradcheck(quadratic, POINT, lambda p: {**slope(p), "x": slope(p)["x"][::-1]})
    assert not transposed.passed and transposed.worst.name == "x"


@pytest.mark.spec("DLN-65")
def test_the_error_falls_with_the_square_of_the_step():
    errors = []
    for eps in (1e-1, 1e-2, 1e-3):
        report = gradcheck(
            lambda p: np.exp(p["x"]).sum(), {"x": [1.0]}, lambda p: {"x": np.exp(p["x"])}, eps=eps, tol=1
        )
        errors.append(abs(report.worst.numeric - math.e))
        assert errors[-1] == pytest.approx(math.e * eps**2 / 6, rel=0.01)
    tiny = gradcheck(exponential, {"x": [1.0]}, lambda p: {"x": np.exp(p["x"])}, eps=1e-11)
    assert abs(tiny.worst.numeric - math.e) > errors[-1]  # rounding has taken over
    assert tiny.passed  # and is allowed for


@pytest.mark.spec("DLN-65")
@pytest.mark.parametrize("factor", [1.0, -1.0, 0.9])
def test_torchs_gradcheck_agrees(factor):
    X, y = inputs()
    model = Squares(factor).double()
    data = torch.from_numpy(X).requires_grad_(True)
    theirs = torch.autograd.gradcheck(lambda x: model(x), (data,), raise_exception=False)
    ours = gradient_check(model, X, y, objective=squared)
    assert ours.passed == theirs == (factor == 1.0)
    if not ours.passed:
        assert {one.name for one in ours.parameters if one.error > ours.tol} == {"first.weight", "first.bias"}
        right = next(one for one in ours.parameters if one.name == "scale")
        assert right.error < 1e-8


@pytest.mark.spec("DLN-65")
def test_a_module_is_checked_in_double_and_left_alone():
    X, y = inputs()
    model = Squares()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert gradient_check(model, X.astype(np.float32), y, objective=squared, jitter=0.3).passed
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.first.weight.dtype == torch.float32


@pytest.mark.spec("DLN-65")
@pytest.mark.parametrize("l2", [0.0, 0.5])
def test_a_system_with_its_penalty(iris, l2):
    system = gnomon.SoftmaxRegression(l2=l2, epochs=3, random_state=0)
    assert gradient_check(system, *iris, sample_weight=np.arange(1.0, 11)).passed
    assert not hasattr(system, "model_")
    fitted = gnomon.SoftmaxRegression(l2=l2, epochs=3, random_state=0).fit(*iris)
    before = fitted.coef_.copy()
    report = gradient_check(fitted, *iris)
    assert report.passed and report.loss == pytest.approx(fitted.history_["cross_entropy"][-1], rel=0.2)
    assert np.array_equal(fitted.coef_, before)


@pytest.mark.spec("DLN-65")
def test_a_penalty_of_the_wrong_sign_is_caught(iris):
    class Wrong(gnomon.SoftmaxRegression):
        def make(self, **arguments):
            model = super().make(**arguments)
            model.weight.register_hook(lambda g: g - 2 * self.l2 * model.weight.detach())
            return model

    report = gradient_check(Wrong(l2=0.5), *iris)
    assert not report.passed and report.worst.name == "weight"
    assert gradient_check(Wrong(l2=0.5), *iris, jitter=0.0).passed  # weights of zero show nothing


@pytest.mark.spec("DLN-65")
def test_closed_form_gradients(iris):
    assert gradient_check(ClosedForm(l2=0.0), *iris).passed
    report = gradient_check(Flipped(l2=0.0), *iris)
    assert not report.passed and report.worst.name == "bias"
    X = (np.random.default_rng(0).random((20, 6)) < 0.5).astype(float)
    assert gradient_check(gnomon.RBM(n_hidden=3, objective="exact"), X).passed


@pytest.mark.spec("DLN-65")
def test_kinks_are_left_out_and_counted():
    point = {"x": np.array([0.0, 1.0, -1.0])}
    relu = lambda p: np.maximum(p["x"], 0).sum()  # noqa: E731
    report = gradcheck(relu, point, lambda p: {"x": (p["x"] > 0) * 1.0})
    assert report.passed and (report.worst.kinks, report.worst.entries) == (1, 2)
    curved = gradcheck(lambda p: 1e6 * (p["x"] ** 2).sum(), point, lambda p: {"x": 2e6 * p["x"]}, eps=1e-3)
    assert curved.passed and curved.worst.kinks == 0  # a steep bend is no kink
    assert not gradcheck(relu, {"x": [1.0]}, lambda p: {"x": [0.5]}).passed


@pytest.mark.spec("DLN-65")
def test_dropout_and_running_means_are_the_same_in_every_evaluation():
    torch_state = torch.get_rng_state()
    layers = torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1)
    net = torch.nn.Sequential(*layers)
    torch.set_rng_state(torch_state)
    X, y = inputs()
    assert gradient_check(net, X, y, objective=squared, jitter=0.1).passed
    assert torch.equal(net[1].running_mean, torch.zeros(8))


def test_many_entries_are_sampled():
    report = gradcheck(lambda p: (p["x"] ** 2).sum(), {"x": np.ones(1000)}, lambda p: {"x": 2 * p["x"]}, entries=50)
    assert (report.worst.entries, report.worst.size) == (50, 1000) and "50 of 1000 entries" in str(report)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gradient_check(gnomon.PPCA(), np.eye(4)), "learns without gradients"),
        (
            lambda: gradient_check(gnomon.RBM(n_hidden=2, objective="cd"), np.eye(4)),
            r"the objective's gradient is estimated from samples, so it .*an objective that is exact",
        ),
        (
            lambda: gradient_check(gnomon.RBM(n_hidden=2, objective="pcd"), np.eye(4)),
            r"the objective's gradient is estimated from samples, so it .*an objective that is exact",
        ),
        (lambda: gradient_check(Squares(), *inputs()), "no loss"),
        (lambda: gradient_check(object(), *inputs()), "model must be a System or a torch module, got a object"),
        (lambda: gradient_check(Squares(), *inputs(), objective=lambda o, y: torch.tensor(1.0)), "no gradient"),
        (
            lambda: gradient_check(gnomon.SoftmaxRegression(), np.eye(3), [0, 1, 2], objective=squared),
            "its own objective",
        ),
        (
            lambda: gradcheck(lambda p: math.nan, POINT, slope),
            r"the loss must be finite, got nan \(gradient check\); choose another point",
        ),
        (lambda: gradcheck(lambda p: next(COUNTER), POINT, slope), "from call to call"),
        (lambda: gradcheck(quadratic, POINT, lambda p: {"x": [1.0], "c": [[1.0]]}), "shape"),
        (lambda: gradcheck(quadratic, POINT, slope, eps=0), "eps must be positive, got 0"),
        (lambda: gradcheck(lambda p: 1.0, {}, lambda p: {}), "no parameters"),
    ],
)
def test_what_cannot_be_checked(call, words):
    with pytest.raises(UserError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_gradient_that_is_no_number_is_wrong():
    report = gradcheck(quadratic, POINT, lambda p: {**slope(p), "c": [[math.nan]]})
    assert not report.passed and report.worst.name == "c" and report.worst.error == math.inf
