"""The bidirectional Helmholtz machine."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from gnomon.contracts import Array
from gnomon.errors import UserTypeError
from gnomon.evaluation.score import Score
from gnomon.inference.exact.enumeration import states
from gnomon.numeric.noise import Noise
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.base import System
from gnomon.system.gaps import Mask
from gnomon.systems.variational._belief import BeliefNet
from gnomon.systems.variational._bidirectional import BidirectionalModel, GeometricCells, matching
from gnomon.systems.variational._evidence import DRAWS

__all__ = ["BidirectionalHelmholtzMachine"]


class BidirectionalHelmholtzMachine(BeliefNet):
    r"""Bidirectional Helmholtz machine: the geometric mean of a belief net and its recognition net.

    :math:`p^*(x, h) = \frac1Z \sqrt{p(x, h) q(x, h)}` with :math:`q(x) = p^*(x)`, so that
    :math:`p^*(x) = \frac1{Z^2} (\sum_h \sqrt{p(x, h) q(h | x)})^2` and :math:`Z \le 1`: without Z it is a lower
    bound of log p*(x), which is what is raised, and which keeps both nets near each other.

    Attributes
    ----------
    history_ : dict of lists
        By epoch ``negative_bound`` (minus the estimate of the bound, nats per row), ``wake`` and ``recognized``, minus
        the weighted log probabilities of the two nets, ``effective_draws`` and ``gradient_norm``.

    Notes
    -----
    Draws of p are no draws of p*: `sample` begins there and goes on by 50 sweeps that propose hidden layers of q, rows
    of p given these, and both of p. Codes, missing cells and densities are those of p* too, `elbo` and `infer` speak of
    p. `log_prob` is exact, Z among it, up to 18 columns and hidden units together; beyond there is `log_prob_bound`.
    Cost per update as of reweighted wake-sleep. Source: Bornschein, Shabanian, Fischer and Bengio (2016).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> machine = BidirectionalHelmholtzMachine(hidden=(3,), epochs=100, learning_rate=0.03, random_state=0).fit(X)
    >>> machine.score(X) > -2.0, machine.transform(X).shape
    (True, (100, 3))
    """

    name: ClassVar[str] = "bidirectional-helmholtz-machine"
    model_class: ClassVar[Any] = BidirectionalModel

    objective: Annotated[str | Recipe, Doc("How both nets learn; see `gnomon.objectives.wake_sleep`.")] = "bihm"

    def log_prob_bound(self, X: Any, n_samples: int = DRAWS, *, proposal: str = "encoder") -> Score:
        r"""The mean of :math:`2 \log \frac1K \sum_k \sqrt{p(x, h_k) / q(h_k | x)}`, in expectation below log p*(x).

        Parameters
        ----------
        X : array of shape (n, n_features)
        n_samples : int in [1, inf), default 64
            Draws of q for each row.
        proposal : {"encoder"}
            Where hidden layers are drawn from.

        Returns
        -------
        Score
            Kind ``lower bound``; ``error`` is that of the draws, inf for a single one.
        """
        if proposal != "encoder":
            raise UserTypeError(f"hidden layers are drawn from q here, got {proposal!r}", "proposal", "use encoder")
        x, draws = self._tensor(X), how_many(n_samples, "n_samples")
        noise, step = Noise(self.seed_, "evaluate/bidirectional"), max(1, (1 << 14) // draws)
        with torch.no_grad():
            parts = [
                self.model_.log_ratios(some, noise.rows(np.arange(k * step, k * step + len(some))), draws)
                for k, some in enumerate(torch.split(x, step))
            ]
        ratio = torch.cat(parts).double()
        total = torch.logsumexp(ratio, 1)
        value = 2 * (total - math.log(draws))
        share = (ratio - total[:, None]).exp()
        variance = 4 * (share - 1 / draws).square().sum(1) * draws / max(1, draws - 1)
        error = float(variance.sum().sqrt()) / len(x) if draws > 1 else math.inf
        return Score.from_pointwise(
            value.cpu().numpy(), kind="lower bound", error=error, data_space=self.domain.space(x.shape[1]),
            note=f"by {draws} draws per row, in expectation below log p*(x)",
        )  # fmt: skip

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """``log_likelihood`` of p*: exact, or the lower bound of 64 draws."""
        return System.evaluate(self, X) if hasattr(self, "log_prob") else {self.primary: self.log_prob_bound(X)}

    # --- rows with missing cells --------------------------------------------------------------------------------------

    @property
    def _has_few_states(self) -> bool:
        return bool(self.model_.is_exact)

    def _joint_of_states(self, rows: Array, missing: Mask) -> tuple[Any, Any]:
        every = states(rows.shape[1])
        return matching(self.model_.log_prob(np.asarray(every, rows.dtype)), every, rows, missing), every

    def latent_view(self) -> GeometricCells:
        return GeometricCells(self.model_)

    def observed_estimate(self, rows: Array, missing: Mask) -> tuple[Array, dict[str, Any]]:
        raise UserTypeError(
            f"{self.name} of so many units has no density of known cells",
            "X",
            "fill the gaps by impute, and evaluate complete rows",
        )
