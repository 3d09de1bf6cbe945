"""Sigmoid belief nets by their definition: units in an order, each logistic in those before it; plain loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch

from gnomon.distributions.linked import Autoregressive, Factorial
from gnomon.nn.layers import dense
from gnomon.systems.variational._belief_net import BeliefNetModel


def states_of(n):
    """All states of n units, (2^n, n)."""
    return np.array(list(itertools.product([0.0, 1.0], repeat=n))).reshape(2**n, n)


def log_p(A, b, s):
    """log p(s) = sum_i log p(s_i | s_<i), unit by unit."""
    total = 0.0
    for i in range(len(s)):
        field = b[i] + sum(A[i][j] * s[j] for j in range(i))
        total += -math.log1p(math.exp(-field if s[i] else field))
    return total


def as_one_net(model):
    """Couplings and biases of all units in the order of the way down: the topmost layer first, the row last."""
    with torch.no_grad():
        sizes = model.sizes[::-1]
        starts = np.cumsum([0, *sizes])
        A, b = np.zeros((starts[-1], starts[-1])), np.zeros(starts[-1])
        for place, k in enumerate(range(model.depth, -1, -1)):
            own = slice(starts[place], starts[place + 1])
            b[own] = model.biases[k].numpy()
            links = model.links_down(k)
            if links is not None:
                A[own, own] = links.numpy()
            if k < model.depth:
                A[own, starts[place - 1] : starts[place]] = model.weights[k].numpy()
    return A, b


def joint_table(model):
    """log p of every (row, hidden layers side by side from the lowest up) by definition, (2^D, 2^H)."""
    A, b = as_one_net(model)
    D, H = model.sizes[0], sum(model.sizes[1:])
    cuts = np.cumsum(model.sizes[1:])[:-1]
    table = np.zeros((2**D, 2**H))
    for i, x in enumerate(states_of(D)):
        for j, h in enumerate(states_of(H)):
            layers = [x, *np.split(h, cuts)]
            table[i, j] = log_p(A, b, np.concatenate(layers[::-1]))
    return table


def net(sizes, seed=0, layers="factorial", recognition="factorial", scale=1.0, encoder=None):
    """A model in float64 whose every parameter is drawn."""
    kinds = {"factorial": Factorial(), "autoregressive": Autoregressive()}
    F64 = torch.float64
    if encoder is None and len(sizes) > 1:
        encoder = dense(sizes[0], sizes[1], dtype=F64)
    model = BeliefNetModel(sizes, encoder, kinds[layers], kinds[recognition], F64)
    random = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.as_tensor(scale * random.normal(size=tuple(parameter.shape))))
    return model


def t1():
    """The toy set T1 as decoder, with recognition log odds c + v W."""
    model = net((2, 2))
    W = torch.tensor([[1.0, -1.0], [0.5, 2.0]], dtype=torch.float64)
    with torch.no_grad():
        model.weights[0].copy_(W)
        model.encoder.weight.copy_(W.T)
        model.biases[0].copy_(torch.tensor([0.1, -0.2]))
        for top in (model.biases[1], model.encoder.bias):
            top.copy_(torch.tensor([0.3, -0.4]))
    return model
