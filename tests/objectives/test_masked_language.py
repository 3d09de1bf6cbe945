"""Hidden tokens and what follows what: shares, labels, losses by hand, and the collator of transformers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from gnomon.data.packing import MASK, SPECIALS
from gnomon.data.passages import Pairing, passages, stretches
from gnomon.numeric.noise import Noise
from gnomon.numeric.ragged import Ragged
from gnomon.objectives.masked_language import IGNORED, hidden_loss, mask_tokens, next_loss

N_IDS = 1005


def within(found: int, n: int, p: float) -> bool:
    """Six standard deviations: a false alarm in 5e8 draws."""
    return abs(found - n * p) < 6 * math.sqrt(n * p * (1 - p))


def rows(n: int, seed: int = 0) -> Noise:
    return Noise(seed, "mask").rows(np.arange(n))


@pytest.mark.spec("DLN-221", "NLP-52")
def test_shares_of_a_million_tokens():
    ids = torch.randint(5, N_IDS, (500, 2000), generator=torch.Generator().manual_seed(0))
    ids[:, ::10] = torch.arange(200) % len(SPECIALS)  # special ones, which are never chosen
    found = mask_tokens(ids, rows(500), N_IDS)
    chosen, n = found.labels != IGNORED, int((ids >= 5).sum())
    assert not chosen[ids < 5].any() and found.ids[~chosen].equal(ids[~chosen])
    assert found.labels[chosen].equal(ids[chosen]) and (found.labels[~chosen] == IGNORED).all()
    masked, same = found.ids == MASK, chosen & (found.ids == ids)
    assert within(int(chosen.sum()), n, 0.15)
    assert within(int((chosen & masked).sum()), n, 0.12)
    assert within(int(same.sum()), n, 0.015 + 0.015 / 1000)  # a drawn token may be the token itself
    other = chosen & ~masked & ~same
    assert within(int(other.sum()), n, 0.015 * 999 / 1000) and (found.ids[other] >= 5).all()
    counts = np.bincount(found.ids[other].numpy(), minlength=N_IDS)[5:]
    expected = counts.mean()
    assert ((counts - expected) ** 2 / expected).sum() < 1000 + 6 * math.sqrt(2000)


@pytest.mark.spec("NLP-52")
def test_shares_are_those_of_the_collator_of_transformers():
    transformers = pytest.importorskip("transformers")
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])}
    tokenizer = transformers.BertTokenizer(vocab=vocabulary | {f"w{i}": i for i in range(5, N_IDS)})
    collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15, seed=3)
    ids = torch.randint(5, N_IDS, (100, 2000), generator=torch.Generator().manual_seed(1))
    theirs = collator([{"input_ids": row.tolist()} for row in ids])
    ours = mask_tokens(ids, rows(100), N_IDS)
    n = ids.numel()
    for hidden, labels in ((theirs["input_ids"], theirs["labels"]), ours):
        chosen = labels != -100
        for share, p in ((chosen, 0.15), (chosen & (hidden == MASK), 0.12), (chosen & (hidden == ids), 0.015)):
            assert abs(int(share.sum()) - n * p) < 8 * math.sqrt(n * p)


@pytest.mark.spec("DLN-221", "NLP-52")
def test_every_row_has_one_and_every_update_others():
    ids = torch.tensor([[2, 7, 3, 0], [2, 3, 0, 0], [2, 1, 3, 0], [2, 8, 9, 3]])
    many = [mask_tokens(ids, Noise(0, "mask").at(u).rows(np.arange(4)), 10).labels for u in range(200)]
    chosen = torch.stack(many) != IGNORED
    assert chosen[:, 0, 1].all() and not chosen[:, 1:3].any() and chosen[:, 3].any(1).all()
    assert chosen[:, 3, 1].any() and chosen[:, 3, 2].any()  # dynamic: not the same at every update
    wide = nn.functional.pad(ids, (0, 3))
    for one, other in zip(mask_tokens(ids, rows(4), 10, width=9), mask_tokens(wide, rows(4), 10, width=9), strict=True):
        assert one.equal(other[:, :4])  # however wide the batch


@pytest.mark.spec("NLP-52")
def test_pieces_of_a_word_are_chosen_together():
    begins = torch.tensor([True] * 5 + [True, False])  # 5 begins a word, 6 goes on with it
    ids = torch.tensor([[2, 5, 6, 6, 5, 5, 6, 3]]).repeat(500, 1)
    chosen = mask_tokens(ids, rows(500), 7, begins=begins).labels != IGNORED
    assert chosen[:, 1].equal(chosen[:, 2]) and chosen[:, 1].equal(chosen[:, 3]) and chosen[:, 5].equal(chosen[:, 6])
    assert not chosen[:, 1].equal(chosen[:, 4]) and chosen.any(1).all()


@pytest.mark.spec("DLN-221", "DLN-222", "NLP-52", "NLP-53")
@torch.random.fork_rng()
def test_losses_by_hand_and_labels_elsewhere_do_not_matter():
    torch.manual_seed(0)
    x, head = torch.randn(3, 4, 5, dtype=torch.float64), nn.Linear(5, 7, dtype=torch.float64)
    labels = torch.tensor([[1, -100, 6, -100], [-100] * 4, [-100, 0, -100, -100]])
    log_p = head(x).log_softmax(-1)
    wanted = -(log_p[0, 0, 1] + log_p[0, 2, 6] + log_p[2, 1, 0])
    term = hidden_loss(head, x, labels)
    torch.testing.assert_close(term.sum, wanted)
    assert term.weight == 3
    other = x.clone()
    other[1] = 9.0
    torch.testing.assert_close(hidden_loss(head, other, labels).sum, wanted)
    layer, pooled = nn.Linear(5, 2, dtype=torch.float64), x[:, 0]
    term = next_loss(layer, pooled, np.array([1, -1, 0]))
    log_p = layer(pooled).log_softmax(-1)
    torch.testing.assert_close(term.sum, -(log_p[0, 1] + log_p[2, 0]))
    assert term.weight == 2


@pytest.mark.spec("DLN-222")
@torch.random.fork_rng()
def test_the_gradient_of_the_linear_layer_by_differences():
    torch.manual_seed(1)
    layer, pooled = nn.Linear(5, 2, dtype=torch.float64), torch.randn(6, 5, dtype=torch.float64)
    follows = np.array([1, 0, 1, -1, 0, 1])

    def loss(weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return next_loss(lambda x: nn.functional.linear(x, weight, bias), pooled, follows).sum

    assert torch.autograd.gradcheck(loss, (layer.weight, layer.bias))


TEXT = [[10, 11], [12], [], [20, 21, 22], [23], [24, 25], [], [], [30]]


def table() -> tuple[object, Pairing]:
    text = Ragged.of(TEXT)
    found = passages(text, stretches(text.lengths), 8, pairs=True)
    return found, found.shared["passages"]


@pytest.mark.spec("DLN-222", "NLP-53")
def test_half_of_the_pairs_are_true_and_the_others_of_other_documents():
    found, pairing = table()
    assert [one.tolist() for one in found["X"]] == [[10, 11], [12], [20, 21, 22, 23], [24, 25], [30]]
    assert [one.tolist() for one in found["next"]] == [[12], [], [24, 25], [], []]
    n = 4000
    drawn = [
        pairing.pairs(found["X"], found["next"], found["document"].values, Noise(0, "p").at(u).rows(np.arange(5)))
        for u in range(n)
    ]
    follows = np.array([labels for _, labels in drawn])
    assert (follows[:, [1, 3, 4]] == -1).all() and all(second[1].size == 0 for second, _ in drawn)
    for row, tens in ((0, 1), (2, 2)):
        true = follows[:, row] == 1
        assert within(int(true.sum()), n, 0.5)
        seconds = [tuple(second[row].tolist()) for second, _ in drawn]
        assert {one for one, t in zip(seconds, true, strict=True) if t} == {tuple(found["next"][row].tolist())}
        others = [one for one, t in zip(seconds, true, strict=True) if not t]
        assert all(one[0] // 10 != tens for one in others)
        wanted = {tuple(p.tolist()) for p in pairing.text if p[0] // 10 != tens}
        assert set(others) == wanted
        for one in wanted:
            assert within(others.count(one), len(others), 1 / len(wanted))


@pytest.mark.spec("DLN-222")
def test_a_drawn_passage_that_is_the_true_one_counts_as_following():
    """The other document says what follows, among others: labels go by what is read, not by where it stood."""
    text = Ragged.of([[10], [7], [], [20], [7], [21]])
    found = passages(text, stretches(text.lengths), 2, pairs=True)
    pairing, n, same = found.shared["passages"], 2000, 0
    for u in range(n):
        noise = Noise(0, "p").at(u).rows(np.arange(len(found)))
        second, follows = pairing.pairs(found["X"], found["next"], found["document"].values, noise)
        assert follows[0] == (second[0].tolist() == [7])
        same += int(follows[0])
    assert within(same, n, 1 / 2 + 1 / 2 * 1 / 3)  # passages of the other document: 20, 7 and 21


def test_passages_hold_every_token_and_stay_within_documents():
    random = np.random.default_rng(0)
    sentences = [random.integers(5, 99, random.integers(0, 7)) for _ in range(400)]
    text = Ragged.of(sentences)
    document = stretches(text.lengths)
    for pairs in (False, True):
        found = passages(text, document, 20, pairs=pairs)
        pairing = found.shared["passages"]
        assert pairing.text.values.tolist() == text.values.tolist()
        kept = np.repeat(document, text.lengths)
        owner = np.repeat(pairing.document, pairing.text.lengths)
        assert (kept == owner).all()
        most = 10 if pairs else 20
        assert (pairing.text.lengths < most + 7).all()
        assert found["X"].values.tolist() == text.values.tolist()
        several = pairs * (np.bincount(document[document >= 0]) > 1)
        paired = np.zeros(len(several), bool)
        paired[found["document"].values[found["next"].lengths > 0]] = True
        assert (paired == several).all()
    assert stretches(np.array([2, 2, 2, 2, 2]), 2).tolist() == [0, 0, 1, 1, 2]
