"""The first system for data: each description has its family; what is proposed runs and beats the trivial answer."""

import json
import shlex

import numpy as np
import polars as pl
import pytest

import gnomon
from gnomon.cli.main import run as command
from gnomon.data import load
from gnomon.data.given import dataset_of
from gnomon.data.relations import Ratings
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.tasks.base import task
from gnomon.tasks.baselines import HUGE, RULES, Description, matching, regularized
from gnomon.tasks.suggest import describe
from gnomon.tasks.suggestions import Suggestion
from gnomon.tasks.suits import suits

TABLE = [
    ("linear", "logistic-regression", Description("vectors", 999, "labels", 30, 2)),
    ("linear", "softmax-regression", Description("vectors", 150, "labels", 4, 3)),
    ("linear", "softmax-regression", Description("vectors", 5000, "labels", 20_000, 3)),
    ("linear", "linear-regression", Description("vectors", 400, "numbers", 10)),
    ("fully connected", "mlp", Description("vectors", 1000, "labels", 30, 2)),
    ("fully connected", "mlp", Description("vectors", 50_000_000, "labels", 30, 2)),
    ("fully connected", "mlp-regression", Description("vectors", 1000, "numbers", 10)),
    ("fully connected", "mlp-regression", Description("grid", 5000, "numbers", 64)),
    ("convolutional", "lenet", Description("grid", 1797, "labels", 64, 10)),
    ("convolutional", "lenet", Description("grid", 200, "labels", 64, 2)),
    ("recurrent", "gru-lm", Description("sequence", 1000)),
    ("counts", "ngram", Description("sequence", 999)),
    ("recurrent", "seq2seq", Description("pairs", 4000)),
    ("factors", "matrix-factorization", Description("ratings", 100_000)),
    ("factors", "implicit-factorization", Description("interactions", 100_000)),
    ("mixture", "bernoulli-mixture", Description("vectors", 500, columns=20, binary=True)),
    ("energy", "rbm", Description("vectors", 5000, columns=20, binary=True)),
    ("latent", "vae", Description("grid", 5000, columns=64)),
    ("linear", "ppca", Description("vectors", 5000, columns=20)),
    ("linear", "ppca", Description("grid", 50, columns=64)),
]


@pytest.mark.spec("PRA-057")
@pytest.mark.parametrize(("family", "system", "description"), TABLE)
def test_each_description_has_its_family(family, system, description):
    rule = matching(description)[0]
    assert (rule.family, rule.system) == (family, system)


@pytest.mark.spec("PRA-057")
def test_every_rule_is_first_for_some_description_and_its_system_exists():
    assert {matching(description)[0].system for _, _, description in TABLE} == {rule.system for rule in RULES}
    for rule in RULES:
        system = gnomon.make(rule.system, **regularized(rule, 1))
        assert rule.task in system.tasks and rule.reason


@pytest.mark.spec("PRA-057")
@pytest.mark.parametrize("system", ["mlp", "mlp-regression", "lenet", "gru-lm", "seq2seq"])
def test_networks_are_mildly_regularized_unless_there_are_tens_of_millions_of_rows(system):
    """Rectified linear units, Adam, early stopping; dropout, and none of both from ten million rows on."""
    description = next(one for _, name, one in TABLE if name == system)
    rule = matching(description)[0]
    small, huge = (Suggestion(Description(**{**description.to_json(), "rows": n}), rule) for n in (HUGE - 1, HUGE))
    for found, mild in ((small, True), (huge, False)):
        made = found.system
        assert (made.recipe("early_stopping").short != "off") is mild and (made.dropout > 0) is mild
        assert made.recipe("optimizer").short == "adam"
        assert not hasattr(made, "activation") or made.recipe("activation").short == "relu"
        words = " ".join(found.reasons)
        assert ("mild regularization from the start: early_stopping and dropout" in words) is mild
        assert ("regularize by themselves" in words) is not mild
    assert ("batch_norm" in made.get_params()) is any("batch_norm=true at once" in one for one in small.later)


@pytest.mark.spec("PRA-057")
def test_pre_training_is_named_only_for_what_profits():
    """Labels: where it overfits or few rows have some; sentences: word embeddings; elsewhere not."""
    for _, _, description in TABLE:
        found = " ".join(Suggestion(description, matching(description)[0]).later)
        assert ("pre-training without labels only where" in found) is (description.answer != "none")
        assert ("words embedded from more text" in found) is (description.structure == "sequence")


@pytest.mark.slow
@pytest.mark.spec("PRA-057")
def test_the_score_is_never_chosen_silently():
    for _, _, description in TABLE:
        rule = matching(description)[0]
        silent, chosen = Suggestion(description, rule), Suggestion(description, rule, metric="mine", words=("a.csv",))
        assert silent.metric is None and "score      not chosen: say what counts" in str(silent)
        assert task(rule.task).primary in silent.score and "metric" not in silent.judge
        assert chosen.score == "mine, as you chose" and chosen.judge.endswith(" --metric mine")
        assert all(f"because    {one}" in str(silent) for one in silent.reasons) and silent.reasons
    uneven = Description("vectors", 500, "labels", 4, 2, commonest=0.9)
    assert "one label has 90% of the rows" in Suggestion(uneven, matching(uneven)[0]).score


