"""Subword tokenization of a streamed text: seconds, megabytes a second and peak memory, beside the bare package.

    python benchmarks/tokenizing.py [MEGABYTES]

The text is the lines of Python's reference again and again with numbered words, so that new words keep coming, in
a temporary file. The pieces are learned from the file and every line is cut, both as a stream. The bound is the package
tokenizers itself on the same lines in one thread; what is added is the stream and the arrays of ids.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one thread for both

import gnomon


def write(file: Path, megabytes: float) -> None:
    """The text."""
    text, n = gnomon.data.load("python-reference").view("text"), 0
    with file.open("w", encoding="utf-8") as out:
        number = 0
        while n < megabytes * 1e6:
            for line in text:
                number += 1
                n += out.write(f"{line} {number // 7}\n")


def peak() -> float:
    """Most memory of this process so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def lines(file: Path):
    """The lines, one at a time."""
    with file.open(encoding="utf-8") as text:
        yield from (line.rstrip("\n") for line in text)


def main(megabytes: float) -> None:
    """Print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "text.txt")
        write(file, megabytes)
        size, before = file.stat().st_size / 1e6, peak()
        print(f"{size:.0f} MB; memory before: {before:.0f} MB")
        for kind in ("bpe", "byte-bpe", "wordpiece"):
            begin = time.process_time()
            tokenizer = gnomon.SubwordTokenizer.train(file, 8000, kind)
            learned = time.process_time()
            n = sum(len(ids) for ids in tokenizer.encode_all(lines(file)))
            cut = time.process_time()
            bare, some = 0, []
            for line in lines(file):
                some.append(line)
                if len(some) == 1000:
                    bare += sum(len(one.ids) for one in tokenizer._tokenizer.encode_batch_fast(some))
                    some = []
            ratio = (cut - learned) / (time.process_time() - cut)
            print(
                f"{kind}: learned in {learned - begin:.1f} s, cut {n} pieces in {cut - learned:.1f} s "
                f"({size / (cut - learned):.1f} MB/s), {ratio:.2f} of the bare package; peak memory {peak():.0f} MB"
            )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 100.0)
