"""Approximate inference as a network: so many rounds of an update, one layer each, that gradients go back through."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils.checkpoint import checkpoint

__all__ = ["unrolled"]

States = dict[str, torch.Tensor]
Update = Callable[[States], States]


def unrolled(update: Update, state: States, steps: int, *, recompute: bool = False) -> States:
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
    recompute : bool, default False
        Whether only the states between rounds are kept, and each round is gone through again on the way back: memory of
        one round instead of all, half as much time again. An update that draws must draw the same again.

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
    for _ in range(steps):
        state = checkpoint(update, state, use_reentrant=False, preserve_rng_state=False) if recompute else update(state)
    return state
