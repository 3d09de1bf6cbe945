"""The fully visible Bayes network: the chain rule with any predictor of a column from those before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch

from gnomon import contracts
from gnomon.contracts import Procedure
from gnomon.data.examples import Examples
from gnomon.data.layouts import Layout, Rows
from gnomon.objectives.likelihood import MaximumLikelihood
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.system.by_gradient import ByGradient
from gnomon.systems.autoregressive._base import Autoregressive, ChainModel
from gnomon.systems.autoregressive.conditionals import ChainConditionals

__all__ = ["FVBN"]

STEPS = {"conditionals": "neural"}


class FVBN(Autoregressive, ByGradient):
    r"""Fully visible Bayes network: no latent variables, each column given those before it.

    :math:`p(x) = \prod_t p(x_{o_t} | x_{o_1}, \ldots, x_{o_{t-1}})` in an order o of the columns. The conditionals are
    tables, linear in features of the columns before (logistic and softmax regressions; least squares of real columns,
    together a normal density), or a network from left to right, whose columns may be of several kinds (``likelihood``
    ``mixed``). Scores and draws are exact.

    Attributes
    ----------
    order_ : int64 array of shape (n_features,)
        The column at each place of the chain rule.
    history_ : dict of lists
        Of tables and least squares ``log_likelihood`` (nats per row); of Newton's method ``objective`` (the same less
        the penalty) and ``gradient`` by iteration; of networks ``negative_log_likelihood`` and ``gradient_norm`` by
        epoch.

    Notes
    -----
    What comes of it depends on the order, but for linear conditionals of real columns. A row is scored in one pass,
    drawn column by column. Missing cells are filled in exactly where they come last in the order or are few; a column
    given later ones is not free. Of p features and d columns an iteration of Newton's method costs some ten products
    O(n p d), least squares O(n p^2 + p^3), both for all columns at once; a network with groups of h units takes
    O(d^2 h) a row. Source: Frey (1998); Bengio and Bengio (2000); Goodfellow, Bengio and Courville (2016), section
    20.10.7-20.10.9.

    Examples
    --------
    >>> import numpy as np
    >>> from gnomon.systems.autoregressive.conditionals import Tables
    >>> X = np.repeat([[0, 0], [0, 1], [1, 1]], [10, 20, 30], axis=0)
    >>> model = FVBN(conditionals=Tables(smoothing=0.0)).fit(X)
    >>> np.exp(model.log_prob([[0, 0], [0, 1], [1, 1]])).round(4).tolist()
    [0.1667, 0.3333, 0.5]
    >>> float(model.conditional(1, [[0, 0]]).mean[0, 0].round(4))
    0.6667
    """

    name: ClassVar[str] = "fvbn"
    model_class: ClassVar[type] = ChainModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"conditionals": ChainConditionals}
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"random_state": {"order": "random"}} | dict.fromkeys(
        (
            "epochs", "max_updates", "batch_size", "learning_rate", "optimizer", "schedule", "early_stopping", "clip",
            "clip_value",
        ),
        STEPS,
    )  # fmt: skip

    conditionals: Annotated[
        str | Recipe,
        Doc("What predicts a column from those before it: ``tables``, ``linear`` or ``neural``."),
    ] = "linear"
    epochs: int = 100
    batch_size: Annotated[
        int | None, "[1, inf)", Doc("Rows per update of ``neural`` conditionals, over all processes; None takes all.")
    ] = 64

    def make(self, n_features: int, dtype: str) -> ChainModel:
        model: ChainModel = self.recipe("conditionals").build(
            n_features, self.recipe("likelihood"), getattr(torch, dtype)
        )
        return model

    def initialize(self, model: ChainModel, examples: Examples, noise: contracts.Noise) -> None:
        self.begin_model(model, examples, noise)
        self.recipe("conditionals").begin(model, torch.tensor(examples.X), noise)

    def layout(self, examples: Any) -> Layout:
        return super().layout(examples) if self.recipe("conditionals").by_gradient else Rows(shuffle=False)

    def make_objective(self) -> Any:
        return MaximumLikelihood() if self.recipe("conditionals").by_gradient else None

    def procedure(self, examples: Any) -> Procedure:
        conditionals = self.recipe("conditionals")
        if conditionals.by_gradient:
            return super().procedure(examples)
        found: Procedure = conditionals.procedure(self.recipe("likelihood").scales)
        return found
