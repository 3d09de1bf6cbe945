"""The restricted Boltzmann machine with binary units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, cast

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array, Procedure, State
from gnomon.data.examples import Examples
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.domains import Binary, UnitInterval
from gnomon.distributions.units import BernoulliUnits
from gnomon.errors import Diverged
from gnomon.evaluation.likelihood import pseudo_log_likelihood
from gnomon.evaluation.partition import log_partition
from gnomon.evaluation.score import Score
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.numeric.fast import unit_rows
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.sparse import by_rows, in_full, is_sparse, rows_at_once, units_of
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.fields import GradientSteps, HasDtype
from gnomon.system.partial_fit import OnlineModel
from gnomon.systems.energy.layered import EXACT_UNITS, LayeredMachine
from gnomon.systems.energy.links import DenseLink
from gnomon.training.gradient import Budget, Gradient
from gnomon.training.procedure import Info

__all__ = ["RBM", "RBMModel"]

FROZEN_WEIGHT = 1e3
"""A weight beyond which a unit's odds pass exp(1000): the chains stand still."""


class RBMModel(LayeredMachine):
    r"""E(v, h) = -b^T v - c^T h - v^T W h over v in {0,1}^d, h in {0,1}^m: two layers, with compiled gradients.

    Parameters
    ----------
    n_visible, n_hidden : int
    dtype : torch.dtype
    """

    weight: torch.nn.Parameter
    visible_bias: torch.nn.Parameter
    hidden_bias: torch.nn.Parameter

    def __init__(self, n_visible: int, n_hidden: int, dtype: torch.dtype = torch.float32) -> None:
        units = {"visible": BernoulliUnits(n_visible), "hidden": BernoulliUnits(n_hidden)}
        super().__init__(units, [DenseLink("visible", "hidden", name="")], dtype=dtype)
        self.blocks = ("hidden", "visible")

    @classmethod
    def of(cls, weight: Array, visible_bias: Array, hidden_bias: Array) -> RBMModel:
        """The model with these parameters."""
        tensors = [torch.as_tensor(value) for value in (weight, visible_bias, hidden_bias)]
        d, m = tensors[0].shape
        model = cls(d, m, tensors[0].dtype)
        for parameter, tensor in zip((model.weight, model.visible_bias, model.hidden_bias), tensors, strict=True):
            parameter.data = tensor.to(tensors[0])
        return model

    def conditional(self, block: str, state: State) -> Bernoulli:
        """P(hidden | visible) or P(visible | hidden): independent units with these log-odds."""
        x = state["visible" if block == "hidden" else "hidden"]
        own: Any = self.views() if isinstance(x, np.ndarray) and self.device.type == "cpu" else self._arrays(state)
        field = x @ (own["weight"] if block == "hidden" else own["weight"].T)
        field += own[f"{block}_bias"]
        return Bernoulli(field)

    def energy(self, x: Array) -> Array:
        """-log sum over h of exp(-E(x, h)), each row in nats; sparse rows are made dense part by part."""
        return cast(Array, by_rows(super().energy, x))

    def energy_gradient(self, x: Array, weight: Array) -> tuple[dict[str, Array], Array]:
        """Sums over rows of weight_i * dF(x_i), and the hidden means: two products, one pass between them."""
        minus = -weight
        hidden: Array
        if isinstance(x, torch.Tensor):
            hidden = (x @ self.weight + self.hidden_bias).detach().sigmoid_()
            weighted: Array = hidden * minus[:, None]
        else:
            own = self.views()
            hidden, weighted = unit_rows(np.matmul(x, own["weight"]), own["hidden_bias"], minus)
        return {"weight": x.T @ weighted, "visible_bias": minus @ x, "hidden_bias": minus @ hidden}, hidden

    def marginal_gradient(self, kept: State, weight: Array) -> dict[str, Array]:
        """Sums over rows of weight_i * d marginal_energy(kept_i)."""
        if tuple(kept) == ("visible",):
            return self.energy_gradient(kept["visible"], weight)[0]
        return super().marginal_gradient(kept, weight)


