"""Checks of results: planted failures are found and named, healthy results are not, at stated rates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import gnomon
from gnomon.errors import UserValueError
from gnomon.evaluation.diagnosis import answers, blocks, draws, histories
from gnomon.evaluation.diagnosis.answers import Answers
from gnomon.evaluation.diagnosis.blocks import Machine
from gnomon.evaluation.diagnosis.gap import limit, middle, tail
from gnomon.evaluation.diagnosis.histories import History
from gnomon.evaluation.diagnosis.records import Diagnosis, Finding, examine
from gnomon.evaluation.score import Score
from gnomon.inference.mcmc.records import Draws
from gnomon.numeric.noise import Noise
from gnomon.systems.energy.rbm import RBMModel


def normal(shape, seed=0, name="draws"):
    return np.array(Noise(seed, name).normal(shape, like=np.empty(0)))


def record(x, info=None, **facts):
    return Draws({"x": x}, info or {}, facts)


def levels(findings):
    return {f.check: f.level for f in findings}


# --- records ----------------------------------------------------------------------------------------------------------


def test_the_gravest_comes_first_and_refusals_are_named():
    def refuse(_):
        raise UserValueError("nothing", "here", "leave")

    checks = {
        "a": lambda n: [Finding("ok", "fine", "1"), Finding("warning", "bad", "2", "mend it")],
        "b": refuse,
        "c": lambda n: "no reason",
    }
    found, skipped = examine(0, checks)
    assert [f.level for f in found] == ["warning", "ok"] and {f.check for f in found} == {"a"}
    assert skipped == {"b": "nothing (here); leave", "c": "no reason"}
    whole = Diagnosis("it", tuple(found), skipped)
    assert whole.level == "warning" and whole.to_json()["findings"][0]["remedy"] == "mend it"
    text = str(whole)
    assert text.startswith("it: warning\nWARNING bad: 2\n        -> mend it\n") and "not looked at" not in text
    assert "not looked at: c (no reason)" in whole.text(everything=True)
    assert Diagnosis("it", ()).level == "ok"
    mild = (Finding("ok", "fine", "1"), Finding("notice", "odd", "2"), Finding("ok", "fine", "3"))
    assert Diagnosis("it", mild).level == "notice"
    assert whole.of("a") == tuple(found) and whole.of("b") == ()


# --- chains -----------------------------------------------------------------------------------------------------------


def test_healthy_chains_pass_in_50_runs():
    """R-hat of 8 chains of 1000 independent draws passes 1.01 in fewer than 1 of 1000 runs: 50 runs, 5%."""
    for seed in range(50):
        info = {"accept_prob": np.full((8, 1000), 0.8), "divergent": np.zeros((8, 1000), bool)}
        found, skipped = examine(record(normal((8, 1000, 2), seed), info, wanted=1000), draws.CHECKS)
        assert set(levels(found).values()) == {"ok"} and not skipped, seed


def test_a_chain_in_another_mode_is_named():
    x = normal((8, 500, 3))
    x[[2, 5], :, 1] += 8
    (found,) = draws.agreement(record(x))
    assert found.level == "warning" and found.what == "x[1] has not converged" and "tempering" in found.remedy
    assert "chains 0, 1, 3, 4, 6, 7 about" in found.evidence and "chains 2, 5 about 8" in found.evidence


def test_slow_chains_are_said_to_be_few():
    x = normal((4, 1000, 1))
    for t in range(1, 1000):  # autocorrelation 0.98: about 100 times fewer draws
        x[:, t] = 0.98 * x[:, t - 1] + (1 - 0.98**2) ** 0.5 * x[:, t]
    (found,) = draws.enough(record(x))
    assert found.level in ("notice", "warning") and "times as many" in found.remedy
    effective = float(found.evidence.split()[0])
    assert 10 < effective < 120  # n (1 - rho) / (1 + rho) = 40


def test_divergences_acceptance_constants_and_cuts_are_found():
    x = normal((4, 100, 2))
    x[..., 1] = 3.0
    info = {"divergent": np.arange(400).reshape(4, 100) < 7, "accept_prob": np.full((4, 100), 0.9)}
    info["accept_prob"][2] = 0.0
    found = levels(examine(record(x, info, wanted=200), draws.CHECKS)[0])
    assert found["divergences"] == "warning" and found["acceptance"] == "warning"
    assert found["constants"] == "notice" and found["complete"] == "notice"
    assert "7 of 400" in draws.divergences(record(x, info))[0].evidence
    assert draws.acceptance(record(x, info))[0].what == "chain 2 hardly ever moved"
    x[0, 0, 0] = np.nan
    assert draws.constants(record(x))[0].what == "draws that are not finite"


def test_small_steps_are_a_notice_for_walks_alone():
    info = {"accept_prob": np.ones((4, 100))}
    walk = record(normal((4, 100, 1)), info, kernel={"type": "m:HMC"})
    assert draws.acceptance(walk)[0].level == "notice"
    assert draws.acceptance(record(normal((4, 100, 1)), info, kernel={"type": "m:Gibbs"}))[0].level == "ok"


def test_too_few_draws_are_no_evidence():
    found, skipped = examine(record(normal((4, 5, 1))), draws.CHECKS)
    assert {"agreement", "enough"} <= set(skipped) and "8 are needed" in skipped["agreement"]
    assert [f.check for f in found] == ["constants"]


# --- histories --------------------------------------------------------------------------------------------------------


def falling(n, scale, noise=0.0, seed=0):
    return 1 + np.exp(-np.arange(n) / scale) + noise * normal((n,), seed)


@pytest.mark.parametrize(
    ("system", "options", "name", "sign"),
    [
        ("metric-network", {}, "triplet", 1),  # whatever the loss, its name is in no list
        ("mlp-regression", {"l2": 0.1}, "squared_error", 1),  # watched, though another one is descended
        ("gaussian-mixture", {"n_components": 2}, "objective", -1),
        ("rbm", {"objective": "exact", "n_hidden": 2}, "negative_log_likelihood", 1),
        ("rbm", {"objective": "cd", "n_hidden": 2}, "", 0),  # a contrast has no direction, nor has a game
        ("gan", {}, "", 0),
    ],
)
def test_a_history_is_judged_by_what_its_objective_has_watched(system, options, name, sign):
    X = normal((30, 3))
    X, y = (np.asarray(X > 0, float) if system == "rbm" else X), np.arange(30) % 2
    fitted = gnomon.make(system, random_state=0, **options)
    fitted.set_params(**{limit: 2 for limit in ("epochs", "max_iter") if limit in fitted.get_params()}).fit(X, y)
    history = History.of(fitted, limit=2)
    assert history.loss[0] == name and history.limit == 2 and history.columns is fitted.history_
    assert history.loss[1].tolist() == ([sign * value for value in fitted.history_[name]] if name else [])
    assert bool(examine(history, histories.CHECKS)[1]["rest"] == "the history has no loss") == (name == "")


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_a_fit_that_was_cut_while_learning_is_found(noise):
    (found,) = histories.rest(History({"cross_entropy": falling(50, 40, noise)}, limit=50))
    assert found.level == "warning" and "still learned" in found.what
    (rising,) = histories.rest(History({"log_likelihood": -falling(50, 40, noise)}, limit=50))
    assert rising.level == "warning"
    (far,) = histories.rest(History({"cross_entropy": 1000 + falling(50, 40, noise)}, limit=50))
    assert far.level == "warning"  # what counts is the way, not where it begins


def test_fits_at_rest_pass_in_200_runs():
    """A slope beyond 5 standard errors: under 1e-4 for 20 normal residuals; 200 runs, 2%."""
    for seed in range(200):
        fit = History({"cross_entropy": falling(100, 5, 0.05, seed), "gradient_norm": np.ones(100)}, limit=100)
        found, skipped = examine(fit, histories.CHECKS)
        assert set(levels(found).values()) == {"ok"}, (seed, found)
        assert set(skipped) == {"validation"}


def test_a_smooth_fit_at_rest_was_not_cut():
    """The last fifth falls without any noise, by 2e-7 of the way."""
    assert histories.rest(History({"cross_entropy": falling(100, 5)}, limit=100))[0].level == "ok"


def test_a_fit_that_ended_by_tolerance_was_not_cut():
    (found,) = histories.rest(History({"log_likelihood": -falling(50, 40)}, limit=200))
    assert found.level == "ok" and "by itself" in found.what


def test_losses_that_rise_or_blow_up_are_found():
    up = History({"negative_log_likelihood": 1 + 0.1 * np.arange(40)})
    assert histories.rise(up)[0].what == "the loss rose"
    valley = History({"cross_entropy": 1 + (np.arange(60) / 30 - 1) ** 2})
    assert histories.rise(valley)[0].level == "notice"
    # steep steps at the beginning are no noise of the end: from 10 to 1 at once, and up to 3
    steep = History({"cross_entropy": np.concatenate([[10.0], np.linspace(1, 3, 39)])})
    assert histories.rise(steep)[0].level == "notice"
    shallow = History({"cross_entropy": np.concatenate([[10.0], np.linspace(1, 2, 39)])})
    assert histories.rise(shallow)[0].level == "ok"  # up by a tenth of the way
    slight = History({"cross_entropy": np.linspace(1, 1.01, 40)})
    assert histories.rise(slight)[0].what == "the loss ended above its best"
    rough = History({"cross_entropy": 1 + 0.1 * np.concatenate([[-1.0], normal((59,))])})
    assert histories.rise(rough)[0].level == "ok"
    broken = History({"cross_entropy": [1.0] * 20 + [np.nan]})
    assert (
        histories.finite(broken)[0].what == "the fit diverged" and "record 21" in histories.finite(broken)[0].evidence
    )
    assert isinstance(histories.rest(broken), str)


def test_how_a_fit_ended():
    assert (
        histories.ended(History({"loss": [1]}, finished=False, stopped="the loss is nan"))[0].what == "the fit diverged"
    )
    cut = histories.ended(History({}, finished=False, resume="gnomon resume a"))[0]
    assert cut.what == "the fit was cut" and cut.remedy == "gnomon resume a"


def test_validation_rows_that_get_worse_are_overfitting_unless_the_best_was_kept():
    loss = np.concatenate([np.linspace(2, 1, 30), np.linspace(1, 1.6, 30)])
    found = histories.validation(History({"validation_cross_entropy": loss}))[0]
    assert found.level == "warning" and "record 30 of 60" in found.evidence
    assert histories.validation(History({"validation_cross_entropy": loss, "best_epoch": [30] * 60}))[0].level == "ok"
    flat = np.concatenate([np.linspace(2, 1, 30), 1 + 0.02 * normal((30,))])
    assert histories.validation(History({"validation_cross_entropy": flat}))[0].level == "ok"


# --- answers ----------------------------------------------------------------------------------------------------------


def share(hits, n):
    return Score.from_pointwise(np.arange(n) < hits, name="accuracy", unit="fraction")


def told(seed, n=400, sharp=1.0):
    """Labels drawn from the stated probabilities, made more extreme by `sharp`."""
    logits = 2 * normal((n, 3), seed, "logits")
    p = np.exp(logits)
    p /= p.sum(1, keepdims=True)
    u = np.array(Noise(seed, "labels").uniform((n, 1)))
    y = (u > p.cumsum(1)).sum(1)
    stated = p**sharp
    return y, stated / stated.sum(1, keepdims=True)


def test_right_probabilities_pass_and_overconfident_ones_do_not():
    """4 standard errors above the level of chance and 0.05: no false alarm in 100 runs of 400 rows (under 1%)."""
    for seed in range(100):
        y, p = told(seed)
        found = Answers(share(300, 400), y=y, predicted=p.argmax(1), proba=p, classes=np.arange(3))
        assert answers.calibration(found)[0].level == "ok", seed
    y, p = told(0, sharp=5.0)
    (found,) = answers.calibration(Answers(share(1, 2), y=y, predicted=p.argmax(1), proba=p, classes=np.arange(3)))
    assert found.level == "warning" and "overconfident" in found.what
    y, p = told(0, sharp=0.2)
    (found,) = answers.calibration(Answers(share(1, 2), y=y, predicted=p.argmax(1), proba=p, classes=np.arange(3)))
    assert "underconfident" in found.what


def certain(counts, stated):
    """Rows of two classes in groups that state one probability each, of which so many come true."""
    p = np.repeat(stated, [n for _, n in counts])
    y = np.concatenate([np.arange(n) >= hits for hits, n in counts]).astype(int)
    proba = np.stack([p, 1 - p], axis=1)
    return answers.calibration(Answers(share(1, 2), y=y, predicted=0 * y, proba=proba, classes=np.arange(2)))[0]


@pytest.mark.parametrize(("n", "stated"), [(10, 0.9), (12, 0.7), (15, 0.95), (25, 0.8), (25, 0.99), (60, 0.9)])
def test_right_probabilities_of_few_rows_pass(n, stated):
    """The chance of a warning, summed over how many come true: 10 rows of 0.9 all come true in 35 of 100 cases."""
    found = [certain([(hits, n)], [stated]) for hits in range(n + 1)]
    law = stats.binom.pmf(np.arange(n + 1), n, stated)
    assert sum(law[hits] for hits in range(n + 1) if found[hits].level != "ok") < 3e-4
    assert found[n].level == "ok" and "overconfident" in found[0].what
    seen = (found[-1].evidence.split(" ± ")[i].split(" ")[0].rstrip("%") for i in (1, 2))
    even = np.sqrt(stated * (1 - stated) / n)  # of rows that agree: the error that right probabilities would have
    assert [float(x) for x in seen] == pytest.approx([np.sqrt(1 - 2 / np.pi) * even, 100 * even], rel=0.06)


def test_right_probabilities_of_few_rows_in_two_groups_pass():
    """The same over the hits of both: their mean is right where one group is too sure and the other too modest."""
    chance = 0.0
    for a, b in np.ndindex(13, 13):
        p = stats.binom.pmf(a, 12, 0.6) * stats.binom.pmf(b, 12, 0.85)
        chance += p * (certain([(a, 12), (b, 12)], [0.6, 0.85]).level != "ok")
    assert chance < 3e-4
    assert "too high in places" in certain([(8, 40), (40, 40)], [0.55, 0.65]).what


def test_errors_of_few_rows_need_more_of_them():
    """Four standard errors of ten rows come by chance in 3 of 1,000 cases: Student's quantile is the limit."""
    for freedom in (5, 9, 40):
        assert limit(freedom) == pytest.approx(stats.t.isf(stats.norm.sf(4), freedom), rel=1e-9)
    z = normal((10,))
    z = (z - z.mean()) / z.std(ddof=1) / 10**0.5  # mean 0 with the standard error 0.1
    unit = {"unit": "squared units of y", "name": "squared_error", "higher_is_better": False}
    train = Score.from_pointwise(0.05 * normal((1000,)) + 0.01, **unit)
    for t, level, gap in ((6.8, "ok", "notice"), (7.2, "warning", "warning")):
        found = Answers(share(1, 2), y=z + 0.1 * t, predicted=np.zeros(10))
        assert answers.bias(found)[0].level == level
        held = Score.from_pointwise(0.01 + z / 10 + 0.01 * t, **unit)
        assert answers.gap(Answers(held, train))[0].level == gap


