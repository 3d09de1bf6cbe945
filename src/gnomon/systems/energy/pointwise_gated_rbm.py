"""The Boltzmann machine in which each column has a bit that says whether hidden units see it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import torch

from gnomon import contracts
from gnomon.contracts import Array, Distribution
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Binary, UnitInterval
from gnomon.distributions.units import BernoulliUnits, Units
from gnomon.objectives.contrastive import PCD
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.energy._binary import BinaryRows
from gnomon.systems.energy._machine import DensityMachine, posterior_means, posterior_of_bits
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import DenseLink, Link
from gnomon.systems.energy.three_way import MaskLink

__all__ = ["PointwiseGatedModel", "PointwiseGatedRBM"]


FIRST_WEIGHTS = 0.1
"""Standard deviation of the first weights: what a weight learns passes through the mask, and is slow from nearly 0."""
OPEN = 2.0
"""First bias of the mask: most columns are seen, as in the restricted machine."""


class PointwiseGatedModel(LayeredMachine):
    r"""E(v, z, h, g) = -b^T v - c^T h - e^T g - d^T z - (z v)^T W h - ((1 - z) v)^T R g over bits; z v is elementwise.

    Layers ``visible``, ``mask``, ``hidden`` and, where it has units, ``background``: v, z, h and g.

    Parameters
    ----------
    n_visible, n_hidden, n_background : int
        `n_background` may be 0.
    dtype : torch.dtype
    """

    weight: torch.nn.Parameter
    visible_bias: torch.nn.Parameter
    mask_bias: torch.nn.Parameter
    hidden_bias: torch.nn.Parameter

    def __init__(
        self, n_visible: int, n_hidden: int, n_background: int = 0, dtype: torch.dtype = torch.float32
    ) -> None:
        units: dict[str, Units] = {
            "visible": BernoulliUnits(n_visible),
            "mask": BernoulliUnits(n_visible),
            "hidden": BernoulliUnits(n_hidden),
        }
        links: list[Link] = [MaskLink("mask", "visible", "hidden", name="")]
        if n_background:
            units["background"] = BernoulliUnits(n_background)
            links.append(DenseLink("visible", "background", name="background"))
            links.append(MaskLink("mask", "visible", "background", inverse=True, name="background"))
        super().__init__(units, links, dtype=dtype)


class PointwiseGatedRBM(BinaryRows, DensityMachine):
    r"""Point-wise gated Boltzmann machine: a bit for each column of a row says whether the hidden units see it.

    :math:`E(v, z, h) = -\sum_{ij} z_i v_i W_{ij} h_j - b^T v - c^T h - d^T z`. The mask z is inferred from row to row:
    it chooses the columns that hidden units have to explain, the others are left to their biases, as noise or
    background. With ``n_background`` a second group of hidden bits sees what the mask hides,
    :math:`-\sum_{ij} (1 - z_i) v_i R_{ij} g_j`, so that mask and groups part a row between them.

    Attributes
    ----------
    weights_ : array of shape (n_features, n_hidden)
        W.
    history_ : dict of lists
        By epoch: ``energy_gap`` of the last batch (data minus chains, nats; not the likelihood), or what another
        objective watches, and ``gradient_norm``.

    Notes
    -----
    Given two of rows, mask and hidden units the third is independent bits; mask and hidden units given a row are not.
    They are taken in turn, in chains with the row held (``positive="clamped"``) or by mean field, and their means are
    exact where the smaller of the two has at most 12 units. Where z is 1 everywhere it is the restricted Boltzmann
    machine, where it is 0 the columns are independent. Objectives that need the probability of a row but for log Z are
    refused. Cost per update O(batch d m sweeps).

    References
    ----------
    Sohn, Zhou, Lee and Lee (2013), "Learning and selecting features jointly with point-wise gated Boltzmann machines".

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> machine = PointwiseGatedRBM(n_hidden=4, epochs=300, learning_rate=0.05, random_state=0).fit(X)
    >>> machine.score(X) > -1.6, machine.mask_posterior(X).shape
    (True, (100, 4))
    """

    name: ClassVar[str] = "pointwise-gated-rbm"
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")
    model_class: ClassVar[type] = PointwiseGatedModel
    domain = UnitInterval()
    outcomes = Binary()
    resamples_rows: ClassVar[bool] = True  # hidden units of a row are drawn, once for each time that it is there

    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units that see the columns the mask shows.")] = 64
    n_background: Annotated[int, "[0, inf)", Doc("Hidden units that see the columns the mask hides.")] = 0
    objective: str | Recipe = PCD(k=5)
    epochs: int = 50
    batch_size: int | None = 20
    learning_rate: float = 0.01
    optimizer: str | Recipe = "adam"

    def make(self, n_features: int, dtype: str, mean: list[float]) -> PointwiseGatedModel:
        return PointwiseGatedModel(n_features, self.n_hidden, self.n_background, getattr(torch, dtype))

    def initialize(self, model: PointwiseGatedModel, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, self._start_mean(), scale=FIRST_WEIGHTS)
        with torch.no_grad():
            model.mask_bias.fill_(OPEN)

    @property
    def weights_(self) -> Array:
        """W."""
        return self.model_.state()["weight"]

    def _hidden_posterior(self, rows: Array) -> Distribution:
        return posterior_of_bits(self.model_, rows, "hidden")

    def _hidden_means(self, rows: Array) -> Array:
        return posterior_means(self.model_, rows)["hidden"]

    def mask_posterior(self, X: Any) -> Array:
        """P(z = 1 | v) of each cell, shape (n, n_features): how surely hidden units see it; as `transform`."""
        return posterior_means(self.model_, self._rows(X))["mask"]

    def reconstruct(self, X: Any) -> Array:
        """E[v | z, h] at the means of mask and hidden units given X, shape (n, n_features)."""
        means = posterior_means(self.model_, self._rows(X))
        return self.from_visible(self.model_.conditional("visible", means).mean)
