"""Names and shapes of torchvision's state dicts, in its order, as its sources make them (release 0.28)."""

from collections.abc import Iterator

NORM = ("weight", "bias", "running_mean", "running_var")


def _norm(name: str, channels: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    for part in NORM:
        yield f"{name}.{part}", (channels,)
    yield f"{name}.num_batches_tracked", ()


def resnet(
    depths: tuple[int, ...], classes: int, *, bottleneck: bool = False, groups: int = 1, width: int = 64
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """resnet18 by (2, 2, 2, 2), resnet50 by (3, 4, 6, 3) and bottlenecks, resnext50_32x4d with 32 groups of width 4."""
    yield "conv1.weight", (64, 3, 7, 7)
    yield from _norm("bn1", 64)
    inputs = 64
    for number, depth in enumerate(depths):
        planes = 64 * 2**number
        outputs = planes * 4 if bottleneck else planes
        inner = planes * width // 64 * groups
        sizes = [(inner, 1, 1), (inner, 3, groups), (outputs, 1, 1)] if bottleneck else [(planes, 3, 1), (planes, 3, 1)]
        for block in range(depth):
            name, channels = f"layer{number + 1}.{block}", inputs
            for k, (out, side, parts) in enumerate(sizes, 1):
                yield f"{name}.conv{k}.weight", (out, channels // parts, side, side)
                yield from _norm(f"{name}.bn{k}", out)
                channels = out
            if not block and (number or bottleneck):
                yield f"{name}.downsample.0.weight", (outputs, inputs, 1, 1)
                yield from _norm(f"{name}.downsample.1", outputs)
            inputs = outputs
    yield "fc.weight", (classes, inputs)
    yield "fc.bias", (classes,)


def densenet121(classes: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Its four blocks, with growth 32."""
    yield "features.conv0.weight", (64, 3, 7, 7)
    yield from _norm("features.norm0", 64)
    channels = 64
    for number, depth in enumerate((6, 12, 24, 16), 1):
        for layer in range(1, depth + 1):
            name = f"features.denseblock{number}.denselayer{layer}"
            yield from _norm(f"{name}.norm1", channels)
            yield f"{name}.conv1.weight", (128, channels, 1, 1)
            yield from _norm(f"{name}.norm2", 128)
            yield f"{name}.conv2.weight", (32, 128, 3, 3)
            channels += 32
        if number < 4:
            yield from _norm(f"features.transition{number}.norm", channels)
            channels //= 2
            yield f"features.transition{number}.conv.weight", (channels, 2 * channels, 1, 1)
    yield from _norm("features.norm5", channels)
    yield "classifier.weight", (classes, channels)
    yield "classifier.bias", (classes,)


def vgg11(classes: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Without its hidden dense layers, as the answers in torchvision.json are made."""
    inputs = 3
    for place, channels in zip((0, 3, 6, 8, 11, 13, 16, 18), (64, 128, 256, 256, 512, 512, 512, 512), strict=True):
        yield f"features.{place}.weight", (channels, inputs, 3, 3)
        yield f"features.{place}.bias", (channels,)
        inputs = channels
    yield "classifier.weight", (classes, 2048)
    yield "classifier.bias", (classes,)


BLOCKS = {
    "3a": (64, 96, 128, 16, 32, 32), "3b": (128, 128, 192, 32, 96, 64), "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64), "4c": (128, 128, 256, 24, 64, 64), "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128), "5a": (256, 160, 320, 32, 128, 128), "5b": (384, 192, 384, 48, 128, 128),
}  # fmt: skip
"""Channels of GoogLeNet's blocks, in the order of torchvision's arguments."""


def googlenet(classes: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """With a tensor of an auxiliary head, which the network in prediction has not."""

    def unit(name: str, inputs: int, outputs: int, side: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield f"{name}.conv.weight", (outputs, inputs, side, side)
        yield from _norm(f"{name}.bn", outputs)

    yield from unit("conv1", 3, 64, 7)
    yield from unit("conv2", 64, 64, 1)
    yield from unit("conv3", 64, 192, 3)
    inputs = 192
    for name, (one, a, three, b, five, pooled) in BLOCKS.items():
        block = f"inception{name}"
        yield from unit(f"{block}.branch1", inputs, one, 1)
        yield from unit(f"{block}.branch2.0", inputs, a, 1)
        yield from unit(f"{block}.branch2.1", a, three, 3)
        yield from unit(f"{block}.branch3.0", inputs, b, 1)
        yield from unit(f"{block}.branch3.1", b, five, 3)
        yield from unit(f"{block}.branch4.1", inputs, pooled, 1)
        inputs = one + three + five + pooled
    yield "aux1.fc2.weight", (classes, 1024)
    yield "fc.weight", (classes, inputs)
    yield "fc.bias", (classes,)


NAMES = {
    "googlenet": googlenet,
    "vgg11": lambda classes: vgg11(classes),
    "resnet18": lambda classes: resnet((2, 2, 2, 2), classes),
    "resnet50": lambda classes: resnet((3, 4, 6, 3), classes, bottleneck=True),
    "resnext50_32x4d": lambda classes: resnet((3, 4, 6, 3), classes, bottleneck=True, groups=32, width=4),
    "densenet121": densenet121,
}
"""By network."""
