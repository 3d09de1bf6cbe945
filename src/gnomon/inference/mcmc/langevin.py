"""One step of Langevin dynamics, without a test of Metropolis."""

from __future__ import annotations

from typing import Any

from gnomon.contracts import Array
from gnomon.inference.scores import scores_of
from gnomon.numeric.tensors import detached

__all__ = ["langevin_step"]


def langevin_step(model: Any, x: Array, size: float, z: Array) -> Array:
    r"""Rows moved up the slope of log p and shaken: :math:`x + \frac{\epsilon^2}{2} \nabla_x \log p(x) + \epsilon z`.

    Every step is taken, so that what it leaves invariant is the model only as :math:`\epsilon \to 0`: of a normal
    density of the variance :math:`\sigma^2` it is the one of the variance :math:`\sigma^2 / (1 - \epsilon^2 / (4
    \sigma^2))`, and beyond :math:`\epsilon = 2 \sigma` there is none.

    Parameters
    ----------
    model : object that `gnomon.inference.scores.scores_of` takes
    x : array of shape (n, d)
    size : float in (0, inf)
        :math:`\epsilon`.
    z : array of shape (n, d)
        Standard normal numbers.

    Returns
    -------
    array of shape (n, d)
        Without gradients. Cost: one gradient of the energy by the row.

    References
    ----------
    Roberts and Tweedie (1996), "Exponential convergence of Langevin distributions and their discrete approximations",
    section 1.

    Examples
    --------
    >>> import torch
    >>> class Bell(torch.nn.Module):
    ...     def energy(self, x):
    ...         return 0.5 * (x * x).sum(-1)
    >>> langevin_step(Bell(), torch.tensor([[2.0]]), 0.5, torch.tensor([[1.0]])).tolist()
    [[2.25]]
    """
    return detached(x + 0.5 * size**2 * scores_of(model, x).value + size * z)
