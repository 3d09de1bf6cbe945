"""Every system with latent variables answers `posterior`: against all states that these can have, grids, closed forms.

The oracle asks a model for its joint density or energy alone, under its own parameters, and adds up. What is compared
does not change with the labels of components or a rotation of factors.
"""

import copy
import functools
import itertools

import numpy as np
import pytest
import torch
from scipy.special import expit, log_expit, log_softmax, logsumexp
from scipy.stats import bernoulli, multivariate_normal

import gnomon
from gnomon.catalog import entry, load_class
from gnomon.distributions.posteriors import BitStates, MixedRows
from gnomon.inference.arrays import to_numpy
from gnomon.numeric.noise import Noise
from gnomon.system.latent_codes import LatentCodes
from gnomon.systems.energy.conditioned import CONDITION

LATENT = [one.name for one in gnomon.catalog() if issubclass(load_class(one), LatentCodes)]
SMALL = {
    "ppca": {"n_components": 2},
    "conv-rbm": {"kernel": (2, 2), "mode": "same"},
    "conv-dbm": {"kernel": (2, 2)},
    "conv-ssrbm": {"kernel": (2, 2), "n_maps": 1, "slab_dim": 1},
    "spike-and-slab-rbm": {"n_hidden": 2, "slab_dim": 1},
    "gated-rbm": {"outputs": "bernoulli"},
}
CODED = {"conv-dbm", "spike-and-slab-rbm", "conv-ssrbm"}
"""Those whose `transform` shows some of the columns of their posterior, or functions of them."""
BOUNDED = {"mean-field-network", "product-of-t", "draw", "vae"}
"""Those without a density of a row in closed form."""
MACHINES = {
    "rbm": {}, "gaussian-rbm": {}, "semi-restricted-rbm": {}, "conv-rbm": {}, "mcrbm": {}, "harmonium": {},
    "spike-and-slab-rbm": {}, "conv-ssrbm": {}, "product-of-t": {}, "label-rbm": {}, "class-gated-rbm": {},
    "hidden-boltzmann-machine": {"n_hidden": 4}, "pointwise-gated-rbm": {}, "gated-rbm": {},
    "pointwise-gated-rbm, a mixture over masks": {"n_hidden": 6},
    "pointwise-gated-rbm, two layers behind the mask": {"n_background": 1},
    "gated-rbm, a mixture over outputs": {"n_hidden": 3},
    "dbm": {"hidden": (3,)}, "conv-dbm": {"n_maps": (2,)}, "dbn": {"hidden": (3,)},
}  # fmt: skip
"""Machines whose posterior is exact, with what is changed in the one that is looked at."""
WAYS = {"a mixture over masks": MixedRows, "two layers behind the mask": BitStates, "a mixture over outputs": MixedRows}
DEEP = {"dbm", "conv-dbm", "dbn"}
STILL = {"mcrbm", "spike-and-slab-rbm", "conv-ssrbm", "product-of-t"}
"""Machines that keep the parameters of their fit, since others may have no normalizer."""

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@functools.cache
def rows(kind):
    """Sixty rows of four columns that depend on each other."""
    random = np.random.default_rng(0)
    if kind == "binary":
        X = (random.random((60, 4)) < 0.5).astype(float)
        X[:, 1] = np.where(random.random(60) < 0.8, X[:, 0], X[:, 1])
        return X
    return random.normal(size=(60, 4)) @ np.triu(np.ones((4, 4))) * [1.0, 2.0, 0.5, 1.0] + [0.0, 3.0, -1.0, 10.0]


def rows_of(system):
    return rows("binary" if system.outcomes.view == "binary" else "real")


@functools.cache
def fitted(name, **changes):
    """A brief fit in float64."""
    given = entry(name).tiny | {"random_state": 0} | SMALL.get(name, {}) | changes
    system = gnomon.make(name, **given | ({"epochs": 2} if "epochs" in given else {}))
    if "dtype" in system.get_params():
        system.set_params(dtype="float64")
    X = rows_of(system)
    y = np.arange(60) % 2 if name in ("label-rbm", "class-gated-rbm") else X[:, :2] > 0 if name == "gated-rbm" else None
    return system.fit(X, y)


def wild(system):
    """The machine with couplings and biases of about 1, so that its posteriors are far from its prior."""
    random = np.random.default_rng(1)
    system = copy.deepcopy(system)
    system.model_.load({name: x + random.normal(size=x.shape) for name, x in system.model_.state().items()})
    return system


