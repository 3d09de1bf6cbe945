"""Noise: what an address is, what depends on it, and that the numbers are what they claim to be.

Every random test has fixed seeds and fails a right generator with probability below 1e-4 (P) per assertion, that is
for fewer than one choice of the seeds in a hundred for the file.
"""

import copy
import hashlib
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy import stats

from gnomon.contracts import Noise as NoiseContract
from gnomon.contracts import supports
from gnomon.errors import UserError, UserTypeError
from gnomon.numeric import fast
from gnomon.numeric.noise import AddressReused, Noise, recording, seed_of

P = 1e-4
FROZEN = {
    "words": [[1334014156, 396807447, 1905913617], [436987317, 1768976805, 442617802]],
    "integers": [[814, 55, 456], [486, 787, 471]],
    "order": [4, 2, 5, 1, 6, 7, 3, 0],
    "normal": [1046465509, 1058683791, 1067300729],
    "normal64": [4597042163412790961, 4603601798445966412, 4608227981124381648],
}


def draws(noise, shape, draw):
    """One draw of every kind."""
    logits = np.linspace(-3, 3, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    return {
        "words": noise.words(shape, draw),
        "uniform": noise.uniform(shape, draw),
        "uniform64": noise.uniform(shape, draw, dtype=np.float64),
        "normal": noise.normal(shape, draw),
        "normal64": noise.normal(shape, draw, dtype=np.float64),
        "logits": noise.bernoulli_logits(np.zeros_like(logits), draw),
        "integers": noise.integers(1000, shape, draw),
    }


def test_keeps_the_contract():
    assert supports(Noise(0, "a"), NoiseContract)


def test_key_is_the_digest_of_seed_and_path():
    digest = hashlib.blake2b(b"gnomon-noise-1\x007\x00fit/negative", digest_size=8).digest()
    k0, k1, update, places = Noise(7, "fit").child("negative").at(9).address(3)
    assert (k0).to_bytes(4, "little") + (k1).to_bytes(4, "little") == digest
    assert update == 9 and places.tolist() == [0, 1, 2] and places.dtype == np.uint32


def test_numbers_are_frozen():
    """A release that changes these changes every fit: it needs a new prefix in the key."""
    noise = Noise(7, "fit").child("negative").at(3)
    assert noise.words((2, 3), 1).tolist() == FROZEN["words"]
    assert noise.integers(1000, (2, 3)).tolist() == FROZEN["integers"]
    assert noise.order(8).tolist() == FROZEN["order"]
    assert np.array_equal(noise.normal((1, 3)).view(np.uint32), [FROZEN["normal"]])
    assert np.array_equal(noise.normal((1, 3), dtype=np.float64).view(np.uint64), [FROZEN["normal64"]])


@pytest.mark.parametrize("width", [1, 3, 4, 10, 63, 64, 500, 501])
def test_rows_are_a_slice_of_the_whole(width):
    noise = Noise(1, "fit").at(5)
    whole = draws(noise.rows(np.arange(200)), (200, width), 2)
    shared = draws(noise, (200, width), 2)
    for rows in (np.arange(70), np.arange(70, 200), np.array([199, 0, 73])):
        part = draws(noise.rows(rows), (len(rows), width), 2)
        for kind, value in part.items():
            assert np.array_equal(value, whole[kind][rows]), kind
            assert np.array_equal(value, shared[kind][rows]), kind


def test_rows_are_taken_from_where_they_were_placed():
    placed, shared = Noise(1, "fit").at(5).rows(np.arange(50, 90)), Noise(1, "fit").at(5)
    some = np.array([39, 0, 7, 7])
    for noise in (placed, shared):
        whole = draws(noise, (40, 9), 2)
        for kind, value in draws(noise.child("x").take(some), (4, 9), 2).items():
            assert np.array_equal(value, draws(noise.child("x"), (40, 9), 2)[kind][some]), kind
        for kind, value in draws(noise.part(3, 11), (8, 9), 2).items():
            assert np.array_equal(value, whole[kind][3:11]), kind
        twice = noise.take(np.arange(10, 30)).take([5, 1])
        assert np.array_equal(twice.uniform((2, 3)), noise.uniform((40, 3))[[15, 11]])
    for wrong in ([40], [-1]):
        with pytest.raises(ValueError, match=rf"indices must be in \[0, 40\), the rows of this stream, got {wrong[0]}"):
            placed.take(wrong)


@pytest.mark.parametrize("short", [1, 2, 3, 5, 30, 63, 65, 499])
def test_a_short_row_begins_a_long_one(short):
    noise = Noise(1, "fit")
    long = draws(noise, (6, 502), 0)
    for kind, value in draws(noise, (6, short), 0).items():
        assert np.array_equal(value, long[kind][:, :short]), kind


def test_shape_is_only_a_way_to_number_the_elements():
    noise = Noise(1, "fit")
    flat = noise.normal((4, 30))
    assert np.array_equal(noise.normal((4, 5, 6)), flat.reshape(4, 5, 6))
    assert np.array_equal(noise.normal((4, 5, 6), like=torch.empty(0)).numpy(), flat.reshape(4, 5, 6))
    assert np.array_equal(noise.uniform(4), noise.uniform((4, 9))[:, 0])
    assert noise.uniform(()).shape == () and noise.uniform((0, 3)).shape == (0, 3) and noise.normal((3, 0)).size == 0
    p = np.random.default_rng(0).random((6, 8)).astype(np.float32)
    for view in (p.T.copy().T, np.asfortranarray(p), p[::-1][::-1]):
        assert np.array_equal(noise.bernoulli(view), noise.bernoulli(p))
    p.flags.writeable = False
    assert noise.bernoulli(p).shape == (6, 8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tensors_answer_in_kind_with_the_same_numbers(dtype):
    noise = Noise(1, "fit").at(2)
    x = np.random.default_rng(0).normal(0, 2, (7, 33)).astype(dtype)
    t = torch.from_numpy(x).requires_grad_()
    ones = noise.bernoulli_logits(t, 1)
    assert ones.dtype == t.dtype and not ones.requires_grad
    assert np.array_equal(ones.numpy(), noise.bernoulli_logits(x, 1))
    p = fast.sigmoid(x)
    assert np.array_equal(noise.bernoulli(torch.from_numpy(p), 1).numpy(), noise.bernoulli(p, 1))
    like = torch.empty(0, dtype=t.dtype)
    assert np.array_equal(noise.normal((3, 5), 1, like=like).numpy(), noise.normal((3, 5), 1, dtype=dtype))
    assert np.array_equal(noise.uniform((3, 5), like=np.empty(0, dtype)), noise.uniform((3, 5), like=like).numpy())
    transposed = torch.from_numpy(x.T.copy()).T
    assert np.array_equal(noise.bernoulli_logits(transposed, 1).numpy(), ones.numpy())
    assert noise.integers(9, (3, 2), like=like).tolist() == noise.integers(9, (3, 2)).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_are_compared_through_the_sigmoid(dtype):
    x = np.random.default_rng(3).normal(0, 5, (50, 401)).astype(dtype)
    x[0, :8] = [np.inf, -np.inf, np.nan, 1e30, -1e30, 90, -90, 0]
    noise = Noise(2, "fit")
    ones = noise.bernoulli_logits(x, 3)
    assert np.array_equal(ones, noise.bernoulli(fast.sigmoid(x), 3))
    assert np.array_equal(ones == 1, noise.uniform(x.shape, 3, dtype=dtype) < fast.sigmoid(x))
    assert ones[0, :7].tolist() == [1, 0, 0, 1, 0, 1, 0]


def test_both_dtypes_draw_the_same_number():
    noise = Noise(3, "fit").at(1)
    single, double = noise.uniform((40, 501), 2), noise.uniform((40, 501), 2, dtype=np.float64)
    assert single.dtype == np.float32 and double.dtype == np.float64
    assert np.abs(single - double).max() <= 2.0**-24
    single, double = noise.normal((40, 501), 2), noise.normal((40, 501), 2, dtype=np.float64)
    middle = np.abs(double) < 4
    assert np.abs(single - double)[middle].max() < 1e-5


def test_streams_differ_in_every_part_of_the_address():
    base = Noise(1, "fit").at(1)
    others = [
        (Noise(2, "fit").at(1), 0), (Noise(1, "fits").at(1), 0), (base.child("a"), 0), (base.at(2), 0), (base, 1),
        (base.rows(np.arange(8) + 100), 0),
    ]  # fmt: skip
    first = base.words((8, 100))
    for other, draw in others:
        assert (other.words((8, 100), draw) == first).mean() < 0.01


def test_a_wrong_address_is_refused_in_one_line():
    noise = Noise(0, "fit")
    for update in (-1, 2**32):
        with pytest.raises(OverflowError, match="update"):
            noise.at(update)
    for draw in (-1, 2**31):
        with pytest.raises(OverflowError, match="draw"):
            noise.uniform((2, 2), draw)
    for place in (-1, 2**32):
        with pytest.raises(OverflowError, match=rf"positions must be in \[0, 2\*\*32\), got {place} at index 1"):
            noise.rows([3, place])
    for call, message in (
        (lambda: noise.uniform(-1), "shape must have at least 0 rows, got -1"),
        (lambda: noise.words((-2, 3)), "shape must have at least 0 rows, got -2"),
        (lambda: noise.normal((2, -3)), r"a row must have 0 to 2\*\*34 elements, got -3 \(shape\)"),
        (lambda: noise.integers(9, -1), "shape must have at least 0 rows, got -1"),
        (lambda: noise.order(-1), "shape must have at least 0 rows, got -1"),
        (lambda: noise.uniform(2.5), r"shape must be an int or a sequence of ints, got 2\.5"),
        (lambda: noise.uniform((2.5, 1)), r"shape must be an integer, got 2\.5"),
        (lambda: noise.uniform(None), "shape must be an int or a sequence of ints, got None"),
        (lambda: noise.uniform((2, 2), 0.5), r"draw must be an integer, got 0\.5"),
        (lambda: noise.uniform(2, 2**31), r"draw must be in \[0, 2\*\*31\), got 2147483648; count draws"),
        (lambda: noise.at(1.5), r"update must be an integer, got 1\.5"),
        (lambda: Noise("a", "fit"), "seed must be an integer, got 'a'"),
        (lambda: noise.integers(0, 3), r"high must be in \[1, 2\*\*63 - 1\], got 0"),
        (lambda: noise.uniform(2, dtype="int64"), "dtype must be float32 or float64, got int64"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)
    with pytest.raises(OverflowError, match=r"a row must have 0 to 2\*\*34 elements, got 17179869185"):
        noise._arguments(1, 2**34 + 1, 0)
    assert noise.at(2**32 - 1).rows([2**32 - 1]).uniform((1, 1), 2**31 - 1).shape == (1, 1)
    with pytest.raises(ValueError, match="shape must have 2 rows, one for each position, got 3"):
        noise.rows([0, 1]).uniform((3, 4))
    with pytest.raises(TypeError, match="whole numbers"):
        noise.rows([0.5])
    with pytest.raises(ValueError, match="shared noise"):
        noise.address()
    with pytest.raises(ValueError, match="order needs shared noise"):
        noise.rows([0]).order(3)
    for high in (0, -1, 2**63):
        with pytest.raises(ValueError, match="high"):
            noise.integers(high, 3)
    for purpose in ("", "a\0b"):
        with pytest.raises(ValueError):
            Noise(0, purpose)
    with pytest.raises(ValueError, match="child"):
        noise.child("")
    with pytest.raises(TypeError, match="float32 or float64"):
        noise.uniform((2, 2), dtype=np.float16)
    for p in (np.ones((2, 2), np.int64), torch.ones(2, 2, dtype=torch.bfloat16)):
        with pytest.raises(TypeError, match="float32 or float64"):
            noise.bernoulli(p)


def test_copies_draw_the_same():
    noise = Noise(5, "fit").child("x").at(3).rows([4, 2])
    for twin in (copy.deepcopy(noise), pickle.loads(pickle.dumps(noise))):
        assert np.array_equal(twin.uniform((2, 3)), noise.uniform((2, 3)))
    assert repr(noise) == "Noise(5, 'fit/x').at(3).rows(<2 positions>)"
    assert (noise.seed, noise.purpose, noise.update) == (5, "fit/x", 3)
    places = np.array([4, 2])
    mine = Noise(5, "fit").rows(places)
    places[:] = 0
    assert mine.address()[3].tolist() == [4, 2]


def test_recorder_refuses_an_address_used_twice():
    noise = Noise(0, "fit")
    with recording() as used:
        noise.uniform((3, 4))
        noise.uniform((3, 4), 1)
        noise.at(1).uniform((3, 4))
        noise.child("a").uniform((3, 4))
        noise.rows([3, 4]).uniform((2, 4))
        noise.address(3, draw=5, draws=2)
        assert len(used) == 3 * 4 + 2 + 6
        with pytest.raises(AddressReused, match="position 4"):
            noise.rows([9, 4]).normal((2, 1))
        with pytest.raises(AddressReused, match="draw 6, position 0"):
            noise.bernoulli(np.ones((1, 1), np.float32), 6)
    noise.uniform((3, 4))
    noise.uniform((3, 4))


def test_global_generators_are_left_as_found():
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    for like in (None, torch.empty(0)):
        Noise(0, "fit").normal((5, 5), like=like)
    Noise(0, "order").order(50)
    seed_of(None)
    after = random.getstate(), np.random.get_state(), torch.get_rng_state()
    assert before[0] == after[0] and torch.equal(before[2], after[2])
    assert all(np.array_equal(a, b) for a, b in zip(before[1], after[1], strict=True))


def test_seed_of():
    assert seed_of(-3) == -3 and seed_of(np.int64(4)) == 4 and type(seed_of(np.int64(4))) is int
    one, two = np.random.default_rng(1), np.random.default_rng(1)
    assert seed_of(one) == int(two.integers(0, 2**64, dtype=np.uint64)) and one.random() == two.random()
    assert 0 <= seed_of(np.random.RandomState(0)) < 2**64
    assert seed_of(None) != seed_of(None)
    for wrong in ("seven", True, np.True_, 1.5):
        with pytest.raises(UserTypeError, match="random_state"):
            seed_of(wrong)


def test_uniform_is_uniform():
    for dtype in (np.float32, np.float64):
        u = Noise(11, "test").uniform((400, 500), dtype=dtype).ravel()
        assert u.min() > 0 and u.max() < 1
        assert stats.kstest(u.astype(np.float64), "uniform").pvalue > P
    words = Noise(11, "test").words((400, 500))
    for shift in (0, 8, 16, 24):  # every byte of the words
        assert stats.chisquare(np.bincount(((words >> shift) & 255).ravel(), minlength=256)).pvalue > P


AXES = {
    "update": lambda noise, i: noise.at(i).words((16, 32)),
    "draw": lambda noise, i: noise.words((16, 32), i),
    "position": lambda noise, i: noise.rows(np.arange(16) + 16 * i).words((16, 32)),
    "seed": lambda noise, i: Noise(i, "test").words((16, 32)),
    "path": lambda noise, i: noise.child(str(i)).words((16, 32)),
}


@pytest.mark.parametrize("axis", AXES)
def test_neighbouring_addresses_are_independent(axis):
    words = np.stack([AXES[axis](Noise(1, "test"), i) for i in range(256)]).reshape(256, -1)
    assert stats.kstest(words.ravel() / 2.0**32, "uniform").pvalue > P
    # Half of the bits of neighbours differ; the count is binomial.
    bits = np.bitwise_count(words[1:] ^ words[:-1]).sum()
    n = 32 * words[1:].size
    assert abs(bits - n / 2) < stats.norm.isf(P / 2) * np.sqrt(n) / 2
    # Pairs (word, neighbour's word) fill the square evenly.
    cells = (words[1:] >> 28) * np.uint32(16) + (words[:-1] >> 28)
    assert stats.chisquare(np.bincount(cells.ravel(), minlength=256)).pvalue > P
    correlation = stats.pearsonr(words[1:].ravel() / 2.0**32, words[:-1].ravel() / 2.0**32)
    assert correlation.pvalue > P


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normals_are_normal(dtype):
    table = Noise(13, "test").normal((1000, 501), dtype=dtype).astype(np.float64)
    z = table.ravel()
    limit, n = stats.norm.isf(P / 2), z.size
    assert abs(z.mean()) < limit / np.sqrt(n)
    assert abs(z.var() - 1) < limit * np.sqrt(2 / n)
    assert abs((z**3).mean()) < limit * np.sqrt(15 / n)
    assert abs((z**4).mean() - 3) < limit * np.sqrt(96 / n)
    assert stats.kstest(z, "norm").pvalue > P
    for cut in (3.0, 4.0):
        expected = 2 * stats.norm.sf(cut) * n
        assert stats.binomtest(int((np.abs(z) > cut).sum()), n, expected / n).pvalue > P
    # The two numbers of a pair, and neighbouring rows.
    for a, b in ((table[:, 0:500:2], table[:, 1:500:2]), (table[1:], table[:-1])):
        for f in (np.asarray, np.square):
            assert stats.pearsonr(f(a).ravel(), f(b).ravel()).pvalue > P
    radius = table[:, 0:500:2] ** 2 + table[:, 1:500:2] ** 2
    assert stats.kstest(radius.ravel(), "chi2", args=(2,)).pvalue > P


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bernoulli_has_its_mean(dtype):
    p = np.repeat(np.array([0.001, 0.3, 0.5, 0.97], dtype), 50_000).reshape(400, 500)
    for ones in (Noise(17, "test").bernoulli(p), Noise(18, "test").bernoulli_logits(np.log(p) - np.log1p(-p))):
        assert ones.dtype == dtype and set(np.unique(ones)) == {0, 1}
        for level, row in zip((0.001, 0.3, 0.5, 0.97), ones.reshape(4, -1), strict=True):
            assert stats.binomtest(int(row.sum()), row.size, level).pvalue > P
    edge = np.array([[0.0, 1.0, np.nan, -1.0, 2.0]], dtype).repeat(100, 0)
    assert np.array_equal(Noise(0, "a").bernoulli(edge), np.array([[0, 1, 0, 0, 1]]).repeat(100, 0))


@pytest.mark.parametrize("high", [1, 2, 7, 256, 1000])
def test_integers_are_uniform(high):
    x = Noise(19, "test").integers(high, (300, 401))
    assert x.min() >= 0 and x.max() < high
    if high > 1:
        assert stats.chisquare(np.bincount(x.ravel(), minlength=high)).pvalue > P


def test_large_integers_are_uniform():
    """Three quarters of 2**32: a 32-bit multiply-high would give some values twice the chance of others."""
    high = 3 << 30
    x = Noise(19, "test").integers(high, (300, 401)).ravel()
    assert stats.kstest(x / high, "uniform").pvalue > P
    assert stats.chisquare(np.bincount(x % 3)).pvalue > P


def test_order_is_a_permutation_of_its_epoch():
    noise = Noise(23, "fit").child("order")
    orders = [noise.at(epoch).order(1000) for epoch in range(20)]
    for order in orders:
        assert order.dtype == np.int64 and np.array_equal(np.sort(order), np.arange(1000))
    assert np.array_equal(orders[3], noise.at(3).order(1000))
    assert len({tuple(order) for order in orders}) == 20
    assert noise.order(0).size == 0 and noise.order(1).tolist() == [0]


def test_all_orders_are_equally_likely():
    counts = {}
    for epoch in range(6000):
        order = tuple(Noise(29, "order").at(epoch).order(4).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24 and stats.chisquare(list(counts.values())).pvalue > P


def test_import_neither_compiles_nor_loads_torch():
    code = (
        "import sys, gnomon.numeric.noise as n, gnomon.numeric.ops;"
        "from gnomon.numeric import philox, fast;"
        "kernels = [v for m in (philox, fast) for v in vars(m).values() if hasattr(v, 'signatures')];"
        "assert len(kernels) > 20 and not any(k.signatures for k in kernels);"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
