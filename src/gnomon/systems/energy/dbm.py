"""The deep Boltzmann machine: several layers of binary units above the rows, all links undirected."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import torch
from numpy.typing import ArrayLike

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.distributions.binomial_units import BinomialUnits
from gnomon.distributions.domains import Domain, Real
from gnomon.distributions.units import BernoulliUnits, CenteredScaledGaussianUnits, Units
from gnomon.distributions.whole import WordCounts
from gnomon.distributions.word_counts import WordCountUnits
from gnomon.inference.variational.recognition import RecognitionNetwork
from gnomon.recipes.fields import Doc
from gnomon.systems.energy._binary import check_layers, lent, on_its_device
from gnomon.systems.energy._deep import VISIBLE
from gnomon.systems.energy._documents import CountedDocuments
from gnomon.systems.energy._machine import GibbsSteps
from gnomon.systems.energy.counted_rows import CountedRowsMachine
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import ScaledLink
from gnomon.systems.energy.real_rows import RealRowsMachine
from gnomon.training.gradient import Budget
from gnomon.training.procedure import Problem

__all__ = ["DBM", "CountedDBMModel", "DBMModel", "RealDBMModel"]


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
    rows : Units, optional
        The kind of the rows where they are no bits, whose term of the energy is then their own.

    Notes
    -----
    Layers are called ``visible``, ``hidden_1``, ``hidden_2``, ...; given the odd layers the even ones are independent,
    and the other way round.
    """

    def __init__(
        self,
        n_visible: int,
        hidden: Sequence[int],
        dtype: torch.dtype = torch.float32,
        *,
        recognized: bool = False,
        rows: Units | None = None,
        **options: Any,
    ) -> None:
        names = [VISIBLE, *(f"hidden_{number + 1}" for number in range(len(hidden)))]
        units: dict[str, Units] = {VISIBLE: rows or BernoulliUnits(n_visible)}
        units |= {name: BernoulliUnits(n) for name, n in zip(names[1:], hidden, strict=True)}
        super().__init__(units, pairwise(names), dtype=dtype, **options)
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
            own = self._arrays({VISIBLE: torch.zeros(0)})
            weights = [own[link.names["weight"]] for link in self.links]
            self.recognition.begin(weights, [own[f"{name}_bias"] for name in self.hidden])

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
        return lent(LayeredMachine(units, [link]), self, f"{lower}_bias" if number > 1 else None)

    def rows_below(self, number: int, x: Array) -> Array:
        """What rows are to the lower layer of `pair(number)`: means of the layers below, pair by pair."""
        for one in range(1, number):
            lower, upper = self.layers[one - 1 : one + 1]
            x = self.pair(one).conditional(upper, {lower: self.copies(one)[0] * x}).mean
        return self.copies(number)[0] * x


class RealDBMModel(DBMModel, RealRowsMachine):
    r"""`DBMModel` of real rows: its terms of v are :math:`\sum_i \beta_i (v_i - a_i)^2 / 2 - (\beta v)^T W_1 h_1`.

    Then p(v | h_1) = N(a + W_1 h_1, diag(1 / beta)), with log beta learned.

    Parameters
    ----------
    n_visible, hidden, dtype, recognized
        As of `DBMModel`.
    spread, floor
        As of `RealRowsMachine`.

    Notes
    -----
    Rows that stand twice, with one mean and one precision, are one row of twice the precision to the layer above, and
    so does `pair` take them. Two rows that are always alike say nothing of their spread: there the precision is held at
    that of the data.
    """

    def __init__(
        self,
        n_visible: int,
        hidden: Sequence[int],
        dtype: torch.dtype = torch.float32,
        *,
        recognized: bool = False,
        spread: ArrayLike | None = None,
        floor: float = 0.0,
    ) -> None:
        rows = CenteredScaledGaussianUnits(n_visible)
        super().__init__(n_visible, hidden, dtype, recognized=recognized, rows=rows, spread=spread, floor=floor)

    def copies(self, number: int) -> tuple[int, int]:
        """As of bits, but that the rows stand once."""
        lower, upper = super().copies(number)
        return (1 if number == 1 else lower), upper

    def pair(self, number: int) -> LayeredMachine:
        """As of bits; the precision of the rows is twice their own, and held, where they have no hidden layer alone."""
        if number > 1:
            return super().pair(number)
        alone, name = len(self.hidden) == 1, self.precision_name
        units = {block: self.units[block] for block in self.layers[:2]}
        floor = self.floor if alone else 0.0
        machine = lent(RealRowsMachine(units, [tuple(units)], spread=self.spread, floor=floor), self)
        if not alone:
            twice = self.get_parameter(name).detach() + math.log(2)
            machine._parameters[name] = torch.nn.Parameter(twice, requires_grad=False)
        return cast(LayeredMachine, machine)


