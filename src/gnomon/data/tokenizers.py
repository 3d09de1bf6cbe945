"""Words cut into pieces that are learned from a text: byte-pair encoding and WordPiece."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, islice, repeat
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gnomon.data.pair_merging import Ties
from gnomon.data.sources import blocks, check_file
from gnomon.data.subword_training import END_MARK, UNKNOWN_PIECE, Kind, is_marked, library, serial, trained
from gnomon.data.text import Vocabulary, lines, listed
from gnomon.errors import UserTypeError, UserValueError, shown
from gnomon.numeric.given import whole

__all__ = ["LEARNED", "SubwordTokenizer", "Subwords", "restored"]

LEARNED = ("bpe", "byte-bpe", "marked-bpe", "wordpiece")
"""Units whose tokens are learned from the text."""
SMALLEST = 256
MOST_UNNAMED = 100_000
"""Numbers below the largest id that no piece may have, beside as many as there are pieces."""
SOME = 1000
"""Texts that are cut in one call."""

Ints = NDArray[np.int64]
_IDEOGRAPH = "\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0002fa1f"
_BLANK = re.compile(f"(?<=[{_IDEOGRAPH}]) (?=[{_IDEOGRAPH}])")


class SubwordTokenizer:
    r"""Words cut into pieces that are learned from a text.

    Byte-pair encoding starts from single characters and merges, again and again, the two neighbors that occur together
    most often, counted over the words of the text and never across them; a text is cut by the same merges in the same
    order (Sennrich, Haddow and Birch 2016).

    Parameters
    ----------
    tokenizer : tokenizers.Tokenizer
        As the package tokenizers makes or reads it; `train`, `from_file` and `load` give one.

    Notes
    -----
    ``bpe`` merges characters; a word, a number, a run of other characters carries the blank before it, which marks
    where it begins. Characters that the pieces do not hold are spelled by the bytes of UTF-8, pieces ``<0x00>`` ...
    ``<0xFF>``. ``byte-bpe`` merges bytes, written as the printable characters of GPT-2. ``marked-bpe`` merges
    characters as ``bpe`` does, but a word carries the blank behind it, its end mark, which is written ``</w>``; the end
    of a text counts as a blank. Of these ``decode(encode(text)) == text`` for any text. ``wordpiece`` cuts by BERT's
    rule, without its lower case: marks and ideographs are words of their own, pieces within a word begin with ``##``, a
    word takes the longest piece that fits, from its beginning on; a word with a character that the pieces do not hold
    is ``[UNK]``, and `decode` sets words apart by single blanks.

    Pairs of equal count are merged in the order of the ids of their first pieces, then of their second; ids are
    characters in code point order (bytes: of their printable characters), then merges as they were found. Of
    ``marked-bpe`` the one that is met first in the text, as it is cut at that time, is merged. So the pieces follow
    from the text alone.

    Training counts pairs once and then updates those that a merge touches; its memory grows with the number of
    different words, not with the length of the text. The package works in one thread here, unless
    ``TOKENIZERS_PARALLELISM`` is set.

    Source: Sennrich, Haddow and Birch (2016), Neural machine translation of rare words with subword units; Schuster and
    Nakajima (2012) for WordPiece; Radford and others (2019) for bytes.

    Examples
    --------
    >>> tokenizer = SubwordTokenizer.train(["low low low lower newest newest widest"], 300)
    >>> tokenizer.tokenize("the lowest")
    ['t', '<0x68>', 'e', ' low', 'est']
    >>> tokenizer.decode(tokenizer.encode("naïve 中文 😀"))
    'naïve 中文 😀'
    >>> words = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    >>> SubwordTokenizer.train(words, 300, "marked-bpe").merges[:5]
    [('e', 's'), ('es', 't'), ('est', '</w>'), ('l', 'o'), ('lo', 'w')]
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.tokens: tuple[str, ...] = _pieces(tokenizer)
        self._tokenizer.encode_special_tokens = True  # what a text says is text
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    @classmethod
    def train(
        cls, corpus: Any, vocabulary_size: int = 4000, kind: Kind = "bpe", *, min_count: int = 1,
        ties: Ties | None = None,
    ) -> Self:  # fmt: skip
        """A tokenizer of the pieces of a text.

        Parameters
        ----------
        corpus : str, path, list of str, Dataset, iterable of str, or mapping of str to int >= 1
            A string is a text; a path is a file, which is read as a stream, twice. Other iterables are stored. A
            mapping says how often each text occurs.
        vocabulary_size : int >= 256, default 4000
            Pieces at most, the 256 bytes among them unless they are ``wordpiece``; fewer where the text has no more
            pairs to merge. Of ``bpe`` and ``marked-bpe`` at most half of those beside the bytes are single characters,
            the most frequent ones.
        kind : {"bpe", "byte-bpe", "marked-bpe", "wordpiece"}
        min_count : int >= 1, default 1
            Pairs that occur more rarely are not merged.
        ties : {"text", "ids"}, optional
            Of ``marked-bpe``, which of the pairs of equal count is merged: the one met first in the text, unless said
            otherwise, or that of the smaller ids, as the other kinds have it.

        Raises
        ------
        UserValueError
            A text without any token, a size below 256, an unknown kind, an order of ties that it does not have; the
            package is absent.
        UserTypeError
            Something that is no text, with its place; a size that is no whole number.
        """
        if kind not in LEARNED:
            raise UserValueError.must("kind", f"be one of {', '.join(LEARNED)}", kind)
        if ties not in (None, "ids", "text")[: 3 if kind == "marked-bpe" else 2]:
            allowed = "text or ids" if kind == "marked-bpe" else f"ids of {kind}"
            raise UserValueError.must("ties", f"be {allowed}", ties)
        _check_count("vocabulary_size", vocabulary_size, SMALLEST)
        _check_count("min_count", min_count, 1)
        stream = _stream(corpus)
        if not any(text.strip() for text in stream()):
            raise UserValueError("the text has no tokens", "", "give at least one sentence with a token")
        return cls(trained(stream, vocabulary_size, kind, min_count, ties or "text"))

    @classmethod
    def from_file(cls, file: str | os.PathLike[str]) -> Self:
        """The tokenizer of a file ``tokenizer.json``, as the packages tokenizers and transformers write it.

        Raises
        ------
        UserValueError
            No such file, or one that is no tokenizer.
        """
        path = _path(file)
        check_file(path)
        return cls._read(path.read_bytes(), str(file))

    load = from_file

    @classmethod
    def _read(cls, data: bytes, where: str) -> Self:
        try:
            return cls(library().Tokenizer.from_str(data.decode()))
        except UserValueError:
            raise
        except BaseException as error:  # the package raises nothing narrower, and panics
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            what = f"the file must be a tokenizer.json of the package tokenizers, got {str(error).splitlines()[0]}"
            raise UserValueError(what, where, "write one by SubwordTokenizer.save") from None

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write a ``tokenizer.json``, which the packages tokenizers and transformers read.

        Raises
        ------
        UserValueError
            It cannot be written there.
        """
        path = _path(file)
        try:
            path.write_text(self._tokenizer.to_str(pretty=True), encoding="utf-8")
        except OSError as error:
            raise UserValueError(f"cannot write the file: {error.strerror}", str(file), "name another path") from None

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def unit(self) -> str:
        """Which of the units its pieces are.

        Raises
        ------
        UserValueError
            Those of another rule.
        """
        facts = json.loads(self._tokenizer.to_str())
        kind, before = facts["model"].get("type"), json.dumps(facts.get("pre_tokenizer"))
        if kind == "WordPiece":
            return "wordpiece"
        if kind == "BPE" and ("ByteLevel" in before or facts["model"].get("byte_fallback")):
            return "byte-bpe" if "ByteLevel" in before else "marked-bpe" if is_marked(self._tokenizer) else "bpe"
        what = f"the tokenizer must be of WordPiece or of byte-pair encoding over bytes, got {kind}"
        raise UserValueError(what, "tokenizer", "take another checkpoint")

    @property
    def merges(self) -> list[tuple[str, str]]:
        """Pairs of pieces in the order in which they are merged; none of WordPiece."""
        found = json.loads(self._tokenizer.to_str())["model"].get("merges", ())
        marked = is_marked(self._tokenizer)
        return [(_written(left, marked), _written(right, marked)) for left, right in found]

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits that tell tokenizers apart."""
        return blake2b(self._tokenizer.to_str().encode(), digest_size=4).hexdigest()

    # --- text and pieces ------------------------------------------------------------------------------------------

    def tokenize(self, text: str) -> list[str]:
        """The pieces of a text."""
        return self.tokenize_all([text])[0]

    def tokenize_all(self, texts: Sequence[str]) -> list[list[str]]:
        """The pieces of several texts.

        Raises
        ------
        UserTypeError, UserValueError
            No list of texts; half a surrogate pair.
        """
        texts = listed(texts, "texts", "a list of texts", "give a list of strings")
        names = self.tokens
        return [[names[i] for i in one.ids] for one in self._cut(texts)]

    def detokenize(self, tokens: Iterable[str]) -> str:
        """The text of pieces; bytes that are no UTF-8 show as the replacement character.

        Raises
        ------
        UserTypeError
            No list of strings.
        """
        decoder, pieces = (
            self._tokenizer.decoder,
            listed(tokens, "tokens", "a list of pieces", "give a list of strings"),
        )
        place = next((place for place, piece in enumerate(pieces) if not isinstance(piece, str)), None)
        if place is not None:
            raise UserTypeError(f"a piece must be a string, got {shown(pieces[place])}", f"piece {place}", "decode ids")
        if decoder is None:
            return " ".join(pieces)
        text: str = decoder.decode(pieces)
        return _BLANK.sub("", text) if "WordPiece" in repr(decoder) else text

    def encode(self, text: str) -> Ints:
        """Ids of the pieces of a text, int64 of shape (n,)."""
        return np.array(self._cut([text])[0].ids, np.int64)

    def encode_all(self, texts: Iterable[str]) -> Iterator[Ints]:
        """Ids of each of many texts, read and answered as a stream.

        Raises
        ------
        UserTypeError, UserValueError
            Nothing that holds texts, with the first that is none; half a surrogate pair.
        """
        if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
            raise UserTypeError(f"texts must be a list of texts, got {shown(texts)}", "texts", "give a list of strings")
        rest = iter(texts)
        while some := list(islice(rest, SOME)):
            yield from (np.array(one.ids, np.int64) for one in self._cut(some))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids.

        Raises
        ------
        UserTypeError, UserValueError
            What is no list of whole numbers; an id outside 0 ... len - 1, with its place.
        """
        given = ids if hasattr(ids, "__array__") else listed(ids, "ids", "a list of ids", "give what encode returns")
        found = whole(given, "ids").ravel().tolist()
        place = next((place for place, i in enumerate(found) if not 0 <= i < len(self)), None)
        if place is not None:
            what = f"ids must be in [0, {len(self)}), got {found[place]}"
            raise UserValueError(what, f"index {place}", "encode with this tokenizer")
        return self.detokenize(self.tokens[i] for i in found)

    def _cut(self, texts: Sequence[str]) -> Any:
        """What the package says of texts.

        Raises
        ------
        UserTypeError, UserValueError
            What is no text; half a surrogate pair, which no UTF-8 holds.
        """
        try:
            with serial():
                return self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        except TypeError:
            place = next(place for place, text in enumerate(texts) if not _is_whole(text))
        wrong = texts[place]
        if isinstance(wrong, str):
            raise UserValueError("there is half of a surrogate pair in the text", f"text {place}", "remove it")
        raise UserTypeError(f"a text must be a string, got {shown(wrong)}", f"text {place}", "give strings")

    # --- saving -----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """As an array: the bytes of its ``tokenizer.json``."""
        return {"tokenizer": np.frombuffer(self._tokenizer.to_str().encode(), np.uint8).copy()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The tokenizer that `state` described."""
        return cls._read(np.asarray(state["tokenizer"], np.uint8).tobytes(), "tokenizer")


