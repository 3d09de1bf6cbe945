"""The RBM against enumeration: numbers of the specification, exact and expected gradients, chains, likelihood."""

import numpy as np
import pytest
import torch
from scipy.special import expit, log_expit
from scipy.stats import chisquare
from sklearn.neural_network import BernoulliRBM

from gnomon.contracts import HasBridge, HasEnergyGradient, HasLogProb, HasMarginalGradient, supports
from gnomon.data.batches import Batch
from gnomon.evaluation.partition import log_partition
from gnomon.inference.importance.ais import ais
from gnomon.inference.mcmc.gibbs import block_kernel, gibbs, kernel_matrix
from gnomon.numeric.noise import Noise, recording
from gnomon.objectives.contrastive import CD, PCD, Exact
from gnomon.systems.energy.rbm import RBM, RBMModel
from gnomon.systems.factors.ppca import PPCA
from gnomon.training.group import Group
from oracles.binary import Joint, all_states, marginal_kernel, numerical_gradient, rbm_energy

T1 = (np.array([[1.0, -1.0], [0.5, 2.0]]), np.array([0.1, -0.2]), np.array([0.3, -0.4]))
TINY = (np.array([[1.0, -1.0], [0.5, 0.5], [-1.0, 2.0]]), np.array([0.1, -0.2, 0.3]), np.array([0.0, -0.5]))
DLN = (np.array([[1.0, -1.0, 0.5], [0.5, 0.5, -1.0]]).T.copy(), np.array([0.1, -0.2, 0.3]), np.array([-0.1, 0.2]))
DATA = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
NAMES = ("weight", "visible_bias", "hidden_bias")


def random_model(d=7, m=5, seed=0, scale=1.0):
    random = np.random.default_rng(seed)
    return tuple(scale * random.normal(size=shape) for shape in ((d, m), d, m))


def joint_of(parameters):
    return Joint(rbm_energy(*parameters), (len(parameters[1]), len(parameters[2])))


def batch_of(X, weight=None):
    n = len(X)
    return Batch({"X": X}, np.arange(n), np.arange(n), np.ones(n) if weight is None else weight)


def gradient(recipe, model, X, noise, weight=None):
    """The objective's gradient of the loss, divided by its weight."""
    loss = recipe(model, batch_of(X, weight), noise=noise, phase="fit", group=Group())
    divisor = loss.terms[loss.per].weight
    return {name: np.asarray(value) / divisor for name, value in loss.gradients.items()}


def exact_likelihood(parameters, X, weight=None):
    """Mean log-likelihood by enumerating visible states with plain sums."""
    W, b, c = parameters
    free = lambda V: -(V @ b) - np.log1p(np.exp(V @ W + c)).sum(1)  # noqa: E731
    return float(np.average(-free(X), weights=weight) - np.logaddexp.reduce(-free(all_states(len(b)))))


@pytest.mark.spec("GEN-005", "GEN-007", "INF-30", "DLN-81", "DLN-86")
@pytest.mark.parametrize(("parameters", "log_z"), [(T1, 3.786021), (TINY, 4.163709), (DLN, 3.993292)])
def test_log_partition_in_numbers(parameters, log_z):
    assert RBMModel.of(*parameters).log_partition() == pytest.approx(log_z, abs=1e-6)


@pytest.mark.spec("GEN-005", "INF-30")
def test_probabilities_in_numbers_and_their_sum():
    model = RBMModel.of(*T1)
    p = np.exp(model.log_prob(all_states(2)))
    np.testing.assert_allclose(p, (0.089042, 0.356643, 0.145935, 0.408381), atol=1e-6)
    tiny = RBMModel.of(*TINY)
    q = np.exp(tiny.log_prob(all_states(3)))
    np.testing.assert_allclose(
        q, (0.049962, 0.157389, 0.067442, 0.231609, 0.078157, 0.122888, 0.105501, 0.187052), atol=1e-6
    )
    assert q.sum() == pytest.approx(1, abs=1e-12)
    assert tiny.log_prob(np.array([[1.0, 0.0, 1.0]]))[0] == pytest.approx(-2.096485, abs=1e-6)


