"""Windows of attention: dense, dilated, mixed by head; equal to full attention with their mask at a linear cost."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from gnomon.errors import UserValueError
from gnomon.nn import attention_engine as engine
from gnomon.nn.attention_engine import attention, explicit_attention
from gnomon.nn.attention_masks import (
    ByHead,
    Causal,
    GlobalTokens,
    Mask,
    Padding,
    SameSegment,
    SlidingWindow,
    receptive_field,
)  # fmt: skip
from gnomon.nn.positions import RelativePlaces
from gnomon.nn.transformer import EncoderLayer, MultiHeadAttention

F64 = torch.float64


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rule) -> torch.Tensor:
    """Attention pair by pair; rule(n, h, i, j)."""
    found = torch.zeros_like(q)
    for n, h, i in itertools.product(*map(range, q.shape[:3])):
        seen = [j for j in range(k.shape[2]) if rule(n, h, i, j)]
        if seen:
            e = torch.stack([(q[n, h, i] * k[n, h, j]).sum() / math.sqrt(q.shape[-1]) for j in seen]).exp()
            found[n, h, i] = sum(e[m] / e.sum() * v[n, h, j] for m, j in enumerate(seen))
    return found


def pairs(mask: Mask, n: int) -> torch.Tensor:
    i = torch.arange(n)
    return mask.allowed(i, i)


@pytest.mark.spec("NLP-58")
def test_the_window_is_that_of_the_definition():
    for n, w in itertools.product((1, 5, 8), range(18)):
        found = pairs(SlidingWindow.around(w), n)
        assert found.tolist() == [[abs(i - j) <= w / 2 for j in range(n)] for i in range(n)]
        assert torch.equal(found, pairs(SlidingWindow.around(w // 2 * 2), n))  # odd: one key less
        if w >= 2 * n:
            assert found.all()
    assert pairs(SlidingWindow.around(2), 8).sum() == 22
    one_sided = pairs(Causal() & SlidingWindow.around(6), 8)
    assert torch.equal(one_sided, pairs(SlidingWindow(3, 0), 8))
    with pytest.raises(UserValueError, match="width must be at least 0, got -1"):
        SlidingWindow.around(-1)


@pytest.mark.spec("NLP-60")
def test_a_dilated_window_is_that_of_the_definition():
    for w, d in itertools.product(range(7), (1, 2, 3)):
        found = pairs(SlidingWindow.around(w, d), 8)
        keys = [{i + k * d for k in range(-(w // 2), w // 2 + 1)} for i in range(8)]
        assert found.tolist() == [[j in keys[i] for j in range(8)] for i in range(8)]
        if d == 1:
            assert torch.equal(found, pairs(SlidingWindow.around(w), 8))
    assert pairs(SlidingWindow.around(2, 2), 8).sum() == 20


LABELS = torch.tensor([[0] * 20 + [1] * 17, [0] * 3 + [1] * 34])
LENGTHS = torch.tensor([37, 23])
MASKS = {
    "window": (SlidingWindow.around(4), lambda n, h, i, j: abs(i - j) <= 2),
    "before": (SlidingWindow(3, 0), lambda n, h, i, j: 0 <= i - j <= 3),
    "dilated": (SlidingWindow.around(4, 3), lambda n, h, i, j: abs(i - j) in (0, 3, 6)),
    "dilated causal": (Causal() & SlidingWindow.around(4, 3), lambda n, h, i, j: i - j in (0, 3, 6)),
    "padding": (SlidingWindow.around(4) & Padding(LENGTHS), lambda n, h, i, j: abs(i - j) <= 2 and j < LENGTHS[n]),
    "texts": (
        Causal() & SameSegment(LABELS) & SlidingWindow(6, 0, 2),
        lambda n, h, i, j: i - j in (0, 2, 4, 6) and LABELS[n, i] == LABELS[n, j],
    ),
    "global": (
        SlidingWindow.around(2, 2) | GlobalTokens((0, 17)),
        lambda n, h, i, j: abs(i - j) in (0, 2) or {i, j} & {0, 17},
    ),
    "mixed": (
        ByHead.windows([4, 2, 4], [1, 3, 3]), lambda n, h, i, j: abs(i - j) in ((0, 1, 2), (0, 3), (0, 3, 6))[h]
    ),
    "mixed causal global": (
        Causal() & (ByHead.windows([2, 2, 2], [1, 4, 1]) | GlobalTokens((1,))),
        lambda n, h, i, j: i >= j and (i - j in ((0, 1), (0, 4), (0, 1))[h] or 1 in (i, j)),
    ),
    "mixed padding": (
        ByHead((SlidingWindow.around(2), GlobalTokens((0,)), SlidingWindow.around(2, 5))) & Padding(LENGTHS),
        lambda n, h, i, j: j < LENGTHS[n] and (abs(i - j) <= 1, 0 in (i, j), abs(i - j) in (0, 5))[h],
    ),
}  # fmt: skip
T = 37


@pytest.mark.spec("NLP-58", "NLP-60", "NLP-61")
@pytest.mark.parametrize("block", [2, 5, 128])
@pytest.mark.parametrize("name", MASKS)
def test_a_window_is_full_attention_with_its_mask(name, block, monkeypatch):
    mask, rule = MASKS[name]
    monkeypatch.setattr(engine, "BLOCK", block)
    calls = []
    banded = engine._banded
    monkeypatch.setattr(engine, "_banded", lambda *given: calls.append(given[3]) or banded(*given))
    q, k, v = (random(2, 3, T, 2, seed=seed).requires_grad_() for seed in range(3))
    expected = by_hand(q, k, v, rule)
    found = attention(q, k, v, mask)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(explicit_attention(q, k, v, mask)[0], expected, rtol=0, atol=1e-12)
    weight = random(*found.shape, seed=9)
    slopes = torch.autograd.grad((found * weight).sum(), (q, k, v))
    for one, other in zip(slopes, torch.autograd.grad((expected * weight).sum(), (q, k, v)), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    assert bool(calls) == (block < 128)  # in small blocks no square is written out
    allowed = torch.broadcast_to(mask.allowed(torch.arange(T), torch.arange(T)), (2, 3, T, T))
    for n, h, i, j in torch.argwhere(allowed).tolist():  # the promises that the engine builds on
        one = mask.by_head(3)[h]
        (back, ahead), free = one.reach, i in one.anchors or j in one.anchors
        assert rule(n, h, i, j) and (free or (-back <= j - i <= ahead and (j - i) % (one.stride or T) == 0))


@pytest.mark.spec("NLP-58")
def test_a_window_as_wide_as_the_text_is_full_attention():
    q, k, v = (random(1, 2, 9, 4, seed=seed) for seed in range(3))
    torch.testing.assert_close(attention(q, k, v, SlidingWindow.around(18)), attention(q, k, v))
    torch.testing.assert_close(attention(q, k, v, SlidingWindow(9, 0)), attention(q, k, v, Causal()))


@pytest.mark.spec("NLP-61")
@pytest.mark.parametrize("block", [2, 128])
def test_each_head_is_its_single_head_version(block, monkeypatch):
    monkeypatch.setattr(engine, "BLOCK", block)
    layer = MultiHeadAttention(8, 4, dtype=F64)
    for i, parameter in enumerate(layer.parameters()):
        parameter.data.copy_(random(*parameter.shape, seed=i))
    layer.out.weight.data.copy_(torch.eye(8))
    x, widths, dilations = random(2, 30, 8, seed=8), [2, 4, 6, 2], [1, 1, 2, 1]
    found = layer(x, mask=ByHead.windows(widths, dilations))
    for h, (w, d) in enumerate(zip(widths, dilations, strict=True)):
        alone = layer(x, mask=SlidingWindow.around(w, d))
        torch.testing.assert_close(found[..., 2 * h : 2 * h + 2], alone[..., 2 * h : 2 * h + 2])
        others = [m for m in range(4) if m != h and (widths[m], dilations[m]) != (w, d)]
        assert not any(torch.allclose(found[..., 2 * m : 2 * m + 2], alone[..., 2 * m : 2 * m + 2]) for m in others)
    same = layer(x, mask=ByHead.windows([4] * 4, [1] * 4))
    torch.testing.assert_close(same, layer(x, mask=SlidingWindow.around(4)), rtol=0, atol=0)
    with pytest.raises(UserValueError, match="dilations must be as many as the windows, 4, got 3"):
        ByHead.windows(widths, dilations[:3])
    for explicit in (False, True):
        ask = layer.weights if explicit else layer
        with pytest.raises(UserValueError, match="masks must be as many as the heads, 4, got 3"):
            ask(x, mask=Causal() & ByHead.windows(widths[:3], dilations[:3]))


@pytest.mark.spec("NLP-61")
def test_what_is_added_to_the_scores_goes_with_its_head(monkeypatch):
    monkeypatch.setattr(engine, "BLOCK", 4)
    places = RelativePlaces(3, 5, dtype=F64)
    places.weight.data.copy_(random(3, 11, seed=4))
    q, k, v = (random(2, 3, 60, 4, seed=seed) for seed in range(3))
    mask = ByHead.windows([4, 2, 4], [1, 3, 1])
    expected, _ = explicit_attention(q, k, v, mask, bias=places.bias)
    torch.testing.assert_close(attention(q, k, v, mask, bias=places.bias), expected)


class Largest(TorchDispatchMode):
    """Numbers of the largest tensor that is written, forward or back."""

    def __init__(self) -> None:
        super().__init__()
        self.found = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        made = [one for one in (out if isinstance(out, tuple | list) else (out,)) if isinstance(one, torch.Tensor)]
        self.found = max([self.found, *(one.untyped_storage().nbytes() // one.element_size() for one in made)])
        return out


@pytest.mark.spec("NLP-58", "NLP-60", "NLP-61")
@pytest.mark.parametrize("mask", [SlidingWindow.around(32), SlidingWindow.around(8, 4) | GlobalTokens((0,)),
                                  ByHead.windows([16, 16], [1, 8])], ids=["dense", "dilated", "mixed"])  # fmt: skip
def test_memory_grows_with_the_length(mask):
    """No tensor of a text of 16384 tokens is longer than three of its inputs; what is kept grows as the length does."""

    def measured(n: int) -> tuple[int, int]:
        q = random(1, 2, n, 4).float().requires_grad_()
        kept, mode = {}, Largest()
        hooks = torch.autograd.graph.saved_tensors_hooks(
            lambda one: kept.setdefault(one.untyped_storage().data_ptr(), one) is None or one, lambda one: one
        )
        with mode, hooks:
            attention(q, q, q, mask).sum().backward()
        assert q.grad is not None and bool(torch.isfinite(q.grad).all())
        return mode.found, sum(one.untyped_storage().nbytes() for one in kept.values())

    (_, small), (_, middle), (sixteen, large) = (measured(n) for n in (1024, 4096, 16384))
    assert sixteen <= 3 * 8 * 16384 and sixteen < 16384**2 / 100
    assert middle < 4.6 * small and large < 4.6 * middle and large < 16384**2 / 2


@pytest.mark.spec("NLP-59")
def test_the_receptive_field_of_stacked_windows():
    """Tokens whose embedding has a slope in one output, counted."""

    def reached(layers: int, mask: Mask, at: int, n: int = 41) -> list[int]:
        stack = [EncoderLayer(4, 2, 3, nn.GELU(), norm_first=True, dtype=F64) for _ in range(layers)]
        for seed, parameter in enumerate(p for layer in stack for p in layer.parameters()):
            parameter.data.copy_(random(*parameter.shape, seed=seed))
        x = random(1, n, 4, seed=50).requires_grad_()
        y = x
        for layer in stack:
            y = layer(y, mask)
        (slope,) = torch.autograd.grad(y[0, at].square().sum(), x)
        return torch.nonzero(slope[0].abs().sum(1))[:, 0].tolist()

    for layers, w, d in itertools.product((1, 3), (2, 3, 4), (1, 2, 3)):
        seen = reached(layers, SlidingWindow.around(w, d), 20)
        assert seen[-1] - seen[0] + 1 == receptive_field(layers, w, d)
        assert len(seen) == receptive_field(layers, w)  # gridding: the other remainders are never mixed in
        assert all((place - 20) % d == 0 for place in seen)
        before = reached(layers, SlidingWindow(w * d, 0, d), 40)
        assert before[-1] == 40 and 40 - before[0] + 1 == receptive_field(layers, w, d, causal=True)
    assert len(reached(3, SlidingWindow.around(2), 20)) == receptive_field(3, 2) == 7
    mixed = ByHead.windows([2, 2], [1, 4])  # a dense head beside the dilated one leaves no gap that grows
    assert set(reached(3, mixed, 20)) > set(reached(3, SlidingWindow.around(2, 4), 20))
    assert len(reached(3, SlidingWindow.around(2), 0)) == 4 < 7  # at the border there are fewer
    assert receptive_field(0, 8) == 1 and receptive_field(4, 1) == 1
    with pytest.raises(UserValueError, match="dilation must be at least 1, got 0"):
        receptive_field(1, 2, 0)