def test_the_worst_class_is_named():
    y = np.repeat(["a", "b", "c"], 40)
    predicted = y.copy()
    predicted[80:115] = "a"
    found = Answers(share(1, 2), y=y, predicted=predicted, classes=np.array(["a", "b", "c"]))
    (told,) = answers.classes(found)
    assert told.level == "warning" and "'c'" in told.what and told.evidence.startswith("recall 0.125 of 40 rows of 'c'")
    predicted = y.copy()
    predicted[::10] = "b"
    assert (
        answers.classes(Answers(share(1, 2), y=y, predicted=predicted, classes=np.array(["a", "b", "c"])))[0].level
        == "ok"
    )


def test_gaps_beyond_chance_are_overfitting():
    assert answers.gap(Answers(share(70, 100), share(400, 400)))[0].level == "warning"
    assert answers.gap(Answers(share(28, 30), share(120, 120)))[0].level == "ok"  # 2 of 30: chance
    assert answers.gap(Answers(share(100, 100), share(300, 400)))[0].level == "ok"  # better than in training
    noise = normal((100,)) ** 2
    errors = {"unit": "squared units of y", "name": "squared_error", "higher_is_better": False}
    good, bad = Score.from_pointwise(0.01 * noise, **errors), Score.from_pointwise(noise, **errors)
    assert answers.gap(Answers(bad, good))[0].level == "warning"
    assert answers.gap(Answers(good, good))[0].level == "ok"
    assert isinstance(answers.gap(Answers(good)), str)


