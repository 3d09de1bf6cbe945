"""Attention's parts by explicit sums: scores, masks by brute force, positions, and engines that agree."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

from gnomon.errors import UserValueError
from gnomon.nn import attention as room
from gnomon.nn import attention_engine as engine
from gnomon.nn.attention import AdditiveScore, BilinearScore, DotScore, GaussianScore, attend, weights
from gnomon.nn.attention_engine import attention, explicit_attention
from gnomon.nn.attention_masks import (
    Causal,
    GivenMask,
    GlobalTokens,
    Padding,
    SameSegment,
    SegmentStarts,
    SlidingWindow,
    as_mask,
    causal_mask,
    combine,
    padding_mask,
)  # fmt: skip
from gnomon.nn.context import training
from gnomon.nn.dropout import Dropout
from gnomon.nn.positions import (
    LearnedPositions,
    NoPositions,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
    shift_matrix,
    sinusoidal_table,
)  # fmt: skip
from gnomon.numeric.noise import Noise

F64 = torch.float64


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Attention pair by pair, allowed (n, h, q, k)."""
    found = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
    for n, h, i in itertools.product(*map(range, q.shape[:3])):
        seen = [j for j in range(k.shape[2]) if allowed[n, h, i, j]]
        if seen:
            e = torch.stack([(q[n, h, i] * k[n, h, j]).sum() / math.sqrt(q.shape[-1]) for j in seen]).exp()
            found[n, h, i] = sum(e[m] / e.sum() * v[n, h, j] for m, j in enumerate(seen))
    return found


# --- scores -------------------------------------------------------------------------------------------------------


def scores() -> list[room.Attention]:
    made = [GaussianScore(0.7), DotScore(), DotScore(scaled=True), BilinearScore(4, 4, dtype=F64),
            AdditiveScore(4, 4, 5, dtype=F64)]  # fmt: skip
    for layer in made:
        for i, parameter in enumerate(layer.parameters()):
            parameter.data.copy_(random(*parameter.shape, seed=i))
    return made


@pytest.mark.spec("LIN-27")
def test_scores_of_a_batch_are_those_of_the_pairs():
    q, k = random(2, 3, 4), random(2, 5, 4, seed=1)
    gaussian, dot, scaled, bilinear, additive = scores()
    w, wq, wk, wv = bilinear.weight, additive.query.weight, additive.key.weight, additive.v
    pairs = [
        (gaussian, lambda a, b: -0.5 * ((0.7 * (a - b)) ** 2).sum()),
        (dot, lambda a, b: a @ b),
        (scaled, lambda a, b: a @ b / 2),
        (bilinear, lambda a, b: b @ w @ a),
        (additive, lambda a, b: wv @ torch.tanh(wq @ a + wk @ b)),
    ]
    for layer, score in pairs:
        found = layer.score(q, k)
        assert found.shape == (2, 3, 5)
        for n, i, j in itertools.product(range(2), range(3), range(5)):
            assert found[n, i, j].item() == pytest.approx(score(q[n, i], k[n, j]).item(), abs=1e-12)
    # keys of one length: the Gaussian score is the unscaled product and a constant of the query
    k = k / k.norm(dim=-1, keepdim=True)
    apart = GaussianScore().score(q, k) - DotScore().score(q, k)
    assert torch.allclose(apart, apart[..., :1].expand_as(apart))
    assert torch.allclose(weights(GaussianScore().score(q, k)), weights(2 * DotScore(scaled=True).score(q, k)))
    for one in (DotScore(), GaussianScore()):
        with pytest.raises(UserValueError, match="equally wide, got 3 and 4"):
            one.score(random(2, 1, 3), k)


@pytest.mark.spec("LIN-23")
def test_attention_pooling():
    q, k, v = random(2, 3, 4), random(2, 5, 4, seed=1), random(2, 5, 2, seed=2)
    order = torch.tensor([3, 0, 4, 1, 2])
    mask = torch.tensor([[True, True, False, True, False], [False] * 5])
    for layer in scores():
        found = layer(q, k, v)
        alpha = weights(layer.score(q, k))
        assert torch.allclose(found, torch.einsum("nqt,ntd->nqd", alpha, v))
        assert (found <= v.amax(1, keepdim=True) + 1e-12).all() and (found >= v.amin(1, keepdim=True) - 1e-12).all()
        assert torch.allclose(layer(q, k[:, order], v[:, order]), found)
        masked = layer(q, k, v, mask)
        assert torch.allclose(masked[0], layer(q[:1], k[:1, [0, 1, 3]], v[:1, [0, 1, 3]])[0])
        assert (masked[1] == 0).all()
        with pytest.raises(UserValueError, match="at least one key, got none"):
            layer(q, k[:, :0], v[:, :0])
    assert torch.allclose(attend(torch.full((2, 3, 5), 7.0, dtype=F64), v), v.mean(1, keepdim=True).expand(2, 3, 2))


