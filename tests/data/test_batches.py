"""Batches visit every row once per epoch, in an order that seed and epoch alone decide."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon.data.batches import Batches
from gnomon.data.examples import Examples
from gnomon.data.layouts import Rows
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise
from gnomon.training.group import Group

N = 53
X = np.arange(N * 2.0, dtype=np.float32).reshape(N, 2)
Y = np.arange(N)
W = np.linspace(0.5, 2, N, dtype=np.float32)


def make(noise=None, **options):
    return Batches(Examples({"X": X, "y": Y}, W), Rows(**{"batch_size": 10, **options}), noise=noise or Noise(3, "fit"))


def table(X, **options):
    return Batches(Examples({"X": X}), Rows(**options), noise=Noise(0, "fit"))


@pytest.mark.spec("DLN-89")
def test_every_row_once_and_everything_goes_together():
    batches = make()
    assert (batches.n, batches.steps) == (N, 6)
    assert batches.total_weight == pytest.approx(W.sum(dtype=float))
    seen = list(batches.epoch(2))
    assert [len(batch) for batch in seen] == [10] * 5 + [3]
    rows = np.concatenate([batch.rows for batch in seen])
    assert sorted(rows.tolist()) == list(range(N))
    for batch in seen:
        assert np.array_equal(batch.data["X"], X[batch.rows])
        assert np.array_equal(batch.data["y"], batch.rows)
        assert np.array_equal(batch.weight, W[batch.rows])
        assert batch.positions.tolist() == list(range(len(batch)))


def test_the_order_is_a_function_of_seed_and_epoch():
    order = Noise(3, "fit").child("order").at(4).order(N)
    batches = make()
    assert np.array_equal(np.concatenate([b.rows for b in batches.epoch(4)]), order)
    assert np.array_equal(batches.step(5, 0).rows, Noise(3, "fit").child("order").at(5).order(N)[:10])
    assert np.array_equal(batches.step(4, 0).rows, order[:10])
    # any batch without what came before it
    assert np.array_equal(make().step(4, 3).rows, order[30:40])
    assert not np.array_equal(make().step(5, 3).rows, order[30:40])
    assert not np.array_equal(make(noise=Noise(4, "fit")).step(4, 3).rows, order[30:40])


@pytest.mark.spec("DLN-89")
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("batch_size", [None, 1, 3, 10, 1000])
def test_shards_are_a_partition_of_every_global_batch(size, shuffle, batch_size):
    whole = make(shuffle=shuffle, batch_size=batch_size)
    shards = [whole.shard(Group(rank, size)) for rank in range(size)]
    assert all(s.steps == whole.steps and s.total_weight == whole.total_weight for s in shards)
    for i in range(whole.steps):
        parts = [s.step(1, i) for s in shards]
        batch = whole.step(1, i)
        for name in ("rows", "positions", "weight"):
            assert np.array_equal(np.concatenate([getattr(p, name) for p in parts]), getattr(batch, name))
        assert np.array_equal(np.concatenate([p.data["X"] for p in parts]), batch.data["X"])
        sizes = [len(p) for p in parts]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.spec("DLN-89")
def test_a_full_batch_is_the_data_itself():
    batch = table(X, shuffle=False).step(7, 0)
    assert batch.data["X"] is X
    assert batch.weight.dtype == np.float32 and np.all(batch.weight == 1)
    assert table(X, batch_size=1000, shuffle=False).steps == 1


def test_shuffled_batches_are_fresh_arrays():
    batches = make()
    first = batches.step(0, 0)
    first.data["X"][:] = -1
    assert X.min() == 0
    assert batches.step(0, 0).data["X"].min() >= 0


def test_mistakes():
    with pytest.raises(UserValueError, match="batch_size"):
        make(batch_size=0)
    with pytest.raises(UserValueError, match="53 rows"):
        Examples({"X": X, "y": Y[:5]})
    with pytest.raises(TypeError, match="noise"):
        Batches(Examples({"X": X}), Rows(5))
    with pytest.raises(IndexError):
        make().step(0, 6)


@pytest.mark.spec("DLN-89")
def test_an_epoch_with_replacement_draws_every_row_alike():
    """6 rows, 3,000 epochs: each row 18,000 / 6 times within 5 standard errors (a false alarm once in 300,000 runs)."""
    batches = table(np.arange(6.0)[:, None], batch_size=2, replace=True)
    epochs = [np.concatenate([batch.rows for batch in batches.epoch(e)]) for e in range(3000)]
    counts = np.bincount(np.concatenate(epochs), minlength=6)
    assert np.abs(counts - 3000).max() < 5 * np.sqrt(18_000 * 5 / 36)
    distinct = np.mean([len(set(rows.tolist())) for rows in epochs])
    assert abs(distinct - 6 * (1 - (5 / 6) ** 6)) < 0.1
    # with replacement the means of two rows vary as s^2 / 2, without it as s^2 / 2 * (6 - 2) / 5
    means = np.array([rows.reshape(3, 2).mean(1) for rows in epochs])
    spread = np.arange(6.0).var()
    assert means.var() == pytest.approx(spread / 2, rel=0.06)
    apart = table(np.arange(6.0)[:, None], batch_size=2)
    means = np.array([[batch.rows.mean() for batch in apart.epoch(e)] for e in range(3000)])
    assert means.var() == pytest.approx(spread / 2 * 4 / 5, rel=0.06)


@pytest.mark.parametrize(("n", "sizes"), [(9, [4, 5]), (10, [4, 4, 2]), (8, [4, 4]), (1, [1]), (5, [5])])
def test_a_batch_that_is_too_small_joins_the_one_before(n, sizes):
    batches = table(np.arange(float(n))[:, None], batch_size=4, least=2)
    found = list(batches.epoch(3))
    assert [len(batch) for batch in found] == sizes and batches.steps == len(sizes)
    assert sorted(np.concatenate([batch.rows for batch in found])) == list(range(n))
    assert [batch.positions.tolist() for batch in found] == [list(range(size)) for size in sizes]
    for rank in (0, 1):
        part = list(batches.shard(Group(rank, 2)).epoch(3))
        assert [len(p) for p in part] == [(rank + 1) * m // 2 - rank * m // 2 for m in sizes]
