"""Linear regression: least squares in closed form or by gradient descent, with L1 and L2 penalties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from gnomon.contracts import Array, Noise, Procedure
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Real
from gnomon.distributions.real import Normal
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.sparse import is_sparse
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.system.fields import GradientSteps, HasDtype
from gnomon.system.prediction import DensityRegressor
from gnomon.systems.linear._chunks import InChunks
from gnomon.systems.linear._conjugate import NormalEquations
from gnomon.systems.linear._least_squares import Affine, LeastSquares, LinearRegressionModel, tell_of_perfection
from gnomon.training.optimizers import SGD

if TYPE_CHECKING:
    from gnomon.objectives.supervised import Supervised

__all__ = ["LinearRegression"]

GRADIENT_ALONE = ("optimizer", "learning_rate", "epochs", "max_updates", "batch_size", "tol")
"""Fields that the closed form has no use for."""


class LinearRegression(InChunks, GradientSteps, HasDtype, DensityRegressor):
    r"""Affine prediction of one or several numbers, fitted by least squares.

    Minimizes :math:`\frac1n\sum_i \frac12 \|W^T x_i + b - y_i\|^2` + ``l2 / 2 ||W||^2`` + ``l1 ||W||_1``; b is never
    penalized. With ``solver="closed"`` the answer is exact up to rounding, by a triangular factor of the rows: the
    condition number is not squared. Where columns depend on each other it is the solution of least norm, and ``rank_``
    says so. With ``solver="conjugate-gradient"`` the normal equations are solved by products with the rows alone, for
    tables of very many columns; `tol` and `epochs` say when it ends. With ``solver="gradient"`` W and b start at zero
    and take mini-batch steps, which with fewer rows than all and a constant rate end in a noise ball; L1 is a proximal
    step (Parikh and Boyd 2014, section 4.2) after each.

    Where y is normal around the prediction, W and b without penalties are the likeliest ones whatever the variance of
    the noise, and ``noise_variance_`` is the likeliest variance: `log_prob`, `sample` and ``predict(return_std=True)``
    take all three as known.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_outputs, n_features)
    intercept_ : float or array of shape (n_outputs,)
    noise_variance_ : float or array of shape (n_outputs,)
        Mean squared error of the training rows: the likeliest variance of Gaussian noise (divisor n, hence biased), at
        least 1e-12 of the target's variance, since the likelihood of a perfect fit has no bound; the fit tells of it.
    rank_ : int
        Of the centered columns; closed form only.
    history_ : dict of lists
        ``half_squared_error`` (gradient: of the standardized target), ``gradient_norm`` by epoch; or ``rank``.

    Notes
    -----
    Cost O(n d^2) closed, O(n d) per epoch of the others. Sources: Gauss 1809; Hoerl and Kennard 1970 (L2); Tibshirani
    1996 (L1); Golub and Van Loan (2013), sections 5.3, 5.5 and 11.3.

    Examples
    --------
    >>> fitted = LinearRegression(dtype="float64").fit([[1], [2], [3]], [2, 3, 5])
    >>> fitted.coef_.round(4).tolist(), round(float(fitted.intercept_), 4)
    ([1.5], 0.3333)
    >>> round(fitted.score([[1], [2], [3]], [2, 3, 5]), 4)
    0.9643
    """

    name: ClassVar[str] = "linear-regression"
    model_class: ClassVar[type] = LinearRegressionModel
    domain = Real(largest=1e100)
    takes_sparse: ClassVar[bool] = True
    several: ClassVar[bool] = True
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "l1": {"solver": "gradient", "optimizer": "sgd"},
        "random_state": {"solver": "gradient", "batch_size": 7},
        **{field: {"solver": "gradient"} for field in GRADIENT_ALONE},
    }

    solver: Annotated[
        Literal["closed", "gradient", "conjugate-gradient"],
        Doc("How the minimum is found; of ``conjugate-gradient`` an epoch is a step and a pass over the rows."),
    ] = "closed"
    l2: Annotated[
        float,
        "[0, inf)",
        Doc("Factor of the penalty on squares; without standardizing the optimum is that of ``Ridge(alpha=n * l2)``."),
    ] = 0.0
    l1: Annotated[
        float,
        "[0, inf)",
        Doc(
            "Factor of the penalty on absolute values, which makes weights exactly 0; that of ``Lasso(alpha=l1)``. "
            'Needs ``solver="gradient"`` with plain ``sgd``.'
        ),
    ] = 0.0
    standardize: Annotated[
        bool,
        Doc(
            "Whether columns are brought to mean 0 and standard deviation 1 over the training rows (divisor n), and "
            'for ``solver="gradient"`` the target too; the penalties then belong to the weights of these columns.'
        ),
    ] = True
    optimizer: Annotated[
        str | Recipe, Doc('How a gradient becomes a step; of ``solver="gradient"`` only, like all that follows.')
    ] = "adam"
    learning_rate: Annotated[
        float,
        "(0, inf)",
        Doc("Step size. Full-batch ``sgd`` converges below 2 / lambda_max of the mean of [x, 1][x, 1]^T."),
    ] = 0.05
    epochs: int = 200
    tol: Annotated[
        float,
        "[0, inf)",
        Doc(
            "End when the gradient's norm, in units of the target's spread, is at most this at the end of an epoch; "
            "with L1 the norm of the step that the weights took, by the learning rate."
        ),
    ] = 1e-6

    def check_parameters(self) -> None:
        super().check_parameters()
        if not self.l1:
            return
        if self.solver != "gradient":
            what = f'solver must be "gradient" where l1 is above 0, got "{self.solver}"'
            raise UserValueError(what, "solver", 'use solver="gradient" and optimizer="sgd"')
        if self.recipe("optimizer") != SGD():
            what = 'optimizer must be plain "sgd" where l1 is above 0'
            raise UserValueError(what, "optimizer", 'use optimizer="sgd" without momentum or decay')

    def make(self, n_features: int, dtype: str, n_outputs: int | None) -> Affine:
        if self.solver != "gradient":
            return LinearRegressionModel(n_features, n_outputs or 1, dtype)
        from gnomon.systems.linear._descent import DescentModel  # torch, which the closed form has no use for

        return DescentModel(n_features, n_outputs or 1, dtype)

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        if self.solver == "gradient" and is_sparse(X):
            remedy = "use '.toarray()' to convert to a dense array, or solver=\"closed\""
            raise UserTypeError("Sparse data was passed for X, but dense data is required", "X", remedy)
        return super().ingest(X, y, sample_weight)

    def initialize(self, model: Affine, examples: Examples, noise: Noise) -> None:
        if self.solver != "gradient" or self.standardize:
            model.standardize(examples, scaled=self.solver != "closed" and self.standardize)

    def make_objective(self) -> Supervised | None:
        if self.solver != "gradient":
            return None
        from gnomon.objectives.losses import SquaredError
        from gnomon.objectives.supervised import Supervised

        return Supervised(SquaredError(summed=True), targets="scaled", name="half_squared_error", l2=self.l2)

    def procedure(self, examples: Any) -> Procedure:
        if self.solver == "closed":
            return LeastSquares(self.l2, self.standardize)
        if self.solver == "conjugate-gradient":
            return NormalEquations(self.l2, self.epochs if self.max_updates is None else self.max_updates, self.tol)
        from gnomon.systems.linear._descent import Descent
        from gnomon.training.gradient import Budget

        return Descent(
            self.recipe("optimizer"), self.learning_rate, Budget.of(self.epochs, self.max_updates), self.tol, l1=self.l1
        )

    def finish(self, model: Affine) -> None:
        tell_of_perfection(model)

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> LinearRegression:
        """Take in more rows: whatever the chunks, the result is one closed-form fit to all rows so far.

        Goes on from a closed-form fit too. Cost O(n d^2 + d^3) per chunk; the factor of the rows, d^2 numbers, stays in
        memory and is not saved. An empty chunk changes nothing.

        Raises
        ------
        UserValueError
            Another solver, or a model without the factor: loaded, or fitted by gradient.
        """
        if self.solver != "closed":
            raise UserValueError("chunks need the closed form", "solver", 'use solver="closed"')
        return super().partial_fit(X, y, sample_weight=sample_weight)

    # --- verbs --------------------------------------------------------------------------------------------------

    def _squeezed(self, values: Array) -> Array:
        """Without the axis of outputs where y had none."""
        return values[..., 0][()] if self.arguments_["n_outputs"] is None else values

    def predict_rows(self, rows: np.ndarray[Any, Any]) -> Array:
        return self._squeezed(self.model_.predict(rows))

    def target_distribution(self, rows: np.ndarray[Any, Any]) -> Normal:
        return Normal(self.predict_rows(rows), np.sqrt(self.noise_variance_))

    @property
    def coef_(self) -> Array:
        """Weights of the columns as they were given, shape (n_features,) or (n_outputs, n_features)."""
        return self._squeezed(self.model_.coefficients()).T

    @property
    def intercept_(self) -> Any:
        """Prediction where all columns are 0."""
        return self._squeezed(self.model_.predict(np.zeros((1, self.n_features_in_)))[0])

    @property
    def noise_variance_(self) -> Any:
        """Mean squared error of the training rows."""
        return self._squeezed(self.model_.state()["noise"])

    @property
    def rank_(self) -> int:
        """Rank of the centered columns, of a closed-form fit."""
        if "rank" not in self.history_:
            raise AttributeError("rank_ belongs to the closed form")
        return int(self.history_["rank"][-1])
