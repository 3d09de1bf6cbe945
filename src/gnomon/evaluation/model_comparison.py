"""Which of two unnormalized models gives rows the higher likelihood, from the ratio of their normalizers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon import contracts
from gnomon.contracts import Array, HasBlocks, HasEnergy, HasLogProb, supports
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation._partition import Method
from gnomon.evaluation.partition import log_partition
from gnomon.evaluation.score import Score, Verdict
from gnomon.inference.arrays import convert, prototype, to_numpy
from gnomon.inference.importance.bridge import Bridge
from gnomon.inference.importance.chain_bridge import chain_ratio, target_chain
from gnomon.inference.mcmc.paths import BridgePath
from gnomon.numeric.given import answers, checked, floats
from gnomon.numeric.noise import Noise, seed_of

__all__ = ["ModelComparison", "compare_models"]

Floats = NDArray[np.float64]
Pair = tuple[Array, Array]


@dataclass(frozen=True)
class ModelComparison:
    """What `compare_models` found.

    Parameters
    ----------
    difference : Score
        sum log p_A - sum log p_B over the rows, in nats: `error` is that of the estimated ratio, the number of rows
        times its standard error; `stderr` is what other rows of the same number would change.
    log_ratio : Score
        log(Z_A / Z_B) in nats.
    """

    difference: Score
    log_ratio: Score

    def __str__(self) -> str:
        ratio = f"log ratio of normalizers {self.log_ratio}"
        return f"{self.verdict()}: log-likelihood difference {self.difference}, {ratio}"

    @checked
    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Limits of the difference on these rows, from the error of the ratio alone."""
        from scipy.special import ndtri

        if not 0 < level < 1:
            raise UserValueError.must("level", "be in (0, 1)", level)
        half = float(ndtri((1 + level) / 2)) * self.difference.error
        return self.difference.value - half, self.difference.value + half

    @checked
    def verdict(self, level: float = 0.95) -> Verdict:
        """Whether A gives these very rows the higher likelihood; undecided where the interval holds 0."""
        return self._judge(replace(self.difference, stderr=0.0, n=0), level)

    @checked
    def elsewhere(self, level: float = 0.95) -> Verdict:
        """The verdict for rows to come: the spread over rows counts too."""
        return self._judge(self.difference, level)

    @staticmethod
    def _judge(difference: Score, level: float) -> Verdict:
        # the spread of a difference belongs to one side; the other side is the number 0
        return difference.against(replace(difference, value=0.0, stderr=0.0, error=0.0, kind="exact"), level=level)


@checked
def compare_models(
    model_a: Any,
    model_b: Any,
    X: Array,
    method: str | Method = "auto",
    noise: contracts.Noise | None = None,
    *,
    random_state: Any = None,
    log_ratio: Score | float | None = None,
    samples: Pair | None = None,
    **options: Any,
) -> ModelComparison:
    r"""Decide which of two unnormalized models gives the rows the higher likelihood.

    .. math:: \sum_i \log \frac{p_A(x_i)}{p_B(x_i)} =
              \sum_i \log \frac{\tilde p_A(x_i)}{\tilde p_B(x_i)} - m \log \frac{Z_A}{Z_B}

    The factor m magnifies an error of the estimated ratio m times: with a thousand rows an error of 0.01 nats is one of
    10. Where that hides the difference the verdict is "undecided".

    Parameters
    ----------
    model_a, model_b : object with ``energy`` or ``log_prob``, or fitted Systems
        Over the same variables. A System stands for its model.
    X : array of shape (m, d)
        The rows, of zeros and ones for models of binary units.
    method : str or Method, default "auto"
        "bridge" joins draws of the two models directly, which needs overlap of the two alone. Any other is a method of
        `gnomon.log_partition` for each of the two, with its options.
    noise, random_state
        As in `gnomon.log_partition`.
    log_ratio : Score or float, optional
        log(Z_A / Z_B), where it is known; nothing is estimated then.
    samples : pair of arrays (n, d) or (chains, n, d), optional
        For "bridge": draws of A and of B, for example ``gnomon.sample_chain(...).draws``. Models of two blocks are
        drawn from by Gibbs sampling (`chains`, `draws` of each and `burn_in` are options, and `bridge`).
    **options
        Those of the method.

    Returns
    -------
    ModelComparison
        Cost: m energies of each model beside the method's.

    Raises
    ------
    UserValueError
        Models over other variables, or a row that only one of them holds for possible.
    UserTypeError
        Models without an energy.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), "Deep Learning", section 18.7.

    Examples
    --------
    >>> wide, narrow = (lambda x, s=s: -0.5 * ((x / s) ** 2).sum(-1) for s in (2.0, 1.0))
    >>> rows = np.linspace(-1, 1, 50)[:, None]
    >>> infinity = [(-math.inf, math.inf)]
    >>> compare_models(narrow, wide, rows, "quadrature", bounds=infinity).verdict()
    'better'
    """
    _check_systems(model_a, model_b)
    a, b = (getattr(model, "model_", model) for model in (model_a, model_b))
    rows = _rows(a, b, X)
    pointwise = _log_density(a, rows) - _log_density_of(b, rows, a)
    if log_ratio is None:
        stream = noise if noise is not None else Noise(seed_of(random_state), "compare-models")
        log_ratio = _ratio(a, b, rows, method, stream, samples, options)
    elif not isinstance(log_ratio, Score):
        log_ratio = Score(_number(log_ratio), name="log_ratio")
    m = len(pointwise)
    mean = Score.from_pointwise(pointwise - log_ratio.value)
    difference = Score(
        m * mean.value, m * mean.stderr, m * log_ratio.error, log_ratio.kind, name="log_likelihood_difference", n=m,
        note=log_ratio.note,
    )  # fmt: skip
    return ModelComparison(difference, log_ratio)


