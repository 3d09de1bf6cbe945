"""The Bayesian Gaussian mixture: exact evidence of one component, sums over assignments, parity with scikit-learn."""

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp
from sklearn.datasets import load_iris
from sklearn.mixture import BayesianGaussianMixture as Peer

import gnomon
from gnomon.distributions.normal_wishart import NormalWishart
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise
from gnomon.systems.mixtures.bayesian_gaussian_mixture import BayesianGaussianMixture, BayesianGaussianMixtureModel
from gnomon.training.em_forms import Online

PRIORS = ("dirichlet", "dirichlet-process")


def rows(n=60, d=3, k=3, seed=0, offset=0.0):
    random = np.random.default_rng(seed)
    return offset + np.concatenate(
        [random.normal(size=(n, d)) @ random.normal(size=(d, d)) + 2 * random.normal(size=d) for _ in range(k)]
    )


def model_of(X, k, form="full", prior="dirichlet", concentration=0.7, strength=0.5, df=None, seed=0):
    """A model beside a random share of the rows in each component."""
    d = X.shape[1]
    model = BayesianGaussianMixtureModel(k, d, form, sticks=prior == "dirichlet-process")
    scatter = np.cov(X.T).reshape(d, d)
    model.prior = {
        "shape": np.float64(concentration), "strength": np.float64(strength), "df": np.float64(df or d + 1),
        "mean": X.mean(0), "scatter": scatter if form == "full" else scatter.diagonal().copy(),
    }  # fmt: skip
    part = np.random.default_rng(seed).dirichlet(np.full(k, 0.3), len(X))
    model.begun(X - X.mean(0), part, X.std(0))
    return model, part


def climb(model, X, n):
    """The bound in nats at the expectation of each of n iterations."""
    found = []
    for _ in range(n):
        sums = model.expect(X, np.ones(len(X)))
        found.append(float(sums["log_likelihood"]) + model.log_prior())
        model.maximize(sums)
    return np.array(found)


def evidence(X, model):
    """Exact log evidence of rows of one component under the normal-Wishart prior, in its own words."""
    p, n, d = model.prior, len(X), X.shape[1]
    if not n:
        return 0.0
    k, nu, m = float(p["strength"]), float(p["df"]), X.mean(0)
    S = (X - m).T @ (X - m) + p["scatter"] + k * n / (k + n) * np.outer(m - p["mean"], m - p["mean"])
    log_gamma = lambda a: sum(gammaln(a - j / 2) for j in range(d))  # noqa: E731
    return (
        -n * d / 2 * math.log(math.pi) + log_gamma((nu + n) / 2) - log_gamma(nu / 2) + d / 2 * math.log(k / (k + n))
        + nu / 2 * np.linalg.slogdet(p["scatter"])[1] - (nu + n) / 2 * np.linalg.slogdet(S)[1]
    )  # fmt: skip


@pytest.mark.spec("BAY-45", "INF-83")
@pytest.mark.parametrize("form", ["full", "diag"])
def test_of_one_component_the_bound_is_the_evidence(form):
    """The family holds the posterior: mean and precision are joint, and there is nothing else to know."""
    X = rows(7, 2, 2)
    model, _ = model_of(X, 1, form)
    bound = climb(model, X, 2)
    assert bound[0] == pytest.approx(bound[1], abs=1e-10)
    if form == "full":
        assert bound[1] == pytest.approx(evidence(X, model), abs=1e-9)
        return
    columns = 0.0
    for j in range(2):  # each of a normal-gamma prior, but all with the same strength
        one, _ = model_of(X[:, j : j + 1], 1, "full", df=3)
        columns += evidence(X[:, j : j + 1], one)
    assert bound[1] == pytest.approx(columns, abs=1e-9)


