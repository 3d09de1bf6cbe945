"""Text as tokens: sentences, words, characters or bytes, and a vocabulary of ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise, repeat
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gnomon.data.class_vectors import one_hot
from gnomon.data.segmenters import segmented
from gnomon.distributions.arrays import column_names
from gnomon.errors import UserTypeError, UserValueError, shown

if TYPE_CHECKING:
    from gnomon.data.tokenizers import Subwords

__all__ = [
    "UNITS", "Vocabulary", "detokenize", "lines", "listed", "plural", "sentences", "tokenize", "tokens_of", "wrapped",
]  # fmt: skip

Unit = Literal["word", "char", "byte", "jieba", "bpe", "byte-bpe", "marked-bpe", "wordpiece"]
"""What a text may be cut into; the last four are learned from it (`gnomon.data.tokenizers`)."""
UNITS = ("word", "char", "byte", "jieba")
Ints = NDArray[np.int64]


def tokenize(text: str, unit: Unit | Subwords = "word") -> list[str]:
    r"""Tokens of a string.

    Parameters
    ----------
    text : str
    unit : {"word", "char", "byte", "jieba"} or Subwords
        ``word``: runs of characters that are not white space; white space is what Unicode calls so (blank, tab, line
        ends, no-break space ...). ``char``: code points. ``byte``: the bytes of UTF-8, byte b as the character of
        code point b. ``jieba``: the words of Chinese as the package jieba cuts them, blanks among them. Nothing is
        normalized: a composed and a decomposed accent are different characters. Learned pieces cut as they do.

    Returns
    -------
    list of str

    Raises
    ------
    UserValueError
        An unknown unit; ``jieba`` without the package.

    Notes
    -----
    `detokenize` gives the very string back for ``char``, ``byte`` and ``jieba``; words come back with single blanks.
    Scores per token of different units are not comparable: convert them to bits per byte.

    Examples
    --------
    >>> tokenize("na\u00efve  cat"), tokenize("\u00ef", "byte") == ["\u00c3", "\u00af"]
    (['naïve', 'cat'], True)
    """
    if not isinstance(unit, str):
        return unit.tokenize(text)
    if unit == "word":
        return text.split()
    if unit == "char":
        return list(text)
    if unit == "byte":
        return list(text.encode("utf-8", "surrogatepass").decode("latin-1"))
    if unit == "jieba":
        return segmented(text)
    raise UserValueError.must("unit", f"be one of {', '.join(UNITS)}", unit)


def detokenize(tokens: Iterable[str], unit: Unit | Subwords = "word") -> str:
    """The string of tokens; bytes that are no UTF-8 (a model may write such) show as the replacement character.

    Examples
    --------
    >>> detokenize(tokenize("any text", "byte"), "byte")
    'any text'
    """
    if not isinstance(unit, str):
        return unit.detokenize(tokens)
    if unit == "word":
        return " ".join(tokens)
    if unit in ("char", "jieba"):
        return "".join(tokens)
    if unit != "byte":
        raise UserValueError.must("unit", f"be one of {', '.join(UNITS)}", unit)
    data = "".join(tokens).encode("latin-1")
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def plural(unit: Unit) -> str:
    """What tokens of a unit are called.

    Examples
    --------
    >>> plural("char"), plural("jieba"), plural("bpe")
    ('chars', 'words by jieba', 'pieces by bpe')
    """
    if unit in ("bpe", "byte-bpe", "marked-bpe", "wordpiece"):
        return f"pieces by {unit}"
    return "words by jieba" if unit == "jieba" else f"{unit}s"


def lines(text: str, name: str = "text") -> list[str]:
    r"""The lines of a text that are not blank; ``\n``, ``\r\n`` and ``\r`` end a line, a byte-order mark is dropped.

    Raises
    ------
    UserValueError
        A NUL character, with line and column (from 1).

    Examples
    --------
    >>> lines("one\r\n\r\ntwo")
    ['one', 'two']
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        head = text[: text.index("\0")]
        where = f"{name}, line {head.count(chr(10)) + 1}, column {len(head) - head.rfind(chr(10))}"
        raise UserValueError("there is a NUL character in the text", where, "remove it")
    return [line for line in text.split("\n") if line.strip()]


