"""BLEU of translations, by sacrebleu."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.data.text import Unit, tokenize
from gnomon.data.tokenizers import LEARNED
from gnomon.evaluation.bleu_scores import aligned, counter
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise

__all__ = ["bleu", "bleu_of_each", "translation_scores"]

RESAMPLES = 200


def bleu(
    translations: Sequence[str],
    references: Sequence[str | Sequence[str]],
    *,
    tokenizer: Literal["13a", "intl", "zh", "char", "none"] = "13a",
    seed: int = 0,
) -> Score:
    r"""BLEU of a corpus in [0, 100], with a standard error by resampling its sentences.

    :math:`100 \min(1, e^{1 - r/c}) \, \exp(\tfrac14 \sum_{n=1}^4 \log p_n)`, where p_n is the fraction of the n-grams
    of the translations that occur in their references (no n-gram more often than there), c the number of tokens of the
    translations and r that of the references. An order without a match counts as a small number (sacrebleu's
    ``exp`` smoothing). The note of the score is sacrebleu's signature; `gnomon.evaluation.bleu_scores` has other
    orders, smoothing and weights.

    Parameters
    ----------
    translations : sequence of str
    references : sequence of str, or of sequences of str
        One reference to a translation, or several.
    tokenizer : {"13a", "intl", "zh", "char", "none"}, default "13a"
        What n-grams are made of: the words of WMT, of any script, Chinese characters, characters, or words between
        blanks. Scores by different tokenizers are not comparable; the data space names it.
    seed : int, default 0
        Of the 200 resamples.

    Raises
    ------
    UserValueError
        Lists of different lengths, or empty ones; sacrebleu is absent.

    References
    ----------
    Papineni, Roukos, Ward and Zhu (2002); Post (2018), A call for clarity in reporting BLEU scores; Koehn (2004) for
    the resampling.

    Examples
    --------
    >>> bleu(["the sun casts a long shadow"], ["the sun casts a long shadow"]).value
    100.0
    """
    metric = counter(tokenizer)
    texts, streams = aligned(translations, references)
    value = metric.corpus_score(texts, streams)
    statistics = np.array(metric._extract_corpus_statistics(texts, streams), np.int64)
    n = len(statistics)
    draws = np.asarray(Noise(seed, "bleu").integers(n, (RESAMPLES, n)))
    scores = [metric._compute_score_from_stats(statistics[rows].sum(0).tolist()).score for rows in draws]
    stderr = float(np.std(scores, ddof=1)) if n > 1 else float("nan")
    return Score(
        round(float(value.score), 10), stderr, unit="BLEU", data_space=f"translations, tokens by {tokenizer}",
        name="bleu", n=n, note=str(metric.get_signature()),
    )  # fmt: skip


def bleu_of_each(translations: Sequence[str], references: Sequence[str], unit: Unit) -> NDArray[np.float64]:
    """BLEU of each translation by itself, in [0, 100], on tokens of a unit, by sacrebleu's sentence score.

    Orders for which a translation is too short are left out. No measure of a system: it favors other translations than
    BLEU of a corpus does, but it has a value for each.

    Examples
    --------
    >>> bleu_of_each(["abcde", "xy"], ["abcde", "zz"], "char").round(6).tolist()
    [100.0, 0.0]
    """
    metric = counter("none", effective=True)
    sides = ([" ".join(tokenize(one, unit)) for one in side] for side in (translations, references))
    return np.array([metric.sentence_score(a, [b]).score for a, b in zip(*sides, strict=True)], np.float64)


def translation_scores(translations: Sequence[str], references: Sequence[str], unit: Unit) -> dict[str, Score]:
    """BLEU on tokens of a unit, and the fraction of translations that are their references.

    Of pieces that a system learned BLEU is on words and Chinese characters, sacrebleu's ``zh``.

    Examples
    --------
    >>> found = translation_scores(["abcde", "x"], ["abcde", "y"], "char")
    >>> found["exact"].value, found["bleu"].data_space
    (0.5, 'translations, tokens by char')
    """
    if unit in LEARNED:
        given, wanted = list(translations), list(references)
        score = bleu(given, wanted, tokenizer="zh")
    else:
        given, wanted = ([" ".join(tokenize(one, unit)) for one in side] for side in (translations, references))
        score = replace(bleu(given, wanted, tokenizer="none"), data_space=f"translations, tokens by {unit}")
    exact = np.array([a == b for a, b in zip(given, wanted, strict=True)], np.float64)
    return {
        "bleu": score,
        "exact": Score.from_pointwise(exact, name="exact", unit="fraction", data_space="translations"),
    }
