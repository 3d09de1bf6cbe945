"""The Boltzmann machine with hidden units: binary units, visible and hidden, that are all coupled to each other."""

from __future__ import annotations

from typing import ClassVar

from gnomon.systems.energy._general import GeneralHiddenMachine

__all__ = ["HiddenBoltzmannMachine"]


class HiddenBoltzmannMachine(GeneralHiddenMachine):
    r"""Boltzmann machine with hidden units: all units, columns of the data and hidden ones, are coupled to each other.

    :math:`E(v, h) = -v^T R v - v^T W h - h^T S h - b^T v - c^T h`, R and S upper triangles. The hidden units let more
    than two columns have to do with each other. They depend on each other given a row, so their side of the gradient is
    drawn by chains with the row held (``positive="clamped"``, 20 sweeps) or by mean field.

    Attributes
    ----------
    couplings_ : array of shape (units, units)
        Symmetric, 0 on the diagonal; columns of the data first, then the hidden units.
    bias_ : array of shape (units,)
        b and then c.
    history_ : dict of lists
        By epoch: ``energy_gap`` of the last batch (data minus chains, nats; not the likelihood), or what another
        objective watches, and ``gradient_norm``.

    Notes
    -----
    Objectives that need the probability of a row but for log Z are refused. Codes and the energy of a row are exact up
    to 12 hidden units; beyond that codes are those of mean field, and `evaluate` gives the mean-field bound.
    Cost per update O(batch sweeps units^2) at most, sweeps those of both phases.

    References
    ----------
    Ackley, Hinton and Sejnowski (1985), "A learning algorithm for Boltzmann machines".

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]])
    >>> machine = HiddenBoltzmannMachine(
    ...     n_hidden=3, objective="exact", epochs=800, learning_rate=0.05, optimizer="adam", random_state=0
    ... )
    >>> bool(machine.fit(X).score(X) > -2.0), machine.transform(X).shape
    (True, (4, 3))
    """

    name: ClassVar[str] = "hidden-boltzmann-machine"
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")
