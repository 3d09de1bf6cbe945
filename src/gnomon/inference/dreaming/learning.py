"""A model from real steps, values from steps of any kind, and a policy trained on dreams (Dyna)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.distributions.conditional import codes_of
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.dreaming.continuous import GaussianTransitions
from gnomon.inference.dreaming.experience import Experience
from gnomon.inference.dreaming.tables import (
    TabularTransitions,
    check_discount,
    check_steps,
    counted,
    refuse_dreams,
    solved,
)
from gnomon.numeric.given import checked, doable
from gnomon.numeric.noise import Noise, seed_of

__all__ = ["Dreamer", "fit_transition_model", "least_squares_values", "train_on_dreams"]

Floats = NDArray[np.float64]


@checked
def fit_transition_model(
    experience: Experience, *, n_states: int | None = None, n_actions: int | None = None, smoothing: float = 0.0,
    regressor: Any = None,
) -> Any:  # fmt: skip
    """A model of what actions lead to, learned from real steps, to be dreamt from.

    Parameters
    ----------
    experience : Experience
        Real steps alone. States that are whole numbers in one column are counted; rows of real numbers are regressed.
    n_states, n_actions : int, optional
        Of tables; those that occur where left out.
    smoothing : float in [0, inf), default 0
        Pseudo-count of every next state, of tables.
    regressor : object with ``fit`` and ``predict``, optional
        Of real states: a network, say; a linear map where left out.

    Returns
    -------
    TabularTransitions or GaussianTransitions
        With ``dream(policy, start_states, horizon)`` and ``error_by_horizon``.

    Raises
    ------
    UserValueError
        Dreamt steps among the experience, codes outside the tables.

    Examples
    --------
    >>> from gnomon.inference.dreaming.tables import inventory
    >>> shop = inventory()
    >>> lived = shop.play(np.full((5, 5), 0.2), np.zeros(200, int), horizon=10, random_state=0)
    >>> model = fit_transition_model(lived)
    >>> dreams = model.dream(np.full((5, 5), 0.2), [0, 1, 2], horizon=5, random_state=0)
    >>> len(dreams), bool(dreams.dreamt.all())
    (15, True)
    """
    refuse_dreams(experience)
    if experience.state.ndim == 2:
        for name, value in (("n_states", n_states), ("n_actions", n_actions), ("smoothing", smoothing)):
            if value:
                raise UserValueError(
                    f"{name} is of tables, and these states are rows of real numbers", name, "leave it out"
                )
        return GaussianTransitions(experience, regressor)
    if regressor is not None:
        raise UserValueError("these states are counted", "regressor", "leave it out, or give states as rows (n, d)")
    states = int(max(experience.state.max(), experience.next_state.max())) + 1
    return counted(experience, n_states or states, n_actions or int(experience.action.max()) + 1, smoothing)


@checked
def least_squares_values(
    experience: Experience, discount: float, features: Callable[..., Any] | None = None
) -> Floats:  # fmt: skip
    r"""Weights w of values v(s) = f(s) w that agree with the steps: least-squares temporal differences.

    :math:`\sum f(s) (f(s) - \gamma f(s'))^\top w = \sum f(s) r`, where f(s') is 0 at the end of an episode.

    Of codes without `features`, w is the value of each state: the solution of the linear system of the chain that the
    steps themselves make up. Whether they were lived or dreamt is the same to it; their policy is the one judged.

    Parameters
    ----------
    experience : Experience
    discount : float in [0, 1]
    features : callable, optional
        From states to an array (n, k).

    Returns
    -------
    array of shape (S,) or (k,)

    Raises
    ------
    UserValueError
        A state that no step begins in, features that depend on each other.

    References
    ----------
    Bradtke and Barto (1996), "Linear least-squares algorithms for temporal difference learning".

    Examples
    --------
    >>> lived = Experience.of([0, 1], [0, 0], [1.0, 0.0], [1, 0])
    >>> least_squares_values(lived, 0.5).round(3).tolist()
    [1.333, 0.667]
    """
    check_steps(experience)
    check_discount(discount)
    if features is None:
        size = int(max(experience.state.max(), experience.next_state[~experience.ended].max(initial=0))) + 1
        missing = np.setdiff1d(np.arange(size), experience.state)
        if len(missing):
            what = f"no step begins in state {missing[0]}"
            raise UserValueError(what, "experience", "dream from all states, or give features")
        features = np.eye(size).__getitem__
    last = experience.ended.reshape(-1, *(1,) * (experience.state.ndim - 1))
    now = np.asarray(features(experience.state), np.float64)
    after = np.asarray(features(np.where(last, experience.state, experience.next_state)), np.float64)
    after = after * ~experience.ended[:, None]
    return solved(now.T @ (now - discount * after), now.T @ experience.reward)


@dataclass(frozen=True)
class Dreamer:
    """What training on dreams has found.

    Parameters
    ----------
    policy : int array of shape (S,)
    action_values : array of shape (S, A)
        NaN of actions that were never tried.
    dreams : Experience
        The last ones.
    iterations : int
    converged : bool
        Whether the policy no longer changed.
    """

    policy: NDArray[np.int64]
    action_values: Floats
    dreams: Experience
    iterations: int
    converged: bool


@checked
def train_on_dreams(
    model: TabularTransitions, discount: float, *, start_states: ArrayLike | None = None, horizon: int = 1,
    dreams: int = 200, iterations: int = 50, random_state: Any = None,
) -> Dreamer:  # fmt: skip
    """The Dyna scheme: policy iteration on steps that a learned model dreams up, and on no other.

    Each iteration dreams from start states with the policy so far, its first actions taken evenly among those that
    were tried; values of actions are those of the chain that the dreamt steps make up, and the policy takes the best.
    An action that was never tried is never taken.

    Parameters
    ----------
    model : TabularTransitions
    discount : float in [0, 1)
    start_states : array of shape (n,), optional
        All states where left out.
    horizon : int >= 1, default 1
        Steps of a dream: the first with an even action, the rest by the policy.
    dreams : int >= 1, default 200
        From each start state with each action that was tried there.
    iterations : int >= 1, default 50
    random_state : int, Generator or None

    Raises
    ------
    UserValueError
        A state that dreams come to and in which nothing was tried.

    References
    ----------
    Sutton (1991), "Dyna, an integrated architecture for learning, planning, and reacting"; Lagoudakis and Parr (2003),
    for the values of actions by least squares.

    Examples
    --------
    >>> from gnomon.inference.dreaming.tables import inventory
    >>> shop = inventory()
    >>> lived = shop.play(np.full((5, 5), 0.2), np.zeros(500, int), horizon=10, random_state=0)
    >>> found = train_on_dreams(fit_transition_model(lived), 0.9, random_state=0)
    >>> found.policy.tolist(), found.converged
    ([4, 0, 0, 0, 0], True)
    """
    if not hasattr(model, "rollout"):
        what = f"model must be tables of states and actions, got a {type(model).__name__}"
        raise UserTypeError(what, "model", "give states as whole numbers to fit_transition_model")
    check_discount(discount)
    noise = Noise(seed_of(random_state), "dreamer")
    tried = model.tried
    starts = (
        np.arange(model.n_states)
        if start_states is None
        else np.unique(codes_of(start_states, model.n_states, "start_states"))
    )
    pairs = np.array([(s, a) for s in starts for a in np.flatnonzero(tried[s])], np.int64)
    first = np.repeat(pairs, doable(dreams, "dreams", least=1), axis=0)
    policy = np.where(tried, 0.0, -1.0).argmax(1)
    for k in range(1, doable(iterations, "iterations", least=1) + 1):
        opening = _Opening(first[:, 1], policy)
        steps = model.rollout(opening, first[:, 0], horizon, noise.child(f"round/{k}"), outside="stop")
        values = _action_values(steps, policy, tried.shape, discount)
        best = np.where(np.isnan(values), -np.inf, values).argmax(1)
        kept = values[np.arange(len(policy)), policy]
        better = values[np.arange(len(policy)), best] > kept + 1e-9 * np.abs(kept)
        if not better.any():
            return Dreamer(policy, values, steps, k, True)
        policy = np.where(better, best, policy)
    return Dreamer(policy, values, steps, iterations, False)


class _Opening:
    """A policy whose first actions are given."""

    def __init__(self, first: NDArray[np.int64], policy: NDArray[np.int64]) -> None:
        self.first: NDArray[np.int64] | None = first
        self.policy = policy

    def act(self, states: NDArray[np.int64], noise: Noise) -> NDArray[np.int64]:
        """The given actions once, those of the policy from then on."""
        first, self.first = self.first, None
        return self.policy[states] if first is None else first


def _action_values(
    steps: Experience, policy: NDArray[np.int64], shape: tuple[int, ...], discount: float
) -> Floats:  # fmt: skip
    """Values (S, A) in the chain that steps make up; NaN of pairs that are not among them."""
    seen = counted(steps, shape[0], shape[1], 0.0)
    reached = np.unique(steps.next_state[~steps.ended])
    open_ends = reached[~seen.tried[reached, policy[reached]]]
    if len(open_ends):
        what = f"dreams come to state {open_ends[0]}, and what follows is not known"
        raise UserValueError(what, "start_states", "give experience of it, or begin dreams there too")
    return np.where(seen.tried, seen.action_values(policy, discount), np.nan)
