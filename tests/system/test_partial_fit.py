"""Learning chunk by chunk: what equals a fit, what goes on, what is refused (HB-20, HB-47, HB-51)."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import chisquare

import gnomon
from gnomon.errors import Diverged, UserError, UserValueError
from gnomon.nn.encoders import DenseDecoder, DenseEncoder
from gnomon.numeric.noise import recording
from gnomon.objectives.contrastive import PCD
from gnomon.training.optimizers import SGD
from gnomon.training.schedules import Constant, Cosine

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
BASE = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)
Y = X @ [1.0, -2.0] + 0.5

CLASSIFIERS = [
    lambda **more: gnomon.SoftmaxRegression(batch_size=None, random_state=0, dtype="float64", **more),
    lambda **more: gnomon.MLP(hidden=(8,), batch_size=None, random_state=0, dtype="float64", **more),
]


def state_of(system):
    return {name: np.array(value) for name, value in system.model_.state().items()}


def same(a, b, tolerance=1e-12):
    return all(np.allclose(a[name], b[name], rtol=0, atol=tolerance) for name in a)


@pytest.mark.parametrize("make", CLASSIFIERS)
@pytest.mark.parametrize("optimizer", ["sgd", SGD(momentum=0.9), "adam"])
def test_chunks_that_are_the_whole_data_are_the_epochs_of_a_fit(make, optimizer):
    whole = make(epochs=6, optimizer=optimizer, learning_rate=0.1).fit(X, BASE)
    stream = make(optimizer=optimizer, learning_rate=0.1)
    for _ in range(6):
        stream.partial_fit(X, BASE)
    assert same(state_of(whole), state_of(stream))
    assert stream.n_steps_ == 6 and stream.history_["epoch"] == [1, 2, 3, 4, 5, 6]


@pytest.mark.spec("DLN-87")
def test_a_machine_of_binary_units_streams_too():
    """Chunks of all rows are the epochs of an exact fit; chunks by contrastive divergence find the pair."""
    rows = (X > 0)[:, [0, 0, 1]].astype(float)
    weight = np.linspace(0.5, 2, len(rows))
    given = {"n_hidden": 3, "learning_rate": 0.3, "batch_size": None, "random_state": 0, "dtype": "float64"}
    whole = gnomon.RBM(objective="exact", epochs=5, **given).fit(rows, sample_weight=weight)
    stream = gnomon.RBM(objective="exact", **given)
    for _ in range(5):
        stream.partial_fit(rows, sample_weight=weight)
    assert same(state_of(whole), state_of(stream)) and stream.n_steps_ == 5
    np.testing.assert_allclose(stream.log_prob(rows), whole.log_prob(rows), atol=1e-12)
    cd = gnomon.RBM(objective="cd", **{**given, "batch_size": 10})
    for _ in range(30):
        cd.partial_fit(rows[:70]).partial_fit(rows[70:])
    assert cd.score(rows) > -1.7 and cd.n_steps_ == 30 * 12  # independent columns have -2.08, the law -1.39
    sparse = gnomon.RBM(objective="cd", **{**given, "batch_size": 10})
    dense = gnomon.RBM(objective="cd", **{**given, "batch_size": 10})
    for part in (slice(0, 70), slice(70, 120)):
        sparse.partial_fit(csr_matrix(rows[part]))
        dense.partial_fit(rows[part])
    assert same(state_of(sparse), state_of(dense), 1e-9)
    with pytest.raises(UserValueError, match=r"row 2, column 1"):
        cd.partial_fit(np.array([[0.0, 1, 0], [1, 0, 0], [1, 7, 0]]))


@pytest.mark.spec("DLN-87")
def test_persistent_chains_go_on_from_chunk_to_chunk():
    """At weights that stand still, chains that mix in some ten sweeps reach the model's law over 40 chunks of one.

    4,000 chains; the law of the hidden units by enumeration, by chi-square (false alarm 1e-5). Chains that begin anew
    with every chunk stay at coins, far from it.
    """
    from gnomon.systems.energy.rbm import RBMModel

    W, b, c = np.array([[3.0, -3], [1.5, 1.5], [-3, 6]]), np.array([0.1, -2, 0.3]), np.array([0.0, -2.0])
    rows, hidden = np.tile([[0.0, 1, 0], [1, 0, 1]], (5, 1)), np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    system = gnomon.RBM(n_hidden=2, objective=PCD(n_chains=4000), learning_rate=1e-300, batch_size=None, random_state=0,
                        dtype="float64").partial_fit(rows)  # fmt: skip
    system.model_.load(RBMModel.of(W, b, c).state())
    for _ in range(40):
        system.partial_fit(rows)
    chains = system._stream[3].chains["hidden"].numpy()
    p = np.exp(hidden @ c + np.log1p(np.exp(hidden @ W.T + b)).sum(1))
    counts = np.bincount((chains @ [2, 1]).astype(int), minlength=4)
    assert chisquare(counts, 4000 * p / p.sum()).pvalue > 1e-5
    before = chains.copy()
    with pytest.raises(UserValueError):
        system.partial_fit(rows + 1)
    np.testing.assert_array_equal(system._stream[3].chains["hidden"].numpy(), before)


def test_a_regression_streams_too():
    whole = gnomon.MLPRegression(hidden=(6,), batch_size=None, epochs=5, random_state=0, dtype="float64").fit(X, Y)
    stream = gnomon.MLPRegression(hidden=(6,), batch_size=None, random_state=0, dtype="float64")
    for _ in range(5):
        stream.partial_fit(X, Y)
    assert same(state_of(whole), state_of(stream))
    learned = gnomon.MLPRegression(hidden=(16,), learning_rate=0.01, random_state=0)
    for _ in range(40):
        for start in range(0, 120, 50):  # the last chunk has 20 rows
            learned.partial_fit(X[start : start + 50], Y[start : start + 50])
    assert learned.score(X, Y) > 0.95
    with pytest.raises(UserValueError, match="columns of the first chunk"):
        learned.partial_fit(X, np.stack([Y, Y], 1))


@pytest.mark.parametrize(
    "labels",
    [np.array(["low", "mid", "high"])[BASE], BASE * 2 - 1, BASE + 7, BASE.astype(float), BASE > 0],
    ids=["text", "minus", "gap", "float", "bool"],
)
def test_a_class_that_the_first_chunk_lacks(labels):
    everything = np.unique(labels)
    first = np.flatnonzero(labels != everything[-1])[:10]
    system = gnomon.MLP(hidden=(16,), learning_rate=0.02, random_state=0)
    system.partial_fit(X[first], labels[first], classes=everything)
    for _ in range(60):
        for start in range(0, 120, 40):
            system.partial_fit(X[start : start + 40], labels[start : start + 40])
    found = system.predict(X)
    proba = system.predict_proba(X)
    assert system.classes_.tolist() == everything.tolist() and found.dtype == labels.dtype
    assert proba.shape == (120, len(everything)) and np.allclose(proba.sum(1), 1)
    assert np.array_equal(everything[proba.argmax(1)], found) and (found == labels).mean() > 0.9


def test_what_a_stream_refuses_in_one_line():
    system = gnomon.MLP(hidden=(4,), random_state=0)
    with pytest.raises(UserValueError, match=r"at least 2 classes.*classes=\.\.\."):
        system.partial_fit(X[:5], np.zeros(5))
    system.partial_fit(X[:20], BASE[:20], classes=[0, 1, 2])
    with pytest.raises(UserValueError, match=r"class 5 .*row 3"):
        system.partial_fit(X[:5], [0, 1, 2, 5, 0])
    with pytest.raises(UserValueError, match="first chunk"):
        system.partial_fit(X[:5], BASE[:5], classes=[0, 1])
    with pytest.raises(UserError, match="expecting 2 features"):
        system.partial_fit(X[:5, :1], BASE[:5])
    with pytest.raises(UserError, match="NoneType"):
        system.partial_fit(None, BASE)
    with pytest.raises(UserValueError, match="schedule"):
        gnomon.MLP(schedule=Cosine()).partial_fit(X, BASE)
    with pytest.raises(UserValueError, match="early_stopping"):
        gnomon.MLP(early_stopping="patience").partial_fit(X, BASE)


def test_sizes_stay_from_chunk_to_chunk(tmp_path):
    bits = (X > 0).astype(float)
    system = gnomon.RBM(n_hidden=8, random_state=0).partial_fit(bits)
    system.set_params(n_hidden=16)
    what = r"^n_hidden cannot change between chunks, got 16 after 8; set it back, or begin anew with fit$"
    with pytest.raises(UserValueError, match=what):
        system.partial_fit(bits)
    system.set_params(n_hidden=8, learning_rate=0.5).partial_fit(bits)
    loaded = gnomon.load(system.save(tmp_path / "run"))
    assert loaded.weights_.shape == system.weights_.shape and loaded.learning_rate == 0.5
    with pytest.raises(UserValueError, match=what):
        loaded.set_params(n_hidden=16).partial_fit(bits)
    assert system.set_params(n_hidden=16).fit(bits).weights_.shape[1] == 16  # a fit begins anew
    coder = gnomon.VAE(encoder="dense", random_state=0).partial_fit(X)
    coder.set_params(encoder=DenseEncoder()).partial_fit(X)  # another word for the same
    with pytest.raises(UserValueError, match=r"^encoder cannot change"):
        coder.set_params(encoder__hidden=(3,)).partial_fit(X)


def test_more_components_than_columns_are_refused_in_a_stream_too():
    with pytest.raises(UserValueError, match=r"^n_components must be at most n_features=2, got n_components=3"):
        gnomon.PPCA(n_components=3).partial_fit(X)


def test_an_empty_or_failing_chunk_changes_nothing():
    system = gnomon.MLP(hidden=(4,), random_state=0).partial_fit(X, BASE)
    before, steps = state_of(system), system.n_steps_
    system.partial_fit(X[:0], BASE[:0])
    spoiled = X.copy()
    spoiled[3, 1] = np.nan
    with pytest.raises(UserError, match="row 3"):
        system.partial_fit(spoiled, BASE)
    assert system.n_steps_ == steps and same(before, state_of(system), 0.0)
    wild = gnomon.MLPRegression(hidden=(4,), optimizer="sgd", learning_rate=1e-3, random_state=0).partial_fit(X, Y)
    before, steps = state_of(wild), wild.n_steps_
    wild.set_params(learning_rate=1e30)
    with pytest.raises(Diverged):
        wild.partial_fit(X, Y)
    assert wild.n_steps_ == steps and same(before, state_of(wild), 0.0)
    assert same(before, state_of(wild.set_params(learning_rate=1e-3)), 0.0)


def test_predicting_in_the_middle_changes_nothing_and_a_saved_stream_answers_the_same(tmp_path):
    def run(look):
        system = gnomon.MLP(hidden=(8,), dropout=0.5, batch_norm=True, random_state=0)
        for start in range(0, 99, 33):
            system.partial_fit(X[start : start + 33], BASE[start : start + 33], classes=[0, 1, 2])
            if look:
                system.predict(X)
        return system

    quiet, monitored = run(False), run(True)
    assert same(state_of(quiet), state_of(monitored), 0.0)
    loaded = gnomon.load(quiet.save(tmp_path / "stream"))
    assert np.array_equal(loaded.predict_proba(X), quiet.predict_proba(X))
    loaded.partial_fit(X, BASE)
    assert loaded.n_steps_ > quiet.n_steps_
    assert np.array_equal(quiet.fit(X, BASE).predict(X), gnomon.MLP(**quiet.get_params()).fit(X, BASE).predict(X))


def begun(**more):
    given = {"hidden": (6,), "batch_size": 30, "random_state": 0, "dtype": "float64", "learning_rate": 0.05}
    return gnomon.MLP(**given | more).partial_fit(X, BASE)


def test_no_chunk_draws_the_numbers_of_another():
    """The order of the rows and the masks of dropout."""
    system = begun(dropout=0.5)
    with recording():
        for _ in range(3):
            system.partial_fit(X, BASE)
    fresh = gnomon.VAE(n_latent=2, encoder=DenseEncoder((4,)), decoder=DenseDecoder((4,)), random_state=0)
    with recording():
        for _ in range(3):
            fresh.partial_fit(X)


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_rows_without_weight_are_none(kind):
    """All rows in one step: those of weight 0 change neither the scales nor the gradient, weight 2 is two rows."""
    weight = np.resize([1.0, 0.0, 2.0], len(X))
    kept = np.repeat(np.arange(len(X)), weight.astype(int))
    make, target = {"classes": (gnomon.MLP, BASE), "numbers": (gnomon.MLPRegression, Y)}[kind]
    one, other = (make(hidden=(6,), batch_size=None, random_state=0, dtype="float64") for _ in range(2))
    for _ in range(2):
        one.partial_fit(X, target, sample_weight=weight)
        other.partial_fit(X[kept], target[kept])
    assert same(state_of(one), state_of(other), 1e-10)
    vae = gnomon.VAE(n_latent=1, encoder=DenseEncoder(()), decoder=DenseDecoder(()), dtype="float64", random_state=0)
    vae.partial_fit(X, sample_weight=weight)
    assert np.allclose(vae.model_.shift, X[kept].mean(0)) and np.allclose(vae.model_.scale, X[kept].std(0))


@pytest.mark.parametrize("turn", ["another optimizer", "another fit"])
def test_the_optimizers_memory_ends_with_what_it_belongs_to(turn, tmp_path):
    """Adam begins anew, as it does in a model that was loaded, when the optimizer or the model is another one."""
    system = begun()
    if turn == "another optimizer":
        system.set_params(optimizer=SGD(momentum=0.5))
    else:
        system.set_params(epochs=2).fit(X, BASE)
    loaded = gnomon.load(system.save(tmp_path / "model")).set_params(optimizer=system.optimizer)
    for one in (system, loaded):
        one.partial_fit(X, BASE)
    assert same(state_of(system), state_of(loaded), 0.0)
    going_on = begun()
    loaded = gnomon.load(going_on.save(tmp_path / "other"))
    for one in (going_on, loaded):
        one.partial_fit(X, BASE)
    assert not same(state_of(going_on), state_of(loaded), 1e-6)  # else nothing was seen above


@pytest.mark.parametrize("optimizer", ["adam", SGD(momentum=0.9)])
def test_a_chunk_that_diverged_leaves_the_optimizers_memory_as_it_was(optimizer):
    system, untouched = begun(optimizer=optimizer), begun(optimizer=optimizer)
    system.set_params(learning_rate=1e300)
    with pytest.raises(Diverged):
        system.partial_fit(X, BASE)
    system.set_params(learning_rate=0.05)
    for one in (system, untouched):
        one.partial_fit(X, BASE)
    assert same(state_of(system), state_of(untouched), 0.0)


def test_a_model_is_finished_after_every_chunk():
    calls = []

    class Told(gnomon.MLP):
        def finish(self, model):
            calls.append(model)

    system = Told(hidden=(4,), random_state=0)
    for _ in range(2):
        system.partial_fit(X, BASE)
    assert len(calls) == 2 and calls[1] is system.model_


def test_a_rate_that_warms_up_counts_steps_that_a_stream_does_not_have():
    with pytest.raises(UserValueError, match="schedule"):
        gnomon.MLP(schedule=Constant(warmup=2)).partial_fit(X, BASE)
