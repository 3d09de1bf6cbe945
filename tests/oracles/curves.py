"""Learning curves of restricted machines: small rows, their exact likelihood, fits of the library step by step."""

from __future__ import annotations

import numpy as np

from gnomon.data.batches import Batch
from gnomon.numeric.noise import Noise
from gnomon.systems.energy.rbm import RBMModel
from gnomon.training.group import Group
from oracles.binary import all_states

NAMES = ("weight", "visible_bias", "hidden_bias")


def bars(n=60):
    """Rows and columns of a 3 x 3 image, a pixel in ten turned round."""
    random = np.random.default_rng(0)
    whole = np.concatenate([np.kron(np.eye(3), np.ones((1, 3))), np.kron(np.ones((1, 3)), np.eye(3))])
    X = whole[random.integers(0, 6, n)]
    return np.where(random.random(X.shape) < 0.1, 1 - X, X)


def first_parameters(X, n_hidden=6):
    """Weights, visible biases with which the columns have their means, hidden biases of 0."""
    weights = 0.3 * np.random.default_rng(5).normal(size=(X.shape[1], n_hidden))
    return weights, np.log(X.mean(0) / (1 - X.mean(0))), np.zeros(n_hidden)


def likelihood(W, b, c, X):
    """Mean log-likelihood by enumeration, without any library."""

    def free(V):
        return -(V @ b) - np.logaddexp(0, V @ W + c).sum(1)

    return float(np.mean(-free(X)) - np.logaddexp.reduce(-free(all_states(len(b)))))


def curve(recipe, X, begun, seed, *, rate, updates, batch_size):
    """Likelihoods after these updates: plain steps over batches in the order of the rows, round and round."""
    model, objective = RBMModel.of(*begun), recipe.build()

    class Size:
        pass

    Size.batch_size = batch_size
    objective.begin(model, Size(), Noise(seed, "begin"), Group())
    found, views = [], model.views()
    for update in range(max(updates)):
        part = X[np.arange(update * batch_size, (update + 1) * batch_size) % len(X)]
        batch = Batch({"X": part}, np.arange(batch_size), np.arange(batch_size), np.ones(batch_size))
        loss = objective(model, batch, noise=Noise(seed, "fit").at(update), phase="fit", group=Group())
        for name in NAMES:
            views[name] -= rate * np.asarray(loss.gradients[name]) / batch_size
        if update + 1 in updates:
            found.append(likelihood(*(views[name] for name in NAMES), X))
    return found


def agree(one, other, limit=4.5):
    """Whether the means of two sets of curves differ by less than so many of their errors, at every time."""
    one, other = np.array(one), np.array(other)
    error = np.sqrt(one.var(0, ddof=1) / len(one) + other.var(0, ddof=1) / len(other))
    return bool((np.abs(one.mean(0) - other.mean(0)) < limit * error).all())
