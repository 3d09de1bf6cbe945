"""Factor models."""

from __future__ import annotations

from gnomon.catalog.line import Entry

__all__ = ["ENTRIES"]

ENTRIES = (
    Entry(
        "ppca", "Probabilistic principal component analysis", "概率主成分分析", "model",
        ("density", "represent"), "gnomon.systems.factors.ppca:PPCA", "Tipping and Bishop 1999",
        ("REP-003", "REP-004", "BAY-55", "BAY-56", "BAY-57"),
        {"n_components": 1, "max_iter": 30},
        missing=True,
    ),
    Entry(
        "product-of-ppca", "Product of probabilistic PCA experts", "概率主成分分析专家乘积", "model",
        ("density",), "gnomon.systems.factors.product_of_ppca:ProductOfPPCA", "Williams and Agakov 2002",
        ("GEN-049",),
        {"n_components": 2, "max_iter": 30},
    ),
    Entry(
        "spike-and-slab-sparse-coding", "Spike-and-slab sparse coding (S3C)", "尖峰-平板稀疏编码", "model",
        ("density", "represent"), "gnomon.systems.factors.spike_and_slab_sparse_coding:SpikeAndSlabSparseCoding",
        "Goodfellow, Courville and Bengio 2012", ("GEN-048",),
        {"n_components": 3, "max_iter": 30},
    ),
    Entry(
        "generalized-factor-analysis", "Generalized factor analysis (logistic and Poisson PCA)",
        "广义因子分析（逻辑斯谛与泊松主成分）", "model", ("density", "represent"),
        "gnomon.systems.factors.generalized_factor_analysis:GeneralizedFactorAnalysis",
        "Bartholomew and Knott 1999", ("BAY-49", "BAY-51", "INF-99"),
        {"n_components": 2, "max_iter": 30}, takes="table of 0 and 1",
    ),
    Entry(
        "mean-field-network", "Mean-field recurrent network", "平均场循环网络", "model",
        ("density", "represent"), "gnomon.systems.factors.mean_field_network:MeanFieldNetwork",
        "Goodfellow, Bengio and Courville 2016, section 19.4.1", ("INF-93",),
        {"n_components": 3, "steps": 4, "epochs": 20, "learning_rate": 0.05, "batch_size": None},
    ),
)  # fmt: skip
