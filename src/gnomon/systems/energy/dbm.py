"""The deep Boltzmann machine: several layers of binary units above the rows, all links undirected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self, cast

import torch

from gnomon import contracts
from gnomon.contracts import Array, Procedure
from gnomon.data.examples import Examples
from gnomon.distributions.binomial_units import BinomialUnits
from gnomon.distributions.domains import Binary, UnitInterval
from gnomon.distributions.units import BernoulliUnits, Units
from gnomon.errors import UserValueError
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.inference.variational.mean_field import (
    MeanFieldSolution,
    factorized_posterior,
    mean_field_evidence,
    mean_field_solution,
)
from gnomon.inference.variational.recognition import RecognitionNetwork
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.ops import concatenate
from gnomon.objectives.contrastive import CD, PCD
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.systems.energy._binary import BinaryRows, check_layers, dealt, layer_problem, on_its_device
from gnomon.systems.energy._machine import DensityMachine, GibbsSteps
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import ScaledLink
from gnomon.training.gradient import Budget
from gnomon.training.procedure import Problem
from gnomon.training.stages import Stages

__all__ = ["DBM", "DBMModel"]

VISIBLE = "visible"


class DBMModel(LayeredMachine):
    r"""E(v, h_1, ..., h_L) = -sum_l b_l^T h_l - sum_l h_{l-1}^T W_l h_l with h_0 = v, over units of 0 and 1.

    Parameters
    ----------
    n_visible : int
    hidden : sequence of int
        Units of each hidden layer, from the rows up.
    dtype : torch.dtype
    recognized : bool, default False
        Whether there is a `recognition` network beside it, which guesses the hidden means in one pass.

    Notes
    -----
    Layers are called ``visible``, ``hidden_1``, ``hidden_2``, ...; given the odd layers the even ones are independent,
    and the other way round.
    """

    def __init__(
        self, n_visible: int, hidden: Sequence[int], dtype: torch.dtype = torch.float32, *, recognized: bool = False
    ) -> None:
        names = [VISIBLE, *(f"hidden_{number + 1}" for number in range(len(hidden)))]
        units = {name: BernoulliUnits(n) for name, n in zip(names, (n_visible, *hidden), strict=True)}
        super().__init__(units, pairwise(names), dtype=dtype)
        self.layers = tuple(names)
        """Names of all layers, from the rows up."""
        self.blocks = (*names[1::2], *names[::2])  # a sweep moves the odd layers, then the even ones
        self.recognition = RecognitionNetwork({name: self.sizes[name] for name in names}, dtype) if recognized else None

    @property
    def hidden(self) -> tuple[str, ...]:
        """Names of the hidden layers, from the rows up."""
        return self.layers[1:]

    def _with(self, values: Mapping[str, Any]) -> Self:
        twin = super()._with(values)
        twin.__dict__["_modules"] = {}  # another machine: the network's guesses are not of it, and stay as they are
        return twin

    def begin_recognition(self) -> None:
        """Let the network, where there is one, begin as the machine's own way up."""
        if self.recognition is not None:
            weights = [self._parameters[link.names["weight"]] for link in self.links]
            self.recognition.begin(weights, [self._parameters[f"{name}_bias"] for name in self.hidden])

    def guess(self, x: Array) -> dict[str, Array] | None:
        """Hidden means in one pass, where there is a network."""
        return None if self.recognition is None else self.recognition(x)

    def copies(self, number: int) -> tuple[int, int]:
        """How often the lower and the upper layer stand in the machine that layer `number` is begun by."""
        depth = len(self.hidden)
        return (2 if number == 1 < depth else 1), (2 if number == depth > 1 else 1)

    def pair(self, number: int) -> LayeredMachine:
        """The machine of layers `number` - 1 and `number` that pretraining learns: its parameters are this machine's.

        The layer at the bottom, and that at the top, has no neighbor on its other side and stands there twice: its
        neighbor then has the field that it will have from both sides. Between two layers that both have another
        neighbor the couplings are twice this machine's. The bias of the lower layer is learned with the layer below it.
        """
        lower, upper = self.layers[number - 1 : number + 1]
        units: dict[str, Units] = {
            name: self.units[name] if times == 1 else BinomialUnits(self.sizes[name], times)
            for name, times in zip((lower, upper), self.copies(number), strict=True)
        }
        middle = 1 < number < len(self.hidden)
        link = ScaledLink(lower, upper, scale=2.0) if middle else (lower, upper)
        machine = LayeredMachine(units, [link])
        for name in machine._parameters:
            machine._parameters[name] = self._parameters[name]
        if number > 1:
            bias = cast(torch.nn.Parameter, self._parameters[f"{lower}_bias"])
            machine._parameters[f"{lower}_bias"] = torch.nn.Parameter(bias.data, requires_grad=False)
        return machine

    def rows_below(self, number: int, x: Array) -> Array:
        """What rows are to the lower layer of `pair(number)`: means of the layers below, pair by pair."""
        for one in range(1, number):
            lower, upper = self.layers[one - 1 : one + 1]
            x = self.pair(one).conditional(upper, {lower: self.copies(one)[0] * x}).mean
        return self.copies(number)[0] * x


