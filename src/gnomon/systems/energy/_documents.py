"""What stacks over documents add: a normalizer for each length, draws of a length, perplexity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array, Group
from gnomon.data.examples import Examples
from gnomon.distributions.word_counts import log_orders
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.perplexity import exp_or_inf
from gnomon.evaluation.score import Score
from gnomon.inference.arrays import to_numpy
from gnomon.inference.importance.by_row import log_partitions_by_annealing
from gnomon.inference.variational.mean_field import mean_field_evidence
from gnomon.numeric.given import floats
from gnomon.numeric.noise import Noise, seed_of
from gnomon.objectives.around import Around
from gnomon.objectives.base import Loss
from gnomon.objectives.contrastive import CD, PCD, Exact
from gnomon.recipes.parameters import how_many
from gnomon.system.densities import with_signature
from gnomon.systems.energy._columns import ChosenColumns
from gnomon.systems.energy._deep import VISIBLE, DeepMachine

__all__ = ["CountedDocuments", "GivenLengths"]

QUANTILES = 256
"""Lengths of the training documents that are kept, each as likely."""


class GivenLengths(Around):
    """An objective that sums over documents: of the length of its row each.

    Parameters
    ----------
    inner : Objective
    """

    def forward(self, model: Any, batch: Any, *, noise: contracts.Noise, phase: str, group: Group) -> Loss:
        """The loss of a batch, as sums."""
        loss: Loss = self.inner(_given(model, batch), batch, noise=noise, phase=phase, group=group)
        return loss

    def validate(self, model: Any, batch: Any, *, noise: contracts.Noise, group: Group) -> Loss:
        """As of the inner one."""
        return self.inner.validate(_given(model, batch), batch, noise=noise, group=group)


def _given(model: Any, batch: Any) -> Any:
    return model.given(model.place(batch.data["X"]).sum(-1)[:, None])


class CountedDocuments(ChosenColumns, DeepMachine):
    """Beside a deep machine whose rows may be documents, ``visible="replicated-softmax"``."""

    if TYPE_CHECKING:  # without a value it would read as a field
        visible: str
        arguments_: dict[str, Any]

    @property
    def _counts(self) -> bool:
        return self.visible == "replicated-softmax"

    @property
    def _mean_length(self) -> float:
        """Words of a training document."""
        return float(np.mean(self.arguments_["lengths"])) if self._counts else 1.0

    # --- fit ----------------------------------------------------------------------------------------------------------

    def check_parameters(self) -> None:
        super().check_parameters()
        principle = self.recipe("objective")
        if self._counts and not isinstance(principle, PCD | CD | Exact):
            what = f"objective {principle.short!r} does not hold the lengths of documents"
            raise UserValueError(what, "objective", "use pcd, cd or exact with replicated-softmax")

    def arguments(self, examples: Examples) -> dict[str, Any]:
        given = super().arguments(examples)
        if not self._counts:
            return given
        at = (np.arange(QUANTILES) + 0.5) / QUANTILES
        lengths = np.quantile(
            examples.X.sum(1), at, method="inverted_cdf", weights=examples.weight.astype(np.float64)
        )  # fmt: skip
        return given | {"lengths": lengths.astype(np.int64).tolist()}

    def make_objective(self) -> Any:
        made = super().make_objective()
        return GivenLengths(made) if self._counts and isinstance(self.recipe("objective"), Exact) else made

    # --- rows with missing cells --------------------------------------------------------------------------------------

    def _gaps(self, X: Any, mask: Any) -> tuple[Array, NDArray[np.bool_]]:
        rows, missing = super()._gaps(X, mask)
        if self._counts and missing.any():
            what = "all counts of a document must be known, since its length is their sum"
            raise UserValueError(what, "X", "give 0 for words that do not occur")
        return rows, missing

    # --- draws --------------------------------------------------------------------------------------------------------

    def sample(
        self, n: int = 1, *, steps: int = 1000, length: int | Array | None = None, random_state: Any = None
    ) -> Array:
        """n rows, each the end of its own Gibbs chain of `steps` sweeps begun at the data's means.

        Parameters
        ----------
        n : int, default 1
        steps : int, default 1000
        length : int or array of shape (n,), optional
            Words of each document, with ``visible="replicated-softmax"``; lengths of training documents by default.
        random_state : int, Generator or None
        """
        if length is None:
            return super().sample(n, steps=steps, random_state=random_state)
        check_is_fitted(self)
        if not self._counts:
            remedy = "use visible='replicated-softmax', or leave it out"
            raise UserTypeError("length is of documents alone", "length", remedy)
        n, seed = how_many(n), seed_of(random_state)
        lengths = floats(length, "length")
        if lengths.shape not in ((), (1,), (n,)) or (lengths < 0).any() or (lengths % 1).any():
            what = f"length must be a whole number of at least 0, or one for each of {n} rows"
            raise UserValueError(what, "length")
        lengths = np.broadcast_to(lengths, (n,))
        start = self._documents(lengths, Noise(seed, "sample/start"))
        return self.from_visible(self._walk(start, steps, seed) if n else start)

    def _start(self, n: int, noise: contracts.Noise) -> Array:
        if not self._counts:
            return super()._start(n, noise)
        lengths = self.model_.units[VISIBLE].drawn_lengths(noise.child("length"), np.zeros((n, 1)))
        return self._documents(lengths, noise)

    def _documents(self, lengths: Array, noise: contracts.Noise) -> Array:
        """Rows of these lengths, their words drawn with the shares of the data."""
        model = self.model_
        own = {name: model.place(value) for name, value in model.units[VISIBLE].base(self._start_mean(), {}).items()}
        field = model.place(np.zeros((len(lengths), model.sizes[VISIBLE])))
        drawn = model.units[VISIBLE].conditional(field, own | {"length": model.place(lengths)}).sample(noise, 0)
        found: Array = drawn
        return found

    # --- evidence -----------------------------------------------------------------------------------------------------

    def log_partition(self, method: str = "auto", *, X: Any = None, **options: Any) -> Score:
        """log Z in nats: exact up to 20 units in a layer that the others are summed out given, else annealed.

        Methods and options are those of `gnomon.log_partition`; the base has the means of the training data. Documents
        have one for each length, and none is given here.
        """
        if self._counts:
            what = "documents have a log Z for each length"
            raise UserTypeError(what, "visible", "use evaluate or perplexity, or model_.log_partitions(lengths)")
        return super().log_partition(method, X=X, **options)

    @available_if(lambda self: not hasattr(self, "model_") or hasattr(self.model_, "log_prob"))
    def log_prob(self, X: Any) -> Array:
        """Exact log p(v) of rows in nats, of documents given their lengths; larger machines have `evaluate`."""
        if not self._counts:
            found: Array = super().log_prob(X)
            return found
        exact: Array = self.model_.log_prob(self._outcomes(X))
        return exact

    def log_prob_bound(self, X: Any) -> Array:
        """Mean-field lower bound of log p(x) of each row in nats, shape (n,); as exact as log Z is."""
        if not self._counts:
            return super().log_prob_bound(X)
        rows = self._outcomes(X)
        found = to_numpy(mean_field_evidence(self.model_, {VISIBLE: rows}, steps=100, tol=1e-6))
        return np.where(rows.sum(1) > 0, found - self._log_z(rows)[0], 0.0)

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """The likelihood of the rows: exact where there is `log_prob`, else with the error of log Z.

        Where hidden units that depend on each other are too many to enumerate, its mean-field lower bound, as the
        note says. Of documents that given their lengths, and the perplexity per word.
        """
        if not self._counts:
            return super().evaluate(X, y)
        values, rows, facts = self._judged_documents(X)
        found = {self.primary: Score.from_pointwise(values, **facts)}
        if rows.sum() > 0:
            found["perplexity"] = self._perplexity(values, rows, facts)
        return with_signature(self, found, self._rows(X))

    def perplexity(self, X: Any) -> Score:
        r"""exp(-sum_d log p(words of d) / sum_d N_d) of documents: per word, not per document.

        The words of a document are taken in the order in which they stand: its counts have the probability of all
        N! / prod_k n_k! orders together. Documents without words count for nothing.

        Raises
        ------
        UserTypeError, UserValueError
            A machine of other rows; documents without a word among them.
        """
        if not self._counts:
            raise UserTypeError("perplexity is of documents alone", "visible", "use visible='replicated-softmax'")
        values, rows, facts = self._judged_documents(X)
        if not rows.sum() > 0:
            raise UserValueError("X has no words", "X", "give a document that is not empty")
        return self._perplexity(values, rows, facts)

    def _perplexity(self, values: Array, rows: Array, facts: dict[str, Any]) -> Score:
        """Of rows with these log probabilities."""
        lengths = rows.sum(1)
        words = np.divide(values - log_orders(rows), lengths, out=np.zeros(len(rows)), where=lengths > 0)
        mean = Score.from_pointwise(words, weight=lengths, **facts)
        value = exp_or_inf(-mean.value)
        error = value * float(facts.get("error", 0.0)) * len(rows) / float(lengths.sum())
        return Score(
            value, value * mean.stderr, error=error, kind=mean.kind, unit="per word", data_space=mean.data_space,
            name="perplexity", higher_is_better=False, n=mean.n, note=mean.note,
        )  # fmt: skip

    def _judged_documents(self, X: Any) -> tuple[Array, Array, dict[str, Any]]:
        """log p of each row in nats, the rows, and what a score says of it."""
        rows, model = self._outcomes(X).astype(np.float64), self.model_
        log_z, stderr = self._log_z(rows)
        is_exact = hasattr(model, "energy")
        evidence = -model.energy(rows) if is_exact else mean_field_evidence(model, {VISIBLE: rows}, steps=100, tol=1e-6)
        values = np.where(rows.sum(1) > 0, to_numpy(evidence) - log_z, 0.0)
        facts: dict[str, Any] = {"data_space": self.outcomes.space(rows.shape[1])}
        if hasattr(model, "log_prob"):
            return values, rows, facts
        note = "" if is_exact else "mean-field lower bound; "
        note += "log Z of each length exact" if model.exact else "log Z of each length from annealed chains"
        kind, error = "lower bound" if model.exact else "estimate", float(np.sqrt((stderr**2).sum()) / len(rows))
        return values, rows, facts | {"kind": kind, "note": note, "error": error}

    def _log_z(self, rows: Array) -> tuple[Array, Array]:
        """log Z of the length of each row, and its standard error: exact up to 12 units in the lowest hidden layer."""
        lengths, at = np.unique(rows.sum(1), return_inverse=True)
        condition = lengths[:, None].astype(np.float64)
        if self.model_.exact:
            return self.model_.log_partitions(condition)[at], np.zeros(len(rows))
        mean, noise = self._start_mean(), Noise(self.seed_, "evaluate/log-partition")
        log_z, stderr = log_partitions_by_annealing(self.model_, self.model_.place(condition), noise, mean=mean)
        return log_z[at], np.where(lengths > 0, stderr, 0.0)[at]
