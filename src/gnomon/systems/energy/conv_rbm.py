"""The convolutional restricted Boltzmann machine."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Binary, UnitInterval
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.energy._convolutional import ConvolutionalModel, HasMaps, Maps
from gnomon.systems.energy._machine import DensityMachine

__all__ = ["ConvRBM"]


class ConvRBM(HasMaps, DensityMachine):
    r"""Convolutional restricted Boltzmann machine: small kernels that are the same at every place of an image.

    :math:`E(v, h) = -b^T v - \sum_k (c_k \sum_{ij} h^k_{ij} + \langle v \star W^k, h^k \rangle)` over images v of 0
    and 1 and K maps of hidden units: :math:`P(h^k = 1 | v) = \sigma(c_k + v \star W^k)` with the correlation
    :math:`\star`, and :math:`P(v = 1 | h) = \sigma(b + \sum_k h^k * W^k)` with the transposed convolution. It is the
    restricted machine whose couplings are the Toeplitz matrix of the kernels: far fewer parameters, the same features
    wherever they appear. Rows are flat images or sequences (``image_shape=(1, n)``), channels side by side.

    With ``pooling="probabilistic"`` at most one hidden unit of each region is on, and a pooling unit is on where one
    is: ``P(h_i = 1) = e^{I_i} / (1 + sum_j e^{I_j})`` in the region. With ``"deterministic"`` any may be on, and the
    pooling unit is their maximum; without a layer above this is the machine without pooling, whose codes are pooled.

    Attributes
    ----------
    weights_ : array of shape (n_maps, channels, rows, columns)
        Kernels.
    visible_bias_ : array of shape (n_features,) or (channels,)
    hidden_bias_ : array of shape (n_maps,)
    maps_shape_ : (rows, columns, n_maps)
        Of a row of codes.
    history_ : dict of lists
        By epoch: ``energy_gap`` of the last batch (data minus chains, nats; not the likelihood) or
        ``negative_log_likelihood`` of the epoch's batches, and ``gradient_norm``.

    Notes
    -----
    In mode ``valid`` pixels at the border have fewer couplings than those inside, and are modeled worse; in mode
    ``same`` hidden units at the border see zeros in place of pixels, and are driven weakly. log Z grows with the image:
    likelihoods of images of different sizes are not comparable. Biases of pixels start at the log-odds of their means.
    The fit takes values in [0, 1], read as probabilities of a 1, unless the objective needs 0 and 1. Cost per update
    O(batch k places n_maps window).

    References
    ----------
    Desjardins and Bengio (2008), "Empirical evaluation of convolutional RBMs for vision"; Lee, Grosse, Ranganath and
    Ng (2009), "Convolutional deep belief networks"; Goodfellow, Bengio and Courville (2016), section 20.6.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.zeros((60, 16))
    >>> for row, start in enumerate(np.arange(60) % 13):
    ...     X[row, start : start + 4] = 1
    >>> machine = ConvRBM(n_maps=4, kernel=(1, 4), image_shape=(1, 16), epochs=20, random_state=0).fit(X)
    >>> machine.transform(X).shape, machine.maps_shape_
    ((60, 64), (1, 16, 4))
    """

    name: ClassVar[str] = "conv-rbm"
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")
    model_class: ClassVar[type] = ConvolutionalModel
    domain = UnitInterval()
    outcomes = Binary()

    n_maps: Annotated[int, "[1, inf)", Doc("Maps of hidden units: kernels.")] = 16
    pooling: Annotated[
        Literal["none", "probabilistic", "deterministic"],
        Doc(
            "What the hidden units of a region share: nothing; ``probabilistic``: one of them is on at most; "
            "``deterministic``: codes are their maxima."
        ),
    ] = "none"
    epochs: int = 50
    batch_size: int | None = 20
    learning_rate: float = 0.01
    optimizer: str | Recipe = "sgd"

    def make(self, n_features: int, dtype: str, mean: list[float]) -> ConvolutionalModel:
        return self._model(n_features, [Maps(self.n_maps, self.kernel, self.mode, self.pooling, self.region)], dtype)

    def initialize(self, model: ConvolutionalModel, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, self._start_mean())

    @property
    def _n_features_out(self) -> int:
        rows, columns, maps = self.maps_shape_
        return rows * columns * maps

    def latent_means(self, rows: Array) -> Array:
        return self.model_.code("hidden", super().latent_means(rows))

    def latent_modes(self, rows: Array) -> Array:
        return self.model_.code("hidden", super().latent_modes(rows))

    def transform(self, X: Any, *, method: Literal["mean", "map"] = "mean") -> Array:
        """P(h = 1 | v), or of the pooling units where there are some, or the most probable states of these.

        Parameters
        ----------
        X : array of shape (n, n_features)
        method : {"mean", "map"}, default "mean"
            Probabilities of a 1, or the part that the units have in the most probable state of the maps.

        Returns
        -------
        array of shape (n, numbers of `maps_shape_`)
        """
        return super().transform(X, method=method)

    @property
    def maps_shape_(self) -> tuple[int, int, int]:
        """Rows, columns and maps of a row of codes."""
        shape: tuple[int, int, int] = self.model_.codes["hidden"][1]
        return shape

    @property
    def weights_(self) -> Array:
        """Kernels."""
        return self.model_.state()["visible_hidden_weight"]

    @property
    def visible_bias_(self) -> Array:
        """Biases of the pixels, or of the channels."""
        return self.model_.state()["visible_bias"]

    @property
    def hidden_bias_(self) -> Array:
        """Biases of the maps."""
        return self.model_.state()["hidden_bias"]
