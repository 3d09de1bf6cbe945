"""What systems around an energy machine of two layers share: the fit, chains, log Z, likelihood, codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array, Distribution, Group, Procedure
from gnomon.data.dataset import fingerprint
from gnomon.data.examples import Examples
from gnomon.data.preprocessing import standardization
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.domains import UnitInterval
from gnomon.errors import Diverged, UserValueError
from gnomon.evaluation.density import density_score
from gnomon.evaluation.likelihood import log_likelihood_bound
from gnomon.evaluation.partition import log_partition
from gnomon.evaluation.score import Score
from gnomon.inference.arrays import convert, to_numpy
from gnomon.inference.blocks import bits, smallest_keep
from gnomon.inference.exact.modes import most_probable
from gnomon.inference.exact.moments import posterior_moments
from gnomon.inference.exact.of_block import posterior_of_block
from gnomon.inference.mcmc.gibbs import gibbs, mean_field
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.sparse import by_rows, in_full, is_sparse
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.base import System
from gnomon.system.densities import with_signature
from gnomon.system.fields import GradientSteps, HasDtype, Standardized
from gnomon.system.latent_codes import LatentCodes
from gnomon.system.partial_fit import OnlineModel
from gnomon.system.verbs import verb
from gnomon.systems.energy._missing import FillsMachineGaps
from gnomon.systems.energy.layered import EXACT_UNITS
from gnomon.training.gradient import Budget, Gradient
from gnomon.training.procedure import Info, Problem
from gnomon.training.stretches import go_on

__all__ = [
    "ConfinedSteps", "DensityMachine", "EnergyMachine", "GibbsSteps", "JudgedMachine", "MachineSystem", "RowMachine",
    "StandardizedMachine",
    "TwoLayerMachine", "coupled_start", "posterior_means", "posterior_modes",
    "posterior_of_bits",
]  # fmt: skip

EXACT_HIDDEN = 12
"""log2 of the hidden states that are enumerated for each row, for posterior means."""
FROZEN_WEIGHT = 1e3
"""A weight beyond which a unit's odds pass exp(1000): the chains stand still."""


class ConfinedSteps(Gradient):
    """Gradient steps after each of which a model that limits its parameters puts them back."""

    def stretch(self, state: Any, most: float) -> tuple[int, Info]:
        """Up to `most` updates at once, none of them an epoch's last."""
        return go_on(self, state, most)

    def step(self, state: Any) -> tuple[Any, Info]:
        """One update, within the limits."""
        state, info = super().step(state)
        model = state.problem.model
        if hasattr(model, "confine"):
            model.confine()
        return state, info


class GibbsSteps(ConfinedSteps):
    """Steps that ended in vain where a weight is so large that no unit changes."""

    def step(self, state: Any) -> tuple[Any, Info]:
        """One update."""
        state, info = super().step(state)
        if not info.done:
            return state, info
        model = getattr(state.problem.model, "machine", state.problem.model)
        values = model.views()
        weights = (values[name] for link in model.links for name in link.names.values())
        largest = max((float(np.abs(weight).max(initial=0)) for weight in weights), default=0.0)
        if largest > FROZEN_WEIGHT:
            what = f"a weight has grown to {largest:.3g}: units no longer change and the fit means nothing"
            raise Diverged(what, f"step {state.update}", "lower the learning rate")
        return state, info


