"""Dreams of a learned transition model: exact values of small processes, deterministic worlds, marks, horizons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.dreaming.experience import Experience
from gnomon.inference.dreaming.learning import least_squares_values, train_on_dreams
from gnomon.inference.dreaming.tables import DecisionProcess, TabularTransitions, inventory

POLICY = np.array([[0.7, 0.3], [0.5, 0.5], [0.1, 0.9]])
EVEN = np.full((5, 5), 0.2)


def world(ends: float = 0.0) -> DecisionProcess:
    """Three states, two actions; an episode ends with this chance in each step."""
    random = np.random.default_rng(0)
    p = random.dirichlet(np.ones(3), (3, 2)) * (1 - ends)
    return DecisionProcess(np.dstack([p, np.full((3, 2), ends)]), random.normal(size=(3, 2, 4)))


def exactly(process: DecisionProcess, scale: float = 1e6) -> TabularTransitions:
    """A model whose counts are the very chances."""
    counts = process.transitions * scale
    return TabularTransitions(counts, counts * process.rewards)


@pytest.mark.spec("INF-108")
@pytest.mark.parametrize("ends", [0.0, 0.2])
def test_exact_values_are_the_sums_of_all_futures(ends: float) -> None:
    """v = sum_t (discount P)^t r, written out over 400 steps; the best policy against all eight."""
    process = world(ends)
    P, r = np.zeros((3, 3)), np.zeros(3)
    for s in range(3):
        for a in range(2):
            for after in range(4):
                chance = POLICY[s, a] * process.transitions[s, a, after]
                r[s] += chance * process.rewards[s, a, after]
                if after < 3:
                    P[s, after] += chance
    total, now = np.zeros(3), r.copy()
    for _ in range(400):
        total, now = total + now, 0.9 * P @ now
    np.testing.assert_allclose(process.values(POLICY, 0.9), total, rtol=1e-10)
    policies = [np.array([a, b, c]) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    best = np.max([process.values(one, 0.9) for one in policies], axis=0)
    np.testing.assert_allclose(process.values(process.best_policy(0.9), 0.9), best, rtol=1e-12)


@pytest.mark.spec("INF-108")
@pytest.mark.parametrize("ends", [0.0, 0.2])
def test_values_from_dreams_of_the_exact_model_are_those_of_the_linear_system(ends: float) -> None:
    """60,000 dreamt steps; the bound is five standard errors of one state's value: false alarm below 1e-5."""
    process = world(ends)
    model = exactly(process)
    dreams = model.dream(POLICY, np.repeat(np.arange(3), 20_000), horizon=1, random_state=0)
    assert len(dreams) == 60_000 and dreams.dreamt.all() and not len(dreams.real)
    found, true = least_squares_values(dreams, 0.9), process.values(POLICY, 0.9)
    after = np.append(0.9 * true, 0.0)[np.where(dreams.ended, 3, dreams.next_state)]
    off = dreams.reward + after - true[dreams.state]
    error = [off[dreams.state == s].std() / np.sqrt((dreams.state == s).sum()) for s in range(3)]
    resolvent = np.linalg.inv(np.eye(3) - 0.9 * process.chain(POLICY))
    bound = 5 * np.sqrt((resolvent**2) @ np.square(error))
    assert (np.abs(found - true) < bound).all() and (bound < 0.2).all()
    long = model.dream(POLICY, np.repeat(np.arange(3), 2000), horizon=10, random_state=1)
    np.testing.assert_allclose(least_squares_values(long, 0.9), true, atol=0.25)
    length = np.bincount(long.episode)  # what has ended goes no further
    np.testing.assert_array_equal(length[long.episode[long.ended]], long.step[long.ended] + 1)
    assert (length == 10).sum() >= len(length) - long.ended.sum() and long.ended.any() == bool(ends)


