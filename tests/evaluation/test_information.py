"""Information against figures worked by hand, SciPy, scikit-learn and identities.

Random tests fail a right estimator with probability below 1e-4.
"""

import math

import numpy as np
import pytest
from scipy import integrate, special, stats
from scipy.spatial import cKDTree
from sklearn.metrics import mutual_info_score

from gnomon.distributions.bounded import Uniform
from gnomon.distributions.family import kl_divergence
from gnomon.distributions.real import Normal
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation import information as info
from oracles.stated_errors import check_coverage

TABLE = np.array([[0.5, 0.25], [0.0, 0.25]])
P, Q = np.array([0.5, 0.5]), np.array([0.9, 0.1])


def simplexes(k=6, n=40, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(k, 0.5), n)


@pytest.mark.spec("LIN-14", "DLN-97")
def test_entropy():
    assert math.isclose(info.entropy([0.5, 0.25, 0.25]), 1.0397207708399179)
    assert info.entropy([0.5, 0.25, 0.25], base=2) == 1.5
    assert math.isclose(info.entropy([0.75, 0.25]), 0.5623351446188083)
    assert math.isclose(info.entropy([0.75, 0.25], base=2), 0.8112781244591328)
    assert info.entropy([1.0, 0.0]) == 0
    p = simplexes()
    assert np.allclose(info.entropy(p), stats.entropy(p, axis=1), rtol=1e-13)
    assert np.allclose(info.entropy(7 * p, normalize=True), stats.entropy(p, axis=1), rtol=1e-13)
    assert np.allclose(info.entropy(p.T, axis=0, base=10), stats.entropy(p, axis=1, base=10), rtol=1e-13)


def test_the_code_of_huffman_has_the_length_of_the_entropy():
    lengths = np.array([1, 2, 2])  # 0, 10, 11
    p = np.array([0.5, 0.25, 0.25])
    assert p @ lengths == info.entropy(p, base=2)


@pytest.mark.spec("DLN-96")
def test_self_information():
    assert info.self_information(1 / 8, base=2) == 3
    assert info.self_information(1.0) == 0
    assert info.self_information(0.0) == math.inf
    p, q = np.random.default_rng(0).random((2, 20))
    assert np.allclose(info.self_information(p * q), info.self_information(p) + info.self_information(q))
    with pytest.raises(UserValueError, match=r"probabilities must be in \[0, 1\], got 1\.5 \(p\[1\]\)"):
        info.self_information([0.5, 1.5])
    with pytest.raises(UserValueError, match=r"p\[1\]"):
        info.self_information([0.5, np.nan])


@pytest.mark.spec("LIN-15", "DLN-17")
def test_cross_entropy_is_entropy_and_divergence():
    assert math.isclose(info.cross_entropy(P, Q), 1.203972804325936)
    assert math.isclose(info.cross_entropy([0.5, 0.25, 0.25], np.full(3, 1 / 3)), math.log(3))
    assert math.isclose(info.cross_entropy([0.5, 0.25, 0.25], np.full(3, 1 / 3), base=2), 1.5849625007211562)
    p, q = simplexes(seed=1), simplexes(seed=2)
    assert np.allclose(info.cross_entropy(p, q), info.entropy(p) + info.kl(p, q), rtol=1e-12)
    assert info.cross_entropy([0.5, 0.5], [1.0, 0.0]) == math.inf
    assert info.cross_entropy([1.0, 0.0], [1.0, 0.0]) == 0
    for wrong in ((P, [0.9, 0.2]), ([0.9, 0.2], P)):
        with pytest.raises(UserValueError, match="sum to"):
            info.cross_entropy(*wrong)
    assert (info.cross_entropy(p, q) > info.cross_entropy(p, p)).all()  # least at q = p
    table = -(p * np.log2(q)).sum(1)
    np.testing.assert_allclose(info.cross_entropy(p, q, base=2), table, rtol=1e-12)
    np.testing.assert_allclose(info.cross_entropy(p.T, q.T, axis=0, base=2), table, rtol=1e-12)
    assert (info.cross_entropy(p, q) != info.cross_entropy(q, p)).all()


