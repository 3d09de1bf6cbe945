"""The convolutional deep Boltzmann machine, published as convolutional deep belief network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from gnomon.contracts import Array
from gnomon.distributions.domains import Binary, UnitInterval
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.energy._binary import check_layers
from gnomon.systems.energy._convolutional import ConvolutionalModel, HasMaps, Maps
from gnomon.systems.energy._deep import DeepMachine

__all__ = ["ConvDBM"]


class ConvDBM(HasMaps, DeepMachine):
    r"""Convolutional deep Boltzmann machine: layers of maps over images of 0 and 1, with pooling, all undirected.

    Each layer has small kernels that move over the pooling units of the layer below, the lowest over the image. A
    hidden unit's field is the correlation from below plus the transposed convolution from above, which reaches all
    hidden units of a pooling unit's region alike; of a region one of them is on at most (probabilistic max pooling).
    Inference alternates odd and even layers: what is above speaks to what is below, so that missing parts of an image
    are filled in by what the upper layers make of the rest. Each layer is begun by a machine of two layers of its own,
    from the image up, by contrastive divergence; then all are learned together, mean field against chains.

    Attributes
    ----------
    weights_ : tuple of arrays
        Kernels of each hidden layer, (maps, maps or channels below, rows, columns).
    biases_ : tuple of arrays
        Of the pixels (or channels) and of the maps of each hidden layer.
    maps_shapes_ : tuple of (rows, columns, maps)
        Of each layer's part of a row of codes.
    history_ : dict of lists
        By epoch: ``stage`` (the layer that is begun; the last is the joint one), ``energy_gap`` of the last batch (data
        minus chains, nats; not the likelihood), ``gradient_norm``.

    Notes
    -----
    It was published as convolutional deep belief network, with the layers' own fits alone (``epochs=1`` comes
    closest); the graph is that of a deep Boltzmann machine, and the joint fit makes up for evidence that counts twice
    where each layer was fitted by itself. Such machines are hard to train well, and classify worse than convolutional
    networks with labels. What goes wrong at the border of the image adds up from layer to layer; see `ConvRBM` for the
    two modes. `max_updates` is dealt evenly among the stages. `evaluate` says whether its number is exact, an estimate
    or a bound. Cost per update O(batch (k + rounds) sum_l places_l maps_l window_l).

    References
    ----------
    Lee, Grosse, Ranganath and Ng (2009), "Convolutional deep belief networks for scalable unsupervised learning of
    hierarchical representations"; Goodfellow, Bengio and Courville (2016), section 20.6.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.zeros((40, 16))
    >>> for row in range(40):
    ...     X[row].reshape(4, 4)[row % 4] = 1
    >>> machine = ConvDBM(n_maps=(4, 3), kernel=(2, 2), epochs=5, random_state=0).fit(X)
    >>> machine.transform(X).shape, machine.maps_shapes_
    ((40, 19), ((2, 2, 4), (1, 1, 3)))
    """

    name: ClassVar[str] = "conv-dbm"
    model_class: ClassVar[type] = ConvolutionalModel
    domain = UnitInterval()
    outcomes = Binary()
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        field: {**values, "n_maps": (1,)} for field, values in HasMaps.acts_with.items()
    }

    n_maps: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...],
        Doc("Maps of each layer from the image up, ``16x16`` on the command line."),
    ] = (
        16,
        16,
    )
    pooling: Annotated[
        Literal["none", "probabilistic", "deterministic"],
        Doc(
            "What the hidden units of a region share: ``probabilistic``: one of them is on at most; "
            "``deterministic``: any may be, the pooling unit is their maximum; or nothing, and no pooling units."
        ),
    ] = "probabilistic"

    pretrain_epochs: int = 5
    epochs: int = 15
    learning_rate: float = 0.003
    optimizer: str | Recipe = "adam"

    def check_parameters(self) -> None:
        check_layers(self.n_maps, (16, 16), "n_maps")
        super().check_parameters()

    @property
    def _depth(self) -> int:
        return len(self.n_maps)

    def make(self, n_features: int, dtype: str, mean: list[float]) -> ConvolutionalModel:
        layers = [Maps(n, self.kernel, self.mode, self.pooling, self.region) for n in self.n_maps]
        return self._model(n_features, layers, dtype)

    # --- codes --------------------------------------------------------------------------------------------------------

    @property
    def maps_shapes_(self) -> tuple[tuple[int, int, int], ...]:
        """Rows, columns and maps of each layer's part of a row of codes."""
        return tuple(shape for _, shape in self.model_.codes.values())

    @property
    def _n_features_out(self) -> int:
        return sum(rows * columns * maps for rows, columns, maps in self.maps_shapes_)

    def _codes_of(self, name: str, states: Array) -> Array:
        return self.model_.code(name, states)

    def transform(self, X: Any, *, method: Literal["mean", "map"] = "mean") -> Array:
        """Pooling units (maps where nothing pools) of all layers, from the lowest up: means, or most probable states.

        Parameters
        ----------
        X : array of shape (n, n_features)
        method : {"mean", "map"}, default "mean"
            Mean-field means, or the most probable state of all layers together, exact where 12 bits at most depend on
            each other and refused elsewhere.

        Returns
        -------
        array of shape (n, sum of rows * columns * maps)
            See `maps_shapes_`.
        """
        return super().transform(X, method=method)