def test_a_gap_short_of_a_warning_is_told_as_what_it_is():
    """0.95 against 0.77 of 60 rows is 3.4 standard errors: no warning, and not "no overfitting" either."""
    (found,) = answers.gap(Answers(share(46, 60), share(229, 240)))
    assert found.level == "notice" and "fare worse" in found.what and found.remedy
    assert "0.188 ± 0.056 worse; 3.3 standard errors where a warning needs 4.3" in found.evidence
    (found,) = answers.gap(Answers(share(9_600, 10_000), share(9_900, 10_000)))  # sure, and too little for a warning
    assert found.level == "ok" and "slightly worse" in found.what
    assert found.evidence.endswith("a warning needs more than 0.05")
    (found,) = answers.gap(Answers(share(28, 30), share(120, 120)))  # 1.4 standard errors
    assert found.what == "no overfitting beyond chance"
    z = normal((400,))
    train, held = z - z.mean(), np.append(z[:200] - z[:200].mean() - 0.25, 1000.0)  # a wild row hides it from the mean
    (found,) = answers.gap(Answers(density(held), density(train)))
    assert found.level == "notice" and "without the highest and lowest fifth" in found.evidence


def density(values, **more):
    return Score.from_pointwise(values, name="log_likelihood", data_space="R^2", **more)


