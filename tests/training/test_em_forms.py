"""Forms of expectation maximization: Fisher's identity, bounds taken term by term, limits in which one is another."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp, xlogy
from sklearn.mixture import GaussianMixture as Peer

from gnomon.data.batches import Batches
from gnomon.data.examples import Examples
from gnomon.data.layouts import Rows
from gnomon.distributions.gaussian import FORMS
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise
from gnomon.systems.mixtures.bernoulli_mixture import BernoulliMixture, BernoulliMixtureModel
from gnomon.systems.mixtures.gaussian_mixture import GaussianMixture, GaussianMixtureModel
from gnomon.training.em_forms import Full, Generalized, Hard, Incremental, Online, _move, _renew
from gnomon.training.group import Group
from gnomon.training.procedure import Problem

RANDOM = np.random.default_rng(0)
REAL = RANDOM.normal(size=(60, 2)) @ [[1.0, 0.5], [0.0, 0.7]] + np.repeat([[0.0, 1.0], [3.0, 0.0], [1.0, 4.0]], 20, 0)
BITS = (REAL[:, [0, 1, 0, 1]] > [0.0, 0.5, 1.0, 2.0]).astype(np.float64)
WEIGHT = RANDOM.uniform(0.5, 2.0, size=60)
KINDS = ("full", "tied", "diag", "spherical")


def covariances(form, k=3, d=2):
    random = np.random.default_rng(3)
    square = random.normal(size=(k, d, d))
    whole = square @ square.transpose(0, 2, 1) + np.eye(d)
    return {"full": whole, "tied": whole[0], "diag": whole[:, range(d), range(d)], "spherical": whole[:, 0, 0]}[form]


def model_of(kind):
    """A mixture that fits nothing yet: a Gaussian one of this form, or of bits."""
    shares = [0.2, 0.5, 0.3]
    if kind == "bits":
        means = np.random.default_rng(1).uniform(0.2, 0.8, size=(3, 4))
        return BernoulliMixtureModel(shares, means, smoothing=0.3), BITS
    means = np.random.default_rng(2).normal(size=(3, 2)) + 1.0
    return GaussianMixtureModel(shares, means, covariances(kind), kind), REAL


def parameters(model):
    return {name: np.array(value) for name, value in model.state().items()}


def equal(one, other, tolerance=1e-10):
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], rtol=tolerance, atol=tolerance)


def problem(model, X, size=None, shuffle=False, weight=WEIGHT):
    noise = Noise(0, "fit")
    return Problem(model, Batches(Examples({"X": X}, weight), Rows(size, shuffle=shuffle), noise=noise), noise, Group())


def passes(procedure, task, n):
    state, records = procedure.start(task), []
    for _ in range(n):
        state, info = procedure.step(state)
        records.append(info.record)
    return records


@pytest.mark.spec("INF-76")
def test_two_components_in_numbers_and_the_bound_behind_an_expectation():
    X = np.array([[-1.0], [0.0], [4.0], [5.0]])
    model = GaussianMixtureModel([0.5, 0.5], [[-1.0], [1.0]], [1.0, 1.0], "spherical")
    likelihoods = []
    for iteration in range(3):
        sums = model.expect(X, np.ones(4))
        likelihoods.append(float(sums["log_likelihood"]))
        posterior = model.posterior(X)
        entropy = -xlogy(posterior, posterior).sum()
        assert model.expected_joint(sums) + entropy == pytest.approx(likelihoods[-1], abs=1e-10)
        other = np.full_like(posterior, 0.5)
        loose = (other * (model.log_joint(X) - np.log(other))).sum()
        assert loose < likelihoods[-1]
        model.maximize(sums)
        if iteration == 0:
            np.testing.assert_allclose(model.means[:, 0], [-0.636579, 3.390543], atol=1e-6)
            np.testing.assert_allclose(model.normals.covariances, [0.237188, 4.203148], atol=1e-6)
            np.testing.assert_allclose(model.weights, [0.345294, 0.654706], atol=1e-6)
    np.testing.assert_allclose(likelihoods, [-18.627887, -7.834508, -7.225637], atol=1e-6)


@pytest.mark.spec("INF-76")
@pytest.mark.filterwarnings("ignore:.*did not converge")
@pytest.mark.parametrize("form", KINDS)
def test_every_iteration_is_that_of_scikit_learn(form):
    model, X = model_of(form)
    precisions = {"full": np.linalg.inv, "tied": np.linalg.inv}.get(form, lambda c: 1 / c)(covariances(form))
    for n in (1, 2, 5):
        peer = Peer(
            3, covariance_type=form, reg_covar=0, tol=0, max_iter=n, weights_init=model_of(form)[0].weights,
            means_init=model_of(form)[0].means, precisions_init=precisions,
        ).fit(X)  # fmt: skip
        model, _ = model_of(form)
        records = passes(Full().build(99, 0.0), problem(model, X, weight=np.ones(len(X))), n)
        np.testing.assert_allclose(model.means, peer.means_, rtol=1e-9)
        np.testing.assert_allclose(model.weights, peer.weights_, rtol=1e-9)
        assert records[-1]["log_likelihood"] == pytest.approx(peer.lower_bound_, abs=1e-9)


@pytest.mark.spec("INF-76")
def test_a_fit_says_whether_it_has_converged():
    short = GaussianMixture(n_components=2, max_iter=2, tol=1e-12, random_state=0).fit(REAL)
    assert not short.converged_ and short.n_iter_ == 2
    for starts in (1, 3):
        whole = GaussianMixture(n_components=2, max_iter=500, n_init=starts, random_state=0).fit(REAL)
        assert whole.converged_ and whole.lower_bound_ == pytest.approx(whole.score(REAL), abs=1e-4)


@pytest.mark.spec("INF-77")
def test_expected_statistics_less_the_models_own_are_the_slope_of_the_likelihood():
    """Fisher's identity by autograd in the natural parameters of the complete data, bits and full covariances."""
    model, X = model_of("bits")
    model.smoothing = 0.0
    eta = torch.tensor(np.log(model.means / (1 - model.means)), requires_grad=True)
    a = torch.tensor(np.log(model.weights) + np.log1p(-model.means).sum(1), requires_grad=True)
    log_z = torch.logsumexp(a + torch.nn.functional.softplus(eta).sum(1), 0)
    found = torch.logsumexp(a + torch.tensor(X) @ eta.T, 1) - log_z
    np.testing.assert_allclose(found.detach(), model.log_prob(X), atol=1e-12)
    (torch.tensor(WEIGHT) * found).sum().backward()
    sums, own = model.expect(X, WEIGHT), model.own(WEIGHT.sum())
    np.testing.assert_allclose(sums["rows"] - own["rows"], a.grad, atol=1e-10)
    np.testing.assert_allclose(sums["ones"] - own["ones"], eta.grad, atol=1e-10)

    model, X = model_of("full")
    precision = np.linalg.inv(model.normals.covariances)
    linear = torch.tensor((precision @ model.means[:, :, None])[:, :, 0], requires_grad=True)
    square = torch.tensor(-0.5 * precision, requires_grad=True)
    quadratic = 0.5 * (model.means[:, None] @ precision @ model.means[:, :, None])[:, 0, 0]
    half = 0.5 * np.linalg.slogdet(model.normals.covariances)[1]
    a = torch.tensor(np.log(model.weights) - quadratic - half, requires_grad=True)
    inside = torch.linalg.solve(-2 * square, linear[:, :, None])[:, :, 0]
    log_z = torch.logsumexp(a + 0.5 * (linear * inside).sum(1) - 0.5 * torch.logdet(-2 * square), 0)
    x = torch.tensor(X)
    found = torch.logsumexp(a + x @ linear.T + torch.einsum("ni,kij,nj->nk", x, square, x), 1) - log_z
    (torch.tensor(WEIGHT) * found).sum().backward()
    raw = FORMS["full"](np.zeros((3, 2)), np.tile(np.eye(2), (3, 1, 1)))  # moments about 0, in the columns' own units
    sums, own = (
        raw.moved(one, model.normals) | {"rows": one["rows"]}
        for one in (model.expect(X, WEIGHT), model.own(WEIGHT.sum()))
    )
    np.testing.assert_allclose(sums["rows"] - own["rows"], a.grad, atol=1e-10)
    np.testing.assert_allclose(sums["first"] - own["first"], linear.grad, atol=1e-9)
    np.testing.assert_allclose(sums["second"] - own["second"], square.grad, atol=1e-9)


