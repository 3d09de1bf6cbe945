"""n-gram models written down from their definitions with dictionaries and loops; slow, and sharing nothing."""

from __future__ import annotations

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

    def katz(self, w: int, context: tuple[int, ...], discounts: list[float]) -> float:
        after = self.followers(context)
        below = {v: self.katz(v, context[1:], discounts) if context else 1 / len(self.outcomes) for v in self.outcomes}
        if not after:
            return below[w]
        total = sum(after.values())
        if len(after) == len(self.outcomes):
            return after[w] / total
        d = discounts[len(context)]
        if w in after:
            return (after[w] - d) / total
        return d * len(after) / total * below[w] / sum(below[v] for v in self.outcomes if v not in after)

    def mixed(self, w: int, context: tuple[int, ...], weights: list[float]) -> float:
        lower = self.mixed(w, context[1:], weights) if context else 1 / len(self.outcomes)
        if not self.followers(context):
            return lower
        own = weights[len(context)]
        return own * self.likely(w, context) + (1 - own) * lower
