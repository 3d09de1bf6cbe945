"""Both ways to cut a long text for a recurrent network, on a text whose tokens are their own places."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chi2

from gnomon.data.batches import Batches
from gnomon.data.examples import Examples, Ragged
from gnomon.data.layouts import Lanes
from gnomon.data.windows import Windows
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise


def text(n: int, cut: int = 7) -> Examples:
    ids = np.arange(n)
    return Examples({"X": Ragged(ids, np.array([*range(0, n, cut), n]))})


class Two:
    size = 2

    def __init__(self, rank: int) -> None:
        self.rank = rank


@pytest.mark.spec("DLN-176")
def test_windows_in_random_order():
    seen, starts = set(), set()
    batches = Batches(text(35), Windows(2, 5), noise=Noise(0, "fit"))
    for e in range(40):
        epoch = list(batches.epoch(e))
        assert len(epoch) == batches.steps == 3 and all(batch.data["X"].shape == (2, 5) for batch in epoch)
        X = np.concatenate([batch.data["X"] for batch in epoch])
        assert np.array_equal(np.concatenate([batch.data["y"] for batch in epoch]), X + 1)
        assert (np.diff(X, axis=1) == 1).all() and len(np.unique(X)) == 30  # without repetition or overlap
        assert all(batch.data["begins"].all() and (batch.weight == 1).all() for batch in epoch)
        starts.add(int(X.min()))
        seen.add(tuple(X[:, 0] - X.min()))
    assert starts == {0, 1, 2, 3, 4} and len(seen) > 30  # any start, any order
    for n in (36, 38, 40):  # of every length any start, though one window more would begin at the first token alone
        other = Batches(text(n), Windows(2, 5), noise=Noise(0, "fit"))
        assert {min(batch.data["X"].min() for batch in other.epoch(e)) % 5 for e in range(40)} == set(range(5))
    # every start alike: chi-square at level 1e-4, fixed seed
    short = Batches(text(11), Windows(1, 5), noise=Noise(2, "fit"))
    drawn = np.bincount([short.step(e, 0).data["X"].min() % 5 for e in range(1000)], minlength=5)
    assert ((drawn - 200) ** 2 / 200).sum() < chi2.isf(1e-4, 4)
    again = Batches(text(35), Windows(2, 5), noise=Noise(0, "fit"))
    assert np.array_equal(batches.step(3, 1).data["X"], again.step(3, 1).data["X"])
    # the last partial batch is dropped: 6 windows in batches of 4
    assert Batches(text(35), Windows(4, 5), noise=Noise(0, "fit")).steps == 1


@pytest.mark.parametrize("n", [2, 3, 6, 11, 12, 50])
def test_windows_of_any_text(n):
    batches = Batches(text(n), Windows(3, 5), noise=Noise(1, "fit"))
    for e in range(20):
        X = np.concatenate([batch.data["X"] for batch in batches.epoch(e)])
        y = np.concatenate([batch.data["y"] for batch in batches.epoch(e)])
        assert np.array_equal(y, X + 1) and y.max() < n and len(np.unique(X)) == X.size
    ordered = Batches(text(n), Windows(3, 5).in_order(99))
    kept = [batch.data["y"][batch.weight > 0] for batch in ordered.epoch(0)]
    assert np.concatenate(kept).tolist() == list(range(1, n))


@pytest.mark.spec("DLN-177")
def test_lanes_go_on_where_they_stopped():
    starts = set()
    batches = Batches(text(200), Lanes(4, 6, shift=True), noise=Noise(0, "fit"))
    for e in range(40):
        epoch = list(batches.epoch(e))
        for batch, after in pairwise(epoch):
            assert np.array_equal(batch.data["X"][:, -1] + 1, after.data["X"][:, 0]) or (after.weight == 0).any()
            assert not after.data["begins"].any()
        assert epoch[0].data["begins"].all()
        X = np.concatenate([batch.data["X"][batch.weight > 0] for batch in epoch])
        y = np.concatenate([batch.data["y"][batch.weight > 0] for batch in epoch])
        assert np.array_equal(y, X + 1) and len(np.unique(X)) == X.size == 199 - X.min()  # each token once at most
        starts.add(int(X.min()))
    assert starts == set(range(6))
    plain = Batches(text(200), Lanes(4, 6))
    assert plain.step(0, 0).data["X"][0, 0] == 0
    assert np.array_equal(plain.step(5, 2).data["X"], plain.step(0, 2).data["X"])


@pytest.mark.parametrize("layout", [Windows(5, 4), Lanes(5, 4, shift=True)])
def test_processes_share_every_batch(layout):
    alone = Batches(text(150), layout, noise=Noise(0, "fit"))
    parts = [Batches(text(150), layout, noise=Noise(0, "fit")).shard(Two(rank)) for rank in range(2)]
    for i in range(alone.steps):
        for name in ("X", "y", "begins"):
            both = np.concatenate([part.step(2, i).data[name] for part in parts])
            assert np.array_equal(both, alone.step(2, i).data[name])
        places = np.concatenate([part.step(2, i).positions for part in parts])
        assert np.array_equal(places, alone.step(2, i).positions)


def test_what_cannot_be_cut_is_refused():
    for layout in (Windows(0, 5), Windows(2, 0)):
        with pytest.raises(UserValueError, match="must be at least 1, got 0"):
            Batches(text(35), layout, noise=Noise(0, "fit"))
    with pytest.raises(UserValueError, match="at least 2 tokens"):
        Batches(text(1), Windows(2, 5), noise=Noise(0, "fit"))
    for layout in (Windows(2, 5), Lanes(2, 5, shift=True)):
        with pytest.raises(TypeError, match="noise"):
            Batches(text(35), layout)
