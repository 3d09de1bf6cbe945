"""BLEU of a corpus and of a sentence with its options, counted by sacrebleu."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gnomon.errors import UserTypeError, UserValueError, shown

__all__ = ["Bleu", "corpus_bleu", "sentence_bleu"]

Smoothing = Literal["none", "floor", "add-k", "exp"]
Weights = Literal["equal", "halving"]
Tokenizer = Literal["13a", "intl", "zh", "char", "none"]


@dataclass(frozen=True)
class Bleu:
    """BLEU and what it is made of.

    Attributes
    ----------
    value : float
        In [0, 1]; ``float(bleu)`` is it.
    precisions : tuple of float
        p_1, p_2 ..., smoothed.
    matches, totals : tuple of int
        N-grams of the translations that references hold, and all of them, by n.
    brevity_penalty : float
    translation_length, reference_length : int
        Tokens; of several references the closest length counts, of two as close the shorter.
    signature : str
        sacrebleu's: references, tokenizer, smoothing and version, without which BLEU says little.
    """

    value: float
    precisions: tuple[float, ...]
    matches: tuple[int, ...]
    totals: tuple[int, ...]
    brevity_penalty: float
    translation_length: int
    reference_length: int
    signature: str

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        parts = " / ".join(f"{100 * one:.1f}" for one in self.precisions)
        return f"BLEU {100 * self.value:.2f} ({parts}, brevity {self.brevity_penalty:.3f}; {self.signature})"


def corpus_bleu(
    translations: Sequence[str],
    references: Sequence[str | Sequence[str]],
    *,
    max_n: int = 4,
    smoothing: Smoothing = "exp",
    weights: Weights = "equal",
    tokenizer: Tokenizer = "13a",
) -> Bleu:
    r"""BLEU of a corpus: counts of all sentences are summed first.

    :math:`\min(1, e^{1 - r/c}) \prod_{n=1}^{N} p_n^{w_n}`. p_n is the fraction of the n-grams of the translations that
    occur in a reference, each at most as often as in the reference that has it most often; c is the number of tokens of
    the translations, r that of the references.

    Parameters
    ----------
    translations : sequence of str
    references : sequence of str, or of sequences of str
        One reference to a translation, or several.
    max_n : int in [1, 100], default 4
        The longest n-grams, N.
    smoothing : {"none", "floor", "add-k", "exp"}, default "exp"
        Of orders without a match. ``none``: BLEU is 0; ``floor``: 0.1 matches; ``add-k``: one match more of n > 1;
        ``exp``: half a match, a quarter at the next such order, and so on (Chen and Cherry 2014).
    weights : {"equal", "halving"}, default "equal"
        w_n: 1 / N, or :math:`2^{-n}` over the orders that the translations are long enough for, with which long matches
        count more (Zhang, Lipton, Li and Smola, Dive into Deep Learning, 10.7).
    tokenizer : {"13a", "intl", "zh", "char", "none"}, default "13a"
        See `gnomon.evaluation.translation.bleu`; ``none``: words between blanks.

    Returns
    -------
    Bleu

    Raises
    ------
    UserValueError
        Lists of different lengths, empty ones, a translation without a reference; an unknown option; sacrebleu is
        absent.
    UserTypeError
        What is no text.

    References
    ----------
    Papineni, Roukos, Ward and Zhu (2002); Post (2018).

    Examples
    --------
    >>> found = corpus_bleu(["the cat is on"], ["the cat is on the mat"], smoothing="none")
    >>> round(found.value, 6), found.matches
    (0.606531, (4, 3, 2, 1))
    """
    return _bleu(translations, references, max_n, smoothing, weights, tokenizer, effective=False)


def sentence_bleu(
    translation: str,
    references: str | Sequence[str],
    *,
    max_n: int = 4,
    smoothing: Smoothing = "exp",
    weights: Weights = "equal",
    tokenizer: Tokenizer = "13a",
) -> Bleu:
    r"""BLEU of one sentence: of `corpus_bleu` with n up to its number of tokens at most.

    :math:`\min(1, e^{1 - r/c}) \prod_n p_n^{w_n}`. The mean over sentences is not BLEU of a corpus.

    Parameters
    ----------
    translation : str
    references : str or sequence of str
    max_n, smoothing, weights, tokenizer
        As of `corpus_bleu`.

    Returns
    -------
    Bleu

    Examples
    --------
    >>> round(float(sentence_bleu("the cat sat on the mat", "the cat is on the mat", max_n=2)), 6)
    0.707107
    """
    return _bleu([translation], [references], max_n, smoothing, weights, tokenizer, effective=True)


def _bleu(
    translations: Any, references: Any, max_n: int, smoothing: str, weights: str, tokenizer: str, *, effective: bool
) -> Bleu:
    if weights not in ("equal", "halving"):
        raise UserValueError.must("weights", "be equal or halving", weights)
    metric = counter(tokenizer, max_n, smoothing, effective=effective)
    texts, streams = aligned(translations, references)
    found = metric.corpus_score(texts, streams)
    precisions = tuple(one / 100 for one in found.precisions)
    value = min(1.0, found.score / 100) if weights == "equal" else _halving(precisions, found.totals, found.bp)
    return Bleu(
        value, precisions, tuple(found.counts), tuple(found.totals), found.bp, found.sys_len, found.ref_len,
        str(metric.get_signature()) + ("" if weights == "equal" else "|w:halving"),
    )  # fmt: skip


def _halving(precisions: Sequence[float], totals: Sequence[int], penalty: float) -> float:
    return penalty * math.prod(
        p ** 0.5 ** (i + 1) for i, (p, total) in enumerate(zip(precisions, totals, strict=True)) if total
    ) if totals[0] else 0.0  # fmt: skip


def counter(tokenizer: str = "13a", max_n: int = 4, smoothing: str = "exp", *, effective: bool = False) -> Any:
    """sacrebleu's metric.

    Raises
    ------
    UserValueError
        An unknown option; sacrebleu is absent.
    """
    for name, value, known in (
        ("tokenizer", tokenizer, ("13a", "intl", "zh", "char", "none")),
        ("smoothing", smoothing, ("none", "floor", "add-k", "exp")),
    ):
        if value not in known:
            raise UserValueError.must(name, f"be one of {', '.join(known)}", value)
    if not isinstance(max_n, int) or not 1 <= max_n <= 100:
        raise UserValueError.must("max_n", "be a whole number in [1, 100]", max_n)
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise UserValueError("BLEU needs sacrebleu", "bleu", "run: pip install sacrebleu") from None
    return BLEU(tokenize=tokenizer, smooth_method=smoothing, max_ngram_order=max_n, effective_order=effective)


def aligned(translations: Any, references: Any) -> tuple[list[str], list[list[str | None]]]:
    """Translations, and their first references, their second ... (None where one has fewer).

    Raises
    ------
    UserValueError, UserTypeError
        Lists of different lengths, empty ones; what is no text.
    """
    for name, side in (("translations", translations), ("references", references)):
        if isinstance(side, str):
            raise UserTypeError(f"{name} must be a list of texts, got one string", name, "give a list")
    texts, several = list(translations), [[one] if isinstance(one, str) else list(one) for one in references]
    if len(texts) != len(several) or not texts:
        raise UserValueError(
            f"there must be one reference per translation, got {len(several)} for {len(texts)}", "references",
            "give lists of one length",
        )  # fmt: skip
    for place, (text, held) in enumerate(zip(texts, several, strict=True)):
        if not held:
            raise UserValueError("a translation must have at least 1 reference, got 0", f"references, place {place}")
        wrong = next((one for one in (text, *held) if not isinstance(one, str)), None)
        if wrong is not None:
            raise UserTypeError(f"a text must be a string, got {shown(wrong)}", f"place {place}", "join its tokens")
    most = max(map(len, several))
    return texts, [[held[i] if i < len(held) else None for held in several] for i in range(most)]