@pytest.mark.spec("INF-108")
def test_a_deterministic_model_dreams_what_happens() -> None:
    """Every pair tried once: dreamt and real rollouts coincide step for step, whatever was drawn."""
    after = np.array([[1, 2], [2, 0], [0, 3]])  # 3: the end
    process = DecisionProcess(np.eye(4)[after], [[1.0, -1.0], [0.5, 2.0], [0.0, 3.0]])
    lived = process.play(np.full((3, 2), 0.5), np.zeros(40, int), 6, random_state=0)
    model = gnomon.fit_transition_model(lived)
    assert model.tried.all() and model.n_states == 3
    for policy in ([0, 0, 0], [0, 1, 1], [1, 0, 1]):
        real = process.play(np.array(policy), [0, 1, 2], 8, random_state=1)
        dreamt = model.dream(np.array(policy), [0, 1, 2], 8, random_state=2)
        for name in ("state", "action", "reward", "next_state", "ended", "episode", "step"):
            np.testing.assert_array_equal(getattr(dreamt, name), getattr(real, name))
        assert dreamt.dreamt.all() and not real.dreamt.any()
        np.testing.assert_allclose(model.error_by_horizon(np.array(policy), real), 0, atol=1e-12)


@pytest.mark.spec("INF-108")
def test_tables_are_shares_of_what_was_seen() -> None:
    lived = Experience.of(
        [0, 0, 0, 1, 1], [0, 0, 1, 0, 0], [1.0, 3.0, 5.0, 2.0, 4.0], [1, 1, 0, 0, 1], [0, 0, 1, 0, 0]
    )  # fmt: skip
    model = gnomon.fit_transition_model(lived)
    np.testing.assert_allclose(model.transitions[0], [[0, 1, 0], [0, 0, 1]], atol=1e-15)
    np.testing.assert_allclose(model.transitions[1, 0], [0.5, 0.5, 0], atol=1e-15)
    assert model.rewards[0, 0, 1] == 2.0 and model.rewards[1, 0].tolist()[:2] == [2.0, 4.0]
    smooth = gnomon.fit_transition_model(lived, smoothing=1.0)
    np.testing.assert_allclose(smooth.transitions[0, 0], [1 / 5, 3 / 5, 1 / 5])
    assert model.untried([0, 1]) == [(1, 1)] and not model.tried[1, 1]
    costly = Experience.of([0, 1], [0, 0], [-1.0, -9.0], [0, 1])
    assert gnomon.fit_transition_model(costly, n_actions=2).best_policy(0.5).tolist() == [0, 0]  # 1 was never tried
    with pytest.raises(UserValueError, match="action 1 was never tried in state 1"):
        smooth.dream([0, 1], [1], 3)  # a pseudo-count is no experience
    stopped = model.dream(np.array([0, 1]), [0, 0], 5, outside="stop", random_state=0)
    assert stopped.state.tolist() == [0, 0] and stopped.next_state.tolist() == [1, 1] and not stopped.ended.any()
    with pytest.raises(UserValueError, match="must begin with actions that were tried"):
        model.dream(np.array([0, 1]), [1], 5, outside="stop")


@pytest.mark.spec("INF-108")
def test_real_and_dreamt_steps_are_kept_apart() -> None:
    shop = inventory()
    lived = shop.play(EVEN, np.zeros(300, int), 10, random_state=0)
    model = gnomon.fit_transition_model(lived)
    both = lived.join(model.dream(EVEN, [0, 1], 4, random_state=0))
    assert len(both.real) == len(lived) and len(both.dreams) == 8
    np.testing.assert_array_equal(both.real.next_state, lived.next_state)
    assert both.dreams.episode.min() > lived.episode.max()
    for ask in (gnomon.fit_transition_model, lambda one: model.error_by_horizon(EVEN, one)):
        with pytest.raises(UserValueError, match=r"8 of 3008 steps were dreamt.*give experience.real"):
            ask(both)


@pytest.mark.spec("INF-108")
def test_the_error_of_a_model_grows_with_the_horizon() -> None:
    """A model off by e in each step is off by h e at most after h steps; that of chance alone stays small."""
    slow = world()
    p = 0.1 * slow.transitions[..., :3] + 0.9 * np.eye(3)[:, None]
    process = DecisionProcess(p, slow.rewards[..., :3])
    real = process.play(POLICY, np.zeros(40_000, int), 6, random_state=0)
    chance = 3 * np.sqrt(3 / (4 * 40_000))  # mean distance of shares below sqrt(K / 4 n)
    assert (exactly(process).error_by_horizon(POLICY, real) < chance).all()
    wrong = process.transitions.copy()
    wrong[..., :3] = 0.9 * wrong[..., :3] + 0.1 * np.eye(3)[2]
    off = 0.5 * np.abs(wrong - process.transitions).sum(-1).max()
    found = TabularTransitions(1e6 * wrong, 0 * wrong).error_by_horizon(POLICY, real)
    assert (found <= off * np.arange(1, 7) + chance).all() and found[5] > 2 * found[0] > 4 * chance


