"""Models with latent variables, fitted by bounds."""

from __future__ import annotations

from gnomon.catalog.line import Entry

__all__ = ["ENTRIES"]

ENTRIES = (
    Entry(
        "darn", "Deep autoregressive network", "深度自回归网络", "model",
        ("density", "represent", "generate"), "gnomon.systems.variational.darn:DARN",
        "Gregor, Danihelka, Mnih, Blundell and Wierstra 2014", ("GEN-080",),
        {"hidden": (3,), "epochs": 60, "learning_rate": 0.02, "batch_size": 16},
        takes="table of 0 and 1",
    ),
    Entry(
        "bidirectional-helmholtz-machine", "Bidirectional Helmholtz machine", "双向亥姆霍兹机", "model",
        ("density", "represent", "generate"),
        "gnomon.systems.variational.bidirectional:BidirectionalHelmholtzMachine",
        "Bornschein, Shabanian, Fischer and Bengio 2016", ("GEN-079",),
        {"hidden": (3,), "epochs": 60, "learning_rate": 0.02, "batch_size": 16},
        takes="table of 0 and 1",
    ),
    Entry(
        "sbn", "Sigmoid belief network", "S形信念网络", "model",
        ("density", "represent", "generate"), "gnomon.systems.variational.sbn:SBN",
        "Neal 1992; Saul, Jaakkola and Jordan 1996", ("GEN-074", "GEN-075", "GEN-077", "GEN-078"),
        {"hidden": (3,), "epochs": 60, "learning_rate": 0.02, "batch_size": 16},
        takes="table of 0 and 1",
    ),
    Entry(
        "helmholtz-machine", "Helmholtz machine", "亥姆霍兹机", "model",
        ("density", "represent", "generate"), "gnomon.systems.variational.helmholtz_machine:HelmholtzMachine",
        "Dayan, Hinton, Neal and Zemel 1995", ("GEN-076", "INF-102"),
        {"hidden": (3,), "epochs": 60, "learning_rate": 0.02, "batch_size": 16},
        takes="table of 0 and 1",
    ),
    Entry(
        "draw", "DRAW (deep recurrent attentive writer)", "DRAW 深度循环注意力写入网络", "model",
        ("density", "represent", "generate"), "gnomon.systems.variational.draw:DRAW",
        "Gregor, Danihelka, Graves, Rezende and Wierstra 2015", ("GEN-091",),
        {
            "n_steps": 2, "n_latent": 1, "units": 16, "attention": "none", "epochs": 40, "learning_rate": 0.02,
            "batch_size": 16,
        },
    ),
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
    Entry(
        "vrnn", "Variational recurrent network", "变分循环神经网络", "model", ("density", "generate"),
        "gnomon.systems.variational.vrnn:VRNN",
        "Chung, Kastner, Dinh, Goel, Courville and Bengio 2015", ("GEN-092",),
        {
            "n_latent": 1, "n_recurrent": 6, "hidden": (6,), "epochs": 20, "learning_rate": 0.02, "batch_size": 16,
        },
        takes="table of 0 and 1",
    ),
)  # fmt: skip