# --- the verbs --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("BAY-47")
@pytest.mark.parametrize("name", LATENT)
def test_the_posterior_is_a_distribution_whose_mean_transform_gives(name):
    """Means, draws about them (false alarm below 1e-6 for all systems: 7 deviations), densities, `fit` and `sample`."""
    system = fitted(name)
    X = rows_of(system)[:4]
    posterior = system.posterior(X)
    mean = to_numpy(posterior.mean)
    if name not in CODED:
        np.testing.assert_allclose(mean, system.transform(X), atol=1e-6)
    many = system.posterior(np.repeat(X, 500, axis=0))
    drawn = many.sample(Noise(0, "draws"), 0)
    assert tuple(drawn.shape) == (2000, mean.shape[1])
    own = to_numpy(many.log_prob(drawn))
    assert own.shape == (2000,) and np.isfinite(own).all()
    values = to_numpy(drawn).reshape(4, 500, -1)
    away = abs(values.mean(1) - mean)
    assert (away <= 7 * values.std(1) / 500**0.5 + 0.05 * (values.std(1) == 0)).all()
    assert len(system.sample(X) if name == "gated-rbm" else system.sample(3)) in (2, 3, 4)


@pytest.mark.spec("BAY-47")
@pytest.mark.parametrize("name", LATENT)
def test_a_density_of_rows_has_three_names_or_none(name):
    """Scikit-learn's `score_samples` is the log density, `anomaly_score` its negative; without one, a refusal."""
    system = fitted(name)
    X = rows_of(system)
    given = (X, X[:, :2] > 0) if name == "gated-rbm" else (X,)
    if name in BOUNDED:
        for verb in ("log_prob", "score_samples", "anomaly_score"):
            with pytest.raises(AttributeError, match=verb) as refusal:
                getattr(system, verb)
            assert "\n" not in str(refusal.value)
        return
    log_p = system.log_prob(*given)
    assert log_p.shape == (60,)
    np.testing.assert_array_equal(system.anomaly_score(*given), -log_p)
    if name == "gated-rbm":  # whose density is of outputs given a row: rows have none
        assert not hasattr(system, "score_samples")
        return
    np.testing.assert_array_equal(system.score_samples(*given), log_p)


# --- machines: all states of their hidden layers ----------------------------------------------------------------------


def unit_states(block, units):
    """States of a layer, and the log of what each stands for: 1 for bits, the width of a cell of a grid for numbers."""
    kind = type(units).__name__
    if kind == "GammaUnits":
        at = np.linspace(-12.0, 6.0, 121)  # of the logarithm
        one, log_w = np.exp(at)[:, None], at + np.log(at[1] - at[0])
    elif kind in ("SpikeAndSlabUnits", "ConvolutionalSpikeAndSlabUnits"):
        at = np.linspace(-12.0, 12.0, 241)
        one = np.concatenate([[[0.0, 0.0]], np.stack([at, np.ones(241)], 1)])
        log_w = np.concatenate([[0.0], np.full(241, np.log(at[1] - at[0]))])
    else:
        return units.states(np.arange(int(units.n_states))), np.zeros(int(units.n_states))
    pairs = list(itertools.product(range(len(one)), repeat=units.n))
    states = one[np.array(pairs)]  # (states, units, columns of a unit)
    return states.swapaxes(1, 2).reshape(len(pairs), -1), log_w[np.array(pairs)].sum(1)


def hidden_states(model, blocks):
    """Joint states of layers by name, and the log of what each stands for."""
    each = [unit_states(block, model.units[block]) for block in blocks]
    places = np.array(list(itertools.product(*(range(len(states)) for states, _ in each))))
    state = {block: each[i][0][places[:, i]] for i, block in enumerate(blocks)}
    return state, sum(each[i][1][places[:, i]] for i in range(len(blocks)))


def observed_states(system, row):
    """States of the visible layer, of a machine of labels one with each class; a condition has its outputs free."""
    if hasattr(system, "classes_"):
        scaled = system._scaled(row)
        return {"visible": np.concatenate([system.model_.with_class(scaled, [c]) for c in range(2)])}
    if system.name == "gated-rbm":
        y = np.array(list(itertools.product([0.0, 1.0], repeat=2)))
        return {CONDITION: system._scaled(row).repeat(4, axis=0), "visible": y}
    return {"hidden_0" if system.name == "dbn" else "visible": system.to_visible(row)}