def _number(log_ratio: Any) -> float:
    ratios = floats(log_ratio, "log_ratio")
    if ratios.ndim or not np.isfinite(ratios):
        raise UserValueError.must("log_ratio", "be a Score or one finite number", log_ratio)
    return float(ratios)


def _ratio(
    a: Any,
    b: Any,
    rows: Array,
    method: str | Method,
    noise: contracts.Noise,
    samples: Pair | None,
    options: dict[str, Any],
) -> Score:
    """log(Z_A / Z_B)."""
    if method == "bridge":
        known = ("bridge", "chains", "draws", "burn_in")
        for name in options:
            if name not in known:
                raise UserTypeError(f"method 'bridge' takes no {name}", name, "use " + ", ".join(known))
        return _direct(a, b, rows, noise, samples, **options)
    if samples is not None:
        raise UserValueError(f"method {method!r} takes no samples", "samples", "use method='bridge'")
    upper, lower = (
        log_partition(model, method, noise.child(which), **options) for model, which in ((a, "a"), (b, "b"))
    )
    kind = "exact" if upper.kind == lower.kind == "exact" else "estimate"
    note = "; ".join(f"{which}: {score.note}" for which, score in (("A", upper), ("B", lower)) if score.note)
    error = math.hypot(upper.error, lower.error)
    return Score(upper.value - lower.value, 0.0, error, kind, name="log_ratio", note=note)  # type: ignore[arg-type]


def _direct(
    a: Any,
    b: Any,
    rows: Array,
    noise: contracts.Noise,
    samples: Pair | None,
    *,
    bridge: Bridge = "optimal",
    chains: int = 20,
    draws: int = 500,
    burn_in: int = 500,
) -> Score:
    """Bridge sampling between the two models: p_0 is B, p_1 is A."""
    if samples is None:
        xa, xb = (
            _gibbs(model, rows, noise.child(which), chains, draws, burn_in) for model, which in ((a, "a"), (b, "b"))
        )
    else:
        xa, xb = _pair(samples, rows.shape[1])
    estimate = chain_ratio(xb, xa, lambda x: _log_density(b, x), lambda x: _log_density(a, x), bridge)
    estimate.warn()
    note = "; ".join(filter(None, (f"overlap {estimate.overlap_:.2g}", estimate.notice)))
    return Score(estimate.log_r_, 0.0, estimate.se_, "estimate", name="log_ratio", note=note)


def _pair(samples: Any, columns: int) -> Pair:
    """Draws of A and of B, each with the columns of the data."""
    if not isinstance(samples, Sequence) or len(samples) != 2:
        raise UserTypeError(f"samples must be (draws of A, draws of B), got a {type(samples).__name__}", "samples")
    for x, which in zip(samples, "AB", strict=True):
        if not hasattr(x, "shape") or len(x.shape) not in (2, 3) or x.shape[-1] != columns:
            given = f"shape {tuple(x.shape)}" if hasattr(x, "shape") else f"a {type(x).__name__}"
            what = f"draws of {which} must be (n, {columns}) or (chains, n, {columns}), got {given}"
            raise UserValueError(what, "samples")
    return samples[0], samples[1]


