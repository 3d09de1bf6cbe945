"""Grey levels as chances of bits: three schemes, what they share and what they must not."""

import numpy as np
import pytest
from tests.oracles.binary import all_states
from tests.oracles.principles import begun, mean_gradient

import gnomon
from gnomon.cli.main import run as command
from gnomon.data import Binarizer
from gnomon.distributions.grey import DrawnAfresh, DrawnOnce, Thresholded, drawn
from gnomon.distributions.independent import BernoulliColumns
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import Exact
from gnomon.systems.energy.rbm import RBMModel

GREY = np.random.default_rng(0).random((300, 6))
GREY[:, 0], GREY[:, 1] = 0.0, 1.0


@pytest.mark.spec("GEN-142")
def test_a_fixed_scheme_is_the_same_array_and_hash_for_the_same_seed(tmp_path):
    fixed = Binarizer("fixed", seed=7)
    bits = fixed.transform(GREY)
    assert (bits == Binarizer("fixed", seed=7).transform(GREY)).all()
    assert fixed.digest(GREY) == Binarizer("fixed", seed=7).digest(GREY) != Binarizer("fixed", seed=8).digest(GREY)
    again = Binarizer.load(fixed.save(tmp_path / "scheme.json", GREY), GREY)
    assert (again.transform(GREY) == bits).all() and again.space(6) == fixed.space(6)
    with pytest.raises(UserValueError, match="not those"):
        Binarizer.load(tmp_path / "scheme.json", GREY[::-1])
    part = np.arange(40, 90)  # a split has the bits that the whole set has
    assert (fixed.transform(GREY[part], rows=part) == bits[part]).all()
    assert (fixed.transform(GREY, draw=3) == bits).all()


@pytest.mark.spec("GEN-142", "GEN-036")
def test_dynamic_bits_have_the_grey_levels_as_means():
    """4,000 presentations: every cell within 4.9 standard errors (1,800 cells, false alarm 2e-3); 0 and 1 stay."""
    scheme, n = Binarizer("dynamic", seed=1), 4000
    first, second = scheme.transform(GREY, draw=0), scheme.transform(GREY, draw=1)
    assert set(np.unique(first)) == {0.0, 1.0} and (first != second).any()
    mean = np.mean([scheme.transform(GREY, draw=draw) for draw in range(n)], axis=0)
    assert (np.abs(mean - GREY) <= 4.9 * np.sqrt(GREY * (1 - GREY) / n)).all()
    assert (mean[:, 0] == 0).all() and (mean[:, 1] == 1).all()
    cells = np.array([scheme.transform(GREY[:50], draw=draw) for draw in range(n)])[:, :, 2:]
    pairs = np.corrcoef(cells[:, 0].T)  # drawn independently: no correlation beyond 4.9 / sqrt(n)
    assert np.abs(pairs[np.triu_indices(4, 1)]).max() < 4.9 / np.sqrt(n)


@pytest.mark.spec("GEN-142")
def test_the_expected_likelihood_of_independent_columns_is_the_cross_entropy():
    """Of 4,000 dynamic presentations the mean log probability, within 4.5 standard errors of the formula."""
    model, g = BernoulliColumns(GREY), GREY
    p = model.mean
    with np.errstate(divide="ignore"):
        exact = (g * np.log(p) + (1 - g) * np.log(1 - p)).sum(1)
    np.testing.assert_allclose(model.log_prob(g), exact, rtol=1e-12)
    found = np.array([model.log_prob(Binarizer("dynamic").transform(g, draw=draw)).mean() for draw in range(4000)])
    assert abs(found.mean() - exact.mean()) < 4.5 * found.std() / np.sqrt(4000)


@pytest.mark.spec("GEN-142")
def test_threshold_and_wrong_input():
    assert Binarizer().transform([[0.0, 0.49, 0.5, 1.0]]).tolist() == [[0, 0, 1, 1]]
    with pytest.raises(UserValueError, match=r"in \[0, 1\], got 1.5"):
        Binarizer("dynamic").transform([[0.5, 1.5]])
    with pytest.raises(UserValueError, match="scheme must be"):
        Binarizer("sometimes")
    with pytest.raises(UserValueError, match="seed must be"):
        Binarizer("fixed", seed=-1)
    with pytest.raises(UserValueError, match="rows must be"):
        Binarizer("fixed").transform(GREY, rows=[1, 2])
    with pytest.raises(UserValueError, match="holds no binarizer"):
        Binarizer.load("nowhere.json")


@pytest.mark.spec("GEN-142")
def test_scores_of_different_schemes_are_never_compared():
    spaces = [Binarizer(scheme).space(6) for scheme in ("threshold", "fixed", "dynamic")]
    assert len({*spaces, Binarizer("fixed", seed=2).space(6)}) == 4
    assert spaces[0] == "pmf on {0,1}^6"
    scores = [
        gnomon.RBM(n_hidden=2, epochs=2, binarize=scheme, random_state=0).fit(GREY).evaluate(GREY)["log_likelihood"]
        for scheme in ("threshold", "fixed", "dynamic")
    ]
    assert [one.data_space for one in scores] == spaces
    for other in scores[1:]:
        with pytest.raises(UserValueError, match="cannot be compared"):
            scores[0].against(other)
    assert all(one.value < 0 for one in scores)