@pytest.mark.spec("BAY-45", "INF-83")
def test_the_bound_is_below_the_sum_over_all_assignments():
    X = rows(3, 1, 2, seed=3)
    model, _ = model_of(X, 2)
    bound = climb(model, X, 60)
    alpha, n, each = 0.7, len(X), []
    for z in itertools.product((0, 1), repeat=n):
        z = np.array(z)
        counts = np.bincount(z, minlength=2)
        weights = gammaln(2 * alpha) - gammaln(2 * alpha + n) + (gammaln(alpha + counts) - gammaln(alpha)).sum()
        each.append(weights + sum(evidence(X[z == k], model) for k in (0, 1)))
    assert bound[-1] < logsumexp(each)
    assert bound[-1] > logsumexp(each) - 3


@pytest.mark.spec("BAY-45", "INF-83")
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("form", ["full", "diag"])
def test_the_bound_never_falls_and_is_what_it_says(form, prior):
    """By its definition, E_q[log p(x, z, theta) - log q], with expectations over draws of the parameters' factors."""
    X = rows(20, 2, 2, seed=4)
    model, _ = model_of(X, 3, form, prior)
    bound = climb(model, X, 40)
    assert (np.diff(bound) >= -1e-10).all()
    stated = float(model.expect(X, np.ones(len(X)))["log_likelihood"]) + model.log_prior()
    random, n = np.random.default_rng(0), 4000
    if prior == "dirichlet":
        weights = random.dirichlet(model.shape[0], n)
    else:
        v = random.beta(*model.shape, size=(n, 3))
        weights = v * np.cumprod(np.concatenate([np.ones((n, 1)), 1 - v], 1), 1)[:, :3]
    logs = np.empty((n, len(X), 3))
    for k in range(3):
        nu, C = model.df[k], model.normals.covariances[k]
        if form == "full":
            precision = stats.wishart.rvs(nu, np.linalg.inv(C * nu), size=n, random_state=random)
        else:
            precision = np.stack([np.diag(one) for one in random.gamma(nu / 2, 2 / (nu * C), size=(n, 2))])
        root = np.linalg.cholesky(np.linalg.inv(precision * model.strength[k]))
        mean = model.means[k] + (root @ random.normal(size=(n, 2, 1)))[:, :, 0]
        off = X[None] - mean[:, None]
        square = np.einsum("sni,sij,snj->sn", off, precision, off)
        log_det = np.linalg.slogdet(precision)[1][:, None]
        logs[:, :, k] = np.log(weights[:, k])[:, None] + 0.5 * (log_det - square) - math.log(2 * math.pi)
    expected = logs.mean(0)
    drawn = logsumexp(expected, axis=1).sum() + model.log_prior()
    error = logs.sum((1, 2)).std() / math.sqrt(n)
    assert abs(drawn - stated) < 5 * error  # seed fixed; 5 standard errors, below 1e-6 by chance


@pytest.mark.spec("INF-83")
@pytest.mark.parametrize("strength", [0.5, 3.0])
def test_the_divergence_from_the_prior_by_the_entropies_of_its_parts(strength):
    """KL of normal-Wishart factors from their prior: minus their entropy, minus the mean log density of the prior."""
    X = rows(15, 2, 2, seed=5)
    model, _ = model_of(X, 2, strength=strength)
    climb(model, X, 3)
    random, found = np.random.default_rng(1), model._divergences()
    prior = NormalWishart(
        model.prior["mean"], strength, float(model.prior["df"]), np.linalg.inv(model.prior["scatter"])
    )
    for k in range(2):
        q = NormalWishart(
            model.means[k], model.strength[k], model.df[k], np.linalg.inv(model.normals.covariances[k] * model.df[k])
        )
        mean, precision = q.sample(Noise(int(random.integers(99)), f"draw/{k}"), 0, (20_000,))
        values = prior.log_prob(mean, precision)
        known = -q.entropy() - values.mean()
        assert found[k] == pytest.approx(known, abs=5 * values.std() / math.sqrt(20_000))


