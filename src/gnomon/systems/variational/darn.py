"""The deep autoregressive network."""

from __future__ import annotations

from typing import Annotated, ClassVar

from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.variational._belief import BeliefNet

__all__ = ["DARN"]


class DARN(BeliefNet):
    r"""Deep autoregressive network: binary layers from the top down, each unit given those before it in its layer.

    :math:`p(h) = \prod_j p(h_j | h_{<j})` and :math:`p(x | h) = \prod_i p(x_i | x_{<i}, h)`, logistic in all that they
    hang on. Both nets are learned by the evidence lower bound, which is minus the length in nats of a row's description
    by its hidden units first and the row given these. What neighbors say of each other the links take over, so that
    hidden units are free for the rest.

    Attributes
    ----------
    history_ : dict of lists
        By epoch ``negative_bound`` (the description length, nats per row), ``baseline``, the squared errors of the
        learned baselines, and ``gradient_norm``.

    Notes
    -----
    The gradient of the recognition net is the score function's (`gnomon.objectives.nvil`): unbiased, where
    straight-through estimates are not. ``layers="factorial"`` takes the links away, and `SBN` is left;
    ``recognition="autoregressive"`` links the recognition net's units too. A row is drawn unit by unit. Evidence as of
    `SBN`; missing cells are filled in along chains. Cost per update O(batch draws weights). Source: Gregor, Danihelka,
    Mnih, Blundell and Wierstra (2014), without their deterministic layers.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> net = DARN(hidden=(2,), epochs=100, learning_rate=0.03, random_state=0).fit(X)
    >>> net.score(X) > -1.2, net.transform(X).shape
    (True, (100, 2))
    """

    name: ClassVar[str] = "darn"

    hidden: tuple[Annotated[int, "[1, inf)"], ...] = (64,)
    layers: str | Recipe = "autoregressive"
    objective: Annotated[
        str | Recipe, Doc("How both nets learn; see `gnomon.objectives.nvil` and `gnomon.objectives.variational`.")
    ] = "nvil"