@pytest.mark.spec("GEN-142")
@pytest.mark.parametrize("scheme", ["threshold", "fixed"])
def test_a_machine_of_grey_rows_is_that_of_the_bits(scheme):
    """Fit, likelihood and codes are those of the rows that the scheme makes, to the bit: train and test alike."""
    bits = Binarizer(scheme).transform(GREY)
    options = {"n_hidden": 3, "epochs": 4, "random_state": 0}
    grey, plain = gnomon.RBM(binarize=scheme, **options).fit(GREY), gnomon.RBM(**options).fit(bits)
    for name, value in plain.model_.state().items():
        assert (value == grey.model_.state()[name]).all()
    np.testing.assert_array_equal(grey.log_prob(GREY), plain.log_prob(bits))
    np.testing.assert_array_equal(grey.transform(GREY), plain.transform(bits))


@pytest.mark.spec("GEN-142", "GEN-036")
def test_dynamic_rows_are_drawn_at_every_update_and_judged_by_several_draws():
    machine = gnomon.RBM(n_hidden=3, epochs=2, binarize="dynamic", random_state=0).fit(GREY)
    stream = Noise(0, "binarize/judged").rows(np.arange(len(GREY)))
    each = [machine.log_prob(drawn(GREY, stream, draw)) for draw in range(10)]  # rows of 0 and 1 stay as they are
    np.testing.assert_allclose(machine.log_prob(GREY), np.mean(each, axis=0), rtol=1e-12)
    seen = []

    class Spy(Exact):
        short = "spy"

        def build(self):
            objective = super().build()
            inner = objective.compare
            objective.compare = lambda model, X, *rest: (seen.append(np.array(X)), inner(model, X, *rest))[1]
            return objective

    gnomon.RBM(n_hidden=2, epochs=30, batch_size=None, binarize="dynamic", objective=Spy(), random_state=0).fit(GREY)
    shown = np.array(seen)
    assert shown.shape[0] == 30 and set(np.unique(shown)) == {0.0, 1.0}
    assert (shown[0] != shown[1]).any()
    level = np.sort(shown.mean(0), axis=0)  # rows come in another order; columns keep their means
    assert np.abs(shown.mean((0, 1)) - GREY.mean(0)).max() < 4.5 * 0.5 / np.sqrt(30 * 300)
    assert level[:, 0].max() == 0 and level[:, 1].min() == 1


@pytest.mark.spec("GEN-036")
def test_means_equal_the_expectation_for_statistics_linear_in_the_row():
    """All 2^4 presentations of a grey row, by their chances: what is linear in v is that of the means.

    Of the visible biases always; of W where the hidden units take no notice of the row (W = 0, so E[h | v] is one
    number), and not elsewhere: there the two readings differ.
    """
    random = np.random.default_rng(1)
    g = random.random((1, 4))
    rows = all_states(4)
    chance = np.prod(np.where(rows == 1, g, 1 - g), axis=1)
    for scale, linear in ((0.0, True), (2.0, False)):
        model = RBMModel.of(scale * random.normal(size=(4, 3)), random.normal(size=4), random.normal(size=3))
        by_means = mean_gradient(begun(Exact(), model, g), model, g)
        by_draws = mean_gradient(begun(Exact(), model, rows, chance), model, rows, weight=chance)
        np.testing.assert_allclose(by_means["visible_bias"], by_draws["visible_bias"], atol=1e-12)
        same = np.allclose(by_means["weight"], by_draws["weight"], atol=1e-12)
        assert same == linear


@pytest.mark.spec("GEN-036")
def test_grey_rows_outside_the_interval_are_refused_from_the_command_line(tmp_path, capsys):
    np.savetxt(tmp_path / "grey.csv", GREY, fmt="%.3f", delimiter=",", header=",".join("abcdef"), comments="")
    out = str(tmp_path / "run")
    fit = ["fit", "rbm", str(tmp_path / "grey.csv"), "--epochs", "2", "--n-hidden", "2"]
    assert command([*fit, "--binarize", "dynamic", "--out", out]) == 0
    assert "drawn afresh" in capsys.readouterr().out
    for scheme in ("threshold", "fixed", "means"):
        assert command([*fit, "--binarize", scheme, "--out", f"{out}-{scheme}"]) == 0
    assert command([*fit, "--binarize", "often", "--out", f"{out}-x"]) == 2
    capsys.readouterr()
    with pytest.raises(UserValueError, match=r"in \[0, 1\]"):
        gnomon.RBM(binarize="dynamic").fit(GREY * 2)


@pytest.mark.spec("GEN-142")
def test_views_of_a_data_set_hold_the_bits_of_the_whole_set():
    data = gnomon.data.load("digits")
    grey = data.view("unit")
    assert (data.view("threshold") == data.view("binary")).all() and (data.view("grey") == grey).all()
    bits = data.view("drawn")
    assert (bits == Binarizer("fixed").transform(grey)).all()
    _, test = gnomon.data.split(data, test=0.2, seed=3)
    assert (test.view("drawn") == bits[test.rows]).all()
    for domain, view in ((Thresholded(), "threshold"), (DrawnOnce(), "drawn"), (DrawnAfresh(), "grey")):
        assert domain.view == view
