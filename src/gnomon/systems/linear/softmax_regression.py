"""Softmax regression: class probabilities from affine scores."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import torch

from gnomon.contracts import Array, Noise, Procedure
from gnomon.data.examples import Examples
from gnomon.data.preprocessing import standardization
from gnomon.distributions.domains import Real
from gnomon.nn.module import Module
from gnomon.numeric.ops import log_softmax, softmax
from gnomon.numeric.sparse import SparseRows, is_sparse, units_of
from gnomon.objectives.losses import CrossEntropyLoss
from gnomon.objectives.supervised import Supervised
from gnomon.recipes.fields import Doc
from gnomon.system.fields import GradientSteps, HasDtype, Standardized
from gnomon.system.partial_fit import OnlineClassifier
from gnomon.system.prediction import without_nan
from gnomon.training.gradient import Budget, Gradient
from gnomon.training.group import current as current_group

__all__ = ["SoftmaxRegression", "SoftmaxRegressionModel"]


class SoftmaxRegressionModel(Module):
    r"""p(class j | x) = softmax(W^T (x - shift) / scale + b)_j, shift and scale fixed.

    Parameters
    ----------
    n_features, n_classes : int
    dtype : torch.dtype
    """

    def __init__(self, n_features: int, n_classes: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(n_features, n_classes, dtype=dtype))
        self.bias = torch.nn.Parameter(torch.zeros(n_classes, dtype=dtype))
        self.shift: torch.Tensor
        self.scale: torch.Tensor
        self.register_buffer("shift", torch.zeros(n_features, dtype=dtype))
        self.register_buffer("scale", torch.ones(n_features, dtype=dtype))

    @property
    def matrices(self) -> list[torch.Tensor]:
        """The weights, which penalties act on."""
        return [self.weight]

    def scores(self, x: torch.Tensor | SparseRows) -> torch.Tensor:
        """Affine scores, shape (n, n_classes); of sparse rows x (W / scale) + (b - (shift / scale) W), in float64."""
        if isinstance(x, SparseRows):
            weight = self.weight.double() / self.scale.double()[:, None]
            product: Any = _SparseProduct.apply
            return (product(weight, x) + (self.bias.double() - self.shift.double() @ weight)).to(self.bias.dtype)
        return torch.addmm(self.bias, (x - self.shift) / self.scale, self.weight)


class _SparseProduct(torch.autograd.Function):
    """Sparse rows times a matrix: a cost of the entries, forwards and backwards."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, x: SparseRows) -> torch.Tensor:
        """x @ weight, of a matrix in float64."""
        ctx.x = x
        return torch.from_numpy(x @ weight.detach().cpu().numpy()).to(weight.device)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """x^T @ gradient."""
        (gradient,) = gradients
        return torch.from_numpy(ctx.x.T @ gradient.cpu().numpy()).to(gradient.device), None