class Subwords(Vocabulary):
    """The pieces of a tokenizer and their ids beside special symbols, with which a system reads and writes text.

    Ids are those of the special symbols, then the pieces in the order of the tokenizer. Its ``[UNK]`` is ``<unk>``.

    Parameters
    ----------
    tokenizer : SubwordTokenizer
    specials : sequence of str, default ("<unk>", "<s>", "</s>")
    beside : sequence of str, default ("[UNK]",)
        Pieces of the tokenizer that no text is cut into, for which special symbols stand.

    Examples
    --------
    >>> subwords = Subwords(SubwordTokenizer.train(["the sun and the shadow of the sun"], 300))
    >>> ids = subwords.encode(subwords.tokenize("the sun"))
    >>> min(ids.tolist()) >= 3, subwords.detokenize(subwords.decode(ids))
    (True, 'the sun')
    """

    def __init__(
        self, tokenizer: SubwordTokenizer, specials: Sequence[str] = ("<unk>", "<s>", "</s>"),
        beside: Collection[str] = (UNKNOWN_PIECE,),
    ) -> None:  # fmt: skip
        super().__init__([one for one in tokenizer.tokens if one not in beside], specials)
        self.tokenizer = tokenizer
        self.tokenize, self.tokenize_all = tokenizer.tokenize, tokenizer.tokenize_all
        self.detokenize = tokenizer.detokenize

    def state(self) -> dict[str, NDArray[Any]]:
        """As arrays: those of the vocabulary, and the tokenizer."""
        return super().state() | self.tokenizer.state()

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Subwords:
        """The vocabulary that `state` described."""
        plain = Vocabulary.from_state({name: value for name, value in state.items() if name != "tokenizer"})
        tokenizer = SubwordTokenizer.from_state(state)
        return cls(tokenizer, plain.specials, set(tokenizer.tokens).difference(plain.tokens))