@pytest.mark.spec("INF-108")
def test_dyna_finds_the_best_policy_of_the_shop_and_never_an_untried_action() -> None:
    """From 5,000 real steps; its values are those of the linear system in the model within the dreams' error."""
    shop = inventory()
    lived = shop.play(EVEN, np.zeros(500, int), 10, random_state=0)
    model = gnomon.fit_transition_model(lived)
    found = train_on_dreams(model, 0.9, dreams=2000, random_state=0)
    assert found.converged and found.dreams.dreamt.all()
    np.testing.assert_array_equal(found.policy, model.best_policy(0.9))
    assert (shop.values(shop.best_policy(0.9), 0.9) - shop.values(found.policy, 0.9) < 0.1).all()
    np.testing.assert_allclose(found.action_values, model.action_values(found.policy, 0.9), atol=0.4)
    longer = train_on_dreams(model, 0.9, dreams=200, horizon=5, random_state=0)
    np.testing.assert_array_equal(longer.policy, found.policy)
    shy = lived.take(~((lived.state == 0) & (lived.action == found.policy[0])))
    careful = train_on_dreams(gnomon.fit_transition_model(shy), 0.9, random_state=0)
    assert careful.policy[0] != found.policy[0] and np.isnan(careful.action_values[0, found.policy[0]])
    with pytest.raises(UserValueError, match="dreams come to state"):
        train_on_dreams(model, 0.9, start_states=[0], random_state=0)


# --- real states ---------------------------------------------------------------------------------------------------

A, B = np.array([[0.9, 0.1], [-0.2, 0.8]]), np.array([0.0, 0.5])


def cart(n: int, steps: int, noise: float, seed: int = 0, bend: float = 0.0) -> Experience:
    """s' = A s + B a + noise (and a bend), r = s_1 - a / 2, with actions drawn at random."""
    random = np.random.default_rng(seed)
    s, parts = random.normal(size=(n, 2)), []
    for t in range(steps):
        a = random.normal(size=n)
        after = s @ A.T + a[:, None] * B + noise * random.normal(size=(n, 2)) + bend * np.sin(3 * s[:, ::-1])
        parts.append((s, a, s[:, 0] - a / 2, after, np.arange(n), np.full(n, t)))
        s = after
    state, action, reward, after, episode, step = map(np.concatenate, zip(*parts, strict=True))
    return Experience.of(state, action, reward, after, episode=episode, step=step)


def pull(states: Any) -> np.ndarray:
    return -0.4 * states[:, 1]


@pytest.mark.spec("INF-108")
def test_a_linear_world_is_found_and_its_values_are_those_of_the_linear_system() -> None:
    """Exact where nothing is random: v = w s with w = (I - g M')^-1 c; with noise the covariance is its own."""
    model = gnomon.fit_transition_model(cart(60, 8, 0.0))
    states, actions = np.random.default_rng(1).normal(size=(5, 2)), np.arange(5.0) / 5
    after, reward = model.expected(states, actions)
    np.testing.assert_allclose(after, states @ A.T + actions[:, None] * B, atol=1e-10)
    np.testing.assert_allclose(reward, states[:, 0] - actions / 2, atol=1e-10)
    dreams = model.dream(pull, states, 6, random_state=0)
    M, c = A - 0.4 * np.outer(B, [0, 1]), np.array([1.0, 0.2])
    path = states
    for t in range(6):  # dreamt and real paths coincide
        now = dreams.take(dreams.step == t)
        np.testing.assert_allclose(now.state, path, atol=1e-5)
        path = path @ M.T
    found = least_squares_values(dreams, 0.9, features=lambda s: s)
    np.testing.assert_allclose(found, np.linalg.solve(np.eye(2) - 0.9 * M.T, c), atol=1e-4)
    noisy = gnomon.fit_transition_model(cart(2000, 5, 0.2))
    np.testing.assert_allclose(noisy.covariance[:2, :2], 0.04 * np.eye(2), atol=0.003)  # five standard errors
    steps = noisy.dream(pull, np.zeros((4000, 2)), 1, random_state=0)
    np.testing.assert_allclose(np.cov(steps.next_state.T), 0.04 * np.eye(2), atol=0.006)