def enumerated(system, row):
    """States of the hidden layers side by side, in the order of the posterior's columns, and their probabilities."""
    model = system.model_.pair(1) if system.name == "dbn" else system.model_
    model = getattr(model, "released", model)
    blocks = [block for block in model.units if block not in ("visible", "hidden_0", CONDITION)]
    shown = blocks if system.name in DEEP else ["mean", "hidden"] if system.name == "product-of-t" else ["hidden"]
    seen, (hidden, log_w) = observed_states(system, row), hidden_states(model, blocks)
    n, m = len(next(iter(seen.values()))), len(log_w)
    state = {block: np.repeat(x, m, axis=0) for block, x in seen.items()}
    state |= {block: np.tile(x, (n, 1)) for block, x in hidden.items()}
    log_p = logsumexp(log_w - to_numpy(model.joint_energy(state)).reshape(n, m), axis=0)
    values = np.concatenate([hidden[block] for block in shown], axis=1)
    states, at = np.unique(values, axis=0, return_inverse=True)
    mass = np.bincount(at.ravel(), np.exp(log_p - logsumexp(log_p)))
    return states, mass


@pytest.mark.spec("BAY-47")
@pytest.mark.parametrize("name", MACHINES)
def test_the_posterior_of_a_machine_is_that_of_all_its_hidden_states(name):
    system = fitted(name.split(",")[0], **MACHINES[name])
    if system.name not in STILL:
        system = wild(system)
    X = rows_of(system)[:3]
    posterior, bits = system.posterior(X), system.name not in ("spike-and-slab-rbm", "conv-ssrbm", "product-of-t")
    assert isinstance(posterior, WAYS.get(name.partition(", ")[2], object))
    for i, row in enumerate(X):
        states, mass = enumerated(system, row[None])
        np.testing.assert_allclose(to_numpy(posterior.mean)[i], mass @ states, atol=1e-8 if bits else 1e-4)
        if bits:
            one = system.posterior(np.repeat(row[None], len(states), axis=0))
            np.testing.assert_allclose(np.exp(to_numpy(one.log_prob(states))), mass, atol=1e-9)


@pytest.mark.spec("BAY-47")
def test_the_mapping_units_of_a_pair_are_those_of_its_machine():
    """p(h | x, y) is a product: the machine of x has the couplings sum_i x_i W_i."""
    system = wild(fitted("gated-rbm", n_hidden=3))
    X = rows_of(system)[:3]
    y, state = (X[:, :2] > 0).astype(float), system.model_.state()
    fields = np.einsum("ni,ijk,nj->nk", system._scaled(X), state["weight"].reshape(4, 2, 3), y) + state["hidden_bias"]
    np.testing.assert_allclose(system.posterior(X, y).mean, expit(fields), atol=1e-10)
    np.testing.assert_allclose(system.posterior(X, y).mean, system.transform(X, y), atol=1e-12)


@pytest.mark.spec("BAY-47")
@pytest.mark.parametrize("name", ["dbm", "conv-dbm"])
def test_the_posterior_of_a_deep_machine_is_the_mean_field_whose_bound_it_states(name):
    """E_q[-E] + H(q) - log Z over all states of two hidden layers, by the log probabilities of q."""
    system = fitted(name)
    X = rows_of(system)[:2]
    model = system.model_
    hidden, _ = hidden_states(model, model.hidden)
    states = np.concatenate([hidden[block] for block in model.hidden], axis=1)
    bound, log_z = system.log_prob_bound(X), system.log_partition("exact").value
    for i, row in enumerate(X):
        many = np.repeat(row[None], len(states), axis=0)
        log_q = to_numpy(system.posterior(many).log_prob(states))
        energy = to_numpy(model.joint_energy({"visible": system.to_visible(many)} | hidden))
        possible = np.isfinite(log_q)
        assert np.exp(log_q).sum() == pytest.approx(1.0, abs=1e-9)
        found = np.exp(log_q[possible]) @ (-energy - log_q)[possible] - log_z
        assert found == pytest.approx(bound[i], abs=1e-6)
    assert (bound <= system.log_prob(X) + 1e-9).all()


@pytest.mark.spec("BAY-47")
def test_the_posterior_of_a_belief_network_is_its_way_up():
    """Each layer given the means of the one below it, by its weights: the code of one row bit by bit."""
    system = wild(fitted("dbn"))
    X = rows_of(system)[:3]
    below, parts = X, []
    for weight, bias in system.model_.way_up():
        logits = below @ weight.detach().numpy() + bias.detach().numpy()
        below = expit(logits)
        parts.append(below)
    states = (np.random.default_rng(0).random((3, 7)) < 0.5).astype(float)
    log_q = bernoulli.logpmf(states, np.concatenate(parts, axis=1)).sum(1)
    np.testing.assert_allclose(system.posterior(X).log_prob(states), log_q, atol=1e-9)


