"""A number that says what it is: its two errors, whether it is exact, its unit and the data space it belongs to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserValueError
from gnomon.evaluation._inputs import power_of_two

__all__ = ["Kind", "Score", "Verdict"]

Kind = Literal["exact", "estimate", "lower bound", "upper bound"]
Verdict = Literal["better", "worse", "undecided"]


@dataclass(frozen=True)
class Score:
    """A score with the errors that belong to it.

    Parameters
    ----------
    value : float
        The number, in `unit`.
    stderr : float, in [0, inf) or nan
        Standard error over the examples: what another test set of this size would change. nan: unknown.
    error : float, in [0, inf]
        Standard error of the estimator: what another seed would change. 0 for closed forms and enumeration.
    kind : {"exact", "estimate", "lower bound", "upper bound"}
        What `value` is of the quantity that `name` names.
    unit : str
        For example ``nats``, ``nats per token``, ``fraction``.
    data_space : str
        What the data are, for example ``pmf on {0,1}^64``; scores of unlike spaces are never compared.
    name : str
        The quantity, for example ``log_likelihood``.
    higher_is_better : bool
        Direction of the quantity.
    n : int, in [0, inf)
        Number of examples; 0 for a quantity of the model alone.
    pointwise : array of shape (n,), optional
        The value of each example; allows paired comparison. Neither printed nor written.
    weight : array of shape (n,), optional
        Weights of the examples in the mean.
    rows : array of shape (n,), optional
        Which rows of the data the examples are; None stands for 0, 1, ..., n - 1.
    note : str
        A caveat to show beside the number, for example that one weight dominates.

    Raises
    ------
    UserValueError
        For an unknown `kind` or a negative error.

    Examples
    --------
    >>> a = Score.from_pointwise([-1.0, -2.0, -3.0], name="log_likelihood", data_space="pmf on {0,1}^2")
    >>> print(a)
    -2.00 ± 0.58 exact nats
    >>> b = Score.from_pointwise([-1.5, -2.6, -3.4], name="log_likelihood", data_space="pmf on {0,1}^2")
    >>> a.against(b)
    'better'
    """

    value: float
    stderr: float = 0.0
    error: float = 0.0
    kind: Kind = "exact"
    unit: str = "nats"
    data_space: str = ""
    name: str = "log_likelihood"
    higher_is_better: bool = True
    n: int = 0
    pointwise: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    weight: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    rows: NDArray[np.int64] | None = field(default=None, repr=False, compare=False)
    note: str = ""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise UserValueError.must("kind", f"be one of {', '.join(get_args(Kind))}", self.kind)
        for label in ("stderr", "error"):
            if getattr(self, label) < 0:
                raise UserValueError(f"{label} must be at least 0, got {getattr(self, label)}", label)

    @classmethod
    def from_pointwise(
        cls,
        values: ArrayLike,
        *,
        weight: ArrayLike | None = None,
        error: float = 0.0,
        kind: Kind = "exact",
        unit: str = "nats",
        data_space: str = "",
        name: str = "log_likelihood",
        higher_is_better: bool = True,
        rows: ArrayLike | None = None,
        note: str = "",
    ) -> Score:
        """The (weighted) mean of values per example, with its standard error.

        With shares s_i = w_i / sum w: value = sum s_i x_i, stderr^2 = n/(n-1) sum s_i^2 (x_i - value)^2; equal weights
        give the textbook standard error. Sums are exact (`math.fsum`), so the order of the rows changes no bit.

        Parameters
        ----------
        values : array of shape (n,)
            One value per example; n >= 1. A NaN makes the score NaN and is named in `note`.
        weight : array of shape (n,), optional
            In [0, inf); rows of weight 0 are left out.
        error, kind, unit, data_space, name, higher_is_better, rows, note
            See the class.

        Raises
        ------
        UserValueError
            When there are no values, or weights do not fit.
        """
        x = np.array(values, dtype=np.float64).ravel()
        w = None if weight is None else np.array(weight, dtype=np.float64).ravel()
        index = np.arange(x.size) if rows is None else np.array(rows, dtype=np.int64).ravel()
        if index.size != x.size:
            raise UserValueError(f"rows must be one number for each of the {x.size} values, got {index.size}", "rows")
        if w is not None:
            x, w, index = _drop_weightless(x, w, index)
        if x.size == 0:
            raise UserValueError("values must have at least one entry", "values", "score at least one example")
        value, stderr = _mean(x, w)
        if not math.isfinite(value) and not note:
            first = int(np.flatnonzero(~np.isfinite(x))[0])
            note = f"the value of row {index[first]} is {x[first]}"
        kept = None if np.array_equal(index, np.arange(x.size)) else index
        return cls(value, stderr, error, kind, unit, data_space, name, higher_is_better, x.size, x, w, kept, note)

    def against(self, other: Score, *, level: float = 0.95) -> Verdict:
        """Whether this score is better than another of the same quantity.

        Differences are paired when both scores have values for the same rows (and the same weights), which removes what
        is hard or easy in the rows themselves; otherwise the two standard errors are added in quadrature. Estimator
        errors are always added in quadrature. The difference must exceed the two-sided Student quantile (normal when
        n is unknown) times the total error. A bound is used in its sound direction alone: a lower bound can show that
        a quantity is large, never that it is small.

        Parameters
        ----------
        other : Score
            The score to compare with.
        level : float, in (0, 1)
            Confidence level: two equally good systems are called apart with probability 1 - `level`.

        Returns
        -------
        {"better", "worse", "undecided"}

        Raises
        ------
        UserValueError
            When name, unit, data space or direction differ.
        """
        self._check_comparable(other)
        if not 0 < level < 1:
            raise UserValueError.must("level", "be in (0, 1)", level)
        difference, margin = _difference(self, other, level)
        if math.isnan(difference) or not abs(difference) > margin:
            return "undecided"
        large, small = (self, other) if difference > 0 else (other, self)
        if large.kind == "upper bound" or small.kind == "lower bound":
            return "undecided"
        return "better" if (difference > 0) == self.higher_is_better else "worse"

    def to_json(self) -> dict[str, Any]:
        """The score as a dict for strict JSON: a number that is not finite is None, and `reason` says why.

        Examples
        --------
        >>> Score(float("inf"), name="perplexity", unit="per token").to_json()["reason"]
        'value is inf'
        """
        fields = ("name", "value", "stderr", "error", "kind", "unit", "data_space", "higher_is_better", "n")
        record = {label: getattr(self, label) for label in fields}
        reasons = []
        for label in ("value", "stderr", "error"):
            if not math.isfinite(record[label]):
                reasons.append(f"{label} is {record[label]}" + (" (one example)" if self._single(label) else ""))
                record[label] = None
        if self.note:
            record["note"] = self.note
        if reasons:
            record["reason"] = "; ".join(reasons)
        return record

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        digits = _decimals(self.stderr, self.error)
        errors = [e for e in (self.stderr, self.error) if e != 0]
        return " ± ".join(f"{number:.{digits}f}" for number in (self.value, *errors)) + f" {self.kind} {self.unit}"

    def _single(self, label: str) -> bool:
        return label == "stderr" and self.n == 1

    def _check_comparable(self, other: Score) -> None:
        for label in ("name", "unit", "data_space", "higher_is_better"):
            mine, theirs = getattr(self, label), getattr(other, label)
            if mine != theirs:
                raise UserValueError(
                    f"scores with {label} {mine!r} and {theirs!r} cannot be compared",
                    remedy="compare scores of one quantity on one data space",
                )


def _drop_weightless(
    x: NDArray[np.float64], w: NDArray[np.float64], index: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    if w.shape != x.shape:
        raise UserValueError(f"weight must be one number for each of the {x.size} values, got {w.size}", "weight")
    bad = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if bad.size:
        raise UserValueError.must("weight", "be finite and at least 0", w[bad[0]], f"row {bad[0]}")
    keep = w > 0
    if not keep.any():
        raise UserValueError("weight must be positive for at least one example", "weight")
    return x[keep], w[keep], index[keep]


def _mean(x: NDArray[np.float64], w: NDArray[np.float64] | None) -> tuple[float, float]:
    """Weighted mean and its standard error; nan for the error where it is unknown."""
    if not np.isfinite(x).all():
        with np.errstate(invalid="ignore"):
            return float(x.sum()), math.nan  # the sum is the right infinity, or nan; weights are positive
    share = np.full(x.size, 1 / x.size) if w is None else w / math.fsum(w)
    value = math.fsum(x) / x.size if w is None else math.fsum(w * x) / math.fsum(w)
    if x.size == 1:
        return value, math.nan
    part = share * (x - value)
    unit = power_of_two(part)  # squares of large numbers overflow
    return value, unit * math.sqrt(math.fsum((part / unit) ** 2) * x.size / (x.size - 1))


def _difference(a: Score, b: Score, level: float) -> tuple[float, float]:
    """a - b and what its absolute value must exceed."""
    if not (math.isfinite(a.value) and math.isfinite(b.value)):
        return a.value - b.value, 0.0  # inf - inf is nan: undecided
    difference, spread = a.value - b.value, math.hypot(a.stderr, b.stderr)
    if _paired(a, b):
        assert a.pointwise is not None and b.pointwise is not None
        difference, spread = _mean(a.pointwise - b.pointwise, a.weight)
    total = math.hypot(spread, a.error, b.error)
    if not math.isfinite(total):
        return difference, math.inf
    return difference, _quantile(level, a.n, b.n) * total


def _paired(a: Score, b: Score) -> bool:
    if a.pointwise is None or b.pointwise is None or a.n != b.n:
        return False
    return _same(a.rows, b.rows) and _same(a.weight, b.weight)


def _same(left: NDArray[Any] | None, right: NDArray[Any] | None) -> bool:
    if left is None or right is None:
        return left is right
    return np.array_equal(left, right)


def _quantile(level: float, *counts: int) -> float:
    """Two-sided quantile: Student's with the smaller sample's degrees of freedom, normal without examples."""
    from scipy.special import ndtri, stdtrit

    known = [n for n in counts if n > 1]
    tail = (1 + level) / 2
    return float(stdtrit(min(known) - 1, tail) if known else ndtri(tail))


def _decimals(*errors: float) -> int:
    """Decimals that show two digits of the smallest error."""
    sizes = [e for e in errors if e > 0 and math.isfinite(e)]
    if not sizes:
        return 4
    return min(max(1 - math.floor(math.log10(min(sizes))), 0), 12)
