"""The gated machine of pairs: given one of them a restricted machine, by loops, differences, quadrature and draws."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import logsumexp, softmax
from scipy.stats import chisquare

from gnomon.data.batches import Batch
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.importance.by_row import log_partitions_by_annealing
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import CD, Exact
from gnomon.objectives.fresh_chains import MCMC
from gnomon.objectives.pseudolikelihood import Pseudolikelihood
from gnomon.objectives.ratio_matching import RatioMatching
from gnomon.systems.energy._conditional_objective import GivenConditions
from gnomon.systems.energy.gated_rbm import GatedRBM, GatedRBMModel
from gnomon.systems.energy.rbm import RBMModel
from gnomon.training.group import Group
from oracles.binary import all_states
from oracles.layered import assert_same, by_differences, filled
from oracles.principles import OneBatch

D, T, M, F = 3, 3, 2, 2
X = np.random.default_rng(0).normal(size=(6, D))
Y, H = all_states(T), all_states(M)
BOTH = pytest.mark.parametrize("factors", [None, F], ids=["tensor", "factored"])


def model_of(factors=None, kind="bernoulli", seed=0, outputs=T):
    return filled(GatedRBMModel(D, outputs, M, factors, kind, torch.float64), seed)


def tensor_of(p):
    """W_ijk by loops."""
    if "weight" in p:
        return p["weight"]
    W = np.zeros((len(p["first"]), len(p["second"]), len(p["third"])))
    for i, j, k in np.ndindex(W.shape):
        W[i, j, k] = sum(p["first"][i, f] * p["second"][j, f] * p["third"][k, f] for f in range(F))
    return W


def minus_energies(model, x, outputs=Y):
    """-E(y, h; x) of every y and h, term by term."""
    p = model.state()
    W, found = tensor_of(p), np.zeros((len(outputs), len(H)))
    for (a, y), (b, h) in itertools.product(enumerate(outputs), enumerate(H)):
        found[a, b] = p["visible_bias"] @ y + p["hidden_bias"] @ h
        for i, j, k in np.ndindex(W.shape):
            found[a, b] += W[i, j, k] * x[i] * y[j] * h[k]
    return found


def system_of(model):
    """A fitted system around this model, whose rows are those of the model."""
    random = np.random.default_rng(0)
    system = GatedRBM(n_hidden=M, outputs="bernoulli", standardize=False, epochs=1, random_state=0, dtype="float64")
    system.fit(X, (random.random((6, T)) < 0.5).astype(float))
    system.model_ = model
    return system


@pytest.mark.spec("GEN-062")
@BOTH
def test_everything_given_a_row_by_enumeration(factors):
    model = model_of(factors)
    system = system_of(model)
    mass = np.array([minus_energies(model, x) for x in X])
    joint = logsumexp(mass, axis=2)
    log_z = logsumexp(joint, axis=1)
    np.testing.assert_allclose(model.log_partitions(X), log_z, atol=1e-12)
    for a, y in enumerate(Y):
        outputs = np.tile(y, (6, 1))
        np.testing.assert_allclose(system.energy(X, outputs), -joint[:, a], atol=1e-12)
        np.testing.assert_allclose(system.log_prob(X, outputs), joint[:, a] - log_z, atol=1e-12)
        posterior = softmax(mass[:, a], axis=1) @ H
        np.testing.assert_allclose(system.transform(X, outputs), posterior, atol=1e-12)
        tensors = model.given(torch.from_numpy(X)).energy(torch.from_numpy(outputs))
        np.testing.assert_allclose(tensors.detach(), -joint[:, a], atol=1e-12)
    np.testing.assert_allclose(system.predict(X), softmax(joint, axis=1) @ Y, atol=1e-12)
    np.testing.assert_allclose(system.transform(X), softmax(logsumexp(mass, axis=1), axis=1) @ H, atol=1e-12)
    for b, h in enumerate(H):
        np.testing.assert_allclose(
            system.predict(X, np.tile(h, (6, 1))), softmax(mass[:, :, b], axis=1) @ Y, atol=1e-12
        )
        np.testing.assert_allclose(system.predict(X, h), softmax(mass[:, :, b], axis=1) @ Y, atol=1e-12)
    np.testing.assert_array_equal(system.most_probable(X), Y[joint.argmax(1)])
    found, stderr = log_partitions_by_annealing(model, X, Noise(0, "ais"), chains=50, schedule=100)
    assert (abs(found - log_z) < 5 * stderr).all()  # false alarm below 1e-5


@pytest.mark.spec("GEN-062")
@BOTH
def test_where_the_condition_is_constant_it_is_the_restricted_machine(factors):
    """Of every row x: energies, conditionals, log Z of the RBM with W(x) = sum_i x_i W_i; its gradient times x_i."""
    model, weight = model_of(factors), np.linspace(-1, 2, 8)
    p = model.state()
    for x in X:
        rbm = RBMModel.of(np.einsum("i,ijk->jk", x, tensor_of(p)), p["visible_bias"], p["hidden_bias"])
        given = model.given(x[None])
        np.testing.assert_allclose(given.energy(Y), rbm.energy(Y), atol=1e-12)
        assert given.log_partition() == pytest.approx(rbm.log_partition(), abs=1e-12)
        for block, state in (("hidden", {"visible": Y}), ("visible", {"hidden": H})):
            np.testing.assert_allclose(
                given.conditional(block, state).mean, rbm.conditional(block, state).mean, atol=1e-12
            )
        many = model.given(np.tile(x, (8, 1)))
        found = many.marginal_gradient({"visible": Y}, weight)
        expected = rbm.marginal_gradient({"visible": Y}, weight)
        np.testing.assert_allclose(found["visible_bias"], expected["visible_bias"], atol=1e-12)
        np.testing.assert_allclose(found["hidden_bias"], expected["hidden_bias"], atol=1e-12)
        if factors is None:
            np.testing.assert_allclose(
                found["weight"], x[:, None, None] * np.asarray(expected["weight"])[None], atol=1e-12
            )


@pytest.mark.spec("GEN-062")
def test_a_tensor_built_from_factors_is_the_factored_machine():
    factored, whole = model_of(F), model_of()
    p = factored.state()
    whole.load({"weight": tensor_of(p), "visible_bias": p["visible_bias"], "hidden_bias": p["hidden_bias"]})
    np.testing.assert_allclose(whole.log_partitions(X), factored.log_partitions(X), atol=1e-12)
    weight = np.linspace(-1, 2, 6)
    state = {"visible": Y[:6], "hidden": H[[0, 1, 2, 3, 0, 1]]}
    a, b = (m.given(X).joint_gradient(state, weight) for m in (whole, factored))
    chain = {  # of W_ijk = sum_f A_if B_jf C_kf
        "first": np.einsum("ijk,jf,kf->if", a["weight"], p["second"], p["third"]),
        "second": np.einsum("ijk,if,kf->jf", a["weight"], p["first"], p["third"]),
        "third": np.einsum("ijk,if,jf->kf", a["weight"], p["first"], p["second"]),
        "visible_bias": a["visible_bias"], "hidden_bias": a["hidden_bias"],
    }  # fmt: skip
    assert_same(b, chain, 1e-12)


def gradient_of(recipe, model, outputs, weight, conditions=X, positions=None):
    places = np.arange(len(outputs)) if positions is None else positions
    objective = GivenConditions(recipe.build())
    batch = Batch({"X": conditions, "y": outputs}, places, places, weight)
    objective.begin(model, OneBatch(outputs, weight), Noise(0, "begin"), Group())
    loss = objective(model, batch, noise=Noise(0, "fit"), phase="fit", group=Group())
    return {name: np.asarray(value) / weight.sum() for name, value in loss.gradients.items()}


OUTPUTS = Y[[0, 5, 3, 7, 2, 6]]
AT = [int(y @ [4, 2, 1]) for y in OUTPUTS]


def negative_log_likelihood(model, weight):
    rows = [logsumexp(minus_energies(model, x), axis=1) for x in X]
    return -sum(w * (row[a] - logsumexp(row)) for w, row, a in zip(weight, rows, AT, strict=True)) / weight.sum()


def pseudolikelihood(model, weight):
    total = 0.0
    for w, x, a in zip(weight, X, AT, strict=True):
        row = logsumexp(minus_energies(model, x), axis=1)
        total += w * sum(np.logaddexp(0, row[a ^ (4 >> j)] - row[a]) for j in range(T))
    return total / weight.sum()


def ratios(model, weight):
    total = 0.0
    for w, x, a in zip(weight, X, AT, strict=True):
        row = logsumexp(minus_energies(model, x), axis=1)
        total += w * sum(1 / (1 + np.exp(row[a] - row[a ^ (4 >> j)])) ** 2 for j in range(T))
    return total / weight.sum()


@pytest.mark.spec("GEN-062")
@BOTH
@pytest.mark.parametrize(
    ("recipe", "value"),
    [(Exact(), negative_log_likelihood), (Pseudolikelihood(), pseudolikelihood), (RatioMatching(), ratios)],
    ids=["exact", "pseudolikelihood", "ratio_matching"],
)
def test_each_principle_has_the_gradient_of_what_it_claims(recipe, value, factors):
    model, weight = model_of(factors), np.linspace(0.2, 2.0, 6)
    found = gradient_of(recipe, model, OUTPUTS, weight)
    assert_same(found, by_differences(model, lambda m: value(m, weight)), 1e-7)


@pytest.mark.spec("GEN-062")
@pytest.mark.parametrize("recipe", [CD(k=2), MCMC(k=30)], ids=["cd", "mcmc"])
def test_chains_hold_the_condition_in_both_phases(recipe):
    """Outputs drawn from p(y | x): the mean gradient is 0, within 5 standard errors (false alarm below 1e-5)."""
    model, n = model_of(), 3_000
    random, at = np.random.default_rng(0), np.arange(n) % 6
    law = [softmax(logsumexp(minus_energies(model, x), axis=1)) for x in X]
    outputs = Y[[random.choice(8, p=law[i]) for i in at]]
    found = gradient_of(recipe, model, outputs, np.ones(n), X[at])
    for value in found.values():
        assert abs(value).max() < 5 * np.sqrt(2 * (X**2).max() / n)


@pytest.mark.spec("GEN-062")
def test_draws_follow_the_table_of_their_row():
    model = model_of(F)
    system, n = system_of(model), 4_000
    drawn = system.sample(np.repeat(X[:2], n, axis=0), steps=30, random_state=0)
    for row in range(2):
        counts = np.bincount((drawn[row * n : (row + 1) * n] @ [4, 2, 1]).astype(int), minlength=8)
        law = softmax(logsumexp(minus_energies(model, X[row]), axis=1))
        assert chisquare(counts, n * law).pvalue > 1e-4  # false alarm 1e-4 each


@pytest.mark.spec("GEN-062")
@BOTH
def test_real_outputs_by_quadrature(factors):
    model = model_of(factors, "gaussian", outputs=1)
    p = model.state()
    grid = np.linspace(-30, 30, 20_001)[:, None]
    W = tensor_of(p)
    for x in X[:3]:
        total = -0.5 * np.exp(p["visible_log_precision"][0]) * (grid[:, 0] - p["visible_bias"][0]) ** 2
        for k in range(M):
            total = total + np.log1p(np.exp(p["hidden_bias"][k] + grid[:, 0] * (x @ W[:, 0, k])))
        np.testing.assert_allclose(-model.given(x[None]).energy(grid), total, atol=1e-11)
        expected = logsumexp(total) + np.log(grid[1, 0] - grid[0, 0])
        np.testing.assert_allclose(model.log_partitions(x[None]), expected, atol=1e-9)


@pytest.mark.spec("GEN-062")
@pytest.mark.parametrize("factors", [None, 30], ids=["tensor", "factored"])
def test_mapping_units_hold_what_happens_between_the_images_of_a_pair(factors):
    """Rows of chance, moved by -1, 0 or 1 around a ring: codes tell which, and do it to other rows."""
    random = np.random.default_rng(0)
    rows, moved = (random.random((700, 8)) < 0.4).astype(float), random.integers(-1, 2, 700)
    outputs = np.stack([np.roll(row, by) for row, by in zip(rows, moved, strict=True)])
    system = GatedRBM(
        n_hidden=8, n_factors=factors, outputs="bernoulli", epochs=30, learning_rate=0.03, random_state=0
    ).fit(rows[:500], outputs[:500])
    codes = system.transform(rows, outputs)
    centers = np.stack([codes[:500][moved[:500] == by].mean(0) for by in (-1, 0, 1)])
    near = ((codes[500:, None] - centers) ** 2).sum(2).argmin(1) - 1
    told = rows[500:].std(1) > 0  # a row of one value moves nowhere
    assert (near == moved[500:])[told].mean() > 0.85
    fresh = (random.random((300, 8)) < 0.4).astype(float)
    for by in (-1, 0, 1):
        code = centers[by + 1]
        error = ((system.predict(fresh, code) - np.roll(fresh, by, axis=1)) ** 2).mean()
        assert error < 0.6 * fresh.var()  # the mean of the outputs leaves all of it


def test_wrong_input_is_refused_in_one_line():
    pairs = X, OUTPUTS
    with pytest.raises(UserTypeError, match="each row has a distribution of its own"):
        GatedRBM(outputs="bernoulli", objective="pcd", epochs=1).fit(*pairs)
    with pytest.raises(UserValueError, match="n_factors must be"):
        GatedRBM(n_factors=0).fit(*pairs)
    system = GatedRBM(n_hidden=2, outputs="bernoulli", epochs=1, random_state=0).fit(*pairs)
    with pytest.raises(UserValueError, match="codes must be of shape"):
        system.predict(X, np.zeros((6, 3)))
    with pytest.raises(UserValueError, match=r"codes must be in \[0, 1\]"):
        system.predict(X, np.full((6, 2), 1.5))
    with pytest.raises(UserValueError, match="y must have 3 columns"):
        system.transform(X, OUTPUTS[:, :2])
    wide = GatedRBM(n_hidden=2, n_factors=2, epochs=1, random_state=0).fit(*pairs)
    assert set(wide.filters_) == {"first", "second", "third"}
    assert wide.filters_["second"].shape == (3, 2)
