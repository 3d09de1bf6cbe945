"""What a part can do, as protocols: models, objectives, procedures, noise, groups and batches meet here alone.

A contract is asked of the instance, ``supports(model, HasLogProb)``: an RBM with 12 units has an exact ``log_prob``,
one with 500 has not. Arrays are NumPy arrays or torch tensors; a method answers in the kind it was asked in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

__all__ = [
    "Array", "Batches", "Climbs", "Distribution", "Encoder", "Group", "HasBlocks", "HasBridge",
    "HasCenteredGradient", "HasCoupledBlocks",
    "HasEnergy", "HasEnergyGradient", "HasExpectation", "HasFlips", "HasJointGradient", "HasLatents", "HasLogProb",
    "HasMarginalEnergy", "HasMarginalGradient", "HasMeanParameters", "HasMoments", "HasPath", "HasState", "HasUnits",
    "HasVariationalExpectation", "NextToken", "Noise", "Objective", "Path", "Procedure", "Samples", "ScoresPairs",
    "State", "supports",
]  # fmt: skip

Array = Any
"""A NumPy array or a torch tensor."""

State = Mapping[str, Array]
"""Named arrays, batch first: the state of a chain, of a model, of a procedure."""


def supports(model: object, contract: type) -> bool:
    """Whether this very instance (or class) keeps the contract: every name of it is there now.

    ``isinstance`` asks the class alone, which may offer a method that this instance has not.
    """
    return all(hasattr(model, name) for name in _members(contract))


@lru_cache(maxsize=64)
def _members(contract: type) -> tuple[str, ...]:
    bases = [base for base in contract.__mro__ if getattr(base, "_is_protocol", False)]
    names = [name for base in bases for name in (*vars(base), *vars(base).get("__annotations__", ()))]
    return tuple(dict.fromkeys(name for name in names if not name.startswith("_")))


@runtime_checkable
class Distribution(Protocol):
    """A batch of independent variables, summarised by their natural parameters."""

    def sample(self, noise: Noise, draw: int) -> Array:
        """One sample per row; `draw` is the number of this call within the step."""

    def log_prob(self, x: Array) -> Array:
        """Log probability of each row in nats, shape (batch,)."""

    @property
    def mean(self) -> Array:
        """Expected value, shape of the batch."""


@runtime_checkable
class HasState(Protocol):
    """Anything that is saved: arrays by name."""

    def state(self) -> dict[str, Array]:
        """Every array that makes the object what it is."""

    def load(self, state: State) -> None:
        """Take the arrays over, in place."""


@runtime_checkable
class HasLogProb(Protocol):
    """A normalized model."""

    def log_prob(self, x: Array) -> Array:
        """Log p(x) in nats, shape (batch,)."""


@runtime_checkable
class HasLatents(Protocol):
    """A normalized joint model of data x and latent variables z: an array, a named tuple of layers, anything."""

    def log_joint(self, x: Array, z: Any) -> Array:
        """Log p(x, z) in nats, shape (batch,)."""

    def sample_prior(self, n: int, noise: Noise) -> Any:
        """n draws of z from p(z)."""


@runtime_checkable
class Encoder(Protocol):
    """An approximation q(z | x) of the posterior: amortized by a network, or any proposal for what is latent."""

    def infer(self, x: Array, noise: Noise) -> tuple[Any, Array]:
        """One draw of z for each row, and log q(z | x) of shape (batch,); row i depends on row i of the noise alone."""


@runtime_checkable
class HasEnergy(Protocol):
    """An unnormalized model: log p(x) = -energy(x) - log Z, hidden variables summed out where that is exact."""

    def energy(self, x: Array) -> Array:
        """Energy in nats, shape (batch,)."""


@runtime_checkable
class HasEnergyGradient(HasEnergy, Protocol):
    """A machine of two blocks, the second summed out of `energy`, whose gradient costs less than by `HasJointGradient`.

    An optional fast path, as `HasPath` is for `HasBridge`.
    """

    def energy_gradient(self, x: Array, weight: Array) -> tuple[dict[str, Array], Array]:
        """Sums over rows of weight_i * dE(x_i)/dparameter by name, and the mean of the other block given each row."""


@runtime_checkable
class HasChainUpdates(Protocol):
    """A machine that makes many updates by chains at a time, in the numbers of single ones: a fast path in NumPy."""

    def updated_by_chains(
        self, X: Array, weight: Array, size: int, hidden: Array, *, descent: Any, k: int, noise: Noise, persistent: bool
    ) -> tuple[int, float]:
        """Steps of a `StepRule`, one for each `size` rows: how many were made, and the norm of the last gradient.

        Persistent chains stand at `hidden`, which is moved; others begin at the data. Parameters stay within the
        limits that the machine has. Fewer updates are made only where a gradient is not finite: it is the last then.
        """


@runtime_checkable
class HasBlocks(Protocol):
    """A joint model over named blocks of units, each block conditionally independent given the rest.

    Any number of blocks, of any kind of unit: `HasUnits` says which. Units of a model that does not say are 0 or 1.
    """

    blocks: tuple[str, ...]
    sizes: Mapping[str, int]

    def conditional(self, block: str, state: State) -> Distribution:
        """Distribution of one block given the others."""

    def joint_energy(self, state: State) -> Array:
        """Energy of the full state in nats, shape (batch,)."""


@runtime_checkable
class HasUnits(HasBlocks, Protocol):
    """Blocks that say what their units are."""

    units: Mapping[str, Any]
    """The kind of each block's units (`gnomon.distributions.units`): which values they take, how they are counted."""