@pytest.mark.spec("DLN-81", "DLN-84", "DLN-82")
def test_free_energy_and_conditionals_in_numbers():
    model = RBMModel.of(*DLN)
    v = np.array([[1.0, 0.0, 1.0]])
    assert model.energy(v)[0] == pytest.approx(-2.574773, abs=1e-6)
    assert model.log_prob(v)[0] == pytest.approx(-1.418519, abs=1e-6)
    np.testing.assert_allclose(model.conditional("hidden", {"visible": v}).mean[0], (0.802184, 0.425557), atol=1e-6)
    h = np.array([[1.0, 0.0]])
    np.testing.assert_allclose(
        model.conditional("visible", {"hidden": h}).mean[0], (0.750260, 0.231475, 0.689974), atol=1e-6
    )
    assert -model.log_prob(DATA).mean() == pytest.approx(2.110645, abs=1e-6)


@pytest.mark.spec("GEN-006", "DLN-82")
def test_conditionals_of_t1_and_their_products():
    model, joint = RBMModel.of(*T1), joint_of(T1)
    np.testing.assert_allclose(
        model.conditional("hidden", {"visible": np.ones((1, 2))}).mean[0], (0.858149, 0.645656), atol=1e-6
    )
    h = np.array([[1.0, 0.0]])
    np.testing.assert_allclose(model.conditional("visible", {"hidden": h}).mean[0], (0.750260, 0.574443), atol=1e-6)
    kernel = block_kernel(model, "visible")
    p = np.exp(model.log_prob(all_states(2)))
    np.testing.assert_allclose(kernel @ p, p, atol=1e-15)
    np.testing.assert_allclose(kernel, marginal_kernel(joint, 0), atol=1e-12)


@pytest.mark.spec("GEN-005", "GEN-006")
def test_log_conditionals_are_sums_of_log_sigmoids_however_large():
    """log P(h | v) = sum_j log s((2h - 1)(c + v W))_j and the like for v; saturated units cost their field."""
    W, b, c = random_model(4, 3)
    model, v, h = RBMModel.of(W, b, c), all_states(4), np.tile(all_states(3), (2, 1))
    for block, x, given, field in (("hidden", h, v, v @ W + c), ("visible", v, h, h @ W.T + b)):
        law = model.conditional(block, {"visible" if block == "hidden" else "hidden": given})
        np.testing.assert_allclose(law.log_prob(x), log_expit((2 * x - 1) * field).sum(1), rtol=1e-12)
        np.testing.assert_allclose(law.mean, expit(field), rtol=1e-12)
    large = RBMModel.of(*(np.full(shape, 1e4, np.float32) for shape in ((2, 2), 2, 2)))
    ones = np.ones((1, 2), np.float32)
    assert large.conditional("hidden", {"visible": ones}).log_prob(np.array([[1.0, 0.0]])).tolist() == [-3e4]
    assert large.energy(ones).tolist() == [-8e4]  # 2e4 of the biases, twice 3e4 of the hidden units
    assert (-large.energy(-1e3 * ones)).tolist() == [-2e7]  # softplus of -2e7 is 0


@pytest.mark.spec("GEN-006", "DLN-82", "INF-19")
@pytest.mark.parametrize("case", ["plain", "tempered", "bridged", "clamped"])
def test_every_sweep_leaves_its_target_invariant(case):
    parameters = random_model(4, 3)
    model = RBMModel.of(*parameters)
    base = model.base(np.full(4, 0.3) if case == "bridged" else None)
    if case in ("tempered", "bridged"):
        model = model.bridge(base, 0.37)
    clamp = {"visible": (np.array([1.0, 0, 0, 0]), np.array([1.0, 1, 0, 0]))} if case == "clamped" else None
    from gnomon.inference.mcmc.gibbs import joint_states

    table = joint_states(model, clamp)
    W, b, c = (value.astype(float) for value in model.state().values())
    energy = rbm_energy(W, b, c)
    p = np.array([np.exp(-energy(v, h)) for v, h in zip(table["visible"], table["hidden"], strict=True)])
    p /= p.sum()
    for order in (None, ("hidden",), ("visible",), ("visible", "hidden")):
        np.testing.assert_allclose(kernel_matrix(model, order, clamp) @ p, p, atol=1e-12)


