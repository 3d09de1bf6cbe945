"""The restricted machine against scikit-learn's BernoulliRBM at its settings: learning curves, not one update alone."""

import numpy as np
from sklearn.neural_network import BernoulliRBM

from gnomon.objectives.contrastive import PCD
from oracles.curves import agree, bars, curve, first_parameters, likelihood

UPDATES, RUNS = (20, 60, 150, 400), 10
SETTINGS = {"learning_rate": 0.1, "batch_size": 10}
"""Those of BernoulliRBM when nothing is said."""


def of_peer(X, begun, seed):
    """Likelihoods by update, its chains begun where its `fit` begins them."""
    W, b, c = begun
    peer = BernoulliRBM(n_components=len(c), **SETTINGS)
    peer.components_, peer.intercept_visible_, peer.intercept_hidden_ = W.T.copy(), b.copy(), c.copy()
    peer.h_samples_ = np.zeros((SETTINGS["batch_size"], len(c)))
    random, found = np.random.RandomState(seed), []
    for update in range(UPDATES[-1]):
        rows = np.arange(update * SETTINGS["batch_size"], (update + 1) * SETTINGS["batch_size"]) % len(X)
        peer._fit(X[rows], random)
        if update + 1 in UPDATES:
            found.append(likelihood(peer.components_.T, peer.intercept_visible_, peer.intercept_hidden_, X))
    return found


def test_learning_curves_agree_within_their_monte_carlo_error():
    """Ten persistent chains, ten fits of each library from the same parameters: false alarm below 3e-5."""
    assert BernoulliRBM().get_params().items() >= SETTINGS.items()
    X = bars()
    begun = first_parameters(X)
    fit = {"rate": SETTINGS["learning_rate"], "updates": UPDATES, "batch_size": SETTINGS["batch_size"]}
    ours = [curve(PCD(), X, begun, seed, **fit) for seed in range(RUNS)]
    theirs = [of_peer(X, begun, seed) for seed in range(RUNS)]
    assert agree(ours, theirs)
    assert min(ours[-1][-1], theirs[-1][-1]) > likelihood(*begun, X) + 0.5
