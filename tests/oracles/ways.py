"""Every system of the catalog in the ways of fitting that tests look at, and one fit of each that they share."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import gnomon
from gnomon.catalog import entry, load_class
from gnomon.nn.encoders import DenseDecoder, DenseEncoder
from gnomon.objectives.adversarial import NonSaturating
from gnomon.objectives.centered import Centered, Enhanced
from gnomon.objectives.contrastive import CD, PCD
from gnomon.objectives.denoising_score_matching import DenoisingScoreMatching
from gnomon.objectives.estimators import ScoreFunction
from gnomon.objectives.fast_weights import FPCD
from gnomon.objectives.fresh_chains import MCMC
from gnomon.objectives.growth import RisingSteps
from gnomon.objectives.langevin import LangevinCD
from gnomon.objectives.noise_contrastive import NCE
from gnomon.objectives.pseudolikelihood import Pseudolikelihood
from gnomon.objectives.ratio_matching import RatioMatching
from gnomon.objectives.score_matching import ScoreMatching
from gnomon.objectives.self_contrastive import SelfContrast
from gnomon.objectives.tempered import TemperedSML
from gnomon.objectives.variational import ELBO, IWAE
from gnomon.objectives.wake_sleep import WakeSleep
from gnomon.objectives.warm_start import WarmStart
from gnomon.systems.autoregressive.conditionals import Linear, Neural
from gnomon.systems.autoregressive.features import Polynomial
from gnomon.systems.recommend.implicit_factorization import PointwiseLogistic
from gnomon.systems.recommend.matrix_factorization import SGD
from gnomon.testing import Case, Mapped
from gnomon.training.em_forms import Incremental, Online

NAMES = [one.name for one in gnomon.catalog()]
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "linear-regression, gradient": (
        "linear-regression",
        {"solver": "gradient", "batch_size": 7, "epochs": 20, "learning_rate": 0.1, "l2": 0.1},
    ),
    "linear-regression, L1": (
        "linear-regression",
        {"solver": "gradient", "optimizer": "sgd", "epochs": 30, "learning_rate": 0.2, "l1": 0.05},
    ),
    "linear-regression, conjugate gradients": ("linear-regression", {"solver": "conjugate-gradient", "l2": 0.1}),
    "bayesian-regression, law of the noise": (
        "bayesian-regression",
        {"weight_prior": "normal-inverse-gamma", "intercept": "normal", "standardize": True},
    ),
    "cnn, whitened images": ("cnn", {"preprocess": "whitening"}),
    "bagging of softmax regressions": (
        "bagging",
        {"base": "softmax-regression", "base__epochs": 5, "max_samples": 0.7, "max_features": 0.5},
    ),
    "generalized-factor-analysis, counts on a grid": (
        "generalized-factor-analysis",
        {"n_components": 1, "likelihood": "poisson", "expectation": "quadrature", "n_init": 2, "max_iter": 6},
    ),
    "generalized-factor-analysis, draws": (
        "generalized-factor-analysis",
        {"n_components": 2, "expectation": "monte-carlo", "expectation__draws": 100, "max_iter": 6},
    ),
    "stacking, two layers apart": ("stacking", {"layers": 2, "apart": True, "average": True}),
    "stacking regressions, two layers": ("stacking-regression", {"layers": 2}),
    "svm, polynomial": ("svm", {"kernel": "polynomial"}),
    "softmax-regression, mini-batches": ("softmax-regression", {"batch_size": 7, "epochs": 4, "optimizer": "sgd"}),
    "mlp, everything on": (
        "mlp",
        {
            "dropout": 0.3,
            "batch_norm": True,
            "early_stopping": "patience",
            "batch_size": 7,
            "epochs": 8,
            "l1": 1e-4,
            "schedule": "plateau",
            "optimizer": "rmsprop",
            "activation": "prelu",
            "hidden": (8, 6),
            "clip": 1.0,
        },
    ),
    "mlp-regression, everything on": (
        "mlp-regression",
        {"dropout": 0.2, "batch_norm": True, "early_stopping": "patience", "batch_size": 6, "epochs": 30},
    ),
    "ppca, EM": ("ppca", {"method": "em", "max_iter": 12}),
    "ppca, modes": ("ppca", {"method": "map", "noise": 0.5, "max_iter": 12}),
    "bernoulli-mixture, starts": ("bernoulli-mixture", {"n_init": 3, "max_iter": 5}),
    "bayesian-gaussian-mixture, diag, starts": (
        "bayesian-gaussian-mixture",
        {"covariance": "diag", "mixing_prior": "dirichlet", "n_init": 3, "max_iter": 5},
    ),
    "gaussian-mixture, diag, starts": ("gaussian-mixture", {"covariance": "diag", "n_init": 3, "max_iter": 5}),
    "bernoulli-mixture, incremental": ("bernoulli-mixture", {"em": Incremental(batch_size=7), "max_iter": 5}),
    "gaussian-mixture, tied, incremental": (
        "gaussian-mixture",
        {"covariance": "tied", "em": Incremental(batch_size=9), "n_init": 2, "max_iter": 5},
    ),
    "gaussian-mixture, online": (
        "gaussian-mixture",
        {"covariance": "spherical", "em": Online(batch_size=20), "max_iter": 8},
    ),
    "gaussian-mixture, hard": ("gaussian-mixture", {"covariance": "spherical", "em": "hard", "max_iter": 5}),
    "gaussian-mixture, generalized": ("gaussian-mixture", {"em": "generalized", "max_iter": 5}),
    "gaussian-classifier, tied": ("gaussian-classifier", {"covariance": "tied", "priors": (0.2, 0.3, 0.5)}),
    "vae, everything on": (
        "vae",
        {
            "encoder": DenseEncoder((8,), batch_norm=True, dropout=0.2),
            "decoder": DenseDecoder((8,)),
            "likelihood": "bernoulli",
            "objective": "iwae",
            "early_stopping": "patience",
        },
    ),
    "vae, binary codes": (
        "vae",
        {
            "latents": "binary",
            "objective": ELBO(estimator=ScoreFunction("learned-optimal", normalize_signal=True)),
            "batch_size": 7,
            "clip": 5.0,
            "epochs": 8,
        },
    ),
    "vrnn, everything on": (
        "vrnn",
        {
            "likelihood": "gaussian",
            "recurrent": "rnn",
            "objective": IWAE(k=2),
            "early_stopping": "patience",
            "frame_size": 1,
            "hidden": (),
            "epochs": 40,
            "learning_rate": 0.01,
        },
    ),
    "draw, windows": ("draw", {"attention": "gaussian", "epochs": 30}),
    "fvbn, tables": ("fvbn", {"conditionals": "tables", "order": "random"}),
    "fvbn, polynomial least squares": (
        "fvbn",
        {"conditionals": Linear(Polynomial(), l2=0.01), "likelihood": "gaussian"},
    ),
    "fvbn, network": (
        "fvbn",
        {
            "conditionals": Neural((3, 2), "relu"),
            "order": "random",
            "epochs": 8,
            "batch_size": 7,
            "learning_rate": 0.01,
        },
    ),
    "nade-k, tied, every step": (
        "nade-k",
        {"k": 2, "hidden": (4,), "tie": True, "mask": False, "loss": "every", "epochs": 8, "batch_size": 7},
    ),
    "deep-nade, previous groups": (
        "deep-nade",
        {
            "hidden": (4, 3),
            "connect": "previous-groups",
            "order": "random",
            "activation": "tanh",
            "epochs": 8,
            "batch_size": 7,
        },
    ),
    "sbn, layers with links": (
        "sbn",
        {
            "hidden": (3, 2),
            "layers": "autoregressive",
            "recognition": "autoregressive",
            "encoder": DenseEncoder((8,), batch_norm=True, dropout=0.2),
            "early_stopping": "patience",
        },
    ),
    "helmholtz-machine, blocks": ("helmholtz-machine", {"hidden": (3, 2), "objective": WakeSleep(block=2)}),
    "matrix-factorization, stochastic gradient": (
        "matrix-factorization",
        {"learner": SGD(epochs=12, penalty="parameter"), "repeats": "mean", "dtype": "float64"},
    ),
    "matrix-factorization, singular values": ("matrix-factorization", {"learner": "svd"}),
    "implicit-factorization, logistic": (
        "implicit-factorization",
        {"objective": PointwiseLogistic(negatives="popularity", n_negatives=2), "dtype": "float64"},
    ),
    "pmf, mode": ("pmf", {"inference": "map", "center": False}),
    "gan, everything on": (
        "gan",
        {
            "critic": DenseEncoder((32, 32), dropout=0.1),
            "generator": DenseDecoder((32,), batch_norm=True),
            "objective": NonSaturating(critic_steps=2, critic_rate=2.0, penalty=0.1),
            "batch_size": 7,
            "clip": 5.0,
            "schedule": "linear",
            "epochs": 40,
            "learning_rate": 5e-3,
        },
    ),
    "boltzmann-machine, exact": ("boltzmann-machine", {"objective": "exact", "epochs": 20}),
    "boltzmann-machine, PCD-1": ("boltzmann-machine", {"objective": "pcd", "epochs": 40, "batch_size": 7}),
    "hidden-boltzmann-machine, PCD-1": (
        "hidden-boltzmann-machine",
        {"objective": "pcd", "batch_size": 7, "epochs": 40},
    ),
    "semi-restricted-rbm, pseudolikelihood": (
        "semi-restricted-rbm",
        {"objective": Pseudolikelihood(), "epochs": 30},
    ),
    "semi-restricted-rbm, coupled hidden units": (
        "semi-restricted-rbm",
        {"lateral": "hidden", "objective": CD(), "epochs": 40, "batch_size": 7},
    ),
    "gaussian-rbm, Hamiltonian chains": (
        "gaussian-rbm",
        {"objective": PCD(transition="hmc"), "epochs": 20, "batch_size": 7, "learning_rate": 0.01},
    ),
    "rbm, CD-2": ("rbm", {"objective": CD(k=2), "epochs": 4, "batch_size": 7}),
    "rbm, pseudolikelihood": ("rbm", {"objective": "pseudolikelihood", "epochs": 60, "learning_rate": 0.5}),
    "rbm, pairs by chance": (
        "rbm",
        {"objective": Pseudolikelihood(sets="pairs", n_conditionals=4), "epochs": 90, "learning_rate": 0.3},
    ),
    "rbm, ratio matching": (
        "rbm",
        {"objective": RatioMatching(n_zeros=2), "epochs": 90, "learning_rate": 3.0},
    ),
    "rbm, noise-contrastive": ("rbm", {"objective": NCE(nu=2), "epochs": 300, "learning_rate": 2.0}),
    "gaussian-rbm, score matching": (
        "gaussian-rbm",
        {"objective": ScoreMatching(smoothing=0.1), "epochs": 60, "learning_rate": 0.05},
    ),
    "rbm, fast weights": ("rbm", {"objective": FPCD(n_chains=30), "epochs": 60, "batch_size": 7, "learning_rate": 0.3}),
    "rbm, tempered": ("rbm", {"objective": TemperedSML(3), "epochs": 60, "batch_size": 7, "learning_rate": 0.3}),
    "gaussian-rbm, fresh chains from the means": (
        "gaussian-rbm",
        {"objective": MCMC(k=3, start="means", growth=RisingSteps(every=2)), "epochs": 20, "batch_size": 7},
    ),
    "label-rbm, fast weights": ("label-rbm", {"objective": FPCD(k=2), "epochs": 15, "batch_size": 7}),
    "gaussian-rbm, denoising score matching": (
        "gaussian-rbm",
        {"objective": DenoisingScoreMatching(sigma=0.5), "epochs": 60, "learning_rate": 0.05},
    ),
    "gaussian-rbm, Langevin": (
        "gaussian-rbm",
        {"objective": LangevinCD(k=2), "epochs": 60, "learning_rate": 0.05, "optimizer": "adam"},
    ),
    "dbm, layer by layer, mean field": (
        "dbm",
        {"objective": PCD(k=2, positive="mean_field"), "pretrain_epochs": 2, "epochs": 40, "batch_size": 7},
    ),
    "gaussian-rbm, self-contrastive": (
        "gaussian-rbm",
        {"objective": SelfContrast(refresh_every=3), "epochs": 60, "batch_size": 7, "learning_rate": 0.02},
    ),
    "rbm, centered": ("rbm", {"objective": Centered("pcd"), "epochs": 60, "batch_size": 7, "learning_rate": 0.3}),
    "harmonium, counts before categories": ("harmonium", {"visible": "poisson", "hidden": "softmax"}),
    "product-of-t, experts alone": ("product-of-t", {"n_mean": 0, "n_experts": None, "objective": "pcd"}),
    "product-of-t, more experts than columns": ("product-of-t", {"n_mean": 0, "n_experts": 12, "standardize": False}),
    "gaussian-rbm, enhanced gradient": ("gaussian-rbm", {"objective": Enhanced("exact"), "optimizer": "sgd"}),
    "label-rbm, centered": ("label-rbm", {"objective": Centered("cd", "average"), "batch_size": 7}),
    "rbm, warm start": (
        "rbm",
        {"objective": WarmStart("cd", TemperedSML(2), 2), "epochs": 60, "batch_size": 7, "learning_rate": 0.3},
    ),
    "dbn, chains, wake and sleep": (
        "dbn",
        {"objective": "pcd", "lift": "draws", "hidden": (8, 4), "epochs": 40, "tune_epochs": 2, "batch_size": 7},
    ),
    "dbm, real columns": (
        "dbm",
        {"visible": "gaussian", "hidden": (4, 3), "gaussian_rate": 0.1, "epochs": 60},
    ),
    "dbn, real columns": (
        "dbn",
        {"visible": "gaussian", "hidden": (4, 3), "epochs": 60, "tune_epochs": 2, "learning_rate": 0.05},
    ),
    "rbm, PCD-1 and Adam": ("rbm", {"objective": "pcd", "epochs": 40, "batch_size": 7, "optimizer": "adam"}),
}
"""Ways to fit that the tiny arguments of the catalog do not take."""
EPOCHS = 4
"""Enough for all that does not ask what was learned; a system of networks has sixty before it improves."""
EVERY = {name: (name, {}) for name in NAMES} | MORE


def made(way: str, **changes: Any) -> Any:
    """The system of a way, unfitted, small and with a seed."""
    name, own = EVERY[way]
    return gnomon.make(name, **{"random_state": 0, **entry(name).tiny, **own, **changes})


def brief(way: str, **changes: Any) -> Any:
    """The same for what holds after any number of steps: few epochs."""
    system = made(way)
    epochs = getattr(system, "epochs", 0) if "epochs" in system.get_params(deep=False) else 0
    return system.set_params(**({"epochs": min(epochs, EPOCHS)} if epochs else {}), **changes)


@functools.cache
def brief_case(way: str) -> Case:
    """The case of a system that has learned little; the same one where all its fits are short."""
    short = brief(way)
    return case(way) if short.get_params(deep=False) == made(way).get_params(deep=False) else Case(short)


@functools.cache
def case(way: str) -> Case:
    """The system of a way with its data, and the one fit that the contract tests of this process share."""
    return Case(made(way))


def first_of(X: Any, n: int) -> Any:
    """The first n examples."""
    return X[:n] if isinstance(X, np.ndarray | list) else X.take(np.arange(n))


def takes_table(name: str) -> bool:
    """Whether a system takes rows of numbers."""
    return bool(load_class(name)().domain.is_table)


def takes_missing(name: str) -> bool:
    """Whether a system takes NaN for a value that is not known."""
    return bool(load_class(name)().domain.allow_missing)


TABLES = [name for name in NAMES if takes_table(name)]


@functools.cache
def wide(name: str) -> Any:
    """The class of a system whose domain, if it is narrow, maps any numbers into it."""
    cls = load_class(name)
    if takes_any_numbers(name):
        return cls
    mapped = type(f"Mapped{cls.__name__}", (cls,), {"domain": Mapped(made(name).domain), "__doc__": cls.__doc__})
    mapped.__module__ = __name__
    globals()[mapped.__name__] = mapped  # where pickle looks for it
    return mapped


def one_per_domain() -> dict[str, str]:
    """The first system of every domain of tables, by the domain's representation."""
    return {repr(load_class(name)().domain): name for name in reversed(TABLES)}


def takes_any_numbers(name: str) -> bool:
    """Whether a table of negative fractions is in the system's domain."""
    try:
        load_class(name)().domain.check(np.full((2, 2), -0.5))
    except ValueError:
        return False
    return True
