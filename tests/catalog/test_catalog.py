"""The catalog: its entries, how they are found, plug-ins."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import gnomon
from gnomon import catalog
from gnomon.catalog import ENTRIES, Entry, card, entries, entry, find, joined, load_class, make, tasks
from gnomon.catalog.parts import find as find_parts
from gnomon.catalog.words import FAMILY_TITLES, GLOSSARY, OF_FAMILIES, OF_SYSTEMS, OF_TASKS
from gnomon.errors import UserValueError

SPEC = Path(__file__).parent.parent.parent / "docs" / "spec"
HAN = re.compile("[一-鿿]")


def an_entry(name: str = "mine", where: str = "mypackage.models:Mine") -> Entry:
    return Entry(name, "My model", "我的模型", "model", ("density",), where, "Me 2025", ("BAY-01",), {})


@pytest.fixture
def plugin(monkeypatch):
    """Install an entry point whose value is looked up in a dict given by the test."""

    def install(value):
        module = type(sys)("gnomon_test_plugin")
        module.ENTRIES = value
        monkeypatch.setitem(sys.modules, "gnomon_test_plugin", module)
        points = [EntryPoint("mine", "gnomon_test_plugin:ENTRIES", catalog.GROUP)]
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points if group == catalog.GROUP else [])
        catalog._plugins.cache_clear()

    yield install
    catalog._plugins.cache_clear()


# --- entries --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", ENTRIES, ids=lambda one: one.name)
class TestEveryEntry:
    def test_name_and_titles(self, one):
        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", one.name)
        assert one.title and HAN.search(one.title_zh) and not HAN.search(one.title)
        assert re.search(r"\d{4}", one.source)

    def test_rows_stand_in_the_specification(self, one):
        text = "\n".join(page.read_text(encoding="utf-8") for page in SPEC.glob("*.md"))
        assert one.rows, f"rows must name a row of docs/spec, got none for {one.name}; write one if there is none"
        assert [row for row in one.rows if f"| {row} |" not in text] == []

    def test_class_is_there_and_knows_its_name(self, one):
        cls = load_class(one)
        assert cls.name == one.name
        assert getattr(gnomon, one.class_name) is cls

    def test_tiny_arguments_are_parameters_and_keep_their_ranges(self, one):
        system = load_class(one)(**one.tiny)
        system.check_parameters()
        assert {name: system.get_params(deep=False)[name] for name in one.tiny} == dict(one.tiny)

    def test_parameters_that_all_systems_share_mean_the_same(self, one):
        meant = {
            "epochs": "int in [1, inf)",
            "max_iter": "int in [1, inf)",
            "n_components": "int in [1, inf)",
            "n_hidden": "int in [1, inf)",
            "batch_size": "int in [1, inf) or none",
            "learning_rate": "float in (0, inf)",
            "tol": "float in [0, inf)",
            "random_state": "int or none",
            "dtype": "{float32, float64} or none",
        }
        shared = {p.name: str(p) for p in card(one).parameters if p.name in meant}
        if shared.get("n_components", "").endswith("or none"):  # chosen by the data where it can be
            meant["n_components"] += " or none"
        assert shared == {name: meant[name] for name in shared}
        assert "random_state" in shared


@pytest.mark.parametrize("one", ENTRIES, ids=lambda one: one.name)
def test_what_a_system_is_fitted_to_is_what_its_class_says(one):
    """Its line in the list against its domain, its labels, and a table that what takes images alone refuses."""
    system = load_class(one)()
    domain = system.domain
    assert one.missing == bool(getattr(domain, "allow_missing", False))
    kind = {
        "Real": "table", "UnitInterval": "table from 0 to 1", "Binary": "table of 0 and 1", "Images": "images",
        "Tokens": "text", "Pairs": "pairs of texts", "UserItems": "ratings", "MetItems": "users and items",
        "Counts": "table of counts", "Categories": "table of codes", "BinaryFrames": "table of 0 and 1",
        "AnyImages": "images", "Documents": "texts", "TaggedTexts": "texts", "Corpus": "text", "WordContexts": "text",
    }  # fmt: skip
    expected = kind[type(domain).__name__]
    if expected == "table" and "image_shape" in system.get_params():
        try:
            system.set_params(epochs=1).fit(np.random.default_rng(0).normal(size=(40, 5)), np.arange(40) % 2)
        except UserValueError:
            expected = "images"
    target = (system.__sklearn_tags__().target_tags.required and domain.is_table) or system.labeled
    target = target and "tag" not in one.tasks
    expected += ", tags" if "tag" in one.tasks else ""
    expected += "" if not target else ", numeric target" if "regress" in one.tasks else ", labels"
    expected += ", captions" if "caption" in one.tasks else ""
    expected += ", boxes" if "detect" in one.tasks else ""
    expected += ", labels of pixels" if "segment" in one.tasks else ""
    assert one.needs == expected, "state takes= or missing= in its line of the catalog"


def test_every_family_has_a_title():
    assert {one.family for one in ENTRIES} == set(FAMILY_TITLES)
    assert an_entry().family == "mypackage" and an_entry().needs == "table"


def test_tasks_are_sorted_and_each_has_a_system():
    assert list(tasks()) == sorted(tasks())
    assert all(find(task=task) for task in tasks())


# --- finding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("rbm", ["rbm"]),
        ("RBM", ["rbm"]),
        ("BOLTZMANN", ["rbm"]),
        ("玻尔兹曼", ["rbm"]),
        ("混合", ["bernoulli-mixture", "gaussian-mixture"]),
        ("多类逻辑", ["softmax-regression"]),
        ("主成分", ["ppca"]),
        ("n 元", ["ngram"]),
        ("GEN-005", ["rbm"]),
        ("energy", ["rbm"]),
        ("hinton", ["mlp", "mlp-regression", "rbm"]),
        ("cluster", ["bernoulli-mixture", "gaussian-mixture", "kmeans"]),
        ("no such thing", []),
    ],
)
def test_find_by_word(word, names):
    found = [one.name for one in find(word)]
    assert [name for name in found if name in names] == names and bool(found) == bool(names)
    assert len(found) < len(ENTRIES)


def test_find_by_task():
    assert find(task="density") == tuple(one for one in entries() if "density" in one.tasks) != ()
    mixtures = [one.name for one in find("mixture", task="density")]
    assert {"bernoulli-mixture", "gaussian-mixture"} <= set(mixtures) and "kmeans" not in mixtures
    assert find("") == entries()


def test_an_unknown_task_names_the_nearest():
    with pytest.raises(UserValueError, match=r"unknown task 'densty'; did you mean density\?"):
        find(task="densty")


@pytest.mark.parametrize(
    ("wrong", "right"), [("rmb", "rbm"), ("ppac", "ppca"), ("n-gram", "ngram or neural-ngram"), ("RMBS", "rbm")]
)
def test_an_unknown_system_names_the_nearest(wrong, right):
    with pytest.raises(UserValueError, match=rf"unknown system '{wrong}'; did you mean {right}\?"):
        entry(wrong)


@pytest.mark.parametrize(
    ("word", "remedy"),
    [
        ("zzzzzzzz", "gnomon list shows the systems"), ("", "gnomon list shows the systems"),
        ("xgboost", "did you mean histogram-boosting or histogram-boosting-regression?"),
        ("自编码器", "did you mean deep-autoencoder or vae or sentence-vae?"),
        ("hmc", "it is a part: gnomon info hmc"),
    ],
)  # fmt: skip
def test_a_name_like_no_other_is_looked_for_among_synonyms_and_parts(word, remedy):
    with pytest.raises(UserValueError) as told:
        entry(word)
    assert told.value.remedy == remedy


# --- making ---------------------------------------------------------------------------------------------------------


def test_make_sets_parameters_and_fields_of_recipes():
    rbm = make("rbm", n_hidden=5, objective="cd", objective__k=3)
    assert (rbm.n_hidden, rbm.objective.short, rbm.objective.k) == (5, "cd", 3)


def test_make_names_the_nearest_parameter():
    with pytest.raises(UserValueError, match="n_hidden"):
        make("rbm", n_hiden=5)


# --- plug-ins -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [list, lambda given: lambda: given], ids=["list", "function"])
def test_a_plugin_adds_entries_after_our_own(plugin, shape):
    plugin(shape([an_entry()]))
    assert [one.name for one in entries()] == [one.name for one in ENTRIES] + ["mine"]
    assert entry("mine").title == "My model"
    assert [one.name for one in find("我的")] == ["mine"]


def test_our_own_systems_are_found_without_loading_a_plugin(plugin):
    plugin(lambda: pytest.fail("a plug-in was loaded"))
    assert entry("rbm").name == "rbm"


def test_a_name_that_is_taken_is_refused(plugin):
    plugin([an_entry("rbm")])
    with pytest.raises(
        ValueError, match=r"two systems are called 'rbm': gnomon\.systems\.energy\.rbm:RBM and mypackage"
    ):
        entries()


def test_joined_refuses_duplicates_among_plugins():
    with pytest.raises(ValueError, match="two systems are called 'mine'"):
        joined([an_entry()], [an_entry(where="other:Mine")])


# --- the module that can be called ----------------------------------------------------------------------------------

CALLABLE = {
    "package first": "import gnomon; import gnomon.catalog",
    "module first": "import gnomon.catalog; import gnomon",
    "module by another name": "import gnomon.catalog as c; import gnomon; assert c is gnomon.catalog",
    "from the package": "from gnomon import catalog; import gnomon; assert catalog is gnomon.catalog",
    "a name of the module": "from gnomon.catalog import find; import gnomon",
}


@pytest.mark.parametrize("order", CALLABLE.values(), ids=CALLABLE.keys())
def test_the_catalog_is_a_module_and_a_function_whatever_the_order_of_imports(order):
    code = f"{order}; assert gnomon.catalog()[0] is gnomon.catalog.ENTRIES[0]; assert gnomon.catalog.find('rbm')"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_make_of_what_is_no_name() -> None:
    from gnomon.errors import UserTypeError

    with pytest.raises(UserTypeError, match="name must be the name of a system, got 3"):
        catalog.make(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "among"),
    [
        ("K均值", ["kmeans"]),
        ("Ｋ 均值", ["kmeans"]),
        ("神经网络", ["mlp", "lenet", "rnn-lm"]),
        ("卷积神经网络", ["lenet"]),
        ("线性判别", ["gaussian-classifier"]),
        ("梯度提升树", ["gradient-boosting", "histogram-boosting-regression"]),
        ("分类", ["svm", "decision-tree", "softmax-regression", "lenet"]),
        ("聚类", ["kmeans", "gaussian-mixture", "bernoulli-mixture"]),
        ("回归", ["linear-regression", "regression-tree"]),
        ("推荐", ["matrix-factorization", "implicit-factorization"]),
        ("降维", ["ppca", "vae"]),
        ("Random_FOREST", ["random-forest", "random-forest-regression"]),
        ("GBDT", ["gradient-boosting"]),
        ("naive bayes", ["gaussian-classifier"]),
        ("聚类分析", ["kmeans", "gaussian-mixture"]),
        ("分类算法", ["svm", "mlp"]),
        ("最小二乘法", ["linear-regression"]),
        ("离群点", ["ppca", "gaussian-mixture"]),
        ("线性判别", ["gaussian-classifier"]),
        ("朴素贝叶斯", ["gaussian-classifier"]),
        ("对抗生成网络", ["gan", "dcgan"]),
        ("受限波尔兹曼机", ["rbm"]),
        ("图像识别", ["lenet"]),
    ],
)
def test_common_words_in_either_language_find_systems(word, among):
    """E20: case, width and blanks make no difference."""
    assert set(among) <= {one.name for one in find(word)}


def test_every_system_task_and_family_has_words_and_every_word_for_parts_finds_one():
    """E20: a table that is complete, and of which no line leads nowhere."""
    assert {one.name for one in ENTRIES} == set(OF_SYSTEMS)
    assert set(tasks()) == set(OF_TASKS)
    assert {one.where.split(".")[2] for one in ENTRIES} == set(OF_FAMILIES)
    for table in (OF_TASKS, OF_FAMILIES, OF_SYSTEMS):
        assert all(HAN.search(line) for line in table.values())
    parts = [f"{part.where}\n{part.summary}".casefold() for part in find_parts("")]
    assert [
        chinese
        for chinese, word in GLOSSARY.items()
        if not any(all(one in part for one in word.split()) for part in parts)
    ] == []
    assert [one.where for one in find_parts("注意力")] == [one.where for one in find_parts("attention")] != []


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("配分函数", "log_partition"), ("交叉验证", "deal"), ("ROC曲线", "roc_auc"), ("轮廓系数", "silhouette"),
        ("KL散度", "kl"), ("EM算法", "EM"), ("马尔可夫链蒙特卡洛", "sample_chain"), ("随机梯度下降", "SGD"),
        ("权重衰减", "AdamW"), ("极大似然估计", "maximum_likelihood"), ("共轭先验", "conjugate"),
        ("特征重要性", "permutation"), ("傅里叶变换", "fft"), ("变量消去", "VariableElimination"),
        ("狄利克雷分布", "Dirichlet"), ("正态分布", "Normal"), ("置信区间", "share_interval"),
    ],
)  # fmt: skip
def test_chinese_words_of_a_textbook_find_parts(word, part):
    assert part in [one.name for one in find_parts(word)]


def test_words_of_two_letters_are_whole_words():
    """EM once found every part with "em" in its summary: item, temperature, them."""
    found = find_parts("EM")
    assert found and all(re.search(r"(?<![a-z0-9])em(?![a-z0-9])", f"{x.where} {x.summary}".lower()) for x in found)
