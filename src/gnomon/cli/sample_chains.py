"""``gnomon sample RUN --chains 8 --every 1000``: rows along the chains of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnomon.cli import output
from gnomon.cli.write import PICTURES, TABLES, beside, check_out, write_picture, write_table
from gnomon.errors import UserError, UserValueError, counted
from gnomon.runs.config import NAMED, DataSpec

if TYPE_CHECKING:
    from gnomon.tasks.along_chains import ChainRows

__all__ = ["along_chains"]


def along_chains(
    system: Any, recipe: Any, header: list[str], *, chains: int, rows: int, every: int, seed: int | None,
    out: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Write rows along the chains of a fitted model, and say how alike they are.

    Parameters
    ----------
    system : System
    recipe : mapping
        The data of the run.
    header : list of str
        Names of the columns.
    chains, rows, every, seed
        As `gnomon.tasks.along_chains.sample_along_chains` takes them.
    out : str, optional
    as_json : bool

    Raises
    ------
    UserError
        A model without chains, a picture of rows that are no images.
    """
    from gnomon.tasks.along_chains import no_chains, sample_along_chains

    if why := no_chains(system):
        raise UserValueError(why, "--chains", "leave --chains out")
    check_out(out, (*TABLES, *PICTURES))
    drawn = out is not None and Path(out).suffix.lower() in PICTURES
    shape = _shape(recipe, system) if drawn else None
    found = sample_along_chains(system, chains=chains, rows=rows, every=every, random_state=seed)
    columns = beside(_places(found), dict(zip(header, found.rows.reshape(-1, found.rows.shape[-1]).T, strict=True)))
    if drawn:
        assert shape is not None
        _draw(str(out), found, shape, recipe, system)
    elif out is not None:
        write_table(out, columns)
    if as_json:
        of_lags = {name: getattr(found.correlation, name) for name in ("lag", "value", "stderr")}
        facts = {"n": found.rows.shape[1], "chains": len(found.rows), "every": every, "autocorrelation": of_lags}
        output.dump(facts | ({"out": out} if out else {"samples": found.rows}))
        return
    if out is None:
        write_table(None, columns)
    else:
        output.written(len(found.rows) * found.rows.shape[1], "sample", out)
    output.note(f"notice: {found.reading}")


def _places(found: ChainRows) -> dict[str, Any]:
    """Of each row its chain, from 1, and the step after which it was drawn."""
    import numpy as np

    chains, rows = found.rows.shape[:2]
    return {"chain": np.repeat(np.arange(1, chains + 1), rows), "step": np.tile(found.steps, chains)}


def _shape(recipe: Any, system: Any) -> tuple[int, ...]:
    from gnomon.data.images import shape_of

    shape = shape_of(recipe.get("features") or ()) or getattr(system, "image_shape", None)
    if shape is None:
        raise UserValueError("only images have a picture", "--out", "write .csv, .parquet or .npy")
    return tuple(shape)


def _draw(out: str, found: ChainRows, shape: tuple[int, ...], recipe: Any, system: Any) -> None:
    """Write a column for each chain, and as many columns of training rows beside them, where these can be read."""
    from gnomon.evaluation.grids import chain_grid, enlargement

    data = _training(recipe, system, found.rows.shape[0] * found.rows.shape[1])
    write_picture(out, chain_grid(found.rows, shape, data=data, factor=enlargement(shape)))
    each = f"a column for each of {counted(len(found.rows), 'chain')}, a line every {counted(found.every, 'step')}"
    more = "" if data is None else f"; on the right {counted(len(data), 'row')} of the training data, at random"
    output.note(f"notice: {each}{more}")


def _training(recipe: Any, system: Any, n: int) -> Any:
    """At most n training rows, at random; None where the data of the fit cannot be read again."""
    from gnomon.numeric.noise import Noise
    from gnomon.tasks.fitting import parts, task_of

    if recipe.get("source") != NAMED:
        return None
    try:
        train, _ = parts(DataSpec.from_json(recipe), system)
    except UserError as error:
        output.note(f"notice: the data of the fit cannot be read again: {error}")
        return None
    rows, _ = task_of(system).examples(train, system)
    return rows[Noise(0, "sample/beside").order(len(rows))[:n]]
