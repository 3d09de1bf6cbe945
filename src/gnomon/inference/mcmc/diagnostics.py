"""What chains tell about their own mixing: R-hat, effective sample size, Monte Carlo error. None can prove it.

Draws are arrays (chains, draws, ...); every number is answered per coordinate, with the shape of the rest. A coordinate
that is the same in all draws, or is not finite, has no such number: NaN, which the table marks. Chains that all sit in
one mode look as good as chains that have seen them all: start them apart. A chain that is the copy of another, draw for
draw, counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft, special, stats

from gnomon.contracts import Array
from gnomon.errors import UserValueError
from gnomon.inference.arrays import to_numpy

__all__ = ["Summary", "autocorrelation", "copies", "ess", "integrated_time", "mcse", "r_hat", "summarize"]

Floats = NDArray[np.float64]

_COLUMNS = 64
"""Coordinates looked at together: bounds the memory of the transforms."""

R_HAT_LIMIT = 1.01
ESS_PER_CHAIN = 100
"""Beyond or below these a coordinate is marked (Vehtari et al. 2021)."""


def autocorrelation(draws: Array) -> Floats:
    """Autocorrelation of each chain at every lag: ``rho_k = c_k / c_0``, ``c_k = sum_t (x_t - m)(x_{t+k} - m) / n``.

    Parameters
    ----------
    draws : array of shape (chains, n, ...)
        n at least 4.

    Returns
    -------
    array of the shape of `draws`
        Lag k at index k of axis 1; NaN for a chain that never moves. Cost O(n log n) per chain and coordinate.

    Examples
    --------
    >>> autocorrelation(np.array([[1.0, -1.0, 1.0, -1.0]])).round(6).tolist()
    [[1.0, -0.75, 0.5, -0.25]]
    """
    x = _checked(draws)
    covariance = _autocovariance(np.ldexp(x, -_exponent(x, axis=1)))
    moves = (x != x[:, :1]).any(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = covariance / covariance[:, :1]
    return np.where(moves, rho, np.nan)


def r_hat(draws: Array) -> Floats | float:
    """Rank-normalized split R-hat: the larger of that of the draws and that of their distances from the median.

    Halves of chains are compared: ``sqrt(((n - 1) W / n + B / n) / W)`` on normal scores of the ranks, with W the
    variance within and B / n the variance of the means. The second, folded, sees unequal spreads. Below 1.01 is good.

    Parameters
    ----------
    draws : array of shape (chains, n, ...)
        n at least 4.

    Returns
    -------
    float or array of shape (...)
        inf where chains stand still at different places; NaN where all draws are equal or one is not finite.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), "Rank-normalization, folding, and localization".

    Examples
    --------
    >>> float(r_hat(np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])))
    inf
    """

    def both(x: Floats) -> Floats:
        halves = _split(x)
        folded = np.abs(halves - np.median(halves, axis=(0, 1)))
        return np.fmax(_plain_r_hat(_normal_scores(halves)), _plain_r_hat(_normal_scores(folded)))

    return _by_columns(draws, both)


def ess(draws: Array, kind: str = "bulk") -> Floats | float:
    """Effective sample size: that many independent draws would estimate as well.

    ``ESS = m n / tau``, ``tau = 1 + 2 sum_k rho_k`` over halves of chains, with autocorrelations that count differences
    between chains too, summed by Geyer's initial monotone sequence (pairs of lags, while positive, never rising).

    Parameters
    ----------
    draws : array of shape (chains, n, ...)
        n at least 8.
    kind : {"bulk", "tail", "mean"}
        Of normal scores of the ranks; the smaller of those of the 5% and the 95% quantile; of the draws as they are,
        for the error of their mean.

    Returns
    -------
    float or array of shape (...)
        At most ``m n log10(m n)`` (draws may be better than independent); NaN where all draws are equal or one is not
        finite.

    References
    ----------
    Geyer (1992), "Practical Markov chain Monte Carlo"; Vehtari et al. (2021).
    """
    kinds: dict[str, Callable[[Floats], Floats]] = {
        "bulk": lambda x: _plain_ess(_normal_scores(_split(x))),
        "tail": lambda x: np.fmin(_quantile_ess(x, 0.05), _quantile_ess(x, 0.95)),
        "mean": lambda x: _plain_ess(_split(x)),
    }
    if kind not in kinds:
        raise UserValueError.must("kind", f"be one of {', '.join(kinds)}", kind)
    if np.shape(draws)[1:2] < (8,):
        raise UserValueError.must("draws", "have 8 or more per chain", draws)
    return _by_columns(draws, kinds[kind])


def integrated_time(draws: Array) -> Floats | float:
    """Draws that count as one: ``tau = m n / ESS`` of the mean; 1 for independent draws."""
    m, n = np.shape(draws)[:2]
    return m * n / ess(draws, "mean")


def mcse(draws: Array) -> Floats | float:
    """Monte Carlo standard error of the mean: ``sd / sqrt(ESS)`` with the ESS of the mean."""
    return _spread(_checked(draws)) / np.sqrt(ess(draws, "mean"))


def copies(draws: Array) -> list[list[int]]:
    """Groups of chains that are the same draw for draw in all coordinates, and move: one seed was used for all of them.

    Examples
    --------
    >>> copies(np.array([[1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 0.0, 1.0], [1.0, 2.0, 3.0, 4.0]]))
    [[0, 2]]
    """
    x = _checked(draws)
    groups: list[list[int]] = []
    for i in np.flatnonzero((x != x[:, :1]).any(axis=tuple(range(1, x.ndim)))).tolist():
        same = next((group for group in groups if np.array_equal(x[group[0]], x[i])), None)
        if same is None:
            groups.append([i])
        else:
            same.append(i)
    return [group for group in groups if len(group) > 1]


@dataclass(frozen=True)
class Summary:
    """Moments and diagnostics of draws, one row per coordinate.

    Parameters
    ----------
    names : tuple of str
        Such as ``x[0]``.
    columns : mapping of name to array (rows,)
        ``mean``, ``sd``, ``mcse``, ``ess_bulk``, ``ess_tail``, ``r_hat``.
    chains : int
        Number of chains; the bulk and tail ESS should be 100 times that.
    """

    names: tuple[str, ...]
    columns: Mapping[str, Floats]
    chains: int

    @property
    def marks(self) -> tuple[str, ...]:
        """What speaks against each row: empty where nothing does, which proves nothing."""
        few = ESS_PER_CHAIN * self.chains
        enough = np.fmin(self.columns["ess_bulk"], self.columns["ess_tail"])
        words = []
        for r, e in zip(self.columns["r_hat"], enough, strict=True):
            if np.isnan(r):
                words.append("constant or not finite")
                continue
            found = (["not mixed"] if r > R_HAT_LIMIT else []) + (["few"] if not e >= few else [])
            words.append(", ".join(found))
        return tuple(words)

    @property
    def flagged(self) -> dict[str, str]:
        """The rows that something speaks against."""
        return {name: mark for name, mark in zip(self.names, self.marks, strict=True) if mark}

    def __str__(self) -> str:
        head = ["", *self.columns, ""]
        rows = [
            [name, *(_cell(key, column[i]) for key, column in self.columns.items()), mark]
            for i, (name, mark) in enumerate(zip(self.names, self.marks, strict=True))
        ]
        widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
        lines = [
            [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:-1], widths[1:-1], strict=True)), row[-1]]
            for row in [head, *rows]
        ]
        return "\n".join("  ".join(line).rstrip() for line in lines)


def summarize(draws: Mapping[str, Array] | Array) -> Summary:
    """Mean, sd, Monte Carlo error, ESS and R-hat of every coordinate.

    Parameters
    ----------
    draws : array of shape (chains, n, ...), or mapping of name to such
        n at least 8; a bare array is called ``x``.

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> found = summarize(Noise(0, "draws").normal((4, 1000, 2), like=np.empty(0)))
    >>> found.names, found.flagged
    (('x[0]', 'x[1]'), {})
    """
    named = draws if isinstance(draws, Mapping) else {"x": draws}
    parts, names = [], []
    for name, values in named.items():
        x = _checked(values)
        names += [name + _index(at) for at in np.ndindex(x.shape[2:])]
        found = {
            "mean": _average(x), "sd": _spread(x), "mcse": mcse(x),
            "ess_bulk": ess(x, "bulk"), "ess_tail": ess(x, "tail"), "r_hat": r_hat(x),
        }  # fmt: skip
        parts.append({key: np.ravel(value) for key, value in found.items()})
    columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return Summary(tuple(names), columns, len(next(iter(named.values()))))


def _checked(draws: Array) -> Floats:
    x = to_numpy(draws)
    if x.ndim < 2 or x.shape[0] < 1 or x.shape[1] < 4:
        raise UserValueError.must("draws", "be (chains, draws, ...) with 4 draws or more", x)
    return x


def _exponent(x: Floats, axis: int | tuple[int, ...]) -> NDArray[np.int64]:
    """Power of 2 to divide numbers by, at the cost of no digit, so that squares neither overflow nor vanish."""
    with np.errstate(invalid="ignore"):
        return np.frexp(np.abs(x).max(axis=axis, keepdims=True))[1].astype(np.int64)


def _average(x: Floats) -> Floats:
    exponent = _exponent(x, axis=(0, 1))
    return np.asarray(np.ldexp(np.ldexp(x, -exponent).mean(axis=(0, 1)), exponent[0, 0]))


def _spread(x: Floats) -> Floats:
    """Standard deviation of all draws; NaN where one is not finite."""
    exponent = _exponent(x, axis=(0, 1))
    with np.errstate(invalid="ignore"):
        return np.asarray(np.ldexp(np.ldexp(x, -exponent).std(axis=(0, 1), ddof=1), exponent[0, 0]))


def _by_columns(draws: Array, number: Callable[[Floats], Floats]) -> Any:
    """One number per coordinate, NaN where it is constant or not finite."""
    x = _checked(draws)
    again = [i for group in copies(x) for i in group[1:]]
    x = np.delete(x, again, axis=0)
    rest, flat = x.shape[2:], x.reshape(*x.shape[:2], -1)
    result = np.full(flat.shape[2], np.nan)
    good = np.flatnonzero(np.isfinite(flat).all(axis=(0, 1)) & (flat != flat[:1, :1]).any(axis=(0, 1)))
    for k in range(0, good.size, _COLUMNS):
        some = good[k : k + _COLUMNS]
        part = flat[..., some]
        result[some] = number(np.ldexp(part, -_exponent(part, axis=(0, 1))))
    return result.reshape(rest) if rest else float(result[0])


def _split(x: Floats) -> Floats:
    """Halves of chains as chains; the middle draw of an odd number is left out."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _normal_scores(x: Floats) -> Floats:
    """Normal quantiles of the ranks over all chains, ties at their mean rank (Blom 1958)."""
    flat = x.reshape(-1, x.shape[-1])
    ranks = stats.rankdata(flat, axis=0)
    return np.asarray(special.ndtri((ranks - 0.375) / (len(flat) + 0.25))).reshape(x.shape)


