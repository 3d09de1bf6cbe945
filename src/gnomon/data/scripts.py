"""Scripts that are written without spaces between words: noticed in a text, and cut into characters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gnomon.data.text import Vocabulary

__all__ = ["NOTICE", "closed", "has_no_spaces", "is_of_characters", "spaced"]

NOTICE = (
    "the text is in a script without spaces: each of its characters is a token; to model words, give it with blanks "
    "between them, or choose unit jieba (Chinese, by the package jieba)"
)

_EAST = (
    "\u2e80-\u2fdf\u3000-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf"
    "\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\U00020000-\U0003134f"
)
"""Chinese, Japanese and Yi, with their punctuation."""
_SOUTH = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1980-\u19df"
"""Thai, Lao, Burmese, Khmer, New Tai Lue."""
_ONE = re.compile(f"[{_EAST}{_SOUTH}]")
_BESIDE_ANOTHER = re.compile(f"[{_EAST}{_SOUTH}][^\n]|[^\n][{_EAST}{_SOUTH}]")
_BLANK = re.compile(f"(?<=[{_EAST}{_SOUTH}]) (?=[{_EAST}{_SOUTH}])")
_LONG = ((re.compile(f"[{_EAST}]"), 4.5), (re.compile(f"[{_SOUTH}]"), 9.0))
"""Characters per token, on average, from which on tokens are no words: those of people's dictionaries have two, and
five in Thai."""


def has_no_spaces(text: Sequence[Sequence[str]]) -> bool:
    """Whether most of a text is in a script without spaces, and its tokens are too long to be words.

    Examples
    --------
    >>> has_no_spaces([["我们今天学习机器学习"]]), has_no_spaces([["我们", "今天", "学习"]]), has_no_spaces([["hello"]])
    (True, False, False)
    """
    whole = "\n".join("\n".join(sentence) for sentence in text)
    if whole.isascii() or not _ONE.search(whole):
        return False
    for script, longest in _LONG:
        held = [len(found) for sentence in text for token in sentence if (found := script.findall(token))]
        if held and 2 * sum(held) > sum(len(token) for sentence in text for token in sentence):
            return sum(held) > longest * len(held)
    return False


def is_of_characters(vocabulary: Vocabulary) -> bool:
    """Whether the tokens of such scripts in a vocabulary are single characters: the text was cut into them.

    Examples
    --------
    >>> [is_of_characters(Vocabulary(words)) for words in (["我", "们", "GPU"], ["我们", "我"], ["we"])]
    [True, False, False]
    """
    whole = "\n".join(vocabulary.tokens)
    return not whole.isascii() and bool(_ONE.search(whole)) and not _BESIDE_ANOTHER.search(whole)


def spaced(X: Any) -> Any:
    """Text with blanks around every character of such scripts; sentences that are lists of tokens stay as they are.

    Examples
    --------
    >>> spaced(["用GPU学习"]), spaced([["用", "GPU"]])
    (['用 GPU 学 习'], [['用', 'GPU']])
    """
    if isinstance(X, str):
        return _apart(X) if "\n" not in X and "\r" not in X else _ONE.sub(r" \g<0> ", X)
    return [_apart(one) if isinstance(one, str) else one for one in X]


def _apart(sentence: str) -> str:
    return " ".join(_ONE.sub(r" \g<0> ", sentence).split()) if _ONE.search(sentence) else sentence


def closed(text: str) -> str:
    """Text without the blanks between two characters of such scripts.

    Examples
    --------
    >>> closed("用 GPU 学 习")
    '用 GPU 学习'
    """
    return _BLANK.sub("", text)
