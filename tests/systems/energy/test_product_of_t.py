"""Products of Student-t experts: the rows' numbers, quadrature, independent t densities, differences, annealing."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from scipy.special import expit, gammaln

from gnomon.distributions.gamma_units import Gammas, GammaUnits, standard_gamma
from gnomon.errors import UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.inference.importance.ais import ais
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import CD
from gnomon.objectives.score_matching import ScoreMatching
from gnomon.systems.energy.gaussian_rbm import GaussianRBMModel
from gnomon.systems.energy.product_of_t import ProductOfT, ProductOfTModel
from oracles.binary import numerical_gradient
from oracles.principles import mean_gradient

random = np.random.default_rng(0)
R, GAMMA = random.normal(size=(2, 3)), np.array([2.5, 3.0, 4.0])
W, B, A = random.normal(size=(2, 2)), random.normal(size=2), 0.3 * random.normal(size=2)
ROWS = random.normal(size=(7, 2))
HIDDEN = random.gamma(2.0, size=(7, 3))
ALONE = {"filters": R, "shape": GAMMA}
MEANS = ALONE | {"weight": W, "bias": B, "visible_bias": A}
BOTH = pytest.mark.parametrize("given", [ALONE, MEANS], ids=["alone", "means"])
NAMES = {name: name for name in MEANS} | {"shape": "hidden_log_shape", "bias": "mean_bias"}


def free_energy(rows, filters, shape, weight=None, bias=None, visible_bias=None):
    """Minus the log of the product by its definition, Gamma functions included."""
    total = (shape * np.log1p(0.5 * (rows @ filters) ** 2) - gammaln(shape)).sum(-1)
    if weight is not None:
        total += 0.5 * (rows**2).sum(-1) - rows @ visible_bias - np.logaddexp(0, bias + rows @ weight).sum(-1)
    return total


def grid(**given):
    """Points of a map of the plane onto a square, log densities with its Jacobian, and log Z: a fine quadrature."""
    t = np.linspace(-1, 1, 401)[1:-1]
    x, jacobian = t / (1 - t * t), (1 + t * t) / (1 - t * t) ** 2
    points = np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    log_p = -free_energy(points, **given) + np.log(np.outer(jacobian, jacobian)).ravel() + 2 * np.log(t[1] - t[0])
    return points, log_p, np.logaddexp.reduce(log_p)


@pytest.mark.spec("GEN-042")
def test_the_numbers_of_the_row_of_experts():
    found = ProductOfTModel.of([[2.0]], [1.5])
    area = integrate.quad(lambda x: (1 + 2 * x * x) ** -1.5, -np.inf, np.inf)[0]
    assert area == pytest.approx(np.sqrt(2), rel=1e-9)
    assert found.log_partition() == pytest.approx(0.225791, abs=5e-7)
    assert found.log_partition() == pytest.approx(np.log(area) + gammaln(1.5), abs=1e-9)


@pytest.mark.spec("GEN-043")
def test_the_numbers_of_the_row_with_means():
    found = ProductOfTModel.of([[2.0]], [1.5], [[0.5]], [0.1])
    area = integrate.quad(lambda x: np.exp(-found.energy(np.array([[x]]))[0]), -15, 15, epsabs=1e-12)[0]
    assert np.log(area) == pytest.approx(0.761693, abs=5e-7)
    one = ProductOfTModel.of([[2.0]], [1.5]).energy(np.array([[0.5]]))
    assert np.exp(-one[0]) == pytest.approx(0.482401, abs=5e-7)
    by_h = integrate.quad(lambda h: h**0.5 * np.exp(-h * (1 + 0.5 * 4 * 0.25)), 0, np.inf)[0]
    assert np.exp(-one[0]) == pytest.approx(by_h, rel=1e-8)


@pytest.mark.spec("GEN-042", "GEN-043")
@BOTH
def test_energies_and_conditionals_by_definition(given):
    found, response = ProductOfTModel.of(**given), ROWS @ R
    bits = random.integers(0, 2, (7, 2)).astype(float)
    state = {"visible": ROWS, "hidden": HIDDEN}
    joint = (HIDDEN * (1 + 0.5 * response**2) + (1 - GAMMA) * np.log(HIDDEN)).sum(1)
    if "weight" in given:
        state["mean"] = bits
        joint += 0.5 * (ROWS**2).sum(1) - ROWS @ A - ((ROWS @ W) * bits).sum(1) - bits @ B
    np.testing.assert_allclose(found.joint_energy(state), joint, rtol=1e-11)
    np.testing.assert_allclose(found.energy(ROWS), free_energy(ROWS, **given), rtol=1e-11)
    by_torch = found.energy(torch.from_numpy(ROWS)).detach()
    np.testing.assert_allclose(by_torch, free_energy(ROWS, **given), rtol=1e-11)
    hidden = found.conditional("hidden", {"visible": ROWS})
    law = stats.gamma(GAMMA, scale=1 / (1 + 0.5 * response**2))
    np.testing.assert_allclose(hidden.mean, law.mean(), rtol=1e-11)
    np.testing.assert_allclose(hidden.variance, law.var(), rtol=1e-11)
    np.testing.assert_allclose(hidden.log_prob(HIDDEN), law.logpdf(HIDDEN).sum(1), rtol=1e-10)
    np.testing.assert_allclose(hidden.entropy(), law.entropy().sum(1), rtol=1e-10)
    visible = found.conditional("visible", state)
    for i, h in enumerate(HIDDEN):
        precision = (R * h) @ R.T + (np.eye(2) if "weight" in given else 0)
        linear = A + W @ bits[i] if "weight" in given else np.zeros(2)
        normal = stats.multivariate_normal(np.linalg.solve(precision, linear), np.linalg.inv(precision))
        assert visible.log_prob(ROWS)[i] == pytest.approx(normal.logpdf(ROWS[i]), rel=1e-10)
        np.testing.assert_allclose(visible.mean[i], normal.mean, atol=1e-11)
    if "weight" in given:
        chance = found.conditional("mean", {"visible": ROWS}).mean
        np.testing.assert_allclose(chance, expit(B + ROWS @ W), rtol=1e-11)


@pytest.mark.spec("GEN-042")
def test_square_filters_are_independent_t_densities():
    square, gamma = random.normal(size=(4, 4)), np.array([0.6, 1.0, 1.5, 9.0])
    rows = 3 * random.standard_t(2, size=(20, 4))
    found, freedom = ProductOfTModel.of(square, gamma), 2 * gamma - 1
    each = stats.t(freedom, scale=np.sqrt(2 / freedom)).logpdf(rows @ square)
    wanted = each.sum(1) + np.linalg.slogdet(square)[1]
    np.testing.assert_allclose(found.log_prob(rows), wanted, rtol=1e-10)
    drawn = found.draws(20_000, Noise(0, "draws"))  # p-values of four KS tests: below 1e-6 once in 250,000 seeds
    for j, t in enumerate(freedom):
        assert stats.kstest(drawn["visible"] @ square[:, j], stats.t(t, scale=np.sqrt(2 / t)).cdf).pvalue > 1e-6
    given = stats.gamma(gamma).cdf(drawn["hidden"] * (1 + 0.5 * (drawn["visible"] @ square) ** 2))
    assert min(stats.kstest(column, "uniform").pvalue for column in given.T) > 1e-6


@pytest.mark.spec("GEN-042", "GEN-043")
@BOTH
def test_gradients_by_finite_differences(given):
    weight, found = np.linspace(-1.0, 2.0, 7), ProductOfTModel.of(**given)
    kept = {"hidden": HIDDEN} | ({"mean": np.resize([0.0, 1.0, 1.0], (7, 2))} if "weight" in given else {})
    near = found.marginal_gradient({"visible": ROWS}, weight)
    far = found.marginal_gradient(kept, weight)
    by_torch = found.marginal_gradient({"visible": torch.from_numpy(ROWS)}, torch.from_numpy(weight))
    assert set(near) == {NAMES[name] for name in given} == set(far)
    for name, value in given.items():
        start = np.log(value) if name == "shape" else value

        def at(x, name=name):
            return ProductOfTModel.of(**given | {name: np.exp(x) if name == "shape" else x})

        wanted = numerical_gradient(lambda x, at=at: float(weight @ at(x).energy(ROWS)), start)
        np.testing.assert_allclose(near[NAMES[name]], wanted, atol=1e-6)
        np.testing.assert_allclose(by_torch[NAMES[name]], near[NAMES[name]], atol=1e-11)
        wanted = numerical_gradient(lambda x, at=at: float(weight @ at(x).marginal_energy(kept)), start)
        np.testing.assert_allclose(far[NAMES[name]], wanted, atol=1e-6)


@pytest.mark.spec("GEN-042", "GEN-043")
@BOTH
def test_expected_contrastive_divergence_of_many_steps_is_the_exact_gradient(given):
    """Means of 8,000 rows, standard errors of 0.03 at most: within five of these; a fixed seed."""
    X = np.repeat(ROWS[:4], 2000, axis=0)
    found = mean_gradient(CD(k=12).build(), ProductOfTModel.of(**given), X)
    for name, value in given.items():
        start = np.log(value) if name == "shape" else value

        def loss(x, name=name):
            p = given | {name: np.exp(x) if name == "shape" else x}
            return float(free_energy(ROWS[:4], **p).mean() + grid(**p)[2])

        np.testing.assert_allclose(found[NAMES[name]], numerical_gradient(loss, start), atol=0.15, err_msg=name)


@pytest.mark.spec("GEN-042", "GEN-043")
@BOTH
def test_bridges_mix_energies_and_annealing_finds_log_z(given):
    found = ProductOfTModel.of(**given)
    base = found.base(np.array([0.3, -0.2]))
    state = {"visible": ROWS, "hidden": HIDDEN, "mean": np.ones((7, 2))}
    state = {block: state[block] for block in found.blocks}
    for eta in (0.0, 0.3, 1.0):
        wanted = (1 - eta) * base.joint_energy(state) + eta * found.joint_energy(state)
        np.testing.assert_allclose(found.bridge(base, eta).joint_energy(state), wanted, atol=1e-11)
    score = log_partition(found, "ais", Noise(0, "z"), schedule=100)
    assert abs(score.value - grid(**given)[2]) < 5 * score.error  # a fixed seed
    assert score.error < 0.1


@pytest.mark.spec("GEN-042")
def test_weights_from_a_base_of_experts_are_bounded():
    found = ProductOfTModel.of(R, [0.8, 0.9, 0.7])
    base = found.base()
    assert base.filters.detach().numpy().any(0).sum() == 2
    drawn = base.draws(50_000, Noise(0, "draws"))["visible"]
    ratio = np.exp(base.energy(drawn) - found.energy(drawn))
    assert ratio.max() <= 1
    exact = grid(filters=R, shape=np.array([0.8, 0.9, 0.7]))[2]
    error = ratio.std() / np.sqrt(len(ratio)) / ratio.mean()
    assert abs(np.log(ratio.mean()) + base.log_partition() - exact) < 5 * error + 2e-3  # the tails beyond the grid
    for keep in ("visible", "hidden"):
        sample = ais(found, base, Noise(0, "ais"), chains=400, schedule=20, keep=keep)
        assert abs(sample.log_mean_weight - exact) < 5 * sample.stderr + 2e-3


@pytest.mark.spec("GEN-042")
@pytest.mark.parametrize(
    ("filters", "shape", "answer"),
    [
        ([[1.0, 1.0], [0.0, 0.0]], [2.0, 2.0], False),  # nothing holds the second column
        ([[1.0, 0.0], [0.0, 1.0]], [2.0, 0.5], False),
        ([[1.0, 0.0], [0.0, 1.0]], [2.0, 0.51], True),
        ([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]], [0.6, 0.6, 0.01], True),
        ([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]], [0.45, 0.45, 0.45], True),  # only together
        ([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [0.3, 0.3, 0.9], True),  # (1 + x^2 / 2)^-0.6 (1 + y^2 / 2)^-0.9
        ([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]], [0.3, 0.3, 0.4], False),
        ([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [0.9, 0.9, 0.5], False),
    ],
)
def test_whether_experts_can_be_normalized(filters, shape, answer):
    """The mass of rings of twice the radius falls where there is a density, and there alone."""
    R, gamma = np.array(filters), np.array(shape)
    near = np.geomspace(1e-12, 0.4, 4000)
    corners = (np.arctan2(R[1], R[0]) + np.pi / 2) % np.pi  # a direction in which a filter sees nothing
    angle = np.unique(np.concatenate([(c + s * near) % np.pi for c in corners for s in (-1, 1)] + [[0.0, np.pi]]))

    def ring(radius):
        x = radius * np.stack([np.cos(angle), np.sin(angle)], 1)
        log_p = -(gamma * np.log1p(0.5 * (x @ R) ** 2)).sum(1)
        return radius**2 * integrate.trapezoid(np.exp(log_p), angle)

    falls = ring(1e9) < 0.999 * ring(1e8)
    assert falls == answer
    if answer:
        assert ProductOfTModel.of(R, gamma).normalizable() is True
        return
    with pytest.raises(UserValueError, match="the experts cannot be normalized: filters of the rank"):
        ProductOfTModel.of(R, gamma)
    assert ProductOfTModel.of(R, gamma, np.zeros((2, 1)), [0.0]).normalizable() is True  # the identity holds it


@pytest.mark.spec("GEN-042", "GEN-043")
@pytest.mark.parametrize("shape", [0.0, -1.0, np.nan])
def test_shapes_are_above_0(shape):
    with pytest.raises(UserValueError, match="shape must be finite and above 0"):
        ProductOfTModel.of(R, [1.0, shape, 1.0], W, B, A)


@pytest.mark.spec("GEN-043")
def test_without_filters_it_is_the_gaussian_machine():
    found, other = ProductOfTModel.of(0 * R, GAMMA, W, B, A), GaussianRBMModel.of(W, A, B)
    difference = found.energy(ROWS) - other.energy(ROWS)  # the square of the offset, and units that nothing hears
    np.testing.assert_allclose(difference, -0.5 * A @ A - gammaln(GAMMA).sum(), atol=1e-11)
    alone, unmoved = ProductOfTModel.of(R, GAMMA), ProductOfTModel.of(R, GAMMA, 0 * W, 0 * B, 0 * A)
    held = unmoved.energy(ROWS) - alone.energy(ROWS)
    np.testing.assert_allclose(held, 0.5 * (ROWS**2).sum(1) - 2 * np.log(2), atol=1e-11)


@pytest.mark.spec("GEN-042", "GEN-043")
@BOTH
def test_score_matching_by_the_slope_of_the_product(given):
    found = mean_gradient(ScoreMatching().build(), ProductOfTModel.of(**given), ROWS)

    def loss(p):
        u = ROWS @ p["filters"]
        held = p["shape"] * u / (1 + 0.5 * u * u)
        slope, curve = -held @ p["filters"].T, -(p["shape"] * (1 - 0.5 * u * u) / (1 + 0.5 * u * u) ** 2)
        curvature = curve @ (p["filters"] ** 2).T
        if "weight" in p:
            on = expit(p["bias"] + ROWS @ p["weight"])
            slope += p["visible_bias"] - ROWS + on @ p["weight"].T
            curvature += -1 + (on * (1 - on)) @ (p["weight"] ** 2).T
        return (curvature + 0.5 * slope**2).sum(1).mean()

    for name, value in given.items():
        start = np.log(value) if name == "shape" else value
        wanted = numerical_gradient(lambda x, n=name: loss(given | {n: np.exp(x) if n == "shape" else x}), start)
        np.testing.assert_allclose(found[NAMES[name]], wanted, atol=1e-6)


@pytest.mark.spec("GEN-042")
@pytest.mark.parametrize("shape", [0.2, 1.0, 7.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gamma_numbers(shape, dtype):
    """A KS test of 20,000 numbers: below 1e-6 once in a million seeds."""
    a, like = np.array([shape], dtype), np.empty(0, dtype)
    found = standard_gamma(a, (20_000, 1), Noise(0, "gamma"), like=like)
    assert found.dtype == dtype and (found > 0).mean() > 0.999
    assert stats.kstest(found[:, 0].astype(float), stats.gamma(shape).cdf).pvalue > 1e-6
    by_torch = standard_gamma(torch.from_numpy(a), (500, 1), Noise(0, "gamma"), like=torch.from_numpy(like))
    np.testing.assert_allclose(by_torch, found[:500], rtol=1e-4 if dtype is np.float32 else 1e-9)
    part = standard_gamma(a, (3, 1), Noise(0, "gamma").rows(np.array([5, 499, 7])), like=like)
    np.testing.assert_array_equal(part, found[[5, 499, 7]])  # of its own address alone


@pytest.mark.spec("GEN-043")
def test_numbers_near_0_have_finite_logarithms():
    drawn = Gammas(np.full(1, 1e-3, np.float32), np.ones((500, 1), np.float32)).sample(Noise(0, "gamma"))
    energy = GammaUnits(1).log_weight(drawn, {"log_shape": np.log(np.full(1, 1e-3, np.float32))})
    assert np.isfinite(energy).all() and (drawn > 0).all()


@pytest.mark.spec("GEN-042")
def test_a_fit_separates_heavy_tailed_sources():
    source = np.random.default_rng(0)
    X = source.standard_t(3, size=(1000, 2)) @ [[2.0, 1.0], [-1.0, 1.0]] + [50.0, -7.0]
    system = ProductOfT(epochs=40, batch_size=100, learning_rate=0.03, random_state=0, dtype="float64").fit(X)
    normal = stats.multivariate_normal(X.mean(0), np.cov(X.T)).logpdf(X).mean()
    independent = stats.t(3).logpdf((X - [50.0, -7.0]) @ np.linalg.inv([[2.0, 1.0], [-1.0, 1.0]])).sum(1) - np.log(3)
    assert normal + 0.1 < independent.mean() - 0.03 < system.score(X)
    mixed = np.abs(np.array([[2.0, 1.0], [-1.0, 1.0]]) / X.std(0) @ system.filters_)  # responses by source
    assert (np.sort(mixed, axis=0)[0] < 0.15 * np.sort(mixed, axis=0)[1]).all()
    np.testing.assert_allclose(-system.energy(X) - system.log_partition().value, system.log_prob(X), atol=1e-9)
    drawn = system.sample(4000, steps=1, random_state=0)  # already the first state of a chain is a draw
    for j in range(2):
        assert stats.ks_2samp(drawn[:, j], X[:, j]).pvalue > 1e-4
    codes = system.transform(X)
    scaled = (X - X.mean(0)) / X.std(0) @ system.filters_
    np.testing.assert_allclose(codes, system.shapes_ / (1 + 0.5 * scaled**2), rtol=1e-6)


@pytest.mark.spec("GEN-043")
def test_a_fit_with_means_finds_two_groups():
    source = np.random.default_rng(0)
    X = source.normal(size=(400, 2)) + 6 * source.integers(0, 2, (400, 1)) * [1.0, -1.0]
    options = {"objective": "pcd", "epochs": 60, "learning_rate": 0.03, "random_state": 0}
    with_means = ProductOfT(n_mean=4, n_experts=2, **options).fit(X)
    alone = ProductOfT(n_experts=2, **options).fit(X)
    found = with_means.evaluate(X)["log_likelihood"]
    assert found.kind == "estimate" and found.error < 0.05
    assert found.value > alone.evaluate(X)["log_likelihood"].value + 0.1
    assert with_means.transform(X).shape == (400, 6) and alone.transform(X).shape == (400, 2)
    far = with_means.transform(np.array([[0.0, 0.0], [6.0, -6.0]]))[:, :4]
    assert np.abs(far[0] - far[1]).max() > 0.5
    assert with_means.reconstruct(X).shape == X.shape and not hasattr(alone, "reconstruct")


@pytest.mark.spec("GEN-042")
def test_limits_of_filters_and_shapes():
    found = ProductOfTModel.of(R * [50.0, 1.0, 1e-3], [0.6, 2.0, 5000.0])
    found.floor = 0.25
    found.confine()
    np.testing.assert_allclose(np.linalg.norm(found.filters.detach(), axis=0)[0], 4.0, rtol=1e-12)
    np.testing.assert_allclose(found.filters.detach()[:, 2], 1e-3 * R[:, 2], rtol=1e-12)
    np.testing.assert_allclose(found.hidden_log_shape.detach().exp(), [1.0, 2.0, 1000.0], rtol=1e-12)


@pytest.mark.spec("GEN-042")
def test_what_cannot_be_is_refused():
    with pytest.raises(UserValueError, match="n_experts must be at least the number of columns, 2, got 1"):
        ProductOfT(n_experts=1, random_state=0).fit(ROWS)
    with pytest.raises(UserValueError, match="take more states than can be counted"):
        ProductOfT(objective="exact", random_state=0).fit(ROWS)
    with pytest.raises(UserValueError, match="log Z has a closed form for as many experts as columns"):
        ProductOfTModel.of(R, GAMMA).log_partition()
