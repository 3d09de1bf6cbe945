"""What chains drew, as it is kept: positions, what the steps told, and where it came from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gnomon.errors import UserValueError
from gnomon.inference.mcmc.diagnostics import Summary, summarize

__all__ = ["Draws"]


@dataclass(frozen=True)
class Draws:
    """What chains drew.

    Parameters
    ----------
    values : mapping of name to array (chains, draws, ...)
        The kept positions; ``x`` alone for kernels that move one array.
    info : mapping of name to array (chains, steps)
        What each step after burn-in told, thinned or not.
    facts : mapping
        ``seed``, ``burn_in`` and ``thin``; more where a run is read.
    """

    values: Mapping[str, NDArray[Any]]
    info: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any]

    @property
    def draws(self) -> NDArray[Any]:
        """The kept positions, (chains, draws, ...), where there is one array."""
        if len(self.values) > 1:
            raise UserValueError(f"there are several arrays: {', '.join(self.values)}", "draws", "use values[name]")
        return next(iter(self.values.values()))

    @property
    def shape(self) -> tuple[int, int]:
        """Chains, and kept draws of each."""
        chains, draws = next(iter(self.values.values())).shape[:2]
        return int(chains), int(draws)

    def summary(self) -> Summary:
        """Moments and diagnostics per coordinate."""
        return summarize(self.values)

    def table(self) -> str:
        """The summary as text, with how moves were accepted below it."""
        lines = [str(self.summary())]
        if "accept_prob" in self.info:
            lines.append(f"acceptance {self.info['accept_prob'].mean():.2f}")
        if "divergent" in self.info and (count := int(self.info["divergent"].sum())):
            lines.append(f"{count} divergent moves of {self.info['divergent'].size}: use a higher acceptance")
        return "\n".join(lines)

    def plot(self, coordinates: Sequence[str] | None = None) -> Any:
        """Trace, ranks and autocorrelation of some coordinates; see `gnomon.inference.mcmc.pictures.trace_figure`.

        Parameters
        ----------
        coordinates : sequence of str, optional
            Names as in the table; the eight of worst R-hat by default.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from gnomon.inference.mcmc.pictures import trace_figure

        return trace_figure(self.values, coordinates)

    def trace_picture(self, path: str | os.PathLike[str], coordinates: Sequence[str] | None = None) -> Path:
        """Write `plot` into a file: PNG, SVG or PDF by the ending; the file appears whole or not at all.

        Raises
        ------
        UserValueError
            Another ending, an unknown coordinate, fewer than 8 draws per chain.
        """
        from gnomon.inference.mcmc.pictures import form_of, write_figure

        form_of(path)
        return write_figure(self.plot(coordinates), path)
