"""Likelihoods of unnormalized models, and pseudolikelihoods that need no normalizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, HasEnergy
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Kind, Score
from gnomon.inference.arrays import to_numpy
from gnomon.inference.variational.mean_field import mean_field_evidence
from gnomon.numeric.sparse import in_full
from gnomon.numeric.tensors import is_tensor

__all__ = ["log_likelihood", "log_likelihood_bound", "pseudo_log_likelihood"]

_OPPOSITE: dict[str, Kind] = {"lower bound": "upper bound", "upper bound": "lower bound"}


def log_likelihood(
    model: HasEnergy,
    x: Array,
    log_z: Score,
    *,
    weight: ArrayLike | None = None,
    rows: ArrayLike | None = None,
    data_space: str = "",
    batch_size: int = 4096,
) -> Score:
    """Mean log probability of the rows: -energy(x) - log Z.

    The error of log Z is the same for every row; it is carried as the estimator's error, apart from the standard error
    over rows. An estimate from annealed importance sampling is on average too low for log Z, hence too HIGH for the
    likelihood.

    Parameters
    ----------
    model : HasEnergy
        The model.
    x : array of shape (n, d)
        The rows to score.
    log_z : Score
        What `log_partition` returned for this model.
    weight : array of shape (n,), optional
        Weights of the rows.
    rows : array of shape (n,), optional
        Which rows of the data these are.
    data_space : str
        See `Score`.
    batch_size : int, in [1, inf)
        Rows at a time; bounds the memory, changes no value beyond rounding.

    Returns
    -------
    Score
        Nats per row, summed over columns; `pointwise` holds each row's value. A lower bound on log Z makes it an upper
        bound, and the other way round.

    Raises
    ------
    UserValueError
        When `log_z` is the score of another quantity.
    """
    _check_log_z(log_z)
    energy = np.concatenate([to_numpy(model.energy(part)) for part in _parts(x, batch_size)])
    return Score.from_pointwise(
        -energy - log_z.value,
        weight=weight,
        error=log_z.error,
        kind=_OPPOSITE.get(log_z.kind, log_z.kind),
        data_space=data_space,
        rows=rows,
        note=log_z.note,
    )


def log_likelihood_bound(
    model: Any,
    x: Array,
    log_z: Score,
    *,
    weight: ArrayLike | None = None,
    rows: ArrayLike | None = None,
    data_space: str = "",
    batch_size: int = 4096,
) -> Score:
    """Mean over rows of the mean-field lower bound of log p(x): E_q[-E] + H(q) - log Z.

    For a machine whose hidden blocks depend on each other given the row, and are too many to enumerate.

    Parameters
    ----------
    model : HasBlocks, HasJointGradient
    x, log_z, weight, rows, data_space, batch_size
        As of `log_likelihood`.

    Returns
    -------
    Score
        A lower bound where log Z is exact or itself an upper bound. Where log Z is estimated, an estimate of that lower
        bound, which is no bound: too low a log Z lifts it.

    References
    ----------
    Salakhutdinov and Hinton (2009), "Deep Boltzmann machines", section 4.1.
    """
    _check_log_z(log_z)
    given = str(getattr(model, "observed", "visible"))
    bound = np.concatenate([to_numpy(mean_field_evidence(model, {given: part})) for part in _parts(x, batch_size)])
    strict = log_z.kind in ("exact", "upper bound")
    note = "mean-field lower bound" + ("" if strict else ", less an estimate of log Z: no bound in the strict sense")
    return Score.from_pointwise(
        bound - log_z.value,
        weight=weight,
        error=log_z.error,
        kind="lower bound" if strict else "estimate",
        data_space=data_space,
        rows=rows,
        note="; ".join(filter(None, (note, log_z.note))),
    )


def _check_log_z(log_z: Score) -> None:
    if log_z.name != "log_partition" or log_z.unit != "nats":
        what = f"log_z must be a log_partition in nats, got {log_z.name} in {log_z.unit}"
        raise UserValueError(what, "log_z", "pass what log_partition returned")


def pseudo_log_likelihood(
    model: HasEnergy,
    x: Array,
    *,
    per_site: bool = False,
    weight: ArrayLike | None = None,
    rows: ArrayLike | None = None,
    data_space: str | None = None,
    batch_size: int = 4096,
) -> Score:
    """Mean log pseudolikelihood of binary rows, exact over all sites; no log Z is needed.

    ``sum_i log p(x_i | x_others) = sum_i -softplus(energy(x) - energy(x with site i flipped))``: the SUM over the d
    sites by default, which grows with the number of columns; divided by d with `per_site`. The units differ, so the two
    are never compared with each other. Equal to the log-likelihood when the sites are independent, else another
    quantity. Cost d + 1 energies per row.

    Parameters
    ----------
    model : HasEnergy
        A model of binary {0, 1} sites.
    x : array of shape (n, d)
        Rows of zeros and ones.
    per_site : bool, default False
        Divide by the number of sites.
    weight, rows, batch_size
        See `log_likelihood`.
    data_space : str, optional
        ``pmf on {0,1}^d`` by default.

    Returns
    -------
    Score
        Name ``pseudo_log_likelihood``; unit nats (sum over sites) or ``nats per site``.

    Raises
    ------
    UserValueError
        When an entry is neither 0 nor 1.

    References
    ----------
    Besag (1975), "Statistical analysis of non-lattice data".
    """
    values = np.concatenate([_sum_over_sites(model, part) for part in _binary_parts(x, batch_size)])
    d = x.shape[1]
    return Score.from_pointwise(
        values / d if per_site else values,
        weight=weight,
        unit="nats per site" if per_site else "nats",
        data_space=f"pmf on {{0,1}}^{d}" if data_space is None else data_space,
        name="pseudo_log_likelihood",
        rows=rows,
    )


def _parts(x: Array, batch_size: int) -> Iterator[Array]:
    if batch_size < 1:
        raise UserValueError.must("batch_size", "be at least 1", batch_size)
    if len(x.shape) != 2 or 0 in x.shape:
        raise UserValueError.must("x", "have at least one row and one column", x)
    for start in range(0, len(x), batch_size):
        yield x[start : start + batch_size]


def _binary_parts(x: Array, batch_size: int) -> Iterator[Array]:
    """Batches of rows, checked."""
    done = 0
    for part in _parts(x, batch_size):
        part = in_full(part)
        plain = to_numpy(part)
        bad = np.argwhere((plain != 0) & (plain != 1))
        if bad.size:
            i, j = bad[0]
            raise UserValueError(
                f"x must be 0 or 1, got {plain[i, j]}", f"row {done + i}, column {j}", "binarize the data"
            )
        done += len(plain)
        yield part


def _sum_over_sites(model: HasEnergy, x: Array) -> NDArray[np.float64]:
    """sum_i log p(x_i | rest) for each row."""
    here = to_numpy(model.energy(x))
    total: Any = np.zeros(len(here))
    for site in range(x.shape[1]):
        flipped = x.clone() if is_tensor(x) else np.array(x)
        flipped[:, site] = flipped[:, site] == 0
        total -= np.logaddexp(0.0, here - to_numpy(model.energy(flipped)))
    return total
