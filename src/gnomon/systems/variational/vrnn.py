"""The variational recurrent network: sequences of frames, each with latent variables of its own and a memory."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.data.preprocessing import standardization
from gnomon.distributions.frames import BinaryFrames, CategoryFrames, RealFrames
from gnomon.errors import UserValueError
from gnomon.nn.activations import Activation
from gnomon.nn.encoders import DenseEncoder, begin_network
from gnomon.nn.initializers import Initializer
from gnomon.nn.likelihoods import Likelihood
from gnomon.nn.recurrent import GRU, RNN
from gnomon.numeric.noise import Noise, seed_of
from gnomon.objectives.variational import VariationalObjective
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.by_gradient import ByGradient
from gnomon.system.fields import HasDtype, Standardized
from gnomon.system.sequences import TakesFrames, split_frames
from gnomon.systems.variational._vrnn_evidence import UNUSED, SequenceEvidence
from gnomon.systems.variational._vrnn_model import VRNNModel
from gnomon.systems.variational._vrnn_particles import filtered

__all__ = ["VRNN"]

LAYERS = {"gru": GRU, "rnn": RNN}
JUDGED = 200
"""Updates before which nothing is said of latent variables that are not used yet."""


class VRNN(TakesFrames, SequenceEvidence, ByGradient, Standardized, HasDtype):
    r"""Variational recurrent network: a variational autoencoder of each frame, given a memory of those before.

    With :math:`s_t = f(x_t, z_t, s_{t-1})` the prior :math:`p(z_t | s_{t-1})`, the decoder
    :math:`p(x_t | z_t, s_{t-1})` and the encoder :math:`q(z_t | x_t, s_{t-1})` are networks, all normal in z, that are
    trained together by gradient ascent on :math:`\sum_t E_q[\log p(x_t | z_t, s_{t-1})] - KL(q \| p(z_t | s_{t-1}))
    \le \log p(x_1 \dots x_T)`. Columns of a frame depend on each other through z_t, frames through s_t, which the
    draws have a part in.

    Attributes
    ----------
    history_ : dict of lists
        ``negative_bound`` (nats per sequence, as trained on), ``divergence`` of the ELBO from the prior, per sequence,
        ``gradient_norm``, and with validation rows ``validation_negative_bound`` and ``best_epoch``, by epoch.

    Notes
    -----
    A sequence is a row of a table, an array of an array (n, T, d), or of a list of arrays (T, d) of different lengths:
    frames behind the end of a shorter one have no part in anything. Scores are nats per sequence, and one of `evaluate`
    is nats per frame. A decoder that sees the memory may do without z: the bound's divergence falls to 0 (posterior
    collapse), of which a fit of 200 updates or more warns that ends so. ``objective__warm_up`` helps, and so do
    ``objective__free_bits``, which are counted over the frames of a sequence. q does not look ahead: `elbo` is lower by
    what later frames say of earlier z. Cost per update O(frames x weights), the encoder going frame by frame. Source:
    Chung, Kastner, Dinh, Goel, Courville and Bengio (2015), "A recurrent latent variable model for sequential data",
    of which the networks here read x_t and z_t as they are.

    Examples
    --------
    >>> import numpy as np
    >>> frames = np.tile(np.eye(4), (3, 1))  # a spot that goes round
    >>> vrnn = VRNN(n_latent=2, n_recurrent=16, epochs=150, learning_rate=0.02, random_state=0)
    >>> vrnn = vrnn.fit([frames, frames[1:], frames[2:], frames[3:]])
    >>> vrnn.generate(3, frames[:2], random_state=0)[0].argmax(1).tolist()
    [2, 3, 0]
    """

    name: ClassVar[str] = "vrnn"
    model_class: ClassVar[type] = VRNNModel
    tasks: ClassVar[tuple[str, ...]] = ("density", "generate")
    slots: ClassVar[Mapping[str, type[Recipe]]] = {
        "objective": VariationalObjective, "likelihood": Likelihood, "activation": Activation,
        "initializer": Initializer,
    }  # fmt: skip
    ordered_columns: ClassVar[bool] = True
    resamples_rows: ClassVar[bool] = True
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"standardize": {"likelihood": "gaussian"}}

    likelihood: Annotated[
        str | Recipe,
        Doc("p(x_t | z_t): ``bernoulli`` for frames of 0 and 1, ``gaussian`` for real numbers, ``categorical`` for "
            "codes."),
    ] = "bernoulli"  # fmt: skip
    objective: Annotated[
        str | Recipe, Doc("The bound that is raised, of sequences; see `gnomon.objectives.variational`.")
    ] = "elbo"
    n_latent: Annotated[int, "[1, inf)", Doc("Latent variables of each frame.")] = 8
    n_recurrent: Annotated[int, "[1, inf)", Doc("Units of the memory.")] = 64
    recurrent: Annotated[Literal["gru", "rnn"], Doc("The memory: gated units, or simple ones.")] = "gru"
    hidden: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...],
        Doc("Units of the hidden layers of prior, encoder and decoder each; none makes them affine maps."),
    ] = (64,)
    activation: Annotated[str | Recipe, Doc("Of the hidden layers.")] = "relu"
    initializer: Annotated[str | Recipe, Doc("First weights of the layers; see `gnomon.nn.initializers`.")] = (
        "he-uniform"
    )
    epochs: int = 100
    batch_size: int | None = 32
    learning_rate: float = 3e-3
    clip: float | None = 5.0

    @property
    def domain(self) -> Any:
        """Frames of what the likelihood asks for; zeros and ones by default."""
        likelihood = self.recipe("likelihood")
        if likelihood.codes:
            return CategoryFrames(likelihood.n)
        if likelihood.scales:
            return RealFrames(largest=1e100)
        return BinaryFrames()

    # --- fit ----------------------------------------------------------------------------------------------------------

    def arguments(self, examples: Examples) -> dict[str, Any]:
        inside = split_frames(examples.X, self.frame_size_)[1]
        facts = {"frame_size": self.frame_size_, "mean_frames": float(inside.sum(1).mean())}
        return super().arguments(examples) | facts

    def make(self, n_features: int, dtype: str, frame_size: int, **_: Any) -> VRNNModel:
        precision, likelihood = getattr(torch, dtype), self.recipe("likelihood")
        head = likelihood.build(frame_size, precision)
        seen, units, k = frame_size * head.seen, self.n_recurrent, self.n_latent
        network = DenseEncoder(hidden=tuple(self.hidden), activation=self.recipe("activation"))
        prior, encoder, decoder = (
            network.build(inputs, outputs, None, precision)
            for inputs, outputs in ((units, 2 * k), (seen + units, 2 * k), (k + units, frame_size * head.width))
        )
        layer = LAYERS[self.recurrent](seen + k, units, dtype=precision)
        return VRNNModel(
            frame_size, k, n_features // frame_size, layer, prior, encoder, decoder, head, likelihood.scales, precision
        )

    def initialize(self, model: VRNNModel, examples: Examples, noise: contracts.Noise) -> None:
        initializer = self.recipe("initializer")
        for name in ("prior", "encoder", "decoder"):
            begin_network(getattr(model, name), initializer, noise.child(name))
        model.layer.initialize(noise.child("layer"))
        frames, inside = split_frames(examples.X, model.frame_size)
        weight = np.repeat(examples.weight[:, None], frames.shape[1], axis=1)[inside]
        rows: Any = frames[inside]
        if self.standardize and model.scales:
            mean, deviation = standardization(rows, weight)
            model.shift.copy_(torch.from_numpy(mean))
            model.scale.copy_(torch.from_numpy(deviation))
            rows = (rows - mean) / deviation
        model.head.begin(rows, weight)

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.recipe("objective").short == "nvil":
            what = "objective nvil credits layers of latent variables, of which a sequence has none"
            raise UserValueError(what, "objective", "use elbo with the estimator score and form monte-carlo")

    def make_objective(self) -> Any:
        return self.recipe("objective").build()

    def _fit(self, *given: Any, **options: Any) -> Any:
        fitted = super()._fit(*given, **options)
        divergence = self.history_.get("divergence")
        if divergence and self.n_steps_ >= JUDGED and divergence[-1] < UNUSED * self.arguments_["mean_frames"]:
            nats = divergence[-1] / self.arguments_["mean_frames"]
            what = f"posterior collapse: the latent variables carry {nats:.2g} nats per frame, the decoder ignores them"
            warnings.warn(f"{what}; raise objective__warm_up, or have fewer n_recurrent", UserWarning, stacklevel=3)
        return fitted

    # --- frames that go on --------------------------------------------------------------------------------------------

    def generate(
        self, n_frames: int, context: Any = None, *, n: int = 1, particles: int = 64, random_state: Any = None
    ) -> Array:
        """Frames that go on from given ones: z_t from its prior, x_t given z_t, and on.

        Parameters
        ----------
        n_frames : int in [0, inf)
        context : array of shape (n, T, d) or (T, d), optional
            What comes before; of the second form n times the same. Nothing where left out.
        n : int, default 1
            Sequences, where the context does not say it.
        particles : int in [1, inf), default 64
            What is remembered of a context is one of so many draws of a particle filter; see `filter`.
        random_state : int, Generator or None

        Returns
        -------
        array of shape (n, n_frames, d)
            Without the context.
        """
        check_is_fitted(self)
        model, noise = self.model_, Noise(seed_of(random_state), "generate")
        frames, size = how_many(n_frames, "n_frames"), how_many(particles, "particles")
        if size < 1:
            raise UserValueError.must("particles", "be at least 1", particles)
        if context is None:
            state = model.layer.initial(how_many(n)).detach()
        else:
            state = self._remembered(self._given_frames(context, how_many(n)), size, noise.child("context"))
        return np.asarray(model.go_on(state, frames, noise.rows(np.arange(len(state))))[0].cpu().numpy())

    def _remembered(self, context: Array, particles: int, noise: Noise) -> torch.Tensor:
        """A draw of what is remembered after given frames (n, T, d)."""
        n, length = context.shape[:2]
        if not n or not length:
            return self.model_.layer.initial(n).detach()
        x = torch.tensor(context.reshape(n, -1), device=self.model_.device)
        found = filtered(self.model_, x, particles, noise.rows(np.arange(n * particles)))
        places = torch.arange(n, device=x.device)
        return found.state[places, self._chosen(found.share, noise.child("chosen").rows(np.arange(n)))]

    def sample(self, n: int = 1, *, length: int | None = None, random_state: Any = None) -> Array:
        """n sequences as rows.

        Parameters
        ----------
        n : int, default 1
        length : int in [0, inf), optional
            Frames of each; as many as the longest of training where left out.
        random_state : int, Generator or None

        Returns
        -------
        array of shape (n, length * d)
        """
        check_is_fitted(self)
        frames = self.model_.n_frames if length is None else how_many(length, "length")
        drawn = self.generate(frames, n=n, random_state=random_state)
        return drawn.reshape(len(drawn), -1)
