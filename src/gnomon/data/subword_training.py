"""Subword pieces learned from a stream of texts, most of them by the package tokenizers."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import groupby
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.data.pair_merging import Ties, merged
from gnomon.errors import UserValueError

__all__ = ["END_MARK", "UNKNOWN_PIECE", "is_marked", "library", "serial", "trained"]

Kind = Literal["bpe", "byte-bpe", "marked-bpe", "wordpiece"]
MOST = 1 << 22
"""Pieces at most: the package sets room for all of them aside beforehand, and ends the process where there is none."""
UNKNOWN_PIECE = "[UNK]"
"""What WordPiece writes for a word with a character that it does not know; no text is cut into it."""
END_MARK = "</w>"
"""How the blank that ends a word is written in the pieces of ``marked-bpe``; no piece of other characters ends so."""

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
WORDS = r"'(?:[sdmt]|ll|ve|re)| ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+"
"""What no merge crosses: words, numbers and runs of other characters, each with the blank before it; white space."""
MARKED_WORDS = r"'(?:[sdmt]|ll|ve|re) ?|[\p{L}\p{M}]+ ?|\p{N}+ ?|[^\s\p{L}\p{M}\p{N}]+ ?| |[^\S ]+ ?"
"""The same, each with the blank behind it."""
END = r"(?<=[\s\S])\z"
"""The end of a text that is not empty."""
NO_BYTE = r"<(?=0x[0-9A-F]{2}>)"
"""Splits text that looks like the name of a byte, so that no piece of text has that name."""
_ALONE = re.compile(r"[\W_\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f]")
"""Characters that BERT's rule sets apart from others: marks and ideographs."""


def library() -> Any:
    """The package tokenizers.

    Raises
    ------
    UserValueError
        It is absent.
    """
    try:
        return import_module("tokenizers")
    except ImportError:
        raise UserValueError(
            "subword units need the package tokenizers", "unit", "run: pip install 'gnomon[text]', or choose char"
        ) from None


@contextmanager
def serial() -> Iterator[None]:
    """Calls of the package in one thread, so that a later fork is safe; the user's own setting has its way."""
    name = "TOKENIZERS_PARALLELISM"
    if name in os.environ:
        yield
        return
    os.environ[name] = "false"
    try:
        yield
    finally:
        os.environ.pop(name, None)


def trained(stream: Callable[[], Iterable[str]], size: int, kind: Kind, min_count: int, ties: Ties = "text") -> Any:
    """A tokenizer of the package with at most `size` pieces.

    Parameters
    ----------
    stream : function that returns an iterable of str
        The texts; called twice unless `kind` is ``byte-bpe``.
    size : int
    kind : {"bpe", "byte-bpe", "marked-bpe", "wordpiece"}
    min_count : int
        Pairs that occur more rarely are not merged.
    ties : {"text", "ids"}
        Of ``marked-bpe``; see `gnomon.data.pair_merging.merged`.
    """
    if kind == "marked-bpe":
        return _marked_bpe(library(), stream, size, min_count, ties)
    make = {"bpe": _bpe, "byte-bpe": _byte_bpe, "wordpiece": _wordpiece}[kind]
    with serial():
        return make(library(), stream, size, min_count)


def _bpe(tokenizers: Any, stream: Callable[[], Iterable[str]], size: int, min_count: int) -> Any:
    room = size - len(BYTES)
    alphabet = _alphabet(stream(), room // 2)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    cut = [(WORDS, "isolated"), (NO_BYTE, "isolated")]
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), how) for pattern, how in cut]
    )
    tokenizer.decoder = tokenizers.decoders.Sequence([tokenizers.decoders.ByteFallback(), tokenizers.decoders.Fuse()])
    found, merges = _learned(tokenizer, tokenizers.trainers.BpeTrainer, stream, room, min_count, alphabet)
    pieces = {piece: i for i, piece in enumerate([*BYTES, *found])}
    tokenizer.model = tokenizers.models.BPE(pieces, merges, byte_fallback=True)
    return tokenizer


def _byte_bpe(tokenizers: Any, stream: Callable[[], Iterable[str]], size: int, min_count: int) -> Any:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    _learned(tokenizer, tokenizers.trainers.BpeTrainer, stream, size, min_count, alphabet)
    return tokenizer


