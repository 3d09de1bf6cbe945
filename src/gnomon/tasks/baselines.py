"""Rules that say which end-to-end system to begin with, from what the data is; no data is looked at here.

Source: Goodfellow, Bengio and Courville (2016), section 11.2, as far as systems of the catalog go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gnomon.catalog import card
from gnomon.errors import UserValueError

__all__ = ["HUGE", "RULES", "SIMPLE", "STRUCTURES", "Description", "Rule", "matching", "regularized"]

STRUCTURES = ("vectors", "grid", "sequence", "ratings", "interactions", "pairs")
SIMPLE = 1000
"""Below so many rows, or with fewer rows than columns, a few well-chosen weights may do."""
HUGE = 10_000_000
"""From so many rows on a fit needs no regularization."""
ANSWERS = ("labels", "numbers", "none")


@dataclass(frozen=True)
class Description:
    """What a proposal rests on.

    Parameters
    ----------
    structure : {"vectors", "grid", "sequence", "ratings", "interactions", "pairs"}
        Fixed vectors; images; sentences; who rated what; who met what; sentences and what they become.
    rows : int in [1, inf)
        Examples: rows, images, sentences, ratings, pairs.
    answer : {"labels", "numbers", "none"}
        What is to be predicted of each.
    columns : int, default 1
        Of vectors and images.
    classes : int, default 0
        Different labels.
    commonest : float in [0, 1], default 0.0
        Share of the most frequent label.
    binary : bool, default False
        Whether every number is 0 or 1.

    Raises
    ------
    UserValueError
        Something else.
    """

    structure: str
    rows: int
    answer: str = "none"
    columns: int = 1
    classes: int = 0
    commonest: float = 0.0
    binary: bool = False

    def __post_init__(self) -> None:
        for name, known in (("structure", STRUCTURES), ("answer", ANSWERS)):
            if getattr(self, name) not in known:
                raise UserValueError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}", name)
        if self.rows < 1:
            raise UserValueError(f"rows must be at least 1, got {self.rows}", "rows")

    @property
    def simple(self) -> bool:
        """Whether a linear model may do: few rows, or more columns than rows."""
        return self.rows < SIMPLE or self.columns > self.rows

    def to_json(self) -> dict[str, Any]:
        """As names and values."""
        return asdict(self)


@dataclass(frozen=True)
class Rule:
    """One line of the table: for which data which system, and why.

    Parameters
    ----------
    family : str
        What kind of system it is.
    system, task : str
    when : callable
        Whether it speaks of a description.
    reason : str
    settings : mapping
        Hyper-parameters that are not the defaults; mild regularization, which is left out for tens of millions of rows.
    """

    family: str
    system: str
    task: str
    when: Callable[[Description], bool]
    reason: str
    settings: Mapping[str, Any] = field(default_factory=dict)


def _predicts(structures: tuple[str, ...], answer: str, **facts: bool) -> Callable[[Description], bool]:
    """Descriptions of these structures with this answer, whose `simple` and `binary` are as given."""
    return lambda one: (
        one.structure in structures and one.answer == answer
        and all(getattr(one, name) == value for name, value in facts.items())
    )  # fmt: skip


TABLES = ("vectors", "grid")
MILD = {"early_stopping": "patience", "dropout": 0.2}
NONE = {"early_stopping": "off", "dropout": 0.0}
FEW = f"there are fewer than {SIMPLE:,} rows, or fewer than columns: a few well-chosen weights may do"
VECTORS = "rows are vectors of fixed size, and there are enough of them to learn features from"

RULES: tuple[Rule, ...] = (
    Rule("factors", "matrix-factorization", "recommend", lambda one: one.structure == "ratings",
         "users rated items: biases and a few factors of each explain most of it"),
    Rule("factors", "implicit-factorization", "rank", lambda one: one.structure == "interactions",
         "it is known who met what, not how it was liked: factors that weigh what was met"),
    Rule("recurrent", "seq2seq", "translate", lambda one: one.structure == "pairs",
         "one sequence becomes another: a recurrent network reads it, a second one writes"),
    Rule("counts", "ngram", "language", lambda one: one.structure == "sequence" and one.simple,
         f"there are fewer than {SIMPLE:,} sentences: counts of short runs of tokens may do"),
    Rule("recurrent", "gru-lm", "language", lambda one: one.structure == "sequence",
         "sentences are sequences of any length: a gated recurrent network reads them"),
    Rule("convolutional", "lenet", "classify", _predicts(("grid",), "labels"),
         "pixels have neighbors: a convolutional network knows that", {"early_stopping": "patience"}),
    Rule("linear", "logistic-regression", "classify",
         lambda one: _predicts(TABLES, "labels", simple=True)(one) and one.classes == 2, FEW),
    Rule("linear", "softmax-regression", "classify", _predicts(TABLES, "labels", simple=True), FEW),
    Rule("fully connected", "mlp", "classify", _predicts(TABLES, "labels"), VECTORS, MILD),
    Rule("linear", "linear-regression", "regress", _predicts(TABLES, "numbers", simple=True), FEW),
    Rule("fully connected", "mlp-regression", "regress", _predicts(TABLES, "numbers"), VECTORS, MILD),
    Rule("mixture", "bernoulli-mixture", "density", _predicts(TABLES, "none", simple=True, binary=True),
         f"nothing is to be predicted, cells are 0 or 1, and there are under {SIMPLE:,} rows, or fewer than columns: "
         "a few kinds of rows, with a likelihood in closed form"),
    Rule("energy", "rbm", "density", _predicts(TABLES, "none", binary=True),
         "nothing is to be predicted, and cells are 0 or 1: hidden units learn what goes together"),
    Rule("latent", "vae", "density", _predicts(("grid",), "none", simple=False),
         "nothing is to be predicted of these images: latent variables behind a network say what they have in common",
         {"early_stopping": "patience"}),
    Rule("linear", "ppca", "density", _predicts(TABLES, "none"),
         "nothing is to be predicted: a few directions say what columns have in common, in closed form"),
)  # fmt: skip
"""The first one that speaks of a description and can be fitted to the data is proposed."""


def matching(description: Description) -> list[Rule]:
    """The rules that speak of a description, the first choice first.

    Examples
    --------
    >>> [rule.system for rule in matching(Description("grid", 60_000, "labels", 784, 10))]
    ['lenet', 'mlp']
    """
    return [rule for rule in RULES if rule.when(description)]


def regularized(rule: Rule, rows: int) -> dict[str, Any]:
    """The settings of a rule; from tens of millions of rows on those of a system without regularization.

    Examples
    --------
    >>> rule = matching(Description("vectors", 5000, "labels", 9, 3))[0]
    >>> regularized(rule, 5000), regularized(rule, 20_000_000)
    ({'early_stopping': 'patience', 'dropout': 0.2}, {'early_stopping': 'off', 'dropout': 0.0})
    """
    if rows < HUGE:
        return dict(rule.settings)
    names = {one.name for one in card(rule.system).parameters}
    return {name: value for name, value in NONE.items() if name in names}