# --- belief nets and networks -----------------------------------------------------------------------------------------


@pytest.mark.spec("BAY-47")
@pytest.mark.parametrize("hidden", [(3,), (3, 2, 2)])
@pytest.mark.parametrize("name", ["sbn", "darn", "helmholtz-machine", "bidirectional-helmholtz-machine"])
def test_the_posterior_of_a_belief_net_is_that_of_all_its_states(name, hidden):
    system = copy.deepcopy(fitted(name, hidden=hidden))
    with torch.no_grad():
        for parameter in system.model_.parameters():
            parameter += torch.from_numpy(np.random.default_rng(2).normal(size=parameter.shape))
    X = rows_of(system)[:3]
    states = np.array(list(itertools.product([0.0, 1.0], repeat=sum(hidden))))
    for i, row in enumerate(X):
        many = np.repeat(row[None], len(states), axis=0)
        log_p = system.log_joint(many, states)
        if name.startswith("bidirectional"):  # p*(h | x) is the geometric mean of both nets
            with torch.no_grad():
                q = system.model_.encode(torch.from_numpy(many)).log_prob(torch.from_numpy(states))
            log_p = 0.5 * (log_p + q.numpy())
        mass = np.exp(log_p - logsumexp(log_p))
        np.testing.assert_allclose(system.posterior(X).mean[i], mass @ states, atol=1e-10)
        np.testing.assert_allclose(np.exp(system.posterior(many).log_prob(states)), mass, atol=1e-10)


@pytest.mark.spec("BAY-47")
def test_beyond_exact_sums_the_recognition_net_answers():
    system = fitted("sbn", hidden=(13,))
    posterior = system.posterior(rows("binary")[:2])
    states = torch.tensor(list(itertools.product([0.0, 1.0], repeat=13)), dtype=torch.float64)
    one = system.posterior(np.repeat(rows("binary")[:1], len(states), axis=0))
    mass = one.log_prob(states).exp()
    assert mass.sum().item() == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose((mass @ states).numpy(), posterior.mean[0].numpy(), atol=1e-9)


@pytest.mark.spec("BAY-47")
@pytest.mark.parametrize("name", ["vae", "draw"])
def test_the_q_of_an_encoder_is_that_of_the_bound_below_the_density(name):
    """Over a grid of both latent variables q sums to 1, and E_q[log p(x, z) - log q] is the bound, below log p(x).

    The bound is drawn: 5 of its deviations are a false alarm of 6e-7.
    """
    system = fitted(name)
    X = rows_of(system)[:2]
    ticks = torch.linspace(-5, 5, 201, dtype=torch.float64)
    z, cell = torch.cartesian_prod(ticks, ticks), 2 * torch.log(ticks[1] - ticks[0])
    found, exact = [], []
    for row in X:
        many = np.repeat(row[None], len(z), axis=0)
        with torch.no_grad():
            joint = system.model_.log_joint(torch.from_numpy(many), z)
            log_q = system.posterior(many).log_prob(z)
        mass = (log_q + cell).exp()
        assert mass.sum().item() == pytest.approx(1.0, abs=1e-5)
        found.append((mass * (joint - log_q)).sum().item())
        exact.append((torch.logsumexp(joint, 0) + cell).item())
    bound = system.elbo(X, 400)
    assert (np.array(found) < np.array(exact) + 1e-6).all()
    assert np.mean(found) - float(np.mean(system._log_units(X))) == pytest.approx(bound.value, abs=5 * bound.error)


# --- factors and mixtures ---------------------------------------------------------------------------------------------


