"""Whether the monitor of persistent chains names frozen, joined and runaway ones, and nothing else."""

import json
import warnings

import numpy as np
import pytest
import torch
from scipy.stats import f as fisher

import gnomon
from gnomon.cli.main import run as command
from gnomon.errors import UserValueError
from gnomon.evaluation.diagnosis.chain_health import CHECKS, faults
from gnomon.inference.exact.draws import exact_draws
from gnomon.inference.mcmc.mixing import mixing_ratio
from gnomon.numeric.noise import Noise
from gnomon.systems.energy.rbm import RBMModel
from gnomon.training.chain_watch import WINDOW, ChainWatch
from gnomon.training.context import context

BITS = (np.random.default_rng(0).random((200, 6)) < [0.2, 0.8, 0.5, 0.5, 0.3, 0.7]).astype(float)


@pytest.mark.spec("INF-36")
def test_independent_exact_draws_have_ratio_one():
    """40 steps of 25 exact draws of one unit: within the 1e-6 quantiles of F(39, 960); so is the mean of 12 units."""
    random = np.random.default_rng(0)
    model = RBMModel.of(random.normal(size=(12, 3)), random.normal(size=12), random.normal(size=3))
    draws = exact_draws(model, 40 * 25, Noise(0, "draws"))["visible"].reshape(40, 25, 12)
    low, high = fisher.ppf([1e-6, 1 - 1e-6], 39, 40 * 24)
    for unit in range(12):
        assert low < mixing_ratio(draws[:, :, unit]) < high
    assert low < mixing_ratio(draws) < high


@pytest.mark.spec("INF-36")
@pytest.mark.parametrize("r", [0.0, 0.2, 0.7])
def test_correlation_within_a_step_shows_as_it_should(r):
    """n = 20 chains, 4,000 steps: 1 + n r / (1 - r) within 5 standard errors of sqrt(2 / 3999) of it."""
    random = np.random.default_rng(1)
    shared, own = random.normal(size=(4000, 1)), random.normal(size=(4000, 20))
    found = mixing_ratio(np.sqrt(r) * shared + np.sqrt(1 - r) * own)
    expected = 1 + 20 * r / (1 - r)
    assert abs(found / expected - 1) < 5 * np.sqrt(2 / 3999)


@pytest.mark.spec("INF-36")
def test_identical_chains_are_infinite_and_flagged():
    same = np.repeat(np.random.default_rng(2).random((5, 1, 3)) < 0.5, 4, axis=1)
    assert mixing_ratio(same) == np.inf
    watch = ChainWatch(Standing(same[0]))
    for states in same:
        watch.objective.chains = {"hidden": torch.as_tensor(states.astype(float))}
        watch.seen()
    found = watch.taken(None, None)
    assert found["mixing_ratio"] is None
    (finding,) = CHECKS["chains"]([{"chains": found}])
    assert finding.level == "warning" and "infinite" in finding.evidence and "learning rate" in finding.remedy
    assert json.dumps(found, allow_nan=False)


class Standing(torch.nn.Module):
    """An objective whose chains stand where they are put."""

    def __init__(self, states):
        super().__init__()
        self.chains = {"hidden": torch.as_tensor(np.asarray(states, float))}


@pytest.mark.spec("INF-36")
def test_only_the_last_updates_count_so_that_a_trend_is_not_taken_for_it():
    """Chains that all moved at once, and then went on by themselves for as many updates as are looked at."""
    random = np.random.default_rng(3)
    objective = Standing(np.zeros((30, 5)))
    watch = ChainWatch(objective)
    for update in range(20 + WINDOW):
        states = (random.random((30, 5)) < 0.5).astype(float)
        objective.chains = {"hidden": torch.as_tensor(states + 5 * min(update, 20))}
        watch.seen()
    found = watch.taken(None, None)
    assert found["updates"] == WINDOW and 0.3 < found["mixing_ratio"] < 2


def test_wrong_draws():
    for wrong in (np.zeros(3), np.zeros((1, 4)), np.zeros((4, 1))):
        with pytest.raises(UserValueError, match="2 steps of 2 chains"):
            mixing_ratio(wrong)
    with pytest.raises(UserValueError, match="finite"):
        mixing_ratio(np.full((2, 2), np.nan))
    assert np.isnan(mixing_ratio(np.ones((3, 3))))


def fitted(**options):
    lines = []
    with context(monitor=True, callbacks=(lambda step, record: lines.append(record["monitor"]),)):
        machine = gnomon.RBM(n_hidden=4, random_state=0, **options).fit(BITS)
    return machine, lines


def levels(line):
    return {name: answer[0].level for name, check in CHECKS.items() if not isinstance(answer := check([line]), str)}


