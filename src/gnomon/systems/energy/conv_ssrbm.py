"""The convolutional spike-and-slab restricted Boltzmann machine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, State
from gnomon.distributions.domains import Real
from gnomon.recipes.fields import Doc
from gnomon.systems.energy._convolutional import HasWindows, Shared
from gnomon.systems.energy._normalizable import ENUMERATED, Normalizability, lowest, searched
from gnomon.systems.energy._spike_and_slab import TAKEN, Safeguard, SpikeAndSlabModel, SpikeAndSlabSystem
from gnomon.systems.energy.convolution import ConvolutionalLink, Mode

__all__ = ["ConvSSRBM", "ConvSSRBMModel"]

Floats = NDArray[np.float64]
ROUNDS, ENOUGH = 4, 1.02
"""Rounds of cutting frequencies and windows at most, and by what factor too much ends them."""
EXACT_PIXELS = 256
"""Pixels up to which what kernels take of Lambda is found itself after each update, and not a bound."""


class ConvSSRBMModel(SpikeAndSlabModel):
    r"""The machine whose spikes see windows of an image x, by kernels that are the same at each place.

    With maps k of spikes :math:`h^k` and slabs :math:`s^k`, the correlation :math:`\star` and the transposed
    convolution :math:`*`,

    .. math:: E = \tfrac12 \langle x^2, \Lambda + \sum_k h^k * \Phi^k \rangle - \langle a, x \rangle
        - \sum_k \langle x \star W^k, s^k h^k \rangle
        + \sum_k \langle 1, \tfrac12 \alpha_k (s^k)^2 - \alpha_k \mu_k s^k h^k + (\alpha_k \mu_k^2 - b_k) h^k \rangle :

    the dense machine whose matrices W and :math:`\Phi` are the Toeplitz matrices of the kernels.

    Parameters
    ----------
    shape : (rows, columns, channels)
        Of the image.
    maps : int
        Kernels: spikes at each place.
    kernel : (rows, columns)
        Of a kernel, cut to the image.
    mode : {"valid", "same"}
        Windows inside the image, or a place for each pixel with zeros around the image.
    slabs : int
        Amplitudes of each spike.
    dtype : torch.dtype
    visible : {"pixel", "channel"}
        Whether each pixel has a bias a and a precision Lambda, or all pixels of a channel share them.
    safeguard, spread, floor
        See `SpikeAndSlabModel`.

    Notes
    -----
    ``weight`` is (maps slabs, channels, rows, columns) and ``phi``, the log of Phi, (maps, channels, rows, columns).

    Examples
    --------
    >>> model = ConvSSRBMModel((8, 8, 1), 4, (3, 3))
    >>> model.sizes, model.n_parameters
    ({'visible': 64, 'hidden': 512}, 212)
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        maps: int,
        kernel: tuple[int, int],
        mode: Mode = "same",
        slabs: int = 1,
        dtype: torch.dtype = torch.float32,
        *,
        visible: Literal["pixel", "channel"] = "pixel",
        safeguard: Safeguard = "weights",
        spread: ArrayLike | None = None,
        floor: float = 0.0,
    ) -> None:
        kernel = min(kernel[0], shape[0]), min(kernel[1], shape[1])
        ends = "visible", "hidden"
        parts = (
            ConvolutionalLink(*ends, shape, maps * slabs, kernel, mode=mode),
            ConvolutionalLink(*ends, shape, maps, kernel, mode=mode),
        )
        super().__init__(
            math.prod(shape), math.prod(parts[0].places) * maps, slabs, dtype,
            safeguard=safeguard, spread=spread, floor=floor, parts=parts,
        )  # fmt: skip
        self.shape, self.places, self.maps, self.kernel = shape, parts[0].places, maps, kernel
        self._shared = Shared(self, {"hidden": maps} | ({"visible": shape[2]} if visible == "channel" else {}))

    # --- kernels ------------------------------------------------------------------------------------------------------

    def _mapped(self, own: Mapping[str, Any]) -> dict[str, Any]:
        return self._shared.spread(super()._mapped(own))

    def _pulled(self, found: dict[str, Array], state: State) -> dict[str, Array]:
        return self._shared.summed(super()._pulled(found, state))

    def _seen(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(self.maps, -1, math.prod(self.phi.shape[1:])).permute(2, 0, 1)

    def _seen_spread(self) -> Floats:
        return np.repeat(self.spread.reshape(-1, self.shape[2]).mean(0), math.prod(self.kernel))

    def _reach(self) -> int:
        return self.maps * math.prod(self.kernel)

    def _visible(self, x: Floats) -> Floats:
        return x.reshape(-1, len(self.visible_bias)).mean(0)

    # --- what keeps it normalizable -----------------------------------------------------------------------------------

    def _least(self) -> torch.Tensor:
        """Root of the least Lambda of each channel."""
        least = self.visible_log_precision.double().reshape(-1, self.shape[2]).amin(0)
        return (0.5 * least).exp()[:, None, None]

    def _spectra(self, kernels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Transforms of kernels (frequencies, channels, kernels), eigenvalues and vectors of their squares.

        On a torus on which no window of the image meets itself: the correlations with an image are a part of those on
        the torus, so that no eigenvalue of what kernels take is above the largest of these.
        """
        found = torch.fft.rfft2(kernels, s=self._torus).flatten(2).permute(2, 1, 0)
        if self.shape[2] == 1:
            return found, (found.abs() ** 2).sum(2), torch.ones_like(found[:, :, :1])
        values, vectors = torch.linalg.eigh(found @ found.mH)
        return found, values, vectors

    @property
    def _torus(self) -> tuple[int, int]:
        rows, columns, _ = self.shape
        return rows + self.kernel[0] - 1, columns + self.kernel[1] - 1

    def _part(self, kernels: torch.Tensor) -> float:
        """The largest part of Lambda that these kernels take: of small images itself, else the torus's bound."""
        d = self.units["visible"].n
        if d > EXACT_PIXELS:
            return float(self._spectra(kernels / self._least())[1].detach().max())
        log_lambda = self._shared.spread(dict(self.named_parameters()))["visible_log_precision"].double()
        each = self.coupling.parts["weight"].field("hidden", torch.eye(d).to(log_lambda), {"weight": kernels})
        each = (-0.5 * log_lambda).exp()[:, None] * each
        return float(torch.linalg.eigvalsh(each @ each.T)[-1].detach())

    def _most_taken(self) -> float:
        return self._part(self._narrow())

    def _narrow(self) -> torch.Tensor:
        """Kernels W alpha^-1/2."""
        return self.weight.double() * (-0.5 * self.hidden_log_precision.double()).exp()[:, None, None, None]

    def _shorten(self) -> None:
        """Kernels shortened in the frequencies in which they take too much, then as a whole by what that leaves."""
        narrow = self._narrow()
        most = self._part(narrow)
        if most <= TAKEN:
            return
        for _ in range(ROUNDS):
            narrow = self._without_excess(narrow, TAKEN / most)
            most = self._part(narrow)
            if most <= ENOUGH * TAKEN:
                break
        alpha = self.hidden_log_precision.double().exp()[:, None, None, None]
        self.weight.copy_(narrow * (alpha * min(1.0, TAKEN / most)).sqrt())

    def _without_excess(self, narrow: torch.Tensor, part: float) -> torch.Tensor:
        """Kernels that take no more than this part of their most in any frequency, cut to their windows again."""
        least = self._least()
        found, values, vectors = self._spectra(narrow / least)
        limit = float(part * values.max())
        less = (limit / values.clamp(min=limit)).sqrt()[:, :, None] * (vectors.mH @ found)
        planes = (vectors @ less).permute(2, 1, 0).reshape(*narrow.shape[:2], self._torus[0], -1)
        rows, columns = self.kernel
        return torch.fft.irfft2(planes, s=self._torus)[:, :, :rows, :columns] * least

    def check_normalizable(self) -> Normalizability:
        """The smallest eigenvalue among the precisions of p(x | h): of all states of up to 12 spikes, else bounds."""
        if self.units["hidden"].n <= ENUMERATED:
            return super().check_normalizable()
        short = self._shortfall().detach().cpu().numpy()
        return searched(_Windows(self), _starts(short, math.prod(self.places)), self._lowest())

    def _lowest(self) -> float:
        """No eigenvalue of a precision is below it: slabs that take r > 1 times Phi take 1 - 1 / r from Lambda."""
        with torch.no_grad():
            excess = (1 - 1 / self._shortfall()).clamp(min=0.0).sqrt().repeat_interleave(self.slabs)
            taken = self._part(self._narrow() * excess[:, None, None, None])
        precision = np.exp(self._in_columns()["visible_log_precision"])
        return float((1 - taken) * (precision.min() if taken < 1 else precision.max()))


class _Windows:
    """Precisions of p(x | h), W as its Toeplitz matrix and Phi by convolutions."""

    def __init__(self, model: ConvSSRBMModel) -> None:
        own = model._in_columns()
        self._link, self._phi, self._slabs = model.coupling.parts["phi"], {"weight": own["phi"]}, model.slabs
        self._precision = np.exp(own["visible_log_precision"])
        W = model.coupling.parts["weight"].matrix({"weight": own["weight"]})
        self._narrow = W * np.exp(-0.5 * own["hidden_log_precision"])

    def smallest(self, h: Floats) -> tuple[float, Floats]:
        """The smallest eigenvalue, and its eigenvector."""
        on = self._narrow * np.repeat(h, self._slabs)
        return lowest(np.diag(self._precision + self._link.field("visible", h[None], self._phi)[0]) - on @ on.T)

    def changes(self, vector: Floats) -> Floats:
        """v^T M_i v: what Phi_i gives less what the slabs take."""
        given = self._link.field("hidden", (vector * vector)[None], self._phi)[0]
        changes: Floats = given - ((vector @ self._narrow) ** 2).reshape(-1, self._slabs).sum(1)
        return changes


def _starts(short: Floats, places: int) -> Iterator[Floats]:
    """No spike on, those of all maps that can lower an eigenvalue, and those of the map that falls shortest."""
    yield np.zeros(len(short) * places)
    yield np.tile((short > 1).astype(np.float64), places)
    yield np.tile((short == short.max()).astype(np.float64), places)


class ConvSSRBM(HasWindows, SpikeAndSlabSystem):
    r"""Convolutional spike-and-slab restricted Boltzmann machine: how pixels vary together, anywhere in an image.

    The spike-and-slab machine with kernels that are the same at every place: with K maps of spikes h and real slabs s,
    and the correlation :math:`\star` and transposed convolution :math:`*`, an image x has

    .. math:: \operatorname{odds}(h^k = 1 | x) = \exp(b_k - \tfrac12 x^2 \star \Phi^k
        + \sum_j \mu_{kj} (x \star W^{kj}) + (x \star W^{kj})^2 / 2 \alpha_{kj} - \alpha_{kj} \mu_{kj}^2 / 2)

    and :math:`x | s, h` is normal with precisions :math:`\Lambda + \sum_k h^k * \Phi^k`, independent pixel by pixel,
    and the mean :math:`(a + \sum_{kj} (s^{kj} h^k) * W^{kj})` divided by them. It is the dense machine whose matrices
    are the Toeplitz matrices of the kernels: far fewer parameters, the same textures wherever they appear. Rows are
    flat images or sequences (``image_shape=(1, n)``), channels side by side.

    Attributes
    ----------
    weights_ : array of shape (n_maps * slab_dim, channels, rows, columns)
        Kernels W: by how much a slab of 1 pulls each pixel, in the model's units.
    spike_precision_ : array of shape (n_maps, channels, rows, columns)
        Kernels Phi: what a spike adds to the precision of each pixel.
    maps_shape_ : (rows, columns, n_maps)
        Of a row of codes.
    history_ : dict of lists
        By epoch: ``energy_gap`` of the last batch (data minus chains, nats; not the likelihood) and ``gradient_norm``.

    Notes
    -----
    In mode ``valid`` pixels at the border have fewer couplings than those inside; in mode ``same`` spikes at the border
    see zeros in place of pixels, and are driven weakly. log Z grows with the image: likelihoods of images of different
    sizes are not comparable. `standardize` brings each pixel to mean 0 and deviation 1 over the training images, which
    leaves densities comparable. The contrast within an image is left as it is: dividing each image by its own is not
    invertible, so a density of what is left is none of the images; it is done to the rows beforehand, if at all.

    The safeguard ``phi``, the default here, scales the kernels Phi up until no spike lowers a precision: of pixels that
    vary together that leaves much more room than ``weights`` (docs/decisions/0046). The latter bounds what all spikes
    together take of Lambda, beyond 256 pixels by the kernels' transforms on a torus on which no window of the image
    meets itself: kernels are shortened in the frequencies in which they take too much. `check_normalizable`
    visits all states of up to 12 spikes, else it costs O(d^3) for d pixels. Cost per update O(batch k places n_maps
    slab_dim window).

    References
    ----------
    Courville, Desjardins, Bergstra and Bengio (2014), "The spike-and-slab RBM and extensions to discrete and sparse
    data distributions"; Sedghi, Gupta and Long (2019), "The singular values of convolutional layers"; Goodfellow,
    Bengio and Courville (2016), section 20.5.2.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> X = np.cumsum(random.normal(size=(100, 12)), axis=1)
    >>> X = X - X.mean(1, keepdims=True)
    >>> machine = ConvSSRBM(n_maps=4, kernel=(1, 3), image_shape=(1, 12), epochs=5, random_state=0).fit(X)
    >>> machine.check_normalizable().normalizable, machine.transform(X).shape, machine.maps_shape_
    (True, (100, 48), (1, 12, 4))
    """

    name: ClassVar[str] = "conv-ssrbm"
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")
    model_class: ClassVar[type] = ConvSSRBMModel
    domain = Real(largest=1e100)
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {**HasWindows.acts_with, **SpikeAndSlabSystem.acts_with}

    n_maps: Annotated[int, "[1, inf)", Doc("Maps of spikes: kernels.")] = 16
    kernel: tuple[Annotated[int, "[1, inf)"], Annotated[int, "[1, inf)"]] = (5, 5)
    visible_bias: Annotated[
        Literal["channel", "pixel"],
        Doc("Whether all pixels of a channel share a bias and a precision, or each has its own."),
    ] = "pixel"
    safeguard: Literal["weights", "phi", "none"] = "phi"
    epochs: int = 15
    learning_rate: float = 0.005

    def make(self, n_features: int, dtype: str, mean: list[float], deviation: list[float]) -> ConvSSRBMModel:
        return ConvSSRBMModel(
            self._shape_of_row(n_features), self.n_maps, self.kernel, self.mode, self.slab_dim, getattr(torch, dtype),
            visible=self.visible_bias, safeguard=self.safeguard,
            spread=np.ones(n_features) if self._scales() else np.array(deviation), floor=self.floor,
        )  # fmt: skip

    @property
    def maps_shape_(self) -> tuple[int, int, int]:
        """Rows, columns and maps of a row of codes, but for those that are slabs."""
        return (*self.model_.places, self.model_.maps)
