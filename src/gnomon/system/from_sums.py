"""Systems whose closed form is taken from sums over the rows, learning chunk by chunk."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from gnomon.data.examples import Examples
from gnomon.distributions.arrays import is_empty, row_weights
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise
from gnomon.system.base import System
from gnomon.training.driver import FitResult

__all__ = ["FromSums"]


class FromSums(System):
    """Base of the systems that keep the sums of all rows so far; a subclass's model has them in ``sums``, or None.

    The sums need not be numbers that are added: a triangular factor of the rows is pooled in its own way.
    """

    fixed_by_sums: ClassVar[tuple[str, ...]] = ()
    """Hyper-parameters that the sums depend on, so that they cannot change between chunks; all others may."""

    # --- what a subclass says -----------------------------------------------------------------------------------

    def chunk(self, rows: Any, y: Any, sample_weight: Any) -> Examples:
        """The examples of a chunk whose rows have been checked, or its refusal."""
        return Examples({"X": rows}, row_weights(sample_weight, len(rows), rows.dtype))

    def sums_of(self, model: Any, examples: Examples, earlier: Any) -> Any:
        """Sums of a chunk for a model that has been made anew, about what those of the earlier model are about.

        Parameters
        ----------
        model : object
        examples : Examples
        earlier : object or None
            The model of the earlier chunks.
        """
        raise NotImplementedError

    def pooled(self, one: Any, other: Any) -> Any:
        """The sums of both; by default numbers by name, which are added."""
        return {name: one[name] + value for name, value in other.items()}

    def solve(self, model: Any, sums: Any, examples: Examples, n: int) -> dict[str, float]:
        """Fit the model to the sums of n rows; the record for the history."""
        record: dict[str, float] = model.solve(sums)
        return record

    def first_seed(self) -> int:
        """Seed of the first values, for fits that begin by chance."""
        return 0

    # --- verb ---------------------------------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Take in more rows: whatever the chunks, the result is one closed-form fit to all rows so far.

        Goes on from a closed-form fit too. The sums of the rows stay in memory and are not saved. An empty chunk
        changes nothing.

        Raises
        ------
        UserValueError
            A first chunk that determines nothing, hyper-parameters without a closed form, or a model without sums:
            loaded, or fitted in another way; a number of components, say, that is not the one of the chunks before.
        """
        self.check_parameters()
        first = not hasattr(self, "model_")
        if not first and getattr(self.model_, "sums", None) is None:
            raise UserValueError("the sums of the earlier rows were not kept", "partial_fit", "fit to all rows again")
        if not first and is_empty(X):
            return self
        if not first:
            self._refuse_changes(self.fixed_by_sums)
        with self._all_or_nothing():
            return self._take_in(self.chunk(self._rows(X, reset=first), y, sample_weight), first)

    def _take_in(self, examples: Examples, first: bool) -> Self:
        if first:
            self.arguments_ = self.arguments(examples)
            self.seed_, self.n_samples_seen_ = self.first_seed(), 0
        model, earlier = self._allocate(**self.arguments_), None if first else self.model_
        if first:
            self.initialize(model, examples, Noise(self.seed_, "fit").child("initial"))
        sums = self.sums_of(model, examples, earlier)
        if earlier is not None:
            sums = self.pooled(earlier.sums, sums)
        self.n_samples_seen_ += len(examples)
        found = self.solve(model, sums, examples, self.n_samples_seen_)
        steps = 1 if first else self.n_steps_ + 1
        record = {"step": steps} | {name: float(value) for name, value in found.items()}
        self._set_fitted(model, FitResult(steps, [record]))
        return self
