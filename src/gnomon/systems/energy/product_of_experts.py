"""Energy-based models of rows: a product of experts, which is a sum of energies, of any differentiable form."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, cast

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import nn

from gnomon import contracts
from gnomon.contracts import Array, Procedure, State
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Real
from gnomon.distributions.layers import LOG_2_PI
from gnomon.distributions.units import GaussianUnits, Units
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.inference.arrays import convert, to_numpy
from gnomon.inference.exact.enumeration import log_partition as enumerated
from gnomon.inference.exact.quadrature import log_integral
from gnomon.inference.mcmc.hamiltonian import HMC
from gnomon.inference.mcmc.sampling import sample_chain
from gnomon.inference.scores import scores_of
from gnomon.nn.module import Module
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.tensors import is_tensor
from gnomon.objectives.noise_contrastive import NCE
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.systems.energy._cells_by_moves import FillsByMoves
from gnomon.systems.energy._machine import JudgedMachine, StandardizedMachine
from gnomon.systems.energy._normalizable import student_normalizable
from gnomon.systems.energy.experts import (
    BernoulliExpert,
    Energy,
    Expert,
    HarmonyExpert,
    NetworkExpert,
    NormalExpert,
    StudentExpert,
    listed,
)  # fmt: skip
from gnomon.training.gradient import Budget, Gradient

__all__ = ["Normalization", "ProductOfExperts", "ProductOfExpertsModel"]

QUADRATURE = 2
"""Real columns up to which log Z is integrated."""
TOLERANCE = 1e-7
"""Of that integral, in nats."""
STEP = 0.3
"""First leapfrog step, in units of the normal experts' spread."""
ANNEALED = ("auto", "ais", "bridge", "linked", "bracket", "importance")
"""Ways to log Z that begin at a density with draws."""


