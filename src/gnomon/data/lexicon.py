"""Words as concepts: a lexicon of which concepts a word may mean and what is a kind of what, as WordNet has them."""

from __future__ import annotations

import json
import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from gnomon.errors import UserTypeError, UserValueError, nearest

__all__ = ["Ambiguity", "Lexicon"]

SHOWN = 3
"""Ambiguous words that a line names."""
PARTS_OF_SPEECH = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
"""Files of a WordNet database, and the letters of their concepts."""
HYPERNYMS = ("@", "@i")
"""Pointers of WordNet from a concept to what it is a kind, or an instance, of."""


@dataclass(frozen=True)
class Ambiguity:
    """How many tokens of a text have a concept, and which have several, so that the choice of one may be wrong.

    Attributes
    ----------
    tokens, known : int
        Tokens, and those that the lexicon has.
    words : mapping of str to int
        How often each ambiguous word occurs, most frequent first.

    Examples
    --------
    >>> print(Ambiguity(9, 5, {"bank": 2}))
    5 of 9 tokens have a concept, 2 of them several (bank), of which a lexicon cannot tell which is meant
    """

    tokens: int
    known: int
    words: Mapping[str, int]

    @property
    def ambiguous(self) -> int:
        """Tokens that have several concepts."""
        return sum(self.words.values())

    def __str__(self) -> str:
        """A line."""
        found = f"{self.known} of {self.tokens} tokens have a concept, {self.ambiguous} of them several"
        if not self.words:
            return found
        named = ", ".join(list(self.words)[:SHOWN]) + (", ..." if len(self.words) > SHOWN else "")
        return f"{found} ({named}), of which a lexicon cannot tell which is meant"