@pytest.mark.spec("INF-77")
@pytest.mark.parametrize("kind", ["bits", *KINDS])
def test_what_a_model_expects_of_itself_changes_nothing_and_sums_follow_the_parameters(kind):
    model, X = model_of(kind)
    before = parameters(model)
    model.maximize(model.own(7.0))
    equal(before, parameters(model))
    part = model.posterior(X) * WEIGHT[:, None]
    sums = model.collect(X, part)
    then = parameters(model)
    model.maximize(model.expect(X, WEIGHT))
    moved, direct = model.moved(sums, then), model.collect(X, part)
    equal(direct, moved, 1e-9)
    stacked = {name: np.stack([value, 2 * value]) for name, value in sums.items()}
    equal({name: np.stack([v, 2 * v]) for name, v in direct.items()}, model.moved(stacked, then), 1e-9)
    assert model.expected_joint(direct) == pytest.approx(float((part * model.log_joint(X)).sum()), rel=1e-10)


@pytest.mark.spec("INF-77")
@pytest.mark.parametrize("kind", ["bits", *KINDS])
def test_steps_of_part_of_the_way_never_lower_the_objective_and_many_are_the_whole(kind):
    model, X = model_of(kind)
    records = passes(Generalized(steps=1, step_size=0.3).build(99, 0.0), problem(model, X), 25)
    assert (np.diff([one["objective"] for one in records]) > -1e-12).all()
    many, whole = model_of(kind)[0], model_of(kind)[0]
    passes(Generalized(steps=80, step_size=0.4).build(99, 0.0), problem(many, X), 3)
    passes(Full().build(99, 0.0), problem(whole, X), 3)
    equal(parameters(whole), parameters(many), 1e-9)
    one, two = model_of(kind)[0], model_of(kind)[0]
    passes(Generalized(steps=2, step_size=0.5).build(99, 0.0), problem(one, X), 1)
    passes(Generalized(steps=1, step_size=0.75).build(99, 0.0), problem(two, X), 1)
    equal(parameters(one), parameters(two))