def test_one_wild_row_hides_no_overfitting_and_makes_none():
    """E2: 58.8 on training rows, -36.8 held out, and one row of -79,568 that makes both the mean and its error."""
    train, held = 58.8 + 3 * normal((1000,)), 50 + 3 * normal((320,), 1)
    held[7] = -79568.0
    (found,) = answers.gap(Answers(density(held), density(train)))
    assert found.level == "warning" and "without the highest and lowest fifth" in found.evidence
    fine = 58.8 + 3 * normal((320,), 2)
    fine[7] = -79568.0
    (found,) = answers.gap(Answers(density(fine), density(train)))
    assert found.level == "ok"
    fall, error = -np.mean(fine) + np.mean(train), np.hypot(np.std(fine, ddof=1) / 320**0.5, np.std(train) / 1000**0.5)
    assert f"{fall:.3g} ± {error:.2g} worse" in found.evidence  # the error shown is the one of the test


def test_a_tenth_of_the_rows_that_fare_far_worse_are_found():
    """The middle of the rows is as in training, and the mean is hidden by its own error."""
    train, held = normal((1000,)), normal((300,), 1)
    held[:30] = -np.exp(7 * np.abs(normal((30,), 2)) + 5)
    (found,) = answers.gap(Answers(density(held), density(train)))
    assert (
        found.level == "warning"
        and "some held-out rows" in found.what
        and "30 of them fare worse than" in found.evidence
    )
    held[0] = -np.inf
    (found,) = answers.gap(Answers(density(held), density(train)))
    assert found.level == "warning" and "-inf for 1 of 300" in found.evidence
    assert isinstance(answers.gap(Answers(density(train), density(held))), str)


