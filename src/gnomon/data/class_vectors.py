"""Classes as vectors with a single one."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.distributions.arrays import plain
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.given import affordable, doable
from gnomon.numeric.tensors import is_tensor

__all__ = ["from_one_hot", "one_hot"]


def one_hot(labels: Any, n_classes: int, *, dtype: Any = None, name: str = "labels") -> Any:
    r"""Unit vectors of classes: :math:`\tilde y_j` is 1 where j is the class, else 0.

    Parameters
    ----------
    labels : int array or tensor of any shape
        Codes from 0 to n_classes - 1.
    n_classes : int in [1, inf)
    dtype : dtype of NumPy, or of torch for a tensor, optional
        float32 where left out.
    name : str, default "labels"
        What messages call the codes.

    Returns
    -------
    array, or tensor on the device of the labels, of shape labels.shape + (n_classes,)

    Raises
    ------
    UserTypeError, UserValueError
        Labels that are no whole numbers, with the first one that is no class; more than 2^31 numbers.

    Notes
    -----
    Cost and memory O(labels n_classes), in which only one number of each row is not 0: a loss over many classes, such
    as the words of a language model, takes the codes themselves (`gnomon.objectives.losses.CrossEntropyLoss`), as do
    the language models here.

    Examples
    --------
    >>> one_hot([2, 0], 3).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    >>> from_one_hot(one_hot([2, 0], 3)).tolist()
    [2, 0]
    """
    n_classes = doable(n_classes, "n_classes", least=1)
    codes: Any = labels if is_tensor(labels) else plain(labels, name, "give a code for each row")
    if not is_tensor(codes) and not codes.size:
        codes = codes.astype(np.int64)
    if not _is_whole(codes):
        raise UserTypeError.must(
            name, "be whole numbers, the codes of classes", codes.dtype, remedy="encode them first"
        )
    wrong = (codes < 0) | (codes >= n_classes)
    if wrong.any():
        place = np.argwhere(np.asarray(wrong.cpu() if is_tensor(wrong) else wrong))[0].tolist()
        what = f"{name} must be in [0, {n_classes}), got {int(codes[tuple(place)])}"
        raise UserValueError(what, f"index {', '.join(map(str, place))}" if place else name, "give codes from 0")
    affordable(float(np.prod(codes.shape)) * n_classes, name, "keep the codes: losses take them")
    shape = (*codes.shape, n_classes)
    if not is_tensor(codes):
        found = np.zeros(shape, np.float32 if dtype is None else dtype)
        np.put_along_axis(found, codes.astype(np.int64)[..., None], 1, axis=-1)
        return found
    import torch

    rows = torch.zeros(shape, dtype=dtype or torch.float32, device=codes.device)
    return rows.scatter_(-1, codes.long()[..., None], 1)


def from_one_hot(rows: Any) -> Any:
    """The classes of unit vectors: the inverse of `one_hot`.

    Parameters
    ----------
    rows : array or tensor of shape (..., n_classes)
        A single 1 in each row, else 0; of probabilities take ``argmax(-1)``.

    Returns
    -------
    int64 array or tensor of shape (...)

    Raises
    ------
    UserValueError
        The first row that is no unit vector; a number in place of a row.

    Examples
    --------
    >>> from_one_hot([[0, 1, 0], [1, 0, 0]]).tolist()
    [1, 0]
    """
    given: Any = rows if is_tensor(rows) else plain(rows, "rows", "give every row the same classes")
    if not given.ndim or not given.shape[-1]:
        raise UserValueError.must("rows", "have a column for each class", f"shape {tuple(given.shape)}")
    bad = ((given != 0) & (given != 1)).any(-1) | ((given == 1).sum(-1) != 1)
    if bad.any():
        place = np.argwhere(np.asarray(bad.cpu() if is_tensor(bad) else bad))[0].tolist()
        where = f"row {', '.join(map(str, place))}" if place else "rows"
        raise UserValueError("rows must hold a single 1 and zeros", where, "of probabilities take argmax(-1)")
    return given.argmax(-1)


def _is_whole(codes: Any) -> bool:
    if is_tensor(codes):
        return not (codes.is_floating_point() or codes.is_complex() or str(codes.dtype) == "torch.bool")
    return bool(codes.dtype.kind in "iu")
