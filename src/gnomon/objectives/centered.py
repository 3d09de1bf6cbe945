"""Centered gradients of energy machines, around any training principle, and the enhanced gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, cast

import torch

from gnomon.contracts import Array, Group, HasCenteredGradient, Noise, supports
from gnomon.distributions.units import mean_of
from gnomon.errors import UserTypeError
from gnomon.inference.arrays import convert, to_numpy
from gnomon.inference.mcmc.gibbs import mean_field
from gnomon.numeric.sparse import in_full
from gnomon.objectives.around import Around, renamed
from gnomon.objectives.base import Loss, Objective
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.objectives.moments import column_moments
from gnomon.objectives.positive import Clamped, observed_block
from gnomon.recipes.recipe import Recipe

__all__ = ["Centered", "Enhanced"]

Means = dict[str, Array]


@dataclass(frozen=True)
class Centered(EnergyObjective):
    r"""The gradient of another principle, taken in coordinates in which every layer's states count from its mean.

    With :math:`E = -\sum (v - \mu)^T W (h - \lambda) - \ldots` the couplings no longer move where only the means have
    to: of two layers :math:`\Delta W = \nabla W - \nabla b \lambda^T - \mu \nabla c^T` and :math:`\Delta b = \nabla b -
    \Delta W \lambda`, :math:`\Delta c = \nabla c - \Delta W^T \mu`. The machine stays a plain one, so that offsets may
    move, and couplings between any layers, within a layer too, are treated alike.

    Parameters
    ----------
    inner : objective, default "pcd"
        The principle whose gradient it is; any of the slot.
    offsets : {"data", "average"}, default "data"
        The layers' means given the data, or the mean of these and those under the model; the latter for principles
        that have a model's side: exact, and those with chains.
    rate : float in [0, 1], default 0.01
        Share of the newest batch in the offsets' moving averages. 0: as they are at the start (the columns' means, and
        mean field above them); 1: the batch's own.

    Notes
    -----
    Cost: two products with a single row for each link, and the means of the hidden layers given the batch once more (a
    whole positive phase, where these depend on each other), unless `rate` is 0.

    References
    ----------
    Montavon and Müller (2012), "Deep Boltzmann machines and the centering trick"; Melchior, Fischer and Wiskott (2016),
    "How to center deep Boltzmann machines".

    Examples
    --------
    >>> import numpy as np
    >>> import gnomon
    >>> X = 1.0 - np.repeat([[1, 1, 0, 0], [0, 0, 1, 0]], 50, axis=0)
    >>> rbm = gnomon.RBM(n_hidden=4, objective=Centered("exact"), epochs=60, learning_rate=0.2, random_state=0).fit(X)
    >>> bool(rbm.score(X) > -1.5)
    True
    """

    short: ClassVar[str] = "centered"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"inner": EnergyObjective}
    inner: str | Recipe = "pcd"
    offsets: Literal["data", "average"] = "data"
    rate: Annotated[float, "[0, 1]"] = 0.01

    @property
    def deep(self) -> bool:
        """As of the inner one."""
        return bool(self.recipe("inner").deep)

    @property
    def recognizes(self) -> bool:
        """As of the inner one."""
        return bool(self.recipe("inner").recognizes)

    def build(self) -> Objective:
        """The objective."""
        return CenteredObjective(self.recipe("inner").build(), self.offsets == "average", self.rate)


@dataclass(frozen=True)
class Enhanced(EnergyObjective):
    r"""The enhanced gradient: the same for a machine whose units are flipped from 0 to 1 (Cho, Raiko and Ilin 2011).

    :math:`\nabla_e W = \mathrm{Cov}_d(v, h) - \mathrm{Cov}_m(v, h)`, :math:`\nabla_e b = \nabla b - \nabla_e W \bar h`,
    :math:`\nabla_e c = \nabla c - \nabla_e W^T \bar v`, the bars means of data and model. It is `Centered` with the
    average of both means of the batch as offsets; small batches make these noisy, and `Centered` averages them over
    time.

    Parameters
    ----------
    inner : objective, default "pcd"
        What data and model are: exact, or a principle with chains.

    References
    ----------
    Cho, Raiko and Ilin (2011), "Enhanced gradient and adaptive learning rate for training restricted Boltzmann
    machines"; Melchior, Fischer and Wiskott (2016), theorem 3.
    """

    short: ClassVar[str] = "enhanced"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"inner": EnergyObjective}
    inner: str | Recipe = "pcd"

    @property
    def deep(self) -> bool:
        """As of the inner one."""
        return bool(self.recipe("inner").deep)

    @property
    def recognizes(self) -> bool:
        """As of the inner one."""
        return bool(self.recipe("inner").recognizes)

    def build(self) -> Objective:
        """The objective."""
        return CenteredObjective(self.recipe("inner").build(), average=True, rate=1.0)


class CenteredObjective(Around):
    """The inner objective's gradients through centered coordinates; the offsets are buffers."""

    def __init__(self, inner: Objective, average: bool, rate: float) -> None:
        super().__init__(inner)
        self.average, self.rate = average, rate
        if average and not getattr(inner, "compares_means", False):
            what = "the means under the model are known of exact gradients and of those of chains alone"
            raise UserTypeError(what, "objective__inner", 'use the objective "centered" with offsets="data"')

    @property
    def compares_means(self) -> bool:
        """No: biases make up for couplings."""
        return False

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """The first offsets: the columns' means, and mean field above them.

        Raises
        ------
        UserTypeError
            A model that is no machine of layers.
        """
        if not supports(model, HasCenteredGradient):
            raise UserTypeError(f"{type(model).__name__} has no centered coordinates", "objective", "use its inner one")
        super().begin(model, batches, noise, group)
        data = observed_block(model)
        clamp = {data: (model.place(column_moments(batches, group)[0][None]), None)}
        first = mean_field(model, clamp, steps=50, tol=1e-6)
        for block, mean in first.items():
            self.register_buffer(f"offset/{block}", torch.as_tensor(mean[0]).detach().clone())

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The inner loss; its gradients by the model's parameters as steps in centered coordinates."""
        loss = renamed("inner", self.inner(model, batch, noise=noise, phase=phase, group=group))
        gradients = cast(dict[str, Array], loss.gradients)
        own = {name: gradients[name] for name, _ in model.named_parameters() if name in gradients}
        with torch.no_grad():
            if self.rate:
                self._follow(model, batch, own, noise, group)
            like = next(iter(own.values()))
            offsets = {block: convert(self._buffers[f"offset/{block}"], like) for block in model.units}
            moved = model.centered_gradient(own, offsets)
        return Loss(loss.terms, gradients | moved, loss.per, loss.watch)

    def _follow(self, model: Any, batch: Any, gradients: Mapping[str, Array], noise: Noise, group: Group) -> None:
        """Move the offsets towards the means of the batch."""
        X, weight = model.place(in_full(batch.data["X"])), model.place(batch.weight)
        positive = getattr(self.inner, "positive", None) or Clamped()
        q = positive(model, X, noise.rows(batch.positions).child("positive"))
        sums = {block: to_numpy(weight @ mean_of(q[block])) for block in model.units}
        total, sums = group.sum((float(weight.sum()), sums))
        if not total:
            return
        means = {block: value / total for block, value in sums.items()}
        if self.average:
            away = model.mean_differences(group.sum({name: to_numpy(value) for name, value in gradients.items()}))
            means = {block: mean + 0.5 * away[block] / total for block, mean in means.items()}
        for block, mean in means.items():
            offset = cast(torch.Tensor, self._buffers[f"offset/{block}"])
            offset.lerp_(torch.as_tensor(mean, dtype=offset.dtype, device=offset.device), self.rate)
