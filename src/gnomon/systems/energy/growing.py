"""Hidden units that are added to a restricted machine one at a time: given ones, and features found by boosting."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.inference.exact.enumeration import states
from gnomon.numeric.given import checked, floats
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.ops import logsumexp, sigmoid, softplus
from gnomon.numeric.sparse import in_full
from gnomon.systems.energy._machine import TwoLayerMachine

__all__ = ["FoundFeature", "GrowsHidden", "feature_loss", "find_feature", "log_growth"]

Floats = NDArray[np.float64]

EXACT_COLUMNS = 12
"""Columns up to which all rows, with their probabilities, stand for the machine's draws."""

SHIFTS = -np.concatenate([np.arange(0.0, 4.0, 0.5), np.arange(4.0, 13.0)])
"""By how much the bias of a new feature is lowered at most: a smaller step, down to next to none."""

SMALLEST_GAIN = 1e-8
"""Nats below which a gain is no more than rounding."""


class CountedRows(NamedTuple):
    """Rows, and what each of them counts."""

    x: Floats
    share: Floats

    @classmethod
    def alike(cls, x: Floats) -> CountedRows:
        """Rows that count the same."""
        return cls(x, np.full(len(x), 1 / len(x)))


class FoundFeature(NamedTuple):
    """A hidden unit that tells rows from draws.

    Attributes
    ----------
    weights : array of shape (d,)
    bias : float
    gain : float
        By how much it raises the mean log-likelihood of the rows, in nats; from draws, less two standard errors.
    """

    weights: Floats
    bias: float
    gain: float