@pytest.mark.spec("INF-83", "BAY-45")
@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize("prior", PRIORS)
def test_every_iteration_is_scikit_learns_and_so_is_the_bound_up_to_its_constant(prior, offset):
    X = rows(40, offset=offset)
    (n, d), k = X.shape, 4
    model, part = model_of(X, k, "full", prior)
    p = model.prior
    kind = prior.replace("-", "_") + ("" if "process" in prior else "_distribution")
    peer = Peer(
        n_components=k, weight_concentration_prior_type=kind, weight_concentration_prior=0.7, mean_precision_prior=0.5,
        mean_prior=p["mean"], degrees_of_freedom_prior=d + 1, covariance_prior=p["scatter"], reg_covar=0,
    )  # fmt: skip
    peer._check_parameters(X)
    peer._initialize(X, part)
    log_wishart = -((d + 1) * -0.5 * np.linalg.slogdet(p["scatter"])[1] + (d + 1) * d / 2 * math.log(2))
    log_wishart -= sum(gammaln((d + 1 - j) / 2) for j in range(d))
    constant = k * (log_wishart + d / 2 * math.log(0.5)) - n * d / 2 * math.log(2 * math.pi)
    constant += gammaln(k * 0.7) - k * gammaln(0.7) if prior == "dirichlet" else k * math.log(0.7)
    before = -np.inf
    for _ in range(30):
        sums = model.expect(X, np.ones(n))
        ours = float(sums["log_likelihood"]) + model.log_prior()
        log_norm, log_part = peer._e_step(X)
        model.maximize(sums)
        peer._m_step(X, log_part)
        theirs = peer._compute_lower_bound(log_part, log_norm) + constant  # after both steps
        assert before - 1e-8 <= ours <= theirs + 1e-8
        before = theirs
        same = float((np.exp(log_part) * (model.log_rho(X) - log_part)).sum()) + model.log_prior()
        assert same == pytest.approx(theirs, abs=1e-6)
    np.testing.assert_allclose(model.means, peer.means_, atol=1e-8)
    np.testing.assert_allclose(model.normals.covariances, peer.covariances_, atol=1e-7)
    theirs = peer.weight_concentration_ if prior == "dirichlet-process" else [peer.weight_concentration_]
    np.testing.assert_allclose(model.shape, theirs, atol=1e-8)


@pytest.mark.spec("INF-83")
@pytest.mark.parametrize("prior", PRIORS)
def test_components_in_the_order_of_their_rows_have_the_best_bound(prior):
    """Of all 24 orders; of a Dirichlet prior they are alike."""
    X = rows(20, 2, 2, seed=4)
    model, _ = model_of(X, 4, "full", prior)
    climb(model, X, 5)
    held, bounds = model.strength - 0.5, []
    part = model.normals.log_prob(X)  # labels that the order does not move
    for order in itertools.permutations(range(4)):
        other, _ = model_of(X, 4, "full", prior)
        other.load(
            model.state() | {"means": model.means[list(order)], "covariances": model.normals.covariances[list(order)]}
        )
        other._weigh(held[list(order)])
        bounds.append(other.log_prior() + float(other._mean_log_weights() @ held[list(order)]))
    model.sort()
    assert (np.diff(model.strength) <= 0).all()
    sorted_bound = model.log_prior() + float(model._mean_log_weights() @ (model.strength - 0.5))
    assert sorted_bound == pytest.approx(max(bounds), abs=1e-10)
    assert np.ptp(bounds) < 1e-9 if prior == "dirichlet" else np.ptp(bounds) > 0.1
    np.testing.assert_allclose(np.sort(model.normals.log_prob(X), 1), np.sort(part, 1), atol=1e-10)


@pytest.mark.spec("INF-83")
@pytest.mark.parametrize("form", ["full", "diag"])
def test_the_sums_that_the_factors_have_learned_from_give_them_back(form):
    X = rows(20, 2, 2, seed=6)
    model, _ = model_of(X, 3, form)
    climb(model, X, 4)
    before = {name: np.array(value) for name, value in model.state().items()}
    sums = model.expect(X, np.ones(len(X)))
    assert model.expected_joint(sums) == pytest.approx(
        float((np.exp(model.log_rho(X) - logsumexp(model.log_rho(X), 1, keepdims=True)) * model.log_rho(X)).sum()),
        abs=1e-8,
    )
    model.maximize(model.own(float(len(X))))
    for name, value in model.state().items():
        np.testing.assert_allclose(value, before[name], rtol=1e-9, atol=1e-9)