class _Steps(Gradient):
    """Gradient steps that ended in vain where a weight is so large that no unit changes."""

    def step(self, state: Any) -> tuple[Any, Info]:
        """One update."""
        state, info = super().step(state)
        if not info.done:
            return state, info
        largest = float(np.abs(state.problem.model.views()["weight"]).max())
        if largest > FROZEN_WEIGHT:
            what = f"a weight has grown to {largest:.3g}: units no longer change and the fit means nothing"
            raise Diverged(what, f"step {state.update}", "lower the learning rate")
        return state, info


class RBM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, GradientSteps, HasDtype, OnlineModel):
    r"""Restricted Boltzmann machine: binary visible and hidden layers without links inside a layer.

    :math:`E(v, h) = -b^T v - c^T h - v^T W h`, :math:`p(v) = \sum_h e^{-E(v, h)} / Z`. Learned by the gradient of the
    log-likelihood, mean energy of the data against mean energy under the model; the objective says where the model's
    side comes from.

    Attributes
    ----------
    weights_ : array of shape (n_features, n_hidden)
    visible_bias_, hidden_bias_ : arrays
    history_ : dict of lists
        By epoch: ``energy_gap`` of the last batch (data minus chains, nats; not the likelihood) or
        ``negative_log_likelihood`` of the epoch's batches, and ``gradient_norm``.

    Notes
    -----
    The fit takes values in [0, 1], read as probabilities of a 1; the likelihood is that of binary rows. Visible biases
    start at the log-odds of the columns' means (of a stream, those of its first chunk). A sparse table is made dense a
    batch at a time, all at once where ``batch_size`` is None; the verbs take it part by part. Cost per update
    O(batch d m k). Sources: Smolensky (1986); Hinton (2002); Tieleman (2008); Salakhutdinov and Murray (2008) for the
    likelihood.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> rbm = RBM(n_hidden=4, objective="exact", epochs=300, learning_rate=0.5, random_state=0).fit(X)
    >>> bool(rbm.score(X) > -1.5)
    True
    """

    name: ClassVar[str] = "rbm"
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")
    model_class: ClassVar[type] = RBMModel
    domain = UnitInterval()
    outcomes = Binary()
    takes_sparse: ClassVar[bool] = True
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"objective": EnergyObjective}
    numpy_products: ClassVar[bool] = True

    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units.")] = 64
    objective: Annotated[
        str | Recipe,
        Doc("Training principle: persistent chains, contrastive divergence, exact gradient of a small machine."),
    ] = "pcd"
    epochs: int = 100
    batch_size: int | None = 20
    learning_rate: float = 0.02
    optimizer: str | Recipe = "sgd"

    def arguments(self, examples: Examples) -> dict[str, Any]:
        X, weight = examples.X, examples.weight.astype(np.float64)
        mean = units_of(X, weight)[0] if is_sparse(X) else np.average(X.astype(np.float64), axis=0, weights=weight)
        return super().arguments(examples) | {"mean": mean.tolist()}

    def make(self, n_features: int, dtype: str, mean: list[float]) -> RBMModel:
        return RBMModel(n_features, self.n_hidden, getattr(torch, dtype))

    def initialize(self, model: RBMModel, examples: Examples, noise: contracts.Noise) -> None:
        share = self._chance()
        with torch.no_grad():
            model.weight.copy_(torch.from_numpy(0.01 * noise.normal(tuple(model.weight.shape), like=share)))
            model.visible_bias.copy_(torch.from_numpy(np.log(share) - np.log1p(-share)))

    def _chance(self) -> Array:
        """Means of the training data, kept away from 0 and 1."""
        return np.clip(np.array(self.arguments_["mean"]), 0.01, 0.99)

    def make_objective(self) -> Any:
        return self.recipe("objective").build()

    def procedure(self, examples: Any) -> Procedure:
        return _Steps(self.recipe("optimizer"), self.learning_rate, Budget.of(self.epochs, self.max_updates))

    def _outcomes(self, X: Any) -> Array:
        """Rows of 0 and 1, the only ones that have a probability."""
        rows = self._rows(X)
        return self.outcomes.ingest_sparse(rows).values if is_sparse(rows) else self.outcomes.check(rows)

    @property
    def weights_(self) -> Array:
        """Couplings."""
        return self.model_.weight.detach().cpu().numpy()

    @property
    def visible_bias_(self) -> Array:
        """Biases of the visible units."""
        return self.model_.visible_bias.detach().cpu().numpy()

    @property
    def hidden_bias_(self) -> Array:
        """Biases of the hidden units."""
        return self.model_.hidden_bias.detach().cpu().numpy()

    @property
    def _n_features_out(self) -> int:
        return self.model_.sizes["hidden"]

    def transform(self, X: Any) -> Array:
        """P(h = 1 | v), shape (n, n_hidden)."""
        return self._hidden_means(self._rows(X))

    def _hidden_means(self, rows: Array) -> Array:
        means = by_rows(lambda part: self.model_.conditional("hidden", {"visible": part}).mean, rows)
        return cast(Array, means)

    def reconstruct(self, X: Any) -> Array:
        """P(v = 1 | h) at the hidden means given X, shape (n, n_features)."""
        hidden = self._hidden_means(self._rows(X))
        return self.model_.conditional("visible", {"hidden": hidden}).mean

    def gibbs(self, X: Any, steps: int = 1, *, random_state: Any = None) -> Array:
        """Visible states after `steps` sweeps (hidden, then visible) from X."""
        noise = Noise(seed_of(random_state), "gibbs")
        state = {"visible": in_full(self._rows(X))}
        return gibbs(self.model_, state, noise, steps=how_many(steps, "steps"), order=("hidden", "visible"))["visible"]

    def sample(self, n: int = 1, *, steps: int = 1000, random_state: Any = None) -> Array:
        """n rows, each the end of its own Gibbs chain of `steps` sweeps begun at the data's means."""
        check_is_fitted(self)
        n = how_many(n)
        seed = seed_of(random_state)
        means = np.broadcast_to(self._chance(), (n, self.n_features_in_))
        start = Noise(seed, "sample/start").bernoulli(self.model_.place(means))
        return self.gibbs(start, steps, random_state=seed) if n else start

    def log_partition(self, method: str = "auto", **options: Any) -> Score:
        """log Z in nats: exact where the smaller layer has at most 20 units, else by annealed importance sampling.

        Methods and options are those of `gnomon.log_partition`; the base has the means of the training data.
        """
        check_is_fitted(self)
        key = f"log_partition/{method}/{sorted(options.items())}"
        if key not in self._memory:
            noise = Noise(self.seed_, "evaluate/log-partition")
            self._memory[key] = log_partition(
                self.model_,
                method=method,
                noise=noise,
                limit=EXACT_UNITS,
                base_mean=np.array(self.arguments_["mean"]),
                **options,
            )
        return self._memory[key]

    @available_if(lambda self: not hasattr(self, "model_") or hasattr(self.model_, "log_prob"))
    def log_prob(self, X: Any) -> Array:
        """Exact log p(v) of binary rows in nats; machines too large for it have `evaluate`, which says its error."""
        rows = self._outcomes(X)
        return -self.model_.energy(rows) - self.log_partition("exact").value

    def free_energy(self, X: Any) -> Array:
        """-log sum over the hidden units of exp(-E(x, h)) of each row in nats, shape (n,): the `energy` of the row."""
        return self.energy(X)

    def pseudo_log_likelihood(self, X: Any, *, per_site: bool = False) -> Score:
        """Mean over rows of the sum over columns of log p(v_j | the others), exact; per column with `per_site`."""
        rows = self._outcomes(X)
        sizes = {"batch_size": rows_at_once(rows)} if is_sparse(rows) else {}
        return pseudo_log_likelihood(
            self.model_, rows, per_site=per_site, data_space=self.outcomes.space(rows.shape[1]), **sizes
        )
