"""Softmax regression: the loss and its gradient in numbers, parity with scikit-learn at the optimum."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import gnomon
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise
from gnomon.numeric.ops import softmax
from gnomon.objectives.losses import CrossEntropyLoss
from gnomon.systems.linear.softmax_regression import SoftmaxRegression

SCORES = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)


def iris():
    X, y = load_iris(return_X_y=True)
    return (X - X.mean(0)) / X.std(0), y


def converged(**changes):
    parameters = {"l2": 1e-2, "epochs": 20000, "learning_rate": 0.5, "optimizer": "sgd", "tol": 1e-9, "random_state": 0,
                  "standardize": False}  # fmt: skip
    return SoftmaxRegression(**parameters | changes)


def cross_entropy(scores, labels, reduction="none"):
    losses, _ = CrossEntropyLoss().rows(scores, labels)
    return {"none": losses, "sum": losses.sum(), "mean": losses.mean()}[reduction]


@pytest.mark.spec("LIN-12", "DLN-18")
def test_cross_entropy_in_numbers():
    assert cross_entropy(SCORES, torch.tensor([2])).item() == pytest.approx(0.4076060, abs=1e-7)
    assert cross_entropy(SCORES, torch.tensor([0])).item() == pytest.approx(2.407606, abs=1e-6)


@pytest.mark.spec("LIN-12", "DLN-18")
def test_cross_entropy_agrees_with_torch_and_scikit_learn():
    random = np.random.default_rng(0)
    scores, y = torch.from_numpy(random.normal(size=(50, 4))), torch.from_numpy(random.integers(0, 4, size=50))
    soft = torch.from_numpy(random.dirichlet(np.ones(4), size=50))
    expected = torch.nn.functional.cross_entropy(scores, y, reduction="none")
    torch.testing.assert_close(cross_entropy(scores, y), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        cross_entropy(scores, soft, "mean"), torch.nn.functional.cross_entropy(scores, soft), rtol=1e-12, atol=1e-12
    )
    sk = log_loss(y.numpy(), softmax(scores.numpy(), 1), labels=range(4))
    assert cross_entropy(scores, y, "mean").item() == pytest.approx(sk, abs=1e-12)


@pytest.mark.spec("LIN-12")
def test_labels_that_do_not_sum_to_one_keep_the_general_form():
    y = torch.tensor([[0.5, 0.0, 2.0]], dtype=torch.float64)
    expected = -(y * torch.log_softmax(SCORES, 1)).sum()
    assert cross_entropy(SCORES, y).item() == pytest.approx(expected.item(), abs=1e-12)


@pytest.mark.spec("DLN-18")
def test_a_target_outside_the_classes_is_refused_with_its_row():
    with pytest.raises(UserValueError, match=r"class must be in \[0, 3\), got 3 \(row 1\)"):
        CrossEntropyLoss()(SCORES.repeat(2, 1), torch.tensor([0, 3]))


@pytest.mark.spec("LIN-13", "DLN-64")
@pytest.mark.parametrize(
    ("target", "expected"),
    [(2, (0.0900306, 0.2447285, -0.3347590)), (0, (-0.909969, 0.244728, 0.665241))],
)
def test_gradient_with_respect_to_the_scores(target, expected):
    scores = SCORES.clone().requires_grad_()
    cross_entropy(scores, torch.tensor([target]), "sum").backward()
    np.testing.assert_allclose(scores.grad[0], expected, atol=1e-6)
    assert abs(float(scores.grad.sum())) < 1e-12
    step = 1e-6
    for j in range(3):
        shift = torch.zeros_like(SCORES)
        shift[0, j] = step
        up, down = (cross_entropy(SCORES + s * shift, torch.tensor([target]), "sum") for s in (1, -1))
        assert ((up - down) / (2 * step)).item() == pytest.approx(scores.grad[0, j].item(), abs=1e-8)


@pytest.mark.spec("LIN-13")
def test_hessian_is_diag_p_minus_p_p():
    p = softmax(SCORES.numpy(), 1)[0]
    hessian = torch.autograd.functional.hessian(lambda o: cross_entropy(o, torch.tensor([1]), "sum"), SCORES)
    np.testing.assert_allclose(hessian[0, :, 0], np.diag(p) - np.outer(p, p), atol=1e-12)


@pytest.mark.spec("DLN-64")
def test_mean_over_rows_divides_the_gradient_by_n():
    scores = SCORES.repeat(4, 1).requires_grad_()
    cross_entropy(scores, torch.tensor([0, 1, 2, 0]), "mean").backward()
    expected = (softmax(SCORES.numpy(), 1) - np.eye(3)[[0, 1, 2, 0]]) / 4
    np.testing.assert_allclose(scores.grad, expected, atol=1e-12)
    # of soft targets too; sum(y) p - y where they do not sum to 1
    soft, scores.grad = np.random.default_rng(0).dirichlet(np.ones(3), size=4), None
    soft[3] *= 2.5
    cross_entropy(scores, torch.from_numpy(soft), "mean").backward()
    expected = (soft.sum(1, keepdims=True) * softmax(SCORES.numpy(), 1) - soft) / 4
    np.testing.assert_allclose(scores.grad, expected, atol=1e-12)


@pytest.mark.spec("DLN-68", "DLN-79")
def test_steps_of_weighted_batches_by_hand():
    """W <- W - rate (X^T diag(w) (p - y) / sum of w + l2 W), b without the penalty; 8 rows and then 2, twice."""
    random = np.random.default_rng(0)
    X, y, weight = random.normal(size=(10, 3)), np.arange(10) % 3, random.uniform(0.5, 2, size=10)
    fitted = converged(l2=0.3, epochs=2, batch_size=8, learning_rate=0.7).fit(X, y, sample_weight=weight)
    W, b = np.zeros((3, 3)), np.zeros(3)
    for epoch in range(2):
        order = np.asarray(Noise(0, "fit").child("order").at(epoch).order(10))
        for chosen in (order[:8], order[8:]):
            w = weight[chosen, None] / weight[chosen].sum()
            error = w * (softmax(X[chosen] @ W + b, 1) - np.eye(3)[y[chosen]])
            W, b = W - 0.7 * (X[chosen].T @ error + 0.3 * W), b - 0.7 * error.sum(0)
    np.testing.assert_allclose(fitted.coef_, W.T, atol=1e-12)
    np.testing.assert_allclose(fitted.intercept_, b, atol=1e-12)


@pytest.mark.spec("LIN-09", "DLN-68")
def test_optimum_with_penalty_is_scikit_learns():
    X, y = iris()
    ours = converged(l2=1e-1).fit(X, y)
    theirs = LogisticRegression(C=1 / (len(X) * 1e-1), tol=1e-12, max_iter=10000).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)


@pytest.mark.spec("LIN-09")
def test_optimum_without_penalty_is_scikit_learns():
    random = np.random.default_rng(1)
    X = random.normal(size=(200, 2))
    y = random.integers(0, 3, size=200)
    ours = converged(l2=0.0).fit(X, y)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10000).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)


@pytest.mark.spec("LIN-09", "DLN-68")
def test_two_classes_are_logistic_regression_on_the_difference_of_weights():
    X, y = iris()
    X, y = X[y > 0], y[y > 0]
    model = converged(l2=0.1, epochs=3000).fit(X, y)
    logit = X @ (model.coef_[1] - model.coef_[0]) + model.intercept_[1] - model.intercept_[0]
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-logit)), atol=1e-12)
    np.testing.assert_allclose(model.decision_function(X), logit, atol=1e-12)


@pytest.mark.spec("PRA-059")
def test_standardizing_is_fitted_on_the_training_rows_and_kept():
    X, y = load_iris(return_X_y=True)
    X = X * [1, 100, 1e-3, 1e4] + 1e3
    plain = converged(l2=1e-1).fit((X - X.mean(0)) / X.std(0), y)
    ours = converged(l2=1e-1, standardize=True).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), plain.predict_proba((X - X.mean(0)) / X.std(0)), atol=1e-6)
    scores = X @ ours.coef_.T + ours.intercept_
    np.testing.assert_allclose(scores, ours.decision_function(X), atol=1e-6)


def test_an_outlier_that_swallows_a_column_is_named():
    x = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1e12])[:, None].repeat(10, axis=0)
    y = np.arange(len(x)) % 2
    with pytest.warns(UserWarning, match="column 0: 11 distinct values became 2"):
        SoftmaxRegression(epochs=1, random_state=0).fit(x.astype(np.float32), y)
    SoftmaxRegression(epochs=1, random_state=0).fit(x[:100].astype(np.float32), y[:100])


@pytest.mark.spec("LIN-11")
def test_hard_decision_is_the_arg_max_of_scores_and_of_probabilities():
    X, y = iris()
    model = SoftmaxRegression(epochs=30, random_state=0).fit(X, y)
    scores = model.decision_function(X)
    np.testing.assert_array_equal(model.predict(X), model.classes_[scores.argmax(1)])
    np.testing.assert_array_equal(scores.argmax(1), model.predict_proba(X).argmax(1))


@pytest.mark.spec("LIN-11")
def test_a_tie_gives_the_first_class():
    X, y = iris()
    model = SoftmaxRegression(epochs=1, random_state=0).fit(X, y)
    with torch.no_grad():
        model.model_.weight.zero_()
        model.model_.bias.zero_()
    assert (model.predict(X) == model.classes_[0]).all()


@pytest.mark.spec("LIN-11")
def test_scores_that_are_not_numbers_choose_no_class():
    """An arg max gives NaN the first class: rows so large that a network's sums overflow were of class 0."""
    X, y = iris()
    model = SoftmaxRegression(epochs=5, random_state=0).fit(X, y)
    with torch.no_grad():
        model.model_.bias[1] = torch.nan
    net = gnomon.MLP(hidden=(8,), epochs=1, random_state=0).fit(X.astype(np.float32), y)
    with torch.no_grad():
        net.model_.matrices[0].fill_(1.0)
    far = np.r_[X[:3], [[3e38, 3e38, 3e38, 3e38]]].astype(np.float32)
    for system, rows, row in ((model, X, 0), (net, far, 3)):
        for verb in ("predict", "predict_proba", "predict_log_proba", "score"):
            with pytest.raises(UserValueError, match=f"must be numbers, got nan.*row {row}"):
                getattr(system, verb)(rows[:4], *([y[:4]] if verb == "score" else []))
    assert len(net.predict(far[:3])) == 3


