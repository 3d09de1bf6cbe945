"""Ways of holding rows out, against scikit-learn's splitters and by hand."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, StratifiedShuffleSplit

from gnomon.data import Dataset, load, split
from gnomon.data.cuts import are_classes, cut, deal, parse
from gnomon.data.holdout import split_rows
from gnomon.data.splitting import by_column, folds
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise

RANDOM = np.random.default_rng(0)


def test_a_random_split_keeps_its_rows():
    """Old runs say no split, or "random": their held-out rows are these for ever."""
    assert split_rows(10, test=0.3)[1].tolist() == np.sort(Noise(0, "split").order(10)[:3]).tolist() == RANDOM_ROWS
    assert np.array_equal(
        split(load("wine"), test=0.3, seed=5, how="random")[1].rows, split_rows(178, test=0.3, seed=5)[1]
    )


RANDOM_ROWS = [0, 3, 6]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=2, max_size=80), st.floats(0.05, 0.95), st.integers(0, 3))
def test_of_each_class_its_proportion_to_within_one_row(y, test, seed):
    counts = np.bincount(y)
    if counts.max() < 2:
        with pytest.raises(UserValueError, match="each class has one row, of which none can be held out"):
            cut(len(y), "stratified", y, test=test, seed=seed)
        return
    train, held = cut(len(y), "stratified", y, test=test, seed=seed)
    assert sorted([*train.tolist(), *held.tolist()]) == list(range(len(y)))
    several = counts[counts > 1].sum()
    taken = np.bincount(np.array(y)[held], minlength=len(counts))
    goal = min(max(1, round(several * test)), several - 1)
    kept = ((taken == counts - 1) & (counts > 1)).sum()
    assert goal - kept <= taken.sum() <= goal, "fewer only where a class kept its last training row"
    assert (np.abs(taken - counts * (goal / several))[counts > 1] <= 1).all()
    assert (taken[counts > 0] < counts[counts > 0]).all(), "training lost a class"


def test_as_many_of_each_class_as_scikit_learn_takes():
    y = np.repeat(["benign", "malignant"], [357, 212])
    held = cut(569, "stratified", y, test=0.2)[1]
    other = next(StratifiedShuffleSplit(1, test_size=114, random_state=0).split(np.zeros((569, 1)), y))[1]
    assert np.unique(y[held], return_counts=True)[1].tolist() == np.unique(y[other], return_counts=True)[1].tolist()


def test_the_benchmark_set_is_held_out_in_its_proportions():
    """E12: of breast-cancer, 62.7 % benign, 52.6 % were benign among the rows held out."""
    whole = load("breast-cancer")
    _, held = split(whole)
    assert np.bincount(held.y).tolist() == [42, 72] and np.bincount(whole.y).tolist() == [212, 357]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=2, max_size=40), st.floats(0.05, 0.95), st.integers(0, 3))
def test_whole_groups_as_near_to_the_fraction_as_can_be(groups, test, seed):
    sizes = np.unique(groups, return_counts=True)[1]
    if len(sizes) < 2:
        with pytest.raises(UserValueError, match="two groups"):
            cut(len(groups), "group", groups, test=test, seed=seed)
        return
    train, held = cut(len(groups), "group", groups, test=test, seed=seed)
    values = np.array(groups)
    assert not set(values[train]) & set(values[held])
    sums = {sum(some) for k in range(1, len(sizes)) for some in itertools.combinations(sizes.tolist(), k)}
    goal = min(max(1, round(len(groups) * test)), len(groups) - 1)
    assert abs(len(held) - goal) == min(abs(total - goal) for total in sums)


def test_many_groups_are_drawn_at_random(monkeypatch):
    """The way of large data, which takes most groups as they come."""
    groups = RANDOM.integers(0, 300, size=5000)
    exact = [cut(5000, "group", groups, test=0.2, seed=seed)[1] for seed in range(2)]
    monkeypatch.setattr("gnomon.data.cuts.DENSE", 1000)
    quick = [cut(5000, "group", groups, test=0.2, seed=seed)[1] for seed in range(2)]
    for one, other in (exact, quick):
        assert len(one) == len(other) == 1000 and not np.array_equal(one, other)
        assert not set(groups[one]) & set(np.delete(groups, one))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=2, max_size=40), st.floats(0.05, 0.95))
def test_the_latest_are_held_out_and_equal_times_stay_together(times, test):
    values = np.array(times)
    if len(set(times)) == 1:
        with pytest.raises(UserValueError, match="the same time"):
            cut(len(times), "time", values, test=test)
        return
    train, held = cut(len(times), "time", values, test=test)
    assert values[train].max() < values[held].min()
    goal = min(max(1, round(len(times) * test)), len(times) - 1)
    possible = [(values >= edge).sum() for edge in set(times) if edge > values.min()]
    assert abs(len(held) - goal) == min(abs(size - goal) for size in possible)


@pytest.mark.parametrize("kind", ["random", "stratified", "group"])
def test_folds_hold_every_row_out_once(kind):
    by = RANDOM.integers(0, 9, size=100)
    parts = deal(100, 4, kind, by, seed=1)
    held = np.concatenate([test for _, test in parts])
    assert sorted(held.tolist()) == list(range(100))
    for train, test in parts:
        assert sorted([*train.tolist(), *test.tolist()]) == list(range(100))
        if kind == "group":
            assert not set(by[train]) & set(by[test])
        else:
            assert len(test) == 25
        if kind == "stratified":
            taken = np.bincount(by[test], minlength=9)
            assert (np.abs(taken - np.bincount(by, minlength=9) / 4) < 1).all()


@pytest.mark.parametrize("kind", ["random", "stratified", "group"])
def test_another_seed_holds_other_rows_out(kind):
    by = np.arange(100) // 10
    one, other = (cut(100, kind, by, seed=seed)[1].tolist() for seed in (0, 1))
    assert one != other and one != list(range(20))
    one, other = ([held.tolist() for _, held in deal(100, 4, kind, by, seed=seed)] for seed in (0, 1))
    assert one != other
    data = Dataset("t", np.zeros((100, 1)), by)
    if kind != "group":
        one, other = ([held.rows.tolist() for _, held in folds(data, 4, seed=seed, how=kind)] for seed in (0, 1))
        assert one != other


def test_folds_of_groups_are_as_even_as_scikit_learns():
    groups = RANDOM.integers(0, 30, size=200)
    ours = sorted(len(test) for _, test in deal(200, 5, "group", groups))
    theirs = sorted(len(test) for _, test in GroupKFold(5).split(np.zeros((200, 1)), groups=groups))
    assert ours == theirs


def test_a_class_of_one_row_is_in_no_fold():
    y = np.array([0] * 6 + [1] * 5 + [2])
    assert sorted(np.concatenate([test for _, test in deal(12, 3, "stratified", y)]).tolist()) == list(range(11))
    assert all(11 in train for train, _ in deal(12, 3, "stratified", y))


def test_a_column_to_split_by_is_no_feature():
    """E12: groups and times, by a column of the table."""
    random = np.random.default_rng(1)
    X = np.column_stack([random.normal(size=40), np.repeat(np.arange(8.0), 5), np.arange(40.0)[::-1]])
    data = Dataset("visits", X, random.integers(0, 2, size=40), columns=("dose", "patient", "day"))
    train, held = split(data, test=0.25, how="group=patient")
    assert train.columns == held.columns == ("dose", "day") and len(held) == 10
    assert np.array_equal(train.X, X[train.rows][:, [0, 2]]) and np.array_equal(held.X, X[held.rows][:, [0, 2]])
    assert not set(train.by) & set(held.by)
    train, held = split(data, test=0.25, how="time=day")
    assert held.columns == ("dose", "patient") and held.rows.tolist() == list(range(10))
    assert held.source["split"] == "time=day"
    with pytest.raises(UserValueError, match=r"no column 'patiant' \(visits, split\); did you mean 'patient'\?"):
        by_column(data, "group=patiant")
    X[3, 1] = np.nan
    with pytest.raises(UserValueError, match=r"is missing \(visits, row 3, column 'patient'\)"):
        split(data, how="group=patient")


def test_whole_numbers_of_many_values_are_no_classes():
    """E12: `split` warned about "classes" of a whole-numbered target."""
    ages = np.random.default_rng(0).integers(20, 90, size=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train, held = split((np.zeros((100, 1)), ages))
        by_hand = split_rows(100)
    assert not are_classes(ages) and np.array_equal(held[1], ages[by_hand[1]]) and len(train[1]) == 80


@pytest.mark.parametrize("how", ["group", "time=", "stratified=a", "stratifed", "random=3", ""])
def test_splits_that_are_none(how):
    with pytest.raises(UserValueError, match=r"split must be random, stratified, group=COLUMN or time=COLUMN, got"):
        parse(how)


def test_arrays_are_cut_by_what_stands_beside_them():
    X, days = np.arange(10.0)[:, None], np.array([f"2020-01-{day:02d}" for day in range(10, 0, -1)])
    assert split(X, test=0.3, how="time", by=days.astype("datetime64[D]"))[1].ravel().tolist() == [0, 1, 2]
    _, held = split((X, np.zeros(10)), test=0.5, how="group", by=list("aaaaabbbbb"))
    assert held[0].ravel().tolist() in ([0, 1, 2, 3, 4], [5, 6, 7, 8, 9])
    with pytest.raises(UserValueError, match=r"by must have shape \(10,\), got \(3,\)"):
        split(X, how="group", by=[1, 2, 3])
    with pytest.raises(UserValueError, match="folds must be from 2 to the number of rows, 10, got 11"):
        folds(Dataset("ten", X), 11)


def test_columns_of_text_and_dates_are_split_by(tmp_path):
    file = tmp_path / "visits.csv"
    rows = [f"{i},{'abcd'[i % 4]},2026-01-{28 - i:02d},{i // 4 % 2}" for i in range(20)]
    file.write_text("\n".join(["dose,clinic,day,ill", *rows]) + "\n")
    data = load(file, target="ill")
    train, held = split(data, test=0.25, how="group=clinic")
    assert len(held) == 5 and len(set(held.by)) == 1 and not set(held.by) & set(train.by)
    assert "clinic" not in held.columns and "day" in held.columns
    assert split(data, test=0.25, how="time=day")[1].rows.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(UserValueError, match="times must be numbers or dates, got text"):
        split(data, how="time=clinic")
    kept = by_column(load(file, target="ill", columns=["dose", "clinic"]), "group=clinic")
    assert kept.X.ravel().tolist() == list(range(20)), "what is left are numbers"
