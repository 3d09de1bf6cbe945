"""Neural joint model: target tokens from those before and a window of the source around where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon import contracts
from gnomon.contracts import Array, Group, Noise, State
from gnomon.data.counting import BOS, EOS
from gnomon.data.examples import Examples
from gnomon.data.layouts import Layout, Rows
from gnomon.inference.alignment import SourceAlignment, transitions
from gnomon.nn.dropout import Dropout
from gnomon.nn.embedding import Embedding
from gnomon.nn.initializers import XavierUniform, initialize
from gnomon.nn.layers import dense
from gnomon.numeric.ragged import Ragged
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.sequence._contexts import Beside, ContextFields, RowLoss, contexts
from gnomon.systems.sequence._model import CELLS, outcome
from gnomon.systems.sequence._pairs import ROWS, TokenByToken, TranslationModel
from gnomon.systems.sequence._translation import Translator
from gnomon.systems.sequence.neural_ngram import NeuralNGramModel
from gnomon.training.procedure import Problem

__all__ = ["NeuralJointModel", "NeuralJointNetwork", "WindowReading"]

FACT = "alignment_"


@dataclass(frozen=True)
class WindowReading:
    """What is read of a batch of sources.

    Parameters
    ----------
    states : tensor of shape (n, T, width)
        Embeddings of the tokens.
    beside : Beside
        What the window around each place adds, (n, places, ...).
    lengths : int64 array of shape (n,)
    transitions : tensor of shape (n, T + 2, T + 1), optional
        Of places; None where these follow from the index of a token.
    """

    states: torch.Tensor
    beside: Beside
    lengths: NDArray[np.int64]
    transitions: torch.Tensor | None


class NeuralJointNetwork(TranslationModel):
    r"""P(t | s) = prod_i P(t_i | t_{i-n+1} ... t_{i-1}, s_{a_i - m} ... s_{a_i + m}), a_i the place of t_i.

    The network of `NeuralNGramModel` on the target, to whose hidden units :math:`H_s z` is added and to whose scores
    :math:`W_s z`, z the embeddings of the window one after the other. Beyond the source stand ``<s>`` and ``</s>``.

    Parameters
    ----------
    source_size, target_size : int, at least 3
        Ids of both vocabularies; 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``.
    n : int, at least 2
    radius : int, at least 0
        m.
    width, units, direct, dropout, dtype
        See `NeuralNGramModel`.
    aligner : SourceAlignment
    """

    def __init__(
        self,
        source_size: int,
        target_size: int,
        n: int,
        radius: int,
        width: int,
        units: int,
        direct: bool,
        aligner: SourceAlignment,
        dropout: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(target_size)
        self.radius, self.aligner = radius, aligner
        self.facts: dict[str, NDArray[Any]] = {}
        self.target = NeuralNGramModel(target_size, n, width, units, direct, dropout, dtype)
        self.source_embedding = Embedding(source_size, width, dtype=dtype)
        inputs = (2 * radius + 1) * width
        self.source_hidden = dense(inputs, units, bias=False, dtype=dtype) if units else None
        self.source_direct = dense(inputs, target_size - 1, bias=False, dtype=dtype) if direct else None
        self.drop_source = Dropout(dropout)

    def initialize(self, noise: Noise) -> None:
        """First values of all parameters; biases of scores are -log of their number, so that Z begins near 1."""
        self.target.initialize(noise.child("target"))
        self.source_embedding.initialize(noise.child("source_embedding"))
        if self.source_hidden is not None:
            initialize(self.source_hidden, XavierUniform(), noise.child("source_hidden"))
        with torch.no_grad():
            self.target.net.bias.fill_(-float(np.log(self.target_size - 1)))

    # --- rows ---------------------------------------------------------------------------------------------------

    def rows(self, sources: Ragged, targets: Ragged) -> dict[str, NDArray[np.int64]]:
        """Of all target tokens and ends, pair by pair, the tokens before, the window, and the token: X, source, y."""
        before, token = contexts(targets, self.target.context)
        pair = np.repeat(np.arange(len(targets)), targets.lengths + 1)
        places = self.aligner.places(self.facts, sources, targets, self.radius)
        at = places[:, None] + np.arange(-self.radius, self.radius + 1)
        return {"X": before, "source": _read_at(sources, pair, at), "y": token}

    def of_windows(self, ids: torch.Tensor) -> Beside:
        """What windows (..., 2 m + 1) of source ids add."""
        z = self.drop_source(self.source_embedding(ids)).flatten(-2)
        hidden, direct = self.source_hidden, self.source_direct
        return Beside(None if hidden is None else hidden(z), None if direct is None else direct(z))

    def row_scores(self, data: Mapping[str, Any]) -> torch.Tensor:
        """Scores (n, V - 1) of the `outcome` of each row."""
        before, window = (torch.as_tensor(data[name], device=self.device) for name in ("X", "source"))
        return self.target.of_contexts(before, self.of_windows(window))

    def scored(self, sources: Ragged, targets: Ragged) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Scores (rows, V - 1) and outcomes (rows,) of all rows of some pairs, part by part."""
        data = self.rows(sources, targets)
        together = max(1, CELLS // self.target_size)
        with torch.no_grad():
            for begin in range(0, len(data["y"]), together):
                part = {name: one[begin : begin + together] for name, one in data.items()}
                yield self.row_scores(part), outcome(torch.as_tensor(part["y"], device=self.device))

    # --- probabilities ------------------------------------------------------------------------------------------

    def raw_scores(self, sources: Ragged, targets: Ragged) -> NDArray[np.float64]:
        """The score of each target token and end, pair by pair, without those of the other outcomes."""
        data, found = self.rows(sources, targets), []
        with torch.no_grad():
            for begin in range(0, len(data["y"]), ROWS):
                before, window, token = (
                    torch.as_tensor(data[name][begin : begin + ROWS], device=self.device)
                    for name in ("X", "source", "y")
                )
                y, z = outcome(token), self.source_embedding(window).flatten(-2)
                hidden = None if self.source_hidden is None else self.source_hidden(z)
                direct = None if self.source_direct is None else (self.source_direct.weight[y] * z).sum(1)
                x = self.target.embedding(before.flip(-1)).flatten(-2)
                found.append(self.target.net.chosen(x, y, Beside(hidden, direct)).double().cpu().numpy())
        return np.concatenate(found)

    def step_scores(self, sources: Ragged, targets: Ragged) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of all target tokens and ends, pair by pair, the score, and log Z of the scores of all outcomes."""
        parts = [
            (scores.gather(1, y[:, None])[:, 0].double().cpu().numpy(), scores.logsumexp(1).double().cpu().numpy())
            for scores, y in self.scored(sources, targets)
        ]
        score, log_z = (np.concatenate(one) for one in zip(*parts, strict=True))
        return score, log_z

    def log_likelihood(self, sources: Any, targets: Ragged) -> NDArray[np.float64]:
        """log P(y | x) of each pair in nats, ends included, given the places, (n,)."""
        score, log_z = self.step_scores(sources, targets)
        return np.add.reduceat(score - log_z, targets.offsets[:-1] + np.arange(len(targets)))

    def next_log_probs(self, sources: Ragged, targets: Ragged) -> list[NDArray[np.float64]]:
        """Log probabilities (target tokens + 1, V) of what comes next after each beginning of each target."""
        rows = [self.foretold(scores.double()).cpu().numpy() for scores, _ in self.scored(sources, targets)]
        return np.split(np.concatenate(rows), np.cumsum(targets.lengths + 1)[:-1])

    def states_of(self, sources: Ragged) -> list[NDArray[np.floating]]:
        """The embeddings of the tokens of each source, (source tokens, width)."""
        return [self.source_embedding.weight.detach().cpu().numpy()[one] for one in sources]

    def align(self, sources: Any, targets: Ragged) -> list[NDArray[np.float64]]:
        """For each pair 1 where a target token or the end (rows) is aligned to a source token (columns), else 0."""
        places = self.aligner.places(self.facts, sources, targets, self.radius)
        found = np.split(places, np.cumsum(targets.lengths + 1)[:-1])
        return [
            (one[:, None] == np.arange(length)).astype(np.float64)
            for one, length in zip(found, sources.lengths, strict=True)
        ]

    # --- one token at a time ------------------------------------------------------------------------------------

    def together(self, sources: Any) -> int:
        """Sources that are looked at together: the search scores the next token from every place."""
        places = int(sources.lengths.max(initial=0)) + 1 if self.aligner.searched else 1
        return int(np.clip(CELLS // (places * self.target_size * 4), 1, 256))

    def read(self, sources: Any) -> WindowReading:
        """What windows around all places of sources add."""
        n, last = len(sources), max(int(sources.lengths.max(initial=0)), self.radius)
        at = np.arange(last + 1)[:, None] + np.arange(-self.radius, self.radius + 1)
        ids = _read_at(sources, np.repeat(np.arange(n), last + 1), np.tile(at, (n, 1))).reshape(n, *at.shape)
        moves = None
        with torch.no_grad():
            beside = self.of_windows(torch.as_tensor(ids, device=self.device))
            states = self.source_embedding(torch.as_tensor(sources.padded(), device=self.device))
        if self.aligner.searched:
            moves = torch.as_tensor(transitions(self.facts, sources.lengths), device=self.device).to(states.dtype)
        return WindowReading(states, beside, sources.lengths, moves)

    def given(self, sources: Any) -> JointWriting:
        """The decoder with these sources before it: `gnomon.contracts.NextToken`, one context to a source."""
        return JointWriting(self, self.read(sources))

    # --- saving -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Parameters, both vocabularies, and what places are found by."""
        return super().state() | {f"{FACT}{name}": value for name, value in self.facts.items()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` described."""
        super().load({name: value for name, value in state.items() if not name.startswith(FACT)})
        self.facts = {name.removeprefix(FACT): np.asarray(v) for name, v in state.items() if name.startswith(FACT)}


def _read_at(sources: Ragged, pair: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Source ids of pairs (rows,) at places (rows, k), ``<s>`` before the source and ``</s>`` behind it."""
    lengths = sources.lengths[pair][:, None]
    inside = (places >= 0) & (places < lengths)
    ids = np.where(places < 0, BOS, EOS)
    ids[inside] = sources.values[(sources.offsets[:-1][pair][:, None] + places)[inside]]
    return ids


class JointWriting(TokenByToken):
    """The decoder of some sources; where the place of a token is not known it sums over all of them.

    The belief over places goes on as in a hidden Markov model: :math:`P(w) = \\sum_j \\pi_j P(w \\mid j)`, where
    :math:`\\pi` is what transitions make of the belief after the token before.
    """

    moving: ClassVar[tuple[str, ...]] = ("context", "index", "prior")

    def begin(self, n: int) -> State:
        """No token yet."""
        device, size = self.model.device, 1
        if self.memory.transitions is not None:
            size = self.memory.transitions.shape[2]
        context = torch.full((n, self.model.target.context), BOS, dtype=torch.int64, device=device)
        return {
            "source": torch.arange(n, device=device), "context": context,
            "index": torch.full((n,), -1, dtype=torch.int64, device=device),
            "prior": self.memory.states.new_zeros(n, size),
        }  # fmt: skip

    def step(self, tokens: Array, state: State) -> tuple[Array, dict[str, Any]]:
        """Log probabilities of the next token in nats, (n, V), after `tokens`; and the new state."""
        ids = torch.as_tensor(tokens, device=self.model.device)
        source, index = state["source"], state["index"] + 1
        with torch.no_grad():
            prior = self._prior(ids, state)
            context = torch.cat([state["context"][:, 1:], ids[:, None]], 1)
            log_probs = self._next(context, source, index)
            if self.memory.transitions is not None:
                log_probs = (prior.log()[:, :, None] + log_probs).logsumexp(1)
            else:
                log_probs = log_probs[:, 0]
            answer = self.model.foretold(log_probs)
        after = {"source": source, "context": context, "index": index, "prior": prior}
        return answer if isinstance(tokens, torch.Tensor) else answer.cpu().numpy(), after

    def _prior(self, ids: torch.Tensor, state: State) -> torch.Tensor:
        """Probabilities (n, places) of the place of the next token."""
        moves = self.memory.transitions
        if moves is None:
            return state["prior"]
        moves, first = moves[state["source"]], (state["index"] < 0)[:, None]
        log_probs = self._next(state["context"], state["source"], state["index"])
        chosen = outcome(ids).clamp(min=0)[:, None, None].expand(-1, log_probs.shape[1], 1)
        belief = torch.softmax(state["prior"].log() + log_probs.gather(2, chosen)[..., 0], 1)
        return torch.where(first, moves[:, 0], (belief[:, None] @ moves[:, 1:])[:, 0])

    def _next(self, context: torch.Tensor, source: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        """Log probabilities (n, places, V - 1) after contexts: of every place, or of the one that the index says."""
        model, memory = self.model, self.memory
        rows = source[:, None]
        if memory.transitions is None:
            lengths = memory.lengths[source.cpu().numpy()]
            at = model.aligner.at(model.facts, index.cpu().numpy(), lengths, model.radius)
            places = torch.as_tensor(at, device=source.device)[:, None]
        else:
            places = torch.arange(memory.transitions.shape[2], device=source.device)[None]
        beside = Beside(*(None if one is None else one[rows, places] for one in memory.beside))
        return torch.log_softmax(model.target.of_contexts(context[:, None], beside), 2)


class NeuralJointModel(ContextFields, Translator):
    r"""Neural joint model: how probable a target is, token by token, beside the place of its source that each is from.

    :math:`P(t \mid s) = \prod_i P(t_i \mid t_{i-n+1} \dots t_{i-1}, s_{a_i - m} \dots s_{a_i + m})`: the network of
    `NeuralNGram`, which also sees the source token that t_i is aligned to and m = `radius` more on each side. It scores
    what others propose (`gnomon.tasks.rescoring`), and translates by itself. With ``alignment_model="whole"`` it is a
    phrase model, :math:`P(t_1 \dots t_k \mid s_1 \dots s_k)`.

    Attributes
    ----------
    source_vocabulary_, target_vocabulary_ : Vocabulary
        Tokens by id; 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``.
    history_ : dict of lists
        ``cross_entropy`` (nats per target token, ends included), ``squared_log_normalizer``, ``gradient_norm``, and
        with validation pairs ``validation_cross_entropy`` and ``best_epoch``, by epoch.

    Notes
    -----
    Pairs are tuples of two strings or two lists of tokens. Every target begins after n - 1 symbols ``<s>``; a window
    that reaches beyond its source has ``<s>`` and ``</s>`` there, an empty source nothing else. Rows of a batch are
    single target tokens, in random order. Tokens that the fit has not seen are read as ``<unk>``, whose vectors are
    learned where `min_count` makes some.

    Of ``diagonal`` (the default) and ``whole`` places follow from the index of a token, and `log_prob` is the logarithm
    of the probability of the target, comparable with that of `Seq2Seq`. Of ``ibm1``, which is for words, they depend on
    the target: `log_prob` is then one given the places. It says whether words fit, and of their order only what the
    n - 1 tokens before tell; of characters it would say next to nothing, since places give them away. `translate` then
    sums over the places of the token to come, which jump as often as in training.

    The penalty :math:`\alpha (\log Z)^2` draws the normalizer of a step to 1, so that `raw_log_prob`, the sum of the
    scores of the target's own tokens, is near `log_prob`; `log_normalizers` says how near. A step of `log_prob`
    costs O(n_hidden V), one of `raw_log_prob` O(n_hidden ((n + 2 m) n_embedding + 1)).

    Source: Devlin et al. (2014); Schwenk (2012) for phrases; Brown et al. (1993) for the alignment.

    Examples
    --------
    >>> pairs = [("one two", "eins zwei"), ("two one", "zwei eins"), ("one", "eins"), ("two", "zwei")] * 4
    >>> model = NeuralJointModel(unit="word", n=2, radius=1, n_hidden=16, n_embedding=8, epochs=40, learning_rate=0.03,
    ...                          dropout=0.0, alignment_model="ibm1", early_stopping="off",
    ...                          random_state=0).fit(pairs)
    >>> right, wrong = model.log_prob([("two two", "zwei zwei"), ("two two", "eins eins")])
    >>> bool(right > wrong + 1)
    True
    """

    name: ClassVar[str] = "neural-joint-model"
    model_class: ClassVar[type] = NeuralJointNetwork
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"alignment_model": SourceAlignment}

    alignment_model: Annotated[
        str | Recipe, Doc("Which source token each target token comes from; see `gnomon.inference.alignment`.")
    ] = "diagonal"
    radius: Annotated[int, "[0, inf)", Doc("Source tokens that are seen on each side of that one.")] = 5
    self_normalization: Annotated[
        float, "[0, inf)", Doc("Factor of the penalty on the squared logarithm of a step's normalizer.")
    ] = 0.1
    n: int = 4
    direct: Literal["no", "beside", "alone"] = "no"
    batch_size: int | None = 256
    learning_rate: float = 2e-3

    @property
    def given_beside(self) -> str:
        """The places, where they depend on the target."""
        return ", given their places" if self.recipe("alignment_model").searched else ""

    # --- fit ----------------------------------------------------------------------------------------------------

    def make(self, *, source_size: int, target_size: int, dtype: str) -> NeuralJointNetwork:
        return NeuralJointNetwork(
            source_size, target_size, self.n, self.radius, self.n_embedding, self.hidden_units, self.direct != "no",
            self.recipe("alignment_model"), self.dropout, getattr(torch, dtype),
        )  # fmt: skip

    def initialize(self, model: Any, examples: Examples, noise: contracts.Noise) -> None:
        super().initialize(model, examples, noise)
        model.facts = model.aligner.learn(examples["source"], examples["target"])

    def problem(self, model: Any, examples: Examples, noise: Noise, group: Group, validation: Any = None) -> Problem:
        """Every target token as a row."""
        train, judges = (None if one is None else self._laid(model, one) for one in (examples, validation))
        return super().problem(model, train, noise, group, judges)

    @staticmethod
    def _laid(model: NeuralJointNetwork, examples: Any) -> Examples:
        sources, targets = examples["source"], examples["target"]
        weight = np.repeat(examples.weight, targets.lengths + 1)
        return Examples(dict(model.rows(sources, targets)), weight, examples.shared)

    def make_objective(self) -> RowLoss:
        return RowLoss(self.self_normalization)

    def layout(self, examples: Any) -> Layout:
        return Rows(self.batch_size)

    # --- verbs --------------------------------------------------------------------------------------------------

    def perplexity(self, X: Any) -> float:
        """exp of the mean negative log probability per target token of pairs, ends included."""
        return float(np.exp(-self.score(X)))

    def raw_log_prob(self, X: Any) -> NDArray[np.float64]:
        """Sum of the scores of each pair's target tokens and its end, shape (pairs,): `log_prob` where Z is 1."""
        fields = self._rows(X)
        score = self.model_.raw_scores(fields["source"], fields["target"])
        return np.add.reduceat(score, fields["target"].offsets[:-1] + np.arange(len(fields["target"])))

    def log_normalizers(self, X: Any) -> list[NDArray[np.float64]]:
        """log Z of every step of some pairs: of each an array (target tokens + 1,), near 0 where self-normalized."""
        fields = self._rows(X)
        _, log_z = self.model_.step_scores(fields["source"], fields["target"])
        return np.split(log_z, np.cumsum(fields["target"].lengths + 1)[:-1])
