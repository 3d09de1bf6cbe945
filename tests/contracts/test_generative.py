"""Every model of a density fills in cells, and says what is known of a row with gaps: against sums over all it can be.

The oracle asks a system for the densities of complete rows alone, or their energies, and adds up the ways to complete a
row: all bits of the missing cells, or a grid over the one real cell that is missing.
"""

import functools
import itertools
from inspect import signature

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone

import gnomon
from gnomon.catalog import entry
from gnomon.data import Preparation
from gnomon.errors import UserTypeError, UserValueError
from gnomon.tasks.generative import generative
from gnomon.testing import arrays_of

D = 4
"""Columns: an image of 2 x 2 where these are one."""
DENSITIES = [one.name for one in gnomon.catalog() if "density" in one.tasks]
JOINT = ["gaussian-classifier", "label-rbm"]
"""Classifiers whose model is a density of rows and labels."""
SEQUENCES = {"autoregressive-rbm", "factored-conditional-rbm", "rnn-rbm", "rtrbm", "vrnn"}
"""Of frames: cells are masked, since NaN stands for no frame."""
WALKS = {"darn", "deep-nade", "draw", "nade-k", "product-of-experts", "product-of-t", "rnade", "vae", "vrnn"}
"""Those that find missing cells along chains, by particles or by a network, even of so few columns."""
ORDERS = {"deep-nade", "nade-k"}
"""Those whose joint density of rows with gaps is that of an order which takes the known cells first."""
PARTLY = {"rnade"}
"""Those that sum out missing cells exactly only where these come last in an order, as not all of these here do."""
CHANGED = {
    "conv-rbm": {"kernel": (2, 2)},
    "conv-dbm": {"kernel": (2, 2)},
    "product-of-t": {"n_mean": 0, "n_experts": 4},
    "autoregressive-rbm": {"frame_size": 2},
    "factored-conditional-rbm": {"frame_size": 2},
    "rnn-rbm": {"frame_size": 2},
    "rtrbm": {"frame_size": 2},
    "vrnn": {"frame_size": 2},
}
FILLING = [*DENSITIES, *JOINT]

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@functools.cache
def rows(binary):
    """Rows with columns that depend on each other, in other units each where they are real."""
    random = np.random.default_rng(0)
    if binary:
        X = (random.random((60, D)) < 0.5).astype(float)
        X[:, 1] = np.where(random.random(60) < 0.8, X[:, 0], X[:, 1])
        return X
    return random.normal(size=(60, D)) @ np.triu(np.ones((D, D))) * [1.0, 2.0, 0.5, 1.0] + [0.0, 3.0, -1.0, 10.0]


@functools.cache
def fitted(name):
    """A brief fit in float64."""
    given = entry(name).tiny | {"random_state": 0} | CHANGED.get(name, {})
    system = gnomon.make(name, **given)
    if "dtype" in system.get_params():
        system.set_params(dtype="float64")
    y = np.arange(60) % 2 if name in JOINT or system.labeled else None
    return system.fit(rows(is_binary(system)), y)


def sums_out(system):
    """Whether the known cells of every row here have an exact probability."""
    return hasattr(system, "log_prob_observed") and system.name not in PARTLY


def is_binary(system):
    """Whether a row of the system is one of zeros and ones."""
    return system.outcomes.view == "binary" or system.name in SEQUENCES


def log_densities(system, X):
    """Log of the density of complete rows, and whether it is normalized."""
    if system.name in ("draw", "vae", "vrnn"):
        return np.concatenate([by_latents(system, part) for part in np.array_split(X, 8)]), True
    if system.name == "mean-field-network":
        return by_components(system, X), True
    if hasattr(system, "marginal_log_prob"):
        return system.marginal_log_prob(X), True
    return (system.log_prob(X), True) if hasattr(system, "log_prob") else (-system.energy(X), False)


def by_latents(system, X):
    """log p of rows with two latent variables, of draw and vrnn one of each of two steps, by a grid over these."""
    if not len(X):
        return np.zeros(0)
    ticks = torch.linspace(-5, 5, 31, dtype=torch.float64)
    z = torch.cartesian_prod(ticks, ticks)
    with torch.no_grad():
        x = torch.as_tensor(X).repeat_interleave(len(z), 0)
        log_p = system.model_.log_joint(x, z.repeat(len(X), 1)).reshape(len(X), len(z))
        return (torch.logsumexp(log_p, 1) + 2 * torch.log(ticks[1] - ticks[0])).numpy()