@runtime_checkable
class HasCoupledBlocks(HasBlocks, Protocol):
    """Blocks of which some hold units that are coupled to each other: these are drawn one unit after the other.

    ``conditional`` of such a block gives each unit given all others, those of its own block too, and needs its state.
    """

    coupled: frozenset[str]

    def sweep(
        self, block: str, state: State, noise: Noise, draw: int, held: Array | None = None, backward: bool = False
    ) -> Array:
        """Each unit of a coupled block drawn given all the others, from the first to the last or `backward`."""

    def relax(self, block: str, state: State, held: Array | None = None) -> Array:
        """The means of a coupled block, each set to what it is given those of all the others, in turn."""


@runtime_checkable
class HasJointGradient(HasBlocks, Protocol):
    """A joint energy whose parameter gradient has a closed form: sums of sufficient statistics."""

    def joint_gradient(self, state: State, weight: Array) -> dict[str, Array]:
        """Sums over rows of weight_i * d joint_energy(state_i) / d parameter, by name.

        A block may be given by a Distribution in place of an array: then the expectation is taken over it, the blocks
        being independent of each other.
        """


@runtime_checkable
class HasMarginalEnergy(HasBlocks, Protocol):
    """Blocks of which some are kept and the others summed out exactly: a layered machine keeps every other layer."""

    @property
    def marginal_blocks(self) -> tuple[tuple[str, ...], ...]:
        """Smallest sets of blocks that can be kept, the others being independent given them; larger ones can be too."""

    def marginal_energy(self, kept: State) -> Array:
        """-log sum over the other blocks of exp(-joint_energy), shape (batch,)."""


@runtime_checkable
class HasMarginalGradient(HasMarginalEnergy, Protocol):
    """Marginal energies whose parameter gradient has a closed form."""

    def marginal_gradient(self, kept: State, weight: Array) -> dict[str, Array]:
        """Sums over rows of weight_i * d marginal_energy(kept_i) / d parameter, by name."""


@runtime_checkable
class HasCenteredGradient(Protocol):
    """A machine whose parameters may be read with states that count from offsets, block by block."""

    def centered_gradient(self, gradient: Mapping[str, Array], offsets: Mapping[str, Array]) -> dict[str, Array]:
        """The step of the machine's own parameters that the gradient in centered coordinates is; linear in it."""

    def mean_differences(self, gradient: Mapping[str, Array]) -> dict[str, Array]:
        """Of a gradient of data against model: means under the model less the data's, times the weight, by block."""


@runtime_checkable
class HasFlips(Protocol):
    """Binary rows whose energies with a few units flipped cost less than energies of new rows."""

    def flips(self, x: Array, rows: Array, sites: Array, active: Array | None = None) -> Any:
        """Copies of rows with units flipped, (p, k) places each.

        The answer has ``energies()``, those of the copies minus those of their rows, (p,), and ``gradient(weight)``,
        sums over copies of weight_i * d energies_i / d parameter, by name. With `active`, 0 or 1 for each place, only
        some of the units are flipped.
        """


@runtime_checkable
class HasScores(Protocol):
    """Real rows whose score, the gradient of log p by the row, and its derivatives have a closed form."""

    def scores(self, x: Array) -> Any:
        """At the rows x, (n, d).

        The answer has ``value``, d log p(x) / dx_j, and ``curvature``, d^2 log p(x) / dx_j^2, (n, d) each, and
        ``gradient(by_value, by_curvature)``: sums over rows and columns of by_value * d value / d parameter +
        by_curvature * d curvature / d parameter, by name; the weights are arrays (n, d), the second may be None.
        """