class SoftmaxRegression(GradientSteps, Standardized, HasDtype, OnlineClassifier):
    r"""Linear classifier of any number of classes, fitted by maximum likelihood.

    The scores are o = W^T x + b, the probabilities softmax(o), the loss the mean cross-entropy
    :math:`\log\sum_k e^{o_k} - o_y` plus ``l2 / 2 * ||W||^2``. W and b start at zero. Without a penalty they are
    identified only up to a shift of all classes, and grow without bound on data that a plane separates. By default the
    columns are first brought to mean 0 and spread 1 over the training rows (divisor n), and W belongs to these.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    coef_ : array of shape (n_classes, n_features)
    intercept_ : array of shape (n_classes,)
    history_ : dict of lists
        ``cross_entropy`` (nats per row), ``gradient_norm`` by epoch.

    Notes
    -----
    Cost O(n d classes) per epoch, of sparse tables O(entries classes) and O(d classes) per batch. Source: Bishop
    (2006), section 4.3.4.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> SoftmaxRegression(random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    name: ClassVar[str] = "softmax-regression"
    model_class: ClassVar[type] = SoftmaxRegressionModel
    domain = Real(largest=1e100)
    takes_sparse: ClassVar[bool] = True
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"random_state": {"batch_size": 7}}

    epochs: int = 200
    learning_rate: float = 0.05
    l2: Annotated[
        float,
        "[0, inf)",
        Doc("Factor of the penalty on W; ``LogisticRegression(C=1 / (n * l2))`` has the same optimum."),
    ] = 1e-4
    tol: Annotated[
        float,
        "[0, inf)",
        Doc("End when the gradient's norm is at most this at the end of an epoch; 0 runs all epochs."),
    ] = 1e-6

    def make(self, n_features: int, n_classes: int, dtype: str) -> SoftmaxRegressionModel:
        return SoftmaxRegressionModel(n_features, n_classes, getattr(torch, dtype))

    def initialize(self, model: SoftmaxRegressionModel, examples: Examples, noise: Noise) -> None:
        if not self.standardize:
            return
        X = examples.X
        shift, scale = (units_of if is_sparse(X) else standardization)(X, examples.weight)
        if not is_sparse(X):  # whose entries are multiplied in float64, and never standardized
            _warn_of_lost_values(X, ((X - shift.astype(X.dtype)) / scale.astype(X.dtype)))
        model.shift.copy_(torch.from_numpy(shift))
        model.scale.copy_(torch.from_numpy(scale))

    def make_objective(self) -> Supervised:
        return Supervised(CrossEntropyLoss(), l2=self.l2)

    def procedure(self, examples: Any) -> Procedure:
        return Gradient(
            self.recipe("optimizer"), self.learning_rate, Budget.of(self.epochs, self.max_updates), self.tol
        )

    def _fit(self, examples: Any, run: Any = None, validation: Any = None, *, limit: int | None = None) -> Self:
        super()._fit(examples, run, validation, limit=limit)
        decays = getattr(self.recipe("optimizer"), "weight_decay", 0.0)
        if not self.l2 and not decays and current_group().rank == 0:
            self._warn_of_separation(examples)
        return self

    def _warn_of_separation(self, examples: Examples) -> None:
        """Weights that get every row right can be doubled for ever: then there is no optimum, and these prove it."""
        counted = examples.weight > 0
        scores, codes = self._scores(examples.X[counted]), np.asarray(examples.y)[counted]
        own = np.take_along_axis(scores, codes[:, None], axis=1)
        if ((scores >= own).sum(axis=1) == 1).all():
            warnings.warn(
                "a plane separates the classes: without a penalty no weights are the best, they only stopped growing; "
                "set l2 above 0",
                UserWarning, stacklevel=4,
            )  # fmt: skip

    def decision_function(self, X: Any) -> Array:
        """Scores of the classes, shape (n, n_classes); with two classes the second's minus the first's, shape (n,)."""
        scores = self._scores(self._rows(X))
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def _scores(self, rows: Any) -> np.ndarray[Any, Any]:
        if is_sparse(rows):
            with torch.no_grad():
                scores: np.ndarray[Any, Any] = self.model_.scores(rows).cpu().numpy()
            return scores
        state = self.model_.state()
        return np.matmul((rows - state["shift"]) / state["scale"], state["weight"]) + state["bias"]

    def class_log_proba(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return log_softmax(self._scores(rows), 1)

    def class_proba(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return softmax(self._scores(rows), 1)

    def class_codes(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.argmax(without_nan(self._scores(rows)), axis=1)

    @property
    def coef_(self) -> Array:
        """Weights of the columns as they were given, shape (n_classes, n_features)."""
        state = self.model_.state()
        return (state["weight"] / state["scale"][:, None]).T

    @property
    def intercept_(self) -> Array:
        """Biases by class, for the columns as they were given."""
        state = self.model_.state()
        return state["bias"] - np.matmul(state["shift"] / state["scale"], state["weight"])


def _warn_of_lost_values(before: np.ndarray[Any, Any], after: np.ndarray[Any, Any], rows: int = 10_000) -> None:
    """Say where single precision makes values equal that were not: one outlier can leave a column without digits."""
    for column in range(before.shape[1]):
        distinct, left = (len(np.unique(X[:rows, column])) for X in (before, after))
        if left < distinct:
            warnings.warn(
                f"column {column}: {distinct} distinct values became {left} after standardizing in {before.dtype}; "
                "remove outliers, give float64, or set standardize=False",
                UserWarning, stacklevel=2,
            )  # fmt: skip
            return
