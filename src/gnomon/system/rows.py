"""What a user hands over becomes rows of numbers: prepared, checked, scaled; and what comes out, in its own units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from gnomon.data.dataset import Dataset
from gnomon.data.examples import Dense
from gnomon.data.frames import needs_preparation
from gnomon.data.preparation import Preparation
from gnomon.data.prepared import Prepared
from gnomon.distributions.arrays import column_names, with_names
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.sparse import is_sparse

__all__ = ["TakesRows"]


class TakesRows(BaseEstimator):
    """Rows of a domain, from arrays, sparse tables, and frames of raw columns that a preparation makes numbers of."""

    domain: ClassVar[Any]
    takes_sparse: ClassVar[bool] = False
    """Whether a sparse table of SciPy's is computed with as it is."""
    arguments_: dict[str, Any]
    preparation_: Prepared

    @property
    def _preparation(self) -> Prepared | None:
        """What makes numbers of raw columns; None where the columns are taken as they are."""
        return getattr(self, "preparation_", None)

    def _keep_preparation(self, X: Any, preparation: Prepared | None) -> Any:
        """X as numbers; what makes numbers of raw columns is kept."""
        self.__dict__.pop("preparation_", None)
        if preparation is None and self.domain.is_table and needs_preparation(X):
            preparation = Preparation().fit(X, keep_missing=self.domain.allow_missing, indicators=self._predicts())
        if preparation is None:
            return X
        self.preparation_ = preparation
        return preparation.given(X)

    def _predicts(self) -> bool:
        """Whether it learns to predict a label or a number, and does not model the columns themselves."""
        tags = self.__sklearn_tags__()
        return bool(tags.target_tags.required)

    def known_domain(self) -> Any:
        """The domain of what comes after the fit, with what the fit has settled: a size of images, a vocabulary."""
        return self.domain

    def _rows(self, X: Any, *, reset: bool = False) -> Any:
        """What a user hands over, checked: the array of a dense field, any other field as it is."""
        if not reset:
            check_is_fitted(self)
        domain = self.domain if reset else self.known_domain()
        preparation = self._preparation
        if preparation is not None and not reset:
            X = preparation.given(X)
        if isinstance(X, Dataset) and not domain.reads_datasets:
            what = f"X is the data set {X.name}, not {domain.noun}"
            raise UserTypeError(what, "X", f"give one of its views: X.view({domain.features!r})")
        dtype = getattr(self, "dtype", None) or (None if reset else self.arguments_.get("dtype"))
        sparse = self.takes_sparse and is_sparse(X)
        field = domain.ingest_sparse(X, dtype=dtype) if sparse else domain.ingest(X, dtype=dtype)
        columns = domain.columns(X, field)
        if columns is not None:
            self._check_columns(columns, reset)
        if not isinstance(field, Dense):
            return field
        return field.values if preparation is None else preparation.scaled(field.values)

    def _validation_rows(self, X: Any, examples: Any) -> Any:
        """Rows of validation, before there is a model, by what the training rows have settled."""
        return self._rows(X)

    def _check_columns(self, X: Any, reset: bool) -> None:
        """Keep number and names of the columns, or refuse others: scikit-learn's words, in one line."""
        if column_names(X) is not None:
            X = with_names(X, None if reset else list(getattr(self, "feature_names_in_", ())))
        try:
            validate_data(self, X, reset=reset, skip_check_array=True)
        except (TypeError, ValueError) as error:
            names = getattr(X, "columns", None)
            if isinstance(error, TypeError) and names is not None:
                kinds = " and ".join(sorted({type(name).__name__ for name in names}))
                what = f"names of columns must all be text or all be something else, got {kinds}"
                raise UserTypeError(what, "X", "make them text: X.columns = X.columns.astype(str)") from None
            kind = UserTypeError if isinstance(error, TypeError) else UserValueError
            remedy = "" if reset else "give the columns of the fit"
            raise kind(" ".join(str(error).split()).rstrip("."), "X", remedy) from None

    def _log_units(self, rows: Any) -> Any:
        """What the log density of scaled rows is larger by than that of the rows in their own units."""
        preparation = self._preparation
        return 0.0 if preparation is None else preparation.log_units(rows)

    def _in_units(self, rows: Any) -> Any:
        """Rows of the model in the columns' own units."""
        preparation = self._preparation
        return rows if preparation is None else preparation.in_units(rows)

    def own_rows(self, X: Any) -> Any:
        """X as the prepared columns in their own units, those that scores are in."""
        return self._in_units(self._rows(X))

    def _preparation_facts(self) -> dict[str, Any]:
        """What makes numbers of raw columns, as a run keeps it."""
        preparation = self._preparation
        return {} if preparation is None else {"preparation": preparation.to_json()}

    def _restore_preparation(self, facts: Mapping[str, Any]) -> None:
        if "preparation" in facts:
            self.preparation_ = Prepared.from_json(facts["preparation"])
