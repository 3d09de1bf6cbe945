"""Batch normalization: torch's on one process, the same on parts of a batch, weights, one row, gradients."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from gnomon.nn.batch_norm import BatchNorm
from gnomon.nn.context import training
from gnomon.numeric.noise import Noise
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


@pytest.mark.spec("PRA-062")
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


@pytest.mark.spec("PRA-062")
def test_prediction_does_not_depend_on_the_other_rows() -> None:
    ours, x = layer(3), torch.tensor(RANDOM.normal(size=(6, 3)))
    trained(ours, x)
    np.testing.assert_allclose(ours(x)[2:3].detach(), ours(x[2:3]).detach(), rtol=1e-12)


@pytest.mark.spec("PRA-062")
def test_one_row_has_no_spread() -> None:
    """Its output is the shift, the running variance stays, nothing is NaN, no gradient comes through."""
    for group in (Group(), Slow()):
        ours = layer(2)
        x = torch.tensor([[3.0, -4.0]], dtype=torch.float64, requires_grad=True)
        y = trained(ours, x, group=group)
        np.testing.assert_allclose(y.detach(), ours.shift.detach()[None])
        y.sum().backward()
        assert x.grad.tolist() == [[0.0, 0.0]]
        assert ours.running_var.tolist() == [1.0, 1.0]
        np.testing.assert_allclose(ours.running_mean, 0.3 * np.array([3.0, -4.0]))


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
