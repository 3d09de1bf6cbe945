"""The semi-restricted Boltzmann machine: an RBM whose units of one layer are coupled to each other."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from gnomon.errors import UserValueError
from gnomon.recipes.fields import Doc
from gnomon.systems.energy._general import GeneralHiddenMachine, GeneralModel

__all__ = ["SemiRestrictedRBM"]


class SemiRestrictedRBM(GeneralHiddenMachine):
    r"""Semi-restricted Boltzmann machine: a restricted one with couplings between its visible units.

    :math:`E(v, h) = -b^T v - c^T h - v^T W h - v^T L v / 2`, L symmetric and 0 on the diagonal. The hidden units are
    independent given a row, so their posterior and the free energy :math:`-b^T v - v^T L v / 2 - \sum_j
    \mathrm{softplus}(c_j + (v^T W)_j)` are closed forms; the visible ones are drawn one after the other. What two
    columns have to do with each other directly is learned by L, and the hidden units are free for the rest. With
    ``lateral="hidden"`` the hidden units are coupled in place of the visible ones, by :math:`-h^T J h / 2`: their
    posterior is then no closed form.

    Attributes
    ----------
    couplings_ : array of shape (units, units)
        Of all units, the columns of the data first: L and W, W^T and J (0 where a layer has no couplings of its own).
    bias_ : array of shape (units,)
        b and then c.
    history_ : dict of lists
        By epoch: ``energy_gap`` of the last batch (data minus chains, nats; not the likelihood), or what another
        objective watches, and ``gradient_norm``.

    Notes
    -----
    With coupled visible units every objective of binary rows trains it; with coupled hidden ones those that need the
    probability of a row but for log Z are refused, and codes are by mean field beyond 12 hidden units. log Z is exact
    up to 20 coupled units. Cost per update O(batch (d m + d^2)).

    References
    ----------
    Osindero and Hinton (2008), "Modeling image patches with a directed hierarchy of Markov random fields".

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> machine = SemiRestrictedRBM(n_hidden=2, objective="exact", epochs=200, learning_rate=0.5, random_state=0).fit(X)
    >>> bool(machine.score(X) > -1.0), machine.transform(X).shape
    (True, (100, 2))
    """

    name: ClassVar[str] = "semi-restricted-rbm"
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")

    lateral: Annotated[Literal["visible", "hidden"], Doc("The layer whose units are coupled to each other.")] = (
        "visible"
    )

    def make(self, n_features: int, dtype: str, mean: list[float]) -> GeneralModel:
        model = super().make(n_features, dtype, mean)
        if self.lateral not in model.coupled and model.sizes[self.lateral] > 1:
            what = f"connections must couple {self.lateral} units to each other, got none that are"
            raise UserValueError(what, "connections", "use rbm, which has no such couplings")
        return model

    @property
    def _within(self) -> tuple[str, ...]:
        return (self.lateral,)
