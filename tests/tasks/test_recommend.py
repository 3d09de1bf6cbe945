"""The task recommend: splits, baseline, scores of lists, files and the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run
from gnomon.data import load
from gnomon.data.dataset import Dataset
from gnomon.data.pairs import Ratings
from gnomon.errors import UserValueError
from gnomon.systems.recommend.matrix_factorization import ALS, MatrixFactorization
from gnomon.tasks.base import task
from gnomon.tasks.rank import Popularity


def log_of(n_users=12, n_items=15, seed=0):
    random = np.random.default_rng(seed)
    pairs = np.argwhere(random.random((n_users, n_items)) < 0.6)
    taste, appeal = random.normal(size=(n_users, 2)), random.normal(size=(n_items, 2))
    values = np.clip(np.round(3 + (taste[pairs[:, 0]] * appeal[pairs[:, 1]]).sum(1)), 1, 5)
    return Ratings(pairs[:, 0], pairs[:, 1] + 100, values, random.permutation(len(pairs)))


@pytest.mark.spec("DLN-247", "DLN-248")
@pytest.mark.parametrize("chunk", [1 << 22, 20])
def test_scores_of_lists_are_those_of_sorting(chunk, monkeypatch):
    monkeypatch.setattr("gnomon.systems.recommend._lists.CELLS", chunk)
    data = Dataset("log", ratings=log_of())
    goal = task("recommend")
    train, test = goal.split(data, test=0.3)
    system = MatrixFactorization(n_factors=2, learner=ALS(iterations=5), random_state=0).fit(train)
    found = goal.scores(system, *goal.examples(test, system))
    known, held = train.ratings, test.ratings
    hits, recalls, areas = [], [], []
    for user in np.unique(held.users):
        rated = set(known.items[known.users == user].tolist())
        candidates = [item for item in system.items_.tolist() if item not in rated]
        scores = dict(zip(candidates, system.predict([(user, item) for item in candidates]).tolist(), strict=True))
        mine = held.users == user
        liked = held.items[mine & (held.values >= known.values.mean())].tolist()
        wanted = [item for item in liked if item in scores]
        if not wanted:
            continue
        order = sorted(candidates, key=lambda item: -scores[item])
        ranks = [order.index(item) + 1 for item in wanted]
        hits.append(min(ranks) <= 10)
        recalls.append(np.mean([rank <= 10 for rank in ranks]))
        others = [item for item in candidates if item not in wanted]
        if others:
            areas.append(np.mean([[scores[a] > scores[b] for b in others] for a in wanted]))
    assert found["hit_rate@10"].value == pytest.approx(np.mean(hits))
    assert found["recall@10"].value == pytest.approx(np.mean(recalls))
    assert found["auc"].value == pytest.approx(np.mean(areas))
    assert found["rmse"].value == pytest.approx(np.sqrt(np.mean((system.predict(held) - held.values) ** 2)))


@pytest.mark.spec("DLN-241")
def test_splits_by_user_and_by_time():
    data = Dataset("log", ratings=log_of())
    goal = task("recommend")
    for how, n in (("time", 1), ("time:3", 3), ("user:2", 2)):
        train, test = goal.split(data, test=0.2, how=how)
        assert len(train) + len(test) == len(data)
        assert (np.bincount(test.ratings.users) == n).all()
        if how == "user:2":
            other = goal.split(data, test=0.2, how=how, seed=1)[1].ratings
            assert not np.array_equal(other.items, test.ratings.items)
        if how.startswith("time"):
            for user in np.unique(test.ratings.users):
                last = train.ratings.times[train.ratings.users == user].max()
                assert test.ratings.times[test.ratings.users == user].min() > last
    for how in ("late", "time:x", "random:2", "time:0", "user:-1", "user:", "user:\u00b2", "time:9" + "9" * 30):
        with pytest.raises(UserValueError, match=r"split must be random, user or time, or such as time:3.*\(--split\)"):
            goal.split(data, test=0.2, how=how)
    with pytest.raises(UserValueError, match="split must be random, stratified, group=COLUMN"):
        task("density").split(load("iris"), test=0.2, how="time")


def test_a_board_stands_beside_the_biases():
    data = Dataset("log", ratings=log_of(40, 30))
    systems = [MatrixFactorization(n_factors=2, learner="als", random_state=0), gnomon.PMF(n_factors=2, random_state=0)]
    for split in ("random", "time:2"):
        board = gnomon.compare(systems, data, split=split)[0]
        names = {line.name: line for line in board.lines}
        assert set(names) == {"mean and biases", "matrix-factorization", "pmf"}
        assert board.metric == "rmse"
        assert "ndcg@10" in names["pmf"].others


def test_the_baseline_is_a_mean_with_biases():
    title, system = task("recommend").baseline(None, log_of(), None)
    assert title == "mean and biases" and system.user_factors_.shape[1] == 0
    assert system.mean_ == pytest.approx(log_of().values.mean()) and system.item_biases_.any()


def test_errors_in_figures_are_the_expected_less_the_true_ratings(monkeypatch):
    drawn = []
    monkeypatch.setattr("gnomon.tasks.pictures.histogram", lambda values, label: drawn.append(values))
    log = log_of()
    system = MatrixFactorization(n_factors=0, learner="als", random_state=0).fit(log)
    task("recommend").figures(system, log, None)
    np.testing.assert_allclose(drawn[0] + log.values, system.predict(log))


@pytest.mark.parametrize("n_factors", [0, 1, 3])
def test_figures(n_factors):
    log = log_of()
    system = MatrixFactorization(n_factors=n_factors, learner="als", random_state=0).fit(log)
    figures = task("recommend").figures(system, log, None)
    assert set(figures) == ({"errors", "items"} if n_factors > 1 else {"errors"})
    for figure in figures.values():
        figure.canvas.draw()


@pytest.mark.parametrize("name", ["matrix-factorization", "pmf"])
def test_defaults_beat_the_baseline_on_movies(name):
    board = gnomon.compare([name], "movielens-100k")[0]
    line = next(line for line in board.lines if line.name == name)
    assert line.against_baseline == "better"
    assert line.score.value < 0.93


def test_the_command_line(tmp_path, capsys):
    log = log_of()
    file, out = tmp_path / "log.csv", tmp_path / "run"
    rows = zip(log.users, log.items, log.values, log.times, strict=True)
    file.write_text("who,what,stars,at\n" + "".join(f"u{u},{i},{v},{t}\n" for u, i, v, t in rows))
    fit = [
        "fit",
        "matrix-factorization",
        str(file),
        "--columns",
        "who,what,at",
        "--target",
        "stars",
        "--split",
        "time:2",
    ]
    assert run([*fit, "--learner", "als", "--n-factors", "2", "--random-state", "0", "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert run(["evaluate", str(out), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["n"] == 24 and again["scores"]["rmse"] == told["held_out"]["rmse"]
    system = gnomon.load(out)
    assert run(["recommend", str(out), "--user", "u3", "--user", "nobody", "-k", "2", "--json"]) == 0
    lists = json.loads(capsys.readouterr().out)["lists"]
    wanted = system.recommend(["u3", "nobody"], 2)
    assert [row["item"] for row in lists] == wanted.items.ravel().tolist()
    assert [row["user"] for row in lists] == ["u3", "u3", "nobody", "nobody"]
    assert run(["recommend", str(out), "--like", "103", "-k", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith(f"103,{system.similar_items(103, 1).items[0, 0]},")
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("who,what\nu1,103\nnobody,104\n")
    assert run(["predict", str(out), str(pairs), "--columns", "who,what", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["predictions"]
    assert found == pytest.approx(system.predict([("u1", 103), ("nobody", 104)]))
    mistakes = [
        ["recommend", str(out)],
        ["recommend", str(out), "--user", "u1", "--like", "103"],
        ["recommend", str(out), "--like", "999"],
        [*fit[:-1], "late", "--out", str(tmp_path / "b")],
    ]
    for words in mistakes:
        assert run(words) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_ranking_beside_what_is_popular(tmp_path, capsys):
    """Pairs without ratings: a board, and the command line from fit to lists."""
    random = np.random.default_rng(0)
    users, items = np.divmod(np.arange(60 * 40), 40)
    met = np.flatnonzero((users % 3 == items % 3) & (random.random(60 * 40) < 0.8))
    data = Dataset("log", ratings=Ratings(users[met], items[met]))
    system = gnomon.ImplicitFactorization(n_factors=4, random_state=0)
    for split in ("random", "user:2"):
        board = gnomon.compare([system], data, split=split)[0]
        lines = {line.name: line for line in board.lines}
        assert set(lines) == {"most popular items", "implicit-factorization"}
        assert board.metric == "ndcg@10"
        assert lines["implicit-factorization"].against_baseline == "better"
    file, out = tmp_path / "log.csv", tmp_path / "run"
    file.write_text("user,item\n" + "".join(f"u{u},{i}\n" for u, i in zip(users[met], items[met], strict=True)))
    options = ["--objective", "logistic", "--objective.n-negatives", "2", "--n-factors", "4", "--random-state", "0"]
    assert run(["fit", "implicit-factorization", str(file), *options, "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["held_out"]["auc"]["value"] > 0.9
    assert run(["recommend", str(out), "--user", "u4", "-k", "1", "--json"]) == 0
    assert gnomon.load(out).recommend(["u4"], 1).items[0, 0] % 3 == 1


def test_the_popularity_of_items_is_counted():
    log = Ratings(np.array([1, 1, 2, 3]), np.array([7, 8, 7, 7]))
    board = Popularity(log)
    assert board.model.score([0, 0], [0, 1]).tolist() == [3, 1]
    again = Popularity(Ratings(np.array([1, 1, 2, 3, 1]), np.array([7, 8, 7, 7, 8])))
    assert again.model.score([0, 0], [0, 1]).tolist() == [3, 2]  # met twice
    assert board.n_parameters == 2


def test_ranking_beats_what_is_popular_on_movies():
    board = gnomon.compare(["implicit-factorization"], "movielens-100k")[0]
    lines = {line.name: line for line in board.lines}
    assert lines["implicit-factorization"].against_baseline == "better"
    assert lines["implicit-factorization"].score.value > 0.38 > 0.25 > lines["most popular items"].score.value
