"""The mean-field recurrent network: inference of binary sparse coding unrolled, and trained end to end."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array, Noise
from gnomon.data.examples import Examples
from gnomon.data.preprocessing import standardization
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.domains import Labels, Real
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.objectives.unrolled import UnrolledLoss
from gnomon.recipes.fields import Doc
from gnomon.system.by_gradient import ByGradient
from gnomon.system.densities import with_signature
from gnomon.system.fields import HasDtype, Standardized
from gnomon.system.gaps import Cells, FillsGaps
from gnomon.system.latent_codes import LatentCodes
from gnomon.systems.factors._component_cells import ComponentCells
from gnomon.systems.factors._mean_field_network import MeanFieldNetworkModel

__all__ = ["MeanFieldNetwork", "MeanFieldNetworkModel"]

MOST_VISITED = 20
"""Components whose sets are visited for the most probable one."""


class MeanFieldNetwork(FillsGaps, LatentCodes, ByGradient, Standardized, HasDtype):
    r"""Mean-field recurrent network: T rounds of inference in binary sparse coding as layers, trained end to end.

    :math:`p(h_i = 1) = \sigma(b_i)`, :math:`p(x | h) = N(W h, \mathrm{diag}(\beta)^{-1})`. A round moves all units part
    of the way to :math:`\sigma(b + x^T \beta W - \tfrac12 \mathrm{diag}(G) - G_0 h)`, :math:`G = W^T \beta W` with
    :math:`G_0` its part off the diagonal: input drive and lateral inhibition. The rounds share W, b and beta, so the
    network is an iterative autoencoder whose decoder is the model itself, and it is fitted by the gradient of what its
    last state is worth: the evidence lower bound, inputs that it did not see, or labels.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Columns of W, in units of the scaled columns.
    classes_ : array of shape (n_classes,)
        Labels, sorted; of ``labels`` alone.
    history_ : dict of lists
        By epoch ``negative_bound``, ``held_out`` or ``cross_entropy``, and ``gradient_norm``.

    Notes
    -----
    Untrained it is T damped parallel updates of `gnomon.inference.variational.binary_sparse_coding.BinarySparseCoding`;
    many end at its fixed points. All units at once may swing between two states without end; a round therefore goes no
    further than :math:`1 / (1 + \|G_0\|_\infty / 4)`, with which none swings, and states stay in [0, 1]. Gradients may
    still grow with the rounds: `clip` shortens them. `residual` says how far last states are from settled. With
    ``tied=False`` each round has weights of its own, which begin at the model's: the state is then no longer an
    inference in any model, only a start for the decoder. The density is the bound at the last state, a
    ``lower bound``. Missing cells are filled in by the model itself: over all states of up to 12 components, along
    chains of more. Cost of an update O(batch (n m + T m^2)), of hidden inputs O(batch T n m), and the memory of all
    rounds.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), section 19.4.1; Gregor and LeCun (2010), "Learning fast approximations of
    sparse coding", for weights of their own.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> X = (random.random((300, 2)) < 0.4) @ np.eye(2, 4) * 3 + 0.3 * random.normal(size=(300, 4))
    >>> network = MeanFieldNetwork(n_components=3, epochs=30, random_state=0).fit(X)
    >>> network.forward(X, 20).shape, bool(network.score(X) > -5.0)  # independent normal columns -5.4
    ((300, 3), True)
    """

    name: ClassVar[str] = "mean-field-network"
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")
    model_class: ClassVar[type] = MeanFieldNetworkModel
    domain = Real(largest=1e15)

    n_components: Annotated[int, "[1, inf)", Doc("Components m; there may be more of them than columns.")] = 32
    steps: Annotated[int, "[1, inf)", Doc("Rounds T, of the fit and of its codes.")] = 10
    damping: Annotated[float, "[0, 1)", Doc("Share of the old state that a round keeps at least.")] = 0.5
    tied: Annotated[bool, Doc("Whether all rounds have the weights of the model, or each its own.")] = True
    loss: Annotated[
        Literal["elbo", "held-out", "labels"],
        Doc(
            "What the last state is trained for: the evidence lower bound, the inputs that the rounds were not shown "
            "(half of them, others at each update), or labels."
        ),
    ] = "elbo"
    floor: Annotated[
        float, "(0, inf)", Doc("Least standard deviation of the noise of a column, in units of the scaled columns.")
    ] = 0.1
    epochs: int = 100
    batch_size: int | None = 64
    learning_rate: float = 1e-2
    clip: float | None = 10.0

    # --- fit ----------------------------------------------------------------------------------------------------------

    @property
    def labeled(self) -> bool:  # type: ignore[override]
        """Whether it learns from rows with labels."""
        return self.loss == "labels"

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        examples = super().ingest(X, None, sample_weight)
        if self.loss != "labels":
            return examples
        self.classes_, codes = Labels().encode(y, n=len(examples))
        if len(self.classes_) < 2:
            raise UserValueError("y must hold at least 2 classes, got 1 class", "y", "or choose another loss")
        return examples.replace(y=codes)

    def encode_target(self, y: Any, rows: Array) -> Any:
        return None if self.loss != "labels" else Labels().locate(y, self.classes_, n=len(rows))[1]

    def arguments(self, examples: Any) -> dict[str, Any]:
        found: dict[str, Any] = super().arguments(examples)
        return found | ({"n_classes": len(self.classes_)} if self.loss == "labels" else {})

    def make(self, n_features: int, dtype: str, n_classes: int | None = None) -> MeanFieldNetworkModel:
        return MeanFieldNetworkModel(
            n_features, self.n_components, self.steps, self.damping, tied=self.tied, n_classes=n_classes,
            floor=self.floor, dtype=getattr(torch, dtype),
        )  # fmt: skip

    def initialize(self, model: MeanFieldNetworkModel, examples: Examples, noise: Noise) -> None:
        if self.standardize:
            mean, deviation = standardization(examples.X, examples.weight)
            model.shift.copy_(torch.from_numpy(mean))
            model.scale.copy_(torch.from_numpy(deviation))
        with torch.no_grad():
            for name in ("components", "readout"):
                if hasattr(model, name):
                    value = model.get_parameter(name)
                    value.copy_(noise.child(name).normal(tuple(value.shape), like=value) / value.shape[0] ** 0.5)
        model.untie()

    def make_objective(self) -> UnrolledLoss:
        return UnrolledLoss(self.loss)

    # --- inference ----------------------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return self.n_components

    def forward(self, X: Any, steps: int | None = None) -> Array:
        """The state of the units after so many rounds, those of the fit by default, shape (n, n_components)."""
        rows = self._rows(X)
        if steps is None:
            return self.model_.ask("encode", rows)
        if isinstance(steps, bool) or not hasattr(steps, "__index__") or steps < 0:
            raise UserValueError.must("steps", "be a whole number of at least 0", steps)
        with torch.no_grad():
            found: Array = self.model_(torch.tensor(rows, device=self.model_.device), int(steps)).cpu().numpy()
        return found

    def latent_posterior(self, rows: Array) -> Bernoulli:
        """Independent units with the state after the rounds of the fit as chances: mean field, an approximation."""
        return Bernoulli.of(self.latent_means(rows))

    def latent_means(self, rows: Array) -> Array:
        """The state after the rounds of the fit."""
        codes: Array = self.model_.ask("encode", rows)
        return codes

    def latent_modes(self, rows: Array) -> Array:
        """The most probable sets of components, of which all 2^m are visited, up to 20."""
        model = self.model_
        if self.n_components > MOST_VISITED:
            what = (
                f"the most probable of 2^{self.n_components} sets of components is beyond the limit of 2^{MOST_VISITED}"
            )
            raise UserValueError(what, "method", "take their means, or fewer components")
        scaled = model.ask("scaled", rows).astype(np.float64)
        return model.coding().transform(scaled, method="map").astype(rows.dtype)

    def residual(self, X: Any) -> Array:
        """How far each row's last state is from its update, the largest over the units: 0 at a fixed point, (n,)."""
        return self.model_.ask("residual", self._rows(X))

    def inverse_transform(self, H: Any) -> Array:
        """E[x | h] of states, shape (n, n_features)."""
        check_is_fitted(self)
        codes = Real().check(H, name="H", dtype=self.arguments_["dtype"])
        if codes.shape[1] != self.n_components:
            what = f"H must have {self.n_components} columns, one per component, got {codes.shape[1]}"
            raise UserValueError(what, "H")
        return self.model_.ask("decode", codes)

    def reconstruct(self, X: Any) -> Array:
        """E[x | h] at the last state, shape (n, n_features)."""
        return self.model_.ask("reconstruct", self._rows(X))

    def classify(self, X: Any) -> Array:
        """The most probable class of each row, shape (n,); of a network that was trained for labels."""
        if self.loss != "labels":
            raise UserValueError(f"loss={self.loss!r} learns no classes", "loss", "fit with loss='labels'")
        return self.classes_[self.model_.ask("scores", self._rows(X)).argmax(1)]

    # --- evidence -----------------------------------------------------------------------------------------------------

    def elbo(self, X: Any) -> Array:
        """Evidence lower bound of each row in nats at the last state, at most log p(x), shape (n,)."""
        return np.asarray(self.model_.ask("bound", self._rows(X)), np.float64)

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """The bound of the likelihood of the rows; of a network of labels, where y is given, how many are right."""
        rows = self._rows(X)
        space = self.outcomes.space(rows.shape[1])
        note = "mean field after the rounds of the network"
        found = Score.from_pointwise(
            self.elbo(X), name=self.primary, unit="nats", data_space=space, kind="lower bound", note=note
        )
        scores = with_signature(self, {self.primary: found}, rows)
        if y is None or self.loss != "labels":
            return scores
        codes = Labels().locate(y, self.classes_, n=len(rows))[1]
        right = (self.model_.ask("scores", rows).argmax(1) == codes).astype(float)
        space = f"pmf on {len(self.classes_)} classes"
        return scores | {"accuracy": Score.from_pointwise(right, name="accuracy", unit="fraction", data_space=space)}

    # --- rows with missing cells --------------------------------------------------------------------------------------

    def cells_given(self, rows: Array, missing: NDArray[np.bool_], noise: Noise) -> Cells:
        cells = ComponentCells(self.model_, noise)
        return self._in_own_units(cells.moments(rows, missing), cells.exact, cells.note)

    def cells_drawn(self, rows: Array, missing: NDArray[np.bool_], noise: Noise) -> Cells:
        cells = ComponentCells(self.model_, noise)
        return Cells(self._in_units(cells.draw(rows, missing)), None, cells.exact, cells.note)

    def observed_estimate(self, rows: Array, missing: NDArray[np.bool_]) -> tuple[Array, dict[str, Any]]:
        found = ComponentCells(self.model_).bound(rows, missing)
        return found, {"kind": "lower bound", "note": "mean field of the components"}

    @available_if(lambda self: not hasattr(self, "model_") or ComponentCells(self.model_).exact)
    def log_prob_observed(self, X: Any, mask: Any = None) -> Array:
        """Exact log density of the known cells of each row in nats, of up to 12 components; 0 of a row without any.

        Parameters as of `impute`.
        """
        rows, missing = self._gaps(X, mask)
        found = ComponentCells(self.model_).moments(rows, missing).log_prob
        return np.asarray(found - self._log_units_seen(rows, missing))

    @property
    def components_(self) -> Array:
        """Rows of W^T."""
        return self.model_.state()["components"].T

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.loss == "labels"
        return tags