class CountedDBMModel(DBMModel, CountedRowsMachine):
    r"""`DBMModel` of counts n of N words: :math:`-b^T n - n^T W_1 h_1 - N c^T h_1` in place of its terms of v and h_1.

    Parameters
    ----------
    n_visible, hidden, dtype
        As of `DBMModel`.
    lengths : sequence of int
        What lengths rows are begun with where none are given.

    Notes
    -----
    A document that stands twice has twice the counts, and the hidden layer above it the biases N c, not 2 N c. The
    machine that begins the second layer has no words below: the first one has its biases at the mean length there.
    """

    def __init__(
        self,
        n_visible: int,
        hidden: Sequence[int],
        dtype: torch.dtype = torch.float32,
        *,
        lengths: Sequence[int] = (1,),
    ) -> None:
        super().__init__(n_visible, hidden, dtype, rows=WordCountUnits(n_visible, tuple(lengths)))
        self.mean_length = sum(lengths) / len(lengths)

    def pair(self, number: int) -> LayeredMachine:
        """As of bits, for documents of any length."""
        if number == 1:
            units = {block: self.units[block] for block in self.layers[:2]}
            pair = lent(CountedRowsMachine(units, [tuple(units)], copies=self.copies(1)[0]), self)
            return cast(LayeredMachine, pair)
        machine = super().pair(number)
        if number == 2:
            name = f"{self.layers[1]}_bias"
            bias = self.mean_length * self.get_parameter(name).detach()
            machine._parameters[name] = torch.nn.Parameter(bias, requires_grad=False)
        return machine


class DBM(CountedDocuments):
    r"""Deep Boltzmann machine: binary rows below layers of binary units, each linked to the next, all undirected.

    :math:`E(v, h) = -\sum_l b_l^T h_l - \sum_l h_{l-1}^T W_l h_l` with :math:`h_0 = v`. The hidden layers depend on
    each other given a row, so the fit takes for them the independent units that come closest (mean field), a lower
    bound of the likelihood, against chains that move the odd and the even layers in turn (variational stochastic
    maximum likelihood). Before that each layer is begun by a machine of two layers of its own, from the rows up.

    Columns are bits, or with ``visible="gaussian"`` real numbers with :math:`p(v | h_1) = N(b_0 + W_1 h_1,
    \mathrm{diag}(1 / \beta))`, whose precisions are learned in the joint fit. With ``visible="replicated-softmax"`` a
    row is a document, how often each word of a vocabulary stands in it: given its number of words N the counts are
    multinomial with the chances :math:`\mathrm{softmax}(b_0 + W_1 h_1)`, and h_1 has the biases :math:`N b_1`.

    Attributes
    ----------
    weights_ : tuple of arrays
        Of each hidden layer, (units of the layer below, its units).
    biases_ : tuple of arrays
        Of the visible layer and of each hidden one.
    precision_ : array of shape (n_features,)
        1 / variance of each real column given the layer above, in its own units.
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
    model_class: ClassVar[type] = DBMModel
    domains: ClassVar[Mapping[str, Domain]] = {"gaussian": Real(largest=1e100), "replicated-softmax": WordCounts()}
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"gaussian_rate": {"visible": "gaussian"}}

    hidden: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...],
        Doc("Units of the hidden layers from the rows up, ``64x32`` on the command line."),
    ] = (64, 32)

    visible: Annotated[
        Literal["bernoulli", "gaussian", "replicated-softmax"],
        Doc(
            "What the columns are: bits (or numbers in [0, 1], the chances of a 1), real numbers, or counts of words, "
            "each row given their number."
        ),
    ] = "bernoulli"
    gaussian_rate: Annotated[
        float, "(0, inf)", Doc("Step size of a machine of real columns, times `learning_rate`: its slopes are steeper.")
    ] = 0.25

    def check_parameters(self) -> None:
        check_layers(self.hidden, (64, 32))
        super().check_parameters()

    @property
    def _depth(self) -> int:
        return len(self.hidden)

    def make(
        self, n_features: int, dtype: str, mean: list[float], deviation: list[float] | None = None,
        lengths: list[int] | None = None,
    ) -> DBMModel:  # fmt: skip
        size, recognized = (n_features, self.hidden, getattr(torch, dtype)), bool(self.recipe("objective").recognizes)
        if lengths is not None:
            return CountedDBMModel(*size, lengths=lengths)
        if self.visible == "bernoulli":
            return DBMModel(*size, recognized=recognized)
        return RealDBMModel(*size, recognized=recognized, spread=self._spread(deviation), floor=self.floor)

    def _bottom(self) -> Any:
        return self.model_

    def _steps(self, budget: Budget) -> GibbsSteps:
        factor = {"gaussian": self.gaussian_rate, "replicated-softmax": 1 / max(self._mean_length, 1.0)}
        return GibbsSteps(self.recipe("optimizer"), self.learning_rate * factor.get(self.visible, 1.0), budget)

    def initialize(self, model: DBMModel, examples: Examples, noise: contracts.Noise) -> None:
        super().initialize(model, examples, noise)
        model.begin_recognition()

    def _joint(self, whole: Problem) -> Problem:
        on_its_device(whole.model).begin_recognition()
        return super()._joint(whole)

    def _guess(self, rows: Array) -> contracts.State | None:
        return self.model_.guess(rows)
