"""The gated restricted Boltzmann machine: hidden units that hold how one image of a pair becomes the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array, Distribution
from gnomon.data.examples import Examples
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.units import BernoulliUnits, Units
from gnomon.errors import UserValueError
from gnomon.inference.exact.modes import most_probable
from gnomon.inference.exact.of_block import posterior_of_block
from gnomon.recipes.fields import Doc
from gnomon.system.latent_codes import LatentCodes, check_method
from gnomon.systems.energy.conditional_rbm import EXACT_BITS, UNITS, ConditionalRBM
from gnomon.systems.energy.conditioned import CONDITION, ConditionedMachine
from gnomon.systems.energy.links import Link
from gnomon.systems.energy.three_way import FactoredLink, ThreeWayLink

__all__ = ["GatedRBM", "GatedRBMModel"]

FIRST_WEIGHTS, FIRST_FILTERS = 0.01, 0.1
"""Standard deviations of the first weights of triples, and of the first filters, three of which make a weight."""


class GatedRBMModel(ConditionedMachine):
    r"""E(y, h; x) = -w(y) - c^T h - \sum_{ijk} W_{ijk} x_i y_j h_k: given x an RBM of y with the weights sum_i x_i W_i.

    Parameters
    ----------
    n_features, n_outputs, n_hidden : int
    n_factors : int or None
        None: W is a tensor of its own, ``weight``; else :math:`W_{ijk} = \sum_f A_{if} B_{jf} C_{kf}` of so many
        factors, ``first``, ``second`` and ``third``.
    kind : {"bernoulli", "gaussian"}
        Units of y: w(y) = b^T y of bits, -sum_j exp(log_precision_j) (y_j - b_j)^2 / 2 of real numbers.
    dtype : torch.dtype
    """

    def __init__(
        self, n_features: int, n_outputs: int, n_hidden: int, n_factors: int | None, kind: str,
        dtype: torch.dtype = torch.float32,
    ) -> None:  # fmt: skip
        units: dict[str, Units] = {"visible": UNITS[kind](n_outputs), "hidden": BernoulliUnits(n_hidden)}
        link: Link = ThreeWayLink(CONDITION, "visible", "hidden", name="")
        if n_factors is not None:
            link = FactoredLink(CONDITION, "visible", "hidden", n_factors, name="")
        super().__init__(n_features, units, [link], moved=(), dtype=dtype)


class GatedRBM(LatentCodes, ConditionalRBM):
    r"""Gated (three-way) restricted Boltzmann machine: hidden bits, mapping units, hold how x becomes y.

    :math:`p(y | x) \propto \sum_h \exp(w(y) + c^T h + \sum_{ijk} W_{ijk} x_i y_j h_k)`, the conditional machine: x is
    given, and has no distribution. Each mapping unit that is on adds a linear map from x to y, so that pairs of images,
    such as two frames of a film, are told apart by what happens between them and not by what they show. With
    ``n_factors`` the tensor is a sum of products of three filters, :math:`W_{ijk} = \sum_f A_{if} B_{jf} C_{kf}`.

    Attributes
    ----------
    history_ : dict of lists
        By epoch what the objective watches, and ``gradient_norm``.

    Notes
    -----
    Given x it is a restricted machine with the weights :math:`W(x) = \sum_i x_i W_i` and a log Z of its own; where x is
    the same for all rows it is that machine. Trained and judged as `conditional-rbm` is. Columns of x, and real columns
    of y, are brought to mean 0 and deviation 1 first. The tensor has d t m numbers and an update costs
    O(batch d t m k), for d columns of x, t of y and m mapping units; with f factors both are linear in d + t + m. Only
    products of the three filters of a factor count: one of them may grow as another shrinks.

    References
    ----------
    Memisevic and Hinton (2007), "Unsupervised learning of image transformations"; Memisevic and Hinton (2010),
    "Learning to represent spatial transformations with factored higher-order Boltzmann machines".

    Examples
    --------
    The second row of a pair is the first, or it the other way round; the mapping units hold which.

    >>> random = np.random.default_rng(0)
    >>> X = (random.random((300, 4)) < 0.5).astype(float)
    >>> turned = random.random(300) < 0.5
    >>> Y = np.where(turned[:, None], X[:, ::-1], X)
    >>> machine = GatedRBM(n_hidden=4, outputs="bernoulli", learning_rate=0.05, random_state=0).fit(X, Y)
    >>> codes = machine.transform([[1, 0, 0, 0], [1, 0, 0, 0]], [[1, 0, 0, 0], [0, 0, 0, 1]])
    >>> machine.predict([[0, 1, 0, 0], [0, 1, 0, 0]], codes).round().tolist()
    [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    """

    name: ClassVar[str] = "gated-rbm"
    tasks: ClassVar[tuple[str, ...]] = ("regress",)
    model_class: ClassVar[type] = GatedRBMModel

    n_hidden: Annotated[int, "[1, inf)", Doc("Mapping units.")] = 10
    n_factors: Annotated[
        Annotated[int, "[1, inf)"] | None,
        Doc("Filters of x, of y and of the mapping units; None for a weight of each triple."),
    ] = None

    def make(self, n_features: int, dtype: str, n_outputs: int | None, **_: Any) -> GatedRBMModel:
        kind = getattr(torch, dtype)
        return GatedRBMModel(n_features, n_outputs or 1, self.n_hidden, self.n_factors, self.outputs, kind)

    def initialize(self, model: Any, examples: Examples, noise: contracts.Noise) -> None:
        scale = FIRST_WEIGHTS if self.n_factors is None else FIRST_FILTERS
        model.initialize(noise, np.array(self.arguments_["mean"]), scale=scale)

    @property
    def _n_features_out(self) -> int:
        return int(self.model_.sizes["hidden"])

    @property
    def filters_(self) -> Mapping[str, Array]:
        """Of a factored machine ``first``, ``second`` and ``third``: of x, of y and of the mapping units."""
        state = self.model_.state()
        return {name: state[name] for name in ("first", "second", "third") if name in state}

    def transform(self, X: Any, y: Any = None, *, method: Literal["mean", "map"] = "mean") -> Array:
        """P(h = 1 | x, y) of the mapping units, or their most probable states; without y given x alone.

        Parameters
        ----------
        X : array of shape (n, n_features)
        y : array of shape (n,) or (n, t), optional
            Left out it is summed out for the mean, and most probable together with h otherwise.
        method : {"mean", "map"}, default "mean"
            ``map`` without y is exact where the smaller of the two layers can be enumerated, and refused elsewhere.

        Returns
        -------
        array of shape (n, n_hidden)
        """
        if y is None:
            return super().transform(X, method=method)
        check_method(method)
        x, outcomes = self._pairs(X, y)
        units: Any = self.model_.given(x).conditional("hidden", {"visible": outcomes})
        return np.asarray(units.mean if method == "mean" else units.mode)

    def posterior(self, X: Any, y: Any = None) -> Distribution:
        """p(h | x, y) of the mapping units, exact; without y p(h | x), with y summed out.

        The latter is exact with up to 12 hidden units, or outputs of 0 and 1; beyond that independent units stand for
        it that have the means of chains.

        Parameters
        ----------
        X : array of shape (n, n_features)
        y : array of shape (n,) or (n, t), optional

        Returns
        -------
        Distribution
            Of n rows of n_hidden bits: ``mean``, ``log_prob`` and ``sample``.
        """
        if y is None:
            return super().posterior(X)
        x, outcomes = self._pairs(X, y)
        return self.model_.given(x).conditional("hidden", {"visible": outcomes})

    def latent_posterior(self, rows: Array) -> Distribution:
        if not self.model_.exact:
            return Bernoulli.of(self.latent_means(rows))
        return posterior_of_block(self.model_.released, {CONDITION: self._scaled(rows)}, "hidden", limit=EXACT_BITS)

    def latent_means(self, rows: Array) -> Array:
        return self._means(self._scaled(rows), "hidden")

    def latent_modes(self, rows: Array) -> Array:
        return most_probable(self.model_.released, {CONDITION: self._scaled(rows)}, limit=EXACT_BITS)["hidden"]

    def predict(self, X: Any, codes: Any = None) -> Array:
        """E[y | x], shape (n,) or (n, t): of bits the probabilities of a 1.

        Parameters
        ----------
        X : array of shape (n, n_features)
        codes : array of shape (n, n_hidden) or (n_hidden,), optional
            States or means of the mapping units that `transform` has found in another pair: what happened there is done
            to X, E[y | x, h].

        Raises
        ------
        UserValueError
            Codes of another shape, or outside [0, 1].
        """
        check_is_fitted(self)
        if codes is None:
            found: Array = super().predict(X)
            return found
        rows = self._scaled(self._rows(X))
        shape = (len(rows), self._n_features_out)
        try:
            hidden = np.broadcast_to(np.asarray(codes, rows.dtype), shape)
        except ValueError:
            what = f"codes must be of shape {shape}, got {np.shape(codes)}"
            raise UserValueError(what, "codes", "give what transform(X, y) answers") from None
        if not ((hidden >= 0) & (hidden <= 1)).all():
            raise UserValueError("codes must be in [0, 1]", "codes", "give what transform(X, y) answers")
        return self._unscaled_y(self.model_.given(rows).conditional("visible", {"hidden": hidden}).mean)
