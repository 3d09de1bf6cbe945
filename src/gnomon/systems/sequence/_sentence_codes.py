"""The mathematics of sentences made of codes: a prior, a decoder word by word, an encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise, State
from gnomon.data.counting import BOS, EOS
from gnomon.distributions.latents import DiagonalGaussian, GaussianLatents
from gnomon.nn.dropout import Dropout, WordDropout
from gnomon.nn.embedding import Embedding
from gnomon.nn.initializers import XavierUniform, initialize
from gnomon.nn.layers import dense
from gnomon.nn.recurrent import LSTM
from gnomon.numeric import noise as addresses
from gnomon.numeric.ragged import Ragged
from gnomon.systems.sequence._model import NetworkLanguageModel, outcome

__all__ = ["SentenceModel", "WritesFromCodes", "bag_of_words_loss", "marked", "shift_right"]

PAD = -1
"""What stands behind the end of a sentence."""
PARTICLES = 64
"""Codes that are weighed by how well they explain the beginning of a sentence."""


def marked(ids: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sentences (n, T) with ``</s>`` behind each and -1 behind that, (n, T + 1).

    Examples
    --------
    >>> marked(np.array([[7, 8], [7, 0]]), np.array([2, 0])).tolist()
    [[7, 8, 2], [2, -1, -1]]
    """
    places = np.arange(ids.shape[1] + 1)
    wide = np.pad(ids, ((0, 0), (0, 1)))
    return np.where(places < lengths[:, None], wide, np.where(places == lengths[:, None], EOS, PAD))


def shift_right(x: torch.Tensor) -> torch.Tensor:
    """What a decoder is given in order to say `x`: ``<s>``, and then each token but the last.

    Examples
    --------
    >>> shift_right(torch.tensor([[7, 8, 2], [2, -1, -1]])).tolist()
    [[1, 7, 8], [1, 2, 2]]
    """
    before = torch.where(x < 0, EOS, x)[:, :-1]
    return torch.cat([x.new_full((len(x), 1), BOS), before], 1)


