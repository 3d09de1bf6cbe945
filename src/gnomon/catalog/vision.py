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
    Entry(
        "cnn", "Convolutional network of your own (classifier of images)", "自定义卷积网络（图像分类）", "model",
        ("classify",), "gnomon.systems.vision.cnn:CNN", "Ciresan, Meier and Schmidhuber 2012",
        ("DLN-108", "DLN-114", "DLN-130"),
        {"layers": "2c3-p2-3c3-8", "dropout": 0.1, "epochs": 8, "batch_size": 16, "learning_rate": 0.03},
        takes="images, labels",
    ),
    Entry(
        "alexnet", "AlexNet (convolutional classifier of images)", "AlexNet（图像卷积分类网络）", "model",
        ("classify",), "gnomon.systems.vision.alexnet:AlexNet", "Krizhevsky, Sutskever and Hinton 2012",
        ("DLN-119",),
        {
            "channels": (2, 4, 4, 4, 4), "hidden": (8,), "dropout": 0.1, "epochs": 8, "batch_size": 16,
            "learning_rate": 0.02,
        },
        takes="images, labels",
    ),
    Entry(
        "vgg", "VGG (convolutional classifier of images)", "VGG（图像卷积分类网络）", "model",
        ("classify",), "gnomon.systems.vision.vgg:VGG", "Simonyan and Zisserman 2015",
        ("DLN-121", "DLN-122"),
        {
            "convolutions": (1, 1), "channels": (2, 3), "hidden": (8,), "dropout": 0.1, "epochs": 8, "batch_size": 16,
            "learning_rate": 0.03,
        },
        takes="images, labels",
    ),
    Entry(
        "nin", "Network in network (convolutional classifier of images)", "NiN 网络中的网络（图像分类）", "model",
        ("classify",), "gnomon.systems.vision.nin:NiN", "Lin, Chen and Yan 2014",
        ("DLN-123",),
        {"channels": (2, 3, 3), "dropout": 0.1, "epochs": 8, "batch_size": 16, "learning_rate": 0.03},
        takes="images, labels",
    ),
    Entry(
        "googlenet", "GoogLeNet (Inception classifier of images)", "GoogLeNet（Inception 图像分类网络）", "model",
        ("classify",), "gnomon.systems.vision.googlenet:GoogLeNet", "Szegedy et al. 2015",
        ("DLN-124", "DLN-125", "DLN-126", "DLN-127", "DLN-128"),
        {"width": 0.06, "batch_norm": False, "epochs": 6, "batch_size": 16, "learning_rate": 0.01},
        takes="images, labels",
    ),
    Entry(
        "resnet", "ResNet (residual classifier of images)", "ResNet 残差网络（图像分类）", "model",
        ("classify",), "gnomon.systems.vision.resnet:ResNet", "He, Zhang, Ren and Sun 2016",
        ("DLN-131", "DLN-132", "DLN-133"),
        {"depths": (1, 1), "channels": (2, 4), "epochs": 8, "batch_size": 16, "learning_rate": 0.03},
        takes="images, labels",
    ),
    Entry(
        "densenet", "DenseNet (densely connected classifier of images)", "DenseNet 密集连接网络（图像分类）", "model",
        ("classify",), "gnomon.systems.vision.densenet:DenseNet", "Huang, Liu, van der Maaten and Weinberger 2017",
        ("DLN-134",),
        {"depths": (1, 1), "growth": 2, "first": 3, "epochs": 8, "batch_size": 16, "learning_rate": 0.03},
        takes="images, labels",
    ),
    Entry(
        "shufflenet", "ShuffleNet (grouped and shuffled classifier of images)", "ShuffleNet（图像分类网络）", "model",
        ("classify",), "gnomon.systems.vision.shufflenet:ShuffleNet", "Zhang, Zhou, Lin and Sun 2018", ("DLN-136",),
        {
            "depths": (2,), "channels": (16,), "groups": 2, "first": 4, "epochs": 8, "batch_size": 16,
            "learning_rate": 0.03,
        },
        takes="images, labels",
    ),
    Entry(
        "fcn", "Fully convolutional network (labels of pixels)", "FCN 全卷积网络（像素标签）", "model",
        ("segment",), "gnomon.systems.vision.fcn:FCN", "Long, Shelhamer and Darrell 2015", ("PRA-119",),
        {"channels": (3, 4), "convolutions": 1, "epochs": 8, "batch_size": 16, "learning_rate": 0.03},
        takes="images, labels of pixels",
    ),
    Entry(
        "box-detector", "Box detector (anchor-free detector of objects)", "目标检测（无锚框检测器）", "model",
        ("detect",), "gnomon.systems.vision.box_detector:BoxDetector", "Zhou, Wang and Krähenbühl 2019", ("PRA-113",),
        {"channels": (4, 6), "convolutions": 1, "epochs": 12, "batch_size": 16, "learning_rate": 0.03},
        takes="images, boxes",
    ),
)  # fmt: skip
