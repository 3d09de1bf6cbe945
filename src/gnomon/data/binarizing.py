"""Grey levels made 0 and 1 by a scheme that is written down with the result."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np

from gnomon.data.dataset import fingerprint
from gnomon.distributions.arrays import Floats
from gnomon.distributions.domains import UnitInterval
from gnomon.distributions.grey import DrawnAfresh, DrawnOnce, Thresholded, drawn, once
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise
from gnomon.runs.atomic import write_atomically

__all__ = ["Binarizer"]

Scheme = Literal["threshold", "fixed", "dynamic"]


class Binarizer:
    r"""Values in [0, 1] as 0 and 1: at the threshold 0.5, drawn once for the whole set, or drawn afresh each time.

    Drawn bits are :math:`v_i \sim \mathrm{Bernoulli}(g_i)`, each cell by itself. The three schemes give data of very
    different likelihoods; `space` names the one of a score, so that no two of them are compared.

    Parameters
    ----------
    scheme : {"threshold", "fixed", "dynamic"}, default "threshold"
    seed : int, default 0
        Of the drawn bits.

    Notes
    -----
    ``fixed`` is a function of the seed and each row's number, so that it need not be stored to be shared; `digest` says
    whether two sides hold the same bits. What systems do with grey rows is their field ``binarize``. Sources:
    Salakhutdinov and Murray (2008); Larochelle and Murray (2011); Goodfellow, Bengio and Courville (2016), section
    20.14.

    Examples
    --------
    >>> grey = np.array([[0.0, 0.4, 1.0], [0.9, 0.5, 0.1]])
    >>> Binarizer("threshold").transform(grey).tolist()
    [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    >>> fixed = Binarizer("fixed", seed=3)
    >>> fixed.digest(grey) == Binarizer("fixed", seed=3).digest(grey)
    True
    """

    def __init__(self, scheme: Scheme = "threshold", seed: int = 0) -> None:
        if scheme not in get_args(Scheme):
            raise UserValueError.must("scheme", "be threshold, fixed or dynamic", scheme)
        if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
            raise UserValueError.must("seed", "be a whole number of at least 0", seed)
        self.scheme, self.seed = scheme, int(seed)

    def transform(self, X: Any, *, rows: Any = None, draw: int = 0) -> Floats:
        """0 and 1 in the dtype of X.

        Parameters
        ----------
        X : array of shape (n, d)
            In [0, 1].
        rows : int array of shape (n,), optional
            Numbers of the rows in the whole set, of which drawn bits are a function; 0, 1 ... by default.
        draw : int in [0, inf), default 0
            Which presentation this is: ``dynamic`` draws other bits for each, the other schemes take no notice.

        Raises
        ------
        UserValueError
            Values outside [0, 1], another number of `rows`.
        """
        cells = UnitInterval().check(X)
        if rows is not None and np.shape(rows) != (len(cells),):
            raise UserValueError.must("rows", "be the number of each row", rows)
        if draw < 0:
            raise UserValueError.must("draw", "be at least 0", draw)
        if self.scheme == "threshold":
            return Thresholded().check(cells)
        if self.scheme == "fixed":
            return once(cells, rows, self.seed)
        numbers = np.arange(len(cells)) if rows is None else np.asarray(rows)
        return drawn(cells, Noise(self.seed, "binarize/dynamic").at(draw).rows(numbers))

    def space(self, n_columns: int) -> str:
        """Name of the data space of scores on the result."""
        domain = {"threshold": Thresholded, "fixed": DrawnOnce, "dynamic": DrawnAfresh}[self.scheme]()
        seed = f" with seed {self.seed}" if self.scheme == "fixed" and self.seed else ""
        return domain.space(n_columns) + seed

    def digest(self, X: Any, *, rows: Any = None) -> str:
        """BLAKE2b of the result, hexadecimal; of ``dynamic`` that of the first presentation."""
        return fingerprint(self.transform(X, rows=rows))

    def save(self, path: str | os.PathLike[str], X: Any = None) -> Path:
        """Write scheme and seed, and the digest of the result for X where it is given, as a JSON file; its path."""
        facts: dict[str, Any] = {"scheme": self.scheme, "seed": self.seed}
        if X is not None:
            facts["digest"] = self.digest(X)
        file = Path(path)
        write_atomically(file, json.dumps(facts, indent=2).encode())
        return file

    @classmethod
    def load(cls, path: str | os.PathLike[str], X: Any = None) -> Self:
        """What `save` wrote.

        Parameters
        ----------
        path : path
        X : array, optional
            The grey rows that it was saved with.

        Raises
        ------
        UserValueError
            No such file, one of another kind; rows whose result has another digest.
        """
        try:
            facts = json.loads(Path(path).read_bytes())
            found = cls(facts["scheme"], facts["seed"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = " ".join(str(error).split())[:80]
            raise UserValueError(f"{path} holds no binarizer: {reason}", "path", "save one there") from None
        if X is not None and found.digest(X) != facts.get("digest"):
            raise UserValueError("the rows are not those that the binarizer was saved with", "X", "give these")
        return found