@runtime_checkable
class HasBridge(HasBlocks, Protocol):
    """A geometric path on the JOINT between a base model and this one."""

    def base(self, mean: Array | None = None) -> Any:
        """The uncoupled model with these visible means (None: uniform), with a known log Z: ``log_partition()``."""

    def bridge(self, base: Any, eta: float) -> Any:
        """The model p_base**(1-eta) * p**eta, blocks as here."""


@runtime_checkable
class Path(Protocol):
    """Distributions p_0 (base), ..., p_n (target) on one space, n + 1 in number: ``len(path)``.

    A state is an array (chains, ...). The levels are unnormalized, all in the same convention, so that differences of
    ``log_prob`` between levels are the increments of log weights.
    """

    def __len__(self) -> int:
        """n + 1, at least 2."""

    @property
    def log_z0(self) -> float:
        """Log of the base's normalizer, in nats: that of ``exp(log_prob(0, x))``."""

    def log_prob(self, level: int, x: Array) -> Array:
        """Unnormalized log density of a level at each row, shape (chains,)."""

    def start(self, n: int, noise: Noise) -> Array:
        """n exact draws of level 0."""

    def move(self, level: int, x: Array, noise: Noise) -> Array:
        """The rows moved by a kernel that leaves the level invariant. Needs a stream of its own per call."""

    def back(self, level: int, x: Array, noise: Noise) -> Array:
        """The rows moved by the reversal of `move` under the level: ``R(x' | x) = p(x') T(x | x') / p(x)``."""


@runtime_checkable
class Climbs(Path, Protocol):
    """A path on which a weight and the move behind it cost less together than apart."""

    def climb(self, level: int, x: Array, noise: Noise) -> tuple[Array, Array]:
        """log p_(level + 1) - log p_level of each row in float64, and the rows moved at level + 1; may write over x."""

    def descend(self, level: int, x: Array, noise: Noise) -> tuple[Array, Array]:
        """log p_(level - 1) - log p_level, and the rows taken `back` under level - 1; may write over x."""


@runtime_checkable
class HasPath(HasBridge, Protocol):
    """A bridge that is walked faster than by asking every level for energies and conditionals."""

    def path(self, base: Any, etas: Array, keep: tuple[str, ...]) -> Path:
        """The path from the base to this model through these places, on these blocks."""


@runtime_checkable
class HasNormalizingPath(Protocol):
    """A model that knows a better way to its normalizer than the bridge from a base, on states of another kind."""

    def normalizing_path(self, etas: Array) -> WalksStates | None:
        """The path through these places; None where it is too long a way, and the bridge is walked."""


@runtime_checkable
class WalksStates(Path, Protocol):
    """A path whose states are no blocks side by side."""

    def gather(self, state: State) -> Array:
        """Its states of those of the model's blocks."""

    def observed(self, x: Array, noise: Noise) -> Array:
        """A row of the observed block for each of its states, a draw of the model given it."""


@runtime_checkable
class HasMoments(Protocol):
    """A model fitted in one step from sums over rows."""

    def moments(self, x: Array, weight: Array) -> dict[str, Array]:
        """Weighted sums over the rows."""

    def solve(self, moments: dict[str, Array]) -> dict[str, float]:
        """Fit to the sums of all rows; what belongs into the history."""


@runtime_checkable
class HasExpectation(Protocol):
    """A model fitted by expectation maximization."""

    def expect(self, x: Array, weight: Array) -> dict[str, Array]:
        """Expected statistics summed over rows, with ``log_likelihood`` and ``weight`` among them."""

    def maximize(self, statistics: dict[str, Array]) -> None:
        """Fit to the statistics of all rows."""

    def log_prior(self) -> float:
        """Log density of the parameters under their prior, up to a constant; 0 without one."""


@runtime_checkable
class HasMeanParameters(HasExpectation, Protocol):
    """A model whose expectation may be partial: of one batch, or mixed with what the model itself expects."""

    def expect_mode(self, x: Array, weight: Array) -> dict[str, Array]:
        """As `expect`, each row at its most probable latent value; ``log_likelihood`` is that of row and value."""

    def own(self, rows: float) -> dict[str, Array]:
        """The statistics that the model expects of rows of this weight: `maximize` of them changes nothing."""

    def expected_joint(self, statistics: State) -> float:
        """E log p(x, h) of the rows and posteriors that statistics were taken of, in nats."""

    def moved(self, statistics: State, before: State) -> dict[str, Array]:
        """Statistics taken about the parameters of an earlier ``state()``, batch first, about those of now."""


