"""Losses over a large vocabulary by words of a cheap proposal: sampled softmax, and noise-contrastive estimation."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch.nn import functional

from gnomon.contracts import Noise
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.given import affordable, checked
from gnomon.objectives.base import Term

__all__ = [
    "Own", "conditional_nce", "conditional_nce_losses", "effective_words", "sampled_softmax", "sampled_softmax_losses",
    "word_log_prob",
]  # fmt: skip

Own = Literal["exact", "sampled", "expected"]
"""Where the target's own term of the normalizer comes from."""


@checked
def sampled_softmax(
    hidden: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    proposal: Any,
    n_samples: int,
    noise: Noise,
    *,
    row_weight: torch.Tensor | None = None,
    own: Own = "exact",
) -> Term:
    """Minus log softmax of the target word, with the words of the normalizer drawn from a proposal.

    All rows share the drawn words, so that their scores are one product. See `sampled_softmax_losses` for the equation,
    the bias and the choice of `own`.

    Parameters
    ----------
    hidden : tensor of shape (n, d)
        What the scores are made of: ``a = hidden W' + b``.
    target : int64 tensor of shape (n,)
        The word of each row, in [0, V).
    weight : tensor of shape (V, d)
        W.
    bias : tensor of shape (V,), optional
        b.
    proposal : Samples and HasLogProb on words
        ``sample(k, noise)`` and ``log_prob(words)``, for example `gnomon.distributions.table.Table` of the unigram
        shares. It must be positive wherever the softmax may be.
    n_samples : int, in [1, inf)
        Words to draw, with replacement.
    noise : Noise
        Shared noise: every process draws the same words.
    row_weight : tensor of shape (n,), optional
        Weights of the rows; 1 where left out.
    own : {"exact", "sampled", "expected"}, default "exact"
        See `sampled_softmax_losses`.

    Returns
    -------
    Term
        The weighted sum over rows and the sum of the weights; differentiable in hidden, weight and bias.

    Raises
    ------
    UserValueError
        For shapes that do not go together, targets outside the vocabulary, no samples.

    Notes
    -----
    Cost O(n K d) for K words instead of O(n V d). The gradient of `weight` is a dense (V, d) array.

    References
    ----------
    Bengio and Senécal (2003), "Quick training of probabilistic neural nets by importance sampling"; Jean, Cho,
    Memisevic and Bengio (2015), "On using very large target vocabulary for neural machine translation".

    Examples
    --------
    >>> from gnomon.distributions.table import Table
    >>> from gnomon.numeric.noise import Noise
    >>> unigram = Table([0.4, 0.3, 0.2, 0.1])
    >>> term = sampled_softmax(torch.zeros(2, 3), torch.tensor([0, 3]), torch.zeros(4, 3), None, unigram, 1000,
    ...                        Noise(0, "words"))
    >>> bool(abs(term.sum / term.weight - np.log(4)) < 0.1)
    True
    """
    words, log_q, log_q_target = _draws(hidden, target, weight, bias, proposal, n_samples, noise)
    losses = sampled_softmax_losses(hidden, target, weight, bias, words, log_q, log_q_target, own=own)
    return _total(losses, row_weight)


@checked
def conditional_nce(
    hidden: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    proposal: Any,
    n_samples: int,
    noise: Noise,
    *,
    row_weight: torch.Tensor | None = None,
) -> Term:
    """Noise-contrastive estimation of a word given its context: the target is told from words of a proposal.

    The score of a word is read as its log probability, the normalizer of every context being taken as 1; the network
    learns that it is. See `conditional_nce_losses` for the equation, `word_log_prob` for what a model says.

    Parameters
    ----------
    hidden, target, weight, bias, proposal, noise, row_weight
        As of `sampled_softmax`; the rows share the drawn words.
    n_samples : int, in [1, inf)
        k: with more words the gradient approaches that of the softmax.

    Returns
    -------
    Term
        The weighted sum over rows and the sum of the weights; differentiable in hidden, weight and bias.

    Raises
    ------
    UserValueError
        As of `sampled_softmax`; targets that the proposal never draws.

    Notes
    -----
    Cost O(n K d) for K words instead of O(n V d). Compare perplexities by normalized probabilities alone.

    References
    ----------
    Mnih and Teh (2012), "A fast and simple algorithm for training neural probabilistic language models"; Gutmann and
    Hyvärinen (2010).

    Examples
    --------
    >>> from gnomon.distributions.table import Table
    >>> from gnomon.numeric.noise import Noise
    >>> unigram = Table([0.4, 0.3, 0.2, 0.1])
    >>> term = conditional_nce(torch.zeros(2, 3), torch.tensor([0, 3]), torch.zeros(4, 3), None, unigram, 5,
    ...                        Noise(0, "words"))
    >>> bool(term.sum > 0), term.weight
    (True, 2.0)
    """
    words, log_q, log_q_target = _draws(hidden, target, weight, bias, proposal, n_samples, noise)
    return _total(conditional_nce_losses(hidden, target, weight, bias, words, log_q, log_q_target), row_weight)