class DBM(BinaryRows, DensityMachine):
    r"""Deep Boltzmann machine: binary rows below layers of binary units, each linked to the next, all undirected.

    :math:`E(v, h) = -\sum_l b_l^T h_l - \sum_l h_{l-1}^T W_l h_l` with :math:`h_0 = v`. The hidden layers depend on
    each other given a row, so the fit takes for them the independent units that come closest (mean field), a lower
    bound of the likelihood, against chains that move the odd and the even layers in turn (variational stochastic
    maximum likelihood). Before that each layer is begun by a machine of two layers of its own, from the rows up.

    Attributes
    ----------
    weights_ : tuple of arrays
        Of each hidden layer, (units of the layer below, its units).
    biases_ : tuple of arrays
        Of the visible layer and of each hidden one.
    history_ : dict of lists
        By epoch: ``stage`` (the layer that is begun; the last is the joint one), ``energy_gap`` of the last batch (data
        minus chains, nats; not the likelihood), ``gradient_norm``.

    Notes
    -----
    In the machines of two layers the rows and the top layer stand twice, since they have no neighbor on their other
    side, and the couplings of the layers between are halved after their fit: where a layer's two neighbors agree, its
    distribution in the whole is that of its first fit, and no evidence counts twice. Without this
    (``pretrain_epochs=0``) upper layers often learn nothing. `max_updates` is dealt evenly among the stages.

    `evaluate` says what its number is: ``exact`` where all that depends on each other can be enumerated (12 units
    beside a row, 20 for log Z); an ``estimate`` with log Z by annealed importance sampling of one half of the layers,
    the others summed out: of the likelihood itself up to 12 units beside a row, beyond that of its mean-field lower
    bound. Contrastive divergence needs exact draws of the hidden layers, pseudolikelihood, ratio matching and
    noise-contrastive estimation the probability of a row but for log Z: with more than one hidden layer these are
    refused. Cost per update O(batch (k + rounds) sum_l n_l n_{l+1}).

    References
    ----------
    Salakhutdinov and Hinton (2009), "Deep Boltzmann machines"; Salakhutdinov and Hinton (2012), "An efficient learning
    procedure for deep Boltzmann machines"; Goodfellow, Bengio and Courville (2016), section 20.4.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> machine = DBM(hidden=(4, 3), epochs=30, learning_rate=0.1, random_state=0).fit(X)
    >>> machine.score(X) > -1.5, machine.transform(X).shape
    (True, (100, 7))
    """

    name: ClassVar[str] = "dbm"
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")
    model_class: ClassVar[type] = DBMModel
    domain = UnitInterval()
    outcomes = Binary()

    hidden: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...],
        Doc("Units of the hidden layers from the rows up, ``64x32`` on the command line."),
    ] = (64, 32)
    pretrain_epochs: Annotated[
        int,
        "[0, inf)",
        Doc("Passes over the training rows for each layer, one after the other, before the joint fit."),
    ] = 20
    objective: Annotated[
        str | Recipe,
        Doc("How all layers are learned together: ``pcd``, ``multi-prediction``, or ``exact`` of a small machine."),
    ] = PCD(k=5, positive="mean_field")
    epochs: int = 50
    batch_size: int | None = 20
    learning_rate: float = 0.02
    optimizer: str | Recipe = "sgd"

    def make(self, n_features: int, dtype: str, mean: list[float]) -> DBMModel:
        recognized = bool(self.recipe("objective").recognizes)
        return DBMModel(n_features, self.hidden, getattr(torch, dtype), recognized=recognized)

    def initialize(self, model: DBMModel, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, self._start_mean())
        model.begin_recognition()

    # --- fit ----------------------------------------------------------------------------------------------------------

    def check_parameters(self) -> None:
        super().check_parameters()
        check_layers(self.hidden, (64, 32))
        principle = self.recipe("objective")
        if len(self.hidden) > 1 and not principle.deep:
            what = f"objective {principle.short!r} needs exact draws of the hidden layers or the energy of a row"
            remedy = "these depend on each other in a deep machine: use pcd with positive mean_field, or exact"
            raise UserValueError(what, "objective", remedy)

    def procedure(self, examples: Any) -> Procedure:
        layers = len(self.hidden)
        *begun, joint = dealt([self.pretrain_epochs] * layers + [self.epochs], self.max_updates)
        last = self._steps(cast(Budget, joint))
        stages = [
            (f"layer_{number}", self._steps(budget), partial(self._layer, number))
            for number, budget in enumerate(begun, 1)
            if budget
        ]
        return Stages([*stages, ("joint", last, self._joint)]) if stages else last

    def _steps(self, budget: Budget) -> GibbsSteps:
        return GibbsSteps(self.recipe("optimizer"), self.learning_rate, budget)

    def _layer(self, number: int, whole: Problem) -> Problem:
        """The problem of a layer that is begun."""
        model = on_its_device(whole.model)
        lift = lambda x, _: model.rows_below(number, x)  # noqa: E731
        return layer_problem(whole, number, model.pair(number), lift, self.layout, CD().build())

    def _joint(self, whole: Problem) -> Problem:
        """The problem of all layers together."""
        on_its_device(whole.model).begin_recognition()
        return replace(whole, noise=whole.noise.child("joint"))

    def _chunk_procedure(self, examples: Any) -> Procedure:
        """All layers at once: what begins them needs all rows."""
        return self._steps(Budget.of(self.epochs, self.max_updates))

    # --- the hidden layers --------------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return sum(self.model_.sizes[name] for name in self.model_.hidden)

    def infer(self, X: Any, *, steps: int = 100, tol: float = 1e-6, damping: float = 0.0) -> MeanFieldSolution:
        """Mean-field means of each hidden layer given the rows, and whether they have converged.

        Of a machine that was fitted by ``recognized`` rounds begin at the guess of its network, else in the middle.

        Parameters
        ----------
        X : array of shape (n, n_features)
        steps : int, in [0, inf), default 100
            Rounds over the odd and then the even layers, at most.
        tol : float, in [0, inf), default 1e-6
            End when no mean moves by more than this in a round.
        damping : float, in [0, 1), default 0
            Share of its old mean that a unit keeps at an update.

        Returns
        -------
        MeanFieldSolution
            ``means`` by layer, ``residual`` and ``converged`` by row.
        """
        return self._solution(self._rows(X), steps=steps, tol=tol, damping=damping)

    def _solution(self, rows: Array, **options: Any) -> MeanFieldSolution:
        return mean_field_solution(self.model_, {VISIBLE: rows}, start=self.model_.guess(rows), **options)

    def _hidden_means(self, rows: Array) -> Array:
        means = self._solution(rows).means
        return concatenate([means[name] for name in self.model_.hidden], axis=1)

    def transform(self, X: Any) -> Array:
        """Mean-field means of all hidden layers side by side, from the lowest up, shape (n, sum of the units)."""
        return self._hidden_means(self._rows(X))

    def reconstruct(self, X: Any) -> Array:
        """E[v | h_1] at the mean-field means given X, shape (n, n_features)."""
        means = self.infer(X).means
        return self.from_visible(self.model_.conditional(VISIBLE, means).mean)

    def _walk(self, rows: Array, steps: int, random_state: Any) -> Array:
        noise = Noise(seed_of(random_state), "gibbs")
        state = factorized_posterior(self.model_, {VISIBLE: rows})
        for draw, name in enumerate(self.model_.hidden):
            state[name] = state[name].sample(noise.child("start"), draw)
        sweeps = how_many(steps, "steps")
        return gibbs(self.model_, state, noise, steps=sweeps)[VISIBLE]

    # --- evidence -----------------------------------------------------------------------------------------------------

    def log_prob_bound(self, X: Any) -> Array:
        """Mean-field lower bound of log p(x) of each row in nats, shape (n,); as exact as `log_partition` is."""
        rows = self._outcomes(X)
        return mean_field_evidence(self.model_, {VISIBLE: rows}, steps=100, tol=1e-6) - self.log_partition().value

    @property
    def weights_(self) -> tuple[Array, ...]:
        """Couplings of each hidden layer with the layer below."""
        state = self.model_.state()
        return tuple(state[link.names["weight"]] for link in self.model_.links)

    @property
    def biases_(self) -> tuple[Array, ...]:
        """Biases of the visible layer and of each hidden one."""
        state = self.model_.state()
        return tuple(state[f"{name}_bias"] for name in self.model_.layers)
