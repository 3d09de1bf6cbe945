"""Ensembles: many predictors made one."""

from __future__ import annotations

from gnomon.catalog.line import Entry

__all__ = ["ENTRIES"]

ENTRIES = (
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
        missing=True,
    ),
    Entry(
        "histogram-boosting-regression", "Histogram gradient boosting for regression", "直方图梯度提升回归", "model",
        ("regress",), "gnomon.systems.ensemble.histogram_boosting:HistogramBoostingRegression",
        "Chen and Guestrin 2016; Ke and others 2017",
        ("DLN-49",),
        {"n_trees": 5, "min_rows_leaf": 1},
        missing=True,
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
)  # fmt: skip
