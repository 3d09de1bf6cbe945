"""Domains of texts, pairs of texts and ratings: what they take, what they refuse, what a fit has not seen."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gnomon.data.loading import load
from gnomon.data.pairs import Ratings
from gnomon.data.sequences import Pairs, Tokens
from gnomon.data.user_items import UserItems
from gnomon.distributions.domains import Binary, Real, UnitInterval
from gnomon.distributions.images import Images
from gnomon.errors import UserError, UserValueError
from gnomon.numeric.ragged import Dense

DOMAINS = [Real(), Real(allow_missing=True), UnitInterval(), Binary(), Images(), Images((4, 4))]
LEARNED = [Tokens(), Tokens("char"), Pairs(), UserItems()]


@pytest.mark.parametrize("domain", [*DOMAINS, *LEARNED], ids=repr)
def test_every_domain_takes_its_own_examples_and_refuses_what_is_malformed(domain):
    groups = np.arange(40) % 3
    X = domain.example(np.random.default_rng(0), 40, groups)
    whole = domain.learn(X) if hasattr(domain, "learn") else domain
    found = whole.ingest(X)
    fields = found if isinstance(found, dict) else {"X": found}
    assert {len(one) for one in fields.values()} == {40}
    shuffled = whole.ingest(domain.shuffled(X, np.random.default_rng(1)))
    shuffled = shuffled if isinstance(shuffled, dict) else {"X": shuffled}
    parts = [np.concatenate([one.values.ravel() for one in f.values()]) for f in (fields, shuffled)]
    assert np.array_equal(np.sort(parts[0]), np.sort(parts[1])) and not np.array_equal(*parts)
    assert isinstance(domain.describe(), str) and isinstance(domain.space(3), str) and domain.noun
    for spoiled in domain.malformed():
        with pytest.raises(UserError) as caught:
            whole.ingest(spoiled)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_the_examples_of_groups_differ(domain):
    X = domain.example(np.random.default_rng(0), 300, np.arange(300) % 3).reshape(300, -1)
    means = np.array([X[group::3].mean(0) for group in range(3)])
    assert np.abs(means[0] - means[1]).max() > 0.2


def test_nothing_at_all_is_refused_in_the_words_of_scikit_learn():
    for domain, nothing in ((Real(), np.zeros((0, 3))), (Images(), np.zeros((0, 2, 2)))):
        with pytest.raises(UserValueError, match=r"Found array with 0 sample\(s\)"):
            domain.ingest(nothing)
    with pytest.raises(UserValueError, match=r"0 feature\(s\)"):
        Real().ingest(np.zeros((3, 0)))


def test_tokens_outside_the_vocabulary_are_unknown():
    text = ["sun and shadow", "sun"]
    domain = Tokens().learn(text)
    found = domain.ingest(["sun shines", "shadow"])
    assert [domain.vocabulary.decode(one) for one in found] == [["sun", "<unk>"], ["shadow"]]
    rare = Tokens().learn(text, min_count=2)
    assert rare.vocabulary.tokens == ("sun",)
    with pytest.raises(TypeError, match="learn"):
        Tokens().ingest(text)
    assert Tokens().learn(load("python-reference")).ingest(load("python-reference")).values.size > 100


def test_pairs_are_strings_or_lists_of_tokens():
    pairs = [("one two", "two one"), ("three", "three")]
    domain = Pairs().learn(pairs)
    tokens = domain.ingest([(a.split(), b.split()) for a, b in pairs])
    for name, side in domain.ingest(pairs).items():
        assert np.array_equal(side.values, tokens[name].values) and np.array_equal(side.offsets, tokens[name].offsets)
    assert domain.target.decode(tokens["target"][0]) == ["two", "one"]
    assert domain.source.decode(domain.sources(["three four"])[0]) == ["three", "<unk>"]
    rare = Pairs().learn([*pairs, ("one", "two")], min_count=2)
    assert rare.source.tokens == ("one",) and rare.target.tokens == ("two",)
    with pytest.raises(UserError, match="pair 1"):
        domain.ingest([("a", "b"), ("a",)])


def test_ratings_come_as_records_tables_frames_and_data_sets():
    log = Ratings(np.array(["ann", "bob", "ann"]), np.array([7, 9, 9]), np.array([5.0, 3.0, 1.0]))
    rows = [["ann", 7, 5.0], ["bob", 9, 3.0], ["ann", 9, 1.0]]
    frame = pd.DataFrame(rows, columns=["user", "item", "rating"])
    domain = UserItems().learn(log)
    for X, y in ((log, None), (rows, None), (frame, None), (frame[["user", "item"]], log.values),
                 (np.array(rows, object), None)):  # fmt: skip
        found = domain.ingest(X, y)
        assert {name: one.values.tolist() for name, one in found.items()} == {
            "user": [0, 1, 0], "item": [0, 1, 1], "y": [5.0, 3.0, 1.0]
        }  # fmt: skip
        assert all(isinstance(one, Dense) for one in found.values())
        assert UserItems().learn(frame).users.values.tolist() == ["ann", "bob"]
    assert list(domain.ingest([["eve", 7], ["bob", 1]])) == ["user", "item"]
    unseen = domain.ingest([["eve", 7], ["bob", 1]])
    assert unseen["user"].values.tolist() == [-1, 1] and unseen["item"].values.tolist() == [0, -1]
    numbers = UserItems().learn([[3, 5, 1.0], [2, 5, 2.0]])
    assert numbers.users.values.tolist() == [2, 3] and numbers.users.values.dtype.kind == "i"
    with pytest.raises(UserError, match="row 1"):
        domain.check(log, [1.0, np.nan, 2.0])
