"""Log-likelihoods of models with latent variables, by draws of a proposal for what is latent."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, Encoder, HasLatents, Noise
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.inference.arrays import to_numpy
from gnomon.inference.importance.pareto import excess_shape
from gnomon.numeric.tensors import is_tensor

__all__ = ["LatentEstimate", "latent_log_prob", "latent_score"]

Floats = NDArray[np.float64]

_KEPT = 1000
"""Largest weights kept of each row at most: all that a tail of 3 sqrt(K) takes up to K = 100,000."""

_LOOKED_AT = 64
"""Rows that a tail is fitted to."""


class LatentEstimate(NamedTuple):
    """Estimates of log p(x) of each row.

    Attributes
    ----------
    value : array of shape (n,)
        ``mean over repeats of log (1/K) sum_k w_k``: on average too low.
    stderr : array of shape (n,)
        Standard error over new draws: from the repeats where there are two or more, else by the delta method from the K
        weights; inf for a single draw.
    bias : array of shape (n,)
        How much too low `value` is likely to be, ``-Var[mean w] / (2 E[w]^2)`` by the delta method; -inf for K = 1.
    max_share : array of shape (n,)
        Fraction of the largest weight in the sum of K, the largest over repeats.
    khat : array of shape (n,)
        Shape of the tail of the weights: from 0.5 on their variance is infinite, from 0.7 on `stderr` and `bias` are
        not to be trusted. Of the 64 rows of the largest `max_share`; nan for others and where K is below 25.
    """

    value: Floats
    stderr: Floats
    bias: Floats
    max_share: Floats
    khat: Floats


def latent_log_prob(
    model: HasLatents,
    proposal: Encoder,
    x: Array,
    n_samples: int,
    noise: Noise,
    *,
    repeats: int = 1,
    batch_size: int = 1 << 14,
) -> LatentEstimate:
    """Log p(x) of each row by importance sampling: ``log (1/K) sum_k p(x, z_k) / q(z_k | x)``, z_k from q(. | x).

    Its expectation L_K is a lower bound on log p(x) (Jensen) that rises with K: L_1 is the evidence lower bound, the
    limit is log p(x), and for q = p(z | x) every draw answers log p(x) itself. Everything is summed on the log scale.

    Parameters
    ----------
    model : object with ``log_joint(x, z) -> (batch,)``
        z is what the proposal answers: an array, a tuple of layers, anything.
    proposal : object with ``infer(x, noise) -> (z, log_q)``
        For example an encoder. Row i of what it draws must depend on row i of the noise alone.
    x : array of shape (n, ...)
        The rows.
    n_samples : int K, in [1, inf)
        Draws for each row.
    noise : Noise
        Draw k of repeat r of row i has position ``(i * repeats + r) * K + k``, which must stay below 2^32.
    repeats : int, in [1, inf), default 1
        Independent estimates of L_K for each row, which are averaged.
    batch_size : int, in [1, inf)
        Pairs (x, z) at a time; bounds the memory, changes no value beyond rounding.

    Returns
    -------
    LatentEstimate

    Raises
    ------
    UserValueError
        When a log weight is nan or +inf, naming the row; for sizes below 1.

    References
    ----------
    Burda, Grosse and Salakhutdinov (2016), "Importance weighted autoencoders"; Goodfellow, Bengio and Courville (2016),
    section 20.10.3.
    """
    n = len(x)
    if n < 1:
        raise UserValueError.must("x", "have at least 1 row", x)
    for value, name in ((n_samples, "n_samples"), (repeats, "repeats"), (batch_size, "batch_size")):
        if value < 1:
            raise UserValueError.must(name, "be at least 1", value)
    if n * repeats * n_samples > 1 << 32:
        what = f"{n} rows x {repeats} repeats x {n_samples} draws are more than 2^32"
        raise UserValueError(what, "n_samples", "score fewer rows at a time, each part with a noise of its own")
    units = n * repeats
    first, second = (np.full(units, -np.inf) for _ in range(2))  # log sum w, log sum w^2
    tail = min(math.ceil(min(n_samples / 5, 3 * math.sqrt(n_samples))), _KEPT) + 1
    top = np.full((units, tail), -np.inf)  # the largest log w
    step, width = max(batch_size // n_samples, 1), min(n_samples, batch_size)
    for start in range(0, units, step):
        some = np.arange(start, min(start + step, units))
        for k in range(0, n_samples, width):
            log_w = _log_weights(model, proposal, x, some, np.arange(k, min(k + width, n_samples)), n_samples,
                                 repeats, noise)  # fmt: skip
            first[some] = np.logaddexp(first[some], np.logaddexp.reduce(log_w, axis=1))
            second[some] = np.logaddexp(second[some], np.logaddexp.reduce(2 * log_w, axis=1))
            both = np.concatenate([top[some], log_w], axis=1)
            top[some] = np.partition(both, both.shape[1] - tail, axis=1)[:, -tail:]
    shape = (n, repeats)
    return _summary(first.reshape(shape), second.reshape(shape), top.reshape(*shape, tail), n_samples)


def latent_score(
    model: HasLatents,
    proposal: Encoder,
    x: Array,
    n_samples: int,
    noise: Noise,
    *,
    repeats: int = 1,
    weight: ArrayLike | None = None,
    rows: ArrayLike | None = None,
    data_space: str = "",
    batch_size: int = 1 << 14,
) -> Score:
    """Mean log-likelihood of the rows by importance sampling: a lower bound in expectation, as the score says.

    Parameters
    ----------
    model, proposal, x, n_samples, noise, repeats, batch_size
        As of `latent_log_prob`.
    weight, rows, data_space
        As of `Score`.

    Returns
    -------
    Score
        Kind ``lower bound``, nats per row. ``error``: standard error of the estimator over new draws; inf for one draw
        per row and one repeat. The note gives K, how much too low the value is likely to be, and says when one weight
        makes up more than half of a row's sum, or weights have a heavy tail.
    """
    estimate = latent_log_prob(model, proposal, x, n_samples, noise, repeats=repeats, batch_size=batch_size)
    weights = np.ones(len(x)) if weight is None else np.asarray(weight, dtype=np.float64).ravel()
    if weights.shape != estimate.value.shape or not weights.sum() > 0:
        what = f"weight must have one value per row, with a positive sum, got {weights.size} for {len(x)} rows"
        raise UserValueError(what, "weight")
    weights = weights / weights.sum()
    used = weights > 0
    error = math.sqrt(float(np.square(weights[used] * estimate.stderr[used]).sum()))
    bias = float(weights[used] @ estimate.bias[used])
    note = f"importance-weighted bound with {n_samples} draws per row, in expectation below log p(x)"
    note += f" by about {-bias:.2g} nats" if math.isfinite(bias) else ""
    dominated = np.flatnonzero(used & (estimate.max_share > 0.5))
    if n_samples > 1 and dominated.size:
        worst = int(dominated[np.argmax(estimate.max_share[dominated])])
        note += (
            f"; one weight makes up more than half of the sum in {dominated.size} of {int(used.sum())} rows "
            f"(row {worst}: {estimate.max_share[worst]:.0%}), so the gap is not to be trusted"
        )
    looked_at, heavy = (int((used & (estimate.khat > limit)).sum()) for limit in (-np.inf, 0.7))
    if heavy > looked_at / 10:  # fewer come by chance
        note += (
            f"; the weights have a heavy tail (k-hat above 0.7) in {heavy} of {looked_at} rows looked at, "
            "so the error is not to be trusted"
        )
    return Score.from_pointwise(
        estimate.value, weight=weight, error=error, kind="lower bound", data_space=data_space, rows=rows, note=note
    )


def _log_weights(
    model: HasLatents,
    proposal: Encoder,
    x: Array,
    units: NDArray[np.int64],
    draws: NDArray[np.int64],
    n_samples: int,
    repeats: int,
    noise: Noise,
) -> Floats:
    """Of some pairs of row and repeat, and some of their draws: (units, draws)."""
    index = np.repeat(units // repeats, len(draws))
    positions = (units[:, None] * n_samples + draws).ravel()
    some = x[_as_index(index, x)]
    z, log_q = proposal.infer(some, noise.rows(positions))
    log_w = to_numpy(model.log_joint(some, z)) - to_numpy(log_q)
    if log_w.shape != index.shape:
        what = f"log weights must be {len(index)}, one per row, got shape {log_w.shape}"
        raise UserValueError(what, "model, proposal", "log_joint and log_q must answer one number per row")
    bad = np.flatnonzero(np.isnan(log_w) | (log_w == np.inf))
    if bad.size:
        what = f"log weights must be below inf, got {log_w[bad[0]]}"
        raise UserValueError(what, f"row {index[bad[0]]}", "log p(x, z) and log q(z | x) must be numbers, q not 0")
    return log_w.reshape(len(units), len(draws))


def _as_index(index: NDArray[np.int64], x: Array) -> Any:
    if not is_tensor(x):
        return index
    import torch

    return torch.from_numpy(index).to(x.device)


def _summary(first: Floats, second: Floats, top: Floats, k: int) -> LatentEstimate:
    """From (n, repeats) each, and (n, repeats, tail) largest log weights."""
    repeats = first.shape[1]
    values = first - math.log(k)
    value = values.mean(axis=1)
    alive = np.isfinite(first)
    safe = np.where(alive, first, 0.0)
    relative = np.where(alive, np.exp(np.where(alive, second, -np.inf) - 2 * safe), 1.0)  # 1 / ESS
    variance = np.full(first.shape, np.inf) if k == 1 else np.maximum(relative * k - 1, 0.0) / (k - 1)
    with np.errstate(invalid="ignore"):
        if repeats > 1:
            stderr = values.std(axis=1, ddof=1) / math.sqrt(repeats)
        else:
            stderr = np.sqrt(variance[:, 0])
    largest = np.where(alive, top.max(axis=2), -np.inf)
    fractions = np.where(alive, np.exp(largest - safe), 1.0)
    worst, max_share = fractions.argmax(axis=1), fractions.max(axis=1)
    khat = np.full(len(value), np.nan)
    for i in np.argsort(-max_share, kind="stable")[:_LOOKED_AT]:
        ordered = np.sort(top[i, worst[i]])
        if np.isfinite(ordered[0]):
            w = np.exp(ordered - ordered[-1])
            khat[i] = excess_shape(w[1:] - w[0])
    return LatentEstimate(
        value, np.where(np.isnan(stderr), np.inf, stderr), -variance.mean(axis=1) / 2, max_share, khat
    )