def by_components(system, X):
    """log p of rows of binary sparse coding, by all sets of components."""
    coding, scale, shift = system.model_.coding(), *map(np.asarray, (system.model_.scale, system.model_.shift))
    found = []
    for h in itertools.product([0.0, 1.0], repeat=len(coding.b)):
        prior = np.log(np.where(h, 1 / (1 + np.exp(-coding.b)), 1 / (1 + np.exp(coding.b)))).sum()
        mean, deviation = (coding.W @ h) * scale + shift, scale / np.sqrt(coding.beta)
        found.append(prior + norm(mean, deviation).logpdf(X).sum(1))
    return logsumexp(found, axis=0)


def completed(system, row):
    """Every way to complete a row, or a grid of it; and the log of the mass of each but for a factor."""
    gaps = np.flatnonzero(np.isnan(row))
    if is_binary(system):
        values = np.array(list(itertools.product([0.0, 1.0], repeat=len(gaps))))
        step = 1.0
    else:
        assert len(gaps) == 1
        X = rows(False)[:, gaps[0]]
        far, n = (6, 121) if system.name in ("draw", "vae") else (40, 20_001)
        grid = np.linspace(X.mean() - far * X.std(), X.mean() + far * X.std(), n)
        values, step = grid[:, None], grid[1] - grid[0]
    filled = np.tile(row, (len(values), 1))
    filled[:, gaps] = values
    if system.name in ORDERS:
        rest = system.conditional_log_prob(filled, ~np.isnan(row))
        return values, rest + system.log_prob_observed(row[None]), True
    log_p, normalized = log_densities(system, filled)
    return values, np.asarray(log_p, np.float64) + np.log(step), normalized


def lacking(system, X):
    """Rows with gaps as the system takes them: NaN, or a mask beside whatever masked cells hold."""
    return (np.nan_to_num(X), np.isnan(X)) if system.name in SEQUENCES else (X,)


def gap_rows(system):
    """Rows that lack cells, more of them where they are bits."""
    X = rows(is_binary(system))[:3].copy()
    X[0, 1] = np.nan
    if is_binary(system):
        X[1, [0, 2, 3]] = np.nan
    else:
        X[1, 3] = np.nan
    return X


@pytest.mark.spec("PRA-220")
@pytest.mark.parametrize("name", FILLING)
def test_cells_are_filled_in_as_the_density_of_complete_rows_says(name):
    """Exact answers to 1e-6 (of a grid), estimates along chains of 1,500 sweeps to 0.2 deviations."""
    system = fitted(name)
    X = gap_rows(system)
    chain = {"steps": 600} if "steps" in signature(system.impute).parameters else {}
    found, spread = (
        system.imputed(*lacking(system, X), how=how, random_state=0, **chain) for how in ("mean", "deviation")
    )
    known = ~np.isnan(X)
    np.testing.assert_array_equal(found.values[known], X[known])
    assert found.kind[2] == "exact" and set(found.kind) <= {"exact", "estimate"} and found.note
    for k in (0, 1):
        values, log_p, _ = completed(system, X[k])
        p = np.exp(log_p - logsumexp(log_p))
        mean = p @ values
        deviation = np.sqrt(np.maximum(p @ (values - mean) ** 2, 0))
        close = 1e-6 if found.kind[k] == "exact" else 0.2
        assert (found.kind[k] == "estimate") == (name in WALKS)
        assert (np.abs(found.values[k, ~known[k]] - mean) <= close * deviation + 1e-9).all()
        assert (np.abs(spread.values[k, ~known[k]] - deviation) <= close * deviation + 1e-7).all()


@pytest.mark.spec("PRA-220")
@pytest.mark.parametrize("name", FILLING)
def test_the_known_cells_have_the_probability_that_all_completions_have_together(name):
    """To 1e-6 where it says that it is exact; an estimate of log Z to 5 of its errors, a bound from below."""
    system = fitted(name)
    X = gap_rows(system)
    found, nothing = (system.evaluate_observed(*lacking(system, one)) for one in (X, np.full((2, D), np.nan)))
    np.testing.assert_allclose(nothing.pointwise, 0, atol=1e-9)
    assert found.value == pytest.approx(found.pointwise.mean()) and found.data_space.endswith("known cells")
    assert (found.kind == "exact") == sums_out(system)
    for k in (0, 1):
        _, log_p, normalized = completed(system, X[k])
        at = logsumexp(log_p) - (0 if normalized else system.log_partition().value)
        if found.kind == "lower bound":
            assert at - 1 < found.pointwise[k] < at + 0.1  # 0.1 more by chance
        else:
            assert found.pointwise[k] == pytest.approx(at, abs=1e-6)
    if found.kind == "exact":
        np.testing.assert_allclose(found.pointwise, system.log_prob_observed(*lacking(system, X)), atol=1e-12)
        assert found.pointwise[2] == pytest.approx(log_densities(system, X[2:])[0][0], abs=1e-9)
    else:
        assert found.note


