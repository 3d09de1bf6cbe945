"""The restricted Boltzmann machine of real columns whose hidden units are switches with real amplitudes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array, Path, State
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Real
from gnomon.distributions.layers import LOG_2_PI, exp
from gnomon.distributions.spike_units import PrecisionGaussianUnits, SpikeAndSlabUnits
from gnomon.errors import Diverged, UserValueError
from gnomon.inference.exact.enumeration import states
from gnomon.numeric.ops import concatenate, logsumexp
from gnomon.numeric.tensors import detached
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.energy._machine import DensityMachine, StandardizedMachine
from gnomon.systems.energy._normalizable import Normalizability, normalizability
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import Link, Own

__all__ = ["SpikeAndSlabLink", "SpikeAndSlabRBM", "SpikeAndSlabRBMModel"]

TAKEN = 0.9
"""Part of Lambda that all spikes together may take away under the safeguard "weights"."""
LEAST_LOG_PHI = -30.0
"""Log of a Phi that adds nothing, and still can be scaled."""
LEAST_LOG_ALPHA = -10.0
"""Where slabs are so wide that steps of the weights are too long for them."""
EXACT_SPIKES = 10
"""Spikes of which all states are visited for an exact density, each a determinant."""


class SpikeAndSlabLink(Link):
    """Weights between x and the products s h, and a precision Phi that each spike h adds to that of x.

    Parameters
    ----------
    a, b : str
        Layers of `PrecisionGaussianUnits` and of `SpikeAndSlabUnits`.
    slabs : int
        Amplitudes of each spike.
    name : str, optional
        As in `Link`.
    """

    def __init__(self, a: str, b: str, slabs: int = 1, *, name: str | None = None) -> None:
        self.slabs = slabs
        super().__init__(a, b, name=name)

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Weights (d, n slabs), precisions (d, n)."""
        d, n = sizes[self.ends[0]] // 2, sizes[self.ends[1]] // (self.slabs + 1)
        return {"weight": (d, n * self.slabs), "phi": (d, n)}

    def field(self, block: str, x: Array, own: Own) -> Array:
        """[x W, -x^2 Phi / 2], or [W (s h), Phi h]."""
        W, phi = own["weight"], own["phi"]
        if block == self.ends[1]:
            return concatenate([x[:, : len(W)] @ W, x[:, len(W) :] @ phi], axis=1)
        k = W.shape[1]
        return concatenate([x[:, :k] @ W.T, x[:, k:] @ phi.T], axis=1)

    def statistics(self, left: Array, right: Array, weight: Array, own: Own) -> dict[str, Array]:
        """Two weighted sums of outer products."""
        d, k = own["weight"].shape
        left = left * weight[:, None]
        return {"weight": left[:, :d].T @ right[:, :k], "phi": left[:, d:].T @ right[:, k:]}

    def matrix(self, own: Own) -> Array:
        """W and Phi on the diagonal of blocks."""
        W, phi = own["weight"], own["phi"]
        return concatenate([concatenate([W, 0 * phi], axis=1), concatenate([0 * W, phi], axis=1)])

    def pull(self, slope: Array, own: Own) -> dict[str, Array]:
        """The blocks of the diagonal."""
        d, k = own["weight"].shape
        return {"weight": slope[:d, :k], "phi": slope[d:, k:]}


