"""Augmentations that mix pictures, and their labels with them: `Mixup` and `CutMix`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.data.augment.base import Augmentation, in_unit, noise_of
from gnomon.data.augment.hiding import within
from gnomon.data.augment.scene import Scene
from gnomon.data.class_vectors import one_hot
from gnomon.errors import UserValueError
from gnomon.numeric.given import affordable
from gnomon.numeric.noise import Noise

__all__ = ["CutMix", "Mixing", "Mixup"]


@dataclass(frozen=True)
class Mixing(Augmentation):
    """Base of the augmentations of pairs: a subclass gives `mix`.

    In a fit the other picture of each pair is any of the training set, changed as the first one is, and the loss is
    share l(o, y) + (1 - share) l(o, y'): that of the mixture of the two one-hot codes where the loss is linear in them,
    as the cross-entropy is.
    """

    mixes: ClassVar[bool] = True

    def mix(self, images: NDArray[Any], others: NDArray[Any], noise: Noise) -> tuple[NDArray[Any], NDArray[Any]]:
        """Mixed pictures, and the share (n,) of the first in each."""
        raise NotImplementedError

    def apply(self, scene: Scene, noise: Noise) -> Scene:
        """Refused: a picture alone has none to be mixed with."""
        what = "pictures must come with labels to be mixed"
        raise UserValueError(what, self.short, f"call {type(self).__name__}()(images, y)")

    def __call__(  # type: ignore[override]
        self, image: Any, y: Any = None, n_classes: int | None = None, *, rng: Any = None
    ) -> Any:
        """Pictures of a batch mixed with each other, and mixtures of their one-hot codes.

        Parameters
        ----------
        image : array of shape (n, rows, columns, channels)
            In [0, 1], or bytes.
        y : int array of shape (n,)
            Codes of classes, from 0.
        n_classes : int, optional
            The largest code and 1 where left out.
        rng : int, generator or Noise, optional
            What is drawn from; None draws entropy.

        Returns
        -------
        array of pictures, array of shape (n, n_classes)

        Raises
        ------
        UserValueError
            Pictures of other axes; other labels than a code for each.
        """
        x, codes = np.asarray(image), np.asarray(y)
        whole = codes.ndim == 1 and codes.dtype.kind in "iu" and (not codes.size or codes.min() >= 0)
        if x.ndim != 4 or not x.size or not whole or len(codes) != len(x):
            rule = "be pictures (n, rows, columns, channels) and a code from 0 for each"
            raise UserValueError.must("image and y", rule, (x.shape, y if y is None else codes.shape))
        top = int(codes.max()) + 1
        if n_classes is not None and not (hasattr(n_classes, "__index__") and n_classes >= top):
            raise UserValueError.must("n_classes", f"be at least {top}", n_classes)
        affordable(float(len(x) * (n_classes or top)), "y", "give codes from 0 without gaps")
        self.check(x.shape[1:])
        images, back = in_unit(x)
        noise = noise_of(rng)
        partner = noise.child("partner").integers(len(x), (len(x), 1))[:, 0]
        mixed, share = self.mix(images, images[partner], noise)
        first = one_hot(codes, n_classes or top, dtype=images.dtype, name="y")
        own = share[:, None].astype(images.dtype)
        return back(mixed), own * first + (1 - own) * first[partner]


def _shares(alpha: float, n: int, noise: Noise) -> NDArray[np.float64]:
    """Draws of Beta(alpha, alpha), (n, 1)."""
    from scipy.special import betaincinv

    u: NDArray[np.float64] = noise.uniform((n, 1), dtype=np.float64)
    return u if alpha == 1 else betaincinv(alpha, alpha, u)


@dataclass(frozen=True)
class Mixup(Mixing):
    r"""Means of two pictures, :math:`\lambda x + (1-\lambda) x'` with :math:`\lambda` of :math:`B(\alpha,\alpha)`.

    Parameters
    ----------
    alpha : float in (0, inf), default 0.2
        Small: most pictures are almost one of the two; 1: all shares are alike.

    Notes
    -----
    Source: Zhang, Cisse, Dauphin and Lopez-Paz (2018).

    Examples
    --------
    >>> X, Y = Mixup(alpha=1.0)(np.eye(3).reshape(3, 1, 3, 1), np.array([0, 1, 2]), rng=0)
    >>> bool(np.allclose(X.reshape(3, 3), Y)), Y.sum(1).tolist()
    (True, [1.0, 1.0, 1.0])
    """

    short: ClassVar[str] = "mixup"
    alpha: Annotated[float, "(0, inf)"] = 0.2

    def mix(self, images: NDArray[Any], others: NDArray[Any], noise: Noise) -> tuple[NDArray[Any], NDArray[Any]]:
        """Means."""
        share = _shares(self.alpha, len(images), noise)[:, 0].astype(images.dtype)
        own = share[:, None, None, None]
        return own * images + (1 - own) * others, share


@dataclass(frozen=True)
class CutMix(Mixing):
    r"""A rectangle of another picture put into a picture; labels count by area.

    Its sides are :math:`\sqrt{1-\lambda}` of those of the picture, :math:`\lambda` of :math:`B(\alpha,\alpha)`, its
    center uniform; what sticks out is cut off, and the share is that of the pixels that are left.

    Parameters
    ----------
    alpha : float in (0, inf), default 1
        Of the law of the areas; 1 is uniform.

    Notes
    -----
    Source: Yun et al. (2019).

    Examples
    --------
    >>> X, Y = CutMix()(np.stack([np.zeros((4, 4, 1)), np.ones((4, 4, 1))]), np.array([0, 1]), rng=1)
    >>> bool(np.allclose(X.mean((1, 2, 3)), Y[:, 1]))
    True
    """

    short: ClassVar[str] = "cutmix"
    alpha: Annotated[float, "(0, inf)"] = 1.0

    def windows(self, n: int, size: tuple[int, int], noise: Noise) -> NDArray[np.int64]:
        """Top, left, bottom and right of n rectangles, cut off at the border, (n, 4)."""
        sides = np.rint(np.sqrt(1 - _shares(self.alpha, n, noise)) * np.array(size)).astype(np.int64)
        center = np.floor(noise.uniform((n, 2), draw=1, dtype=np.float64) * np.array(size)).astype(np.int64)
        corner = center - sides // 2
        return np.clip(np.hstack([corner, corner + sides]), 0, np.tile(size, 2))

    def mix(self, images: NDArray[Any], others: NDArray[Any], noise: Noise) -> tuple[NDArray[Any], NDArray[Any]]:
        """Rectangles."""
        inside = within(images.shape[1:3], self.windows(len(images), images.shape[1:3], noise))
        share = 1 - inside.mean((1, 2), dtype=images.dtype)
        return np.where(inside[..., None], others, images), share
