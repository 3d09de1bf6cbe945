"""GLUE and SuperGLUE: each metric by its formula and by its peers, label orders, files, the macro average."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from gnomon.cli.main import run
from gnomon.errors import UserValueError
from gnomon.evaluation.glue import SUITES, TASKS, TaskResult, evaluate, glue_score, suite_score

GLUE, SUPER = pytest.mark.spec("NLP-38"), pytest.mark.spec("NLP-39")


def draw(n_classes: int, n: int = 60) -> tuple[list[int], list[int]]:
    noise = np.random.default_rng(n_classes)
    gold = noise.integers(0, n_classes, n)
    told = np.where(noise.random(n) < 0.6, gold, noise.integers(0, n_classes, n))
    return told.tolist(), gold.tolist()


@GLUE
def test_matthews_correlation_of_cola() -> None:
    told, gold = draw(2)
    y, p = np.array(gold), np.array(told)
    a, b, c, d = ((p == i) & (y == j) for i in (1, 0) for j in (1, 0))
    tp, fp, fn, tn = (int(x.sum()) for x in (a, b, c, d))
    expected = (tp * tn - fp * fn) / np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    assert evaluate(told, "cola", gold).metrics == {"matthews": pytest.approx(expected)}
    assert metrics.matthews_corrcoef(gold, told) == pytest.approx(expected)
    assert evaluate([1] * 60, "cola", gold).value == 0.0
    assert evaluate(gold, "cola", gold).value == pytest.approx(1.0)


@GLUE
@SUPER
@pytest.mark.parametrize("task", ["sst-2", "qnli", "rte", "wnli", "mnli", "mnli-mm", "boolq", "copa", "wic", "wsc"])
def test_accuracies_by_name_and_by_number(task: str) -> None:
    labels = TASKS[task].labels
    told, gold = draw(len(labels))
    found = evaluate(told, task, [labels[i] for i in gold])
    assert found.metrics == {"accuracy": pytest.approx(metrics.accuracy_score(gold, told))}
    assert 0 < found.value < 1 and found.n == 60
    assert evaluate([str(i) for i in told], task, [labels[i].title() for i in gold]) == found


@GLUE
@SUPER
@pytest.mark.parametrize(
    ("task", "labels"),
    [
        ("mnli", ("entailment", "neutral", "contradiction")), ("qnli", ("entailment", "not_entailment")),
        ("rte", ("entailment", "not_entailment")), ("cb", ("entailment", "contradiction", "neutral")),
        ("boolq", ("false", "true")),
    ],
)  # fmt: skip
def test_the_order_of_labels(task: str, labels: tuple[str, ...]) -> None:
    assert evaluate(list(range(len(labels))), task, labels).metrics["accuracy"] == 1.0
    assert evaluate([False, True], "wic", ["false", True]).value == 1.0


@GLUE
@pytest.mark.parametrize("task", ["mrpc", "qqp"])
def test_accuracy_and_f1_of_the_positive_class(task: str) -> None:
    told, gold = [1, 1, 0, 0, 1], [1, 0, 0, 1, 1]
    found = evaluate(told, task, gold)
    assert found.metrics == {"accuracy": pytest.approx(3 / 5), "f1": pytest.approx(2 * 2 / (3 + 3))}
    assert found.value == pytest.approx((3 / 5 + 2 / 3) / 2)
    told, gold = draw(2)
    assert evaluate(told, task, gold).metrics["f1"] == pytest.approx(metrics.f1_score(gold, told))
    flipped = evaluate([1 - i for i in told], task, [1 - i for i in gold])
    assert flipped.metrics["f1"] != pytest.approx(metrics.f1_score(gold, told))


@GLUE
def test_correlations_of_sts_b() -> None:
    noise = np.random.default_rng(0)
    gold = noise.uniform(0, 5, 40)
    told = np.clip(gold + noise.normal(0, 1, 40), 0, 5)
    x, y = told - told.mean(), gold - gold.mean()
    found = evaluate(told.tolist(), "STS-B", gold.tolist()).metrics
    assert found["pearson"] == pytest.approx(x @ y / np.sqrt((x @ x) * (y @ y)))
    assert found["spearman"] == pytest.approx(stats.spearmanr(told, gold)[0])
    assert evaluate([2.0] * 40, "sts-b", gold.tolist()).value == 0.0
    for wrong in (5.1, -0.1, float("nan")):
        with pytest.raises(UserValueError, match=r"must be in \[0, 5\], got .*example 1"):
            evaluate([1.0, wrong], "sts-b", [1.0, 2.0])


@SUPER
def test_macro_f1_of_cb() -> None:
    told, gold = draw(3)
    by_hand = []
    for k in range(3):
        hits = sum(i == j == k for i, j in zip(told, gold, strict=True))
        by_hand.append(2 * hits / (told.count(k) + gold.count(k)))
    assert evaluate(told, "cb", gold).metrics["macro_f1"] == pytest.approx(np.mean(by_hand))


@SUPER
def test_multirc_groups_answers_by_question() -> None:
    groups = ["a", "b", "a", "b", "c"]
    gold, told = [1, 0, 0, 1, 1], [1, 1, 0, 1, 0]
    found = evaluate(told, "multirc", gold, groups).metrics
    assert found == {"f1a": pytest.approx(2 * 2 / (3 + 3)), "exact_match": pytest.approx(1 / 3)}
    with pytest.raises(UserValueError, match="multirc needs the question"):
        evaluate(told, "multirc", gold)


@SUPER
def test_record_takes_the_nearest_of_several_answers() -> None:
    told = ["the United States!", "New York", "Paris", "an"]
    gold = [["America", "united states"], ["New York City", "Boston"], ["London"], ["The"]]
    found = evaluate(told, "record", gold).metrics
    assert found["exact_match"] == pytest.approx(2 / 4)
    assert found["token_f1"] == pytest.approx((1 + 2 * 2 / 5 + 0 + 1) / 4)
    assert evaluate(["a a b"], "record", [["b b b"]]).metrics["token_f1"] == pytest.approx(2 * 1 / 4)


def results_of(suite: str) -> list[TaskResult]:
    return [
        TaskResult(task, {m: 0.1 * i + 0.01 * j for j, m in enumerate(TASKS[task].metrics)}, 9)
        for i, task in enumerate(SUITES[suite])
    ]


@GLUE
@SUPER
def test_the_score_is_the_mean_over_tasks_of_the_mean_of_their_metrics() -> None:
    results = results_of("glue")
    by_task = {one.task: float(np.mean(list(one.metrics.values()))) for one in results}
    nine = [by_task[task] for task in SUITES["glue"] if task not in ("mnli", "mnli-mm")]
    assert glue_score(results) == pytest.approx(np.mean([*nine, (by_task["mnli"] + by_task["mnli-mm"]) / 2]))
    assert glue_score({one.task: one for one in results}) == glue_score(results)
    eight = results_of("superglue")
    assert len(eight) == 8
    assert suite_score(eight, "superglue") == pytest.approx(
        np.mean([np.mean(list(one.metrics.values())) for one in eight])
    )


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: evaluate([1], "colla", [1]), "unknown task 'colla'"),
        (lambda: evaluate([1], "cola", [1, 0]), "one prediction per example, got 1 of 2"),
        (lambda: evaluate([], "cola", []), "at least one example"),
        (lambda: evaluate(["maybe"], "rte", ["entailment"]), "must be entailment, not_entailment, or 0 to 1"),
        (lambda: evaluate([3], "mnli", [1]), "got 3"),
        (lambda: evaluate([0.5], "sst-2", [1]), "got 0.5"),
        (lambda: evaluate(["a"], "record", ["a"]), "gold a list of at least one"),
        (lambda: glue_score(results_of("glue")[1:]), "cola is missing"),
        (lambda: glue_score(results_of("superglue")), "is none of them"),
        (lambda: glue_score([*results_of("glue"), *results_of("glue")[:1]]), "cola is there twice"),
        (lambda: suite_score([], "clue"), "suite must be one of"),
    ],
)
def test_mistakes_are_named(call: Any, says: str) -> None:
    with pytest.raises(UserValueError, match=says):
        call()


# --- files --------------------------------------------------------------------------------------------------------


def write(path: Path, *lines: Any) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines), "utf-8")
    return str(path)


def told(capsys: Any, *words: str) -> Any:
    assert run(["score", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@GLUE
def test_files_of_glue(tmp_path: Path, capsys: Any) -> None:
    """CoLA has no header, texts have quotes that are none, an index sorts predictions; a human level is shown."""
    write(tmp_path / "gold" / "CoLA.tsv", 'gj04\t1\t\tHe said "no.', "gj04\t0\t*\tSaid he", "gj04\t1\t\tYes")
    write(tmp_path / "told" / "CoLA.tsv", "index\tprediction", "2\t1", "0\t1", "1\t0")
    write(tmp_path / "gold" / "MNLI-m.tsv", "index\tgold_label", "0\tneutral", "1\tentailment")
    write(tmp_path / "told" / "mnli.csv", "prediction", "neutral", "contradiction")
    write(tmp_path / "human.json", {"CoLA": 0.664})
    folders = (str(tmp_path / "gold"), str(tmp_path / "told"))
    found = told(capsys, "--task", "glue", *folders, "--human", str(tmp_path / "human.json"))
    assert {task: one["score"] for task, one in found["tasks"].items()} == {"cola": 1.0, "mnli": 0.5}
    assert found["score"] is None and found["human"] == {"cola": 0.664}
    assert run(["score", "--task", "glue", *folders, "--human", str(tmp_path / "human.json")]) == 0
    shown = capsys.readouterr().out
    assert "0.664" in shown and "no score: sst-2, mrpc" in shown


@GLUE
def test_the_score_of_all_files(tmp_path: Path, capsys: Any) -> None:
    for task in SUITES["glue"]:
        labels = TASKS[task].labels or ("1.5", "4.0")
        write(tmp_path / "gold" / f"{task}.tsv", "label", labels[0], labels[1])
        write(tmp_path / "told" / f"{task}.tsv", "prediction", labels[0], labels[1])
    assert told(capsys, "--task", "glue", str(tmp_path / "gold"), str(tmp_path / "told"))["score"] == pytest.approx(1)


@SUPER
def test_files_of_superglue(tmp_path: Path, capsys: Any) -> None:
    def passage(*labels: int) -> dict[str, Any]:
        answers = [{"idx": i, "label": label} for i, label in enumerate(labels)]
        return {
            "idx": 4,
            "passage": {"questions": [{"idx": 0, "answers": answers[:2]}, {"idx": 1, "answers": answers[2:]}]},
        }

    gold, said = write(tmp_path / "g.jsonl", passage(1, 0, 1)), write(tmp_path / "p.jsonl", passage(1, 0, 0))
    found = told(capsys, "--task", "MultiRC", gold, said)["tasks"]["multirc"]
    assert (found["f1a"], found["exact_match"]) == (pytest.approx(2 / 3), 0.5)
    queries = [{"idx": 7, "query": "q", "answers": [{"text": "A Cat"}, {"text": "dog"}]}]
    gold = write(tmp_path / "g.jsonl", {"passage": {"text": "t"}, "qas": queries})
    said = write(tmp_path / "p.jsonl", {"idx": 7, "label": "cat"})
    assert told(capsys, "--task", "ReCoRD", gold, said)["tasks"]["record"]["score"] == 1.0
    gold = write(tmp_path / "g.jsonl", {"idx": 0, "label": True}, {"idx": 1, "label": False})
    said = write(tmp_path / "p.jsonl", {"idx": 1, "label": "false"}, {"idx": 0, "label": "true"})
    assert told(capsys, "--task", "BoolQ", gold, said)["tasks"]["boolq"]["accuracy"] == 1.0


def test_files_that_do_not_match_are_one_line(tmp_path: Path, capsys: Any) -> None:
    gold = write(tmp_path / "g.tsv", "label", "1", "0")
    bad = {
        "got 1": ["prediction", "1"], "got none for 1": ["index\tprediction", "0\t1", "0\t1"],
        "must be a column": ["answer", "1", "1"], "classes of cola": ["prediction", "1", "2"],
    }  # fmt: skip
    for says, lines in bad.items():
        assert run(["score", "--task", "cola", gold, write(tmp_path / "p.tsv", *lines)]) == 2
        shown = capsys.readouterr().err
        assert says in shown and shown.count("\n") == 1
    for words in (["--task", "cola", gold, "absent.tsv"], ["--task", "glue", gold, gold], ["--human", "x", gold, gold]):
        assert run(["score", *words]) == 2
        assert capsys.readouterr().err.count("\n") == 1
