"""Finite decision processes: tables of what each action leads to, exact values, and such tables from experience."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Noise
from gnomon.distributions.conditional import ConditionalTable, codes_of
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.dreaming.experience import Experience, Outside, Policy, rollout
from gnomon.numeric.given import checked, choice, doable, floats
from gnomon.numeric.noise import Noise as Stream
from gnomon.numeric.noise import seed_of

__all__ = ["DecisionProcess", "TabularTransitions", "inventory"]

Floats = NDArray[np.float64]
WORST = 1e13
"""Condition number of a system that is taken for singular."""


class DecisionProcess:
    r"""States, actions, and the chances and rewards of what they lead to.

    The value of a policy is the solution of :math:`v = r_\pi + \gamma P_\pi v`, a linear system.

    Parameters
    ----------
    transitions : array of shape (S, A, S) or (S, A, S + 1)
        P(next | state, action) along the last axis, which sums to 1; a further column is the end of the episode.
    rewards : array of shape (S, A), or of the shape of `transitions`
        Of each pair, or of each triple.

    Raises
    ------
    UserValueError
        Other shapes, negative chances or other sums.

    Examples
    --------
    Action 1 in state 0 earns 1 and stays; everything else goes back to state 0 for nothing.

    >>> world = DecisionProcess([[[0, 1], [1, 0]], [[1, 0], [1, 0]]], [[0, 1], [0, 0]])
    >>> world.values([1, 0], discount=0.5).tolist()
    [2.0, 1.0]
    """

    @checked
    def __init__(self, transitions: ArrayLike, rewards: ArrayLike) -> None:
        p, r = floats(transitions, "transitions"), floats(rewards, "rewards")
        if p.ndim != 3 or p.shape[2] - p.shape[0] not in (0, 1):
            what = f"transitions must have shape (S, A, S) or (S, A, S + 1), got {p.shape}"
            raise UserValueError(what, "transitions", "the last axis runs over what comes next")
        if r.shape not in (p.shape, p.shape[:2]):
            raise UserValueError(f"rewards must have shape {p.shape[:2]} or {p.shape}, got {r.shape}", "rewards")
        self.n_states, self.n_actions = p.shape[:2]
        whole = np.zeros((self.n_states, self.n_actions, self.n_states + 1))
        whole[..., : p.shape[2]] = p
        self.table = ConditionalTable(whole)
        self.transitions: Floats = np.exp(self.table.log_probs)
        self.rewards: Floats = np.zeros_like(whole)
        self.rewards[..., : p.shape[2]] = r if r.ndim == 3 else r[..., None]

    @cached_property
    def tried(self) -> NDArray[np.bool_]:
        """Which actions are known in which states, shape (S, A): of a process that is given, all."""
        return np.ones((self.n_states, self.n_actions), bool)

    # --- exact --------------------------------------------------------------------------------------------------

    def probabilities(self, policy: Policy) -> Floats:
        """The policy as a table (S, A).

        Raises
        ------
        UserValueError
            Another shape, an action that there is not, rows that do not sum to 1.
        """
        table = np.asarray(policy(np.arange(self.n_states)) if callable(policy) else policy)
        if table.ndim == 1:
            return np.eye(self.n_actions)[codes_of(table, self.n_actions, "policy")]
        if table.shape != (self.n_states, self.n_actions):
            what = (
                f"policy must have shape ({self.n_states},) or ({self.n_states}, {self.n_actions}), got {table.shape}"
            )
            raise UserValueError(what, "policy")
        return np.exp(ConditionalTable(table).log_probs)

    def chain(self, policy: Policy) -> Floats:
        """P(next state | state) under a policy, shape (S, S); rows sum to 1 less the chance that the episode ends."""
        return np.einsum("sa,san->sn", self.probabilities(policy), self.transitions[..., : self.n_states])

    @checked
    def values(self, policy: Policy, discount: float) -> Floats:
        """Expected discounted sum of rewards from each state, shape (S,): (I - discount P) v = r.

        Parameters
        ----------
        policy : Policy
        discount : float in [0, 1]
            1 only where every episode ends.

        Raises
        ------
        UserValueError
            A discount outside its interval; sums without end.
        """
        check_discount(discount)
        earned = np.einsum("sa,san,san->s", self.probabilities(policy), self.transitions, self.rewards)
        return solved(np.eye(self.n_states) - discount * self.chain(policy), earned)

    def action_values(self, policy: Policy, discount: float) -> Floats:
        """The same where the first action is another one, shape (S, A)."""
        after: Floats = np.zeros(self.n_states + 1)
        after[:-1] = self.values(policy, discount)
        found: Floats = (self.transitions * (self.rewards + discount * after)).sum(-1)
        return found

    def best_policy(self, discount: float) -> NDArray[np.int64]:
        """A policy of highest value in every state, shape (S,), by policy iteration (Howard 1960).

        Of a model from experience only actions that were tried are in it, and 0 where none was.
        """
        policy = self.tried.argmax(1)
        while True:
            found = np.where(self.tried, self.action_values(policy, discount), -np.inf)
            better = found.max(1) > found[np.arange(self.n_states), policy] + 1e-10
            if not better.any():
                return policy
            policy = np.where(better, found.argmax(1), policy)

    # --- drawn --------------------------------------------------------------------------------------------------

    @checked
    def play(
        self, policy: Policy, start_states: ArrayLike, horizon: int, *, random_state: Any = None
    ) -> Experience:  # fmt: skip
        """Real steps: what happens in this process."""
        start, noise = codes_of(start_states, self.n_states, "start_states"), Stream(seed_of(random_state), "play")
        return rollout(self._move, policy, start.ravel(), horizon, noise, dreamt=False)

    def _move(self, states: Any, actions: Any, noise: Noise) -> tuple[Any, Any, NDArray[np.bool_]]:
        codes = self._actions(actions)
        after = self.table.distribution({"state": states, "action": codes}).sample(noise)
        ended = after == self.n_states
        return np.where(ended, states, after), self.rewards[states, codes, after], ended

    def _actions(self, actions: Any) -> NDArray[np.int64]:
        codes: NDArray[np.int64] = codes_of(actions, self.n_actions, "action")
        if codes.ndim != 1:
            raise UserValueError(f"policy must give one action for each state, got shape {codes.shape}", "policy")
        return codes


class TabularTransitions(DecisionProcess):
    r"""A decision process counted from experience: :math:`p(s' | s, a) = (n_{sas'} + \alpha) / (n_{sa} + \alpha K)`.

    Rewards are means over the triples that were seen. A pair of state and action that was never tried is not made up:
    dreams refuse it by name.

    Parameters
    ----------
    counts : array of shape (S, A, S + 1)
        How often each triple was seen; the last column is the end of the episode.
    sums : array of the same shape
        Of their rewards.
    smoothing : float in [0, inf)
        Pseudo-count of every next state.
    """

    def __init__(self, counts: Floats, sums: Floats, smoothing: float = 0.0) -> None:
        if not smoothing >= 0:
            raise UserValueError.must("smoothing", "be at least 0", smoothing)
        self.counts = counts
        tried = counts.sum(-1)
        possible: Floats = np.ones(counts.shape[-1])
        possible[-1] = float(counts[..., -1].any())
        inner = counts + smoothing * possible
        uniform = np.append(np.ones(len(counts)) / len(counts), 0.0)
        with np.errstate(invalid="ignore"):
            p = np.where(tried[..., None] > 0, inner / inner.sum(-1, keepdims=True), uniform)
            pair = np.where(tried > 0, sums.sum(-1) / tried, 0.0)
            rewards = np.where(counts > 0, sums / counts, pair[..., None])
        super().__init__(p, rewards)

    @cached_property
    def tried(self) -> NDArray[np.bool_]:
        """Which actions were tried in which states, shape (S, A)."""
        return self.counts.sum(-1) > 0

    def untried(self, policy: Policy) -> list[tuple[int, int]]:
        """Pairs (state, action) that a policy would take and that no experience speaks of."""
        found = np.argwhere((self.probabilities(policy) > 0) & ~self.tried)
        return [(int(state), int(action)) for state, action in found]

    @checked
    def dream(
        self, policy: Policy, start_states: ArrayLike, horizon: int, *,
        outside: Outside = "refuse", random_state: Any = None,
    ) -> Experience:  # fmt: skip
        """Steps drawn from the model, marked as dreamt: a ~ policy(s), s' ~ p(s' | s, a), `horizon` times.

        Parameters
        ----------
        policy : Policy
        start_states : array of shape (n,)
            Of one rollout each.
        horizon : int >= 1
            Short ones are trusted: the model's error grows with it, `error_by_horizon`.
        outside : {"refuse", "stop"}
            What is done about an action that was never tried in its state: refused by name, or the dream stops there.
        random_state : int, Generator or None

        Raises
        ------
        UserValueError
            An action outside the experience.
        """
        choice(outside, Outside, "outside")
        start = codes_of(start_states, self.n_states, "start_states").ravel()
        return self.rollout(policy, start, horizon, Stream(seed_of(random_state), "dream"), outside=outside)

    def rollout(
        self, policy: Policy, start: NDArray[np.int64], horizon: int, noise: Noise, *, outside: str = "refuse"
    ) -> Experience:
        """`dream` with a stream of noise."""

        def admit(states: Any, actions: Any) -> NDArray[np.bool_]:
            codes = self._actions(actions)
            known: NDArray[np.bool_] = self.tried[states, codes]
            if outside == "refuse" and not known.all():
                row = int(known.argmin())
                what = f"action {codes[row]} was never tried in state {states[row]}"
                raise UserValueError(what, "policy", "choose actions from the experience, or outside='stop'")
            return known

        return rollout(self._move, policy, start, horizon, noise, dreamt=True, admit=admit)

    def error_by_horizon(self, policy: Policy, real: Experience) -> Floats:
        """Total variation distance between where a policy is after 1, 2 ... steps in the model and in real episodes.

        The real episodes must follow the policy; both begin in their first states. It holds the chance error of the
        episodes too. Where the model is off by e at most in each step, it is at most h e after h (Kearns and Singh
        2002).

        Returns
        -------
        array of shape (horizon,)
        """
        refuse_dreams(real)
        starts = real.state[real.step == 0]
        if not len(starts):
            raise UserValueError("no episode begins, step is 0 nowhere", "real", "number steps from 0 in each episode")
        distribution: Floats = np.bincount(codes_of(starts, self.n_states, "state"), minlength=self.n_states + 1) / len(
            starts
        )
        step = np.zeros((self.n_states + 1, self.n_states + 1))
        step[:-1] = np.einsum("sa,san->sn", self.probabilities(policy), self.transitions)
        step[-1, -1] = 1.0
        found = []
        for t in range(int(real.step.max()) + 1):
            distribution = distribution @ step
            there = real.take((real.step == t) & ~real.ended)
            lived = np.bincount(there.next_state, minlength=self.n_states + 1) / len(starts)
            lived[-1] = 1 - lived[:-1].sum()
            found.append(0.5 * np.abs(distribution - lived).sum())
        return np.array(found)


def counted(real: Experience, n_states: int, n_actions: int, smoothing: float) -> TabularTransitions:
    """The tables of real steps."""
    state, action = codes_of(real.state, n_states, "state"), codes_of(real.action, n_actions, "action")
    after = np.where(real.ended, n_states, codes_of(np.where(real.ended, 0, real.next_state), n_states, "next_state"))
    counts, sums = np.zeros((2, n_states, n_actions, n_states + 1))
    np.add.at(counts, (state, action, after), 1.0)
    np.add.at(sums, (state, action, after), real.reward)
    return TabularTransitions(counts, sums, smoothing)


def refuse_dreams(experience: Experience) -> None:
    """Refuse steps that were dreamt where only real ones say anything, and what are no steps."""
    check_steps(experience)
    if experience.dreamt.any():
        n = int(experience.dreamt.sum())
        what = f"{n} of {len(experience)} steps were dreamt, and a model learns nothing from its own dreams"
        raise UserValueError(what, "experience", "give experience.real")


def check_steps(experience: Any) -> None:
    """Refuse what is no `Experience`."""
    if not isinstance(experience, Experience):
        what = f"experience must be an Experience, got a {type(experience).__name__}"
        raise UserTypeError(what, "experience", "give Experience.of(state, action, reward, next_state)")


def check_discount(discount: float) -> None:
    """Refuse a discount outside [0, 1]."""
    if not 0 <= discount <= 1:
        raise UserValueError.must("discount", "be in [0, 1]", discount)


def solved(matrix: Floats, right: Floats) -> Floats:
    """The solution of a linear system of values.

    Raises
    ------
    UserValueError
        A singular one.
    """
    if np.linalg.cond(matrix) > WORST:
        raise UserValueError("the sum of rewards has no end", "discount", "give a discount below 1")
    found: Floats = np.asarray(np.linalg.solve(matrix, right), np.float64)
    return found


def inventory(
    capacity: int = 4, demand: Sequence[float] = (0.2, 0.4, 0.3, 0.1), *, price: float = 3.0, cost: float = 1.0,
    order: float = 2.0, storage: float = 0.25,
) -> DecisionProcess:  # fmt: skip
    """A shop: the state is how much is in stock at night, the action how much is ordered for the morning.

    What is ordered above `capacity` is not delivered. Each sold piece earns `price`; a delivered one costs `cost`, an
    order `order`, a piece that is left at night `storage`.

    Parameters
    ----------
    capacity : int >= 1, default 4
    demand : sequence of float
        Chances of 0, 1, 2 ... pieces that are wanted by day.
    price, cost, order, storage : float

    Examples
    --------
    >>> shop = inventory()
    >>> shop.best_policy(discount=0.9).tolist()
    [4, 0, 0, 0, 0]
    """
    chances = np.asarray(demand, np.float64)
    n = doable(capacity, "capacity", least=1) + 1
    transitions, rewards = np.zeros((2, n, n, n))
    for stock in range(n):
        for ordered in range(n):
            delivered = min(ordered, capacity - stock)
            sold = np.minimum(np.arange(len(chances)), stock + delivered)
            left = stock + delivered - sold
            earned = price * sold - cost * delivered - order * (ordered > 0) - storage * left
            np.add.at(transitions[stock, ordered], left, chances)
            np.add.at(rewards[stock, ordered], left, chances * earned)
    mean = np.divide(rewards, transitions, out=np.zeros_like(rewards), where=transitions > 0)
    return DecisionProcess(transitions, mean)
