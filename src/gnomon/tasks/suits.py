"""Which systems a data set suits: by their tasks and domains, read from their sources without importing them."""

from __future__ import annotations

import ast
import copy
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gnomon.catalog import Entry, entries, tasks
from gnomon.data.preparation import Preparation
from gnomon.errors import UserError
from gnomon.recipes.imports import load
from gnomon.recipes.source import SourceModule
from gnomon.tasks.base import Task, task
from gnomon.tasks.preparing import are_numbers, kept_within, refuse_one_class

if TYPE_CHECKING:
    from gnomon.data.dataset import Dataset

__all__ = ["domain_of", "suits", "suits_as_read"]


def suits(data: Dataset) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Systems that can be fitted to a data set, prepared where it is a table, by task; of other tasks the reason.

    A system counts for the tasks of its catalog entry when the data has the form of its first one (labels, a numeric
    target, a text ...) and keeps its domain. Cost: one pass over the table for each domain that occurs.

    Parameters
    ----------
    data : Dataset

    Returns
    -------
    dict of str to list of str
        Names of systems by task.
    dict of str to str
        What is in the way, by task.

    Examples
    --------
    >>> from gnomon.data import load
    >>> found, why = suits(load("iris"))
    >>> "ppca" in found["density"], "lenet" in found["classify"], why["language"]
    (True, False, 'this is a table, not a text')
    """
    found: dict[str, list[str]] = {}
    why: dict[str, str] = {}
    checked: dict[tuple[str, str, str, bool, bool, bool, bool], str | None] = {}
    for one in entries():
        domain, outcomes = (_made(one, attribute) for attribute in ("domain", "outcomes"))
        pixels = one.needs.partition(", ")[0] == "images" and getattr(domain, "is_table", False)
        needed = _labeled(one) or "labels" in one.needs.split(", ")
        alone = one.tasks[0] == "regress" and not _says(one, "several")
        key = (one.tasks[0], repr(domain), repr(outcomes), _labeled(one), needed, pixels, alone)
        if key not in checked:
            own = _not_images(data) if pixels else None
            own = own or (_of_one_column(data) if alone else None)
            own = own or _obstacle(data, key[0], domain, outcomes, key[3])
            checked[key] = own or (_without_labels(data) if needed else None)
        for name in one.tasks:
            if checked[key] is None:
                found.setdefault(name, []).append(one.name)
            else:
                why.setdefault(name, str(checked[key]))
    return found, {name: reason for name, reason in why.items() if name not in found}


def _not_images(data: Dataset) -> str | None:
    """Why the rows of a table are no images, though each has as many numbers as one; None where they are."""
    return "this is a table, not images" if data.images is None else None


def _of_one_column(data: Dataset) -> str | None:
    """Why a system that predicts one number a row cannot predict this target; None where it can."""
    if data.y is None or data.y.ndim == 1 or data.y.shape[1] == 1:
        return None
    return f"the target has {data.y.shape[1]} columns"


def _obstacle(data: Dataset, name: str, domain: Any, outcomes: Any, labeled: bool) -> str | None:
    """What is in the way of a system, once the columns of a table are prepared for it."""
    predicts = labeled or name == "regress"
    table = data.images is None and (data.X is not None or data.frame is not None)
    if table and getattr(domain, "is_table", False):
        within = kept_within(domain, outcomes or domain, predicts)
        try:
            found = Preparation().fit(
                data, keep_missing=domain.allow_missing, indicators=predicts, within=within
            )  # fmt: skip
            data = found.apply(data)
        except UserError as error:
            return error.what
    return task(name).obstacle(data, domain, outcomes)


def suits_as_read(
    name_or_file: str | os.PathLike[str], *, target: str | int | None = None, columns: Sequence[str] | None = None
) -> dict[str, list[str]]:
    """Systems of the tasks that read a file in a way of their own: ratings, pairs of texts.

    Parameters
    ----------
    name_or_file : str or path
    target : str or int, optional
    columns : sequence of str, optional

    Returns
    -------
    dict of str to list of str
        Names of systems by task; a task that cannot read the file is left out.

    Examples
    --------
    >>> suits_as_read("dates")
    {'translate': ['seq2seq', 'transformer', 'neural-joint-model']}
    """
    found: dict[str, list[str]] = {}
    for name in tasks():
        reader = task(name)
        if type(reader).read is Task.read:
            continue
        try:
            systems = suits(reader.read(name_or_file, target=target, columns=columns))[0].get(name)
        except UserError:
            continue
        if systems:
            found[name] = systems
    return found


def _labeled(one: Entry) -> bool:
    """Whether a system learns from rows with labels."""
    return _says(one, "labeled")


def _says(one: Entry, attribute: str) -> bool:
    """Whether an attribute of a system's class is True."""
    module, _, name = one.where.partition(":")
    try:
        home = SourceModule.of(module)
    except (ValueError, OSError, SyntaxError):
        return False
    node = home.find(name)
    return node is not None and home.attribute(node, attribute) is True