def is_marked(tokenizer: Any) -> bool:
    """Whether a tokenizer of the package is one of ``marked-bpe``."""
    found = tokenizer.normalizer
    return found is not None and found.__getstate__() == _ending(library()).__getstate__()


def _ending(tokenizers: Any) -> Any:
    """What ends the last word of a text as blanks end the others."""
    return tokenizers.normalizers.Replace(tokenizers.Regex(END), " ")


def _marked_bpe(tokenizers: Any, stream: Callable[[], Iterable[str]], size: int, min_count: int, ties: Ties) -> Any:
    splitter = tokenizers.pre_tokenizers.Split(tokenizers.Regex(MARKED_WORDS), "isolated")
    room = min(size, MOST) - len(BYTES)
    alphabet = [" ", *(one for one in _alphabet(stream(), room // 2) if one != " ")][: room // 2]
    words: Counter[str] = Counter()
    for text, same in groupby(stream()):
        times = sum(1 for _ in same)
        for word, _ in splitter.pre_tokenize_str(text + " ") if text else ():
            words[word] += times
    found, merges = merged(words, sorted(alphabet), room, min_count, ties)
    pieces = {piece: i for i, piece in enumerate([*BYTES, *found])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(pieces, merges, byte_fallback=True))
    tokenizer.normalizer, tokenizer.pre_tokenizer = _ending(tokenizers), splitter
    replace = tokenizers.decoders.Replace
    tokenizer.decoder = tokenizers.decoders.Sequence(
        [
            replace(END_MARK, " "), tokenizers.decoders.ByteFallback(), tokenizers.decoders.Fuse(),
            replace(tokenizers.Regex(r" \z"), ""),
        ]
    )  # fmt: skip
    return tokenizer


def _wordpiece(tokenizers: Any, stream: Callable[[], Iterable[str]], size: int, min_count: int) -> Any:
    room = size - 1
    frequent = _alphabet(stream(), room)
    forms = np.cumsum([1 if _ALONE.match(one) else 2 for one in frequent])
    alphabet = [one for one, total in zip(frequent, forms.tolist(), strict=True) if total <= room]
    within = sorted(f"##{one}" for one in alphabet if not _ALONE.match(one))
    learner = _as_bert(tokenizers, {UNKNOWN_PIECE: 0})
    # the forms within words are named beforehand: the package would number them in an order that chance decides
    found, _ = _learned(
        learner, tokenizers.trainers.WordPieceTrainer, stream, room, min_count, alphabet, special_tokens=within
    )
    # another one, since the learner takes what was named beforehand for special symbols
    return _as_bert(tokenizers, {piece: i for i, piece in enumerate([UNKNOWN_PIECE, *found])})


def _as_bert(tokenizers: Any, pieces: dict[str, int]) -> Any:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(pieces, unk_token=UNKNOWN_PIECE))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = tokenizers.decoders.WordPiece(prefix="##", cleanup=False)
    return tokenizer


def _learned(
    tokenizer: Any, trainer: Any, stream: Any, size: int, min_count: int, alphabet: list[str], **more: Any
) -> tuple[list[str], list[tuple[str, str]]]:
    """Pieces in order of id and merges in the order in which they were found."""
    rule = trainer(
        vocab_size=min(size, MOST), min_frequency=min(min_count, 2**63), show_progress=False, initial_alphabet=alphabet,
        limit_alphabet=len(alphabet), **more,
    )  # fmt: skip
    tokenizer.train_from_iterator(iter(stream()), rule)
    model = json.loads(tokenizer.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return pieces, [(left, right) for left, right in model.get("merges", ())]


def _alphabet(texts: Iterable[str], most: int) -> list[str]:
    """The most frequent characters, equal counts in code point order."""
    counts = np.zeros(0x110000, np.int64)
    for block in _blocks(texts):
        counts += np.bincount(np.frombuffer(block.encode("utf-32-le"), np.uint32), minlength=len(counts))
    order: NDArray[np.intp] = np.argsort(-counts, kind="stable")
    return [chr(code) for code in order[: min(most, int((counts > 0).sum()))].tolist()]


def _blocks(texts: Iterable[str], size: int = 1 << 22) -> Iterator[str]:
    held: list[str] = []
    n = 0
    for text in texts:
        held.append(text)
        n += len(text)
        if n >= size:
            yield "".join(held)
            held, n = [], 0
    yield "".join(held)
