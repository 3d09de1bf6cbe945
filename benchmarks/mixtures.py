"""Gaussian mixtures and k-means against scikit-learn and against bare matrix products, in one run.

    python benchmarks/mixtures.py [--small] [--threads N]

Also Bayesian mixtures against scikit-learn's: an iteration is both steps and the bound.

Prints milliseconds per EM iteration, each the best of several rounds in which all take turns. Both sides iterate from
the same means with unit covariances. The bound of an iteration with full covariances is two products of 2 n k d^2
floating-point operations: the rows in every component's coordinates, and every component's scatter. Two sets of rows:
components that overlap, where every row belongs to all, and components that lie apart.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.cluster import KMeans as PeerKMeans
from sklearn.mixture import BayesianGaussianMixture as BayesianPeer
from sklearn.mixture import GaussianMixture as Peer
from threadpoolctl import threadpool_info, threadpool_limits

import gnomon
from gnomon.systems.mixtures.bayesian_gaussian_mixture import BayesianGaussianMixtureModel
from gnomon.systems.mixtures.gaussian_mixture import GaussianMixtureModel

FORMS = ("full", "tied", "diag", "spherical")


def seconds(function: Callable[[], object]) -> float:
    """Seconds of a call."""
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def rows(n: int, d: int, k: int, gap: float) -> np.ndarray:
    """n rows of k components whose means have this spread in every column."""
    random = np.random.default_rng(0)
    return gap * random.normal(size=(k, d))[random.integers(k, size=n)] + random.normal(size=(n, d))


def start(X: np.ndarray, k: int, form: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and unit covariances, which are their own inverses."""
    d = X.shape[1]
    unit = {"full": np.tile(np.eye(d), (k, 1, 1)), "tied": np.eye(d), "diag": np.ones((k, d)), "spherical": np.ones(k)}
    return np.full(k, 1 / k), X[:k], unit[form]


def ours(X: np.ndarray, k: int, form: str, iterations: int) -> float:
    """Seconds of the best iteration."""
    model, weight = GaussianMixtureModel(*start(X, k, form), form, 1e-6), np.ones(len(X))
    return min(seconds(lambda: model.maximize(model.expect(X, weight))) for _ in range(iterations))


def fitted(X: np.ndarray, k: int, form: str, iterations: int) -> float:
    """Seconds of the best iteration of the system's fit, the driver's history and checks included."""
    at: list[float] = []
    mixture = gnomon.GaussianMixture(
        n_components=k, covariance=form, max_iter=iterations + 1, tol=0, random_state=0
    )  # fmt: skip
    with gnomon.context(callbacks=(lambda step, record: at.append(time.perf_counter()),)):
        mixture.fit(X)
    return float(np.diff(at).min())


def peer(X: np.ndarray, k: int, form: str, iterations: int) -> float:
    """Seconds of the best iteration: the two steps that scikit-learn's fit alternates."""
    weights, means, precisions = start(X, k, form)
    model = Peer(
        k, covariance_type=form, max_iter=1, weights_init=weights, means_init=means, precisions_init=precisions
    ).fit(X)  # fmt: skip

    def both() -> None:
        model._m_step(X, model._e_step(X)[1])

    return min(seconds(both) for _ in range(iterations))


