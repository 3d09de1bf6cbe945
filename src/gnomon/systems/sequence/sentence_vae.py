"""Sentences made of codes: a variational autoencoder of recurrent networks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Group
from gnomon.data.counting import BOS, EOS
from gnomon.data.layouts import Batch, Layout, Padded
from gnomon.data.sequences import held
from gnomon.distributions.latents import DiagonalGaussian
from gnomon.errors import UserValueError
from gnomon.evaluation.collapse import CollapseReport, collapse_report
from gnomon.evaluation.latent_likelihood import LatentEstimate, latent_log_prob
from gnomon.evaluation.perplexity import Perplexity
from gnomon.evaluation.score import Score
from gnomon.inference.decoding.ancestral import ancestral
from gnomon.inference.decoding.greedy import greedy
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.ragged import Ragged
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.variational import ELBO, VariationalObjective
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.by_gradient import ByGradient
from gnomon.systems.sequence._lm import NetworkLM
from gnomon.systems.sequence._sentence_codes import PARTICLES, SentenceModel, WritesFromCodes, marked
from gnomon.training.procedure import Problem

__all__ = ["SentenceBound", "SentenceVAE"]

ROWS = 256
"""Sentences that are looked at together."""


class _Listening:
    """A model whose bag-of-words losses are kept where its likelihood is asked for."""

    def __init__(self, model: SentenceModel) -> None:
        self.model, self.bags = model, torch.zeros(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def log_likelihood(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        self.bags = self.model.bag_of_words(x, z)
        return self.model.log_likelihood(x, z)

    def log_joint(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return self.log_likelihood(x, z) + self.model.log_prior(z)


class SentenceBound(Objective):
    """A bound on the log-likelihood of padded sentences, and beside it the words of each from its codes alone.

    Parameters
    ----------
    bound : Objective
        Of `gnomon.objectives.variational`.
    weight : float
        Of the bag-of-words loss; 0 for none.
    """

    def __init__(self, bound: Objective, weight: float) -> None:
        super().__init__()
        self.bound, self.weight = bound, weight

    def begin(self, model: Any, batches: Any, noise: contracts.Noise, group: Group) -> None:
        """Begin what the bound remembers."""
        self.bound.begin(model, batches, noise, group)

    def forward(self, model: Any, batch: Any, *, noise: contracts.Noise, phase: str, group: Group) -> Loss:
        """Minus the bound of a batch, and the loss of its bags of words."""
        read = _read(batch, model.device)
        if not self.weight:
            loss: Loss = self.bound(model, read, noise=noise, phase=phase, group=group)
            return loss
        ear = _Listening(model)
        loss = self.bound(ear, read, noise=noise, phase=phase, group=group)
        n = len(read)
        each = ear.bags.reshape(n, len(ear.bags) // max(n, 1)).mean(1) if n else ear.bags
        words = Term((each * read.weight).sum(), float(read.weight.sum()), self.weight)
        return Loss({**loss.terms, "bag_of_words": words})

    def validate(self, model: Any, batch: Any, *, noise: contracts.Noise, group: Group) -> Loss:
        """Minus the bound itself, without a factor of the divergence and with every word of the history."""
        found: Loss = self.bound.validate(model, _read(batch, model.device), noise=noise, group=group)
        return found


def _read(batch: Any, device: torch.device) -> Batch:
    x = torch.as_tensor(marked(batch.data["X"], batch.data["X_length"]), device=device)
    weight: Any = torch.as_tensor(batch.weight, device=device)
    return Batch({"X": x}, batch.rows, batch.positions, weight)


class SentenceVAE(NetworkLM):
    r"""Sentences from codes: a variational autoencoder whose encoder and decoder are long short-term memories.

    A sentence is written word by word given a code, :math:`p(x | z) = \prod_t p(x_t | x_1 \dots x_{t-1}, z)` with
    :math:`z \sim N(0, I)`; an encoder reads it to :math:`q(z | x) = N(\mu, \sigma^2)`. What is raised is the evidence
    lower bound :math:`E_q \log p(x | z) - KL(q(z | x) \| p(z)) \le \log p(x)`.

    A decoder that sees all words before the next one can do without z: the divergence falls to 0 and the codes say
    nothing (posterior collapse). Against it the factor of the divergence rises slowly (``objective__warm_up``), words
    of the history are dropped in training (`word_dropout`), and the words must be told from the code alone
    (`bag_of_words`); the first ``objective__free_bits`` nats of each latent variable have no gradient that lowers them.
    `collapse_report` says what came of it.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        Tokens by id; 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``, which no token of the text is.
    history_ : dict of lists
        ``negative_bound`` (nats per sentence, with the factors of training), ``divergence``, ``bag_of_words``,
        ``gradient_norm``, and with validation text ``validation_negative_bound``, always the bound itself.

    Notes
    -----
    Text is a string (each line a sentence), a list of strings (sentences), or a list of lists of tokens; no length is
    too long, and a sentence without tokens has its end. Scores are bounds by 64 importance-weighted draws, per token as
    those of `GRULM`, for the same unit and vocabulary; the factor of the divergence and dropped words are of
    training alone.

    An update costs about 6 batch_size * T * n_hidden * (8 n_embedding + 8 n_hidden + V) multiplications for sentences
    of T tokens. Source: Bowman et al. (2016); Zhao, Zhao and Eskenazi (2017) for the bag of words.

    Examples
    --------
    >>> text = ["the sun casts the shadow", "a dial shows the hour"] * 20
    >>> model = SentenceVAE(n_hidden=16, n_embedding=8, n_latent=2, batch_size=8, epochs=20, learning_rate=0.03,
    ...                     objective=ELBO(warm_up=100), early_stopping="off", random_state=0).fit(text)
    >>> model.reconstruct(["a dial shows the hour"])
    ['a dial shows the hour']
    """

    name: ClassVar[str] = "sentence-vae"
    model_class: ClassVar[type] = SentenceModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"objective": VariationalObjective}

    n_latent: Annotated[int, "[1, inf)", Doc("Latent variables: numbers of a code.")] = 16
    n_hidden: Annotated[int, "[1, inf)", Doc("Units of the encoder and of the decoder.")] = 128
    n_embedding: Annotated[int, "[1, inf)", Doc("Width of the tokens' embedding, which both share.")] = 64
    into: Annotated[
        Literal["both", "state", "inputs"],
        Doc("Where a code enters the decoder: its first state, every input, or both."),
    ] = "both"
    word_dropout: Annotated[
        float, "[0, 1]", Doc("Fraction of the words before the next one that the decoder does not see in training.")
    ] = 0.3
    bag_of_words: Annotated[
        float, "[0, inf)", Doc("Weight of a loss that tells the words of a sentence, in any order, from its code.")
    ] = 0.5
    objective: Annotated[str | Recipe, Doc("The bound that is raised; see `gnomon.objectives.variational`.")] = ELBO(
        warm_up=500, free_bits=0.2
    )
    epochs: int = 20

    # --- fit ----------------------------------------------------------------------------------------------------

    def make(self, *, vocabulary_size: int, dtype: str) -> SentenceModel:
        return SentenceModel(
            vocabulary_size, self.n_embedding, self.n_hidden, self.n_latent, self.into, self.dropout,
            self.word_dropout, self.bag_of_words > 0, getattr(torch, dtype),
        )  # fmt: skip

    def make_objective(self) -> SentenceBound:
        return SentenceBound(self.recipe("objective").build(), self.bag_of_words)

    def layout(self, examples: Any) -> Layout:
        return Padded(self.batch_size or len(examples))

    def problem(
        self, model: Any, examples: Any, noise: contracts.Noise, group: Group, validation: Any = None
    ) -> Problem:
        """Sentences one by one."""
        train = examples.replace(X=self._thinned(examples["X"], model.vocabulary_size, noise.child("unknown")))
        return ByGradient.problem(self, model, train, noise, group, validation)

    # --- codes --------------------------------------------------------------------------------------------------

    def _pieces(self, text: Ragged) -> Iterator[tuple[NDArray[np.int64], torch.Tensor]]:
        """Sentences of like length together: their numbers, and they themselves."""
        order = np.argsort(text.lengths, kind="stable")
        for begin in range(0, len(order), ROWS):
            rows = order[begin : begin + ROWS]
            some = text.take(rows)
            yield rows, torch.from_numpy(marked(some.padded(), some.lengths)).to(self.model_.device)

    def posterior(self, X: Any) -> DiagonalGaussian:
        """q(z | x) of each sentence: a distribution of tensors, with ``mean``, ``log_prob`` and ``sample``."""
        return self._codes(self._encoded(X))

    def _codes(self, text: Ragged) -> DiagonalGaussian:
        found = torch.zeros(2, len(text), self.model_.n_latent, dtype=self.model_.head.bias.dtype)
        with torch.no_grad():
            for rows, x in self._pieces(text):
                codes = self.model_.encode(x)
                found[:, rows] = torch.stack([codes.mean, codes.log_variance]).cpu()
        return DiagonalGaussian(*found.to(self.model_.device))

    def encode(self, X: Any) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Mean and variance of q(z | x) of each sentence, both of shape (sentences, n_latent)."""
        codes = self.posterior(X)
        return codes.mean.cpu().numpy(), codes.log_variance.exp().cpu().numpy()

    def transform(self, X: Any) -> NDArray[np.floating]:
        """Codes of sentences: the means of q(z | x), shape (sentences, n_latent)."""
        return self.encode(X)[0]

    def inverse_transform(self, Z: Any, *, max_length: int = 100) -> list[str]:
        """The sentences that the decoder writes greedily at codes of shape (n, n_latent)."""
        codes = np.asarray(Z)
        if codes.ndim != 2 or codes.shape[1] != self.model_.n_latent or not np.isfinite(codes).all():
            what = f"codes must be finite and of shape (n, {self.model_.n_latent})"
            raise UserValueError(f"{what}, got shape {codes.shape}", "Z", "take what transform gives")
        z = torch.tensor(codes, dtype=self.model_.head.bias.dtype, device=self.model_.device)[:, None]
        writer = WritesFromCodes(self.model_, lambda n: z)
        rows, _ = greedy(writer, [[BOS]] * len(z), max_length=how_many(max_length, "max_length"), end=EOS)
        return [text for text, _ in self._written(rows)]

    def reconstruct(self, X: Any, *, max_length: int = 100) -> list[str]:
        """The sentences that the decoder writes greedily at the means of q(z | x)."""
        return self.inverse_transform(self.transform(X), max_length=max_length)

    def interpolate(self, start: Any, end: Any, n: int = 7, *, max_length: int = 100) -> list[str]:
        """Sentences at `n` codes on the line from that of one sentence to that of another, both ends among them."""
        first, last = self.transform([start, end])
        share = np.linspace(0.0, 1.0, how_many(n, "n"))[:, None]
        return self.inverse_transform((1 - share) * first + share * last, max_length=max_length)

    def _written(self, rows: NDArray[np.int64]) -> list[tuple[str, bool]]:
        """Texts of rows of ids, and whether each came to its end."""
        words, domain = self.vocabulary_.decode, self.known_domain()
        return [(domain.text(words(row[(row >= 0) & (row != EOS)])), bool((row == EOS).any())) for row in rows]

    # --- writing ------------------------------------------------------------------------------------------------

    def writer(self, seed: int) -> WritesFromCodes:
        """The decoder at a code of each prompt, drawn from the prior by how well it explains the prompt."""
        noise = Noise(seed, "sample/codes")

        def codes(n: int) -> torch.Tensor:
            z = self.model_.sample_prior(n * PARTICLES, noise.child("prior"))
            return z.reshape(n, PARTICLES, -1)

        return WritesFromCodes(self.model_, codes, noise.child("choice"))

    def sample(
        self, n: int = 1, *, random_state: Any = None, max_length: int = 100,
        method: Literal["sample", "greedy"] = "sample", temperature: float = 1.0, return_ended: bool = False,
    ) -> Any:  # fmt: skip
        """Draw n sentences: a code of the prior for each, then its words until the end.

        Parameters
        ----------
        n : int
        random_state : int, Generator, RandomState or None
            Two calls differ unless it is given.
        max_length : int
            Tokens at most, the end among them.
        method : {"sample", "greedy"}
            Whether words are drawn, or the most probable one is taken; codes are drawn in either case.
        temperature : float in (0, inf)
            Of the words, where they are drawn.
        return_ended : bool, default False
            Whether to say too which sentences came to their end, and which were cut off at `max_length`.

        Returns
        -------
        list of str, or with `return_ended` that and a bool array of shape (n,)

        Raises
        ------
        UserValueError
            Another method.
        """
        if method not in ("sample", "greedy"):
            raise UserValueError.must("method", "be 'sample' or 'greedy'", method)
        seed, n, longest = seed_of(random_state), how_many(n), how_many(max_length, "max_length")
        z = self.model_.sample_prior(n, Noise(seed, "sample/codes"))[:, None]
        writer, begun = WritesFromCodes(self.model_, lambda n: z), [[BOS]] * n
        if method == "greedy":
            rows = greedy(writer, begun, max_length=longest, end=EOS)[0]
        else:
            rows = ancestral(
                writer, begun, Noise(seed, "sample"), max_length=longest, vocabulary_size=len(self.vocabulary_),
                end=EOS, temperature=temperature,
            )  # fmt: skip
        found = self._written(rows)
        texts = [text for text, _ in found]
        return (texts, np.array([ended for _, ended in found], bool)) if return_ended else texts

    # --- evidence -----------------------------------------------------------------------------------------------

    def _terms(self, text: Ragged, n_samples: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """log p(x | z) at draws of q, (sentences, draws), and the divergence (sentences,); draw by draw in memory."""
        noise, draws = Noise(self.seed_, "evaluate/elbo"), how_many(n_samples, "n_samples")
        if draws < 2:
            raise UserValueError(f"n_samples must be at least 2, got {draws}", "n_samples", "its error needs two")
        likelihood, divergence = np.zeros((len(text), draws)), np.zeros(len(text))
        with torch.no_grad():
            for rows, x in self._pieces(text):
                codes = self.model_.encode(x)
                divergence[rows] = self.model_.divergence(codes).double().sum(1).cpu().numpy()
                for k in range(draws):
                    z = codes.sample(noise.rows(rows), k)
                    likelihood[rows, k] = self.model_.log_likelihood(x, z).double().cpu().numpy()
        return likelihood, divergence

    def elbo(self, X: Any, n_samples: int = 16, beta: float = 1.0) -> Score:
        """The evidence lower bound, E_q log p(x | z) - beta KL(q || p), in nats per sentence.

        Parameters
        ----------
        X : text
        n_samples : int in [2, inf), default 16
            Draws of z per sentence.
        beta : float, default 1
            Factor of the divergence. Below 1 it is no bound.

        Returns
        -------
        Score
            Its rows in ``pointwise``; ``error`` is that of the draws, and the note has both terms.
        """
        likelihood, divergence = self._terms(self._encoded(X), n_samples)
        kind: Any = "lower bound" if beta >= 1 else "estimate"
        note = f"reconstruction {likelihood.mean():.6g}, divergence {divergence.mean():.6g}"
        return self._sentence_score(likelihood, -beta * divergence, "elbo", kind, note)

    def reconstruction(self, X: Any, n_samples: int = 16) -> Score:
        """E_q log p(x | z) in nats per sentence by draws of q, and their error; parameters as in `elbo`."""
        likelihood, divergence = self._terms(self._encoded(X), n_samples)
        return self._sentence_score(likelihood, 0 * divergence, "reconstruction", "estimate", "")

    def _sentence_score(
        self, likelihood: NDArray[np.float64], beside: NDArray[np.float64], name: str, kind: Any, note: str
    ) -> Score:
        n, draws = likelihood.shape
        error = float(np.sqrt((likelihood.var(1, ddof=1) / draws).sum()) / n)
        return Score.from_pointwise(
            likelihood.mean(1) + beside, name=name, kind=kind, error=error, unit="nats per sentence",
            data_space=self.known_domain().space(len(self.vocabulary_)), note=note,
        )  # fmt: skip

    def log_prob(self, X: Any, n_samples: int = 64) -> NDArray[np.float64]:
        """Log probability of each sentence in nats by importance sampling from q, shape (sentences,).

        In expectation it is below the true one: with one draw it is the evidence lower bound, with more it rises.

        Parameters
        ----------
        X : text
        n_samples : int in [1, inf), default 64
        """
        return self._estimate(self._encoded(X), n_samples).value

    def _estimate(self, text: Ragged, n_samples: int) -> LatentEstimate:
        noise, draws = Noise(self.seed_, "evaluate/encoder"), how_many(n_samples, "n_samples")
        found = np.zeros((len(LatentEstimate._fields), len(text)))
        with torch.no_grad():
            for i, (rows, x) in enumerate(self._pieces(text)):
                size = max(1, (1 << 22) // (x.shape[1] * len(self.vocabulary_)))
                found[:, rows] = latent_log_prob(
                    self.model_, self.model_, x, draws, noise.child(str(i)), batch_size=size
                )
        return LatentEstimate(*found)

    def _totals(self, text: Any) -> NDArray[np.float64]:
        return self._estimate(text, 64).value

    def perplexity(self, X: Any, *, unknown: Literal["count", "skip"] = "count") -> float:
        """exp of the mean negative log probability per token, ends included: an upper bound, as `log_prob` is a lower.

        Parameters
        ----------
        X : text
        unknown : {"count"}
            Tokens outside the vocabulary are among those that are averaged: a sentence has no probability without.
        """
        if unknown != "count":
            what = f"unknown must be 'count', got {unknown!r}"
            raise UserValueError(what, "unknown", "the sum over codes is over whole sentences")
        text = self._encoded(X)
        tokens = text.lengths + 1
        return Perplexity().update(np.repeat(self._totals(text) / tokens, tokens)).value

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Bounds by 64 importance-weighted draws: log likelihood per token, perplexity, bits; and the ELBO.

        They compare with those of other language models of the same unit and vocabulary, which are exact.
        """
        check_is_fitted(self)
        X = held(X)
        text = self._encoded(X)
        estimate, tokens = self._estimate(text, 64), int((text.lengths + 1).sum())
        found = self._scored(X, text, estimate.value)
        error = float(np.sqrt(np.square(estimate.stderr).sum())) / tokens  # nats per token
        mean, ratio = found["log_likelihood"], found["perplexity"]
        return {
            "log_likelihood": replace(mean, kind="lower bound", error=error),
            "perplexity": replace(ratio, kind="upper bound", error=ratio.value * error),
            **{name: _bound(found[name], mean.value, error) for name in ("bits_per_byte", "bits_per_char")},
            "elbo": self.elbo(X),
        }

    def collapse_report(self, X: Any) -> CollapseReport:
        """Whether codes say anything of sentences, and whether the decoder listens: see `gnomon.evaluation.collapse`.

        Examples
        --------
        >>> model = SentenceVAE(n_hidden=4, n_embedding=4, n_latent=2, epochs=1, random_state=0).fit(["a b", "b"] * 9)
        >>> model.collapse_report(["a b", "b"]).n_active
        0
        """
        text, noise = self._encoded(X), Noise(self.seed_, "evaluate/collapse")
        codes = self._codes(text)
        z = codes.sample(noise.child("codes"))
        others = np.roll(np.arange(len(text)), 1)
        own, shuffled = np.zeros(len(text)), np.zeros(len(text))
        with torch.no_grad():
            for rows, x in self._pieces(text):
                own[rows] = self.model_.log_likelihood(x, z[rows]).double().cpu().numpy()
                shuffled[rows] = self.model_.log_likelihood(x, z[others[rows]]).double().cpu().numpy()
        mean, log_variance, drawn = (one.cpu().numpy() for one in (codes.mean, codes.log_variance, z))
        return collapse_report(mean, log_variance, drawn, own, shuffled)


def _bound(bits: Score, log_likelihood: float, error: float) -> Score:
    """Bits of a lower bound of the log likelihood, whose error scales as they do."""
    kind: Any = "upper bound" if bits.kind == "exact" else "estimate"
    return replace(bits, kind=kind, error=error * abs(bits.value / log_likelihood) if log_likelihood else 0.0)
