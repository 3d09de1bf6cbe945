"""One or two texts as one sequence with special tokens: what BERT and its kin read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserValueError
from gnomon.numeric.ragged import Ragged

__all__ = ["CLS", "MASK", "PAD", "SEP", "SPECIALS", "UNK", "Packed", "pack", "room", "unpack"]

SPECIALS = ("<pad>", "<unk>", "<cls>", "<sep>", "<mask>")
"""Special symbols of the vocabularies of such models, in order of id."""
PAD, UNK, CLS, SEP, MASK = range(5)

Ints = NDArray[np.int64]


class Packed(NamedTuple):
    """Sequences ``<cls> A <sep>`` or ``<cls> A <sep> B <sep>`` of one length.

    Attributes
    ----------
    ids : int64 array of shape (n, T)
        ``<pad>`` behind each sequence.
    segments : int64 array of shape (n, T)
        0 for A and what stands around it, 1 for B and the ``<sep>`` behind it, 0 at padding.
    lengths : int64 array of shape (n,)
        Tokens of each sequence, the special ones among them.
    """

    ids: Ints
    segments: Ints
    lengths: Ints


def room(longest: int, pair: bool) -> int:
    """Tokens of the texts that a sequence of `longest` tokens has room for.

    Raises
    ------
    UserValueError
        No room for a token of each text beside the special ones.

    Examples
    --------
    >>> room(8, pair=False), room(8, pair=True)
    (6, 5)
    """
    least = 5 if pair else 3
    if longest < least:
        what = f"a sequence of {'two texts' if pair else 'a text'} must have at least {least} tokens, got {longest}"
        raise UserValueError(what, "window", "allow longer sequences: special tokens stand around the texts")
    return longest - (3 if pair else 2)


def pack(a: Ragged, b: Ragged | None = None, *, longest: int | None = None) -> Packed:
    """Texts, or pairs of texts, between special tokens.

    What is too long is cut at the end: of two texts the longer one, until both are as long, then both in turn
    (*longest first*, as the tokenizers of published models cut).

    Parameters
    ----------
    a, b : Ragged of int
        Ids of n texts, and of those that follow them. Texts may be empty.
    longest : int, optional
        Tokens of a sequence, the special ones among them; any number where left out.

    Returns
    -------
    Packed

    Raises
    ------
    UserValueError
        `longest` without room for a token of each text.

    Notes
    -----
    O(n T), without a step of Python per text. Source: Devlin, Chang, Lee and Toutanova (2019), figure 2.

    Examples
    --------
    >>> found = pack(Ragged.of([[7, 8, 9], [7]]), Ragged.of([[5], [6, 6]]), longest=6)
    >>> found.ids.tolist()
    [[2, 7, 8, 3, 5, 3], [2, 7, 3, 6, 6, 3]]
    >>> found.segments.tolist(), found.lengths.tolist()
    ([[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]], [6, 6])
    """
    first, second = a.lengths, np.zeros(len(a), np.int64) if b is None else b.lengths
    if longest is not None:
        first, second = _cut(first, second, room(longest, b is not None))
    lengths = first + second + (2 if b is None else 3)
    at = np.arange(max(2, int(lengths.max(initial=2))))
    end, last = (first + 1)[:, None], (lengths - 1)[:, None]
    ids = np.full((len(a), len(at)), PAD)
    ids[:, 0] = CLS
    ids[(at == end) | (at == last)] = SEP
    ids[(at > 0) & (at < end)] = _starts(a, first)
    if b is None:
        return Packed(ids, np.zeros_like(ids), lengths)
    behind = (at > end) & (at < last)
    ids[behind] = _starts(b, second)
    return Packed(ids, ((at > end) & (at <= last)).astype(np.int64), lengths)


def unpack(packed: Packed) -> tuple[Ragged, Ragged]:
    """The texts that `pack` has put together, as far as they were not cut; the second ones empty where there is none.

    Examples
    --------
    >>> a, b = unpack(pack(Ragged.of([[7, 8], []]), Ragged.of([[5], [6]])))
    >>> [one.tolist() for one in a], [one.tolist() for one in b]
    ([[7, 8], []], [[5], [6]])
    """
    ids, segments, lengths = packed
    at = np.arange(ids.shape[1])
    sides = []
    for segment in (0, 1):
        inside = (segments == segment) & (at < lengths[:, None]) & (at > 0)
        ends = np.where(inside.any(1), inside.shape[1] - 1 - inside[:, ::-1].argmax(1), 0)  # its <sep>
        inside &= at < ends[:, None]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(inside.sum(1))])
        sides.append(Ragged(ids[inside], offsets))
    return sides[0], sides[1]


def _cut(first: Ints, second: Ints, space: int) -> tuple[Ints, Ints]:
    """Lengths that fit, the longer one cut first; of an odd number of places the second one has more."""
    short, long = np.minimum(first, second), np.maximum(first, second)
    fits = short + long <= space
    least = np.where(fits, short, np.minimum(short, space // 2))
    most = np.where(fits, long, space - least)
    swapped = first > second
    return np.where(swapped, most, least), np.where(swapped, least, most)


def _starts(text: Ragged, lengths: Ints) -> Ints:
    """The first tokens of each text, so many of each, end to end."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    found: Ints = text.values[np.repeat(text.offsets[:-1] - offsets[:-1], lengths) + np.arange(offsets[-1])]
    return found
