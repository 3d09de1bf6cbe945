"""The neural autoregressive distribution estimator of real numbers."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import torch

from gnomon.distributions.domains import Real
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.autoregressive._nade_model import NADEModel
from gnomon.systems.autoregressive.nade import NADE

__all__ = ["RNADE"]


class RNADE(NADE):
    r"""RNADE: real columns, each a mixture of Gaussians given those before it.

    .. math:: p(x_{o_t} | \cdot) = \sum_c \alpha_{tc} N(x_{o_t}; \mu_{tc}, \sigma_{tc}^2), \quad
        h_t = \sigma(s_t a_t), \quad a_1 = c, \quad a_{t+1} = a_t + W_{o_t} x_{o_t}

    The weights, means and scales of a column's mixture are affine in h_t (the weights through a softmax, the variances
    through exp). Fields a_t are sums of ever more columns, which the learned factor s_t brings back to a size that the
    logistic function can tell apart. Columns are standardized; densities and draws are those of the columns as they
    were given, exact ones.

    Attributes
    ----------
    order_ : int64 array of shape (d,)
        The column at each place.
    history_ : dict of lists
        ``negative_log_likelihood`` (nats per row) and ``gradient_norm``, and with validation rows
        ``validation_negative_log_likelihood`` and ``best_epoch``, by epoch.

    Notes
    -----
    A standard deviation has the likelihood's ``floor``, in units of the column's own: without one a component falls
    into a value that repeats and its density grows without bound; whole numbers are better dequantized before.
    ``mean_gradient="scaled"`` multiplies the gradient by each mean by its component's standard deviation, since means
    and scales get in each other's way under gradient steps. First weights leave the columns independent mixtures of
    their own means and variances. Cost as of `NADE`, times 3 k for k components. Source: Uria, Murray and Larochelle
    (2013), RNADE; Bishop (1994), Mixture density networks.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> X = np.repeat(random.normal(size=(200, 1)), 2, axis=1) + 0.1 * random.normal(size=(200, 2))
    >>> rnade = RNADE(n_hidden=8, epochs=40, learning_rate=0.02, random_state=0).fit(X)
    >>> bool(rnade.score(X) > -1.2), rnade.sample(3).shape
    (True, (3, 2))
    """

    name: ClassVar[str] = "rnade"
    model_class: ClassVar[type] = NADEModel

    likelihood: Annotated[
        str | Recipe,
        Doc("What a column is given those before it: a ``mixture`` of Gaussians, or one, ``gaussian``."),
    ] = "mixture"
    rescale: Annotated[bool, Doc("Whether the hidden units' fields have a learned factor at each column.")] = True
    n_hidden: int = 64
    epochs: int = 60
    learning_rate: float = 2e-3

    @property
    def domain(self) -> Any:
        """Real columns by default, else what the likelihood asks for."""
        if not isinstance(self.likelihood, str):
            return self.recipe("likelihood").domain
        return Real(largest=1e100)

    def make(self, n_features: int, dtype: str) -> NADEModel:
        precision, likelihood = getattr(torch, dtype), self.recipe("likelihood")
        head = likelihood.build(n_features, precision)
        return NADEModel(n_features, self.n_hidden, head, likelihood.scales, self.rescale, precision)
