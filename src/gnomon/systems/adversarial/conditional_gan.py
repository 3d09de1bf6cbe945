"""The conditional generative adversarial network: rows of a class that is asked for."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from scipy.special import expit
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.distributions.arrays import plain
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.evaluation.two_sample import sample_scores
from gnomon.numeric.noise import Noise, seed_of
from gnomon.recipes.parameters import how_many
from gnomon.system.prediction import Labeled
from gnomon.systems.adversarial._model import GANModel
from gnomon.systems.adversarial._system import Adversarial

__all__ = ["ConditionalGAN"]


class ConditionalGAN(Labeled, Adversarial):
    r"""Conditional GAN: a generator g(z, y) of rows of a class y, and a critic d(x, y) that is told the class too.

    Both play for :math:`E_{data} \log d(x, y) + E_{z, y} \log(1 - d(g(z, y), y))`, where y follows the classes' shares
    in the training rows; at its best the critic is p(x | y) / (p(x | y) + p_g(x | y)), class by class. Each player has
    learned vectors of its own for the classes, beside the noise and beside the columns; convolutions get a learned map
    as one more channel. Nothing keeps the generator from ignoring z: compare the spread of rows of one class with that
    of the data.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    history_ : dict of lists
        As of `GAN`.

    Notes
    -----
    Cost O(n weights) per epoch. Source: Mirza and Osindero (2014), "Conditional generative adversarial nets".

    Examples
    --------
    >>> y = np.repeat(["low", "high"], 100)
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) + np.where(y == "low", -3, 3)[:, None]
    >>> gan = ConditionalGAN(n_latent=2, epochs=60, random_state=0).fit(X, y)
    >>> rows, labels = gan.sample(50, "high", random_state=0)
    >>> bool(rows.mean() > 1), labels[:2].tolist()
    (True, ['high', 'high'])
    """

    name: ClassVar[str] = "conditional-gan"

    def initialize(self, model: GANModel, examples: Examples, noise: contracts.Noise) -> None:
        super().initialize(model, examples, noise)
        assert examples.y is not None
        counts = np.bincount(examples.y, examples.weight, minlength=len(self.classes_))
        model.shares.copy_(torch.from_numpy(counts / counts.sum()))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    # --- verbs --------------------------------------------------------------------------------------------------

    def sample(self, n: int = 1, y: Any = None, *, random_state: Any = None) -> tuple[Array, Array]:
        """Make n rows, and say of which class each is; two calls differ unless `random_state` is given.

        Parameters
        ----------
        n : int, default 1
        y : label, or array of n labels, optional
            Of which class; where left out, drawn by the classes' shares in the training rows.
        random_state : int, Generator or None

        Returns
        -------
        X : array of shape (n, n_features)
        y : array of shape (n,), in the dtype of the labels
        """
        check_is_fitted(self)
        noise, n = Noise(seed_of(random_state), "sample"), how_many(n)
        places = self.model_.sample_classes(n, noise.child("class")).cpu().numpy() if y is None else self._places(y, n)
        given = torch.from_numpy(places).to(self.model_.device)
        return self.model_.sample(n, noise, given), self.classes_[places]

    def discriminate(self, X: Any, y: Any) -> Array:
        """The critic's probability that a row is data of its class, shape (n,); 1/2 where it cannot tell."""
        rows = self._rows(X)
        return expit(self.model_.ask("logits", rows, self._places(y, len(rows))))

    def decode(self, Z: Any, y: Any) -> Array:
        """g(z, y), the rows of codes and labels (one for all, or one for each), shape (n, n_features)."""
        codes = self._codes(Z)
        return self.model_.ask("decode", codes, self._places(y, len(codes)))

    def interpolate(self, start: Any, end: Any, y: Any, n: int = 10) -> Array:
        """Rows of one class, or of n, on the line between two codes, shape (n, n_features)."""
        return self.decode(self._line(start, end, n), y)

    def _places(self, y: Any, n: int) -> np.ndarray[Any, Any]:
        """Places among the classes of n labels, or of one that all have."""
        labels = plain(y, "y", "give one label per row")
        if labels.ndim == 0:
            labels = np.repeat(labels[None], n)
        if len(labels) != n:
            raise UserValueError(f"y must be one label or {n}, got {len(labels)}", "y", "give one for each row")
        return self.encode_target(labels, labels)

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Rows that are made against as many given ones of the same classes, with their labels as further columns.

        `gnomon.evaluation.two_sample.sample_scores`; without y the rows alone, of classes by their shares.
        """
        rows = self._rows(X)
        made, labels = self.sample(len(rows), y, random_state=seed_of(self.seed_))
        real, ours = (self.model_.ask("scaled", one) for one in (rows, made))
        space = self.domain.space(rows.shape[1])
        if y is not None:
            beside = (labels[:, None] == self.classes_[None, :]).astype(real.dtype)
            real, ours = np.hstack([real, beside]), np.hstack([ours, beside])
            space = f"{space}, {len(self.classes_)} classes"
        return sample_scores(real, ours, Noise(self.seed_, "evaluate"), data_space=space)
