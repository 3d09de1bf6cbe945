"""Models with latent variables, fitted by bounds."""

from __future__ import annotations

from gnomon.catalog.line import Entry

__all__ = ["ENTRIES"]

ENTRIES = (
    Entry(
        "vae", "Variational autoencoder", "变分自编码器", "model",
        ("density", "represent", "generate"), "gnomon.systems.variational.vae:VAE",
        "Kingma and Welling 2014; Rezende and others 2014",
        (
            "GEN-084", "GEN-086", "GEN-087", "GEN-088", "GEN-089", "GEN-090", "BAY-64", "BAY-65", "BAY-66", "BAY-67",
            "BAY-71", "BAY-72", "INF-107",
        ),
        {"n_latent": 2, "epochs": 30, "learning_rate": 0.01, "batch_size": 16},
    ),
)  # fmt: skip
