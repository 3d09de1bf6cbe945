"""Densities by the chain rule, each column given those before it."""

from __future__ import annotations

from gnomon.catalog.line import Entry

__all__ = ["ENTRIES"]

ENTRIES = (
    Entry(
        "fvbn", "Fully visible Bayes network", "全可见贝叶斯网络", "model",
        ("density", "generate"), "gnomon.systems.autoregressive.fvbn:FVBN",
        "Frey 1998; Bengio and Bengio 2000",
        ("GEN-110", "GEN-111", "GEN-112", "GEN-113", "GEN-114", "GEN-115"),
        {"epochs": 5}, "table of 0 and 1",
    ),
    Entry(
        "nade", "Neural autoregressive distribution estimator", "神经自回归分布估计器", "model",
        ("density", "generate"), "gnomon.systems.autoregressive.nade:NADE",
        "Larochelle and Murray 2011",
        ("GEN-116",),
        {"n_hidden": 8, "epochs": 20, "learning_rate": 0.02, "batch_size": 16},
        takes="table of 0 and 1",
    ),
    Entry(
        "deep-nade", "Deep NADE for all orders of the columns", "深度神经自回归分布估计器", "model",
        ("density", "generate"), "gnomon.systems.autoregressive.deep_nade:DeepNADE",
        "Uria, Murray and Larochelle 2014",
        ("GEN-121", "GEN-122", "GEN-123"),
        {"hidden": (16, 16), "epochs": 100, "learning_rate": 0.01, "batch_size": 32},
        takes="table of 0 and 1",
    ),
    Entry(
        "nade-k", "NADE-k, several steps of inference", "迭代神经自回归分布估计器", "model",
        ("density", "generate"), "gnomon.systems.autoregressive.nade_k:NADEk",
        "Raiko, Yao, Cho and Bengio 2014",
        ("GEN-120",),
        {"k": 2, "hidden": (16,), "epochs": 100, "learning_rate": 0.02, "batch_size": 32},
        takes="table of 0 and 1",
    ),
    Entry(
        "rnade", "Neural autoregressive density of real numbers", "实值神经自回归密度估计器", "model",
        ("density", "generate"), "gnomon.systems.autoregressive.rnade:RNADE",
        "Uria, Murray and Larochelle 2013",
        ("GEN-117",),
        {"n_hidden": 8, "epochs": 20, "learning_rate": 0.01, "batch_size": 16},
    ),
)  # fmt: skip