@pytest.mark.spec("PRA-220")
@pytest.mark.parametrize("name", FILLING)
def test_draws_of_missing_cells_have_the_moments_of_all_completions(name):
    """2,500 draws for each of two rows: means within 5 standard errors of what the model says, deviations within 9 %.

    False alarm 1e-4 over all systems, were chains independent draws; 600 draws of those that walk far.
    """
    system = fitted(name)
    X = gap_rows(system)[:2]
    n = 600 if name in WALKS else 2500
    options = {"steps": 40} if "steps" in signature(system.conditional_sample).parameters else {}
    for row in X:
        gaps = np.isnan(row)
        drawn = system.conditional_sample(*lacking(system, np.tile(row, (n, 1))), random_state=1, **options)
        np.testing.assert_array_equal(drawn[:, ~gaps], np.tile(row[~gaps], (n, 1)))
        values, log_p, _ = completed(system, row)
        p = np.exp(log_p - logsumexp(log_p))
        mean = p @ values
        deviation = np.sqrt(np.maximum(p @ (values - mean) ** 2, 0))
        assert (np.abs(drawn[:, gaps].mean(0) - mean) <= 5 * deviation / np.sqrt(n) + 1e-12).all()
        assert (np.abs(drawn[:, gaps].std(0) - deviation) <= 4.5 / np.sqrt(n) * deviation + 1e-2).all()