def restored(state: Mapping[str, Any]) -> Vocabulary:
    """The vocabulary of a state, with its tokenizer where there is one.

    Examples
    --------
    >>> restored(Vocabulary(["a", "b"]).state()).tokens
    ('a', 'b')
    """
    return Subwords.from_state(state) if "tokenizer" in state else Vocabulary.from_state(state)


def _path(file: Any) -> Path:
    if not isinstance(file, str | os.PathLike):
        raise UserTypeError.must("file", "be a path", file)
    return Path(file).expanduser()


def _check_count(name: str, value: Any, least: int) -> None:
    """Refuse what is no whole number, or too small a one."""
    if not isinstance(value, Integral):
        raise UserTypeError.must(name, "be a whole number", value)
    if value < least:
        raise UserValueError.must(name, f"be at least {least}", value)


def _pieces(tokenizer: Any) -> tuple[str, ...]:
    """Pieces in order of id; a number that no piece has is named after itself."""
    if not hasattr(tokenizer, "get_vocab"):
        remedy = "SubwordTokenizer.train and SubwordTokenizer.from_file give one"
        raise UserTypeError.must("tokenizer", "be a tokenizers.Tokenizer", tokenizer, remedy=remedy)
    ids: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    marked = is_marked(tokenizer)
    names = {i: _written(piece, marked) for piece, i in ids.items()}
    if max(names, default=0) >= 2 * len(names) + MOST_UNNAMED:
        what = f"ids of pieces must follow one another, got {max(names)} for one of {len(names)}"
        raise UserValueError(what, repr(names[max(names)]), "number the pieces from 0")
    return tuple(names.get(i, f"[id {i}]") for i in range(max(names, default=-1) + 1))