def _draws(
    hidden: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    proposal: Any,
    n_samples: int,
    noise: Noise,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Words of the proposal, their log probabilities, and those of the targets."""
    if n_samples < 1:
        raise UserValueError.must("n_samples", "be at least 1", n_samples)
    _check(hidden, target, weight, bias)
    affordable(n_samples * max(len(hidden), hidden.shape[1]), "n_samples", "draw fewer words")
    if not hasattr(proposal, "sample") or not hasattr(proposal, "log_prob"):
        what = f"proposal must have sample(k, noise) and log_prob(words), got a {type(proposal).__name__}"
        raise UserTypeError(what, "proposal")
    codes = np.asarray(proposal.sample(n_samples, noise))
    words = torch.as_tensor(codes.reshape(-1), dtype=torch.int64, device=hidden.device)
    targets = target.cpu().numpy().reshape(-1, *codes.shape[1:])
    return words, _log_prob(proposal, codes, hidden), _log_prob(proposal, targets, hidden)


def _total(losses: torch.Tensor, row_weight: torch.Tensor | None) -> Term:
    """The weighted sum of the losses."""
    if row_weight is None:
        return Term(losses.sum(), float(len(losses)))
    _tensor(row_weight, "row_weight")
    if row_weight.shape != losses.shape:
        what = f"row_weight must be {len(losses)} numbers, one per row, got shape {tuple(row_weight.shape)}"
        raise UserValueError(what, "row_weight")
    return Term((losses * row_weight).sum(), float(row_weight.sum()))


def sampled_softmax_losses(
    hidden: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    words: torch.Tensor,
    log_q: torch.Tensor,
    log_q_target: torch.Tensor | None = None,
    *,
    own: Own = "exact",
) -> torch.Tensor:
    """The loss of each row for words that have been drawn: ``-a_y + log Z_hat``.

    With a the scores, y the target and w_1 ... w_K the words, Z_hat is

    - exact: ``exp(a_y) + (1/K) sum_{w_k != y} exp(a_{w_k}) / q(w_k)``. The target's own term is known, and words that
      hit it are left out. Unbiased for Z, the loss is never negative and its gradient bounded.
    - sampled: ``(1/K) sum_k exp(a_{w_k}) / q(w_k)``, hits included: the gradient is ``grad a_y - sum_k v_k grad
      a_{w_k}`` with weights v that sum to 1, self-normalized importance sampling. Where y was not drawn the loss has no
      lower bound.
    - expected: as exact, but a_y is lessened by ``log(K q(y))`` as the others are: TensorFlow's
      ``sampled_softmax_loss`` with its accidental hits removed, for draws with replacement. It is a loss of its own,
      equal to the softmax only where the target is expected once.

    The log makes the loss too low on average (Jensen) and the gradient biased, both by O(1/K); `effective_words` falls
    as the model departs from the proposal, and the error grows.

    Parameters
    ----------
    hidden, target, weight, bias, own
        As of `sampled_softmax`.
    words : int64 tensor of shape (K,)
        Draws of the proposal, shared by the rows.
    log_q : tensor of shape (K,)
        Their log probabilities in nats.
    log_q_target : tensor of shape (n,), optional
        Those of the targets; needed for ``own="expected"``.

    Returns
    -------
    tensor of shape (n,)

    Examples
    --------
    >>> h, W = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0]])
    >>> every_word, log_third = torch.arange(3), torch.full((3,), -np.log(3))
    >>> y = torch.tensor([0])
    >>> exact = torch.nn.functional.cross_entropy(h @ W.T, y)
    >>> bool(torch.isclose(sampled_softmax_losses(h, y, W, None, every_word, log_third), exact))
    True
    """
    if own not in get_args(Own):
        raise UserValueError.must("own", f"be one of {', '.join(get_args(Own))}", own)
    _check(hidden, target, weight, bias)
    _check_words(words, log_q, len(weight))
    scores = _corrected(hidden, weight, bias, words, log_q)
    mine = word_log_prob(hidden, target, weight, bias, full=False)
    if own == "sampled":
        return torch.logsumexp(scores, dim=1) - mine
    if own == "expected":
        log_q_target = _of_targets(log_q_target, target)
        mine = mine - log_q_target - math.log(len(words))
    scores = scores.masked_fill(words == target[:, None], -math.inf)
    return torch.logsumexp(torch.cat([mine[:, None], scores], dim=1), dim=1) - mine


def conditional_nce_losses(
    hidden: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    words: torch.Tensor,
    log_q: torch.Tensor,
    log_q_target: torch.Tensor,
) -> torch.Tensor:
    """The loss of each row for words w_1 ... w_K that have been drawn: ``f(-G(y)) + sum_k f(G(w_k))``.

    With the score ``s(w) = hidden W_w + b_w``, ``G(w) = s(w) - log(K q(w))`` are the log-odds that w is the target and
    f is softplus: TensorFlow's ``nce_loss`` for draws with replacement, words that hit the target among them. Its mean
    is least where s(w) is the log probability of w in this context, whose normalizer is then 1 without being computed.
    The mean slope is ``sum_w K q(w) / (exp(s) + K q(w)) (exp(s) - p(w)) ds(w)``: for many words, that of the softmax
    where the scores are normalized. Without the ``log(K q)`` it would be negative sampling, another model, whose scores
    end at ``log(p(w) / (K q(w)))``.

    Parameters
    ----------
    hidden, target, weight, bias, words, log_q
        As of `sampled_softmax_losses`.
    log_q_target : tensor of shape (n,)
        Log probabilities of the targets under the proposal.

    Returns
    -------
    tensor of shape (n,)

    Examples
    --------
    >>> h, W = torch.tensor([[1.0]]), torch.zeros(2, 1)
    >>> half = torch.full((1,), -np.log(2))
    >>> loss = conditional_nce_losses(h, torch.tensor([0]), W, None, torch.tensor([1]), half, half)
    >>> round(loss.item(), 4)
    1.5041
    """
    _check(hidden, target, weight, bias)
    _check_words(words, log_q, len(weight))
    log_q_target = _of_targets(log_q_target, target)
    mine = word_log_prob(hidden, target, weight, bias, full=False) - log_q_target - math.log(len(words))
    others = _corrected(hidden, weight, bias, words, log_q)
    return functional.softplus(-mine) + functional.softplus(others).sum(dim=1)


def word_log_prob(
    hidden: torch.Tensor, target: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *, full: bool = True
) -> torch.Tensor:
    """Log probability of the word of each row in nats.

    Parameters
    ----------
    hidden, target, weight, bias
        As of `sampled_softmax`.
    full : bool, default True
        Normalized over the vocabulary, O(n V d): what perplexities are compared by. Else the score alone, O(n d), a log
        probability as far as `conditional_nce` has taught the scores to be normalized.

    Returns
    -------
    tensor of shape (n,)

    Examples
    --------
    >>> h, W = torch.ones(1, 1), torch.tensor([[0.0], [1.0]])
    >>> [round(word_log_prob(h, torch.tensor([1]), W, None, full=full).item(), 4) for full in (True, False)]
    [-0.3133, 1.0]
    """
    _check(hidden, target, weight, bias)
    if full:
        scores = hidden @ weight.T if bias is None else hidden @ weight.T + bias
        return torch.log_softmax(scores, dim=1).gather(1, target[:, None])[:, 0]
    mine = (hidden * weight[target]).sum(dim=1)
    return mine if bias is None else mine + bias[target]


def _of_targets(log_q: torch.Tensor | None, target: torch.Tensor) -> torch.Tensor:
    """Log probabilities of the targets, one per row and finite."""
    if log_q is None or _tensor(log_q, "log_q_target").shape != target.shape:
        raise UserValueError("log_q_target is required, one per row", "log_q_target")
    if not bool(torch.isfinite(log_q).all()):
        row = int((~torch.isfinite(log_q)).nonzero()[0])
        raise UserValueError("the proposal gives the target probability 0", f"row {row}", "make it positive everywhere")
    return log_q


def effective_words(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, words: torch.Tensor, log_q: torch.Tensor
) -> torch.Tensor:
    """How many of the K words count in the normalizer of each row: ``(sum v)^2 / sum v^2``, v = exp(a_w) / q(w).

    Parameters
    ----------
    hidden, weight, bias, words, log_q
        As of `sampled_softmax_losses`.

    Returns
    -------
    tensor of shape (n,)
        In [1, K]; K where the model is the proposal, near 1 where the estimate is not to be trusted.
    """
    _check_scores(hidden, weight, bias)
    _check_words(words, log_q, len(weight))
    scores = _corrected(hidden, weight, bias, words, log_q)
    return (2 * torch.logsumexp(scores, dim=1) - torch.logsumexp(2 * scores, dim=1)).exp()


def _corrected(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, words: torch.Tensor, log_q: torch.Tensor
) -> torch.Tensor:
    """a_w - log(K q(w)), shape (n, K)."""
    scores = hidden @ weight[words].T
    scores = scores if bias is None else scores + bias[words]
    return scores - (log_q.to(scores.dtype) + math.log(len(words)))


def _log_prob(proposal: Any, codes: Any, like: torch.Tensor) -> torch.Tensor:
    log_p = proposal.log_prob(codes)
    return torch.as_tensor(log_p, dtype=like.dtype, device=like.device).reshape(-1)


def _tensor(x: Any, name: str) -> torch.Tensor:
    if not isinstance(x, torch.Tensor):
        remedy = "use torch.as_tensor" if isinstance(x, np.ndarray | list | tuple) else "give a torch tensor"
        raise UserTypeError(f"{name} must be a tensor, got a {type(x).__name__}", name, remedy)
    return x


def _check_scores(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    parts = {"hidden": hidden, "weight": weight} | ({} if bias is None else {"bias": bias})
    for name, part in parts.items():
        if not _tensor(part, name).is_floating_point():
            raise UserTypeError(f"{name} must be floating-point, got {part.dtype}", name)
        if part.dtype != hidden.dtype:
            what = f"{name} and hidden must be of one floating-point type, got {part.dtype} and {hidden.dtype}"
            raise UserTypeError(what, name)
    if hidden.ndim != 2 or weight.ndim != 2 or hidden.shape[1] != weight.shape[1]:
        what = f"hidden and weight must be (n, d) and (V, d), got {tuple(hidden.shape)} and {tuple(weight.shape)}"
        raise UserValueError(what, "hidden, weight")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise UserValueError(f"bias must have one entry per word, ({len(weight)},), got {tuple(bias.shape)}", "bias")


def _check(hidden: torch.Tensor, target: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    _check_scores(hidden, weight, bias)
    _tensor(target, "target")
    if target.shape != hidden.shape[:1] or target.dtype != torch.int64:
        what = (
            f"target must be {len(hidden)} int64 words, one per row, got {target.dtype} of shape {tuple(target.shape)}"
        )
        raise UserValueError(what, "target")
    outside = ((target < 0) | (target >= len(weight))).nonzero()
    if len(outside):
        row = int(outside[0])
        raise UserValueError.must(
            "target", f"be in [0, {len(weight)})", int(target[row]), f"row {row}", "encode words as 0, 1, ..."
        )


def _check_words(words: torch.Tensor, log_q: torch.Tensor, size: int) -> None:
    if _tensor(words, "words").dtype != torch.int64 or not _tensor(log_q, "log_q").is_floating_point():
        what = f"words must be int64 and log_q floating-point, got {words.dtype} and {log_q.dtype}"
        raise UserTypeError(what, "words, log_q")
    if words.ndim != 1 or words.shape != log_q.shape or not len(words):
        what = f"words and log_q must be one each per draw, got {tuple(words.shape)} and {tuple(log_q.shape)}"
        raise UserValueError(what, "words, log_q")
    bad = ((words < 0) | (words >= size) | ~torch.isfinite(log_q)).nonzero()
    if len(bad):
        k = int(bad[0])
        what = f"a word must be in [0, {size}) with finite log_q, got {int(words[k])} and {float(log_q[k])}"
        raise UserValueError(what, f"draw {k}", "draw words from the proposal itself")
