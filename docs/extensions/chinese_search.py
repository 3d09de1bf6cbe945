"""Search of Chinese by any part of a word: runs of Chinese are cut into characters and pairs of neighbors.

Sphinx takes a run of Chinese for one word, which is found only whole or by three characters or more of it. Here each
character of a run is a word of the index, and so is each pair of neighbors; a query of one character is that character,
a longer one all its pairs. English is searched as Sphinx does it.
"""

from __future__ import annotations

import re
from itertools import pairwise

from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

CHINESE = "\u3400-\u4dbf\u4e00-\u9fff"
PART = re.compile(rf"[{CHINESE}]+|[^\W{CHINESE}]+")


class SearchEnglishAndChinese(SearchEnglish):
    """English, with the pairs of neighbors of Chinese; stands in the place of Sphinx's English."""

    js_splitter_code = rf"""
var splitQuery = (query) => query
  .replace(/[{CHINESE}]+/g, " $& ")
  .split(/[^\p{{Letter}}\p{{Number}}_\p{{Emoji_Presentation}}]+/gu)
  .filter((part) => part)
  .flatMap((part) => /^[{CHINESE}]{{2,}}$/.test(part) ? [...part].slice(1).map((one, k) => part[k] + one) : [part]);
"""

    def split(self, input: str) -> list[str]:
        """The words of a text as the index has them."""
        return [word for part in PART.findall(input) for word in words(part)]


def words(part: str) -> list[str]:
    """A word of English, or the characters and pairs of a run of Chinese.

    Examples
    --------
    >>> words("泊松")
    ['泊', '松', '泊松']
    """
    if not re.match(f"[{CHINESE}]", part):
        return [part]
    return [*part, *map("".join, pairwise(part))]


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_search_language(SearchEnglishAndChinese)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