@pytest.mark.spec("INF-83")
@pytest.mark.parametrize("em", ["generalized", "hard", "incremental"])
def test_forms_of_em_never_lower_their_bound(em):
    X = rows(100, 2, 3, seed=7)
    fitted = BayesianGaussianMixture(n_components=5, em=em, max_iter=40, tol=0, random_state=0).fit(X)
    assert (np.diff(fitted.history_["objective"]) >= -1e-10).all()
    online = BayesianGaussianMixture(n_components=5, em=Online(batch_size=64), random_state=0).fit(X)
    assert online.lower_bound_ > fitted.history_["objective"][0]


@pytest.mark.spec("INF-83")
def test_defaults_and_priors_are_scikit_learns():
    X = load_iris().data
    model = BayesianGaussianMixture(n_components=5, max_iter=1, random_state=0).fit(X).model_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an end without convergence
        peer = Peer(n_components=5, max_iter=1, random_state=0).fit(X)
    p = model.prior
    assert float(p["shape"]) == peer.weight_concentration_prior_
    assert float(p["strength"]) == peer.mean_precision_prior_
    assert float(p["df"]) == peer.degrees_of_freedom_prior_
    np.testing.assert_allclose(p["mean"], peer.mean_prior_, rtol=1e-12)
    np.testing.assert_allclose(p["scatter"], peer.covariance_prior_, rtol=1e-4)  # and a little on the diagonal
    assert peer.weight_concentration_prior_type == "dirichlet_process"


@pytest.mark.spec("INF-83")
def test_components_that_are_not_needed_are_left_empty():
    random = np.random.default_rng(0)
    X = np.concatenate([random.normal(c, 1, size=(100, 2)) for c in (-8, 0, 8)])
    mixture = BayesianGaussianMixture(n_components=8, max_iter=2000, tol=1e-9, random_state=0).fit(X)
    assert (mixture.weights_ > 0.02).sum() == 3
    assert sorted(np.bincount(mixture.labels_)[np.unique(mixture.labels_)]) == [100, 100, 100]
    objective = np.array(mixture.history_["objective"])
    assert (np.diff(objective) >= -1e-12).all()
    np.testing.assert_allclose(mixture.strength_.sum(), 8 + 300)
    np.testing.assert_allclose(mixture.df_.sum(), 8 * 2 + 300)
    starts = BayesianGaussianMixture(n_components=8, n_init=3, random_state=0, mixing_prior="dirichlet").fit(X)
    assert starts.history_["start"][-1] == 2


@pytest.mark.spec("INF-83")
def test_weights_of_rows_are_repetitions_and_saved_fits_go_on(tmp_path):
    X = rows(20, 2, 2)
    weight = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    options = {"n_components": 2, "random_state": 0, "max_iter": 400, "tol": 0.0}
    weighted = BayesianGaussianMixture(**options).fit(X, sample_weight=weight)
    repeated = BayesianGaussianMixture(**options).fit(np.repeat(X, weight.astype(int), 0))
    np.testing.assert_allclose(weighted.history_["objective"][-1], repeated.history_["objective"][-1], atol=1e-9)
    weighted.save(tmp_path / "run")
    again = gnomon.load(tmp_path / "run")
    np.testing.assert_array_equal(again.log_prob(X), weighted.log_prob(X))
    assert again.model_.log_prior() == weighted.model_.log_prior()


@pytest.mark.spec("INF-83")
def test_what_cannot_be_is_refused_and_degenerate_rows_are_borne():
    X = rows(10, 3, 2)
    with pytest.raises(UserError, match="df must be above 2"):
        BayesianGaussianMixture(n_components=2, df=1.5).fit(X)
    with pytest.raises(UserError, match="concentration"):
        BayesianGaussianMixture(n_components=2, concentration=0.0).fit(X)
    flat = np.column_stack([X, np.full(len(X), 7.0), X[:, 0]])
    for form in ("full", "diag"):
        fitted = BayesianGaussianMixture(n_components=3, covariance=form, random_state=0).fit(flat)
        assert np.isfinite(fitted.log_prob(flat)).all()
        assert (np.diff(fitted.history_["objective"]) >= -1e-9).all()
