"""Transition models of real states: a regression of what comes next, with normal noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Noise
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.dreaming.experience import Experience, Outside, Policy, rollout
from gnomon.inference.dreaming.tables import refuse_dreams
from gnomon.numeric.given import checked, choice, floats
from gnomon.numeric.noise import Noise as Stream
from gnomon.numeric.noise import seed_of

__all__ = ["GaussianTransitions", "LinearMap"]

Floats = NDArray[np.float64]
ROOM = 1.5
"""Pairs of state and action may lie so much farther out than the farthest that was seen."""


class LinearMap:
    """Least squares with an intercept: the smallest of the coefficients that fit best."""

    def fit(self, X: Floats, y: Floats) -> LinearMap:
        """Coefficients of rows (n, d) and targets (n, t)."""
        self.center, self.mean = X.mean(0), y.mean(0)
        self.coefficients = np.linalg.lstsq(X - self.center, y - self.mean, rcond=None)[0]
        return self

    def predict(self, X: Floats) -> Floats:
        """Targets of rows."""
        found: Floats = (X - self.center) @ self.coefficients + self.mean
        return found


class GaussianTransitions:
    r"""(s' - s, r) = f(s, a) + e with f a regression and e normal with the covariance of what f leaves.

    Parameters
    ----------
    real : Experience
        States (n, d) and actions (n,) or (n, k), real numbers.
    regressor : object with ``fit(X, y)`` and ``predict(X)``, optional
        Of several targets, `MLPRegression(hidden=(32,))` say; a linear map by least squares where left out.

    Attributes
    ----------
    covariance : array of shape (d + 1, d + 1)
        Of the next state and the reward given state and action.

    Notes
    -----
    No model is to be trusted where nothing was seen. How far out a pair (s, a) lies is its leverage,
    :math:`z^\top (\sum_i z_i z_i^\top)^+ z` of the centered pair z, against the largest among the experience.
    """

    def __init__(self, real: Experience, regressor: Any = None) -> None:
        if real.state.ndim != 2 or real.next_state.shape != real.state.shape:
            raise UserValueError(f"state must have shape (n, d), got {real.state.shape}", "state")
        self.d, self.k = real.state.shape[1], math.prod(real.action.shape[1:])
        X = self._pairs(real.state, real.action)
        y = np.column_stack([real.next_state - real.state, real.reward])
        kept = ~real.ended
        if kept.sum() <= X.shape[1] + 1:
            what = f"there must be more than {X.shape[1] + 1} steps that do not end an episode, got {int(kept.sum())}"
            raise UserValueError(what, "experience", "give more of them")
        self.center = X.mean(0)
        self.inverse = np.linalg.pinv((X - self.center).T @ (X - self.center))
        self.farthest = float(self._leverage(X).max())
        if regressor is not None and not (hasattr(regressor, "fit") and hasattr(regressor, "predict")):
            what = f"regressor must have fit and predict, got a {type(regressor).__name__}"
            raise UserTypeError(what, "regressor", "give MLPRegression(hidden=(32,)), say")
        self.regressor = (LinearMap() if regressor is None else regressor).fit(X[kept], y[kept])
        left = y[kept] - np.asarray(self.regressor.predict(X[kept]), np.float64)
        self.covariance: Floats = left.T @ left / max(1, int(kept.sum()) - X.shape[1] - 1)
        values, vectors = np.linalg.eigh(self.covariance)
        self.root: Floats = vectors * np.sqrt(np.clip(values, 0, None))

    def _pairs(self, states: Any, actions: Any) -> Floats:
        actions = floats(actions, "actions")
        if math.prod(actions.shape[1:]) != self.k:
            what = f"policy must give actions of {self.k} numbers each, got shape {actions.shape}"
            raise UserValueError(what, "policy", "give those of the experience")
        return np.column_stack([states, actions.reshape(len(actions), self.k)])

    def _leverage(self, pairs: Floats) -> Floats:
        off = pairs - self.center
        found: Floats = np.einsum("ni,ij,nj->n", off, self.inverse, off)
        return found

    def expected(self, states: Floats, actions: Any) -> tuple[Floats, Floats]:
        """Mean of the next state, (n, d), and of the reward, (n,)."""
        found = np.asarray(self.regressor.predict(self._pairs(states, actions)), np.float64)
        return states + found[:, : self.d], found[:, self.d]

    def _move(self, states: Floats, actions: Any, noise: Noise) -> tuple[Any, Any, NDArray[np.bool_]]:
        after, reward = self.expected(states, actions)
        e = np.asarray(noise.normal((len(states), self.d + 1))) @ self.root.T
        return after + e[:, : self.d], reward + e[:, self.d], np.zeros(len(states), bool)

    @checked
    def dream(
        self, policy: Policy, start_states: ArrayLike, horizon: int, *,
        outside: Outside = "refuse", random_state: Any = None,
    ) -> Experience:  # fmt: skip
        """Steps drawn from the model, marked as dreamt: s' ~ N(s + f(s, a), covariance), `horizon` times.

        Parameters
        ----------
        policy : Policy
            A function of states, (n, d), or an object with ``act``.
        start_states : array of shape (n, d)
        horizon : int >= 1
        outside : {"refuse", "stop"}
            What is done about a pair (s, a) far outside the experience: refused, or the dream stops there.
        random_state : int, Generator or None

        Raises
        ------
        UserValueError
            A pair outside the experience, with its numbers.
        """
        choice(outside, Outside, "outside")
        start = np.atleast_2d(floats(start_states, "start_states"))
        if start.ndim != 2 or start.shape[1] != self.d or not np.isfinite(start).all():
            what = f"start_states must be finite rows of {self.d} columns, got shape {start.shape}"
            raise UserValueError(what, "start_states")

        def admit(states: Any, actions: Any) -> NDArray[np.bool_]:
            far = self._leverage(self._pairs(states, actions)) / self.farthest
            if outside == "refuse" and not (far <= ROOM).all():  # NaN is no place that was seen
                row = int(np.where(far <= ROOM, -np.inf, far).argmax())
                pair = f"action {np.asarray(actions)[row].tolist()} in state {states[row].round(3).tolist()}"
                what = f"{pair} must be near the experience, got {far[row]:.1f} times as far out as its farthest step"
                raise UserValueError(what, "policy", "choose other actions, a shorter horizon, or outside='stop'")
            return far <= ROOM

        noise = Stream(seed_of(random_state), "dream")
        return rollout(self._move, policy, start, horizon, noise, dreamt=True, admit=admit)

    def error_by_horizon(self, real: Experience) -> Floats:
        """Root mean square distance of the mean path from real episodes after 1, 2 ... steps of their own actions.

        Returns
        -------
        array of shape (horizon,)
            Over the episodes that last so long. It holds the noise of the real steps as well.
        """
        refuse_dreams(real)
        if real.state.shape[1:] != (self.d,):
            raise UserValueError(f"states must have {self.d} columns, got shape {real.state.shape}", "real")
        place = {int(one): k for k, one in enumerate(np.unique(real.episode))}
        found, at = [], np.zeros((len(place), self.d))
        for t in range(int(real.step.max()) + 1):
            now = real.take((real.step == t) & ~real.ended)
            if not len(now):
                break
            rows = [place[int(one)] for one in now.episode]
            if t == 0:
                at[rows] = now.state
            at[rows] = self.expected(at[rows], now.action)[0]
            found.append(np.sqrt(np.mean(np.sum((at[rows] - now.next_state) ** 2, 1))))
        return np.array(found)
