"""Networks for images."""

from __future__ import annotations

from gnomon.catalog.line import Entry

__all__ = ["ENTRIES"]

ENTRIES = (
    Entry(
        "lenet", "LeNet (convolutional classifier of images)", "LeNet（图像卷积分类网络）", "model",
        ("classify",), "gnomon.systems.vision.lenet:LeNet", "LeCun, Bottou, Bengio and Haffner 1998",
        ("DLN-118", "DLN-108", "DLN-114", "DLN-115"),
        {"channels": (2, 3), "hidden": (10, 8), "dropout": 0.1, "epochs": 12, "batch_size": 16, "learning_rate": 0.03},
        takes="images, labels",
    ),
)  # fmt: skip
