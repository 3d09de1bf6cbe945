"""What the spike-and-slab machines share, of dense couplings and of kernels that move over an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array, State
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Real
from gnomon.distributions.layers import LOG_2_PI, exp
from gnomon.distributions.spike_units import PrecisionGaussianUnits, SpikeAndSlabUnits
from gnomon.errors import Diverged, UserValueError
from gnomon.evaluation.score import Score
from gnomon.inference.exact.cells import NormalCells
from gnomon.inference.exact.enumeration import states
from gnomon.numeric.ops import logsumexp
from gnomon.numeric.tensors import detached
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.energy._machine import DensityMachine, StandardizedMachine
from gnomon.systems.energy._normalizable import Normalizability, normalizability
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import Link
from gnomon.systems.energy.mapped import MappedMachine
from gnomon.systems.energy.spike_links import SpikeAndSlabLink
from gnomon.systems.energy.spike_path import SpikePath, SpikeWeights

__all__ = ["TAKEN", "Safeguard", "SpikeAndSlabModel", "SpikeAndSlabSystem"]

TAKEN = 0.9
"""Part of Lambda that all spikes together may take away under the safeguard "weights"."""
Safeguard = Literal["weights", "phi", "none"]
LEAST_LOG_PHI = -30.0
"""Log of a Phi that adds nothing, and still can be scaled."""
LEAST_LOG_ALPHA = -10.0
"""Where slabs are so wide that steps of the weights are too long for them."""
FACTORS = 1 << 26
"""Spikes times the cube of columns up to which spikes are annealed with the columns integrated out."""
SHORT: Mapping[str, Mapping[str, int]] = {
    "auto": {"schedule": 200}, "ais": {"schedule": 200}, "bracket": {"schedule": 200, "burn_in": 100},
}  # fmt: skip
"""By method, what suffices to anneal spikes alone."""
EXACT_SPIKES = 10
"""Spikes of which all states are visited for an exact density, each a determinant."""


class SpikeAndSlabModel(MappedMachine):
    r"""Base of the models of real x, spikes h of 0 and 1 and K real slabs s for each, with the energy

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
    parts : pair of links, optional
        How W and Phi are made of parameters, see `SpikeAndSlabLink`.

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
        safeguard: Safeguard = "weights",
        spread: ArrayLike | None = None,
        floor: float = 0.0,
        parts: tuple[Link, Link] | None = None,
    ) -> None:
        units = {"visible": PrecisionGaussianUnits(n_visible), "hidden": SpikeAndSlabUnits(n_hidden, slabs)}
        self.coupling = SpikeAndSlabLink("visible", "hidden", slabs, parts=parts, name="")
        super().__init__(units, [self.coupling], dtype=dtype)
        self.slabs, self.safeguard, self.floor = slabs, safeguard, floor
        self.spread = np.ones(n_visible) if spread is None else np.asarray(spread, np.float64)

    def initialize(self, noise: contracts.Noise, mean: ArrayLike | None = None, *, scale: float = 0.5) -> Self:
        """Random weights behind slabs so narrow that half of the spikes make a quarter of the columns' precisions.

        Weights have the deviation `scale` in units of the columns' spread; steps of one length then change weights,
        precisions and biases alike by little. Spikes are on for every second row or so; mu is 0.
        """
        width, kinds, slabs = self._seen(self.weight).shape
        each, reach, log_precision = self._seen_spread()[:, None, None], self._reach(), -2 * np.log(self.spread)
        drawn = noise.child("weight").normal(tuple(self.weight.shape), like=self.spread)
        mean = np.zeros(len(self.spread)) if mean is None else np.asarray(mean)
        values = {
            "visible_bias": self._visible(mean / self.spread**2),
            "visible_log_precision": self._visible(np.log(0.75) + log_precision),
            "hidden_bias": np.full(kinds, 0.25 * (width - 1) / reach),
            "hidden_mean": np.zeros(kinds * slabs),
            "hidden_log_precision": np.full(kinds * slabs, np.log(2 * scale**2 * width * reach * slabs)),
        }
        with torch.no_grad():
            self._seen(self.weight).copy_(self._seen(torch.from_numpy(scale * drawn)) / torch.from_numpy(each))
            self._seen(self.phi).copy_(torch.from_numpy(np.log(0.5 / reach) - 2 * np.log(each)))
            for name, value in values.items():
                self.get_parameter(name).copy_(torch.from_numpy(value))
        self.confine()
        return self

    # --- what a subclass says -----------------------------------------------------------------------------------------

    def _seen(self, x: torch.Tensor) -> torch.Tensor:
        """A view of W or of log Phi as (columns that a spike sees, kinds of spikes, numbers of each)."""
        raise NotImplementedError

    def _seen_spread(self) -> NDArray[np.float64]:
        """The spread of the columns that a spike sees."""
        raise NotImplementedError

    def _reach(self) -> int:
        """How many spikes see a column."""
        raise NotImplementedError

    def _visible(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers of each column as those of the visible layer's parameters."""
        raise NotImplementedError

    def _most_taken(self) -> float:
        """The largest part of Lambda that all slabs together may take in a direction, whatever Phi gives back."""
        raise NotImplementedError

    def _shorten(self) -> None:
        """Weights of which all slabs together leave a tenth of Lambda."""
        raise NotImplementedError

    # --- as a machine of layers ---------------------------------------------------------------------------------------

    def _mapped(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of the machine of layers, Phi itself among them."""
        return {**own, "phi": exp(own["phi"])}

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

    @property
    def anneals_spikes(self) -> bool:
        """Whether there is a `normalizing_path`."""
        return bool(self.units["hidden"].n * self.units["visible"].n ** 3 <= FACTORS)

    def normalizing_path(self, etas: ArrayLike) -> SpikePath | None:
        """The path of the spikes alone, where factors of so many columns for so many spikes are cheap; else None."""
        if not self.anneals_spikes:
            return None
        n, d, own = self.units["hidden"].n, self.units["visible"].n, self._double()
        alpha, mu, slabs = np.exp(own["hidden_log_precision"]), own["hidden_mean"], self.slabs
        bias = own["hidden_bias"] - 0.5 * (alpha * mu * mu).reshape(n, slabs).sum(1)
        pull = (mu * own["weight"]).T.reshape(n, slabs, d).sum(1)
        constant = 0.5 * (d * LOG_2_PI + (LOG_2_PI - own["hidden_log_precision"]).sum())
        precision = np.diag(np.exp(own["visible_log_precision"]))
        return SpikePath(SpikeWeights.of(constant, bias, own["visible_bias"], precision, pull, self._changes()), etas)

    # --- the exact density of few spikes ------------------------------------------------------------------------------

    def _in_columns(self) -> dict[str, NDArray[np.float64]]:
        """The parameters in float64, with Phi itself and, but for W and Phi, a number for each column."""
        return self._mapped({name: value.detach().double().cpu().numpy() for name, value in self.named_parameters()})

    def _double(self) -> dict[str, NDArray[np.float64]]:
        """The parameters in float64, with Phi itself and matrices W of shape (n, d, K)."""
        own = self._in_columns()
        own |= self.coupling.matrices(own)
        d, n = own["phi"].shape
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
        own = self._double()
        log_weights, linear, precision = self._by_spikes()
        fit = (linear * np.linalg.solve(precision, linear[:, :, None])[:, :, 0]).sum(1)
        log_normal = 0.5 * (fit + len(own["phi"]) * LOG_2_PI - np.linalg.slogdet(precision)[1])
        amplitudes = 0.5 * (LOG_2_PI - own["hidden_log_precision"]).sum()
        return float(logsumexp(log_weights + log_normal) + amplitudes)

    def _by_spikes(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """For each state of the spikes its log weight and, of x beside it, linear coefficients and precision."""
        n = self.units["hidden"].n
        own, changes, h = self._double(), self._changes(), states(n)
        alpha, mu = np.exp(own["hidden_log_precision"]), own["hidden_mean"]
        slabs = alpha.size // n
        precision = np.diag(np.exp(own["visible_log_precision"])) + np.tensordot(h, changes, 1)
        linear = own["visible_bias"] + np.repeat(h, slabs, axis=1) * mu @ own["weight"].T
        bias = own["hidden_bias"] - 0.5 * (alpha * mu * mu).reshape(n, slabs).sum(1)
        return h @ bias, linear, precision

    def normal_cells(self) -> NormalCells | None:
        """The density as a mixture over the states of up to 10 spikes, which says what missing columns are."""
        few = self.units["hidden"].n <= EXACT_SPIKES
        return NormalCells.of_precisions(*self._by_spikes()) if few else None

    @available_if(lambda self: isinstance(self, type) or self.units["hidden"].n <= EXACT_SPIKES)
    def log_prob(self, x: Array) -> Array:
        """Exact log p(x) in nats, of up to 10 spikes."""
        return -self.energy(x) - self.log_partition()

    # --- what keeps it normalizable -----------------------------------------------------------------------------------

    def _shortfall(self) -> torch.Tensor:
        r"""By what factor r_i each Phi_i falls short of its slabs.

        The largest eigenvalue of :math:`\alpha_i^{-1/2} W_i^T \Phi_i^{-1} W_i \alpha_i^{-1/2}`: no less than
        :math:`\Phi_i` are the slabs :math:`W_i \alpha_i^{-1} W_i^T` divided by it.
        """
        weight, log_phi = self._seen(self.weight), self._seen(self.phi)[..., 0]
        scaled = weight * (-0.5 * self.hidden_log_precision).exp().reshape(weight.shape[1:])
        gram = torch.einsum("dnk,dn,dnl->nkl", scaled, (-log_phi).exp(), scaled)
        return gram[:, 0, 0] if gram.shape[1] == 1 else torch.linalg.eigvalsh(gram)[:, -1]

    def confine(self) -> None:
        """Precisions back below the limit of `floor`, then the safeguard.

        Raises
        ------
        Diverged
            With the safeguard "none", where the density can no longer be normalized.
        """
        with torch.no_grad():
            if self.floor:
                like = self.visible_log_precision
                limit, seen = (-2 * np.log(self.floor * spread) for spread in (self.spread, self._seen_spread()))
                like.clamp_(max=torch.from_numpy(self._visible(limit)).to(like))
                self._seen(self.phi).clamp_(max=torch.from_numpy(seen[:, None, None]).to(like))
            self.phi.clamp_(min=LEAST_LOG_PHI)
            self.hidden_log_precision.clamp_(min=LEAST_LOG_ALPHA)
            if self.safeguard == "phi":
                self._seen(self.phi).add_(self._shortfall().clamp(min=1.0).log()[:, None])
            elif self.safeguard == "weights":
                self._shorten()
            elif self._most_taken() >= 1 and (found := self.check_normalizable()).normalizable is False:
                raise Diverged(
                    f"the density no longer exists, it {found}",
                    "safeguard",
                    "use safeguard='weights' or a lower learning rate",
                )


class SpikeAndSlabSystem(StandardizedMachine, DensityMachine):
    """Base of the systems of spike-and-slab machines: their fields, codes and what was learned."""

    domain = Real(largest=1e100)
    resamples_rows: ClassVar[bool] = True  # the default objective draws chains beside each row
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"safeguard": {"slab_dim": 1}}

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

    def initialize(self, model: SpikeAndSlabModel, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, self._start_mean())

    # --- evidence -----------------------------------------------------------------------------------------------------

    def log_partition(self, method: str = "auto", *, X: Any = None, **options: Any) -> Score:
        """log Z in nats: exact up to 10 spikes, else by annealed importance sampling of the spikes alone (`SpikePath`).

        Spikes times the cube of the columns may be 2^26 for that (256 spikes of 64 columns), and `schedule` is 200 by
        default; beyond, all layers are annealed. Methods and options are those of `gnomon.log_partition`, rows where
        the method "bracket" begins too.
        """
        check_is_fitted(self)
        if method in SHORT and self.model_.anneals_spikes:
            options = {**SHORT[method], **options}
        return super().log_partition(method, X=X, **options)

    # --- codes --------------------------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return self.model_.units["hidden"].n * (self.slab_dim if self.codes == "slabs" else 1)

    def transform(self, X: Any, *, method: Literal["mean", "map"] = "mean") -> Array:
        """What ``codes`` names of the expectations of spikes and slabs, or of their most probable values.

        Parameters
        ----------
        X : array of shape (n, n_features)
        method : {"mean", "map"}, default "mean"
            ``map`` takes the joint density of h and s, in which slabs behind spikes that are off are N(0, 1 / alpha).

        Returns
        -------
        array of shape (n, spikes), or (n, spikes * slab_dim) of ``slabs``
        """
        return super().transform(X, method=method)

    def latent_means(self, rows: Array) -> Array:
        return self._codes(super().latent_means(rows))

    def latent_modes(self, rows: Array) -> Array:
        return self._codes(super().latent_modes(rows))

    def _codes(self, states: Array) -> Array:
        """What ``codes`` names of states, or of means of states."""
        slabs, spikes = np.split(states, [self.model_.units["hidden"].n_slabs], axis=1)
        if self.codes in ("spikes", "slabs"):
            return spikes if self.codes == "spikes" else slabs
        grouped = slabs.reshape(*spikes.shape, self.slab_dim)
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