class MachineSystem(GradientSteps, HasDtype, System):
    """Base of the systems whose model is a `LayeredMachine` with a layer ``visible``.

    A subclass gives `make`, `initialize` and ``arguments_["mean"]``, the means of the training data in the model's
    units. One that computes in other units than the data's says `_scaled`, `_unscaled` and `_log_volume`.
    """

    slots: ClassVar[Mapping[str, type[Recipe]]] = {"objective": EnergyObjective}
    numpy_products: ClassVar[bool] = True

    objective: Annotated[
        str | Recipe,
        Doc("Training principle: chains, conditionals or ratios of binary rows, exact gradient of a small machine."),
    ] = "pcd"

    # --- what a subclass may say --------------------------------------------------------------------------------------

    def _scaled(self, rows: Array) -> Array:
        """Rows in the units that the model computes in."""
        return rows

    def _unscaled(self, rows: Array) -> Array:
        """Rows of the model in the units of the data."""
        return rows

    @property
    def _log_volumes(self) -> Array:
        """Log of the units of the columns."""
        return np.zeros(self.n_features_in_)

    @property
    def _log_volume(self) -> float:
        """By what log Z grows in the units of the data."""
        return float(self._log_volumes.sum())

    def _start_mean(self) -> Array:
        """Means of the training data, in the model's units."""
        return np.array(self.arguments_["mean"])

    def _start(self, n: int, noise: contracts.Noise) -> Array:
        """Where n chains begin: independent columns that have the data's means."""
        base, sizes = self.model_.base(self._start_mean()), self.model_.sizes
        blank = {block: self.model_.place(np.zeros((n, size))) for block, size in sizes.items()}
        return base.conditional("visible", blank).sample(noise, 0)

    # --- states of the visible layer ----------------------------------------------------------------------------------

    def to_visible(self, X: Any) -> Array:
        """Rows as states of the model's visible layer, in the units that it computes in."""
        return self._scaled(in_full(self._rows(X)))

    def from_visible(self, states: Array) -> Array:
        """Rows in the units of the data, shape (n, n_features), of states (n, units) of the model's visible layer."""
        return self._in_units(self._unscaled(states))

    def _beginnings(self, X: Any) -> Array | None:
        """States of the visible layer of the rows without missing cells, for chains to begin at; None without any."""
        states = np.asarray(to_numpy(self.to_visible(X)))
        whole = states[np.isfinite(states).all(1)]
        return whole if len(whole) else None

    # --- fit ----------------------------------------------------------------------------------------------------------

    def make_objective(self) -> Any:
        return self.recipe("objective").build()

    def procedure(self, examples: Any) -> Procedure:
        return GibbsSteps(self.recipe("optimizer"), self.learning_rate, Budget.of(self.epochs, self.max_updates))

    # --- evidence -----------------------------------------------------------------------------------------------------

    @property
    def mixing_ratio_(self) -> float:
        """Whether the chains of the fit moved together over its last updates, `gnomon.inference.mcmc.mixing_ratio`.

        About 1 where they have mixed, much larger where the learning rate is too high for them. Of fits that were
        watched (``--monitor``, ``gnomon.training.context.context(monitor=True)``) and draw persistent chains.
        """
        chains = self.outcome_.inside.get("chains") if hasattr(self, "outcome_") else None
        if chains is None:
            raise AttributeError("mixing_ratio_ is of fits with persistent chains under context(monitor=True) alone")
        return float("inf") if chains["mixing_ratio"] is None else float(chains["mixing_ratio"])

    @property
    def log_z_(self) -> Score:
        """log Z in nats as it was followed through the fit, with its error: `PartitionTracker`.

        Of fits that were watched (``--monitor``) by chains at several temperatures (``objective="tempered"``).
        """
        found = self.outcome_.inside.get("log_z") if hasattr(self, "outcome_") else None
        if found is None:
            raise AttributeError("log_z_ is of fits by the objective tempered under context(monitor=True) alone")
        value = found["value"] + self._log_volume
        return Score(value, error=found["error"], kind="estimate", name="log_partition")

    def log_partition(self, method: str = "auto", *, X: Any = None, **options: Any) -> Score:
        """log Z in nats: exact up to 20 units in the smaller layer, else by annealed importance sampling.

        Methods and options are those of `gnomon.log_partition`; the base has the means of the training data. Rows `X`,
        as `fit` takes them, are where the method "bracket" begins too.
        """
        check_is_fitted(self)
        states = None if X is None else self._beginnings(X)
        key = f"log_partition/{method}/{sorted(options.items())}/{'' if states is None else fingerprint(states)}"
        if key not in self._memory:
            noise = Noise(self.seed_, "evaluate/log-partition")
            score = log_partition(
                self.model_,
                method=method,
                noise=noise,
                limit=EXACT_UNITS,
                base_mean=self._start_mean(),
                rows=states,
                **options,
            )
            self._memory[key] = replace(score, value=score.value + self._log_volume)
        return self._memory[key]


class EnergyMachine(LatentCodes, MachineSystem):
    """Base of the machines that have a layer ``hidden`` too, whose means are codes of the rows."""

    @property
    def _n_features_out(self) -> int:
        return cast(int, self.model_.sizes["hidden"])

    def latent_posterior(self, rows: Array) -> Distribution:
        """p(h | v), exact where hidden units are independent given a row or few enough to be enumerated."""
        return self._hidden_posterior(self._scaled(in_full(rows)))

    def latent_means(self, rows: Array) -> Array:
        """P(h = 1 | v) of bits, shape (n, n_hidden)."""
        return self._hidden_means(self._scaled(rows))

    def latent_modes(self, rows: Array) -> Array:
        """The most probable hidden states, all layers taken together."""
        return cast(Array, by_rows(self._hidden_modes, self._scaled(rows)))

    def _hidden_posterior(self, rows: Array) -> Distribution:
        return self.model_.conditional("hidden", {"visible": rows})

    def _hidden_means(self, rows: Array) -> Array:
        means = by_rows(lambda part: self.model_.conditional("hidden", {"visible": part}).mean, rows)
        return cast(Array, means)

    def _hidden_modes(self, rows: Array) -> Array:
        """The codes of the most probable states of the hidden layers given dense rows, in the model's units."""
        return posterior_modes(self.model_, rows)["hidden"]


