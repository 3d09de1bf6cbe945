"""Affine layers: products, gradients, storage orders, merging, and the reduced-parameter layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from gnomon.errors import UserValueError
from gnomon.nn.layers import PHM, affine_backward, dense, from_columns, merge_affine, quiet


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def layer(inputs, outputs, seed=0):
    return from_columns(normal(inputs, outputs, seed=seed), normal(outputs, seed=seed + 1))


def finite_difference(loss, array, step=1e-5):
    """Central differences of a scalar function of a NumPy array."""
    gradient = np.zeros_like(array)
    for place in np.ndindex(array.shape):
        up, down = array.copy(), array.copy()
        up[place] += step
        down[place] -= step
        gradient[place] = (loss(up) - loss(down)) / (2 * step)
    return gradient


@pytest.mark.spec("LIN-07", "DLN-62")
def test_rows_times_the_weights_plus_the_bias():
    x, w, b = normal(5, 4), normal(4, 3, seed=1), normal(3, seed=2)
    found = from_columns(w, b)(x)
    np.testing.assert_allclose(found.detach(), x.numpy() @ w.numpy() + b.numpy(), rtol=1e-13)
    np.testing.assert_allclose(found.detach(), nn.functional.linear(x, w.T, b), rtol=1e-13)
    assert from_columns(w, b).weight.shape == (3, 4)
    assert from_columns(w).bias is None


@pytest.mark.spec("LIN-07")
@pytest.mark.parametrize(("bias", "count"), [(True, 3 * 4 + 3), (False, 3 * 4)])
def test_a_dense_layer_has_d_q_parameters_all_zero(bias, count):
    parameters = list(dense(4, 3, bias=bias, dtype=torch.float64).parameters())
    assert sum(p.numel() for p in parameters) == count
    assert all(p.dtype == torch.float64 and p.requires_grad and not p.any() for p in parameters)


def test_layers_are_made_without_the_global_generator():
    before = torch.get_rng_state()
    quiet(nn.Conv2d, 2, 3, 5, padding=2)
    dense(4, 3)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.spec("DLN-62", "NLP-14", "LIN-07", "DLN-61")
def test_backward_agrees_with_finite_differences():
    """Of L = sum g(z) with g = tanh, so that D = 1 - tanh(z)^2; relative error below 1e-7."""
    x, w, b = (normal(*shape, seed=9).numpy() for shape in ((6, 4), (3, 4), (3,)))
    loss = lambda x=x, w=w, b=b: np.tanh(x @ w.T + b).sum()  # noqa: E731
    d = 1 - np.tanh(x @ w.T + b) ** 2
    found = affine_backward(*(torch.from_numpy(a) for a in (x, w, d)))
    for gradient, name, array in zip(found, "xwb", (x, w, b), strict=True):
        numeric = finite_difference(lambda a, name=name: loss(**{name: a}), array)
        assert np.linalg.norm(gradient.numpy() - numeric) < 1e-7 * np.linalg.norm(numeric), name


@pytest.mark.spec("DLN-62", "NLP-14")
def test_backward_agrees_with_torch_and_leaves_its_input_alone():
    x, d, one = normal(6, 4).requires_grad_(), normal(6, 3, seed=3), layer(4, 3).double()
    one(x).backward(d)
    kept = [t.detach().clone() for t in (x, one.weight, d)]
    found = affine_backward(x.detach(), one.weight.detach(), d)
    for gradient, theirs in zip(found, (x.grad, one.weight.grad, one.bias.grad), strict=True):
        np.testing.assert_allclose(gradient, theirs, rtol=1e-13)
        gradient.zero_()
    assert all(torch.equal(a, b) for a, b in zip(kept, (x, one.weight, d), strict=True))


@pytest.mark.spec("DLN-62")
def test_an_entry_of_the_gradient_is_the_sum_over_rows():
    x, d = normal(6, 4), normal(6, 3, seed=3)
    weight = affine_backward(x, normal(3, 4), d)[1]
    assert weight[2, 1].item() == pytest.approx(sum(d[k, 2] * x[k, 1] for k in range(6)).item(), rel=1e-13)


@pytest.mark.spec("LIN-17")
@pytest.mark.parametrize(("first_bias", "second_bias"), [(True, True), (True, False), (False, True), (False, False)])
def test_two_affine_layers_are_one(first_bias, second_bias):
    w1, b1, w2, b2, x = normal(5, 4), normal(4), normal(4, 3, seed=1), normal(3, seed=2), normal(7, 5, seed=3)
    first, second = from_columns(w1, b1 if first_bias else None), from_columns(w2, b2 if second_bias else None)
    merged = merge_affine(first, second)
    np.testing.assert_allclose(merged(x).detach(), second(first(x)).detach(), atol=1e-12)
    np.testing.assert_allclose(merged.weight.detach().T, w1 @ w2, atol=1e-13)
    if first_bias and second_bias:
        np.testing.assert_allclose(merged.bias.detach(), b1 @ w2 + b2, atol=1e-13)
    assert (merged.bias is None) == (not first_bias and not second_bias)


@pytest.mark.spec("LIN-17")
def test_with_relu_between_they_are_not_where_something_is_negative():
    first, second, x = layer(5, 4), layer(4, 3, seed=5), normal(50, 5, seed=7)
    z = first(x)
    gap = (second(z.relu()) - merge_affine(first, second)(x)).abs().amax(1)
    negative = (z < 0).any(1)
    assert negative.any() and (~negative).any()
    assert gap[negative].min() > 1e-3 and gap[~negative].max() < 1e-12


def test_layers_that_do_not_follow_are_refused():
    with pytest.raises(
        UserValueError,
        match=r"the second layer must take 4 inputs, got 5 \(merge_affine\); give layers that follow each other",
    ):
        merge_affine(dense(3, 4), dense(5, 2))


# --- reduced parameters ---------------------------------------------------------------------------------------------


def phm(inputs, outputs, n, seed=0, bias=True):
    one = PHM(inputs, outputs, n, bias=bias, dtype=torch.float64)
    with torch.no_grad():
        for k, parameter in enumerate(one.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=seed + k))
    return one


@pytest.mark.spec("LIN-08")
@pytest.mark.parametrize("shape", [(6, 4, 2), (6, 9, 3), (8, 8, 4), (5, 7, 1)])
def test_forward_is_the_explicit_kronecker_matrix(shape):
    one, x = phm(*shape), normal(11, shape[0], seed=9)
    a, s = one.rules.detach().numpy(), one.parts.detach().numpy()
    matrix = sum(np.kron(a[i], s[i]) for i in range(shape[2]))
    np.testing.assert_allclose(one.weight().detach(), matrix, rtol=1e-13)
    np.testing.assert_allclose(one(x).detach(), x.numpy() @ matrix.T + one.bias.detach().numpy(), rtol=1e-11)
    np.testing.assert_allclose(one(x.reshape(1, 11, -1)).detach()[0], one(x).detach(), rtol=1e-12)


@pytest.mark.spec("LIN-08")
def test_one_part_is_a_dense_layer():
    one, x = phm(6, 4, 1), normal(5, 6, seed=4)
    with torch.no_grad():
        one.rules.fill_(1)
        expected = nn.functional.linear(x, one.parts[0], one.bias)
    np.testing.assert_allclose(one(x).detach(), expected, rtol=1e-13)


@pytest.mark.spec("LIN-08")
def test_four_parts_with_hamiltons_product_are_a_quaternion_layer():
    """Row i of a quaternion is (r, i, j, k); W x is the Hamilton product of the weight quaternion and x's."""
    one = phm(8, 12, 4, bias=False)
    rules = np.zeros((4, 4, 4))
    for part, pairs in enumerate((
        [(0, 0, 1), (1, 1, 1), (2, 2, 1), (3, 3, 1)],
        [(0, 1, -1), (1, 0, 1), (2, 3, -1), (3, 2, 1)],
        [(0, 2, -1), (1, 3, 1), (2, 0, 1), (3, 1, -1)],
        [(0, 3, -1), (1, 2, -1), (2, 1, 1), (3, 0, 1)],
    )):  # fmt: skip
        for row, column, sign in pairs:
            rules[part, row, column] = sign
    with torch.no_grad():
        one.rules.copy_(torch.from_numpy(rules))
    x = normal(1, 8, seed=5)
    r, i, j, k = one.parts.detach().numpy()  # (3, 2) each
    a, b, c, d = x.numpy().reshape(4, 2)
    product = [
        r @ a - i @ b - j @ c - k @ d, r @ b + i @ a + j @ d - k @ c,
        r @ c - i @ d + j @ a + k @ b, r @ d + i @ c - j @ b + k @ a,
    ]  # fmt: skip
    np.testing.assert_allclose(one(x).detach()[0], np.concatenate(product), rtol=1e-12)


