"""The table of contents: one entry per system, readable without NumPy or torch.

The module can be called: ``gnomon.catalog()`` is its table (see docs/decisions/0001).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gnomon.errors import UserTypeError, UserValueError, nearest

if TYPE_CHECKING:
    from gnomon.catalog.cards import Card

__all__ = ["ENTRIES", "Entry", "card", "entries", "entry", "find", "load_class", "make", "tasks"]

GROUP = "gnomon.systems"
"""Entry points of this group name a function, or a list, that gives the entries of a plug-in."""


@dataclass(frozen=True)
class Entry:
    """A system's line in the catalog.

    Parameters
    ----------
    name : str
        What it is called on the command line: lower case, words joined by hyphens.
    title, title_zh : str
        What it is called in English and in Chinese.
    kind : str
        Kind of the row that it is: ``model``.
    tasks : tuple of str
        What it can be used for; the first is the one that ``gnomon fit`` prepares data for.
    where : str
        ``module:Class``.
    source : str
        Author and year.
    rows : tuple of str
        Rows of docs/spec that it makes work.
    tiny : mapping
        Constructor arguments with which it fits in a moment: for tests.
    """

    name: str
    title: str
    title_zh: str
    kind: str
    tasks: tuple[str, ...]
    where: str
    source: str
    rows: tuple[str, ...]
    tiny: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def class_name(self) -> str:
        """Name of the class: ``gnomon.<class_name>``."""
        return self.where.partition(":")[2]


ENTRIES: tuple[Entry, ...] = (
    Entry(
        "linear-regression", "Linear regression (least squares, ridge, lasso)", "线性回归（最小二乘、岭回归、套索）",
        "model", ("regress",), "gnomon.systems.linear.linear_regression:LinearRegression",
        "Gauss 1809; Hoerl and Kennard 1970; Tibshirani 1996",
        ("LIN-01", "LIN-02", "LIN-03", "LIN-04", "LIN-06", "LIN-21", "DLN-29", "DLN-67", "DLN-71", "DLN-72"),
    ),
    Entry(
        "bayesian-regression", "Bayesian linear regression", "贝叶斯线性回归", "model",
        ("regress",), "gnomon.systems.linear.bayesian_regression:BayesianRegression",
        "Lindley and Smith 1972; MacKay 1992", ("BAY-28",),
    ),
    Entry(
        "softmax-regression", "Softmax regression (multinomial logistic regression)", "Softmax 回归（多类逻辑回归）",
        "model", ("classify",), "gnomon.systems.linear.softmax_regression:SoftmaxRegression", "Cox 1958; Bishop 2006",
        ("LIN-09", "LIN-10", "LIN-11", "LIN-12", "LIN-13", "DLN-18", "DLN-64", "DLN-68"),
        {"epochs": 100, "learning_rate": 0.1},
    ),
    Entry(
        "mlp", "Multilayer perceptron", "多层感知机", "model",
        ("classify",), "gnomon.systems.neural.mlp:MLP", "Rumelhart, Hinton and Williams 1986",
        ("LIN-16", "NLP-04", "NLP-08", "NLP-17", "DLN-66", "DLN-73", "DLN-79", "DLN-80", "PRA-062"),
        {"hidden": (8,), "epochs": 20, "learning_rate": 0.05, "batch_size": None},
    ),
    Entry(
        "mlp-regression", "Multilayer perceptron for regression", "多层感知机回归", "model",
        ("regress",), "gnomon.systems.neural.mlp_regression:MLPRegression", "Rumelhart, Hinton and Williams 1986",
        ("LIN-16", "DLN-80"),
        {"hidden": (8,), "epochs": 20, "learning_rate": 0.05, "batch_size": None},
    ),
    Entry(
        "lenet", "LeNet (convolutional classifier of images)", "LeNet（图像卷积分类网络）", "model",
        ("classify",), "gnomon.systems.vision.lenet:LeNet", "LeCun, Bottou, Bengio and Haffner 1998",
        ("DLN-118", "DLN-108", "DLN-114", "DLN-115"),
        {"channels": (2, 3), "hidden": (10, 8), "dropout": 0.1, "epochs": 12, "batch_size": 16, "learning_rate": 0.03},
    ),
    Entry(
        "logistic-regression", "Logistic regression", "逻辑回归", "model",
        ("classify",), "gnomon.systems.linear.logistic_regression:LogisticRegression", "Cox 1958; Bishop 2006",
        ("BAY-99", "DLN-69", "PRA-058"),
    ),
    Entry(
        "svm", "Support vector machine", "支持向量机", "model",
        ("classify",), "gnomon.systems.kernel.svm:SVM", "Boser, Guyon and Vapnik 1992; Cortes and Vapnik 1995",
        ("DLN-104", "DLN-105", "DLN-106", "PRA-058"),
        {"tol": 1e-9},
    ),
    Entry(
        "support-vector-regression", "Support vector regression", "支持向量回归", "model",
        ("regress",), "gnomon.systems.kernel.svm:SupportVectorRegression", "Drucker and others 1997",
        ("DLN-105",),
        {"tol": 1e-9},
    ),
    Entry(
        "decision-tree", "Decision tree", "决策树", "model",
        ("classify",), "gnomon.systems.trees.decision_tree:DecisionTree", "Breiman, Friedman, Olshen and Stone 1984",
        ("DLN-39", "DLN-46"),
    ),
    Entry(
        "regression-tree", "Regression tree", "回归树", "model",
        ("regress",), "gnomon.systems.trees.decision_tree:RegressionTree", "Breiman, Friedman, Olshen and Stone 1984",
        ("DLN-39", "DLN-46"),
    ),
    Entry(
        "bagging", "Bagging (random patches, random subspaces)", "装袋法", "model",
        ("classify",), "gnomon.systems.ensemble.bagging:Bagging", "Breiman 1996; Ho 1998; Louppe and Geurts 2012",
        ("DLN-40", "DLN-41", "DLN-42", "DLN-43", "DLN-44"),
        {"n_members": 4},
    ),
    Entry(
        "bagging-regression", "Bagging for regression", "装袋回归", "model",
        ("regress",), "gnomon.systems.ensemble.bagging:BaggingRegression", "Breiman 1996",
        ("DLN-40", "DLN-41", "DLN-42", "DLN-43", "DLN-44"),
        {"n_members": 4},
    ),
    Entry(
        "random-forest", "Random forest", "随机森林", "model",
        ("classify",), "gnomon.systems.ensemble.random_forest:RandomForest", "Breiman 2001",
        ("DLN-41", "DLN-45", "DLN-46"),
        {"n_trees": 5},
    ),
    Entry(
        "random-forest-regression", "Random forest for regression", "随机森林回归", "model",
        ("regress",), "gnomon.systems.ensemble.random_forest:RandomForestRegression", "Breiman 2001",
        ("DLN-41", "DLN-45", "DLN-46"),
        {"n_trees": 5},
    ),
    Entry(
        "extra-trees", "Extremely randomized trees", "极端随机树", "model",
        ("classify",), "gnomon.systems.ensemble.extra_trees:ExtraTrees", "Geurts, Ernst and Wehenkel 2006",
        ("DLN-45", "DLN-46"),
        {"n_trees": 5},
    ),
    Entry(
        "extra-trees-regression", "Extremely randomized trees for regression", "极端随机树回归", "model",
        ("regress",), "gnomon.systems.ensemble.extra_trees:ExtraTreesRegression", "Geurts, Ernst and Wehenkel 2006",
        ("DLN-45", "DLN-46"),
        {"n_trees": 5},
    ),
    Entry(
        "adaboost", "AdaBoost", "自适应提升", "model",
        ("classify",), "gnomon.systems.ensemble.adaboost:AdaBoost", "Freund and Schapire 1997; Zhu and others 2009",
        ("DLN-47",),
        {"n_trees": 5},
    ),
    Entry(
        "gradient-boosting", "Gradient boosting", "梯度提升", "model",
        ("classify",), "gnomon.systems.ensemble.gradient_boosting:GradientBoosting", "Friedman 2001",
        ("DLN-48",),
        {"n_trees": 5},
    ),
    Entry(
        "gradient-boosting-regression", "Gradient boosting for regression", "梯度提升回归", "model",
        ("regress",), "gnomon.systems.ensemble.gradient_boosting:GradientBoostingRegression", "Friedman 2001",
        ("DLN-48",),
        {"n_trees": 5},
    ),
    Entry(
        "histogram-boosting", "Histogram gradient boosting", "直方图梯度提升", "model",
        ("classify",), "gnomon.systems.ensemble.histogram_boosting:HistogramBoosting",
        "Chen and Guestrin 2016; Ke and others 2017",
        ("DLN-49",),
        {"n_trees": 5, "min_rows_leaf": 3},
    ),
    Entry(
        "histogram-boosting-regression", "Histogram gradient boosting for regression", "直方图梯度提升回归", "model",
        ("regress",), "gnomon.systems.ensemble.histogram_boosting:HistogramBoostingRegression",
        "Chen and Guestrin 2016; Ke and others 2017",
        ("DLN-49",),
        {"n_trees": 5, "min_rows_leaf": 1},
    ),
    Entry(
        "stacking", "Stacking", "堆叠法", "model",
        ("classify",), "gnomon.systems.ensemble.stacking:Stacking", "Wolpert 1992",
        ("DLN-50", "DLN-51", "DLN-52"),
        {"members": "decision-tree+logistic-regression", "folds": 2},
    ),
    Entry(
        "stacking-regression", "Stacking for regression", "堆叠回归", "model",
        ("regress",), "gnomon.systems.ensemble.stacking:StackingRegression", "Wolpert 1992; Breiman 1996",
        ("DLN-50", "DLN-51", "DLN-52"),
        {"members": "regression-tree+linear-regression", "folds": 2},
    ),
    Entry(
        "ppca", "Probabilistic principal component analysis", "概率主成分分析", "model",
        ("density", "represent"), "gnomon.systems.factors.ppca:PPCA", "Tipping and Bishop 1999",
        ("REP-003", "REP-004", "BAY-54", "BAY-55", "BAY-56", "BAY-57"),
        {"n_components": 1, "max_iter": 30},
    ),
    Entry(
        "bernoulli-mixture", "Bernoulli mixture (latent class analysis)", "伯努利混合模型（潜在类别分析）", "model",
        ("density", "cluster"), "gnomon.systems.mixtures.bernoulli_mixture:BernoulliMixture",
        "Lazarsfeld and Henry 1968; Bishop 2006",
        ("BAY-48", "BAY-50", "BAY-75"),
        {"n_components": 2, "max_iter": 30},
    ),
    Entry(
        "gaussian-mixture", "Gaussian mixture", "高斯混合模型", "model",
        ("density", "cluster"), "gnomon.systems.mixtures.gaussian_mixture:GaussianMixture",
        "Pearson 1894; Dempster, Laird and Rubin 1977",
        ("BAY-50", "BAY-52", "BAY-75", "REP-120"),
        {"n_components": 2, "max_iter": 30},
    ),
    Entry(
        "gaussian-classifier", "Gaussian classifier (linear and quadratic discriminants, naive Bayes)",
        "高斯判别分析（线性与二次判别、朴素贝叶斯）", "model",
        ("classify",), "gnomon.systems.mixtures.gaussian_classifier:GaussianClassifier", "Fisher 1936; Rao 1948",
        ("BAY-29",),
    ),
    Entry(
        "kmeans", "K-means clustering", "k 均值聚类", "model",
        ("cluster",), "gnomon.systems.mixtures.kmeans:KMeans", "Lloyd 1982; Arthur and Vassilvitskii 2007",
        ("BAY-52",),
        {"n_clusters": 3, "n_init": 3},
    ),
    Entry(
        "rbm", "Restricted Boltzmann machine (harmonium)", "受限玻尔兹曼机", "model",
        ("density", "represent"), "gnomon.systems.energy.rbm:RBM", "Smolensky 1986; Hinton 2002",
        (
            "GEN-005", "GEN-006", "GEN-007", "INF-04", "INF-06", "INF-07", "INF-12", "INF-19", "INF-30", "INF-31",
            "INF-33", "INF-35", "INF-63", "INF-64", "INF-65", "DLN-81", "DLN-82", "DLN-84", "DLN-86", "DLN-87",
        ),
        {"n_hidden": 3, "objective": "exact", "epochs": 20, "batch_size": None, "learning_rate": 0.1},
    ),
    Entry(
        "vae", "Variational autoencoder", "变分自编码器", "model",
        ("density", "represent"), "gnomon.systems.variational.vae:VAE",
        "Kingma and Welling 2014; Rezende and others 2014",
        (
            "GEN-084", "GEN-086", "GEN-087", "GEN-088", "GEN-089", "GEN-090", "BAY-64", "BAY-65", "BAY-66", "BAY-67",
            "BAY-71", "BAY-72", "INF-107",
        ),
        {"n_latent": 2, "epochs": 30, "learning_rate": 0.01, "batch_size": 16},
    ),
    Entry(
        "ngram", "n-gram language model", "n 元语法语言模型", "model",
        ("language",), "gnomon.systems.text.ngram:NGram", "Markov 1913; Shannon 1948; Chen and Goodman 1999",
        (
            "PRA-145", "PRA-146", "PRA-147", "PRA-148", "PRA-149", "PRA-150", "DLN-32", "DLN-174", "DLN-175", "DLN-180",
        ),
        {"n": 2},
    ),
)  # fmt: skip
"""The systems of gnomon itself."""


def entries() -> tuple[Entry, ...]:
    """Every system, gnomon's own first, then those of plug-ins.

    Raises
    ------
    ValueError
        Two entries of one name.

    Examples
    --------
    >>> [entry.name for entry in entries()][:2]
    ['linear-regression', 'bayesian-regression']
    """
    return joined(ENTRIES, *_plugins())


def joined(*groups: Iterable[Entry]) -> tuple[Entry, ...]:
    """All entries in order; a name may come once."""
    known: dict[str, Entry] = {}
    for one in (one for group in groups for one in group):
        first = known.setdefault(one.name, one)
        if first is not one:
            raise ValueError(f"two systems are called {one.name!r}: {first.where} and {one.where}")
    return tuple(known.values())


@cache
def _plugins() -> tuple[tuple[Entry, ...], ...]:
    from importlib.metadata import entry_points

    found = []
    for point in entry_points(group=GROUP):
        given: Iterable[Entry] | Callable[[], Iterable[Entry]] = point.load()
        found.append(tuple(given() if callable(given) else given))
    return tuple(found)


def entry(name: str) -> Entry:
    """The system of this name; plug-ins are looked at only when gnomon itself has none.

    Raises
    ------
    UserValueError
        An unknown name, with the nearest known one.

    Examples
    --------
    >>> entry("rbm").title
    'Restricted Boltzmann machine (harmonium)'
    """
    own = next((one for one in ENTRIES if one.name == name), None)
    if own is not None:
        return own
    everything = entries()
    for one in everything:
        if one.name == name:
            return one
    names = [one.name for one in everything]
    close = nearest(name, names)
    remedy = f"did you mean {close[0]}?" if close else f"the systems are {', '.join(names)}"
    raise UserValueError(f"unknown system {name!r}", "", remedy)


def tasks() -> tuple[str, ...]:
    """The tasks that some system is for, sorted.

    Examples
    --------
    >>> tasks()
    ('classify', 'cluster', 'density', 'language', 'regress', 'represent')
    """
    return tuple(sorted({task for one in entries() for task in one.tasks}))


def find(word: str = "", task: str | None = None) -> tuple[Entry, ...]:
    """The systems in whose name, titles, kind, family, tasks, source or rows the word occurs; case makes no difference.

    Parameters
    ----------
    word : str
        Any part of what is searched, in English or Chinese; "" finds everything.
    task : str, optional
        Only systems for this task.

    Raises
    ------
    UserValueError
        An unknown task.

    Examples
    --------
    >>> [entry.name for entry in find("玻尔兹曼")], [entry.name for entry in find(task="language")]
    (['rbm'], ['ngram'])
    """
    if task is not None and task not in tasks():
        close = nearest(task, tasks())
        remedy = f"did you mean {close[0]}?" if close else f"the tasks are {', '.join(tasks())}"
        raise UserValueError(f"unknown task {task!r}", "", remedy)
    return tuple(one for one in entries() if (task is None or task in one.tasks) and word.casefold() in _text(one))


def _text(one: Entry) -> str:
    family, name = one.where.rpartition(".")[0].rpartition(".")[2], one.class_name
    parts = (one.name, name, family, one.title, one.title_zh, one.kind, one.source, *one.tasks, *one.rows)
    return "\n".join(parts).casefold()


def card(one: Entry | str) -> Card:
    """Signature, defaults and documentation of a system, read from its source without importing it."""
    from gnomon.catalog.cards import read

    return read(entry(one) if isinstance(one, str) else one)


def load_class(one: Entry | str) -> Any:
    """The system's class. This imports what the system needs."""
    module, _, name = (entry(one) if isinstance(one, str) else one).where.partition(":")
    return getattr(importlib.import_module(module), name)


def make(name: str, /, **params: Any) -> Any:
    """A system by its name, with hyper-parameters; ``slot__field`` sets a field of a slot's recipe.

    Raises
    ------
    UserValueError
        An unknown system or parameter, with the nearest known one.

    Examples
    --------
    >>> make("bernoulli-mixture", n_components=3)
    BernoulliMixture(n_components=3)
    """
    if not isinstance(name, str):
        raise UserTypeError(f"{name!r} is no name of a system", "make", "give a name of the catalog, such as 'rbm'")
    return load_class(name)().set_params(**params)


class _Callable(ModuleType):
    """This module: ``gnomon.catalog.find(...)``, and ``gnomon.catalog()`` for the whole table."""

    def __call__(self) -> tuple[Entry, ...]:
        return entries()


sys.modules[__name__].__class__ = _Callable