@pytest.mark.spec("LIN-28")
def test_the_additive_score(monkeypatch):
    eye = torch.eye(2, dtype=F64)
    layer = AdditiveScore(2, 2, 2, dtype=F64)
    layer.query.weight.data.copy_(eye)
    layer.key.weight.data.copy_(eye)
    layer.v.data.fill_(1)
    assert layer.score(eye[None, :1], eye[None, 1:]).item() == pytest.approx(1.5231883, abs=5e-8)
    layer = AdditiveScore(3, 2, 4, dtype=F64)
    q, k, v = random(2, 6, 3), random(2, 5, 2, seed=1), random(2, 5, 3, seed=2)
    assert torch.allclose(layer(q, k, v), v.mean(1, keepdim=True).expand(2, 6, 3))  # v = 0: uniform
    layer.initialize(Noise(0, "initial"))
    assert not any(name.endswith("bias") for name, _ in layer.named_parameters())
    joined = torch.cat([layer.query.weight, layer.key.weight], 1)  # one hidden layer on [q; k]
    pairs = torch.cat([q[:, :, None].expand(2, 6, 5, 3), k[:, None].expand(2, 6, 5, 2)], -1)
    assert torch.allclose(layer.score(q, k), torch.tanh(pairs @ joined.T) @ layer.v)
    mask = torch.tensor([[True] * 5, [True, False, True, False, False]])
    inputs = (q[:, :2].clone().requires_grad_(), k.clone().requires_grad_(), v.clone().requires_grad_())
    assert torch.autograd.gradcheck(lambda *given: layer(*given, mask), inputs)
    whole = layer(q, k, v, mask)
    monkeypatch.setattr(room, "CELLS", 2 * 5 * 4 * 2)  # two queries at a time
    calls = []
    score = AdditiveScore.scores
    monkeypatch.setattr(AdditiveScore, "scores", lambda *given: calls.append(given[1].shape[1]) or score(*given))
    with torch.no_grad():
        assert torch.allclose(layer(q, k, v, mask), whole)
    assert calls == [2, 2, 2]
    dropped = AdditiveScore(3, 2, 4, dtype=F64, dropout=0.5)
    with training(Noise(0, "fit")):  # uniform weights of 1/5, each 0 or doubled
        counts = dropped(q, k, torch.eye(5, dtype=F64).expand(2, 5, 5)) * 5 / 2
    assert set(counts.round(decimals=9).unique().tolist()) == {0.0, 1.0}


@pytest.mark.spec("LIN-29")
@pytest.mark.parametrize("d", [4, 64, 1024])
def test_the_scaled_score_keeps_the_variance(d):
    n = 5000
    found = DotScore(scaled=True).score(random(n, 1, d), random(n, 1, d, seed=1)).flatten().numpy()
    # products are uncorrelated with variance 1 and fourth moment at most 9: 5 standard errors, one failure in 10^6
    assert abs(found.mean()) < 5 / math.sqrt(n)
    assert abs((found**2).mean() - 1) < 5 * math.sqrt(8 / n)
    assert torch.equal(DotScore(scaled=True).score(random(1, 2, 1), random(1, 3, 1)),
                       DotScore().score(random(1, 2, 1), random(1, 3, 1)))  # fmt: skip
    with pytest.raises(UserValueError, match="equally wide"):
        DotScore(scaled=True).score(random(1, 2, d), random(1, 2, 3))
    half = torch.full((1, 1, d), 150.0, dtype=torch.float16)  # 90000 overflows, half of it does not
    if d == 4:
        assert torch.isfinite(DotScore(scaled=True).score(half, half)).all()
        assert not torch.isfinite(DotScore().score(half, half)).all()


# --- masks and engines --------------------------------------------------------------------------------------------