def test_the_chance_of_held_out_rows_below_all_training_rows_is_exact():
    """The k lowest of n + m rows are all held out: m (m - 1) ... / (n + m) (n + m - 1) ..."""
    train, held = np.arange(50.0), np.concatenate([-1 - np.arange(4.0), 10.5 + np.arange(16.0)])
    far = tail(density(held), density(train)), tail(density(train), density(held))
    assert far[1].rows == 4 and far[1].but == 0
    assert far[1].chance == pytest.approx(np.prod((20 - np.arange(4)) / (70 - np.arange(4))))
    assert far[0].chance == 1.0
    alarms = sum(tail(density(normal((150,), s)), density(normal((60,), s, "new"))).chance < 0.01 for s in range(400))
    assert alarms <= 17  # at most 2 % by two looks: 8, above 17 in 1 of 1,000 runs


def test_the_trimmed_mean_and_its_error_are_scipys():
    from scipy.stats import trim_mean, ttest_ind

    a, b = normal((40,)) ** 3, 1 + normal((55,), 1) ** 3
    inner = middle(density(a), density(b))
    assert (inner.train, inner.held) == pytest.approx((trim_mean(a, 0.2), trim_mean(b, 0.2)))
    assert inner.size / inner.error == pytest.approx(ttest_ind(a, b, equal_var=False, trim=0.2).statistic)


