"""What data may be. A domain checks a table once, before anything is computed, and names the first cell outside it.

``check`` gives the array that a model computes with; ``space`` names what a score on such data means, so that a density
and a probability mass are never compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.distributions.arrays import Floats, column_names, first_cell, place, plain, table
from gnomon.distributions.independent import BernoulliColumns, GaussianColumns, IndependentColumns
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.numeric.ragged import Dense, Field
from gnomon.numeric.sparse import Sparse, SparseRows

__all__ = ["Binary", "Domain", "Labels", "Real", "UnitInterval", "refuse_empty"]

EXAMPLE_COLUMNS = 5


def refuse_empty(array: NDArray[Any], name: str = "X") -> None:
    """Refuse an array without rows or without columns, in scikit-learn's words."""
    if array.size:
        return
    what = "sample" if not len(array) else "feature"
    raise UserValueError(
        f"Found array with 0 {what}(s) (shape={array.shape}) while a minimum of 1 is required", name,
        "give at least one row and one column",
    )  # fmt: skip


class Domain:
    """Base of the domains. Of a table of numbers a subclass says what a cell may be, in `_check_cells`.

    A domain of another form says `check`, `ingest` and `columns` itself.
    """

    allow_missing: bool = False
    is_table: ClassVar[bool] = True
    """Whether an example is a row of numbers in columns."""
    noun: ClassVar[str] = "a table"
    """What data of this domain is called."""
    view: ClassVar[str] = "density"
    """The view of a data set in this domain, for a model of the data itself."""
    features: ClassVar[str] = "table"
    """The view of a data set from which labels or a target are predicted."""
    reads_datasets: ClassVar[bool] = False
    """Whether a data set is taken as it is, without a view."""

    def check(self, X: Any, *, name: str = "X", dtype: Any = None) -> Floats:
        """The table as a C-ordered float array that keeps this domain; the input is never written to.

        Parameters
        ----------
        X : array-like of shape (n, d)
        name : str, default "X"
            What error messages call it.
        dtype : dtype-like, optional
            float32 or float64; None follows the input, see `gnomon.distributions.arrays.table`.

        Returns
        -------
        array of shape (n, d)

        Raises
        ------
        UserValueError
            The first offending row, column (from 0) and value, and what to do.
        """
        array = table(X, name=name, dtype=dtype)
        self._check_finite(X, array, name)
        return self._check_cells(X, array, name)

    def ingest(self, X: Any, *, dtype: Any = None, name: str = "X") -> Field | Mapping[str, Field]:
        """What a user hands over as a field of examples (or several, by name), checked.

        Parameters
        ----------
        X : anything that `check` takes
        dtype : dtype-like, optional
        name : str, default "X"

        Raises
        ------
        UserValueError
            As `check` does, and for nothing at all.
        """
        array = self.check(X, name=name, dtype=dtype)
        refuse_empty(array, name)
        return Dense(array)

    def ingest_sparse(self, X: Any, *, dtype: Any = None, name: str = "X") -> Sparse:
        """A sparse table of SciPy's as a field, checked; its zeros are in every domain and are not looked at.

        Raises
        ------
        UserValueError
            As `ingest` does.
        """
        rows = SparseRows(X)
        try:
            rows.check_format(full_check=True)
        except ValueError as error:
            remedy = "make it again from its rows and columns"
            raise UserValueError(
                f"{name} is a sparse table whose indices lie outside of it: {error}", name, remedy
            ) from None
        if not rows.has_canonical_format:
            rows = SparseRows(rows, copy=True)
            rows.sum_duplicates()
        try:
            cells = self.check(rows.data[:, None], name=name, dtype=dtype)
        except UserError as error:
            found = re.fullmatch(r"row (\d+), column 0", error.where)
            if found is None:
                raise
            entry = int(found[1])
            row = int(np.searchsorted(rows.indptr, entry, side="right")) - 1
            raise type(error)(error.what, f"row {row}, column {rows.indices[entry]}", error.remedy) from None
        if not all(rows.shape):
            refuse_empty(np.zeros(rows.shape), name)
        return Sparse(SparseRows((cells[:, 0], rows.indices, rows.indptr), shape=rows.shape))

    def columns(self, X: Any, field: Any) -> Any:
        """A table whose columns are those of `X`: what scikit-learn's checks of number and names look at."""
        return field.values if column_names(X) is None else X

    def example(self, random: np.random.Generator, n: int, groups: NDArray[np.int64] | None = None) -> Any:
        """Data in this domain, n examples, for checks.

        Parameters
        ----------
        random : numpy.random.Generator
        n : int
        groups : int array of shape (n,), optional
            Group 0, 1 ... of each example; the groups differ.
        """
        groups = random.integers(0, 3, size=n) if groups is None else groups
        centers = random.normal(size=(int(groups.max()) + 1, EXAMPLE_COLUMNS))
        return self._squeezed(centers[groups] + 0.5 * random.normal(size=(n, EXAMPLE_COLUMNS)))

    def shuffled(self, X: Any, random: np.random.Generator) -> Any:
        """The same values without what connects them: every column in an order of its own, for checks."""
        return random.permuted(X, axis=0)

    def malformed(self) -> list[Any]:
        """Inputs that it must refuse."""
        good = self.example(np.random.default_rng(0), 4)
        infinite, text = np.array(good, np.float64), np.array(good, object)
        infinite[1, 1], text[1, 1] = np.inf, "x"
        return [good[:0], good[0], infinite, text]

    def _squeezed(self, X: Floats) -> Floats:
        """Real numbers brought into the domain, for examples."""
        return X

    def baseline(self, X: Any) -> IndependentColumns:
        """The simplest model of data in this domain, fitted: independent columns, which every system should beat."""
        if not self.space(1).startswith("density"):
            what = f"{type(self).__name__} must give a baseline, since its space has no density"
            raise UserTypeError(what, "baseline", "return independent columns, as Binary does")
        return GaussianColumns(X)

    def describe(self) -> str:
        """What a table of this domain holds, in a few words."""
        raise NotImplementedError

    def space(self, n_columns: int) -> str:
        """Name of the data space, for scores."""
        raise NotImplementedError

    def _check_cells(self, X: Any, array: Floats, name: str) -> Floats:
        raise NotImplementedError

    def _check_finite(self, X: Any, array: Floats, name: str) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            total = array.sum(dtype=np.float64)
        if np.isfinite(total):
            return  # a single cell that is not finite makes the sum so
        bad = np.isinf if self.allow_missing else lambda block: ~np.isfinite(block)
        cell = first_cell(array, bad)
        if cell is None:
            return
        if np.isnan(array[cell]):
            remedy = "fill or drop missing values, or choose a system that takes them"
            raise UserValueError(f"value NaN in {name} is missing", place(X, *cell), remedy)
        remedy = "drop or replace it" if array.dtype == np.float64 else "drop or replace it, or use dtype float64"
        raise UserValueError(f"value {array[cell]} in {name} is not finite", place(X, *cell), remedy)


