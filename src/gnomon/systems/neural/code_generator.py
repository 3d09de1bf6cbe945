"""A generator of images from codes that are known: regression turned round."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import nn

from gnomon import contracts
from gnomon.contracts import Array, Group
from gnomon.data.examples import Examples
from gnomon.data.preprocessing import standardization
from gnomon.distributions.arrays import Floats
from gnomon.distributions.domains import Real
from gnomon.errors import UserTypeError, UserValueError
from gnomon.nn.encoders import DecoderNetwork, begin_network, build_network, image_shape_of
from gnomon.nn.initializers import Initializer
from gnomon.nn.module import Module
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.by_gradient import ByGradient
from gnomon.system.fields import HasDtype
from gnomon.system.prediction import Regressor
from gnomon.systems.neural._network import units

__all__ = ["CodeGenerator"]


class CodeGeneratorModel(Module):
    r"""x = out_shift + out_scale * g(e(z)); with a mask p * that + (1 - p) * background, p = sigmoid(m(e(z))).

    e(z) has the plain columns of z, (z - shift) / scale, then the sines of the angles, then their cosines, then a
    column of 0 and 1 for every level of each category.

    Parameters
    ----------
    network : nn.Module
        From e(z) to the numbers of an image, and behind them as many logits of the mask where there is one.
    n_features : int
        Columns of z.
    plain, angles, categories : sequences of int
        Which of them are what.
    levels : sequence of sequences of float
        Of each category.
    turn : float
        Size of a full turn.
    n_outputs : int
    background : float or None
        Value of what is outside the mask; None without a mask.
    dtype : torch.dtype
    """

    shift: torch.Tensor
    scale: torch.Tensor
    out_shift: torch.Tensor
    out_scale: torch.Tensor

    def __init__(
        self, network: nn.Module, n_features: int, plain: Sequence[int], angles: Sequence[int],
        categories: Sequence[int], levels: Sequence[Sequence[float]], turn: float, n_outputs: int,
        background: float | None, dtype: torch.dtype,
    ) -> None:  # fmt: skip
        super().__init__()
        self.network, self.n_outputs, self.background = network, n_outputs, background
        self.plain, self.angles, self.turn = list(plain), list(angles), turn
        self.levels = [(k, torch.tensor(list(one), dtype=dtype)) for k, one in zip(categories, levels, strict=True)]
        self.register_buffer("shift", torch.zeros(n_features, dtype=dtype))
        self.register_buffer("scale", torch.ones(n_features, dtype=dtype))
        self.register_buffer("out_shift", torch.zeros(n_outputs, dtype=torch.float64))
        self.register_buffer("out_scale", torch.ones((), dtype=torch.float64))

    def encode(self, z: torch.Tensor) -> torch.Tensor:
        """e(z), one row for each row of codes."""
        turned = z[:, self.angles] * (2 * math.pi / self.turn)
        plain = ((z - self.shift) / self.scale)[:, self.plain]
        chosen = [(z[:, k, None] == levels.to(z.device)).to(z.dtype) for k, levels in self.levels]
        return torch.cat([plain, turned.sin(), turned.cos(), *chosen], 1)

    def parts(self, encoded: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Images in their own units, (n, n_outputs), float64, and the logits of their masks."""
        out = self.network(encoded)
        images = out[:, : self.n_outputs].double() * self.out_scale + self.out_shift
        return images, None if self.background is None else out[:, self.n_outputs :]

    def joined(self, images: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """What is expected of the whole image: the thing where the mask is on, the background where it is off."""
        if mask is None or self.background is None:
            return images
        inside = mask.double().sigmoid()
        return inside * images + (1 - inside) * self.background

    def render(self, encoded: torch.Tensor) -> torch.Tensor:
        """Images of codes that are encoded."""
        return self.joined(*self.parts(encoded))

    def predict(self, z: torch.Tensor) -> torch.Tensor:
        """Images of codes."""
        return self.render(self.encode(z))


class _ImageLoss(Objective):
    """Half the squared error in units of the images' spread; with a mask inside it, and the mask's cross-entropy.

    Parameters
    ----------
    mask : float
        Factor of the cross-entropy.
    """

    def __init__(self, mask: float) -> None:
        super().__init__()
        self.mask = mask

    def forward(
        self, model: CodeGeneratorModel, batch: Any, *, noise: contracts.Noise, phase: str, group: Group
    ) -> Loss:
        """The loss of a batch of codes ``X`` and images ``y``, means over the numbers of an image."""
        z, x, w = (
            torch.as_tensor(one, device=model.device) for one in (batch.data["X"], batch.data["y"], batch.weight)
        )
        x, w, total = x.reshape(len(x), -1).double(), w.double(), float(batch.weight.sum())
        images, mask = model.parts(model.encode(z))
        off = ((images - x) / model.out_scale).square() / 2
        terms: dict[str, Term] = {}
        if mask is not None:
            inside = torch.ne(x, float(model.background or 0.0)).double()
            off = off * inside
            crossed = nn.functional.binary_cross_entropy_with_logits(mask.double(), inside, reduction="none")
            terms["mask_cross_entropy"] = Term((crossed.mean(1) * w).sum(), total, self.mask)
        terms["scaled_squared"] = Term((off.mean(1) * w).sum(), total)
        with torch.no_grad():
            measured = (model.joined(images, mask) - x).square().mean(1)
        return Loss(terms | {"squared_error": Term(float((measured * w).sum()), total)}, watch="squared_error")


class CodeGenerator(Regressor, ByGradient, HasDtype):
    r"""Generator of images from codes that are known: what a renderer was told, and what it drew.

    The network g minimizes :math:`\sum_i \| g(e(z_i)) - x_i \|^2` over pairs of codes z and images x, so that it is a
    regression from few numbers to many. Where a code is an angle, e has its sine and cosine, since 359 degrees lie
    beside 1; where it is the number of a category, a column for each level, since 7 is not between 6 and 8. Codes that
    no training image had are drawn too: places between those that were seen, levels mixed by `interpolate`.

    With ``mask`` > 0 the network also draws which numbers of an image differ from the background; the squared error
    then counts inside the true mask alone, and :math:`\sum` is joined by ``mask`` times the mask's cross-entropy.

    Attributes
    ----------
    best_epoch_ : int
        The epoch whose weights are kept.
    history_ : dict of lists
        ``squared_error`` (mean over the numbers of an image), ``scaled_squared`` (half of it in units of the images'
        spread, inside the mask where there is one), ``mask_cross_entropy`` (nats per number), ``gradient_norm``, and
        with validation rows ``validation_squared_error`` and ``best_epoch``, by epoch.

    Notes
    -----
    Images are flat rows, channels last. A generator without hidden layers, ``DenseDecoder(hidden=())``, is the linear
    regression of images on e(z). Cost O(n weights) per epoch.

    Source: Dosovitskiy, Springenberg and Brox (2015), "Learning to generate chairs with convolutional neural networks".

    Examples
    --------
    A spot that goes round: the angle says where it is.

    >>> angle = np.arange(0.0, 360.0, 6.0)
    >>> rows, columns = np.mgrid[:8, :8]
    >>> middle = 3.5 + 2 * np.stack([np.sin(np.radians(angle)), np.cos(np.radians(angle))])[..., None, None]
    >>> X = np.exp(-((rows - middle[0]) ** 2 + (columns - middle[1]) ** 2) / 2).reshape(60, 64)
    >>> draws = CodeGenerator(angles=(0,), generator="dense", epochs=60, learning_rate=0.003, random_state=0)
    >>> found = draws.fit(angle[:, None], X).predict(angle[:, None] + 360)
    >>> found.shape, bool(np.abs(found - X).mean() < 0.03)
    ((60, 64), True)
    """

    name: ClassVar[str] = "code-generator"
    model_class: ClassVar[type] = CodeGeneratorModel
    domain = Real(largest=1e100)
    several: ClassVar[bool] = True
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"generator": DecoderNetwork, "initializer": Initializer}
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "turn": {"angles": (0,)}, "background": {"mask": 1.0}, "image_shape": {"generator": "conv"},
    }  # fmt: skip

    angles: Annotated[
        tuple[Annotated[int, "[0, inf)"], ...] | None,
        Doc("Columns of the codes, from 0, that are angles: the network sees their sine and cosine; None: none is."),
    ] = None
    turn: Annotated[float, "(0, inf)", Doc("A full turn of the angles; 180 of what looks alike upside down.")] = 360.0
    categories: Annotated[
        tuple[Annotated[int, "[0, inf)"], ...] | None,
        Doc("Columns that number categories: the network sees a column of 0 and 1 for each level; None: none does."),
    ] = None
    mask: Annotated[
        float,
        "[0, inf)",
        Doc("Factor of the cross-entropy of a mask that tells things from the background; 0: no mask is drawn."),
    ] = 0.0
    background: Annotated[float, "(-inf, inf)", Doc("Value of the numbers of an image where there is nothing.")] = 0.0
    generator: Annotated[
        str | Recipe | Callable[..., Any], Doc("Network from codes to images; see `gnomon.nn.encoders`.")
    ] = "auto"
    image_shape: Annotated[
        tuple[int, ...] | None,
        Doc("(rows, columns) or (rows, columns, channels) of the images, for convolutions; None: square."),
    ] = None
    initializer: Annotated[str | Recipe, Doc("First weights; see `gnomon.nn.initializers`.")] = "he-uniform"
    epochs: int = 50
    batch_size: int | None = 32
    learning_rate: float = 1e-3

    def check_parameters(self) -> None:
        super().check_parameters()
        for name in ("angles", "categories"):
            columns = getattr(self, name)
            if not isinstance(columns, tuple | list | None):
                raise UserTypeError.must(name, "be a tuple of columns, such as (2,), or None", columns)
            if any(how_many(k, name) < 0 for k in columns or ()):
                raise UserValueError.must(name, "be columns from 0", columns)
        both = sorted(set(self.angles or ()) & set(self.categories or ()))
        if both:
            what = f"column {both[0]} must not be an angle and a category"
            raise UserValueError(what, "categories", "leave it out of one of the two")

    # --- what a fit calls ---------------------------------------------------------------------------------------

    def arguments(self, examples: Examples) -> dict[str, Any]:
        found, columns = super().arguments(examples), examples.X.shape[1]
        for name in ("angles", "categories"):
            outside = [k for k in getattr(self, name) or () if k >= columns]
            if outside:
                raise UserValueError(f"{name} must be columns 0 to {columns - 1}, got {outside[0]}", name)
        return found | {"levels": [np.unique(examples.X[:, k]).tolist() for k in self._columns("categories")]}

    def make(
        self, n_features: int, dtype: str, n_outputs: int | None, levels: Sequence[Sequence[float]]
    ) -> CodeGeneratorModel:
        precision, outputs = getattr(torch, dtype), n_outputs or 1
        angles, categories = self._columns("angles"), self._columns("categories")
        plain = [k for k in range(n_features) if k not in {*angles, *categories}]
        width = len(plain) + 2 * len(angles) + sum(map(len, levels))
        shape = image_shape_of(self.image_shape, outputs) if self._draws_maps(outputs) else None
        background = self.background if self.mask else None
        numbers = outputs if background is None else 2 * outputs
        network = build_network(self.recipe("generator"), width, numbers, shape, precision)
        return CodeGeneratorModel(
            network, n_features, plain, angles, categories, levels, self.turn, outputs, background, precision
        )

    def _columns(self, name: str) -> list[int]:
        return sorted(set(getattr(self, name) or ()))

    def _draws_maps(self, outputs: int) -> bool:
        """Whether a shape is known, or must be."""
        square = math.isqrt(outputs) ** 2 == outputs
        return self.image_shape is not None or square or getattr(self.recipe("generator"), "short", "") == "conv"

    def initialize(self, model: CodeGeneratorModel, examples: Examples, noise: contracts.Noise) -> None:
        begin_network(model.network, self.recipe("initializer"), noise.child("generator"))
        assert examples.y is not None
        if model.plain:
            shift, scale = units(examples.X[:, model.plain], examples.weight)
            model.shift[model.plain] = torch.from_numpy(shift).to(model.shift)
            model.scale[model.plain] = torch.from_numpy(scale).to(model.scale)
        images, weight = examples.y.reshape(len(examples.y), -1), examples.weight
        center, _ = standardization(images, weight)
        spread = math.sqrt(float(np.average(((images - center) ** 2).mean(1), weights=weight)))
        model.out_shift.copy_(torch.from_numpy(center))
        model.out_scale.fill_(spread or 1.0)

    def make_objective(self) -> _ImageLoss:
        return _ImageLoss(self.mask)

    def min_batch_size(self) -> int:
        return 2 if getattr(self.recipe("generator"), "batch_norm", False) else 1

    # --- verbs --------------------------------------------------------------------------------------------------

    def predict_rows(self, rows: Floats) -> Floats:
        out: Floats = self.model_.ask("predict", self._known(rows))
        return out[:, 0] if self.arguments_["n_outputs"] is None else out

    def _known(self, rows: Floats) -> Floats:
        """Rows of codes whose categories were all in the fit."""
        for column, levels in self.model_.levels:
            strange = ~np.isin(rows[:, column], levels.numpy())
            if strange.any():
                row, known = int(strange.argmax()), ", ".join(f"{one:g}" for one in levels.tolist()[:6])
                what = f"column {column} must hold a category of the training rows, got {rows[row, column]:g}"
                raise UserValueError(what, f"row {row}", f"choose from {known}{', ...' if len(levels) > 6 else ''}")
        return rows

    @property
    def image_shape_(self) -> tuple[int, int, int] | None:
        """(rows, columns, channels) of what is drawn; None where it is no image."""
        outputs = self.arguments_["n_outputs"] or 1
        return image_shape_of(self.image_shape, outputs) if outputs > 1 and self._draws_maps(outputs) else None

    def interpolate(self, start: Any, end: Any, n: int = 10) -> Array:
        """n images on the way from one code to another, both ends among them.

        Numbers change evenly; angles by the shorter way round; of categories the columns of 0 and 1 do, so that the
        images between are of no category: one shape becomes another.

        Parameters
        ----------
        start, end : array of shape (n_features,)
        n : int >= 1, default 10

        Returns
        -------
        array of shape (n, t), or (n,) where y had one column
        """
        if np.shape(start) != np.shape(end):
            what = f"start and end must be codes of one shape, got {np.shape(start)} and {np.shape(end)}"
            raise UserValueError(what, "end")
        ends = self._known(self._rows(np.stack([np.asarray(start), np.asarray(end)])))
        share = np.linspace(0, 1, how_many(n))[:, None].astype(ends.dtype)
        model, turn = self.model_, self.turn
        codes = self.model_.ask("encode", ends)
        line = (1 - share) * codes[:1] + share * codes[1:]
        if model.angles:
            first, last = ends[:, model.angles]
            way = (last - first + turn / 2) % turn - turn / 2
            turned = (first + share * way) * (2 * math.pi / turn)
            begin = len(model.plain)
            line[:, begin : begin + 2 * len(model.angles)] = np.hstack([np.sin(turned), np.cos(turned)])
        out: Array = model.ask("render", line)
        return out[:, 0] if self.arguments_["n_outputs"] is None else out
