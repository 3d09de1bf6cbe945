"""Networks that read sequences: convolution by hand, padding, order, sequences shorter than the kernel."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gnomon
from gnomon.nn.attention import AdditiveAttention, NoAttention
from gnomon.nn.readers import ConvolutionReader, RecurrentReader
from gnomon.numeric.noise import Noise
from gnomon.numeric.ragged import Ragged
from gnomon.systems.sequence._translator import Seq2SeqModel

F64 = torch.float64
SOURCES = Ragged.of([[3, 4, 5], [5], [], [4, 3, 3, 5, 4]])


def random(made, seed=0):
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=noise, dtype=F64))
    return made


@pytest.mark.spec("PRA-176")
@pytest.mark.parametrize("pool", ["mean", "sum", "max"])
@pytest.mark.parametrize("kernel", [1, 2, 3, 7])
def test_stacked_convolution_and_pooling_are_those_of_the_equation(kernel, pool):
    made = random(ConvolutionReader(2, kernel, pool, places=False).build(3, 4, dtype=F64))
    x = torch.randn(5, 3, dtype=F64, generator=torch.Generator().manual_seed(1))
    h, before = x.numpy(), (kernel - 1) // 2
    for layer in made.layers:
        weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
        out = np.zeros((5, 4))
        for t in range(5):
            out[t] = bias
            for k in range(kernel):
                at = t + k - before
                out[t] += h[at] @ weight[k] if 0 <= at < 5 else 0
        h = np.tanh(out)
    states, whole = made(x[None], None, torch.tensor([5]))
    np.testing.assert_allclose(states[0].detach(), h, rtol=1e-12)
    np.testing.assert_allclose(whole[0].detach(), getattr(np, pool)(h, axis=0), rtol=1e-12)


@pytest.mark.spec("PRA-176")
@pytest.mark.parametrize("pool", ["mean", "sum", "max"])
@pytest.mark.parametrize("kernel", [1, 4, 9])
@pytest.mark.parametrize("places", [False, True])
def test_padding_changes_nothing_and_sources_may_be_shorter_than_the_kernel(kernel, pool, places):
    reader = ConvolutionReader(2, kernel, pool, places)
    made = random(Seq2SeqModel(6, 5, 3, 4, AdditiveAttention(units=3), dtype=F64, reader=reader))
    alone = [made.read(Ragged.of([row])) for row in SOURCES]
    for more in (0, 3):
        ids = torch.from_numpy(np.pad(SOURCES.padded(), ((0, 0), (0, more)), constant_values=5))
        memory = made.encode(ids, torch.from_numpy(SOURCES.lengths))
        for i, row in enumerate(SOURCES):
            n = len(row)
            torch.testing.assert_close(memory.context[i], alone[i].context[0], rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(memory.states[i, :n], alone[i].states[0, :n], rtol=1e-12, atol=1e-12)
            assert (memory.states[i, n:] == 0).all()
    assert (alone[2].context == 0).all()  # nothing was read
    targets = Ragged.of([[3, 4], [], [3], [4, 4, 3]])
    together = made.log_prob(SOURCES, targets)
    for i in range(4):
        one = made.log_prob(Ragged.of([SOURCES[i]]), Ragged.of([targets[i]]))[0]
        assert np.isfinite(one) and one == pytest.approx(together[i], abs=1e-12)


@pytest.mark.spec("PRA-176")
def test_a_kernel_of_1_and_a_sum_do_not_know_the_order():
    made = random(ConvolutionReader(2, 1, "sum", places=False).build(3, 4, dtype=F64))
    x = torch.randn(1, 6, 3, dtype=F64, generator=torch.Generator().manual_seed(2))
    turned = x[:, [3, 0, 5, 1, 2, 4]]
    torch.testing.assert_close(made(x)[1], made(turned)[1], rtol=1e-12, atol=1e-12)
    for other in (ConvolutionReader(2, 2, "sum", places=False), ConvolutionReader(2, 1, "sum"), RecurrentReader()):
        knows = random(other.build(3, 4, dtype=F64))
        assert not torch.allclose(knows(x)[1], knows(turned)[1], atol=1e-3)


@pytest.mark.spec("PRA-176")
@pytest.mark.parametrize("attention", [NoAttention(), AdditiveAttention(units=3)])
def test_gradients_are_those_of_finite_differences(attention):
    made = random(Seq2SeqModel(6, 5, 2, 2, attention, dtype=F64, reader=ConvolutionReader(2, 3)))

    def loss():
        scores = made.scores(made.encode(torch.tensor([[3, 4, 5], [4, 0, 0]]), torch.tensor([3, 1])),
                             torch.tensor([[1, 3], [1, 4]]))  # fmt: skip
        return (scores * torch.arange(scores.numel(), dtype=F64).reshape(scores.shape)).sum()

    weight = made.encoder.layers[0].weight
    found = torch.autograd.grad(loss(), weight)[0]
    for at in [(0, 0, 0), (1, 1, 1), (2, 0, 1)]:
        with torch.no_grad():
            weight[at] += 1e-6
            up = loss()
            weight[at] -= 2e-6
            down = loss()
            weight[at] += 1e-6
        assert found[at].item() == pytest.approx((up - down).item() / 2e-6, rel=1e-6)


def test_first_values_keep_the_size_of_what_is_read():
    made = ConvolutionReader(1, 5).build(64, 64, dtype=F64)
    made.initialize(Noise(0, "x"))
    assert made.layers[0].weight.std().item() == pytest.approx(np.sqrt(2 / (64 * 5 + 64)), rel=0.05)


@pytest.mark.spec("PRA-176")
@pytest.mark.parametrize("attention", ["none", "additive"])
def test_a_fit_by_convolution_learns_to_copy(attention):
    """Of all strings of one or two of four letters, which the whole vector or the list of vectors tells apart."""
    pairs = [(a + b, a + b) for a in "abcd" for b in ["", *"abcd"]]
    fitted = gnomon.Seq2Seq(
        encoder="convolution", attention=attention, n_hidden=24, n_embedding=12, dropout=0.0, epochs=60, batch_size=20,
        learning_rate=0.02, early_stopping="off", random_state=0,
    ).fit(pairs)  # fmt: skip
    assert fitted.translate([x for x, _ in pairs], method="greedy") == [y for _, y in pairs]
    assert type(fitted.model_.encoder).__name__ == "SequenceConvolution"
