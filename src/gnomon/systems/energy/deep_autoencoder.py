"""The autoencoder whose layers are begun by a stack of restricted Boltzmann machines, unrolled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from gnomon import contracts
from gnomon.contracts import Array, Group, Procedure
from gnomon.data.batches import Batch, Batches
from gnomon.data.examples import Examples
from gnomon.distributions.domains import UnitInterval
from gnomon.distributions.units import BernoulliUnits, GaussianUnits
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.nn.activations import Sigmoid
from gnomon.nn.initializers import Initializer, initialize
from gnomon.nn.mlp import MLPModel
from gnomon.nn.module import Module
from gnomon.numeric.noise import seed_of
from gnomon.objectives.base import Phase
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.objectives.losses import BinaryCrossEntropy
from gnomon.objectives.supervised import Supervised
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import check_layer_sizes
from gnomon.recipes.recipe import Recipe
from gnomon.system.codes import HasCodes
from gnomon.system.fields import GradientSteps, HasDtype
from gnomon.system.partial_fit import OnlineModel
from gnomon.systems.energy._binary import dealt, layer_problem, on_its_device
from gnomon.systems.energy._dbn_model import DBNModel
from gnomon.systems.energy._machine import GibbsSteps
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.training.driver import FitResult
from gnomon.training.gradient import Budget, Gradient
from gnomon.training.procedure import Problem
from gnomon.training.stages import Stages

__all__ = ["DeepAutoencoder", "DeepAutoencoderModel"]


class DeepAutoencoderModel(Module):
    r"""z = c_L + h_{L-1} W_L above h_k = sigmoid(c_k + h_{k-1} W_k); down again from z by V_L, ..., V_1 and b_k.

    Parameters
    ----------
    n_features : int
    hidden : sequence of int
        Units of each layer of the way up, the last one those of the code.
    dtype : torch.dtype

    Notes
    -----
    `encoder` and `decoder` are the network; `stack` holds the machines that begin it, the topmost one with normal
    hidden units. Unrolled (`unroll`), V_k is the transpose of W_k, c_k and b_{k-1} are the biases of the upper and of
    the lower layer of machine k; afterwards all of them go their own ways.
    """

    def __init__(self, n_features: int, hidden: Sequence[int], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        *inner, code = hidden
        self.encoder = MLPModel(n_features, code, inner, Sigmoid(), 0.0, False, dtype)
        self.decoder = MLPModel(code, n_features, inner[::-1], Sigmoid(), 0.0, False, dtype)
        self.stack = DBNModel(n_features, hidden, dtype, top=GaussianUnits)

    @property
    def n_parameters(self) -> int:
        """Of the network, which is what answers."""
        return self.encoder.n_parameters + self.decoder.n_parameters

    @property
    def matrices(self) -> list[torch.Tensor]:
        """Weights of all layers, which penalties act on."""
        return [*self.encoder.matrices, *self.decoder.matrices]

    def place(self, x: Array) -> Array:
        """Rows where the model computes, in its dtype."""
        return self.stack.place(x)

    def rows_below(self, k: int, x: Array) -> Array:
        """What rows are to the machine of layer k: themselves, or the means of layer k - 1."""
        return self.stack.means_up(x, k - 1)[-1] if k > 1 else x

    def unroll(self) -> None:
        """Give the network the machines: their couplings upwards, the transposed ones downwards, their biases."""
        self.stack.adopt(self.stack.depth)
        down = [self.stack.get_parameter(f"bias_{k}") for k in range(self.stack.depth)]
        with torch.no_grad():
            for k, (weight, bias) in enumerate(self.stack.way_up()):
                above, below = f"layers.{k}", f"layers.{self.stack.depth - 1 - k}"
                self.encoder.get_parameter(f"{above}.weight").copy_(weight.T)
                self.encoder.get_parameter(f"{above}.bias").copy_(bias)
                self.decoder.get_parameter(f"{below}.weight").copy_(weight)
                self.decoder.get_parameter(f"{below}.bias").copy_(down[k])

    def codes(self, x: torch.Tensor) -> torch.Tensor:
        """Codes of rows, linear in the layer below them, shape (n, n_latent)."""
        return self.encoder.scores(x)

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Log-odds of the reconstruction, shape (n, n_features)."""
        return self.decoder.scores(self.encoder.scores(x))

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        """The rows that codes stand for, shape (n, n_features)."""
        return self.decoder.scores(z).sigmoid()

    def reconstruct(self, x: torch.Tensor) -> torch.Tensor:
        """Rows after they went through their codes, shape (n, n_features)."""
        return self.logits(x).sigmoid()


