"""The Helmholtz machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar

from gnomon.nn.encoders import DenseEncoder
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.variational._belief import BeliefNet

__all__ = ["HelmholtzMachine"]


class HelmholtzMachine(BeliefNet):
    r"""Helmholtz machine: a sigmoid belief net and a recognition net of the same layers, which teach each other.

    Awake, the recognition net explains rows, :math:`h \sim q(h | x)`, and the belief net learns to draw each layer from
    the one above it; asleep, the belief net dreams, :math:`(x, h) \sim p`, and the recognition net learns to say what
    the dream was made of. Both nets are affine between layers, and q has independent units given the layer below.

    Attributes
    ----------
    history_ : dict of lists
        By epoch ``negative_bound`` (minus the evidence lower bound of one draw per row, nats), ``wake`` and ``sleep``,
        minus the log probabilities that each net gives to what the other one drew, and ``gradient_norm``.

    Notes
    -----
    Wake-sleep descends no function: awake the evidence lower bound rises for q as it is, asleep q comes nearer to the
    posterior of dreams in the other direction of the divergence. ``objective="reweighted-wake-sleep"`` uses several
    weighted draws. One net alone learns by ``objective__moves`` of `partial_fit`: ``generative`` is a wake step,
    ``recognition`` a sleep step; ``objective__block`` alternates blocks of them in a fit. Evidence as of `SBN`. Cost
    per update O(batch weights). Source: Dayan, Hinton, Neal and Zemel (1995); Hinton, Dayan, Frey and Neal (1995).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> machine = HelmholtzMachine(hidden=(2,), epochs=200, learning_rate=0.02, random_state=0).fit(X)
    >>> machine.score(X) > -1.5, machine.transform(X).shape
    (True, (100, 2))
    """

    name: ClassVar[str] = "helmholtz-machine"

    objective: Annotated[
        str | Recipe,
        Doc("How the two nets learn; see `gnomon.objectives.wake_sleep` and `gnomon.objectives.variational`."),
    ] = "wake-sleep"
    encoder: Annotated[
        str | Recipe | Callable[..., Any],
        Doc("Network from a row to the lowest hidden layer; those above it are affine. See `gnomon.nn.encoders`."),
    ] = DenseEncoder(hidden=())
