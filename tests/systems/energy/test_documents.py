"""Deep Boltzmann machines of documents against enumeration of all counts of a length and all hidden states."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import expit, gammaln, logsumexp
from scipy.stats import chisquare

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.units import BernoulliUnits, CategoricalUnits
from gnomon.distributions.whole import WordCounts
from gnomon.distributions.word_counts import Multinomials
from gnomon.errors import UserError
from gnomon.inference.importance.by_row import log_partitions_by_annealing
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import Exact
from gnomon.systems.energy._documents import GivenLengths
from gnomon.systems.energy.dbm import DBM, CountedDBMModel
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.training.group import Group
from oracles.binary import all_states, numerical_gradient

RANDOM = np.random.default_rng(0)
W1, B, C = RANDOM.normal(size=(3, 2)), RANDOM.normal(size=3), np.array([0.4, -0.3])
W2, D = RANDOM.normal(size=(2, 2)), RANDOM.normal(size=2)
H = all_states(2)
KEYS = {"W1": "visible_hidden_1_weight", "B": "visible_bias", "C": "hidden_1_bias",
        "W2": "hidden_1_hidden_2_weight", "D": "hidden_2_bias"}  # fmt: skip
OWN = {"W1": W1, "B": B, "C": C, "W2": W2, "D": D}


def deep(hidden=(2, 2), **changed):
    model = CountedDBMModel(3, hidden, torch.float64, lengths=(2, 6))
    values = OWN | changed
    model.load({name: values[key] for key, name in KEYS.items() if name in model.state()})
    return model


def documents(length):
    """All counts of three words with this sum."""
    every = itertools.product(range(length + 1), repeat=3)
    return np.array([n for n in every if sum(n) == length], np.float64)


def log_masses(length):
    """Minus the energy of each document (rows) beside each state of both hidden layers, term by term."""
    return np.array(
        [
            [
                gammaln(length + 1) - gammaln(n + 1).sum() + B @ n + n @ W1 @ h + length * C @ h + h @ W2 @ g + D @ g
                for h in H
                for g in H
            ]
            for n in documents(length)
        ]
    )


@pytest.mark.spec("GEN-019")
@pytest.mark.parametrize("length", [0, 1, 4])
def test_energies_and_probabilities_given_a_length_by_enumeration(length):
    model, rows, masses = deep(), documents(length), log_masses(length)
    log_z = logsumexp(masses)
    np.testing.assert_allclose(model.log_prob(rows), logsumexp(masses, axis=1) - log_z, atol=1e-12)
    np.testing.assert_allclose(model.energy(torch.from_numpy(rows)).detach(), -logsumexp(masses, axis=1), atol=1e-12)
    assert model.log_partitions(np.array([[length]] * 2)) == pytest.approx([log_z] * 2, abs=1e-12)
    assert model.given(np.array([[float(length)]])).log_partition() == pytest.approx(log_z, abs=1e-12)
    state = {"visible": rows, "hidden_1": np.repeat(H[1:2], len(rows), 0), "hidden_2": np.repeat(H[2:3], len(rows), 0)}
    np.testing.assert_allclose(model.joint_energy(state), -masses[:, 6], atol=1e-12)
    found = model.conditional("hidden_1", state)
    np.testing.assert_allclose(found.mean, expit(length * C + rows @ W1 + H[2] @ W2.T), atol=1e-12)
    words = model.conditional("visible", state)
    share = np.exp(B + W1 @ H[1])
    np.testing.assert_allclose(words.mean, np.tile(length * share / share.sum(), (len(rows), 1)), atol=1e-12)


@pytest.mark.spec("GEN-019")
def test_documents_of_one_word_are_a_machine_with_a_softmax_unit():
    rows, weight = np.eye(3)[[2, 1, 0]], np.array([0.5, 1.0, 2.0])
    model = deep((2,))
    softmax = LayeredMachine(
        {"visible": CategoricalUnits(1, 3), "hidden_1": BernoulliUnits(2)},
        [("visible", "hidden_1")],
        dtype=torch.float64,
    )
    softmax.load(dict(model.state()))
    np.testing.assert_allclose(model.energy(rows), softmax.energy(rows), atol=1e-13)
    np.testing.assert_allclose(model.log_prob(rows), softmax.log_prob(rows), atol=1e-12)
    found, wanted = (one.marginal_gradient({"visible": rows}, weight) for one in (model, softmax))
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, atol=1e-13)


@pytest.mark.spec("GEN-019")
def test_one_hidden_layer_is_the_replicated_softmax_machine():
    """Its free energy, with the hidden biases times the number of words."""
    rows = np.concatenate([documents(5), documents(2)])
    lengths = rows.sum(1)
    orders = gammaln(lengths + 1) - gammaln(rows + 1).sum(1)
    free = -rows @ B - np.logaddexp(0, lengths[:, None] * C + rows @ W1).sum(1) - orders
    np.testing.assert_allclose(deep((2,)).energy(rows), free, atol=1e-12)


@pytest.mark.spec("GEN-019")
@pytest.mark.parametrize("hidden", [(2,), (2, 2)])
def test_gradients_of_the_likelihood_by_finite_differences(hidden):
    """Documents of several lengths, an empty one among them, each with a weight."""
    rows = np.array([[1.0, 0, 0], [2, 0, 1], [0, 0, 0], [0, 4, 1], [1, 1, 1]])
    weight = np.array([0.5, 1.0, 2.0, 1.5, 0.7])
    batch = Batch({"X": rows}, np.arange(5), np.arange(5), weight)
    objective = GivenLengths(Exact().build())
    found = objective(deep(hidden), batch, noise=Noise(0, "fit"), phase="fit", group=Group()).gradients
    for name, value in found.items():
        key = next(key for key, own in KEYS.items() if own == name)
        wanted = numerical_gradient(
            lambda x, key=key: -float(weight @ deep(hidden, **{key: x}).log_prob(rows)), OWN[key]
        )
        np.testing.assert_allclose(value, wanted, atol=1e-6, err_msg=name)


@pytest.mark.spec("GEN-019")
def test_documents_that_stand_twice_have_the_biases_of_one():
    rows, model = documents(4), deep()
    pair = model.pair(1)
    up = expit(2 * rows @ W1 + 4 * C)
    np.testing.assert_allclose(pair.conditional("hidden_1", {"visible": 2 * rows}).mean, up, atol=1e-12)
    np.testing.assert_allclose(model.rows_below(1, rows), 2 * rows)
    np.testing.assert_allclose(model.rows_below(2, rows), up, atol=1e-12)
    down = pair.conditional("visible", {"visible": 2 * rows[:1], "hidden_1": H[3:]}).mean
    share = np.exp(B + W1 @ H[3])
    np.testing.assert_allclose(down[0], 8 * share / share.sum(), atol=1e-12)
    second = model.pair(2)
    np.testing.assert_allclose(second.state()["hidden_1_bias"], 4 * C)  # of 2 and 6 words
    assert not second.get_parameter("hidden_1_bias").requires_grad


@pytest.mark.spec("GEN-019")
def test_draws_of_words_are_multinomial_and_chains_keep_lengths_and_the_law():
    """Chi-square of 20,000 draws against all counts, false alarm 1e-4 each."""
    n = 20_000
    share = np.array([0.2, 0.5, 0.3])
    one = Multinomials(np.tile(np.log(share), (n, 1)), np.full(n, 3.0))
    drawn, every = one.sample(Noise(0, "words").rows(np.arange(n))), documents(3)
    law = np.exp(Multinomials(np.tile(np.log(share), (len(every), 1)), np.full(len(every), 3.0)).log_prob(every))
    assert law.sum() == pytest.approx(1, abs=1e-12)
    assert chisquare(counts_of(drawn, every), n * law).pvalue > 1e-4
    assert one.entropy()[0] == pytest.approx(-law @ np.log(law), rel=1e-9)
    model = deep()
    state = {"visible": drawn, "hidden_2": H[np.arange(n) % 4]}
    ends = gibbs(model, state, Noise(1, "gibbs").rows(np.arange(n)), steps=40)["visible"]
    assert (ends.sum(1) == 3).all()
    assert chisquare(counts_of(ends, every), n * np.exp(model.log_prob(every))).pvalue > 1e-4
    assert Multinomials(np.zeros((2, 3)), np.zeros(2)).sample(Noise(0, "none").rows(np.arange(2))).sum() == 0


def counts_of(rows, every):
    return np.array([(rows == n).all(1).sum() for n in every])


@pytest.mark.spec("GEN-019")
def test_annealing_finds_log_z_of_each_length():
    model, lengths = deep(), np.array([[1.0], [4.0], [9.0]])
    found, error = log_partitions_by_annealing(
        model, lengths, Noise(0, "z"), chains=200, schedule=200, mean=np.array([1.0, 3.0, 2.0])
    )
    assert (np.abs(found - model.log_partitions(lengths)) < 4.5 * error + 1e-3).all()  # a fixed seed


def topics(n, seed=1, words=12):
    """Documents of about 20 words from two topics, one of them empty."""
    random = np.random.default_rng(seed)
    shares = np.array([np.r_[np.full(6, 5.0), np.full(6, 1.0)], np.r_[np.full(6, 1.0), np.full(6, 5.0)]]) / 36
    rows = [random.multinomial(random.poisson(20), shares[random.integers(2)]) for _ in range(n)]
    return np.array(rows, np.float64) * (np.arange(n) > 0)[:, None]


@pytest.mark.spec("GEN-019")
def test_a_fit_to_documents_beats_the_shares_of_the_words_and_says_perplexity_per_word():
    train, test = topics(200), topics(80, seed=2)
    machine = DBM(
        hidden=(4, 2), visible="replicated-softmax", learning_rate=0.1, epochs=20, pretrain_epochs=10, random_state=0
    ).fit(train)
    scores, log_p = machine.evaluate(test), machine.log_prob(test)
    assert scores["log_likelihood"].kind == "exact" and log_p[0] == pytest.approx(0, abs=1e-5)
    assert scores["log_likelihood"].value == pytest.approx(log_p.mean(), abs=1e-4)
    assert log_p.mean() > WordCounts().baseline(train).log_prob(test).mean() + 1
    orders = gammaln(test.sum(1) + 1) - gammaln(test + 1).sum(1)
    per_word = np.exp(-(log_p - orders).sum() / test.sum())
    assert scores["perplexity"].value == pytest.approx(per_word, rel=1e-5)
    assert 1 < per_word < 12 and scores["perplexity"].unit == "per word"
    twice = machine.perplexity(np.concatenate([test, np.zeros((5, 12))]))  # empty documents count for nothing
    assert twice.value == pytest.approx(per_word, rel=1e-5)
    assert (machine.log_prob_bound(test) <= log_p + 1e-4).all()
    assert machine.transform(test).shape == (80, 6)
    np.testing.assert_allclose(machine.reconstruct(test).sum(1), test.sum(1), rtol=1e-5)
    drawn = machine.sample(6, steps=5, length=np.arange(6), random_state=0)
    np.testing.assert_array_equal(drawn.sum(1), np.arange(6))
    lengths = machine.sample(200, steps=2, random_state=0).sum(1)
    assert set(lengths) <= set(train.sum(1)) and abs(lengths.mean() - train.sum(1).mean()) < 3


@pytest.mark.spec("GEN-019")
def test_large_machines_say_their_error_and_empty_documents_are_certain():
    train = topics(60)
    machine = DBM(hidden=(16, 13), visible="replicated-softmax", epochs=2, pretrain_epochs=1, random_state=0).fit(train)
    score = machine.evaluate(train)["log_likelihood"]
    assert (score.kind, score.error > 0, "mean-field" in score.note) == ("estimate", True, True)
    values, _, _ = machine._judged_documents(train)
    assert values[0] == 0
    assert not hasattr(machine, "log_prob")


def test_a_run_of_documents_has_a_report(tmp_path):
    header = ",".join(f"w{j}" for j in range(12))
    np.savetxt(tmp_path / "words.csv", topics(40), fmt="%d", delimiter=",", header=header, comments="")
    system = DBM(hidden=(2,), visible="replicated-softmax", epochs=1, pretrain_epochs=0, random_state=0)
    [board] = gnomon.compare([system], str(tmp_path / "words.csv"), out=tmp_path / "runs")
    page = gnomon.report(next(line.run for line in board.lines if line.run)).read_text(encoding="utf-8")
    assert "perplexity" in page and "Weights behind log Z" not in page


def test_what_documents_cannot_have_is_said_in_a_line():
    options = {"hidden": (2,), "epochs": 1, "pretrain_epochs": 0, "random_state": 0}
    with pytest.raises(UserError, match="does not hold the lengths of documents"):
        DBM(visible="replicated-softmax", objective="pseudolikelihood", **options).fit(topics(5))
    with pytest.raises(UserError, match="count"):
        DBM(visible="replicated-softmax", **options).fit(topics(5) + 0.5)
    machine = DBM(visible="replicated-softmax", **options).fit(topics(5))
    lacking = np.where(np.eye(5, 12), np.nan, topics(5))
    for wrong, said in (
        (lambda: machine.perplexity(np.zeros((2, 12))), "no words"),
        (lambda: machine.sample(2, length=-1), "whole number"),
        (lambda: machine.sample(2, length=[1, 2, 3]), "one for each of 2 rows"),
        (lambda: machine.sample(2, length="long"), "length must"),
        (lambda: machine.log_partition(), "for each length"),
        (lambda: machine.impute(lacking), "all counts of a document must be known"),
        (lambda: machine.conditional_sample(lacking), "all counts of a document must be known"),
        (lambda: DBM(**options).fit(np.eye(3)).sample(2, length=3), "documents alone"),
        (lambda: DBM(**options).fit(np.eye(3)).perplexity(np.eye(3)), "documents alone"),
    ):
        with pytest.raises(UserError, match=said):
            wrong()
