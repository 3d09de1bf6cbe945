"""Batches, losses and begun objectives for tests of what energy machines are trained by."""

import numpy as np

from gnomon.data.batches import Batch
from gnomon.numeric.noise import Noise
from gnomon.training.group import Group


def batch_of(X, weight=None):
    n = len(X)
    return Batch({"X": X}, np.arange(n), np.arange(n), np.ones(n) if weight is None else weight)


class OneBatch:
    """An epoch of `steps` batches, each of which is all of the rows."""

    def __init__(self, X, weight=None, batch_size=None, steps=1):
        self.batch, self.batch_size, self.steps = batch_of(X, weight), batch_size or len(X), steps

    def epoch(self, number):
        return iter([self.batch] * self.steps)


def begun(recipe, machine, X, weight=None, *, batch_size=None, steps=1, seed=0):
    """The objective of a recipe, begun on these rows."""
    objective = recipe.build()
    objective.begin(machine, OneBatch(X, weight, batch_size, steps), Noise(seed, "begin"), Group())
    return objective


def loss_of(objective, machine, X, update=0, weight=None, seed=0):
    noise = Noise(seed, "fit").at(update)
    return objective(machine, batch_of(X, weight), noise=noise, phase="fit", group=Group())


def mean_gradient(objective, machine, X, update=0, weight=None, seed=0):
    """By parameter, divided by the weight of the rows."""
    loss = loss_of(objective, machine, X, update, weight, seed)
    return {name: np.asarray(value) / loss.terms[loss.per].weight for name, value in loss.gradients.items()}


def bits(n, d, seed=0, p=0.5):
    return (np.random.default_rng(seed).random((n, d)) < p).astype(float)