def wrapped(lines: Sequence[str]) -> bool:
    """Whether lines look like paragraphs broken at a width, so that most of them are no sentences.

    They do where at least 20 lines of at most 120 characters fill the width to three quarters in most cases, and
    most of them end without a mark that ends a sentence.

    Examples
    --------
    >>> prose = "A line of prose that was broken where the page ends, at about seventy letters and"
    >>> wrapped([prose] * 30), wrapped([prose + "."] * 30), wrapped(["short", prose] * 30)
    (True, False, False)
    """
    if len(lines) < _FEW:
        return False
    lengths = np.array([len(line.rstrip()) for line in lines])
    full = np.mean(lengths >= 0.75 * lengths.max())
    ended = np.mean([line.rstrip().endswith(_ENDS) for line in lines])
    return bool(lengths.max() <= _WIDEST and full > 0.5 and ended < 0.5)


_FEW, _WIDEST = 20, 120
_ENDS = (*".!?:;\"')]\u2019\u201d\u3002\uff01\uff1f\uff1a\uff1b\u2026\u300d",)


def sentences(X: Any, unit: Unit | Subwords = "word") -> list[list[str]]:
    """Sentences as lists of tokens, from whatever holds a text. Each form has one meaning.

    ========================  ======================================================================================
    a string                  a text: every line that is not blank is a sentence (see `lines`)
    list of strings           every string is a sentence, tokenized by `unit`; a blank one is an empty sentence
    list of lists of strings  sentences of tokens, whatever the unit; these very lists, not copies
    Dataset                   its sentences, tokenized by `unit`
    any other iterable        read once, stored, then as a list
    ========================  ======================================================================================

    Markers such as ``<s>`` in the text are words like others; a `Vocabulary` keeps its special symbols apart from them.

    Parameters
    ----------
    X : str, list, Dataset or iterable
    unit : {"word", "char", "byte", "jieba"} or Subwords

    Returns
    -------
    list of list of str

    Raises
    ------
    UserValueError
        No token at all; a NUL character.
    UserTypeError
        A sentence or token that is no text, with its place.

    Examples
    --------
    >>> sentences("a b c")
    [['a', 'b', 'c']]
    >>> sentences(["a b", "c"]) == sentences([["a", "b"], ["c"]]) == sentences(s for s in ["a b", "c"])
    True
    """
    if isinstance(unit, str) and unit not in UNITS:
        raise UserValueError.must("unit", f"be one of {', '.join(UNITS)}", unit)
    result = _sentences(X, unit)
    if not any(result):
        raise UserValueError("the text has no tokens", "", "give at least one sentence with a token")
    return result


def listed(X: Any, name: str, what: str, remedy: str) -> list[Any]:
    """What holds several things one after the other, as a list.

    Raises
    ------
    UserTypeError
        One string, bytes, a mapping, a set, whose order is chance, a data frame, a sparse matrix, what cannot be gone
        through.
    """
    _refuse_frame(X, name, what)
    several = isinstance(X, Iterable) and not isinstance(X, str | bytes | bytearray | Mapping | set | frozenset)
    if not several or hasattr(X, "tocoo") or not getattr(X, "shape", True):
        raise UserTypeError(f"{name} must be {what}, got {type(X).__name__}", name, remedy)
    return X if isinstance(X, list) else list(X)


def _refuse_frame(X: Any, name: str, what: str) -> None:
    """Refuse a data frame, which Python goes through by the names of its columns."""
    columns = column_names(X)
    if columns is None:
        return
    first = str(columns[0]) if len(columns) else "text"
    remedy = "give its rows: frame.values.tolist()" if "pair" in what else f"give one of its columns: frame[{first!r}]"
    raise UserTypeError(f"{name} must be {what}, got a data frame", name, remedy)


def tokens_of(X: Any, unit: Unit | Subwords, name: str) -> list[str]:
    """Tokens of the beginning of a sentence, from a string or a list of tokens; there may be none.

    Raises
    ------
    UserTypeError, UserValueError
        Something else, with its place.

    Examples
    --------
    >>> tokens_of("a b", "word", "prompt") == tokens_of(["a", "b"], "word", "prompt")
    True
    """
    if isinstance(X, str):
        return _sentence(X, 0, unit)
    tokens = listed(X, name, "text or a list of tokens", "give a string, or a list of strings")
    return [_token(token, f"{name}, token {i}") for i, token in enumerate(tokens)]


