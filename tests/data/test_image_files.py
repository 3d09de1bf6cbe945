"""Folders of real small files: sizes, depths, grey and colors, transparency, cameras on their side, broken ones."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run
from gnomon.data import CenterCrop, File, Resize, ResizeCrop, load
from gnomon.data.images import image_names
from gnomon.errors import UserError

Image = pytest.importorskip("PIL.Image")


def picture(rows: int = 6, columns: int = 8, channels: int = 0, seed: int = 0) -> Any:
    shape = (rows, columns, channels) if channels else (rows, columns)
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def save(file: Path, pixels: Any, **options: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(file, **options)
    return file


def pixels(data: gnomon.data.Dataset) -> Any:
    assert data.X is not None and data.images is not None
    return data.X.reshape(-1, *data.images)


# --- what a file holds --------------------------------------------------------------------------------------------


def test_depths_and_modes_are_kept(tmp_path):
    deep = (256 * picture().astype(np.uint16)) + 7
    for name, given, levels in (("grey.png", picture(), 256), ("deep.png", deep, 65536), ("deep.tiff", deep, 65536),
                                ("color.png", picture(channels=3), 256)):  # fmt: skip
        data = load(save(tmp_path / name, given))
        assert data.levels == levels and np.array_equal(pixels(data)[0], given), name
    big = Image.frombytes("I;16B", (8, 6), deep.astype(">u2").tobytes())
    big.save(tmp_path / "big.tiff")
    data = load(tmp_path / "big.tiff")
    assert data.levels == 65536 and np.array_equal(pixels(data)[0], deep)
    bits = (picture() > 128).astype(np.uint8) * 255
    Image.fromarray(bits).convert("1").save(tmp_path / "bits.png")
    assert np.array_equal(pixels(load(tmp_path / "bits.png"))[0], bits)
    Image.fromarray(picture(channels=3)).quantize(256).save(tmp_path / "palette.png")
    assert pixels(load(tmp_path / "palette.png")).shape == (1, 6, 8, 3)


def test_images_of_16_bits_go_with_others_where_that_is_said(tmp_path):
    levels = np.arange(256, dtype=np.uint16).reshape(16, 16)
    save(tmp_path / "p" / "a" / "1.png", np.minimum(257 * levels.astype(np.int64) + 100, 65535).astype(np.uint16))
    save(tmp_path / "p" / "b" / "1.png", picture(16, 16))
    with pytest.raises(UserError, match=r"16 bits, some have 8 .*--depth 8"):
        load(tmp_path / "p")
    data = load(File(tmp_path / "p", depth="8"))
    assert data.levels == 256 and np.array_equal(pixels(data)[0], levels)  # 257 k + 100 is nearest to k
    save(tmp_path / "p" / "b" / "1.png", picture(16, 16, 3))
    data = load(File(tmp_path / "p", depth="8"))
    assert np.array_equal(pixels(data)[0], np.repeat(levels[..., None], 3, 2))


WRITERS = {
    "png": {},
    "webp": {"lossless": True},
    "tiff": {},
    "tif": {"compression": "tiff_lzw"},
    "jpg": {"quality": 100},
}


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_upright_as_their_camera_says(orientation, ending, tmp_path):
    upright = picture(5, 7, 3)
    ways = {
        1: upright, 2: upright[:, ::-1], 3: upright[::-1, ::-1], 4: upright[::-1], 5: upright.swapaxes(0, 1),
        6: np.rot90(upright), 7: upright[::-1, ::-1].swapaxes(0, 1), 8: np.rot90(upright, -1),
    }  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    given = np.repeat(np.ascontiguousarray(ways[orientation])[..., :1], 3, 2)  # grey: JPEG mixes colors of neighbors
    save(tmp_path / "p" / "a" / f"1.{ending}", given, exif=exif, **WRITERS[ending])
    save(tmp_path / "p" / "b" / "1.png", picture(5, 7, 3, seed=1))  # the sizes agree only upright
    found = pixels(load(tmp_path / "p"))
    assert found.shape == (2, 5, 7, 3)
    assert np.abs(found[0] - upright[..., :1]).max() <= (3 if ending == "jpg" else 0)


def test_transparent_pixels_need_a_background(tmp_path):
    for channels, name in ((4, "colors.png"), (2, "grey.png")):
        layers = picture(channels=channels)
        layers[..., -1] = np.where(picture(seed=2) > 128, 255, 51)
        file = save(tmp_path / name, layers)
        with pytest.raises(UserError, match=r"transparent .*--backdrop white"):
            load(file)
        for word, behind in (("white", 255), ("black", 0)):
            alpha = layers[..., -1:].astype(float) / 255
            wanted = alpha * layers[..., :-1] + (1 - alpha) * behind
            found = pixels(load(File(file, backdrop=word)))[0].reshape(wanted.shape)
            assert np.abs(found - wanted).max() <= 1
        layers[..., -1] = 255  # an opaque image is no matter
        opaque = pixels(load(save(tmp_path / name, layers)))[0]
        assert np.array_equal(opaque.reshape(layers[..., :-1].shape), layers[..., :-1])


def test_sizes_are_brought_to_one_by_the_framing_that_is_said(tmp_path):
    stripes = np.tile((np.arange(30) * 8).astype(np.uint8), (12, 1))
    save(tmp_path / "p" / "a" / "1.png", stripes)
    save(tmp_path / "p" / "a" / "2.png", np.full((9, 7), 77, np.uint8))
    with pytest.raises(UserError, match=r"9 x 7 pixels, a/1\.png has 12 x 30"):
        load(tmp_path / "p")
    size, image = (6, 6), stripes[None].astype(float)
    for framing, step in (
        ("resize", Resize(size)),
        ("resize-crop", ResizeCrop(size)),
        ("center-crop", CenterCrop(size)),
    ):
        found = pixels(load(File(tmp_path / "p", framing=framing), resize=size))
        assert np.abs(found[0] - step.transform(image)[0]).max() <= 1.01, framing  # Pillow rounds after each axis
        assert (found[1] == 77).all()  # a constant image stays constant
    plain = load(tmp_path / "p", resize=size)
    assert np.array_equal(plain.X, load(File(tmp_path / "p", framing="resize"), resize=size).X)
    with pytest.raises(UserError, match=r"a/2.png.* 9 x 7 pixels, too few for a crop of 8 x 8|too few .*a/2.png"):
        load(File(tmp_path / "p", framing="center-crop"), resize=(8, 8))
    with pytest.raises(UserError, match="needs a size"):
        load(File(tmp_path / "p", framing="center-crop"))
    deep = save(tmp_path / "deep.png", 257 * picture(12, 30).astype(np.uint16))
    shallow = save(tmp_path / "shallow.png", picture(12, 30))
    for framing in ("resize", "resize-crop", "center-crop"):
        found, half = (pixels(load(File(file, framing=framing), resize=size))[0] for file in (deep, shallow))
        assert np.abs(found / 257 - half).max() <= 1.01


def test_forms_are_refused_where_they_say_nothing(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    save(tmp_path / "p" / "1.png", picture())
    for file, words in (
        (File(tmp_path / "t.csv", broken="skip"), "a .csv file is read without broken"),
        (File(tmp_path / "p", decimal=","), "a folder of images is read without decimal"),
    ):
        with pytest.raises(UserError, match=words):
            load(file)
    for options, words in (
        ({"broken": "no"}, "refuse or skip"),
        ({"depth": 8}, "text"),
        ({"backdrop": "red"}, "white"),
    ):
        with pytest.raises(UserError, match=words):
            File("p", **options)


# --- broken files -------------------------------------------------------------------------------------------------


def png(pixels: Any) -> bytes:
    """A PNG of colors of 16 bits, which no writer here makes."""

    def part(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    rows, columns = pixels.shape[:2]
    lines = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", columns, rows, 16, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(lines)) + part(b"IEND", b"")


def test_colors_of_16_bits_become_colors_of_8(tmp_path):
    deep = 257 * picture(channels=3).astype(np.uint16)
    (tmp_path / "deep.png").write_bytes(png(deep))
    data = load(tmp_path / "deep.png")
    assert data.levels == 256 and np.array_equal(pixels(data)[0], deep // 257)


BROKEN = ("cut", "text", "empty", "header")


def mixed(folder: Path, n: int, broken: Sequence[int] = ()) -> Path:
    """Bright and dark pictures of all kinds of files, sizes, modes and cameras, some of them broken."""
    random = np.random.default_rng(0)
    for i in range(n):
        rows, columns = (int(side) for side in random.integers(20, 40, 2))
        image = np.clip(random.normal(70 if i % 2 else 170, 30, (rows, columns, 3)), 0, 255).astype(np.uint8)
        options: dict[str, Any] = {}
        ending = ("png", "jpg", "bmp", "webp", "tiff")[i % 5]
        if i % 7 == 1:
            image = image[..., 0]
        elif i % 7 == 2 and ending in ("png", "tiff"):
            image = np.dstack([image, np.full((rows, columns), 128 if i % 3 else 255, np.uint8)])
        elif i % 7 == 3 and ending in ("png", "tiff"):
            image = 257 * image[..., 0].astype(np.uint16)
        elif i % 7 == 4 and ending in ("png", "jpg"):
            options["exif"] = Image.Exif()
            options["exif"][0x0112] = 6
        file = save(folder / ("dark" if i % 2 else "bright") / f"{i:05d}.{ending}", image, **options)
        if i in broken:
            content = file.read_bytes()
            way = BROKEN[broken.index(i) % len(BROKEN)]
            file.write_bytes(
                {"cut": content[: len(content) // 2], "text": b"a page", "empty": b"", "header": content[:20]}[way]
            )
    return folder


BAD = (3, 60, 121, 150, 199, 231)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return mixed(tmp_path_factory.mktemp("mixed") / "scans", 240, BAD)


OPTIONS = {"backdrop": "white", "depth": "8", "framing": "resize-crop"}


def test_a_folder_with_broken_images_is_refused_or_read_without_them(folder):
    with pytest.raises(UserError, match=r"cannot be read.*scans/.*--broken skip"):
        load(File(folder, **OPTIONS), resize=(16, 16))
    with pytest.warns(UserWarning, match="images are left out") as told:
        data = load(File(folder, broken="skip", **OPTIONS), resize=(16, 16))
    assert len(told) == 1
    text = str(told[0].message)
    assert text.startswith("6 images are left out (scans/") and text.endswith("; and 1 more)")
    assert pixels(data).shape == (234, 16, 16, 3)
    names = image_names(folder, data.source["left_out"])
    assert len(names) == 234 and not {int(Path(name).stem) for name in names} & set(BAD)
    assert [name.split("/")[0] for name in names] == list(data.y)
    means = data.X.mean(1)
    assert means[data.y == "bright"].min() > means[data.y == "dark"].max() - 80
    for row, name in enumerate(names):
        if name.endswith(".bmp"):  # neither transparent nor deep: the row is that of the file
            wanted = float(np.asarray(Image.open(folder / name).convert("RGB")).mean())
            assert abs(wanted - float(means[row])) < 12


@pytest.mark.filterwarnings("default:.*left out")
def test_a_run_says_the_broken_once_and_reads_the_same_images_again(folder, tmp_path, capsys):
    out = tmp_path / "run"
    options = [
        "--resize",
        "12x12",
        "--broken",
        "skip",
        "--backdrop",
        "white",
        "--depth",
        "8",
        "--framing",
        "resize-crop",
    ]
    fit = ["fit", "cnn", str(folder), "--layers", "4c3-p2-8", "--epochs", "2", "--out", str(out)]
    assert run([*fit, *options[:2]]) == 2
    assert "--broken skip" in capsys.readouterr().err and not out.exists()
    assert run([*fit, *options]) == 0
    err = capsys.readouterr().err
    assert err.count("6 images are left out") == 1 and err.count("scans/bright/00060.png") == 1
    assert json.loads((out / "config.json").read_text())["data"]["form"] == {"broken": "skip", **OPTIONS}
    assert run(["evaluate", str(out)]) == 0
    assert "accuracy" in capsys.readouterr().out
    assert run(["predict", str(out), str(folder), "--keep", "file"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 235 and not any("00060" in line for line in lines)
    assert run(["report", str(out)]) == 0


def test_a_class_without_any_image_that_can_be_read_is_refused(tmp_path):
    save(tmp_path / "p" / "a" / "1.png", picture())
    for name in ("1.png", "2.png"):
        (tmp_path / "p" / "b").mkdir(exist_ok=True)
        (tmp_path / "p" / "b" / name).write_bytes(b"no picture")
    with pytest.raises(UserError, match=r"no image of the folder can be read .*p/b"):
        load(File(tmp_path / "p", broken="skip"))
    (tmp_path / "p" / "a" / "1.png").write_bytes(b"")
    with pytest.raises(UserError, match="cannot be read"):
        load(File(tmp_path / "p", broken="skip"))


def test_masks_are_framed_as_their_images_and_left_out_with_them(tmp_path):
    labels = {"1": np.zeros((12, 30), np.uint8), "2": np.zeros((20, 9), np.uint8)}
    for name, mask in labels.items():
        mask[4:8, :5], mask[:, -4:] = 1, 2
        save(tmp_path / "p" / "images" / f"{name}.png", 100 * mask)
        save(tmp_path / "p" / "masks" / f"{name}.png", mask)
    (tmp_path / "p" / "images" / "0.png").write_bytes(b"no picture")
    for framing in ("resize-crop", "center-crop"):
        size = (9, 9)
        with pytest.warns(UserWarning, match=r"1 image is left out \(images/0\.png"):
            data = load(File(tmp_path / "p", framing=framing, broken="skip"), resize=size)
        assert data.masks is not None and data.masks.shape == (2, 9, 9)
        differ = np.abs(pixels(data) - 100 * data.masks) > 50.0
        assert differ.mean() < (0.1 if framing == "resize-crop" else 1e-9)
