"""Finite distributions: categories, and whole joint tables of discrete variables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserTypeError, UserValueError, shown
from gnomon.numeric.given import checked, floats, outcomes, whole

__all__ = ["Categorical", "Table", "search_mass"]

LARGEST = 1 << 26
"""Entries that a joint table may have: 512 MB."""

Floats = NDArray[np.float64]


class Categorical:
    """One of k categories 0 ... k - 1; the last axis of `logits` runs over them.

    Parameters
    ----------
    logits : array or tensor of shape (..., k)
        Log weights; a constant may be added, -inf is a category that never comes. A row needs a finite entry.

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(Categorical(np.log([1.0, 3.0])).log_prob(1)).round(2)
    np.float64(0.75)
    """

    def __init__(self, logits: Any) -> None:
        if not hasattr(logits, "requires_grad"):
            single = getattr(logits, "dtype", None) == np.float32
            logits = floats(logits, "logits").astype(np.float32 if single else np.float64, copy=False)
        if not logits.ndim or not logits.shape[-1]:
            raise UserValueError.must("logits", "have one entry per category on the last axis", logits)
        self.logits = logits

    @classmethod
    def of(cls, probs: ArrayLike) -> Categorical:
        """From probabilities that sum to 1 along the last axis, to 1e-6.

        Raises
        ------
        UserValueError
            Negative entries or another sum.
        """
        p = floats(probs, "probs")
        if not p.ndim or not p.size:
            raise UserValueError.must("probs", "have one entry per category on the last axis", p)
        total = p.sum(-1)
        if (p < 0).any() or not (abs(total - 1) <= 1e-6).all():
            wrong = float(total.ravel()[np.argmax(~(abs(total.ravel() - 1) <= 1e-6))])
            raise UserValueError(f"probs must be at least 0 and sum to 1, got {wrong}", "probs", "normalize them")
        with np.errstate(divide="ignore"):
            return cls(np.log(p))

    @property
    def log_probs(self) -> Any:
        """Normalized log probabilities."""
        from gnomon.numeric.ops import log_softmax

        return log_softmax(self.logits)

    @property
    def mean(self) -> Any:
        """Probabilities: the expected indicators of the categories."""
        log_p = self.log_probs
        return np.exp(log_p) if isinstance(log_p, np.ndarray) else log_p.exp()

    def log_prob(self, x: Any) -> Any:
        """Log probability in nats of the categories `x`, shape of x broadcast against the batch."""
        log_p = self.log_probs
        if not isinstance(log_p, np.ndarray):
            import torch

            index = torch.as_tensor(x, dtype=torch.int64, device=log_p.device)
            shape = np.broadcast_shapes(tuple(index.shape), tuple(log_p.shape[:-1]))
            rows = log_p.expand(*shape, log_p.shape[-1])
            return rows.gather(-1, index.expand(shape)[..., None])[..., 0]
        codes = whole(x, "x")
        if codes.size and not (codes.min() >= 0 and codes.max() < log_p.shape[-1]):
            bad = codes[(codes < 0) | (codes >= log_p.shape[-1])].flat[0]
            raise UserValueError.must(
                "x", f"be a category in [0, {log_p.shape[-1]})", bad, remedy="encode them as 0, 1, ..."
            )
        shape = np.broadcast_shapes(outcomes(codes, "x", log_p.shape[:-1]).shape, log_p.shape[:-1])
        rows = np.broadcast_to(log_p, (*shape, log_p.shape[-1]))
        return np.take_along_axis(rows, np.broadcast_to(codes, shape)[..., None], -1)[..., 0]

    def entropy(self) -> Any:
        """Entropy in nats."""
        log_p, p = self.log_probs, self.mean
        if isinstance(p, np.ndarray):
            return -(p * np.where(p > 0, log_p, 0)).sum(-1)
        return -(p * log_p.masked_fill(p == 0, 0)).sum(-1)

    def _kl(self, other: Categorical) -> Any:
        """Infinite where a category that may come never comes under the other."""
        log_p, log_q, p = self.log_probs, other.log_probs, self.mean
        if isinstance(p, np.ndarray):
            with np.errstate(invalid="ignore"):  # of categories that come under neither
                return (p * np.where(p > 0, log_p - log_q, 0)).sum(-1)
        return (p * (log_p - log_q).masked_fill(p == 0, 0)).sum(-1)

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Any:
        """Categories, int64, of shape ``shape + batch``: one uniform number each, against the running sum."""
        from gnomon.distributions.family import axes, uniform

        p = self.mean
        plain = np.asarray(p if isinstance(p, np.ndarray) else p.detach().cpu().numpy(), np.float64)
        u = uniform(noise, (*axes(shape), *plain.shape[:-1]), draw)
        codes = _search(plain, u)
        if isinstance(p, np.ndarray):
            return codes
        import torch

        return torch.from_numpy(codes).to(p.device)


def _search(p: Floats, u: Floats) -> NDArray[np.int64]:
    """The first category whose running sum exceeds u of the whole; never one of probability 0."""
    total = np.cumsum(p, -1)
    u = u * total[..., -1]
    codes = (total <= u[..., None]).sum(-1)
    last = p.shape[-1] - 1 - np.argmax((p > 0)[..., ::-1], -1)  # rounding may carry u to the end
    return np.minimum(codes, last).astype(np.int64)


def search_mass(mass: Floats, u: Floats) -> NDArray[np.int64]:
    """Inverse of a distribution function: the first place whose running sum exceeds u of the whole, never of mass 0.

    Parameters
    ----------
    mass : array of shape (m,), >= 0, not all 0
    u : array of numbers in [0, 1]
    """
    total = np.cumsum(mass)
    place = np.searchsorted(total, u * total[-1], side="right")
    return np.minimum(place, np.flatnonzero(mass)[-1])  # rounding may carry u to the end


class Table:
    """Joint distribution of discrete variables as one array: the exact reference for everything small.

    Marginals and conditionals are sums over axes, so everything costs the product of the variables' sizes.

    Parameters
    ----------
    probabilities : array of shape (k_1, ..., k_n)
        Not negative; their sum must be 1 to 1e-6, and is made 1.
    names : sequence of str, optional
        Names of the variables; ``x0, x1 ...`` where left out.

    Raises
    ------
    UserValueError
        Negative entries, another sum, more than 2^26 entries.

    Examples
    --------
    >>> rain = Table([[0.4, 0.1], [0.1, 0.4]], names=("rain", "wet"))
    >>> rain.conditional("rain", wet=1).probabilities.tolist()
    [0.2, 0.8]
    """

    def __init__(self, probabilities: ArrayLike, names: Sequence[str] | None = None) -> None:
        p = floats(probabilities, "probabilities")
        _check_size(p.shape)
        if not (np.isfinite(p).all() and (p >= 0).all()):
            raise UserValueError("probabilities must be finite and at least 0", "probabilities")
        if abs(p.sum() - 1) > 1e-6:
            raise UserValueError(f"probabilities must sum to 1, got {p.sum():g}", "probabilities", "normalize them")
        self.probabilities: Floats = p / p.sum()
        if names is not None and not isinstance(names, Iterable):
            raise UserTypeError(
                f"names must be a sequence of names, got a {type(names).__name__}",
                "names",
                "give one name per variable",
            )
        self.names = tuple(names) if names is not None else tuple(f"x{i}" for i in range(p.ndim))
        if len(self.names) != p.ndim or len(set(self.names)) != p.ndim:
            raise UserValueError(
                f"names must be {p.ndim} different names, one per variable, got {shown(self.names)}", "names"
            )

    @classmethod
    @checked
    def from_counts(
        cls, rows: ArrayLike, sizes: Sequence[int], *, alpha: float = 0.0, names: Sequence[str] | None = None
    ) -> Self:
        """Shares of the rows of codes, with `alpha` added to every entry's count (Laplace 1812: alpha = 1).

        Parameters
        ----------
        rows : int array of shape (n, len(sizes))
            Codes in [0, sizes[j]).
        sizes : sequence of int
            Values of each variable.
        alpha : float >= 0, default 0
        """
        codes, shape = whole(rows, "rows"), tuple(whole(sizes, "sizes").ravel().tolist())
        _check_size(shape)
        if codes.ndim != 2 or codes.shape[1] != len(shape) or not (0 <= alpha < math.inf and len(codes) + alpha > 0):
            what = f"rows must be (n, {len(shape)}) with n > 0 or alpha > 0, got {codes.shape} and alpha {alpha}"
            raise UserValueError(what, "rows")
        _check_codes(codes, shape)
        counts = np.bincount(np.ravel_multi_index(tuple(codes.T), shape), minlength=math.prod(shape)) + float(alpha)
        return cls((counts / counts.sum()).reshape(shape), names)

    @property
    def n_parameters(self) -> int:
        """Free numbers: entries less one."""
        return self.probabilities.size - 1

    def _axis(self, name: str) -> int:
        if name not in self.names:
            raise UserValueError(f"unknown variable {name!r}", "names", f"choose from {', '.join(self.names)}")
        return self.names.index(name)

    def prob(self, rows: ArrayLike) -> Floats:
        """Probability of each row of codes, shape (n,)."""
        codes = whole(rows, "rows")
        if codes.ndim != 2 or codes.shape[1] != len(self.names):
            raise UserValueError.must("rows", f"have shape (n, {len(self.names)})", codes)
        _check_codes(codes, self.probabilities.shape)
        return self.probabilities[tuple(codes.T)]

    def log_prob(self, rows: ArrayLike) -> Floats:
        """Log probability of each row of codes in nats; -inf where it cannot come."""
        with np.errstate(divide="ignore"):
            return np.log(self.prob(rows))

    def marginal(self, *names: str) -> Table:
        """Distribution of some variables, in the order given."""
        kept = [self._axis(name) for name in names]
        if len(set(kept)) < len(kept):
            raise UserValueError("names must be different from each other", "names")
        left = tuple(axis for axis in range(len(self.names)) if axis not in kept)
        summed = self.probabilities.sum(left)
        order = np.argsort(np.argsort(kept))
        return Table(np.transpose(summed, order), names)

    def conditional(self, *names: str, **given: int) -> Table:
        """Distribution of some variables given values of others; variables in neither are summed out.

        Raises
        ------
        UserValueError
            A condition of probability 0, an unknown variable, or one that is a query and given.
        """
        both = [name for name in names if name in given]
        if both:
            raise UserValueError(f"{both[0]!r} is both a query and given", "names", "leave it out of one of them")
        sliced = self.probabilities[self._index(given)]
        rest = [name for name in self.names if name not in given]
        if not sliced.sum() > 0:
            raise UserValueError(
                f"the condition {dict(given)} has probability 0", "given", "condition on a possible event"
            )
        return Table(sliced / sliced.sum(), rest).marginal(*names)

    def _index(self, given: Mapping[str, int]) -> tuple[Any, ...]:
        index: list[Any] = [slice(None)] * len(self.names)
        for name, value in given.items():
            axis = self._axis(name)
            if not isinstance(value, int | np.integer) or not 0 <= value < self.probabilities.shape[axis]:
                what = f"{name} must be in [0, {self.probabilities.shape[axis]}), got {value}"
                raise UserValueError(what, name)
            index[axis] = value
        return tuple(index)

    def sample(self, n: int, noise: Any) -> NDArray[np.int64]:
        """n rows of codes: one uniform number each, looked up in the running sum of all entries (inversion).

        Cost O(entries + n log entries). Entries of probability 0 never come.
        """
        from gnomon.distributions.family import uniform

        return self._rows(uniform(noise, (n,), 0))

    def _rows(self, u: Floats) -> NDArray[np.int64]:
        entry = search_mass(self.probabilities.ravel(), u)
        return np.stack(np.unravel_index(entry, self.probabilities.shape), -1).astype(np.int64)


def _check_codes(codes: NDArray[np.int64], shape: tuple[int, ...]) -> None:
    bad = np.argwhere((codes < 0) | (codes >= np.array(shape)))
    if bad.size:
        row, column = map(int, bad[0])
        what = f"a code must be in [0, {shape[column]}), got {codes[row, column]}"
        raise UserValueError(what, f"row {row}, column {column}", "encode values as 0, 1, ...")


def _check_size(shape: tuple[int, ...]) -> None:
    entries = math.prod(shape)
    if entries > LARGEST or not entries:
        what = f"a table must have 1 to {LARGEST} entries, got {entries:.3g} ({8 * entries:.2g} bytes)"
        raise UserValueError(what, "probabilities")
