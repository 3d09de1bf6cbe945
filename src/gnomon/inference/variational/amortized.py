"""Approximate posteriors by a network: one pass in place of the iterations that find q(z | x) of each row."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.variational.amortized_rows import RowBounds, rows_of
from gnomon.inference.variational.limited_memory import LimitedMemory
from gnomon.nn.activations import Tanh
from gnomon.nn.mlp import MLPModel
from gnomon.numeric.given import doable, floats
from gnomon.numeric.noise import Noise
from gnomon.recipes.parameters import check_layer_sizes, how_many, in_interval

__all__ = ["AmortizedInference"]

Floats = NDArray[np.float64]

UNSETTLED = 1e-4
"""Nats per row that one more round may add to a bound that counts as converged."""


class AmortizedInference:
    r"""A network :math:`f(x; \phi)` that gives the parameters of q(z | x), of a model whose own inference iterates.

    It is trained for the bound itself, :math:`\max_\phi E_x L(x, f(x; \phi))`, or by regression to the q that the
    iterations end with. One pass then does for a row what the iterations did; what the network misses of the bound is
    the amortization gap, and some further rounds from where it points (semi-amortized inference) close it.

    Parameters
    ----------
    model : fitted system or model
        `BinarySparseCoding`, `LinearGaussian`, ``generalized-factor-analysis``, a machine of two blocks with binary
        hidden units such as ``rbm`` (its bound is one of log p up to log Z).
    hidden : sequence of int in [1, inf), default ()
        Units of the hidden layers; none makes it an affine map, of which binary means are the sigmoid.
    learn : {"bound", "regression"}, default "bound"
    max_iter : int, in [1, inf), default 500
        Steps of L-BFGS over all rows at most.
    tol : float, in [0, inf), default 1e-9
        End when a step gained no more than this per row.
    seed : int, default 0
        Of the first weights.

    Attributes
    ----------
    network_ : MLPModel
    history_ : list of float
        What each step has reached, per row: the bound in nats, or minus the loss of the regression.

    Notes
    -----
    A regression is as good as its targets: where one more round of the iterations still raises the bound it warns. A
    network knows the rows that it was trained on; on rows from elsewhere the gap grows, and `amortization_gap` of them
    shows it. A bound with several optima draws the network to one between them for regression, to one of them for the
    bound. Cost of a step: a pass there and back over the network, and one evaluation of all bounds.

    Source: Goodfellow, Bengio and Courville (2016), section 19.5; Gershman and Goodman (2014), "Amortized inference in
    probabilistic reasoning"; Kim, Wiseman, Miller, Sontag and Rush (2018), "Semi-amortized variational autoencoders".

    Examples
    --------
    >>> from gnomon.inference.exact.linear_gaussian import LinearGaussian
    >>> model = LinearGaussian([[1.0], [2.0]])
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> amortized = AmortizedInference(model).fit(X)
    >>> bool(np.abs(amortized.transform(X) - model.transform(X)).max() < 1e-4)
    True
    """

    def __init__(
        self, model: Any, hidden: Sequence[int] = (), *, learn: Literal["bound", "regression"] = "bound",
        max_iter: int = 500, tol: float = 1e-9, seed: int = 0,
    ) -> None:  # fmt: skip
        if learn not in ("bound", "regression"):
            raise UserValueError.must("learn", "be bound or regression", learn)
        check_layer_sizes(hidden)
        if how_many(max_iter, "max_iter") < 1:
            raise UserValueError.must("max_iter", "be at least 1", max_iter)
        if not in_interval(float(floats(tol, "tol")), "[0, inf)"):
            raise UserValueError.must("tol", "be in [0, inf)", tol)
        self.bounds: RowBounds = rows_of(getattr(model, "model_", model))
        self.hidden, self.learn, self.max_iter, self.tol, self.seed = tuple(hidden), learn, max_iter, tol, seed

    def fit(self, X: ArrayLike) -> Self:
        """Train the network on rows.

        Warns
        -----
        UserWarning
            Targets of a regression that are not converged.
        """
        x = self.bounds.check(X)
        if not len(x):
            raise UserValueError("X must have at least 1 row, got 0", "X")
        target = self._target(x) if self.learn == "regression" else None
        network = self._network(x)
        rows, parameters = torch.from_numpy(x), list(network.parameters())

        def reached(flat: Floats) -> tuple[float, Floats]:
            torch.nn.utils.vector_to_parameters(torch.from_numpy(flat), parameters)
            out = network.outputs(rows)
            free = out.detach().numpy()
            value, slope = self.bounds.climb(x, free) if target is None else self.bounds.lesson(target, free)
            slopes = torch.autograd.grad(out, parameters, torch.from_numpy(np.ascontiguousarray(slope / len(x))))
            mean = float(value.mean())
            return (mean if np.isfinite(mean) else -np.inf), torch.cat([one.ravel() for one in slopes]).numpy()

        at = torch.nn.utils.parameters_to_vector(parameters).detach().numpy().copy()
        memory, self.history_ = LimitedMemory(), []
        for _ in range(self.max_iter):
            before, after, at = memory.ascend(at, reached)
            self.history_.append(after)
            if after - before <= self.tol:
                break
        torch.nn.utils.vector_to_parameters(torch.from_numpy(at), parameters)
        self.network_ = network
        return self

    def _target(self, x: Floats) -> Floats:
        """Free parameters of the q that the iterations end with."""
        settled = self.bounds.settled(x)
        more = self.bounds.refined(x, settled, 1)
        left = float((self.bounds.climb(x, more)[0] - self.bounds.climb(x, settled)[0]).mean())
        if left > UNSETTLED:
            what = f"the targets are not converged: one more round raises the bound by {left:.2g} nats per row"
            warnings.warn(f"{what}; learn='bound' needs none", UserWarning, stacklevel=3)
        return settled

    def _network(self, x: Floats) -> MLPModel:
        network = MLPModel(x.shape[1], self.bounds.width, self.hidden, Tanh(), 0.0, False, torch.float64)
        deviation = x.std(0)
        with torch.no_grad():
            network.shift.copy_(torch.from_numpy(x.mean(0)))
            network.scale.copy_(torch.from_numpy(np.where(deviation > 0, deviation, 1.0)))
            noise = Noise(self.seed, "amortized")
            for name, weight in network.named_parameters():
                first = noise.child(name).normal(tuple(weight.shape), like=weight) / weight.shape[-1] ** 0.5
                weight.copy_(first if weight.ndim > 1 else torch.zeros_like(weight))
        return network

    def _free(self, x: Floats, refine: int) -> Floats:
        if not hasattr(self, "network_"):
            raise UserTypeError("the network has not learned yet", "AmortizedInference", "call fit first")
        with torch.no_grad():
            free: Floats = self.network_.outputs(torch.from_numpy(x)).numpy()
        return self.bounds.refined(x, free, refine) if refine else free

    def infer(self, X: ArrayLike, *, refine: int = 0) -> dict[str, Array]:
        """Parameters of q(z | x) of each row, by name.

        Parameters
        ----------
        X : array of shape (n, d)
        refine : int, in [0, inf), default 0
            Rounds of the model's own iterations after the network: none of them lowers the bound.

        Returns
        -------
        dict of str to array
            ``mean`` (n, m), and ``covariance`` (n, m, m) of real latent variables.
        """
        return self.bounds.named(self._free(self.bounds.check(X), how_many(refine, "refine")))

    def transform(self, X: ArrayLike, *, refine: int = 0) -> Array:
        """Means of q(z | x), (n, m)."""
        return self.infer(X, refine=refine)["mean"]

    def elbo(self, X: ArrayLike, *, refine: int = 0) -> Floats:
        """The evidence lower bound of each row in nats (of an unnormalized machine up to log Z), (n,)."""
        x = self.bounds.check(X)
        return self.bounds.climb(x, self._free(x, refine))[0]

    def amortization_gap(self, X: ArrayLike, *, refine: int = 0, steps: int = 200) -> Floats:
        """How much higher the bound is after many further rounds from where the network points; never below 0.

        Parameters
        ----------
        X : array of shape (n, d)
        refine : int, default 0
            Rounds that are still the network's.
        steps : int, in [1, inf), default 200
            Rounds after these.

        Returns
        -------
        array of shape (n,)
            Nats.
        """
        x = self.bounds.check(X)
        free = self._free(x, refine)
        best = self.bounds.refined(x, free, doable(steps, "steps", least=1))
        return np.asarray(self.bounds.climb(x, best)[0] - self.bounds.climb(x, free)[0])