T = 7
LENGTHS = torch.tensor([7, 3])
LABELS = torch.tensor([[0, 0, 0, 1, 1, 1, 2], [0, 1, 1, 1, 1, 1, 1]])
FIRST = torch.tensor([[0, 0, 0, 3, 3, 3, 6], [0, 1, 1, 1, 1, 1, 1]])
RULES = {
    "none": (None, lambda n, i, j: True),
    "causal": (Causal(), lambda n, i, j: j <= i),
    "padding": (Padding(LENGTHS), lambda n, i, j: j < LENGTHS[n]),
    "window": (SlidingWindow(2, 1), lambda n, i, j: -2 <= j - i <= 1),
    "dilated": (SlidingWindow(4, 4, 2), lambda n, i, j: abs(j - i) <= 4 and (j - i) % 2 == 0),
    "global": (
        SlidingWindow(1, 1) | GlobalTokens((0, 4)), lambda n, i, j: abs(i - j) <= 1 or i in (0, 4) or j in (0, 4)
    ),
    "causal window": (Causal() & SlidingWindow(2, 2), lambda n, i, j: 0 <= i - j <= 2),
    "causal global": (
        Causal() & (SlidingWindow(1, 0) | GlobalTokens((0,))),
        lambda n, i, j: j <= i and (i - j <= 1 or i == 0 or j == 0),
    ),
    "causal padding": (Causal() & Padding(LENGTHS), lambda n, i, j: j <= i and j < LENGTHS[n]),
    "segments": (Causal() & SameSegment(LABELS), lambda n, i, j: j <= i and LABELS[n, i] == LABELS[n, j]),
    "starts": (
        Causal() & SameSegment(LABELS) & (SlidingWindow(0, 0) | SegmentStarts(FIRST, 1)),
        lambda n, i, j: j <= i and LABELS[n, i] == LABELS[n, j] and (i == j or j == FIRST[n, j]),
    ),
    "nothing": (GivenMask(torch.zeros(T, T, dtype=torch.bool)), lambda n, i, j: False),
    "either": (SlidingWindow(0, 0) | Causal(), lambda n, i, j: j <= i),
}  # fmt: skip


@pytest.mark.parametrize("block", [2, 128])
@pytest.mark.parametrize("name", RULES)
def test_every_mask_by_brute_force(name, block, monkeypatch):
    monkeypatch.setattr(engine, "BLOCK", block)
    monkeypatch.setattr(engine, "_is_narrow", lambda mask, *_: block == 2 and None not in mask.reach)
    mask, rule = RULES[name]
    q, k, v = (random(2, 3, T, 4, seed=seed) for seed in range(3))
    allowed = torch.tensor([[[[bool(rule(n, i, j)) for j in range(T)] for i in range(T)]] * 3 for n in range(2)])
    expected = by_hand(q, k, v, allowed)
    torch.testing.assert_close(attention(q, k, v, mask), expected, rtol=0, atol=1e-12)
    found, alpha = explicit_attention(q, k, v, mask)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert (alpha[~allowed] == 0).all()
    if mask is not None:
        torch.testing.assert_close(attention(q, k, v, allowed), expected, rtol=0, atol=1e-12)
        # the promise that the banded engine builds on
        back, ahead = mask.reach
        for _, _, i, j in torch.argwhere(allowed).tolist():
            inside = (back is None or i - j <= back) and (ahead is None or j - i <= ahead)
            assert inside or i in mask.anchors or j in mask.anchors
    inputs = [one[:1, :1].clone().requires_grad_() for one in (q, k, v)]
    if mask is None or name in ("global", "causal", "nothing", "causal window"):
        assert torch.autograd.gradcheck(lambda *given: attention(*given, mask), inputs)


def test_positions_bias_and_dropout_in_all_engines(monkeypatch):
    q, k, v = (random(2, 3, 40, 4, seed=seed) for seed in range(3))
    table = random(3, 79, seed=5)
    mask = SlidingWindow(3, 2) | GlobalTokens((0, 17))

    def bias(i, j):
        return table[:, j - i[:, None] + 39]

    expected, _ = explicit_attention(q, k, v, mask, bias=bias)
    torch.testing.assert_close(attention(q, k, v, mask, bias=bias), expected)
    monkeypatch.setattr(engine, "BLOCK", 8)
    calls = []
    banded = engine._banded
    monkeypatch.setattr(engine, "_banded", lambda *given: calls.append(1) or banded(*given))
    torch.testing.assert_close(attention(q, k, v, mask, bias=bias), expected)
    assert calls == [1]
    drop = Dropout(0.4)
    with training(Noise(0, "fit")):
        thinned = attention(q, k, v, mask, bias=bias, drop=drop)
    assert not torch.allclose(thinned, expected)
    torch.testing.assert_close(attention(q, k, v, mask, bias=bias, drop=drop), expected)


