"""How far attention reaches: the slot ``span``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self

import torch

from gnomon.errors import UserValueError
from gnomon.nn.attention_masks import ByHead, Causal, GlobalTokens, Mask, SameSegment, SegmentStarts, SlidingWindow
from gnomon.recipes.recipe import Recipe

__all__ = ["FullSpan", "MixedSpan", "Span", "WindowSpan"]


@dataclass(frozen=True)
class Span(Recipe):
    """Base of the recipes of the slot ``span``."""

    def of(self, heads: int) -> Self:
        """The span of attention of so many heads.

        Raises
        ------
        UserValueError
            A number of heads that it does not fit.
        """
        return self

    def causal(self, first: torch.Tensor | None = None) -> Mask:
        """The mask of a model that reads from left to right.

        Parameters
        ----------
        first : int tensor of shape (n, T), optional
            Of rows in which several texts follow one another, the place at which the text of each token begins: no
            text looks at another. One text to a row where left out.
        """
        raise NotImplementedError

    def both(self, padding: Mask | None = None) -> Mask | None:
        """The mask of a model that reads both ways.

        Parameters
        ----------
        padding : Mask, optional
            What else is not looked at.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class FullSpan(Span):
    """Every token looks at all tokens before it, or at all where a model reads both ways."""

    short: ClassVar[str] = "full"

    def causal(self, first: torch.Tensor | None = None) -> Mask:
        """`Causal`."""
        return Causal() if first is None else Causal() & SameSegment(first)

    def both(self, padding: Mask | None = None) -> Mask | None:
        """All tokens."""
        return padding


@dataclass(frozen=True)
class WindowSpan(Span):
    """Every token looks at a window of tokens before it, and at a few that all may look at.

    Where a model reads both ways the window has as many tokens after it, and the few look at all.

    Parameters
    ----------
    back : int in [0, inf), default 16
        Tokens before its own that a token looks at.
    dilation : int in [1, inf), default 1
        Only every so many-th token of the window is looked at.
    anchors : int in [0, inf), default 1
        The first so many tokens, which all may look at.
    """

    short: ClassVar[str] = "window"
    back: Annotated[int, "[0, inf)"] = 16
    dilation: Annotated[int, "[1, inf)"] = 1
    anchors: Annotated[int, "[0, inf)"] = 1

    def causal(self, first: torch.Tensor | None = None) -> Mask:
        """`SlidingWindow` and the first tokens, from left to right."""
        return _to_the_left(SlidingWindow(self.back, 0, self.dilation), self.anchors, first)

    def both(self, padding: Mask | None = None) -> Mask | None:
        """`SlidingWindow` to both sides, and the first tokens."""
        return _both_ways(SlidingWindow(self.back, self.back, self.dilation), self.anchors, padding)


@dataclass(frozen=True)
class MixedSpan(Span):
    """Every head has a window of its own: some look at the nearest tokens, others farther back with gaps.

    Where a model reads both ways windows have as many tokens after the own one, and the first ones look at all.

    Parameters
    ----------
    windows : tuple of int in [0, inf), default (16,)
        Tokens before its own that each head looks at, repeated over the heads.
    dilations : tuple of int in [1, inf), default (1, 4)
        Distance of neighboring ones of them, repeated over the heads: by default every other head looks at every
        fourth token, four times as far back.
    anchors : int in [0, inf), default 0
        The first so many tokens, which all heads may look at.

    Notes
    -----
    The heads must be as many as the entries of each, or a multiple of it. Source: Beltagy, Peters and Cohan (2020).
    """

    short: ClassVar[str] = "mixed"
    windows: tuple[Annotated[int, "[0, inf)"], ...] = (16,)
    dilations: tuple[Annotated[int, "[1, inf)"], ...] = (1, 4)
    anchors: Annotated[int, "[0, inf)"] = 0

    def of(self, heads: int) -> Self:
        """Windows and dilations of each head."""
        each = {}
        for name in ("windows", "dilations"):
            values = getattr(self, name)
            if not values or heads % len(values):
                raise UserValueError(
                    f"{name} must be as many as the heads, {heads}, or divide them, got {len(values)}", f"span.{name}",
                    "give one for each head",
                )  # fmt: skip
            each[name] = values * (heads // len(values))
        return replace(self, **each)

    def causal(self, first: torch.Tensor | None = None) -> Mask:
        """A `SlidingWindow` for each head, and the first tokens, from left to right; of a span that `of` gave."""
        sizes = zip(self.windows, self.dilations, strict=True)
        seen = ByHead(tuple(SlidingWindow(window * dilation, 0, dilation) for window, dilation in sizes))
        return _to_the_left(seen, self.anchors, first)

    def both(self, padding: Mask | None = None) -> Mask | None:
        """As `causal`, to both sides."""
        sizes = [window * dilation for window, dilation in zip(self.windows, self.dilations, strict=True)]
        windows = (SlidingWindow(far, far, step) for far, step in zip(sizes, self.dilations, strict=True))
        return _both_ways(ByHead(tuple(windows)), self.anchors, padding)


def _to_the_left(seen: Mask, anchors: int, first: torch.Tensor | None) -> Mask:
    """What is seen, and the first tokens, of those before, within each text."""
    if anchors:
        everywhere = GlobalTokens(tuple(range(anchors)))
        seen = seen | (everywhere if first is None else SegmentStarts(first, anchors))
    return Causal() & seen if first is None else Causal() & SameSegment(first) & seen


def _both_ways(seen: Mask, anchors: int, padding: Mask | None) -> Mask:
    """What is seen, and the first tokens, which look at all."""
    seen = seen | GlobalTokens(tuple(range(anchors))) if anchors else seen
    return seen if padding is None else seen & padding