class Lexicon:
    r"""Which concepts a word may mean, the most frequent first, and what each concept is a kind of.

    Parameters
    ----------
    words : mapping of str to sequences of str
        Names of the concepts (synsets) of each word, the most frequent first.
    hypernyms : mapping of str to sequences of str
        What a concept is a kind of; a concept may have several, or none.
    license : str, default ""
        Under what terms the lexicon may be used: kept beside it, since none comes with gnomon.

    Notes
    -----
    A lexicon looks at single words: it cannot tell which of several concepts a text means, so `ambiguity` counts what
    `transform` had to choose. A word is looked up as it is, then in lower case; endings are not taken off.
    Memory O(words + concepts); a distance costs the number of concepts above both. Source: Miller (1995).

    Examples
    --------
    >>> above = {"shop": ["company"], "firm": ["company"], "shore": ["land"]}
    >>> lexicon = Lexicon({"bank": ["shore", "firm"], "store": ["shop"]}, above)
    >>> lexicon.concepts("bank"), lexicon.path_similarity("firm", "shop")
    (('shore', 'firm'), 0.3333333333333333)
    >>> lexicon.transform(["the", "bank"]), lexicon.ambiguity(["the", "bank"]).words
    (['the', 'shore'], {'bank': 1})
    """

    def __init__(
        self, words: Mapping[str, Sequence[str]], hypernyms: Mapping[str, Sequence[str]], license: str = ""
    ) -> None:
        self.words = {word: _names(found, f"words, {word!r}") for word, found in _mapping(words, "words").items()}
        above = _mapping(hypernyms, "hypernyms").items()
        self.hypernyms = {name: _names(found, f"hypernyms, {name!r}") for name, found in above}
        self.license = license
        empty = next((word for word, found in self.words.items() if not found), None)
        if empty is not None:
            raise UserValueError("a word must have a concept, got none", f"words, {empty!r}", "leave the word out")
        self._concepts = {*self.hypernyms, *_flat(self.hypernyms.values()), *_flat(self.words.values())}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a lexicon: a JSON file, or the folder of a WordNet database.

        Parameters
        ----------
        path : path
            A file with ``{"words": {...}, "hypernyms": {...}, "license": "..."}``, as of the class; or a folder with
            ``index.noun`` and ``data.noun`` and the like of verb, adj and adv (of WordNet 3, as nltk unpacks it).
            There concepts are called by their first word, part of speech and number among its senses, as nltk does
            (``bank.n.01``; some of its versions number satellites of adjectives apart). The most frequent is that which
            ``index.sense`` counts most often; without it nouns come before verbs.

        Raises
        ------
        UserTypeError, UserValueError
            No such file, with what is wrong in which line.

        Notes
        -----
        WordNet 3.0 has 147,306 words, 117,659 concepts, 30 MB of text; it is no part of gnomon, and its license goes
        with it.
        """
        place = Path(path).expanduser()
        if place.is_dir():
            return cls(*_wordnet(place))
        try:
            given = json.loads(place.read_text(encoding="utf-8"))
        except OSError:
            raise UserValueError(
                "the lexicon must be there, got no such file", str(path), "give a JSON file or a WordNet folder"
            ) from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise UserValueError(
                f"the lexicon must be JSON, got {error}", str(path), "see gnomon.data.Lexicon.load"
            ) from None
        if not isinstance(given, dict) or not {"words", "hypernyms"} <= set(given) <= {"words", "hypernyms", "license"}:
            what = "a lexicon must have words and hypernyms, and may have a license"
            raise UserValueError(what, str(path), "see gnomon.data.Lexicon.load")
        try:
            return cls(**given)
        except (UserTypeError, UserValueError) as error:
            raise type(error)(error.what, f"{path}: {error.where}", error.remedy) from None

    def __len__(self) -> int:
        """How many words."""
        return len(self.words)

    def __repr__(self) -> str:
        return f"Lexicon({len(self.words)} words, {len(self._concepts)} concepts)"

    def concepts(self, word: str) -> tuple[str, ...]:
        """Concepts of a word, the most frequent first; none where the lexicon has not the word."""
        return self.words.get(word) or self.words.get(word.lower()) or ()

    def path_similarity(self, a: str, b: str) -> float:
        """Similarity of two concepts, 1 / (1 + d), d the edges from both up to what both are a kind of.

        Parameters
        ----------
        a, b : str
            Names of concepts; see `concepts`.

        Returns
        -------
        float
            In [0, 1]: 1 of a concept with itself, 0 where nothing is above both.

        Raises
        ------
        UserValueError
            A name of no concept, with a near one.
        """
        above, others = self._above(a), self._above(b)
        distances = [steps + others[name] for name, steps in above.items() if name in others]
        return 1.0 / (1.0 + min(distances)) if distances else 0.0

    def transform(
        self,
        tokens: Sequence[str],
        choose: Literal["first", "all"] = "first",
        unknown: Literal["keep", "drop"] = "keep",
    ) -> list[str]:
        """The concepts of tokens in their places.

        Parameters
        ----------
        tokens : list of str
        choose : {"first", "all"}
            Of several concepts the most frequent, or all of them, one after the other.
        unknown : {"keep", "drop"}
            Whether tokens without a concept stay as they are.
        """
        if choose not in ("first", "all"):
            raise UserValueError.must("choose", "be first or all", choose)
        if unknown not in ("keep", "drop"):
            raise UserValueError.must("unknown", "be keep or drop", unknown)
        last = 1 if choose == "first" else None
        found = ((token, self.concepts(token)[:last]) for token in _tokens(tokens))
        return [name for token, names in found for name in names or ((token,) if unknown == "keep" else ())]

    def ambiguity(self, tokens: Sequence[str]) -> Ambiguity:
        """What of some tokens the lexicon cannot resolve."""
        counts = Counter(_tokens(tokens))
        several = {word: n for word, n in counts.most_common() if len(self.concepts(word)) > 1}
        known = sum(n for word, n in counts.items() if self.concepts(word))
        return Ambiguity(counts.total(), known, several)

    def _above(self, name: str) -> dict[str, int]:
        """Concepts that a concept is a kind of, itself among them, with the fewest edges to each."""
        if name not in self._concepts:
            senses = self.concepts(name)
            close = senses or nearest(name, list(self._concepts))
            remedy = f"did you mean {close[0]!r}?" if close else "see concepts(word)"
            raise UserValueError(f"the lexicon has no concept {name!r}", "path_similarity", remedy)
        found, left = {name: 0}, deque([name])
        while left:
            one = left.popleft()
            for higher in self.hypernyms.get(one, ()):
                if higher not in found:
                    found[higher] = found[one] + 1
                    left.append(higher)
        return found


# --- what was given ---------------------------------------------------------------------------------------------------


def _mapping(given: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise UserTypeError.must(name, "be lists of concepts by name", given)
    return given


def _names(given: Any, where: str) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) and one for one in given):
        raise UserTypeError("concepts must be a list of names", where, "write [...]")
    return tuple(dict.fromkeys(given))


def _tokens(tokens: Any) -> Sequence[str]:
    if isinstance(tokens, str) or not all(isinstance(one, str) for one in tokens):
        raise UserTypeError.must("tokens", "be a list of strings", tokens, remedy="cut it: gnomon.data.tokenize")
    found: Sequence[str] = tokens
    return found


def _flat(lists: Iterable[tuple[str, ...]]) -> Iterator[str]:
    return (name for one in lists for name in one)


# --- WordNet ----------------------------------------------------------------------------------------------------------


def _wordnet(folder: Path) -> tuple[dict[str, list[str]], dict[str, list[str]], str]:
    """Words, hypernyms and license of a WordNet database."""
    there = [name for name in PARTS_OF_SPEECH if (folder / f"index.{name}").is_file()]
    if not there:
        what = "the folder must be a WordNet database, got one without index.noun"
        raise UserValueError(what, str(folder), "give the folder of WordNet's dict files")
    senses: dict[str, list[tuple[str, str]]] = {}
    concepts: dict[tuple[str, str], tuple[str, str, list[tuple[str, str]]]] = {}
    for name in there:
        pos = PARTS_OF_SPEECH[name]
        for row, offsets in _lines(folder / f"index.{name}", _offsets):
            senses.setdefault(row[0], []).extend((pos, offset) for offset in offsets)
        for row, concept in _lines(folder / f"data.{name}", _concept):
            concepts[pos, row[0]] = concept
    names = {key: _name(key, *concepts[key][:2], senses) for key in concepts}
    counts = _sense_counts(folder)
    words = {}
    for word, keys in senses.items():
        keys = sorted(keys, key=lambda key: -counts.get((word, *key), 0))  # equal ones stay in their order
        words[word] = [names[key] for key in keys if key in names]
    hypernyms = {names[key]: [names[one] for one in above if one in names] for key, (*_, above) in concepts.items()}
    header = (folder / f"index.{there[0]}").read_text(encoding="utf-8").splitlines()
    license = "\n".join(line.strip() for line in header if line.startswith("  "))
    return {word: found for word, found in words.items() if found}, hypernyms, license


def _offsets(row: list[str]) -> list[str]:
    """Where the concepts of a word stand, of a line of ``index``."""
    found = row[int(row[3]) + 6 :]
    if len(found) != int(row[2]):
        raise ValueError
    return found


def _concept(row: list[str]) -> tuple[str, str, list[tuple[str, str]]]:
    """First word, part of speech, and what it is a kind of, of a line of ``data``."""
    first = 5 + 2 * int(row[3], 16)
    pointers = [row[i : i + 4] for i in range(first, first + 4 * int(row[first - 1]), 4)]
    return row[4].split("(")[0].lower(), row[2], [(one[2], one[1]) for one in pointers if one[0] in HYPERNYMS]


def _name(key: tuple[str, str], lemma: str, kind: str, senses: Mapping[str, list[tuple[str, str]]]) -> str:
    """``lemma.p.nn``, nn the number of the concept among those of its first word."""
    own = [one for one in senses.get(lemma, ()) if one[0] == key[0]]
    return f"{lemma}.{kind}.{own.index(key) + 1 if key in own else 0:02}"


def _lines(path: Path, check: Any) -> Iterator[tuple[list[str], Any]]:
    """The fields of the lines of a file but for its license, with what `check` makes of them.

    Raises
    ------
    UserValueError
        A line that is none of WordNet's, with its number.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.startswith("  ") or not line.strip():
                    continue
                row = line.partition("|")[0].split()
                try:
                    yield row, check(row)
                except (ValueError, IndexError):
                    what = "the line must be one of a WordNet database, got another"
                    raise UserValueError(what, f"{path}, line {number}", "give the folder as it was unpacked") from None
    except OSError:
        raise UserValueError(
            "the file must be there, got none", str(path), "give the folder as it was unpacked"
        ) from None


def _sense_counts(folder: Path) -> dict[tuple[str, str, str], int]:
    """How often each sense of a word was met in tagged text, where ``index.sense`` says it."""
    path = folder / "index.sense"
    if not path.is_file():
        return {}
    found = {}
    for row, count in _lines(path, lambda row: int(row[3])):
        word, _, rest = row[0].partition("%")
        found[word, "nvara"[int(rest[0]) - 1], row[1]] = count
    return found