CODINGS = {
    "text": np.array(["low", "mid", "high"]), "signed": np.array([-1, 1, 3]), "gap": np.array([7, 8, 10]),
    "floats": np.array([0.0, 1.0, 2.0]), "objects": np.array(["c", "a", "b"], object),
}  # fmt: skip


@pytest.mark.parametrize("coding", CODINGS)
def test_labels_of_any_coding_give_the_same_answers(coding):
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 2))
    base = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)
    plain = SoftmaxRegression(random_state=0, epochs=50).fit(X, base)
    y = CODINGS[coding][base]
    model = SoftmaxRegression(random_state=0, epochs=50).fit(X, y)
    assert list(model.classes_) == sorted(set(y.tolist()))
    predicted = model.predict(X)
    assert predicted.dtype == y.dtype
    if coding not in ("text", "objects"):
        np.testing.assert_array_equal(predicted, CODINGS[coding][plain.predict(X)])
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1, atol=1e-6)
    np.testing.assert_array_equal(model.classes_[model.predict_proba(X).argmax(1)], predicted)


def test_truth_values_are_labels():
    X, y = iris()
    assert SoftmaxRegression(random_state=0, epochs=5).fit(X, y > 0).predict(X).dtype == bool


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.array([None, "a", "b", "a"], object), "row 0"),
        (np.zeros(4), "y must hold at least 2 classes, got only"),
        (np.array([0.5, 1.5, 0.5, 2.5]), "Unknown label type"),
        (np.arange(3), "3"),
    ],
)
def test_labels_that_cannot_be_used(y, words):
    with pytest.raises(ValueError, match=words) as caught:
        SoftmaxRegression(random_state=0).fit(np.zeros((4, 2)), y)
    assert "\n" not in str(caught.value)


