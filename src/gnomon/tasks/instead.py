"""Systems of the same task for data that a system cannot take: named in the error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gnomon.catalog import Entry, entries
from gnomon.data.dataset import Dataset
from gnomon.data.text_columns import documents_of
from gnomon.errors import Diverged, UserError

__all__ = ["others_for", "others_named"]

MOST = 3
FORMS = (("X", "table"), ("frame", "table"), ("text", "text"), ("pairs", "pairs of texts"), ("ratings", "ratings"))
"""The form that a set with a part has, as the catalog calls it."""


@contextmanager
def others_named(system: Any, data: Dataset) -> Iterator[None]:
    """Within the block an error names systems of the same task, where the data has not the form that the system needs.

    Parameters
    ----------
    system : System
    data : Dataset

    Raises
    ------
    UserError
        The error of the block, with the names in its remedy.
    """
    try:
        yield
    except Diverged:
        raise
    except UserError as error:
        names = others_for(system, data)
        if not names:
            raise
        *first, last = names
        others = f"fit {', '.join(first)} or {last}" if first else f"fit {last}"
        remedy = f"{error.remedy}, or {others}" if error.remedy else others
        raise type(error)(error.what, error.where, remedy) from error


def others_for(system: Any, data: Dataset) -> list[str]:
    """Up to three systems of a system's first task that take the data; none where its form suits the system itself.

    Those that are fitted for it come first. Of a text, ratings and the like, which no system of that task takes, those
    of any task.

    Examples
    --------
    >>> import gnomon
    >>> iris = gnomon.data.load("iris")
    >>> "gan" in others_for(gnomon.DCGAN(), iris), others_for(gnomon.GAN(), iris)
    (True, [])
    >>> others_for(gnomon.RBM(), gnomon.data.load("python-reference"))[0]
    'ngram'
    """
    own = next((one for one in entries() if one.name == system.name), None)
    shaped = getattr(system, "image_shape", None) is not None  # flat rows have been said to be images
    table = data.X is not None or data.frame is not None
    if own is None or shaped or _takes(own, data):
        return []
    takers = [one for one in entries() if _takes(one, data)]
    same = [one for one in takers if own.tasks[0] in one.tasks]
    same.sort(key=lambda one: own.tasks[0] != one.tasks[0])  # those that are fitted for it come first
    return [one.name for one in (same or ([] if table else takers))][:MOST]


def _takes(one: Entry, data: Dataset) -> bool:
    """Whether data has the form that a system is fitted to, and the labels or the target."""
    head, _, target = one.needs.partition(", ")
    form = next((form for part, form in FORMS if getattr(data, part) is not None), "")
    if head == "texts":
        fits = _holds_texts(data)
    elif data.images is not None:  # rows of pixels are a table too
        fits = head == "images" or head.startswith("table")
    else:
        fits = head.startswith("table") if form == "table" else form == ("ratings" if one.needs == USES else head)
    return fits and (not target or data.y is not None)


def _holds_texts(data: Dataset) -> bool:
    """Whether rows of a set are a text or two: those of a table's columns are."""
    try:
        return len(documents_of(data)) > 0
    except UserError:
        return False


USES = "users and items"
"""What may be ratings, of which it is seen only who met what."""