def _plain_r_hat(x: Floats) -> Floats:
    n = x.shape[1]
    within = x.var(axis=1, ddof=1).mean(axis=0)
    between = x.mean(axis=1).var(axis=0, ddof=1)
    still = (x == x[:, :1]).all(axis=(0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt((n - 1) / n + between / within)
    apart = (x != x[:1, :1]).any(axis=(0, 1))
    return np.asarray(np.where(still, np.where(apart, np.inf, np.nan), ratio))


def _autocovariance(x: Floats) -> Floats:
    """By the transform, padded so that nothing wraps round: (chains, n, ...)."""
    n = x.shape[1]
    size = fft.next_fast_len(2 * n, real=True)
    spectrum = fft.rfft(x - x.mean(axis=1, keepdims=True), size, axis=1)
    return np.asarray(fft.irfft(spectrum.real**2 + spectrum.imag**2, size, axis=1)[:, :n] / n)


def _plain_ess(x: Floats) -> Floats:
    """Of (chains, n, columns) as they are."""
    m, n = x.shape[:2]
    covariance = _autocovariance(x).mean(axis=0)
    within = covariance[0] * n / (n - 1)
    total = covariance[0] + (x.mean(axis=1).var(axis=0, ddof=1) if m > 1 else 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1 - (within - covariance) / total
    rho[0] = 1.0
    tau = np.maximum(_monotone_time(rho), 1 / np.log10(m * n))
    return np.asarray(np.where(total > 0, m * n / tau, np.nan))


def _monotone_time(rho: Floats) -> Floats:
    """``1 + 2 sum rho_k`` by Geyer's initial monotone sequence, lags on axis 0."""
    pairs = max((len(rho) - 3) // 2, 0) + 1
    sums = rho[: 2 * pairs].reshape(pairs, 2, -1).sum(axis=1)
    negative = sums < 0
    end = np.where(negative.any(axis=0), negative.argmax(axis=0), pairs - 1)
    kept = np.arange(pairs)[:, None] < end
    total = np.where(kept, np.minimum.accumulate(sums, axis=0), 0.0).sum(axis=0)
    # the first lag behind what is kept still lessens the bias of tau for antithetic chains
    rest = np.take_along_axis(rho, 2 * end[None, :], axis=0)[0]
    return np.asarray(2 * total - 1 + np.maximum(rest, 0.0))


def _quantile_ess(x: Floats, p: float) -> Floats:
    below = (x <= np.quantile(x, p, axis=(0, 1))).astype(np.float64)
    return _plain_ess(_split(below))


def _index(at: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, at))}]" if at else ""


def _cell(column: str, value: float) -> str:
    if np.isnan(value):
        return "-"
    return f"{value:.0f}" if column.startswith("ess") else f"{value:.3f}" if column == "r_hat" else f"{value:.4g}"