@dataclass(frozen=True)
class Real(Domain):
    """Finite real numbers.

    Parameters
    ----------
    allow_missing : bool, default False
        Whether NaN, a missing value, is let through.
    largest : float in (0, inf], default inf
        Largest absolute value; 1e100 for models that sum squares, which would overflow.

    Examples
    --------
    >>> Real().check([[1.5, 2.0]])
    array([[1.5, 2. ]])
    >>> Real().space(3)
    'density on R^3'
    """

    allow_missing: bool = False
    largest: float = math.inf

    def describe(self) -> str:
        """What a table of this domain holds."""
        return "real numbers" + (", NaN where missing" if self.allow_missing else "")

    def space(self, n_columns: int) -> str:
        """Name of the data space, for scores."""
        return f"density on R^{n_columns}"

    def _check_cells(self, X: Any, array: Floats, name: str) -> Floats:
        if not array.size or self.largest >= float(np.finfo(array.dtype).max):
            return array
        if -self.largest <= array.min() and array.max() <= self.largest:  # false where a value is missing
            return array
        cell = first_cell(array, lambda block: abs(block) > self.largest)
        if cell is not None:
            what = f"value {array[cell]} in {name} is too large: beyond {self.largest:g} sums of squares overflow"
            raise UserValueError(what, place(X, *cell), "choose a larger unit for the column")
        return array


