"""The deep belief network: restricted machines stacked on each other, the topmost one kept whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array, Procedure
from gnomon.data.dataset import fingerprint
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Domain, Real, UnitInterval
from gnomon.distributions.harmonium_units import PoissonUnits, TruncatedExponentialUnits
from gnomon.distributions.joined import Joined
from gnomon.distributions.units import BernoulliUnits, CenteredScaledGaussianUnits, Units
from gnomon.distributions.whole import Counts
from gnomon.errors import UserValueError
from gnomon.evaluation.latent_likelihood import latent_log_prob, latent_score
from gnomon.evaluation.partition import log_partition
from gnomon.evaluation.score import Score
from gnomon.inference.arrays import to_numpy
from gnomon.inference.mcmc.gibbs import Clamp, gibbs
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.ops import concatenate
from gnomon.numeric.sparse import in_full
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.base import agreed
from gnomon.system.latent_codes import LatentCodes
from gnomon.systems.energy._binary import check_layers, dealt, layer_problem, on_its_device
from gnomon.systems.energy._columns import ChosenColumns
from gnomon.systems.energy._dbn_cells import FillsByLayers
from gnomon.systems.energy._dbn_model import DBNModel, Normalized
from gnomon.systems.energy._machine import ConfinedSteps, GibbsSteps
from gnomon.systems.energy._up_down import UpDown
from gnomon.systems.energy.deep_chains import DeepChains
from gnomon.systems.energy.layered import EXACT_UNITS
from gnomon.training.context import limited
from gnomon.training.driver import run_procedure
from gnomon.training.gradient import Budget
from gnomon.training.group import current as current_group
from gnomon.training.procedure import Problem
from gnomon.training.small import threads_for
from gnomon.training.stages import Stages

__all__ = ["DBN"]

DRAWS = 64
"""Draws of the inner layers for each row of an importance-weighted bound."""
UNITS: Mapping[str, type[Units]] = {
    "bernoulli": BernoulliUnits, "gaussian": CenteredScaledGaussianUnits, "poisson": PoissonUnits,
    "truncated-exponential": TruncatedExponentialUnits,
}  # fmt: skip


class DBN(FillsByLayers, DeepChains, LatentCodes, ChosenColumns):
    r"""Deep belief network: a restricted Boltzmann machine above directed layers of binary units.

    :math:`p(v, h) = p(v | h_1) p(h_1 | h_2) \cdots p(h_{L-1}, h_L)`. It is learned layer by layer, each restricted
    machine on what the one below makes of the rows (greedy pretraining), and then as a whole: each layer is taught to
    reproduce the one below it, and the way up to find what the way down was drawn from (wake and sleep).

    Columns are bits, or what `visible` says: real numbers with :math:`p(v | h_1) = N(b_0 + W_1 h_1,
    \mathrm{diag}(1 / \beta))`, whose precisions are learned with all else, or members of another exponential family.

    Attributes
    ----------
    weights_ : tuple of arrays
        W of each hidden layer, (units of the layer below, its units), from the rows up.
    biases_ : tuple of arrays
        Of the visible layer and of each hidden one.
    precision_ : array of shape (n_features,)
        1 / variance of each real column given the layer above, in its own units.
    history_ : dict of lists
        By epoch of the layers' machines: ``stage`` (the layer), what their objective watches, ``gradient_norm``; of the
        last stage ``wake`` and ``sleep``, minus the log-probabilities of what was drawn, in nats.

    Notes
    -----
    Of one hidden layer it is the restricted machine. A machine whose upper layer is as large as the lower one of the
    machine below begins as that machine upside down: p(v) is then unchanged, and what the machine gains the bound
    gains. Other sizes begin by chance and have no such guarantee. The way up is not fitted to each row: its bound may
    be loose.

    `evaluate`: ``exact`` up to 12 inner and 20 topmost units; else an importance-weighted ``lower bound`` of 64 draws
    of the way up where log Z of the machine at the top is exact, and an ``estimate`` where it is annealed: less an
    estimate of log Z a bound is none in the strict sense. Of real columns all are densities in the columns' own units;
    `weights_` and `biases_` are in those of the fit, of standardized columns their deviations. Their precisions have a
    limit, `floor`: the density of a column that takes few values would grow without bound. `max_updates` is dealt
    evenly among the stages. Cost per update of a layer O(batch n_l n_{l+1} k).

    References
    ----------
    Hinton, Osindero and Teh (2006), "A fast learning algorithm for deep belief nets"; Salakhutdinov and Murray (2008),
    "On the quantitative analysis of deep belief networks"; Goodfellow, Bengio and Courville (2016), section 20.3.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> network = DBN(hidden=(4, 4), epochs=60, learning_rate=0.5, random_state=0).fit(X)
    >>> network.score(X) > -1.2, network.transform(X).shape
    (True, (100, 8))
    """

    name: ClassVar[str] = "dbn"
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")
    model_class: ClassVar[type] = DBNModel
    domains: ClassVar[Mapping[str, Domain]] = {
        "gaussian": Real(largest=1e100), "poisson": Counts(), "truncated-exponential": UnitInterval(),
    }  # fmt: skip
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"tune_rate": {"tune_epochs": 1}}

    hidden: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...],
        Doc("Units of the hidden layers from the rows up, ``64x64`` on the command line."),
    ] = (64, 64)
    visible: Annotated[
        Literal["bernoulli", "gaussian", "poisson", "truncated-exponential"],
        Doc(
            "What the columns are: bits (or numbers in [0, 1], read as the chances of a 1), real numbers with learned "
            "variances, counts, or numbers from 0 to 1."
        ),
    ] = "bernoulli"
    objective: Annotated[str | Recipe, Doc("How the machine of each layer is learned.")] = "pcd"
    lift: Annotated[
        Literal["draws", "means"],
        Doc("What a machine's rows are: draws of the layer below, or its means, which vary less and bound nothing."),
    ] = "draws"
    epochs: int = 50
    tune_epochs: Annotated[
        int, "[0, inf)", Doc("Passes over the training rows of wake and sleep, all layers together, at the end.")
    ] = 20
    tune_rate: Annotated[float, "(0, inf)", Doc("Step size of wake and sleep, times `learning_rate`.")] = 0.1
    batch_size: int | None = 20
    learning_rate: float = 0.02
    optimizer: str | Recipe = "sgd"

    def make(self, n_features: int, dtype: str, mean: list[float], deviation: list[float] | None = None) -> DBNModel:
        columns, kind = UNITS[self.visible], getattr(torch, dtype)
        return DBNModel(n_features, self.hidden, kind, columns, spread=self._spread(deviation), floor=self.floor)

    def initialize(self, model: DBNModel, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, self._start_mean())

    def _bottom(self) -> Any:
        return self.model_.pair(1)

    # --- fit ----------------------------------------------------------------------------------------------------------

    def check_parameters(self) -> None:
        super().check_parameters()
        check_layers(self.hidden, (64, 64))

    def procedure(self, examples: Any) -> Procedure:
        layers = len(self.hidden)
        *begun, last = dealt([self.epochs] * layers + [self.tune_epochs if layers > 1 else 0], self.max_updates)
        recipe, rate = self.recipe("optimizer"), self.learning_rate
        stages: list[Any] = [
            (f"layer_{k}", GibbsSteps(recipe, rate, budget), partial(self._layer, k))
            for k, budget in enumerate(begun, 1)
            if budget
        ]
        if last is not None:
            stages.append(("tune", ConfinedSteps(recipe, self.tune_rate * rate, last), self._whole))
        return Stages(stages)

    def _layer(self, k: int, whole: Problem) -> Problem:
        """The problem of the machine of layer k, begun from that below it."""
        on_its_device(whole.model).begin(k)
        return self._above(k, whole)

    def _above(self, k: int, whole: Problem) -> Problem:
        """The problem of the machine of layer k, on what the layers below make of the rows."""
        model = on_its_device(whole.model)

        def lift(x: Array, noise: contracts.Noise) -> Array:
            for j in range(1, k):
                layer = model.upward(j, x)
                x = layer.mean if self.lift == "means" else layer.sample(noise, j)
            return x

        return layer_problem(whole, k, model.pair(k), lift, self.layout, self.make_objective())

    def _whole(self, whole: Problem) -> Problem:
        """The problem of wake and sleep."""
        return replace(whole, noise=whole.noise.child("tune"), objective=UpDown(k=1))

    def add_layer(self, X: Any, n_hidden: int, *, sample_weight: Any = None, **options: Any) -> DBN:
        """A network with one more layer, learned on what this one makes of the rows; this one stays as it is.

        The layers below keep their values: the machine that was at the top becomes directed. The new machine is begun
        and learned as in `fit`, so that of as many units as the second layer from the top has (of a single hidden
        layer: the rows) p(v) is unchanged at first and every gain is one of the bound.

        Parameters
        ----------
        X : array of shape (n, n_features)
            The columns that the network was fitted to.
        n_hidden : int, in [1, inf)
            Units of the new layer.
        sample_weight : array of shape (n,), optional
        **options
            Hyper-parameters of the new machine's fit where they are to differ from this network's: ``epochs``,
            ``learning_rate``, ``objective``, ``lift``, ``random_state`` ...

        Returns
        -------
        DBN
            Fitted, with ``hidden`` one longer. `history_` is that of the new layer.

        Raises
        ------
        UserError
            Other columns, no units, an option that would change the layers below.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
        >>> network = DBN(hidden=(4,), epochs=60, learning_rate=0.5, random_state=0).fit(X)
        >>> taller = network.add_layer(X, 4)
        >>> taller.hidden, bool((taller.weights_[0] == network.weights_[0]).all())
        ((4, 4), True)
        """
        check_is_fitted(self)
        for name in ("hidden", "visible", "standardize", "floor", "dtype"):
            if name in options:
                raise UserValueError(f"{name} is that of the layers below", name, "leave it out")
        rows = self._rows(X)
        taller = clone(self).set_params(**options, hidden=(*self.hidden, n_hidden))
        taller.check_parameters()
        examples = taller.ingest(rows, None, sample_weight)
        taller._stand_on(self, examples)
        return taller

    def _stand_on(self, below: DBN, examples: Examples) -> None:
        """Become a fitted network, and learn the machine above it."""
        for name in ("n_features_in_", "feature_names_in_", "preparation_"):
            if hasattr(below, name):
                setattr(self, name, getattr(below, name))
        self.arguments_, group, layer = dict(below.arguments_), current_group(), len(self.hidden)
        self.seed_ = agreed(seed_of(self.random_state), group)
        noise = Noise(self.seed_, "add-layer")
        model = self._allocate(**self.arguments_)
        model.initialize(noise.child("initial"))
        model.stand_on(below.model_)
        steps = GibbsSteps(self.recipe("optimizer"), self.learning_rate, Budget.of(self.epochs, self.max_updates))
        problem = self._above(layer, self.problem(model, examples, noise, group))
        with limited(threads_for(model, problem.batches, group), torch_alone=self.numpy_products):
            outcome = run_procedure(steps, problem, name=self.name)
        self._set_fitted(model, outcome)

    # --- the hidden layers --------------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return sum(self.model_.sizes[1:])

    def transform(self, X: Any, *, method: Literal["mean", "map"] = "mean") -> Array:
        """Means of all hidden layers side by side, each from those of the layer below, or their most probable states.

        Parameters
        ----------
        X : array of shape (n, n_features)
        method : {"mean", "map"}, default "mean"
            Means are those of the way up. ``map`` is of the network itself: the state of all hidden layers that is most
            probable given the row, exact up to 12 units below the topmost layer and refused beyond.

        Returns
        -------
        array of shape (n, units of all hidden layers)
        """
        return super().transform(X, method=method)

    def latent_posterior(self, rows: Array) -> Joined:
        """Of the way up, each layer given the means of the one below it: an approximation above the lowest of one."""
        return Joined.of(self.model_.layers_up(self._scaled(in_full(rows))))

    def latent_means(self, rows: Array) -> Array:
        return concatenate(self.model_.means_up(self._scaled(rows)), axis=1)

    def latent_modes(self, rows: Array) -> Array:
        return self.model_.modes(self._scaled(rows))

    # --- draws --------------------------------------------------------------------------------------------------------

    def sample(self, n: int = 1, *, steps: int = 1000, means: bool = False, random_state: Any = None) -> Array:
        """n rows: `steps` sweeps of the machine at the top, begun at the data's means, then one pass down.

        They follow the distribution that the way down makes of that machine, the network's p(v), and not that of the
        machine which was fitted to the rows first. With `means` the last step gives E[v | h_1] in place of a draw: rows
        without the noise of their columns, which do not follow the density.
        """
        found = self.sample_layers(n, steps=steps, random_state=random_state)
        return self.from_visible(self.model_.downward(1, found[1]).mean) if means else found[0]

    def sample_layers(
        self, n: int = 1, *, steps: int = 1000, start: Any = None, clamp: Clamp | None = None, random_state: Any = None
    ) -> list[Array]:
        """Draws of all layers: chains on the machine at the top, then each layer below once, given the one above it.

        Parameters
        ----------
        n : int, default 1
        steps : int, default 1000
            Sweeps of the machine at the top; no other layer has to forget its start.
        start : array of shape (n, units of the last layer but one), optional
            Where the chains begin: what an earlier call gave for that layer lets them go on. By default what the way up
            makes of independent columns that have the data's means.
        clamp : mapping of str to (value, mask), optional
            Units of the two topmost layers, ``hidden_<L - 1>`` and ``hidden_<L>``, that are held; see
            `gnomon.inference.mcmc.gibbs.gibbs`.
        random_state : int, Generator or None

        Returns
        -------
        list of arrays
            The rows, then each hidden layer from the lowest to the topmost.
        """
        check_is_fitted(self)
        n, model, seed = how_many(n), self.model_, seed_of(random_state)
        top, upper = model.pair(model.depth), f"hidden_{model.depth}"
        lower = f"hidden_{model.depth - 1}"
        noise = Noise(seed, "sample").rows(np.arange(n))
        if start is None:
            begun = self._start(max(n, 1), Noise(seed, "sample/start"))[:n]
            start = model.draw_up(begun, noise.child("up"))[-1]
        start = model.place(start)
        if tuple(start.shape) != (n, model.sizes[-2]):
            what = f"start must have the shape {(n, model.sizes[-2])}, got {tuple(start.shape)}"
            raise UserValueError(what, "start", f"give states of {lower}")
        upward = top.conditional(upper, {lower: start}).sample(noise.child("start"))
        state = gibbs(
            top, {lower: start, upper: upward}, noise.child("gibbs"), steps=how_many(steps, "steps"),
            order=(upper, lower), clamp=clamp,
        )  # fmt: skip
        found = [*model.draw_down(state[lower], noise.child("down")), state[upper]]
        return [self.from_visible(found[0]), *found[1:]]

    # --- evidence -----------------------------------------------------------------------------------------------------

    def log_partition(self, method: str = "auto", *, X: Any = None, **options: Any) -> Score:
        """log Z of the machine at the top in nats: exact up to 20 units in a layer, else annealed.

        It is that in the model's own units: of one hidden layer over standardized columns less the log of their scale.
        Methods and options are those of `gnomon.log_partition`. The base has no couplings, and the means that the way
        up makes of those of the training data. Rows `X`, as `fit` takes them, are where the method "bracket" begins
        too, as far up as the way up takes them.
        """
        check_is_fitted(self)
        noise = Noise(self.seed_, "evaluate/log-partition")
        states = None if X is None else self._risen(X, noise)
        key = f"log_partition/{method}/{sorted(options.items())}/{'' if states is None else fingerprint(states)}"
        if key not in self._memory:
            model = self.model_
            mean = self.model_.place(self._start_mean()[None])
            for k in range(1, model.depth):
                mean = model.upward(k, mean).mean
            self._memory[key] = log_partition(
                model.pair(model.depth), method=method, noise=noise, limit=EXACT_UNITS, base_mean=mean[0], rows=states,
                **options,
            )  # fmt: skip
        return self._memory[key]

    def _risen(self, X: Any, noise: contracts.Noise) -> Array | None:
        """States of the lower layer of the machine at the top, drawn on the way up from the rows without gaps."""
        states = self._beginnings(X)
        if states is None:
            return None
        x = self.model_.place(states)
        for k in range(1, self.model_.depth):
            x = self.model_.upward(k, x).sample(noise.child(f"up/{k}"), 0)
        return np.asarray(to_numpy(x))

    @available_if(lambda self: not hasattr(self, "model_") or hasattr(self.model_, "log_prob"))
    def log_prob(self, X: Any) -> Array:
        """Exact log p(v) of rows in nats; networks too large for it have `evaluate`, which says what it gives."""
        return self.model_.log_prob(self._judged(X)) - self._log_volume

    def log_prob_bound(self, X: Any, *, draws: int = 100, random_state: Any = 0) -> Array:
        """Lower bound E_q[log p(x, h) - log q(h | x)] of each row in nats, shape (n,), q being the way up.

        Exact where `log_prob` is; else the mean of `draws` draws, and as exact as `log_partition` is.
        """
        rows = self._judged(X)
        if hasattr(self.model_, "exact_bound"):
            return self.model_.exact_bound(rows) - self._log_volume
        view: Any = Normalized(self.model_, self.log_partition().value + self._log_volume)
        noise = Noise(seed_of(random_state), "bound")
        return latent_log_prob(view, view, rows, 1, noise, repeats=how_many(draws, "draws")).value

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """The likelihood of the rows: exact, or an importance-weighted lower bound, with the error of log Z."""
        if hasattr(self, "log_prob"):
            return super().evaluate(X, y)
        rows = self._judged(X)
        log_z, space = self.log_partition(), self.outcomes.space(rows.shape[1])
        view: Any = Normalized(self.model_, log_z.value + self._log_volume)
        found = latent_score(view, view, rows, DRAWS, Noise(self.seed_, "evaluate"), data_space=space)
        if log_z.kind == "exact":
            return {self.primary: found}
        note = f"{found.note}; less an estimate of log Z: no bound in the strict sense; {log_z.note}"
        error = math.hypot(found.error, log_z.error)
        return {self.primary: replace(found, kind="estimate", error=error, note=note)}

    def _judged(self, X: Any) -> Array:
        """Rows that have a probability or a density, in the model's units."""
        return self._scaled(self.outcomes.check(self._rows(X)))

    @property
    def weights_(self) -> tuple[Array, ...]:
        """W of each hidden layer."""
        state = self.model_.state()
        return tuple(state[f"weight_{k}"] for k in range(1, self.model_.depth + 1))

    @property
    def biases_(self) -> tuple[Array, ...]:
        """Biases of the visible layer and of each hidden one."""
        state = self.model_.state()
        return tuple(state[f"bias_{k}"] for k in range(self.model_.depth + 1))
