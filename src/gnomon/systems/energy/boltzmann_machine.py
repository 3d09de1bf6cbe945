"""The Boltzmann machine without hidden units: binary columns that are all coupled to each other."""

from __future__ import annotations

from typing import ClassVar

from gnomon.systems.energy._general import GeneralMachine

__all__ = ["BoltzmannMachine"]


class BoltzmannMachine(GeneralMachine):
    r"""Boltzmann machine: binary columns, each coupled to each other one.

    :math:`E(x) = -x^T U x - b^T x`, U the upper triangle of the couplings: each pair counts once, and the diagonal is
    0, since :math:`x_i^2 = x_i` makes it a bias. Given all others a column is 1 with the log-odds :math:`b_i +
    \sum_{j \ne i} (U_{ij} + U_{ji}) x_j`: a logistic regression on them. The gradient of the mean log-likelihood by
    :math:`U_{ij}` is the mean of :math:`x_i x_j` in the data minus that under the model; the objective says where the
    model's comes from.

    Attributes
    ----------
    couplings_ : array of shape (n_features, n_features)
        :math:`U + U^T`: symmetric, 0 on the diagonal.
    bias_ : array of shape (n_features,)
    history_ : dict of lists
        By epoch: ``energy_gap`` of the last batch (data minus chains, nats; not the likelihood), or what another
        objective watches, and ``gradient_norm``.

    Notes
    -----
    Rows hold 0 and 1, other numbers are refused. Every objective of binary rows trains it; ``"pseudolikelihood"`` has
    one optimum. Columns are drawn one after the other: a sweep costs O(n_features^2) for each chain at most. log Z is
    exact up to 20 columns, beyond that estimated by annealed importance sampling.

    References
    ----------
    Ackley, Hinton and Sejnowski (1985), "A learning algorithm for Boltzmann machines"; Goodfellow, Bengio and Courville
    (2016), section 20.1.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> machine = BoltzmannMachine(objective="exact", epochs=200, learning_rate=0.5, random_state=0).fit(X)
    >>> bool(machine.score(X) > -1.0), machine.couplings_.shape, bool(machine.couplings_[0, 1] > 0)
    (True, (4, 4), True)
    """

    name: ClassVar[str] = "boltzmann-machine"
    tasks: ClassVar[tuple[str, ...]] = ("density",)
