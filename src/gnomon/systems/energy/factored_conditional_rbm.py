"""The factored conditional restricted Boltzmann machine: sequences of frames whose style gates every coupling."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array, Procedure
from gnomon.data.class_vectors import one_hot
from gnomon.data.examples import Examples
from gnomon.distributions.arrays import plain
from gnomon.distributions.units import BernoulliUnits, Units
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.ops import log_softmax, logsumexp
from gnomon.numeric.tensors import is_tensor
from gnomon.recipes.fields import Doc
from gnomon.system.prediction import Labeled
from gnomon.systems.energy._conditional_objective import GivenConditions
from gnomon.systems.energy._machine import GibbsSteps
from gnomon.systems.energy._sequences import SequenceMachine
from gnomon.systems.energy.autoregressive_rbm import lagged
from gnomon.systems.energy.conditional_rbm import UNITS
from gnomon.systems.energy.conditioned import CONDITION, ConditionedMachine
from gnomon.systems.energy.three_way import FactoredLink, PartsLink
from gnomon.training.gradient import Budget

__all__ = ["FactoredConditionalRBM", "FactoredConditionalRBMModel"]

FIRST_FILTERS = 0.3
"""Standard deviation of the first filters, three of which make a weight."""


class FactoredConditionalRBMModel(ConditionedMachine):
    r"""An RBM of frame v_t whose couplings, and those to the frames before it, p, are gated by a style z:

    .. math:: -E = w(v) + c^T h + \sum_f (z^T Z_f)(v^T V_f)(h^T H_f) + \sum_f (p^T P_f)(z^T Z'_f)(v^T V'_f)
              + \sum_f (p^T Q_f)(z^T Z''_f)(h^T H'_f).

    Parameters
    ----------
    frame_size, order, n_styles, n_hidden, n_factors : int
        `order` frames before, the last one first, and the style as one-hot rows are the condition, side by side.
    kind : {"bernoulli", "gaussian"}
        Units of a frame: w(v) = b^T v of bits, -sum_i exp(log_precision_i) (v_i - b_i)^2 / 2 of real numbers.
    dtype : torch.dtype

    Notes
    -----
    The filters are called by what they join: ``style_visible_hidden_first`` is Z, ``_second`` V and ``_third`` H, and
    likewise ``past_style_visible_...`` and ``past_style_hidden_...``.
    """

    def __init__(
        self, frame_size: int, order: int, n_styles: int, n_hidden: int, n_factors: int, kind: str,
        dtype: torch.dtype = torch.float32,
    ) -> None:  # fmt: skip
        units: dict[str, Units] = {"visible": UNITS[kind](frame_size), "hidden": BernoulliUnits(n_hidden)}
        before = order * frame_size
        parts = {"past": (CONDITION, slice(0, before)), "style": (CONDITION, slice(before, before + n_styles))}
        triples = (("style", "visible", "hidden"), ("past", "style", "visible"), ("past", "style", "hidden"))
        links = [PartsLink(FactoredLink(*ends, n_factors), parts) for ends in triples]
        super().__init__(before + n_styles, units, links, moved=(), dtype=dtype)
        self.order, self.n_styles = order, n_styles

    def balance(self) -> None:
        """Give the three filters of each factor one norm, their products as they are: only these count."""
        values = dict(self.named_parameters())
        with torch.no_grad():
            for link in self.links:
                filters = [values[name] for name in link.names.values()]
                norms = torch.stack([one.norm(dim=0) for one in filters])
                common = norms.prod(0) ** (1 / 3)
                for one, norm in zip(filters, norms, strict=True):
                    one.mul_(torch.where(norm > 0, common / norm, 1.0))

    @property
    def machine(self) -> FactoredConditionalRBMModel:
        """The machine of each frame: this one."""
        return self

    def of_styles(self, styles: Array) -> OfStyles:
        """The model of sequences with these styles, (n, n_styles)."""
        return OfStyles(self, styles)


class OfStyles:
    """A `FactoredConditionalRBMModel` beside sequences whose styles are known.

    Parameters
    ----------
    machine : FactoredConditionalRBMModel
    styles : array of shape (n, n_styles)
        One row for each sequence.
    """

    def __init__(self, machine: FactoredConditionalRBMModel, styles: Array) -> None:
        self.machine, self.styles = machine, styles

    def contexts(self, frames: Array) -> Array:
        """The frames before each of the sequences (n, T, d), 0 before the first, and their styles."""
        return beside_styles(frames, self.styles, self.machine.order)

    def history(self, n: int) -> Array:
        """What is remembered of the sequences before their first frame."""
        return np.concatenate([np.zeros((n, self._before)), self.styles], axis=1)

    def condition_of(self, history: Array) -> Array:
        """What the machine of the next frame is given."""
        return self.machine.place(history)

    def advanced(self, history: Array, frame: Array) -> Array:
        """What is remembered after one more frame."""
        newest = frame.cpu().numpy() if is_tensor(frame) else frame
        kept = history[:, : self._before - newest.shape[1]]
        return np.concatenate([newest, kept, self.styles], axis=1)

    @property
    def _before(self) -> int:
        return int(self.machine.sizes[CONDITION]) - self.machine.n_styles


def beside_styles(frames: Array, styles: Array, order: int) -> Array:
    """`lagged` frames of sequences (n, T, d) and the styles of these, (n, n_styles), beside each other."""
    repeated = np.repeat(styles[:, None], frames.shape[1], axis=1)
    return np.concatenate([lagged(frames, order), repeated], axis=2).astype(frames.dtype)


class FactoredConditionalRBM(Labeled, SequenceMachine):
    r"""Factored conditional restricted Boltzmann machine: sequences of frames, each in one of several styles.

    Frame v_t is a restricted machine with hidden units h, given the m frames before it and the style k of its sequence,
    which gates the couplings :math:`W_{ijk} = \sum_f w^v_{if} w^h_{jf} w^z_{kf}` and, with factors of their own, those
    of the frames before to v_t and to h: what styles have in common is learned from all sequences. The style is the
    label y of the sequence. `generate` moves in a given one, `log_prob(X, y)` judges in it, `style_proba` tells it by
    :math:`p(k | x) \propto p(k) p(x | k)`; scores have it summed out, and compare with those of other densities.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Styles, sorted, in the dtype in which they were given.
    history_ : dict of lists
        By epoch what the objective watches, and ``gradient_norm``.

    Notes
    -----
    Given a style it is the machine of `autoregressive-rbm` with couplings of rank `n_factors` at most, and with one
    style for all a factored one. Only the product of the three filters of a factor counts: one of them may grow as
    another shrinks, so that the fit ends by giving them the same norm, without a change of the model. A factor has
    no order either.

    A sequence is a row of a table, an array of an array (n, T, d), or of a list of arrays (T, d) of different lengths;
    nothing is taken across its ends, and before its first frame there are zeros. Cost per update
    O(batch n_factors (m d + n_hidden + n_classes) k); a score takes the likelihood under each style, exact with up to
    12 hidden units or columns of 0 and 1, and else by annealing each frame. Source: Taylor and Hinton (2009),
    "Factored conditional restricted Boltzmann machines for modeling motion style".

    Examples
    --------
    A spot goes round, to the right or to the left.

    >>> import numpy as np
    >>> right = np.eye(4)[(np.arange(4)[:, None] + np.arange(8)) % 4]
    >>> X, y = np.concatenate([right, right[:, ::-1]]), np.repeat(["right", "left"], 4)
    >>> machine = FactoredConditionalRBM(order=1, n_hidden=4, n_factors=20, epochs=100, learning_rate=0.05,
    ...                                  random_state=0).fit(X, y)
    >>> machine.classes_[machine.style_proba(X[[0, 5]]).argmax(1)].tolist()
    ['right', 'left']
    >>> for way in ("right", "left"):
    ...     machine.generate(3, right[0, :1], style=way, random_state=0)[0].argmax(1).tolist()
    [1, 2, 3]
    [3, 2, 1]
    """

    name: ClassVar[str] = "factored-conditional-rbm"
    model_class: ClassVar[type] = FactoredConditionalRBMModel

    order: Annotated[int, "[1, inf)", Doc("Frames before a frame that it depends on.")] = 2
    n_factors: Annotated[int, "[1, inf)", Doc("Factors of each of the three couplings that the style gates.")] = 20
    batch_size: int | None = 50

    # --- fit ----------------------------------------------------------------------------------------------------------

    def arguments(self, examples: Examples) -> dict[str, Any]:
        assert examples.y is not None
        counts = np.bincount(examples.y, examples.weight, minlength=len(self.classes_))
        return super().arguments(examples) | {"shares": (counts / counts.sum()).tolist()}

    def make(self, n_features: int, dtype: str, frame_size: int, n_classes: int, **_: Any) -> Any:
        kind, sizes = getattr(torch, dtype), (self.order, n_classes, self.n_hidden, self.n_factors)
        return FactoredConditionalRBMModel(frame_size, *sizes, self.visible, kind)

    def initialize(self, model: FactoredConditionalRBMModel, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, np.array(self.arguments_["mean"]), scale=FIRST_FILTERS)

    def learned(self, examples: Examples) -> Examples:
        frames, inside = self.frames_of(examples.X)
        weight = np.repeat(examples.weight[:, None], frames.shape[1], axis=1)[inside]
        contexts = beside_styles(frames, self._one_hot(examples.y), self.order)
        return Examples({"X": contexts[inside], "y": frames[inside]}, weight)

    def make_objective(self) -> GivenConditions:
        return GivenConditions(self.recipe("objective").build())

    def procedure(self, examples: Any) -> Procedure:
        return GibbsSteps(self.recipe("optimizer"), self.learning_rate, Budget.of(self.epochs, self.max_updates))

    def finish(self, model: FactoredConditionalRBMModel) -> None:
        model.balance()

    # --- styles -------------------------------------------------------------------------------------------------------

    def _one_hot(self, codes: Any) -> Array:
        found: Array = one_hot(codes, len(self.classes_), dtype=np.float64)
        return found

    def _codes(self, style: Any, n: int, seed: int) -> Any:
        """Places among the styles of n labels, or of one that all have; drawn by their shares where left out."""
        if style is None:
            u = Noise(seed, "style").rows(np.arange(n)).uniform((n, 1), like=np.zeros(0))[:, 0]
            return np.searchsorted(np.cumsum(self.arguments_["shares"])[:-1], u, side="right")
        labels = plain(style, "style", "give a label, or one for each sequence")
        labels = np.repeat(labels[None], n) if labels.ndim == 0 else labels
        if labels.shape != (n,):
            what = f"style must be one label or {n}, got shape {labels.shape}"
            raise UserValueError(what, "style", "give one for each sequence")
        return self.encode_target(labels, labels)

    def _by_style(self, rows: Array, exact: bool) -> tuple[Array, Array]:
        """log p(k) p(x | k) of each sequence and style, (n, n_classes), and the deviations of the estimates."""
        every = [np.repeat(one[None], len(rows), axis=0) for one in np.eye(len(self.classes_))]
        found = [self._by_sequence(rows, exact, self.model_.of_styles(styles)) for styles in every]
        with np.errstate(divide="ignore"):  # a style whose sequences weigh nothing is none
            joint = np.stack([values for values, _ in found], axis=1) + np.log(self.arguments_["shares"])
        return joint, np.sqrt(np.stack([variance for _, variance in found], axis=1))

    def _by_sequence(self, rows: Array, exact: bool, model: Any = None) -> tuple[Array, Array]:
        """Under a model of styles that are known, or where there is none with the styles summed out."""
        if model is not None:
            return super()._by_sequence(rows, exact, model)
        joint, deviation = self._by_style(rows, exact)
        slopes = np.exp(log_softmax(joint, 1))
        return np.asarray(logsumexp(joint, 1)), (slopes * deviation).sum(1) ** 2

    # --- verbs --------------------------------------------------------------------------------------------------------

    @available_if(lambda self: not hasattr(self, "model_") or self._exact())
    def log_prob(self, X: Any, y: Any = None) -> Array:
        """Exact log p(x | style) of each sequence in nats, shape (n,); without y log p(x), over styles by their shares.

        With up to 12 hidden units, or columns of 0 and 1.
        """
        if y is None:
            found: Array = super().log_prob(X)
            return found
        rows = self._rows(X)
        model = self.model_.of_styles(self._one_hot(self.encode_target(y, rows)))
        return self._by_sequence(rows, True, model)[0]

    def style_proba(self, X: Any) -> Array:
        """p(style | x) of each sequence by Bayes' rule, in the order of ``classes_``, shape (n, n_classes)."""
        joint, _ = self._by_style(self._rows(X), self._exact())
        return np.exp(log_softmax(joint, 1))

    def generate(
        self, n_frames: int, context: Any = None, *, style: Any = None, n: int = 1, steps: int = 50,
        jitter: float = 0.0, random_state: Any = None,
    ) -> Array:  # fmt: skip
        """Frames that go on from given ones in a style: each the end of a Gibbs chain begun at the frame before it.

        Parameters
        ----------
        n_frames : int in [0, inf)
        context : array of shape (n, T, d) or (T, d), optional
            What comes before; of the second form n times the same. Nothing where left out.
        style : label, or array of n labels, optional
            A class of the fit; drawn by the classes' shares there where left out.
        n : int, default 1
            Sequences, where the context does not say it.
        steps : int in [1, inf), default 50
            Sweeps for each frame.
        jitter : float in [0, inf), default 0
            Standard deviation of noise on the frames that later ones are given, in standard deviations of the columns
            (of bits in units of 1).
        random_state : int, Generator or None

        Returns
        -------
        array of shape (n, n_frames, d)
            Without the context.
        """
        check_is_fitted(self)
        before, seed = self._before(context, n), seed_of(random_state)
        model = self.model_.of_styles(self._one_hot(self._codes(style, len(before), seed)))
        return self._go_on(model, before, n_frames, steps, jitter, seed)

    def sample(self, n: int = 1, *, style: Any = None, steps: int = 50, random_state: Any = None) -> Array:
        """n sequences as rows, as long as the longest of training; see `generate`."""
        check_is_fitted(self)
        frames = self.n_features_in_ // self.arguments_["frame_size"]
        drawn = self.generate(frames, style=style, n=n, steps=steps, random_state=random_state)
        return drawn.reshape(len(drawn), self.n_features_in_)