def bag_of_words_loss(scores: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    r"""Minus the log probability of the words in any order, :math:`-\sum_t \log \mathrm{softmax}(s)_{x_t}`, (n,).

    Parameters
    ----------
    scores : tensor of shape (n, V - 1)
        Of the outcomes, from z alone.
    x : int64 tensor of shape (n, T)
        Tokens; ends and what is behind them do not count.

    References
    ----------
    Zhao, Zhao and Eskenazi (2017).

    Examples
    --------
    >>> loss = bag_of_words_loss(torch.zeros(1, 4), torch.tensor([[3, 4, 2, -1]]))
    >>> bool(torch.isclose(loss, 2 * torch.tensor([4.0]).log()))
    True
    """
    words = (x >= 0) & (x != EOS)
    log_p = torch.log_softmax(scores, 1).gather(1, outcome(x.clamp(min=0)))
    return -(log_p * words).sum(1)


class SentenceModel(NetworkLanguageModel):
    r"""p(x, z) = N(z; 0, I) prod_t p(x_t | x_1 ... x_{t-1}, z), and q(z | x) = N(mean, diagonal variance).

    Sentences are ids (n, T) with ``</s>`` at their ends and -1 behind: see `marked`.

    Parameters
    ----------
    vocabulary_size : int, at least 3
        Ids 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``.
    width, n_hidden, n_latent : int, at least 1
        Of the embedding, of both recurrent layers, and latent variables.
    into : {"both", "state", "inputs"}
        Where z enters the decoder: its first state, or every input.
    dropout, word_dropout : float
        Of elements, and of whole words of the history that the decoder is given.
    bag : bool
        Whether there is a head that says the words of a sentence from z alone.
    dtype : torch.dtype
    """

    def __init__(
        self, vocabulary_size: int, width: int, n_hidden: int, n_latent: int, into: str = "both",
        dropout: float = 0.0, word_dropout: float = 0.0, bag: bool = False, dtype: torch.dtype = torch.float32,
    ) -> None:  # fmt: skip
        super().__init__(vocabulary_size)
        self.n_latent, self.latents = n_latent, GaussianLatents()
        self.embedding = Embedding(vocabulary_size, width, dtype=dtype)
        self.reader, self.writer = (LSTM(width, n_hidden, dtype=dtype) for _ in range(2))
        self.to_codes = dense(n_hidden, 2 * n_latent, dtype=dtype)
        self.to_state = None if into == "inputs" else dense(n_latent, self.writer.state_size, dtype=dtype)
        self.to_input = None if into == "state" else dense(n_latent, width, dtype=dtype)
        self.head = dense(n_hidden, vocabulary_size - 1, dtype=dtype)
        self.bag = dense(n_latent, vocabulary_size - 1, dtype=dtype) if bag else None
        self.drop_read, self.drop_in, self.drop_out = (Dropout(dropout) for _ in range(3))
        self.drop_words = WordDropout(word_dropout)

    def initialize(self, noise: Noise) -> None:
        """First values of all parameters."""
        for name in ("embedding", "reader", "writer"):
            getattr(self, name).initialize(noise.child(name))
        for name in ("to_codes", "to_state", "to_input", "head", "bag"):
            if getattr(self, name) is not None:
                initialize(getattr(self, name), XavierUniform(), noise.child(name))

    # --- the joint density and q --------------------------------------------------------------------------------

    def encode(self, x: torch.Tensor) -> DiagonalGaussian:
        """q(z | x) from the state after the end of each sentence."""
        words = self.drop_read(self.embedding(x.clamp(min=0)))
        _, state = self.reader(words, None, (x >= 0).sum(1))
        return self.latents.codes(self.to_codes(state[:, : self.reader.units]))

    def infer(self, x: torch.Tensor, noise: Noise) -> tuple[torch.Tensor, torch.Tensor]:
        """A draw of q(z | x) for each sentence, and its log density."""
        with torch.no_grad():
            codes = self.encode(x)
            z = codes.sample(noise)
            return z, codes.log_prob(z)

    def log_prior(self, z: torch.Tensor) -> torch.Tensor:
        """Log p(z) in nats, (n,)."""
        return self.latents.log_prior(z)

    def divergence(self, codes: DiagonalGaussian) -> torch.Tensor:
        """KL(q(z_j | x) || p(z_j)) in nats, (n, n_latent)."""
        return self.latents.divergence(codes)

    def sample_prior(self, n: int, noise: Noise) -> torch.Tensor:
        """n draws of z."""
        return self.latents.sample_prior((n, self.n_latent), noise, self.head.bias)

    def log_likelihood(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Log p(x | z) in nats, (n,)."""
        return self.token_log_likelihood(x, z).sum(1)

    def log_joint(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Log p(x, z) in nats, (n,)."""
        return self.log_likelihood(x, z) + self.log_prior(z)

    def token_log_likelihood(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Log p(x_t | x_1 ... x_{t-1}, z) in nats, (n, T); 0 behind the ends. One pass, by the true history."""
        words = self.drop_words(shift_right(x))
        outputs, _ = self.writer(self.drop_in(self._driven(words, z)), self.begin(z))
        scores = self.head(self.drop_out(outputs))
        log_p = scores.gather(2, outcome(x.clamp(min=0))[..., None])[..., 0] - scores.logsumexp(2)
        return log_p * (x >= 0)

    def bag_of_words(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """`bag_of_words_loss` of what the head says of z, (n,)."""
        assert self.bag is not None
        return bag_of_words_loss(self.bag(z), x)

    # --- one token at a time ------------------------------------------------------------------------------------

    def begin(self, z: torch.Tensor) -> torch.Tensor:
        """The decoder's state before the first token."""
        return self.writer.initial(len(z)) if self.to_state is None else self.to_state(z)

    def _driven(self, ids: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        words = self.embedding(ids)
        if self.to_input is None:
            return words
        shift = self.to_input(z)
        return words + (shift[:, None] if ids.ndim == 2 else shift)

    def read(self, contexts: Sequence[Sequence[int]], z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The states after contexts given codes, and the log probability of all tokens but the first."""
        text = Ragged.of(list(contexts))
        ids, lengths = (torch.from_numpy(one).to(self.device) for one in (text.padded(), text.lengths))
        outputs, state = self.writer(self._driven(ids, z), self.begin(z), lengths)
        scores = self.head(outputs[:, :-1])
        log_p = scores.gather(2, outcome(ids[:, 1:])[..., None])[..., 0] - scores.logsumexp(2)
        inside = torch.arange(1, ids.shape[1], device=ids.device) < lengths[:, None]
        return state, (log_p * inside).sum(1)

    def foretell(self, state: torch.Tensor) -> torch.Tensor:
        """Log probabilities (n, V) of the next token in a state."""
        return self.foretold(self.head(state[:, : self.writer.units]))

    def advance(self, ids: torch.Tensor, state: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """The state after one token more."""
        return self.writer.step(self._driven(ids, z), state)

    def _mixture(self) -> WritesFromCodes:
        few = self.sample_prior(PARTICLES, addresses.Noise(0, "next"))
        return WritesFromCodes(self, lambda n: few.expand(n, *few.shape))

    def start(self, contexts: Sequence[Sequence[int]]) -> State:
        """State after each context, under 64 codes of the prior that are always the same ones."""
        return self._mixture().start(contexts)

    def step(self, tokens: Array, state: State) -> tuple[Array, State]:
        """Log probabilities of the next token in nats, (n, V), averaged over codes given the tokens so far."""
        return self._mixture().step(tokens, state)


class WritesFromCodes:
    """The decoder, one token at a time, at some codes for each context: keeps `gnomon.contracts.NextToken`.

    Parameters
    ----------
    model : SentenceModel
    codes : callable
        From the number of contexts n to z of shape (n, K, n_latent).
    noise : Noise, optional
        With it one of the K codes is drawn by how probable it is given the first tokens, at the first step, and stays;
        without it predictions are averaged over all of them by that.
    """

    def __init__(self, model: SentenceModel, codes: Callable[[int], torch.Tensor], noise: Noise | None = None) -> None:
        self.model, self.codes, self.noise = model, codes, noise

    @torch.no_grad()
    def start(self, contexts: Sequence[Sequence[int]]) -> State:
        """Codes, states and log weights after each context."""
        z = self.codes(len(contexts))
        n, k, _ = z.shape
        state, log_w = self.model.read([one for one in contexts for _ in range(k)], z.reshape(n * k, -1))
        return {"z": z, "h": state.reshape(n, k, -1), "log_w": log_w.reshape(n, k)}

    @torch.no_grad()
    def step(self, tokens: Array, state: State) -> tuple[Array, State]:
        """Log probabilities of the next token in nats, (n, V), after `tokens`; and the new state."""
        ids = torch.as_tensor(tokens, device=self.model.device)
        z, h, log_w = (state[name] for name in ("z", "h", "log_w"))
        n, k, _ = z.shape
        if k > 1:
            before = self.model.foretell(h.flatten(0, 1)).reshape(n, k, -1)
            own = before.gather(2, ids[:, None, None].expand(n, k, 1))[..., 0]
            log_w = log_w + torch.where(ids[:, None] == BOS, 0.0, own)
            if self.noise is not None:
                z, h, log_w, k = *self._chosen(z, h, log_w), 1
        each = ids[:, None].expand(n, k).reshape(-1)
        after = self.model.advance(each, h.flatten(0, 1), z.reshape(n * k, -1))
        log_probs = self.model.foretell(after).reshape(n, k, -1)
        mixed = torch.logsumexp(log_probs + torch.log_softmax(log_w, 1)[..., None], 1) if k > 1 else log_probs[:, 0]
        found = mixed if isinstance(tokens, torch.Tensor) else mixed.cpu().numpy()
        return found, {"z": z, "h": after.reshape(n, k, -1), "log_w": log_w}

    def _chosen(self, z: torch.Tensor, h: torch.Tensor, log_w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """One of the codes of each context, by its weight."""
        u: Any = self.noise.uniform(tuple(log_w.shape), like=log_w)  # type: ignore[union-attr]
        best = (log_w - (-u.log()).log()).argmax(1)
        rows = torch.arange(len(z), device=z.device)
        return z[rows, best][:, None], h[rows, best][:, None], log_w[rows, best][:, None]

    def select(self, state: State, index: Array) -> State:
        """The state of the sequences in `index`."""
        return self.model.select(state, index)
