"""Preprocessing of images in front of a network, and local contrast normalization as a layer within it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import nn

from gnomon.data.image_contrast import LCN, local_contrast
from gnomon.data.image_steps import ImagePreprocessing, ImageStep, Shape
from gnomon.recipes.recipe import check_recipe

__all__ = ["ImageStepLayer", "LCNLayer"]


def _all_digits(x: torch.Tensor) -> AbstractContextManager[Any]:
    """Products in the precision of x: a variance of half the digits would be noise. Tensors without data have none."""
    return nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)


class ImageStepLayer(nn.Module):
    """A step of the slot ``preprocess`` in front of a network, with what it has learned among the saved buffers.

    Parameters
    ----------
    recipe : ImagePreprocessing
    shape : (rows, columns, channels)
        Of the images.
    dtype : torch.dtype, default torch.float32

    Examples
    --------
    >>> from gnomon.data.image_steps import PixelMean
    >>> images = torch.tensor([[0.0, 4.0], [1.0, 0.0]]).reshape(2, 1, 2, 1)
    >>> layer = ImageStepLayer(PixelMean(), (1, 2, 1))
    >>> layer.take(PixelMean().fit(images.numpy()))
    >>> layer(images).flatten().tolist()
    [-0.5, 2.0, 0.5, -2.0]
    """

    def __init__(self, recipe: ImagePreprocessing, shape: Shape, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.recipe = recipe
        for name, size in recipe.sizes(shape).items():
            self.register_buffer(name, torch.zeros(size, dtype=dtype))

    def take(self, step: ImageStep) -> None:
        """Take over what a step has learned from training images."""
        found = step.state()
        with torch.no_grad():
            for name, buffer in self.named_buffers():
                buffer.copy_(torch.tensor(found[name]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (n, rows, columns, channels) behind the step."""
        with _all_digits(x):
            prepared: torch.Tensor = self.recipe.apply(x, dict(self.named_buffers()))
        return prepared

    def extra_repr(self) -> str:
        """Shown by repr."""
        return repr(self.recipe)


class LCNLayer(nn.Module):
    r"""Local contrast normalization of feature maps, :math:`(x-m_W(x))/\max(\varepsilon,\sqrt{\lambda+v_W(x)})`.

    `gnomon.data.image_contrast.LCN` as a layer without weights: a unit competes with those around it. Images of any
    size go through; no gradient goes to a deviation below `eps`.

    Parameters
    ----------
    window : odd int >= 1, or (rows, columns), default 9
    sigma : float > 0, optional
        Standard deviation of Gaussian weights in place of `window`.
    per_channel : bool, default True
        Whether each map has its own mean and deviation; else a window reaches through all maps.
    lam : float in [0, inf), default 1e-4
        Added to the variance.
    eps : float in [0, inf), default 1e-8
        The least number that is divided by.
    border : {"reflect", "inside"}, default "reflect"
        What a window sees beyond the border: the map mirrored there, or nothing.

    Raises
    ------
    UserValueError
        A window that is even; where it is called, a constant window with `lam` and `eps` at 0.

    References
    ----------
    Jarrett, Kavukcuoglu, Ranzato and LeCun (2009), "What is the best multi-stage architecture for object recognition?".

    Examples
    --------
    >>> layer = LCNLayer(3, lam=0.0)
    >>> x = torch.tensor([0.0, 0.0, 0.0, 0.1, 0.1, 0.1]).reshape(1, 1, 1, 6)
    >>> [round(number, 2) for number in layer(x).flatten().tolist()][2:4]
    [-0.71, 0.71]
    """

    def __init__(
        self,
        window: int | tuple[int, int] = 9,
        sigma: float | None = None,
        *,
        per_channel: bool = True,
        lam: float = 1e-4,
        eps: float = 1e-8,
        border: Literal["reflect", "inside"] = "reflect",
    ) -> None:
        super().__init__()
        sides = window if isinstance(window, tuple | list) else (window, window)
        self.recipe = check_recipe(LCN(tuple(sides), sigma, per_channel, lam, eps, border), "lcn")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps of the shape of x, (n, channels, rows, columns)."""
        wide = x if x.dtype == torch.float64 else x.float()
        means = self.recipe.arrays((x.shape[2], x.shape[3], x.shape[1]), None)
        rows, columns = (torch.tensor(means[name], dtype=wide.dtype, device=x.device) for name in ("rows", "columns"))
        joined, lam, eps = not self.recipe.per_channel, self.recipe.lam, self.recipe.eps
        with _all_digits(x):
            found: torch.Tensor = local_contrast(wide, rows, columns, joined=joined, lam=lam, eps=eps)
        return found.to(x.dtype)

    def extra_repr(self) -> str:
        """Shown by repr."""
        return repr(self.recipe)
