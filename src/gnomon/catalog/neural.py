"""Fully connected networks."""

from __future__ import annotations

from gnomon.catalog.line import Entry

__all__ = ["ENTRIES"]

ENTRIES = (
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
        "code-generator", "Generator from known codes", "已知编码的监督生成器", "model",
        ("regress",), "gnomon.systems.neural.code_generator:CodeGenerator",
        "Dosovitskiy, Springenberg and Brox 2015", ("GEN-085",),
        {"generator": "dense", "epochs": 20, "learning_rate": 3e-3, "batch_size": None},
    ),
    Entry(
        "metric-network", "Metric network", "度量学习网络", "model",
        ("represent",), "gnomon.systems.neural.metric_network:MetricNetwork",
        "Schroff, Kalenichenko and Philbin 2015; Hermans, Beyer and Leibe 2017", ("DLN-25",),
        {"hidden": (8,), "epochs": 20, "learning_rate": 0.05, "batch_size": None},
        takes="table, labels",
    ),
)  # fmt: skip
