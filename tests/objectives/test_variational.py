"""Variational bounds: values by closed form, quadrature and enumeration, gradients of every estimator against them.

Random tests have fixed seeds. Where a mean over draws is compared with an exact gradient, each of at most 30 numbers
must lie within 5 standard errors: a right estimator fails with probability below 30 * 6e-7 = 2e-5 at another seed.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from gnomon.distributions.latents import (
    BinaryCodes,
    BinaryLatents,
    DiagonalGaussian,
    GaussianLatents,
    kl_standard_normal,
)
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.latent_likelihood import latent_log_prob, latent_score
from gnomon.numeric.noise import Noise
from gnomon.objectives.estimators import DoublyReparametrized, Pathwise, ScoreFunction
from gnomon.objectives.variational import ELBO, IWAE, log_weights
from gnomon.training.group import Group
from oracles.latents import Coins, Line, batch_of, flat, gradients, loss_of

F64 = torch.float64
X = np.array([[0.4, -1.1, 0.7], [1.5, 0.2, -0.3]])
BITS = np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])


class Unit:
    """z ~ N(0, 1), x | z ~ N(z, 1), and a q that does not look at x."""

    latents = GaussianLatents()

    def __init__(self, mean, variance):
        self.q = torch.tensor([mean, math.log(variance)], dtype=F64)

    def encode(self, x):
        return self.latents.codes(self.q.expand(len(x), 2))

    def infer(self, x, noise):
        codes = self.encode(x)
        z = codes.sample(noise)
        return z, codes.log_prob(z)

    def log_likelihood(self, x, z):
        return -0.5 * ((x - z).square() + math.log(2 * math.pi)).sum(1)

    def log_joint(self, x, z):
        return self.log_likelihood(x, z) + self.latents.log_prior(z)

    def sample_prior(self, n, noise):
        return noise.normal((n, 1), like=self.q)

    def divergence(self, codes):
        return self.latents.divergence(codes)


def values(recipe, model, x, draws=1, seed=0):
    """Bounds of many copies of one row, as a float64 array."""
    objective = recipe.build()
    batch = batch_of(np.repeat(x, draws, axis=0))
    codes = model.encode(torch.as_tensor(batch.data["X"]))
    z = objective.estimator.draw(codes, Noise(seed, "draws").rows(batch.positions), objective.draws)
    signal, closed = objective.parts(model, torch.as_tensor(batch.data["X"]), z, codes, codes)
    return (objective.combine(signal) + objective.closed(closed, Noise(seed, "draws"))).detach().numpy()


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-086", "GEN-087", "BAY-64", "BAY-72")
def test_the_bound_of_a_gaussian_pair_is_the_published_number():
    x, exact = np.array([[2.0]]), -2.265512
    posterior = Unit(1.0, 0.5)
    q = posterior.encode(torch.tensor(x))
    assert float(posterior.divergence(q).sum()) == pytest.approx(0.596574, abs=5e-7)
    reconstruction = values(ELBO(), posterior, x, 200_000).mean() + 0.596574
    assert reconstruction == pytest.approx(-1.668939, abs=4 * 0.71 / math.sqrt(200_000))
    # no variance at the posterior with the full Monte Carlo form: every draw answers log p(x)
    full = values(ELBO(form="monte-carlo"), posterior, x, 50)
    assert np.allclose(full, exact, atol=5e-7) and full.std() < 1e-12
    assert values(ELBO(), posterior, x, 50).std() > 0.1 < values(ELBO(form="entropy"), posterior, x, 50).std()
    wide = kl_standard_normal(torch.tensor([1.0, -1.0]), 2 * torch.tensor([0.5, 2.0]).log()).sum()
    assert float(wide) == pytest.approx(2.125, abs=1e-6)


@pytest.mark.spec("GEN-088", "BAY-64")
def test_the_importance_bound_rises_with_k_to_log_p():
    x, prior = np.array([[2.0]]), Unit(0.0, 1.0)
    n, found = 100_000, []
    for k, exact in ((1, -3.418939), (2, -2.757902)):
        one = values(IWAE(k=k), prior, x, n, seed=k)
        assert one.mean() == pytest.approx(exact, abs=5 * one.std() / math.sqrt(n))
        found.append(one.mean())
    many = values(IWAE(k=1000), prior, x, 500)
    assert many.mean() == pytest.approx(-2.265512, abs=0.01)
    ten = values(IWAE(k=10), prior, x, 20_000).mean()
    assert found[0] < found[1] < ten < many.mean()
    # k = 1 is the ELBO, draw for draw
    assert np.array_equal(values(IWAE(k=1), prior, x, 20), values(ELBO(form="monte-carlo"), prior, x, 20))
    # the evaluation's bound is the same quantity, in chunks too
    score = latent_score(prior, prior, torch.tensor(x).expand(50, 1), 1000, Noise(0, "score"), batch_size=300)
    assert score.kind == "lower bound" and score.value == pytest.approx(-2.265512, abs=0.02)


@pytest.mark.spec("GEN-087", "GEN-086")
def test_the_forms_agree_in_mean_with_the_exact_bound():
    model, n = Line(), 100_000
    exact = model.elbo(torch.tensor(X)).detach().numpy()
    for recipe in (ELBO(), ELBO(form="entropy"), ELBO(form="monte-carlo"), ELBO(n_samples=3), IWAE(k=1)):
        for row in (0, 1):
            found = values(recipe, model, X[row : row + 1], n)
            assert abs(found.mean() - exact[row]) < 5 * found.std() / math.sqrt(n), recipe
    # the bound lies below log p by the divergence of q from the posterior
    log_p = model.log_prob(torch.tensor(X)).detach().numpy()
    assert (exact < log_p).all()
    precision = model.W.T @ model.W * torch.exp(-2 * model.log_s) + torch.eye(2, dtype=F64)
    mean = (torch.tensor(X) - model.b) @ model.W * torch.exp(-2 * model.log_s) @ torch.linalg.inv(precision)
    posterior = torch.distributions.MultivariateNormal(mean, precision_matrix=precision.expand(2, 2, 2))
    codes = model.encode(torch.tensor(X))
    q = torch.distributions.MultivariateNormal(codes.mean, torch.diag_embed(codes.log_variance.exp()))
    gap = torch.distributions.kl_divergence(q, posterior).detach().numpy()
    assert np.allclose(log_p - exact, gap, rtol=1e-10)


@pytest.mark.spec("BAY-64", "BAY-65", "BAY-72", "GEN-086", "GEN-087", "INF-107")
def test_codes_have_the_moments_densities_and_divergences_of_torch():
    random = np.random.default_rng(0)
    mean, log_variance = (torch.tensor(random.normal(size=(3, 2))) for _ in "ab")
    ours, torchs = DiagonalGaussian(mean, log_variance), torch.distributions.Normal(mean, (log_variance / 2).exp())
    z = ours.sample(Noise(0, "z"), draws=4)
    assert z.shape == (12, 2)
    by_row = z.reshape(3, 4, 2)
    assert torch.allclose(ours.log_prob(z).reshape(3, 4), torchs.log_prob(by_row.movedim(1, 0)).sum(2).T)
    assert torch.allclose(ours.entropy(), torchs.entropy().sum(1))
    prior = torch.distributions.Normal(torch.zeros(3, 2, dtype=F64), 1.0)
    divergence = torch.distributions.kl_divergence(torchs, prior)
    assert torch.allclose(GaussianLatents().divergence(ours), divergence) and divergence.shape == (3, 2)
    t, w = np.polynomial.hermite_e.hermegauss(40)  # and by quadrature: E_q[log q - log p]
    nodes = mean[..., None] + (log_variance / 2).exp()[..., None] * torch.from_numpy(t)
    spread = (log_variance / 2).exp()[..., None]
    log_ratio = 0.5 * nodes.square() - 0.5 * torch.from_numpy(t).square() - spread.log()
    assert torch.allclose((log_ratio * torch.from_numpy(w / w.sum())).sum(-1), divergence, rtol=1e-10)
    # no answer of an encoder makes variances of 0 or infinity
    far = GaussianLatents().codes(torch.tensor([[0.0, 0.0, -1e6, 1e6]]))
    assert far.log_variance.tolist() == [[-14.0, 14.0]] and bool(GaussianLatents().divergence(far).isfinite().all())
    coins = BinaryCodes(mean)
    bits = coins.sample(Noise(0, "z"), draws=4)
    law = torch.distributions.Bernoulli(logits=mean)
    bits_by_row = bits.reshape(3, 4, 2).movedim(1, 0)
    assert torch.allclose(coins.log_prob(bits).reshape(3, 4), law.log_prob(bits_by_row).sum(2).T)
    assert torch.allclose(coins.entropy(), law.entropy().sum(1)) and torch.equal(coins.mean, law.mean)
    fair = torch.distributions.Bernoulli(logits=torch.zeros_like(mean))
    assert torch.allclose(BinaryLatents().divergence(coins), torch.distributions.kl_divergence(law, fair))
    assert torch.allclose(BinaryLatents().log_prior(bits), fair.log_prob(bits_by_row).sum(2).T.reshape(-1))


def test_draws_depend_on_their_rows_alone():
    codes = Line().encode(torch.tensor(np.tile(X, (3, 1))))
    whole = codes.sample(Noise(0, "z").rows(np.arange(6)), draws=3)
    part = DiagonalGaussian(*(p[4:] for p in codes.parameters)).sample(Noise(0, "z").rows([4, 5]), draws=3)
    assert torch.equal(part, whole[12:])


# --- gradients --------------------------------------------------------------------------------------------------------


def mean_gradient(recipe, model, x, *, batches=60, copies=400):
    """Mean over draws of the gradient of -bound, and its standard errors."""
    objective, rows = recipe.build(), np.repeat(x, copies, axis=0)
    found = [flat(loss_of(objective, model, batch_of(rows), update=update), model).numpy() for update in range(batches)]
    # a running baseline begins at 0, which is unbiased too
    found = np.array(found)
    return found.mean(0), found.std(0, ddof=1) / math.sqrt(batches)


@pytest.mark.spec("BAY-71", "GEN-087", "INF-107", "BAY-65")
@pytest.mark.parametrize(
    "recipe",
    [
        ELBO(), ELBO(form="entropy"), ELBO(form="monte-carlo"), ELBO(form="monte-carlo", estimator="dreg"),
        ELBO(n_samples=2, estimator=ScoreFunction("leave-one-out")), ELBO(estimator="score"),
        ELBO(form="monte-carlo", estimator=ScoreFunction("none")),
    ],
    ids=lambda recipe: f"{recipe.form}-{recipe.estimator}",
)  # fmt: skip
def test_every_estimator_of_the_elbo_has_the_exact_gradient_in_mean(recipe):
    model = Line()
    exact = flat(-model.elbo(torch.tensor(X)).mean(), model).numpy()
    mean, error = mean_gradient(recipe, model, X)
    assert (np.abs(mean - exact) < 5 * error + 1e-9).all()
    assert np.abs(exact).max() > 50 * error.min()  # the test could tell


def quadrature(model, x, k, nodes=24):
    """Exact importance bound of a model with one latent variable, by Gauss and Hermite on the k-fold grid."""
    t, w = np.polynomial.hermite_e.hermegauss(nodes)
    w = w / w.sum()
    grid = torch.tensor(list(itertools.product(t, repeat=k)))
    weight = torch.tensor([math.prod(one) for one in itertools.product(w, repeat=k)])
    codes = model.encode(x)
    z = codes.mean[:, None] + (0.5 * codes.log_variance).exp()[:, None] * grid.reshape(1, -1, 1)
    log_w = log_weights(model, x, z.reshape(-1, 1), codes).reshape(len(x), -1, k)
    return ((torch.logsumexp(log_w, 2) - math.log(k)) * weight).sum(1)


@pytest.mark.spec("GEN-088")
@pytest.mark.parametrize("estimator", ["pathwise", "dreg", "score", ScoreFunction("leave-one-out")], ids=str)
def test_every_estimator_of_the_importance_bound_has_the_exact_gradient_in_mean(estimator):
    model = Line(k=1)
    exact = flat(-quadrature(model, torch.tensor(X), 2).mean(), model).numpy()
    mean, error = mean_gradient(IWAE(k=2, estimator=estimator), model, X, copies=800)
    assert (np.abs(mean - exact) < 5 * error + 1e-6).all()
    assert np.abs(exact).max() > 20 * error.min()


@pytest.mark.spec("BAY-71", "GEN-088")
def test_the_estimators_differ_in_variance_as_published():
    model, rows = Line(), np.repeat(X[:1], 2, axis=0)

    def spread(recipe, names=("A", "a", "c")):
        objective = recipe.build()
        found = [gradients(loss_of(objective, model, batch_of(rows), update=update), model) for update in range(80)]
        return sum(float(torch.stack([one[name] for one in found]).var(0).sum()) for name in names)

    path, score = spread(ELBO()), spread(ELBO(estimator=ScoreFunction("none")))
    running = spread(ELBO(estimator=ScoreFunction("running")))
    assert path < running / 3 < score / 3
    four, without = (spread(ELBO(n_samples=4, estimator=ScoreFunction(b))) for b in ("leave-one-out", "none"))
    assert four < without
    # the encoder's gradient of many weighted draws
    assert spread(IWAE(k=16, estimator="dreg")) < spread(IWAE(k=16, estimator="pathwise")) / 2


@pytest.mark.spec("GEN-087")
def test_no_variance_where_q_is_the_posterior_without_the_score_term():
    model = Line(k=1)  # one latent variable: a diagonal q can be the posterior
    with torch.no_grad():
        precision = 1 + model.W.square().sum() * torch.exp(-2 * model.log_s)
        model.A.copy_(model.W.T * torch.exp(-2 * model.log_s) / precision)
        model.a.copy_(-(model.A @ model.b))
        model.B.zero_()
        model.c.fill_(-float(precision.log()))
    rows = np.repeat(X, 5, axis=0)

    def largest(estimator):
        objective = ELBO(form="monte-carlo", estimator=estimator).build()
        found = gradients(loss_of(objective, model, batch_of(rows)), model)
        return max(float(found[name].abs().max()) for name in ("A", "a", "B", "c"))

    assert largest("dreg") < 1e-12 < 1e-2 < largest("pathwise")


class Forced:
    """Codes whose draws are given states, one row for each."""

    reparametrized = False

    def __init__(self, codes, states):
        self.codes, self.states = codes, states

    def sample(self, noise, draws=1):
        return self.states

    def log_prob(self, z):
        return self.codes.log_prob(z)

    def entropy(self):
        return self.codes.entropy()


class Everything(Coins):
    """Coins whose encoder answers every k-tuple of states in turn."""

    k = 1

    def encode(self, x):
        tuples = torch.stack([torch.cat(t) for t in itertools.product(self.states, repeat=self.k)])
        times = len(x) // len(tuples)
        return Forced(super().encode(x), tuples.repeat(times, 1).reshape(-1, self.states.shape[1]))

    def divergence(self, codes):
        return super().divergence(codes.codes)

    def chances(self, x):
        """q of every tuple of a row, as weights."""
        _, log_q = self.table(x)
        places = list(itertools.product(range(len(self.states)), repeat=self.k))
        return torch.stack([log_q[:, list(p)].sum(1) for p in places], 1).exp().detach()


@pytest.mark.spec("BAY-67")
@pytest.mark.parametrize(
    ("recipe", "k"),
    [
        (ELBO(estimator="score"), 1), (ELBO(form="entropy", estimator=ScoreFunction("none")), 1),
        (ELBO(form="monte-carlo", estimator="score"), 1),
        (ELBO(n_samples=2, estimator=ScoreFunction("leave-one-out")), 2), (ELBO(n_samples=2, estimator="score"), 2),
        (IWAE(k=2, estimator="score"), 2), (IWAE(k=2, estimator=ScoreFunction("leave-one-out")), 2),
        (IWAE(k=2, estimator=ScoreFunction("none")), 2),
        (IWAE(k=3, estimator=ScoreFunction("leave-one-out")), 3),
    ],
    ids=lambda value: str(getattr(value, "short", value)),
)  # fmt: skip
def test_the_score_function_has_the_exact_gradient_by_enumeration_of_batches_and_draws(recipe, k):
    data = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 1], [0, 1, 0]], float)
    model = Everything()
    model.k = k
    states = len(model.states) ** k
    exact = flat(-model.bound(torch.tensor(data), k if recipe.short == "iwae" else 1).mean(), model)
    for pairs in (list(itertools.combinations(range(4), 2)), list(itertools.product(range(4), repeat=2))):
        total = 0.0
        for pair in pairs:  # every mini-batch of two rows, without replacement and with
            rows = np.repeat(data[list(pair)], states, axis=0)
            weight = model.chances(torch.tensor(data[list(pair)])).reshape(-1).numpy()
            total = total + flat(loss_of(recipe.build(), model, batch_of(rows, weight=weight)), model)
        assert torch.allclose(total / len(pairs), exact, rtol=1e-10, atol=1e-12)


def test_the_running_baseline_is_the_weighted_mean_of_the_bounds_before():
    """Of every update's mean over its rows, 0.9 of the past kept, the missing past left out; no trace of validation."""
    model, objective = Coins(), ELBO(n_samples=2, form="monte-carlo", estimator="score").build()
    assert float(objective.control.baseline.mean(torch.zeros((), dtype=F64))) == 0.0
    data, weight, past = np.array([[1, 0, 1], [0, 0, 1.0]]), np.array([3.0, 0.5]), []
    for update in range(3):
        batch = batch_of(data, weight=weight)
        bound = -loss_of(objective, model, batch, update=update).item()
        past.append(bound)
        shares = 0.9 ** np.arange(len(past))[::-1]
        assert float(objective.control.baseline.mean(torch.zeros((), dtype=F64))) == pytest.approx(
            shares @ past / shares.sum(), rel=1e-12
        )
        objective.validate(model, batch, noise=Noise(1, "fit/test"), group=Group())
    nothing = batch_of(data, weight=np.zeros(2))
    objective(model, nothing, noise=Noise(0, "fit/test").at(9), phase="fit", group=Group())
    assert float(objective.control.baseline.mean(torch.zeros((), dtype=F64))) == pytest.approx(
        shares @ past / shares.sum(), rel=1e-12
    )


