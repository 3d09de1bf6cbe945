"""A network that guesses hidden means for mean field to refine: its lesson, its fixed points, the bound, fits."""

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import expit, logit, xlogy

import gnomon
from gnomon.errors import UserTypeError
from gnomon.inference.variational.mean_field import mean_field_evidence, mean_field_solution
from gnomon.inference.variational.recognition import RecognitionNetwork
from gnomon.numeric.noise import Noise
from gnomon.objectives.centered import Centered
from gnomon.objectives.recognized import Recognized
from gnomon.systems.energy.dbm import DBMModel
from gnomon.training.group import Group
from oracles.binary import Joint, all_states, layers_energy
from oracles.layered import by_differences, filled
from oracles.principles import begun, bits, loss_of


def machine_of(sizes=(2, 2, 2), seed=0, scale=0.8):
    """A machine with random parameters of its own and of its network."""
    return filled(DBMModel(sizes[0], sizes[1:], torch.float64, recognized=True), seed, scale)


def parts(model):
    """Couplings and biases of the machine, and those of the network."""
    s, names = model.state(), model.hidden
    own = [s[link.names["weight"]] for link in model.links], [s[f"{name}_bias"] for name in model.layers]
    return own, [(s[f"recognition.{name}_weight"], s[f"recognition.{name}_bias"]) for name in names]


def guess_by_hand(network, v):
    found = []
    for R, r in network:
        v = expit(v @ R + r)
        found.append(v)
    return found


def round_by_hand(weights, biases, v, means):
    """Odd hidden layers given the others, then the even ones."""
    layers = [v, *means]
    for k in (*range(1, len(layers), 2), *range(2, len(layers), 2)):
        field = layers[k - 1] @ weights[k - 1] + biases[k]
        if k + 1 < len(layers):
            field = field + layers[k + 1] @ weights[k].T
        layers[k] = expit(field)
    return layers[1:]


def bound_by_hand(weights, biases, v, means):
    layers = [v, *means]
    total = sum(layer @ b for layer, b in zip(layers, biases, strict=True))
    for W, (left, right) in zip(weights, itertools.pairwise(layers), strict=True):
        total = total + np.einsum("ni,ij,nj->n", left, W, right)
    return total - sum((xlogy(m, m) + xlogy(1 - m, 1 - m)).sum(1) for m in means)


def cross_entropy(weight, means, guess):
    terms = (xlogy(m, g) + xlogy(1 - m, 1 - g) for m, g in zip(means, guess, strict=True))
    return -float(weight @ sum(one.sum(1) for one in terms))


@pytest.mark.spec("INF-103")
@pytest.mark.parametrize("sizes", [(3, 2), (3, 2, 2), (3, 2, 3, 2)])
@pytest.mark.parametrize("rounds", [1, 3])
def test_the_lesson_of_an_update_is_the_slope_with_the_refined_means_held(sizes, rounds):
    """By plain equations: guess, rounds, cross-entropy; central differences with mu held, not with mu moved."""
    model, weight = machine_of(sizes), np.array([0.5, 2.0, 1.0])
    X = all_states(3)[[1, 4, 6]]
    (weights, biases), network = parts(model)
    means = guess_by_hand(network, X)
    for _ in range(rounds):
        means = round_by_hand(weights, biases, X, means)
    found = loss_of(begun(Recognized(rounds=rounds), model, X), model, X, weight=weight)
    assert found.terms["recognition_loss"].sum == pytest.approx(
        cross_entropy(weight, means, guess_by_hand(network, X)), abs=1e-10
    )
    held = by_differences(model, lambda _: cross_entropy(weight, means, guess_by_hand(parts(model)[1], X)))

    def through(_):
        (weights, biases), network = parts(model)
        moved = guess = guess_by_hand(network, X)
        for _ in range(rounds):
            moved = round_by_hand(weights, biases, X, moved)
        return cross_entropy(weight, moved, guess)

    learned = [name for name in held if name.startswith("recognition.")]
    for name in learned:
        np.testing.assert_allclose(found.gradients[name], held[name], atol=1e-7, err_msg=name)
    if len(sizes) > 2:
        moved = by_differences(model, through)
        assert max(np.abs(moved[name] - held[name]).max() for name in learned) > 1e-4
    near = model.joint_gradient({"visible": X, **dict(zip(model.hidden, means, strict=True))}, weight)
    again = begun(Recognized(rounds=rounds), model, X)
    far = {name: near[name] - value for name, value in loss_of(again, model, X, weight=weight).gradients.items()
           if name in near}  # fmt: skip
    still = loss_of(begun(Recognized(rounds=rounds), model, X), model, all_states(3)[[0, 0, 0]], weight=weight)
    zero = guess_by_hand(network, np.zeros((3, 3)))
    for _ in range(rounds):
        zero = round_by_hand(weights, biases, np.zeros((3, 3)), zero)
    other = model.joint_gradient({"visible": np.zeros((3, 3)), **dict(zip(model.hidden, zero, strict=True))}, weight)
    for name, value in far.items():  # the same chains: the model's side is the same whatever the rows
        np.testing.assert_allclose(other[name] - still.gradients[name], value, atol=1e-10)