@pytest.mark.spec("DLN-82", "GEN-006", "INF-19")
def test_a_long_chain_visits_the_enumerated_law():
    model = RBMModel.of(*TINY)
    n = 20_000
    noise = Noise(0, "chains").rows(np.arange(n))
    start = {"visible": np.zeros((n, 3))}
    with recording():
        end = gibbs(model, start, noise, steps=40, order=("hidden", "visible"))["visible"]
    counts = np.bincount((end @ [4, 2, 1]).astype(int), minlength=8)
    assert chisquare(counts, n * np.exp(model.log_prob(all_states(3)))).pvalue > 1e-4  # false alarm 1e-4


@pytest.mark.spec("INF-19")
def test_second_eigenvalue_of_the_tiny_chain():
    values = np.sort(np.abs(np.linalg.eigvals(block_kernel(RBMModel.of(*TINY), "visible"))))
    assert values[-2] == pytest.approx(0.298385, abs=1e-6)


@pytest.mark.spec("GEN-007", "DLN-86", "INF-30")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("d", "m"), [(7, 5), (5, 7), (8, 4)])
def test_log_partition_is_the_brute_force_sum_from_either_side(seed, d, m):
    parameters = random_model(d, m, seed)
    model = RBMModel.of(*parameters)
    brute = float(joint_of(parameters).log_z)
    assert model.log_partition() == pytest.approx(brute, abs=1e-9)
    from gnomon.inference.exact.enumeration import log_partition as by_block

    assert by_block(model, keep="visible") == pytest.approx(by_block(model, keep="hidden"), abs=1e-12)


@pytest.mark.spec("INF-30", "GEN-005", "DLN-81")
def test_scikit_learns_free_energy_and_hidden_means():
    W, b, c = random_model(6, 4)
    peer = BernoulliRBM(n_components=4)
    peer.components_, peer.intercept_visible_, peer.intercept_hidden_ = W.T, b, c
    X = all_states(6)
    model = RBMModel.of(W, b, c)
    np.testing.assert_allclose(model.energy(X), peer._free_energy(X), atol=1e-10)
    np.testing.assert_allclose(model.conditional("hidden", {"visible": X}).mean, peer.transform(X), atol=1e-10)


def test_a_model_of_given_parameters_has_copies_of_them():
    parameters = random_model(3, 2)
    model = RBMModel.of(*parameters)
    for name in NAMES:
        model.views()[name][:] = 7.0
    assert not any((part == 7).any() for part in parameters)


@pytest.mark.spec("REP-142")
def test_free_energy_of_a_fitted_machine():
    """The row's numbers, the sum over hidden states, scikit-learn's method; softplus holds at fields of 800."""
    W, b, c = np.array([[1.0, -1], [0.5, 2], [0, 1]]), np.array([0.1, -0.2, 0.3]), np.array([-0.5, 0.2])
    X = all_states(3)
    system = RBM(n_hidden=2, epochs=1, random_state=0, dtype="float64").fit(X)
    system.model_.load(RBMModel.of(W, b, c).state())
    energy = rbm_energy(W, b, c)
    brute = [-np.logaddexp.reduce([-energy(v, h) for h in all_states(2)]) for v in X]
    np.testing.assert_allclose(system.free_energy(X), brute, rtol=0, atol=1e-12)
    assert system.free_energy(np.ones((1, 3)))[0] == pytest.approx(-3.818345, abs=5e-7)
    assert system.model_.log_partition() == pytest.approx(5.068101, abs=5e-7)
    assert system.log_prob(np.ones((1, 3)))[0] == pytest.approx(-1.249756, abs=5e-7)
    peer = BernoulliRBM(n_components=2)
    peer.components_, peer.intercept_visible_, peer.intercept_hidden_ = W.T, b, c
    np.testing.assert_allclose(system.free_energy(X), peer._free_energy(X), rtol=0, atol=1e-12)
    system.model_.load(RBMModel.of(0 * W, 0 * b, np.array([800.0, -800.0])).state())
    np.testing.assert_allclose(system.free_energy(X), -800, rtol=1e-14)
    assert hasattr(RBM(), "free_energy")
    assert not hasattr(PPCA(), "free_energy")


@pytest.mark.spec("INF-31")
def test_gradient_of_log_z_is_the_models_expectation():
    def log_z(W):
        return RBMModel.of(W, *TINY[1:]).log_partition()

    slopes = numerical_gradient(log_z, TINY[0])
    expected = np.array([[0.321268, 0.255870], [0.332109, 0.402841], [0.307646, 0.545916]])
    np.testing.assert_allclose(slopes, expected, atol=1e-6)


