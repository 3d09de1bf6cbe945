"""Systems whose rows have latent variables behind them: what is known of these, as features."""

from __future__ import annotations

from typing import Any, Literal

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from gnomon.contracts import Array, Distribution
from gnomon.errors import UserValueError

__all__ = ["METHODS", "LatentCodes", "check_method"]

METHODS = ("mean", "map")
"""Ways from a posterior to features."""


def check_method(method: str) -> None:
    """Refuse what is no way from a posterior to features."""
    if method not in METHODS:
        raise UserValueError.must("method", f"be one of {', '.join(METHODS)}", method)


class LatentCodes(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Base of the systems with latent variables: a subclass gives `latent_posterior` and `latent_modes`.

    Where the means alone are cheaper than the distribution, or codes are made of them, it gives `latent_means` too.
    """

    def posterior(self: Any, X: Any) -> Distribution:
        r"""What is known of the latent variables of each row, :math:`p(h | x)`, as a distribution.

        It is exact where the sum or integral over the latent variables is; elsewhere it is the approximation that
        stands for it in `transform`: mean field, an encoder's q, means of chains. Another labeling or rotation of the
        latent variables is as good a model, so compare what does not depend on it.

        Parameters
        ----------
        X : array of shape (n, n_features)

        Returns
        -------
        Distribution
            Of n rows: ``mean``, which `transform` gives (or makes codes of), ``log_prob(h)`` in nats, shape (n,), and
            ``sample(noise)``, one draw of each row at the address of a `gnomon.numeric.noise.Noise`. Arrays, or tensors
            where an encoder answers.
        """
        return self.latent_posterior(self._rows(X))

    def transform(self: Any, X: Any, *, method: Literal["mean", "map"] = "mean") -> Array:
        r"""What is known of the latent variables of each row, :math:`E[h | x]` or :math:`\arg\max_h p(h, x)`.

        Parameters
        ----------
        X : array of shape (n, n_features)
        method : {"mean", "map"}, default "mean"
            Their expectation, of bits the probabilities that they are 1; or their most probable values, all taken
            together. Where several values explain a row alike, the mean lies between them and may be like none; the
            most probable value is one of them, and which one may turn with a small change of the row.

        Returns
        -------
        array of shape (n, columns)
            Columns as `get_feature_names_out` names them.

        Raises
        ------
        UserValueError
            Another method, or ``map`` where the most probable values cannot be found exactly: more than 12 bits that
            depend on each other given the row, or a posterior that is known through an approximation alone. Means are
            there then, by mean field or of the approximation.
        """
        check_method(method)
        rows = self._rows(X)
        found: Array = self.latent_means(rows) if method == "mean" else self.latent_modes(rows)
        return found

    def latent_posterior(self, rows: Array) -> Distribution:
        """Distribution of the latent variables given checked rows."""
        raise NotImplementedError

    def latent_means(self, rows: Array) -> Array:
        """Expectations of the latent variables given checked rows, shape (n, columns)."""
        means: Array = self.latent_posterior(rows).mean.astype(rows.dtype)
        return means

    def latent_modes(self, rows: Array) -> Array:
        """Their most probable values, exact; refused where they are not known."""
        raise NotImplementedError
