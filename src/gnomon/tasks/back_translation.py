"""Back-translation: pairs made of text in the target language alone, by a translator of the other direction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal

import numpy as np

from gnomon.data.text import listed
from gnomon.errors import UserTypeError, UserValueError, shown

__all__ = ["TAG", "augment", "back_translate"]

TAG = "\u25c7"
"""What stands before a source that a model has written: one character, so one token of any unit but bytes."""
MOST_PAIRS = 100_000_000
"""Real pairs at most, repeated ones among them."""
Pair = tuple[str, str]


def back_translate(
    backward: Any, mono: Sequence[str], *, method: Literal["beam", "greedy", "sample"] = "sample",
    random_state: Any = None,
) -> list[Pair]:  # fmt: skip
    """Pairs (x', y) of texts y of the target language, with x' the backward model's translation of y.

    Parameters
    ----------
    backward : translator
        Fitted to pairs (target, source).
    mono : sequence of str
        Texts of the target language. They are the targets as they are, not a character altered.
    method : {"beam", "greedy", "sample"}, default "sample"
        Draws are as varied as real sources, which the published comparison found better than beams where the backward
        model is good; beams where it is poor.
    random_state : int, Generator, RandomState or None
        Of draws.

    Returns
    -------
    list of (str, str)
        In the order of the texts.

    Raises
    ------
    UserError
        What does not translate; texts that are no strings, or as the model refuses them.

    References
    ----------
    Sennrich, Haddow and Birch (2016), "Improving neural machine translation models with monolingual data"; Edunov, Ott,
    Auli and Grangier (2018), "Understanding back-translation at scale".
    """
    if not callable(getattr(backward, "translate", None)):
        name = getattr(backward, "name", type(backward).__name__)
        raise UserTypeError(f"backward must be a fitted translator, got a {name}", "backward", "fit seq2seq")
    texts = _texts(mono)
    sources = backward.translate(texts, method=method, random_state=random_state)
    return list(zip(sources, texts, strict=True))


def augment(
    pairs: Sequence[Pair], mono: Sequence[str], backward: Any, *,
    method: Literal["beam", "greedy", "sample"] = "sample", tag: str = TAG, ratio: float | None = None,
    exclude: Collection[str] = (), random_state: Any = None,
) -> list[Pair]:  # fmt: skip
    """Real pairs, and after them those of `back_translate` whose sources are tagged.

    Parameters
    ----------
    pairs : sequence of (source, target)
    mono, backward, method, random_state
        As of `back_translate`.
    tag : str, default TAG
        Put before each synthetic source, with a blank where the model's tokens are words, so that a model can tell how
        much to trust them (Caswell, Chelba and Grangier 2019); "" for none.
    ratio : float in (0, inf), optional
        Real pairs for each synthetic one, at least about: the real ones are repeated as a whole until they are so many.
        Each once where left out.
    exclude : collection of str
        Texts that are not taken: the targets of test pairs, which would otherwise have been seen.

    Returns
    -------
    list of (str, str)
        The targets of `mono` stand in it unaltered, in order.

    Raises
    ------
    UserError
        As of `back_translate`; pairs that are none; a tag that a real source begins with, or with a tab or the end of a
        line; a ratio that is not positive, or that repeats pairs to more than 100 million.

    Examples
    --------
    >>> class Mirror:
    ...     unit = "char"
    ...     def translate(self, X, method, random_state):
    ...         return [one[::-1] for one in X]
    >>> augment([("ab", "ba")], ["xy", "test"], Mirror(), tag="*", ratio=2.0, exclude={"test"})
    [('ab', 'ba'), ('ab', 'ba'), ('*yx', 'xy')]
    """
    if ratio is not None and not (isinstance(ratio, int | float | np.number) and 0 < ratio < float("inf")):
        raise UserValueError.must("ratio", "be in (0, inf)", ratio)
    if not isinstance(tag, str) or any(one in tag for one in "\t\r\n\0"):
        raise UserValueError.must("tag", "be a text without tabs and ends of lines", tag)
    pairs = listed(pairs, "pairs", "a list of pairs", "give (source, target) in every row")
    if not pairs:
        raise UserValueError("there must be at least 1 pair, got 0", "pairs", "give real pairs")
    if tag and any(source.startswith(tag) for source, _ in pairs):
        raise UserValueError.must("tag", "not begin a real source", tag, remedy="choose another")
    wrong = next((place for place, pair in enumerate(pairs) if not _is_pair(pair)), None)
    if wrong is not None:
        raise UserTypeError(
            f"a row must hold two texts, got {shown(pairs[wrong])}", f"row {wrong}", "give (source, target)"
        )
    texts = _texts(mono)
    kept = [one for one in texts if one not in exclude]
    if not kept:
        raise UserValueError("all texts are among those that are excluded", "mono", "give other texts")
    times = 1 if ratio is None else max(1, round(ratio * len(kept) / len(pairs)))
    if times * len(pairs) > MOST_PAIRS:
        what = f"ratio must repeat real pairs to at most {MOST_PAIRS:,}, got {ratio:g}"
        raise UserValueError(what, "ratio", f"choose at most {MOST_PAIRS // len(kept)}")
    made = back_translate(backward, kept, method=method, random_state=random_state)
    before = f"{tag} " if tag and backward.unit in ("word", "jieba") else tag
    return [*pairs] * times + [(before + source, target) for source, target in made]


def _texts(mono: Sequence[str]) -> list[str]:
    texts = list(mono) if isinstance(mono, Iterable) and not isinstance(mono, str | set | frozenset) else []
    if not texts or not all(isinstance(one, str) for one in texts):
        raise UserTypeError("mono must be a list of at least one string", "mono", "give a list, one sentence a string")
    return texts


def _is_pair(row: Any) -> bool:
    return isinstance(row, tuple | list) and len(row) == 2 and all(isinstance(one, str) for one in row)
