"""The classifier whose hidden layers are begun by restricted Boltzmann machines: a deep belief network made an MLP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
import torch

from gnomon.contracts import Array, Noise, Procedure
from gnomon.data.batches import Batches
from gnomon.data.examples import Examples
from gnomon.data.preprocessing import standardization
from gnomon.distributions.domains import Real, UnitInterval
from gnomon.nn.activations import Sigmoid
from gnomon.nn.initializers import Initializer, initialize
from gnomon.nn.mlp import MLPModel
from gnomon.nn.module import Module
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.objectives.losses import CrossEntropyLoss
from gnomon.objectives.supervised import Supervised
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.system.fields import GradientSteps, HasDtype, Standardized
from gnomon.system.prediction import Classifier
from gnomon.system.unlabeled import TakesUnlabeled
from gnomon.systems.energy._binary import check_layers, dealt, layer_problem, on_its_device
from gnomon.systems.energy._dbn_model import DBNModel
from gnomon.systems.energy._labeled import UNITS
from gnomon.systems.energy._machine import GibbsSteps
from gnomon.training.gradient import Gradient
from gnomon.training.procedure import Problem
from gnomon.training.stages import Stages

__all__ = ["DBNClassifier", "DBNClassifierModel"]


class DBNClassifierModel(Module):
    r"""h_k = sigmoid(b_k + h_{k-1} W_k), P(y | x) = softmax(b + h_L W): a network, beside the stack that begins it.

    Parameters
    ----------
    n_features, n_classes : int
    hidden : sequence of int
        Units of each hidden layer, from the rows up.
    visible : {"gaussian", "bernoulli"}
        Units of the stack's rows.
    pretrained : bool
        Whether there is a `stack`.
    dropout : float in [0, 1)
        Of the hidden layers of `network`.
    dtype : torch.dtype
    """

    def __init__(
        self, n_features: int, n_classes: int, hidden: Sequence[int], visible: str, *, pretrained: bool,
        dropout: float = 0.0, dtype: torch.dtype = torch.float32,
    ) -> None:  # fmt: skip
        super().__init__()
        self.network = MLPModel(n_features, n_classes, hidden, Sigmoid(), dropout, False, dtype)
        self.stack = DBNModel(n_features, hidden, dtype, UNITS[visible]) if pretrained else None

    @property
    def n_parameters(self) -> int:
        """Of the network, which is what predicts."""
        return self.network.n_parameters

    def place(self, x: Array) -> Array:
        """Rows where the model computes, in its dtype."""
        return torch.as_tensor(x).to(self.network.shift)

    def rows_below(self, k: int, x: torch.Tensor) -> Array:
        """What rows are to the machine of layer k: themselves in its units, or the means of layer k - 1."""
        rows = self.network.standardized(x)
        stack = cast(DBNModel, self.stack)
        return stack.means_up(rows, k - 1)[-1] if k > 1 else rows

    def convert(self) -> None:
        """Give the network's hidden layers the stack's way up, whose topmost step is its machine's."""
        with torch.no_grad():
            for number, (weight, bias) in enumerate(cast(DBNModel, self.stack).way_up()):
                self.network.get_parameter(f"layers.{number}.weight").copy_(weight.T)
                self.network.get_parameter(f"layers.{number}.bias").copy_(bias)

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs of the last layer, shape (n, n_classes)."""
        return self.network.scores(x)

    def hidden(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Outputs of the hidden layers, each (n, units)."""
        return self.network.hidden(x)