class JudgedMachine(MachineSystem, OnlineModel):
    """Base of the machines whose visible layer is the data: energies and the likelihood of rows."""

    def _outcomes(self, X: Any) -> Array:
        """Rows that have a probability (or density), in the units of the data."""
        rows = self._rows(X)
        return self.outcomes.ingest_sparse(rows).values if is_sparse(rows) else self.outcomes.check(rows)

    def _presentations(self, X: Any) -> list[Array]:
        """What is judged of the rows: themselves, or several draws of what they are the chances of."""
        return [self._outcomes(X)]

    @verb
    def energy(self, X: Any) -> Array:
        """-log sum over the hidden units of exp(-E) of each row in nats: log p(x) = -energy(x) - log_partition()."""
        return self.model_.energy(self._scaled(self._rows(X)))

    @available_if(lambda self: hasattr(self, "energy"))
    def free_energy(self, X: Any) -> Array:
        """-log sum over the hidden units of exp(-E(x, h)) of each row in nats, shape (n,): the `energy` of the row."""
        return self.energy(X)

    @available_if(lambda self: not hasattr(self, "model_") or hasattr(self.model_, "log_prob"))
    def log_prob(self, X: Any) -> Array:
        """Exact log p(v) of rows in nats; machines too large for it have `evaluate`, which says its error."""
        found = [-self.model_.energy(self._scaled(rows)) - self._log_units(rows) for rows in self._presentations(X)]
        return averaged(found) - self.log_partition("exact").value

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """The likelihood of the rows: exact where there is `log_prob`, else with the error of log Z.

        Where hidden units that depend on each other are too many to enumerate, its mean-field lower bound, as the
        note says.
        """
        if hasattr(self, "log_prob"):
            return super().evaluate(X, y)
        scores = [self._judged(rows) for rows in self._presentations(X)]
        if len(scores) == 1:
            return with_signature(self, {self.primary: scores[0]}, self._rows(X))
        first, values = scores[0], averaged([one.pointwise for one in scores])
        facts: dict[str, Any] = {"error": first.error, "kind": first.kind, "data_space": first.data_space}
        return {self.primary: Score.from_pointwise(values, note=first.note, **facts)}

    def _judged(self, rows: Array) -> Score:
        """The likelihood of rows that have a probability, with the error of log Z."""
        log_z = self.log_partition()
        log_z = replace(log_z, value=log_z.value + float(np.mean(self._log_units(rows))))  # the same for each row
        space, noise, states = self.outcomes.space(rows.shape[1]), Noise(self.seed_, "evaluate"), self._scaled(rows)
        if not hasattr(self.model_, "energy"):
            return log_likelihood_bound(self.model_, states, log_z, data_space=space)
        return density_score(self.model_, states, noise, log_z=log_z, data_space=space)


class RowMachine(FillsMachineGaps, JudgedMachine):
    """Base of those that draw their layers from conditionals: Gibbs chains of rows."""

    def gibbs(self, X: Any, steps: int = 1, *, random_state: Any = None) -> Array:
        """Visible states after `steps` sweeps (hidden units, then visible ones) from X."""
        return self.from_visible(self._walk(self.to_visible(X), steps, random_state))

    def _walk(self, rows: Array, steps: int, random_state: Any) -> Array:
        noise, model = Noise(seed_of(random_state), "gibbs"), self.model_
        hidden = tuple(block for block in model.blocks if block != "visible")
        state = {"visible": rows} | coupled_start(model, hidden, len(rows), noise.child("start"))
        order = (*(block for block in hidden if block not in state), *(block for block in hidden if block in state))
        sweeps = how_many(steps, "steps")
        return gibbs(model, state, noise, steps=sweeps, order=(*order, "visible"))["visible"]

    def sample(self, n: int = 1, *, steps: int = 1000, random_state: Any = None) -> Array:
        """n rows, each the end of its own Gibbs chain of `steps` sweeps begun at the data's means."""
        check_is_fitted(self)
        n = how_many(n)
        seed = seed_of(random_state)
        start = self._start(n, Noise(seed, "sample/start"))
        return self.from_visible(self._walk(start, steps, seed) if n else start)


class DensityMachine(RowMachine, EnergyMachine):
    """Base of the machines of rows with hidden units that are independent given these: codes too."""

    def reconstruct(self, X: Any) -> Array:
        """E[v | h] at the hidden means given X, shape (n, n_features)."""
        return self._visible_means(self._hidden_means(self._scaled(self._rows(X))))

    def _visible_means(self, hidden: Array) -> Array:
        return self.from_visible(self.model_.conditional("visible", {"hidden": hidden}).mean)