def random_of(seed=0):
    return np.random.default_rng(seed)


def table(n, kind, file):
    """Two features and a target that a line misses, three that say nothing."""
    X = random_of().normal(size=(n, 5))
    y = X[:, 0] * X[:, 1] + 2 * X[:, 2]
    target = np.where(y > 0, "yes", "no") if kind == "labels" else y
    frame = pl.DataFrame({f"x{j}": X[:, j] for j in range(5)})
    (frame if kind == "none" else frame.with_columns(pl.Series("a target", target))).write_csv(file)


def correlated(n, file):
    code = random_of().normal(size=(n, 2))
    X = code @ random_of(1).normal(size=(2, 8)) + 0.3 * random_of(2).normal(size=(n, 8))
    pl.DataFrame({f"x{j}": X[:, j] for j in range(8)}).write_csv(file)


def binary(n, file):
    """Two kinds of rows, each cell turned over in one of ten."""
    kind = random_of().integers(2, size=n)
    X = (kind[:, None] ^ (np.arange(12) % 2)) ^ (random_of(1).random((n, 12)) < 0.1)
    pl.DataFrame({f"x{j}": X[:, j].astype(int) for j in range(12)}).write_csv(file)


def rated(n, file, values=True):
    random = random_of()
    users, items = random.integers(40, size=n), random.integers(30, size=n)
    taste, kind = random.normal(size=(40, 2)), random.normal(size=(30, 2))
    stars = np.clip(np.rint(3 + (taste[users] * kind[items]).sum(1)), 1, 5)
    if not values:  # each meets what is near
        items = (users // 4 * 3 + random.integers(6, size=n)) % 30
    columns = {"user": users, "item": items} | ({"rating": stars} if values else {})
    pl.DataFrame(columns).unique(["user", "item"], maintain_order=True).write_csv(file)


def sentences(n, file):
    """A sentence goes round a circle of words from anywhere."""
    words = ["who", "sees", "the", "cat", "that", "runs", "from", "dogs"]
    starts = random_of().integers(8, size=n)
    lengths = random_of(1).integers(3, 9, size=n)
    lines = [" ".join(words[(a + k) % 8] for k in range(m)) for a, m in zip(starts, lengths, strict=True)]
    file.write_text("\n".join(lines) + "\n")


KINDS = {
    "few labels": ("logistic-regression", lambda file: table(300, "labels", file), ["--target", "a target"]),
    "few numbers": ("linear-regression", lambda file: table(300, "numbers", file), ["--target", "a target"]),
    "labels": ("mlp", lambda file: table(1100, "labels", file), ["--target", "a target"]),
    "numbers": ("mlp-regression", lambda file: table(1100, "numbers", file), ["--target", "a target"]),
    "images": ("lenet", "digits", []),
    "few sentences": ("ngram", lambda file: sentences(300, file), []),
    "sentences": ("gru-lm", lambda file: sentences(1000, file), []),
    "ratings": ("matrix-factorization", lambda file: rated(1500, file), []),
    "interactions": ("implicit-factorization", lambda file: rated(900, file, False), []),
    "unlabeled": ("ppca", lambda file: correlated(400, file), []),
    "few binary": ("bernoulli-mixture", lambda file: binary(300, file), []),
    "binary": ("rbm", lambda file: binary(1000, file), []),
}
SLOW = {"images", "sentences", "binary", "labels", "few labels"}


@pytest.mark.filterwarnings("ignore:too little text")
@pytest.mark.spec("PRA-057")
@pytest.mark.parametrize("kind", [pytest.param(k, marks=[pytest.mark.slow] * (k in SLOW)) for k in KINDS])
def test_what_is_proposed_runs_as_printed_and_beats_the_trivial_answer(kind, tmp_path, monkeypatch, capsys):
    """A file of each kind of data: the very commands that are printed fit it and judge it."""
    system, data, options = KINDS[kind]
    monkeypatch.chdir(tmp_path)
    if callable(data):
        file = tmp_path / ("my data.txt" if "sentences" in kind else "my data.csv")
        data(file)
        data = file.name
    assert command(["suggest", data, *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["system"] == system
    name, *words = shlex.split(found["fit"])
    assert name == "gnomon" and command([*words, "--out", "fitted"]) == 0
    capsys.readouterr()
    name, *words = shlex.split(found["judge"])
    assert name == "gnomon" and command([*words, "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)["leaderboards"][0]["lines"]
    line = next(one for one in lines if one["name"] == system)
    assert line["against_baseline"] == "better", lines


def test_data_in_memory_has_python_in_place_of_commands():
    random = random_of()
    X, y = random.normal(size=(60, 3)), np.arange(60) % 2
    found = gnomon.suggest_baseline(X, y, metric="log_likelihood")
    assert found.fit == "gnomon.LogisticRegression(random_state=0).fit(X, y)"
    assert eval(found.fit, {"gnomon": gnomon, "X": X, "y": y}).predict(X).shape == (60,)
    assert found.judge.endswith(", X, y, metric='log_likelihood')")
    assert eval(found.judge, {"gnomon": gnomon, "X": X, "y": y})[0].metric == "log_likelihood"
    images = random.random((40, 8, 8))
    assert gnomon.suggest_baseline(images, y[:40]).rule.system == "lenet"
    assert gnomon.suggest_baseline(images, y[:40], structure="vectors").rule.system == "logistic-regression"
    assert gnomon.suggest_baseline((X > 0).astype(float)).rule.system == "bernoulli-mixture"
    log = Ratings(np.arange(9) % 3, np.arange(9) // 3, np.ones(9))
    assert gnomon.suggest_baseline(log).rule.system == "matrix-factorization"
    assert gnomon.suggest_baseline(log, structure="interactions").rule.system == "implicit-factorization"
    assert gnomon.suggest_baseline(["a b", "b a"]).fit.endswith(".fit(X)")


def test_what_a_system_refuses_is_passed_over_with_the_reason():
    """Nobody can tell what the white of images is whose numbers go beyond 1: their pixels are vectors."""
    images = 3 * random_of().random((40, 8, 8))
    found = gnomon.suggest_baseline(images, np.arange(40) % 2)
    assert found.rule.system == "logistic-regression" and found.reasons[0].startswith("not lenet: ")


def test_mistakes_are_named():
    X = random_of().normal(size=(30, 3))
    for wrong, error, said in (
        ({"structure": "graph"}, UserValueError, "structure must be one of vectors"),
        ({"structure": "grid"}, UserValueError, "structure must be vectors for data"),
        ({"metric": 3}, UserTypeError, "metric must be the name of a score"),
    ):
        with pytest.raises(error, match=said):
            gnomon.suggest_baseline(X, **wrong)
    for wrong, said in (("acuracy", "did you mean accuracy"), ("rmse", r"unknown metric 'rmse' \(the task classify\)")):
        with pytest.raises(UserValueError, match=said):
            gnomon.suggest_baseline("iris", metric=wrong)
    assert gnomon.suggest_baseline("iris", metric="F1").metric == "macro_f1"
    with pytest.raises(UserTypeError, match="data must be a name"):
        gnomon.suggest_baseline(3)
    with pytest.raises(UserTypeError, match="y must be left out"):
        gnomon.suggest_baseline("iris", np.zeros(150))
    with pytest.raises(UserError):
        gnomon.suggest_baseline("irsi")
    texts = gnomon.data.given.dataset_of(["good", "bad"] * 5, np.arange(10) % 2)
    with pytest.raises(UserValueError, match="sentences with labels"):
        describe(texts)
    assert describe(texts, "sequence").answer == "none"
    for wrong in ({"rows": 0, "structure": "vectors"}, {"rows": 1, "structure": "graph"}):
        with pytest.raises(UserValueError):
            Description(**wrong)


def test_the_command_prints_it_all(capsys):
    assert command(["suggest", "breast-cancer", "--metric", "roc_auc"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("proposal   logistic-regression (linear), for classify\n")
    assert "score      roc_auc, as you chose" in out
    assert "fit        gnomon fit logistic-regression breast-cancer\n" in out
    assert command(["suggest", "iris", "--structure", "grid"]) == 2
    assert "structure must be vectors for iris, got 'grid'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["suggest"], ["fit", "logistic-regression"], ["fit", "random-forest", "--holdout", "0"], ["compare", "mlp"]],
)
def test_a_target_of_one_class_is_refused_alike(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.csv").write_text("a,b,t\n" + "".join(f"{i},{i * i % 7},yes\n" for i in range(40)))
    assert command([*words, "one.csv", "--target", "t"]) == 2
    assert (
        "y must hold at least 2 classes, got only one class, 'yes' (one.csv, column 't'); " in capsys.readouterr().err
    )
    found, why = suits(load(tmp_path / "one.csv", target="t"))
    assert (
        "classify" not in found and "one class, 'yes'" in why["classify"] and "metric-network" not in found["represent"]
    )


def test_of_uneven_labels_it_says_what_the_trivial_answer_reaches():
    y = np.array(["no"] * 90 + ["yes"] * 10)
    words = gnomon.suggest_baseline(np.arange(200.0).reshape(100, 2) % 7, y).score
    assert "one label has 90% of the rows: always answering it has that accuracy" in words


def test_columns_of_a_table_are_no_pixels():
    X = np.random.default_rng(0).normal(size=(60, 25))
    found, _ = suits(dataset_of(X))
    assert "gan" in found["generate"] and "dcgan" not in found["generate"]
    assert "metric-network" not in found["represent"] and "ppca" in found["represent"]  # it learns from labels
    assert "dcgan" in suits(load("digits"))[0]["generate"]
