"""The bytes of the user's files: what may be opened, how much of it, and text as UTF-8 in blocks of whole lines."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from gnomon.data.form import OF_IMAGES
from gnomon.errors import UserValueError, nearest

__all__ = [
    "BLOCK", "IMAGES", "MAX_BYTES", "MAX_LINE", "READABLE", "blocks", "check_file", "check_sentences", "check_size",
    "kind",
]  # fmt: skip

MAX_BYTES = 8 << 30
"""Largest file, and largest content of an archive, in bytes: a small archive may claim to hold more than memory can."""

MAX_LINE = 256 << 20
"""Longest line of a text, in bytes."""

BLOCK = 32 << 20
"""Bytes of text that are worked on at a time."""

TABLES = (".csv", ".tsv", ".tab", ".dat", ".data")
"""Endings of delimited text."""
RECORDS = (".jsonl", ".ndjson", ".json")
"""Endings of JSON."""
READABLE = (*TABLES, ".parquet", ".xlsx", ".npy", ".npz", *RECORDS, ".txt")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
PACKABLE = (*TABLES, *RECORDS, ".txt")
"""Kinds that may be compressed with gzip: ``t.csv.gz``."""

_BOMS = ((b"\xff\xfe\x00\x00", "utf-32"), (b"\x00\x00\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"),
         (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))  # fmt: skip


def kind(file: Path) -> str:
    """The ending that says what a file holds, in lower case; that of the content where it is compressed.

    Examples
    --------
    >>> kind(Path("a.CSV")), kind(Path("b.jsonl.gz"))
    ('.csv', '.jsonl')
    """
    ending = file.suffix.lower()
    return Path(file.stem).suffix.lower() if ending == ".gz" else ending


def facts(file: Path) -> tuple[str, ...]:
    """What may be said of a file of this kind, or a folder of images: fields of `gnomon.data.form.Form`.

    Examples
    --------
    >>> facts(Path("a.txt")), facts(Path("cat.png"))
    (('encoding',), ('broken', 'framing', 'backdrop', 'depth'))
    """
    ending = kind(file)
    if ending in TABLES:
        return ("encoding", "separator", "decimal", "thousands")
    if ending in (*RECORDS, ".txt"):
        return ("encoding",)
    return tuple(OF_IMAGES) if ending in IMAGES or file.is_dir() else ()


def check_file(file: Path, *, limit: int | None = None) -> None:
    """Refuse what is no file, cannot be read, is empty or larger than `limit` bytes.

    Raises
    ------
    UserValueError
        What is in the way, with the nearest names where a file is missing.
    """
    kinds = f"gnomon reads {', '.join(READABLE)}, and folders of images"
    if file.is_dir():
        raise UserValueError("this is a folder, not a file", str(file), f"name a file: {', '.join(READABLE)}")
    if not file.exists():
        beside = [p.name for p in file.parent.iterdir() if p.is_file()] if file.parent.is_dir() else []
        close = nearest(file.name, beside)
        remedy = f"did you mean {', '.join(map(repr, close))}?" if close else "check the path"
        raise UserValueError("file not found", str(file), remedy)
    packed = file.suffix.lower() == ".gz"
    if kind(file) not in (PACKABLE if packed else READABLE):
        ending = "".join(file.suffixes[-2:]) if packed else file.suffix
        what = f"files of kind {ending}" if ending else "files without an ending"
        raise UserValueError(f"{what} cannot be read", str(file), kinds)
    if not file.is_file():
        raise UserValueError("the path must be a regular file", str(file), "copy its content into a file")
    size = file.stat().st_size
    if size == 0:
        raise UserValueError("the file is empty", str(file), "give a file with data")
    check_size(size, str(file), limit)


def check_size(n_bytes: int, where: str, limit: int | None = None) -> None:
    """Refuse more than `limit` bytes (None: `MAX_BYTES`).

    Raises
    ------
    UserValueError
        How much it is.
    """
    limit = MAX_BYTES if limit is None else limit
    if n_bytes > limit:
        what = f"{n_bytes / 2**30:.3g} GiB are more than the limit of {limit / 2**30:g} GiB"
        raise UserValueError(what, where, "split the data, or read it in chunks with gnomon.data.open")


def blocks(
    file: Path, size: int | None = None, *, limit: int | None = None, encoding: str | None = None
) -> Iterator[tuple[int, bytes]]:
    r"""A text as UTF-8 in blocks of whole lines, each with the number of its first line (from 1).

    A byte-order mark is dropped and chooses the encoding (UTF-8, UTF-16, UTF-32); without one it is UTF-8. ``\r\n`` and
    ``\r`` become ``\n``. Compressed files (.gz) are unpacked on the way.

    Parameters
    ----------
    file : path
    size : int, optional
        Bytes read at a time (None: `BLOCK`); a block may be as much larger as its last line is long.
    limit : int, optional
        Bytes of text after unpacking at which to stop with an error (None: `MAX_BYTES`).
    encoding : str, optional
        What the text is written in, if not in UTF-8 and without a mark.

    Raises
    ------
    UserValueError
        Another encoding, a NUL character, a line longer than `MAX_LINE`, an archive that is damaged or unpacks to more
        than `limit`.

    Notes
    -----
    Memory: about three blocks, whatever the size of the file.
    """
    line, rest = 1, b""
    for data in _lines_end(
        _utf8(file, BLOCK if size is None else size, MAX_BYTES if limit is None else limit, encoding)
    ):
        data = rest + data if rest else data
        cut = data.rfind(b"\n") + 1
        if not cut:
            if len(data) > MAX_LINE:
                raise UserValueError(
                    f"a line is longer than {MAX_LINE >> 20} MiB", f"{file.name}, line {line}", "cut it"
                )
            rest = data
            continue
        block, rest = data[:cut], data[cut:]
        _check_text(block, line, file.name)
        yield line, block
        line += block.count(b"\n")
    if rest:
        _check_text(rest, line, file.name)
        yield line, rest


def _raw(file: Path, size: int, limit: int) -> Iterator[bytes]:
    """The bytes of a file, unpacked."""
    total = 0
    packed = file.suffix.lower() == ".gz"
    try:
        with cast("IO[bytes]", gzip.open(file) if packed else file.open("rb")) as stream:
            while data := stream.read(size):
                total += len(data)
                check_size(total, f"{file.name}, unpacked" if packed else str(file), limit)
                yield data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserValueError(f"the archive is cut off or damaged: {error}", file.name, "copy the file again") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserValueError(f"the file cannot be read: {reason}", str(file), "check its permissions") from None


def _utf8(file: Path, size: int, limit: int, given: str | None = None) -> Iterator[bytes]:
    """UTF-8 without a mark, from the encoding that is given, or that the mark says."""
    decoder, offset = None, 0
    for data in _raw(file, size, limit):
        if not offset:
            marked = next((name for mark, name in _BOMS if data.startswith(mark)), "utf-8")
            encoding = marked if given is None else codecs.lookup(given).name
            if marked == "utf-8-sig" and encoding in ("utf-8", "utf-8-sig"):
                offset, data = 3, data[3:]
            elif encoding not in ("utf-8", "utf-8-sig"):
                decoder = codecs.getincrementaldecoder(encoding)()
        if decoder is None:
            yield data
        else:
            text = _translated(decoder, data, file.name)
            yield text if offset else text.removeprefix(b"\xef\xbb\xbf")
        offset += len(data)
    if decoder is not None:
        yield _translated(decoder, b"", file.name, final=True)


def _translated(decoder: codecs.IncrementalDecoder, data: bytes, name: str, *, final: bool = False) -> bytes:
    try:
        return decoder.decode(data, final).encode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        encoding = error.encoding.upper().removesuffix("-LE").removesuffix("-BE")
        raise UserValueError(f"the text is not {encoding}", name, "name its encoding, or save it as UTF-8") from None
    except UnicodeError as error:  # of codecs without a place: a mark that is missing, a code point that is none
        what = f"the text is not in the encoding that was named: {' '.join(str(error).split())[:80]}"
        raise UserValueError(what, name, "name another, or leave the encoding out: UTF-8") from None


def _lines_end(parts: Iterator[bytes]) -> Iterator[bytes]:
    r"""Every line end as ``\n``; a ``\r`` at the end of a part waits for what follows."""
    held = b""
    for data in parts:
        data = held + data if held else data
        held = b"\r" if data.endswith(b"\r") else b""
        data = data[:-1] if held else data
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        yield data
    if held:
        yield b"\n"


def _check_text(block: bytes, line: int, name: str) -> None:
    """Refuse NUL characters and what is not UTF-8."""
    if b"\0" in block:
        if block.count(b"\0") * 3 > len(block):
            remedy = "--encoding utf-16-le (or utf-16-be) may read it, or save it as UTF-8"
            raise UserValueError("the encoding looks like UTF-16 without a mark", name, remedy)
        raise UserValueError(
            "there is a NUL character in the text", _place(block, block.index(b"\0"), line, name), "remove it"
        )
    if block.isascii():
        return
    try:
        block.decode()
    except UnicodeDecodeError as error:
        where, likely = _place(block, error.start, line, name), likely_encoding(block[error.start :])
        what = f"the text is not UTF-8: byte 0x{block[error.start]:02x}"
        remedy = f'--encoding {likely} reads it (gnomon.data.File(path, encoding="{likely}")), or save it as UTF-8'
        raise UserValueError(what, where, remedy) from None


def likely_encoding(data: bytes) -> str:
    """What a text that is not UTF-8 may be written in: Chinese, Windows or Latin-1.

    Examples
    --------
    >>> likely_encoding("Café".encode("latin-1")), likely_encoding("机器学习".encode("gb18030"))
    ('latin-1', 'gb18030')
    """
    sample = data[: 1 << 16]
    sample = sample[: sample.rfind(b"\n") + 1] or sample
    try:
        wide = [c for c in sample.decode("gb18030") if c > "\x7f"]
        if wide and sum("\u3000" <= c <= "\u9fff" or "\uff00" <= c <= "\uffef" for c in wide) > 0.9 * len(wide):
            return "gb18030"
    except UnicodeDecodeError:
        pass
    return "cp1252" if any(0x80 <= byte < 0xA0 for byte in sample) else "latin-1"


def _place(block: bytes, i: int, line: int, name: str) -> str:
    start = block.rfind(b"\n", 0, i) + 1
    column = len(block[start:i].decode("utf-8", "replace")) + 1
    return f"{name}, line {line + block.count(bytes([10]), 0, i)}, column {column}"


NO_TEXT = (*TABLES, ".parquet", ".xlsx", ".npy", ".npz")
"""Endings of tables."""


def check_sentences(file: Path, where: str) -> None:
    """Refuse what is no file of sentences, a line each.

    Raises
    ------
    UserValueError
        A folder, a table.
    """
    if file.is_dir() or kind(file) in NO_TEXT:
        what = f"a text must be a .txt or .jsonl file, got {'a folder' if file.is_dir() else f'a {kind(file)} file'}"
        raise UserValueError(what, where, "write a sentence on each line")
