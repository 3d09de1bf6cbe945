"""What ``gnomon predict`` does with several targets to a source: lists of them, and their order by other models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from gnomon.cli import output
from gnomon.cli.completion import folders
from gnomon.cli.fitted import ask, tell
from gnomon.errors import UserTypeError, UserValueError

__all__ = ["predict_texts", "text_options"]

PROPOSED = 10
"""Candidates that are rescored where no number is given."""


def text_options(function: Any) -> Any:
    """The options of systems that write a target to a source."""
    function = click.option(
        "--tune", metavar="PAIRS",
        help="Pairs that are in no test: the weights of --rescore are chosen so that BLEU of theirs is best.",
    )(function)  # fmt: skip
    function = click.option(
        "--rescore",
        multiple=True,
        metavar="RUN[=WEIGHT]",
        shell_complete=folders,
        help="Choose among translations by this language model or translator too, or by length; repeatable.",
    )(function)
    function = click.option(
        "--candidates", metavar="FILE",
        help="Pairs by tabs: a source token, a target token that it may become; without the first: in any target.",
    )(function)  # fmt: skip
    return click.option(
        "--n-best",
        type=click.IntRange(1),
        metavar="N",
        help="Translations of each source, best first; with --rescore those that are chosen from [default 10].",
    )(function)


def predict_texts(
    run: str, data: str, system: Any, *, n_best: int | None, rescore: Sequence[str], tune: str | None,
    candidates: str | None, keep: str | None, out: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Write several targets of each source, or the best of them by several models together.

    Raises
    ------
    UserError
        A system that does not translate, runs that score no text, weights that are no numbers.
    """
    if not hasattr(system, "propose"):
        what = f"{system.name} does not write targets to sources"
        raise UserTypeError(what, "--n-best, --rescore, --candidates", "leave them out")
    if tune is not None and not rescore:
        raise UserValueError("--tune needs --rescore", "--tune", "name a language model: --rescore RUN")
    named = [_named(one) for one in rescore]
    query = ask(run, data, system)
    allowed = None if candidates is None else _allowed(candidates)
    if not rescore and n_best is None:
        found = {"prediction": np.array(system.translate(query.X, candidates=allowed), np.str_)}
        tell(query, keep, found, out, as_json, noun="prediction")
        return
    proposed = system.propose(query.X, n_best=n_best or PROPOSED, candidates=allowed)
    if not rescore:
        width = max((len(one) for one in proposed), default=1)
        columns = zip(*(row + [""] * (width - len(row)) for row in proposed), strict=True)
        found = {f"prediction_{j}": np.array(column, np.str_) for j, column in enumerate(columns, 1)}
        tell(query, keep, found, out, as_json, noun="prediction")
        return
    from gnomon.tasks import rescoring

    models, weights = [system, *(model for _, model, _ in named)], [1.0, *(weight for _, _, weight in named)]
    if tune is not None:
        held = ask(run, tune, system, answers=True)
        sources, wanted = zip(*held.X, strict=True)
        lists = list(zip(sources, system.propose(held.X, n_best=n_best or PROPOSED, candidates=allowed), strict=True))
        weights = rescoring.tune(lists, wanted, models, weights, unit=system.unit).tolist()
    names = [run, *(name for name, _, _ in named)]
    if not as_json:
        output.note("weights: " + ", ".join(f"{n} {w:.4g}" for n, w in zip(names, weights, strict=True)))
    ranked = rescoring.rescore(list(zip((source for source, _ in query.X), proposed, strict=True)), models, weights)
    found = {
        "prediction": np.array([row[0][0] for row in ranked], np.str_),
        "score": np.array([r[0][1] for r in ranked]),
    }
    facts = {"weights": dict(zip(names, weights, strict=True))}
    tell(query, keep, found, out, as_json, noun="prediction", facts=facts)


def _allowed(file: str) -> dict[str, list[str]]:
    """Target tokens by source token."""
    from gnomon.tasks.translate import Translate

    found: dict[str, list[str]] = {}
    for source, target in Translate().read(file).pairs or ():
        found.setdefault(source, []).append(target)
    return found


def _named(text: str) -> tuple[str, Any, float]:
    """Name, model and weight."""
    from gnomon.system.saving import load

    name, given, weight = text.rpartition("=")
    if not given:
        name, weight = text, "1"
    try:
        number = float(weight)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserValueError.must("--rescore", "end in =WEIGHT, a finite number", text)
    if name == "length":
        return name, name, number
    model = load(name)
    if not {"language", "translate"} & set(model.tasks):
        what = f"{model.name} gives no text a probability"
        raise UserTypeError(what, f"--rescore {name}", "name a run of a language model or a translator")
    return name, model, number
