"""The sigmoid belief network."""

from __future__ import annotations

from typing import Annotated, ClassVar

from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.variational._belief import BeliefNet

__all__ = ["SBN"]


class SBN(BeliefNet):
    r"""Sigmoid belief network: binary layers, each unit 1 with a logistic probability of the units above it.

    :math:`p(x, h) = p(h_L) \prod_k p(h_{k-1} | h_k)`, :math:`p(h_{k-1,i} = 1 | h_k) = \sigma(b_i + \sum_j W_{ij}
    h_{k,j})`. Rows are drawn in one pass from the top down. Given a row its causes depend on each other (one explains
    the other away), so that the posterior has no short form: a recognition net q(h | x) guesses it, and is learned
    beside the net itself. With ``layers="autoregressive"`` units depend on those before them in their layer too: of one
    hidden layer that is the general net, in which every unit may hang on all units before it.

    Attributes
    ----------
    history_ : dict of lists
        ``negative_bound`` (nats per row, of the draws of the fit), what else the objective records, ``gradient_norm``,
        and with validation rows ``validation_negative_bound`` and ``best_epoch``, by epoch.

    Notes
    -----
    `log_prob` is exact and there where the lowest hidden layer has 12 units at most and two neighboring ones 20:
    layers are summed out one after the other. Larger nets have bounds: `evaluate` gives that of 64 importance-weighted
    draws of the recognition net, with its error, and the looser evidence lower bound. Cost per update O(batch draws
    weights). Source: Neal (1992); Saul, Jaakkola and Jordan (1996); Goodfellow, Bengio and Courville (2016), section
    20.10.1.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> net = SBN(hidden=(2,), epochs=150, learning_rate=0.02, random_state=0).fit(X)
    >>> net.score(X) > -1.5, net.transform(X).shape, net.evaluate(X)["log_likelihood"].kind
    (True, (100, 2), 'exact')
    """

    name: ClassVar[str] = "sbn"

    objective: Annotated[
        str | Recipe,
        Doc("How both nets learn; see `gnomon.objectives.wake_sleep` and `gnomon.objectives.variational`."),
    ] = "reweighted-wake-sleep"