@pytest.mark.spec("DLN-98")
def test_gibbs_inequality_and_the_uniform_bound():
    p, q = simplexes(seed=3), simplexes(seed=4)
    assert (info.cross_entropy(p, q) > info.entropy(p)).all()
    assert np.allclose(info.cross_entropy(p, p), info.entropy(p), rtol=1e-14)
    assert math.isclose(info.largest_entropy(4), 1.3862943611198906)
    assert (info.entropy(p) < info.largest_entropy(6)).all()
    assert math.isclose(info.entropy(np.full(6, 1 / 6)), info.largest_entropy(6))
    # on an interval of length 3 too: triangular and beta densities against the uniform one
    for density in (stats.triang(0.5, 0, 3), stats.beta(2, 3, 0, 3), stats.uniform(0, 3)):
        assert density.entropy() <= info.largest_entropy(3) + 1e-12


@pytest.mark.spec("DLN-103", "NLP-01", "BAY-41")
def test_divergence_in_both_directions():
    assert math.isclose(info.kl(P, Q), 0.5108256237659907)
    assert math.isclose(info.kl(P, Q, direction="reverse"), 0.3680642071684971)
    p, q = simplexes(seed=5), simplexes(seed=6)
    assert np.allclose(info.kl(p, q), stats.entropy(p, q, axis=1), rtol=1e-11)
    assert np.allclose(info.kl(p, q), special.rel_entr(p, q).sum(1), rtol=1e-11)
    assert np.allclose(info.kl(p, q, base=2) * math.log(2), info.kl(p, q))
    assert (info.kl(p, p) == 0).all()
    assert info.kl([0.5, 0.5], [1.0, 0.0]) == math.inf
    assert info.kl([1.0, 0.0], [0.5, 0.5]) == math.log(2)
    assert info.kl([0.5, 0.5, 0.0], [0.25, 0.75, 0.0]) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
    for unnormalized in ((0.9 * np.asarray(P), Q), (P, 0.9 * np.asarray(Q))):  # an error, unless told
        with pytest.raises(UserValueError, match="sum to 1"):
            info.kl(*unnormalized)
    assert np.allclose(info.symmetric_kl(p, q), info.kl(p, q) + info.kl(p, q, direction="reverse"))
    assert np.allclose(info.js(p, q), info.js(q, p)) and (info.js(p, q) <= math.log(2)).all()
    middle = (p + q) / 2
    assert np.allclose(info.js(p, q), info.entropy(middle) - (info.entropy(p) + info.entropy(q)) / 2, rtol=1e-10)
    assert np.allclose(info.kl(3 * p, 7 * q, normalize=True), info.kl(p, q), rtol=1e-12)
    with pytest.raises(UserValueError, match="direction"):
        info.kl(P, Q, direction="backward")


@pytest.mark.spec("NLP-01")
def test_divergence_of_log_probabilities():
    """Those that underflow too: KL((1/2, 1/2) || (1 - e, e)) = 450 - ln 2 for e = exp(-900)."""
    p, q = simplexes(seed=11), simplexes(seed=12)
    for direction in ("forward", "reverse"):
        wanted = info.kl(p, q, direction=direction)
        found = info.kl(np.log(p.T), np.log(q.T), axis=0, direction=direction, logs=True)
        assert np.allclose(found, wanted, rtol=1e-11)
        weights = info.kl(np.log(p) + 900, np.log(q) - 2000, direction=direction, normalize=True, logs=True, base=2)
        assert np.allclose(weights * math.log(2), wanted, rtol=1e-9)
    small = np.array([-math.exp(-900), -900.0])
    assert math.isclose(info.kl(np.log(P), small, logs=True), 450 - math.log(2), rel_tol=1e-14)
    never = [0.0, -np.inf]
    assert info.kl(small, never, logs=True) == math.inf  # rare is not never
    assert info.kl(never, small, logs=True) == 0 == info.kl(never, never, logs=True)
    for wrong, words in ((np.log([0.9, 0.2]), "sum to 1"), ([np.nan, 0.0], r"\[0, 1\]"), ([1.0, 0.0], r"\[0, 1\]")):
        with pytest.raises(UserValueError, match=words):
            info.kl(np.log(P), wrong, logs=True)
    for wrong in ([-np.inf, -np.inf], [np.nan, 0.0], [np.inf, 0.0]):
        with pytest.raises(UserValueError, match="logarithms of weights"):
            info.kl(wrong, np.log(P), logs=True, normalize=True)


def test_a_divergence_is_never_negative_by_rounding():
    p = simplexes(k=50, n=300, seed=7)
    q = p * (1 + 1e-9 * np.random.default_rng(0).normal(size=p.shape))
    assert (info.kl(p, q, normalize=True) >= 0).all()


