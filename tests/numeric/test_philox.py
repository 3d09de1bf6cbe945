"""Philox against its published answers, and the two backends against each other, bit for bit."""

import numba
import numpy as np
import pytest
import torch

from gnomon.numeric import philox, philox_torch
from gnomon.numeric.noise import Noise

# Counter, key, answer: Random123's known-answer file for philox4x32, ten rounds.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
WIDTHS = [1, 2, 3, 4, 5, 7, 61, 63, 64, 65, 66, 503]
PLACES = np.array([5, 3, 99, 1_000_000, 2**32 - 1])


def words_of(text):
    return [int(word, 16) for word in text.split()]


@numba.njit
def block(c0, c1, c2, c3, k0, k1):
    return philox.philox(c0, c1, c2, c3, k0, k1)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers(counter, key, answer):
    got = block(*map(np.uint32, words_of(counter)), *map(np.uint32, words_of(key)))
    assert [int(word) for word in got] == words_of(answer)
    tensors = philox_torch.philox(*(torch.tensor([c]) for c in words_of(counter)), *words_of(key))
    assert [int(word) for word in tensors] == words_of(answer)


def plain(counter, key):
    """Philox4x32-10 in whole numbers of Python, written apart from both backends."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        high0, low0 = divmod(c0 * 0xD2511F53, 2**32)
        high1, low1 = divmod(c2 * 0xCD9E8D57, 2**32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return [c0, c1, c2, c3]


@pytest.mark.parametrize("bit", range(32))
def test_every_bit_of_an_address_counts(bit):
    noise, number = Noise(7, "fit/negative"), 1 << bit
    key = noise.address(1)[:2]
    assert noise.at(number).words((1, 4))[0].tolist() == plain((0, 0, 0, number), key)
    assert noise.rows([number]).words((1, 4))[0].tolist() == plain((0, number, 0, 0), key)
    if bit < 31:
        assert noise.words((1, 4), number)[0].tolist() == plain((0, 0, number, 0), key)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_row_of_words_is_the_blocks_of_its_address(width):
    k0, k1 = 0xA4093822, 0x299F31D0
    out = np.empty((len(PLACES), width), np.uint32)
    philox.words(out, PLACES.astype(np.uint32), 7, 11, k0, k1)
    u = np.uint32
    for place, row in zip(PLACES, out, strict=True):
        blocks = [block(u(b), u(place), u(7), u(11), u(k0), u(k1)) for b in range(-(-width // 4))]
        assert np.array_equal(np.array(blocks).reshape(-1)[:width], row)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_backends_agree_bit_for_bit(width, dtype):
    noise = Noise(7, "fit/negative").at(17).rows(PLACES)
    places, address = torch.from_numpy(PLACES), (2, 17, noise._k0, noise._k1)
    kind = torch.from_numpy(np.empty(0, dtype)).dtype
    shape = (len(PLACES), width)
    logits = np.random.default_rng(width).normal(0, 4, shape).astype(dtype)
    p = np.random.default_rng(width).random(shape).astype(dtype)

    words = philox_torch.words(places, width, *address).numpy()
    assert np.array_equal(noise.words(shape, 2), words)
    uniform = philox_torch.uniform(places, width, kind, *address).numpy()
    assert np.array_equal(noise.uniform(shape, 2, dtype=dtype), uniform)
    ones = philox_torch.bernoulli(torch.from_numpy(p), places, *address).numpy()
    assert np.array_equal(noise.bernoulli(p, 2), ones)
    ones = philox_torch.bernoulli_logits(torch.from_numpy(logits), places, *address).numpy()
    assert np.array_equal(noise.bernoulli_logits(logits, 2), ones)

    normal = philox_torch.normal(places, width, kind, *address).numpy()
    ours = noise.normal(shape, 2, dtype=dtype)
    # torch's float64 square root on a CPU may be a unit off, which in the product with a cosine may be two.
    slack = 0 if dtype == np.float32 else 2 * np.spacing(np.abs(ours))
    assert (np.abs(normal - ours) <= slack).all()


@pytest.mark.parametrize("high", [1, 2, 10, 2**16, 2**32 - 1, 2**32, 3 * 2**40 + 7, 2**63 - 1])
def test_integers_are_multiply_high(high):
    noise = Noise(7, "subset").at(3).rows(PLACES)
    words = np.empty((5, 9), np.uint64)
    k0, k1, update, places = noise.address()
    philox.words64(words, places, 4, update, k0, k1)
    exact = [[int(word) * high >> 64 for word in row] for row in words]
    got = noise.integers(high, (5, 9), 4)
    assert got.dtype == np.int64
    assert got.tolist() == exact
    tensor = philox_torch.integers(high, torch.from_numpy(PLACES), 9, 4, update, k0, k1)
    assert tensor.tolist() == exact


def test_extreme_words_stay_inside_the_open_interval():
    @numba.njit(error_model="numpy")
    def ends(low, high):
        narrow, wide = np.uint32(low), np.uint64(low) << np.uint64(32) | np.uint64(low)
        top = np.uint64(high) << np.uint64(32) | np.uint64(high)
        return philox.unit32(narrow), philox.unit32(np.uint32(high)), philox.unit64(wide), philox.unit64(top)

    zero32, one32, zero64, one64 = ends(0, 2**32 - 1)
    assert zero32 == 2.0**-24 and one32 == 1 - 2.0**-24
    assert zero64 == 2.0**-53 and one64 == 1 - 2.0**-53


def test_normals_of_extreme_words_are_finite():
    @numba.njit(error_model="numpy")
    def ends(a, b):
        wide = np.uint64(a) << np.uint64(32) | np.uint64(a)
        other = np.uint64(b) << np.uint64(32) | np.uint64(b)
        return philox.gauss32(np.uint32(a), np.uint32(b)), philox.gauss64(wide, other)

    for a in (0, 1, 2**31, 2**32 - 1):
        for b in (0, 2**29, 2**30 - 1, 2**30, 2**31, 2**32 - 1):
            single, double = ends(a, b)
            assert np.isfinite(single).all() and np.isfinite(double).all()
            assert np.hypot(*single) < 6.67 and np.hypot(*double) < 8.58
