"""Steps that were lived or dreamt, with a mark on each, and the loop that both are made by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise
from gnomon.distributions.conditional import ConditionalTable
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.given import doable, numbers

__all__ = ["Experience", "Outside", "Policy", "actions_of", "rollout"]

Outside = Literal["refuse", "stop"]
"""What is done about what the experience does not speak of."""
Policy = Any
"""Actions (S,) by state or probabilities (S, A); a function of states; or an object with ``act(states, noise)``."""


@dataclass(frozen=True, eq=False)
class Experience:
    """Steps (state, action, reward, next state), each marked as real or dreamt, so that the two are never confused.

    Parameters
    ----------
    state, next_state : array of shape (n,) of codes, or (n, d)
    action : array of shape (n,) or (n, k)
    reward : array of shape (n,)
    ended : bool array of shape (n,)
        Whether the episode ended there; next_state then counts for nothing.
    dreamt : bool array of shape (n,)
    episode, step : int array of shape (n,)
        Which rollout a step is of, and its place in it from 0.

    Examples
    --------
    >>> lived = Experience.of(state=[0, 1], action=[1, 0], reward=[0.0, 2.0], next_state=[1, 0], ended=[False, True])
    >>> len(lived), len(lived.real), len(lived.dreams)
    (2, 2, 0)
    """

    state: Array
    action: Array
    reward: Array
    next_state: Array
    ended: NDArray[np.bool_]
    dreamt: NDArray[np.bool_]
    episode: NDArray[np.int64]
    step: NDArray[np.int64]

    @classmethod
    def of(
        cls, state: Any, action: Any, reward: Any, next_state: Any, ended: Any = None, *, episode: Any = None,
        step: Any = None,
    ) -> Self:  # fmt: skip
        """Real steps; without `episode` and `step` each is an episode of its own.

        Raises
        ------
        UserValueError
            Columns of unlike lengths, no step, numbers that are not finite.
        """
        n = len(np.atleast_1d(numbers(reward, "reward")))
        given = {"state": state, "action": action, "reward": reward, "next_state": next_state}
        given["ended"] = np.zeros(n, bool) if ended is None else ended
        given["episode"] = np.arange(n) if episode is None else episode
        given["step"] = np.zeros(n, int) if step is None else step
        columns = {name: numbers(value, name) for name, value in given.items()}
        for name, column in columns.items():
            if column.ndim < 1 or len(column) != n or not n:
                what = f"{name} must have one entry for each of the {n} rewards, got shape {column.shape}"
                raise UserValueError(what, name, "give one row for each step")
            if column.dtype.kind not in "biuf" or not np.isfinite(column).all():
                raise UserValueError(f"{name} must hold finite numbers", name, "drop the steps that lack some")
        columns["ended"] = columns["ended"].astype(bool)
        return cls(**columns, dreamt=np.zeros(n, bool))

    def __len__(self) -> int:
        return len(self.reward)

    def take(self, rows: Any) -> Experience:
        """Some of the steps."""
        return Experience(*(getattr(self, one.name)[rows] for one in fields(self)))

    @property
    def real(self) -> Experience:
        """The steps that were lived."""
        return self.take(~self.dreamt)

    @property
    def dreams(self) -> Experience:
        """The steps that were dreamt."""
        return self.take(self.dreamt)

    def join(self, other: Experience) -> Experience:
        """The steps of both, with their marks; episodes of the second are numbered on."""
        numbers = other.episode + (self.episode.max() + 1 if len(self) else 0)
        parts = {one.name: (getattr(self, one.name), getattr(other, one.name)) for one in fields(self)}
        parts["episode"] = (self.episode, numbers)
        return Experience(**{name: np.concatenate(pair) for name, pair in parts.items()})


def actions_of(policy: Policy, states: Array, noise: Noise) -> Array:
    """An action for each state.

    Raises
    ------
    UserTypeError
        What is no policy.
    UserValueError
        Another number of actions than of states.
    """
    if hasattr(policy, "act"):
        found: Any = policy.act(states, noise)
    elif callable(policy):
        found = policy(states)
    else:
        table = np.asarray(policy)
        if table.ndim == 2 and np.ndim(states) == 1:
            return ConditionalTable(table).distribution({"state": states}).sample(noise)
        if table.ndim != 1 or table.dtype.kind not in "iu":
            what = "policy must be actions (S,), probabilities (S, A), a function or an object with act"
            raise UserTypeError(what, "policy", "give an array of whole numbers, say")
        if np.ndim(states) != 1 or not (np.asarray(states) < len(table)).all():
            what = f"policy has an action for each of {len(table)} states, and others are asked about"
            raise UserValueError(what, "policy", "give as many as there are, or a function of states that are rows")
        found = table[states]
    found = np.asarray(found)
    if found.ndim < 1 or len(found) != len(states):
        raise UserValueError(f"policy must give {len(states)} actions, got shape {found.shape}", "policy")
    return found


def rollout(
    move: Callable[[Array, Array, Noise], tuple[Array, Array, NDArray[np.bool_]]], policy: Policy, start: Array,
    horizon: int, noise: Noise, *, dreamt: bool, admit: Callable[[Array, Array], NDArray[np.bool_]] | None = None,
) -> Experience:  # fmt: skip
    """Ancestral sampling from start states: an action given the state, then what both lead to, for `horizon` steps.

    Parameters
    ----------
    move : callable
        ``(states, actions, noise) -> (next states, rewards, ended)``.
    policy : Policy
    start : array of shape (n, ...)
    horizon : int >= 1
    noise : Noise
    dreamt : bool
        The mark of the steps.
    admit : callable, optional
        Which pairs of state and action may be asked about; an episode stops before any other.
    """
    horizon = doable(horizon, "horizon", least=1)
    states, episode = start, np.arange(len(start))
    parts: list[Experience] = []
    for t in range(horizon):
        actions = actions_of(policy, states, noise.child("action").at(t))
        if admit is not None:
            kept = admit(states, actions)
            states, actions, episode = states[kept], actions[kept], episode[kept]
        if not len(states):
            break
        after, reward, ended = move(states, actions, noise.child("next").at(t))
        n = len(states)
        marks, steps = np.full(n, dreamt), np.full(n, t)
        parts.append(Experience(states, actions, reward, after, ended, marks, episode, steps))
        states, episode = after[~ended], episode[~ended]
    if not parts:
        what = "policy must begin with actions that were tried, got none"
        raise UserValueError(what, "policy", "choose actions that were tried in these states")
    return Experience(*(np.concatenate([getattr(one, each.name) for one in parts]) for each in fields(Experience)))
