"""Recommenders."""

from __future__ import annotations

from gnomon.catalog.line import Entry

__all__ = ["ENTRIES"]

ENTRIES = (
    Entry(
        "matrix-factorization", "Matrix factorization with biases", "带偏置的矩阵分解", "model",
        ("recommend",), "gnomon.systems.recommend.matrix_factorization:MatrixFactorization",
        "Koren, Bell and Volinsky 2009",
        ("DLN-236", "DLN-241", "DLN-242", "DLN-247", "DLN-248", "PRA-191", "PRA-192"),
        {"n_factors": 2, "learner": "als"},
    ),
    Entry(
        "implicit-factorization", "Matrix factorization of implicit feedback", "隐式反馈矩阵分解", "model",
        ("rank",), "gnomon.systems.recommend.implicit_factorization:ImplicitFactorization",
        "Rendle, Freudenthaler, Gantner and Schmidt-Thieme 2009",
        ("DLN-240", "DLN-244"),
        {"n_factors": 2},
    ),
    Entry(
        "pmf", "Probabilistic matrix factorization", "概率矩阵分解", "model",
        ("recommend",), "gnomon.systems.recommend.pmf:PMF", "Salakhutdinov and Mnih 2007, 2008",
        ("PRA-194",),
        {"n_factors": 2, "noise_variance": 0.1},
    ),
    Entry(
        "rating-rbm", "Restricted Boltzmann machine of ratings", "评分受限玻尔兹曼机", "model",
        ("recommend",), "gnomon.systems.recommend.rating_rbm:RatingRBM", "Salakhutdinov, Mnih and Hinton 2007",
        ("PRA-193",),
        {"n_factors": 4, "epochs": 20},
    ),
)  # fmt: skip