class TwoLayerMachine(DensityMachine):
    """Base of those whose codes are the means of one hidden layer, from which rows are made again."""

    def inverse_transform(self, H: Any) -> Array:
        """E[v | h] of hidden states, or of probabilities as `transform` gives them, shape (n, n_features).

        Raises
        ------
        UserValueError
            Codes of another number of columns, or outside [0, 1].
        """
        check_is_fitted(self)
        given = UnitInterval().check(H, name="H")
        if given.shape[1] != self._n_features_out:
            what = f"H must have {self._n_features_out} columns, one for each hidden unit, got {given.shape[1]}"
            raise UserValueError(what, "H", "give codes as transform does")
        return self._visible_means(self.model_.place(given))


def averaged(values: Sequence[Any]) -> Array:
    """Mean over presentations of the same rows; a single one is returned as it is."""
    return values[0] if len(values) == 1 else np.mean([np.asarray(one, np.float64) for one in values], axis=0)


def coupled_start(model: Any, blocks: Sequence[str], n: int, noise: contracts.Noise) -> dict[str, Array]:
    """Fair states of those of the layers that depend on each other given the rows: chains need some to begin at."""
    rows, like = noise.rows(np.arange(n)), model.place(np.zeros(0))
    kept = smallest_keep(model, ("visible",))
    return {block: model.units[block].start(rows.child(block), n, like) for block in blocks if block in kept}


def posterior_means(model: Any, x: Array) -> dict[str, Array]:
    """Means of each hidden layer given the rows, by enumeration of up to 2^12 states of a row, else by mean field."""
    given, kept = {"visible": x}, smallest_keep(model, ("visible",))
    n = bits(model, (block for block in kept if block != "visible"))
    if not n:
        return {block: model.conditional(block, given).mean for block in model.blocks if block != "visible"}
    if n > EXACT_HIDDEN:
        order = [block for block in model.blocks if block != "visible"]
        return mean_field(model, {"visible": (x, None)}, steps=200, tol=1e-6, order=order)
    return {name: convert(mean, x) for name, (mean, _) in posterior_moments(model, given, limit=EXACT_HIDDEN).items()}


def posterior_of_bits(model: Any, x: Array, block: str) -> Distribution:
    """The distribution of the bits of a hidden layer given the rows, as exact as `posterior_means`."""
    kept = smallest_keep(model, ("visible",))
    if bits(model, (one for one in kept if one != "visible")) > EXACT_HIDDEN:
        return Bernoulli.of(posterior_means(model, x)[block])
    return posterior_of_block(model, {"visible": x}, block, limit=EXACT_HIDDEN)


def posterior_modes(model: Any, x: Array) -> dict[str, Array]:
    """The most probable states of the hidden layers given the rows, by enumeration of up to 2^12 states of a row."""
    return most_probable(model, {"visible": x}, limit=EXACT_HIDDEN)


class StandardizedMachine(Standardized):
    """Beside an `EnergyMachine` of real columns: brings them to mean 0 and deviation 1, ``arguments_`` has both."""

    if TYPE_CHECKING:  # without a value it would read as a field
        arguments_: dict[str, Any]

    def _scales(self) -> bool:
        """Whether columns are scaled."""
        return self.standardize

    def arguments(self, examples: Examples) -> dict[str, Any]:
        mean, deviation = standardization(examples.X, examples.weight)
        given: dict[str, Any] = super().arguments(examples)  # type: ignore[misc]
        return given | {"mean": mean.tolist(), "deviation": deviation.tolist()}

    def problem(
        self, model: Any, examples: Examples, noise: contracts.Noise, group: Group, validation: Any = None
    ) -> Problem:
        scaled = examples.replace(X=self._scaled(examples.X))
        found: Problem = super().problem(model, scaled, noise, group, validation)  # type: ignore[misc]
        return found

    def _unit(self) -> Array:
        """By what columns are divided."""
        deviation = np.array(self.arguments_["deviation"])
        return deviation if self._scales() else np.ones(len(deviation))

    def _shift(self) -> Array:
        """What is subtracted from columns before."""
        mean = np.array(self.arguments_["mean"])
        return mean if self._scales() else np.zeros(len(mean))

    def _scaled(self, rows: Array) -> Array:
        return ((rows - self._shift()) / self._unit()).astype(rows.dtype)

    def _unscaled(self, rows: Array) -> Array:
        return (rows * self._unit() + self._shift()).astype(rows.dtype)

    @property
    def _log_volumes(self) -> Array:
        return np.asarray(np.log(self._unit()))

    def _start_mean(self) -> Array:
        return (np.array(self.arguments_["mean"]) - self._shift()) / self._unit()
