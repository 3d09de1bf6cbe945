"""`gnomon.fit_posterior(..., method="map")`: enumeration, closed forms, max-product, and what a mode is not."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

import gnomon
from gnomon.errors import Diverged, UserError
from gnomon.graphs.directed import DirectedGraph
from gnomon.inference.directed import ConditionalTable, DirectedModel
from gnomon.inference.exact.factors import Factor
from gnomon.inference.exact.linear_gaussian import LinearGaussian
from gnomon.inference.exact.posterior import ExactPosterior
from gnomon.inference.parameters import Support
from gnomon.inference.variational import mode_search
from gnomon.inference.variational.binary_sparse_coding import BinarySparseCoding
from gnomon.inference.variational.coordinate_chains import ChainFactors
from gnomon.inference.variational.coordinate_normals import NormalFactors
from gnomon.inference.variational.coordinate_tables import TableFactors
from gnomon.inference.variational.mode_search import DiscreteLatents, ModeSearch
from gnomon.numeric.noise import Noise

TWO = BinarySparseCoding([[1.0, 0.5], [0.0, 1.0]], [0.0, -1.0], [1.0, 2.0])


def drawn(n, m, rows, seed):
    random = np.random.default_rng(seed)
    model = BinarySparseCoding(random.normal(size=(n, m)), random.normal(size=m), random.gamma(2.0, size=n))
    return model, random.normal(size=(rows, n)) * 2


def best_by_list(model, rows):
    """The largest log joint of each row over all states, one by one, and the state."""
    states = np.array(list(itertools.product([0.0, 1.0], repeat=len(model.b))))
    table = np.array([[model.log_joint(v[None], h[None])[0] for h in states] for v in rows])
    return states[table.argmax(1)], table.max(1)


@pytest.mark.spec("INF-78")
@pytest.mark.parametrize("search", ["auto", "exact", "coordinate"])
def test_the_numbers_of_two_components(search):
    found = gnomon.fit_posterior(TWO, method="map", data=[[1.0, 1.0]], method__search=search, random_state=0)
    assert found.mode["h"].tolist() == [[1.0, 0.0]]
    assert found.log_joint_.shape == (1,) and found.log_joint_[0] == pytest.approx(-3.497712, abs=5e-7)
    assert found.converged_ and len(found.starts_) == 1
    # a point of values that are listed has entropy 0: its log joint is the bound, below log p(v) = -2.282347
    assert found.elbo_.value == pytest.approx(-3.497712, abs=5e-7) and found.elbo_.kind == "lower bound"
    assert found.elbo_.value < ExactPosterior(TWO.log_joint, 2).log_evidence([[1.0, 1.0]])[0]
    assert "log joint -3.49771 nats" in found.table() and "no bound" not in found.table()
    assert found.log_prob([[[1.0, 0.0]], [[1.0, 1.0]]]).tolist() == [0.0, -math.inf]
    assert found.sample(3)["h"].shape == (3, 1, 2)


@pytest.mark.spec("INF-78")
@pytest.mark.parametrize("seed", range(3))
def test_exact_search_finds_what_a_list_of_all_states_has(seed):
    model, rows = drawn(4, 6, 7, seed)
    states, best = best_by_list(model, rows)
    found = gnomon.fit_posterior(model, method="map", data=rows, random_state=0)
    np.testing.assert_array_equal(found.mode["h"], states)
    np.testing.assert_allclose(found.log_joint_, best, atol=1e-12)
    other = gnomon.fit_posterior(ExactPosterior(model.log_joint, 6), method="map", data=rows)
    np.testing.assert_array_equal(other.mode["h"], states)


@pytest.mark.spec("INF-78")
def test_coordinate_search_never_falls_ends_where_no_latent_alone_can_rise_and_keeps_each_rows_best(monkeypatch):
    model, rows = drawn(6, 8, 12, 5)
    _, best = best_by_list(model, rows)
    monkeypatch.setattr(mode_search, "PAIRS", 64)  # in several parts
    search = ModeSearch(DiscreteLatents(model.log_joint, (2,) * 8), rows, 3, Noise(0, "modes"))
    before = search.log_p.copy()
    while search.sweep():
        assert (search.log_p >= before).all()
        before = search.log_p.copy()
    np.testing.assert_allclose(search.log_p, model.log_joint(np.repeat(rows, 3, 0), search.codes), atol=1e-12)
    for j in range(8):
        flipped = search.codes.copy()
        flipped[:, j] = 1 - flipped[:, j]
        assert (model.log_joint(np.repeat(rows, 3, 0), flipped) <= search.log_p + 1e-12).all()
    one = search.log_p.reshape(12, 3)
    assert (one.max(1) > one[:, 0]).any() and (one.max(1) > one[:, 2]).any()  # single starts are local optima
    np.testing.assert_array_equal(search.best()[1], one.max(1))
    many = gnomon.fit_posterior(model, method="map", data=rows, random_state=0, method__search="coordinate",
                                method__starts=40)  # fmt: skip
    np.testing.assert_allclose(many.log_joint_, best, atol=1e-12)
    assert (np.diff(many.elbo_history_) >= 0).all() and many.converged_
    few = gnomon.fit_posterior(model, method="map", data=rows, random_state=0, method__search="coordinate",
                               method__starts=1)  # fmt: skip
    assert (few.log_joint_ <= best + 1e-12).all() and (few.log_joint_ < best - 1e-6).any()


@pytest.mark.spec("INF-78")
def test_latents_of_several_values_and_more_of_them_than_can_be_listed():
    rows = np.array([[0.1, 1.7, 2.4], [1.2, 0.9, -3.0]])

    def log_joint(v, h):
        return -((v - h) ** 2).sum(1)

    found = gnomon.fit_posterior(DiscreteLatents(log_joint, (3, 3, 3)), method="map", data=rows)
    assert found.mode["h"].tolist() == [[0, 2, 2], [1, 1, 0]]
    wide = DiscreteLatents(lambda v, h: -((v - h) ** 2).sum(1), (3,) * 50)
    found = gnomon.fit_posterior(wide, method="map", data=np.full((4, 50), 1.8), random_state=0)
    assert (found.mode["h"] == 2).all()
    with pytest.raises(UserError, match="above the limit"):
        gnomon.fit_posterior(wide, method="map", data=np.zeros((1, 50)), method__search="exact")


class Pair:
    """x ~ N(W z, 1), z ~ N(0, I_2)."""

    W = torch.tensor([[1.0, 2.0], [0.5, -1.0], [0.0, 0.3]], dtype=torch.float64)

    def log_joint(self, x, z):
        off = x - z @ self.W.T
        return -0.5 * (off**2).sum(1) - 0.5 * (z**2).sum(1) - 2.5 * math.log(2 * math.pi)

    def sample_prior(self, n, noise):
        return torch.from_numpy(np.asarray(noise.normal((n, 2), like=np.empty(0))))


@pytest.mark.spec("INF-78")
def test_of_a_linear_gaussian_model_it_is_the_posterior_mean():
    model, rows = LinearGaussian(Pair.W.numpy()), np.random.default_rng(0).normal(size=(5, 3)) * 2
    mean, covariance = model.posterior(rows)
    height = model.log_prob(rows) + stats.multivariate_normal([0, 0], covariance).logpdf([0, 0])
    climbed = gnomon.fit_posterior(Pair(), method="map", data=rows, random_state=0)
    np.testing.assert_allclose(climbed.mode["z"], mean, atol=1e-6)
    np.testing.assert_allclose(climbed.log_joint_, height, atol=1e-10)
    assert climbed.converged_ and len(climbed.starts_) == 1
    assert (np.diff(climbed.elbo_history_) >= 0).all()
    solved = gnomon.fit_posterior(model, method="map", data=rows)
    np.testing.assert_allclose(solved.mode["h"], mean, atol=1e-12)
    np.testing.assert_allclose(solved.log_joint_, height, atol=1e-10)
    for factors in (NormalFactors.of(model, rows), NormalFactors.of(model, rows, blocks=[["h1", "h2"]])):
        found = gnomon.fit_posterior(factors, method="map")
        np.testing.assert_allclose(np.stack([found.mode["h1"], found.mode["h2"]], 1), mean, atol=1e-10)
        np.testing.assert_allclose(found.log_joint_, height, atol=1e-10)
    begun = gnomon.fit_posterior(Pair(), method="map", data=rows, start=np.asarray(mean))
    assert len(begun.starts_) == 1 and begun.n_iter_ <= 2
    assert gnomon.fit_posterior(Pair(), method="map", data=rows, start=2, random_state=1).mode["z"].shape == (5, 2)


@pytest.mark.spec("INF-78")
def test_each_row_keeps_the_best_of_its_own_starts():
    """x = |z| but for a small noise, and a prior that likes one side: two hills for each row."""

    class Folded:
        def log_joint(self, x, z):
            return -50 * (x[:, 0] - z[:, 0].abs()) ** 2 - 0.5 * (z[:, 0] - 0.5) ** 2

        def sample_prior(self, n, noise):
            return torch.from_numpy(np.asarray(noise.normal((n, 1), like=np.empty(0))))

    rows = np.linspace(0.8, 1.6, 9)[:, None]
    found = gnomon.fit_posterior(Folded(), method="map", data=rows, random_state=0)
    np.testing.assert_allclose(found.mode["z"], (100 * rows + 0.5) / 101, atol=1e-5)
    one = gnomon.fit_posterior(Folded(), method="map", data=rows, random_state=0, method__starts=1)
    assert (one.mode["z"] < 0).any() and (one.log_joint_ <= found.log_joint_ + 1e-9).all()
    assert found.elbo_history_[-1] < found.log_joint_.sum()  # the mean of all starts


@pytest.mark.spec("INF-78")
def test_real_values_have_no_bound_even_where_the_log_joint_is_above_the_evidence():
    """N(0, 0.01^2) times 0.5: log p = log 0.5, while the log joint at its mode is 2.99."""

    def log_p(x):
        return -0.5 * (x[:, 0] / 0.01) ** 2 - math.log(0.01 * math.sqrt(2 * math.pi)) + math.log(0.5)

    found = gnomon.fit_posterior(log_p, method="map", start=1, random_state=0)
    assert found.log_joint_ == pytest.approx(math.log(0.5) - math.log(0.01 * math.sqrt(2 * math.pi)), abs=1e-9)
    assert found.log_joint_ > math.log(0.5)
    assert found.elbo_.value == -math.inf and "no entropy" in found.elbo_.note
    assert "no bound" in found.table() and math.isnan(found.pareto_k_)
    assert found.log_prob(found.sample(2)["x"]).tolist() == [math.inf, math.inf]


@pytest.mark.spec("INF-78")
def test_a_mode_moves_with_the_scale_and_its_log_joint_stays_in_the_parameters_own_units():
    """Gamma(3, rate 2): (a - 1) / b of the number itself, a / b of its logarithm."""

    def log_p(at):
        return 2 * at["t"].log() - 2 * at["t"]

    names = {"t": Support(low=0.0)}
    own = gnomon.fit_posterior(log_p, method="map", parameters=names, random_state=0)
    assert own.mode["t"] == pytest.approx(1.0, abs=1e-6)
    logs = gnomon.fit_posterior(log_p, method="map", parameters=names, random_state=0, method__mode_of="unconstrained")
    assert logs.mode["t"] == pytest.approx(1.5, abs=1e-6)
    assert own.log_joint_ == pytest.approx(-2.0, abs=1e-9)
    assert logs.log_joint_ == pytest.approx(2 * math.log(1.5) - 3, abs=1e-9)
    assert logs.starts_[0] == pytest.approx(3 * math.log(1.5) - 3, abs=1e-9)  # with the log derivative
    at_end = gnomon.fit_posterior(lambda at: -at["t"], method="map", parameters=names, random_state=0)
    assert 0 <= at_end.mode["t"] < 1e-6


@pytest.mark.spec("INF-78")
def test_of_several_hills_the_highest_start_is_kept_and_it_need_not_be_the_heaviest():
    """A narrow high hill of mass 0.1 and a wide one of 0.9."""

    def log_p(x):
        narrow = math.log(0.1 / 0.02) - 0.5 * ((x[:, 0] - 1.0) / 0.02) ** 2
        wide = math.log(0.9) - 0.5 * (x[:, 0] + 1.0) ** 2
        return torch.logaddexp(narrow, wide)

    found = gnomon.fit_posterior(log_p, method="map", start=1, restarts=40, random_state=0)
    assert found.mode["x"][0] == pytest.approx(1.0, abs=1e-3)
    assert min(found.starts_) < max(found.starts_) - 1  # local optima
    left = gnomon.fit_posterior(log_p, method="map", start=np.array([-1.5]))
    assert left.mode["x"][0] == pytest.approx(-1.0, abs=1e-3) and left.log_joint_ < found.log_joint_


def tree(seed, sizes=(2, 3, 2, 3, 2, 2), parents=(None, 0, 0, 1, 1, 3)):
    random = np.random.default_rng(seed)
    factors = [Factor((f"x{i}",), random.normal(size=k)) for i, k in enumerate(sizes)]
    links = [Factor((f"x{p}", f"x{i}"), 2 * random.normal(size=(sizes[p], sizes[i])))
             for i, p in enumerate(parents) if p is not None]  # fmt: skip
    return factors + links, sizes


def max_product(factors, sizes, held):
    """By plain loops over all assignments."""
    best, at = -math.inf, None
    for codes in itertools.product(*(range(k) for k in sizes)):
        if any(codes[int(name[1:])] != value for name, value in held.items()):
            continue
        total = sum(float(f.log_values[tuple(codes[int(name[1:])] for name in f.names)]) for f in factors)
        if total > best:
            best, at = total, codes
    return best, at


@pytest.mark.spec("INF-78")
@pytest.mark.parametrize("held", [{}, {"x0": 1}, {"x3": 2, "x1": 0}])
@pytest.mark.parametrize("seed", range(3))
def test_trees_by_max_product_against_all_assignments(seed, held):
    factors, sizes = tree(seed)
    best, at = max_product(factors, sizes, held)
    found = gnomon.fit_posterior(factors, method="map", data=held or None)
    assert found.log_joint_ == pytest.approx(best, abs=1e-12) and found.elbo_.value == found.log_joint_
    assert {name: int(x) for name, x in found.mode.items()} == {
        f"x{i}": code for i, code in enumerate(at) if f"x{i}" not in held
    }
    blocks = gnomon.fit_posterior(ChainFactors(factors, [["x4", "x5"]], given=held), method="map")
    assert blocks.log_joint_ == pytest.approx(best, abs=1e-12)
    assert {k: int(x) for k, x in blocks.mode.items()} == {k: int(x) for k, x in found.mode.items()}


@pytest.mark.spec("INF-78")
def test_directed_graphs_and_tables():
    model = DirectedModel(
        DirectedGraph({"rain": (), "wet": ("rain",)}),
        {"rain": ConditionalTable([0.8, 0.2]), "wet": ConditionalTable([[0.9, 0.1], [0.2, 0.8]])},
    )
    found = gnomon.fit_posterior(model, method="map", data={"wet": 1})
    assert found.mode["rain"] == 1 and found.log_joint_ == pytest.approx(math.log(0.16))
    table = np.random.default_rng(0).normal(size=(3, 2, 4, 3))
    table[0, 1, 2, 0] = -math.inf
    for blocks in (None, [["h3", "h1"]]):
        found = gnomon.fit_posterior(TableFactors(table, blocks=blocks), method="map")
        np.testing.assert_allclose(found.log_joint_, table.reshape(3, -1).max(1))
        codes = np.stack([found.mode[name] for name in ("h1", "h2", "h3")], 1).astype(int)
        np.testing.assert_allclose(table[np.arange(3), codes[:, 0], codes[:, 1], codes[:, 2]], found.log_joint_)
    grid = TableFactors([[0.0, 2.0, 1.0]], measure={"h1": [0.1, 0.1, 5.0]}, values={"h1": [-1.0, 0.5, 4.0]})
    found = gnomon.fit_posterior(grid, method="map")
    assert found.mode["h1"] == 0.5 and found.log_joint_ == 2.0 and found.elbo_.value == -math.inf  # a density


@pytest.mark.spec("INF-78")
def test_a_network_between_latents_and_rows():
    rows = np.random.default_rng(0).normal(size=(30, 4))
    vae = gnomon.VAE(n_latent=2, epochs=2, random_state=0).fit(rows)
    found = gnomon.fit_posterior(vae, method="map", data=rows[:6], random_state=0)
    x, z = torch.from_numpy(rows[:6]), torch.from_numpy(found.mode["z"])
    around = torch.from_numpy(
        np.random.default_rng(1).normal(size=(40, 6, 2)) * 0.02
    )  # rectifiers: a peak may be a kink
    with torch.no_grad():
        coded = vae.model_.log_joint(x, vae.model_.latent_mean(x)).numpy()
        near = [vae.model_.log_joint(x, z + step).numpy() for step in around]
    assert (coded < found.log_joint_ + 1e-9).all() and (coded < found.log_joint_ - 0.01).any()
    assert (np.array(near) < found.log_joint_ + 1e-3).all()


class Coins(Pair):
    def sample_prior(self, n, noise):
        return (super().sample_prior(n, noise) > 0).double()


@pytest.mark.spec("INF-78")
def test_what_cannot_be_is_told_in_one_line(tmp_path):
    mixture = gnomon.GaussianMixture(n_components=2, random_state=0).fit(np.random.default_rng(0).normal(size=(30, 2)))
    rows = np.zeros((2, 3))

    def fit(target, **options):
        return lambda: gnomon.fit_posterior(target, method="map", **options)

    for make, message in [
        (fit(Coins(), data=rows), "whole numbers.*DiscreteLatents"),
        (fit(mixture, data=rows), "sums over its latents.*transform"),
        (fit(TWO), "needs the rows that it is given.*data=rows"),
        (fit(TWO, data=np.zeros((0, 2))), "at least one"),
        (fit(Pair(), data=rows, start=np.zeros((5, 2))), "start must be a number of latents"),
        (fit(Pair(), data=rows, batch_size=1), "takes all rows at once"),
        (fit(Pair(), data=rows, family="full"), "family must be left out for a point"),
        (fit(lambda x: -(x**2).sum(1), start=1, data=rows), "takes no data apart"),
        (fit(TableFactors(np.zeros((1, 2))), data=rows), "takes no data apart"),
        (fit(TWO, data=[[1.0, 1.0]], start=np.zeros(2)), "takes no start"),
        (fit(LinearGaussian(Pair.W.numpy()), data=rows, start=2), "takes no start"),
        (lambda: DiscreteLatents(TWO.log_joint, 2), "sizes must be the number of values of each latent"),
        (
            lambda: gnomon.fit_posterior(TWO, method="map", data=[[1.0, 1.0]]).log_prob([[1.0, 0.0, 1.0]]),
            "rows of shape",
        ),
        (fit(tree(0)[0], data={"y": 1}), "unknown variable 'y'"),
        (fit(tree(0)[0], data=rows), "evidence must be a mapping"),
        (fit(lambda x: x[:, 0].log(), start=np.array([-1.0])), "must be finite at the start"),
    ]:
        with pytest.raises(UserError, match=message):
            make()
    with pytest.raises(Diverged, match="no maximum"):
        gnomon.fit_posterior(lambda at: at["t"] ** 4, method="map", parameters={"t": Support(low=0)}, random_state=0)
    found = gnomon.fit_posterior(TWO, method="map", data=[[1.0, 1.0]])
    assert found.picture(tmp_path / "a.png").stat().st_size > 0
