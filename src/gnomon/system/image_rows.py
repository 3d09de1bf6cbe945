"""Systems whose rows are images, one number after the other."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

import numpy as np

from gnomon.errors import UserValueError
from gnomon.nn.encoders import image_shape_of
from gnomon.recipes.fields import Doc, Fields

__all__ = ["ShapedRows", "check_sides"]


def check_sides(name: str, sides: Any, lengths: tuple[int, ...]) -> None:
    """Refuse what is no rows and columns (and channels)."""
    given = sides if isinstance(sides, tuple | list | np.ndarray) else ()
    whole = [hasattr(side, "__index__") and not isinstance(side, bool) and side >= 1 for side in given]
    if len(given) not in lengths or not all(whole):
        form = "(rows, columns)" + (" or (rows, columns, channels)" if len(lengths) > 1 else "")
        raise UserValueError(f"{name} must be {form}, whole numbers of at least 1, got {sides!r}", name)


class ShapedRows(Fields):
    """Beside a system: its rows are images of one shape."""

    ordered_columns: ClassVar[bool] = True

    image_shape: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...] | None,
        Doc(
            "(rows, columns) or (rows, columns, channels) of a row. Where not given a row is a square image, or, if "
            "the columns are no square, a sequence, which is an image of one row."
        ),
    ] = None

    def check_parameters(self: Any) -> None:
        super().check_parameters()  # type: ignore[misc]
        if self.image_shape is not None:
            check_sides("image_shape", self.image_shape, (2, 3))

    def _shape_of_row(self, n_features: int) -> tuple[int, int, int]:
        """Rows, columns and channels of a row."""
        given, side = self.image_shape, math.isqrt(n_features)
        return image_shape_of((1, n_features) if given is None and side * side != n_features else given, n_features)