class _Reconstruction(Supervised):
    """The cross-entropy of rows and their reconstructions, which moves the network and leaves the machines alone."""

    def phases(self, model: DeepAutoencoderModel) -> dict[str, Phase]:
        """One phase, of the network."""
        return {self.default_phase: Phase([*model.encoder.parameters(), *model.decoder.parameters()])}


class DeepAutoencoder(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, OnlineModel, HasCodes, GradientSteps, HasDtype
):  # fmt: skip
    r"""Autoencoder of several layers that a stack of restricted Boltzmann machines begins: nonlinear short codes.

    Each layer of the way up is begun by a restricted Boltzmann machine on the means of the layer below, the code layer
    by one with normal hidden units of variance 1. Unrolled, their couplings make a network,
    :math:`h_k = \sigma(c_k + h_{k-1} W_k)`, :math:`z = c_L + h_{L-1} W_L` and back down with the transposed ones,
    which back-propagation of the cross-entropy of rows and reconstructions then moves as a whole.

    Attributes
    ----------
    history_ : dict of lists
        By epoch: ``stage`` (the layer that is begun; the last is the network), what the machines' objective watches,
        then ``cross_entropy`` (nats per row), ``l2``, ``gradient_norm``.

    Notes
    -----
    The code is linear, so it has no limits that would squash it. Means, not draws, go up and down. `from_rbms` unrolls
    machines that have been fitted before; `partial_fit` then goes on from there. It has no other use of the machines:
    a stream of chunks begins the network by chance, as ``pretrain_epochs=0`` does.

    `score` is minus the mean cross-entropy in nats per row; `evaluate` has the mean squared error of a cell beside it,
    which principal components of as many numbers can be compared by. `max_updates` is dealt evenly among the stages.
    A machine with normal hidden units takes smaller steps, ``code_rate`` times those of the others. Cost per update
    of a machine O(batch n_l n_{l+1} k), of the network O(batch weights).

    References
    ----------
    Hinton and Salakhutdinov (2006), "Reducing the dimensionality of data with neural networks".

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> network = DeepAutoencoder(hidden=(4,), n_latent=1, epochs=50, random_state=0).fit(X)
    >>> network.transform(X).shape, (network.reconstruct(X).round() == X).all().item()
    ((100, 1), True)
    """

    name: ClassVar[str] = "deep-autoencoder"
    tasks: ClassVar[tuple[str, ...]] = ("represent",)
    model_class: ClassVar[type] = DeepAutoencoderModel
    domain = UnitInterval()
    primary: ClassVar[str] = "reconstruction_log_likelihood"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"objective": EnergyObjective, "initializer": Initializer}
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"initializer": {"pretrain_epochs": 0}}
    numpy_products: ClassVar[bool] = True

    hidden: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...],
        Doc(
            "Units of the layers between rows and codes from the rows up, ``256x128`` on the command line; () is none."
        ),
    ] = (128,)
    pretrain_epochs: Annotated[
        int, "[0, inf)", Doc("Passes over the rows for each layer's machine; 0 begins the network by chance.")
    ] = 20
    pretrain_rate: Annotated[float, "(0, inf)", Doc("Step size of the machines.")] = 0.03
    code_rate: Annotated[
        float, "(0, inf)", Doc("Step size of the machine of the code layer, times `pretrain_rate`.")
    ] = 0.1
    objective: Annotated[str | Recipe, Doc("How the machine of each layer is learned.")] = "cd"
    initializer: Annotated[
        str | Recipe, Doc("First weights of a network that no machine begins; see `gnomon.nn.initializers`.")
    ] = "xavier-uniform"
    l2: Annotated[
        float, "[0, inf)", Doc("Factor of ``sum W^2 / 2`` over the weights of the network, as it learns as a whole.")
    ] = 0.0
    epochs: Annotated[int, "[1, inf)", Doc("Passes over the rows of the network as a whole.")] = 50
    batch_size: int | None = 32
    learning_rate: Annotated[float, "(0, inf)", Doc("Step size of the network as a whole.")] = 0.005

    def check_parameters(self) -> None:
        super().check_parameters()
        check_layer_sizes(self.hidden)

    @classmethod
    def from_rbms(cls, rbms: Sequence[Any], **options: Any) -> Self:
        """The network that fitted machines make, unrolled: its reconstruction is their pass of means up and down.

        Parameters
        ----------
        rbms : sequence of fitted systems
            From the rows up, each on the hidden means of the one below: `rbm` of bits, or `harmonium` of
            ``visible="bernoulli"``; the topmost one a `harmonium` with ``hidden="gaussian"``.
        **options
            Hyper-parameters of the network but its sizes, such as ``learning_rate``.

        Returns
        -------
        DeepAutoencoder
            Fitted, before any step of its own: `partial_fit` goes on from there, `fit` begins with machines of its own.

        Raises
        ------
        UserTypeError, UserValueError
            No machines, one of other units, or sizes that do not follow each other.

        Examples
        --------
        >>> import numpy as np, gnomon
        >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
        >>> first = gnomon.RBM(n_hidden=4, epochs=5, random_state=0).fit(X)
        >>> code = gnomon.Harmonium(visible="bernoulli", hidden="gaussian", n_hidden=1, epochs=5, random_state=0)
        >>> network = DeepAutoencoder.from_rbms([first, code.fit(first.transform(X) > 0.5)], random_state=0)
        >>> network.transform(X).shape, network.partial_fit(X).n_steps_
        ((100, 1), 4)
        """
        if not isinstance(rbms, list | tuple):
            raise UserTypeError.must("rbms", "be a list of fitted machines, from the rows up", rbms)
        machines = [_machine(one, number, len(rbms)) for number, one in enumerate(rbms, 1)]
        if not machines:
            raise UserValueError("rbms must hold at least one machine, got none", "rbms", "give them from the rows up")
        for number, (lower, upper) in enumerate(pairwise(machines), 2):
            if upper.sizes["visible"] != lower.sizes["hidden"]:
                what = f"machine {number} takes {upper.sizes['visible']} columns, the one below has "
                what += f"{lower.sizes['hidden']} hidden units"
                raise UserValueError(what, "rbms", "fit each to what `transform` of the one below gives")
        *hidden, code = (int(one.sizes["hidden"]) for one in machines)
        found = cls(hidden=tuple(hidden), n_latent=code, **options)
        found.check_parameters()
        found._adopt(rbms[0], machines)
        return found

    def _adopt(self, lowest: Any, machines: Sequence[LayeredMachine]) -> None:
        """Become the unrolled network of these machines, of columns as the lowest one has them."""
        self.seed_ = seed_of(self.random_state)
        dtype = self.dtype or lowest.arguments_["dtype"]
        self.arguments_ = {"n_features": machines[0].sizes["visible"], "dtype": dtype}
        for name in ("n_features_in_", "feature_names_in_", "preparation_"):
            if hasattr(lowest, name):
                setattr(self, name, getattr(lowest, name))
        model = self.make(**self.arguments_)
        for k, machine in enumerate(machines, 1):
            _lend(machine, model.stack.pair(k), k)
        model.unroll()
        self._set_fitted(model, FitResult(0, []))

    # --- fit ----------------------------------------------------------------------------------------------------------

    def make(self, n_features: int, dtype: str) -> DeepAutoencoderModel:
        return DeepAutoencoderModel(n_features, (*self.hidden, self.n_latent), getattr(torch, dtype))

    def initialize(self, model: DeepAutoencoderModel, examples: Examples, noise: contracts.Noise) -> None:
        for part in ("encoder", "decoder"):
            initialize(model.get_submodule(part), self.recipe("initializer"), noise.child(part))
        mean = np.average(examples.X.astype(np.float64), axis=0, weights=examples.weight.astype(np.float64))
        model.stack.initialize(noise, np.clip(mean, 0.01, 0.99))

    def make_objective(self) -> Supervised:
        return _Reconstruction(BinaryCrossEntropy(), outputs="logits", name="cross_entropy", l2=self.l2)

    def problem(
        self, model: Any, examples: Any, noise: contracts.Noise, group: Group, validation: Any = None
    ) -> Problem:
        """The rows are their own targets."""
        batches = Batches(examples, self.layout(examples), noise=noise, transform=_with_targets).shard(group)
        return Problem(model, batches, noise, group, self.make_objective())

    def procedure(self, examples: Any) -> Procedure:
        layers = len(self.hidden) + 1
        *begun, last = dealt([self.pretrain_epochs] * layers + [self.epochs], self.max_updates)
        stages: list[Any] = [
            (f"layer_{k}", GibbsSteps(self.recipe("optimizer"), self._rate(k), budget), partial(self._layer, k))
            for k, budget in enumerate(begun, 1)
            if budget
        ]
        assert last is not None
        return Stages([*stages, ("network", self._steps(last), self._whole)])

    def _steps(self, budget: Budget) -> Gradient:
        return Gradient(self.recipe("optimizer"), self.learning_rate, budget)

    def _chunk_procedure(self, examples: Any) -> Procedure:
        """Of the network alone: what begins it needs all rows."""
        return self._steps(Budget.of(self.epochs, self.max_updates))

    def _rate(self, k: int) -> float:
        return self.pretrain_rate * (self.code_rate if k > len(self.hidden) else 1.0)

    def _layer(self, k: int, whole: Problem) -> Problem:
        """The problem of the machine of layer k, on the means of the layer below."""
        model = on_its_device(whole.model)
        model.stack.begin(k)
        lift = lambda x, _: model.rows_below(k, x)  # noqa: E731
        return layer_problem(whole, k, model.stack.pair(k), lift, self.layout, self.recipe("objective").build())

    def _whole(self, whole: Problem) -> Problem:
        """The problem of the network, unrolled where machines have begun it."""
        if self.pretrain_epochs:
            on_its_device(whole.model).unroll()
        return replace(whole, noise=whole.noise.child("network"))

    # --- verbs --------------------------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return self.n_latent

    def transform(self, X: Any) -> Array:
        """Codes of the rows, shape (n, n_latent)."""
        codes: Array = self.model_.ask("codes", self._rows(X))
        return codes

    def inverse_transform(self, Z: Any) -> Array:
        """The rows that codes stand for, numbers in [0, 1] of shape (n, n_features)."""
        return self._in_units(self.model_.ask("decode", self._codes(Z)))

    def reconstruct(self, X: Any) -> Array:
        """Rows after they went through their codes, numbers in [0, 1] of shape (n, n_features)."""
        return self._in_units(self.model_.ask("reconstruct", self._rows(X)))

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """``reconstruction_log_likelihood`` and ``squared_error``, how much of the rows their codes keep.

        The first is minus the cross-entropy of a row and its reconstruction, in nats: log p(row | code) of rows of 0
        and 1. The second is the mean over the cells of a row.
        """
        rows = self._rows(X)
        field = self.model_.ask("logits", rows).astype(np.float64)
        cells = rows.astype(np.float64)
        loss = np.logaddexp(0, field) - cells * field
        error = np.square(cells - 1 / (1 + np.exp(-field))).mean(1)
        space = self.domain.space(rows.shape[1])
        return {
            self.primary: Score.from_pointwise(-loss.sum(1), name=self.primary, unit="nats", data_space=space),
            "squared_error": Score.from_pointwise(
                error, name="squared_error", unit="squared units", data_space=space, higher_is_better=False
            ),
        }


