"""What gnomon says when a user made a mistake: what is wrong, where, what to do, in one line."""

from __future__ import annotations

import math
from typing import Any, Self

__all__ = [
    "Diverged", "NoColumn", "UserError", "UserTypeError", "UserValueError", "counted", "nearest", "number", "shown",
    "unknown",
]  # fmt: skip


class UserError(Exception):
    """A user's mistake, explained in one line.

    Parameters
    ----------
    what : str
        What must hold and what was given instead.
    where : str, optional
        File, row, column or parameter; left out of the line if `what` begins with it.
    remedy : str, optional
        What to do about it.

    Examples
    --------
    >>> print(UserError("X must be in [0, 1], got 5.1", "row 0, column 0", "scale the data"))
    X must be in [0, 1], got 5.1 (row 0, column 0); scale the data
    """

    exit_code = 2

    def __init__(self, what: str, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        stated = not where or what.startswith(f"{where} ")
        super().__init__(what + ("" if stated else f" ({where})") + (f"; {remedy}" if remedy else ""))

    @classmethod
    def must(cls, name: str, rule: str, given: Any, where: str = "", remedy: str = "") -> Self:
        """The error of a value that breaks a rule.

        Parameters
        ----------
        name : str
            Parameter or quantity; also `where`, unless that is given.
        rule : str
            What must hold, in words that follow "must".
        given : object
            The offending value, printed by `shown`.
        where, remedy : str, optional
            As in the class.

        Examples
        --------
        >>> print(UserValueError.must("dropout", "be in [0, 1]", 1.5))
        dropout must be in [0, 1], got 1.5
        """
        return cls(f"{name} must {rule}, got {shown(given)}", where or name, remedy)

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return type(self), (self.what, self.where, self.remedy)


class UserValueError(UserError, ValueError):
    """A value that cannot be used."""


class NoColumn(UserValueError):
    """A column that the data does not have."""


class UserTypeError(UserError, TypeError):
    """An object of a kind that cannot be used."""


class Diverged(UserError, ArithmeticError):
    """Training met a number that is not finite; the last finite checkpoint is kept."""

    exit_code = 1


def counted(n: int, what: str) -> str:
    """So many of a thing, in words.

    Examples
    --------
    >>> counted(1, "row"), counted(2, "row")
    ('1 row', '2 rows')
    """
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def number(value: float | None) -> str:
    """A number for a person: five significant digits; a whole number has all of its own, and None is nothing.

    Examples
    --------
    >>> number(-123.45678), number(float("nan")), number(0.0), number(123456), number(None)
    ('-123.46', 'undefined', '0', '123456', '')
    """
    if value is None or isinstance(value, int):
        return "" if value is None else str(value)
    return "undefined" if math.isnan(value) else f"{value:.5g}"


def shown(value: Any, width: int = 60) -> str:
    """A value in one short line: scalars as plain numbers, text in quotes, arrays by their shape.

    Examples
    --------
    >>> shown("pcd"), shown(10**80), shown([0] * 40, width=12)
    ("'pcd'", '1e+80', '[0, 0, 0, 0,...')
    """
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"an array of shape {tuple(shape)}"
    plain = value.item() if isinstance(shape, tuple) and hasattr(value, "item") else value
    if isinstance(plain, int) and abs(plain) >= 10**width:
        return f"{float(max(min(plain, 10**300), -(10**300))):.3g}"
    text = " ".join(repr(plain).split())
    return text if len(text) <= width else f"{text[:width]}..."


def nearest(word: str, known: list[str] | tuple[str, ...], n: int = 3) -> list[str]:
    """The known names most like `word`, best first.

    Examples
    --------
    >>> nearest("rmb", ["rbm", "ppca"])
    ['rbm']
    """
    import difflib

    folded = {str(name).casefold(): name for name in known}
    hits = difflib.get_close_matches(str(word).casefold(), list(folded), n=n, cutoff=0.5)
    return [folded[hit] for hit in hits]


def unknown(kind: str, name: str, known: list[str] | tuple[str, ...], where: str = "") -> UserValueError:
    """The error of a name that nothing of a kind has: the nearest one, or all that there are.

    Examples
    --------
    >>> print(unknown("system", "rmb", ["rbm", "ppca"]))
    unknown system 'rmb'; did you mean rbm?
    >>> print(unknown("system", "zzz", ["rbm", "ppca"]))
    unknown system 'zzz'; the systems are rbm, ppca
    """
    close = nearest(name, known)
    remedy = f"did you mean {close[0]}?" if close else f"the {kind}s are {', '.join(known)}"
    return UserValueError(f"unknown {kind} {name!r}", where, remedy)