@pytest.mark.spec("INF-103")
def test_a_guess_that_solves_the_equations_is_not_moved():
    """A network that gives a row's own fixed point, whatever the row: no slope at it, and one as soon as it is off."""
    model, x = machine_of((3, 3, 2), scale=1.2), np.array([[1.0, 0.0, 1.0]])
    solved = mean_field_solution(model, {"visible": x}, steps=5000, tol=1e-15).means
    with torch.no_grad():
        for name in model.hidden:
            model.recognition.get_parameter(f"{name}_weight").zero_()
            model.recognition.get_parameter(f"{name}_bias").copy_(torch.from_numpy(logit(solved[name][0])))
    for off, close in ((0.0, True), (0.5, False)):
        with torch.no_grad():
            model.recognition.get_parameter("hidden_2_bias").add_(off)
        slopes = loss_of(begun(Recognized(), model, x), model, x).gradients
        largest = max(np.abs(value).max() for name, value in slopes.items() if name.startswith("recognition."))
        assert (largest < 1e-10) == close
        if not close:
            assert largest > 1e-2


@pytest.mark.spec("INF-103")
@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 2, 2, 2)])
def test_refinement_never_lowers_the_bound_and_the_gap_is_that_of_the_table(sizes):
    """From the guess of random networks; bound + KL(q || p(h | v)) = log p(v) of the enumerated joint law."""
    for seed in range(5):
        model = machine_of(sizes, seed, scale=1.5)
        (weights, biases), network = parts(model)
        joint, X = Joint(layers_energy(weights, biases), sizes), all_states(sizes[0])
        start = model.guess(X)
        for name, means in zip(model.hidden, guess_by_hand(network, X), strict=True):
            np.testing.assert_allclose(start[name], means, atol=1e-12)
        last = bound_by_hand(weights, biases, X, list(start.values()))
        for steps in range(6):  # the last of steps + 1 rounds makes the distributions
            bound = mean_field_evidence(model, {"visible": X}, steps=steps, tol=0.0, start=start)
            means = guess_by_hand(network, X)
            for _ in range(steps + 1):
                means = round_by_hand(weights, biases, X, means)
            np.testing.assert_allclose(bound, bound_by_hand(weights, biases, X, means), atol=1e-10)
            assert (bound >= last - 1e-12).all()
            last = bound
        states = [joint.states[:, columns] for columns in joint.columns]
        for i, x in enumerate(X):
            rows = (states[0] == x).all(1)
            q = np.prod(
                [np.where(h[rows] == 1, m[i], 1 - m[i]).prod(1) for h, m in zip(states[1:], means, strict=True)], 0
            )
            divergence = float(q @ (np.log(q) - np.log(joint.p[rows] / joint.p[rows].sum())))
            assert last[i] - joint.log_z + divergence == pytest.approx(np.log(joint.p[rows].sum()), abs=1e-9)


@pytest.mark.spec("INF-103")
def test_the_network_begins_as_the_way_up_with_couplings_doubled_below_the_top():
    model = machine_of((3, 4, 3, 2))
    (weights, biases), _ = parts(model)
    model.begin_recognition()
    v, found = bits(5, 3), model.guess(bits(5, 3))
    for k, name in enumerate(model.hidden):
        v = expit((1 if k == 2 else 2) * v @ weights[k] + biases[k + 1])
        np.testing.assert_allclose(found[name], v, atol=1e-12)
    one = machine_of((3, 4))
    one.begin_recognition()
    exact = one.conditional("hidden_1", {"visible": all_states(3)}).mean
    np.testing.assert_allclose(one.guess(all_states(3))["hidden_1"], exact, atol=1e-12)


