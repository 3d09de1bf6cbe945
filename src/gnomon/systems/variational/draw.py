"""DRAW: images painted on a canvas step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.distributions.latents import Codes, Latents
from gnomon.distributions.stepwise import Path, StepwiseCodes
from gnomon.nn.glimpses import Glimpse, GlimpseRecipe
from gnomon.nn.initializers import Initializer, initialize
from gnomon.nn.layers import dense
from gnomon.nn.likelihoods import Head, Likelihood
from gnomon.nn.recurrent import GRU, Recurrent
from gnomon.numeric.noise import Noise, seed_of
from gnomon.objectives.variational import VariationalObjective
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.image_rows import ShapedRows
from gnomon.systems.variational._codes import MadeOfCodes
from gnomon.systems.variational._model import CodesModel

__all__ = ["DRAW", "DRAWModel"]

LOOKED_AT = 16
"""Draws over which divergences of later steps are averaged."""


class Sketch(NamedTuple):
    """What is carried from step to step.

    Attributes
    ----------
    canvas : tensor of shape (n, n_features * head.width)
        Numbers of p(x | z) so far.
    encoder, decoder : tensors of shape (n, state_size)
    seen : tensor of shape (n, n_features * head.seen), or None
        The rows, where z is inferred from some.
    """

    canvas: torch.Tensor
    encoder: torch.Tensor
    decoder: torch.Tensor
    seen: torch.Tensor | None = None


class DRAWModel(CodesModel):
    r"""p(x, z) = p(z) p(x | z) and q(z | x) of T steps that share their weights and a canvas.

    .. math::
        \hat x_t &= x - E[x | c_{t-1}], \quad r_t = \mathrm{read}(x, \hat x_t, h^{dec}_{t-1}) \\
        h^{enc}_t &= \mathrm{RNN}(h^{enc}_{t-1}, [r_t, h^{dec}_{t-1}]), \quad z_t \sim q(z_t | h^{enc}_t) \\
        h^{dec}_t &= \mathrm{RNN}(h^{dec}_{t-1}, z_t), \quad c_t = c_{t-1} + \mathrm{write}(h^{dec}_t)

    The canvas and both states begin at 0, and c_T are the numbers of p(x | z).

    Parameters
    ----------
    n_features, n_steps, n_latent : int
        `n_latent` of each step.
    glimpse : Glimpse
        ``read`` and ``write``.
    encoder, decoder : Recurrent
        From what is read and the decoder's output; from z_t.
    latents, head, scales, dtype
        As of `CodesModel`.
    """

    glimpse: Glimpse
    encoder: Recurrent
    decoder: Recurrent
    to_codes: nn.Module

    def __init__(
        self, n_features: int, n_steps: int, n_latent: int, glimpse: Glimpse, encoder: Recurrent, decoder: Recurrent,
        latents: Latents, head: Head, scales: bool, dtype: torch.dtype,
    ) -> None:  # fmt: skip
        to_codes = dense(encoder.units, n_latent * latents.width, dtype=dtype)
        super().__init__(
            n_features, n_steps * n_latent, latents, head, scales, dtype, glimpse=glimpse, encoder=encoder,
            to_codes=to_codes, decoder=decoder,
        )  # fmt: skip
        self.n_steps = n_steps

    def initialize(self, initializer: Initializer, noise: contracts.Noise) -> None:
        """First weights."""
        initialize(self.glimpse, initializer, noise.child("glimpse"))
        self.glimpse.begin()
        initialize(self.to_codes, initializer, noise.child("to_codes"))
        self.encoder.initialize(noise.child("encoder"))
        self.decoder.initialize(noise.child("decoder"))

    # --- steps ------------------------------------------------------------------------------------------------------

    def blank(self, n: int, seen: torch.Tensor | None = None) -> Sketch:
        """Before the first step."""
        canvas = self.shift.new_zeros(n, len(self.shift) * self.head.width)
        return Sketch(canvas, self.encoder.initial(n), self.decoder.initial(n), seen)

    def begin(self, x: torch.Tensor) -> Sketch:
        """Before the first step, with rows to be looked at."""
        return self.blank(len(x), self.seen(x))

    def look(self, state: Sketch, step: int) -> tuple[Codes, Sketch]:
        """q(z_t | x, z_1 ... z_{t-1}), and the state once a glimpse has been taken."""
        assert state.seen is not None
        output = state.decoder[:, : self.decoder.units]
        wrong = state.seen - self.head.mean_inputs(state.canvas)
        read = self.glimpse.read(state.seen, wrong, output)
        encoder = self.encoder.step(torch.cat([read, output], 1), state.encoder)
        codes = self.latents.codes(self.to_codes(encoder[:, : self.encoder.units]))
        return codes, state._replace(encoder=encoder)

    def take(self, state: Sketch, z: torch.Tensor, step: int) -> Sketch:
        """The state once what z_t says has been written."""
        decoder = self.decoder.step(z, state.decoder)
        return state._replace(
            canvas=state.canvas + self.glimpse.write(decoder[:, : self.decoder.units]), decoder=decoder
        )

    # --- contracts --------------------------------------------------------------------------------------------------

    def encode(self, x: torch.Tensor) -> StepwiseCodes:
        return StepwiseCodes(self, x, self.latents.reparametrized)

    def canvases(self, z: torch.Tensor) -> list[torch.Tensor]:
        """The canvas after each step."""
        state, found = self.blank(len(z)), []
        for step, part in enumerate(z.chunk(self.n_steps, 1)):
            state = self.take(state, part, step)
            found.append(state.canvas)
        return found

    def raw(self, z: torch.Tensor) -> torch.Tensor:
        return self.canvases(z)[-1]

    def log_likelihood_along(self, x: torch.Tensor, path: Path) -> torch.Tensor:
        """See `GoesInSteps`."""
        return self.log_of_rows(x, path.states[-1].canvas)

    def expected_canvases(self, z: torch.Tensor) -> torch.Tensor:
        """E[x | c_t] after each step, shape (n, n_steps, n_features)."""
        return torch.stack([self.expected(canvas) for canvas in self.canvases(z)], 1)

    def generative(self) -> list[nn.Parameter]:
        """Parameters of p(x | z); those of the window that is read are of q alone."""
        writes = [one for name, one in self.glimpse.named_parameters() if not name.startswith("reader.")]
        return [*writes, *self.decoder.parameters(), *self.head.parameters()]

    def recognition(self) -> list[nn.Parameter]:
        """Parameters of q(z | x) that p(x | z) does not have."""
        reads = [one for name, one in self.glimpse.named_parameters() if name.startswith("reader.")]
        return [*reads, *self.encoder.parameters(), *self.to_codes.parameters()]


class DRAW(ShapedRows, MadeOfCodes):
    r"""Deep recurrent attentive writer: a variational autoencoder that paints an image on a canvas, step by step.

    Every step reads a part of the image and of what is still wrong with the canvas, draws latent variables from what
    was read so far, and adds a part to the canvas. Which part is read and written is learned with all else, by gradient
    ascent on :math:`E_q \log p(x | c_T) - \sum_t E_q KL(q(z_t | x, z_{<t}) \| p(z_t)) \le \log p(x)`. A sample is
    painted in the same steps from draws of the prior: ``sample(n, return_canvas=True)`` shows them.

    Attributes
    ----------
    history_ : dict of lists
        As of `VAE`; ``divergence`` is summed over the steps.

    Notes
    -----
    The part is a grid of N x N Gaussian filters, or everything with ``attention="none"``; then one step is a
    variational autoencoder. Each filter sums to 1 over the pixels wherever it stands. Codes of a row are those of all
    steps side by side; `transform` gives the mean of each step given the means of the steps before it. Evidence as of
    `VAE`: bounds, by draws. The recurrent layers are gated units (`GRU`), where the source has long short-term memory.
    Cost per update O(n_steps batch (units (units + numbers read) + N pixels)). Source: Gregor, Danihelka, Graves,
    Rezende and Wierstra (2015).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 16, axis=0)
    >>> draw = DRAW(n_steps=2, n_latent=1, units=8, likelihood="bernoulli", epochs=100, learning_rate=0.02)
    >>> draw = draw.set_params(random_state=0).fit(X)
    >>> draw.score(X) > -1.5, draw.transform(X).shape
    (True, (32, 2))
    >>> rows, canvas = draw.sample(3, return_canvas=True, random_state=0)
    >>> rows.shape, canvas.shape
    ((3, 4), (3, 2, 4))
    """

    name: ClassVar[str] = "draw"
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "latents": {"objective__estimator": "score"}, "image_shape": {"attention": "gaussian"},
    }  # fmt: skip
    model_class: ClassVar[type] = DRAWModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {
        "objective": VariationalObjective, "attention": GlimpseRecipe, "latents": Latents, "likelihood": Likelihood,
        "initializer": Initializer,
    }  # fmt: skip

    n_steps: Annotated[int, "[1, inf)", Doc("Steps in which the canvas is painted.")] = 5
    n_latent: Annotated[int, "[1, inf)", Doc("Latent variables of a step.")] = 5
    units: Annotated[int, "[1, inf)", Doc("Units of the recurrent layers, one that infers and one that paints.")] = 128
    attention: Annotated[
        str | Recipe,
        Doc("Which part a step reads and writes: ``gaussian`` windows, or ``none``, everything; see "
            "`gnomon.nn.glimpses`."),
    ] = "gaussian"  # fmt: skip
    learning_rate: float = 0.004

    # --- fit ----------------------------------------------------------------------------------------------------

    def make(self, n_features: int, dtype: str) -> DRAWModel:
        precision, units = getattr(torch, dtype), self.units
        latents, likelihood, shape = self.recipe("latents"), self.recipe("likelihood"), self._shape_of_row(n_features)
        head = likelihood.build(n_features, precision)
        glimpse = self.recipe("attention").build(shape, head.seen, head.width, units, precision)
        encoder = GRU(glimpse.n_read + units, units, dtype=precision)
        decoder = GRU(self.n_latent * latents.columns, units, dtype=precision)
        return DRAWModel(
            n_features, self.n_steps, self.n_latent, glimpse, encoder, decoder, latents, head, likelihood.scales,
            precision,
        )  # fmt: skip

    def initialize(self, model: DRAWModel, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(self.recipe("initializer"), noise)
        self._begin_rows(model, examples)

    # --- codes --------------------------------------------------------------------------------------------------

    @property
    def n_variables(self) -> int:
        """Latent variables of a row, those of all steps."""
        return self.n_steps * self.n_latent

    def _divergences(self, codes: Any) -> Any:
        noise, model = Noise(self.seed_, "evaluate/divergence"), self.model_
        with torch.no_grad():
            parts = (model.divergence(codes.given(codes.sample(noise, k))) for k in range(LOOKED_AT))
            return torch.stack(list(parts)).mean(0)

    # --- draws --------------------------------------------------------------------------------------------------

    def sample(self, n: int = 1, *, return_canvas: bool = False, random_state: Any = None) -> Any:
        """Draw n rows: z of every step from the prior, painted step by step, then x from p(x | c_T).

        Parameters
        ----------
        n : int, default 1
        return_canvas : bool, default False
            Whether the canvas is given too.
        random_state : int, Generator or None
            Two calls differ unless it is given.

        Returns
        -------
        rows : array of shape (n, n_features)
        canvas : array of shape (n, n_steps, n_features)
            Where asked for: E[x | c_t] after each step; the last is the mean that the row was drawn about.
        """
        check_is_fitted(self)
        noise = Noise(seed_of(random_state), "sample")
        x, z = self.model_.dream(how_many(n), noise)
        rows: Array = self._in_units(x.cpu().numpy())
        if not return_canvas:
            return rows
        canvas: Array = self.model_.ask("expected_canvases", z.cpu().numpy())
        return rows, self._in_units(canvas.reshape(-1, rows.shape[1])).reshape(canvas.shape)

    def canvases(self, X: Any) -> Array:
        """How rows are painted: E[x | c_t] after each step, z of every step the mean given those before it.

        Returns
        -------
        array of shape (n, n_steps, n_features)
        """
        return self.model_.ask("expected_canvases", self.latent_means(self._rows(X)))
