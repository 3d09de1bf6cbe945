"""Machines of layers and links with random parameters, their joint states by plain loops, finite differences."""

import itertools

import numpy as np
import torch

from gnomon.distributions.units import (
    BernoulliUnits,
    IsingUnits,
)  # fmt: skip
from gnomon.systems.energy.layered import LayeredMachine
from oracles.binary import numerical_gradient

THREE = ({"visible": 4, "middle": 3, "top": 2}, [("visible", "middle"), ("middle", "top")])
FOUR = ({"a": 3, "b": 2, "c": 2, "d": 2}, [("a", "b"), ("b", "c"), ("c", "d")])
GRAPH = ({"v": 3, "x": 2, "y": 2, "z": 2}, [("v", "x"), ("x", "y"), ("y", "v"), ("z", "v"), ("z", "y")])
SHAPES = {"three": THREE, "four": FOUR, "graph": GRAPH}
ONE = ({"visible": 5}, [("visible", "visible")])
SEMI = ({"visible": 4, "hidden": 3}, [("visible", "hidden"), ("visible", "visible")])
HIDDEN = ({"visible": 3, "hidden": 4}, [("visible", "hidden"), ("hidden", "hidden")])
WHOLE = ({"visible": 3, "hidden": 3}, [("visible", "visible"), ("visible", "hidden"), ("hidden", "hidden")])
COUPLED = {"one": ONE, "semi": SEMI, "hidden": HIDDEN, "whole": WHOLE}
KINDS = {"bernoulli": BernoulliUnits, "ising": IsingUnits}
VALUES = {BernoulliUnits: (0.0, 1.0), IsingUnits: (-1.0, 1.0)}


def filled(machine, seed=0, scale=0.7):
    """The machine with random parameters."""
    random = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in machine.parameters():
            parameter.copy_(torch.from_numpy(scale * random.normal(size=tuple(parameter.shape))))
    return machine


def machine_of(shape, kind=BernoulliUnits, seed=0, scale=0.7):
    sizes, links = (SHAPES | COUPLED)[shape]
    units = {name: kind(n) for name, n in sizes.items()}
    return filled(LayeredMachine(units, links, dtype=torch.float64), seed, scale)


class Table:
    """Every joint state of a machine of binary units with its probability, from the parameters by plain loops."""

    def __init__(self, machine, values=(0.0, 1.0)):
        self.blocks, self.sizes = list(machine.units), dict(machine.sizes)
        states = np.array(list(itertools.product(values, repeat=sum(self.sizes.values()))))
        cuts = np.cumsum([self.sizes[block] for block in self.blocks])[:-1]
        self.state = dict(zip(self.blocks, np.split(states, cuts, axis=1), strict=True))
        p = {name: value.astype(float) for name, value in machine.state().items()}
        self.energy = np.zeros(len(states))
        for row in range(len(states)):
            total = 0.0
            for block in self.blocks:
                for i in range(self.sizes[block]):
                    total += p[f"{block}_bias"][i] * self.state[block][row, i]
            for a, b in (link.ends for link in machine.links):
                weight = p[f"{a}_{b}_weight"]
                if a == b:
                    for w, (i, j) in zip(weight[0], itertools.combinations(range(self.sizes[a]), 2), strict=True):
                        total += w * self.state[a][row, i] * self.state[a][row, j]
                    continue
                for i, j in np.ndindex(self.sizes[a], self.sizes[b]):
                    total += weight[i, j] * self.state[a][row, i] * self.state[b][row, j]
            self.energy[row] = -total
        self.log_z = float(np.logaddexp.reduce(-self.energy))
        self.p = np.exp(-self.energy - self.log_z)

    def marginal(self, blocks):
        """Distinct states of some blocks and -log of their unnormalized mass."""
        joined = np.concatenate([self.state[block] for block in blocks], axis=1)
        rows, index = np.unique(joined, axis=0, return_inverse=True)
        mass = np.array([np.logaddexp.reduce(-self.energy[index.ravel() == k]) for k in range(len(rows))])
        cuts = np.cumsum([self.sizes[block] for block in blocks])[:-1]
        return dict(zip(blocks, np.split(rows, cuts, axis=1), strict=True)), -mass


def by_differences(machine, value):
    """d value(machine) / d parameter by central differences, in float64."""
    found = {}
    for name, parameter in machine.named_parameters():

        def at(x, parameter=parameter):
            with torch.no_grad():
                before = parameter.clone()
                parameter.copy_(torch.from_numpy(x))
                result = float(value(machine))
                parameter.copy_(before)
            return result

        found[name] = numerical_gradient(at, parameter.detach().numpy().copy())
    return found


def assert_same(found, expected, atol):
    assert set(found) == set(expected)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], atol=atol)
