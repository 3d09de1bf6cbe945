"""Missing cells of rows under a model with latent variables, by chains that hold the known cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from gnomon.contracts import Array, Encoder, HasLatents, Noise
from gnomon.inference.arrays import where
from gnomon.numeric.tensors import is_tensor

__all__ = ["CompletesRows", "completed_rows"]


class CompletesRows(HasLatents, Encoder, Protocol):
    """A model with latent variables, tuples of arrays, whose rows are drawn given them, cell by cell."""

    def log_proposal(self, x: Array, z: Any) -> Array:
        """log q(z | x) of given latent variables, shape (n,)."""

    def refill(self, x: Array, z: Any, missing: Array, noise: Noise) -> Array:
        """The rows with their missing cells moved by a kernel that leaves p(missing cells | known ones, z) as it is."""

    def expected(self, x: Array, z: Any) -> Array:
        """E[x_j | z] of missing cells, or the row itself where that depends on the other cells too, (n, d)."""


def completed_rows(
    model: CompletesRows, x: Array, missing: Array, noise: Noise, steps: int
) -> Iterator[tuple[Array, tuple[Array, ...]]]:
    r"""Rows and latent variables after each sweep: z proposed by the encoder from the row as it is, then cells given z.

    A proposal z' of :math:`q(z \mid x)` is taken with the probability :math:`\min(1, p(x, z') q(z \mid x) / (p(x, z)
    q(z' \mid x)))`, which leaves :math:`p(z, x_{miss} \mid x_{seen})` invariant however good the encoder is; the better
    it is, the more are taken.

    Parameters
    ----------
    model : CompletesRows
        ``log_joint`` may lack a constant.
    x : array of shape (n, d)
        Missing cells hold what the chains begin at.
    missing : bool array of shape (n, d)
    noise : Noise
        Row i uses the numbers of its position.
    steps : int, in [1, inf)

    Yields
    ------
    x : array of shape (n, d)
    z : tuple of arrays

    References
    ----------
    Mattei and Frellsen (2018), "Leveraging the exact likelihood of deep latent variable models", Metropolis within
    Gibbs; Rezende, Mohamed and Wierstra (2014), appendix F, which takes every proposal.
    """
    z, _ = model.infer(x, noise.child("begin"))
    for t in range(steps):
        stream = noise.at(t)
        new, log_new = model.infer(x, stream.child("propose"))
        odds = model.log_joint(x, new) - log_new - model.log_joint(x, z) + model.log_proposal(x, z)
        u = stream.child("accept").uniform((len(x), 1), like=x)[:, 0]
        taken = (u.log() if is_tensor(u) else np.log(u)) < odds
        z = tuple(where(taken[:, None], a, b) for a, b in zip(new, z, strict=True))
        x = model.refill(x, z, missing, stream.child("cells"))
        yield x, z
