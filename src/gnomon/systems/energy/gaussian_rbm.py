"""The restricted Boltzmann machine with real visible and binary hidden units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike

from gnomon import contracts
from gnomon.contracts import Array, State
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Real
from gnomon.distributions.layers import exp
from gnomon.distributions.units import BernoulliUnits, CenteredScaledGaussianUnits
from gnomon.errors import UserValueError
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.energy._machine import StandardizedMachine, TwoLayerMachine
from gnomon.systems.energy._updates import UpdatedByChains
from gnomon.systems.energy.links import DenseLink
from gnomon.systems.energy.real_rows import RealRowsMachine

__all__ = ["GaussianRBM", "GaussianRBMModel"]

LAYERS = ("visible_bias", "visible_log_precision", "hidden_bias")


class GaussianRBMModel(RealRowsMachine, UpdatedByChains):
    r"""E(v, h) = sum_i beta_i (v_i - a_i)^2 / 2 - (beta v)^T W h - sum_j (b_j - q_j) h_j over v in R^d, h in {0,1}^m.

    Then p(v | h) = N(a + W h, diag(1 / beta)) and p(h_j = 1 | v) = sigmoid(b_j - q_j + sum_i v_i beta_i W_ij). q is 0,
    or with `quadratic` q_j = sum_i beta_i W_ij^2 / 2: then at a = 0 a unit that has the others' columns of W at right
    angles is on with the chance sigmoid(b_j), however long its own column.

    Parameters
    ----------
    n_visible, n_hidden : int
    dtype : torch.dtype
    quadratic : bool
    variance, spread, floor
        As of `RealRowsMachine`.

    Notes
    -----
    As a machine of layers it has the couplings beta W and the biases b - q; gradients come back by the chain rule.
    """

    weight: torch.nn.Parameter
    visible_bias: torch.nn.Parameter
    visible_log_precision: torch.nn.Parameter
    hidden_bias: torch.nn.Parameter

    def __init__(
        self,
        n_visible: int,
        n_hidden: int,
        dtype: torch.dtype = torch.float32,
        *,
        variance: Literal["diagonal", "scalar", "fixed"] = "diagonal",
        quadratic: bool = False,
        spread: ArrayLike | None = None,
        floor: float = 0.0,
    ) -> None:
        units = {"visible": CenteredScaledGaussianUnits(n_visible), "hidden": BernoulliUnits(n_hidden)}
        links = [DenseLink("visible", "hidden", name="")]
        super().__init__(units, links, dtype=dtype, variance=variance, spread=spread, floor=floor)
        self.quadratic = quadratic

    @classmethod
    def of(
        cls,
        weight: ArrayLike,
        visible_bias: ArrayLike,
        hidden_bias: ArrayLike,
        precision: ArrayLike = 1.0,
        *,
        quadratic: bool = False,
    ) -> GaussianRBMModel:
        """The model with these parameters in float64; one precision, or one for each column.

        Raises
        ------
        UserValueError
            Precisions that are not above 0, or a whole matrix of them.
        """
        beta = np.asarray(precision, np.float64)
        if beta.ndim > 1:
            what = f"precision must be a number or one for each column, got an array of shape {beta.shape}"
            raise UserValueError(what, "precision", "visible units are independent given h: give the diagonal")
        if not (np.isfinite(beta) & (beta > 0)).all():
            what = f"precision must be finite and above 0, got {beta.min():g}: the density cannot be normalized"
            raise UserValueError(what, "precision")
        W = np.asarray(weight, np.float64)
        kind: Literal["diagonal", "scalar"] = "diagonal" if beta.ndim else "scalar"
        model = cls(W.shape[0], W.shape[1], torch.float64, variance=kind, quadratic=quadratic)
        with torch.no_grad():
            values = (W, visible_bias, np.log(np.atleast_1d(beta)), hidden_bias)
            for name, value in zip(("weight", *LAYERS), values, strict=True):
                model.get_parameter(name).copy_(torch.as_tensor(np.asarray(value, np.float64)))
        return model

    # --- as a machine of layers ---------------------------------------------------------------------------------------

    def _mapped(self, own: Mapping[str, Any]) -> dict[str, Any]:
        found = super()._mapped(own)
        if not self.quadratic:
            return found
        return found | {"hidden_bias": own["hidden_bias"] - 0.5 * (found["weight"] * own["weight"]).sum(0)}

    def _pulled(self, found: dict[str, Array], state: State) -> dict[str, Array]:
        if not self.quadratic:
            return super()._pulled(found, state)
        own = self._unmapped(state)
        by_bias = own["weight"] * found["hidden_bias"]
        half = 0.5 * (exp(own["visible_log_precision"])[:, None] * own["weight"] * by_bias).sum(1)
        by_log = found["visible_log_precision"] + half  # the base takes by_bias off W as if q were twice as much by it
        return super()._pulled(found | {"weight": found["weight"] - by_bias, "visible_log_precision": by_log}, state)

    def compiled(self) -> bool:
        """Not with the quadratic term."""
        return not self.quadratic and super().compiled()


class GaussianRBM(StandardizedMachine, TwoLayerMachine):
    r"""Restricted Boltzmann machine of real columns and binary hidden units: a mixture of 2^m normal densities.

    :math:`E(v, h) = \frac12 \sum_i \beta_i (v_i - a_i)^2 - \sum_{ij} v_i \beta_i W_{ij} h_j - b^T h`, so that
    :math:`p(v | h) = N(a + W h, \mathrm{diag}(1 / \beta))`. Means, couplings and (log) precisions are learned by the
    gradient of the log-likelihood; the objective says where the model's side of it comes from.

    Attributes
    ----------
    weights_ : array of shape (n_features, n_hidden)
        By how much each hidden unit moves the mean of each column, in the columns' own units.
    visible_bias_ : array of shape (n_features,)
        Mean of the columns where all hidden units are off, in their own units.
    precision_ : array of shape (n_features,)
        1 / variance of each column given the hidden units, in its own units.
    hidden_bias_ : array of shape (n_hidden,)
    history_ : dict of lists
        By epoch: ``energy_gap`` of the last batch (data minus chains, nats; not the likelihood) or
        ``negative_log_likelihood`` of the epoch's batches, and ``gradient_norm``.

    Notes
    -----
    Scores are densities of the columns in their own units, also where the fit standardizes them: `log_partition` holds
    the change of units, so that log p(x) = -energy(x) - log Z. The density is exact up to 20 hidden units. With
    ``quadratic`` the energy holds :math:`\frac12 \sum_j h_j \sum_i \beta_i W_{ij}^2` besides, which keeps units whose
    columns of W grow from being on for every row: the same family of densities, another way through it. Precisions
    have a limit: gradients grow with them, and the density of a column that takes few values would grow without bound.
    Cost per update O(batch d m k). Sources: Welling, Rosen-Zvi and Hinton (2004); Cho, Ilin and Raiko (2011) for
    learned log precisions; Goodfellow, Bengio and Courville (2016), section 20.5.1.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(400, 3)) + 4 * random.integers(0, 2, (400, 1))
    >>> machine = GaussianRBM(n_hidden=2, epochs=60, random_state=0).fit(X)
    >>> machine.score(X) > -7, machine.transform(X).shape
    (True, (400, 2))
    """

    name: ClassVar[str] = "gaussian-rbm"
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")
    model_class: ClassVar[type] = GaussianRBMModel
    domain = Real(largest=1e100)

    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units.")] = 64
    variance: Annotated[
        Literal["diagonal", "scalar", "fixed"],
        Doc(
            "Of p(v | h): ``diagonal`` learns one for each column, ``scalar`` one for all; ``fixed`` holds each at "
            "that of its column in the training data."
        ),
    ] = "diagonal"
    quadratic: Annotated[
        bool, Doc("Whether the energy has the term of h and W squared that keeps units from being on for every row.")
    ] = False
    floor: Annotated[
        float,
        "(0, inf)",
        Doc("Least standard deviation of a column given the hidden units, in units of that of the training data."),
    ] = 0.1
    objective: str | Recipe = "cd"
    epochs: int = 100
    batch_size: int | None = 50
    learning_rate: float = 0.001
    optimizer: str | Recipe = "adam"

    def make(self, n_features: int, dtype: str, mean: list[float], deviation: list[float]) -> GaussianRBMModel:
        return GaussianRBMModel(
            n_features, self.n_hidden, getattr(torch, dtype), variance=self.variance, quadratic=self.quadratic,
            spread=np.ones(n_features) if self._scales() else np.array(deviation), floor=self.floor,
        )  # fmt: skip

    def initialize(self, model: GaussianRBMModel, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, self._start_mean())

    # --- what was learned ---------------------------------------------------------------------------------------------

    @property
    def weights_(self) -> Array:
        """By how much each hidden unit moves the mean of each column."""
        return self.model_.state()["weight"] * self._unit()[:, None]

    @property
    def visible_bias_(self) -> Array:
        """Means of the columns where all hidden units are off."""
        return self._unscaled(self.model_.state()["visible_bias"])

    @property
    def precision_(self) -> Array:
        """1 / variance of each column given the hidden units."""
        return np.exp(self.model_.state()["visible_log_precision"]) / self._unit() ** 2

    @property
    def hidden_bias_(self) -> Array:
        """Biases of the hidden units."""
        return self.model_.state()["hidden_bias"]
