"""n-gram models written down from their definitions with dictionaries and loops; slow, and sharing nothing."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

BOS, EOS = 1, 2


class Slow:
    """Counts and smoothed probabilities of sentences of ids, one `<s>` in front and one `</s>` behind when padded."""

    def __init__(self, sentences: list[list[int]], n: int, outcomes: list[int], *, padded: bool) -> None:
        self.n, self.outcomes, self.padded = n, outcomes, padded
        self.count: Counter[tuple[int, ...]] = Counter()
        self.left: dict[tuple[int, ...], set[int]] = defaultdict(set)
        for sentence in sentences:
            whole = [BOS, *sentence, EOS] if padded else list(sentence)
            for end in range(1 if padded else 0, len(whole)):
                for k in range(1, min(n, end + 1) + 1):
                    gram = tuple(whole[end - k + 1 : end + 1])
                    self.count[gram] += 1
                    if k < n:
                        self.left[gram].add(whole[end - k] if end >= k else -1)

    def followers(self, context: tuple[int, ...]) -> dict[int, int]:
        return {w: self.count[*context, w] for w in self.outcomes if self.count[*context, w]}

    def likely(self, w: int, context: tuple[int, ...]) -> float:
        after = self.followers(context)
        return after.get(w, 0) / sum(after.values())

    def continuation(self, gram: tuple[int, ...]) -> int:
        if len(gram) == self.n or gram[0] == BOS:
            return self.count[gram]
        return len(self.left[gram]) if gram in self.count else 0

    def kneser_ney(self, w: int, context: tuple[int, ...], discounts: list[list[float]]) -> float:
        new = [v for v in self.outcomes if not self.count[v,]] or self.outcomes
        lower = self.kneser_ney(w, context[1:], discounts) if context else (w in new) / len(new)
        after = {v: self.continuation((*context, v)) for v in self.outcomes if self.continuation((*context, v))}
        if not after:
            return lower
        taken = {v: discounts[len(context)][min(c, 3) - 1] for v, c in after.items()}
        total = sum(after.values())
        own = after[w] - taken[w] if w in after else 0
        return own / total + sum(taken.values()) / total * lower

    def discounts(self, order: int) -> list[float]:
        tally = Counter(self.continuation(gram) for gram in self.count if len(gram) == order)
        y = tally[1] / (tally[1] + 2 * tally[2])
        return [r - (r + 1) * y * tally[r + 1] / tally[r] for r in (1, 2, 3)]

    def katz(self, context: tuple[int, ...], taken: list[list[float]]) -> dict[int, float]:
        """`taken` has, by order, what is taken from a count of 1, 2, ..., and last of all higher ones."""
        after = self.followers(context)
        below = self.katz(context[1:], taken) if context else {v: 1 / len(self.outcomes) for v in self.outcomes}
        if not after:
            return below
        total, own = sum(after.values()), taken[len(context)]
        if len(after) == len(self.outcomes):
            return {w: c / total for w, c in after.items()}
        lost = {v: own[min(c, len(own)) - 1] for v, c in after.items()}
        free = sum(lost.values())
        if not free:  # nothing is left for the unseen: one more count is theirs
            free = 1.0
            total += 1
        unseen = sum(below[v] for v in self.outcomes if v not in after)
        return {
            w: (after[w] - lost[w]) / total if w in after else free / total * below[w] / unseen for w in self.outcomes
        }

    def counts_of_counts(self, order: int) -> Counter[int]:
        return Counter(c for gram, c in self.count.items() if len(gram) == order)

    def mixed(self, w: int, context: tuple[int, ...], weights: list[list[float]]) -> float:
        """`weights` has, by order, those of contexts seen once, 2 or 3, 4 to 7 ... times, and last of all others."""
        lower = self.mixed(w, context[1:], weights) if context else 1 / len(self.outcomes)
        after = self.followers(context)
        if not after:
            return lower
        table = weights[len(context)]
        own = table[min(sum(after.values()).bit_length(), len(table)) - 1]
        return own * self.likely(w, context) + (1 - own) * lower

    def shares(self, sentences: list[list[int]], without: int = 0) -> list[list[tuple[float, int] | None]]:
        """Of every token, by order: its likelihood and the count of its context, `without` itself; None: never seen."""
        found = []
        for sentence in sentences:
            whole = [BOS, *sentence, EOS] if self.padded else list(sentence)
            for t in range(1 if self.padded else 0, len(whole)):
                token: list[tuple[float, int] | None] = []
                for k in range(self.n):
                    after = self.followers(tuple(whole[t - k : t])) if k <= t else {}
                    total = sum(after.values()) - without
                    token.append(((after.get(whole[t], 0) - without) / total, total) if total > 0 else None)
                found.append(token)
        return found


def mixture_weights(
    tokens: list[list[tuple[float, int] | None]], base: float, n: int, buckets: int, steps: int
) -> tuple[list[list[float]], list[float]]:
    """Expectation maximization from 0.5 on, token by token: by order and bucket; the likelihood before each step."""
    weights, history = [[0.5] * buckets for _ in range(n)], []
    for step in range(steps + 1):
        chosen, lower = [[0.0] * buckets for _ in range(n)], [[0.0] * buckets for _ in range(n)]
        total = 0.0
        for token in tokens:
            bucket = [-1 if one is None else min(one[1].bit_length(), buckets) - 1 for one in token]
            own = [0.0 if one is None else weights[k][bucket[k]] for k, one in enumerate(token)]
            joint = [base, *(0.0 if one is None else own[k] * one[0] for k, one in enumerate(token))]
            for k in range(n + 1):  # passed down by every order above
                for above in range(k, n):
                    joint[k] *= 1 - own[above]
            total += math.log(sum(joint))
            for k in range(n):
                if token[k] is not None:
                    chosen[k][bucket[k]] += joint[k + 1] / sum(joint)
                    lower[k][bucket[k]] += sum(joint[: k + 1]) / sum(joint)
        history.append(total / len(tokens))
        for k, b in ((k, b) for k in range(n) for b in range(buckets)):
            known = chosen[k][b] + lower[k][b]
            if step < steps:
                weights[k][b] = chosen[k][b] / known if known else 0.5
            elif b and not known:
                weights[k][b] = weights[k][b - 1]
    return weights, history
