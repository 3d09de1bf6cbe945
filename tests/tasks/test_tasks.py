"""Tasks as classes: found by name, complete, the same in the catalog and on the class; one's own System and task."""

from __future__ import annotations

import json
import re
import sys
import types
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import gnomon
from gnomon.catalog import entries, load_class, tasks
from gnomon.cli.main import run as run_command
from gnomon.data import load, split
from gnomon.distributions.domains import Real
from gnomon.errors import UserError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.runs.folder import RunFolder
from gnomon.system.base import System
from gnomon.tasks import base, suits
from gnomon.tasks.base import Task, task
from gnomon.tasks.compare import compare
from gnomon.tasks.fitting import task_of
from gnomon.training.em import ClosedForm

NAMES = tasks()


class MeansModel:
    """Independent Gaussian columns of variance 1."""

    def __init__(self, d: int) -> None:
        self.mean = np.zeros(d)
        self.n_parameters = d

    def state(self) -> dict[str, Any]:
        return {"mean": self.mean}

    def load(self, state: Any) -> None:
        self.mean = np.array(state["mean"])

    def moments(self, x: Any, weight: Any) -> dict[str, Any]:
        return {"weight": weight.sum(), "sum": weight @ x}

    def solve(self, moments: Any) -> dict[str, float]:
        self.mean = moments["sum"] / moments["weight"]
        return {"objective": 0.0}

    def log_prob(self, x: Any) -> Any:
        return -0.5 * (np.log(2 * np.pi) + (x - self.mean) ** 2).sum(1)


class Means(System):
    """A System that stands in no catalog."""

    name: ClassVar[str] = "means"
    model_class: ClassVar[type] = MeansModel
    tasks: ClassVar[tuple[str, ...]] = ("density",)
    domain = Real(largest=1e100)

    def make(self, n_features: int, dtype: str) -> MeansModel:
        return MeansModel(n_features)

    def procedure(self, examples: Any) -> ClosedForm:
        return ClosedForm()


@pytest.mark.parametrize("name", NAMES)
def test_every_task_is_complete(name: str) -> None:
    one = task(name)
    assert one.name == name and isinstance(one, Task)
    assert one.title and one.title_zh and one.primary and one.verbs and one.__doc__
    data = one.adopt(load(one.example_data))
    train, test = one.split(data, test=0.25)
    assert len(train) + len(test) == len(data) and len(test) > 0


@pytest.mark.parametrize("one", entries(), ids=lambda one: one.name)
def test_the_catalog_says_the_tasks_of_the_class(one) -> None:
    assert load_class(one).tasks == one.tasks


@pytest.mark.parametrize("one", entries(), ids=lambda one: one.name)
def test_the_domain_is_read_from_the_source(one) -> None:
    system = load_class(one)()
    read = [suits._made(one, attribute) for attribute in ("domain", "outcomes")]
    assert repr(read[0]) == repr(system.domain)
    assert repr(read[1] or read[0]) == repr(system.outcomes)


def test_unknown_tasks_are_refused_with_the_known_ones() -> None:
    for name in ("classfy", "compare", "base", "no.such", ""):
        with pytest.raises(UserValueError, match=r"classify|recommend"):
            task(name)


def test_a_task_of_a_plug_in_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Guess(Task):
        name = "guess"

    module = types.ModuleType("a_plug_in")
    module.Guess = Guess
    monkeypatch.setitem(sys.modules, "a_plug_in", module)
    module.__spec__ = types.SimpleNamespace()
    point = EntryPoint("guess", "a_plug_in:Guess", base.GROUP)
    monkeypatch.setattr(base, "entry_points", lambda group: [point])
    assert isinstance(task("guess"), Guess)


def test_a_system_of_ones_own_is_fitted_by_name_of_data(tmp_path: Path) -> None:
    system = gnomon.fit(Means(), "digits", run=tmp_path / "run")
    np.testing.assert_allclose(system.model_.mean, load("digits").view("density").mean(0), rtol=1e-5)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["data"]["name"] == "digits" and config["data"]["holdout"] == 0
    again = gnomon.resume(tmp_path / "run")
    assert np.array_equal(again.model_.mean, system.model_.mean) and isinstance(again, Means)
    assert np.array_equal(gnomon.fit(Means(), load("digits")).model_.mean, system.model_.mean)
    assert gnomon.fit("ppca", "iris").n_features_in_ == 4