@pytest.mark.spec("INF-103")
def test_of_one_hidden_layer_the_network_learns_the_exact_conditionals():
    """From nothing, by its lessons alone: couplings and biases become the machine's own."""
    model, X = machine_of((3, 2)), all_states(3)
    network = RecognitionNetwork({"visible": 3, "hidden_1": 2})
    exact = {"hidden_1": model.conditional("hidden_1", {"visible": X}).mean}

    def lesson(flat):
        network.load({"hidden_1_weight": flat[:6].reshape(3, 2), "hidden_1_bias": flat[6:]})
        loss, slopes = network.lesson(X, exact, np.ones(8))
        return loss, np.concatenate([slopes["hidden_1_weight"].ravel(), slopes["hidden_1_bias"]])

    best = minimize(lesson, np.zeros(8), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    (weights, biases), _ = parts(model)
    np.testing.assert_allclose(best, np.concatenate([weights[0].ravel(), biases[1]]), atol=1e-6)


@pytest.mark.spec("INF-103")
def test_a_fit_has_a_network_whose_guess_is_near_what_mean_field_finds(tmp_path):
    """As likely as by mean field to its end; with one more round nearer than a round from the middle; saved with it."""
    X = np.abs(np.repeat([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], 100, axis=0) - bits(200, 6, p=0.1))
    options = {"hidden": (4, 3), "pretrain_epochs": 5, "epochs": 30, "learning_rate": 0.2, "random_state": 0}
    plain = gnomon.DBM(**options).fit(X)
    taught = gnomon.DBM(objective="recognized", **options).fit(X)
    assert taught.score(X) > plain.score(X) - 0.15 and "recognition_loss" not in plain.history_
    solved = taught.infer(X, steps=2000, tol=1e-6)
    assert solved.converged.all()
    refined, middle = taught.infer(X, steps=1), mean_field_solution(taught.model_, {"visible": X}, steps=1)
    assert refined.residual.mean() < 0.3 * middle.residual.mean()
    for name in taught.model_.hidden:
        far = [np.abs(one.means[name] - solved.means[name]).mean() for one in (refined, middle)]
        assert far[0] < 0.3 * far[1]
    guess = taught.infer(X, steps=0).means
    for name, means in taught.model_.guess(taught.to_visible(X)).items():
        np.testing.assert_array_equal(guess[name], means)
    taught.log_partition("ais", chains=10, schedule=10)  # other machines with its couplings leave the network alone
    taught.save(tmp_path / "saved")
    for name, means in gnomon.load(tmp_path / "saved").infer(X, steps=0).means.items():
        np.testing.assert_array_equal(guess[name], means)


def begun_fit(objective, X):
    """The stages of a fit and its whole problem, before the first step."""
    machine = gnomon.DBM(hidden=(3, 2), objective=objective, pretrain_epochs=1, epochs=2, batch_size=10, random_state=0)
    examples = machine.ingest(X)
    machine.arguments_, machine.seed_ = machine.arguments(examples), 0
    model = machine.make(**machine.arguments_)
    machine.initialize(model, examples, Noise(0, "initial"))
    return machine.procedure(examples), machine.problem(model, examples, Noise(0, "fit"), Group())


@pytest.mark.spec("INF-103")
@pytest.mark.parametrize("objective", ["recognized", Centered("recognized")])
def test_a_fit_that_is_resumed_goes_on_with_its_network(objective):
    """Stopped within the joint stage, which begins the network with the couplings that the layers were begun with."""
    X = bits(40, 5)
    stages, problem = begun_fit(objective, X)
    state = stages.start(problem)
    for _ in range(8):
        state, _ = stages.step(state)
    model = problem.model
    network = model.recognition.state()["hidden_1_weight"]
    np.testing.assert_array_equal(network, 2 * model.state()["visible_hidden_1_weight"])
    for _ in range(3):
        state, _ = stages.step(state)
    assert (network != 2 * model.state()["visible_hidden_1_weight"]).any()
    saved, facts = stages.save(state)
    saved = {name: np.array(value) for name, value in saved.items()}
    again, fresh = begun_fit(objective, X)
    resumed = again.load(fresh, saved, facts)
    for _ in range(3):
        state, _ = stages.step(state)
        resumed, _ = again.step(resumed)
    for name, value in model.state().items():
        np.testing.assert_array_equal(fresh.model.state()[name], value, err_msg=name)


def test_other_machines_have_no_network():
    with pytest.raises(UserTypeError, match="recognized needs a machine with a recognition network, RBMModel has none"):
        gnomon.RBM(objective="recognized", epochs=1).fit(bits(20, 4))
