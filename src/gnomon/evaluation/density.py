"""The likelihood that a model gives to rows, by whatever it can: exactly, as a bound, or with an estimate of log Z."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.contracts import Array, Encoder, HasEnergy, HasLatents, HasLogProb, Noise, supports
from gnomon.errors import UserTypeError
from gnomon.evaluation.latent_likelihood import latent_score
from gnomon.evaluation.likelihood import log_likelihood
from gnomon.evaluation.partition import log_partition
from gnomon.evaluation.score import Score

__all__ = ["density_score"]

DRAWS = 64
"""Draws of the latent variables for each row."""


def density_score(
    model: Any,
    x: Array,
    noise: Noise,
    *,
    log_z: Score | None = None,
    name: str = "log_likelihood",
    data_space: str = "",
) -> Score:
    """Mean log-likelihood of rows in nats.

    Exact where the model has ``log_prob``; where it has latent variables and infers them, the importance-weighted lower
    bound of 64 draws; where it has an energy, -energy(x) - log Z with the error of log Z.

    Parameters
    ----------
    model : HasLogProb, HasLatents with an Encoder, or HasEnergy
    x : array of shape (n, ...)
    noise : Noise
        Of the draws, and of an estimate of log Z.
    log_z : Score, optional
        Where it is known already.
    name, data_space : str
        Of the score.

    Raises
    ------
    UserTypeError
        A model that has none of these.

    Examples
    --------
    >>> from gnomon.distributions.real import Normal
    >>> from gnomon.numeric.noise import Noise
    >>> density_score(Normal(0.0, 1.0), np.zeros(3), Noise(0, "doc")).kind
    'exact'
    """
    if log_z is None and supports(model, HasLogProb):
        values = np.asarray(model.log_prob(x), dtype=np.float64)
        return Score.from_pointwise(values, name=name, unit="nats", data_space=data_space, kind="exact")
    if supports(model, HasLatents) and supports(model, Encoder):
        return latent_score(model, model, x, DRAWS, noise, data_space=data_space)
    if supports(model, HasEnergy):
        log_z = log_partition(model, noise=noise.child("log-partition")) if log_z is None else log_z
        return log_likelihood(model, x, log_z, data_space=data_space)
    what = f"{type(model).__name__} must have log_prob, latent variables or an energy"
    raise UserTypeError(what, "evaluate", "give the System an evaluate of its own")