@pytest.mark.spec("INF-108")
def test_a_network_bends_where_a_line_cannot_and_both_name_what_is_outside() -> None:
    lived, held = cart(200, 5, 0.01, bend=0.3), cart(50, 5, 0.01, seed=1, bend=0.3)
    line = gnomon.fit_transition_model(lived)
    network = gnomon.MLPRegression(
        hidden=(32,), epochs=300, learning_rate=0.05, schedule="cosine", batch_size=None, random_state=0
    )
    bent = gnomon.fit_transition_model(lived, regressor=network)
    straight, curved = line.error_by_horizon(held), bent.error_by_horizon(held)
    assert (curved < straight).all() and curved[0] < 0.6 * straight[0] and straight[-1] > 1.5 * straight[0]
    with pytest.raises(UserValueError, match=r"action 90\.0 in state \[0\.0, 0\.0\] must be near the experience"):
        line.dream(lambda s: np.full(len(s), 90.0), [[0.0, 0.0]], 2)
    some = line.dream(lambda s: np.where(s[:, 0] > 0, 90.0, 0.0), [[1.0, 0.0], [-0.1, 0.0]], 1, outside="stop")
    assert some.episode.tolist() == [1]


def test_mistakes_are_said_in_a_line() -> None:
    process, carts = world(), gnomon.fit_transition_model(cart(9, 3, 0.1))
    for wrong, said in (
        (lambda: DecisionProcess(np.ones((2, 2)), np.ones((2, 2))), "transitions must have shape"),
        (lambda: DecisionProcess(np.ones((2, 2, 2)) / 2, np.ones(3)), r"rewards must have shape \(2, 2\)"),
        (lambda: process.values([0, 0, 2], 0.9), r"policy must be in \[0, 2\)"),
        (lambda: process.values(np.ones((2, 2)) / 2, 0.9), r"policy must have shape \(3,\) or \(3, 2\)"),
        (lambda: process.values(POLICY, 1.5), r"discount must be in \[0, 1\]"),
        (lambda: process.values(POLICY, 1.0), "the sum of rewards has no end"),
        (lambda: process.play(POLICY, [3], 2), r"start_states must be in \[0, 3\)"),
        (lambda: process.play(POLICY, [0], 0), "horizon must be"),
        (lambda: Experience.of([0], [0], [1.0], [0, 1]), "next_state must have one entry"),
        (lambda: Experience.of([0], [0], [np.nan], [0]), "reward must hold finite numbers"),
        (lambda: least_squares_values(Experience.of([0], [0], [1.0], [1]), 0.5), "no step begins in state 1"),
        (lambda: gnomon.fit_transition_model(cart(1, 3, 0.0)), "there must be more than 4 steps"),
        (lambda: exactly(process).dream(POLICY, [0], 2, outside="halt"), "outside must be one of refuse, stop"),
        (lambda: exactly(process).dream([0, 1], [2], 2), "an action for each of 2 states"),
        (lambda: exactly(process).dream(lambda s: np.zeros((len(s), 2)), [0], 2), "one action for each state"),
        (lambda: carts.dream(lambda s: np.full(len(s), np.nan), [[0.0, 0.0]], 2), "must be near the experience"),
        (lambda: carts.dream(pull, [[np.nan, 0.0]], 2), "start_states must be finite rows"),
        (lambda: gnomon.fit_transition_model(cart(9, 3, 0.1), smoothing=1.0), "smoothing is of tables"),
    ):
        with pytest.raises(UserValueError, match=said):
            wrong()
    with pytest.raises(UserTypeError, match="policy must be actions"):
        process.play(np.array([0.5, 0.5, 0.5]), [0], 2)
    with pytest.raises(UserTypeError, match="experience must be an Experience, got a NoneType"):
        gnomon.fit_transition_model(None)  # type: ignore[arg-type]
    with pytest.raises(UserTypeError, match="model must be tables"):
        train_on_dreams(carts, 0.9)