@pytest.mark.spec("BAY-66")
def test_batches_of_common_noise_add_up_to_the_full_gradient_and_differences_agree():
    model, objective = Line(), ELBO().build()
    random = np.random.default_rng(0)
    data, weight = random.normal(size=(10, 3)), random.uniform(0.5, 2, 10)
    whole = flat(loss_of(objective, model, batch_of(data, weight=weight)), model)
    parts = 0.0
    for chosen in (np.arange(4), np.arange(4, 8), np.arange(8, 10)):  # the last one is short
        part = batch_of(data[chosen], positions=chosen, weight=weight[chosen])
        parts = parts + flat(loss_of(objective, model, part), model) * part.weight.sum() / weight.sum()
    assert torch.allclose(parts, whole, rtol=1e-12)
    # differences with frozen noise
    name, parameter = "A", model.A
    analytic = gradients(loss_of(objective, model, batch_of(data)), model)[name][2]
    ends = []
    for step in (1e-6, -2e-6):
        with torch.no_grad():
            parameter.view(-1)[2] += step
        ends.append(loss_of(objective, model, batch_of(data)).item())
    assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(float(analytic), rel=1e-6)
    # another step draws other numbers
    assert loss_of(objective, model, batch_of(data), update=1).item() != ends[1]


@pytest.mark.spec("GEN-086", "BAY-64")
def test_the_rise_of_the_divergence_and_free_bits():
    model, batch = Line(), batch_of(X)
    plain = -values(ELBO(), model, X)
    divergence = model.divergence(model.encode(torch.tensor(X))).detach().numpy()
    lost = plain - divergence.sum(1)

    def loss(update=0, **fields):
        objective = ELBO(**fields).build()
        noise = Noise(0, "draws").at(update)
        z = objective.estimator.draw(model.encode(torch.tensor(X)), Noise(0, "draws").rows([0, 1]), 1)
        codes = model.encode(torch.tensor(X))
        signal, closed = objective.parts(model, torch.tensor(X), z, codes, codes)
        return -(objective.combine(signal) + objective.closed(closed, noise)).detach().numpy()

    assert np.allclose(loss(beta=4.0), lost + 4 * divergence.sum(1))
    for update, share in ((0, 0.25), (1, 0.5), (3, 1.0), (9, 1.0)):
        assert np.allclose(loss(update, warm_up=4), lost + share * divergence.sum(1))
    assert np.allclose(loss(free_bits=0.3), lost + np.maximum(divergence, 0.3).sum(1))
    # what is recorded: the weighted loss with what shapes it, and beside it the divergence without
    batch = batch_of(X, weight=np.array([3.0, 0.5]))

    def recorded(**fields):
        objective = ELBO(**fields).build()
        return objective(model, batch, noise=Noise(0, "fit/test"), phase="fit", group=Group()).terms

    terms = recorded(beta=4.0, free_bits=0.3)
    assert set(terms) == {"negative_bound", "divergence"} and all(term.weight == 3.5 for term in terms.values())
    assert float(terms["divergence"].sum) == pytest.approx(batch.weight @ divergence.sum(1), rel=1e-12)
    plain = recorded()["negative_bound"].sum.item()
    more = 4 * np.maximum(divergence, 0.3).sum(1) - divergence.sum(1)
    assert terms["negative_bound"].sum.item() == pytest.approx(plain + batch.weight @ more, rel=1e-12)