@pytest.mark.spec("REP-122")
@pytest.mark.parametrize("name", FILLING)
def test_the_joint_distribution_of_missing_cells_is_that_of_all_completions(name):
    """Tables and normal densities to 1e-6; of 200 draws means within 5 standard errors (false alarm 1e-5).

    The draws of chains are those of the test above: here those of one such system.
    """
    system = fitted(name)
    X, many = gap_rows(system), 2 if name in WALKS - {"product-of-t"} else 200
    found = system.conditional_distribution(*lacking(system, X), n_draws=many, random_state=0)
    assert len(found) == 3 and found.kind[2] == "exact" and (found.covariance[2] == 0).all() and found.note
    for k in (0, 1):
        gaps = np.isnan(X[k])
        values, log_p, _ = completed(system, X[k])
        p = np.exp(log_p - logsumexp(log_p))
        mean = p @ values
        covariance = (values - mean).T @ ((values - mean) * p[:, None])
        spread = found.covariance[k][np.ix_(gaps, gaps)]
        np.testing.assert_array_equal(found.mean[k, ~gaps], X[k, ~gaps])
        assert found.covariance[k].sum() == pytest.approx(spread.sum())
        if found.kind[k] == "estimate":
            deviation = np.sqrt(np.diag(covariance))
            assert found[k].shape == (many, gaps.sum())
            if many == 2:
                continue
            assert (np.abs(found.mean[k, gaps] - mean) <= 5 * deviation / np.sqrt(200)).all()
            assert np.abs(spread - covariance).max() <= 0.5 * deviation.max() ** 2 + 1e-12
            continue
        np.testing.assert_allclose(found.mean[k, gaps], mean, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(spread, covariance, rtol=1e-5, atol=1e-7)
        if is_binary(system):
            assert found[k].names == tuple(f"x{j}" for j in np.flatnonzero(gaps))
            np.testing.assert_allclose(found[k].probabilities.ravel(), p, atol=1e-7)
        else:
            step = values[1, 0] - values[0, 0]
            at = np.argsort(p)[-3:]
            np.testing.assert_allclose(found[k].log_prob(values[at]), np.log(p[at] / step), atol=1e-5)


# --- a normal density, whose every conditional is known by hand -------------------------------------------------------


@functools.cache
def normal(name):
    """A fit that is one normal density, its mean and its covariance."""
    system = gnomon.make(name, random_state=0, **NORMAL[name]).fit(rows(False))
    if name == "gaussian-mixture":
        return system, system.means_[0], system.covariances_[0]
    return system, system.mean_, system.get_covariance()


NORMAL = {
    "gaussian-mixture": {"n_components": 1},
    "ppca": {"n_components": 2},
    "product-of-ppca": {"n_components": 3, "max_iter": 60},
}


@pytest.mark.spec("PRA-220", "REP-122")
@pytest.mark.parametrize("name", NORMAL)
@pytest.mark.parametrize("gaps", [(1,), (0, 3), (0, 1, 2), (0, 1, 2, 3)])
def test_a_normal_density_fills_in_by_regression(name, gaps):
    """Conditional means, deviations and densities of what is seen by hand; 20,000 draws, false alarm 1e-5 a number."""
    system, mean, covariance = normal(name)
    gaps, seen = list(gaps), [j for j in range(D) if j not in gaps]
    row = rows(False)[0].copy()
    row[gaps] = np.nan
    slope = covariance[np.ix_(gaps, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
    given = mean[gaps] + slope @ (row[seen] - mean[seen])
    spread = covariance[np.ix_(gaps, gaps)] - slope @ covariance[np.ix_(seen, gaps)]
    np.testing.assert_allclose(system.impute([row])[0, gaps], given, rtol=1e-9)
    joint = system.conditional_distribution([row])
    np.testing.assert_allclose(joint.mean[0, gaps], given, rtol=1e-9)
    np.testing.assert_allclose(joint.covariance[0][np.ix_(gaps, gaps)], spread, rtol=1e-8)
    density = multivariate_normal(given, spread)
    np.testing.assert_allclose(joint[0].log_prob([given + 0.1]), density.logpdf(given + 0.1), atol=1e-8)
    np.testing.assert_allclose(system.impute([row], how="deviation")[0, gaps], np.sqrt(np.diag(spread)), rtol=1e-8)
    at = multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(row[seen]) if seen else 0.0
    np.testing.assert_allclose(system.log_prob_observed([row]), at, atol=1e-9)
    masked = np.isnan(row)[None]
    np.testing.assert_array_equal(system.impute(np.nan_to_num(row)[None], masked), system.impute([row]))
    n = 20_000
    drawn = system.impute(np.tile(row, (n, 1)), how="sample", random_state=0)[:, gaps]
    deviation = np.sqrt(np.diag(spread))
    assert (np.abs(drawn.mean(0) - given) <= 4.5 * deviation / np.sqrt(n)).all()
    error = np.sqrt((spread**2 + np.outer(deviation**2, deviation**2)) / n)
    assert (np.abs(np.cov(drawn.T).reshape(spread.shape) - spread) <= 4.5 * error).all()


@pytest.mark.spec("PRA-220")
@pytest.mark.parametrize("name", NORMAL)
def test_draws_and_densities_of_a_normal_density_are_those_of_scipy(name):
    system, mean, covariance = normal(name)
    X, n = rows(False), 20_000
    np.testing.assert_allclose(system.log_prob(X), multivariate_normal(mean, covariance).logpdf(X), atol=1e-9)
    drawn, deviation = system.sample(n, random_state=0), np.sqrt(np.diag(covariance))
    assert (np.abs(drawn.mean(0) - mean) <= 4.5 * deviation / np.sqrt(n)).all()
    error = np.sqrt((covariance**2 + np.outer(deviation**2, deviation**2)) / n)
    assert (np.abs(np.cov(drawn.T) - covariance) <= 4.5 * error).all()


@pytest.mark.parametrize("name", ["gaussian-mixture", "spike-and-slab-rbm", "ppca", "spike-and-slab-sparse-coding"])
def test_tables_that_a_preparation_scales_are_filled_in_in_their_own_units(name):
    """Known cells stay as they were; the others are those of a fit to the scaled columns, in other units."""
    table = pd.DataFrame(rows(False) * 3.0, columns=list("abcd"))
    gaps = table[:2].copy()
    gaps.iloc[0, 1] = gaps.iloc[1, 3] = np.nan
    known = gaps.notna().to_numpy()
    scale = Preparation(scale="yes").fit(table, keep_missing=name == "ppca")
    asked = clone(fitted(name)).fit(table, preparation=scale)
    scaled = asked._rows(table)
    bare = np.where(known, scaled[:2], np.nan)
    plain = clone(fitted(name)).fit(scaled)
    found, deviation = asked.impute(gaps), asked.impute(gaps, how="deviation")
    np.testing.assert_allclose(found[known], gaps.to_numpy()[known], rtol=1e-9)
    np.testing.assert_allclose(found, asked._in_units(plain.impute(bare)), rtol=1e-7)
    assert (deviation[known] == 0).all()
    unit = asked.preparation_.unit
    np.testing.assert_allclose(deviation, plain.impute(bare, how="deviation") * unit, rtol=1e-7)
    observed = plain.log_prob_observed(bare) - known @ np.log(unit)
    np.testing.assert_allclose(asked.log_prob_observed(gaps), observed, atol=1e-8)


# --- one face ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRA-220")
@pytest.mark.parametrize("name", FILLING)
def test_every_answer_says_what_it_is(name):
    """Draws, densities of complete rows and of rows with gaps, cells: exact, an estimate or a bound of each row."""
    system = fitted(name)
    model, X = generative(system), gap_rows(system)
    drawn = model.sample(3, random_state=0)
    by_chain = "steps" in signature(system.sample).parameters
    assert drawn.values.shape == (3, D) and set(drawn.kind) == {"estimate" if by_chain else "exact"}
    assert (drawn.labels is not None) == (name in JOINT)
    whole = model.log_prob(rows(is_binary(system))[:3])
    log_p, normalized = log_densities(system, rows(is_binary(system))[:3])
    if hasattr(system, "log_prob"):
        assert whole.is_exact and normalized
        np.testing.assert_allclose(whole.values, log_p, atol=1e-9)
    else:
        assert set(whole.kind) <= {"estimate", "lower bound", "up to a constant"} and whole.note
    part, cells = model.log_prob(*lacking(system, X)), model.impute(*lacking(system, X), random_state=0)
    assert part.is_exact == sums_out(system) and len(part) == 3
    assert cells.kind[2] == "exact" and cells.note
    assert cells.is_exact == (name not in WALKS)
    assert ("exact" in str(part)) == part.is_exact and np.isfinite(cells.values).all()


UNLABELED = ["gaussian-classifier", "label-rbm", "class-gated-rbm", "dbn-classifier"]


@pytest.mark.spec("PRA-220")
@pytest.mark.parametrize("name", UNLABELED)
@pytest.mark.parametrize("text", [False, True])
def test_labels_may_be_missing_as_none_or_nan(name, text):
    """The same fit as with -1 in their place, bit for bit; of labels that are text too."""
    X, codes = rows(False), np.arange(60) % 2
    lacks = np.arange(60) % 5 == 0
    system = gnomon.make(name, **entry(name).tiny | {"random_state": 0})
    first = clone(system).fit(X, np.where(lacks, -1, codes))
    labels = [None if lack else ("ab"[code] if text else int(code)) for lack, code in zip(lacks, codes, strict=True)]
    again = clone(system).fit(X, labels)
    assert list(again.classes_) == (["a", "b"] if text else [0, 1])
    for key, value in arrays_of(first).items():
        np.testing.assert_array_equal(value, arrays_of(again)[key])
    if not text:
        third = clone(system).fit(X, np.where(lacks, np.nan, codes))
        np.testing.assert_array_equal(third.predict(X), first.predict(X))


@pytest.mark.spec("PRA-220")
def test_rows_without_labels_help_where_few_have_one():
    """Two labeled rows of each class and 400 without: means within 0.3 of the true ones, of the labeled alone not."""
    random = np.random.default_rng(0)
    y = np.arange(404) % 2
    X = random.normal(size=(404, 2)) + 4.0 * y[:, None]
    labels = [int(code) if k < 4 else None for k, code in enumerate(y)]
    model = generative(gnomon.make("gaussian-classifier", covariance="tied")).fit(X, labels)
    alone = gnomon.make("gaussian-classifier", covariance="tied").fit(X[:4], y[:4])
    assert model.learns_from_unlabeled
    truth = np.array([[0.0, 0.0], [4.0, 4.0]])
    assert np.abs(model.system.means_ - truth).max() < 0.3 < np.abs(alone.means_ - truth).max()
    rows_alone = generative(gnomon.make("gaussian-mixture", n_components=2, random_state=0)).fit(X, labels)
    assert not rows_alone.learns_from_unlabeled
    plain = gnomon.make("gaussian-mixture", n_components=2, random_state=0).fit(X)
    np.testing.assert_array_equal(rows_alone.system.means_, plain.means_)


def test_what_has_no_density_of_rows_is_refused_in_one_line():
    with pytest.raises(UserTypeError, match="generative models draw, score and fill in rows, got mlp"):
        generative(gnomon.make("mlp"))
    with pytest.raises(UserValueError, match="y must be the labels that are known"):
        generative(gnomon.make("gaussian-classifier")).fit(rows(False))