@runtime_checkable
class HasVariationalExpectation(Protocol):
    """A model fitted by expectation maximization with an approximation of the posterior of each row."""

    def approximate(self, x: Array, start: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """The parameters of each row's posterior, row by row, by name, found from given ones on."""

    def expect(self, x: Array, weight: Array, posterior: Mapping[str, Array]) -> dict[str, Array]:
        """As of `HasExpectation`; ``log_likelihood`` is the evidence lower bound."""

    def maximize(self, statistics: dict[str, Array]) -> None:
        """Fit to the statistics of all rows."""

    def log_prior(self) -> float:
        """Log density of the parameters under their prior, up to a constant; 0 without one."""


@runtime_checkable
class NextToken(Protocol):
    """A model of token sequences, one token at a time; every leaf of the state is batch first."""

    def start(self, contexts: Sequence[Sequence[int]]) -> State:
        """State of one sequence per context, after its ids; an empty context is the very beginning."""

    def step(self, tokens: Array, state: State) -> tuple[Array, State]:
        """Log probabilities of the next token, (n, vocabulary), after taking `tokens`; and the new state."""

    def select(self, state: State, index: Array) -> State:
        """The state of the sequences in `index`."""


@runtime_checkable
class Samples(Protocol):
    """A model that is drawn from directly."""

    def sample(self, n: int, noise: Noise) -> Array:
        """n rows."""


@runtime_checkable
class ScoresPairs(Protocol):
    """A model that scores pairs, of users and items say; the higher, the better they go together."""

    def score(self, users: Array, items: Array) -> Array:
        """Score of each pair of codes, shape (n,); the code -1 stands for one that the fit has not seen."""


@runtime_checkable
class Noise(Protocol):
    """Random numbers by address (seed, purpose, update, draw, position, element): no state, nothing to save."""

    def child(self, purpose: str) -> Noise:
        """The stream ``path/purpose``."""

    def at(self, update: int) -> Noise:
        """The same stream at another update, sweep, temperature or epoch."""

    def rows(self, positions: Array) -> Noise:
        """Per-example noise: row i of what is drawn belongs to place positions[i] of the global batch."""

    def take(self, indices: Array) -> Noise:
        """The numbers of some rows of what this stream would draw, wherever `rows` has placed them."""

    def uniform(self, shape: Sequence[int], draw: int = 0, *, like: Array | None = None) -> Array:
        """Uniform numbers in the open interval (0, 1)."""

    def normal(self, shape: Sequence[int], draw: int = 0, *, like: Array | None = None) -> Array:
        """Standard normal numbers."""

    def bernoulli(self, p: Array, draw: int = 0) -> Array:
        """1 where u < p, else 0."""

    def bernoulli_logits(self, logits: Array, draw: int = 0) -> Array:
        """1 where u < sigmoid(logits), else 0."""

    def integers(self, high: int, shape: Sequence[int], draw: int = 0) -> Array:
        """Whole numbers in [0, high)."""

    def order(self, n: int) -> Array:
        """A random permutation of range(n)."""


class Objective(Protocol):
    """How a model is scored while it learns; critics and baselines are its parameters, chains its buffers."""

    def phases(self, model: Any) -> Mapping[str, Any]:
        """What a step consists of, by name and in turn: parameters, number of updates, optimizer, rows."""

    def __call__(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Any:
        """The Loss of this batch: sums over examples, never means."""

    def validate(self, model: Any, batch: Any, *, noise: Noise, group: Group) -> Any:
        """The Loss of rows that do not train: it leaves no trace in model and objective."""


class Procedure(Protocol):
    """How a fit is carried out. The unit of resume is a step: an update, an EM iteration, a sweep, a layer."""

    def start(self, problem: Any) -> Any:
        """The state before the first step."""

    def step(self, state: Any) -> tuple[Any, Any]:
        """One step: the new state and an Info."""

    def save(self, state: Any) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays and JSON facts from which `load` goes on bitwise; called on every process."""

    def load(self, problem: Any, arrays: State, facts: Mapping[str, Any]) -> Any:
        """The state that `save` described."""


class Group(Protocol):
    """The processes that fit together; one process is a group of size 1."""

    rank: int
    size: int

    def sum(self, tree: Any) -> Any:
        """Every array of the tree summed over the processes."""

    def gather(self, x: Array) -> Array:
        """Arrays of all processes joined on axis 0, in order of rank; lengths may differ."""


class Batches(Protocol):
    """The data of a fit in an order that is a function of seed and epoch: rows, batches an epoch, rows a batch."""

    n: int
    steps: int
    batch_size: int
    total_weight: float

    def step(self, e: int, i: int) -> Any:
        """Batch i of epoch e."""

    def epoch(self, e: int) -> Iterator[Any]:
        """Batches of epoch e: data, rows (indices in the data), positions (places in the global batch), weight."""

    def shard(self, group: Group) -> Batches:
        """This process's part of every batch."""
