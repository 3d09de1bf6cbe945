"""The spike-and-slab machine: the row's numbers, quadrature, the explicit mixture, differences, safeguards."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.special import expit
from scipy.stats import kstest, multivariate_normal, norm

from gnomon.data.batches import Batch
from gnomon.errors import Diverged, UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import CD
from gnomon.systems.energy._normalizable import normalizability
from gnomon.systems.energy.spike_and_slab_rbm import SpikeAndSlabRBM, SpikeAndSlabRBMModel
from gnomon.training.group import Group
from oracles.binary import numerical_gradient

NAMES = ("weight", "phi", "visible_log_precision", "hidden_log_precision", "hidden_mean", "hidden_bias", "visible_bias")


def parameters(slabs, d=3, n=2, seed=0):
    """W, Phi, Lambda, alpha, mu, b, a of a machine that can be normalized."""
    random = np.random.default_rng(seed)
    return SimpleNamespace(
        W=0.6 * random.normal(size=(d, n * slabs)), phi=random.uniform(0.3, 1.5, (d, n)),
        lam=random.uniform(1.5, 3.0, d), alpha=random.uniform(1.0, 2.0, n * slabs),
        mu=0.5 * random.normal(size=n * slabs), b=0.5 * random.normal(size=n), a=0.4 * random.normal(size=d),
    )  # fmt: skip


def machine(p):
    return SpikeAndSlabRBMModel.of(p.W, p.phi, p.lam, p.alpha, p.mu, p.b, p.a)


ROWS = np.random.default_rng(1).normal(size=(9, 3))
SLABS = pytest.mark.parametrize("slabs", [1, 3])


def joint_energy(p, x, s, h):
    """The energy by its definition, every term written out; the bias of the columns is ours."""
    slabs = len(p.alpha) // len(p.b)
    total = 0.5 * (p.lam * x * x).sum() - p.a @ x
    for i in range(len(p.b)):
        total += 0.5 * h[i] * (p.phi[:, i] * x * x).sum() - p.b[i] * h[i]
        for k in range(i * slabs, (i + 1) * slabs):
            total -= x @ p.W[:, k] * s[k] * h[i]
            total += p.alpha[k] * (0.5 * s[k] ** 2 - p.mu[k] * s[k] * h[i] + p.mu[k] ** 2 * h[i])
    return total


def mixture(p):
    """log Z, and for each state of the spikes its log weight, and mean and covariance of x."""
    n, slabs, parts = len(p.b), len(p.alpha) // len(p.b), []
    for h in itertools.product([0.0, 1.0], repeat=n):
        each = np.repeat(h, slabs)
        precision = np.diag(p.lam + p.phi @ h) - (p.W * each / p.alpha) @ p.W.T
        covariance = np.linalg.inv(precision)
        linear = p.a + p.W @ (each * p.mu)
        weight = np.dot(p.b, h) - 0.5 * (p.alpha * p.mu**2 * each).sum() + 0.5 * linear @ covariance @ linear
        weight += 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1] + 0.5 * np.log(2 * np.pi / p.alpha).sum()
        parts.append((weight, covariance @ linear, covariance))
    log_z = np.logaddexp.reduce([w for w, _, _ in parts])
    return log_z, [(w - log_z, m, c) for w, m, c in parts]


def log_density(p, rows):
    return np.logaddexp.reduce([w + multivariate_normal(m, c).logpdf(rows) for w, m, c in mixture(p)[1]])


def changed(p, name, value):
    """The parameters with one in the model's own form in place of its own."""
    field = {"weight": "W", "phi": "phi", "visible_log_precision": "lam", "hidden_log_precision": "alpha",
             "hidden_mean": "mu", "hidden_bias": "b", "visible_bias": "a"}[name]  # fmt: skip
    return SimpleNamespace(**{**vars(p), field: np.exp(value) if field in ("phi", "lam", "alpha") else value})


ONE = SimpleNamespace(
    W=np.array([[1.0]]), phi=np.array([[0.5]]), lam=np.array([2.0]), alpha=np.array([1.5]), mu=np.array([0.4]),
    b=np.array([-0.2]), a=np.zeros(1),
)  # fmt: skip