class ProductOfExpertsModel(Module):
    r""":math:`p(x) = \frac1Z \prod_k f_k(x)` with :math:`f_k = \exp(-E_k) > 0`: the energy is :math:`\sum_k E_k`.

    Parameters
    ----------
    experts : sequence of nn.Module
        Rows (n, d) to energies (n,); those of `gnomon.systems.energy.experts`, or any of yours.
    units : Units
        What the columns hold: `GaussianUnits` for real numbers, `BernoulliUnits` for bits. It is never guessed: the
        same factors make other models over other values.
    learn_log_c : bool
        Whether :math:`\log p(x) = -E(x) - \log c` has a parameter ``log_c`` of its own.

    Notes
    -----
    Where all experts are normal the density is too, with the precision :math:`\Lambda = \sum_k \Lambda_k` and the mean
    :math:`\Lambda^{-1} \sum_k \Lambda_k \mu_k`. Of up to two real columns log Z is found by quadrature, of up to 20
    bits by enumeration.

    Examples
    --------
    >>> experts = [NormalExpert.of([0.0], [[1.0]]), NormalExpert.of([3.0], [[2.0]])]
    >>> model = ProductOfExpertsModel(experts, GaussianUnits(1))
    >>> round(model.log_partition(), 6), bool(abs(model.score(np.array([[2.0]]))[0, 0]) < 1e-12)  # the mean is 2
    (-2.630368, True)
    """

    observed: ClassVar[str] = "visible"
    blocks: ClassVar[tuple[str, ...]] = ("visible",)
    marginal_blocks: ClassVar[tuple[tuple[str, ...], ...]] = (("visible",),)
    has_conditionals: ClassVar[bool] = False
    """Whether blocks can be drawn given the others."""

    def __init__(self, experts: Sequence[nn.Module], units: Units, *, learn_log_c: bool = False) -> None:
        super().__init__()
        if not experts:
            raise UserValueError("a product needs an expert", "experts", "give a list of at least one")
        self.experts = nn.ModuleList(experts)
        self.units, self.sizes = {"visible": units}, {"visible": units.size}
        if learn_log_c:
            self.log_c = nn.Parameter(torch.zeros(1, dtype=next(self.experts.parameters()).dtype))

    def initialize(self, noise: contracts.Noise, mean: Array, variance: Array) -> None:
        """First values of each expert, for columns of these means and variances."""
        for i, expert in enumerate(self.experts):
            if isinstance(expert, Expert):
                expert.begin(noise.child(f"expert/{i}"), mean, variance)

    def place(self, x: Array) -> torch.Tensor:
        """A tensor of the parameters' type, where these are."""
        like = next(self.parameters())
        return torch.as_tensor(x, dtype=like.dtype, device=like.device)

    # --- energies -----------------------------------------------------------------------------------------------------

    def energy(self, x: Array) -> Array:
        """The sum of the experts' energies in nats, shape (n,), in the kind of x; tensors with gradients."""
        if is_tensor(x):
            rows = self.place(x)
            return sum(expert(rows) for expert in self.experts).to(x.dtype)
        with torch.no_grad():
            return convert(self.energy(self.place(x)).cpu(), np.asarray(x))

    def log_prob_unnormalized(self, x: Array) -> Array:
        """-energy: log p(x) up to the constant log Z."""
        return -self.energy(x)

    def score(self, x: Array) -> Array:
        """d log p / dx, minus the gradient of the energy by the row, (n, d)."""
        return scores_of(self, x).value

    def joint_energy(self, state: State) -> Array:
        """`energy` of the one block."""
        return self.energy(state["visible"])

    def marginal_energy(self, kept: State) -> Array:
        """The same: no unit is hidden."""
        return self.energy(kept["visible"])

    def joint_gradient(self, state: State, weight: Array) -> dict[str, Array]:
        """Sums over rows of weight_i * d energy_i / d parameter, by one backward pass; of ``log_c`` 0."""
        x, learned = state["visible"], dict(self.named_parameters())
        with torch.enable_grad():
            total = (self.place(weight) * self.energy(self.place(x))).sum()
            slopes = torch.autograd.grad(total, list(learned.values()), materialize_grads=True)
        return {name: convert(slope, x) for name, slope in zip(learned, slopes, strict=True)}

    def marginal_gradient(self, kept: State, weight: Array) -> dict[str, Array]:
        """The same."""
        return self.joint_gradient(kept, weight)

    def conditional(self, block: str, state: State) -> Any:
        """None: an energy of any form has no conditionals to draw from.

        Raises
        ------
        UserTypeError
        """
        what = "a product of experts has no conditionals for Gibbs sweeps"
        remedy = "use pcd, cd or mcmc with transition=hmc or langevin, score-matching, or nce"
        raise UserTypeError(what, "objective", remedy)

    # --- the normalizer -----------------------------------------------------------------------------------------------

    @property
    def is_real(self) -> bool:
        """Whether the columns are real numbers."""
        return math.isinf(self.units["visible"].n_states)

    def normalizable(self) -> bool | None:
        """Whether there is a density, None where that is not decided; of countable values always.

        A normal expert holds all that fall no faster than linearly, and Student-t experts alone are decided by their
        filters and shapes. Experts that cannot hold rows by themselves have no product over the real line.
        """
        experts = list(self.experts)
        if not self.is_real:
            return True
        if not all(isinstance(one, NormalExpert | StudentExpert) or _at_most_linear(one) for one in experts):
            return None
        if any(isinstance(one, NormalExpert) for one in experts):
            return True
        heavy = [one for one in experts if isinstance(one, StudentExpert)]
        if len(heavy) < len(experts):
            return False
        filters = np.concatenate([to_numpy(one.filters).astype(np.float64) for one in heavy], axis=1)
        return student_normalizable(filters, np.exp(np.concatenate([to_numpy(one.log_shape) for one in heavy])))

    def refuse_improper(self) -> None:
        """Refuse experts whose product has no integral.

        Raises
        ------
        UserValueError
        """
        if self.normalizable() is False:
            what = "the product of the experts cannot be normalized over the real line"
            raise UserValueError(what, "experts", "give a normal expert beside them, or as many filters as columns")

    @property
    def has_normalizer(self) -> bool:
        """Whether log Z is exact: normal experts alone, few real columns, or few states."""
        if not self.is_real:
            return self.units["visible"].n_states <= 1 << 20
        return self._is_normal or self.sizes["visible"] <= QUADRATURE

    @property
    def _is_normal(self) -> bool:
        return self.is_real and all(isinstance(one, NormalExpert) for one in self.experts)

    def moments(self) -> tuple[Array, Array]:
        """Mean (d,) and precision (d, d) of a product of normal experts, in float64.

        Raises
        ------
        UserTypeError
            Experts of another kind.
        """
        if not self._is_normal:
            raise UserTypeError("the moments are those of normal experts alone", "experts", "sample the model")
        roots = [to_numpy(one.root).astype(np.float64) for one in self.experts]
        means = [to_numpy(one.mean).astype(np.float64) for one in self.experts]
        each = [root @ root.T for root in roots]
        precision = sum(each[1:], each[0])
        pull = sum(one @ mean for one, mean in zip(each, means, strict=True))
        return np.linalg.solve(precision, pull), precision

    def normal_part(self, mean: Array, variance: Array) -> ProductOfExpertsModel:
        """The product of the normal experts; where there are none, independent columns with these moments."""
        normal: list[nn.Module] = [one for one in self.experts if isinstance(one, NormalExpert)]
        if not normal:
            normal = [NormalExpert.of(mean, np.diag(1 / np.maximum(variance, 1e-12)))]
        return ProductOfExpertsModel(normal, self.units["visible"])

    @available_if(lambda self: isinstance(self, type) or self._is_normal)
    def sample(self, n: int, noise: contracts.Noise) -> Array:
        """n independent draws, of a product of normal experts."""
        mean, precision = self.moments()
        z = noise.rows(np.arange(n)).normal((n, len(mean)), like=mean)
        return mean + np.linalg.solve(np.linalg.cholesky(precision).T, z.T).T

    @available_if(lambda self: isinstance(self, type) or self.has_normalizer)
    def log_prob(self, x: Array) -> Array:
        """Exact log p(x) in nats."""
        return -self.energy(x) - self.log_partition()

    def log_partition(self) -> float:
        """Exact log Z: in closed form, by quadrature, or by enumeration.

        Raises
        ------
        UserValueError
            No density, or one of which log Z has to be estimated.
        """
        self.refuse_improper()
        if not self.has_normalizer:
            what = f"log Z of {self.sizes['visible']} columns has no closed form"
            raise UserValueError(what, "method", "estimate it by annealed importance sampling")
        if not self.is_real:
            return float(enumerated(cast(Any, self), limit=20))
        if self._is_normal:
            mean, precision = self.moments()
            at = -float(to_numpy(self.energy(mean[None]))[0])
            return at + 0.5 * (len(mean) * LOG_2_PI - float(np.linalg.slogdet(precision)[1]))
        return self._integrated()

    def _integrated(self) -> float:
        """log Z by quadrature, in the coordinates in which the normal experts are a standard normal density."""
        d, double = self.sizes["visible"], copy.deepcopy(self).double().cpu()
        mean, precision = double.normal_part(np.zeros(d), np.ones(d)).moments()
        root = np.linalg.cholesky(np.linalg.inv(precision))
        sides = [(-math.inf, math.inf)] * d
        found = log_integral(lambda t: -double.energy(mean + t @ root.T), sides, tolerance=TOLERANCE)
        return found + float(np.log(np.diag(root)).sum())


