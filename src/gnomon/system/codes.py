"""Systems whose rows are made of codes: what they ask of codes that a user hands over."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gnomon.distributions.domains import Real
from gnomon.errors import UserValueError
from gnomon.recipes.fields import Doc, Fields
from gnomon.recipes.parameters import how_many

__all__ = ["HasCodes"]


class HasCodes(Fields):
    """A fit with `n_latent` numbers behind each row."""

    n_latent: Annotated[int, "[1, inf)", Doc("Latent variables: numbers that a row is made of.")] = 10

    @property
    def n_codes(self) -> int:
        """Columns of the codes."""
        return self.n_latent

    def _codes(self: Any, Z: Any) -> np.ndarray[Any, Any]:
        """Codes in the dtype of the fit, shape (n, n_codes)."""
        check_is_fitted(self)
        codes: np.ndarray[Any, Any] = Real().check(Z, name="Z", dtype=self.arguments_["dtype"])
        if codes.shape[1] != self.n_codes:
            raise UserValueError(f"Z must have {self.n_codes} columns, got {codes.shape[1]}", "Z", "give codes")
        return codes

    def _line(self: Any, start: Any, end: Any, n: int) -> np.ndarray[Any, Any]:
        """n codes on the line between two, the ends among them, shape (n, n_codes)."""
        ends = self._codes(np.stack([np.asarray(start), np.asarray(end)]))
        share = np.linspace(0, 1, how_many(n))[:, None].astype(ends.dtype)
        line: np.ndarray[Any, Any] = (1 - share) * ends[:1] + share * ends[1:]
        return line