@pytest.mark.spec("GEN-044")
def test_the_numbers_of_the_row():
    found = machine(ONE)
    assert found.log_partition() == pytest.approx(1.872052, abs=5e-7)
    by_quadrature = sum(
        integrate.dblquad(
            lambda s, x, h=h: np.exp(-joint_energy(ONE, np.array([x]), np.array([s]), [h])), -12, 12, -12, 12,
            epsabs=1e-9,
        )[0]
        for h in (0.0, 1.0)
    )  # fmt: skip
    assert np.log(by_quadrature) == pytest.approx(1.872052, abs=5e-7)
    given = found.conditional("hidden", {"visible": np.ones((1, 1))})
    assert given.spike_mean[0, 0] == pytest.approx(0.540743, abs=5e-7)
    on = mixture(ONE)[1][1]
    assert np.exp(on[0]) == pytest.approx(0.442047, abs=5e-7)
    assert (on[2][0, 0], on[1][0]) == pytest.approx((0.545455, 0.218182), abs=5e-7)
    assert found.check_normalizable().minimum_eigenvalue == pytest.approx(1 / on[2][0, 0])
    whole = integrate.quad(lambda x: np.exp(found.log_prob(np.array([[x]]))[0]), -12, 12, epsabs=1e-12)[0]
    assert whole == pytest.approx(1, abs=1e-10)


@pytest.mark.spec("GEN-044")
def test_gibbs_chains_reach_these_numbers():
    """20,000 chains of 60 sweeps; five standard errors each, a false alarm in a million."""
    n = 20_000
    state = gibbs(
        machine(ONE), {"visible": np.zeros((n, 1))}, Noise(0, "walk"), steps=60, order=("hidden", "visible")
    )  # fmt: skip
    x, slab, spike = state["visible"][:, 0], state["hidden"][:, 0], state["hidden"][:, 1]
    assert abs(spike.mean() - 0.442047) < 5 * 0.5 / np.sqrt(n)
    on = spike == 1
    assert abs(x[on].mean() - 0.218182) < 5 * np.sqrt(0.545455 / on.sum())
    assert abs(x[on].var() - 0.545455) < 5 * 0.545455 * np.sqrt(2 / on.sum())
    assert abs(x[~on].var() - 0.5) < 5 * 0.5 * np.sqrt(2 / (~on).sum())
    assert (slab[~on] == 0).all()  # true zeros, unlike sparse coding
    assert (slab[on] != 0).all()

    def cdf(value):
        _, parts = mixture(ONE)
        return sum(np.exp(w) * norm(m[0], np.sqrt(c[0, 0])).cdf(value) for w, m, c in parts)

    assert kstest(x, cdf).pvalue > 1e-4  # false alarm 1e-4


@pytest.mark.spec("GEN-044", "GEN-046")
@SLABS
def test_energies_conditionals_and_density_by_definition(slabs):
    p = parameters(slabs)
    found, random = machine(p), np.random.default_rng(2)
    states = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    s = random.normal(size=(4, 2 * slabs)) * np.repeat(states, slabs, axis=1)
    masses = (0.5 * np.log(2 * np.pi / p.alpha) * (1 - np.repeat(states, slabs, axis=1))).sum(1)
    # amplitudes that are off are integrated
    joint = [joint_energy(p, x, one, h) for x, one, h in zip(ROWS[:4], s, states, strict=True)] - masses
    given = {"visible": ROWS[:4], "hidden": np.concatenate([s, states], axis=1)}
    np.testing.assert_allclose(found.joint_energy(given), joint, rtol=1e-11)
    pull = ROWS @ p.W
    gain = (0.5 * pull**2 / p.alpha + p.mu * pull - 0.5 * p.alpha * p.mu**2).reshape(9, 2, slabs).sum(2)
    logits = gain - 0.5 * (ROWS**2) @ p.phi + p.b
    hidden = found.conditional("hidden", {"visible": ROWS})
    np.testing.assert_allclose(hidden.spike_mean, expit(logits), rtol=1e-11)
    np.testing.assert_allclose(hidden.loc, pull / p.alpha + p.mu, rtol=1e-11)
    each = np.repeat(expit(logits), slabs, axis=1)
    np.testing.assert_allclose(hidden.mean[:, : 2 * slabs], each * (pull / p.alpha + p.mu), rtol=1e-11)
    diagonal = p.lam + states @ p.phi.T
    visible = found.conditional("visible", given)
    np.testing.assert_allclose(visible.mean, (p.a + s @ p.W.T) / diagonal, rtol=1e-11)
    np.testing.assert_allclose(visible.variance, 1 / diagonal, rtol=1e-11)
    log_z, _ = mixture(p)
    assert found.log_partition() == pytest.approx(log_z, abs=1e-11)
    np.testing.assert_allclose(found.log_prob(ROWS), log_density(p, ROWS), rtol=1e-10)
    np.testing.assert_allclose(found.energy(torch.from_numpy(ROWS)).detach(), found.energy(ROWS), rtol=1e-12)
    # free energy = energy of the units as independent given x, minus their entropy
    free = found.joint_energy({"visible": ROWS, "hidden": hidden}) - hidden.entropy()
    np.testing.assert_allclose(free, found.energy(ROWS), rtol=1e-11)