def _sentences(X: Any, unit: Unit | Subwords) -> list[list[str]]:
    if isinstance(X, str):
        return _cut(lines(X), unit)
    if isinstance(X, bytes):
        raise UserTypeError("the text is bytes", "", 'decode it first: data.decode("utf-8")')
    if hasattr(X, "view") and hasattr(X, "text"):
        X = X.view("text")
    X = listed(X, "X", "text", "give a string, or a list of sentences")
    if set(map(type, X)) == {list} and set(map(type, chain.from_iterable(X))) <= {str}:
        return X  # the common case, without a step of Python per sentence
    if not isinstance(unit, str) and set(map(type, X)) == {str} and not any("\0" in one for one in X):
        return _cut(X, unit)
    return [_sentence(sentence, place, unit) for place, sentence in enumerate(X)]


def _cut(texts: list[str], unit: Unit | Subwords) -> list[list[str]]:
    return [tokenize(text, unit) for text in texts] if isinstance(unit, str) else unit.tokenize_all(texts)


def _sentence(sentence: Any, place: int, unit: Unit | Subwords) -> list[str]:
    if isinstance(sentence, str):
        if "\0" in sentence:
            where = f"sentence {place}, column {sentence.index(chr(0)) + 1}"
            raise UserValueError("there is a NUL character in the text", where, "remove it")
        return tokenize(sentence, unit)
    if type(sentence) is not list and (isinstance(sentence, bytes | Mapping) or not isinstance(sentence, Iterable)):
        remedy = "a sentence is a string or a list of tokens"
        raise UserTypeError(
            f"a sentence must be text or a list of tokens, got {shown(sentence)}", f"sentence {place}", remedy
        )
    tokens = list(sentence)
    if set(map(type, tokens)) - {str}:
        return [_token(token, f"sentence {place}, token {i}") for i, token in enumerate(tokens)]
    return tokens


def _token(token: Any, where: str) -> str:
    if not isinstance(token, str):
        raise UserTypeError(f"a token must be a string, got {shown(token)}", where, "write str(token) for numbers")
    return str(token)


def _chained(tokens: Iterable[Any]) -> Iterable[str]:
    """The tokens of all sentences; lists of lists without a step of Python for each token."""
    if isinstance(tokens, list) and set(map(type, tokens)) <= {list}:
        return chain.from_iterable(tokens)
    return _flat(tokens)


def _flat(tokens: Iterable[Any]) -> Iterator[str]:
    for place, item in enumerate(tokens):
        if isinstance(item, str):
            yield item
        elif isinstance(item, list | tuple):
            yield from item
        else:
            raise UserTypeError(
                f"a token must be a string, got {item!r}", f"place {place}", "give strings, or lists of strings"
            )