def test_memory_of_a_window_grows_with_the_length_alone():
    """Numbers kept for the way back, by the hook that autograd offers."""

    def kept(length):
        q = random(1, 1, length, 2).requires_grad_()
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda one: sizes.append(one.numel()) or one, lambda one: one):
            attention(q, q, q, SlidingWindow(8, 0) & Causal())
        return sum(sizes)

    one, four, sixteen = (kept(n) for n in (1024, 4096, 16384))
    assert four < 5 * one and sixteen < 5 * four
    assert sixteen < 16384**2 / 10


@pytest.mark.spec("LIN-30")
@pytest.mark.spec("DLN-211")
@pytest.mark.spec("NLP-43")
def test_scaled_dot_product_attention():
    q = torch.eye(2, dtype=F64)[None, None]
    k = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]], dtype=F64)
    v = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]]], dtype=F64)
    half = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]]], dtype=F64)
    for found in (attention(q, k, v)[0, 0], DotScore(scaled=True)(q[0], k[0], v[0])[0]):
        assert found.tolist() == [pytest.approx(row, abs=1e-7) for row in ([1.2033362, 1], [1, 1.2033362])]
    found, alpha = explicit_attention(q, k, half)
    assert alpha[0, 0, 0].tolist() == pytest.approx([0.401112, 0.197776, 0.401112], abs=5e-7)
    assert found[0, 0].tolist() == [pytest.approx(r, abs=5e-7) for r in ([0.601668, 0.398332], [0.398332, 0.601668])]
    q, k, v = random(2, 3, 5, 4), random(2, 3, 6, 4, seed=1), random(2, 3, 6, 3, seed=2)
    fused = nn.functional.scaled_dot_product_attention
    torch.testing.assert_close(attention(q, k, v), fused(q, k, v))
    mask = padding_mask([6, 2])
    torch.testing.assert_close(attention(q, k, v, mask), fused(q, k, v, attn_mask=mask[:, None]))
    torch.testing.assert_close(attention(q, k[:, :, :5], v[:, :, :5], Causal()),
                               fused(q, k[:, :, :5], v[:, :, :5], is_causal=True))  # fmt: skip
    order = torch.tensor([4, 2, 0, 3, 1])
    torch.testing.assert_close(attention(q[:, :, order], k, v), attention(q, k, v)[:, :, order])
    same = k[:, :, :1].expand_as(k)  # equal keys: the mean of the values
    torch.testing.assert_close(attention(q, same, v), v.mean(2, keepdim=True).expand(2, 3, 5, 3))
    n, d = 20000, 16  # 5 standard errors, one failure in 10^6
    spread = (random(n, d) * random(n, d, seed=1)).sum(1) / math.sqrt(d)
    assert abs(spread.square().mean().item() - 1) < 5 * math.sqrt(8 / n)
    low = torch.full((1, 1, 2, 4), 1.5, dtype=torch.float16)
    none = torch.tensor([[True, False], [False, False]])
    for found in (attention(low, low, low, none), explicit_attention(low, low, low, none)[0]):
        assert (found[0, 0, 0] == 1.5).all() and (found[0, 0, 1] == 0).all()  # in half precision, no NaN
    with pytest.raises(UserValueError, match="at least one key"):
        attention(q, k[:, :, :0], v[:, :, :0])
    with pytest.raises(UserValueError, match="equally wide, got 4 and 3"):
        attention(q, v, v)
    grown = [one.clone().requires_grad_() for one in (q[:1, :1], k[:1, :1], v[:1, :1])]
    assert torch.autograd.gradcheck(lambda *given: attention(*given), grown)


