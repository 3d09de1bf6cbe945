"""Softmax and its kin: values, shift, masks, temperature, Jacobians, in NumPy and torch."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import torch

from gnomon.errors import UserValueError
from gnomon.nn.outputs import (
    log_softmax,
    log_softmax_jacobian,
    normalize,
    softmax,
    softmax_backward,
    softmax_jacobian,
    softmin,
)  # fmt: skip

KINDS = [pytest.param(np.asarray, id="numpy"), pytest.param(torch.as_tensor, id="torch")]
THREE = np.array([1.0, 2.0, 3.0])
PROBABILITIES = [0.0900306, 0.2447285, 0.6652410]


@pytest.mark.spec("DLN-03", "NLP-05", "DLN-14")
@pytest.mark.parametrize("kind", KINDS)
def test_values_of_the_rows(kind):
    x = kind(THREE)
    np.testing.assert_allclose(softmax(x, 0), PROBABILITIES, atol=5e-8)
    np.testing.assert_allclose(softmin(x, 0), PROBABILITIES[::-1], atol=5e-8)
    np.testing.assert_allclose(log_softmax(x, 0), [-2.407606, -1.407606, -0.407606], atol=5e-7)


@pytest.mark.spec("DLN-03", "NLP-05", "DLN-14")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scipys_functions_along_each_axis(kind, axis):
    x = np.random.default_rng(0).normal(size=(3, 4, 5), scale=4)
    np.testing.assert_allclose(softmax(kind(x), axis), scipy.special.softmax(x, axis), rtol=1e-13)
    np.testing.assert_allclose(log_softmax(kind(x), axis), scipy.special.log_softmax(x, axis), rtol=1e-13)
    np.testing.assert_allclose(softmin(kind(x), axis), scipy.special.softmax(-x, axis), rtol=1e-13)
    np.testing.assert_allclose(np.asarray(softmax(kind(x), axis)).sum(axis), 1, rtol=1e-14)


@pytest.mark.spec("DLN-03", "DLN-14")
@pytest.mark.parametrize("function", [softmax, softmin, log_softmax])
def test_the_axis_is_never_guessed(function):
    with pytest.raises(TypeError, match="axis"):
        function(THREE)


@pytest.mark.spec("DLN-03", "NLP-05", "DLN-14")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shift", [1e4, -1e4, 1e30])
def test_a_shift_of_all_scores_changes_nothing(kind, shift):
    x = THREE if abs(shift) < 1e5 else 0 * THREE
    np.testing.assert_allclose(softmax(kind(x + shift), 0), scipy.special.softmax(x), rtol=1e-11)
    np.testing.assert_allclose(log_softmax(kind(x + shift), 0), scipy.special.log_softmax(x), atol=1e-11)


@pytest.mark.spec("DLN-14", "NLP-05")
@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_ten_thousand_in_single_precision_stay_finite(kind):
    x = kind(np.array([1e4, -1e4, 0], np.float32))
    np.testing.assert_array_equal(log_softmax(x, 0), np.array([0, -2e4, -1e4], np.float32))
    np.testing.assert_array_equal(softmax(x, 0), np.array([1, 0, 0], np.float32))


@pytest.mark.spec("DLN-03", "NLP-05")
@pytest.mark.parametrize("kind", KINDS)
def test_masked_entries_have_no_probability_and_a_row_without_choice_is_zero(kind):
    x, mask = np.stack([THREE, THREE, THREE]), np.array([[1, 1, 0], [0, 0, 0], [1, 1, 1]], bool)
    found = softmax(kind(x), 1, mask=kind(mask))
    np.testing.assert_allclose(found[0], [*scipy.special.softmax([1, 2]), 0], rtol=1e-14)
    np.testing.assert_array_equal(found[1], 0)
    np.testing.assert_allclose(found[2], PROBABILITIES, atol=5e-8)
    logs = log_softmax(kind(x), 1, mask=kind(mask))
    np.testing.assert_allclose(np.exp(np.asarray(logs)), found, rtol=1e-14)
    assert np.isneginf(np.asarray(logs[1])).all()


@pytest.mark.spec("DLN-03")
def test_a_row_without_choice_passes_no_gradient_and_harms_no_other():
    x = torch.from_numpy(np.stack([THREE, THREE])).requires_grad_()
    (softmax(x, 1, mask=torch.tensor([[False] * 3, [True] * 3]))[:, 2]).sum().backward()
    p = np.array(PROBABILITIES)
    np.testing.assert_allclose(x.grad, [[0, 0, 0], p[2] * (np.array([0, 0, 1]) - p)], atol=5e-8)


@pytest.mark.spec("DLN-03")
@pytest.mark.parametrize(("temperature", "limit"), [(1e-3, [0, 0, 1]), (1e9, [1 / 3] * 3), (2.0, None)])
def test_temperature_between_arg_max_and_uniform(temperature, limit):
    expected = scipy.special.softmax(THREE / temperature) if limit is None else limit
    np.testing.assert_allclose(softmax(THREE, 0, temperature=temperature), expected, atol=1e-8)


@pytest.mark.spec("DLN-03", "DLN-14")
@pytest.mark.parametrize("kind", KINDS)
def test_mask_and_temperature_of_all_three(kind):
    """The mask is of places, whatever the sign of the scores; a row of scores that are -inf is masked."""
    x = np.random.default_rng(4).normal(size=(2, 3, 4))
    mask = np.array([True, False, True, True])
    kept = scipy.special.log_softmax(x[..., mask] / 0.7, -1)
    for function, sign in ((softmax, 1), (softmin, -1)):
        found = np.asarray(function(kind(sign * x), -1, mask=kind(mask), temperature=0.7))
        np.testing.assert_allclose(found[..., mask], np.exp(kept), rtol=1e-12)
        assert not found[..., 1].any()
    found = np.asarray(log_softmax(kind(x), -1, mask=kind(mask), temperature=0.7))
    np.testing.assert_allclose(found[..., mask], kept, rtol=1e-12)
    assert np.isneginf(found[..., 1]).all()
    assert np.asarray(softmax(kind(np.full((2, 3), -np.inf)), 1)).tolist() == [[0.0] * 3] * 2


@pytest.mark.spec("DLN-03")
@pytest.mark.parametrize("function", [softmax, softmin, log_softmax])
def test_a_temperature_of_zero_is_refused(function):
    with pytest.raises(UserValueError, match="temperature must be positive, got 0"):
        function(THREE, 0, temperature=0)


@pytest.mark.spec("DLN-03")
def test_the_jacobian_is_diag_p_minus_p_p():
    x = torch.from_numpy(np.random.default_rng(1).normal(size=5))
    p = softmax(x, 0)
    automatic = torch.autograd.functional.jacobian(lambda z: z.exp() / z.exp().sum(), x)
    np.testing.assert_allclose(softmax_jacobian(p), automatic, atol=1e-15)
    np.testing.assert_allclose(softmax_jacobian(p.numpy()), np.diag(p) - np.outer(p, p), atol=1e-15)
    batch = softmax_jacobian(torch.stack([p, p.flip(0)]))
    np.testing.assert_allclose(batch[1], automatic.flip(0, 1), atol=1e-15)


@pytest.mark.spec("DLN-14")
def test_the_jacobian_of_the_logarithm_is_one_minus_p():
    x = torch.from_numpy(np.random.default_rng(1).normal(size=5))
    automatic = torch.autograd.functional.jacobian(lambda z: z - z.exp().sum().log(), x)
    np.testing.assert_allclose(log_softmax_jacobian(softmax(x, 0)), automatic, atol=1e-15)
    # near 0 for the dominant right class, but not saturated where it is wrong
    np.testing.assert_allclose(log_softmax_jacobian(softmax(np.array([50.0, 0.0]), 0))[1], [-1, 1], atol=1e-15)


@pytest.mark.spec("DLN-03")
@pytest.mark.parametrize("axis", [0, 1])
def test_the_backward_rule_is_automatic_differentiation(axis):
    random = np.random.default_rng(2)
    x, g = (torch.from_numpy(random.normal(size=(4, 3))) for _ in range(2))
    x.requires_grad_()
    p = torch.softmax(x, axis)
    p.backward(g)
    np.testing.assert_allclose(softmax_backward(p.detach(), g, axis), x.grad, atol=1e-15)
    np.testing.assert_allclose(softmax_backward(p.detach().numpy(), g.numpy(), axis), x.grad, atol=1e-15)


@pytest.mark.spec("DLN-70")
@pytest.mark.parametrize("kind", KINDS)
def test_normalized_exponentials_are_the_softmax(kind):
    x = np.random.default_rng(3).normal(size=(6, 4))
    found = normalize(kind(np.exp(x)), 1)
    np.testing.assert_allclose(found, softmax(kind(x), 1), rtol=1e-13)
    np.testing.assert_allclose(np.asarray(found).sum(1), 1, rtol=1e-15)


@pytest.mark.spec("DLN-70")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([[1.0, 2.0], [0.0, 0.0]], r"all weights are 0 \(index \(1, 0\)\)"),
        ([[1.0, 2.0], [3.0, -1.0]], r"negative or not finite \(index \(1, 1\)\)"),
        ([[1.0, np.nan], [3.0, 1.0]], r"negative or not finite \(index \(0, 1\)\)"),
        ([[1.0, np.inf], [3.0, 1.0]], r"negative or not finite \(index \(0, 1\)\)"),
        ([[1e308, 1e308], [3.0, 1.0]], r"sum overflows \(index \(0, 0\)\)"),
    ],
)
def test_weights_without_a_distribution_are_refused(kind, weights, words):
    with pytest.raises(UserValueError, match=words):
        normalize(kind(np.array(weights)), 1)
