"""Generators that learn from a critic."""

from __future__ import annotations

from gnomon.catalog.line import Entry

__all__ = ["ENTRIES"]

ENTRIES = (
    Entry(
        "gan", "Generative adversarial network", "生成对抗网络", "model",
        ("generate",), "gnomon.systems.adversarial.gan:GAN", "Goodfellow and others 2014",
        ("GEN-093", "GEN-094", "GEN-095", "GEN-101", "GEN-102"),
        {"n_latent": 3, "epochs": 60, "batch_size": 16, "learning_rate": 2e-3},
    ),
    Entry(
        "conditional-gan", "Conditional generative adversarial network", "条件生成对抗网络", "model",
        ("generate",), "gnomon.systems.adversarial.conditional_gan:ConditionalGAN", "Mirza and Osindero 2014",
        ("GEN-066", "GEN-098"),
        {"n_latent": 3, "epochs": 60, "batch_size": 16, "learning_rate": 2e-3},
        takes="table, labels",
    ),
    Entry(
        "dcgan", "Deep convolutional generative adversarial network", "深度卷积生成对抗网络", "model",
        ("generate",), "gnomon.systems.adversarial.gan:DCGAN", "Radford, Metz and Chintala 2016",
        ("GEN-097", "GEN-108", "GEN-109"),
        {
            "n_latent": 3, "epochs": 60, "batch_size": 16, "generator": "dense", "critic": "dense",
            "learning_rate": 2e-3, "initializer": "he-uniform", "scaling": "standard",
        },
        takes="images",
    ),
)  # fmt: skip
