"""Sections that only some systems have: reconstructions, maps, texts, translations, ranking curves, chains, weights."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

import gnomon
from gnomon.cli.main import run as command
from gnomon.errors import UserError, number
from gnomon.report.rebuilt import explained
from gnomon.report.subject import Subject
from gnomon.report.verb import report
from gnomon.tasks.maps import MOST_GROUPS, grouped, map_of
from gnomon.tasks.rank import LENGTHS, Rank
from oracles.written_page import Page


def fitted(folder, *words):
    assert command(["fit", *words, "--out", str(folder), "--random-state", "0", "--json"]) == 0
    return Page(report(folder)), Subject.of(folder)


@pytest.fixture(scope="module")
def latents(tmp_path_factory):
    return fitted(tmp_path_factory.mktemp("latents") / "run", "ppca", "wine", "--n-components", "3")


@pytest.fixture(scope="module")
def rankings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rankings")
    random = np.random.default_rng(0)
    pairs = set(zip(random.integers(0, 60, 900).tolist(), random.integers(0, 40, 900).tolist(), strict=True))
    lines = ["user,item", *(f"u{u},i{i}" for u, i in sorted(pairs))]
    (folder / "met.csv").write_text("\n".join(lines) + "\n")
    return fitted(folder / "run", "implicit-factorization", str(folder / "met.csv"), "--n-factors", "2")


# --- reconstructions --------------------------------------------------------------------------------------------------


def test_reconstructions_are_rows_through_the_codes_and_back(latents):
    page, subject = latents
    X, system = np.asarray(subject.examples[0]), subject.system
    made = system.inverse_transform(system.transform(X))
    mean = np.asarray(subject.seen[0]).mean(axis=0)
    kept = 100 * (1 - ((X - made) ** 2).sum() / ((X - mean) ** 2).sum())
    assert f"{number(float(kept))} % of the squares about the training means" in page.text
    header, *rows = page.tables["reconstructions"]
    assert header[1:-1] == list(subject.held.columns)[:12] and len(rows) == 16
    chosen = np.linspace(0, len(X) - 1, 8).astype(int)
    for i, j in enumerate(chosen):
        assert rows[2 * i][1:-1] == [number(float(one)) for one in X[j, :12]]
        assert rows[2 * i + 1][1:-1] == [number(float(one)) for one in made[j, :12]]
        assert rows[2 * i + 1][-1] == number(float(np.sqrt(((X[j] - made[j]) ** 2).mean())))


def test_what_is_explained_is_nothing_for_the_mean_and_all_for_the_rows_themselves():
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 3)) + [1.0, 5.0, 0.0]
    mean = X.mean(axis=0)
    assert explained(X, np.broadcast_to(mean, X.shape), mean) == 0 and explained(X, X, mean) == 1
    two = PCA(2).fit(X)
    made = two.inverse_transform(two.transform(X))
    assert explained(X, made, mean) == pytest.approx(two.explained_variance_ratio_.sum())
    X[0, 0] = np.nan
    assert np.isfinite(explained(X, made, mean))


def test_coefficients_of_pixels_are_images_and_many_scores_are_folded(tmp_path):
    page, _ = fitted(tmp_path / "run", "softmax-regression", "digits", "--epochs", "2")
    assert "What it is made of" in page.text and not [one for one in page.tables if one.startswith("for ")]
    assert "precision[3]" not in page.column("scores", "value")
    assert "precision[3]" in page.column("scores of each class", "value")


# --- maps -------------------------------------------------------------------------------------------------------------


def test_a_map_is_the_first_two_principal_components():
    random = np.random.default_rng(0)
    X = random.normal(size=(80, 6)) * [5, 3, 1, 1, 1, 0]
    found, peer = map_of(X), PCA(2).fit(X)
    for mine, theirs in zip(found.points.T, peer.transform(X).T, strict=True):
        assert min(np.abs(mine - theirs).max(), np.abs(mine + theirs).max()) < 1e-9
    shares = [f"({100 * one:.0f} %)" for one in peer.explained_variance_ratio_]
    assert [name.split(" ", 2)[2] for name in found.names] == shares
    again = map_of(-X).points  # a sign is a convention: it does not depend on which way the solver turned
    np.testing.assert_allclose(again, -found.points, atol=1e-9)
    assert map_of(X[:, :2], "latent").names == ("latent 1", "latent 2")
    np.testing.assert_array_equal(map_of(X[:, :2]).points, X[:, :2])
    assert (map_of(X[:, :1]).points[:, 1] == 0).all() and map_of(X[:1]).points.tolist() == [[0.0, 0.0]]
    X[3, 0] = np.nan
    assert np.isfinite(map_of(X).points).all()


def test_each_group_has_its_own_color_and_shape_and_the_rest_is_gray():
    random = np.random.default_rng(0)
    groups = np.concatenate([np.arange(100), random.integers(0, 5, 900)])
    figure = grouped(map_of(random.normal(size=(1000, 2))), groups)
    shown = figure.axes[0].collections
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[0] == "others" and names[1:6] == ["0", "1", "2", "3", "4"] and len(names) == MOST_GROUPS + 1
    looks = {(tuple(one.get_facecolor()[0]), one.get_paths()[0].vertices.tobytes()) for one in shown}
    assert len(looks) == len(shown) == MOST_GROUPS + 1
    assert sum(len(one.get_offsets()) for one in shown) == 1000
    first = np.asarray(shown[1].get_offsets())
    assert len(first) == (groups == 0).sum()
    many = grouped(map_of(random.normal(size=(30_000, 3))), random.integers(0, 2, 30_000))
    assert sum(len(one.get_offsets()) for one in many.axes[0].collections) <= 2000


def test_codes_and_clusters_are_on_maps(latents, tmp_path):
    page, _ = latents
    assert "latent 1 (" in " ".join(page.words["Map of rows"])
    assert {"0", "1", "2"} <= set(page.words["Map of rows"])
    page, subject = fitted(tmp_path / "run", "kmeans", "wine", "--n-clusters", "4")
    clusters = np.unique(subject.system.predict(subject.examples[0]))
    assert {str(one) for one in clusters} <= set(page.words["Map of clusters"])


# --- texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "blank"),
    [(["ngram", "python-reference", "--n", "2"], " "), (["ngram", "peoples-daily", "--n", "2"], " ")],
)
def test_texts_are_what_the_model_writes_with_seeds_of_their_own(tmp_path, words, blank):
    page, subject = fitted(tmp_path / "run", *words)
    header, *rows = page.tables["texts"]
    assert header == ["begins with", "the model writes", "a real line"] and len(rows) == 8
    lines = subject.held.text
    cut = lambda text: text if len(text) <= 240 else f"{text[:239]}…"  # noqa: E731
    assert [row[2] for row in rows] == [cut(one) for one in lines[:8]]
    free = subject.system.generate("", 4, random_state=0, max_length=60)
    assert [row[1] for row in rows[:4]] == [cut(one) for one in free] and {row[0] for row in rows[:4]} == {""}
    for k, (row, line) in enumerate(zip(rows[4:], lines[4:8], strict=True)):
        tokens = subject.system.domain.check([line])[0]
        prompt = tokens[: min(4, len(tokens) // 2)]
        assert row[0] == blank.join(prompt) and row[1].startswith(row[0])
        assert row[1] == cut(subject.system.generate(prompt, 1, random_state=k + 1, max_length=60)[0])


def test_translations_stand_beside_the_truth(tmp_path):
    page, subject = fitted(tmp_path / "run", "seq2seq", "dates", "--epochs", "2", "--n-hidden", "24")
    header, *rows = page.tables["translations"]
    pairs = subject.held.pairs[:12]
    made = subject.system.translate([source for source, _ in pairs])
    equal = [a == b for a, (_, b) in zip(made, pairs, strict=True)]
    assert [row[:3] for row in rows] == [[s, a, t] for (s, t), a in zip(pairs, made, strict=True)]
    assert header[:3] == ["source", "translation", "truth"]
    assert f"{sum(equal)} of these 12 are the truth itself" in page.text


# --- rankings ---------------------------------------------------------------------------------------------------------


def test_ranking_curves_are_those_that_loops_find(rankings):
    page, subject = rankings
    system, (X, y) = subject.system, subject.examples
    model, log = system.model_, system.domain.check(X, y)
    items, met = model.items.values.tolist(), {}
    for user, item in zip(*_pairs(subject), strict=True):
        met.setdefault(user, set()).add(item)
    wanted = {}
    for user, item in zip(log.users.tolist(), log.items.tolist(), strict=True):
        wanted.setdefault(user, set()).add(item)
    sums = {name: np.zeros(len(LENGTHS)) for name in ("recall", "precision", "ndcg")}
    for user, there in wanted.items():
        scores = model.rows(model.users.codes(np.array([user])))[0]
        order = sorted((i for i, one in enumerate(items) if one not in met.get(user, ())), key=lambda i: -scores[i])
        hit = np.array([items[i] in there for i in order], float)
        gain = hit / np.log2(2 + np.arange(len(hit)))
        for j, k in enumerate(LENGTHS):
            best = (1 / np.log2(2 + np.arange(min(k, len(there))))).sum()
            sums["recall"][j] += hit[:k].sum() / len(there) / len(wanted)
            sums["precision"][j] += hit[:k].sum() / k / len(wanted)
            sums["ndcg"][j] += gain[:k].sum() / best / len(wanted)
    axes = Rank().figures(system, X, y)["lists"].axes[0]
    drawn = {
        text.get_text(): line[0].get_xydata()
        for text, line in zip(axes.get_legend().get_texts(), axes.containers, strict=True)
    }
    kept = [k for k in LENGTHS if k <= len(items)]
    for name, values in sums.items():
        assert drawn[name][:, 0].tolist() == kept
        np.testing.assert_allclose(drawn[name][:, 1], values[: len(kept)], atol=1e-12)
    assert {"recall", "precision", "ndcg", "items on the list"} <= set(page.words["Lists of every length"])


def _pairs(subject):
    log = subject.train.ratings
    return log.users.tolist(), log.items.tolist()


# --- chains -----------------------------------------------------------------------------------------------------------


def test_chains_have_a_page(tmp_path):
    target = lambda x: -0.5 * (x * x).sum(-1)  # noqa: E731
    found = gnomon.sample_chain(target, start=3, draws=300, burn_in=200, random_state=0, run=tmp_path / "good")
    page = Page(report(tmp_path / "good"))
    header, *rows = page.tables["coordinates"]
    assert header[:4] == ["coordinate", "mean", "sd", "error of the mean"] and header[6] == "R-hat"
    summary = found.summary()
    worst = sorted(range(3), key=lambda j: -summary.columns["r_hat"][j])
    assert [row[0] for row in rows] == [f"x[{j}]" for j in worst]
    for row, j in zip(rows, worst, strict=True):
        draws = found.draws[:, :, j]
        assert row[1:3] == [number(float(draws.mean())), number(float(draws.std(ddof=1)))]
        assert row[3] == number(float(summary.columns["mcse"][j])) and float(row[6]) < 1.05
        assert [f"{one} of x[{j}]" in page.words for one in ("Trace", "Ranks", "Memory")] == [True] * 3
    assert page.words[f"Memory of x[{worst[0]}]"].count("autocorrelation") == 1
    assert "8 chains of 300 draws" in page.text and "the chains differ" in page.text


def test_chains_that_have_not_mixed_are_said_to_have_not(tmp_path):
    apart = np.repeat([[-40.0], [40.0]], 2, axis=0)
    gnomon.sample_chain(
        lambda x: -0.5 * (x * x).sum(-1) / 900, "metropolis", chains=4, start=apart, draws=100, burn_in=0, adapt=None,
        random_state=0, run=tmp_path / "bad",
    )  # fmt: skip
    page = Page(report(tmp_path / "bad"))
    assert page.tables["coordinates"][1][-1].startswith("not mixed")
    assert "something speaks against 1 of 1 coordinate" in page.text
    assert "RandomWalk(scale=1.0" in page.text
    few = tmp_path / "few"
    gnomon.sample_chain(lambda x: -0.5 * (x * x).sum(-1), start=2, draws=3, burn_in=5, random_state=0, run=few)
    assert "too few to say anything of" in Page(report(few)).text
    assert command(["report", str(few), str(tmp_path / "bad"), "--json"]) == 0
    with pytest.raises(UserError):
        report(tmp_path)


# --- weights ----------------------------------------------------------------------------------------------------------


def test_the_weights_behind_an_estimated_normalizer(tmp_path):
    page, subject = fitted(tmp_path / "large", "rbm", "digits", "--epochs", "1", "--n-hidden", "24")
    score = subject.system.log_partition()
    log_w = score.weights.log_weights
    w = np.exp(log_w - log_w.max())
    value = float(log_w.max() + np.log(w.mean()))
    assert score.kind == "estimate" and value == pytest.approx(score.value)
    assert f"{number(value)} ± " in page.text and "Weights behind log Z" in page.text
    assert number(float(w.sum() ** 2 / (w * w).sum())) in page.parts
    assert number(float(w.max() / w.sum())) in page.parts and f"{number(float(np.std(log_w)))} nats" in page.parts
    assert "log weight (nats)" in page.words["Log weights"]
    page, _ = fitted(tmp_path / "small", "rbm", "digits", "--epochs", "1", "--n-hidden", "4")
    assert "Weights behind log Z" not in page.text  # log Z of a small machine is exact
