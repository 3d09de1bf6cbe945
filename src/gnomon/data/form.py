"""How a file is to be read where it does not say so itself: encoding, separator, marks; framing of images."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from gnomon.errors import UserTypeError, UserValueError

__all__ = ["OF_IMAGES", "PLAIN", "SPACE", "File", "Form", "form_of"]

SPACE = "space"
"""The separator that is a run of blanks and tabs."""
OF_IMAGES = {
    "broken": ("refuse", "skip"), "framing": ("resize", "resize-crop", "center-crop"),
    "backdrop": ("white", "black"), "depth": ("8",),
}  # fmt: skip
"""What is said of images, and in which words."""
_NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", " ": SPACE, "whitespace": SPACE}


@dataclass(frozen=True)
class Form:
    """What is known of a text file, or a folder of images, beside its name.

    Parameters
    ----------
    encoding : str, optional
        A codec of Python: ``latin-1``, ``cp1252``, ``gb18030`` ... Left out, it is UTF-8, or what a byte-order mark
        says.
    separator : str, optional
        Of the fields of a table: a character, several (``::``), ``tab``, or ``space`` for runs of blanks and tabs.
        Found in the first line where left out.
    decimal : str, optional
        ``,`` where numbers are written 3,25.
    thousands : str, optional
        The mark between thousands: ``.``, ``,``, ``'``, ``_`` or a blank.
    broken : {"refuse", "skip"}, optional
        Images that cannot be read: the first is refused (the default), or they are left out, with one notice.
    framing : {"resize", "resize-crop", "center-crop"}, optional
        How images are brought to the size that is asked for: stretched (the default), in proportion until they cover
        it and then cropped around their center, or cropped alone.
    backdrop : {"white", "black"}, optional
        What stands behind transparent pixels of images, which are refused without it.
    depth : {"8"}, optional
        Images of 16 bits are brought to 256 levels, so that they go with others.

    Examples
    --------
    >>> Form(separator="tab").separator, Form(decimal=",").to_json()
    ('\\t', {'decimal': ','})
    """

    encoding: str | None = None
    separator: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    broken: str | None = None
    framing: str | None = None
    backdrop: str | None = None
    depth: str | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None and not isinstance(value, str):
                raise UserTypeError.must(one.name, "be text", value)
        if self.separator is not None:
            object.__setattr__(self, "separator", _NAMED.get(self.separator, self.separator))
        self._check()

    def _check(self) -> None:
        for name, allowed in OF_IMAGES.items():
            if getattr(self, name) not in (None, *allowed):
                raise UserValueError.must(name, f"be {' or '.join(allowed)}", getattr(self, name))
        if self.encoding is not None:
            _check_encoding(self.encoding)
        if self.separator is not None and not _may_separate(self.separator):
            raise UserValueError.must(
                "separator", "be one or more characters, none of them a digit, a quote or a line end", self.separator
            )
        if self.decimal not in (None, ".", ","):
            raise UserValueError.must("decimal", "be . or ,", self.decimal)
        if self.thousands not in (None, ".", ",", "'", "_", " ", "\u2019", "\u00a0", "\u202f"):
            raise UserValueError.must("thousands", "be one of . , ' _ or a blank", self.thousands)
        marks = [self.decimal or ".", self.thousands, self.separator]
        twice = next((mark for i, mark in enumerate(marks) if mark is not None and mark in marks[:i]), None)
        if twice is not None:
            raise UserValueError(f"the mark {twice!r} must stand for one thing, got it twice", "decimal, thousands", "")

    def to_json(self) -> dict[str, str]:
        """What is set, as a run keeps it."""
        return {one.name: value for one in fields(self) if (value := getattr(self, one.name)) is not None}

    @classmethod
    def from_json(cls, given: Mapping[str, Any] | None) -> Self:
        """The form that `to_json` described.

        Raises
        ------
        UserValueError
            A fact that no form has.
        """
        known = {one.name for one in fields(cls)}
        other = next((name for name in given or {} if name not in known), None)
        if other is not None:
            raise UserValueError(f"a form has {', '.join(sorted(known))}, got {other!r}", "form", "fit again")
        return cls(**dict(given or {}))


def _check_encoding(name: str) -> None:
    try:
        "".encode(name)
    except (LookupError, ValueError, TypeError):
        raise UserValueError.must("encoding", "be a name that Python knows, such as latin-1 or gb18030", name) from None


def _may_separate(separator: str) -> bool:
    return bool(separator) and not any(c in '"\n\r\0\x1f+-' or c.isalnum() for c in separator.replace(SPACE, " "))


class File(os.PathLike[str]):
    """A file and how it is to be read; it stands wherever a path may.

    Parameters
    ----------
    path : path
    encoding, separator, decimal, thousands : str, optional
        Of a text; see `Form`.
    broken, framing, backdrop, depth : str, optional
        Of a folder of images, or a single one; see `Form`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from gnomon.data import load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "t.csv")
    ...     _ = path.write_text("x;y\\n1.000,5;2,0\\n3,25;4,75\\n")
    ...     load(File(path, decimal=",", thousands=".")).X.tolist()
    [[1000.5, 2.0], [3.25, 4.75]]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        encoding: str | None = None,
        separator: str | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
        broken: str | None = None,
        framing: str | None = None,
        backdrop: str | None = None,
        depth: str | None = None,
    ) -> None:
        try:
            self.path = os.fspath(path)
        except TypeError:
            raise UserTypeError.must("path", "be the path of a file", path) from None
        self.form = Form(encoding, separator, decimal, thousands, broken, framing, backdrop, depth)

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        parts = [repr(self.path), *(f"{name}={value!r}" for name, value in self.form.to_json().items())]
        return f"File({', '.join(parts)})"


PLAIN = Form()
"""Nothing is known."""


def form_of(path: Any) -> Form:
    """The form that comes with a path; that of nothing but its ending for one that is plain."""
    return path.form if isinstance(path, File) else PLAIN