def _written(piece: str, marked: bool) -> str:
    """How a piece is shown: with an end mark in place of the blank that ends a word."""
    return piece[:-1] + END_MARK if marked and piece.endswith(" ") else piece


def _is_whole(text: Any) -> bool:
    if not isinstance(text, str):
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _stream(corpus: Any) -> Callable[[], Iterable[str]]:
    """A corpus as something that can be gone through again and again."""
    if isinstance(corpus, str):
        found = lines(corpus)
        return lambda: found
    if isinstance(corpus, os.PathLike):
        file = Path(corpus).expanduser()
        check_file(file)
        return lambda: (line for _, block in blocks(file) for line in block.decode().split("\n"))
    if hasattr(corpus, "view") and hasattr(corpus, "text"):
        corpus = corpus.view("text")
    times = dict(corpus) if isinstance(corpus, Mapping) else {}
    corpus = list(times) if isinstance(corpus, Mapping) else corpus
    texts = listed(corpus, "corpus", "text", "give a string, a path or a list of strings")
    place = next((place for place, text in enumerate(texts) if not _is_whole(text)), None)
    if place is not None:
        if isinstance(texts[place], str):
            raise UserValueError("there is half of a surrogate pair in the text", f"text {place}", "remove it")
        remedy = "give strings: pieces are learned from text that is not cut yet"
        raise UserTypeError(f"a text must be a string, got {shown(texts[place])}", f"text {place}", remedy)
    for text, count in times.items():
        _check_count(f"the count of {text!r}", count, 1)
    return lambda: chain.from_iterable(repeat(text, times.get(text, 1)) for text in texts) if times else texts
