"""Recurrent layers: worked numbers, the equations place by place, torch's layers under stated conventions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gnomon.nn.multiplicative import MultiplicativeRNN
from gnomon.nn.recurrent import GRU, LSTM, RNN, Bidirectional, DelayedGRU, reverse
from gnomon.numeric.noise import Noise

F64 = torch.float64


def filled(layer, seed=0):
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random, dtype=F64) * 0.5)
    return layer


def torchs(kind, *sizes, **options):
    with torch.random.fork_rng():
        return filled(kind(*sizes, batch_first=True, dtype=F64, **options), seed=5)


def inputs(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def gate(x, h, b=0.0):
    return torch.tensor([[x]], dtype=F64), torch.tensor([[h]], dtype=F64), torch.tensor([b], dtype=F64)


LAYERS = {
    "rnn": lambda: RNN(3, 4, dtype=F64),
    "relu": lambda: RNN(3, 4, torch.relu, dtype=F64),
    "identity": lambda: RNN(3, 4, lambda z: z, dtype=F64),
    "gru": lambda: GRU(3, 4, dtype=F64),
    "gru-before": lambda: GRU(3, 4, reset="before", dtype=F64),
    "lstm": lambda: LSTM(3, 4, dtype=F64),
    "delayed": lambda: DelayedGRU(3, 4, dtype=F64),
    "multiplicative": lambda: MultiplicativeRNN(3, 4, 5, dtype=F64),
}


@pytest.mark.spec("DLN-183", "NLP-20")
@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_rnn_is_its_equation_and_torchs(nonlinearity):
    theirs = torchs(torch.nn.RNN, 3, 4, nonlinearity=nonlinearity)
    layer, x, h0 = RNN.from_torch(theirs), inputs(2, 5, 3), inputs(2, 4, seed=2)
    outputs, last = layer(x, h0)
    expected = theirs(x, h0[None])
    assert torch.allclose(outputs, expected[0]) and torch.allclose(last, expected[1][0])
    assert torch.allclose(layer(x)[0], theirs(x)[0])  # the state before the first place is 0
    f, h = getattr(torch, nonlinearity), h0
    first = f(torch.nn.functional.linear(x[:, :1], layer.weight_x, layer.bias))
    assert torch.allclose(layer(x[:, :1])[0], first)  # one place from the state 0: an MLP's layer
    stacked = torch.cat([layer.weight_x.T, layer.weight_h.T])  # [X, H] [W_xh; W_hh]
    for t in range(5):
        step = layer.step(x[:, t], h)
        h = f(torch.cat([x[:, t], h], 1) @ stacked + layer.bias)
        assert torch.allclose(step, h)
        assert torch.allclose(outputs[:, t], h)
    with torch.no_grad():
        layer.weight_h.zero_()  # a dense layer at every place
    assert torch.allclose(layer(x, h0)[0], f(torch.nn.functional.linear(x, layer.weight_x, layer.bias)))
    # variable lengths: packed sequences of torch's layer
    theirs.weight_hh_l0.data.copy_(inputs(4, 4, seed=3))
    layer, lengths = RNN.from_torch(theirs), torch.tensor([5, 2])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    outputs, last = layer(x, h0, lengths)
    expected, final = theirs(packed, h0[None])
    assert torch.allclose(outputs, torch.nn.utils.rnn.pad_packed_sequence(expected, batch_first=True)[0])
    assert torch.allclose(last, final[0])


@pytest.mark.parametrize("name", LAYERS)
def test_places_one_by_one_are_the_whole_and_autograd_reaches_all(name):
    layer, x = filled(LAYERS[name]()), inputs(2, 6, 3)
    state = filled_state = layer.initial(2)
    outputs, last = layer(x, filled_state)
    for t in range(6):
        state = layer.step(x[:, t], state)
        assert torch.allclose(outputs[:, t], state[:, : layer.units])
    assert torch.allclose(last, state)
    half, carried = layer(x[:, :2])
    rest, end = layer(x[:, 2:], carried)
    assert torch.allclose(torch.cat([half, rest], 1), outputs) and torch.allclose(end, last)
    names = [n for n, _ in layer.named_parameters()]
    if name != "relu":  # has a kink

        def run(*values):
            return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x[:, :3],))[0]

        assert torch.autograd.gradcheck(run, tuple(p.detach().clone().requires_grad_() for p in layer.parameters()))


@pytest.mark.spec("NLP-25")
@pytest.mark.parametrize("name", [*LAYERS, "bidirectional"])
def test_padding_changes_nothing(name):
    make = LAYERS.get(name, lambda: Bidirectional(GRU(3, 4, dtype=F64), RNN(3, 2, dtype=F64)))
    layer, lengths = filled(make()), torch.tensor([4, 1, 0, 3])
    sequences = [inputs(int(n), 3, seed=10 + i) for i, n in enumerate(lengths)]
    for more in (0, 1, 7):
        x = torch.full((4, 4 + more, 3), 1e3, dtype=F64)
        for row, sequence in zip(x, sequences, strict=True):
            row[: len(sequence)] = sequence
        outputs, last = layer(x, None, lengths)
        for i, sequence in enumerate(sequences):
            alone, end = layer(sequence[None])
            n = len(sequence)
            assert torch.allclose(outputs[i, :n], alone[0], atol=1e-12) and (outputs[i, n:] == 0).all()
            assert torch.allclose(last[i], end[0], atol=1e-12)


@pytest.mark.spec("DLN-186")
def test_gru_worked_by_hand_with_both_places_of_the_reset_gate():
    scalar = {"reset": gate(0.5, 0.5), "update": gate(-0.5, 0.5), "candidate": gate(1.0, 1.0)}
    x, h = torch.tensor([[1.0]], dtype=F64), torch.tensor([[0.5]], dtype=F64)
    for order in ("before", "after"):  # one unit: they agree
        assert GRU.from_gates(**scalar, order=order).step(x, h).item() == pytest.approx(0.708890, abs=5e-7)
    r, z = torch.sigmoid(torch.tensor(0.75)), torch.sigmoid(torch.tensor(-0.25))
    assert (r.item(), z.item()) == (pytest.approx(0.679179, abs=1e-6), pytest.approx(0.437823, abs=1e-6))
    keep, take = gate(0.0, 0.0, 50.0), gate(0.0, 0.0, -50.0)
    assert GRU.from_gates(**scalar | {"update": keep}).step(x, h).item() == pytest.approx(0.5)  # Z = 1
    plain = GRU.from_gates(reset=keep, update=take, candidate=gate(1.0, 1.0, 0.3))  # Z = 0, R = 1: the simple network
    assert plain.step(x, h).item() == pytest.approx(np.tanh(1.8))
    before, after = filled(GRU(3, 4, reset="before", dtype=F64)), GRU(3, 4, dtype=F64)
    after.load_state_dict(before.state_dict() | {"bias_n": torch.zeros(4, dtype=F64)})
    x = inputs(2, 5, 3)
    assert not torch.allclose(before(x)[0], after(x)[0], atol=1e-3)
    for layer in (before, after):  # a diagonal map of the state without a bias: they agree
        layer.weight_h.data[8:] = torch.diag(torch.tensor([0.3, -1.0, 0.7, 2.0], dtype=F64))
    assert torch.allclose(before(x)[0], after(x)[0])
    theirs = torchs(torch.nn.GRU, 3, 4)  # acts after the product
    assert torch.allclose(GRU.from_torch(theirs)(x)[0], theirs(x)[0])


@pytest.mark.spec("DLN-187", "NLP-28")
def test_lstm_worked_by_hand_and_torchs():
    gates = {"i": (0.5, 0.5), "f": (1.0, 0.0), "g": (1.0, 1.0), "o": (0.0, 1.0)}
    scalar = LSTM(1, 1, dtype=F64)
    with torch.no_grad():
        scalar.weight_x.copy_(torch.tensor([[x] for x, _ in gates.values()]))
        scalar.weight_h.copy_(torch.tensor([[h] for _, h in gates.values()]))
    h, c = scalar.step(torch.tensor([[1.0]], dtype=F64), torch.tensor([[0.5, 0.2]], dtype=F64))[0].tolist()
    assert (c, h) == (pytest.approx(0.760969, abs=5e-7), pytest.approx(0.399399, abs=5e-7))
    theirs = torchs(torch.nn.LSTM, 3, 4)
    layer, x, state = LSTM.from_torch(theirs), inputs(3, 7, 3), inputs(3, 8, seed=6)
    outputs, (h, c) = theirs(x, tuple(part[None] for part in state.chunk(2, 1)))
    found, last = layer(x, state)
    assert torch.allclose(found, outputs) and torch.allclose(last, torch.cat([h[0], c[0]], 1))
    stepped = state
    for t in range(7):
        stepped = layer.step(x[:, t], stepped)
        assert torch.allclose(stepped[:, :4], outputs[:, t])
    assert torch.allclose(stepped, last)


@pytest.mark.spec("DLN-187", "NLP-28")
def test_a_cell_that_forgets_nothing_and_a_new_layer_that_forgets_little():
    layer = LSTM(1, 2, dtype=F64)
    with torch.no_grad():
        layer.bias[:2], layer.bias[2:4] = -1e3, 1e3  # i = 0, f = 1
    c = torch.tensor([[0.3, -7.0]], dtype=F64)
    _, last = layer(inputs(1, 1000, 1), torch.cat([torch.zeros_like(c), c], 1))
    assert torch.equal(last[:, 2:], c)
    layer.initialize(Noise(0, "test"))
    assert layer.bias.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]


@pytest.mark.spec("NLP-30")
def test_both_directions_are_torchs_with_packed_lengths():
    theirs = torchs(torch.nn.LSTM, 3, 4, bidirectional=True)
    layers = []
    for suffix in ("l0", "l0_reverse"):
        one = LSTM(3, 4, dtype=F64)
        with torch.no_grad():
            one.weight_x.copy_(getattr(theirs, f"weight_ih_{suffix}"))
            one.weight_h.copy_(getattr(theirs, f"weight_hh_{suffix}"))
            one.bias.copy_(getattr(theirs, f"bias_ih_{suffix}") + getattr(theirs, f"bias_hh_{suffix}"))
        layers.append(one)
    x, lengths = inputs(3, 6, 3), torch.tensor([6, 2, 4])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    expected, (h, c) = theirs(packed)
    outputs, last = Bidirectional(*layers)(x, None, lengths)
    assert torch.allclose(outputs, torch.nn.utils.rnn.pad_packed_sequence(expected, batch_first=True)[0])
    assert torch.allclose(last, torch.cat([h[0], c[0], h[1], c[1]], 1))
    tied = Bidirectional(layers[0], layers[0])  # reading backward swaps the halves
    assert torch.allclose(tied(reverse(x))[0], reverse(tied(x)[0].roll(4, 2)))


@pytest.mark.spec("NLP-27")
def test_gru_whose_update_gate_weights_the_candidate_and_torchs():
    random = [
        tuple(inputs(*shape, seed=10 * k + i) for i, shape in enumerate(((4, 3), (4, 4), (4,)))) for k in range(3)
    ]
    reset, update, candidate = random
    layer = GRU.from_gates(reset=reset, update=update, candidate=candidate, keeps="new")
    x, h = inputs(2, 3), inputs(2, 4, seed=5)
    z, r = (torch.sigmoid(x @ w.T + h @ u.T + b) for w, u, b in (update, reset))
    n = torch.tanh(x @ candidate[0].T + (r * h) @ candidate[1].T + candidate[2])
    assert torch.allclose(layer.step(x, h), z * n + (1 - z) * h)
    for bias, expected in ((-500.0, h), (500.0, n)):  # z = 0 keeps h exactly, z = 1 replaces it
        fixed = GRU.from_gates(reset=reset, update=(*update[:2], torch.full((4,), bias, dtype=F64)),
                               candidate=candidate, keeps="new")  # fmt: skip
        assert torch.equal(fixed.step(x, h), expected) if bias < 0 else torch.allclose(fixed.step(x, h), expected)
    theirs = torchs(torch.nn.GRU, 3, 4)
    layer, x, h = GRU.from_torch(theirs), inputs(2, 7, 3), inputs(2, 4, seed=6)
    expected = theirs(x, h[None])
    assert torch.allclose(layer(x, h)[0], expected[0]) and torch.allclose(layer(x, h)[1], expected[1][0])
    # the same by gates whose update weights the candidate, the signs turned
    w, u, b = theirs.weight_ih_l0.chunk(3), theirs.weight_hh_l0.chunk(3), theirs.bias_ih_l0 + theirs.bias_hh_l0
    b = b.chunk(3)
    turned = GRU.from_gates(
        reset=(w[0], u[0], b[0]), update=(-w[1], -u[1], -b[1]),
        candidate=(w[2], u[2], theirs.bias_ih_l0.chunk(3)[2]), keeps="new", order="after",
    )  # fmt: skip
    turned.bias_n.data.copy_(theirs.bias_hh_l0.chunk(3)[2])
    assert torch.allclose(turned(x, h)[0], expected[0])


@pytest.mark.spec("PRA-024")
def test_gru_of_the_deep_learning_book():
    ones = {name: gate(1.0, 1.0) for name in ("reset", "update", "candidate")}
    x, h = torch.tensor([[1.0]], dtype=F64), torch.tensor([[0.5]], dtype=F64)
    assert GRU.from_gates(**ones).step(x, h).item() == pytest.approx(0.5706418, abs=5e-8)
    printed = DelayedGRU(1, 1, dtype=F64)
    printed.load_state_dict({"weight_x": torch.ones(3, 1), "weight_h": torch.ones(3, 1), "bias": torch.zeros(3)})
    state = printed.gated(x, h)
    assert state[0].tolist() == pytest.approx([0.5, 0.8175745, 0.8175745], abs=5e-8)
    assert printed.step(x, state)[0, 0].item() == pytest.approx(0.5553798, abs=5e-8)
    after_it = printed.step(x, printed.step(x, state))[0, 0].item()  # by gates of x and .5553798
    candidate = torch.tanh(x + torch.sigmoid(x + h) * h).item()
    assert candidate == pytest.approx(0.8872363, abs=5e-8)
    kept = torch.sigmoid(x + h).item()
    assert GRU.from_gates(**ones).step(x, h).item() == pytest.approx(kept * 0.5 + (1 - kept) * candidate)
    u, c = 1 / (1 + np.exp(-1.5553798)), 0.5553798
    assert after_it == pytest.approx(u * c + (1 - u) / (1 + np.exp(-1 - u * c)), abs=1e-7)
    assert printed(torch.ones(1, 2, 1, dtype=F64))[0].shape == (1, 2, 1)
    # two units tell before from after
    swap, none = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=F64), torch.zeros(2, 2, dtype=F64)
    zero = torch.zeros(2, dtype=F64)
    gates = {"reset": (none, none, torch.tensor([1.0, -1.0], dtype=F64)), "update": (none, none, zero),
             "candidate": (none, swap, zero)}  # fmt: skip
    h, x = torch.tensor([[0.5, -0.5]], dtype=F64), torch.zeros(1, 2, dtype=F64)
    expected = {"before": (0.1831670, -0.0749625), "after": (0.0749625, -0.1831670)}
    for order, values in expected.items():
        assert GRU.from_gates(**gates, order=order).step(x, h)[0].tolist() == pytest.approx(values, abs=5e-8)
    copies = GRU.from_gates(**gates | {"update": (none, none, torch.full((2,), 500.0, dtype=F64))})
    assert torch.equal(copies.step(x, h), h)
    theirs = torchs(torch.nn.GRU, 2, 3)
    x = inputs(2, 4, 2)
    assert torch.allclose(GRU.from_torch(theirs)(x)[0], theirs(x)[0])


@pytest.mark.spec("PRA-024")
def test_gru_of_the_deep_learning_book_and_its_printed_variant_place_by_place():
    """Three inputs, four units, full matrices and biases; NumPy's loop over places."""
    gates = {
        name: tuple(inputs(*shape, seed=10 * k + i) for i, shape in enumerate(((4, 3), (4, 4), (4,))))
        for k, name in enumerate(("reset", "update", "candidate"))
    }
    layer, printed, x = GRU.from_gates(**gates), DelayedGRU(3, 4, dtype=F64), inputs(2, 6, 3)
    printed.load_state_dict({
        name: torch.cat([parts[i] for parts in gates.values()])
        for i, name in enumerate(("weight_x", "weight_h", "bias"))
    })  # fmt: skip
    (wr, ur, br), (wu, uu, bu), (wc, uc, bc) = ([part.numpy() for part in gate] for gate in gates.values())
    sigmoid = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    h, late = np.zeros((2, 4)), np.zeros((2, 4))
    before_x, before_h = np.zeros((2, 3)), late  # of which the gates of the first place are made
    for t in range(6):
        here = x[:, t].numpy()
        r, u = sigmoid(here @ wr.T + h @ ur.T + br), sigmoid(here @ wu.T + h @ uu.T + bu)
        h = u * h + (1 - u) * np.tanh(here @ wc.T + (r * h) @ uc.T + bc)
        np.testing.assert_allclose(layer(x)[0][:, t].detach(), h, rtol=1e-10)
        r, u = sigmoid(before_x @ wr.T + before_h @ ur.T + br), sigmoid(before_x @ wu.T + before_h @ uu.T + bu)
        late = u * late + (1 - u) * sigmoid(here @ wc.T + (r * late) @ uc.T + bc)
        np.testing.assert_allclose(printed(x)[0][:, t].detach(), late, rtol=1e-10)
        before_x, before_h = here, late


