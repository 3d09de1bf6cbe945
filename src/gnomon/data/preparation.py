"""How a table of any columns becomes numbers: a description, learned from training rows alone, kept with the model.

The description is made without loading anything heavy, so that the command line can write it into a run first; what it
learns is `gnomon.data.prepared.Prepared`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from gnomon.errors import UserTypeError, UserValueError, nearest

if TYPE_CHECKING:
    from gnomon.data.prepared import Prepared

__all__ = ["WITHIN", "Preparation"]

WITHIN = {"unit": "unit", "grey": "unit", "threshold": "unit", "drawn": "unit", "binary": "binary"}
"""What the columns of a table are brought into for the views of models that take no other numbers."""

_CHOICES = {
    "encode": ("one-hot", "ordinal", "none"),
    "missing": ("median", "mean", "most-frequent", "none"),
    "scale": ("auto", "yes", "no"),
    "text": ("none", "bag-of-words", "counts", "tf-idf"),
    "text_unit": ("auto", "word", "char", "jieba"),
}
_LISTS = ("drop", "numeric", "categorical", "id")


@dataclass(frozen=True)
class Preparation:
    """What is done to the columns of a table before a fit; what is learned comes from the training rows alone.

    Parameters
    ----------
    encode : {"one-hot", "ordinal", "none"}, default "one-hot"
        Categories as a column of 0 and 1 for each level, or as one column of codes. "none": the table must hold
        numbers, every column is taken as it is, and what is missing is left to the system.
    missing : {"median", "mean", "most-frequent", "none"}, default "median"
        What stands for a number that is missing, beside a column that says so where the training rows lack some;
        systems that take missing values keep them. "none": they stay missing.
    scale : {"auto", "yes", "no"}, default "auto"
        Numbers to mean 0 and spread 1: where the answer of a system depends on the columns' units, always, or never.
    text : {"none", "bag-of-words", "counts", "tf-idf"}, default "none"
        What becomes of free text, and of a set of texts: a column for each of its words, which holds whether it occurs,
        how often, or its tf-idf, where texts have the length 1. "none": free text is left out.
    words : int >= 1, default 1000
        How many words of a text are kept, the most frequent ones; each costs 8 bytes a row.
    text_unit : {"auto", "word", "char", "jieba"}, default "auto"
        What a text is cut into; "auto": characters of scripts without spaces, else words between blanks.
    lexicon : str, optional
        A JSON file, or the folder of a WordNet database (`gnomon.data.Lexicon.load`): words of a text become concepts,
        the most frequent one of each, before they are counted.
    rare : float in [0, 1), default 0.005
        Levels in fewer than this fraction of the training rows, or in a single one, are "other", as are unseen levels.
    drop : sequence of str
        Columns to leave out.
    numeric : sequence of str
        Columns of numbers; a cell that is none counts as missing.
    categorical : sequence of str
        Columns of categories, though their cells be numbers, or their levels many.
    id : sequence of str
        Columns that name the rows: no features.

    Examples
    --------
    >>> Preparation(encode="ordinal", drop=["name"]).to_json()
    {'encode': 'ordinal', 'drop': ['name']}
    """

    encode: str = "one-hot"
    missing: str = "median"
    scale: str = "auto"
    text: str = "none"
    words: int = 1000
    text_unit: str = "auto"
    lexicon: str | None = None
    rare: float = 0.005
    drop: Sequence[str] = ()
    numeric: Sequence[str] = ()
    categorical: Sequence[str] = ()
    id: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            given = getattr(self, name)
            if given not in allowed:
                close = nearest(str(given), list(allowed))
                remedy = f"did you mean {close[0]!r}?" if close else ""
                raise UserValueError.must(name, f"be {', '.join(allowed)}", given, remedy=remedy)
        if not isinstance(self.rare, int | float) or not 0 <= self.rare < 1:
            raise UserValueError.must("rare", "be in [0, 1)", self.rare)
        if not isinstance(self.words, int) or self.words < 1:
            raise UserValueError.must("words", "be at least 1", self.words)
        if self.lexicon is not None and not isinstance(self.lexicon, str):
            raise UserTypeError.must("lexicon", "be a path", self.lexicon)
        if self.lexicon is not None and self.text == "none":
            what = "text must be bag-of-words, counts or tf-idf beside a lexicon, got none"
            raise UserValueError(what, "lexicon", "choose text tf-idf, say")
        seen: dict[str, str] = {}
        for name in _LISTS:
            given = getattr(self, name)
            if isinstance(given, str):
                remedy = f"give a list: [{given!r}]"
                raise UserTypeError(f"{name} must be a list of columns, got the string {given!r}", name, remedy)
            if not isinstance(given, Iterable) or not all(isinstance(one, str | int) for one in given):
                raise UserTypeError.must(name, "be a list of columns", given)
            object.__setattr__(self, name, tuple(given))
            for column in getattr(self, name):
                if column in seen:
                    what = f"column {column!r} must be named once, got {seen[column]} and {name}"
                    raise UserValueError(what, name, "leave one of them out")
                seen[column] = name

    @property
    def kinds(self) -> dict[str, str]:
        """What the reader of a file must know of its columns, by name."""
        left_out = dict.fromkeys([*self.drop, *self.id], "left out")
        return left_out | dict.fromkeys(self.numeric, "number?") | dict.fromkeys(self.categorical, "text")

    def fit(
        self, data: Any, y: Any = None, *, keep_missing: bool = False, scaled: bool = False, indicators: bool = True,
        within: str = "real", ordered: bool = False,
    ) -> Prepared:  # fmt: skip
        """Learn from the training rows.

        Parameters
        ----------
        data : Dataset, pandas or polars frame
            The training rows, and no other.
        y : array of shape (n,), optional
            A numeric target that the system wants at mean 0 and spread 1; it is scaled where numbers are.
        keep_missing : bool, default False
            Whether the system takes missing numbers: they stay missing.
        scaled : bool, default False
            Whether numbers are scaled where `scale` is "auto".
        indicators : bool, default True
            Whether a column says where a number was missing.
        within : {"real", "unit", "binary"}, default "real"
            What the system takes: any numbers, those in [0, 1], or 0 and 1.
        ordered : bool, default False
            Whether a column's place says what it is, as in images and sequences: one that is the same in every row
            stays, and an empty one is refused.

        Examples
        --------
        >>> import polars as pl
        >>> rows = pl.DataFrame({"sex": ["f", "m"] * 4, "age": [31.0, None, 52, 40, 38, 27, 33, 65]})
        >>> prepared = Preparation().fit(rows)
        >>> prepared.names_out
        ('sex=f', 'sex=m', 'age', 'age missing')
        >>> prepared.transform(rows.tail(1)).tolist()
        [[0.0, 1.0, 65.0, 0.0]]
        """
        from gnomon.data.learning import learn

        scaled = self.scale == "yes" or (self.scale == "auto" and scaled)
        found = learn(
            self, data, keep_missing=keep_missing, scaled=scaled, indicators=indicators, within=within, ordered=ordered
        )
        return found if y is None or not scaled else found.with_target(y)

    def to_json(self) -> dict[str, Any]:
        """The fields that are not at their defaults, as JSON values."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}
        return {one.name: plain[one.name] for one in fields(self) if found[one.name] != one.default}

    @classmethod
    def from_json(cls, given: Mapping[str, Any] | None) -> Self:
        """The description of a run; the default one where it has none."""
        known = {one.name for one in fields(cls)}
        foreign = [name for name in given or {} if name not in known]
        if foreign:
            raise UserValueError(f"unknown preparation {foreign[0]!r}", "config.json", "put back what gnomon wrote")
        return cls(**(given or {}))