def test_masks_as_tensors():
    assert padding_mask(torch.tensor([2, 0]), 3).tolist() == [[[True, True, False]], [[False] * 3]]
    assert torch.equal(causal_mask(4), torch.ones(4, 4).tril().bool())
    both = combine(padding_mask([2, 4]), causal_mask(4))
    assert both.shape == (2, 4, 4)
    assert torch.equal(both[0], torch.ones(4, 4).tril().bool() & (torch.arange(4) < 2))
    assert as_mask(None) is None and as_mask(Causal()) == Causal()
    with pytest.raises(UserValueError, match=r"mask must be a Mask or a bool tensor, got torch.float64"):
        as_mask(random(2, 2))
    with pytest.raises(UserValueError, match="at least one mask"):
        combine()
    with pytest.raises(UserValueError, match="dilation must be at least 1, got 0"):
        SlidingWindow(1, 1, 0)
    with pytest.raises(UserValueError, match="places must be at least 0, got -1"):
        GlobalTokens((3, -1))
    with pytest.raises(UserValueError, match="count must be at least 1, got 0"):
        SegmentStarts(FIRST, 0)


@pytest.mark.parametrize("engine", [attention, explicit_attention])
def test_what_does_not_fit_together_is_refused(engine):
    q, k, v = random(1, 2, 3, 4), random(1, 2, 5, 4), random(1, 2, 5, 4)
    for rows, columns in ((3, 4), (3, 6), (2, 5), (4, 5)):  # one too large would be cut in silence
        for shape in ((rows, columns), (1, 1, rows, columns)):
            with pytest.raises(
                UserValueError, match=f"3 queries, or of 1 for all, and 5 keys, got {rows} and {columns}"
            ):
                engine(q, k, v, torch.ones(shape, dtype=torch.bool))
    with pytest.raises(UserValueError, match=r"2, 3 or 4 axes, got shape \(5,\)"):
        engine(q, k, v, torch.ones(5, dtype=torch.bool))
    for many in (4, 6):
        with pytest.raises(UserValueError, match=f"values must be as many as the keys, 5, got {many}"):
            engine(q, k, random(1, 2, many, 4))
    with pytest.raises(UserValueError, match=r"mask must be a bool tensor, got torch.float64"):
        DotScore()(q[0], k[0], v[0], random(2, 5))


# --- positions ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("DLN-215")
def test_sinusoidal_positions():
    table = sinusoidal_table(30, 6)
    assert sinusoidal_table(2, 4)[1].tolist() == pytest.approx([0.841471, 0.540302, 0.010000, 0.999950], abs=5e-7)
    speed = 10000 ** (-np.arange(0, 6, 2) / 6)
    for delta in (1, 7):  # a place further on is a rotation, the same from everywhere
        cos, sin = (torch.from_numpy(f(speed * delta)) for f in (np.cos, np.sin))
        s, c = table[:-delta, ::2], table[:-delta, 1::2]
        torch.testing.assert_close(table[delta:, ::2], cos * s + sin * c, rtol=0, atol=1e-12)
        torch.testing.assert_close(table[delta:, 1::2], cos * c - sin * s, rtol=0, atol=1e-12)
    products = table @ table.T
    for delta in (0, 3):
        along = products.diagonal(delta)
        assert torch.allclose(along, along[:1].expand_as(along))
    assert sinusoidal_table(3, 5).shape == (3, 5)
    assert torch.allclose(sinusoidal_table(3, 5)[:, 4], (torch.arange(3) * 10000**-0.8).double().sin())
    layer, x = SinusoidalPositions().build(30, 6, 2, F64), random(2, 9, 6)
    assert torch.equal(layer(x), x + table[:9])
    assert not list(layer.parameters())
    with pytest.raises(UserValueError, match="at most 30 tokens, got one at place 30"):
        layer(random(1, 31, 6))