@pytest.mark.spec("INF-31", "DLN-84")
@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (TINY, [[-0.071268, 0.055360], [-0.020879, -0.152841], [-0.057646, -0.234686]]),
        (DLN, (-np.array([[0.084003, 0.049597, -0.058987], [0.206267, -0.096132, 0.010031]])).T),
    ],
)
def test_exact_gradient_in_numbers(parameters, expected):
    model = RBMModel.of(*parameters)
    found = gradient(Exact().build(), model, DATA, Noise(0, "fit"))
    np.testing.assert_allclose(-found["weight"], expected, atol=1e-6)


@pytest.mark.spec("INF-31", "DLN-84", "GEN-007")
@pytest.mark.parametrize(("d", "m", "weight"), [(7, 5, None), (5, 7, None), (5, 4, np.linspace(0, 3, 9))])
def test_exact_gradient_is_the_finite_difference_of_the_likelihood(d, m, weight):
    parameters = random_model(d, m, seed=3)
    X = (np.random.default_rng(0).random((9, d)) < 0.5).astype(float)
    found = gradient(Exact().build(), RBMModel.of(*parameters), X, Noise(0, "fit"), weight)
    for place, name in enumerate(NAMES):

        def likelihood(value, place=place):
            return exact_likelihood([value if i == place else p for i, p in enumerate(parameters)], X, weight)

        np.testing.assert_allclose(-found[name], numerical_gradient(likelihood, parameters[place]), atol=1e-7)


@pytest.mark.spec("INF-31")
def test_closed_form_gradients_are_autograds():
    parameters = random_model()
    model = RBMModel.of(*parameters)
    X, weight = (np.random.default_rng(0).random((11, 7)) < 0.5).astype(float), np.linspace(-1, 2, 11)
    (torch.from_numpy(weight) * model.energy(torch.from_numpy(X))).sum().backward()
    found = model.energy_gradient(X, weight)[0]
    for name in NAMES:
        np.testing.assert_allclose(found[name], getattr(model, name).grad, atol=1e-10)
    H = (np.random.default_rng(1).random((11, 5)) < 0.5).astype(float)
    model.zero_grad()
    (torch.from_numpy(weight) * model.marginal_energy({"hidden": torch.from_numpy(H)})).sum().backward()
    found = model.marginal_gradient({"hidden": H}, weight)
    for name in NAMES:
        np.testing.assert_allclose(found[name], getattr(model, name).grad, atol=1e-10)


def expected_cd(parameters, X, k):
    """E[h|v] statistics at the data minus those k kernel steps away, all by enumeration; mean over rows."""
    W, b, c = parameters
    states = all_states(len(b))
    kernel = np.linalg.matrix_power(marginal_kernel(joint_of(parameters), 0), k)
    law = np.mean([kernel[:, int("".join(str(int(bit)) for bit in row), 2)] for row in X], axis=0)
    hidden = lambda V: 1 / (1 + np.exp(-(V @ W + c)))  # noqa: E731
    data = {"weight": X.T @ hidden(X) / len(X), "visible_bias": X.mean(0), "hidden_bias": hidden(X).mean(0)}
    model = {
        "weight": states.T @ (law[:, None] * hidden(states)),
        "visible_bias": law @ states,
        "hidden_bias": law @ hidden(states),
    }
    return {name: data[name] - model[name] for name in data}


@pytest.mark.spec("INF-33", "DLN-87")
def test_expected_cd_statistics_in_numbers():
    found = expected_cd(TINY, DATA, 1)["weight"]
    np.testing.assert_allclose(
        found, [[-0.092740, 0.047439], [-0.026363, -0.138588], [-0.046313, -0.203393]], atol=1e-6
    )
    exact = -gradient(Exact().build(), RBMModel.of(*TINY), DATA, Noise(0, "fit"))["weight"]
    for k, gap in ((1, 0.031294), (2, 0.009198), (10, 5.8e-7)):
        assert np.abs(expected_cd(TINY, DATA, k)["weight"] - exact).max() == pytest.approx(gap, rel=2e-2, abs=1e-8)
    exact = gradient(Exact().build(), RBMModel.of(*TINY), DATA, Noise(0, "fit"))
    for name, gap in (("visible_bias", 0.035752), ("hidden_bias", 0.021002)):
        assert np.abs(expected_cd(TINY, DATA, 1)[name] + exact[name]).max() == pytest.approx(gap, abs=1e-6)


