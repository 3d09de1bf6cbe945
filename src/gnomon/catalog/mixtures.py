"""Mixtures and clusters."""

from __future__ import annotations

from gnomon.catalog.line import Entry

__all__ = ["ENTRIES"]

ENTRIES = (
    Entry(
        "bernoulli-mixture", "Bernoulli mixture (latent class analysis)", "伯努利混合模型（潜在类别分析）", "model",
        ("density", "cluster"), "gnomon.systems.mixtures.bernoulli_mixture:BernoulliMixture",
        "Lazarsfeld and Henry 1968; Bishop 2006",
        ("BAY-48", "BAY-50", "BAY-75", "REP-150"),
        {"n_components": 2, "max_iter": 30},
        takes="table of 0 and 1",
    ),
    Entry(
        "gaussian-mixture", "Gaussian mixture", "高斯混合模型", "model",
        ("density", "cluster"), "gnomon.systems.mixtures.gaussian_mixture:GaussianMixture",
        "Pearson 1894; Dempster, Laird and Rubin 1977",
        ("BAY-50", "BAY-52", "BAY-75", "REP-120"),
        {"n_components": 2, "max_iter": 30},
    ),
    Entry(
        "bayesian-gaussian-mixture", "Bayesian Gaussian mixture (variational)", "贝叶斯高斯混合模型（变分）", "model",
        ("density", "cluster"), "gnomon.systems.mixtures.bayesian_gaussian_mixture:BayesianGaussianMixture",
        "Attias 2000; Blei and Jordan 2006",
        ("BAY-45", "INF-83"),
        {"n_components": 3, "max_iter": 30},
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
)  # fmt: skip
