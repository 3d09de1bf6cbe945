"""Embedding: the dense product it stands for, torch's bag, pretrained vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gnomon.errors import UserValueError
from gnomon.nn.embedding import Embedding, TiedHead
from gnomon.numeric.noise import Noise

F64 = torch.float64


@pytest.mark.spec("NLP-10")
def test_embedding_is_the_dense_product_and_torchs_bag():
    vectors = np.random.default_rng(0).normal(size=(6, 3))
    layer = Embedding.from_pretrained(vectors, padding=0)
    table = vectors.copy()
    table[0] = 0
    ids = torch.tensor([[1, 4, 4, 0], [5, 0, 0, 0], [0, 0, 0, 0]])
    hot = torch.nn.functional.one_hot(ids, 6).double()
    assert torch.allclose(layer(ids), hot @ torch.from_numpy(table))
    assert torch.allclose(layer.bag(ids), hot.sum(1) @ torch.from_numpy(table))  # x: counts of the words
    for mode in ("sum", "mean"):
        theirs = torch.nn.EmbeddingBag.from_pretrained(torch.from_numpy(table), mode=mode, padding_idx=0)
        assert torch.allclose(layer.bag(ids, mode=mode), theirs(ids))
    layer.bag(ids).sum().backward()
    gradient = layer.weight.grad
    assert gradient[:, 0].tolist() == [0, 1, 0, 0, 2, 1]  # as often as a word is there; never the padding
    kept = torch.tensor([[True, True, False, False], [True] * 4, [False] * 4])
    assert torch.allclose(layer.bag(ids, kept)[0], layer.weight[1] + layer.weight[4])
    # from vectors by word: rows missing in the table, frozen or not
    known = {"sun": vectors[1], "dial": vectors[2]}
    tokens = ["<pad>", "sun", "shadow", "dial"]
    plain = Embedding.from_pretrained(known, tokens=tokens, padding=0)
    assert torch.equal(plain.weight[[1, 3]], torch.from_numpy(vectors[1:3])) and (plain.weight[[0, 2]] == 0).all()
    drawn = Embedding.from_pretrained(known, tokens=tokens, padding=0, noise=Noise(0, "x"), freeze=True)
    assert drawn.weight[2].norm() > 0 and (drawn.weight[0] == 0).all()
    assert plain.weight.requires_grad and not drawn.weight.requires_grad


def test_a_padding_vector_takes_no_gradient_of_its_own():
    layer = Embedding.from_pretrained(np.ones((4, 2)), padding=2)
    layer(torch.tensor([[0, 2], [2, 3]])).sum().backward()
    assert layer.weight.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]


def test_missing_vectors_are_drawn_as_long_as_the_given_ones():
    """Mean squared length of 4,000 drawn rows: a standard error of 0.3 %."""
    known = {"sun": np.full(50, 3.0), "dial": np.full(50, -1.0)}
    tokens = ["sun", "dial", *map(str, range(4000))]
    layer = Embedding.from_pretrained(known, tokens=tokens, noise=Noise(0, "x"))
    assert layer.weight[2:].square().sum(1).mean().item() == pytest.approx((450 + 50) / 2, rel=0.02)


def test_a_tied_head_scores_by_the_embedding_and_learns_it():
    vectors, x = np.random.default_rng(0).normal(size=(5, 3)), torch.ones(2, 4, 3, dtype=F64)
    layer = Embedding.from_pretrained(vectors)
    head = TiedHead(layer, without=1)
    head.bias.data.copy_(torch.arange(4.0))
    expected = x @ torch.from_numpy(vectors[[0, 2, 3, 4]]).T + torch.arange(4.0)
    assert torch.allclose(head(x), expected)
    assert [name for name, _ in head.named_parameters()] == ["bias"]
    head(x)[0, 0].sum().backward()
    assert layer.weight.grad.tolist() == [[1.0] * 3, [0.0] * 3, *[[1.0] * 3] * 3]


def test_initial_vectors_have_length_one_on_average():
    layer = Embedding(4000, 50, padding=3, dtype=F64)
    layer.initialize(Noise(0, "initial"))
    assert layer.weight.norm(dim=1).square().mean().item() == pytest.approx(1, abs=0.02)
    assert (layer.weight[3] == 0).all()


@pytest.mark.parametrize("vectors", [{"a": np.zeros(2), "b": np.zeros(3)}, {"z": np.zeros(2)}, np.zeros(3)])
def test_vectors_that_are_none_are_refused(vectors):
    with pytest.raises(UserValueError, match="must"):
        Embedding.from_pretrained(vectors, tokens=["a", "b"])