class SpikeAndSlabRBMModel(LayeredMachine):
    r"""Real x, spikes h of 0 and 1 and K real slabs s for each, with the energy

    .. math:: E = \tfrac12 x^T (\Lambda + \textstyle\sum_i \Phi_i h_i) x - a^T x - \sum_{ik} x^T W_{ik} s_{ik} h_i
        + \tfrac12 \sum_{ik} \alpha_{ik} s_{ik}^2 - \sum_{ik} \alpha_{ik} \mu_{ik} s_{ik} h_i
        + \sum_{ik} \alpha_{ik} \mu_{ik}^2 h_i - \sum_i b_i h_i .

    Lambda and the Phi_i are diagonal. Spikes and slabs are independent given x, and the columns given both. With the
    slabs summed out p(x | h) is normal with precision
    :math:`\Lambda + \sum_i h_i (\Phi_i - \sum_k W_{ik} W_{ik}^T / \alpha_{ik})`.

    Parameters
    ----------
    n_visible, n_hidden, slabs : int
    dtype : torch.dtype
    safeguard : {"weights", "phi", "none"}
        What `confine` does after an update: shorten weights, where all spikes together leave less than a tenth of
        Lambda, scale Phi up until no spike lowers a precision, or refuse parameters that cannot be normalized.
    spread : array of shape (n_visible,), optional
        Standard deviations of the data's columns, of which the base of annealing has its precisions; 1 by default.
    floor : float in (0, inf), optional
        Least standard deviation, in units of `spread`, of which Lambda or a Phi alone makes a column; none by default.

    Notes
    -----
    Parameters ``phi``, ``visible_log_precision`` and ``hidden_log_precision`` are logs of Phi, Lambda and alpha. A
    state of the hidden layer is [s h, h] (`SpikeAndSlabUnits`).
    """

    weight: torch.nn.Parameter
    phi: torch.nn.Parameter
    visible_bias: torch.nn.Parameter
    visible_log_precision: torch.nn.Parameter
    hidden_bias: torch.nn.Parameter
    hidden_mean: torch.nn.Parameter
    hidden_log_precision: torch.nn.Parameter

    def __init__(
        self,
        n_visible: int,
        n_hidden: int,
        slabs: int = 1,
        dtype: torch.dtype = torch.float32,
        *,
        safeguard: Literal["weights", "phi", "none"] = "weights",
        spread: ArrayLike | None = None,
        floor: float = 0.0,
    ) -> None:
        units = {"visible": PrecisionGaussianUnits(n_visible), "hidden": SpikeAndSlabUnits(n_hidden, slabs)}
        super().__init__(units, [SpikeAndSlabLink("visible", "hidden", slabs, name="")], dtype=dtype)
        self.safeguard, self.floor = safeguard, floor
        self.spread = np.ones(n_visible) if spread is None else np.asarray(spread, np.float64)

    @classmethod
    def of(
        cls,
        weight: ArrayLike,
        phi: ArrayLike,
        precision: ArrayLike,
        slab_precision: ArrayLike,
        slab_mean: ArrayLike,
        bias: ArrayLike,
        visible_bias: ArrayLike = 0.0,
    ) -> SpikeAndSlabRBMModel:
        """The model of W (d, n K), Phi (d, n), Lambda (d,), alpha and mu (n K,), b (n,) and a (d,), in float64.

        Raises
        ------
        UserValueError
            A Lambda or alpha that is not above 0, a Phi below 0.
        """
        W, phi = np.asarray(weight, np.float64), np.asarray(phi, np.float64)
        for name, value, least in (("precision", precision, 0.0), ("slab_precision", slab_precision, 0.0)):
            if not (np.asarray(value) > least).all():
                raise UserValueError(f"{name} must be above 0, got {np.min(value):g}", name)
        if not (phi >= 0).all():
            raise UserValueError(f"phi must be at least 0, got {phi.min():g}", "phi")
        model = cls(W.shape[0], phi.shape[1], W.shape[1] // phi.shape[1], torch.float64)
        with np.errstate(divide="ignore"):
            values = {
                "weight": W, "phi": np.log(phi), "visible_bias": visible_bias, "hidden_bias": bias,
                "visible_log_precision": np.log(precision), "hidden_mean": slab_mean,
                "hidden_log_precision": np.log(slab_precision),
            }  # fmt: skip
        with torch.no_grad():
            for name, value in values.items():
                model.get_parameter(name).copy_(torch.as_tensor(np.asarray(value, np.float64)))
        return model

    def initialize(self, noise: contracts.Noise, mean: ArrayLike | None = None, *, scale: float = 0.5) -> Self:
        """Random weights behind slabs so narrow that half of the spikes make a quarter of the columns' precisions.

        Weights have the deviation `scale` in units of the columns' spread; steps of one length then change weights,
        precisions and biases alike by little. Spikes are on for every second row or so; mu is 0.
        """
        (d, n), slabs = self.phi.shape, self.weight.shape[1] // self.phi.shape[1]
        drawn = noise.child("weight").normal(tuple(self.weight.shape), like=self.spread)
        log_precision = -2 * np.log(self.spread)
        values = {
            "weight": scale * drawn / self.spread[:, None],
            "phi": np.log(0.5 / n) + np.repeat(log_precision[:, None], n, axis=1),
            "visible_bias": np.zeros(d) if mean is None else np.asarray(mean) / self.spread**2,
            "visible_log_precision": np.log(0.75) + log_precision,
            "hidden_bias": np.full(n, 0.25 * (d - 1) / n),
            "hidden_mean": np.zeros(n * slabs),
            "hidden_log_precision": np.full(n * slabs, np.log(2 * scale**2 * d * n * slabs)),
        }
        with torch.no_grad():
            for name, value in values.items():
                self.get_parameter(name).copy_(torch.from_numpy(value))
        self.confine()
        return self

    # --- as a machine of layers ---------------------------------------------------------------------------------------

    def _arrays(self, state: State) -> Mapping[str, Any]:
        return self._mapped(super()._arrays(state))

    @staticmethod
    def _mapped(own: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of the machine of layers."""
        return {**own, "phi": exp(own["phi"])}

    def layered(self, dtype: torch.dtype | None = None) -> LayeredMachine:
        """The same distribution with Phi itself as a parameter, computed in this precision."""
        dtype = dtype or self.weight.dtype
        machine = LayeredMachine(self.units, self.links, dtype=dtype).to(self.device)
        with torch.no_grad():
            own = {name: value.to(dtype) for name, value in self.named_parameters()}
            for name, value in self._mapped(own).items():
                machine.get_parameter(name).copy_(value)
        return machine

    def _pulled(self, found: dict[str, Array], state: State) -> dict[str, Array]:
        return {**found, "phi": found["phi"] * detached(self._arrays(state)["phi"])}

    def base(self, mean: Array | None = None) -> LayeredMachine:  # type: ignore[override]
        """The machine without coupling whose visible units have these means and the spread of the data."""
        found = self.layered().base(None)
        with torch.no_grad():
            found.get_parameter("visible_log_precision").copy_(torch.from_numpy(-2 * np.log(self.spread)))
            if mean is not None:
                found.get_parameter("visible_bias").copy_(torch.from_numpy(np.asarray(mean) / self.spread**2))
        return found

    def bridge(self, base: LayeredMachine, eta: float) -> LayeredMachine:  # type: ignore[override]
        """p_base**(1 - eta) * p**eta on both layers, a machine of layers."""
        return self.layered().bridge(base, eta)

    def path(self, base: LayeredMachine, etas: Array, keep: Sequence[str]) -> Path:
        """The bridge."""
        return self.layered().path(base, etas, keep)

    # --- the exact density of few spikes ------------------------------------------------------------------------------

    def _double(self) -> dict[str, NDArray[np.float64]]:
        """The parameters in float64, with Phi itself and matrices W of shape (n, d, K)."""
        own = {name: value.detach().double().cpu().numpy() for name, value in self.named_parameters()}
        d, n = own["phi"].shape
        own = self._mapped(own)
        return own | {"each": own["weight"].T.reshape(n, -1, d).swapaxes(1, 2)}

    def _changes(self) -> NDArray[np.float64]:
        """By what each spike changes the precision of x, (n, d, d)."""
        own = self._double()
        alpha = np.exp(own["hidden_log_precision"]).reshape(len(own["each"]), 1, -1)
        changes: NDArray[np.float64] = -(own["each"] / alpha) @ own["each"].swapaxes(1, 2)
        diagonal = np.arange(len(own["phi"]))
        changes[:, diagonal, diagonal] += own["phi"].T
        return changes

    def check_normalizable(self) -> Normalizability:
        """The smallest eigenvalue among the precisions of p(x | h): of all states of up to 12 spikes, else bounds."""
        return normalizability(np.exp(self._double()["visible_log_precision"]), self._changes())

    def log_partition(self) -> float:
        """Exact log Z: a normal integral for each state of the spikes, of which there are 10 at most.

        Raises
        ------
        UserValueError
            With more spikes, or where the density cannot be normalized.
        """
        n = self.units["hidden"].n
        if n > EXACT_SPIKES:
            what = f"an exact log Z visits 2^{n} states of the spikes, above the limit of 2^{EXACT_SPIKES}"
            raise UserValueError(what, "n_hidden", "estimate it by annealed importance sampling")
        found = self.check_normalizable()
        if not found.normalizable:
            raise UserValueError(
                f"log Z does not exist, the density {found}", "parameters", "fit with safeguard='weights'"
            )
        own, changes, h = self._double(), self._changes(), states(n)
        alpha, mu = np.exp(own["hidden_log_precision"]), own["hidden_mean"]
        slabs = alpha.size // n
        precision = np.diag(np.exp(own["visible_log_precision"])) + np.tensordot(h, changes, 1)
        linear = own["visible_bias"] + np.repeat(h, slabs, axis=1) * mu @ own["weight"].T
        fit = (linear * np.linalg.solve(precision, linear[:, :, None])[:, :, 0]).sum(1)
        log_normal = 0.5 * (fit + len(own["phi"]) * LOG_2_PI - np.linalg.slogdet(precision)[1])
        bias = own["hidden_bias"] - 0.5 * (alpha * mu * mu).reshape(n, slabs).sum(1)
        amplitudes = 0.5 * (LOG_2_PI - own["hidden_log_precision"]).sum()
        return float(logsumexp(h @ bias + log_normal) + amplitudes)

    @available_if(lambda self: isinstance(self, type) or self.units["hidden"].n <= EXACT_SPIKES)
    def log_prob(self, x: Array) -> Array:
        """Exact log p(x) in nats, of up to 10 spikes."""
        return -self.energy(x) - self.log_partition()

    # --- what keeps it normalizable -----------------------------------------------------------------------------------

    def _shortfall(self) -> tuple[torch.Tensor, torch.Tensor]:
        r"""By what factor r_i each Phi_i falls short of its slabs, and W alpha^-1/2 of shape (d, n, K).

        The largest eigenvalue of :math:`\alpha_i^{-1/2} W_i^T \Phi_i^{-1} W_i \alpha_i^{-1/2}`: no less than
        :math:`\Phi_i` are the slabs :math:`W_i \alpha_i^{-1} W_i^T` divided by it.
        """
        d, n = self.phi.shape
        scaled = self.weight.reshape(d, n, -1) * (-0.5 * self.hidden_log_precision).exp().reshape(n, -1)
        gram = torch.einsum("dnk,dn,dnl->nkl", scaled, (-self.phi).exp(), scaled)
        return (gram[:, 0, 0] if gram.shape[1] == 1 else torch.linalg.eigvalsh(gram)[:, -1]), scaled

    def _taken(self) -> tuple[torch.Tensor, torch.Tensor]:
        r"""Eigenvalues and vectors of what all slabs together take of Lambda, whatever Phi gives back.

        Of :math:`\Lambda^{-1/2} W \alpha^{-1} W^T \Lambda^{-1/2}`, in float64: below 1 no state of the spikes has a
        precision with an eigenvalue of 0 or less.
        """
        log_alpha, log_lambda = self.hidden_log_precision.double(), self.visible_log_precision.double()
        beside = (-0.5 * log_lambda).exp()[:, None] * self.weight.double() * (-0.5 * log_alpha).exp()
        values, vectors = torch.linalg.eigh(beside @ beside.T)
        return values, vectors

    def _shorten(self) -> None:
        """Weights shortened, in the directions alone in which all slabs together take more than 0.9 of Lambda."""
        values, vectors = self._taken()
        if float(values[-1]) <= TAKEN:
            return
        over = vectors[:, values > TAKEN]
        less = over * (1 - (TAKEN / values[values > TAKEN]).sqrt())
        root = (0.5 * self.visible_log_precision.double()).exp()[:, None]
        beside = self.weight.double() / root
        self.weight.copy_(root * (beside - less @ (over.T @ beside)))

    def confine(self) -> None:
        """Precisions back below the limit of `floor`, then the safeguard.

        Raises
        ------
        Diverged
            With the safeguard "none", where the density can no longer be normalized.
        """
        with torch.no_grad():
            if self.floor:
                limit = torch.from_numpy(-2 * np.log(self.floor * self.spread)).to(self.visible_log_precision)
                self.visible_log_precision.clamp_(max=limit)
                self.phi.clamp_(max=limit[:, None])
            self.phi.clamp_(min=LEAST_LOG_PHI)
            self.hidden_log_precision.clamp_(min=LEAST_LOG_ALPHA)
            if self.safeguard == "phi":
                self.phi.add_(self._shortfall()[0].clamp(min=1.0).log())
            elif self.safeguard == "weights":
                self._shorten()
            elif float(self._taken()[0][-1]) >= 1 and (found := self.check_normalizable()).normalizable is False:
                raise Diverged(
                    f"the density no longer exists, it {found}",
                    "safeguard",
                    "use safeguard='weights' or a lower learning rate",
                )


class SpikeAndSlabRBM(StandardizedMachine, DensityMachine):
    r"""Spike-and-slab restricted Boltzmann machine: hidden units that shape the covariance of real columns.

    Each hidden unit has a spike h of 0 or 1 and ``slab_dim`` real slabs s. With both summed out a row is one of 2^m
    normal densities, whose precision is :math:`\Lambda + \sum_i h_i (\Phi_i - \sum_k W_{ik} W_{ik}^T / \alpha_{ik})`:
    a unit that is on holds columns together. Gibbs sampling needs no matrix inverse, for spikes and slabs are
    independent given the row, and the columns given both.

    Attributes
    ----------
    weights_ : array of shape (n_features, n_hidden * slab_dim)
        By how much a slab of 1 pulls each column, in the model's units.
    spike_precision_ : array of shape (n_features, n_hidden)
        Phi: what each spike adds to the precision of each column, in the model's units.
    history_ : dict of lists
        By epoch: ``energy_gap`` of the last batch (data minus chains, nats; not the likelihood) and ``gradient_norm``.

    Notes
    -----
    Where spikes lower a precision too far the density cannot be normalized and chains run away. The safeguard
    ``weights`` shortens the weights after an update, in the directions in which all spikes together take more than
    0.9 of Lambda; ``phi`` scales Phi up until no spike lowers any precision, which suffices and is much stricter than
    need be (spikes tend to go out); ``none`` lets it be and ends the fit where the density no longer exists.
    `check_normalizable` says how far parameters are from there. The density is exact up to 10 hidden units. Cost per
    update O(batch d m slab_dim k + d^3).
    Sources: Courville, Bergstra and Bengio (2011), "A spike and slab restricted Boltzmann machine"; Courville,
    Desjardins, Bergstra and Bengio (2014), "The spike-and-slab RBM and extensions to discrete and sparse data
    distributions"; Goodfellow, Bengio and Courville (2016), section 20.5.2.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(400, 1)) * [1.0, 1.0, -1.0] + 0.3 * random.normal(size=(400, 3))
    >>> machine = SpikeAndSlabRBM(n_hidden=4, epochs=60, learning_rate=0.01, random_state=0).fit(X)
    >>> machine.check_normalizable().normalizable, machine.transform(X).shape
    (True, (400, 4))
    """

    name: ClassVar[str] = "spike-and-slab-rbm"
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")
    model_class: ClassVar[type] = SpikeAndSlabRBMModel
    domain = Real(largest=1e100)
    resamples_rows: ClassVar[bool] = True  # the default objective draws chains beside each row
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"safeguard": {"slab_dim": 1}}

    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units: spikes.")] = 64
    slab_dim: Annotated[int, "[1, inf)", Doc("Slabs behind each spike: a unit of K slabs holds K directions.")] = 1
    safeguard: Annotated[
        Literal["weights", "phi", "none"],
        Doc(
            "What keeps the density normalizable after each update: ``weights`` shortens them until all spikes "
            "together leave a tenth of Lambda, ``phi`` scales Phi up until no spike lowers a precision; ``none`` ends "
            "a fit whose parameters cannot be normalized."
        ),
    ] = "weights"
    codes: Annotated[
        Literal["spikes", "slabs", "mean", "rms"],
        Doc(
            "What `transform` gives: E[h | x], E[s h | x], or the mean or root mean square of the latter over the "
            "slabs of a spike."
        ),
    ] = "spikes"
    floor: Annotated[
        float,
        "(0, inf)",
        Doc("Least standard deviation of a column given the hidden units, in units of that of the training data."),
    ] = 0.1
    objective: str | Recipe = "cd"
    epochs: int = 50
    batch_size: int | None = 50
    learning_rate: float = 0.003
    optimizer: str | Recipe = "adam"

    def make(self, n_features: int, dtype: str, mean: list[float], deviation: list[float]) -> SpikeAndSlabRBMModel:
        return SpikeAndSlabRBMModel(
            n_features, self.n_hidden, self.slab_dim, getattr(torch, dtype), safeguard=self.safeguard,
            spread=np.ones(n_features) if self._scales() else np.array(deviation), floor=self.floor,
        )  # fmt: skip

    def initialize(self, model: SpikeAndSlabRBMModel, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, self._start_mean())

    # --- codes --------------------------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return self.n_hidden * (self.slab_dim if self.codes == "slabs" else 1)

    def transform(self, X: Any, *, method: Literal["mean", "map"] = "mean") -> Array:
        """What ``codes`` names of the expectations of spikes and slabs, or of their most probable values.

        Parameters
        ----------
        X : array of shape (n, n_features)
        method : {"mean", "map"}, default "mean"
            ``map`` takes the joint density of h and s, in which slabs behind spikes that are off are N(0, 1 / alpha).

        Returns
        -------
        array of shape (n, n_hidden), or (n, n_hidden * slab_dim) of ``slabs``
        """
        return super().transform(X, method=method)

    def latent_means(self, rows: Array) -> Array:
        return self._codes(super().latent_means(rows))

    def latent_modes(self, rows: Array) -> Array:
        return self._codes(super().latent_modes(rows))

    def _codes(self, states: Array) -> Array:
        """What ``codes`` names of states, or of means of states."""
        slabs, spikes = np.split(states, [self.n_hidden * self.slab_dim], axis=1)
        if self.codes in ("spikes", "slabs"):
            return spikes if self.codes == "spikes" else slabs
        grouped = slabs.reshape(len(slabs), self.n_hidden, self.slab_dim)
        return grouped.mean(2) if self.codes == "mean" else np.sqrt((grouped * grouped).mean(2))

    # --- what was learned ---------------------------------------------------------------------------------------------

    @property
    def weights_(self) -> Array:
        """W."""
        return self.model_.state()["weight"]

    @property
    def spike_precision_(self) -> Array:
        """Phi."""
        return np.exp(self.model_.state()["phi"])

    def check_normalizable(self) -> Normalizability:
        """The smallest eigenvalue among the precisions of p(x | h): of all states of up to 12 spikes, else bounds."""
        check_is_fitted(self)
        return self.model_.check_normalizable()
