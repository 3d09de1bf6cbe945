"""GoogLeNet: nine Inception blocks in three groups, as published, normalized, in factors, or residual."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import nn

from gnomon.data.examples import Examples
from gnomon.nn.activations import Activation, ReLU
from gnomon.nn.inception import Form, Widths, channels_out, inception, residual_inception
from gnomon.nn.norms import BatchNormalization
from gnomon.nn.pooling import MaxPooling
from gnomon.nn.residual import shortcut_for
from gnomon.nn.stages import conv_unit
from gnomon.recipes.fields import Doc
from gnomon.systems.vision._network import ConvNet, ConvNetModel, Stem

__all__ = ["GoogLeNet", "GoogLeNetModel"]

Variant = Literal["published", "torchvision"]
GROUPS = (
    (Widths(64, (96, 128), (16, 32), 32), Widths(128, (128, 192), (32, 96), 64)),
    (
        Widths(192, (96, 208), (16, 48), 64), Widths(160, (112, 224), (24, 64), 64),
        Widths(128, (128, 256), (24, 64), 64), Widths(112, (144, 288), (32, 64), 64),
        Widths(256, (160, 320), (32, 128), 128),
    ),
    (Widths(256, (160, 320), (32, 128), 128), Widths(384, (192, 384), (48, 128), 128)),
)  # fmt: skip
"""Channels of the blocks, by group; a pooling of 3 x 3 by 2 stands between the groups."""
FORMS: tuple[Form, ...] = ("A", "B", "C")
"""Forms of the three groups where windows are taken in factors."""


def narrowed(widths: Widths, width: float) -> Widths:
    """Channels times a factor, at least 1.

    Examples
    --------
    >>> narrowed(Widths(64, (96, 128), (16, 32), 32), 0.25)
    Widths(one=16, three=(24, 32), five=(4, 8), pooled=8)
    """
    one, (a, b), (c, d), pooled = widths
    return Widths(_times(one, width), (_times(a, width), _times(b, width)), (_times(c, width), _times(d, width)),
                  _times(pooled, width))  # fmt: skip


def _times(channels: int, width: float) -> int:
    return max(1, round(channels * width))


class GoogLeNetModel(ConvNetModel):
    """A stem, nine Inception blocks, the mean over places, a dense layer.

    Parameters
    ----------
    shape : (rows, columns, channels)
    n_classes : int
    width : float > 0, default 1
        Factor of all numbers of channels.
    stem : {"small", "large"}, default "large"
        First window 7 x 7 with stride 2 and a pooling by 2; or 3 x 3 with stride 1.
    batch_norm : bool, default False
        Inception-BN.
    variant : {"published", "torchvision"}, default "published"
        torchvision's network has windows 3 x 3 in place of 5 x 5, an epsilon of 0.001 in its norms, and poolings that
        begin at the first pixel and reach over the last one, the last of them 2 x 2.
    factors : bool, default False
        Windows in factors: form A in the first group, B in the second, C in the third.
    residual_scale : float >= 0, default 0
        Above 0 the blocks are residual, their branches times this; the first block of a group gets its input projected.
    activation : Activation, default ReLU()
    dtype : torch.dtype, default torch.float32

    Examples
    --------
    >>> GoogLeNetModel((96, 96, 1), 10).n_parameters
    5977530
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_classes: int,
        *,
        width: float = 1.0,
        stem: Stem = "large",
        batch_norm: bool = False,
        variant: Variant = "published",
        factors: bool = False,
        residual_scale: float = 0.0,
        activation: Activation | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(shape, dtype)
        self.variant = variant
        unit, theirs = activation or ReLU(), variant == "torchvision"
        norm = BatchNormalization(epsilon=1e-3) if batch_norm and theirs else batch_norm
        settings: dict[str, Any] = {"unit": unit, "norm": norm, "dtype": dtype}
        first, inputs = _times(64, width), _times(192, width)
        kernel, stride = (7, 2) if stem == "large" else (3, 1)
        self.features = nn.Sequential(conv_unit(shape[2], first, kernel, stride=stride, **settings))
        if stem == "large":
            self.features.append(_pooling(theirs))
        self.features.extend(
            [conv_unit(first, first, 1, **settings), conv_unit(first, inputs, 3, **settings), _pooling(theirs)]
        )
        settings["wide"] = 3 if theirs else 5
        for number, (group, form) in enumerate(zip(GROUPS, FORMS if factors else ("whole",) * 3, strict=True)):
            if number:
                self.features.append(_pooling(theirs, 2 if theirs and number == 2 else 3))
            for widths in group:
                widths = narrowed(widths, width)
                outputs = channels_out(widths, form)
                if residual_scale and outputs != inputs:
                    projection = shortcut_for(inputs, outputs, norm=batch_norm, bias=not batch_norm, dtype=dtype)
                    assert projection is not None
                    self.features.append(projection)
                    inputs = outputs
                block = (
                    residual_inception(inputs, widths, form=form, scale=residual_scale, **settings)
                    if residual_scale
                    else inception(inputs, widths, form=form, **settings)
                )
                self.features.append(block)
                inputs = outputs
        self.build_head(n_classes, unit, mean=True)