def test_a_constant_answer_is_compared_row_by_row():
    y = 10 * normal((200,))
    errors = {"unit": "squared units of y", "name": "squared_error", "higher_is_better": False}
    base, held = y**2, (y - 0.5 * y) ** 2
    held[3] = 1e6  # one wild prediction
    (found,) = answers.use(Answers(Score.from_pointwise(held, **errors), baseline=Score.from_pointwise(base, **errors)))
    assert found.level == "notice" and "but for a few rows" in found.what
    held = base - 1 + 0.01 * normal((200,), 1)  # a small gain on every row, far below the spread of the rows
    (found,) = answers.use(Answers(Score.from_pointwise(held, **errors), baseline=Score.from_pointwise(base, **errors)))
    assert found.level == "ok"


def test_probabilities_that_are_as_sure_as_right_are_not_overconfident():
    """E2: 86.2 % sure and 85.2 % right was called overconfident: it is too high in places and too low in others."""
    n = 4000
    low = np.arange(n) < n // 2
    stated = np.where(low, 0.725, 0.999)
    u = np.array(Noise(3, "labels").uniform((n,)))
    y = (u >= np.where(low, 0.9, 0.81)).astype(int)  # class 0 comes true in 90 and in 81 of 100
    proba = np.stack([stated, 1 - stated], axis=1)
    found = Answers(share(1, 2), y=y, predicted=np.zeros(n), proba=proba, classes=np.arange(2))
    (told,) = answers.calibration(found)
    assert told.level == "warning" and "too high in places" in told.what
    difference = stated.mean() - (y == 0).mean()
    error = np.std(stated - (y == 0), ddof=1) / n**0.5
    assert f"{difference:+.1%} ± {error:.1%}" in told.evidence and abs(difference) < 4 * error


def test_no_better_than_a_constant_and_biased():
    assert answers.use(Answers(share(40, 100), baseline=share(50, 100)))[0].level == "warning"
    assert answers.use(Answers(share(52, 100), baseline=share(50, 100)))[0].level == "notice"
    assert answers.use(Answers(share(90, 100), baseline=share(50, 100)))[0].level == "ok"
    y = normal((200,))
    assert answers.bias(Answers(share(1, 2), y=y + 1, predicted=np.zeros(200)))[0].what == "predictions are too low"
    for seed in range(100):  # 4 standard errors: 6e-5 each
        y = normal((200,), seed)
        assert answers.bias(Answers(share(1, 2), y=y, predicted=np.zeros(200)))[0].level == "ok"


# --- models with blocks -----------------------------------------------------------------------------------------------


def machine(scale=0.3, d=8, m=4, seed=0, **more):
    model = RBMModel.of(scale * normal((d, m), seed, "w"), np.zeros(d), np.zeros(m))
    rows = (np.array(Noise(seed, "rows").uniform((100, d))) < 0.5).astype(np.float64)
    return Machine(model, "visible", Noise(seed, "diagnose"), rows, **more)


