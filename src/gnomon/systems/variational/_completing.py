"""Models of one array of latent variables as the chains over missing cells ask for them."""

from __future__ import annotations

from typing import Any

import torch

from gnomon.contracts import Noise

__all__ = ["Completing", "Latent"]

Latent = tuple[torch.Tensor]
"""The latent variables of each row: chains hold any number of arrays, these models have one."""


class Completing:
    """A model as `gnomon.inference.mcmc.latent_cells` asks for it; without gradients.

    A subclass gives ``refill(x, z, missing, noise)``, the row with its missing cells drawn given z, and
    ``expected(x, z)``, E[x | z] or the row as it is.

    Parameters
    ----------
    model : Module
        It keeps `HasLatents` and `Encoder` and has ``encode`` and ``sample``.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def place(self, x: Any) -> torch.Tensor:
        """Rows where the model computes."""
        return torch.tensor(x, device=self.model.device).to(next(self.model.parameters()).dtype)

    def start(self, n: int, noise: Noise) -> Any:
        """n rows of the model."""
        return self.model.sample(n, noise)

    @torch.no_grad()
    def infer(self, x: torch.Tensor, noise: Noise) -> tuple[Latent, torch.Tensor]:
        """See `Encoder`."""
        z, log_q = self.model.infer(x, noise)
        return (z,), log_q

    @torch.no_grad()
    def log_proposal(self, x: torch.Tensor, z: Latent) -> torch.Tensor:
        """log q(z | x)."""
        log_q: torch.Tensor = self.model.encode(x).log_prob(z[0])
        return log_q

    @torch.no_grad()
    def log_joint(self, x: torch.Tensor, z: Latent) -> torch.Tensor:
        """See `HasLatents`."""
        joint: torch.Tensor = self.model.log_joint(x, z[0])
        return joint

    def sample_prior(self, n: int, noise: Noise) -> Latent:
        """See `HasLatents`."""
        return (self.model.sample_prior(n, noise),)
