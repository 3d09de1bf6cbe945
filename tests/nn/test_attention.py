"""Attention: worked numbers, torch's own, masks."""

from __future__ import annotations

import pytest
import torch

from gnomon.errors import UserValueError
from gnomon.nn.attention import (
    AdditiveAttention,
    AdditiveScore,
    BilinearAttention,
    BilinearScore,
    DotAttention,
    DotScore,
    NoAttention,
    attend,
    weights,
)
from gnomon.numeric.noise import Noise

F64 = torch.float64
MASK = torch.tensor([[True, True, True, False, False], [True, False, False, False, False]])


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def layers():
    made = [DotScore(), DotScore(scaled=True), BilinearScore(4, 4, dtype=F64), AdditiveScore(4, 4, 6, dtype=F64)]
    for layer in made:
        layer.initialize(Noise(0, "initial"))
    return made


@pytest.mark.spec("NLP-33")
def test_the_bilinear_score():
    layer, states = BilinearScore(2, 2, dtype=F64), torch.eye(2, dtype=F64)[None]
    query = torch.tensor([[1.0, 0.0]], dtype=F64)
    assert weights(layer.scores(query[:, None], layer.prepare(states)))[0, 0].tolist() == [0.5, 0.5]  # W = 0
    layer.weight.data.copy_(torch.eye(2))
    alpha = weights(layer.scores(query[:, None], layer.prepare(states)))
    assert alpha[0, 0].tolist() == pytest.approx([0.7310586, 0.2689414], abs=5e-8)
    assert torch.allclose(layer(query, states, states), alpha[0])  # the states are unit vectors: the context is alpha
    w, h, s = random(3, 4), random(2, 5, 3, seed=1), random(2, 4, seed=2)
    layer = BilinearScore(4, 3, dtype=F64)
    layer.weight.data.copy_(w)
    scores = torch.einsum("nth,hs,ns->nt", h, w, s)
    assert torch.allclose(layer.scores(s[:, None], layer.prepare(h))[:, 0], scores)
    assert torch.allclose(layer(s, h, h), torch.einsum("nt,nth->nh", torch.softmax(scores, 1), h))
    order = torch.tensor([3, 1, 4, 0, 2])
    assert torch.allclose(layer.scores(s[:, None], layer.prepare(h[:, order]))[:, 0], scores[:, order])
    padded = h.clone()
    padded[~MASK] = 1e6
    assert torch.allclose(layer(s, padded, padded, MASK)[0], layer(s[:1], h[:1, :3], h[:1, :3])[0])


@pytest.mark.spec("PRA-179")
def test_soft_attention():
    values = torch.tensor([[[1.0], [2.0], [3.0]]], dtype=F64)
    scores = torch.tensor([[0.0, 1.0, 2.0]], dtype=F64)
    assert weights(scores)[0].tolist() == pytest.approx([0.0900, 0.2447, 0.6652], abs=5e-5)
    assert attend(scores, values).item() == pytest.approx(2.5752104, abs=5e-8)
    assert attend(scores + 1e3 * torch.tensor([0.0, 1.0, 0.0]), values).item() == 2.0  # one that dominates is an index
    additive = AdditiveScore(3, 2, 4, dtype=F64)
    additive.initialize(Noise(0, "initial"))
    s, h = random(2, 3), random(2, 5, 2, seed=1)
    w, u, v = additive.query.weight, additive.key.weight, additive.v
    for i in range(2):
        e = torch.stack([v @ torch.tanh(w @ s[i] + u @ h[i, j]) for j in range(5)])
        assert torch.allclose(additive(s, h, h)[i], torch.softmax(e, 0) @ h[i])
    q, k, x = random(2, 3, 4), random(2, 5, 4, seed=1), random(2, 5, 6, seed=2)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, x, attn_mask=MASK[:, None])
    assert torch.allclose(DotScore(scaled=True)(q, k, x, MASK), expected)
    for layer in layers():
        same = random(2, 1, 4).expand(2, 5, 4)  # equal keys: the mean
        assert torch.allclose(layer(q, same, x), x.mean(1, keepdim=True).expand(2, 3, 6))
        nothing = layer(q, k, x, torch.zeros(2, 5, dtype=torch.bool))
        assert (nothing == 0).all()  # and no NaN
        junk = k.clone()
        junk[~MASK] = 1e5
        assert torch.allclose(layer(q, junk, x, MASK), layer(q, k, x, MASK))


@pytest.mark.spec("DLN-234")
def test_dot_and_additive_scores_of_a_decoder():
    s, h = random(2, 4), random(2, 5, 4, seed=1)
    dot, additive = DotScore(), AdditiveScore(4, 4, 6, dtype=F64)
    additive.initialize(Noise(0, "initial"))
    assert torch.allclose(dot.scores(s[:, None], h)[:, 0], torch.einsum("ns,nts->nt", s, h))
    expected = torch.tanh((s @ additive.query.weight.T)[:, None] + h @ additive.key.weight.T) @ additive.v
    assert torch.allclose(additive.scores(s[:, None], additive.prepare(h))[:, 0], expected)
    for layer in (dot, additive):
        alpha = weights(layer.scores(s[:, None], layer.prepare(h)), MASK[:, None])
        assert torch.allclose(alpha.sum(-1), torch.ones(2, 1, dtype=F64)) and (alpha[:, 0][~MASK] == 0).all()
        assert torch.allclose(layer(s, h, h, MASK), torch.einsum("nt,nth->nh", alpha[:, 0], h))
        assert torch.autograd.gradcheck(
            lambda q, k, layer=layer: layer(q, k, k, MASK), (s.clone().requires_grad_(), h.clone().requires_grad_())
        )
    zero = DotScore()(torch.zeros(2, 4, dtype=F64), h, h)
    assert torch.allclose(zero, h.mean(1))  # equal scores: the mean of the states
    saturated = additive.scores(1e6 * torch.ones(2, 1, 4, dtype=F64), additive.prepare(h))
    assert torch.allclose(saturated, saturated[..., :1].expand_as(saturated))
    with pytest.raises(UserValueError, match="equally wide, got 3 and 4"):
        dot(random(2, 3), h, h)


def test_the_recipes():
    assert NoAttention().build(3, 4) is None
    assert isinstance(DotAttention(scaled=True).build(4, 4), DotScore)
    assert BilinearAttention().build(3, 4).weight.shape == (4, 3)
    assert AdditiveAttention(units=7).build(3, 4).v.shape == (7,)
    with pytest.raises(UserValueError, match="equally wide"):
        DotAttention().build(3, 4)