def _with_targets(batch: Batch, noise: contracts.Noise) -> Batch:
    """A batch whose rows are what they are to become."""
    return Batch({**batch.data, "y": batch.data["X"]}, batch.rows, batch.positions, batch.weight)


def _machine(system: Any, number: int, last: int) -> LayeredMachine:
    """The fitted machine of a system, or the refusal of one that a layer cannot be begun by."""
    model = getattr(system, "model_", None)
    if not isinstance(model, LayeredMachine) or set(model.blocks) != {"visible", "hidden"}:
        what = f"machine {number} must be a fitted restricted Boltzmann machine, got {type(system).__name__}"
        raise UserTypeError(what, "rbms", "fit rbm or harmonium first")
    wanted = GaussianUnits if number == last else BernoulliUnits
    kinds = {"visible": BernoulliUnits, "hidden": wanted}
    for layer, kind in kinds.items():
        if type(model.units[layer]) is not kind:
            what = f"the {layer} units of machine {number} must be {kind.__name__}, got {model.units[layer]!r}"
            raise UserValueError(what, "rbms", "take rbm, and at the top harmonium with hidden='gaussian'")
    return model


def _lend(machine: LayeredMachine, pair: LayeredMachine, k: int) -> None:
    """Copy a machine's parameters to the pair of layers k - 1 and k of a stack."""
    state, link = machine.state(), machine.links[0]
    weight = link.matrix({short: state[name] for short, name in link.names.items()})
    lower, upper = f"hidden_{k - 1}", f"hidden_{k}"
    values = {f"{lower}_{upper}_weight": weight, f"{lower}_bias": state["visible_bias"]}
    with torch.no_grad():
        for name, value in (values | {f"{upper}_bias": state["hidden_bias"]}).items():
            pair.get_parameter(name).copy_(torch.as_tensor(np.ascontiguousarray(value)))
