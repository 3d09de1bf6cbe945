"""What models of pairs of texts have in common: token ids alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise, State
from gnomon.data.counting import BOS, EOS, UNKNOWN
from gnomon.data.text import Vocabulary
from gnomon.data.tokenizers import restored
from gnomon.nn.module import Module
from gnomon.numeric.ragged import Ragged
from gnomon.systems.sequence._model import foretold, outcome

__all__ = ["ROWS", "TokenByToken", "TranslationModel", "WritingModel", "shifted"]

ROWS = 256
"""Pairs that are looked at together in prediction."""


class WritingModel(Module):
    """P(y | x) = prod_t P(y_t | y_1 ... y_{t-1}, x): a subclass gives `encode`, `hidden`, ``head`` and ``given``.

    Parameters
    ----------
    target_size : int, at least 3
        Ids of the target's vocabulary; 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``.
    """

    head: Any

    def __init__(self, target_size: int) -> None:
        super().__init__()
        self.source_vocabulary: Vocabulary | None = None
        self.target_vocabulary: Vocabulary | None = None
        self.target_size = target_size

    def initialize(self, noise: Noise) -> None:
        """First values of all parameters."""
        raise NotImplementedError

    def encode(self, source: torch.Tensor, lengths: torch.Tensor) -> Any:
        """What is read of sources (n, T) of these lengths."""
        raise NotImplementedError

    def hidden(self, memory: Any, given: torch.Tensor) -> torch.Tensor:
        """What `head` makes scores of after each of the given tokens (n, T), (n, T, units)."""
        raise NotImplementedError

    def encode_batch(self, data: Mapping[str, Any]) -> Any:
        """What is read of the sources of a batch."""
        source, lengths = (torch.as_tensor(data[name], device=self.device) for name in ("source", "source_length"))
        return self.encode(source, lengths)

    def together(self, sources: Any) -> int:
        """Sources that are looked at together in prediction."""
        return ROWS

    def scores(self, memory: Any, given: torch.Tensor, forced: torch.Tensor | None = None) -> torch.Tensor:
        """Scores (n, T, V - 1) of the `outcome` after each of the given tokens (n, T)."""
        scores: torch.Tensor = self.head(self.hidden(memory, given))
        return scores

    def attended(self, memory: Any, given: torch.Tensor) -> torch.Tensor:
        """How much of each source token was looked at after each of the given tokens (n, T), (n, T, source tokens)."""
        raise NotImplementedError

    def foretold(self, scores: torch.Tensor) -> torch.Tensor:
        """Log probabilities (n, V) of the next token from scores (n, V - 1) of its outcomes."""
        return foretold(scores, self.target_size)

    # --- probabilities ------------------------------------------------------------------------------------------

    def read(self, sources: Any) -> Any:
        """The memory of sources, for prediction."""
        with torch.no_grad():
            ids, lengths = (torch.from_numpy(one).to(self.device) for one in (sources.padded(), sources.lengths))
            return self.encode(ids, lengths)

    def log_likelihood(self, sources: Any, targets: Ragged) -> NDArray[np.float64]:
        """log P(y | x) of each pair in nats, ends included, (n,)."""
        values = np.zeros(len(sources))
        order, most = np.argsort(sources.lengths + targets.lengths, kind="stable"), self.together(sources)
        for begin in range(0, len(order), most):
            rows = order[begin : begin + most]
            values[rows] = self._log_prob(sources.take(rows), targets.take(rows))
        return values

    def _log_prob(self, sources: Any, targets: Ragged) -> NDArray[np.float64]:
        given, wanted, inside = (
            torch.from_numpy(one).to(self.device) for one in shifted(targets.padded(), targets.lengths)
        )
        with torch.no_grad():
            scores = self.scores(self.read(sources), given)
            log_p = scores.gather(2, outcome(wanted)[..., None])[..., 0] - scores.logsumexp(2)
            return (log_p.double() * inside).sum(1).cpu().numpy()

    def states_of(self, sources: Ragged) -> list[NDArray[np.floating]]:
        """What the encoder makes of each token of each source, (source tokens, units)."""
        found = []
        for begin in range(0, len(sources), ROWS):
            some = sources.take(slice(begin, begin + ROWS))
            states = self.read(some).states.cpu().numpy()
            found += [rows[:length] for rows, length in zip(states, some.lengths, strict=True)]
        return found

    def next_log_probs(self, sources: Ragged, targets: Ragged) -> list[NDArray[np.float64]]:
        """Log probabilities (target tokens + 1, V) of what comes next after each beginning of each target."""
        found = []
        for begin in range(0, len(sources), ROWS):
            x, y = (one.take(slice(begin, begin + ROWS)) for one in (sources, targets))
            given = torch.from_numpy(shifted(y.padded(), y.lengths)[0]).to(self.device)
            with torch.no_grad():
                scores = self.scores(self.read(x), given).double()
                rows = self.foretold(scores.flatten(0, 1)).view(*scores.shape[:2], -1).cpu().numpy()
            found += [one[: length + 1] for one, length in zip(rows, y.lengths, strict=True)]
        return found

    def align(self, sources: Any, targets: Ragged) -> list[NDArray[np.float64]]:
        """For each pair the weights (target tokens and the end, source tokens) that its decoder gave the source."""
        given = torch.from_numpy(shifted(targets.padded(), targets.lengths)[0]).to(self.device)
        with torch.no_grad():
            found = self.attended(self.read(sources), given).double().cpu().numpy()
        sizes = zip(found, targets.lengths + 1, sources.lengths, strict=True)
        return [one[:rows, :columns] for one, rows, columns in sizes]

    # --- saving -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Parameters, and both vocabularies."""
        names = {"source": self.source_vocabulary, "target": self.target_vocabulary}
        kept = {
            f"token_{side}_{name}": value
            for side, one in names.items() if one is not None for name, value in one.state().items()
        }  # fmt: skip
        return super().state() | kept

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` described."""
        super().load({name: value for name, value in state.items() if not name.startswith("token_")})
        sides = []
        for side in ("token_source_", "token_target_"):
            names = {name.removeprefix(side): np.asarray(v) for name, v in state.items() if name.startswith(side)}
            sides.append(restored(names) if names else None)
        self.source_vocabulary, self.target_vocabulary = sides


class TranslationModel(WritingModel):
    """A model whose data are pairs of texts."""

    def log_prob(self, sources: Ragged, targets: Ragged) -> NDArray[np.float64]:
        """log P(y | x) of each pair in nats, ends included, (n,)."""
        return self.log_likelihood(sources, targets)


class TokenByToken:
    """The decoder of some sources, one token at a time; a subclass gives `begin` and `step`.

    Parameters
    ----------
    model : WritingModel
    memory : what it has read
        Of as many sources as there are contexts.
    """

    moving: ClassVar[tuple[str, ...]]
    """What of the state tells where a row stands: it stays where a context has ended before others do."""

    def __init__(self, model: Any, memory: Any) -> None:
        self.model, self.memory = model, memory

    def begin(self, n: int) -> State:
        """State of n sources before any token."""
        raise NotImplementedError

    def step(self, tokens: Array, state: State) -> tuple[Array, dict[str, Any]]:
        """Log probabilities of the next token in nats, (n, V), after `tokens`; and the new state."""
        raise NotImplementedError

    def start(self, contexts: Sequence[Sequence[int]]) -> State:
        """State after each context, that of the source with the same number."""
        with torch.no_grad():
            state = self.begin(len(contexts))
        for t in range(max((len(one) for one in contexts), default=0)):
            tokens = np.array([one[t] if t < len(one) else UNKNOWN for one in contexts])
            goes_on = torch.tensor([t < len(one) for one in contexts], device=self.model.device)
            _, after = self.step(tokens, state)
            for name in self.moving:
                on = goes_on.reshape(-1, *[1] * (state[name].ndim - 1))
                after[name] = torch.where(on, after[name], state[name])
            state = after
        return state

    def select(self, state: State, index: Array) -> dict[str, Any]:
        """The state of the sequences in `index`."""
        rows = torch.as_tensor(index, device=self.model.device)
        return {name: value[rows] for name, value in state.items()}


def shifted(targets: Any, lengths: Any) -> tuple[Any, Any, Any]:
    """What the decoder is given, what it has to say, and which of these count: <s> y_1 ... y_T, y_1 ... y_T </s>."""
    n, longest = targets.shape
    given, wanted = np.full((n, longest + 1), EOS), np.full((n, longest + 1), EOS)
    given[:, 0], given[:, 1:] = BOS, targets
    inside = np.arange(longest + 1) <= lengths[:, None]
    wanted[:, :-1][inside[:, 1:]] = targets[inside[:, 1:]]
    return given, wanted, inside
