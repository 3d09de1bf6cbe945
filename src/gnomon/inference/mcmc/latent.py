"""What alternating draws of a latent model trade: codes that tell much about the data tie the chain to where it is.

Alternating ``h ~ p(h | x)`` and ``x ~ p(x | h)`` is a Gibbs sweep of two blocks (`Gibbs`). It mixes fast where
``H(h | x)`` is large; a code is useful where ``I(x; h) = H(h) - H(h | x)`` is large: the two pull apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, HasMarginalEnergy, Noise
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.exact.enumeration import weighted_states
from gnomon.inference.mcmc.gibbs import block_kernel
from gnomon.inference.mcmc.stationary import second_eigenvalue
from gnomon.numeric.given import checked, numbers
from gnomon.numeric.ops import logsumexp, softplus
from gnomon.numeric.tensors import is_tensor

__all__ = [
    "InformationEstimate", "TradeOff", "conditional_entropy", "coupled_pair_trade_off", "estimate_mutual_information",
    "mutual_information", "trade_off",
]  # fmt: skip

_CHUNK = 1 << 21
"""Entries of a table of log probabilities at a time: 16 MB."""


@dataclass(frozen=True)
class InformationEstimate:
    """Bounds of I(x; h) from draws, in nats.

    Parameters
    ----------
    lower : float
        Too low on average, and never above log n: with codes of more than log n nats it says no more than that.
    upper : float
        Too high on average.
    lower_error, upper_error : float
        Standard errors of the two means, over the draws.
    n : int
        Draws.
    """

    lower: float
    upper: float
    lower_error: float
    upper_error: float
    n: int

    def __str__(self) -> str:
        return (
            f"I(x; h) between {self.lower:.4f} +- {self.lower_error:.4f} (biased down, at most log n = "
            f"{np.log(self.n):.2f}) and {self.upper:.4f} +- {self.upper_error:.4f} nats (biased up)"
        )


@dataclass(frozen=True)
class TradeOff:
    """How much a code tells and how slowly alternating draws mix.

    Parameters
    ----------
    information : float
        I(x; h) in nats.
    eigenvalue : float, in [0, 1]
        Second eigenvalue of the chain on x: what a sweep keeps at worst; 0 mixes in one sweep.
    """

    information: float
    eigenvalue: float


@checked
def conditional_entropy(model: Any, x: Array, block: str | None = None) -> NDArray[np.float64]:
    """``H(h | x)`` of each row in nats: the free choice that a draw of the other block has.

    Parameters
    ----------
    model : HasBlocks
        Two blocks; conditionals with ``entropy()``.
    x : array of shape (rows, size)
        States of the block.
    block : str, optional
        The block that x is of; the first by default.

    Returns
    -------
    array of shape (rows,)
    """
    block, other = _two(model, block)
    conditional = model.conditional(other, {block: _states(model, block, x)})
    if not hasattr(conditional, "entropy"):
        raise UserTypeError(f"{type(conditional).__name__} has no entropy", "model", "use independent binary units")
    return to_numpy(conditional.entropy())


@checked
def mutual_information(model: HasMarginalEnergy, *, limit: int = 20) -> float:
    """Exact ``I(x; h) = H(x) - E_h[H(x | h)]`` between the two blocks, in nats, by enumeration of each.

    Cost ``2^m + 2^n`` energies for blocks of m and n units, memory bounded.

    Parameters
    ----------
    model : HasMarginalEnergy
        Two blocks of binary units.
    limit : int
        Largest block that is enumerated.

    Raises
    ------
    UserValueError
        Where a block is larger; `estimate_mutual_information` then takes draws.

    References
    ----------
    Bengio, Mesnil, Dauphin and Rifai (2013), "Better mixing via deep representations".
    """
    first, other = _two(model, None)
    largest = max(model.sizes.values())
    if largest > limit:
        raise UserValueError(
            f"a block of {largest} units takes 2^{largest} energies", "model",
            f"use at most {limit}, or estimate_mutual_information(model, draws, noise)",
        )  # fmt: skip
    entropy = 0.0
    for _, log_p in weighted_states(model, first, limit=limit):
        p = to_numpy(log_p)
        entropy -= float(np.exp(p) @ np.where(np.isneginf(p), 0.0, p))
    free = 0.0
    for state, log_p in weighted_states(model, other, limit=limit):
        free += float(np.exp(to_numpy(log_p)) @ conditional_entropy(model, state[other], other))
    return max(entropy - free, 0.0)


@checked
def estimate_mutual_information(model: Any, x: Array, noise: Noise, *, block: str | None = None) -> InformationEstimate:
    """``I(x; h)`` from draws of x: one code is drawn per row and told apart from those of the other rows.

    ``log p(h_i | x_i) - log (1/n) sum_j p(h_i | x_j)`` is a lower bound on average, at most log n, and with j = i left
    out of the mean (of the n - 1 others) an upper bound: neither needs log Z.

    Parameters
    ----------
    model : HasBlocks
        Two blocks of binary units.
    x : array of shape (n, size)
        Independent draws of the block under the model (or under the data: I is then that of data and code). Draws along
        one chain resemble one another, which moves both bounds down, the upper one below I too: take many chains.
    noise : Noise
    block : str, optional
        The block that x is of; the first by default.

    Returns
    -------
    InformationEstimate
        Cost ``n^2 m`` for codes of m units.

    References
    ----------
    Poole, Ozair, van den Oord, Alemi and Tucker (2019), "On variational bounds of mutual information".
    """
    block, other = _two(model, block)
    x = _states(model, block, x)
    n = len(x)
    if n < 2:
        raise UserValueError.must("x", "have at least 2 draws", n, remedy="use thousands for a code of several nats")
    conditional = model.conditional(other, {block: x})
    if not hasattr(conditional, "logits"):
        raise UserTypeError(
            f"conditionals must be Bernoulli, got {type(conditional).__name__}", "model", "use binary units"
        )
    h, logits = to_numpy(conditional.sample(noise, 0)), to_numpy(conditional.logits)
    ground = softplus(logits).sum(axis=1)
    lower, upper = np.empty(n), np.empty(n)
    rows = max(_CHUNK // n, 1)
    for start in range(0, n, rows):
        here = np.arange(start, min(start + rows, n))
        log_p = h[here] @ logits.T - ground
        own = log_p[np.arange(len(here)), here]
        lower[here] = own - (logsumexp(log_p, axis=1) - np.log(n))
        log_p[np.arange(len(here)), here] = -np.inf
        upper[here] = own - (logsumexp(log_p, axis=1) - np.log(n - 1))
    down, up = (float(part.std(ddof=1) / np.sqrt(n)) for part in (lower, upper))
    return InformationEstimate(float(lower.mean()), float(upper.mean()), down, up, n)


def trade_off(model: HasMarginalEnergy) -> TradeOff:
    """Information and second eigenvalue of a small model, both exact.

    Scaling the parameters of a model with biases lets it collapse to one state, where the information goes to 0 and the
    chain mixes at once: that is no test of the trade.

    Parameters
    ----------
    model : HasMarginalEnergy
        Two blocks of at most 12 binary units each.
    """
    chain = block_kernel(model, _two(model, None)[0])
    return TradeOff(mutual_information(model, limit=12), second_eigenvalue(chain))


@checked
def coupled_pair_trade_off(w: float) -> TradeOff:
    """The same for `CoupledPair` in closed form: ``I = log 2 - H_b(sigma(2 w))``, ``lambda_2 = tanh(w)^2``.

    Both rise with the coupling: at w = 0 nothing is told and one sweep mixes.

    Examples
    --------
    >>> coupled_pair_trade_off(0.0)
    TradeOff(information=0.0, eigenvalue=0.0)
    >>> found = coupled_pair_trade_off(2.0)
    >>> round(found.information, 4), round(found.eigenvalue, 4)
    (0.6031, 0.9293)
    """
    if not np.isfinite(w):
        raise UserValueError.must("w", "be finite", w)
    a = 2.0 * abs(float(w))
    wrong, right = float(softplus(np.asarray(a))), float(softplus(np.asarray(-a)))
    entropy = right / (1 + np.exp(-a)) + wrong * np.exp(-wrong)
    return TradeOff(max(float(np.log(2.0) - entropy), 0.0), float(np.tanh(w) ** 2))


def _states(model: Any, block: str, x: Any) -> Array:
    """Rows of the block's states."""
    states: Array = x if is_tensor(x) else numbers(x, "x")
    units = getattr(model, "sizes", {}).get(block)  # models of conditionals alone need not tell
    if states.ndim != 2 or states.shape[1] != (units or states.shape[1]):
        what = f"x must be (rows, {units or 'units'}) for block {block!r}, got shape {tuple(states.shape)}"
        raise UserValueError(what, "x")
    return states


def _two(model: Any, block: str | None) -> tuple[str, str]:
    blocks = tuple(getattr(model, "blocks", ()))
    if len(blocks) != 2:
        raise UserTypeError(f"model must have two blocks, got {len(blocks)}", "model")
    block = blocks[0] if block is None else block
    if block not in blocks:
        raise UserValueError(f"block {block!r} is unknown", "block", "use " + " or ".join(blocks))
    return block, blocks[1] if block == blocks[0] else blocks[0]