def _pooling(theirs: bool, size: int = 3) -> nn.Module:
    """Maxima of windows by 2, centered, or from the first pixel on as torchvision takes them."""
    return nn.MaxPool2d(size, 2, ceil_mode=True) if theirs else MaxPooling().build(size, 2, 1)


class GoogLeNet(ConvNet):
    r"""GoogLeNet: Inception blocks, which look through windows of several sizes side by side.

    A block puts the channels of its branches one behind the other, :math:`Y=[f_1(X),f_3(X),f_5(X),g(X)]`, from
    windows of 1, 3 and 5 and a pooling; the loss is the mean cross-entropy :math:`\log\sum_k e^{o_k}-o_y`.

    The default is a small form for images of 8 x 8 pixels and more: a quarter of the channels, a stem of stride 1,
    normalized over the batch (Inception-BN). For photographs of 224 x 224 pixels ``stem="large", width=1`` is
    GoogLeNet without its auxiliary heads where ``batch_norm=False``; ``factors=True`` takes the windows in factors
    (Inception-V3's blocks), ``residual_scale=0.2`` adds residual connections (Inception-ResNet).

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    history_ : dict of lists
        ``cross_entropy`` (nats per image), ``gradient_norm``, ``learning_rate`` by epoch.

    Notes
    -----
    Images are arrays (n, rows, columns) or (n, rows, columns, channels) of numbers in [0, 1], or bytes, which are
    divided by 255. Sources: Szegedy et al. (2015), table 1; Ioffe and Szegedy (2015); Szegedy et al. (2016, 2017).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> net = GoogLeNet(width=0.125, image_shape=(8, 8), epochs=4, batch_size=16, learning_rate=0.01, random_state=0)
    >>> net.fit(X[:300] / 16, y[:300]).score(X[300:] / 16, y[300:]) > 0.6
    True
    """

    name: ClassVar[str] = "googlenet"
    model_class: ClassVar[type] = GoogLeNetModel

    width: Annotated[float, "(0, inf)", Doc("Factor of the published numbers of channels.")] = 0.25
    stem: Annotated[
        Literal["small", "large"],
        Doc("First layers: a window 3x3, or 7x7 with stride 2 and a pooling for photographs."),
    ] = "small"
    batch_norm: Annotated[bool, Doc("Whether convolutions are normalized over the batch before their units.")] = True
    variant: Annotated[
        Literal["published", "torchvision"],
        Doc(
            "``torchvision`` has windows 3x3 in place of 5x5, another epsilon of norms and poolings that begin at the "
            "first pixel: the network that torchvision's weights are of."
        ),
    ] = "published"
    factors: Annotated[bool, Doc("Whether wide windows are taken as several narrow ones (Inception-V3's blocks).")] = (
        False
    )
    residual_scale: Annotated[
        float, "[0, inf)", Doc("Above 0 blocks are added to their input times this, 0.1 to 0.3; 0 leaves inputs out.")
    ] = 0.0

    @property
    def sums_channels(self) -> bool:  # type: ignore[override]
        """Of residual blocks alone."""
        return self.residual_scale > 0

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return super().arguments(examples) | {
            "width": float(self.width), "stem": self.stem, "batch_norm": self.batch_norm, "variant": self.variant,
            "factors": self.factors, "residual_scale": float(self.residual_scale),
        }  # fmt: skip

    def min_batch_size(self) -> int:
        return 2 if self.batch_norm else 1
