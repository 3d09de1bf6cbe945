"""Very many target tokens: the softmax over a part of them, and candidate lists of a dictionary in decoding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import gnomon
from gnomon.cli.main import run
from gnomon.data.batches import Batches
from gnomon.data.counting import BOS, EOS
from gnomon.data.examples import Examples
from gnomon.data.layouts import Padded
from gnomon.errors import UserError
from gnomon.inference.decoding.among import Among
from gnomon.nn.attention import AdditiveAttention
from gnomon.numeric.noise import Noise
from gnomon.numeric.ragged import Ragged
from gnomon.objectives.sampled_softmax import sampled_softmax_losses
from gnomon.systems.sequence._model import outcome
from gnomon.systems.sequence._target_loss import TargetLoss
from gnomon.systems.sequence._translator import Seq2SeqModel
from gnomon.systems.sequence.transformer import TransformerModel
from gnomon.training.group import Group

F64, SIZE = torch.float64, 40
SOURCES = Ragged.of([[3, 4, 5], [5], [4, 3, 3, 5, 4]])
TARGETS = Ragged.of([[30, 0, 7], [], [7, 12]])
PRESENT = {0, 7, 12, 30, EOS}
MODELS = {
    "seq2seq": lambda: Seq2SeqModel(6, SIZE, 3, 4, AdditiveAttention(units=3), dtype=F64),
    "transformer": lambda: TransformerModel(6, SIZE, 4, 2, 5, 1, 1, dtype=F64),
    "tied": lambda: TransformerModel(6, SIZE, 4, 2, 5, 1, 1, dtype=F64, tied=True),
}
BATCHES = Batches(Examples({"source": SOURCES, "target": TARGETS}), Padded(3, shuffle=False))


def model(kind):
    made, random = MODELS[kind](), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random, dtype=F64))
    return made


def loss(made, part, *, phase="fit", seed=0, batches=BATCHES):
    objective = TargetLoss(1.0, part)
    batch = batches.step(0, 0)
    return objective(made, batch, noise=Noise(seed, "fit"), phase=phase, group=Group()).terms["cross_entropy"]


@pytest.mark.spec("PRA-178")
@pytest.mark.parametrize("kind", MODELS)
def test_a_part_that_is_the_whole_gives_the_full_loss_and_gradient(kind):
    made = model(kind)
    full, whole = loss(made, None), loss(made, SIZE - 1)
    assert whole.sum.item() == pytest.approx(full.sum.item(), rel=1e-12) and whole.weight == full.weight == 8
    assert full.sum.item() == pytest.approx(-made.log_prob(SOURCES, TARGETS).sum())
    parameters = [p for p in made.parameters() if p.requires_grad]
    for a, b in zip(*(torch.autograd.grad(one.sum, parameters) for one in (full, whole)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)
    assert loss(made, 9, phase="validation").sum.item() == pytest.approx(full.sum.item())  # judged by all


@pytest.mark.spec("PRA-178")
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("part", [1, 9, 25])
def test_the_loss_is_the_softmax_over_the_part(kind, part):
    made, noise = model(kind), Noise(3, "fit")
    present = outcome(torch.tensor(sorted(PRESENT))).numpy()
    words = TargetLoss(1.0, part).words(present, SIZE - 1, noise, Group())
    assert set(present) <= set(words) and len(set(words)) == len(words) == max(part, 5)
    wanted = 0.0
    for source, target in zip(SOURCES, TARGETS, strict=True):
        given = torch.tensor([[BOS, *target.tolist()]])
        scores = made.scores(made.read(Ragged.of([source])), given)[0]
        for row, token in zip(scores, [*target.tolist(), EOS], strict=True):
            wanted += (row[words].logsumexp(0) - row[outcome(torch.tensor(token))]).item()
    assert loss(made, part, seed=3).sum.item() == pytest.approx(wanted, rel=1e-10)


@pytest.mark.spec("PRA-178")
def test_words_are_drawn_uniformly_anew_in_each_step_and_alike_by_every_process():
    """4000 steps: each of the 34 absent outcomes is in as often as others; five standard deviations."""
    objective, present, seen = TargetLoss(1.0, 12), np.array([0, 6, 11, 29, 1]), np.zeros(SIZE - 1)
    for step in range(4000):
        seen[objective.words(present, SIZE - 1, Noise(0, "fit").at(step), Group())] += 1
    share = 7 / 34
    absent = np.delete(seen / 4000, present)
    assert (seen[present] == 4000).all()
    assert (abs(absent - share) < 5 * np.sqrt(share * (1 - share) / 4000)).all()

    class Other(Group):
        """The other process has the outcomes 2 and 3."""

        def sum(self, tree):
            return tree + np.bincount([2, 3], minlength=len(tree))

    mine = objective.words(np.array([0, 6]), SIZE - 1, Noise(1, "fit"), Other())
    assert {0, 2, 3, 6} <= set(mine)
    assert mine.tolist() == objective.words(np.array([0, 2, 3, 6]), SIZE - 1, Noise(1, "fit"), Group()).tolist()


@pytest.mark.spec("PRA-178")
def test_the_correction_of_a_uniform_proposal_falls_out():
    """Importance sampling by any constant log Q; one that is not constant gives another loss."""
    random = torch.Generator().manual_seed(5)
    h, weight, bias = (torch.randn(*size, dtype=F64, generator=random) for size in ((6, 3), (9, 3), (9,)))
    words, y = torch.tensor([0, 2, 3, 5, 8]), torch.tensor([0, 2, 8, 3, 5, 5])
    scores = (h @ weight.T + bias)[:, words]
    wanted = scores.logsumexp(1) - (h @ weight.T + bias).gather(1, y[:, None])[:, 0]
    for own in ("exact", "sampled"):
        log_q = torch.full((5,), -np.log(5), dtype=F64)
        torch.testing.assert_close(sampled_softmax_losses(h, y, weight, bias, words, log_q, own=own), wanted)
        skewed = log_q + torch.tensor([0.5, -0.5, 0, 0, 0], dtype=F64)
        assert not torch.allclose(sampled_softmax_losses(h, y, weight, bias, words, skewed, own=own), wanted, atol=1e-3)
    # the gradient of the scores is that of self-normalized weights over the part
    scores.requires_grad_()
    scores.logsumexp(1).sum().backward()
    torch.testing.assert_close(scores.grad, torch.softmax(scores.detach(), 1))


@pytest.mark.spec("PRA-178")
@pytest.mark.parametrize("system", ["seq2seq", "transformer"])
def test_a_fit_on_parts_learns_a_large_vocabulary(system):
    """60 words, each with one translation, of which a softmax sees 24."""
    pairs = [
        (f"s{i} s{j}", f"t{i} t{j}") for i, j in zip(range(60), np.random.default_rng(0).permutation(60), strict=True)
    ]
    options = {"n_heads": 2} if system == "transformer" else {}
    fitted = gnomon.make(
        system, unit="word", n_hidden=48, n_embedding=32, epochs=40, batch_size=8, learning_rate=0.01, dropout=0.0,
        vocab_partition=24, early_stopping="off", random_state=0, **options,
    ).fit(pairs)  # fmt: skip
    said = fitted.translate([x for x, _ in pairs], method="greedy", max_length=2)
    assert np.mean([a == b for a, (_, b) in zip(said, pairs, strict=True)]) > 0.8
    # a dictionary helps what the net does not know
    table = {f"s{i}": [f"t{i}"] for i in range(60)}
    asked = [f"s{i} s{(i * 7 + 3) % 60}" for i in range(60)]
    for method in ("greedy", "beam", "sample"):
        among = fitted.translate(asked, method=method, candidates=table, random_state=0)
        assert all(set(one.split()) <= {f"t{w[1:]}" for w in x.split()} for x, one in zip(asked, among, strict=True))


@pytest.mark.spec("PRA-178")
def test_candidates_are_conditional_probabilities_and_the_search_is_exact_among_them():
    made, allowed = model("seq2seq"), np.zeros((3, SIZE), bool)
    allowed[0, [7, 12, EOS]] = allowed[1, [30, EOS]] = allowed[2, [0, 3, EOS]] = True
    among, plain = Among(made.given(SOURCES), allowed), made.given(SOURCES)
    state, raw = among.start([[]] * 3), plain.start([[]] * 3)
    for tokens in ([BOS] * 3, [7, 30, 3]):
        rows, state = among.step(np.array(tokens), state)
        all_, raw = plain.step(np.array(tokens), raw)
        p = np.where(allowed, np.exp(all_), 0)
        np.testing.assert_allclose(np.exp(rows), p / p.sum(1, keepdims=True), rtol=1e-10)
    turned, _ = among.step(np.array([3, 7]), among.select(state, np.array([2, 0])))
    assert (np.isfinite(turned) == allowed[[2, 0]]).all()

    fitted = gnomon.Seq2Seq(n_hidden=6, n_embedding=4, epochs=1, dtype="float64", random_state=0).fit(
        [("ab", "xy"), ("c", "z"), ("ba", "yx"), ("bc", "yz")] * 2
    )
    words = {"": ["z"], "a": ["x"], "b": ["y", "Q"], "?": ["x"]}
    found = fitted.propose(["a", "b?", "c"], n_best=40, width=40, max_length=3, length_penalty=0.0, candidates=words)
    for letters, rows in zip(("xz", "yz", "z"), found, strict=True):
        complete = ["".join(one) for n in range(3) for one in itertools.product(letters, repeat=n)]
        assert sorted(rows) == sorted(complete)  # every target of these letters that ends within three tokens
    assert fitted.translate(["c"], candidates={"a": ["x"]}) == [""]  # nothing but the end
    assert fitted.translate(["ab"], candidates={"": ["x"]}, max_length=4)[0] in ("", "x", "xx", "xxx", "xxxx")
    for wrong in ("xy", {"a": "x"}, {"a": None}):
        with pytest.raises(UserError, match=r"candidates|list"):
            fitted.translate(["ab"], candidates=wrong)
    with pytest.raises(UserError, match="teacher_forcing must be 1"):
        gnomon.Seq2Seq(vocab_partition=5, teacher_forcing=0.5).fit([("a", "b")])


@pytest.mark.spec("PRA-178")
def test_the_command_line_takes_a_part_and_a_dictionary(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.tsv").write_text("ab\txy\nc\tz\nba\tyx\nbc\tyz\n" * 3)
    (tmp_path / "d.tsv").write_text("a\tx\nc\tz\n\tz\n")
    words = ["--vocab-partition", "2", "--n-hidden", "6", "--n-embedding", "4", "--epochs", "2", "--holdout", "0"]
    assert run(["fit", "seq2seq", "p.tsv", *words, "--out", "net"]) == 0
    capsys.readouterr()
    assert run(["predict", "net", "p.tsv", "--candidates", "d.tsv"]) == 0
    lines = capsys.readouterr().out.split()[1:]
    assert all(set(line) <= set('xz"') for line in lines)
    assert run(["predict", "net", "p.tsv", "--candidates", "d.tsv", "--n-best", "2"]) == 0
