"""What machines of sequences share: frames, the likelihood of each given those before it, frames that go on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array, Group
from gnomon.data.examples import Examples
from gnomon.data.preprocessing import standardization
from gnomon.distributions.frames import BinaryFrames, RealFrames
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.inference.arrays import to_numpy
from gnomon.inference.importance.by_row import log_partitions_by_annealing
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.numeric.noise import Noise, seed_of
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.base import System
from gnomon.system.fields import GradientSteps, HasDtype, Standardized
from gnomon.system.sequences import TakesFrames, split_frames
from gnomon.systems.energy._sequence_cells import FillsSequences
from gnomon.systems.energy.conditional_rbm import EXACT_BITS
from gnomon.training.procedure import Problem

__all__ = ["SequenceMachine"]

Frames = Any
Inside = NDArray[np.bool_]


class SequenceMachine(TakesFrames, FillsSequences, Standardized, GradientSteps, HasDtype, System):
    """Base: log p(sequence) is the sum over its frames of log p(x_t | x_1 ... x_(t-1)), each that of a machine.

    The model of a subclass has ``machine``, `contexts`, what this is given at each frame, and the same frame by
    frame: `history`, `condition_of` and `advanced`.
    """

    tasks: ClassVar[tuple[str, ...]] = ("density",)
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"objective": EnergyObjective}
    numpy_products: ClassVar[bool] = True
    ordered_columns: ClassVar[bool] = True
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"standardize": {"visible": "gaussian"}}

    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units.")] = 10
    visible: Annotated[
        Literal["bernoulli", "gaussian"],
        Doc("Units of a frame: ``bernoulli`` takes 0 and 1, ``gaussian`` real numbers."),
    ] = "bernoulli"
    objective: Annotated[
        str | Recipe, Doc("Training principle, of those that compare rows with states given the same condition.")
    ] = "cd"
    epochs: int = 50
    learning_rate: float = 0.01
    optimizer: str | Recipe = "adam"

    @property
    def domain(self) -> Any:
        """Frames of zeros and ones, or of real numbers."""
        if self.visible == "gaussian":
            return RealFrames(largest=1e100)
        return BinaryFrames()

    # --- fit ----------------------------------------------------------------------------------------------------------

    def arguments(self, examples: Examples) -> dict[str, Any]:
        d = self.frame_size_
        frames, inside = split_frames(examples.X, d)
        weight = np.repeat(examples.weight[:, None], frames.shape[1], axis=1)[inside]
        mean, deviation = standardization(frames[inside], weight)
        if not (self.standardize and self.visible == "gaussian"):
            shift, deviation = 0 * mean, 0 * deviation + 1
        else:
            shift = mean
        facts = {"mean": (mean - shift).tolist(), "shift": shift.tolist(), "deviation": deviation.tolist()}
        return super().arguments(examples) | facts | {"frame_size": d}

    def frames_of(self, rows: Array) -> tuple[Frames, Inside]:
        """Frames (n, T, d) in the model's units, 0 behind the end of a sequence, and which are inside, (n, T)."""
        frames, inside = split_frames(rows, self.arguments_["frame_size"])
        scaled = (frames - np.array(self.arguments_["shift"])) / np.array(self.arguments_["deviation"])
        return np.where(inside[..., None], scaled, 0).astype(rows.dtype), inside

    def _unscaled(self, frames: Any) -> Array:
        return np.asarray(frames * np.array(self.arguments_["deviation"]) + np.array(self.arguments_["shift"]))

    def problem(
        self, model: Any, examples: Examples, noise: contracts.Noise, group: Group, validation: Any = None
    ) -> Problem:
        return super().problem(model, self.learned(examples), noise, group, validation)

    def learned(self, examples: Examples) -> Examples:
        """The examples that batches are made of."""
        raise NotImplementedError

    # --- evidence -----------------------------------------------------------------------------------------------------

    @available_if(lambda self: not hasattr(self, "model_") or self._exact())
    def log_prob(self, X: Any) -> Array:
        """Exact log p of each sequence in nats, shape (n,); with up to 12 hidden units, or columns of 0 and 1."""
        return self._by_sequence(self._rows(X), exact=True)[0]

    def _exact(self) -> bool:
        machine = self.model_.machine
        return bool(machine.sizes["hidden"] <= EXACT_BITS or machine.units["visible"].n_states <= 2**EXACT_BITS)

    def _by_sequence(self, rows: Array, exact: bool, model: Any = None) -> tuple[Array, Array]:
        """Log p of each sequence, and the variance of its estimate; under the fitted model where none is given."""
        frames, inside = self.frames_of(rows)
        model = self.model_ if model is None else model
        machine, conditions = model.machine, model.contexts(frames)[inside]
        energies = to_numpy(machine.given(conditions).energy(frames[inside]))
        if exact:
            log_z, error = machine.log_partitions(conditions, limit=EXACT_BITS), 0 * energies
        else:
            noise, mean = Noise(self.seed_, "evaluate"), np.array(self.arguments_["mean"])
            log_z, error = log_partitions_by_annealing(machine, conditions, noise, mean=mean)
        found = np.zeros((2, *inside.shape))
        found[0][inside] = -energies - log_z - np.log(self.arguments_["deviation"]).sum()
        found[1][inside] = error * error
        values, variance = found.sum(2)
        return values, variance

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """The likelihood of the sequences: exact where there is `log_prob`, else with log Z of each frame estimated."""
        rows, exact = self._rows(X), self._exact()
        values, variance = self._by_sequence(rows, exact)
        facts: dict[str, Any] = {"data_space": self.outcomes.space(rows.shape[1])}
        if not exact:
            facts |= {"kind": "estimate", "error": float(np.sqrt(variance.sum()) / len(rows))}
            facts |= {"note": "log Z of each frame from 20 annealed chains"}
        return {self.primary: Score.from_pointwise(values, **facts)}

    # --- frames that go on --------------------------------------------------------------------------------------------

    def generate(
        self, n_frames: int, context: Any = None, *, n: int = 1, steps: int = 50, jitter: float = 0.0,
        random_state: Any = None,
    ) -> Array:  # fmt: skip
        """Frames that go on from given ones: each the end of a Gibbs chain that begins at the frame before it.

        Parameters
        ----------
        n_frames : int in [0, inf)
        context : array of shape (n, T, d) or (T, d), optional
            What comes before; of the second form n times the same. Nothing where left out.
        n : int, default 1
            Sequences, where the context does not say it.
        steps : int in [1, inf), default 50
            Sweeps for each frame.
        jitter : float in [0, inf), default 0
            Standard deviation of noise on the frames that later ones are given, in standard deviations of the columns
            (of bits in units of 1): what is generated strays from what was learned less.
        random_state : int, Generator or None

        Returns
        -------
        array of shape (n, n_frames, d)
            Without the context.
        """
        check_is_fitted(self)
        return self._go_on(self.model_, self._before(context, n), n_frames, steps, jitter, random_state)

    def _before(self, context: Any, n: int) -> Array:
        """The frames before those that are drawn, (n, T, d), in the model's units: none where there is no context."""
        if context is not None:
            given = self._given_frames(context, how_many(n))
            return self.frames_of(given.reshape(len(given), -1))[0]
        return np.zeros((how_many(n), 0, self.arguments_["frame_size"]), self.arguments_["dtype"])

    def _go_on(
        self, model: Any, before: Array, n_frames: int, steps: int, jitter: float, random_state: Any
    ) -> Array:  # fmt: skip
        """Frames after these, drawn from a model one after the other; see `generate`."""
        if not isinstance(jitter, int | float | np.number) or not 0 <= jitter < math.inf:
            raise UserValueError.must("jitter", "be at least 0 and finite", jitter)
        sweeps, d, dtype = how_many(steps, "steps"), before.shape[2], np.dtype(self.arguments_["dtype"])
        noise, machine = Noise(seed_of(random_state), "generate"), model.machine
        state, rows = model.history(len(before)), np.arange(len(before))
        start = machine.units["visible"].start(noise.child("start").rows(rows), len(before), before[:, :0].sum(1))
        for t in range(before.shape[1]):
            start = before[:, t]
            state = model.advanced(state, start)
        drawn = np.zeros((len(before), how_many(n_frames, "n_frames"), d), dtype)
        for t in range(drawn.shape[1]):
            given, stream = machine.given(model.condition_of(state)), noise.at(t).rows(rows)
            start = gibbs(given, {"visible": start}, stream, steps=sweeps, order=("hidden", "visible"))["visible"]
            drawn[:, t] = start
            seen = start + jitter * stream.child("jitter").normal(start.shape, like=start) if jitter else start
            state = model.advanced(state, seen)
        return self._unscaled(drawn).astype(dtype)

    def sample(self, n: int = 1, *, steps: int = 50, random_state: Any = None) -> Array:
        """n sequences as rows, as long as the longest of training; see `generate`."""
        check_is_fitted(self)
        frames = self.n_features_in_ // self.arguments_["frame_size"]
        drawn = self.generate(frames, n=n, steps=steps, random_state=random_state)
        return drawn.reshape(len(drawn), self.n_features_in_)
