"""What systems that translate have in common: pairs, the loss, the search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gnomon import contracts
from gnomon.data.counting import BOS, EOS, UNKNOWN
from gnomon.data.examples import Examples
from gnomon.data.sequences import Pairs, cut_by
from gnomon.data.text import Vocabulary, detokenize, listed
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.bleu_scores import Bleu, Smoothing, Tokenizer, Weights, corpus_bleu
from gnomon.evaluation.score import Score
from gnomon.evaluation.translation import translation_scores
from gnomon.inference.decoding.among import Among
from gnomon.inference.decoding.beam import STEEPEST
from gnomon.numeric.given import checked
from gnomon.numeric.ragged import Ragged
from gnomon.recipes.fields import Doc
from gnomon.systems.sequence._pairs import TranslationModel
from gnomon.systems.sequence._target_loss import TargetLoss
from gnomon.systems.sequence._writing import Writer

__all__ = ["EncoderDecoder", "Translator"]


Candidates = Mapping[str, Sequence[str]]
"""Target tokens by source token; those of ``""`` stand in every target."""


def candidate_table(candidates: Any, source: Vocabulary, target: Vocabulary) -> Any:
    """Target ids that source ids allow, sparse, (source ids, target ids); row `BOS` is of every target, with the end.

    Tokens that the fit has not seen allow nothing and are not written.
    """
    if not isinstance(candidates, Mapping):
        what = f"candidates must be a mapping of source tokens to target tokens, got a {type(candidates).__name__}"
        raise UserTypeError(what, "candidates", 'give {"": [...], "house": ["Haus"]}')
    tokens = list(candidates)
    rows = np.where([one == "" for one in tokens], BOS, source.encode(tokens))
    lists = [
        target.encode(listed(candidates[one], "candidates", "lists of target tokens", "give lists")) for one in tokens
    ]
    rows = np.repeat([*rows, BOS], [*map(len, lists), 1]).astype(np.int64)
    columns = np.concatenate([*lists, [EOS]]).astype(np.int64)
    kept = (rows != UNKNOWN) & (columns != UNKNOWN)
    cells = np.ones(int(kept.sum()), np.int64), (rows[kept], columns[kept])
    return sparse.csr_array(cells, shape=(len(source), len(target)))


class Translator(Writer):
    """Base of systems that write a target to a source, fitted to pairs; a subclass gives `make`."""

    tasks: ClassVar[tuple[str, ...]] = ("translate",)
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"vocabulary_size": {"unit": "bpe"}}

    unit: Annotated[
        Literal["word", "char", "byte", "jieba", "bpe", "byte-bpe", "marked-bpe", "wordpiece"],
        Doc("What strings are cut into; the last four are pieces that are learned from each side."),
    ] = "char"
    vocabulary_size: Annotated[
        int,
        "[256, inf)",
        Doc("Pieces that ``bpe``, ``byte-bpe``, ``marked-bpe`` and ``wordpiece`` may learn of each side."),
    ] = 4000

    @property
    def given_beside(self) -> str:
        """What targets' probabilities are given beside their sources, as the name of the data space has it: nothing."""
        return ""

    @property
    def domain(self) -> Pairs:
        """Pairs of texts cut into tokens by `unit`."""
        return Pairs(self.unit, longest=self.longest, size=self.vocabulary_size)

    def known_domain(self) -> Pairs:
        return Pairs(self.unit, self.source_vocabulary_, self.target_vocabulary_, self.longest, self.vocabulary_size)

    @property
    def source_vocabulary_(self) -> Vocabulary:
        """Tokens of sources by id."""
        vocabulary: Vocabulary = self.model_.source_vocabulary
        return vocabulary

    # --- fit ----------------------------------------------------------------------------------------------------

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        if sample_weight is not None:
            raise UserValueError("pairs have no weights here", "sample_weight", "repeat a pair instead")
        X = listed(X, "X", "a list of pairs", "give (source, target)")
        domain = self.domain.learn(X, self.min_count)
        return Examples(domain.ingest(X), shared={"source": domain.source, "target": domain.target})

    def ingest_validation(self, validation: Any, examples: Any) -> Examples:
        domain = replace(self.domain, source=examples.shared["source"], target=examples.shared["target"])
        return Examples(domain.ingest(validation), shared=examples.shared)

    def arguments(self, examples: Examples) -> dict[str, Any]:
        sizes = {f"{side}_size": len(examples.shared[side]) for side in ("source", "target")}
        return sizes | {"dtype": self.dtype or "float32"}

    def initialize(self, model: TranslationModel, examples: Examples, noise: contracts.Noise) -> None:
        model.source_vocabulary, model.target_vocabulary = examples.shared["source"], examples.shared["target"]
        model.initialize(noise)

    # --- verbs --------------------------------------------------------------------------------------------------

    def log_prob(self, X: Any) -> NDArray[np.float64]:
        """log P(target | source) of each pair in nats, shape (pairs,)."""
        fields = self._rows(X)
        values: NDArray[np.float64] = self.model_.log_prob(fields["source"], fields["target"])
        return values

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Log likelihood per target token, ends included, BLEU on the system's tokens, and the fraction exactly right.

        Standard errors are over pairs. Translations are those of `predict`.
        """
        pairs = listed(X, "X", "a list of pairs", "give (source, target)")
        self.known_domain().check(pairs)
        cut = cut_by(self.unit, self.target_vocabulary_)
        targets = [one if isinstance(one, str) else detokenize(one, cut) for _, one in pairs]
        translated = self.translate([(source,) for source, _ in pairs])
        return {"log_likelihood": self._likelihood(pairs)} | translation_scores(translated, targets, self.unit)

    def bleu(
        self, X: Any, *, max_n: int = 4, smoothing: Smoothing = "exp", weights: Weights = "equal",
        tokenizer: Tokenizer = "13a",
    ) -> Bleu:  # fmt: skip
        """BLEU of the translations of pairs, in [0, 1], with its parts and signature.

        Parameters
        ----------
        X : list of pairs
            Of one source several pairs: each target is a reference of its one translation.
        max_n, smoothing, weights, tokenizer
            See `gnomon.evaluation.bleu_scores.corpus_bleu`.
        """
        pairs = listed(X, "X", "a list of pairs", "give (source, target)")
        self.known_domain().check(pairs)
        cut = cut_by(self.unit, self.target_vocabulary_)
        held: dict[Any, list[str]] = {}
        for source, target in pairs:
            key = source if isinstance(source, str) else tuple(source)
            held.setdefault(key, []).append(target if isinstance(target, str) else detokenize(target, cut))
        predictions = self.translate([(source if isinstance(source, str) else list(source),) for source in held])
        return corpus_bleu(
            predictions, list(held.values()), max_n=max_n, smoothing=smoothing, weights=weights, tokenizer=tokenizer
        )

    def _likelihood(self, X: Any) -> Score:
        fields = self._rows(X)
        counts = fields["target"].lengths + 1
        values = self.model_.log_prob(fields["source"], fields["target"]) / counts
        space = self.domain.space(len(self.target_vocabulary_)) + self.given_beside
        return Score.from_pointwise(values, weight=counts, unit="nats per token", data_space=space)

    def score(self, X: Any, y: Any = None) -> float:
        """Log likelihood per target token in nats."""
        return float(self._likelihood(X).value)

    def encode(self, X: Any) -> list[NDArray[np.floating]]:
        """What the encoder makes of each token of some sources: of each an array (source tokens, units).

        Parameters
        ----------
        X : list of str, of lists of tokens, or of pairs
            Of pairs, which are tuples, the sources are taken.
        """
        found: list[NDArray[np.floating]] = self.model_.states_of(self._sources(X))
        return found

    def decode(self, X: Any) -> list[NDArray[np.float64]]:
        """Log probabilities in nats of what comes next, by id, after each beginning of the targets of some pairs.

        Returns
        -------
        list of arrays (target tokens + 1, len(target_vocabulary_))
            The first row is of the first token, the last of what comes after the whole target.
        """
        fields = self._rows(X)
        found: list[NDArray[np.float64]] = self.model_.next_log_probs(fields["source"], fields["target"])
        return found

    def alignment(self, X: Any) -> list[NDArray[np.float64]]:
        """How much the decoder looked at each source token when it wrote each target token of some pairs.

        Of several heads the mean, of several layers the last.

        Returns
        -------
        list of arrays (target tokens + 1, source tokens)
            Rows sum to 1; the last is that of the end.

        Raises
        ------
        UserValueError
            A model without attention.
        """
        fields = self._rows(X)
        found: list[NDArray[np.float64]] = self.model_.align(fields["source"], fields["target"])
        return found

    def predict(self, X: Any) -> NDArray[np.str_]:
        """Targets of sources, or of the sources of pairs, by a beam search of width 5."""
        return np.array(self.translate(X), np.str_)

    @checked
    def translate(
        self,
        X: Any,
        *,
        method: Literal["beam", "greedy", "sample"] = "beam",
        width: int = 5,
        length_penalty: float = 0.75,
        max_length: int | None = None,
        candidates: Candidates | None = None,
        random_state: Any = None,
    ) -> list[str]:
        """Targets of sources.

        Parameters
        ----------
        X : list of str, of lists of tokens, or of pairs
            Of pairs, which are tuples, the sources are taken.
        method : {"beam", "greedy", "sample"}
        width, length_penalty
            Of the beam; see `gnomon.inference.decoding.beam.beam_search`.
        max_length : int, optional
            Tokens of a target at most; twice those of the source and 10 where left out.
        candidates : mapping of str to sequences of str, optional
            A dictionary: the target tokens that each source token may become, those of ``""`` in every target. A
            target is written with the candidates of its source's tokens alone, of which the probabilities are.
        random_state : int, Generator, RandomState or None
            Two samples differ unless it is given.

        Returns
        -------
        list of str
        """
        return self._texts(
            self._sources(X), lambda some: self._decoder(some, candidates), method, width, length_penalty, max_length,
            random_state,
        )  # fmt: skip

    @checked
    def propose(
        self, X: Any, *, n_best: int = 10, width: int | None = None, length_penalty: float = 0.75,
        max_length: int | None = None, candidates: Candidates | None = None,
    ) -> list[list[str]]:  # fmt: skip
        """Several targets of each source by a beam search, best first: what `gnomon.tasks.rescoring.rescore` takes.

        Parameters
        ----------
        X : list of str, of lists of tokens, or of pairs
            Of pairs, which are tuples, the sources are taken.
        n_best : int, at least 1
            Targets at most; fewer where the beam ends with fewer, or two are written alike.
        width : int, optional
            Of the beam; `n_best` where left out.
        length_penalty, max_length, candidates
            As of `translate`.
        """
        n_best = self._width(n_best, "n_best")
        wide = n_best if width is None else self._width(width)
        found: list[list[str]] = []
        for some, limits, _ in self._some(self._sources(X), max_length, wide):
            decoder = self._decoder(some, candidates)
            beams = self._beams(decoder, len(some), wide, length_penalty, limits, n_best)
            found += [list(dict.fromkeys(self._written(row) for row in rows)) for rows in beams]
        return found

    def rank(self, source: Any, candidates: Any, *, length_penalty: float = 0.0) -> list[Any]:
        """Candidates of a source by log P(candidate | source) / tokens**length_penalty, best first.

        Parameters
        ----------
        source : str or list of tokens
        candidates : list of str or of lists of tokens
        length_penalty : float in [-100, 100], default 0.0
            A candidate's tokens are counted with its end; 0 compares log probabilities, which favors short ones.

        Returns
        -------
        list
            The candidates; those of equal scores keep their order.

        Notes
        -----
        Tokens that the fit has not seen are all read as ``<unk>``, so that candidates which differ in them alone tie.
        """
        if not -STEEPEST <= length_penalty <= STEEPEST:
            raise UserValueError.must("length_penalty", f"be from {-STEEPEST} to {STEEPEST}", length_penalty)
        rows = listed(candidates, "candidates", "a list of targets", "give strings or lists of tokens")
        if not rows:
            return []
        # each once: those that are equal score equally, wherever they stand
        keys = [one if isinstance(one, str) else tuple(one) for one in rows]
        once = dict(zip(keys, rows, strict=True))
        fields = self._rows([(source, one) for one in once.values()])
        scores = self.model_.log_prob(fields["source"], fields["target"])
        scores = dict(zip(once, scores / (fields["target"].lengths + 1.0) ** length_penalty, strict=True))
        return [rows[i] for i in sorted(range(len(rows)), key=lambda i: -scores[keys[i]])]

    def _limits(self, sources: Any) -> NDArray[np.int64]:
        return np.asarray(2 * sources.lengths + 10)

    def _decoder(self, sources: Ragged, candidates: Candidates | None) -> Any:
        """The decoder of some sources, with the tokens that it may write."""
        decoder = self.model_.given(sources)
        if candidates is None:
            return decoder
        table = candidate_table(candidates, self.source_vocabulary_, self.target_vocabulary_)
        ids = np.concatenate([sources.values, np.full(len(sources), BOS)])
        rows = np.concatenate([np.repeat(np.arange(len(sources)), sources.lengths), np.arange(len(sources))])
        read = sparse.csr_array((np.ones(len(ids), np.int64), (rows, ids)), shape=(len(sources), table.shape[0]))
        return Among(decoder, (read @ table).toarray() > 0)

    def _sources(self, X: Any) -> Ragged:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        rows = [X] if isinstance(X, str) else listed(X, "X", "a list of sources", "give strings or lists of tokens")
        return self.known_domain().sources([one[0] if isinstance(one, tuple) and one else one for one in rows])


class EncoderDecoder(Translator):
    """Base of translators whose decoder ends in one affine layer over the target tokens."""

    vocab_partition: Annotated[
        int | None,
        "[1, inf)",
        Doc(
            "Of very many target tokens, those that the softmax of a training batch is over: all of its own targets, "
            "and others up to this number; None: all."
        ),
    ] = None

    def make_objective(self) -> TargetLoss:
        return TargetLoss(1.0, self.vocab_partition)
