"""The embedding layer against one-hot products and torch's own: looked-up rows, gradients, padding, frozen vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gnomon.data import Vocabulary
from gnomon.errors import UserValueError
from gnomon.nn.embedding import Embedding

W = np.random.default_rng(0).normal(size=(7, 3))
IDS = torch.tensor([[1, 4, 1], [0, 1, 6]])
pytestmark = pytest.mark.spec("DLN-195")


def test_it_is_one_hot_times_the_matrix() -> None:
    layer = Embedding.from_pretrained(W)
    one_hot = Vocabulary([f"w{i}" for i in range(7)], ()).one_hot(IDS.numpy(), np.float64)
    np.testing.assert_array_equal(layer(IDS).detach().numpy(), one_hot @ W)


@pytest.mark.parametrize("padding", [None, 0])
def test_output_and_gradient_are_those_of_torch(padding: int | None) -> None:
    """An id that is there three times gathers three gradients; rows that are not looked up, and padding, get 0."""
    layer = Embedding.from_pretrained(W, padding=padding)
    peer = torch.nn.Embedding.from_pretrained(layer.weight.detach().clone(), freeze=False, padding_idx=padding)
    up = torch.from_numpy(np.random.default_rng(1).normal(size=(2, 3, 3)))
    for one in (layer, peer):
        one(IDS).backward(up)
    assert torch.equal(layer(IDS), peer(IDS))
    assert torch.equal(layer.weight.grad, peer.weight.grad)
    by_hand = up[0, 0] + up[0, 2] + up[1, 1]
    torch.testing.assert_close(layer.weight.grad[1], by_hand)
    assert not layer.weight.grad[[2, 3, 5]].any()
    assert layer.weight.grad[0].any() == (padding is None)


def test_the_padding_row_stays_at_zero_when_it_is_trained() -> None:
    layer = Embedding.from_pretrained(W, padding=0)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        (layer(IDS) - 1).square().sum().backward()
        optimizer.step()
    assert not layer.weight[0].any() and (layer.weight[1] != torch.from_numpy(W[1])).all()


def test_vectors_from_elsewhere_are_trained_or_frozen() -> None:
    given = W.copy()
    for freeze in (True, False):
        layer = Embedding.from_pretrained(given, freeze=freeze)
        assert layer.weight.requires_grad is not freeze
    layer = Embedding.from_pretrained(given).freeze()
    assert not layer.weight.requires_grad and layer.freeze(False).weight.requires_grad
    with torch.no_grad():
        layer.weight.zero_()
    np.testing.assert_array_equal(given, W)


@pytest.mark.parametrize("wrong", [-1, 7, 10**9])
def test_an_id_outside_the_matrix_is_one_line(wrong: int) -> None:
    layer = Embedding.from_pretrained(W)
    ids = torch.tensor([[0, wrong]])
    with pytest.raises(UserValueError, match=rf"ids must be in \[0, 7\), got {wrong}"):
        layer(ids)
    with pytest.raises(UserValueError, match=rf"ids must be in \[0, 7\), got {wrong}"):
        layer.bag(ids)