@pytest.mark.spec("GEN-044", "GEN-046")
@SLABS
def test_gradients_by_finite_differences(slabs):
    p, weight = parameters(slabs), np.linspace(-1.0, 2.0, 9)
    found = machine(p)
    hidden = found.conditional("hidden", {"visible": ROWS}).sample(Noise(0, "h"), 0)
    marginal = found.marginal_gradient({"visible": ROWS}, weight)
    joint = found.joint_gradient({"visible": ROWS, "hidden": hidden}, weight)
    by_torch = found.marginal_gradient({"visible": torch.from_numpy(ROWS)}, torch.from_numpy(weight))
    normal = found.marginal_gradient({"hidden": hidden}, weight)
    state = {"visible": ROWS, "hidden": hidden}
    for name in NAMES:
        value = found.state()[name].astype(np.float64)

        def at(x, name=name):
            return machine(changed(p, name, x))

        wanted = numerical_gradient(lambda x, at=at: float(weight @ at(x).energy(ROWS)), value)
        np.testing.assert_allclose(marginal[name], wanted, atol=1e-6)
        np.testing.assert_allclose(by_torch[name], marginal[name], atol=1e-11)
        wanted = numerical_gradient(lambda x, at=at: float(weight @ at(x).joint_energy(state)), value)
        np.testing.assert_allclose(joint[name], wanted, atol=1e-6)
        wanted = numerical_gradient(
            lambda x, at=at: float(weight @ at(x).marginal_energy({"hidden": hidden})), value
        )  # fmt: skip
        np.testing.assert_allclose(normal[name], wanted, atol=1e-6)


