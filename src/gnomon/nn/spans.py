"""How far attention reaches: the slot ``span``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch

from gnomon.nn.attention_masks import Causal, GlobalTokens, Mask, SameSegment, SegmentStarts, SlidingWindow
from gnomon.recipes.recipe import Recipe

__all__ = ["FullSpan", "Span", "WindowSpan"]


@dataclass(frozen=True)
class Span(Recipe):
    """Base of the recipes of the slot ``span``."""

    def causal(self, first: torch.Tensor | None = None) -> Mask:
        """The mask of a model that reads from left to right.

        Parameters
        ----------
        first : int tensor of shape (n, T), optional
            Of rows in which several texts follow one another, the place at which the text of each token begins: no
            text looks at another. One text to a row where left out.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class FullSpan(Span):
    """Every token looks at all tokens before it."""

    short: ClassVar[str] = "full"

    def causal(self, first: torch.Tensor | None = None) -> Mask:
        """`Causal`."""
        return Causal() if first is None else Causal() & SameSegment(first)


@dataclass(frozen=True)
class WindowSpan(Span):
    """Every token looks at a window of tokens before it, and at a few that all may look at.

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
        seen: Mask = SlidingWindow(self.back, 0, self.dilation)
        if self.anchors:
            everywhere = GlobalTokens(tuple(range(self.anchors)))
            seen = seen | (everywhere if first is None else SegmentStarts(first, self.anchors))
        return Causal() & seen if first is None else Causal() & SameSegment(first) & seen