@pytest.mark.spec("BAY-47")
def test_the_posterior_of_linear_normal_factors_is_the_joint_normal_given_what_is_seen():
    """(z, x) is jointly normal; conditioned on the known cells of each row, a row without any among them."""
    system = fitted("ppca")
    W, noise, k = system.components_.T, system.noise_variance_, 2
    X = rows("real")[:4].copy()
    X[1, 0] = X[2, 1:] = X[3] = np.nan
    joint = np.block([[np.eye(k), W.T], [W, W @ W.T + noise * np.eye(4)]])
    points = np.random.default_rng(0).normal(size=(4, k))
    posterior, whole = system.posterior(X), system.posterior(rows("real")[:4])
    assert whole.covariance.shape == (4, k, k) and len(whole._covariance) == 1  # one for all
    for i, row in enumerate(X):
        seen = k + np.flatnonzero(~np.isnan(row))
        gain = joint[:k, seen] @ np.linalg.inv(joint[np.ix_(seen, seen)])
        mean, covariance = gain @ (row - system.mean_)[seen - k], joint[:k, :k] - gain @ joint[seen, :k]
        normal = multivariate_normal(mean, covariance)
        np.testing.assert_allclose(posterior.mean[i], mean, atol=1e-10)
        np.testing.assert_allclose(posterior.covariance[i], covariance, atol=1e-10)
        assert posterior.log_prob(points)[i] == pytest.approx(normal.logpdf(points[i]), abs=1e-8)
        assert posterior.entropy()[i] == pytest.approx(normal.entropy(), abs=1e-8)
    full = multivariate_normal(whole.mean[0], whole.covariance[0]).logpdf(points[0])
    assert whole.log_prob(points)[0] == pytest.approx(full, abs=1e-8)


@pytest.mark.spec("BAY-47")
def test_what_a_rotation_of_the_factors_changes_is_the_posterior_alone():
    """Subspace, log-likelihood and E[W z | x] of two ways to fit are the same, and those of a rotated model."""
    X = rows("real")
    closed, em = fitted("ppca"), fitted("ppca", method="em", max_iter=5000, tol=1e-12)
    spaces = [np.linalg.pinv(one.components_) @ one.components_ for one in (closed, em)]
    np.testing.assert_allclose(*spaces, atol=1e-4)
    np.testing.assert_allclose(closed.score_samples(X), em.score_samples(X), atol=1e-3)
    seen = [one.posterior(X).mean @ one.components_ for one in (closed, em)]
    np.testing.assert_allclose(*seen, atol=1e-3)
    turned, Q = copy.deepcopy(closed), np.array([[0.6, -0.8], [0.8, 0.6]])
    turned.model_.components = turned.model_.components @ Q
    np.testing.assert_allclose(turned.score_samples(X), closed.score_samples(X), atol=1e-9)
    np.testing.assert_allclose(turned.posterior(X).mean, closed.posterior(X).mean @ Q, atol=1e-9)
    np.testing.assert_allclose(turned.posterior(X).mean @ turned.components_, seen[0], atol=1e-9)


@pytest.mark.spec("BAY-47")
@pytest.mark.parametrize("name", ["gaussian-mixture", "bernoulli-mixture", "bayesian-gaussian-mixture"])
def test_the_posterior_of_a_mixture_is_by_the_theorem_of_bayes(name):
    """Shares times densities, by SciPy; other labels permute its columns, and change nothing else."""
    system = fitted(name)
    X = rows_of(system)
    log_w = np.log(system.weights_)
    if name == "bernoulli-mixture":
        log_p = bernoulli.logpmf(X[:, None], system.means_).sum(2)
    else:
        pairs = zip(system.means_, system.covariances_, strict=True)
        log_p = np.stack([multivariate_normal(mean, covariance).logpdf(X) for mean, covariance in pairs], axis=1)
    np.testing.assert_allclose(np.exp(log_softmax(log_w + log_p, axis=1)), system.posterior(X).mean, atol=1e-9)
    np.testing.assert_allclose(system.score_samples(X), logsumexp(log_w + log_p, axis=1), atol=1e-8)
    posterior, one_hot = system.posterior(X), np.eye(system.n_components)
    for k, indicator in enumerate(one_hot):
        mass = np.exp(posterior.log_prob(np.tile(indicator, (60, 1))))
        np.testing.assert_allclose(mass, system.predict_proba(X)[:, k], atol=1e-12)
    if name == "bayesian-gaussian-mixture":  # whose sticks are broken in an order
        return
    other = copy.deepcopy(system)
    state = system.model_.state()
    other.model_.load({key: x[::-1] if np.shape(x)[:1] == (len(log_w),) else x for key, x in state.items()})
    np.testing.assert_allclose(other.score_samples(X), system.score_samples(X), atol=1e-10)
    np.testing.assert_allclose(other.posterior(X).mean, posterior.mean[:, ::-1], atol=1e-10)


