"""A few rows drawn at random with what a model predicts of them and what is true: what no number can replace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.brightness import brightness
from gnomon.data.dataset import Dataset
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.grids import enlargement, sample_grid
from gnomon.evaluation.overlays import overlay_boxes
from gnomon.numeric.noise import Noise, seed_of
from gnomon.recipes.parameters import how_many
from gnomon.tasks.excerpt import excerpt, plain_cell
from gnomon.tasks.mistakes import worst_places

__all__ = ["Seen", "show_predictions", "show_rows"]

WRONG = (0.86, 0.2, 0.13)
"""Color of the frame about images that are taken for another class."""


@dataclass(frozen=True)
class Seen:
    """Rows, predictions and truth.

    Parameters
    ----------
    places : int64 array of shape (n,)
        Where the rows stand among those that were given, rising.
    inputs : array or frame of n rows
        As they are shown.
    predicted : array of shape (n, ...)
    true : array of shape (n, ...), optional
    probability : array of shape (n,), optional
        Of the predicted class.
    """

    places: NDArray[np.int64]
    inputs: Any
    predicted: NDArray[Any]
    true: NDArray[Any] | None = None
    probability: NDArray[np.float64] | None = None

    @property
    def wrong(self) -> NDArray[np.bool_] | None:
        """Which rows are taken for another class; None of numbers, and where the truth is not known."""
        if self.true is None or (self.true.dtype.kind == "f" and self.probability is None):
            return None
        return np.asarray(self.true != self.predicted)

    def columns(self, data: Dataset) -> dict[str, Any]:
        """The rows by column: number in the whole data, truth, prediction, probability, and what was read.

        Parameters
        ----------
        data : Dataset
            Of which the rows were drawn.
        """
        answers = self._answers(data)
        own = {} if data.images is not None else _read(data, self.places)
        return answers | _apart(answers, own)

    def table(self, data: Dataset) -> tuple[list[str], list[list[Any]]]:
        """The same for a page: cells in few letters, six columns of the data at most.

        Parameters
        ----------
        data : Dataset
        """
        answers = self._answers(data)
        beside = excerpt(data, self.places) if data.pairs is None else _read(data, self.places)
        shown = answers | _apart(answers, beside)
        columns = [[plain_cell(cell) for cell in np.asarray(values).tolist()] for values in shown.values()]
        return list(shown), [list(row) for row in zip(*columns, strict=True)]

    def _answers(self, data: Dataset) -> dict[str, Any]:
        found: dict[str, Any] = {"row": self.places if data.rows is None else np.asarray(data.rows)[self.places]}
        parts = {"true": self.true, "predicted": self.predicted, "probability": self.probability}
        for name, values in parts.items():
            if values is not None and values.ndim == 1:
                found[name] = values
            elif values is not None:
                found |= {f"{name} {j + 1}": values[:, j] for j in range(values.shape[1])}
        return found

    def picture(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """The inputs as images side by side, in their order, with a red frame about those that are wrong.

        Parameters
        ----------
        shape : tuple of int
            Of the images that `inputs` are.

        Returns
        -------
        array of shape (rows, columns, 3)
            In [0, 1].
        """
        factor = enlargement(shape)
        images = np.asarray(self.inputs)
        grid = sample_grid(images.reshape(len(images), -1), shape, factor=factor)
        colored = grid if grid.ndim == 3 else np.repeat(grid[..., None], 3, axis=2)
        if self.wrong is None:
            return colored
        height, width = shape[0] * factor, shape[1] * factor
        across = colored.shape[1] // (width + 1)
        corners = [(k // across * (height + 1), k % across * (width + 1)) for k in np.flatnonzero(self.wrong).tolist()]
        boxes = [(top, left, top + height, left + width) for top, left in corners]
        return overlay_boxes(colored, np.array(boxes).reshape(-1, 4), color=WRONG, width=max(1, height // 24))


def show_predictions(
    model: Any, X: Any, y: Any = None, n: int = 12, *, random_state: Any = None, undo: Any = None, places: Any = None
) -> Seen:
    """Rows drawn at random with predictions and truth, to see whether a model does what its scores say.

    Wrong evaluation is the worst fault, since nothing else shows it: rows that are another's, labels moved by one,
    pixels in another order. Neither good nor bad rows are chosen; `gnomon.tasks.mistakes` has the worst.

    Parameters
    ----------
    model : object with ``predict``
        A system, or an estimator of scikit-learn: what evaluates X is asked, so that rows go through the same
        preparation.
    X : array, frame or list of n rows
        As ``evaluate`` and ``predict`` take them.
    y : array, optional
        The truth.
    n : int in [1, inf), default 12
        Rows; all where there are fewer.
    random_state : int, None or NumPy generator
        The same rows.
    undo : callable, or object with ``inverse_transform``, optional
        Turns rows of X back into what people read, where X was scaled: a `gnomon.data.preprocessing.Standardizer`, say.
    places : int array, optional
        The rows of X to show, in this order, in place of random ones: mistakes, say.

    Returns
    -------
    Seen
        Arrays; ``table(data)`` and ``picture(shape)`` for people. No display is needed. Cost: n predictions.

    Raises
    ------
    UserTypeError
        A model that does not predict.
    UserValueError
        No row, another number of labels than of rows.

    Notes
    -----
    Source: Goodfellow, Bengio and Courville (2016), section 11.5.

    Examples
    --------
    >>> import gnomon
    >>> iris = gnomon.data.load("iris")
    >>> found = show_predictions(gnomon.LogisticRegression().fit(iris.X, iris.y), iris.X, iris.y, n=3, random_state=0)
    >>> found.inputs.shape, bool((found.true == iris.y[found.places]).all())
    ((3, 4), True)
    """
    if not hasattr(model, "predict"):
        raise UserTypeError(f"{type(model).__name__} does not predict", "model", "choose a model that does")
    rows = len(X) if not hasattr(X, "shape") else X.shape[0]
    if how_many(n, "n") < 1 or not rows:
        raise UserValueError(f"n and the rows of X must be at least 1, got {n} of {rows}", "n")
    if y is not None and len(y) != rows:
        raise UserValueError(f"y must have {rows} entries, got {len(y)}", "y", "give one for each row")
    if places is None:
        places = np.sort(Noise(seed_of(random_state), "seen").order(rows)[:n])
    chosen = _taken(X, places)
    predicted = np.asarray(model.predict(chosen))
    if predicted.ndim > 2:
        raise UserTypeError(
            "predictions must be of rows, got labels of pixels", "model", "see gnomon.tasks.segment.beside"
        )
    sure = None
    if hasattr(model, "predict_proba"):
        sure = np.asarray(model.predict_proba(chosen), np.float64).max(axis=1)
    back = getattr(undo, "inverse_transform", undo)
    inputs = chosen if back is None else back(chosen)
    return Seen(places, inputs, predicted, None if y is None else np.asarray(_taken(y, places)), sure)


def show_rows(
    system: Any, goal: Any, data: Dataset, X: Any, y: Any, n: int = 12, *, random_state: Any = None,
    worst: bool = False,
) -> Seen:  # fmt: skip
    """The same of rows of a data set, whose images are given back on their own levels of gray.

    Parameters
    ----------
    system : System
    goal : Task
        That of the system.
    data : Dataset
    X, y : as the task gives them of `data`
        y is None where the truth is not known; of pairs of texts the truth is the second.
    n : int in [1, inf), default 12
    random_state : int, None or NumPy generator
    worst : bool, default False
        Whether the rows on which the system is furthest off are shown, these first, and not random ones.

    Raises
    ------
    UserValueError
        The worst rows where the truth is not known or nothing is wrong.
    """
    places = worst_places(system, X, y, n) if worst else None
    if data.pairs is not None:
        y = [target for _, target in data.pairs]
    levels, view = data.levels, goal.view(system.domain)
    undo = None if levels is None or data.images is None else (lambda rows: brightness(rows, view, levels))
    return show_predictions(system, X, y, n, random_state=random_state, undo=undo, places=places)


def _apart(answers: dict[str, Any], columns: dict[str, Any]) -> dict[str, Any]:
    """The columns under names that no answer has."""
    return {f"{name} (data)" if name in answers else name: values for name, values in columns.items()}


def _read(data: Dataset, places: NDArray[np.int64]) -> dict[str, Any]:
    """Columns of some rows as they were read."""
    if data.pairs is not None:
        return {"source": np.array([data.pairs[place][0] for place in places.tolist()], object)}
    if data.frame is not None:
        return {name: np.array(data.frame[name][places].to_list(), object) for name in data.frame.columns}
    return {} if data.X is None else {name: data.X[places, j] for j, name in enumerate(data.columns)}


def _taken(X: Any, places: NDArray[np.int64]) -> Any:
    """Some rows of an array, a frame or a list."""
    if hasattr(X, "iloc"):
        return X.iloc[places]
    return [X[place] for place in places.tolist()] if isinstance(X, list | tuple) else X[places]