def test_a_system_of_ones_own_is_compared() -> None:
    board = compare([Means(), "ppca"], "digits")[0]
    assert {line.name for line in board.lines} == {"means", "ppca", "diagonal Gaussian"}
    _, test = split(load("digits"), test=0.2, seed=0)
    mine = next(line for line in board.lines if line.name == "means")
    expected = Means().fit(split(load("digits"), test=0.2, seed=0)[0].view("density")).score(test.view("density"))
    assert mine.score.value == pytest.approx(expected, rel=1e-9)


def test_a_system_without_tasks_says_what_to_write() -> None:
    class Bare(Means):
        tasks: ClassVar[tuple[str, ...]] = ()

    with pytest.raises(UserValueError, match=r'Bare\.tasks.*tasks = \("density",\)'):
        gnomon.fit(Bare(), "iris")


def test_a_refused_fit_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        gnomon.fit("rbm", "iris", prepare=gnomon.data.Preparation(encode="none"), run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_data_is_prepared_once_for_all_systems_of_a_view(monkeypatch: pytest.MonkeyPatch) -> None:
    from gnomon.data import dataset

    seen = []
    view = dataset.VIEWS["density"]
    monkeypatch.setitem(dataset.VIEWS, "density", lambda data: seen.append(len(data)) or view(data))
    compare([Means(), Means(), Means()], "digits")
    assert sorted(seen) == [359, 1438, 1797]  # both parts, and all rows once for the check


def test_runs_of_a_comparison_keep_the_names_of_the_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file whose columns stand in another order is asked about by their names."""
    random = np.random.default_rng(0)
    X, noise = random.normal(size=(40, 2)), random.normal(size=40)
    y = 3 * X[:, 0] - X[:, 1] + 0.1 * noise
    straight = "\n".join(f"{a},{b},{c}" for (a, b), c in zip(X, y, strict=True))
    swapped = "\n".join(f"{c},{b},{a}" for (a, b), c in zip(X, y, strict=True))
    (tmp_path / "a.csv").write_text("first,second,y\n" + straight + "\n")
    (tmp_path / "b.csv").write_text("y,second,first\n" + swapped + "\n")
    board = compare(["linear-regression"], tmp_path / "a.csv", target="y", out=tmp_path / "runs")[0]
    run = next(line.run for line in board.lines if line.run)
    assert RunFolder.open(run).config["data"]["features"] == ["first", "second"]
    assert run_command(["predict", run, str(tmp_path / "b.csv"), "--json"]) == 0
    predictions = json.loads(capsys.readouterr().out)["predictions"]
    np.testing.assert_allclose(predictions, y, atol=0.5)
    (tmp_path / "c.csv").write_text("y,first\n1,2\n")
    assert run_command(["predict", run, str(tmp_path / "c.csv")]) == 2
    assert "second" in capsys.readouterr().err


def test_a_fit_reads_its_data_once_and_hands_the_system_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gnomon.system import saving
    from gnomon.tasks import fitting

    read, load_data = [], base.load_data
    monkeypatch.setattr(base, "load_data", lambda *given, **more: read.append(given) or load_data(*given, **more))
    monkeypatch.setattr(saving, "load", lambda *given: pytest.fail("the model was read back"))
    monkeypatch.setattr(fitting, "load", lambda *given: pytest.fail("the model was read back"))
    fit = ["fit", "softmax-regression", "wine", "--epochs", "3", "--random-state", "0", "--out", str(tmp_path / "run")]
    assert run_command([*fit, "--json"]) == 0
    assert len(read) == 1
    monkeypatch.undo()
    held = json.loads(capsys.readouterr().out)["held_out"]["accuracy"]["value"]
    _, test = split(load("wine"), test=0.2, seed=0)
    assert gnomon.load(tmp_path / "run").score(test.X, test.y) == held


def test_texts_in_different_units_never_share_a_board() -> None:
    text = load("python-reference").take(np.arange(300), "a part")
    systems = [gnomon.NGram(n=2, unit=unit, smoothing="additive") for unit in ("char", "word")]
    boards = compare(systems, text)
    assert [len(board.lines) for board in boards] == [2, 2]
    assert len({board.data_space for board in boards}) == 2
    _, alone = task("language").baseline(systems[0], text, None)
    assert (alone.unit, alone.n) == ("char", 1)


def test_figures_of_every_task() -> None:
    ways = {
        "density": gnomon.PPCA(n_components=2, random_state=0), "represent": gnomon.PPCA(n_components=2),
        "cluster": gnomon.KMeans(n_clusters=3, random_state=0), "regress": gnomon.LinearRegression(),
        "classify": gnomon.SoftmaxRegression(epochs=5, random_state=0), "language": gnomon.NGram(n=2),
    }  # fmt: skip
    for name, system in ways.items():
        goal = task(name)
        data = goal.adopt(load(goal.example_data))
        X, y = task_of(system).examples(data, system)
        system.fit(X, y)
        figures = goal.figures(system, X, goal.answers(data, y), data.images)
        assert figures, name
        for figure in figures.values():
            figure.canvas.draw()


def test_scores_of_a_task_hold_its_primary_score() -> None:
    goal = task("represent")
    train, test = goal.split(load("wine"), test=0.3)
    system = gnomon.PPCA(n_components=2).fit(train.X)
    with pytest.raises(TypeError, match="training rows"):
        goal.scores(system, test.X, test.y)
    scores = goal.scores(system, test.X, test.y, (train.X, train.y))
    assert isinstance(scores[goal.primary], Score)


@pytest.mark.parametrize(
    ("words", "said", "goal", "labels"),
    [
        (["fit", "dcgan", "wine"], "(rows, columns, channels)", "generate", True),
        (["fit", "dcgan", "numbers.csv"], "(rows, columns, channels)", "generate", False),
        (["compare", "dcgan", "square.csv"], "(rows, columns, channels)", "generate", False),  # 25 columns are no 5 x 5
        (["fit", "dcgan", "square.csv", "--holdout", "0"], "(rows, columns, channels)", "generate", False),
        (["fit", "lenet", "iris"], "or image_shape=(2, 2)", "classify", True),
        (
            ["fit", "metric-network", "numbers.csv"],
            "name their column with --target, in Python with target",
            "represent",
            False,
        ),
        (["compare", "lenet", "iris"], "or image_shape=(2, 2)", "classify", True),
    ],
)
def test_data_of_another_form_names_systems_of_the_same_task_that_take_it(
    words, said, goal, labels, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(60, 5))
    np.savetxt("numbers.csv", rows, delimiter=",", header="a,b,c,d,e", comments="")
    names = ",".join(f"c{j}" for j in range(25))
    np.savetxt("square.csv", np.random.default_rng(1).normal(size=(60, 25)), delimiter=",", header=names, comments="")
    assert run_command(words) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and f"{said}, or fit " in err
    names = re.split(", | or ", err.rstrip().rpartition(", or fit ")[2])
    takers = [
        one for one in entries()
        if goal in one.tasks and one.needs.startswith("table") and (labels or ", " not in one.needs)
    ]  # fmt: skip
    fitted_for_it = [one.name for one in takers if one.tasks[0] == goal]
    others = [one.name for one in takers if one.tasks[0] != goal]
    assert names == [*fitted_for_it, *others][:3]
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "ngram", "digits"], "this is a set of images, not a text (digits); choose a text"),
        (["fit", "ngram", "iris"], "choose a text"),  # nothing of its task takes a table
        (["fit", "dcgan", "iris", "--image-shape", "2x2"], "give fewer layers"),  # the rows have been said to be images
        # of another task
        (["fit", "rbm", "python-reference"], "choose a table, or fit ngram, co-occurrence or rnn-lm"),
    ],
)
def test_no_other_system_is_named_where_the_form_is_right_or_none_takes_it(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command(words) == 2
    assert capsys.readouterr().err.rstrip().endswith(said)


def test_in_python_too():
    with pytest.raises(UserValueError, match=r"channels\), or fit \S+, \S+ or \S+$"):
        gnomon.fit(gnomon.DCGAN(epochs=1), "wine")