def test_a_component_that_no_row_comes_from_has_no_part_in_the_posterior():
    system = copy.deepcopy(fitted("gaussian-mixture"))
    system.model_.weights = np.array([1.0, 0.0])
    posterior = system.posterior(rows("real")[:2])
    np.testing.assert_array_equal(posterior.mean, [[1.0, 0.0]] * 2)
    np.testing.assert_array_equal(posterior.log_prob(np.array([[1.0, 0.0], [0.0, 1.0]])), [0.0, -np.inf])
    np.testing.assert_array_equal(posterior.entropy(), [0.0, 0.0])


@pytest.mark.spec("BAY-47")
@pytest.mark.parametrize("k", [1, 2])
def test_the_posterior_of_factors_of_bits_has_the_moments_of_an_integral(k):
    system = fitted("generalized-factor-analysis", n_components=k)
    X = rows("binary")[:4]
    ticks = np.linspace(-7, 7, 401)
    z = np.stack(np.meshgrid(*[ticks] * k, indexing="ij"), -1).reshape(-1, k)
    eta = z @ system.model_.components.T + system.model_.bias
    prior = multivariate_normal(np.zeros(k), np.eye(k)).logpdf(z)
    for i, row in enumerate(X):
        log_p = log_expit(np.where(row > 0, eta, -eta)).sum(1) + prior
        mass = np.exp(log_p - logsumexp(log_p))
        mean = mass @ z
        np.testing.assert_allclose(system.posterior(X).mean[i], mean, atol=1e-6)
        np.testing.assert_allclose(system.posterior(X).covariance[i], (z - mean).T * mass @ (z - mean), atol=1e-6)


def orthogonal(d, m, seed=5):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0][:, :m] * np.arange(1.0, m + 1)


@pytest.mark.spec("BAY-47")
def test_the_posterior_of_sparse_codes_is_exact_where_components_do_not_meet():
    """Orthogonal components under equal noise: mean field is the sum over all sets of components, by SciPy."""
    system = copy.deepcopy(fitted("spike-and-slab-sparse-coding"))
    model, m = system.model_, 3
    model.components, model.noise_precision = orthogonal(4, m), np.full(4, 3.0)
    model.slab_mean, model.slab_precision = np.array([0.5, -1.0, 0.2]), np.array([1.0, 2.0, 0.5])
    model.bias = np.zeros(m)
    X = rows("real")[:3]
    for i, x in enumerate(model.scaled(X)):
        log_p, codes = [], []
        for h in np.array(list(itertools.product([0.0, 1.0], repeat=m))):
            W, prior = model.components * h, np.diag(1 / model.slab_precision)
            C = np.eye(4) / 3 + W @ prior @ W.T
            log_p.append(multivariate_normal(W @ model.slab_mean, C).logpdf(x) - m * np.log(2))
            s = model.slab_mean + prior @ W.T @ np.linalg.solve(C, x - W @ model.slab_mean)
            codes.append(h * s)
        mass = np.exp(log_p - logsumexp(log_p))
        posterior = system.posterior(X)
        np.testing.assert_allclose(posterior.mean[i], mass @ np.array(codes), atol=1e-6)
        assert np.exp(posterior.log_prob(np.zeros((3, m)))[i]) == pytest.approx(mass[0], abs=1e-6)
        spread = prior - prior @ W.T @ np.linalg.solve(C, W @ prior)  # of the last set: all components
        density = mass[-1] * multivariate_normal(codes[-1], spread).pdf(codes[-1] + 0.3)
        assert np.exp(posterior.log_prob(np.tile(codes[-1] + 0.3, (3, 1)))[i]) == pytest.approx(density, rel=1e-4)


@pytest.mark.spec("BAY-47")
def test_the_posterior_of_a_mean_field_network_is_exact_where_components_do_not_meet():
    system = copy.deepcopy(fitted("mean-field-network"))
    model, m = system.model_, 3
    with torch.no_grad():
        model.components.copy_(torch.from_numpy(orthogonal(4, m)))
        model.log_precision.zero_()
    model.steps = 60
    X, W, b = rows("real")[:3], orthogonal(4, m), model.bias.detach().numpy()
    states = np.array(list(itertools.product([0.0, 1.0], repeat=m)))
    prior = states @ log_expit(b) + (1 - states) @ log_expit(-b)
    for i, x in enumerate(model.ask("scaled", X)):
        log_p = prior - 0.5 * ((x - states @ W.T) ** 2).sum(1) * float(model.coding().beta[0])
        mass = np.exp(log_p - logsumexp(log_p))
        many = system.posterior(np.repeat(X[i : i + 1], len(states), axis=0))
        np.testing.assert_allclose(np.exp(many.log_prob(states)), mass, atol=1e-6)