@pytest.mark.spec("NLP-48")
def test_places_are_moved_by_a_matrix():
    table = sinusoidal_table(400, 6)
    for t, i in itertools.product((0, 1, 2, 399), range(3)):  # the definition, column by column
        angle = t * 10000 ** (-2 * i / 6)
        assert table[t, 2 * i : 2 * i + 2].tolist() == pytest.approx([math.sin(angle), math.cos(angle)], abs=1e-12)
    assert sinusoidal_table(2, 4)[1].tolist() == pytest.approx([0.8414710, 0.5403023, 0.0099998, 0.9999500], abs=5e-8)
    for k in (0, 1, 7, 350):
        moved = shift_matrix(k, 6)
        torch.testing.assert_close(table[: 400 - k] @ moved.T, table[k:], rtol=0, atol=1e-12)
        torch.testing.assert_close(table[k:] @ shift_matrix(-k, 6).T, table[: 400 - k], rtol=0, atol=1e-12)
        torch.testing.assert_close(moved @ moved.T, torch.eye(6, dtype=F64), rtol=0, atol=1e-14)
        along = (table @ table.T).diagonal(k)  # products know the distance alone
        speed = 10000 ** (-np.arange(0, 6, 2) / 6)
        np.testing.assert_allclose(along, np.full(400 - k, np.cos(speed * k).sum()), rtol=0, atol=1e-12)
    torch.testing.assert_close(shift_matrix(3, 6) @ shift_matrix(4, 6), shift_matrix(7, 6), rtol=0, atol=1e-14)
    omega = 10000**-0.5  # of 4 columns: blocks by hand
    c, s, co, so = math.cos(2), math.sin(2), math.cos(2 * omega), math.sin(2 * omega)
    rows = [[c, s, 0, 0], [-s, c, 0, 0], [0, 0, co, so], [0, 0, -so, co]]
    assert shift_matrix(2, 4).tolist() == [pytest.approx(row, abs=1e-15) for row in rows]
    sines = table[:, ::2]  # alone they are moved by no matrix: the table without cosines has full rank with its shift
    assert torch.linalg.lstsq(sines[:50], sines[1:51]).solution.shape == (3, 3)
    assert (sines[:50] @ torch.linalg.lstsq(sines[:50], sines[1:51]).solution - sines[1:51]).abs().max() > 0.1
    for width in (0, 1, 5):
        with pytest.raises(UserValueError, match=f"every sine needs its cosine, got {width}"):
            shift_matrix(1, width)
    far = SinusoidalPositions().build(100_001, 4, 1, torch.float32)  # angles in float32 would be off by 0.004
    assert far.table[-1].tolist() == pytest.approx(sinusoidal_table(100_001, 4)[-1].tolist(), abs=1e-7)


@pytest.mark.parametrize("recipe", [RotaryPositions(), RelativePositions(3)])
def test_positions_that_shift(recipe):
    """What a query sees of a key depends on how far apart they stand."""
    places = recipe.build(50, 8, 2, F64)
    for parameter in places.parameters():
        parameter.data.copy_(random(*parameter.shape, seed=3))
    q, k = random(1, 2, 1, 4), random(1, 2, 1, 4, seed=1)

    def score(i, j):
        i, j = torch.tensor([i]), torch.tensor([j])
        return places.turn(q, i) @ places.turn(k, j).mT + places.bias(i, j)

    for apart in (-2, 0, 5):
        assert torch.allclose(score(7, 7 + apart), score(31, 31 + apart))
    assert not torch.allclose(score(7, 6), score(7, 8))
    if isinstance(recipe, RelativePositions):
        assert torch.equal(score(9, 12), score(9, 30)) and not torch.equal(score(9, 12), score(9, 11))
    else:  # pairs turned by hand
        angle = 7 * 10000.0 ** (-torch.arange(0, 4, 2, dtype=F64) / 4)
        turned = places.turn(q, torch.tensor([7]))
        pairs = torch.view_as_complex(q.unflatten(-1, (2, 2)).contiguous()) * torch.polar(torch.ones(2).double(), angle)
        assert torch.allclose(turned, torch.view_as_real(pairs).flatten(-2))
        with pytest.raises(UserValueError, match="must be even for rotary positions, got 3"):
            recipe.build(50, 6, 2)


def test_learned_and_no_positions():
    layer, x = LearnedPositions().build(5, 3, 1, F64), random(2, 4, 3)
    assert torch.equal(layer(x), x)
    layer.initialize(Noise(0, "initial"))
    assert torch.equal(layer(x), x + layer.weight[:4])
    assert torch.equal(layer.add(x, torch.tensor([[4, 0, 1, 2]] * 2)), x + layer.weight[[4, 0, 1, 2]])
    with pytest.raises(UserValueError, match="at most 5 tokens, got one at place 5"):
        layer(random(1, 6, 3))
    nothing = NoPositions().build(1, 3, 1)
    assert nothing(x) is x and not nothing.biased and not nothing.bias(torch.arange(2), torch.arange(2)).any()
