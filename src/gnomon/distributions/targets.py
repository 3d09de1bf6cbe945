"""What a regression predicts: a column of finite numbers, checked once before anything is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.distributions.arrays import Floats, plain
from gnomon.errors import UserError, UserTypeError, UserValueError, shown

__all__ = ["Target"]


@dataclass(frozen=True)
class Target:
    """The numbers that a regression predicts: one per row, or a row of them where a system predicts several.

    Whole numbers and truth values are numbers too. The answer is float64 whatever the dtype of X, so that a target such
    as a time in seconds keeps its digits until it is centered.

    Parameters
    ----------
    largest : float in (0, inf), default 1e100
        Largest absolute value in double precision; beyond it sums of squares overflow. In single precision the limit is
        1e15 for the same reason.

    Examples
    --------
    >>> Target().check([3, 1, 2])
    array([3., 1., 2.])
    >>> Target().space(1)
    'target in R^1'
    """

    largest: float = 1e100

    def check(
        self, y: Any, *, n: int | None = None, name: str = "y", dtype: Any = np.float64, several: bool = False
    ) -> Floats:
        """The target as a float64 array; the input is never written to.

        Parameters
        ----------
        y : array-like of shape (n,) or, with `several`, (n, t)
            A column of shape (n, 1) is taken as (n,) with scikit-learn's warning unless `several` is set.
        n : int, optional
            How many rows there must be.
        name : str, default "y"
            What error messages call it.
        dtype : float32 or float64, default float64
            What the system computes in, which decides how large a number may be.
        several : bool, default False
            Whether several outputs per row are allowed.

        Raises
        ------
        UserValueError
            No target, text, a missing number, one whose square overflows, with its row and value; another length.
        """
        if y is None:
            what = "this system requires y to be passed, but the target y is None"
            raise UserValueError(what, name, "give one number per row")
        array = plain(y, name, "give one number per row")
        if array.dtype.kind in "USOmMV":
            array = self._numbers(array, name)
        if array.dtype.kind == "c":
            raise UserValueError(f"Complex data not supported: {name} has dtype {array.dtype}", name, "use real parts")
        array = self._shaped(array, name, several)
        if n is not None and len(array) != n:
            raise UserValueError(
                f"inconsistent numbers of samples: {len(array)} targets for {n} rows", name, "give one number per row"
            )
        limit = min(self.largest, 1e15) if np.dtype(dtype) == np.float32 else self.largest
        return self._limited(np.array(array, np.float64, order="C"), limit, name)

    def describe(self) -> str:
        """What a target of this domain holds."""
        return "real numbers"

    def space(self, n_outputs: int) -> str:
        """Name of the space of the target, for scores."""
        return f"target in R^{n_outputs}"

    def _shaped(self, array: np.ndarray[Any, Any], name: str, several: bool) -> np.ndarray[Any, Any]:
        if several and array.ndim == 2 and array.shape[1]:
            return array
        from sklearn.utils import column_or_1d

        try:
            flat: np.ndarray[Any, Any] = column_or_1d(array, warn=True)
        except ValueError as error:
            raise UserValueError(" ".join(str(error).split()), name, "give one number per row") from None
        return flat

    def _numbers(self, array: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
        """Numbers out of objects; anything else is refused with its row."""
        result = np.empty(array.shape, np.float64)
        for place, cell in np.ndenumerate(array):
            if cell is None or type(cell).__name__ == "NAType":
                result[place] = math.nan
            elif _is_number(cell):
                result[place] = _float(cell)
            else:
                raise self._no_number(array, place, name)
        return result

    def _no_number(self, array: np.ndarray[Any, Any], place: tuple[int, ...], name: str) -> UserError:
        cell, text = array[place], isinstance(array[place], str | bytes | np.bytes_)
        if text:  # the first that does not even read as a number
            place = next((p for p, one in np.ndenumerate(array) if not _reads_as_number(one)), place)
        where = f"row {place[0]}" if place else name
        if text:
            what = f"value {_plain_text(array[place])!r} in {name} is text, not a number"
            return UserValueError(what, where, "name a column of numbers, or choose a classifier")
        if isinstance(cell, complex | np.complexfloating):
            return UserValueError(f"Complex data not supported: value {cell!r} in {name}", where, "use real parts")
        # the words "argument must be ... string ... number" are what scikit-learn's check_estimator looks for
        what = f"argument must be numbers: {shown(cell)} in {name} is neither a string nor a number"
        return UserTypeError(what, where, "give one number per row")

    def _limited(self, y: Floats, limit: float, name: str) -> Floats:
        with np.errstate(invalid="ignore"):
            good = np.abs(y) <= limit
        if good.all():
            return y
        place = np.unravel_index(int(good.argmin()), y.shape)
        value, row = y[place], f"row {place[0]}"
        if np.isnan(value):
            raise UserValueError(f"Input {name} contains NaN", row, "give every row a target or drop the row")
        if np.isinf(value):
            raise UserValueError(f"Input {name} contains infinity", row, "drop or replace it")
        what = f"value {value:g} in {name} is too large: beyond {limit:g} sums of squares overflow"
        raise UserValueError(
            what, row, "choose a larger unit for the target" + ("" if limit > 1e15 else ", or float64")
        )


def _is_number(cell: Any) -> bool:
    """NumPy counts spans of time among its whole numbers."""
    real = isinstance(cell, bool | int | float | np.bool_ | np.integer | np.floating)
    return real and not isinstance(cell, np.timedelta64)


def _float(number: Any) -> float:
    """The number, or infinity for a whole number beyond float64."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _reads_as_number(text: Any) -> bool:
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def _plain_text(text: Any) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
