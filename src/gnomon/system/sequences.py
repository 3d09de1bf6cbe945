"""Systems of sequences of frames: what rows are, how wide a frame is, and sequences that are to go on."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.distributions.frames import frame_width
from gnomon.errors import UserValueError
from gnomon.recipes.fields import Doc, Fields
from gnomon.system.gaps import FillsGaps, Mask, truths

__all__ = ["MaskedFrames", "TakesFrames", "split_frames"]


class TakesFrames(Fields):
    """Beside a system whose domain is one of frames: a row of a table holds the frames of a sequence in turn."""

    frame_size: Annotated[
        int | None, "[1, inf)",
        Doc("Columns of a frame, where a row of X holds the frames of a sequence one after the other. None: d of an "
            "array (n, T, d) or a list of arrays (T, d), what columns called frame_0_a, frame_0_b ... say, the width "
            "of a square image, else 1."),
    ] = None  # fmt: skip

    def known_domain(self: Any) -> Any:
        domain, frames = self.domain, self.n_features_in_ // self.arguments_["frame_size"]
        return replace(domain, frames=frames) if hasattr(domain, "frames") else domain

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        own = frame_width(X)
        if own is not None and self.frame_size not in (None, own):
            what = f"frame_size must be {own}, as the sequences have it, got {self.frame_size}"
            raise UserValueError(what, "frame_size", "leave it out")
        examples: Examples = super().ingest(X, y, sample_weight)  # type: ignore[misc]
        columns = examples.X.shape[1]
        side = math.isqrt(columns)
        self.frame_size_ = own or self.frame_size or (side if side * side == columns else 1)
        if columns % self.frame_size_:
            what = f"frame_size must divide the {columns} columns, got {self.frame_size_}"
            raise UserValueError(what, "frame_size", "give the columns of a frame")
        return examples

    def _given_frames(self: Any, context: Any, n: int) -> Array:
        """Checked frames that come before, (n, T, d), in their own units: n times the same where there is one."""
        d = self.arguments_["frame_size"]
        try:
            given = np.asarray(context)
        except ValueError:
            raise UserValueError("the sequences of a context must be of one length", "context") from None
        if given.ndim not in (2, 3) or given.shape[-1] != d or not len(given) >= given.ndim - 2:
            what = f"context must be of shape (n, T, {d}) or (T, {d}), got {given.shape}"
            raise UserValueError(what, "context")
        given = np.repeat(given[None], n, axis=0) if given.ndim == 2 else given
        rows = self.domain.check(given.reshape(len(given), -1), name="context", dtype=self.arguments_["dtype"])
        return np.asarray(rows).reshape(len(given), -1, d)


class MaskedFrames(FillsGaps):
    """Beside a system of frames: NaN stands for no frame, so that `mask` alone says which cells are missing."""

    def _gaps(self, X: Any, mask: Any) -> tuple[Array, Mask]:
        rows = self._rows(X)  # type: ignore[attr-defined]
        if mask is None:
            return rows, np.zeros(rows.shape, np.bool_)
        shape = rows.shape if np.ndim(mask) == 2 else np.shape(X)
        missing = truths(mask, shape).reshape(rows.shape) & ~np.isnan(rows)
        return np.where(missing, 0, rows).astype(rows.dtype), missing


def split_frames(rows: Array, d: int) -> tuple[Array, NDArray[np.bool_]]:
    """Rows as frames (n, T, d), and which of these are inside of their sequence, (n, T): NaN stands for none.

    Examples
    --------
    >>> split_frames(np.array([[1.0, 0.0, np.nan, np.nan]]), 2)[1].tolist()
    [[True, False]]
    """
    frames = np.asarray(rows).reshape(len(rows), -1, d)
    return frames, ~np.isnan(frames).any(2)