def test_a_class_unknown_to_the_fit_counts_as_wrong():
    X, y = iris()
    model = SoftmaxRegression(random_state=0, epochs=50).fit(X[y < 2], y[y < 2])
    scores = model.evaluate(X, y)
    assert scores["accuracy"].value == pytest.approx((y < 2).mean() * model.score(X[y < 2], y[y < 2]))


def test_a_row_is_scored_alike_alone_and_in_company():
    X, y = iris()
    model = SoftmaxRegression(random_state=0, epochs=20, batch_size=32).fit(X, y)
    alone = np.concatenate([model.predict_proba(X[i : i + 1]) for i in range(33)])
    np.testing.assert_allclose(model.predict_proba(X[:33]), alone, atol=1e-5)
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(X))


def test_labels_that_the_score_cannot_use_are_refused():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    model = SoftmaxRegression(random_state=0, epochs=3).fit(X, ["a", "a", "b", "b"])
    for y in (None, ["a", "b"], ["a", None, "b", "b"]):
        with pytest.raises(ValueError, match=r"label|samples"):
            model.score(X, y)
    with pytest.raises(UserValueError, match=r"sample_weight.shape == \(1,\)"):
        model.score(X, ["a", "a", "b", "b"], sample_weight=[1.0])
    assert model.score(X, ["z", "z", "z", "z"]) == 0


@pytest.mark.parametrize("labels", [[0, 0, 0], ["x", "x", "x"], [2.0, 2.0, 2.0]])
def test_one_class_is_named_as_it_was_given(labels):
    with pytest.raises(UserValueError, match=f"y must hold at least 2 classes, got only one class, {labels[0]!r}"):
        SoftmaxRegression().fit(np.eye(3), labels)


def test_a_class_unknown_to_the_fit_has_no_probability():
    X, y = iris()
    model = SoftmaxRegression(random_state=0, epochs=5).fit(X[y < 2], y[y < 2])
    assert model.evaluate(X, y)["log_likelihood"].value == -np.inf
    known = model.evaluate(X[y < 2], y[y < 2])["log_likelihood"].value
    assert known == pytest.approx(-log_loss(y[y < 2], model.predict_proba(X[y < 2])), abs=1e-6)
