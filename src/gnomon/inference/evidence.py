"""Draws of directed models given observed effects: by weights, or by keeping what agrees."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise
from gnomon.errors import UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.directed import DirectedModel, NamedDraws, as_directed
from gnomon.inference.importance.weights import WeightedSample
from gnomon.numeric.given import checked

__all__ = ["Accepted", "likelihood_weighting", "rejection_sample"]

_BATCH = 1 << 16
"""Most attempts drawn at once."""


class Accepted(NamedTuple):
    """Exact draws given evidence, and what they took.

    Attributes
    ----------
    values : NamedDraws
        n rows of all nodes.
    attempts : int
        Draws of the model up to the last one kept; ``len(values) / attempts`` is about the evidence's probability.
    """

    values: NamedDraws
    attempts: int


@checked
def likelihood_weighting(
    model: DirectedModel,
    evidence: Mapping[str, Any],
    n: int,
    noise: Noise,
    *,
    do: Mapping[str, Any] | None = None,
) -> WeightedSample:
    """Draws given evidence anywhere: observed nodes are held, all others drawn from causes to effects, and weighted.

    ``w = prod over observed e of p(x_e | parents(x_e))``. The mean weight is an unbiased estimate of the evidence's
    probability. Evidence on roots gives equal weights. The more unlikely the evidence is under the draws, the fewer
    of them count: a warning says so (``notice`` and ``ess`` of the answer).

    Parameters
    ----------
    model : DirectedModel
    evidence : mapping of str to value
        Values as in `DirectedModel.sample`; continuous ones too.
    n : int, in [1, inf)
    noise : Noise
        As in `DirectedModel.sample`: without evidence the draws are the same.
    do : mapping of str to value, optional
        Nodes set from outside; they carry no weight.

    Returns
    -------
    WeightedSample
        Its values are `NamedDraws` of all nodes.

    Raises
    ------
    UserValueError
        When every weight is 0.

    References
    ----------
    Fung and Chang (1990); Shachter and Peot (1990), "Simulation approaches to general probabilistic inference".
    """
    directed = as_directed(model)
    if n < 1:
        raise UserValueError.must("n", "be at least 1", n)
    values: dict[str, Array] = directed.held(n, do, evidence)
    directed.draw(values, n, noise, directed.order, held=(*evidence, *(do or {})))
    log_w = np.zeros(n)
    for node in evidence:
        log_w = log_w + to_numpy(directed.node_log_prob(node, values))
    if log_w.max() == -np.inf:
        what = f"none of {n} draws agrees with the evidence {_printed(evidence)}"
        raise UserValueError(what, "evidence", "it may be impossible, or rare: use more draws, or VariableElimination")
    sample = WeightedSample(log_w, NamedDraws({node: values[node] for node in directed.order}))
    _report(sample)
    return sample


@checked
def rejection_sample(
    model: DirectedModel,
    evidence: Mapping[str, Any],
    n: int,
    noise: Noise,
    *,
    do: Mapping[str, Any] | None = None,
    max_attempts: int = 1_000_000,
) -> Accepted:
    """Exact draws given evidence on discrete nodes: the model is drawn until n draws agree with it.

    The evidence and its ancestors are drawn first, the rest only where they agree. Expected attempts: n over the
    probability of the evidence.

    Parameters
    ----------
    model : DirectedModel
    evidence : mapping of str to value
        A number each, or an array of shape (1, ...).
    n : int, in [1, inf)
    noise : Noise
        Attempt k uses position k, so that how many are drawn at once changes nothing.
    do : mapping of str to value, optional
        Nodes set from outside.
    max_attempts : int, default 1,000,000

    Returns
    -------
    Accepted

    Raises
    ------
    UserValueError
        Fewer than n agree within `max_attempts`, with how many did; evidence on a continuous node, which never does.

    References
    ----------
    Henrion (1988), "Propagating uncertainty in Bayesian networks by probabilistic logic sampling".
    """
    directed = as_directed(model)
    if n < 1:
        raise UserValueError.must("n", "be at least 1", n)
    directed.held(1, do, evidence)  # names and codes
    deciding = {*evidence, *directed.graph.ancestors(evidence)}
    first = [node for node in directed.order if node in deciding]
    kept: list[dict[str, Array]] = []
    accepted = attempts = 0
    while accepted < n and attempts < max_attempts:
        rate = max(accepted, 1) / max(attempts, 1)
        size = min(max(int(1.2 * (n - accepted) / rate), 256), _BATCH, max_attempts - attempts)
        positions = np.arange(attempts, attempts + size)
        values: dict[str, Array] = directed.held(size, do, None)
        directed.draw(values, size, noise.take(positions), first, held=do or ())
        good = np.flatnonzero(_agree(values, evidence, size))[: n - accepted]
        if good.size:
            chosen = {node: column[good] for node, column in values.items()}
            later = [node for node in do or () if node not in deciding]
            directed.draw(chosen, good.size, noise.take(positions[good]), directed.order, held=later)
            kept.append(chosen)
        accepted += good.size
        attempts += size if accepted < n else int(good[-1]) + 1
    if accepted < n:
        what = f"{accepted} of {attempts} draws agree with the evidence {_printed(evidence)}, fewer than n = {n}"
        raise UserValueError(
            what, "max_attempts", "use likelihood_weighting or VariableElimination, or raise max_attempts"
        )
    return Accepted(NamedDraws({node: _joined([part[node] for part in kept]) for node in directed.order}), attempts)


def _report(sample: WeightedSample) -> None:
    """Warn of few effective draws, which weights of few distinct values hide from the tests of their tail."""
    n, ess = len(sample), sample.ess
    if sample.notice:
        warnings.warn(sample.notice, stacklevel=3)
    elif ess < max(n / 100, min(30, n / 2)):
        what = f"the evidence is rare under the draws: they count as {ess:.1f} of {n}"
        warnings.warn(f"{what}; use more draws, VariableElimination for tables, or MCMC", stacklevel=3)


def _agree(values: Mapping[str, Array], evidence: Mapping[str, Any], n: int) -> NDArray[np.bool_]:
    same = np.ones(n, np.bool_)
    for node, wanted in evidence.items():
        drawn = to_numpy(values[node]).reshape(n, -1)
        if not (drawn == np.floor(drawn)).all():
            remedy = "use likelihood_weighting"
            raise UserValueError(f"{node!r} is continuous: no draw equals {wanted}", "evidence", remedy)
        same &= (drawn == to_numpy(wanted).reshape(1, -1)).all(1)
    return same


def _joined(parts: list[Array]) -> Array:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import torch

    return torch.cat(parts)


def _printed(evidence: Mapping[str, Any]) -> str:
    text = ", ".join(f"{node} = {value}" for node, value in evidence.items())
    return text if len(text) <= 80 else text[:77] + "..."