@pytest.mark.spec("BAY-41", "GEN-147", "NLP-01")
def test_divergence_from_samples_covers_the_closed_form():
    """KL(N(0,1) || N(1,4)) = 0.4431472, reverse 1.3068528: within 4.5 errors (false alarm below 1e-5)."""
    z = np.random.default_rng(0).normal(size=100_000)
    log_q, log_p = stats.norm.logpdf(z), stats.norm.logpdf(z, 1, 2)
    value, error = info.kl_samples(log_q, log_p)
    assert abs(value - 0.4431471805599453) < 4.5 * error < 0.03
    wide = 1 + 2 * z
    for positive in (True, False):
        value, error = info.kl_samples(stats.norm.logpdf(wide, 1, 2), stats.norm.logpdf(wide), positive=positive)
        assert abs(value - 1.3068528194400547) < 4.5 * error < 0.06
    assert info.kl_samples(log_q, log_q) == (0.0, 0.0)
    for given in (([0.0, -np.inf], [0.0, 0.0]), ([0.0, 0.0], [0.0]), ([0.0, 0.0], [0.0, np.nan]), ([0.0], [0.0])):
        with pytest.raises(UserValueError, match=r"log_[pq] must be"):
            info.kl_samples(*given)
    assert info.kl_samples(log_q[:3], np.array([0.0, -np.inf, 0.0]))[0] == math.inf
    # the positive form never falls below 0 where the plain one does
    near = stats.norm.logpdf(z[:20], 0.01, 1)
    assert info.kl_samples(log_q[:20], near, positive=True)[0] >= 0
    means = [info.kl_samples(log_q[i : i + 20], stats.norm.logpdf(z[i : i + 20], 0.01))[0]
             for i in range(0, 400, 20)]  # fmt: skip
    assert min(means) < 0


CENTER, ROOT = np.array([0.5, -0.3]), np.array([[1.4, 0.0], [0.6, 1.1]])


def _pair(z):
    """Log densities of N(0, I) and N(CENTER, ROOT ROOT') at rows of two columns."""
    return stats.multivariate_normal(np.zeros(2)).logpdf(z), stats.multivariate_normal(CENTER, ROOT @ ROOT.T).logpdf(z)


@pytest.mark.spec("BAY-41", "GEN-147", "NLP-01")
@pytest.mark.parametrize(("direction", "positive"), [("forward", False), ("reverse", False), ("reverse", True)])
def test_the_stated_error_of_a_divergence_covers_it(direction, positive):
    """2000 estimates of 400 draws of two columns; log densities are squares, so their tails are short.

    Forward with ``positive`` is left out: there p has the heavier tails, the docstring says, and the variance is
    infinite.
    """
    back = np.linalg.inv(ROOT @ ROOT.T)
    log_det = 2 * np.log(np.diag(ROOT)).sum()
    exact = {
        "forward": 0.5 * (np.trace(back) + CENTER @ back @ CENTER - 2 + log_det),
        "reverse": 0.5 * (np.trace(ROOT @ ROOT.T) + CENTER @ CENTER - 2 - log_det),
    }[direction]
    z = np.random.default_rng(7).normal(size=(2000 * 400, 2))
    log_p, log_q = _pair(z if direction == "forward" else CENTER + z @ ROOT.T)
    pairs = (log_p, log_q) if direction == "forward" else (log_q, log_p)
    found = [
        info.kl_samples(a, b, positive=positive) for a, b in zip(*(x.reshape(2000, 400) for x in pairs), strict=True)
    ]
    values, errors = np.array(found).T
    check_coverage(values, errors, exact, slack=0.005)  # squares are skewed
    assert abs(values.mean() - exact) < 4.5 * values.std(ddof=1) / math.sqrt(2000)  # no bias


@pytest.mark.spec("GEN-147", "NLP-01")
def test_the_closed_form_of_a_normal_pair_in_both_directions():
    assert math.isclose(kl_divergence(Normal(0.0, 1.0), Normal(1.0, 2.0)), 0.4431471805599453)
    assert math.isclose(kl_divergence(Normal(1.0, 2.0), Normal(0.0, 1.0)), 1.3068528194400547)
    p, q = Normal(np.array([0.0, 2.0]), 1.5), Normal(np.array([[1.0], [-1.0]]), np.array([2.0, 0.3]))
    m, s = np.broadcast_to(p.loc, (2, 2)), 1.5
    n, t = np.broadcast_to(q.loc, (2, 2)), np.broadcast_to(q.scale, (2, 2))
    for one, other, (a, b, c, d) in ((p, q, (m, s, n, t)), (q, p, (n, t, m, s))):
        assert np.allclose(kl_divergence(one, other), np.log(d / b) + (b**2 + (a - c) ** 2) / (2 * d**2) - 0.5)


