"""The restricted Boltzmann machine with binary units."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import ArrayLike

from gnomon import contracts
from gnomon.contracts import Array, State
from gnomon.data.examples import Examples
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.units import BernoulliUnits
from gnomon.errors import UserValueError
from gnomon.evaluation.likelihood import pseudo_log_likelihood
from gnomon.evaluation.score import Score
from gnomon.inference.exact.enumeration import states
from gnomon.numeric.fast import unit_rows
from gnomon.numeric.given import checked, floats
from gnomon.numeric.sparse import by_rows, is_sparse, rows_at_once
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.energy._binary import GreyRows
from gnomon.systems.energy._updates import UpdatedByChains
from gnomon.systems.energy.growing import GrowsHidden
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import DenseLink

__all__ = ["RBM", "RBMModel"]


class RBMModel(UpdatedByChains, LayeredMachine):
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
        """The model with copies of these parameters."""
        tensors = [torch.as_tensor(value) for value in (weight, visible_bias, hidden_bias)]
        d, m = tensors[0].shape
        model = cls(d, m, tensors[0].dtype)
        for parameter, tensor in zip((model.weight, model.visible_bias, model.hidden_bias), tensors, strict=True):
            parameter.data = tensor.to(tensors[0], copy=True)
        return model

    @classmethod
    @checked
    def of_distribution(cls, probabilities: ArrayLike, mass: float | None = None, sharpness: float = 40.0) -> RBMModel:
        r"""The machine whose rows have these probabilities, as nearly as is asked for (Le Roux and Bengio 2008).

        A hidden unit for each state :math:`v_k` in the support, :math:`w_k = a (2 v_k - 1)` and :math:`c_k = \lambda_k
        - w_k^T v_k` with :math:`\lambda_k = \log(M p_k - 1)`, multiplies the weight of that state by :math:`M p_k`, and
        for a large a leaves all others at 1. The visible biases are 0. So log Z is log(M + k) for k states outside the
        support, and the divergence KL(probabilities, machine) is log(1 + k / M), both up to about e^(-a). A target
        whose log Z and probabilities are known for samplers and estimators; Gibbs chains hardly ever leave a state.

        Parameters
        ----------
        probabilities : array of shape (2,) * d, or (2^d,)
            Of each state of d columns, in lexicographic order, the first column the most significant.
        mass : float, optional
            M, above 1 / p of every state in the support; by default a million for each state outside it, and at least
            twice what is needed.
        sharpness : float in (0, inf), default 40
            a: a state with one other bit gets e^(-a) of the new weight.

        Raises
        ------
        UserValueError
            No probabilities of 2^d states, a mass that is too small.

        Notes
        -----
        float64, d x (states in the support) weights.

        References
        ----------
        Le Roux and Bengio (2008), "Representational power of restricted Boltzmann machines and deep belief networks",
        theorem 2.4.

        Examples
        --------
        >>> machine = RBMModel.of_distribution([0.1, 0.0, 0.2, 0.7], mass=1e4)
        >>> np.exp(machine.log_prob(np.array([[1.0, 1.0], [0.0, 1.0]]))).round(6).tolist()
        [0.69993, 0.0001]
        """
        p = floats(probabilities, "probabilities").reshape(-1)
        d = int(p.size).bit_length() - 1
        if p.size < 2 or p.size != 1 << d or not (p >= 0).all() or abs(p.sum() - 1) > 1e-9:
            what = f"probabilities must be those of 2^d states and sum to 1, got {p.size} numbers of sum {p.sum():.6g}"
            raise UserValueError(what, "probabilities", "give one for each state, in lexicographic order")
        support = np.flatnonzero(p > 0)
        with np.errstate(over="ignore"):
            least = 1 / p[support].min()
        mass = max(2 * least, 1e6 * (p.size - support.size)) if mass is None else float(mass)
        if not least < mass < np.inf:
            raise UserValueError.must("mass", f"be a number above 1 / {p[support].min():.3g} = {least:.6g}", mass)
        if not 0 < sharpness < np.inf:
            raise UserValueError.must("sharpness", "be in (0, inf)", sharpness)
        chosen = np.concatenate([states(d, k, k + 1) for k in support.tolist()])
        weight = sharpness * (2 * chosen - 1).T
        return cls.of(weight, np.zeros(d), np.log(mass * p[support] - 1) - sharpness * chosen.sum(1))

    def with_hidden_unit(self, weights: Array, bias: float) -> RBMModel:
        """The machine with one hidden unit more, the last."""
        like = self.weight
        column = torch.as_tensor(weights, dtype=like.dtype, device=like.device)
        last = torch.tensor([bias], dtype=like.dtype, device=like.device)
        hidden = torch.cat([self.hidden_bias.detach(), last])
        weight = torch.cat([self.weight.detach(), column[:, None]], 1)
        return type(self).of(weight, self.visible_bias.detach(), hidden)

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


class RBM(GreyRows, GrowsHidden):
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
    The fit takes values in [0, 1], read as probabilities of a 1 (see ``binarize``), unless the objective needs 0 and 1;
    the likelihood is that of binary rows. Visible biases start at the log-odds of the columns' means (of a stream,
    those of its first chunk). A sparse table is made dense a batch at a time, all at once where ``batch_size`` is None;
    the verbs take it part by part. Cost per update
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
    takes_sparse: ClassVar[bool] = True

    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units.")] = 64
    epochs: int = 100
    batch_size: int | None = 20
    learning_rate: float = 0.02
    optimizer: str | Recipe = "sgd"

    def make(self, n_features: int, dtype: str, mean: list[float]) -> RBMModel:
        return RBMModel(n_features, self.n_hidden, getattr(torch, dtype))

    def initialize(self, model: RBMModel, examples: Examples, noise: contracts.Noise) -> None:
        share = self._start_mean()
        with torch.no_grad():
            model.weight.copy_(torch.from_numpy(0.01 * noise.normal(tuple(model.weight.shape), like=share)))
            model.visible_bias.copy_(torch.from_numpy(np.log(share) - np.log1p(-share)))

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

    def pseudo_log_likelihood(self, X: Any, *, per_site: bool = False) -> Score:
        """Mean over rows of the sum over columns of log p(v_j | the others), exact; per column with `per_site`."""
        rows = self._outcomes(X)
        sizes = {"batch_size": rows_at_once(rows)} if is_sparse(rows) else {}
        return pseudo_log_likelihood(
            self.model_, rows, per_site=per_site, data_space=self.outcomes.space(rows.shape[1]), **sizes
        )
