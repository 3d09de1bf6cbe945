"""The bytes that tokens write."""

from __future__ import annotations

import re
from functools import lru_cache

from gnomon.data.text import Unit, Vocabulary

__all__ = ["spellings"]

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def spellings(vocabulary: Vocabulary, unit: Unit) -> list[bytes | None] | None:
    r"""What each id writes in bytes, where a token may be a part of a character; None of units of whole characters.

    Parameters
    ----------
    vocabulary : Vocabulary
        None stands for its special symbols, and for a token that is no run of bytes.
    unit : {"word", "char", "byte", "jieba", "bpe", "byte-bpe", "marked-bpe", "wordpiece"}

    Examples
    --------
    >>> spellings(Vocabulary(["a", "\u00c3"], ("<unk>",)), "byte")
    [None, b'a', b'\xc3']
    >>> spellings(Vocabulary(["a"]), "char") is None
    True
    """
    spell = {"byte": _of_byte, "byte-bpe": _of_byte_piece, "bpe": _of_piece, "marked-bpe": _of_piece}.get(unit)
    if spell is None:
        return None
    return [*(None for _ in vocabulary.specials), *map(spell, vocabulary.tokens)]


def _of_byte(token: str) -> bytes | None:
    return token.encode("latin-1") if all(ord(one) < 256 for one in token) else None


def _of_piece(token: str) -> bytes:
    named = _BYTE.fullmatch(token)
    return bytes([int(named[1], 16)]) if named else token.encode("utf-8", "surrogatepass")


def _of_byte_piece(token: str) -> bytes | None:
    names = _bytes_by_name()
    return bytes(names[one] for one in token) if all(one in names for one in token) else None


@lru_cache(maxsize=1)
def _bytes_by_name() -> dict[str, int]:
    """Bytes by the characters that stand for them in pieces, as GPT-2 has it: those that print are their own names."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + i): byte for i, byte in enumerate(hidden)}
