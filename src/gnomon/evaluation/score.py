"""A number that says what it is: its two errors, whether it is exact, its unit and the data space it belongs to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserValueError
from gnomon.evaluation._inputs import power_of_two

if TYPE_CHECKING:
    from gnomon.evaluation.data_units import DataSignature

__all__ = ["Kind", "Score", "Verdict"]

Kind = Literal["exact", "estimate", "lower bound", "upper bound"]
Verdict = Literal["better", "worse", "undecided"]

ROUNDING = 1e-6
"""Relative difference below which two scores are the same: numbers of float32 say no more."""


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
    trials : float, in [0, inf)
        Rows behind a proportion such as an accuracy; weighted ones count as (sum w)^2 / sum w^2. 0: no proportion.
    signature : DataSignature, optional
        Of a density: in which units its rows are. Scores of the same rows in other units are never compared.

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
    trials: float = 0.0
    signature: DataSignature | None = field(default=None, repr=False, compare=False)

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
        trials = _trials(w, x.size) if unit == "fraction" and ((x == 0) | (x == 1)).all() else 0.0
        return cls(
            value, stderr, error, kind, unit, data_space, name, higher_is_better, x.size, x, w, kept, note, trials
        )

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """What the quantity may be at a confidence level.

        Of a proportion (`trials`) the interval of Wilson (1927), never outside [0, 1] and of some width at 0 and 1;
        otherwise `value` plus and minus both errors in quadrature times the quantile of `against`.

        Parameters
        ----------
        level : float in (0, 1), default 0.95

        Returns
        -------
        tuple of two floats
            nan where the errors are unknown.

        Examples
        --------
        >>> right = Score.from_pointwise([1.0] * 12, unit="fraction", name="accuracy")
        >>> low, high = right.interval()
        >>> round(low, 4), high
        (0.7575, 1.0)
        """
        _check_level(level)
        if self.trials > 0 and 0 <= self.value <= 1:
            return _wilson(self.value, self.trials, level, self.error)
        margin = _quantile(level, self.n) * math.hypot(self.stderr, self.error)
        return self.value - margin, self.value + margin

    @property
    def interval_text(self) -> str:
        """The interval of a proportion as tables show it; empty for other scores.

        Examples
        --------
        >>> Score.from_pointwise([1.0] * 12, unit="fraction", name="accuracy").interval_text
        '0.76 to 1'
        """
        known = self.trials > 0 and math.isfinite(self.value)
        return "{:.2g} to {:.2g}".format(*self.interval()) if known else ""

    def difference(self, other: Score) -> tuple[float, float]:
        """How far this score is above another of the same quantity, and the standard error of that.

        Paired where both have values for the same rows and weights. Errors of proportions are those of Agresti and
        Caffo (2000), paired ones of Agresti and Min (2005): a few rows are added, half of them right, so that no error
        is 0 because all rows agree. Estimator errors are added in quadrature.

        Raises
        ------
        UserValueError
            When name, unit, data space or direction differ.

        Examples
        --------
        >>> a, b = (Score.from_pointwise([hit] * 3, unit="fraction") for hit in (1.0, 0.0))
        >>> difference, error = a.difference(b)
        >>> difference, round(error, 3)
        (1.0, 0.297)
        """
        self._check_comparable(other)
        return self.value - other.value, _spread(self, other)[1]

    def against(self, other: Score, *, level: float = 0.95) -> Verdict:
        """Whether this score is better than another of the same quantity.

        Differences are paired when both scores have values for the same rows (and the same weights), which removes what
        is hard or easy in the rows themselves; otherwise the two standard errors are added in quadrature. Estimator
        errors are always added in quadrature. The difference must exceed the two-sided Student quantile (normal when
        n is unknown) times the total error; of proportions both are corrected for few rows, see `difference`. It
        must also exceed a millionth of the smaller value, which rounding in float32 may make. A bound is used in its
        sound direction alone: a lower bound can show that a quantity is large, never that it is small.

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
        _check_level(level)
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
        if self.trials > 0 and math.isfinite(self.value):
            record["interval"] = list(self.interval())
        if self.note:
            record["note"] = self.note
        if self.signature is not None:
            record["log_scale_of_rows"] = self.signature.log_scale
        if reasons:
            record["reason"] = "; ".join(reasons)
        return record

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        digits = _decimals(self.stderr, self.error)
        errors = [e for e in (self.stderr, self.error) if e != 0]
        text = " ± ".join(f"{number:.{digits}f}" for number in (self.value, *errors))
        if self.trials > 0 and not errors:  # all rows agree: the error of so few is not 0
            text = "{:g} ({:.2g} to {:.2g})".format(self.value, *self.interval())
        return f"{text} {self.kind} {self.unit}"

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
        if self.signature is not None and other.signature is not None:
            apart = self.signature.apart(other.signature)
            if apart:
                raise UserValueError(
                    f"scores of the same rows in other units cannot be compared: {apart:+.6g} nats of the second "
                    "density are due to the units alone",
                    remedy="bring both to the units of the rows: gnomon.evaluation.in_original_units, pipeline_scores",
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
    """a - b as it is tested, and what its absolute value must exceed."""
    if not (math.isfinite(a.value) and math.isfinite(b.value)):
        return a.value - b.value, 0.0  # inf - inf is nan: undecided
    difference, total = _spread(a, b)
    if not math.isfinite(total):
        return difference, math.inf
    rounding = ROUNDING * min(abs(a.value), abs(b.value))
    return difference, max(_quantile(level, a.n, b.n) * total, rounding)


def _spread(a: Score, b: Score) -> tuple[float, float]:
    """a - b, of proportions drawn a little towards 0, and its standard error."""
    if min(a.trials, b.trials) > 0:
        difference, spread = _of_proportions(a, b)
    elif _paired(a, b):
        assert a.pointwise is not None and b.pointwise is not None
        difference, spread = _mean(a.pointwise - b.pointwise, a.weight)
    else:
        difference, spread = a.value - b.value, math.hypot(a.stderr, b.stderr)
    return difference, math.hypot(spread, a.error, b.error)


def _of_proportions(a: Score, b: Score) -> tuple[float, float]:
    """Agresti and Min (2005): half a row more in each cell of the paired table; unpaired ones see Agresti and Caffo."""
    if not _paired(a, b):
        (p, u), (q, v) = _one_more(a), _one_more(b)
        return p - q, math.hypot(u, v)
    assert a.pointwise is not None and b.pointwise is not None
    part = a.pointwise - b.pointwise
    share = np.full(part.size, 1 / part.size) if a.weight is None else a.weight / a.weight.sum()
    n = a.trials
    more, less = (n * float(share[part == side].sum()) + 0.5 for side in (1, -1))
    difference = (more - less) / (n + 2)
    return difference, math.sqrt(max((more + less) / (n + 2) - difference**2, 0.0) / (n + 2))


def _one_more(score: Score) -> tuple[float, float]:
    """Proportion and standard error with one more right and one more wrong row (Agresti and Caffo 2000)."""
    p = (score.value * score.trials + 1) / (score.trials + 2)
    return p, math.sqrt(p * (1 - p) / (score.trials + 2))


def _trials(w: NDArray[np.float64] | None, n: int) -> float:
    """Rows of equal weight that tell as much (Kish)."""
    if w is None:
        return float(n)
    w = w / w.max()
    return float(w.sum() ** 2 / (w @ w))


def _wilson(p: float, n: float, level: float, error: float = 0.0) -> tuple[float, float]:
    from scipy.special import ndtri

    z = float(ndtri((1 + level) / 2))
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = ((middle + side * half) / (1 + z * z / n) for side in (-1, 1))
    low, high = 0.0 if p == 0 else low, 1.0 if p == 1 else high
    return max(p - math.hypot(p - low, z * error), 0.0), min(p + math.hypot(high - p, z * error), 1.0)


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise UserValueError.must("level", "be in (0, 1)", level)


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