class DBNClassifier(TakesUnlabeled, Classifier, GradientSteps, HasDtype, Standardized):
    r"""Multilayer perceptron that a deep belief network begins: first layer by layer without labels, then with them.

    Each hidden layer is begun by a restricted Boltzmann machine on the means of the layer below, the lowest one on the
    rows: of real columns a Gaussian-Bernoulli machine of variance 1, of columns in [0, 1] one of bits. Their couplings
    and hidden biases become those of :math:`h_k = \sigma(b_k + h_{k-1} W_k)`, an output layer is put on top, and
    back-propagation of the cross-entropy moves all of them. Rows labeled -1 take part in the first half alone.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    history_ : dict of lists
        By epoch: ``stage`` (the layer; the last is that of the labels), what the machines' objective watches,
        ``cross_entropy`` (nats per labeled row, with dropout on), ``l2``, ``gradient_norm``.

    Notes
    -----
    The stack stays beside the network, as the first half has left it: ``model_.stack``. What it is good for is many
    rows of which few have labels; with many labels a network of rectified units and dropout, `mlp`, has no need of it.
    The way up knows nothing of what is above a layer: it is the stack's own inference only where that is exact, of one
    layer. Sigmoids saturate where machines are trained for long: their gradient is then close to 0.

    A machine of real columns has steeper gradients than one of bits and takes smaller steps, ``gaussian_rate`` times
    those of the others; its columns are meant to have variance 1, as ``standardize`` makes them. ``pretrain="none"`` is
    the same network begun by chance. `max_updates` is dealt evenly among the stages. Cost per update of a machine
    O(batch n_l n_{l+1} k), of the network O(batch weights).

    References
    ----------
    Hinton, Osindero and Teh (2006); Hinton and Salakhutdinov (2006), "Reducing the dimensionality of data with neural
    networks"; Mohamed, Dahl and Hinton (2012), "Acoustic modeling using deep belief networks".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> network = DBNClassifier(hidden=(16,), epochs=100, random_state=0).fit(X, y)
    >>> network.score(X, y) > 0.9, network.hidden_outputs(X)[0].shape
    (True, (150, 16))
    """

    name: ClassVar[str] = "dbn-classifier"
    model_class: ClassVar[type] = DBNClassifierModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"objective": EnergyObjective, "initializer": Initializer}
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"initializer": {"pretrain": "none"}}
    numpy_products: ClassVar[bool] = True

    hidden: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...],
        Doc("Units of the hidden layers from the rows up, ``128x128`` on the command line."),
    ] = (128, 128)
    visible: Annotated[
        Literal["gaussian", "bernoulli"],
        Doc("Units of the columns: ``gaussian`` takes real numbers, ``bernoulli`` numbers in [0, 1], never scaled."),
    ] = "gaussian"
    pretrain: Annotated[
        Literal["rbm", "none"],
        Doc("What begins the hidden layers: a restricted Boltzmann machine for each, or chance alone."),
    ] = "rbm"
    pretrain_epochs: Annotated[
        int, "[1, inf)", Doc("Passes over all rows, labeled or not, for each layer's machine.")
    ] = 50
    pretrain_rate: Annotated[float, "(0, inf)", Doc("Step size of the machines of bits.")] = 0.01
    gaussian_rate: Annotated[
        float, "(0, inf)", Doc("Step size of the machine of real columns, times `pretrain_rate`.")
    ] = 0.1
    objective: Annotated[str | Recipe, Doc("How the machine of each layer is learned.")] = "cd"
    initializer: Annotated[
        str | Recipe, Doc("First weights of hidden layers that no machine begins; see `gnomon.nn.initializers`.")
    ] = "xavier-uniform"
    output_scale: Annotated[
        float, "[0, inf)", Doc("Standard deviation of the first weights of the output layer, which no machine begins.")
    ] = 0.01
    dropout: Annotated[
        float, "[0, 1)", Doc("Probability to drop an output of a hidden layer while labels are learned.")
    ] = 0.0
    l2: Annotated[
        float, "[0, inf)", Doc("Factor of ``sum W^2 / 2`` over the weights of all layers while labels are learned.")
    ] = 1e-4
    epochs: Annotated[int, "[1, inf)", Doc("Passes over the labeled rows.")] = 100
    batch_size: int | None = 32
    learning_rate: Annotated[float, "(0, inf)", Doc("Step size while labels are learned.")] = 0.003

    @property
    def domain(self) -> Any:
        """Real numbers, or numbers in [0, 1]."""
        if self.visible == "bernoulli":
            return UnitInterval()
        return Real(largest=1e100)

    def check_parameters(self) -> None:
        super().check_parameters()
        check_layers(self.hidden, (128, 128))

    # --- fit ----------------------------------------------------------------------------------------------------------

    def make(self, n_features: int, dtype: str, n_classes: int) -> DBNClassifierModel:
        return DBNClassifierModel(
            n_features, n_classes, self.hidden, self.visible, pretrained=self.pretrain == "rbm", dropout=self.dropout,
            dtype=getattr(torch, dtype),
        )  # fmt: skip

    def initialize(self, model: DBNClassifierModel, examples: Examples, noise: Noise) -> None:
        network = model.network
        initialize(network, self.recipe("initializer"), noise.child("network"))
        output = cast(torch.nn.Linear, network.layers[-1]).weight
        with torch.no_grad():
            output.copy_(self.output_scale * noise.child("output").normal(tuple(output.shape), like=output.detach()))
        mean, deviation = standardization(examples.X, examples.weight)
        if self.visible == "bernoulli":
            mean = np.clip(mean, 0.01, 0.99)
        elif self.standardize:
            network.shift.copy_(torch.from_numpy(mean))
            network.scale.copy_(torch.from_numpy(deviation))
            mean = np.zeros_like(mean)
        if model.stack is not None:
            model.stack.initialize(noise, mean)

    def make_objective(self) -> Supervised:
        return Supervised(CrossEntropyLoss(), l2=self.l2)

    def procedure(self, examples: Any) -> Procedure:
        machines = len(self.hidden) if self.pretrain == "rbm" else 0
        *begun, last = dealt([self.pretrain_epochs] * machines + [self.epochs], self.max_updates)
        recipe = self.recipe("optimizer")
        stages: list[Any] = [
            (f"layer_{k}", GibbsSteps(recipe, self._rate(k), budget), partial(self._layer, k))
            for k, budget in enumerate(begun, 1)
            if budget
        ]
        assert last is not None
        return Stages([*stages, ("labels", Gradient(recipe, self.learning_rate, last), self._labels)])

    def _rate(self, k: int) -> float:
        return self.pretrain_rate * (self.gaussian_rate if k == 1 and self.visible == "gaussian" else 1.0)

    def _layer(self, k: int, whole: Problem) -> Problem:
        """The problem of the machine of layer k, on the means of the layer below."""
        model = on_its_device(whole.model)
        model.stack.begin(k)
        lift = lambda x, _: model.rows_below(k, x)  # noqa: E731
        return layer_problem(whole, k, model.stack.pair(k), lift, self.layout, self.recipe("objective").build())

    def _labels(self, whole: Problem) -> Problem:
        """The problem of the network, on the rows that have labels."""
        model = on_its_device(whole.model)
        if model.stack is not None:
            model.convert()
        examples = cast(Batches, whole.batches).examples
        labeled, noise = examples.take(np.flatnonzero(np.asarray(examples.y) >= 0)), whole.noise.child("labels")
        batches = Batches(labeled, self.layout(labeled), noise=noise).shard(whole.group)
        return replace(whole, model=model.network, batches=batches, noise=noise)

    # --- verbs --------------------------------------------------------------------------------------------------------

    def hidden_outputs(self, X: Any) -> list[Array]:
        """Outputs of the hidden layers for each row, in order, each of shape (n, units)."""
        rows = self._rows(X)
        return list(self.model_.ask("hidden", rows))