@pytest.mark.spec("INF-33")
def test_the_mean_update_of_cd_is_the_gradient_of_no_function():
    """Its Jacobian over all 11 parameters by central differences: far from symmetric at k = 1, symmetric at k = 200."""

    def field(flat, k):
        found = expected_cd((flat[:6].reshape(3, 2), flat[6:9], flat[9:]), DATA, k)
        return np.concatenate([found[name].ravel() for name in NAMES])

    at, h = np.concatenate([part.ravel() for part in TINY]), 1e-5
    for k, apart in ((1, 0.0244), (200, 0.0)):
        J = np.array([(field(at + h * e, k) - field(at - h * e, k)) / (2 * h) for e in np.eye(11)])
        assert np.abs(J - J.T).max() == pytest.approx(apart, abs=5e-5 if k == 1 else 1e-8)


@pytest.mark.spec("INF-33", "DLN-87")
@pytest.mark.parametrize("k", [1, 3])
def test_cd_gradients_have_the_enumerated_mean(k):
    n = 40_000
    X = np.repeat(DATA, n, axis=0)
    model = RBMModel.of(*TINY)
    with recording():
        found = gradient(CD(k=k).build(), model, X, Noise(1, "fit"))
    expected = expected_cd(TINY, DATA, k)
    for name in NAMES:
        # a statistic lies in [0, 1], so its mean over 2n rows is within 4.5/(2 sqrt(2n)); false alarm below 1e-4
        np.testing.assert_allclose(-found[name], expected[name], atol=4.5 / (2 * np.sqrt(2 * n)))


@pytest.mark.spec("DLN-87", "INF-33")
def test_cd_of_many_steps_is_the_exact_gradient():
    X = np.repeat(DATA, 40_000, axis=0)
    model = RBMModel.of(*TINY)
    found = gradient(CD(k=25).build(), model, X, Noise(2, "fit"))["weight"]
    exact = gradient(Exact().build(), model, DATA, Noise(0, "fit"))["weight"]
    np.testing.assert_allclose(found, exact, atol=4.5 / (2 * np.sqrt(80_000)))


def chains_of(n, model, seed=0):
    """A PCD objective with n chains, begun."""

    class Size:
        batch_size = n

    objective = PCD().build()
    objective.begin(model, Size(), Noise(seed, "begin"), Group())
    return objective


@pytest.mark.spec("INF-35")
def test_persistent_chains_follow_the_enumerated_law_while_the_weights_stand():
    model, n = RBMModel.of(*TINY), 20_000
    objective = chains_of(n, model)
    noise = Noise(0, "fit")
    with recording():
        for update in range(40):
            objective(model, batch_of(DATA), noise=noise.at(update), phase="fit", group=Group())
    counts = np.bincount((objective.chains["hidden"].numpy() @ [2, 1]).astype(int), minlength=4)
    law = np.exp(-model.marginal_energy({"hidden": all_states(2)}) - model.log_partition())
    assert chisquare(counts, n * law).pvalue > 1e-4  # false alarm 1e-4


@pytest.mark.spec("INF-35")
def test_one_update_is_scikit_learns_on_the_same_random_numbers():
    random = np.random.default_rng(0)
    W, b, c = random_model(6, 4, scale=0.3)
    X = (random.random((10, 6)) < 0.5).astype(float)
    model = RBMModel.of(W, b, c)
    objective = chains_of(10, model)
    start = objective.chains["hidden"].numpy().copy()
    noise = Noise(5, "fit")
    found = gradient(objective, model, X, noise)

    places = noise.rows(np.arange(10))
    draws = [places.uniform((10, 6), 0, dtype=np.float64), places.uniform((10, 4), 2, dtype=np.float64)]

    class Shared:
        """Hands scikit-learn our numbers in the order in which it asks for them."""

        def uniform(self, size):
            return draws.pop(0)

    peer = BernoulliRBM(n_components=4, learning_rate=0.1, batch_size=10)
    peer.components_, peer.intercept_visible_, peer.intercept_hidden_ = W.T.copy(), b.copy(), c.copy()
    peer.h_samples_ = start
    peer._fit(X, Shared())
    np.testing.assert_allclose(W - 0.1 * found["weight"], peer.components_.T, atol=1e-12)
    np.testing.assert_allclose(b - 0.1 * found["visible_bias"], peer.intercept_visible_, atol=1e-12)
    np.testing.assert_allclose(c - 0.1 * found["hidden_bias"], peer.intercept_hidden_, atol=1e-12)
    np.testing.assert_array_equal(objective.chains["hidden"].numpy(), peer.h_samples_)


