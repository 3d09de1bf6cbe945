"""A model of the next token that writes UTF-8 and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import NextToken
from gnomon.numeric.ops import logsumexp

__all__ = ["WritesUtf8", "byte_moves"]

Ints = NDArray[np.int64]

_AFTER = (
    (((0x00, 0x7F), 0), ((0xC2, 0xDF), 1), ((0xE0, 0xE0), 4), ((0xE1, 0xEC), 2), ((0xED, 0xED), 5), ((0xEE, 0xEF), 2),
     ((0xF0, 0xF0), 6), ((0xF1, 0xF3), 3), ((0xF4, 0xF4), 7)),
    (((0x80, 0xBF), 0),),
    (((0x80, 0xBF), 1),),
    (((0x80, 0xBF), 2),),
    (((0xA0, 0xBF), 1),),
    (((0x80, 0x9F), 1),),
    (((0x90, 0xBF), 2),),
    (((0x80, 0x8F), 2),),
)  # fmt: skip
"""Bytes that may come after each place within a character, and the place after them: table 3-7 of Unicode.

0 stands between characters; 1, 2, 3 want as many more bytes of any kind; 4 to 7 follow E0, ED, F0, F4, of which some
would be too long a form, half a surrogate pair or beyond the last code point.
"""

_NEVER = np.iinfo(np.int64).max // 2


def _byte_table() -> Ints:
    table = np.full((len(_AFTER), 256), -1, np.int64)
    for place, rules in enumerate(_AFTER):
        for (first, last), after in rules:
            table[place, first : last + 1] = after
    return table


_BYTES = _byte_table()


def byte_moves(spellings: Sequence[bytes | None]) -> Ints:
    """Where each token leads from each of the 8 places within a character: shape (8, tokens), -1 where it may not come.

    Parameters
    ----------
    spellings : sequence of bytes or None
        What each token writes; None is one that writes nothing and stands between characters alone.

    Examples
    --------
    >>> moves = byte_moves([None, b"a", b"\\xc3", b"\\xa9", b"\\xc0"])
    >>> moves[0].tolist(), moves[1].tolist()  # between characters, and where one more byte is wanted
    ([0, 0, 1, -1, -1], [-1, -1, -1, 0, -1])
    """
    moves = np.full((len(_AFTER), len(spellings)), -1, np.int64)
    for token, spelling in enumerate(spellings):
        if spelling is None:
            moves[0, token] = 0
            continue
        places = np.arange(len(_AFTER))
        for byte in spelling:
            places = np.where(places < 0, -1, _BYTES[places, byte])
        moves[:, token] = places
    return moves


class WritesUtf8:
    r"""The model's distribution of the next token given that the text can still become UTF-8.

    Bytes that cannot go on with a character are left out, and so are those that begin a character too long for the
    tokens that are left. What stands is scaled to sum to 1; where the model gives none of it any mass within a
    character, all of it is equally probable.

    Parameters
    ----------
    model : NextToken
    moves : int64 array of shape (8, V)
        Of `byte_moves`.
    max_length : int, at least 0
        Tokens that will be written to each context at most.

    Notes
    -----
    The automaton has 8 places and needs a table of 8 V entries; a step costs one look-up for each score. A prompt that
    is no UTF-8 itself stays as it is: what no character goes on with begins the next one.

    References
    ----------
    The Unicode Standard, section 3.9, table 3-7; Yergeau (2003), RFC 3629.

    Examples
    --------
    >>> class Even:
    ...     def start(self, contexts):
    ...         return np.zeros(len(contexts))
    ...     def step(self, tokens, state):
    ...         return np.log(np.full((len(tokens), 4), 0.25)), state
    >>> writer = WritesUtf8(Even(), byte_moves([None, b"a", b"\xc3", b"\xa9"]), max_length=2)
    >>> log_probs, state = writer.step(np.array([0]), writer.start([[]]))
    >>> np.exp(log_probs).round(3).tolist()
    [[0.333, 0.333, 0.333, 0.0]]
    >>> np.exp(writer.step(np.array([2]), state)[0]).tolist()
    [[0.0, 0.0, 0.0, 1.0]]
    """

    def __init__(self, model: NextToken, moves: Ints, max_length: int) -> None:
        self.model, self.moves, self.max_length = model, moves, max_length
        self.wanted = _fewest(moves)
        after = self.wanted[moves]
        self.rest = np.where(moves < 0, _NEVER, after)  # tokens that end the character after each token, at least

    def start(self, contexts: Sequence[Sequence[int]]) -> Any:
        """The model's own state after the contexts, with the place within a character and the tokens that are left."""
        place = np.zeros(len(contexts), np.int64)
        lengths = np.array([len(context) for context in contexts], np.int64)
        for t in range(int(lengths.max(initial=0))):
            rows = np.flatnonzero(lengths > t)
            place[rows] = self._after(place[rows], np.array([contexts[row][t] for row in rows.tolist()], np.int64))
        return self.model.start(contexts), place, np.full(len(contexts), self.max_length, np.int64)

    def step(self, tokens: NDArray[np.int64], state: Any) -> tuple[NDArray[np.floating], Any]:
        """Log probabilities (n, V) of the next token, -inf of those left out, and the state."""
        inner, place, left = state
        found, inner = self.model.step(tokens, inner)
        place = self._after(place, np.asarray(tokens, np.int64))
        allowed = self.rest[place] < left[:, None]
        log_probs = np.where(allowed, np.asarray(found), -np.inf)
        stuck = (place > 0) & ~np.isfinite(log_probs).any(axis=1)
        log_probs[stuck] = np.where(allowed[stuck], 0, -np.inf)
        total = logsumexp(log_probs)[:, None]
        return log_probs - np.where(np.isfinite(total), total, 0), (inner, place, left - 1)

    def select(self, state: Any, index: NDArray[np.int64]) -> Any:
        """The states of some contexts."""
        inner, place, left = state
        return self.model.select(inner, index), place[index], left[index]

    def _after(self, place: Ints, tokens: Ints) -> Ints:
        """The place after tokens; one that cannot come begins anew."""
        after = self.moves[place, tokens]
        return np.where(after < 0, np.maximum(self.moves[0, tokens], 0), after)


def _fewest(moves: Ints) -> Ints:
    """Tokens that the character at each place still wants at least, so many that none will do where there are none."""
    wanted = np.full(len(moves), _NEVER, np.int64)
    wanted[0] = 0
    for _ in moves:
        reached = np.where(moves < 0, _NEVER, wanted[moves])
        wanted = np.minimum(wanted, reached.min(axis=1) + 1)
    return wanted
