"""The conditional restricted Boltzmann machine: several outputs that depend on each other, given a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array, Group, Procedure
from gnomon.data.examples import Examples
from gnomon.data.preprocessing import standardization
from gnomon.distributions.domains import Binary, Real
from gnomon.distributions.units import BernoulliUnits, CenteredScaledGaussianUnits, Units
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.inference.arrays import to_numpy
from gnomon.inference.exact.enumeration import states
from gnomon.inference.exact.moments import posterior_moments
from gnomon.inference.importance.by_row import log_partitions_by_annealing
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.numeric.noise import Noise, seed_of
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.fields import GradientSteps, HasDtype, Standardized
from gnomon.system.prediction import Regressor
from gnomon.systems.energy._conditional_objective import GivenConditions
from gnomon.systems.energy._machine import GibbsSteps
from gnomon.systems.energy.conditioned import CONDITION, ConditionedMachine
from gnomon.systems.energy.links import DenseLink, Link
from gnomon.systems.energy.three_way import ThreeWayLink
from gnomon.training.gradient import Budget
from gnomon.training.procedure import Problem

__all__ = ["ConditionalRBM", "ConditionalRBMModel"]

EXACT_BITS = 12
"""log2 of the states that are enumerated for each row: hidden units, or outputs of 0 and 1."""
_ROWS = 5000
"""Rows whose chains run side by side."""
_AT_ONCE = 1 << 18
"""States whose energies are held at once."""
UNITS: dict[str, type[Units]] = {"gaussian": CenteredScaledGaussianUnits, "bernoulli": BernoulliUnits}


class ConditionalRBMModel(ConditionedMachine):
    r"""E(y, h; x) = -w(y) - c^T h - y^T W h - x^T A y - x^T B h: an RBM of y whose biases are affine in x.

    Parameters
    ----------
    n_features, n_outputs, n_hidden : int
    kind : {"bernoulli", "gaussian"}
        Units of y: w(y) = b^T y of bits, -sum_j exp(log_precision_j) (y_j - b_j)^2 / 2 of real numbers.
    dtype : torch.dtype
    couplings : bool, default False
        Whether x moves the couplings too, by sum_ijk x_i G_ijk y_j h_k: n_features n_outputs n_hidden numbers.
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        n_hidden: int,
        kind: str,
        dtype: torch.dtype = torch.float32,
        *,
        couplings: bool = False,
    ) -> None:
        units = {"visible": UNITS[kind](n_outputs), "hidden": BernoulliUnits(n_hidden)}
        links: list[Link] = [DenseLink("visible", "hidden", name="")]
        if couplings:
            links.append(ThreeWayLink(CONDITION, "visible", "hidden"))
        super().__init__(n_features, units, links, dtype=dtype)


