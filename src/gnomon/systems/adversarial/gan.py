"""Generative adversarial networks: of rows of numbers, and of images by convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import torch
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array
from gnomon.errors import UserValueError
from gnomon.evaluation.latent_likelihood import latent_score
from gnomon.evaluation.score import Score
from gnomon.evaluation.two_sample import sample_scores
from gnomon.numeric.noise import Noise, seed_of
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.systems.adversarial._model import NoisyGenerator
from gnomon.systems.adversarial._system import Adversarial

__all__ = ["DCGAN", "GAN"]


class GAN(Adversarial):
    r"""Generative adversarial network: a generator g(z) of rows that a critic cannot tell from the data.

    The critic d raises :math:`v = E_{data} \log d(x) + E_z \log(1 - d(g(z)))`, the generator works against it. There is
    no likelihood: `evaluate` compares rows that it makes with given ones by tests of two samples, and never by the loss
    of a game, which does not fall. Each update makes as many rows as the batch has; both players' layers are in
    training in both updates, each with masks of its own, and made and real rows pass the critic apart. The first decay
    of Adam is 1/2: the other player moves, and old gradients mislead (Radford, Metz and Chintala 2016).

    Attributes
    ----------
    history_ : dict of lists
        ``generator`` and ``critic`` (what each loses, nats per row), ``critic_accuracy``, by epoch. They say whether
        the players keep each other in check, not how good the rows are.

    Notes
    -----
    Cost O(n weights) per epoch. Source: Goodfellow et al. (2014); Goodfellow, Bengio and Courville (2016),
    section 20.10.4.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) * [3, 1] + [5, 0]
    >>> gan = GAN(n_latent=2, epochs=100, random_state=0).fit(X)
    >>> bool(np.abs(gan.sample(1000, random_state=0).mean(0) - [5, 0]).max() < 1)
    True
    """

    name: ClassVar[str] = "gan"

    def discriminate(self, X: Any) -> Array:
        """The critic's probability that a row is of the data, shape (n,); 1/2 where it cannot tell."""
        logits = self.model_.ask("logits", self._rows(X))
        return expit(logits)

    def decode(self, Z: Any) -> Array:
        """g(z), the rows of codes, shape (n, n_features)."""
        return self.model_.ask("decode", self._codes(Z))

    def interpolate(self, start: Any, end: Any, n: int = 10) -> Array:
        """Rows on the line between two codes, shape (n, n_features)."""
        return self.decode(self._line(start, end, n))

    def latent_arithmetic(self, plus: Any, minus: Any) -> Array:
        """The row of sum(plus) - sum(minus), codes of shape (k, n_latent) each: shape (n_features,).

        Codes are averaged over several rows of one kind first where a single one is not typical (Radford et al. 2016).
        """
        more, less = self._codes(plus), self._codes(minus)
        return self.decode(more.sum(0, keepdims=True) - less.sum(0, keepdims=True))[0]

    def with_noise(self, deviation: float) -> NoisyGenerator:
        """x = g(z) + deviation * e: the model of Gaussian noise on the output, which has a density.

        Its ``log_joint``, ``sample_prior`` and ``infer`` are what `gnomon.evaluation.latent_likelihood` asks.
        """
        check_is_fitted(self)
        if not deviation > 0:
            raise UserValueError(f"deviation must be positive, got {deviation}", "deviation", "give 0.1, say")
        return self.model_.with_noise(float(deviation))

    def log_prob_bound(self, X: Any, deviation: float, n_samples: int = 1000) -> Score:
        """Mean log density of rows under `with_noise`, by the average over draws of z: below the true one on average.

        Few draws are dominated by the one nearest to a row, as the note says; the smaller the deviation the more so.
        """
        rows, model = self._rows(X), self.with_noise(deviation)
        noise = Noise(self.seed_, "evaluate/noise")
        with torch.no_grad():
            return latent_score(
                model, model, torch.tensor(rows, device=self.model_.device), how_many(n_samples, "n_samples"), noise,
                data_space=self.domain.space(rows.shape[1]),
            )  # fmt: skip

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Rows that are made against as many given ones: `gnomon.evaluation.two_sample.sample_scores`."""
        rows = self._rows(X)
        made = self.sample(len(rows), random_state=seed_of(self.seed_))
        real, ours = (self.model_.ask("scaled", one) for one in (rows, made))
        space = self.domain.space(rows.shape[1])
        return sample_scores(real, ours, Noise(self.seed_, "evaluate"), data_space=space)


class DCGAN(GAN):
    r"""Deep convolutional GAN: convolutions of stride 2 in both players, for rows that are images.

    The value of the game is that of `GAN`, :math:`E_{data} \log d(x) + E_z \log(1 - d(g(z)))`, of convolutions d and g.
    Batch normalization everywhere but at the generator's output and the critic's input, rectifiers in the generator and
    leaky ones of slope 0.2 in the critic, pixels in [-1, 1], Adam with a first decay of 0.5, first weights of standard
    deviation 0.02.

    Notes
    -----
    Source: Radford, Metz and Chintala (2016).

    Examples
    --------
    >>> from gnomon.data import load
    >>> X = load("digits").view("table")[:200]
    >>> DCGAN(epochs=2, random_state=0).fit(X).sample(3, random_state=0).shape
    (3, 64)
    """

    name: ClassVar[str] = "dcgan"

    generator: str | Recipe | Callable[..., Any] = "conv"
    critic: str | Recipe | Callable[..., Any] = "conv"
    scaling: Literal["standard", "range"] = "range"
    initializer: str | Recipe = "normal-conv"
    learning_rate: float = 2e-4
