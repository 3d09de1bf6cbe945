"""What gnomon says when a user made a mistake: what is wrong, where, what to do, in one line."""

from __future__ import annotations

__all__ = ["Diverged", "UserError", "UserTypeError", "UserValueError", "nearest"]


class UserError(Exception):
    """A mistake of the user's, told in one line.

    Parameters
    ----------
    what : str
        What is wrong, with the offending value.
    where : str, optional
        File, row, column or parameter.
    remedy : str, optional
        What to do about it.

    Examples
    --------
    >>> print(UserError("value 5.1 is outside [0, 1]", "row 0, column 0", "scale the data"))
    value 5.1 is outside [0, 1] (row 0, column 0); scale the data
    """

    exit_code = 2

    def __init__(self, what: str, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        super().__init__(what + (f" ({where})" if where else "") + (f"; {remedy}" if remedy else ""))

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return type(self), (self.what, self.where, self.remedy)


class UserValueError(UserError, ValueError):
    """A value that cannot be used."""


class UserTypeError(UserError, TypeError):
    """An object of a kind that cannot be used."""


class Diverged(UserError, ArithmeticError):
    """Training met a number that is not finite; the last finite checkpoint is kept."""

    exit_code = 1


def nearest(word: str, known: list[str] | tuple[str, ...], n: int = 3) -> list[str]:
    """The known names most like `word`, best first.

    Examples
    --------
    >>> nearest("rmb", ["rbm", "ppca"])
    ['rbm']
    """
    import difflib

    folded = {name.casefold(): name for name in known}
    hits = difflib.get_close_matches(word.casefold(), list(folded), n=n, cutoff=0.5)
    return [folded[hit] for hit in hits]
