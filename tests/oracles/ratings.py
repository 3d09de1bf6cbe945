"""What the tests of recommenders begin with: a few random ratings, a fit before its first step, slopes."""

from __future__ import annotations

import numpy as np

from gnomon.numeric.noise import Noise
from gnomon.training.group import Group

PARTS = ("user_bias", "item_bias", "user_factors", "item_factors")


def random_ratings(seed=0, users=7, items=6, fraction=0.6):
    """Pairs, ratings, weights; user 0 and item 0 have met all others."""
    random = np.random.default_rng(seed)
    known = random.random((users, items)) < fraction
    known[:, 0], known[0] = True, True
    X = np.argwhere(known)
    return X, random.normal(3, 1, len(X)), random.uniform(0.5, 2, len(X))


def begun(system, X, y=None, weight=None, *, seed=1, parts=()):
    """The procedure of a fit, its state before the first step, the examples and the fit's noise.

    The named parts of the model are random numbers instead of what the system begins with.
    """
    examples = system.ingest(X, y, weight)
    model = system.make(**system.arguments(examples))
    noise = Noise(seed, "fit")
    system.initialize(model, examples, noise.child("initial"))
    random = np.random.default_rng(seed)
    for name in parts:
        getattr(model, name)[:] = random.normal(0, 0.5, getattr(model, name).shape)
    procedure = system.procedure(examples)
    return procedure, procedure.start(system.problem(model, examples, noise, Group())), examples, noise


def slopes(function, parts, h=1e-5):
    """Derivatives of ``function(parts)`` by every number of the parts: central differences."""
    gradients = []
    for part in parts:
        gradient = np.zeros_like(part)
        for index in np.ndindex(part.shape):
            old = part[index]
            part[index] = old + h
            above = function(parts)
            part[index] = old - h
            gradient[index] = (above - function(parts)) / (2 * h)
            part[index] = old
        gradients.append(gradient)
    return gradients
