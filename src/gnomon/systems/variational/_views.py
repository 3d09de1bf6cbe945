"""Looking at codes: grids, lines between rows, which latent variables are used, and figures of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from gnomon.contracts import Array
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.nn.encoders import image_shape_of
from gnomon.recipes.parameters import how_many

__all__ = ["LatentViews", "latent_codes"]

ACTIVE = 0.01
"""Variance over rows of a code's mean from which on a latent variable is in use (Burda et al. 2016)."""


def latent_codes(
    n: int, n_latent: int, *, span: tuple[float, float] | None = None, axes: tuple[int, int] = (0, 1)
) -> NDArray[np.float64]:
    """A square grid of codes on two axes, the others 0; row i * n + j has coordinates i and j on them.

    Parameters
    ----------
    n : int in [1, inf)
        Codes along each axis.
    n_latent : int
    span : (low, high), optional
        Evenly spaced in it. Where left out, at the quantiles (i + 1/2) / n of the standard normal prior, so that every
        cell has the same mass.
    axes : (int, int), default (0, 1)

    Raises
    ------
    UserValueError
        An axis that is not there, or fewer than two latent variables.
    """
    n = how_many(n, "n")
    if len(set(axes)) != 2 or not all(0 <= axis < n_latent for axis in axes):
        raise UserValueError(
            f"axes must be two different ones of {n_latent} latent variables, got {axes}", "axes",
            "a grid needs two",
        )  # fmt: skip
    ticks = ndtri((np.arange(n) + 0.5) / n) if span is None else np.linspace(*span, n)
    codes = np.zeros((n, n, n_latent))
    codes[:, :, axes[0]], codes[:, :, axes[1]] = ticks[:, None], ticks[None, :]
    return codes.reshape(n * n, n_latent)


class LatentViews:
    """Views of a system with ``transform`` to `n_latent` codes and ``inverse_transform`` back."""

    n_latent: int
    n_codes: int
    _line: Any
    image_shape: tuple[int, ...] | None
    transform: Any
    inverse_transform: Any
    posterior: Any
    model_: Any

    @property
    def n_variables(self) -> int:
        """Latent variables of a row."""
        return self.n_latent

    def _divergences(self, codes: Any) -> Any:
        """KL(q(z_j | x) || p(z_j)) in nats, shape (n, n_variables)."""
        return self.model_.divergence(codes)

    def latent_grid(
        self, n: int = 10, *, span: tuple[float, float] | None = None, axes: tuple[int, int] = (0, 1)
    ) -> Array:
        """E[x | z] on a grid of codes, shape (n, n, n_features): the coordinate system that was learned.

        Parameters
        ----------
        n : int, default 10
            Codes along each axis.
        span : (low, high), optional
            Evenly spaced codes; where left out, at quantiles of the standard normal.
        axes : (int, int), default (0, 1)
            Latent variables that vary; the others are 0.
        """
        codes = latent_codes(n, self.n_codes, span=span, axes=axes)
        rows = self.inverse_transform(codes)
        return rows.reshape(n, n, -1)

    def interpolate(self, start: Any, end: Any, n: int = 10) -> Array:
        """E[x | z] on the line between the codes of two rows, shape (n, n_features)."""
        first, last = np.asarray(self.transform(np.stack([np.asarray(start), np.asarray(end)])))
        return self.inverse_transform(self._line(first, last, n))

    def active_latents(self, X: Any, threshold: float = ACTIVE) -> dict[str, Any]:
        """Which latent variables are in use: those whose mean given x varies over the rows.

        Parameters
        ----------
        X : array of shape (n, n_features)
            Two rows or more.
        threshold : float, default 0.01

        Returns
        -------
        dict
            ``count``: Score, how many are active; ``variance``: Var_x E_q[z_j | x]; ``divergence``: mean KL(q(z_j | x)
            || p(z_j)) in nats; ``active``: bool; each array with a number for each latent variable.
        """
        codes = self.posterior(X)
        means = codes.mean.detach().double().cpu().numpy()
        if len(means) < 2:
            raise UserValueError("X must have at least 2 rows, got 1", "X", "a variance needs two")
        variance = means.var(0).reshape(self.n_variables, -1).sum(1)  # of all columns of a latent variable
        active = variance > threshold
        count = Score(
            float(active.sum()), name="active_latents", unit=f"of {self.n_variables}", n=len(means),
            note=f"variance of the mean above {threshold:g}",
        )  # fmt: skip
        divergence = self._divergences(codes).double().mean(0).cpu().numpy()
        return {"count": count, "variance": variance, "divergence": divergence, "active": active}

    # --- figures ------------------------------------------------------------------------------------------------

    def manifold(self, n: int = 10, **options: Any) -> Any:
        """A figure of `latent_grid`, for rows that are images.

        Parameters
        ----------
        n : int, default 10
        **options
            Of `latent_grid`.

        Returns
        -------
        matplotlib.figure.Figure
        """
        rows = self.latent_grid(n, **options)
        height, width, channels = image_shape_of(self.image_shape, rows.shape[-1])
        tiles = rows[::-1].reshape(n, n, height, width, channels).transpose(0, 2, 1, 3, 4)
        picture = tiles.reshape(n * height, n * width, channels)
        figure, plot = _figure()
        plot.imshow(picture[..., 0] if channels == 1 else np.clip(picture, 0, 1), cmap="gray")
        plot.set_axis_off()
        return figure

    def latent_map(self, X: Any, y: Any = None, *, axes: tuple[int, int] = (0, 1)) -> Any:
        """A figure of the rows' codes on two axes, colored by labels where they are given.

        Returns
        -------
        matplotlib.figure.Figure
        """
        codes = np.asarray(self.transform(X))
        latent_codes(1, self.n_codes, axes=axes)  # refuses axes that are not there
        figure, plot = _figure()
        labels = np.zeros(len(codes)) if y is None else np.asarray(y)
        for label in np.unique(labels):
            chosen = codes[labels == label]
            plot.scatter(chosen[:, axes[0]], chosen[:, axes[1]], s=6, label=None if y is None else str(label))
        plot.set_xlabel(f"z{axes[0] + 1}")
        plot.set_ylabel(f"z{axes[1] + 1}")
        if y is not None:
            plot.legend(fontsize="small", ncols=2)
        return figure


def _figure() -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 6), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()
