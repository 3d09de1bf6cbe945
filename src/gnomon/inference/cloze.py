"""What a masked language model says of the tokens of texts when they are hidden from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.data.packing import MASK, Packed

__all__ = ["cloze"]

CELLS = 1 << 15
"""Tokens that are read at once."""


def cloze(model: Any, packed: Packed, apart: int | None = None) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    r"""Log probability of each token where it, and every so many-th one before and behind it, is hidden.

    Every token is foretold once. With one hidden at a time the sum over a text is its pseudo-log-likelihood,
    :math:`\sum_t \log P(w_t | w_{\setminus t})` (Salazar and others 2020).

    Parameters
    ----------
    model : module with ``encoder``, ``head`` and ``device``
    packed : Packed
        Single texts.
    apart : int >= 1, optional
        Distance of the tokens that are hidden together; one at a time where left out.

    Returns
    -------
    log_prob : float64 array of shape (n, T)
        Nats; 0 at special tokens and padding.
    hit : bool array of shape (n, T)
        Whether the token is the most probable one.

    Notes
    -----
    A text of N tokens is read min(N, apart) times.
    """
    n, T = packed.ids.shape
    log_prob, hit = np.zeros((n, T)), np.zeros((n, T), np.bool_)
    own = packed.lengths - 2
    times = own if apart is None else np.minimum(own, apart)
    row = np.repeat(np.arange(n), times)
    fold = np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times)
    order = np.argsort(packed.lengths[row], kind="stable")
    for begin in range(0, len(order), max(1, CELLS // T)):
        some = order[begin : begin + max(1, CELLS // T)]
        rows, length = row[some], packed.lengths[row[some]][:, None]
        at = np.arange(int(length.max()))
        hidden = (at >= 1) & (at < length - 1) & ((at - 1) % (apart or T) == fold[some][:, None])
        found, best = _foretold(model, packed, rows, hidden)
        where = rows[np.nonzero(hidden)[0]], np.nonzero(hidden)[1]
        log_prob[where], hit[where] = found, best
    return log_prob, hit


def _foretold(model: Any, packed: Packed, rows: Any, hidden: NDArray[np.bool_]) -> tuple[Any, Any]:
    """Log probabilities of what is hidden, row by row, and whether nothing is more probable."""
    T = hidden.shape[1]
    ids = packed.ids[rows, :T]
    wanted = torch.as_tensor(ids[hidden], device=model.device)
    given = (np.where(hidden, MASK, ids), packed.segments[rows, :T], packed.lengths[rows])
    with torch.no_grad():
        tokens = model.encoder(*(torch.as_tensor(one, device=model.device) for one in given))
        scores = model.head(tokens[torch.as_tensor(hidden, device=model.device)])
        log_p = scores.gather(1, wanted[:, None])[:, 0].double() - scores.double().logsumexp(1)
    return log_p.cpu().numpy(), (scores.argmax(1) == wanted).cpu().numpy()