def _without_labels(data: Dataset) -> str | None:
    """What is wrong with the labels of a data set; None where it has some."""
    try:
        labels = data.view("labels")
        refuse_one_class(data)
    except UserError as error:
        return error.what
    return "the target is numeric, not labels" if labels.dtype.kind == "f" or are_numbers(labels) else None


def domain_of(one: Entry, attribute: str = "domain") -> str | None:
    """The expression of a system's domain in its source, None where it stands nowhere.

    Examples
    --------
    >>> from gnomon.catalog import entry
    >>> domain_of(entry("ppca"))
    'Real(allow_missing=True, largest=1e+100)'
    """
    found = _stated(one, attribute)
    return found and ast.unparse(found[1])


def _stated(one: Entry, attribute: str) -> tuple[SourceModule, ast.expr] | None:
    """The expression of a domain, and the module in which its names have their meaning."""
    module, _, name = one.where.partition(":")
    try:
        found = SourceModule.of(module).resolve(name)
    except (ValueError, OSError, SyntaxError):
        return None
    if found is None:
        return None
    for home, node in found[0].ancestry(found[1]):
        value = _assigned(node.body, attribute)
        if isinstance(value, ast.Name):
            value = _assigned(home.tree.body, value.id)
        if value is not None:
            return home, _WithDefaults(*found).visit(copy.deepcopy(value))
    return None


def _assigned(body: list[ast.stmt], name: str) -> ast.expr | None:
    for line in body:
        if isinstance(line, ast.FunctionDef) and line.name == name:
            return _default(line)
        target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
        if isinstance(target, ast.Name) and target.id == name:
            return getattr(line, "value", None)
    return None


def _default(node: ast.FunctionDef) -> ast.expr | None:
    """The domain that a property gives first."""
    calls = (n.value for n in ast.walk(node) if isinstance(n, ast.Return))
    return next((call for call in calls if isinstance(call, ast.Call)), None)


class _WithDefaults(ast.NodeTransformer):
    """Puts the defaults of a system's parameters in the place of ``self.parameter``."""

    def __init__(self, home: SourceModule, system: ast.ClassDef) -> None:
        self.home, self.system = home, system

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if not isinstance(node.value, ast.Name) or node.value.id != "self":
            return node
        return ast.Constant(self.home.attribute(self.system, node.attr))


def _made(one: Entry, attribute: str) -> Any:
    """The domain that a system states; None where its source does not say it."""
    stated = _stated(one, attribute)
    if stated is None:
        return None
    home, call = stated
    known = home.resolve(call.func.id) if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else None
    if known is None or not isinstance(call, ast.Call):
        return None
    domain = load(f"{known[0].name}:{known[1].name}")
    try:
        given = [ast.literal_eval(value) for value in call.args]
        return domain(*given, **{str(k.arg): ast.literal_eval(k.value) for k in call.keywords})
    except ValueError:  # more than literal values: the domain as it is when nothing is said
        return domain()
