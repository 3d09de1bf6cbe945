"""Linear models."""

from __future__ import annotations

from gnomon.catalog.line import Entry

__all__ = ["ENTRIES"]

ENTRIES = (
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
        "logistic-regression", "Logistic regression", "逻辑回归", "model",
        ("classify",), "gnomon.systems.linear.logistic_regression:LogisticRegression", "Cox 1958; Bishop 2006",
        ("BAY-99", "DLN-69", "PRA-058"),
    ),
)  # fmt: skip
