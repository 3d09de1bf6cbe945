"""Columns of several kinds in one chain rule: sums over codes by quadrature, draws, gaps, regressions, a file."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from sklearn.linear_model import LinearRegression, LogisticRegression

from gnomon.cli.main import run as command_line
from gnomon.distributions.mixed_table import MixedColumns, MixedTable
from gnomon.errors import UserTypeError, UserValueError
from gnomon.nn.mixed import MixedLikelihood
from gnomon.numeric.noise import Noise
from gnomon.systems.autoregressive.conditionals import Neural
from gnomon.systems.autoregressive.deep_nade import DeepNADE
from gnomon.systems.autoregressive.fvbn import FVBN
from gnomon.systems.autoregressive.nade import NADE
from gnomon.systems.autoregressive.nade_k import NADEk
from gnomon.systems.autoregressive.orders import Chosen
from gnomon.systems.variational.vae import VAE

KINDS = (0, 2, 3)
CELLS = np.array(list(itertools.product(range(2), range(3))), np.float64)
TICKS, STEP = np.linspace(-15, 35, 2001, retstep=True)
ALARM = 1e-6
"""False-alarm rate of the chi-square test."""


def rows(n, seed=0):
    """A real column, a bit and a code of three that hang together."""
    random = np.random.default_rng(seed)
    code = random.integers(0, 3, n)
    bit = random.random(n) < 0.2 + 0.25 * code
    return np.column_stack([10 + 2 * (code - 1) * bit + 0.7 * random.normal(size=n), bit, code]).astype(float)


def fitted(X, order=(0, 1, 2), kinds=KINDS, hidden=(4,), **options):
    likelihood = options.pop("likelihood", MixedLikelihood(kinds))
    options = {"epochs": 15, "learning_rate": 0.02, "random_state": 0} | options
    return FVBN(likelihood=likelihood, conditionals=Neural(hidden), order=Chosen(order), **options).fit(X)


def joint(model):
    """Log p at each tick of the real column with each state of the two others, (6, ticks)."""
    grid = [np.column_stack([TICKS, *np.repeat(cell[None], len(TICKS), 0).T]) for cell in CELLS]
    return model.log_prob(np.concatenate(grid)).reshape(6, -1)


@pytest.fixture(scope="module")
def one():
    return fitted(rows(500), (1, 0, 2))


@pytest.mark.spec("GEN-115")
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_sum_over_codes_times_quadrature_is_1_in_every_order(order):
    variance = "network" if order[0] else "columns"
    model = fitted(rows(200), order, likelihood=MixedLikelihood(KINDS, variance), epochs=5)
    assert np.exp(joint(model)).sum() * STEP == pytest.approx(1, abs=1e-9)
    assert model.evaluate(rows(10))["log_likelihood"].data_space == "density on R x {0,1} x {0..2}"


@pytest.mark.spec("GEN-115")
def test_a_conditional_is_that_of_the_joint_and_the_dependence_is_learned(one):
    """In the order bit, real number, code: each conditional is a quotient of sums and integrals of the joint."""
    p = np.exp(joint(one)).reshape(2, 3, -1)
    X = rows(4, seed=1)
    X[:, 0] = TICKS[np.searchsorted(TICKS, X[:, 0])]
    bit, code, tick = X[:, 1].astype(int), X[:, 2].astype(int), np.searchsorted(TICKS, X[:, 0])
    both, alone = p.sum(1), p.sum((1, 2)) * STEP
    expected = np.column_stack([both[bit, tick] / alone[bit], alone[bit], p[bit, code, tick] / both[bit, tick]])
    np.testing.assert_allclose(np.exp(one.log_conditionals(X)), expected, rtol=1e-6)
    real, coin, categories = (one.conditional(column, X) for column in range(3))
    np.testing.assert_allclose(np.exp(real.log_prob(X[:, 0])), expected[:, 0], rtol=1e-6)
    np.testing.assert_allclose(np.where(bit, coin.mean[:, 0], 1 - coin.mean[:, 0]), expected[:, 1], rtol=1e-6)
    np.testing.assert_allclose(np.exp(categories.log_prob(code)), expected[:, 2], rtol=1e-6)
    T = rows(500, seed=2)
    assert one.score(T) > MixedColumns(rows(500), np.array(KINDS)).log_prob(T).mean() + 0.3


@pytest.mark.spec("GEN-115")
@pytest.mark.parametrize("system", ["fvbn", "nade"])
def test_draws_have_the_probabilities_of_cells_and_intervals(system, one):
    model = one
    if system == "nade":
        likelihood = MixedLikelihood((0, 2, 3))
        options = {"n_hidden": 8, "epochs": 8, "learning_rate": 0.02, "random_state": 0}
        model = NADE(likelihood=likelihood, order=Chosen((2, 1, 0)), **options).fit(rows(400))
    ends = np.array([8.0, 9.5, 10.5, 12.0])
    p = np.exp(joint(model)) * STEP
    assert p.sum() == pytest.approx(1, abs=1e-9)
    parts = np.add.reduceat(p, np.r_[0, np.searchsorted(TICKS, ends)], axis=1)
    X = model.sample(20_000, random_state=3)
    counts = np.zeros(parts.shape)
    np.add.at(counts, ((X[:, 1] * 3 + X[:, 2]).astype(int), np.searchsorted(ends, X[:, 0] + STEP / 2)), 1)
    expected = parts * len(X)
    large = expected > 5
    statistic = ((counts - expected)[large] ** 2 / expected[large]).sum()
    assert chi2.sf(statistic, large.sum() - 1) > ALARM
    assert abs(counts[~large].sum() - expected[~large].sum()) < 6 * np.sqrt(expected[~large].sum() + 1)


@pytest.mark.spec("GEN-115")
def test_columns_of_one_kind_begin_with_shares_of_their_own():
    X = np.column_stack([rows(200), np.random.default_rng(6).random(200) < 0.9]).astype(float)
    model = fitted(X, (0, 1, 2, 3), kinds=(0, 2, 3, 2), epochs=1, learning_rate=1e-9)
    for column in (1, 3):
        assert model.conditional(column, X).mean[0, 0] == pytest.approx(X[:, column].mean(), abs=1e-5)


@pytest.mark.spec("GEN-115")
@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (3, 0, 4, 2, 1)])
def test_no_column_sees_itself_or_what_comes_behind(order):
    """Strictly lower triangular Jacobian in the order; what a column has no use for is 0, and no parameter."""
    random = np.random.default_rng(5)
    kinds = (3, 0, 2, 0, 4)
    X = np.column_stack([random.integers(0, n, 80) if n else random.normal(size=80) for n in kinds]).astype(float)
    likelihood = MixedLikelihood(kinds, "network")
    model = fitted(X, order, likelihood=likelihood, hidden=(3, 2), epochs=20).model_
    place = np.argsort(order)
    z = model.inside(torch.from_numpy(X[:6]))
    inputs = model.head.inputs(z).clone().requires_grad_()
    model.head.inputs = lambda _: inputs
    by_column = model.numbers(z).reshape(6, -1, 5).square().sum((0, 1))
    seen = np.array([
        torch.autograd.grad(one, inputs, retain_graph=True)[0].reshape(6, 5, -1).abs().sum((0, 2)).numpy()
        for one in by_column
    ])  # fmt: skip
    behind = place[None] >= place[:, None]
    assert (seen[behind] == 0).all() and (seen[~behind] > 0).all()
    answered, inward = [3, 2, 1, 2, 4], [3, 1, 1, 1, 4]
    pairs = [(i, j) for i in range(5) for j in range(5) if place[j] < place[i]]
    direct = sum(answered[i] * inward[j] for i, j in pairs) + sum(answered)
    first = sum(3 * inward[j] for j in range(5) for g in range(4) if place[j] <= g) + 4 * 3
    second = sum(3 * 2 for a in range(4) for b in range(4) if a <= b) + 4 * 2
    out = sum(2 * answered[i] * place[i] for i in range(5))
    assert model.n_parameters == direct + first + second + out


@pytest.mark.spec("GEN-115")
def test_without_hidden_units_it_is_logistic_softmax_and_linear_regression():
    X = rows(300, seed=4)
    bare = fitted(X, (1, 0, 2), hidden=(), epochs=400, learning_rate=0.1, batch_size=None)
    given = np.column_stack([X[:, 1], X[:, 0]])
    softmax = LogisticRegression(C=np.inf, tol=1e-8, max_iter=2000).fit(given, X[:, 2])
    assert bare.conditional(1, X).mean[0] == pytest.approx(X[:, 1].mean(), abs=2e-3)
    real = bare.conditional(0, X)
    line = LinearRegression().fit(X[:, [1]], X[:, 0])
    left = (X[:, 0] - line.predict(X[:, [1]])).var()
    np.testing.assert_allclose(real.mean, line.predict(X[:, [1]]), atol=5e-3)
    assert real.variance[0] == pytest.approx(left, rel=1e-2)
    found = np.exp(np.column_stack([bare.conditional(2, X).log_prob(np.full(300, k)) for k in range(3)]))
    np.testing.assert_allclose(found, softmax.predict_proba(given), atol=5e-3)


@pytest.mark.spec("GEN-115")
def test_missing_cells_are_those_of_the_joint(one):
    """Codes are summed out, the end of the order is drawn from its conditional, numbers before it by particles."""
    p = np.exp(joint(one)).reshape(2, 3, -1)
    at = int(np.searchsorted(TICKS, 10.0))
    gaps = np.array([[TICKS[at], np.nan, 2.0]])
    share = p[:, 2, at] / p[:, 2, at].sum()
    assert one.impute(gaps)[0, 1] == pytest.approx(share[1], abs=1e-6)
    assert one.log_prob_observed(gaps)[0] == pytest.approx(np.log(p[:, 2, at].sum()), abs=1e-6)
    both = np.array([[TICKS[at], np.nan, np.nan]])
    assert one.log_prob_observed(both)[0] == pytest.approx(np.log(p[:, :, at].sum()), abs=1e-6)
    drawn = one.imputed(np.repeat(both, 3000, 0), how="sample", random_state=0)
    assert (drawn.kind == "exact").all()
    counts = np.bincount((drawn.values[:, 1] * 3 + drawn.values[:, 2]).astype(int), minlength=6)
    expected = 3000 * (p[:, :, at] / p[:, :, at].sum()).ravel()
    assert (abs(counts - expected) < 5.5 * np.sqrt(expected + 1)).all()  # false alarm 1e-7 a cell
    early = np.array([[np.nan, 1.0, 2.0]])
    mean = (p[1, 2] * TICKS).sum() / p[1, 2].sum()
    spread = np.sqrt((p[1, 2] * (TICKS - mean) ** 2).sum() / p[1, 2].sum())
    found = one.imputed(np.repeat(early, 20, 0), random_state=1)
    assert (found.kind != "exact").all() and abs(found.values[:, 0].mean() - mean) < 6 * spread / 20  # 10,000 draws
    with pytest.raises(UserValueError, match="codes have no mean"):
        one.impute(both)


@pytest.mark.spec("GEN-115")
def test_other_models_take_columns_of_several_kinds():
    vae = VAE(likelihood=MixedLikelihood(KINDS), n_latent=1, epochs=20, learning_rate=0.01, random_state=0)
    vae.fit(rows(300))
    grid = np.concatenate([np.column_stack([TICKS, *np.repeat(cell[None], len(TICKS), 0).T]) for cell in CELLS])
    with torch.no_grad():
        z = torch.full((len(grid), 1), 0.3, dtype=torch.float64)
        p = vae.model_.log_likelihood(torch.from_numpy(grid), z).exp()
    assert float(p.sum()) * STEP == pytest.approx(1, abs=1e-9)
    assert set(vae.sample(50)[:, 2]) <= {0, 1, 2} and vae.sample(50)[:, 0].mean() > 5
    options = {"hidden": (6,), "n_orders": 2, "epochs": 30, "random_state": 0}
    deep = DeepNADE(likelihood=MixedLikelihood(KINDS), **options).fit(rows(200))
    assert np.exp(deep.log_prob(grid)).sum() * STEP == pytest.approx(1, abs=1e-6)
    assert 8 < deep.impute([[np.nan, 1.0, 1.0]])[0, 0] < 12 and set(deep.sample(40)[:, 2]) <= {0, 1, 2}


IN_ORDER = {"order": "given", "connect": "previous-groups", "hidden": (3, 2)}


@pytest.mark.parametrize(
    ("system", "given", "last"),
    [(DeepNADE, {}, 0), (DeepNADE, IN_ORDER, 9), (NADEk, {}, 0), (NADEk, {"tie": True}, 0)],
)
def test_parameters_are_what_the_masses_depend_on(system, given, last):
    """In one order also the weights of the last column, which none sees."""
    X, options = rows(60), {"hidden": (3,), "activation": "tanh", "epochs": 2, "random_state": 0} | given
    model = system(likelihood=MixedLikelihood(KINDS, "network"), **options).fit(X).model_
    with torch.no_grad():
        for weight in model.parameters():
            weight += Noise(0, "more").normal(tuple(weight.shape), like=weight)
        for layer in model.layers:
            if hasattr(layer, "clear"):
                layer.clear()
    slopes = torch.autograd.grad(model.log_prob(torch.from_numpy(X)).sum(), list(model.parameters()))
    assert model.n_parameters == sum(int((one != 0).sum()) for one in slopes) + last


@pytest.mark.spec("GEN-115")
def test_what_is_no_such_table_is_refused_in_one_line():
    X = rows(30)
    for given, words in (((0, 2, 2), "must hold a code 0 to 1 here, got 2.0"), ((0, 1), "0 or at least 2"),
                         ((0, 2, 3, 0), "of the 3 columns at most, got 4")):  # fmt: skip
        with pytest.raises(UserValueError, match=words):
            fitted(X, kinds=given)
    for given in (2, (2.5,)):
        with pytest.raises(UserTypeError, match="values must be a tuple of whole numbers"):
            fitted(X, kinds=given)
    with pytest.raises(UserTypeError, match="hidden must hold whole numbers, got"):
        fitted(X, hidden=(2.5,))
    with pytest.raises(UserValueError, match="conditionals must be neural for columns of several kinds, got linear"):
        FVBN(likelihood=MixedLikelihood(KINDS)).fit(X)
    with pytest.raises(UserValueError, match="got tables"):
        FVBN(likelihood=MixedLikelihood((3, 2)), conditionals="tables").fit(X[:, :0:-1])
    with pytest.raises(UserValueError, match="numbers up to 1e"):
        fitted(np.where(X > 9, 1e120, X))
    assert MixedTable((2, 3)).space(3) == "pmf on {0,1} x {0..2}^2"
    assert MixedTable((0,)).space(2) == "density on R^2"


@pytest.mark.spec("GEN-115")
def test_a_file_of_columns_of_several_kinds_on_the_command_line(tmp_path, capsys):
    X, table, gaps, out = rows(120), tmp_path / "t.csv", tmp_path / "gaps.csv", tmp_path / "drawn.csv"
    lines = ["height,smokes,city", *(f"{a:.4f},{int(b)},{int(c)}" for a, b, c in X)]
    table.write_text("\n".join(lines) + "\n")
    gaps.write_text("height,smokes,city\n,1,2\n11.5,,2\n")
    kinds = ("--likelihood", "mixed", "--likelihood.values", "0x2x3")
    run = str(tmp_path / "run")
    words = (*kinds, "--conditionals", "neural", "--epochs", "5", "--random-state", "0", "--out", run)
    assert command_line(["fit", "fvbn", str(table), *words]) == 0
    assert "density on R x {0,1} x {0..2}" in capsys.readouterr().out
    assert command_line(["sample", run, "-n", "30", "--out", str(out)]) == 0
    head, *drawn = out.read_text().splitlines()
    cells = np.array([line.split(",") for line in drawn], float)
    assert head == "height,smokes,city" and set(cells[:, 1]) <= {0, 1} and set(cells[:, 2]) <= {0, 1, 2}
    capsys.readouterr()
    assert command_line(["impute", run, str(gaps)]) == 0
    first, second = (np.array(line.split(","), float) for line in capsys.readouterr().out.splitlines()[1:])
    assert 5 < first[0] < 15 and first[1:].tolist() == [1, 2] and 0 < second[1] < 1
    assert command_line(["fit", "fvbn", str(table), *kinds, "--out", str(tmp_path / "no")]) == 2
    assert "conditionals must be neural" in capsys.readouterr().err and not (tmp_path / "no").exists()