@pytest.mark.spec("INF-63", "GEN-007")
@pytest.mark.parametrize("seed", range(3))
def test_annealed_importance_sampling_is_unbiased_for_z(seed):
    parameters = random_model(7, 5, seed, scale=0.7)
    model = RBMModel.of(*parameters)
    weights = ais(model, model.base(), Noise(seed, "ais"), chains=200 * 20, schedule=50)
    ratio = np.exp(np.asarray(weights.log_weights) - model.log_partition()).reshape(200, 20).mean(1)
    assert abs(ratio.mean() - 1) < 3.9 * ratio.std(ddof=1) / np.sqrt(200)  # false alarm 1e-4


@pytest.mark.spec("DLN-86", "INF-63", "INF-64")
def test_uncoupled_machines_have_equal_weights():
    model = RBMModel.of(np.zeros((2, 1)), np.array([1.0, -2.0]), np.array([0.5]))
    score = log_partition(model, "exact")
    assert score.value == pytest.approx(2.414266682741302, abs=1e-12)
    own = RBMModel.of(np.zeros((2, 1)), np.array([1.0, -2.0]), np.array([0.5]))
    weights = ais(model, own, Noise(0, "ais"), chains=50, schedule=10)
    np.testing.assert_allclose(weights.log_weights, weights.log_weights[0], atol=1e-12)


@pytest.mark.parametrize(("bias", "log_z"), [(5000.0, 15000.0), (-5000.0, 0.0)])
def test_large_biases_stay_finite_in_single_precision(bias, log_z):
    arrays = (np.zeros((3, 2), np.float32), np.full(3, bias, np.float32), np.zeros(2, np.float32))
    assert RBMModel.of(*arrays).log_partition() == pytest.approx(log_z + 2 * np.log(2), rel=1e-7)


def test_pseudo_log_likelihood_in_numbers():
    system = RBM(n_hidden=1, epochs=1, random_state=0).fit(np.array([[1.0, 0.0], [0.0, 1.0]]))
    system.model_ = RBMModel.of(np.array([[1.0], [-2.0]]), np.array([0.5, -0.5]), np.array([0.25]))
    v = np.array([[1.0, 0.0]])
    assert system.pseudo_log_likelihood(v).value == pytest.approx(-0.4502788173722263, abs=1e-12)
    assert system.pseudo_log_likelihood(v, per_site=True).value == pytest.approx(-0.22513940868611315, abs=1e-12)
    assert system.model_.log_prob(v)[0] == pytest.approx(-0.4722237697633829, abs=1e-12)
    assert system.model_.log_partition() == pytest.approx(2.4741528511087556, abs=1e-12)


@pytest.mark.spec("INF-64")
def test_bridge_mixes_energies_on_the_joint_and_keeps_its_ends():
    model = RBMModel.of(*TINY)
    base = model.base(np.array([0.2, 0.5, 0.9]))
    state = {"visible": all_states(3), "hidden": np.tile([[1.0, 0.0]], (8, 1))}
    for eta in (0.0, 0.3, 1.0):
        mixed = model.bridge(base, eta).joint_energy(state)
        np.testing.assert_allclose(
            mixed, (1 - eta) * base.joint_energy(state) + eta * model.joint_energy(state), atol=1e-12
        )


def test_contracts_of_the_instance():
    small, large = RBMModel(12, 5), RBMModel(500, 300)
    for contract in (HasEnergyGradient, HasMarginalGradient, HasBridge):
        assert supports(large, contract)
    assert supports(small, HasLogProb)
    assert not supports(large, HasLogProb)