class GrowsHidden(TwoLayerMachine):
    r"""Base of machines of rows of 0 and 1 to which hidden units can be added.

    With one unit more, of weights w and bias b, the machine is :math:`p_n(v) = p_{n-1}(v) \frac{Z_{n-1}}{Z_n} (1 +
    e^{b + w^T v})`, and so :math:`Z_n / Z_{n-1} = E_{p_{n-1}}[1 + e^{b + w^T v}]`. Without any it has independent
    columns, :math:`p_0(v) = e^{a^T v} / Z_0`; so it has with units of weights 0.
    """

    if TYPE_CHECKING:  # without a value it would read as a field of its own
        n_hidden: int

    def add_hidden_unit(self, weights: ArrayLike, bias: float = 0.0) -> Self:
        """A machine with one hidden unit more; this one stays as it is.

        Parameters
        ----------
        weights : array of shape (n_features,)
            Its couplings to the columns. With zeros alone the density of the rows stays what it was.
        bias : float, default 0
            Its bias: the log-odds of a 1 where all columns are 0.

        Returns
        -------
        machine
            Fitted, with ``n_hidden`` one larger; the new unit is the last. The history is that of this machine.

        Raises
        ------
        UserValueError
            Weights of another length, or numbers that are not finite.
        """
        w, b = self._unit_given(weights, bias)
        return self._with_model(self.model_.with_hidden_unit(w, b))

    @checked
    def log_partition_growth(
        self,
        weights: ArrayLike,
        bias: float = 0.0,
        *,
        n: int | None = None,
        steps: int = 1000,
        random_state: Any = None,
    ) -> Score:
        """By how much log Z grows with a hidden unit of these weights and bias, in nats.

        Parameters
        ----------
        weights, bias
            As of `add_hidden_unit`.
        n : int, at least 2, optional
            Draws of this machine for an estimate, ``log mean(1 + exp(bias + draws @ weights))``; by default the number
            is exact where both log Z are, and else of 1000 draws.
        steps, random_state
            Of the chains, as of `sample`.

        Returns
        -------
        Score
            Exact, or an estimate with its standard error; the log of a mean is too low by about half its square.
        """
        w, b = self._unit_given(weights, bias)
        if n is None and hasattr(self, "log_prob"):
            larger = self.model_.with_hidden_unit(w, b)
            grown = float(larger.log_partition()) - float(self.model_.log_partition())
            return Score(grown, name="log_partition")
        n = 1000 if n is None else n
        if n < 2:
            raise UserValueError.must("n", "be at least 2", n)
        draws = self.to_visible(self.sample(n, steps=steps, random_state=random_state))
        value, error = log_growth(draws, w, b)
        return Score(value, 0.0, error, "estimate", name="log_partition", note=f"{n} draws of chains of {steps} steps")

    @checked
    def add_feature(
        self,
        X: Any,
        *,
        n: int | None = None,
        steps: int = 1000,
        starts: int = 3,
        l2: float = 0.005,
        random_state: Any = None,
    ) -> Self:
        r"""A machine with one hidden unit more that tells the rows from this machine's own draws: a round of boosting.

        A logistic classifier whose log-odds are the change of the energy since the draws were made, :math:`G(x) =
        F_{n-1}(x) - F_n(x) - c = \text{softplus}(b + w^T x) - c`, learns w, b and c from rows (class 1) and draws. Then
        the step is made as small as need be: b is lowered to where the likelihood rises most, which is estimated by
        other draws (see `log_partition_growth`).

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            Rows of 0 and 1.
        n : int, at least 4, optional
            Draws of this machine, half of them to learn from, half to judge by; by default all rows with their exact
            probabilities up to 12 columns, and else 2000 draws.
        steps : int, default 1000
            Gibbs steps of each draw, as of `sample`.
        starts : int, default 3
            Random first weights; the feature of the largest gain is taken.
        l2 : float in [0, inf), default 0.005
            Penalty on half the squared weights beside the mean logistic loss: it keeps the feature from telling rows
            from the few draws alone.
        random_state : int, None or generator

        Returns
        -------
        machine
            Fitted, with ``n_hidden`` one larger; the new unit is the last.

        Raises
        ------
        UserValueError
            No start finds a feature that raises the likelihood.

        References
        ----------
        Welling, Zemel and Hinton (2003), "Self supervised boosting".
        """
        check_is_fitted(self)
        rows, seed = in_full(self._outcomes(X)).astype(np.float64), seed_of(random_state)
        if starts < 1:
            raise UserValueError.must("starts", "be at least 1", starts)
        if not 0 <= l2 < np.inf:
            raise UserValueError.must("l2", "be in [0, inf)", l2)
        data = CountedRows.alike(rows)
        learn, judge = self._own_rows(n, steps, seed)
        noise = Noise(seed, "add-feature")
        found = [find_feature(data, learn, judge, noise.child(f"start/{i}"), l2) for i in range(starts)]
        best = max(found, key=lambda one: one.gain)
        if not best.gain > SMALLEST_GAIN:
            what = f"a new feature must raise the likelihood, got a gain of {best.gain:.3g} nats in {starts} starts"
            raise UserValueError(what, "add_feature", "take more starts, or more draws (n)")
        return self.add_hidden_unit(best.weights, best.bias)

    def _own_rows(self, n: int | None, steps: int, seed: int) -> tuple[CountedRows, CountedRows]:
        """What stands for the machine's density, to learn from and to judge by."""
        if n is None and self.n_features_in_ <= EXACT_COLUMNS and hasattr(self, "log_prob"):
            every = states(self.n_features_in_)
            log_p = -self.model_.energy(self.model_.place(every)).astype(np.float64)
            both = CountedRows(every, np.exp(log_p - logsumexp(log_p)))
            return both, both
        n = 2000 if n is None else n
        if n < 4:
            raise UserValueError.must("n", "be at least 4", n)
        draws = self.sample(n, steps=steps, random_state=seed).astype(np.float64)
        first, second = draws[: n // 2], draws[n // 2 :]
        return CountedRows.alike(first), CountedRows.alike(second)

    def _unit_given(self, weights: ArrayLike, bias: float) -> tuple[Floats, float]:
        check_is_fitted(self)
        w, b = floats(weights, "weights"), floats(bias, "bias")
        if w.shape != (self.n_features_in_,):
            raise UserValueError(f"weights must be of shape ({self.n_features_in_},), got {w.shape}", "weights")
        if b.ndim or not np.isfinite(b) or not np.isfinite(w).all():
            raise UserValueError("weights and bias must be finite numbers", "weights, bias")
        return w, float(b)

    def _with_model(self, model: Any) -> Self:
        """This machine around another model of the same columns."""
        twin = copy.copy(self)
        twin.n_hidden, twin._stream = model.sizes["hidden"], None
        twin._set_fitted(model, self.outcome_)
        return twin


def log_growth(draws: Array, weights: Array, bias: float, share: Array | None = None) -> tuple[float, float]:
    """``log E[1 + exp(bias + v @ weights)]`` over draws v, by which log Z grows, and its standard error in nats.

    Parameters
    ----------
    draws : array of shape (n, d)
    weights : array of shape (d,)
    bias : float
    share : array of shape (n,), optional
        What each draw counts, summing to 1; all alike by default.

    Examples
    --------
    >>> log_growth(np.zeros((2, 3)), np.ones(3), 0.0)[0].round(6)
    np.float64(0.693147)
    """
    log_terms = np.asarray(softplus(draws.astype(np.float64) @ weights + bias), np.float64)
    n = len(log_terms)
    share = np.full(n, 1 / n) if share is None else share
    with np.errstate(divide="ignore"):
        log_mean = logsumexp(log_terms + np.log(share))
    relative = np.exp(log_terms - log_mean)
    return log_mean, float(np.sqrt((share * share) @ (relative - 1) ** 2 * n / max(n - 1, 1)))


def feature_loss(parameters: Floats, data: CountedRows, draws: CountedRows, l2: float = 0.0) -> tuple[float, Floats]:
    """Logistic loss of telling rows from draws by ``G(x) = softplus(b + w x) - c``, classes of weight 1/2; its slopes.

    Parameters
    ----------
    parameters : array of shape (d + 2,)
        w, b, c in turn.
    data, draws : CountedRows
    l2 : float, default 0
        Times half the squared weights is added.
    """
    d = data.x.shape[1]
    w = parameters[:d]
    slopes, loss = np.concatenate([l2 * w, [0.0, 0.0]]), 0.5 * l2 * float(w @ w)
    for (x, share), sign in ((data, -1.0), (draws, 1.0)):
        field = x @ w + parameters[d]
        against = sign * (softplus(field) - parameters[d + 1])
        loss += 0.5 * float(share @ softplus(against))
        by_odds = 0.5 * sign * share * sigmoid(against)
        by_field = by_odds * sigmoid(field)
        slopes += np.concatenate([x.T @ by_field, [by_field.sum(), -by_odds.sum()]])
    return loss, slopes


def find_feature(data: CountedRows, learn: CountedRows, judge: CountedRows, noise: Noise, l2: float) -> FoundFeature:
    """A feature that tells rows from draws, with the bias at which the likelihood of the rows surely gains most.

    Parameters
    ----------
    data : CountedRows
    learn, judge : CountedRows
        Of the machine: to train the classifier with, and to choose the bias by; the same where they are all rows with
        their probabilities. Else two standard errors are taken off each gain.
    noise : Noise
        Of the first weights.
    l2 : float
        As of `feature_loss`.
    """
    d = data.x.shape[1]
    w = noise.normal((1, d), like=data.x)[0] / np.sqrt(d)
    b = -float(data.share @ data.x @ w)
    start = np.concatenate([w, [b, log_growth(learn.x, w, b, learn.share)[0]]])
    found = optimize.minimize(feature_loss, start, (data, learn, l2), "L-BFGS-B", jac=True, options={"maxiter": 50}).x
    w, b, gains = found[:d], float(found[d]), []
    for shift in SHIFTS:
        grown, error = log_growth(judge.x, w, b + shift, judge.share)
        gain = float(data.share @ softplus(data.x @ w + b + shift)) - grown
        gains.append(gain - (0.0 if judge is learn else 2 * error))
    best = int(np.argmax(gains))
    return FoundFeature(w, b + float(SHIFTS[best]), gains[best])
