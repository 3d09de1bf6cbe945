"""NADE-k: missing columns are inferred in several steps before they are predicted."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from torch import nn
from torch.nn import functional

from gnomon.errors import UserValueError
from gnomon.nn.activations import Activation
from gnomon.nn.likelihoods import Head
from gnomon.recipes.fields import Doc
from gnomon.systems.autoregressive._deep import MaskedNetwork
from gnomon.systems.autoregressive._orderless import OrderlessNetwork

__all__ = ["NADEk", "NADEkModel"]


class NADEkModel(MaskedNetwork):
    r"""A network of rows whose missing cells are filled in by its own answers, k times over.

    .. math:: v^{(t)} = m \odot x + (1 - m) \odot E[x | r^{(t)}], \quad r^{(t)} = V h^{(t)} + b, \quad
        h^{(t)} = f(W v^{(t-1)} + M m + c), \quad r^{(0)} = 0

    r^{(t)} are the head's numbers, beside those of the columns' own frequencies: :math:`v^{(0)}` has the means of the
    columns where cells are missing, of codes their shares.

    Parameters
    ----------
    n_features : int
    hidden : tuple of int
        Units, by layer: further ones stand between W and V.
    activation : Activation
    head : Head
    scales : bool
    n_orders : int
    dtype : torch.dtype
    k : int
        Steps.
    tie : bool
        Whether V is the transpose of W; then there is one layer, and the head has a number for each that is seen.
    masked : bool
        Whether M is there.
    every : bool
        Whether training raises what all steps answer, on average, or the last one.
    """

    def __init__(
        self, n_features: int, hidden: tuple[int, ...], activation: Activation, head: Head, scales: bool,
        n_orders: int, dtype: torch.dtype, *, k: int, tie: bool, masked: bool, every: bool,
    ) -> None:  # fmt: skip
        super().__init__(n_features, hidden, activation, head, scales, n_orders, dtype, masked)
        self.k, self.every = k, every
        self.wide = max(*hidden, n_features * (head.seen + 1), n_features * head.width)
        self.b = nn.Parameter(torch.zeros(n_features * head.width, dtype=dtype)) if tie else None
        if tie:
            self.out = None

    def steps(self, z: torch.Tensor, given: torch.Tensor) -> list[torch.Tensor]:
        """The head's numbers of all columns after each step, (n, width d), given the columns marked (n, d)."""
        head, W = self.head, self.first.weight[:, : self.n_features * self.head.seen]
        M = self.first.weight[:, W.shape[1] :]
        field = functional.linear(given[:, : M.shape[1]].to(z.dtype), M, self.first.bias)
        known, cells = given.repeat_interleave(head.seen, 1), head.inputs(z)
        raw, found = z.new_zeros((len(z), self.n_features * head.width)), []
        for _ in range(self.k):
            seen = torch.where(known, cells, head.mean_inputs(raw))
            raw = self._answer(self.upper(field + seen @ W.T), W)
            found.append(raw)
        return found

    def _answer(self, h: torch.Tensor, W: torch.Tensor) -> torch.Tensor:
        if self.out is not None:
            answer: torch.Tensor = self.out(h)
            return answer
        V = W.T.reshape(self.n_features, self.head.seen, -1).transpose(0, 1).flatten(0, 1)
        return functional.linear(h, V, self.b)

    def numbers_given(self, z: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        return self.steps(z, given)[-1]

    def log_taught(self, x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        z = self.inside(x)
        taught = self.steps(z, given) if self.every else self.steps(z, given)[-1:]
        return torch.stack([self._cells(raw, z) for raw in taught]).mean(0)


class NADEk(OrderlessNetwork):
    r"""NADE-k: what is missing is inferred in k steps, as mean field does it, and predicted at the last of them.

    .. math:: h^{(t)} = f(W v^{(t-1)} + M m + c), \quad
        v^{(t)} = m \odot x + (1 - m) \odot \sigma(V h^{(t)} + b), \quad
        p(x_i = 1 | x_\text{given}) = v_i^{(k)}

    m marks what is given, which each step puts back; v begins with the means of the columns. With ``tie``, V the
    transpose of W, and without a mask a step is one of mean field in a restricted Boltzmann machine. One network for
    all orders of the columns, learned and asked as `DeepNADE` is: the density is that of a mixture of ``n_orders``.

    Attributes
    ----------
    order_ : int64 array of shape (d,)
        The column at each place of the (first) order.
    history_ : dict of lists
        ``negative_log_likelihood`` (nats per row; of all orders an estimate of its mean over them) and
        ``gradient_norm``, and with validation rows ``validation_negative_log_likelihood`` and ``best_epoch``, by epoch.

    Notes
    -----
    Real columns are filled in with their means, codes with their probabilities. An update costs O(k d h) a row; a
    density O(k d^2 h) for each order, since all cells change in every step, in parts of bounded memory. Source: Raiko,
    Yao, Cho and Bengio (2014), Iterative neural autoregressive distribution estimator (NADE-k); Goodfellow, Bengio and
    Courville (2016), section 20.10.10.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> model = NADEk(k=2, hidden=(16,), epochs=80, learning_rate=0.02, random_state=0).fit(X)
    >>> bool(model.score(X) > -0.9), model.impute([[np.nan, np.nan, 1, np.nan]]).round().tolist()
    (True, [[0.0, 0.0, 1.0, 1.0]])
    """

    name: ClassVar[str] = "nade-k"
    model_class: ClassVar[type] = NADEkModel

    k: Annotated[int, "[1, inf)", Doc("Steps of inference.")] = 5
    hidden: tuple[Annotated[int, "[1, inf)"], ...] = (256,)
    tie: Annotated[bool, Doc("Whether the weights out of the hidden layer are those into it.")] = False
    mask: Annotated[bool, Doc("Whether the network sees which columns are given.")] = True
    loss: Annotated[
        Literal["last", "every"],
        Doc("What is learned: the answer of the ``last`` step, or of ``every`` one on average."),
    ] = "last"

    def check_parameters(self) -> None:
        """Refuse weights that cannot be tied."""
        super().check_parameters()
        if self.tie and len(self.hidden) > 1:
            what = f"hidden must be one layer where weights are tied, got {len(self.hidden)}"
            raise UserValueError(what, "hidden", "use tie=False")

    def make(self, n_features: int, dtype: str) -> NADEkModel:
        precision, likelihood = getattr(torch, dtype), self.recipe("likelihood")
        head = likelihood.build(n_features, precision)
        if self.tie and head.width != head.seen:
            what = f"likelihood must take a number of each column where weights are tied, got {head.width}"
            raise UserValueError(what, "likelihood", "use tie=False")
        activation, options = self.recipe("activation"), {"tie": self.tie, "masked": self.mask}
        return NADEkModel(
            n_features, self.hidden, activation, head, likelihood.scales, self._count(None), precision,
            k=self.k, every=self.loss == "every", **options,
        )  # fmt: skip
