"""Approximate inference as a network: so many rounds of an update, one layer each, that gradients go back through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable

__all__ = ["unrolled"]

States = dict[str, torch.Tensor]
Update = Callable[[States], States]


def unrolled(
    update: Update, state: States, steps: int, *, recompute: Sequence[torch.Tensor] | None = None
) -> States:  # fmt: skip
    r"""The state after so many rounds, :math:`q_{t+1} = f(q_t; \theta)`, with the graph of all of them behind it.

    A loss of what comes out has the exact gradient of that loss by every tensor that the rounds look at, and by the
    state that they begin with. Where rounds are a contraction and many, it is the implicit gradient of the fixed point,
    :math:`(I - \partial f / \partial q)^{-1} \partial f / \partial \theta`. Rounds that oscillate give the gradient of
    where they are stopped.

    Parameters
    ----------
    update : callable
        A state -> the next one, as new tensors: what is written in place has no gradient.
    state : dict of str to floating tensor
    steps : int, in [0, inf)
    recompute : sequence of tensors, optional
        The learned tensors that the rounds look at. Given, only the states between rounds are kept, and each round is
        gone through again on the way back: memory of one round instead of all, half as much time again. Gradients are
        then those of these tensors and of the start, once.

    Returns
    -------
    dict of str to tensor

    Notes
    -----
    Cost: `steps` rounds, and about twice that on the way back; the memory of all rounds' intermediate results.

    References
    ----------
    Stoyanov, Ropson and Eisner (2011), "Empirical risk minimization of graphical model parameters given approximate
    inference"; Goodfellow, Mirza, Courville and Bengio (2013), "Multi-prediction deep Boltzmann machines".

    Examples
    --------
    >>> a = torch.tensor(0.5, requires_grad=True)
    >>> end = unrolled(lambda now: {"q": a * now["q"] + 1}, {"q": torch.zeros(())}, 50)["q"]
    >>> (slope,) = torch.autograd.grad(end, a)
    >>> round(end.item(), 6), round(slope.item(), 6)  # 1 / (1 - a) and 1 / (1 - a)^2
    (2.0, 4.0)
    """
    names, learned = tuple(state), None if recompute is None else tuple(recompute)
    for _ in range(steps):
        if learned is None:
            state = update(state)
        else:
            after = _Again.apply(update, names, learned, *(state[name] for name in names), *learned)  # type: ignore[no-untyped-call]
            state = dict(zip(names, after, strict=True))
    return state


class _Again(torch.autograd.Function):
    """A round of which only the state before it is kept."""

    @staticmethod
    def forward(ctx: Any, update: Update, names: tuple[str, ...], learned: Any, *tensors: torch.Tensor) -> Any:
        ctx.update, ctx.names, ctx.learned = update, names, learned
        before = tensors[: len(names)]
        ctx.save_for_backward(*before)
        after = update(dict(zip(names, before, strict=True)))
        return tuple(
            after[name].clone() if after[name] is one else after[name] for name, one in zip(names, before, strict=True)
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: torch.Tensor) -> Any:
        with torch.enable_grad():
            before = {n: x.detach().requires_grad_() for n, x in zip(ctx.names, ctx.saved_tensors, strict=True)}
            after = ctx.update(before)
            moved = [(after[n], slope) for n, slope in zip(ctx.names, slopes, strict=True) if after[n].requires_grad]
            inputs = [*before.values(), *ctx.learned]
            outputs, given = zip(*moved, strict=True)
            found = torch.autograd.grad(outputs, inputs, given, allow_unused=True)
        return (None, None, None, *found)