@dataclass(frozen=True)
class UnitInterval(Domain):
    """Numbers in [0, 1].

    Parameters
    ----------
    tolerance : float in [0, 0.5), default 1e-6
        Rounding noise that far outside is clipped to the interval.

    Examples
    --------
    >>> UnitInterval().check([[0.25, 1 + 1e-9]])
    array([[0.25, 1.  ]])
    """

    tolerance: float = 1e-6
    view: ClassVar[str] = "unit"
    features: ClassVar[str] = "unit"
    remedy: ClassVar[str] = (
        "scale to [0, 1] (pixels of 0..255: divide by 255), binarize, or choose a system with Gaussian units "
        "for real data"
    )

    def describe(self) -> str:
        """What a table of this domain holds."""
        return "numbers in [0, 1]"

    def space(self, n_columns: int) -> str:
        """Name of the data space, for scores."""
        return f"density on [0,1]^{n_columns}"

    def _squeezed(self, X: Floats) -> Floats:
        return 1 / (1 + np.exp(-2 * X))

    def _check_cells(self, X: Any, array: Floats, name: str) -> Floats:
        low, high = (array.min(), array.max()) if array.size else (0.0, 0.0)
        if low >= 0 and high <= 1:
            return array
        cell = first_cell(array, lambda block: (block < -self.tolerance) | (block > 1 + self.tolerance))
        if cell is not None:
            raise UserValueError(f"{name} must be in [0, 1], got {array[cell]}", place(X, *cell), self.remedy)
        return np.clip(array, 0, 1)


@dataclass(frozen=True)
class Binary(Domain):
    """Zeros and ones: truth values, integers or floating numbers.

    Parameters
    ----------
    tolerance : float in [0, 0.5), default 1e-6
        Rounding noise that far from 0 or 1 is snapped to it.

    Examples
    --------
    >>> Binary().check([[True, False], [False, True]])
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    >>> Binary().space(2)
    'pmf on {0,1}^2'
    """

    tolerance: float = 1e-6
    view: ClassVar[str] = "binary"
    remedy: ClassVar[str] = (
        "scale to [0, 1] and binarize (X >= 0.5), or choose a system with Gaussian units for real data"
    )

    def describe(self) -> str:
        """What a table of this domain holds."""
        return "zeros and ones"

    def space(self, n_columns: int) -> str:
        """Name of the data space, for scores."""
        return f"pmf on {{0,1}}^{n_columns}"

    def baseline(self, X: Any) -> IndependentColumns:
        """Columns that are 1 with a probability of their own."""
        return BernoulliColumns(X)

    def _squeezed(self, X: Floats) -> Floats:
        return (X > 0).astype(np.float64)

    def _check_cells(self, X: Any, array: Floats, name: str) -> Floats:
        if first_cell(array, lambda block: (block != 0) & (block != 1)) is None:
            return array
        snapped = np.rint(np.clip(array, 0, 1))
        cell = first_cell(array, lambda block: (abs(block) > self.tolerance) & (abs(block - 1) > self.tolerance))
        if cell is not None:
            raise UserValueError(f"{name} must be 0 or 1, got {array[cell]}", place(X, *cell), self.remedy)
        return snapped


