"""The classifier that a deep Boltzmann machine of rows and classes becomes: mean-field features, and a round more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar, cast

import numpy as np
import torch
from sklearn.utils import Tags

from gnomon.contracts import Array, Noise, Procedure
from gnomon.data.batches import Batch, Batches
from gnomon.data.class_vectors import one_hot
from gnomon.data.examples import Examples
from gnomon.distributions.binomial_units import BinomialUnits
from gnomon.distributions.domains import UnitInterval
from gnomon.distributions.units import BernoulliUnits, CategoricalUnits, Units
from gnomon.errors import UserValueError
from gnomon.inference.arrays import convert
from gnomon.inference.mcmc.gibbs import mean_field
from gnomon.inference.variational.mean_field import MeanFieldSolution, mean_field_solution
from gnomon.nn.activations import Sigmoid
from gnomon.nn.mlp import MLPModel
from gnomon.nn.module import Module
from gnomon.numeric.ops import concatenate
from gnomon.objectives.contrastive import CD, PCD
from gnomon.objectives.growth import RisingSteps
from gnomon.objectives.losses import CrossEntropyLoss
from gnomon.objectives.supervised import Supervised
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import check_layer_sizes
from gnomon.system.fields import GradientSteps, HasDtype
from gnomon.system.prediction import Classifier
from gnomon.system.unlabeled import TakesUnlabeled
from gnomon.systems.energy._binary import dealt, layer_problem, lent, on_its_device
from gnomon.systems.energy._machine import GibbsSteps
from gnomon.systems.energy.dbm import DBMModel
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.training.gradient import Gradient
from gnomon.training.procedure import Problem
from gnomon.training.stages import Stages

__all__ = ["DBMClassifier", "DBMClassifierModel"]

LABEL = "label"


class LabeledChain(LayeredMachine):
    """Layers in a chain, of which the lowest one and the class at its other end are given: rows hold both in turn.

    Parameters
    ----------
    units : mapping of str to Units
        The last one is called ``label``.
    dtype : torch.dtype
    """

    def __init__(self, units: Mapping[str, Units], dtype: torch.dtype = torch.float32) -> None:
        super().__init__(units, pairwise(units), dtype=dtype)
        self.observed_blocks = (self.observed, LABEL)


class DBMClassifierModel(Module):
    r"""E(v, h_1, h_2, y) = -v^T W_1 h_1 - h_1^T W_2 h_2 - h_2^T U y and biases, beside the network that it becomes.

    The network takes v and the mean-field means m_2 of h_2 given v, the class left out, to h_1 = sigmoid(v W_1 + m_2
    W_2^T), h_2 = sigmoid(h_1 W_2) and softmax(h_2 U), all with their biases: at first one more round of mean field.

    Parameters
    ----------
    n_features, n_classes : int
    hidden : sequence of two int
    rounds : int
        Of mean field behind m_2.
    dropout : float in [0, 1)
        Of the network's hidden layers.
    dtype : torch.dtype
    """

    def __init__(
        self, n_features: int, n_classes: int, hidden: Sequence[int], rounds: int, dropout: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:  # fmt: skip
        super().__init__()
        self.hidden_sizes, self.n_classes, self.rounds = tuple(hidden), n_classes, rounds
        sizes = dict(zip(("visible", "hidden_1", "hidden_2"), (n_features, *hidden), strict=True))
        units: dict[str, Units] = {name: BernoulliUnits(n) for name, n in sizes.items()}
        self.joint = LabeledChain(units | {LABEL: CategoricalUnits(1, n_classes)}, dtype)
        inputs = n_features + hidden[-1]
        self.network = MLPModel(inputs, n_classes, hidden, Sigmoid(), dropout, False, dtype)

    def place(self, x: Array) -> Array:
        """Rows where the machines compute, in their dtype."""
        return self.joint.place(x)

    # --- machines that share the parameters of the joint one ----------------------------------------------------------

    def machine(self) -> DBMModel:
        """The deep machine without the class."""
        found: DBMModel = lent(DBMModel(self.joint.sizes["visible"], self.hidden_sizes), self.joint)
        return found

    def upper(self) -> LabeledChain:
        """The machine of h_1 and y below h_2, which stands twice: h_1 has its field from both sides in the deep one."""
        first, second = self.hidden_sizes
        units = {"hidden_1": BernoulliUnits(first), "hidden_2": BinomialUnits(second, 2)}
        chain = LabeledChain({**units, LABEL: CategoricalUnits(1, self.n_classes)})
        found: LabeledChain = lent(chain, self.joint, "hidden_1_bias")
        return found

    def with_class(self, rows: Array, codes: Any) -> Array:
        """Rows with the one-hot class of each beside them."""
        return concatenate([rows, convert(one_hot(codes, self.n_classes), rows)], axis=1)

    def drawn_above(self, x: Array, noise: Noise) -> Array:
        """Draws of h_1 given rows, by the machine that begins it: the rows stand there twice."""
        pair = self.machine().pair(1)
        return pair.conditional("hidden_1", {"visible": 2 * x}).sample(noise, 1)

    # --- the network --------------------------------------------------------------------------------------------------

    def features(self, x: Array) -> Array:
        """m_2 after the rounds of mean field from means of 1/2, which know nothing of the class, (n, units)."""
        return mean_field(self.machine(), {"visible": (x, None)}, steps=self.rounds, order=("hidden_1", "hidden_2"))[
            "hidden_2"
        ]

    def inputs(self, x: torch.Tensor) -> torch.Tensor:
        """Rows and m_2 side by side."""
        return torch.cat([x, cast(torch.Tensor, self.features(x))], 1)

    def convert(self) -> None:
        """Give the network the couplings and biases of the joint machine."""
        own = dict(self.joint.named_parameters())
        first, second = own["visible_hidden_1_weight"], own["hidden_1_hidden_2_weight"]
        weights = (torch.cat([first.T, second], 1), second.T, own["hidden_2_label_weight"].T)
        with torch.no_grad():
            for number, (weight, layer) in enumerate(zip(weights, ("hidden_1", "hidden_2", LABEL), strict=True)):
                self.network.get_parameter(f"layers.{number}.weight").copy_(weight)
                self.network.get_parameter(f"layers.{number}.bias").copy_(own[f"{layer}_bias"])

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs of the last layer, shape (n, n_classes)."""
        return self.network.scores(self.inputs(x))

    def hidden(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Outputs of the two hidden layers, each (n, units)."""
        return self.network.hidden(self.inputs(x))


class DBMClassifier(TakesUnlabeled, Classifier, GradientSteps, HasDtype):
    r"""Multilayer perceptron that a deep Boltzmann machine of rows and classes becomes, in four stages.

    (a) A restricted Boltzmann machine of the rows, by contrastive divergence. (b) One of draws of its hidden units and
    the class, by contrastive divergence whose steps rise from 1 to ``largest_k``. (c) Both as one deep machine, by
    stochastic maximum likelihood on :math:`\log P(v, y)`. (d) Without the class, mean field finds features :math:`m_2`
    of each row, and a network of the form of one more round, :math:`h_1 = \sigma(v W_1 + m_2 W_2^T)`,
    :math:`h_2 = \sigma(h_1 W_2)`, :math:`P(y | v) = \mathrm{softmax}(h_2 U)`, with the machine's weights at first, is
    trained by gradient descent with dropout on :math:`\log P(y | v)`. Rows labeled -1 take part in (a) alone.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    history_ : dict of lists
        By epoch: ``stage``, from 1; of the machines ``energy_gap`` (data minus chains, nats; not a likelihood), of (b)
        ``k``; of the network ``cross_entropy`` (nats per labeled row, with dropout on) and ``l2``; ``gradient_norm``.

    Notes
    -----
    As in `dbm` the rows of (a) and the topmost layer of (b) stand twice, so that in the whole no evidence counts twice;
    the class sees both copies in (b). In (c) rows and classes are held, hidden layers are at their mean-field means,
    and as many chains as a batch has rows take five sweeps over all four layers. Before (d) moves it the network is
    exactly round ``rounds`` + 1 of mean field, and what that says of the class.

    ``model_.joint`` stays the deep machine as (c) has left it, the class among its layers. It can do without any of its
    inputs; the network cannot: rows with missing cells are refused. `max_updates` is dealt evenly among the stages.
    Cost per update of a machine O(batch k sum_l n_l n_{l+1}); of (d) O(n rounds n_1 n_2) once for the features, then
    O(batch weights) per update.

    Published for handwritten digits (MNIST, 60,000 to learn from): 0.95 % errors (Salakhutdinov and Hinton 2009),
    0.79 % with dropout (Srivastava et al. 2014); what this system reaches on small sets is in docs/results.md.

    References
    ----------
    Salakhutdinov and Hinton (2009), "Deep Boltzmann machines"; Srivastava, Hinton, Krizhevsky, Sutskever and
    Salakhutdinov (2014), "Dropout"; Goodfellow, Bengio and Courville (2016), section 20.4.4.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.arange(100) % 2
    >>> X = np.where(y[:, None], [1, 1, 0, 0], [0, 1, 1, 0])
    >>> network = DBMClassifier(hidden=(4, 3), epochs=60, learning_rate=0.05, random_state=0).fit(X, y)
    >>> network.score(X, y), network.infer(X).means["hidden_2"].shape
    (1.0, (100, 3))
    """

    name: ClassVar[str] = "dbm-classifier"
    model_class: ClassVar[type] = DBMClassifierModel
    domain = UnitInterval()
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"largest_k": {"pretrain_epochs": 3}}
    numpy_products: ClassVar[bool] = True
    resamples_rows: ClassVar[bool] = True  # chains are drawn beside each row

    hidden: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...],
        Doc("Units of the two hidden layers from the rows up, ``128x128`` on the command line."),
    ] = (128, 128)
    pretrain_epochs: Annotated[
        int, "[0, inf)", Doc("Passes over the rows for each of the two machines of (a) and (b).")
    ] = 20
    pretrain_rate: Annotated[float, "(0, inf)", Doc("Step size of these two.")] = 0.01
    largest_k: Annotated[
        int, "[1, inf)", Doc("Gibbs steps of the last pass of (b), which rise to it from 1 in even steps.")
    ] = 20
    joint_epochs: Annotated[int, "[0, inf)", Doc("Passes over the labeled rows of the deep machine, (c).")] = 20
    joint_rate: Annotated[float, "(0, inf)", Doc("Step size of the deep machine.")] = 0.001
    joint_k: Annotated[int, "[1, inf)", Doc("Sweeps of the chains of (c) at each update.")] = 5
    rounds: Annotated[int, "[1, inf)", Doc("Rounds of mean field that make the features of a row.")] = 50
    dropout: Annotated[
        float, "[0, 1)", Doc("Probability to drop an output of a hidden layer while labels are learned.")
    ] = 0.3
    l2: Annotated[
        float, "[0, inf)", Doc("Factor of ``sum W^2 / 2`` over the weights of the network while labels are learned.")
    ] = 1e-4
    epochs: Annotated[int, "[1, inf)", Doc("Passes over the labeled rows of the network, (d).")] = 50
    batch_size: int | None = 32
    learning_rate: Annotated[float, "(0, inf)", Doc("Step size of the network.")] = 0.003

    def check_parameters(self) -> None:
        super().check_parameters()
        check_layer_sizes(self.hidden)
        if len(self.hidden) != 2:
            raise UserValueError(f"hidden must name two layers, got {self.hidden}", "hidden", "use (128, 128)")

    # --- fit ----------------------------------------------------------------------------------------------------------

    def make(self, n_features: int, dtype: str, n_classes: int) -> DBMClassifierModel:
        return DBMClassifierModel(
            n_features, n_classes, self.hidden, self.rounds, self.dropout, getattr(torch, dtype)
        )  # fmt: skip

    def initialize(self, model: DBMClassifierModel, examples: Examples, noise: Noise) -> None:
        weight = examples.weight.astype(np.float64)
        mean = np.average(examples.X.astype(np.float64), axis=0, weights=weight)
        model.joint.initialize(noise, np.clip(mean, 0.01, 0.99))
        known = np.asarray(examples.y) >= 0
        shares = np.bincount(examples.y[known], weight[known], model.n_classes) + 1  # of a class without weight too
        with torch.no_grad():
            model.joint.get_parameter("label_bias").copy_(torch.from_numpy(np.log(shares / shares.sum())))
        model.convert()

    def make_objective(self) -> Supervised:
        return Supervised(CrossEntropyLoss(), l2=self.l2)

    def procedure(self, examples: Any) -> Procedure:
        recipe, two = self.recipe("optimizer"), [self.pretrain_epochs] * 2
        budgets = dealt([*two, self.joint_epochs, self.epochs], self.max_updates)
        rates = (self.pretrain_rate, self.pretrain_rate, self.joint_rate)
        problems = {"rows": self._rows_alone, "classes": self._upper, "joint": self._joint}
        stages: list[Any] = [
            (name, GibbsSteps(recipe, rate, budget), problem)
            for (name, problem), rate, budget in zip(problems.items(), rates, budgets[:-1], strict=True)
            if budget
        ]
        last = budgets[-1]
        assert last is not None
        return Stages([*stages, ("network", Gradient(recipe, self.learning_rate, last), self._network)])

    def _rows_alone(self, whole: Problem) -> Problem:
        """(a): the machine of the rows, which stand twice, and of h_1."""
        pair = on_its_device(whole.model).machine().pair(1)
        return layer_problem(whole, 1, pair, lambda x, _: 2 * x, self.layout, CD().build())

    def _upper(self, whole: Problem) -> Problem:
        """(b): the machine of draws of h_1 and of the class below h_2."""
        model = on_its_device(whole.model)
        growth = rising(self.largest_k, self.pretrain_epochs)
        return self._beside_classes(whole, "classes", model.upper(), model.drawn_above, CD(growth=growth).build())

    def _joint(self, whole: Problem) -> Problem:
        """(c): the deep machine of rows and classes."""
        objective = PCD(k=self.joint_k, positive="mean_field").build()
        return self._beside_classes(whole, "joint", on_its_device(whole.model).joint, lambda x, _: x, objective)

    def _beside_classes(
        self, whole: Problem, name: str, machine: LabeledChain, lift: Callable[[Array, Noise], Array], objective: Any
    ) -> Problem:
        """The problem of a machine of what `lift` makes of the rows, and of their classes."""
        model, noise = whole.model, whole.noise.child(name)

        def lifted(batch: Batch, noise: Noise) -> Batch:
            with torch.no_grad():
                rows = model.with_class(lift(model.place(batch.data["X"]), noise), np.asarray(batch.data["y"]))
            return Batch({"X": rows}, batch.rows, batch.positions, batch.weight)

        examples = _labeled(whole)
        batches = Batches(examples, self.layout(examples), noise=noise, transform=lifted).shard(whole.group)
        return Problem(machine, batches, noise, whole.group, objective)

    def _network(self, whole: Problem) -> Problem:
        """(d): the network, on rows and their features."""
        model, noise = on_its_device(whole.model), whole.noise.child("network")
        model.convert()
        examples = _labeled(whole)
        examples = examples.replace(X=model.ask("inputs", examples.X))
        batches = Batches(examples, self.layout(examples), noise=noise).shard(whole.group)
        return replace(whole, model=model.network, batches=batches, noise=noise)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # of the clouds of scikit-learn's checks as bits
        return tags

    # --- verbs --------------------------------------------------------------------------------------------------------

    def infer(self, X: Any) -> MeanFieldSolution:
        """Mean-field means of the two hidden layers given the rows, the class left out, after ``rounds`` rounds.

        Returns
        -------
        MeanFieldSolution
            ``means`` by layer, ``residual`` and ``converged`` (to 1e-6) by row.
        """
        rows = self.model_.place(self._rows(X))
        found = mean_field_solution(self.model_.machine(), {"visible": rows}, steps=self.rounds, tol=0.0)
        return found._replace(converged=found.residual <= 1e-6)

    def hidden_outputs(self, X: Any) -> list[Array]:
        """Outputs of the network's two hidden layers for each row, each of shape (n, units)."""
        return list(self.model_.ask("hidden", self._rows(X)))


def rising(largest: int, epochs: int) -> RisingSteps:
    """Steps from 1 to the largest number in as many epochs.

    Examples
    --------
    >>> [rising(20, 4).at(1, t) for t in range(4)], [rising(3, 8).at(1, t) for t in range(8)]
    ([1, 8, 15, 20], [1, 1, 1, 2, 2, 2, 3, 3])
    """
    more, times = max(largest - 1, 1), max(epochs - 1, 1)
    return RisingSteps(every=max(times // more, 1), by=-(-more // times), largest=largest)


def _labeled(whole: Problem) -> Examples:
    """The rows that have a class."""
    examples = cast(Batches, whole.batches).examples
    return examples.take(np.flatnonzero(np.asarray(examples.y) >= 0))