@pytest.mark.parametrize(
    ("make", "error", "told"),
    [
        (lambda: ELBO(estimator="dreg").build(), UserValueError, "form must be 'monte-carlo'"),
        (lambda: ELBO(form="entropy", beta=2.0).build(), UserValueError, "form must be 'kl'"),
        (lambda: ELBO(estimator=ScoreFunction("leave-one-out")).build(), UserValueError, "2 or more draws"),
        (lambda: ELBO(estimator="pathwize").build(), UserValueError, "did you mean 'pathwise'"),
        (lambda: loss_of(ELBO().build(), Coins(), batch_of(BITS)), UserTypeError, "use score"),
        (lambda: loss_of(IWAE().build(), Coins(), batch_of(BITS)), UserTypeError, "use score"),
    ],
)
def test_what_does_not_go_together_is_refused(make, error, told):
    with pytest.raises(error, match=told):
        make()


@pytest.mark.spec("GEN-084")
def test_the_prior_as_proposal_averages_the_likelihood():
    coins, line = Coins(), Line()

    class Prior:
        def __init__(self, model):
            self.model = model

        def infer(self, x, noise):
            z = self.model.sample_prior(len(x), noise)
            return z, self.model.latents.log_prior(z)

    copies = torch.tensor(X[:1]).expand(4000, 3)
    exact = line.log_prob(copies[:1]).item()
    found = latent_log_prob(line, Prior(line), copies, 4, Noise(0, "draws")).value
    p = np.exp(found)
    assert abs(p.mean() - math.exp(exact)) < 5 * p.std() / math.sqrt(len(p))  # p without bias
    assert found.mean() + 5 * found.std() / math.sqrt(len(found)) < exact  # log p too low
    W, b = coins.W.detach().numpy(), coins.b.detach().numpy()
    p = [1 / (1 + np.exp(-(W @ z + b))) for z in itertools.product((0, 1), repeat=2)]  # written out, each a quarter
    mixed = np.mean([(BITS * one + (1 - BITS) * (1 - one)).prod(1) for one in p], 0)
    np.testing.assert_allclose(coins.log_prob(torch.tensor(BITS)).detach(), np.log(mixed), rtol=1e-12)
    coins.sample_prior = lambda n, noise: coins.latents.sample_prior((n, 2), noise, coins.W)
    several = latent_log_prob(coins, Prior(coins), torch.tensor(BITS), 20_000, Noise(0, "draws"))
    assert (np.abs(several.value - coins.log_prob(torch.tensor(BITS)).detach().numpy()) < 5 * several.stderr).all()


def test_a_running_baseline_is_the_mean_of_earlier_batches_and_rests_on_validation_rows():
    model, objective = Line(), ELBO(estimator="score").build()
    assert objective.state()["control.baseline.seen"] == 0
    first = values(ELBO(estimator="score"), model, X).mean()
    loss_of(objective, model, batch_of(X))
    assert (
        float(objective.control.baseline.mean(torch.zeros((), dtype=F64))) != 0
        and objective.state()["control.baseline.seen"] == 1
        and np.isfinite(first)
    )
    before = {name: value.copy() for name, value in objective.state().items()}
    noise = Noise(0, "validation")
    shaped = ELBO(beta=7.0, warm_up=100, free_bits=2.0).build()
    judged = [one.validate(model, batch_of(X), noise=noise, group=Group()).total() for one in (objective, shaped)]
    assert judged[0] == judged[1]  # by the bound itself
    assert all(np.array_equal(before[name], value) for name, value in objective.state().items())


def test_recipes_of_the_estimators_have_short_names():
    assert [Pathwise.short, DoublyReparametrized.short, ScoreFunction.short] == ["pathwise", "dreg", "score"]
