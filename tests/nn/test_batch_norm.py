"""Batch normalization: torch's on one process, the same on parts of a batch, weights, one row, gradients."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from gnomon.errors import UserValueError
from gnomon.nn.batch_norm import BatchNorm, fold
from gnomon.nn.context import training
from gnomon.nn.layers import dense
from gnomon.numeric.noise import Noise
from gnomon.systems.neural.mlp import MLP
from gnomon.systems.neural.mlp_regression import MLPRegression
from gnomon.training.group import Group
from gnomon.training.launch import launch

RANDOM = np.random.default_rng(0)


class Slow(Group):
    """One process that takes the way of several."""

    def __init__(self) -> None:
        super().__init__(0, 1)
        self.size = 2

    def sum(self, tree: Any) -> Any:
        return tree


def layer(features: int) -> BatchNorm:
    made = BatchNorm(features, momentum=0.3, dtype=torch.float64)
    with torch.no_grad():
        made.gain.copy_(torch.linspace(0.5, 1.5, features))
        made.shift.copy_(torch.linspace(-1, 1, features))
    return made


def trained(made: BatchNorm, x: torch.Tensor, weight: Any = None, group: Group | None = None) -> torch.Tensor:
    with training(Noise(0, "fit"), weight, group):
        y: torch.Tensor = made(x)
    return y


def peer(made: BatchNorm, dimensions: int) -> Any:
    kind = torch.nn.BatchNorm1d if dimensions == 2 else torch.nn.BatchNorm2d
    other = kind(len(made.gain), momentum=made.momentum, dtype=torch.float64)
    with torch.no_grad():
        other.weight.copy_(made.gain)
        other.bias.copy_(made.shift)
    return other


@pytest.mark.spec("PRA-062", "DLN-129", "NLP-47")
@pytest.mark.parametrize("group", [Group(), Slow()], ids=["torch's", "ours"])
@pytest.mark.parametrize("shape", [(7, 3), (2, 3), (4, 3, 2, 5)])
def test_torchs_layer(shape: tuple[int, ...], group: Group) -> None:
    """Outputs, gradients and running statistics over three batches, then prediction."""
    ours = layer(3)
    theirs = peer(ours, len(shape))
    for _ in range(3):
        x = torch.tensor(RANDOM.normal(2.0, 3.0, size=shape), requires_grad=True)
        other = x.detach().clone().requires_grad_()
        a, b = trained(ours, x, group=group), theirs(other)
        np.testing.assert_allclose(a.detach(), b.detach(), rtol=1e-10, atol=1e-12)
        factor = torch.tensor(RANDOM.normal(size=shape))
        (a * factor).sum().backward()
        (b * factor).sum().backward()
        np.testing.assert_allclose(x.grad, other.grad, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(ours.gain.grad, theirs.weight.grad, rtol=1e-10)
    np.testing.assert_allclose(ours.shift.grad, theirs.bias.grad, rtol=1e-10)
    np.testing.assert_allclose(ours.running_mean, theirs.running_mean, rtol=1e-12)
    np.testing.assert_allclose(ours.running_var, theirs.running_var, rtol=1e-12)
    x = torch.tensor(RANDOM.normal(size=shape))
    before = copy.deepcopy(ours.state_dict())
    np.testing.assert_allclose(ours(x).detach(), theirs.eval()(x).detach(), rtol=1e-12)
    assert all(torch.equal(before[name], value) for name, value in ours.state_dict().items())


@pytest.mark.spec("PRA-062", "DLN-129", "NLP-47")
def test_prediction_does_not_depend_on_the_other_rows() -> None:
    ours, x = layer(3), torch.tensor(RANDOM.normal(size=(6, 3)))
    trained(ours, x)
    np.testing.assert_allclose(ours(x)[2:3].detach(), ours(x[2:3]).detach(), rtol=1e-12)


@pytest.mark.spec("PRA-062", "DLN-129", "NLP-47")
def test_one_value_per_feature_cannot_be_normalized() -> None:
    """It is refused in training and changes nothing; a place more, or prediction, is enough."""
    weight = torch.ones(1, dtype=torch.float64)
    for group, given in ((Group(), None), (Slow(), None), (None, weight)):
        ours, x = layer(2), torch.tensor([[3.0, -4.0]], dtype=torch.float64)
        with pytest.raises(UserValueError, match="at least 2 values per feature in training, got 1") as told:
            trained(ours, x, given, group=group)
        assert "\n" not in str(told.value)
        assert ours.running_var.tolist() == [1.0, 1.0] and ours.running_mean.tolist() == [0.0, 0.0]
        assert ours(x).shape == (1, 2)
        assert trained(ours, x[:, :, None].repeat(1, 1, 2), given, group=group).shape == (1, 2, 2)


def test_all_weight_on_one_row_has_no_spread() -> None:
    """Its output is the shift, the running variance stays, nothing is NaN, no gradient comes through."""
    for group in (Group(), Slow()):
        ours, weight = layer(2), torch.tensor([2.0, 0.0], dtype=torch.float64)
        x = torch.tensor([[3.0, -4.0], [7.0, 1.0]], dtype=torch.float64, requires_grad=True)
        y = trained(ours, x, weight, group=group)
        np.testing.assert_allclose(y[0].detach(), ours.shift.detach())
        y[0].sum().backward()
        assert x.grad is not None and x.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert ours.running_var.tolist() == [1.0, 1.0]
        np.testing.assert_allclose(ours.running_mean, 0.3 * np.array([3.0, -4.0]))


@pytest.mark.spec("DLN-129")
@pytest.mark.parametrize("group", [Group(), Slow()], ids=["torch's", "ours"])
def test_two_rows_by_hand(group: Group) -> None:
    """Values, both conventions of the running variance, and the first statistics, in prediction alone."""
    x = torch.tensor([[1.0, 2.0], [3.0, 6.0]], dtype=torch.float64)
    ours = BatchNorm(2, momentum=0.1, epsilon=1e-5, dtype=torch.float64)
    assert ours.running_mean.tolist() == [0.0, 0.0] and ours.running_var.tolist() == [1.0, 1.0]
    assert ours.gain.tolist() == [1.0, 1.0] and ours.shift.tolist() == [0.0, 0.0]
    np.testing.assert_allclose(ours(x).detach(), x / math.sqrt(1 + 1e-5), rtol=1e-12)
    y = trained(ours, x, group=group).detach()
    np.testing.assert_allclose(y[1], [0.999995, 0.99999875], rtol=0, atol=1e-10)
    np.testing.assert_allclose(y[0], -y[1], rtol=1e-12)
    np.testing.assert_allclose(ours.running_mean, [0.2, 0.4], rtol=1e-12)
    np.testing.assert_allclose(ours.running_var, [1.1, 1.7], rtol=1e-12)  # eta = 0.9 of the biased one: 1.0, 1.3
    biased = 0.9 + (ours.running_var - 0.9) / 2
    np.testing.assert_allclose(biased, [1.0, 1.3], rtol=1e-12)
    exact = BatchNorm(2, epsilon=1e-300, dtype=torch.float64)
    np.testing.assert_allclose(trained(exact, x, group=group).detach(), [[-1, -1], [1, 1]], rtol=1e-12)


@pytest.mark.spec("DLN-129", "NLP-47")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_by_finite_differences(masked: bool, weighted: bool) -> None:
    """Mean and variance depend on the batch: their share of the gradient is there."""
    ours = BatchNorm(2, dtype=torch.float64)
    mask = torch.tensor([[True, False, True], [True, True, False], [False, False, True]]) if masked else None
    weight = torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64) if weighted else None

    def call(x: torch.Tensor, gain: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        with training(Noise(0, "fit"), weight):
            y: torch.Tensor = torch.func.functional_call(ours, {"gain": gain, "shift": shift}, (x, mask))
        return y

    x = torch.tensor(RANDOM.normal(size=(3, 2, 3)), requires_grad=True)
    gain, shift = (torch.tensor(RANDOM.normal(size=2), requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(call, (x, gain, shift))


@pytest.mark.spec("DLN-129")
@pytest.mark.parametrize("bias", [False, True])
def test_a_dense_layer_takes_the_norm_in(bias: bool) -> None:
    linear, ours = dense(3, 4, bias=bias, dtype=torch.float64), layer(4)
    for value in linear.parameters():
        value.data.copy_(torch.tensor(RANDOM.normal(size=value.shape)))
    x = torch.tensor(RANDOM.normal(size=(6, 3)))
    for _ in range(3):
        trained(ours, linear(torch.tensor(RANDOM.normal(1.0, 2.0, size=(8, 3)))).detach())
    np.testing.assert_allclose(fold(linear, ours)(x).detach(), ours(linear(x)).detach(), rtol=1e-10, atol=1e-12)


@pytest.mark.spec("NLP-47")
@pytest.mark.parametrize("group", [Group(), Slow()], ids=["alone", "several"])
def test_masked_positions_do_not_enter_the_statistics(group: Group) -> None:
    """Sequences of unequal lengths: what lies behind their ends changes nothing, and is as if it were not there."""
    lengths = torch.tensor([5, 1, 0, 3])
    mask = torch.arange(5) < lengths[:, None]
    x = torch.tensor(RANDOM.normal(size=(4, 3, 5)))
    rows = x.movedim(1, -1)[mask]
    ours, flat = layer(3), layer(3)
    theirs = peer(flat, 2)
    spoiled = torch.where(mask[:, None], x, torch.full_like(x, torch.nan)).requires_grad_()
    y, alone = ours_masked(ours, spoiled, mask, group), theirs(rows)
    np.testing.assert_allclose(y.detach().movedim(1, -1)[mask], alone.detach(), rtol=1e-10)
    assert (y.detach().movedim(1, -1)[~mask] == 0).all()
    np.testing.assert_allclose(ours.running_mean, theirs.running_mean, rtol=1e-12)
    np.testing.assert_allclose(ours.running_var, theirs.running_var, rtol=1e-12)
    y.square().sum().backward()
    assert spoiled.grad is not None and (spoiled.grad.movedim(1, -1)[~mask] == 0).all()
    assert bool(torch.isfinite(spoiled.grad).all())
    predicted = ours(spoiled, mask).detach().movedim(1, -1)
    np.testing.assert_allclose(predicted[mask], theirs.eval()(rows).detach(), rtol=1e-10)
    assert (predicted[~mask] == 0).all()
    with pytest.raises(UserValueError, match=r"mask must have shape \(4, 5\), got \(4,\)"):
        ours(x, lengths > 0)
    with pytest.raises(UserValueError, match="got 1"):
        ours_masked(ours, x, torch.arange(5) < torch.tensor([0, 1, 0, 0])[:, None], group)


def ours_masked(made: BatchNorm, x: torch.Tensor, mask: torch.Tensor, group: Group) -> torch.Tensor:
    with training(Noise(0, "fit"), None, group):
        y: torch.Tensor = made(x, mask)
    return y


@pytest.mark.spec("DLN-129", "NLP-47")
def test_rows_of_weight_0_have_no_part_in_a_fit_and_a_last_row_does_not_end_it() -> None:
    X, y = RANDOM.normal(size=(9, 3)), np.arange(9) % 2
    settings = {"hidden": (4,), "batch_norm": True, "epochs": 3, "dtype": "float64", "random_state": 0}
    clean = MLP(batch_size=None, **settings).fit(X, y)
    far = np.vstack([X, RANDOM.normal(50.0, 9.0, size=(4, 3))])
    weight = np.repeat([1.0, 0.0], [9, 4])
    spoiled = MLP(batch_size=None, **settings).fit(far, np.append(y, [0, 1, 0, 1]), sample_weight=weight)
    np.testing.assert_allclose(spoiled.predict_proba(X), clean.predict_proba(X), rtol=1e-9)
    assert clean.predict_proba(X[:1]) == pytest.approx(clean.predict_proba(X)[:1])
    assert len(MLP(batch_size=4, **settings).fit(X, y).history_["cross_entropy"]) == 3  # batches of 4 and 5
    with pytest.raises(UserValueError, match="batch_norm needs at least 2 rows, got 1"):
        MLPRegression(**settings).fit(X[:1], X[:1, 0])
    with pytest.raises(UserValueError, match="at least 2 values per feature"):
        MLP(**settings).fit(X, y).partial_fit(X[:1], y[:1])


def test_weights_are_rows() -> None:
    """A row of weight 2 is two rows, one of weight 0 is none; equal weights change nothing."""
    x = torch.tensor(RANDOM.normal(size=(4, 2)))
    weight = torch.tensor([2.0, 0.0, 1.0, 3.0], dtype=torch.float64)
    repeated = x.repeat_interleave(weight.long(), 0)
    a, b = layer(2), layer(2)
    ya, yb = trained(a, x, weight), trained(b, repeated, group=Group())
    np.testing.assert_allclose(ya.detach().repeat_interleave(weight.long(), 0), yb.detach(), rtol=1e-12)
    np.testing.assert_allclose(a.running_mean, b.running_mean, rtol=1e-12)
    c, d = layer(2), layer(2)
    trained(c, x, torch.full((4,), 0.01, dtype=torch.float64), Group())
    trained(d, x)
    np.testing.assert_allclose(c.running_var, d.running_var, rtol=1e-12)
    e = layer(2)
    assert bool(torch.isfinite(trained(e, x, torch.zeros(4, dtype=torch.float64))).all())
    assert e.running_var.tolist() == [1.0, 1.0] and e.running_mean.tolist() == [0.0, 0.0]


def test_the_weight_of_an_image_is_that_of_all_its_places_and_epsilon_is_the_layers() -> None:
    x, weight = torch.tensor(RANDOM.normal(size=(3, 2, 2, 2))), torch.tensor([2.0, 0.0, 1.0], dtype=torch.float64)
    ours = BatchNorm(2, epsilon=0.5, dtype=torch.float64)
    y = trained(ours, x, weight).detach()
    share = weight[:, None, None, None] / (4 * weight.sum())
    mean = (share * x).sum((0, 2, 3), keepdim=True)
    variance = (share * (x - mean) ** 2).sum((0, 2, 3), keepdim=True)
    np.testing.assert_allclose(y, (x - mean) / (variance + 0.5).sqrt(), rtol=1e-12)


def on_each(parts: list[int]) -> dict[str, np.ndarray]:
    """Outputs, gradients and statistics of a batch of seven rows, split over this group by `parts`."""
    from gnomon.training.group import current

    group = current()
    random = np.random.default_rng(1)
    rows, factor, weight = random.normal(size=(7, 3)), random.normal(size=(7, 3)), random.uniform(0.5, 2, size=7)
    found: dict[str, np.ndarray] = {}
    for name, given in (("plain", None), ("weighted", weight)):
        ends = np.cumsum([0, *parts]) if group.size == 2 else np.array([0, 7])
        mine = slice(ends[group.rank], ends[group.rank + 1])
        ours = layer(3)
        x = torch.tensor(rows[mine], requires_grad=True)
        y = trained(ours, x, None if given is None else torch.tensor(given[mine]), group)
        (y * torch.tensor(factor[mine])).sum().backward()
        found[f"{name} y"] = group.gather(y.detach().numpy())
        found[f"{name} dx"] = group.gather(x.grad.numpy())
        found[f"{name} dgain"] = group.sum(ours.gain.grad.numpy())
        found[f"{name} mean"], found[f"{name} var"] = ours.running_mean.numpy(), ours.running_var.numpy()
    return found


@pytest.mark.parametrize("parts", [[3, 4], [7, 0]])
def test_two_processes_are_one(parts: list[int]) -> None:
    alone, together = on_each(parts), launch(on_each, parts, devices=2)
    for name, value in alone.items():
        np.testing.assert_allclose(together[name], value, rtol=0, atol=1e-12, err_msg=name)
