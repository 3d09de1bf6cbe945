"""Kernel machines."""

from __future__ import annotations

from gnomon.catalog.line import Entry

__all__ = ["ENTRIES"]

ENTRIES = (
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
        "nadaraya-watson", "Nadaraya-Watson kernel regression", "Nadaraya-Watson 核回归", "model",
        ("regress",), "gnomon.systems.kernel.nadaraya_watson:NadarayaWatson", "Nadaraya 1964; Watson 1964",
        ("LIN-24", "LIN-26"),
    ),
)  # fmt: skip