@pytest.mark.spec("INF-77")
@pytest.mark.parametrize("kind", ["bits", *KINDS])
def test_one_row_at_a_time_never_lowers_the_bound(kind):
    """The bound of every update, term by term from the posteriors that each row was last given."""
    model, X = model_of(kind)
    X, weight = X[::2], WEIGHT[::2]
    procedure = Incremental(batch_size=1).build(99, 0.0)
    state = procedure.start(problem(model, X, 1, weight=weight))
    posteriors = model.posterior(X)
    first = procedure.step(state)[1].record
    assert first["bound"] == pytest.approx(float(weight @ logsumexp(model_of(kind)[0].log_joint(X), 1)) / weight.sum())

    def bound():
        return float((weight[:, None] * (posteriors * model.log_joint(X) - xlogy(posteriors, posteriors))).sum())

    reached = [bound() + model.log_prior()]
    for i in range(len(X)):
        posteriors[i] = model.posterior(X[i : i + 1])
        _renew(state, i)
        _move(state)
        reached.append(bound() + model.log_prior())
    assert (np.diff(reached) > -1e-9).all() and reached[-1] > reached[0] + 0.1
    twin = model_of(kind)[0]
    twin.load(parameters(model))
    for i in range(len(X)):
        posteriors[i] = twin.posterior(X[i : i + 1])
        twin.maximize(twin.collect(X, posteriors * weight[:, None]))
    record = procedure.step(state)[1].record
    equal(parameters(twin), parameters(model), 1e-8)
    assert record["bound"] * weight.sum() == pytest.approx(bound(), rel=1e-9)


@pytest.mark.parametrize("form", [Incremental(1000), Online(1000)])
@pytest.mark.parametrize("kind", ["bits", *KINDS])
def test_one_batch_of_all_rows_is_the_full_form(kind, form):
    one, whole = model_of(kind)[0], model_of(kind)[0]
    X = model_of(kind)[1]
    passes(form.build(99, 0.0), problem(one, X, form.rows), 4)
    passes(Full().build(99, 0.0), problem(whole, X), 4)
    equal(parameters(whole), parameters(one), 1e-9)


