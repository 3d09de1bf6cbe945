"""Whitening of images: their principal components brought to one variance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.data.image_steps import ImagePreprocessing, Shape
from gnomon.distributions.images import size_of
from gnomon.errors import UserValueError

__all__ = ["MOST_NUMBERS", "Scatter", "Whitening"]

MOST_NUMBERS = 4096
"""Numbers of an image up to which a matrix over all pairs of them is made: 128 MB in float64."""

_ROUNDING = float(np.finfo(np.float64).eps)


class Scatter:
    """Mean and covariance of rows, from chunks of any size (Chan, Golub and LeVeque 1979).

    Examples
    --------
    >>> scatter = Scatter()
    >>> scatter.partial_fit(np.array([[0.0, 0.0]]), np.ones(1))
    >>> scatter.partial_fit(np.array([[2.0, 4.0]]), np.ones(1))
    >>> scatter.mean.tolist(), scatter.covariance().tolist()
    ([1.0, 2.0], [[2.0, 4.0], [4.0, 8.0]])
    """

    def __init__(self) -> None:
        self.weight, self.rows = 0.0, 0
        self.mean: Any = 0.0
        self._squares: Any = 0.0

    def partial_fit(self, rows: NDArray[np.float64], weight: NDArray[np.float64]) -> None:
        """Take rows (n, d) in with their weights."""
        total = float(weight.sum())
        if not total:
            return
        mean = weight @ rows / total
        centered = (rows - mean) * np.sqrt(weight)[:, None]
        gap, part = mean - self.mean, total / (self.weight + total)
        self._squares = self._squares + centered.T @ centered + np.outer(gap, gap) * (self.weight * part)
        self.mean = self.mean + gap * part
        self.weight, self.rows = self.weight + total, self.rows + int((weight > 0).sum())

    def covariance(self) -> NDArray[np.float64]:
        """Divided by n - 1, as scikit-learn's PCA does; with weights by their sum times (n - 1) / n.

        Raises
        ------
        UserValueError
            Fewer than two rows.
        """
        if self.rows < 2:
            raise UserValueError(f"whitening needs at least 2 images, got {self.rows}", "X", "give more")
        found: NDArray[np.float64] = self._squares / (self.weight * (1 - 1 / self.rows))
        return found


@dataclass(frozen=True)
class Whitening(ImagePreprocessing):
    r"""Whitening, or sphering: the principal components of the images brought to one variance.

    With the covariance :math:`ULU^\top` of the training images and their mean :math:`\mu` it is
    :math:`Z=(X-\mu)U(L+\varepsilon)^{-1/2}`, the components (pca), or turned back into an image (zca),
    :math:`Z=(X-\mu)U(L+\varepsilon)^{-1/2}U^\top`, the whitened images that are nearest to the images. A Gaussian
    fitted to Z has spherical contours. This is about all images together; `GCN` puts each image by itself on a sphere.

    Parameters
    ----------
    kind : {"zca", "pca"}, default "zca"
        Images, or rows of components, the largest variance first; of each component the largest entry is positive.
    eps : float in [0, inf), default 0.01
        Added to the variances, in squared units of the pixels: components of hardly any variance are noise, and stay
        small. With 0 the covariance of the result is the unit matrix.
    n_components : int in [1, inf), optional
        Only the first ones are kept; all where left out.

    Raises
    ------
    UserValueError
        Images of more than 4096 numbers; with eps = 0 components without variance, as fewer images than pixels and
        constant pixels leave them.

    Notes
    -----
    A fit takes n d^2 + d^3 multiplications for n images of d numbers, an image d^2 more. The covariance is divided by
    n - 1.

    References
    ----------
    Krizhevsky (2009), "Learning multiple layers of features from tiny images", appendix A.

    Examples
    --------
    >>> X = np.array([[[0.0, 0.0]], [[2.0, 0.0]], [[0.0, 4.0]], [[2.0, 4.0]]])
    >>> step = Whitening(eps=0.0).fit(X)
    >>> Z = step.transform(X)
    >>> bool(np.allclose(np.cov(Z.reshape(4, 2).T), np.eye(2))), step.inverse_transform(Z)[3].round(9).tolist()
    (True, [[2.0, 4.0]])
    """

    short: ClassVar[str] = "whitening"
    learns: ClassVar[bool] = True
    kind: Literal["zca", "pca"] = "zca"
    eps: Annotated[float, "[0, inf)"] = 0.01
    n_components: Annotated[int, "[1, inf)"] | None = None

    @property
    def gives_images(self) -> bool:
        """Components have no rows and columns."""
        return self.kind == "zca"

    def shape_after(self, shape: Shape) -> Shape:
        """That of the images, or one row of components.

        Raises
        ------
        UserValueError
            More numbers, or components, than there can be.
        """
        self._kept(shape)
        return shape if self.kind == "zca" else (1, 1, self._kept(shape))

    def sizes(self, shape: Shape) -> Mapping[str, tuple[int, ...]]:
        """The mean, the components, and what each is multiplied by."""
        d, kept = math.prod(shape), self._kept(shape)
        return {"mean": (d,), "components": (d, kept), "factors": (kept,)}

    def learner(self, shape: Shape) -> Any:
        """Mean and covariance of the numbers of an image."""
        self._kept(shape)
        return Scatter()

    def arrays(self, shape: Shape, learner: Any) -> dict[str, NDArray[Any]]:
        """The mean, the components, and what each is multiplied by."""
        kept = self._kept(shape)
        variances, components = np.linalg.eigh(learner.covariance())
        variances, components = variances[::-1][:kept].clip(0), components[:, ::-1][:, :kept]
        rank = int((variances > variances[0] * len(components) * _ROUNDING).sum())
        if not self.eps and rank < kept:
            remedy = f"give eps above 0, or n_components of at most {max(rank, 1)}"
            raise UserValueError(f"the images have variance in {rank} of {kept} components", "eps", remedy)
        largest = np.take_along_axis(components, np.abs(components).argmax(0)[None], 0)
        components = components * np.where(largest < 0, -1.0, 1.0)
        return {"mean": learner.mean, "components": components, "factors": (variances + self.eps) ** -0.5}

    def apply(self, x: Any, arrays: Mapping[str, Any]) -> Any:
        """The whitened images, or their components."""
        found = (x.reshape(len(x), -1) - arrays["mean"]) @ arrays["components"] * arrays["factors"]
        return found if self.kind == "pca" else (found @ arrays["components"].T).reshape(x.shape)

    def undo(self, x: Any, arrays: Mapping[str, Any]) -> Any:
        """The images; the nearest ones of the components that were kept."""
        rows = x.reshape(len(x), -1)
        found = rows if self.kind == "pca" else rows @ arrays["components"]
        found = found / arrays["factors"] @ arrays["components"].T + arrays["mean"]
        return found if self.kind == "pca" else found.reshape(x.shape)

    def _kept(self, shape: Shape) -> int:
        d = math.prod(shape)
        if d > MOST_NUMBERS:
            what = f"whitening takes images of at most {MOST_NUMBERS} numbers, got {size_of(shape)}"
            raise UserValueError(what, "X", "bring them to a smaller size, or take gcn or lcn")
        if self.n_components is not None and self.n_components > d:
            raise UserValueError(f"n_components must be at most {d}, got {self.n_components}", "n_components")
        return self.n_components or d