@pytest.mark.spec("DLN-99")
def test_joint_entropy_and_its_bounds():
    assert math.isclose(info.joint_entropy(TABLE), 1.0397207708399179)
    assert info.joint_entropy(TABLE, base=2) == 1.5
    for table in simplexes(12, 20, seed=8).reshape(20, 3, 4):
        h, x, y = info.joint_entropy(table), info.entropy(table.sum(1)), info.entropy(table.sum(0))
        assert max(x, y) <= h <= x + y + 1e-12
    a, b = simplexes(4, 1, seed=9)[0], simplexes(3, 1, seed=9)[0]
    assert math.isclose(info.joint_entropy(np.outer(a, b)), info.entropy(a) + info.entropy(b))
    assert math.isclose(info.joint_entropy(np.diag(a)), info.entropy(a))


@pytest.mark.spec("DLN-100")
def test_conditional_entropy():
    assert math.isclose(info.conditional_entropy(TABLE), 0.4773856262211096)
    for given, marginal in ((0, TABLE.sum(1)), (1, TABLE.sum(0)), (-1, TABLE.sum(0))):
        assert math.isclose(
            info.conditional_entropy(TABLE, given=given), info.joint_entropy(TABLE) - info.entropy(marginal)
        )
    y_of_x = np.array([[0.2, 0.0], [0.0, 0.3], [0.5, 0.0]])
    assert info.conditional_entropy(y_of_x, given=0) == 0
    assert info.conditional_entropy(y_of_x, given=1) > 0
    assert info.conditional_entropy([[0.0, 0.0], [0.5, 0.5]]) == math.log(2)  # a row that never comes


@pytest.mark.spec("DLN-101")
def test_the_five_forms_of_mutual_information():
    assert math.isclose(info.mutual_information(TABLE), 0.21576155433883565)
    assert math.isclose(info.mutual_information(TABLE, base=2), 0.31127812445913283)
    for table in [TABLE, *simplexes(12, 10, seed=10).reshape(10, 3, 4)]:
        x, y = table.sum(1), table.sum(0)
        h, hx, hy = info.joint_entropy(table), info.entropy(x), info.entropy(y)
        value = info.mutual_information(table)
        assert math.isclose(value, hx + hy - h, abs_tol=1e-13)
        y_given_x, x_given_y = info.conditional_entropy(table, given=0), info.conditional_entropy(table, given=1)
        assert math.isclose(value, h - x_given_y - y_given_x, abs_tol=1e-13)
        assert math.isclose(value, info.kl(table.ravel(), np.outer(x, y).ravel()), abs_tol=1e-13)
        assert math.isclose(value, y @ info.kl((table / y).T, np.broadcast_to(x, (len(y), len(x)))), abs_tol=1e-13)
        assert math.isclose(value, info.mutual_information(table.T), abs_tol=1e-14)
    bijection = np.diag([0.2, 0.3, 0.5])
    assert math.isclose(info.mutual_information(bijection), info.entropy([0.2, 0.3, 0.5]))
    assert info.mutual_information(np.outer([0.2, 0.8], [0.5, 0.5])) < 1e-16


@pytest.mark.spec("DLN-101")
def test_mutual_information_of_labels_and_of_a_normal_pair():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, 500)
    b = np.where(rng.random(500) < 0.6, a, rng.integers(0, 3, 500))
    words = np.array(["x", "y", "z", "w"])[b]
    assert math.isclose(info.mutual_information(labels=(a, words)), mutual_info_score(a, b), rel_tol=1e-12)
    r = 0.8
    grid = np.linspace(-6, 6, 401)
    density = stats.multivariate_normal([0, 0], [[1, r], [r, 1]]).pdf(np.dstack(np.meshgrid(grid, grid)))
    assert math.isclose(info.mutual_information(density / density.sum()), -0.5 * math.log(1 - r * r), rel_tol=1e-3)
    with pytest.raises(UserValueError, match="one of pxy and labels"):
        info.mutual_information()