def products(X: np.ndarray, k: int) -> float:
    """Seconds of the two bare products in blocks of 256 rows."""
    n, d = X.shape
    upper = np.random.default_rng(0).random((d, k * d))
    y, out = np.empty((256, k * d)), np.empty((d, d))
    near = [np.ascontiguousarray(X[:256]) for _ in range(k)]

    def both() -> None:
        for begin in range(0, n - 255, 256):
            np.matmul(X[begin : begin + 256], upper, out=y)
            for rows_of_one in near:
                np.matmul(rows_of_one.T, rows_of_one, out=out)

    both()
    return min(seconds(both) for _ in range(3)) * n / (n // 256 * 256)


def compare(n: int, d: int, k: int, gap: float, form: str, iterations: int, rounds: int) -> None:
    """Print the figures of one shape."""
    X = rows(n, d, k, gap)
    measures = [ours, fitted, peer]
    for measure in measures[:2]:
        measure(X[: 20 * k], k, form, 1)  # compiles
    times = [[measure(X, k, form, iterations) for measure in measures] for _ in range(rounds)]
    own, whole, theirs = (1e3 * min(column) for column in zip(*times, strict=True))
    bound = f", bare products {1e3 * products(X, k):.1f} ms" if form == "full" else ""
    print(
        f"{form:9} {n} x {d}, k = {k}, means' spread {gap:g}: {own:.1f} ms per iteration, in a fit {whole:.1f} ms, "
        f"scikit-learn {theirs:.1f} ms{bound}; ratio {own / theirs:.2f}, in a fit {whole / theirs:.2f}"
    )


def bayesian(n: int, d: int, k: int, gap: float, form: str, iterations: int, rounds: int) -> None:
    """Print an iteration of variational Bayes, from the same rows of each component."""
    X, part = rows(n, d, k, gap), np.zeros((n, k))
    part[np.arange(n), np.random.default_rng(1).integers(k, size=n)] = 1
    theirs = BayesianPeer(n_components=k, covariance_type=form, random_state=0)
    theirs._check_parameters(X)
    theirs._initialize(X, part)
    own, weight, scatter = BayesianGaussianMixtureModel(k, d, form), np.ones(n), np.cov(X.T)
    own.prior |= {
        "shape": np.float64(1 / k), "mean": X.mean(0), "scatter": scatter if form == "full" else scatter.diagonal(),
    }  # fmt: skip
    own.begun(X - X.mean(0), part, X.std(0))

    def ours_once() -> None:
        own.maximize(own.expect(X, weight))
        own.log_prior()

    def theirs_once() -> None:
        log_norm, log_part = theirs._e_step(X)
        theirs._m_step(X, log_part)
        theirs._compute_lower_bound(log_part, log_norm)

    ours_once()  # compiles
    times = [[seconds(once) for once in (ours_once, theirs_once)] for _ in range(iterations * rounds)]
    best, peers = (1e3 * min(column) for column in zip(*times, strict=True))
    print(
        f"variational Bayes, {form:4} {n} x {d}, k = {k}, means' spread {gap:g}: {best:.1f} ms per iteration, "
        f"scikit-learn {peers:.1f} ms; ratio {best / peers:.2f}"
    )


def clusters(n: int, d: int, k: int, rounds: int) -> None:
    """Print seconds of k-means fits: ten starts to convergence by three seeds; one start and eight iterations."""
    X = rows(n, d, k, 0.5)
    short = {"n_init": 1, "max_iter": 8, "tol": 0}
    gnomon.KMeans(n_clusters=k, **short).fit(X)  # compiles
    for title, options, seeds in (("10 starts", {"n_init": 10}, range(3)), ("8 iterations", short, [0])):
        own, theirs = 0.0, 0.0
        for seed in seeds:
            both = [
                partial(kind(n_clusters=k, random_state=seed, **options).fit, X) for kind in (gnomon.KMeans, PeerKMeans)
            ]
            times = [[seconds(one) for one in both] for _ in range(rounds)]
            best = [min(column) for column in zip(*times, strict=True)]
            own, theirs = own + best[0], theirs + best[1]
        print(
            f"k-means   {n} x {d}, k = {k}, {title}: {own:.3f} s, scikit-learn {theirs:.3f} s; ratio {own / theirs:.2f}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Gaussian mixtures and k-means against scikit-learn.")
    parser.add_argument("--small", action="store_true", help="a tenth of the rows, one round")
    parser.add_argument("--threads", type=int, default=None, help="threads of both sides; all by default")
    arguments = parser.parse_args()
    n, rounds = (2_000, 1) if arguments.small else (20_000, 3)
    with threadpool_limits(arguments.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        used = sorted({info["num_threads"] for info in threadpool_info()})
        print(f"threads of the libraries: {', '.join(map(str, used))}; float64")
        for gap in (0.1, 1.0):
            compare(n, 64, 16, gap, "full", 8, rounds)
        for form in FORMS[1:]:
            compare(n, 64, 16, 0.1, form, 10, rounds)
        for form in ("full", "diag"):
            for gap in (0.1, 1.0):
                bayesian(n, 64, 16, gap, form, 3, rounds)
        clusters(n, 64, 16, rounds)


if __name__ == "__main__":
    main()
