"""Two players that descend on one value from two sides: a bench for the optimizers of games."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserValueError
from gnomon.recipes.parameters import how_many
from gnomon.training.optimizers import SGD, Optimizer

__all__ = ["simulate_game"]

Order = Literal["simultaneous", "alternating", "extragradient"]


def _bilinear(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a * b).sum()


def simulate_game(
    optimizer: Optimizer | None = None,
    steps: int = 100,
    *,
    learning_rate: float = 0.1,
    start: tuple[ArrayLike, ArrayLike] = (1.0, 0.0),
    value: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = _bilinear,
    order: Order = "simultaneous",
) -> NDArray[np.float64]:
    r"""The path of two players, a lowering v(a, b) and b raising it, each with the other held.

    v = a b has its saddle at 0 and the flow :math:`\dot a = -b, \dot b = a`, which keeps :math:`a^2 + b^2`: it never
    arrives. Steps at the same time multiply the norm by :math:`\sqrt{1 + \eta^2}` each, steps in turn stay on an
    ellipse, and the gradient taken from a trial step ahead (extragradient; Korpelevich 1976) shrinks it.

    Parameters
    ----------
    optimizer : recipe of an optimizer, default SGD()
        One is built for each player.
    steps : int in [0, 2^32]
    learning_rate : float
    start : pair of arrays of one shape, default (1, 0)
    value : function of two float64 tensors, default a b summed
    order : {"simultaneous", "alternating", "extragradient"}

    Returns
    -------
    array of shape (steps + 1, 2, d)
        Where both stood, the start first; d numbers each.

    Raises
    ------
    UserValueError
        An unknown order.

    Examples
    --------
    >>> round(float(np.linalg.norm(simulate_game(steps=100)[-1])), 6)
    1.644632
    """
    if order not in ("simultaneous", "alternating", "extragradient"):
        remedy = "choose simultaneous, alternating or extragradient"
        raise UserValueError(f"order must be known, got {order!r}", "order", remedy)
    recipe = optimizer or SGD()
    players = [torch.nn.Parameter(torch.tensor(np.atleast_1d(np.asarray(one, np.float64)))) for one in start]
    rules: list[Any] = [recipe.build([player], learning_rate) for player in players]
    path = [torch.stack([player.detach().clone() for player in players])]
    for _ in range(how_many(steps, "steps")):
        _step(players, rules, value, order, learning_rate)
        path.append(torch.stack([player.detach().clone() for player in players]))
    return torch.stack(path).numpy()


def _step(players: list[torch.nn.Parameter], rules: list[Any], value: Any, order: str, rate: float) -> None:
    if order == "alternating":
        for k, (player, rule) in enumerate(zip(players, rules, strict=True)):
            player.grad = _slopes(value, *players)[k]
            rule.step()
        return
    slopes = _slopes(value, *players)
    if order == "extragradient":
        ahead = [player.detach() - rate * slope for player, slope in zip(players, slopes, strict=True)]
        slopes = _slopes(value, *ahead)
    for player, rule, slope in zip(players, rules, slopes, strict=True):
        player.grad = slope
        rule.step()


def _slopes(value: Any, a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    """What each player descends along: the slope by a, and minus the slope by b."""
    a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
    by_a, by_b = torch.autograd.grad(value(a, b), (a, b))
    return [by_a, -by_b]