@pytest.mark.spec("LIN-08")
@pytest.mark.parametrize(("inputs", "outputs", "n"), [(8, 8, 2), (64, 32, 4), (12, 6, 3)])
def test_it_has_n_cubed_plus_one_nth_of_the_parameters(inputs, outputs, n):
    weights = sum(p.numel() for p in PHM(inputs, outputs, n, bias=False).parameters())
    assert weights == n**3 + inputs * outputs // n


@pytest.mark.spec("LIN-08")
def test_its_gradient_is_right():
    one, x = phm(6, 4, 2), normal(3, 6, seed=8).requires_grad_()
    rules, parts, bias = (p.detach().clone().requires_grad_() for p in (one.rules, one.parts, one.bias))
    call = lambda *p: torch.func.functional_call(one, dict(zip(("rules", "parts", "bias"), p[1:], strict=True)), p[0])  # noqa: E731
    assert torch.autograd.gradcheck(call, (x, rules, parts, bias))


@pytest.mark.spec("LIN-08")
def test_the_matrix_is_never_formed():
    """No result on the way is nearly as large as W."""

    class Largest(torch.overrides.TorchFunctionMode):
        seen = 0

        def __torch_function__(self, function, types, args=(), kwargs=None):
            out = function(*args, **kwargs or {})
            self.seen = max(self.seen, out.numel() if isinstance(out, torch.Tensor) else 0)
            return out

    one = PHM(600, 400, 20)
    with Largest() as mode:
        one(torch.ones(2, 600)).sum().backward()
    assert 20 * 600 < mode.seen < 600 * 400 / 5


@pytest.mark.spec("LIN-08")
def test_n_must_divide_both_sizes():
    with pytest.raises(UserValueError, match="outputs must be a multiple of 3, got 8"):
        PHM(6, 8, 3)
    with pytest.raises(UserValueError, match="inputs must be a multiple of 4, got 6"):
        PHM(6, 8, 4)
    with pytest.raises(UserValueError, match="n must be at least 1, got 0"):
        PHM(6, 8, 0)
