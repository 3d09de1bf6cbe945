"""The System: a model with hyper-parameters, a default recipe and scikit-learn's face."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array, Group, Procedure
from gnomon.data.batches import Batches, Transform
from gnomon.data.dataset import fingerprint
from gnomon.data.examples import Examples
from gnomon.data.layouts import Layout, Rows
from gnomon.data.prepared import Prepared
from gnomon.distributions.arrays import row_weights
from gnomon.distributions.domains import Real
from gnomon.errors import UserError, UserTypeError, UserValueError, shown
from gnomon.evaluation.density import density_score
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.sparse import is_sparse
from gnomon.recipes.parameters import check_parameters, how_many
from gnomon.recipes.recipe import Recipe, check_recipe, replace, resolve
from gnomon.recipes.synonyms import advice
from gnomon.runs.config import ARRAYS, FIT, MODEL, DataSpec, RunConfig
from gnomon.runs.folder import RunFolder
from gnomon.runs.versions import changes, versions
from gnomon.system.densities import with_signature
from gnomon.system.fields import Seeded
from gnomon.system.memory import within_memory
from gnomon.system.rows import TakesRows
from gnomon.system.trial import ask_once, on_trial
from gnomon.system.unfitted import SaysUnfitted
from gnomon.system.verbs import verb
from gnomon.training.context import current as current_context
from gnomon.training.context import limited
from gnomon.training.driver import FitResult, run_procedure
from gnomon.training.group import current as current_group
from gnomon.training.procedure import Problem
from gnomon.training.small import threads_for
from gnomon.training.stopping import held_out

__all__ = ["System", "agreed"]

VALIDATION_ROWS = 4096
"""Validation rows that are looked at together."""


class System(TakesRows, Seeded, SaysUnfitted, BaseEstimator):
    """Base of every system. A subclass names its model class, domain and slots, and says how to build each part.

    Verbs follow from the contracts of the model: ``log_prob`` where it is normalized, ``energy`` where it has one,
    ``sample`` where it is drawn from.
    """

    name: ClassVar[str] = ""
    model_class: ClassVar[type] = object
    domain: ClassVar[Any] = Real()
    tasks: ClassVar[tuple[str, ...]] = ()
    """What it can be used for; the first is the one that data is prepared for."""
    primary: ClassVar[str] = "log_likelihood"
    numpy_products: ClassVar[bool] = False
    """Whether the hot loop multiplies with NumPy, beside which torch's threads would only spin."""
    labeled: ClassVar[bool] = False
    """Whether it learns from rows with labels."""
    has_row_density: ClassVar[bool] = True
    """Whether the density, where there is one, is that of a row, and not of a target given the row."""
    ordered_columns: ClassVar[bool] = False
    """Whether a column's place among the others says what it is, as in images and sequences."""
    scale_dependent: ClassVar[bool] = False
    """Whether the answer depends on the columns' units, so that a table is scaled unless the user says no."""
    scales_target: ClassVar[bool] = False
    """Whether the answer depends on the unit of a numeric target too, so that it is scaled with the columns."""
    resamples_rows: ClassVar[bool] = False
    """Whether the fit draws rows, deals them into folds or counts them, so that a weight of 2 is not two rows."""

    # --- hyper-parameters ---------------------------------------------------------------------------------------

    def set_params(self, **params: Any) -> Self:
        """Set hyper-parameters; ``slot__field`` changes a field of the recipe in a slot.

        Raises
        ------
        UserValueError
            An unknown name, with the nearest known ones.
        """
        known = list(self.get_params(deep=False))
        fields: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, dashes, field = key.partition("__")
            if name not in known or (dashes and not field):
                raise UserValueError(f"unknown parameter {name!r}", type(self).__name__, advice(name, known))
            if not field:
                setattr(self, name, value)
                continue
            if name not in self.slots:
                raise UserValueError(f"unknown slot {name!r}", key, f"slots: {', '.join(self.slots) or 'none'}")
            fields.setdefault(name, {})[field] = value
        for slot, values in fields.items():
            setattr(self, slot, replace(getattr(self, slot), self.slots[slot], values, slot))
        return self

    def recipe(self, slot: str) -> Any:
        return check_recipe(resolve(getattr(self, slot), self.slots[slot], slot), slot)

    # --- what a subclass says -----------------------------------------------------------------------------------

    @property
    def outcomes(self) -> Any:
        """Domain of the scores: a system may learn from probabilities and still be a mass over zeros and ones."""
        return self.domain

    def arguments(self, examples: Any) -> dict[str, Any]:
        """What `make` needs to know of the data, as JSON values."""
        return {"n_features": examples.X.shape[1], "dtype": str(examples.X.dtype)}

    def make(self, *_: Any, **arguments: Any) -> Any:
        """The model, before any fit."""
        raise NotImplementedError

    def initialize(self, model: Any, examples: Any, noise: contracts.Noise) -> None:
        """Give the model its values before the first step; the same on every process."""

    def finish(self, model: Any) -> None:
        """Bring the model into its published form after the last step."""

    def make_objective(self) -> Any:
        """The objective, where there is one."""
        return None

    def procedure(self, examples: Any) -> Procedure:
        """How the fit is carried out."""
        raise NotImplementedError

    def _batch_size(self) -> int | None:
        return getattr(self, "batch_size", None)

    def min_batch_size(self) -> int:
        """Rows of the smallest batch that the model can learn from."""
        return 1

    def layout(self, examples: Any) -> Layout:
        """How the examples become batches."""
        shuffle = getattr(self, "batch_size", None) is not None
        return Rows(self._batch_size(), shuffle=shuffle, least=self.min_batch_size())

    def batch_transform(self, examples: Any) -> Transform | None:
        """What changes every batch of training rows before it is learned from: augmentation, where there is any."""
        return None

    def problem(
        self, model: Any, examples: Any, noise: contracts.Noise, group: Group, validation: Any = None
    ) -> Problem:
        change = self.batch_transform(examples)
        batches = Batches(examples, self.layout(examples), noise=noise, transform=change).shard(group)
        judges = None
        if validation is not None:
            judges = Batches(validation, self.layout(validation).in_order(VALIDATION_ROWS)).shard(group)
        return Problem(model, batches, noise, group, self.make_objective(), judges)

    # --- fit ----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        validation: tuple[Any, Any] | None = None,
        run: str | os.PathLike[str] | RunFolder | None = None,
        preparation: Prepared | None = None,
    ) -> Self:
        """Fit to data.

        Parameters
        ----------
        X : data of the system's domain
            Of a table (n, d): NumPy, pandas or polars; float32 and float64 keep their dtype. Never modified. A frame
            with columns of text, categories or dates is prepared as `gnomon.data.Preparation` says; its columns are
            not scaled.
        y : array of shape (n,), optional
            Labels, where the system predicts them.
        sample_weight : array of shape (n,), optional
            Weights of the rows, >= 0.
        validation : tuple (X, y), or a text, optional
            Rows that judge every epoch and do not train: for ``early_stopping``, for a schedule that watches the loss,
            and for the history. Only systems with early stopping take them, and language models whose smoothing has
            weights to find.
        run : path, optional
            A new folder for checkpoints, history and the fitted model; ``gnomon.resume`` goes on from it.
        preparation : Prepared, optional
            What made X of raw columns, or what shall make it of a frame: kept with the model, so that the verbs take
            frames of raw columns, found by name. Where it scales, X is scaled here and what comes out is in the
            columns' own units.

        Returns
        -------
        self

        Raises
        ------
        UserError
            Data or parameters that cannot be used: what, where, what to do.
        Diverged
            A number stopped being finite.
        """
        self.check_parameters()
        with self._all_or_nothing():
            X = self._keep_preparation(X, preparation)
            examples = self.ingest(X, y, sample_weight)
            judges = None if validation is None else self.ingest_validation(validation, examples)
            with within_memory(self.get_params()):
                return self._fit(examples, self._open(run, examples, judges), judges)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """A fit that fails leaves the system as it was, an earlier fit included."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def ingest_validation(self, validation: Any, examples: Any) -> Examples:
        """Validation rows, in the columns and classes of the training rows."""
        if "early_stopping" not in self.slots:
            raise UserValueError(f"{self.name} takes no validation rows", "validation", "leave them out")
        if not isinstance(validation, tuple | list) or len(validation) != 2:
            raise UserTypeError("validation must be a pair (X, y)", "validation")
        self.arguments_ = self.arguments(examples)
        try:
            rows = self._validation_rows(validation[0], examples)
            return Examples({"X": rows, "y": self.encode_target(validation[1], rows)})
        except UserError as error:
            raise type(error)(error.what, f"validation: {error.where}", error.remedy) from None

    def encode_target(self, y: Any, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        """What the system predicts, of rows that came after the training rows, in the form of ``Examples.y``."""
        return None

    def _split_validation(self, examples: Any, noise: contracts.Noise) -> tuple[Any, Any]:
        """The examples that train, and those that early stopping holds out, None where it asks for none."""
        share = self.recipe("early_stopping").share if "early_stopping" in self.slots else 0.0
        if not share:
            return examples, None
        codes = examples.y if isinstance(examples.y, np.ndarray) and examples.y.dtype.kind == "i" else None
        chosen = held_out(len(examples), share, noise, codes, examples.weight)
        return examples.take(~chosen), examples.take(chosen)

    def check_parameters(self) -> None:
        plain = {name: value for name, value in self.get_params(deep=False).items() if name not in self.slots}
        check_parameters(self, plain)
        for slot in self.slots:
            self.recipe(slot)

    def _fit(
        self, examples: Any, run: RunFolder | None = None, validation: Any = None, *, limit: int | None = None
    ) -> Self:
        group = current_group()
        seed = agreed(run.config["seed"] if run else seed_of(self.random_state), group)
        noise = Noise(seed, "fit")
        if validation is None:
            examples, validation = self._split_validation(examples, noise.child("validation"))
        self.arguments_, self.seed_ = self.arguments(examples), seed
        model = self.begun(examples, noise.child("initial"))
        problem = self.problem(model, examples, noise, group, validation)
        with on_trial(run):
            with limited(threads_for(model, problem.batches, group), torch_alone=self.numpy_products):
                procedure = self.procedure(examples)
                outcome = run_procedure(procedure, problem, run, limit=limit, describe=self._facts, name=self.name)
            self.finish(model)
            self._set_fitted(model, outcome)
            if run is not None and not run.sealed:
                ask_once(self)
        finished = limit is None or outcome.steps < limit
        if run is not None and finished and group.rank == 0:
            self._write(run, model, outcome)
        return self

    def begun(self, examples: Any, noise: contracts.Noise) -> Any:
        """The model with its first values."""
        model = self._allocate(**self.arguments_)
        self.initialize(model, examples, noise)
        return model

    def _allocate(self, **arguments: Any) -> Any:
        """The model, or the refusal of one that no memory holds."""
        with within_memory(self.get_params(), making=True):
            return self.make(**arguments)

    def _set_fitted(self, model: Any, outcome: FitResult) -> None:
        """Set the fitted attributes."""
        self.model_, self.outcome_, self.history_, self.n_steps_ = model, outcome, outcome.history, outcome.steps
        self.n_iter_ = max(1, len(outcome.records))
        self._memory: dict[str, Any] = {}
        self._of_fit = {name: _plain(value) for name, value in self.get_params(deep=False).items()}

    def _open(
        self, run: str | os.PathLike[str] | RunFolder | None, examples: Any, validation: Any = None
    ) -> RunFolder | None:
        if run is None:
            return None
        group = current_group()
        if not isinstance(run, RunFolder):
            config = self._config(FIT, seed_of(self.random_state), data=DataSpec(ARRAYS))
            if group.rank == 0:
                run = RunFolder.create(run, config)
            group.sum(0)
            run = run if isinstance(run, RunFolder) else RunFolder.open(run)
        mark = examples.fingerprint()
        if validation is not None:
            mark = fingerprint(mark, validation.fingerprint())
        known = run.config["data"].get("fingerprint")
        if known is not None and known != mark:
            raise UserValueError(
                "the data has changed since the fit began", str(run.path), "restore the data, or fit into a new folder"
            )
        changed = changes(run.config.get("versions", {}))
        if changed and group.rank == 0 and run.read_checkpoint() is not None:
            warnings.warn(f"the fit began with other versions ({changed}); it may end differently", stacklevel=2)
        if known is None:
            facts = {**run.config, "data": {**run.config["data"], "fingerprint": mark, **self._preparation_facts()}}
            if group.rank == 0:
                run.replace(facts)
            run.config = facts
        return run

    # --- data ---------------------------------------------------------------------------------------------------

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        rows = self._rows(X, reset=True)
        dtype = getattr(rows, "dtype", np.dtype(np.float32))
        return Examples({"X": rows}, row_weights(sample_weight, len(rows), dtype))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.takes_sparse
        tags.input_tags.allow_nan = getattr(self.domain, "allow_missing", False)
        return tags

    # --- verbs --------------------------------------------------------------------------------------------------

    @verb
    def log_prob(self, X: Any) -> Array:
        """Exact log probability (or density) of each row in nats, shape (n,)."""
        rows = self._rows(X)
        return self.model_.log_prob(rows) - self._log_units(rows)

    @verb
    def anomaly_score(self, X: Any) -> Array:
        """Surprise -log p(x) of each row in nats, shape (n,): the higher, the odder.

        ``gnomon.evaluation.anomaly.threshold`` says from where on a row is to be called odd.
        """
        return -self.log_prob(X)

    @verb
    def score_samples(self, X: Any) -> Array:
        """Log density of each row in nats, shape (n,), by scikit-learn's name: minus `anomaly_score`."""
        return -self.anomaly_score(X)

    @verb
    def bits_per_dim(self, X: Any) -> Score:
        """Mean of -log2 p(x) per column, lower is better; of a density it depends on the columns' units."""
        if not self.domain.is_table:
            raise UserTypeError(f"{self.name} takes {self.domain.noun}, which have no columns", "X", "use evaluate")
        values = np.asarray(self.log_prob(X), dtype=np.float64) / (-np.log(2) * self.n_features_in_)
        space = self.outcomes.space(self.n_features_in_)
        return Score.from_pointwise(
            values, name="bits_per_dim", unit="bits per column", data_space=space, kind="exact", higher_is_better=False
        )

    @verb
    def energy(self, X: Any) -> Array:
        """Energy of each row in nats, shape (n,): log p(x) = -energy(x) - log Z."""
        return self.model_.energy(self._rows(X))

    @verb
    def sample(self, n: int = 1, *, random_state: Any = None) -> Array:
        """Draw n rows from the model; two calls differ unless `random_state` is given, and the model stays as it is."""
        check_is_fitted(self)
        return self._in_units(self.model_.sample(how_many(n), Noise(seed_of(random_state), "sample")))

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Scores with their kind and both errors, by name: the likelihood of the rows, as `density_score` finds it."""
        rows, domain = self._rows(X), self.outcomes
        space = domain.space(int(np.prod(rows.shape[1:])))
        if hasattr(self, "log_prob"):
            values = np.asarray(self.log_prob(X), dtype=np.float64)
            score = Score.from_pointwise(values, name=self.primary, unit="nats", data_space=space, kind="exact")
            return with_signature(self, {self.primary: score}, rows)
        log_z = self.log_partition() if hasattr(self, "log_partition") else None
        noise = Noise(self.seed_, "evaluate")
        checked = domain.ingest_sparse(rows).values if is_sparse(rows) else domain.check(rows)
        found = density_score(self.model_, checked, noise, log_z=log_z, data_space=space)
        return with_signature(self, {self.primary: found}, rows)

    def score(self, X: Any, y: Any = None) -> float:
        """The value of the first score: mean log-likelihood in nats per row, or accuracy."""
        return float(self.evaluate(X, y)[self.primary].value)

    # --- save and load ------------------------------------------------------------------------------------------

    def _config(self, kind: str, seed: int, **facts: Any) -> RunConfig:
        from gnomon.runs.codecs import encode

        where = f"{type(self).__module__}:{type(self).__qualname__}"
        own = {name: _plain(value) for name, value in self.get_params(deep=False).items()}
        if kind == MODEL:  # what was set since the fit is none of the model's, but for what only its verbs look at
            own |= {name: value for name, value in self._of_fit.items() if name not in self.inert_fields}
        parameters = {name: encode(value) for name, value in own.items()}
        return RunConfig(kind, seed, versions(), self.name, where, parameters, **facts)

    def _refuse_changes(self, fields: Iterable[str]) -> None:
        """Refuse to go on with a model of which hyper-parameters have been set to other values since its last rows."""
        for name in fields:
            now, was = _plain(getattr(self, name)), self._of_fit[name]
            if name in self.slots:
                now, was = (resolve(one, self.slots[name], name) for one in (now, was))
            if repr(now) != repr(was):
                what = f"{name} cannot change between chunks, got {shown(now)} after {shown(was)}"
                raise UserValueError(what, name, "set it back, or begin anew with fit")

    def _facts(self, outcome: FitResult) -> dict[str, Any]:
        """What besides arrays makes the fitted system."""
        facts = {"arguments": self.arguments_, "records": outcome.records, "steps": outcome.steps, "seed": self.seed_}
        extra = {
            name: getattr(self, name)
            for name in ("n_features_in_", "feature_names_in_", "classes_")
            if hasattr(self, name)
        }
        return facts | {"attributes": extra} | self._preparation_facts()

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the fitted system into a new folder that `gnomon.load` reads; returns its path.

        Its hyper-parameters are those of the fit, whatever was set since.
        """
        check_is_fitted(self)
        facts = self._preparation_facts()
        spec = {"data": DataSpec(ARRAYS, **facts)} if facts else {}
        run = RunFolder.create(folder, self._config(MODEL, self.seed_, **spec))
        try:
            self._write(run, self.model_, self.outcome_)
        except BaseException:
            run.discard()
            raise
        return run.path

    def _write(self, run: RunFolder, model: Any, outcome: FitResult) -> None:
        """Put the fitted model down; a System made of Systems gives each a folder of its own first."""
        run.write_model(model.state(), self._facts(outcome))

    def restore(self, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> Self:
        model = self.make(**facts["arguments"])
        model.load(arrays)
        if current_context().device is not None and hasattr(model, "to"):
            model.to(current_context().device)
        for name, value in facts["attributes"].items():
            setattr(self, name, value)
        self._restore_preparation(facts)
        self.arguments_, self.seed_ = facts["arguments"], facts["seed"]
        self._set_fitted(model, FitResult(facts["steps"], facts["records"]))
        return self


def agreed(seed: int, group: Group) -> int:
    """The first process's seed. One of more than 64 bits was given by name, hence to all."""
    if group.size == 1 or not 0 <= seed < 1 << 64:
        return seed
    halves = [seed >> 32, seed & 0xFFFFFFFF] if group.rank == 0 else [0, 0]
    high, low = group.sum(halves)
    return int(high) << 32 | int(low)


def _plain(value: Any) -> Any:
    """A generator object is spent by the fit; what is saved is that there was one (the seed it gave stands beside).

    A System inside becomes what `gnomon.system.saving` makes it from: name, place, hyper-parameters.
    """
    if isinstance(value, System):
        inside = {name: _plain(one) for name, one in value.get_params(deep=False).items()}
        where = f"{type(value).__module__}:{type(value).__qualname__}"
        return {"__system__": {"system": value.name, "where": where, "parameters": inside}}
    if isinstance(value, tuple | list):
        return type(value)(_plain(one) for one in value)
    if value is None or isinstance(value, str | int | float | bool | dict | Recipe | np.generic):
        return value
    return None if hasattr(value, "integers") or hasattr(value, "randint") else value