def test_a_healthy_machine_passes():
    """R-hat along 5 directions of 8 chains of 500 draws below 1.01 to 1.1; ten machines, none warned of."""
    for seed in range(10):
        found, skipped = examine(machine(seed=seed), blocks.CHECKS)
        assert "warning" not in levels(found).values(), (seed, found)
        assert "enumerated" in skipped["log_z"]


def test_dead_and_saturated_units_are_named():
    one = machine()
    W, b, c = (np.asarray(x) for x in one.model.views().values())
    model = RBMModel.of(W, b, np.where(np.arange(4) == 1, -20.0, np.where(np.arange(4) == 3, 20.0, c)))
    (found,) = blocks.units(Machine(model, "visible", Noise(0, "a"), one.rows))
    assert found.level == "warning" and found.what.endswith(": 1, 3") and "1 are off and 1 are on" in found.evidence
    assert isinstance(blocks.units(Machine(model, "visible", Noise(0, "a"))), str)
    for unit, bias in ((1, -20.0), (3, 20.0)):
        lone = RBMModel.of(W, b, np.where(np.arange(4) == unit, bias, c))
        (found,) = blocks.units(Machine(lone, "visible", Noise(0, "a"), one.rows))
        assert found.level == "warning" and found.what.endswith(f": {unit}")


def test_chains_that_keep_to_their_mode_are_found():
    """Two modes, all off and all on, between which a sweep almost never goes: half of the chains start at data."""
    d, w = 12, 3.0
    model = RBMModel.of(np.full((d, 4), w), np.full(d, -2 * w), np.full(4, -w * d / 2))
    stuck = Machine(model, "visible", Noise(0, "a"), np.zeros((20, d)))
    (found,) = blocks.mixing(stuck)
    assert found.level == "warning" and "tempering" in found.remedy
    frozen = Machine(RBMModel.of(np.zeros((3, 2)), np.full(3, 800.0), np.zeros(2)), "visible", Noise(0, "a"))
    assert blocks.mixing(frozen)[0].what == "the Gibbs chains never move"


def test_chains_begin_at_data_too():
    """Random bits all fall into the state of ones; only chains from the data, zeros, tell of the other one."""
    d, w = 12, 10.0
    model = RBMModel.of(np.full((d, 4), w), np.full(d, -w), np.full(4, -w * d / 4))
    (blind,) = blocks.mixing(Machine(model, "visible", Noise(0, "a")))
    (seeing,) = blocks.mixing(Machine(model, "visible", Noise(0, "a"), np.zeros((20, d))))
    assert blind.level != "warning" or "never move" in blind.what
    assert seeing.level == "warning" and "do not mix" in seeing.what


def test_weights_that_collapse_are_found_and_good_ones_are_not():
    good = machine(0.1, 30, 25)
    assert blocks.weights(good)[0].level == "ok"
    # two states hold all the mass, 600 nats below the others: a chain that cools into a third one stays there
    d, m, w = 60, 40, 10.0
    deep = RBMModel.of(np.full((d, m), w), np.full(d, -w * m / 2), np.full(m, -w * d / 2))
    (bad,) = blocks.weights(Machine(deep, "visible", Noise(0, "a")))
    assert bad.level == "warning" and "not to be trusted" in bad.what and "temperatures" in bad.remedy


def test_large_machines_are_drawn_from_less(monkeypatch):
    monkeypatch.setattr(blocks, "MOST_NUMBERS", blocks.CHAINS * 12 * (blocks.BURN_IN + 70))
    assert machine().chains.shape == (blocks.CHAINS, 70, 8)
    monkeypatch.setattr(blocks, "MOST_NUMBERS", 1)
    assert machine().chains.shape == (blocks.CHAINS, blocks.LEAST_DRAWS, 8)


def test_an_unknown_block_is_refused():
    with pytest.raises(UserValueError, match=r"unknown block 'pixels' \(visible\); choose from hidden, visible"):
        Machine(machine().model, "pixels", Noise(0, "a"))