@pytest.mark.spec("DLN-100", "DLN-101", "DLN-102")
def test_tables_of_more_variables():
    """What is given may be any axis; what speaks of a pair refuses three variables, of which it gave numbers."""
    table = simplexes(12, 1, seed=12)[0].reshape(2, 3, 2)
    for given in (0, 1, 2, -1, -3):
        rest = tuple(axis for axis in range(3) if axis != given % 3)
        expected = info.joint_entropy(table) - info.entropy(table.sum(rest))
        assert math.isclose(info.conditional_entropy(table, given=given), expected)
    for given in (3, -4):
        with pytest.raises(UserValueError, match=rf"given must be an axis of a table of 3, got {given}"):
            info.conditional_entropy(table, given=given)
    for function in (info.mutual_information, info.pmi, info.ppmi, info.npmi):
        with pytest.raises(UserValueError, match=r"pxy must be a table of two variables, got 3; sum over"):
            function(table)
    pair = table.reshape(2, 6)  # of the first against both others
    assert math.isclose(
        info.mutual_information(pair), info.entropy(pair.sum(1)) - info.conditional_entropy(pair, given=1)
    )


@pytest.mark.spec("DLN-102")
def test_pointwise_mutual_information():
    found = info.pmi(TABLE)
    assert math.isclose(found[0, 0], 0.28768207245178085)
    assert found[1, 0] == -math.inf
    assert math.isclose((TABLE[TABLE > 0] * found[TABLE > 0]).sum(), info.mutual_information(TABLE))
    assert info.ppmi(TABLE)[1, 0] == 0 and info.ppmi(TABLE)[0, 1] == 0 and info.ppmi(TABLE)[0, 0] == found[0, 0]
    assert np.allclose(info.npmi(np.diag([0.3, 0.7])).diagonal(), 1)
    assert np.allclose(info.npmi(np.outer([0.2, 0.8], [0.5, 0.5])), 0, atol=1e-15)
    assert info.npmi(TABLE)[1, 0] == -1
    assert np.isnan(info.pmi([[0.0, 0.0], [0.5, 0.5]])[0]).all()


@pytest.mark.spec("DLN-97")
def test_plug_in_entropy_is_low_and_miller_madow_mends_it():
    """Over 2,000 samples of 50 from 10 equal outcomes; the biases are 50 and 4 standard errors from each other."""
    counts = np.random.default_rng(0).multinomial(50, np.full(10, 0.1), 2000)
    plain = np.array([info.entropy_of_counts(c, correction="none") for c in counts])
    mended = np.array([info.entropy_of_counts(c) for c in counts])
    error = plain.std() / math.sqrt(2000)
    assert abs(plain.mean() - (math.log(10) - 9 / 100)) < 0.005 + 4 * error
    assert abs(mended.mean() - math.log(10)) < 0.005 + 4 * error
    assert abs(mended.mean() - math.log(10)) < abs(plain.mean() - math.log(10)) / 5


@pytest.mark.spec("DLN-97")
def test_differential_entropy_from_samples():
    """Nearest neighbors at n = 20,000: standard error about 0.008 nats, tolerance 0.04 (five errors)."""
    rng = np.random.default_rng(0)
    for draws, exact in (
        (rng.normal(0, 3, 20_000), 0.5 * math.log(2 * math.pi * math.e * 9)),
        (rng.uniform(2, 2.5, 20_000), math.log(0.5)),
        (rng.multivariate_normal([0, 0], [[2, 1], [1, 1]], 20_000), math.log(2 * math.pi * math.e)),
    ):
        assert abs(info.differential_entropy(draws) - exact) < 0.04
    assert math.isclose(Normal(1.0, 3.0).entropy(), 0.5 * math.log(2 * math.pi * math.e * 9))
    assert math.isclose(Uniform(2.0, 2.5).entropy(), math.log(0.5))  # below 0
    draws = rng.normal(size=20_000)
    assert abs(info.differential_entropy(draws) - stats.differential_entropy(draws)) < 0.04
    whole, _ = integrate.quad(lambda x: special.entr(stats.norm.pdf(x)), -12, 12)
    assert math.isclose(whole, 0.5 * math.log(2 * math.pi * math.e), rel_tol=1e-8)
    for given in ([0.0, 1, 2, np.nan, 5], np.zeros((9, 2, 2))):
        with pytest.raises(UserValueError, match="x must be finite numbers, one row per draw"):
            info.differential_entropy(given)
    with pytest.raises(UserValueError, match=r"counts must be whole numbers, got 1\.5"):
        info.entropy_of_counts([2, 1.5])
    with pytest.raises(UserValueError, match="equal rows"):
        info.differential_entropy(np.zeros(10))
    with pytest.raises(UserValueError, match=r"k must be in \[1, 2\], fewer than the 3 rows, got 3"):
        info.differential_entropy([0.0, 1.0, 2.0], k=3)