@dataclass(frozen=True)
class Labels:
    """One class label per row: text, whole numbers (also as floating numbers) or truth values.

    Examples
    --------
    >>> classes, codes = Labels().encode(["wet", "dry", "wet"])
    >>> classes, codes
    (array(['dry', 'wet'], dtype='<U3'), array([1, 0, 1]))
    >>> Labels().locate(["wet", "icy"], classes)
    (array([ True, False]), array([1, 0]))
    """

    def encode(
        self, y: Any, *, n: int | None = None, name: str = "y"
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The classes in sorted order and the place of each label among them.

        Parameters
        ----------
        y : array-like of shape (n,)
            A column of shape (n, 1) is taken with scikit-learn's warning.
        n : int, optional
            How many labels there must be.
        name : str, default "y"
            What error messages call it.

        Returns
        -------
        classes : array of shape (k,)
            In the dtype of the labels.
        codes : int64 array of shape (n,)

        Raises
        ------
        UserValueError
            A missing label, a measured quantity instead of a class, or text mixed with numbers, with the row.
        """
        labels = self._column(y, name)
        if n is not None and len(labels) != n:
            raise UserValueError(
                f"inconsistent numbers of samples: {len(labels)} labels for {n} rows", name, "give one label per row"
            )
        classes, codes = np.unique(labels, return_inverse=True)
        return classes, codes.reshape(-1).astype(np.int64, copy=False)

    def locate(
        self, y: Any, classes: np.ndarray[Any, Any], *, n: int | None = None, name: str = "y"
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Place of each label among classes that are known already.

        Returns
        -------
        known : bool array of shape (n,)
            False where a label is none of the classes.
        codes : int64 array of shape (n,)
            0 where it is none.

        Raises
        ------
        UserValueError
            As `encode` does.
        """
        found, codes = self.encode(y, n=n, name=name)
        table = {label: code for code, label in enumerate(np.asarray(classes).tolist())}
        known = np.array([table.get(label, -1) for label in found.tolist()], np.int64)[codes]
        return known >= 0, np.maximum(known, 0)

    def describe(self) -> str:
        """What a column of this domain holds."""
        return "class labels: text, whole numbers or truth values"

    def space(self, n_classes: int) -> str:
        """Name of the data space, for scores."""
        return f"pmf on {n_classes} classes"

    def _column(self, y: Any, name: str) -> np.ndarray[Any, Any]:
        from sklearn.utils import column_or_1d

        if y is None:
            what = "this system requires y to be passed, but the target y is None"
            raise UserValueError(what, name, "give one label per row")
        labels = plain(y, name, "give one label per row")
        if labels.dtype.kind == "U" and isinstance(y, list | tuple) and not all(isinstance(label, str) for label in y):
            labels = np.array(y, dtype=object)  # NumPy has made text of numbers
        if labels.dtype.kind == "c":
            raise UserValueError("Unknown label type: complex", name, "use text, whole numbers or truth values")
        try:
            labels = column_or_1d(labels, warn=True)
        except ValueError as error:
            raise UserValueError(str(error), name, "give one label per row") from None
        if labels.dtype.kind == "S":
            labels = np.char.decode(labels, "utf-8")
        if labels.dtype.kind in "biuU":
            return labels
        if labels.dtype.kind == "f":
            return self._whole(labels, name)
        if labels.dtype.kind != "O":
            raise UserValueError(f"Unknown label type: {labels.dtype}", name, "use text, whole numbers or truth values")
        return self._objects(labels, name)

    def _whole(self, labels: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
        bad = ~np.isfinite(labels)
        if bad.any():
            row = int(bad.argmax())
            what = "contains NaN" if np.isnan(labels[row]) else "contains infinity"
            raise UserValueError(f"Input {name} {what}", f"row {row}", "give every row a label or drop the row")
        bad = labels != np.rint(labels)
        if bad.any():
            row = int(bad.argmax())
            raise UserValueError(
                f"Unknown label type: continuous. Label {labels[row]} in {name} is not a class", f"row {row}",
                "use text or whole numbers for classes, or choose a regression",
            )  # fmt: skip
        return labels

    def _objects(self, labels: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
        for row, label in enumerate(labels):
            if label is None or type(label).__name__ == "NAType" or label != label:
                raise UserValueError(
                    f"Input {name} contains NaN or None: a label is missing",
                    f"row {row}",
                    "give every row a label or drop it",
                )
            if not isinstance(label, str | bool | int | float | np.generic):
                what = f"Unknown label type: {type(label).__name__}. Argument must be a string or a number"
                raise UserTypeError(what, f"row {row} of {name}", "use text, whole numbers or truth values")
        texts = np.fromiter((isinstance(label, str) for label in labels), bool, len(labels))
        if texts.all():
            return labels
        if texts.any():
            row = int((texts != texts[0]).argmax())
            raise UserValueError(
                f"{name} must be all text or all numbers, got also {labels[row]!r}",
                f"row {row}",
                "make all labels text",
            )
        numbers: np.ndarray[Any, Any] = np.array(labels.tolist())
        return self._whole(numbers, name) if numbers.dtype.kind == "f" else numbers
