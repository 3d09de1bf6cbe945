"""Layouts of examples that are no tables: padded sequences, lanes of a text, blocks; and transforms of batches."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon.data.batches import Batch, Batches
from gnomon.data.examples import Examples, Ragged
from gnomon.data.layouts import Blocks, Lanes, Padded, Rows
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise
from gnomon.training.group import Group

LENGTHS = np.random.default_rng(0).integers(0, 12, size=57)
SEQUENCES = [(100 * i + np.arange(1, n + 1)).tolist() for i, n in enumerate(LENGTHS)]
WEIGHT = np.linspace(0.5, 2, 57)


def text(**fields):
    return Examples({"X": Ragged.of(SEQUENCES), **fields}, WEIGHT)


def batches(layout, examples=None, **options):
    return Batches(text() if examples is None else examples, layout, noise=Noise(3, "fit"), **options)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("batch_size", [1, 8, 100])
def test_padded_batches_hold_every_row_once_with_what_belongs_to_it(shuffle, batch_size):
    target = Ragged.of([one[::-1] for one in SEQUENCES])
    found = batches(Padded(batch_size, 3, shuffle), text(target=target, y=np.arange(57)))
    assert found.steps == -(-57 // batch_size) and found.total_weight == pytest.approx(WEIGHT.sum())
    for e in (0, 1):
        seen = list(found.epoch(e))
        assert sorted(np.concatenate([batch.rows for batch in seen]).tolist()) == list(range(57))
        for batch in seen:
            assert batch.positions.tolist() == list(range(len(batch)))
            assert np.array_equal(batch.data["y"], batch.rows) and np.array_equal(batch.weight, WEIGHT[batch.rows])
            for name, sign in (("X", 1), ("target", -1)):
                rows, lengths = batch.data[name], batch.data[f"{name}_length"]
                assert rows.shape == (len(batch), max(1, lengths.max()))
                for row, length, i in zip(rows.tolist(), lengths, batch.rows, strict=True):
                    assert row == SEQUENCES[i][::sign] + [0] * (rows.shape[1] - length)


def test_rows_of_like_length_are_together_and_the_order_is_a_function_of_seed_and_epoch():
    layout = Padded(8, 50)
    wasted = [
        sum(batch.data["X"].size - batch.data["X_length"].sum() for batch in batches(one).epoch(2))
        for one in (layout, Padded(8, 1))
    ]
    assert wasted[0] < 0.35 * wasted[1]
    longest = [batch.data["X"].shape[1] for batch in batches(layout).epoch(2)]
    assert longest != sorted(longest) and longest != sorted(longest, reverse=True), "short rows must not come first"
    again = batches(layout)
    again.step(5, 3)
    assert np.array_equal(again.step(2, 1).rows, batches(layout).step(2, 1).rows)
    assert not np.array_equal(again.step(2, 1).rows, again.step(3, 1).rows)
    assert [b.rows.tolist() for b in batches(Padded(8, 1)).epoch(2)] != [b.rows.tolist() for b in again.epoch(2)]


@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("layout", [Padded(8, 2), Lanes(5, 4), Blocks(60), Rows(8), Rows(8, shuffle=False)])
def test_shards_are_a_partition_of_every_batch(layout, size):
    whole = batches(layout)
    shards = [whole.shard(Group(rank, size)) for rank in range(size)]
    for i in range(whole.steps):
        parts, batch = [one.step(1, i) for one in shards], whole.step(1, i)
        for name in ("rows", "positions", "weight"):
            assert np.array_equal(np.concatenate([getattr(p, name) for p in parts]), getattr(batch, name))
        values = [[np.trim_zeros(row).tolist() for row in p.data["X"]] for p in (*parts, batch)]
        assert [row for part in values[:-1] for row in part] == values[-1]


@pytest.mark.parametrize(("width", "window"), [(1, 4), (4, 5), (5, 1000), (300, 2)])
def test_lanes_read_the_whole_text_once_and_go_on_where_they_stopped(width, window):
    joined = [token for one in SEQUENCES for token in one]
    weights = np.repeat(WEIGHT, LENGTHS)
    found = batches(Lanes(width, window))
    assert found.batch_size == width and found.total_weight == pytest.approx(weights[1:].sum())
    seen = list(found.epoch(0))
    assert all(batch.data["X"].shape == batch.weight.shape == (width, window) for batch in seen)
    assert all(batch.positions.tolist() == list(range(width)) for batch in seen)
    X, y = (np.concatenate([batch.data[name] for batch in seen], 1) for name in ("X", "y"))
    weight = np.concatenate([batch.weight for batch in seen], 1)
    there = weight > 0
    assert X[there].tolist() == joined[:-1] and y[there].tolist() == joined[1:]
    assert weight[there].tolist() == weights[1:].tolist()
    assert (np.diff(there.astype(int), axis=1) <= 0).all()  # nothing after the end of a lane


def test_blocks_are_the_data_in_order():
    found = batches(Blocks(60))
    seen = list(found.epoch(0))
    assert len(seen) == found.steps == -(-LENGTHS.sum() // 60)
    assert [row.tolist() for batch in seen for row in batch.data["X"]] == SEQUENCES
    assert all(abs(len(batch.data["X"].values) - 60) <= 12 for batch in seen[:-1])


def test_a_transform_sees_every_batch_with_the_noise_of_its_places():
    def jitter(batch: Batch, noise: Noise) -> Batch:
        moved = batch.data["X"] + noise.normal(batch.data["X"].shape)
        return Batch({**batch.data, "X": moved}, batch.rows, batch.positions, batch.weight)

    table = Examples({"X": np.zeros((20, 3))})
    for layout in (Rows(8), Rows(8, shuffle=False)):
        whole = batches(layout, table, transform=jitter)
        expected = Noise(3, "fit").child("transform").at(2 * 3 + 1).rows(np.arange(8)).normal((8, 3))
        assert np.array_equal(whole.step(2, 1).data["X"], expected)
        assert np.array_equal(whole.step(2, 1).data["X"], expected)  # a kept batch is not moved twice
        parts = [whole.shard(Group(rank, 3)).step(2, 1).data["X"] for rank in range(3)]
        assert np.array_equal(np.concatenate(parts), expected)
    assert not table.X.any()


def test_layouts_that_judge_are_in_order():
    assert Rows(8).in_order(50) == Rows(50, shuffle=False)
    assert Padded(8).in_order(50) == Padded(8, shuffle=False)
    assert Lanes(8, 3).in_order(50) == Lanes(8, 3)


@pytest.mark.parametrize(
    ("layout", "examples", "words"),
    [
        (Padded(8), Examples({"X": np.zeros((3, 2))}), "ragged"),
        (Padded(8, 0), text(), "buckets"),
        (Padded(0), text(), "batch_size"),
        (Lanes(0, 3), text(), "width"),
        (Lanes(3, 0), text(), "window"),
        (Lanes(3, 3), Examples({"X": np.zeros((3, 2))}), "ragged"),
        (Lanes(3, 3), Examples({"X": Ragged.of([[5], []])}), "2 tokens"),
        (Blocks(3), Examples({"X": np.zeros((3, 2))}), "ragged"),
    ],
)  # fmt: skip
def test_mistakes(layout, examples, words):
    with pytest.raises(UserValueError, match=words):
        batches(layout, examples)


@pytest.mark.parametrize("layout", [Rows(4), Padded(4), Lanes(4, 3), Blocks(9)])
def test_a_batch_that_is_not_there(layout):
    found = batches(layout)
    with pytest.raises(IndexError):
        found.step(0, found.steps)