ROWS = np.random.default_rng(3).normal(size=(60, 2))
MEASURES = {
    "self_information": ("DLN-96", lambda **b: info.self_information([0.1, 0.6], **b)),
    "entropy_of_counts": ("DLN-97", lambda **b: info.entropy_of_counts([3, 0, 1, 7], **b)),
    "differential_entropy": ("DLN-97", lambda **b: info.differential_entropy(ROWS, **b)),
    "largest_entropy": ("DLN-98", lambda **b: info.largest_entropy(4, **b)),
    "joint_entropy": ("DLN-99", lambda **b: info.joint_entropy(TABLE, **b)),
    "conditional_entropy": ("DLN-100", lambda **b: info.conditional_entropy(TABLE, given=1, **b)),
    "mutual_information": ("DLN-101", lambda **b: info.mutual_information(TABLE, **b)),
    "of labels": ("DLN-101", lambda **b: info.mutual_information(labels=([0, 1, 1, 2], [0, 0, 1, 1]), **b)),
    "pmi": ("DLN-102", lambda **b: info.pmi(TABLE, **b)[0]),
    "ppmi": ("DLN-102", lambda **b: info.ppmi(TABLE, **b)),
    "cross_entropy": ("DLN-17", lambda **b: info.cross_entropy(P, Q, **b)),
    "kl": ("DLN-103", lambda **b: info.kl(P, Q, direction="reverse", **b)),
    "symmetric_kl": ("DLN-103", lambda **b: info.symmetric_kl(P, Q, **b)),
    "js": ("DLN-103", lambda **b: info.js(P, Q, **b)),
}


@pytest.mark.parametrize(
    "measure", [pytest.param(call, id=name, marks=pytest.mark.spec(row)) for name, (row, call) in MEASURES.items()]
)
def test_in_bits_everything_is_nats_over_log_2(measure):
    assert np.abs(measure()).max() > 0.05
    np.testing.assert_allclose(measure(base=2), np.array(measure()) / math.log(2), rtol=1e-13)


@pytest.mark.spec("DLN-97")
@pytest.mark.parametrize("k", [1, 2, 3, 10])
@pytest.mark.parametrize("d", [1, 3])
def test_the_neighbors_counted_do_not_move_the_mean_of_the_estimate(k, d):
    """psi(k), not log k, and the ball of d dimensions: over 60 samples of 400 rows, uniform on a torus of volume
    2^d, where the estimate has no bias. False alarm below 1e-5 each."""
    random, found = np.random.default_rng(k), []
    for _ in range(60):
        rows = 2 * random.random((400, d))
        far = cKDTree(rows, boxsize=2.0).query(rows, k + 1)[0][:, -1]
        offset = info.differential_entropy(rows, k=k) - d * np.log(cKDTree(rows).query(rows, k + 1)[0][:, -1]).mean()
        found.append(offset + d * np.log(far).mean())
    error = np.std(found, ddof=1) / math.sqrt(60)
    assert abs(np.mean(found) - d * math.log(2)) < 4.8 * error
    assert error < 0.02


@pytest.mark.parametrize("base", [1, 0, -2])
def test_a_base_that_is_none_is_refused(base):
    with pytest.raises(UserValueError, match="base"):
        info.entropy([0.5, 0.5], base=base)


def test_weights_without_a_sum_are_refused():
    for weights in ([0.0, 0.0], [-1.0, 2.0], [np.inf, 1.0]):
        with pytest.raises(UserValueError, match="p must be at least 0 with a finite positive sum"):
            info.entropy(weights, normalize=True)


def test_what_is_no_pair_of_laws_is_refused():
    with pytest.raises(UserValueError, match=r"p and q must have the same outcomes, got 2 and 3 \(p, q\)"):
        info.kl([0.5, 0.5], [0.2, 0.3, 0.5])
    with pytest.raises(UserTypeError, match="p must be an array of numbers"):
        info.entropy(["a", "b"])
