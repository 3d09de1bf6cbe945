"""Randomized routines that answer rightly or fail, never wrongly: trial after trial, and rejection sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, HasLogProb, Noise
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.numeric.given import affordable, answers, checked, function, numbers
from gnomon.numeric.tensors import is_tensor
from gnomon.recipes.parameters import how_many

__all__ = ["Exhausted", "LasVegas", "RejectionSampler"]

Attempt = Callable[[int, Noise], tuple[Array, Array]]
"""(n, noise) -> n candidates and whether each is right; candidate i uses the numbers of row i of the noise alone."""

_SLACK = 1e-9
"""Nats by which rounding may carry a density above an envelope that touches it."""


class Exhausted(UserError, RuntimeError):
    """The tries were used up before every answer was found; nothing is returned.

    Attributes
    ----------
    attempts : array of shape (n,)
        Tries that each answer took, the failed ones included.
    failed : bool array of shape (n,)
        Which answers were not found.
    """

    def __init__(self, what: str, where: str = "", remedy: str = "", attempts: Any = None, failed: Any = None) -> None:
        super().__init__(what, where, remedy)
        self.attempts, self.failed = attempts, failed

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.what, self.where, self.remedy, self.attempts, self.failed)


class LasVegas:
    """Try until right: what is returned is right, the number of tries is random, and a limit on it ends in failure.

    The counterpart of a fixed budget, whose answer comes in time but with an error:
    ``gnomon.inference.montecarlo.expectation.Expectation.run``. Independent tries that succeed with probability a take
    1 / a of them on average (a geometric distribution), and fail n times in a row with probability ``(1 - a)^n``.

    Parameters
    ----------
    attempt : callable
        (n, noise) -> (candidates (n, ...), whether each is right (n,)). Candidate i must depend on row i of the noise
        alone.

    Attributes
    ----------
    attempts_ : array of shape (n,)
        Tries of each answer in the last run.
    failed_ : bool array of shape (n,)
        Answers that the last run did not find; if any, it raised `Exhausted`.

    References
    ----------
    Babai (1979), "Monte-Carlo algorithms in graph isomorphism testing".

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> def six(n, noise):
    ...     die = 1 + noise.integers(6, (n,))
    ...     return die, die == 6
    >>> game = LasVegas(six)
    >>> game.run(4, Noise(0, "die")).tolist()
    [6, 6, 6, 6]
    >>> int(game.attempts_.min()) >= 1, bool(game.failed_.any())
    (True, False)
    """

    attempts_: NDArray[np.int64]
    failed_: NDArray[np.bool_]

    @checked
    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt

    @checked
    def run(self, n: int, noise: Noise, *, max_tries: int = 1000) -> Array:
        """n answers, all of them right.

        Parameters
        ----------
        n : int, in [1, inf)
            Number of answers.
        noise : Noise
            Try t of answer i uses the stream ``try-t``, position i: it does not depend on the other answers.
        max_tries : int, in [1, inf)
            Tries of each answer at most; memory of n candidates, time of ``max_tries`` rounds over those still open.

        Returns
        -------
        array of shape (n, ...)
            Of the kind of the candidates.

        Raises
        ------
        Exhausted
            When an answer was not found in `max_tries` tries.
        """
        for value, name in ((n, "n"), (max_tries, "max_tries")):
            if value < 1:
                raise UserValueError.must(name, "be at least 1", value)
        affordable(how_many(n), "n", "ask for fewer answers")
        self.attempts_, self.failed_ = np.zeros(n, np.int64), np.ones(n, np.bool_)
        answers: Any = None
        for t in range(max_tries):
            open_ = np.flatnonzero(self.failed_)
            result = self.attempt(len(open_), noise.child(f"try-{t}").take(open_))
            if not isinstance(result, tuple) or len(result) != 2 or not np.ndim(result[0]):
                raise UserTypeError(f"attempt must return (values, accepted), got a {type(result).__name__}", "attempt")
            candidates, right = result
            verdicts = numbers(right, "attempt")
            if not np.isin(verdicts, (0, 1)).all():
                raise UserValueError("attempt must return truth values as its second array", "attempt")
            good = verdicts.astype(np.bool_)
            if good.shape != (len(open_),) or len(candidates) != len(open_):
                what = f"attempt must return {len(open_)} of both, got {len(candidates)} and shape {good.shape}"
                raise UserValueError(what, "attempt")
            if answers is None:
                answers = candidates.clone() if is_tensor(candidates) else np.array(candidates)
            else:
                answers[open_[good]] = candidates[good]
            self.attempts_[open_] += 1
            self.failed_[open_[good]] = False
            if good.all():
                return answers
        missing, tries = int(self.failed_.sum()), int(self.attempts_.sum())
        raise Exhausted(
            f"{missing} of {n} answers were not found in {max_tries} tries ({n - missing} successes in {tries})",
            "max_tries", "raise it, or make success likelier", self.attempts_, self.failed_,
        )  # fmt: skip


class RejectionSampler(LasVegas):
    """Exact draws of p by draws of q under an envelope, ``p(x) <= M q(x)``: keep x with probability p / (M q).

    A draw takes M tries on average when p and q are normalized, in general ``M Z_q / Z_p``.

    Parameters
    ----------
    target : HasLogProb or callable
        log p in nats, normalized or not: (n, ...) to (n,).
    proposal : HasLogProb and Samples
        q: ``sample(n, noise)`` and ``log_prob(x)``. It must not use the stream ``noise.child("accept")``.
    log_envelope : float
        log M.

    Notes
    -----
    Every proposed point is checked against the envelope. A place where it is violated but nothing was proposed does not
    show: M must be known to hold.

    References
    ----------
    von Neumann (1951), "Various techniques used in connection with random digits".

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> from gnomon.inference.montecarlo.integration import UniformBox
    >>> slope = RejectionSampler(lambda x: np.log(2 * x[:, 0]), UniformBox(0.0, 1.0), np.log(2.0))
    >>> slope.run(5, Noise(0, "slope")).shape
    (5, 1)
    """

    @checked
    def __init__(self, target: HasLogProb | Callable[[Array], Array], proposal: Any, log_envelope: float) -> None:
        if not hasattr(proposal, "sample") or not hasattr(proposal, "log_prob"):
            what = f"proposal must have sample(n, noise) and log_prob(x), got a {type(proposal).__name__}"
            raise UserTypeError(what, "proposal")
        if not np.isfinite(log_envelope):
            raise UserValueError.must("log_envelope", "be a finite bound of log p - log q", log_envelope)
        super().__init__(self._propose)
        self.proposal, self.log_envelope = proposal, float(log_envelope)
        self._log_p = target.log_prob if isinstance(target, HasLogProb) else function(target, "target")

    def _propose(self, n: int, noise: Noise) -> tuple[Array, NDArray[np.bool_]]:
        x = self.proposal.sample(n, noise)
        log_p, log_q = answers(self._log_p(x), (n,), "target"), answers(self.proposal.log_prob(x), (n,), "proposal")
        bad = np.flatnonzero(np.isnan(log_p) | (log_p == np.inf) | ~np.isfinite(log_q))
        if bad.size:
            i = int(bad[0])
            what = (
                f"log p must be below inf and log q finite, got {log_p[i]} and {log_q[i]} at {to_numpy(x[i]).tolist()}"
            )
            raise UserValueError(what, "proposal", "q must be the density that is sampled")
        chance = log_p - log_q - self.log_envelope
        worst = int(np.argmax(chance))
        if chance[worst] > _SLACK:
            raise UserValueError(
                f"the envelope is violated: log p - log q exceeds it by {chance[worst]:.6g}",
                f"the point {to_numpy(x[worst]).tolist()}",
                f"use log_envelope {self.log_envelope + chance[worst]:.6g} or more, or a proposal with heavier tails",
            )
        return x, np.log(noise.child("accept").uniform((n,), like=np.empty(0))) < chance
