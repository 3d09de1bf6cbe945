"""The restricted Boltzmann machine of real columns whose hidden units are switches with real amplitudes."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gnomon.distributions.domains import Real
from gnomon.errors import UserValueError
from gnomon.recipes.fields import Doc
from gnomon.systems.energy._spike_and_slab import TAKEN, SpikeAndSlabModel, SpikeAndSlabSystem

__all__ = ["SpikeAndSlabRBM", "SpikeAndSlabRBMModel"]


class SpikeAndSlabRBMModel(SpikeAndSlabModel):
    """The machine whose spikes see all columns, each by weights W_i and a precision Phi_i of its own.

    Parameters and notes are those of `SpikeAndSlabModel`.

    Examples
    --------
    >>> model = SpikeAndSlabRBMModel.of([[3.0]], [[0.0]], [1.0], [1.0], [0.0], [0.0])
    >>> str(model.check_normalizable())
    'cannot be normalized: minimum eigenvalue -8 with 1 of 1 spikes on'
    """

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

    def _seen(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(*self.phi.shape, -1)

    def _seen_spread(self) -> NDArray[np.float64]:
        return self.spread

    def _reach(self) -> int:
        return int(self.phi.shape[1])

    def _visible(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return x

    def _taken(self) -> tuple[torch.Tensor, torch.Tensor]:
        r"""Eigenvalues and vectors of what all slabs together take of Lambda, whatever Phi gives back.

        Of :math:`\Lambda^{-1/2} W \alpha^{-1} W^T \Lambda^{-1/2}`, in float64: below 1 no state of the spikes has a
        precision with an eigenvalue of 0 or less.
        """
        log_alpha, log_lambda = self.hidden_log_precision.double(), self.visible_log_precision.double()
        beside = (-0.5 * log_lambda).exp()[:, None] * self.weight.double() * (-0.5 * log_alpha).exp()
        values, vectors = torch.linalg.eigh(beside @ beside.T)
        return values, vectors

    def _most_taken(self) -> float:
        return float(self._taken()[0][-1])

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


class SpikeAndSlabRBM(SpikeAndSlabSystem):
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

    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units: spikes.")] = 64

    def make(self, n_features: int, dtype: str, mean: list[float], deviation: list[float]) -> SpikeAndSlabRBMModel:
        return SpikeAndSlabRBMModel(
            n_features, self.n_hidden, self.slab_dim, getattr(torch, dtype), safeguard=self.safeguard,
            spread=np.ones(n_features) if self._scales() else np.array(deviation), floor=self.floor,
        )  # fmt: skip