class ConditionalRBM(Standardized, GradientSteps, HasDtype, Regressor):
    r"""Conditional restricted Boltzmann machine: the joint distribution of several outputs given a row.

    :math:`p(y | x) \propto \sum_h \exp(w(y) + c^T h + y^T W h + x^T A y + x^T B h)` with bits h. Outputs depend on each
    other through the hidden units; with W = 0 bits are independent logistic regressions, and real numbers a linear
    regression. Each row has a normalizer of its own. Trained by the gradient of :math:`\log p(y | x)`, x being held in
    both of its phases; the objective says where the model's side comes from.

    Attributes
    ----------
    history_ : dict of lists
        By epoch what the objective watches, and ``gradient_norm``.

    Notes
    -----
    Everything given a row is exact with up to 12 hidden units, or 12 outputs of 0 and 1; beyond that expectations come
    from Gibbs chains and likelihoods from annealed importance sampling, row by row.

    Chains that begin at the data (``cd``) never visit outputs far from it, where p(y | x) may keep modes that a
    prediction from x alone then finds; ``mcmc`` begins elsewhere, ``exact`` sees all (Mnih et al. 2011). Where only the
    likeliest outputs are wanted, ``cd-percloss`` learns these and no distribution. Chains that belong to no row
    (``pcd``) are refused. Cost per update O(batch (d m + d t + t m) k) for t outputs and m hidden
    units. Sources: Mnih, Larochelle and Hinton (2011); Goodfellow, Bengio and Courville (2016), section 20.7.

    Examples
    --------
    >>> X = np.repeat([[0.0], [1.0]], 50, axis=0)
    >>> Y = np.array([[0, 1], [1, 0]] * 25 + [[0, 0], [1, 1]] * 25)  # the outputs differ where x is 0, else agree
    >>> machine = ConditionalRBM(outputs="bernoulli", objective="exact", n_hidden=4, epochs=300, learning_rate=0.1,
    ...                          random_state=0).fit(X, Y)
    >>> (machine.log_prob([[0.0], [1.0]], [[0, 1], [1, 1]]) > np.log(0.4)).tolist()  # half the mass, or nearly
    [True, True]
    >>> (machine.log_prob([[0.0], [1.0]], [[1, 1], [0, 1]]) < np.log(0.1)).tolist()  # what never came
    [True, True]
    """

    name: ClassVar[str] = "conditional-rbm"
    tasks: ClassVar[tuple[str, ...]] = ("regress",)
    model_class: ClassVar[type] = ConditionalRBMModel
    several: ClassVar[bool] = True
    has_row_density: ClassVar[bool] = False
    domain = Real(largest=1e100)
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"objective": EnergyObjective}
    numpy_products: ClassVar[bool] = True

    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units.")] = 10
    outputs: Annotated[
        Literal["gaussian", "bernoulli"], Doc("Units of y: ``gaussian`` takes real numbers, ``bernoulli`` 0 and 1.")
    ] = "gaussian"
    objective: Annotated[
        str | Recipe, Doc("Training principle, of those that compare rows with states given the same condition.")
    ] = "cd"
    epochs: int = 50
    batch_size: int | None = 20
    learning_rate: float = 0.01
    optimizer: str | Recipe = "adam"

    # --- fit ----------------------------------------------------------------------------------------------------------

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        examples = super().ingest(X, y, sample_weight)
        self._outcomes(np.asarray(examples.y))
        return examples

    def arguments(self, examples: Examples) -> dict[str, Any]:
        units: dict[str, Any] = {}
        y = np.asarray(examples.y).reshape(len(examples), -1)
        for name, values, scaled in (("x", examples.X, True), ("y", y, self.outputs == "gaussian")):
            mean, deviation = standardization(values, examples.weight)
            if not (self.standardize and scaled):
                mean, deviation = 0 * mean, 0 * deviation + 1
            units |= {f"{name}_mean": mean.tolist(), f"{name}_deviation": deviation.tolist()}
        share = np.average(self._scaled_y(y, units), axis=0, weights=examples.weight)
        return super().arguments(examples) | units | {"mean": share.tolist()}

    def make(self, n_features: int, dtype: str, n_outputs: int | None, **_: Any) -> ConditionedMachine:
        return ConditionalRBMModel(n_features, n_outputs or 1, self.n_hidden, self.outputs, getattr(torch, dtype))

    def initialize(self, model: Any, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, np.array(self.arguments_["mean"]), scale=0.1)

    def make_objective(self) -> GivenConditions:
        return GivenConditions(self.recipe("objective").build())

    def procedure(self, examples: Any) -> Procedure:
        return GibbsSteps(self.recipe("optimizer"), self.learning_rate, Budget.of(self.epochs, self.max_updates))

    def problem(
        self, model: Any, examples: Examples, noise: contracts.Noise, group: Group, validation: Any = None
    ) -> Problem:
        y = self._scaled_y(np.asarray(examples.y).reshape(len(examples), -1), self.arguments_)
        scaled = examples.replace(X=self._scaled(examples.X), y=y.astype(examples.X.dtype))
        return super().problem(model, scaled, noise, group, validation)

    # --- units --------------------------------------------------------------------------------------------------------

    def _outcomes(self, y: Any) -> Any:
        """The target as rows (n, t), of bits 0 and 1 alone."""
        y = y.reshape(len(y), -1)
        return Binary().check(y, name="y") if self.outputs == "bernoulli" else y

    def _scaled(self, rows: Array) -> Array:
        """Conditions in the units that the model computes in."""
        mean, deviation = (np.array(self.arguments_[f"x_{name}"]) for name in ("mean", "deviation"))
        return ((rows - mean) / deviation).astype(rows.dtype)

    @staticmethod
    def _scaled_y(y: Array, units: Mapping[str, Any]) -> Array:
        return (y - np.array(units["y_mean"])) / np.array(units["y_deviation"])

    def _unscaled_y(self, y: Any) -> Array:
        """Outputs in their own units, of the shape that y had."""
        found = np.asarray(y, np.float64) * self.arguments_["y_deviation"] + self.arguments_["y_mean"]
        return found[:, 0] if self.arguments_["n_outputs"] is None else found

    def _pairs(self, X: Any, y: Any) -> tuple[Array, Array]:
        """Conditions and outputs in the model's units."""
        rows = self._rows(X)
        target = self._outcomes(self.target.check(y, n=len(rows), several=True))
        if target.shape[1] != self.model_.sizes["visible"]:
            what = f"y must have {self.model_.sizes['visible']} columns, got {target.shape[1]}"
            raise UserValueError(what, "y", "give the columns of the fit")
        return self._scaled(rows), self._scaled_y(target, self.arguments_).astype(rows.dtype)

    # --- verbs --------------------------------------------------------------------------------------------------------

    def predict_rows(self, rows: Any) -> Any:
        """E[y | x]: of bits the probabilities of a 1. Exact, or means over 500 sweeps of 20 chains for each row."""
        scaled = self._scaled(rows)
        return self._unscaled_y(self._means(scaled, "visible"))

    def energy(self, X: Any, y: Any) -> Array:
        """F(y; x) = -log of the sum over hidden units of exp(-E), in nats, shape (n,): log p(y | x) = -F - log Z(x)."""
        x, y = self._pairs(X, y)
        return np.asarray(self.model_.given(x).energy(y))

    @available_if(lambda self: not hasattr(self, "model_") or self.model_.exact)
    def log_prob(self, X: Any, y: Any = None) -> Array:
        """Exact log p(y | x) of each row in nats, shape (n,); with up to 12 hidden units, or outputs of 0 and 1."""
        x, outcomes = self._pairs(X, y)
        log_z = self.model_.log_partitions(x, limit=EXACT_BITS)
        return -to_numpy(self.model_.given(x).energy(outcomes)) - log_z - self._log_volume()

    @available_if(lambda self: not hasattr(self, "model_") or self.model_.exact)
    def anomaly_score(self, X: Any, y: Any = None) -> Array:
        """Surprise -log p(y | x) of each row in nats, shape (n,): the higher, the odder the outputs given their row."""
        return -self.log_prob(X, y)

    @available_if(lambda self: not hasattr(self, "model_") or self.model_.exact)
    def bits_per_dim(self, X: Any, y: Any = None) -> Score:
        """Mean of -log2 p(y | x) per output, lower is better; of a density it depends on the outputs' units."""
        values = self.anomaly_score(X, y) / (np.log(2) * self.model_.sizes["visible"])
        facts: dict[str, Any] = {"unit": "bits per column", "kind": "exact", "higher_is_better": False}
        return Score.from_pointwise(values, name="bits_per_dim", data_space=self._space(), **facts)

    def _space(self) -> str:
        domain = Binary() if self.outputs == "bernoulli" else Real()
        return domain.space(self.model_.sizes["visible"])

    def _log_volume(self) -> float:
        return float(np.log(self.arguments_["y_deviation"]).sum())

    def sample(self, X: Any, *, steps: int = 500, random_state: Any = None) -> Array:
        """Draw y for each row of X, shape (n,) or (n, t): ends of Gibbs chains of `steps` sweeps, begun without field.

        Raises
        ------
        UserTypeError
            A number of rows: the model has no density of x to draw them from.
        """
        check_is_fitted(self)
        if np.ndim(X) == 0 and not hasattr(X, "shape"):
            what = f"{self.name} is a model of y given x and cannot draw rows x"
            raise UserTypeError(what, "X", "give the rows: sample(X)")
        noise, given = Noise(seed_of(random_state), "sample"), self.model_.given(self._scaled(self._rows(X)))
        start = self._start(given, noise)
        ends = gibbs(given, start, noise, steps=how_many(steps, "steps"), order=("hidden", "visible"))
        return self._unscaled_y(ends["visible"])

    def most_probable(self, X: Any) -> Array:
        """The likeliest y of each row, bits, shape (n,) or (n, t): a sum of products cannot say it, `predict` rounds.

        Exact with up to 12 outputs. Beyond these a local optimum: from the rounded marginals on, the flip that lowers
        the energy most, while there is one.

        Raises
        ------
        UserTypeError
            Outputs that are real numbers.
        """
        rows = self._rows(X)
        if self.outputs != "bernoulli":
            what = f"outputs must be bernoulli, got {self.outputs}: a mixture of densities has no mode in closed form"
            raise UserTypeError(what, "outputs", "use predict for expected outputs")
        scaled, t = self._scaled(rows), self.model_.sizes["visible"]
        if t > EXACT_BITS:
            begun = (self.predict_rows(rows).reshape(len(rows), t) > 0.5).astype(scaled.dtype)
            return self._unscaled_y(self._descended(self.model_.given(scaled), begun))
        every = states(t).astype(scaled.dtype)
        at_once = max(1, _AT_ONCE // len(every))
        parts = (scaled[begin : begin + at_once] for begin in range(0, len(scaled), at_once))
        return self._unscaled_y(np.concatenate([self._lowest(part, every) for part in parts]))

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Squared error, absolute error, R^2, and the mean of log p(y | x) in nats per row.

        The likelihood is exact where there is `log_prob`; else log Z(x) is estimated for each row.
        """
        return super().evaluate(X, y) | {"log_likelihood": self._likelihood(X, y)}

    def _likelihood(self, X: Any, y: Any) -> Score:
        if self.model_.exact:
            return Score.from_pointwise(self.log_prob(X, y), data_space=self._space())
        x, outcomes = self._pairs(X, y)
        mean, noise = np.array(self.arguments_["mean"]), Noise(self.seed_, "evaluate")
        log_z, stderr = log_partitions_by_annealing(self.model_, x, noise, mean=mean)
        values = -to_numpy(self.model_.given(x).energy(outcomes)) - log_z - self._log_volume()
        error = float(np.sqrt((stderr**2).sum()) / len(x))
        note = f"log Z of each row from 20 annealed chains, which may be off by up to {stderr.max():.2g}"
        return Score.from_pointwise(values, error=error, kind="estimate", data_space=self._space(), note=note)

    def _lowest(self, scaled: Array, every: Array) -> Array:
        """The state of least energy beside each of these rows."""
        beside = self.model_.given(np.repeat(scaled, len(every), axis=0))
        energies = to_numpy(beside.energy(np.tile(every, (len(scaled), 1))))
        return every[energies.reshape(len(scaled), -1).argmin(1)]

    # --- chains -------------------------------------------------------------------------------------------------------

    @staticmethod
    def _start(given: Any, noise: contracts.Noise) -> dict[str, Array]:
        n = len(given.held)
        return {"visible": given.units["visible"].start(noise.child("start"), n, given.held)}

    def _means(self, scaled: Array, block: str) -> Array:
        """Means of the outputs or of the hidden units given each row, in the model's units."""
        if not self.model_.exact:
            parts = [self._chain_means(scaled[i : i + _ROWS], i, block) for i in range(0, len(scaled), _ROWS)]
            return np.concatenate(parts)
        return posterior_moments(self.model_.released, {CONDITION: scaled}, limit=EXACT_BITS)[block][0]

    def _chain_means(self, scaled: Array, first: int, block: str, chains: int = 20, steps: int = 500) -> Array:
        """Means over the second half of chains of the conditional means of a layer; `first` is where the rows stand."""
        noise = Noise(self.seed_, "predict").rows(np.arange(first * chains, (first + len(scaled)) * chains))
        total = np.zeros((len(scaled), self.model_.sizes[block]))
        given = self.model_.given(scaled[np.repeat(np.arange(len(scaled)), chains)])
        state = self._start(given, noise)
        for step in range(steps):
            state = gibbs(given, state, noise.at(step), order=("hidden", "visible"))
            if 2 * step >= steps:
                mean = to_numpy(given.conditional(block, state).mean)
                total += mean.reshape(len(scaled), chains, -1).mean(1)
        return total / (steps - steps // 2)

    @staticmethod
    def _descended(given: Any, y: Array) -> Array:
        """Bits after flips that lower the energy of their row most, until no flip of one does."""
        n, t = y.shape
        y, at = y.copy(), np.arange(n)
        while True:
            rows, sites = np.repeat(np.arange(n), t), np.tile(np.arange(t), n)[:, None]
            gains = to_numpy(given.flips(y, rows, sites).energies()).reshape(n, t)
            best, worth = gains.argmin(1), gains.min(1) < -1e-9
            if not worth.any():
                return y
            y[at[worth], best[worth]] = 1 - y[at[worth], best[worth]]