def _at_most_linear(expert: nn.Module) -> bool:
    """Whether an energy may fall along a line, and never faster than linearly."""
    if isinstance(expert, HarmonyExpert):
        return isinstance(expert.module, StudentExpert) or _at_most_linear(expert.module)
    return isinstance(expert, BernoulliExpert | NetworkExpert)


@dataclass(frozen=True)
class Normalization:
    """What the learned log c of a model says of its normalizer, and what an integral says.

    Parameters
    ----------
    log_c : float
        Learned, in nats.
    log_z : Score
        By quadrature where that is possible, else an estimate.
    """

    log_c: float
    log_z: Score

    @property
    def mass(self) -> float:
        """The integral of the density as it was learned, exp(log Z - log c): 1 if it were normalized."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_z.value - self.log_c))

    def __str__(self) -> str:
        return f"learned log c {self.log_c:.4f}, log Z {self.log_z}: the learned density has the mass {self.mass:.4f}"


class ProductOfExperts(FillsByMoves, StandardizedMachine, JudgedMachine):
    r"""Energy-based model of real columns: :math:`p(x) = \frac1Z \exp(-\sum_k E_k(x))`, a product of experts.

    Each energy is a soft constraint of its own, a normal density, heavy-tailed responses of filters, a network, or a
    module of yours; their sum is the energy, and exp(-E) is above 0 whatever it is, so that learning is unconstrained.
    ``experts`` says what is multiplied, ``objective`` how it learns without a closed form of Z.

    Attributes
    ----------
    log_c : float
        The log normalizer: learned with ``learn_log_c``, else log Z.
    history_ : dict of lists
        By epoch what the objective watches, and ``gradient_norm``; of ``nce`` also ``log_normalizer``.

    Notes
    -----
    Experts that leave the density without an integral are refused. Scores are densities of the columns in their own
    units. log Z is in closed form for normal experts, by quadrature for one or two columns, else estimated by annealing
    from a normal density with Hamiltonian moves, with its error. With ``learn_log_c`` the model is :math:`\log p(x) =
    -E(x) - \log c` with c a parameter, which noise-contrastive estimation alone can find: the likelihood grows without
    bound as c falls, so every other principle is refused; `normalized` compares the c that was learned with an
    integral. Gradients cost one backward pass; chains draw by Hamiltonian moves.
    Sources: Goodfellow, Bengio and Courville (2016), section 16.2.4; Hinton (2002), "Training products of experts by
    minimizing contrastive divergence"; Gutmann and Hyvärinen (2010) for log c.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(400, 2)) * 0.4 + random.choice([-1.5, 1.5], (400, 1))
    >>> model = ProductOfExperts(objective="score-matching", epochs=60, random_state=0).fit(X)
    >>> bool(model.score(X) > -2.6), model.sample(3, random_state=0).shape  # -2.9 as a normal density
    (True, (3, 2))
    """

    name: ClassVar[str] = "product-of-experts"
    tasks: ClassVar[tuple[str, ...]] = ("density",)
    model_class: ClassVar[type] = ProductOfExpertsModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"experts": Energy}
    domain = Real(largest=1e100)
    numpy_products: ClassVar[bool] = False
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"learn_log_c": {"objective": "nce"}}
    resamples_rows: ClassVar[bool] = True  # the default objective draws noise beside each row

    experts: Annotated[
        Any,
        Doc("What is multiplied: one kind of expert, ``product`` for two or more, or a function (d, dtype) -> module."),
    ] = "product"
    learn_log_c: Annotated[
        bool,
        Doc("Whether the log normalizer is a parameter beside those of the energy, for the objective ``nce`` alone."),
    ] = False
    objective: str | Recipe = "denoising-score-matching"
    epochs: int = 100
    batch_size: int | None = 50
    learning_rate: float = 0.01
    optimizer: str | Recipe = "adam"

    def make(self, n_features: int, dtype: str, mean: list[float], deviation: list[float]) -> ProductOfExpertsModel:
        experts = listed(self.recipe("experts"), n_features, getattr(torch, dtype))
        return ProductOfExpertsModel(experts, GaussianUnits(n_features), learn_log_c=self.learn_log_c)

    def initialize(self, model: ProductOfExpertsModel, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, self._start_mean(), self._start_variance())
        model.refuse_improper()

    def make_objective(self) -> Any:
        if self.learn_log_c and not isinstance(self.recipe("objective"), NCE):
            what = "the likelihood grows without bound as log c falls, and scores do not hold it"
            raise UserValueError(what, "objective", "use nce, or learn_log_c=False")
        return super().make_objective()

    def procedure(self, examples: Any) -> Procedure:
        return Gradient(self.recipe("optimizer"), self.learning_rate, Budget.of(self.epochs, self.max_updates))

    def _start_variance(self) -> Array:
        """Variances of the training data, in the model's units."""
        return np.ones(len(self._unit())) if self._scales() else np.array(self.arguments_["deviation"]) ** 2

    def _held(self) -> ProductOfExpertsModel:
        """The normal density that chains and ladders begin at."""
        return self.model_.normal_part(self._start_mean(), self._start_variance())

    # --- answers ------------------------------------------------------------------------------------------------------

    def log_prob_unnormalized(self, X: Any) -> Array:
        """-energy of rows in nats, shape (n,): log p up to log Z."""
        return -self.energy(X)

    def score_function(self, X: Any) -> Array:
        """d log p(x) / dx of rows, minus the gradient of the energy, per unit of each column, shape (n, n_features)."""
        check_is_fitted(self)
        return self.model_.score(self._scaled(self._rows(X))) / self._unit()

    def sample(self, n: int = 1, *, steps: int = 200, kernel: Any = None, random_state: Any = None) -> Array:
        """n rows, each the end of its own chain.

        Parameters
        ----------
        n : int, in [0, inf)
        steps : int, in [0, inf)
            Moves of each chain, which begins at a draw of the normal experts and is tuned meanwhile.
        kernel : Kernel or str, optional
            What moves them (`gnomon.sample_chain`); Hamiltonian moves of ten leapfrog steps by default, and
            ``HMC(0.3, steps=1)`` is Langevin dynamics with a test of Metropolis.
        random_state : int, None or NumPy generator
        """
        check_is_fitted(self)
        n, seed, held = how_many(n), seed_of(random_state), self._held()
        start = held.sample(n, Noise(seed, "sample/start"))
        if n and how_many(steps, "steps"):
            kernel = _hamiltonian(held, 10) if kernel is None else kernel
            found = sample_chain(
                self.model_, kernel, chains=n, draws=1, burn_in=steps - 1, start=start, random_state=seed
            )
            start = found.draws[:, -1]
        return self.from_visible(to_numpy(self.model_.place(start)))

    # --- the normalizer -----------------------------------------------------------------------------------------------

    def log_partition(self, method: str = "auto", *, X: Any = None, **options: Any) -> Score:
        """log Z in nats, see the notes of the class; an estimate begins at the normal experts.

        Methods and options are those of `gnomon.log_partition`.
        """
        check_is_fitted(self)
        self.model_.refuse_improper()
        if method == "auto" and self.model_.has_normalizer:
            method = "exact"
        if method in ANNEALED:
            held = self._held()
            options = (
                {"proposal": held} | ({} if method == "importance" else {"kernel": _hamiltonian(held, 5)}) | options
            )
            if method in ("auto", "ais"):
                options = {"schedule": 100} | options
        return super().log_partition(method, X=X, **options)

    @property
    def log_c(self) -> float:
        """The log normalizer in nats: as it was learned, else log Z."""
        check_is_fitted(self)
        if not self.learn_log_c:
            return self.log_partition().value
        return float(self.model_.state()["log_c"][0]) + self._log_volume

    def normalized(self) -> Normalization:
        """How far the density with the learned log c is from a normalized one, by an integral or an estimate of it.

        Raises
        ------
        UserValueError
            A fit without ``learn_log_c``.
        """
        check_is_fitted(self)
        if not self.learn_log_c:
            raise UserValueError(
                "log c has not been learned", "learn_log_c", "fit with learn_log_c=True and objective='nce'"
            )
        return Normalization(self.log_c, self.log_partition())

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """The likelihood of the rows by log Z; where log c was learned, how far that is off stands in the note."""
        found = super().evaluate(X, y)
        if not self.learn_log_c:
            return found
        score = found[self.primary]
        note = "; ".join(filter(None, (score.note, str(self.normalized()))))
        return found | {self.primary: replace(score, note=note)}


def _hamiltonian(held: ProductOfExpertsModel, steps: int) -> HMC:
    """Moves of so many leapfrog steps, in the units of a normal density."""
    return HMC(STEP, steps=steps, covariance=np.linalg.inv(held.moments()[1]))