def _gibbs(model: Any, rows: Array, noise: contracts.Noise, chains: int, draws: int, burn_in: int) -> Array:
    block = _observed(model, rows)
    if block is None or not hasattr(model, "bridge"):
        raise UserTypeError(
            f"{type(model).__name__} has no blocks",
            "samples",
            "pass samples=(of A, of B): see sample_chain",
        )
    return to_numpy(target_chain(BridgePath(model, model.base(), [0.0, 1.0], block), noise, chains, draws, burn_in))


def _observed(model: Any, rows: Array) -> str | None:
    """The block whose marginal energy is the energy of a row."""
    if not supports(model, HasBlocks) or not hasattr(model, "marginal_energy"):
        return None
    few = convert(rows[:8], prototype(model))
    own = to_numpy(model.energy(few))
    for block in model.blocks:
        if model.sizes[block] == rows.shape[1] and _is_alone(model, block, few, own):
            return str(block)
    return None


def _is_alone(model: Any, block: str, rows: Array, energy: Floats) -> bool:
    """Whether the block can be kept alone, and its marginal energy is the model's."""
    if (block,) not in model.marginal_blocks:
        return False
    return bool(np.allclose(to_numpy(model.marginal_energy({block: rows})), energy))


def _log_density(model: Any, rows: Array) -> Floats:
    """Log of the unnormalized density of each row, -inf where it is 0."""
    x = convert(rows, prototype(model))
    if supports(model, HasEnergy):
        return -_answer(model.energy(x), rows, "energy")
    if supports(model, HasLogProb):
        return _answer(model.log_prob(x), rows, "log_prob")
    if callable(model):
        return _answer(model(x), rows, "log density")
    raise UserTypeError(f"{type(model).__name__} has no energy", "model_a, model_b", "pass an energy or a log density")


def _answer(found: Any, rows: Array, name: str) -> Floats:
    return answers(to_numpy(found, name), rows.shape[:1], name)


def _log_density_of(b: Any, rows: Array, a: Any) -> Floats:
    """That of B, after the two were found to allow the same rows."""
    value, other = _log_density(b, rows), _log_density(a, rows)
    differing = np.flatnonzero(~(np.isfinite(value) & np.isfinite(other)))
    if differing.size:
        i = int(differing[0])
        what = (
            f"log densities {other[i]:g} under A and {value[i]:g} under B: the supports differ, or no model allows it"
        )
        raise UserValueError(what, f"row {i}", "compare models on rows that are possible under both")
    return value


def _rows(a: Any, b: Any, X: Array) -> Array:
    rows = to_numpy(X, "X")
    if rows.ndim != 2 or 0 in rows.shape:
        raise UserValueError.must("X", "have at least one row and one column", rows)
    bad = np.argwhere(~np.isfinite(rows))
    for model, which in ((a, "A"), (b, "B")):
        if supports(model, HasBlocks):
            if rows.shape[1] not in model.sizes.values():
                what = f"X must have the columns of a block of model {which}, {dict(model.sizes)}, got {rows.shape[1]}"
                raise UserValueError(what, "X", "compare models over the columns of X")
            bad = np.argwhere((rows != 0) & (rows != 1))
    if bad.size:
        i, j = bad[0]
        what = f"X must be possible under the models, got {rows[i, j]}"
        raise UserValueError(what, f"row {i}, column {j}", "give rows that have a density")
    return rows


def _check_systems(a: Any, b: Any) -> None:
    """Two Systems must speak of the same variables and the same kind of outcome."""
    facts: list[Callable[[Any], Any]] = [
        lambda system: system.outcomes.space(system.n_features_in_),
        lambda system: [str(name) for name in getattr(system, "feature_names_in_", [])],
    ]
    if not all(hasattr(system, "outcomes") and hasattr(system, "n_features_in_") for system in (a, b)):
        return
    for tell in facts:
        mine, theirs = tell(a), tell(b)
        if mine != theirs:
            raise UserValueError(
                f"the models must have the same variables, got {mine} and {theirs}", "model_a, model_b"
            )