def test_bidirectional_is_torchs():
    theirs, lengths, x = torchs(torch.nn.GRU, 3, 4, bidirectional=True), torch.tensor([5, 2]), inputs(2, 5, 3)
    layer = Bidirectional(GRU(3, 4, dtype=F64), GRU(3, 4, dtype=F64))
    for part, end in ((layer.forward_layer, ""), (layer.backward_layer, "_reverse")):
        one = torchs(torch.nn.GRU, 3, 4)
        one.load_state_dict(
            {n.removesuffix(end): v for n, v in theirs.state_dict().items() if n.endswith("reverse") == bool(end)}
        )
        part.load_state_dict(GRU.from_torch(one).state_dict())
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    outputs, last = theirs(packed)
    mine, end = layer(x, None, lengths)
    assert torch.allclose(mine, torch.nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)[0])
    assert torch.allclose(end, torch.cat([last[0], last[1]], 1))
    assert torch.equal(reverse(reverse(x, lengths), lengths), x)


@pytest.mark.parametrize("name", LAYERS)
def test_initial_weights_come_from_their_address(name):
    one, two = LAYERS[name](), LAYERS[name]()
    one.initialize(Noise(0, "initial"))
    two.initialize(Noise(0, "initial"))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    for part in one.weight_h.detach().split(4):
        assert torch.allclose(part @ part.T, torch.eye(4, dtype=F64), atol=1e-12)
    assert name == "lstm" or (one.bias == 0).all()  # whose forget gates begin open
    assert (one.weight_x != 0).all()


@pytest.mark.parametrize("layer", [RNN, GRU, LSTM])
@pytest.mark.parametrize("lengths", [None, torch.zeros(0, dtype=torch.int64)])
def test_without_rows_gradients_are_0_and_not_missing(layer, lengths):
    """A process that has no row of a batch takes part in the sum of gradients."""
    made = layer(3, 4)
    outputs, state = made(torch.zeros(0, 5, 3), None, lengths)
    (outputs.sum() + state.sum()).backward()
    assert outputs.shape == (0, 5, 4) and state.shape == (0, made.state_size)
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in made.parameters())