def test_an_online_pass_is_the_running_mean_of_moments():
    """By hand in one column: counts, sums and squares that forget."""
    X, model = REAL[:, :1], GaussianMixtureModel([0.4, 0.6], [[0.0], [2.0]], [1.0, 1.0], "spherical")
    form = Online(batch_size=20, power=0.7, delay=3.0)
    procedure = form.build(99, 0.0)
    state = procedure.start(problem(model, X, 20))
    state, _ = procedure.step(state)
    weights, means, variances = model.weights.copy(), model.means[:, 0].copy(), model.normals.covariances.copy()
    for t in range(3):
        x, w = X[20 * t : 20 * t + 20, 0], WEIGHT[20 * t : 20 * t + 20]
        density = weights * np.exp(-0.5 * (x[:, None] - means) ** 2 / variances) / np.sqrt(variances)
        part = w[:, None] * density / density.sum(1, keepdims=True) / w.sum()
        share = (t + 3.0) ** -0.7
        own = np.stack([weights, weights * means, weights * (variances + means**2)])
        seen = np.stack([part.sum(0), part.T @ x, part.T @ x**2])
        rows, first, second = (1 - share) * own + share * seen
        weights, means = rows, first / rows
        variances = second / rows - means**2
    procedure.step(state)
    np.testing.assert_allclose(model.weights, weights, rtol=1e-9)
    np.testing.assert_allclose(model.means[:, 0], means, rtol=1e-9)
    np.testing.assert_allclose(model.normals.covariances, variances, rtol=1e-9)


@pytest.mark.parametrize("kind", ["bits", *KINDS])
def test_hard_iterations_fit_the_rows_of_each_component_alone(kind):
    model, X = model_of(kind)
    model.floor = np.array(1e-3)  # a component may end with one row
    before = model_of(kind)[0]
    records = passes(Hard().build(99, 0.0), problem(model, X), 1)
    joint = before.log_joint(X)
    assert records[0]["log_joint"] == pytest.approx(float(WEIGHT @ joint.max(1)) / WEIGHT.sum(), rel=1e-12)
    labels = joint.argmax(1)
    for c in np.unique(labels):
        w, rows = WEIGHT[labels == c], X[labels == c]
        assert model.weights[c] == pytest.approx(w.sum() / WEIGHT.sum())
        mean = (w @ rows + 0.3) / (w.sum() + 0.6) if kind == "bits" else w @ rows / w.sum()
        np.testing.assert_allclose(model.means[c], mean, rtol=1e-10)
    more = passes(Hard().build(99, 0.0), problem(model, X), 20)
    assert (np.diff([one["objective"] for one in more]) > -1e-12).all()


@pytest.mark.spec("INF-77")
@pytest.mark.parametrize("system", [GaussianMixture, BernoulliMixture])
def test_chunks_reach_what_a_fit_reaches(system):
    X = REAL if system is GaussianMixture else BITS
    X = np.tile(X, (20, 1))[np.random.default_rng(0).permutation(1200)]
    whole = system(n_components=2, random_state=0, n_init=1).fit(X)
    online = system(n_components=2, random_state=0, em=Online(batch_size=100)).fit(X)
    stream = system(n_components=2, random_state=0)
    for chunk in np.array_split(X, 12) * 5:
        stream.partial_fit(chunk)
    assert online.score(X) > whole.score(X) - 0.01
    assert stream.score(X) > whole.score(X) - 0.02
    before = parameters(stream.model_)
    stream.partial_fit(X[:0])
    equal(before, parameters(stream.model_), 0)
    assert not hasattr(stream, "converged_") and not hasattr(stream, "lower_bound_")
    expected = system(n_components=2, random_state=0).partial_fit(X[:50])
    once = system(n_components=2, random_state=0, max_iter=1, tol=0.0).fit(X[:50])
    equal(parameters(once.model_), parameters(expected.model_))
    assert stream.n_steps_ == 60 and stream.labels_.shape == (100,)


def test_a_stream_refuses_what_does_not_fit_and_stays_as_it_was():
    stream = GaussianMixture(n_components=3, random_state=0)
    with pytest.raises(UserError, match="at most n_samples=2"):
        stream.partial_fit(REAL[:2])
    stream.partial_fit(REAL)
    before = parameters(stream.model_)
    with pytest.raises(UserError, match="columns"):
        stream.partial_fit(REAL[:, :1])
    stream.n_components = 2
    with pytest.raises(UserError, match="n_components"):
        stream.partial_fit(REAL)
    equal(before, parameters(stream.model_), 0)
