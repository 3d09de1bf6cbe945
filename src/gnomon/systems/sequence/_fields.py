"""Fields that recurrent systems share."""

from __future__ import annotations

from typing import Annotated, Literal

from gnomon.recipes.fields import Doc, Fields

__all__ = ["Gated"]


class Gated(Fields):
    """Systems on gated recurrent units."""

    reset: Annotated[
        Literal["after", "before"],
        Doc("Where the reset gate acts: after the recurrent product, which runs fused, or before it, as published."),
    ] = "after"