@pytest.mark.spec("GEN-044")
def test_expected_contrastive_divergence_of_many_steps_is_the_exact_gradient():
    """Means of 60,000 rows, of standard errors of 0.012 at most: within five of these; a fixed seed."""
    p, n = parameters(1), 60_000
    X = np.repeat(ROWS[:3], n // 3, axis=0)
    batch = Batch({"X": X}, np.arange(n), np.arange(n), np.ones(n))
    found = CD(k=30).build()(machine(p), batch, noise=Noise(1, "fit"), phase="fit", group=Group())
    for name in NAMES:
        value = machine(p).state()[name].astype(np.float64)
        wanted = numerical_gradient(
            lambda x, name=name: -float(log_density(changed(p, name, x), ROWS[:3]).mean()), value
        )  # fmt: skip
        np.testing.assert_allclose(np.asarray(found.gradients[name]) / n, wanted, atol=0.06)


@pytest.mark.spec("GEN-044")
@SLABS
def test_bridges_mix_energies_and_annealing_finds_log_z(slabs):
    p = parameters(slabs)
    found = machine(p)
    found.spread = np.array([1.0, 0.7, 0.5])
    base = found.base(np.array([0.5, -0.5, 0.2]))
    start = base.conditional("visible", {"hidden": np.ones((1, 2 * slabs + 2))})
    np.testing.assert_allclose(start.mean[0], [0.5, -0.5, 0.2], atol=1e-12)
    np.testing.assert_allclose(start.variance[0], [1.0, 0.49, 0.25], rtol=1e-12)
    hidden = found.conditional("hidden", {"visible": ROWS}).sample(Noise(0, "h"), 0)
    state = {"visible": ROWS, "hidden": hidden}
    for eta in (0.0, 0.3, 1.0):
        mixed = found.bridge(base, eta).joint_energy(state)
        wanted = (1 - eta) * base.joint_energy(state) + eta * found.joint_energy(state)
        np.testing.assert_allclose(np.diff(mixed), np.diff(wanted), atol=1e-10)  # up to a constant of the level
        if eta in (0.0, 1.0):
            np.testing.assert_allclose(mixed, wanted, atol=1e-10)
    score = log_partition(found, "ais", Noise(0, "z"), schedule=200, base_mean=np.zeros(3))
    assert abs(score.value - mixture(p)[0]) < 5 * score.error  # a fixed seed
    assert score.error < 0.2
    assert log_partition(found, "exact").value == pytest.approx(mixture(p)[0], abs=1e-11)
    assert log_partition(found).kind == "exact"


def test_units_without_common_precisions_are_bridged_up_to_a_constant_too():
    from gnomon.distributions.spike_units import SpikeAndSlabUnits

    units, random = SpikeAndSlabUnits(2, 2), np.random.default_rng(0)
    ends = [{name: random.normal(size=shape) for name, shape in units.shapes.items()} for _ in range(2)]
    x = units.conditional(random.normal(size=(20, 6)), ends[0]).sample(Noise(0, "x"), 0)
    mixed = units.log_weight(x, units.mix(*ends, 0.3))
    wanted = 0.7 * units.log_weight(x, ends[0]) + 0.3 * units.log_weight(x, ends[1])
    np.testing.assert_allclose(np.diff(mixed), np.diff(wanted), atol=1e-11)
    assert units.start(Noise(0, "x"), 4, np.zeros(0)).shape == (4, 6)


@pytest.mark.spec("GEN-046")
def test_slabs_of_a_spike_add_up_and_its_bias_counts_once():
    p, k = parameters(3), 3
    together = machine(p).conditional("hidden", {"visible": ROWS}).logits
    apart = 0
    for slab in range(k):
        columns = np.arange(2) * k + slab
        one = SpikeAndSlabRBMModel.of(p.W[:, columns], 0 * p.phi, p.lam, p.alpha[columns], p.mu[columns], 0 * p.b)
        apart = apart + one.conditional("hidden", {"visible": ROWS}).logits
    np.testing.assert_allclose(together, apart + p.b - 0.5 * ROWS**2 @ p.phi, rtol=1e-11)


@pytest.mark.spec("GEN-046")
def test_codes_pool_the_slabs_of_a_spike_and_their_root_mean_square_does_not_see_their_signs():
    X = correlated()
    options = {"n_hidden": 3, "slab_dim": 2, "epochs": 5, "random_state": 0, "dtype": "float64"}
    codes = {}
    for kind in ("spikes", "slabs", "mean", "rms"):
        system = SpikeAndSlabRBM(codes=kind, **options).fit(X)
        codes[kind] = system.transform(X)
        assert codes[kind].shape == (len(X), 6 if kind == "slabs" else 3)
        assert len(system.get_feature_names_out()) == codes[kind].shape[1]
    grouped = codes["slabs"].reshape(-1, 3, 2)
    np.testing.assert_allclose(codes["mean"], grouped.mean(2), rtol=1e-12)
    np.testing.assert_allclose(codes["rms"], np.sqrt((grouped**2).mean(2)), rtol=1e-12)
    found = system.model_.conditional("hidden", {"visible": (X - X.mean(0)) / X.std(0)})
    np.testing.assert_allclose(codes["spikes"], found.spike_mean, rtol=1e-9)
    with torch.no_grad():  # one slab of the first spike points the other way
        system.model_.weight[:, 0] *= -1
        system.model_.hidden_mean[0] *= -1
    np.testing.assert_allclose(system.transform(X), codes["rms"], rtol=1e-12)
    system.codes = "mean"
    assert np.abs(system.transform(X)[:, 0] - codes["mean"][:, 0]).max() > 1e-3


# --- what can be normalized -------------------------------------------------------------------------------------------


def smallest(p):
    return min(np.linalg.eigvalsh(np.linalg.inv(c))[0] for _, _, c in mixture(p)[1])


@pytest.mark.spec("GEN-045")
@SLABS
def test_the_smallest_eigenvalue_is_that_of_all_states(slabs):
    for seed in range(4):
        p = parameters(slabs, seed=seed)
        found = machine(p).check_normalizable()
        assert found.normalizable is bool(smallest(p) > 0)
        assert found.minimum_eigenvalue == pytest.approx(smallest(p)) == pytest.approx(found.lower_bound)


@pytest.mark.spec("GEN-045")
def test_what_cannot_be_normalized_is_found_and_refused_with_its_eigenvalue():
    improper = SpikeAndSlabRBMModel.of([[3.0]], [[0.0]], [1.0], [1.0], [0.0], [0.0])
    found = improper.check_normalizable()
    assert (found.normalizable, found.minimum_eigenvalue, found.spikes.tolist()) == (False, pytest.approx(-8.0), [1.0])
    message = "cannot be normalized: minimum eigenvalue -8 with 1 of 1 spikes on"
    with pytest.raises(UserValueError, match=message):
        improper.log_partition()
    improper.safeguard = "none"
    with pytest.raises(Diverged, match=message):
        improper.confine()
    proper = SpikeAndSlabRBMModel.of([[0.9]], [[0.0]], [1.0], [1.0], [0.0], [0.0])
    proper.safeguard = "none"
    proper.confine()
    assert proper.check_normalizable().minimum_eigenvalue == pytest.approx(0.19)
    with pytest.raises(UserValueError, match="phi must be at least 0, got -1"):
        SpikeAndSlabRBMModel.of([[0.9]], [[-1.0]], [1.0], [1.0], [0.0], [0.0])
    with pytest.raises(UserValueError, match="slab_precision must be above 0, got 0"):
        SpikeAndSlabRBMModel.of([[0.9]], [[1.0]], [1.0], [0.0], [0.0], [0.0])


@pytest.mark.spec("GEN-045")
def test_bounds_for_many_spikes_hold_all_states():
    """Against all 2^13 states: the bounds lie around the smallest eigenvalue, and the search finds it here."""
    random = np.random.default_rng(3)
    for strength in (0.1, 0.25, 0.6):
        w = strength * random.normal(size=(13, 2, 1))
        each = 0.3 * strength**2 * np.eye(2) - w @ w.swapaxes(1, 2)
        precision = np.array([0.9, 1.4])
        all_states = np.array(list(itertools.product([0.0, 1.0], repeat=13)))
        wanted = np.linalg.eigvalsh(np.diag(precision) + np.tensordot(all_states, each, 1))[:, 0].min()
        found = normalizability(precision, each)
        assert found.lower_bound <= wanted + 1e-12
        assert found.minimum_eigenvalue == pytest.approx(wanted, abs=1e-9)
        assert found.normalizable in (None, wanted > 0)
        reached = np.diag(precision) + np.tensordot(found.spikes, each, 1)
        assert np.linalg.eigvalsh(reached)[0] == pytest.approx(found.minimum_eigenvalue)


@pytest.mark.spec("GEN-045")
@SLABS
def test_the_safeguard_of_phi_leaves_no_spike_that_lowers_a_precision(slabs):
    p = parameters(slabs, d=4, n=5)
    p.W *= 4
    p.phi[:, 0] = 500.0  # enough already
    found = machine(p)
    found.safeguard = "phi"
    assert found.check_normalizable().normalizable is False
    before = np.exp(found.state()["phi"])
    found.confine()
    after = np.exp(found.state()["phi"])
    lowest = np.linalg.eigvalsh(found._changes())[:, 0]
    np.testing.assert_allclose(lowest[1:], 0, atol=1e-9)  # no more than it takes
    np.testing.assert_array_equal(after[:, 0], before[:, 0])
    np.testing.assert_allclose(np.ptp(np.log(after / before), axis=0), 0, atol=1e-12)
    assert found.check_normalizable().minimum_eigenvalue == pytest.approx(p.lam.min())
    zeta = (p.W**2 / p.alpha).reshape(4, 5, slabs).sum((0, 2))  # the row's own choice suffices too
    p.phi = np.tile(zeta, (4, 1))
    assert machine(p).check_normalizable().minimum_eigenvalue > 0


@pytest.mark.spec("GEN-045")
@SLABS
def test_the_safeguard_of_weights_leaves_a_tenth_of_lambda_and_other_directions_as_they_were(slabs):
    p = parameters(slabs, d=4, n=3)
    p.phi *= 0.01
    p.W[3] = 0.0
    root = np.sqrt(p.lam)[:, None]

    def eigen(W):
        return np.linalg.eigh((W / p.alpha) @ W.T / root / root.T)

    values, vectors = eigen(p.W)
    p.W *= 3 / np.sqrt(values[-1])  # nine times what there is
    found = machine(p)
    assert found.check_normalizable().normalizable is False
    found.confine()
    W = found.state()["weight"]
    np.testing.assert_allclose(eigen(W)[0], np.minimum(9 * values / values[-1], 0.9), atol=1e-12)
    assert found.check_normalizable().minimum_eigenvalue > 0.1 * p.lam.min() - 1e-12
    small = vectors[:, 9 * values / values[-1] <= 0.9]
    np.testing.assert_allclose(small.T @ (W / root), small.T @ (p.W / root), atol=1e-12)
    np.testing.assert_allclose(found.state()["phi"], np.log(p.phi), rtol=1e-12)
    found.confine()
    np.testing.assert_allclose(found.state()["weight"], W, rtol=1e-12)  # nothing is left to do


def correlated(n=500):
    random = np.random.default_rng(0)
    pulls = random.normal(size=(n, 1)) * (random.random((n, 1)) < 0.5)
    return 3 * pulls * [1.0, 1.0, -1.0] + random.normal(size=(n, 3)) * [0.3, 0.3, 0.3] + [0.0, 50.0, -7.0]


@pytest.mark.spec("GEN-044", "GEN-045")
def test_a_fit_stays_normalizable_beats_independent_columns_and_scores_in_the_units_of_the_data():
    X = correlated()
    system = SpikeAndSlabRBM(
        n_hidden=6, objective=CD(k=5), epochs=150, learning_rate=0.01, random_state=0, dtype="float64"
    ).fit(X)
    found = system.check_normalizable()
    assert found.normalizable and found.minimum_eigenvalue > 0
    independent = norm(X.mean(0), X.std(0)).logpdf(X).sum(1).mean()
    assert system.score(X) > independent + 1.5
    np.testing.assert_allclose(-system.energy(X) - system.log_partition().value, system.log_prob(X), atol=1e-9)
    p, learned = SimpleNamespace(), system.model_.state()
    p.W, p.mu, p.b, p.a = (learned[name] for name in ("weight", *NAMES[4:]))
    p.phi, p.lam, p.alpha = (np.exp(learned[name]) for name in NAMES[1:4])
    log_p = log_density(p, (X - X.mean(0)) / X.std(0)) - np.log(X.std(0)).sum()
    np.testing.assert_allclose(system.log_prob(X), log_p, rtol=1e-9)
    np.testing.assert_allclose(system.spike_precision_, p.phi)
    drawn = system.sample(3000, steps=100, random_state=0)
    assert (np.abs(drawn.mean(0) - X.mean(0)) < 0.25 * X.std(0)).all()
    assert np.corrcoef(drawn.T)[0, 1] > 0.2 and np.corrcoef(drawn.T)[0, 2] < -0.2
    assert (((system.reconstruct(X) - X) ** 2).mean(0) < X.var(0)).all()


@pytest.mark.spec("GEN-045")
def test_without_a_safeguard_a_fit_ends_where_the_density_no_longer_exists():
    options = {"n_hidden": 6, "epochs": 400, "learning_rate": 0.05, "random_state": 0}
    with pytest.raises(Diverged, match=r"cannot be normalized: minimum eigenvalue -.*safeguard='weights'"):
        SpikeAndSlabRBM(safeguard="none", **options).fit(correlated())
    for kind in ("weights", "phi"):
        assert SpikeAndSlabRBM(safeguard=kind, **options).fit(correlated()).check_normalizable().normalizable


def test_a_machine_too_large_for_an_exact_density_is_annealed():
    system = SpikeAndSlabRBM(n_hidden=11, epochs=2, random_state=0).fit(correlated())
    assert not hasattr(system, "log_prob")
    scores = system.evaluate(correlated())
    assert scores["log_likelihood"].kind == "estimate"
    with pytest.raises(UserValueError, match=r"visits 2\^11 states of the spikes, above the limit of 2\^10"):
        system.model_.log_partition()
