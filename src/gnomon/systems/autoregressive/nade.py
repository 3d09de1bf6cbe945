"""The neural autoregressive distribution estimator."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import torch

from gnomon import contracts
from gnomon.data.examples import Examples
from gnomon.objectives.likelihood import MaximumLikelihood
from gnomon.recipes.fields import Doc
from gnomon.system.by_gradient import ByGradient
from gnomon.systems.autoregressive._base import Autoregressive
from gnomon.systems.autoregressive._nade_model import NADEModel

__all__ = ["NADE"]


class NADE(ByGradient, Autoregressive):
    r"""NADE: each column given those before it, by a network whose hidden units take in one column after the other.

    .. math:: p(x) = \prod_t p(x_{o_t} | x_{o_1}, \ldots, x_{o_{t-1}}), \quad
        p(x_{o_t} = 1 | \cdot) = \sigma(b_{o_t} + V_{o_t} \cdot h_t), \quad h_t = \sigma(a_t), \quad
        a_1 = c, \quad a_{t+1} = a_t + W_{o_t} x_{o_t}

    The weights W into the hidden units are those of all conditionals, so that a row costs O(d h) and not O(d^2 h); the
    weights V out of them are not tied to W. An exact likelihood and exact draws of rows, one column at a time; what is
    learned depends on the order of the columns, which is kept with the model.

    Attributes
    ----------
    order_ : int64 array of shape (d,)
        The column at each place.
    history_ : dict of lists
        ``negative_log_likelihood`` (nats per row) and ``gradient_norm``, and with validation rows
        ``validation_negative_log_likelihood`` and ``best_epoch``, by epoch.

    Notes
    -----
    First weights leave the columns independent, with their own frequencies. A step of the recursion is the first step
    of mean field in a restricted Boltzmann machine that fills in what it has not seen, with weights V of their own.
    Gradients are a compiled loop over columns that finds the hidden units again on its way back, so that a batch takes
    no memory but its rows; numbers that are 0 cost no hidden units. Draws take d steps of O(n h). Source: Larochelle
    and Murray (2011), The neural autoregressive distribution estimator; Goodfellow, Bengio and Courville (2016),
    section 20.10.10.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> nade = NADE(n_hidden=8, epochs=60, learning_rate=0.05, random_state=0).fit(X)
    >>> bool(nade.score(X) > -0.8), nade.conditional(1, [[1, 0, 0, 0], [0, 1, 1, 1]]).mean.round().ravel().tolist()
    (True, [1.0, 0.0])
    """

    name: ClassVar[str] = "nade"
    model_class: ClassVar[type] = NADEModel

    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units, which all conditionals share.")] = 128
    epochs: int = 60
    batch_size: int | None = 32
    learning_rate: float = 5e-3

    def make(self, n_features: int, dtype: str) -> NADEModel:
        precision, likelihood = getattr(torch, dtype), self.recipe("likelihood")
        head = likelihood.build(n_features, precision)
        return NADEModel(n_features, self.n_hidden, head, likelihood.scales, False, precision)

    def initialize(self, model: NADEModel, examples: Examples, noise: contracts.Noise) -> None:
        self.begin_model(model, examples, noise)
        model.draw_weights(noise.child("weights"))

    def make_objective(self) -> Any:
        return MaximumLikelihood()