@pytest.mark.spec("INF-36")
def test_a_healthy_fit_is_not_warned_of_and_learns_the_same():
    """To rounding: a fit that is not watched makes many updates in one compiled call."""
    machine, lines = fitted(epochs=5)
    assert levels(lines[-1]) == {"chains": "ok", "frozen": "ok", "energies": "ok"}
    assert machine.mixing_ratio_ == lines[-1]["chains"]["mixing_ratio"] < 2
    plain = gnomon.RBM(n_hidden=4, random_state=0, epochs=5).fit(BITS)
    for name, value in plain.model_.state().items():
        np.testing.assert_allclose(machine.model_.state()[name], value, rtol=0, atol=2e-6)
    assert not hasattr(plain, "mixing_ratio_")


@pytest.mark.spec("INF-36")
def test_a_learning_rate_that_freezes_the_chains_is_named_at_the_end_of_the_fit():
    with pytest.warns(UserWarning, match="chains are frozen: 20 of 20 chains"):
        machine, lines = fitted(epochs=5, learning_rate=50.0)
    assert levels(lines[-1])["frozen"] == "warning"
    assert lines[-1]["chains"]["moved"] < 0.01
    assert [one.what for one in faults(lines[-1])] == ["chains are frozen"]
    assert machine.mixing_ratio_ < 1  # they do not move together: they do not move


@pytest.mark.spec("INF-36")
def test_the_ratio_is_that_of_the_chains_of_the_fit():
    """By hand from the buffers of the objective, one update at a time."""
    from tests.oracles.principles import begun, loss_of

    from gnomon.objectives.contrastive import PCD

    random = np.random.default_rng(0)
    model = RBMModel.of(random.normal(size=(6, 3)), random.normal(size=6), random.normal(size=3))
    objective = begun(PCD(n_chains=15), model, BITS[:20])
    watch, kept = ChainWatch(objective), []
    for update in range(12):
        loss_of(objective, model, BITS[:20], update)
        watch.seen()
        kept.append(objective.chains["hidden"].numpy().copy())
    found = watch.taken(model, BITS[:20])
    x = np.array(kept[-WINDOW:])
    n, mean = 15, x.mean(1)
    between = n * sum(((mean[:, j] - mean[:, j].mean()) ** 2).sum() / (WINDOW - 1) for j in range(3))
    within = np.mean([sum(((step[:, j] - step[:, j].mean()) ** 2).sum() / (n - 1) for j in range(3)) for step in x])
    assert found["mixing_ratio"] == pytest.approx(between / within, rel=1e-6)
    moved = [(kept[t] != kept[t - 1]).mean() for t in range(1, 12)]
    assert found["moved"] == pytest.approx(np.mean(moved))
    assert found["energy"]["data"]["mean"] == pytest.approx(model.energy(BITS[:20]).mean(), rel=1e-6)


@pytest.mark.spec("INF-36")
@pytest.mark.parametrize(("mean", "words"), [(-60.0, "spurious mode"), (10.0, "lag behind")])
def test_energies_that_run_away_are_named(mean, words):
    energy = {"data": {"mean": -20.0, "std": 5.0}, "chains": {"mean": mean, "std": 5.0}}
    (found,) = CHECKS["energies"]([{"chains": {"energy": energy}}])
    assert found.level == "warning" and words in found.what
    (found,) = CHECKS["energies"]([{"chains": {"energy": energy | {"chains": {"mean": -30.0, "std": 5.0}}}}])
    assert found.level == "ok"


@pytest.mark.spec("INF-36")
def test_samples_come_from_new_chains_and_never_from_those_of_the_fit(tmp_path):
    """A machine whose training chains are frozen draws the same rows as one that is read from its weights alone, and
    these rows are begun and burned in anew: at 0 sweeps they are columns with the means of the data."""
    with pytest.warns(UserWarning, match="frozen"):
        machine, _ = fitted(epochs=5, learning_rate=50.0)
    machine.save(tmp_path / "run")
    again = gnomon.load(tmp_path / "run")
    rows = machine.sample(50, random_state=1)
    assert (rows == again.sample(50, random_state=1)).all()
    start = machine.sample(4000, steps=0, random_state=2).mean(0)
    np.testing.assert_allclose(start, BITS.mean(0), atol=4.5 * 0.5 / np.sqrt(4000))  # false alarm 4e-5


@pytest.mark.spec("INF-36")
def test_diagnosis_and_report_of_a_run_name_it(tmp_path, capsys):
    np.savetxt(tmp_path / "bits.csv", BITS, fmt="%d", delimiter=",", header=",".join("abcdef"), comments="")
    out = str(tmp_path / "run")
    options = ["--n-hidden", "4", "--epochs", "5", "--learning-rate", "50", "--random-state", "0"]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert command(["fit", "rbm", str(tmp_path / "bits.csv"), *options, "--monitor", "--out", out]) == 0
    assert "chains are frozen: 20 of 20 chains" in capsys.readouterr().err
    assert command(["diagnose", out]) == 0
    said = capsys.readouterr().out
    assert "WARNING chains are frozen" in said
    assert command(["report", out]) == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "chains are frozen" in page and "Chains of the fit" in page