class Vocabulary:
    """Tokens and their ids.

    Ids 0, 1 ... belong to the special symbols, in the order given; then come the tokens, most frequent first, equal
    counts in code point order. A special symbol is no token: where the text itself says ``<unk>``, that is a word with
    an id of its own.

    Parameters
    ----------
    tokens : sequence of str
        Distinct tokens in order of id.
    specials : sequence of str, default ("<unk>", "<s>", "</s>")
        Names of the special symbols. Where ``<unk>`` is among them, it stands for tokens outside the vocabulary.

    Notes
    -----
    Encoding looks up a dictionary: about 0.1 s per million tokens.

    Examples
    --------
    >>> vocabulary = Vocabulary.fit("b a b c".split(), specials=("<unk>",))
    >>> vocabulary.encode(["a", "b", "z"]).tolist(), vocabulary.decode([2, 1])
    ([2, 1, 0], ['a', 'b'])
    """

    def __init__(self, tokens: Sequence[str], specials: Sequence[str] = ("<unk>", "<s>", "</s>")) -> None:
        self.tokens, self.specials = tuple(tokens), tuple(specials)
        self._ids = {token: i for i, token in enumerate(self.tokens, len(self.specials))}
        if len(self._ids) != len(self.tokens) or len(set(self.specials)) != len(self.specials):
            raise UserValueError("a token or special symbol occurs twice in the vocabulary", "", "give each once")
        self._names = (*self.specials, *self.tokens)
        self.unknown: int | None = self.specials.index("<unk>") if "<unk>" in self.specials else None

    @classmethod
    def fit(
        cls, tokens: Iterable[Any], min_count: int = 1, specials: Sequence[str] = ("<unk>", "<s>", "</s>")
    ) -> Vocabulary:
        """The vocabulary of tokens, or of sentences of tokens.

        Parameters
        ----------
        tokens : iterable of str, or of lists of str
        min_count : int >= 1, default 1
            Rarer tokens are left out.
        specials : sequence of str

        Raises
        ------
        UserTypeError
            A plain string (tokenize it first), or a token that is no string, with its place.
        UserValueError
            `min_count` below 1.
        """
        if isinstance(tokens, str):
            raise UserTypeError(
                "tokens must be a list of strings, got one string", "", "use tokenize(text, unit) first"
            )
        _refuse_frame(tokens, "tokens", "a list of strings")
        if min_count < 1:
            raise UserValueError(f"min_count must be at least 1, got {min_count}", "min_count")
        try:
            counts = Counter(_chained(tokens))
        except TypeError as error:
            if isinstance(error, UserTypeError):
                raise
            raise UserTypeError(f"tokens must be strings: {error}", "tokens") from None
        for token in counts:
            _token(token, "tokens")
        kept = [token for token, count in counts.items() if count >= min_count]
        return cls(sorted(kept, key=lambda token: (-counts[token], token)), specials)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def special(self, symbol: str) -> int:
        """Id of a special symbol.

        Raises
        ------
        UserValueError
            A symbol that is none.
        """
        if symbol in self.specials:
            return self.specials.index(symbol)
        raise UserValueError(f"no special symbol {symbol!r}", "", f"there are {', '.join(self.specials) or 'none'}")

    def encode(self, tokens: Sequence[str]) -> Ints:
        """Ids of tokens, shape (n,).

        Raises
        ------
        UserValueError
            A token outside the vocabulary, with its place, where there is no ``<unk>``.
        UserTypeError
            A plain string: tokenize it first.
        """
        if isinstance(tokens, str):
            raise UserTypeError(
                "tokens must be a list of strings, got one string", "", "use tokenize(text, unit) first"
            )
        find, unknown = self._ids.get, -1 if self.unknown is None else self.unknown
        ids = np.fromiter(map(find, tokens, repeat(unknown)), np.int64, len(tokens))
        if self.unknown is None and (ids < 0).any():
            place = int((ids < 0).argmax())
            raise UserValueError(
                f"{tokens[place]!r} is not in the vocabulary",
                f"token {place}",
                "fit the vocabulary with a special <unk>",
            )
        return ids

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Tokens of ids; special symbols by their names.

        Raises
        ------
        UserValueError
            An id outside 0 ... len - 1, with its place.
        """
        table = list(map(int, ids))
        for place, i in enumerate(table):
            if not 0 <= i < len(self._names):
                raise UserValueError(
                    f"ids must be in [0, {len(self)}), got {i}", f"index {place}", "encode with this vocabulary"
                )
        return [self._names[i] for i in table]

    def one_hot(self, ids: Any, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Unit vectors: result[..., v] is 1 where ids == v, else 0.

        Parameters
        ----------
        ids : int array of any shape
        dtype : dtype-like, default float32

        Returns
        -------
        array of shape ids.shape + (len(self),)
            For ids of shape (N, T), ``result[:, t]`` is the (N, V) matrix of time t. Memory N T V.

        Raises
        ------
        UserValueError
            An id outside the vocabulary.
        """
        found: NDArray[Any] = one_hot(ids, len(self), dtype=dtype, name="ids")
        return found

    def state(self) -> dict[str, NDArray[Any]]:
        """As arrays: UTF-8 of special symbols and tokens end to end, where each ends, how many are special."""
        encoded = [name.encode("utf-8", "surrogatepass") for name in self._names]
        return {
            "vocabulary": np.frombuffer(b"".join(encoded), np.uint8).copy(),
            "offsets": np.cumsum([0, *map(len, encoded)], dtype=np.int64),
            "n_specials": np.array([len(self.specials)], np.int64),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Vocabulary:
        """The vocabulary that `state` described."""
        data = np.asarray(state["vocabulary"], np.uint8).tobytes()
        offsets = np.asarray(state["offsets"]).tolist()
        names = [data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(offsets)]
        n = int(np.asarray(state["n_specials"]).reshape(-1)[0])
        return cls(names[n:], names[:n])
