"""Multi-prediction training: any part of a row predicted from the rest, by mean field that gradients go through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

import numpy as np
import torch

from gnomon.contracts import Array, Group, HasUnits, Noise, supports
from gnomon.errors import UserTypeError
from gnomon.inference.arrays import convert
from gnomon.inference.blocks import coupled_blocks
from gnomon.inference.variational.unrolled import unrolled
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.closed_form import InClosedForm
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.objectives.positive import observed_block

__all__ = ["MultiPrediction", "check_predictable", "predicted"]

States = dict[str, torch.Tensor]


@dataclass(frozen=True)
class MultiPrediction(EnergyObjective):
    r"""Random parts of each row predicted from the rest of it, through unrolled mean field (Goodfellow et al. 2013).

    For each row a set S of columns is drawn and given; T rounds of mean field infer the hidden units and the other
    columns, and the loss is :math:`-\sum_{i \notin S} \log Q_T(x_i \mid x_S)`, whose exact gradient goes back through
    all rounds: a generalized pseudolikelihood, of the approximation that predictions are made by. No chains, no log Z,
    and no layer has to be begun by itself.

    Parameters
    ----------
    given : float in (0, 1), default 0.5
        Chance of each column to be given. One, drawn evenly, is always predicted, so that every row teaches something.
    rounds : int in [1, inf), default 5
        Of mean field: the hidden layers one after the other, then the columns.
    dropout : float in [0, 1), default 0
        Chance of every unit, hidden or visible, to be left out of a row's machine with all its couplings, for all of
        its rounds; what is left speaks 1 / (1 - dropout) times as loud, so that the fitted machine needs no rescaling.
    recompute : bool, default False
        Keep nothing within a round for the way back: less memory, about half as much time again.

    Notes
    -----
    The machine learns to fill in, and to classify where the class is one of the columns;
    ``impute(method="mean_field")`` asks it as it was taught. It is no estimate of the density: chains of the fitted
    machine may look poor, and so may its likelihood. Any machine of layers is trained, deep ones too, whose units are
    independent within them. Cost per row and update: about 3 T passes over the couplings.

    References
    ----------
    Goodfellow, Mirza, Courville and Bengio (2013), "Multi-prediction deep Boltzmann machines", sections 4 and 5.

    Examples
    --------
    >>> import numpy as np
    >>> import gnomon
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> machine = gnomon.DBM(hidden=(4, 3), objective=MultiPrediction(), pretrain_epochs=0, epochs=100,
    ...     learning_rate=0.5, random_state=0).fit(X)
    >>> machine.impute([[1, np.nan, 0, np.nan]], method="mean_field", how="mode").tolist()
    [[1.0, 1.0, 0.0, 0.0]]
    """

    short: ClassVar[str] = "multi-prediction"
    given: Annotated[float, "(0, 1)"] = 0.5
    rounds: Annotated[int, "[1, inf)"] = 5
    dropout: Annotated[float, "[0, 1)"] = 0.0
    recompute: bool = False

    @property
    def deep(self) -> bool:
        """Yes: hidden layers are inferred by the same mean field that the machine is asked by."""
        return True

    def build(self) -> Objective:
        """The objective."""
        return _Predictions(self)


class _Predictions(InClosedForm):
    def __init__(self, recipe: MultiPrediction) -> None:
        super().__init__()
        self.recipe = recipe

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Refuse a model whose mean field has no gradient or says nothing of single columns.

        Raises
        ------
        UserTypeError
            Units that are coupled within a layer, or are seen by their neighbors through more than their value.
        """
        check_predictable(model)

    def compare(self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group) -> Loss:
        """Minus the log probabilities of the columns that are not given, and their gradients by reverse mode."""
        rows = torch.as_tensor(X)
        stream = noise.rows(positions).child("multi-prediction")
        given, keep = self._given(model, rows, stream), self._kept(model, rows, stream)
        learned = {name: value for name, value in model.named_parameters() if value.requires_grad}
        with torch.enable_grad():
            recipe = self.recipe
            q = predicted(model, rows, given, rounds=recipe.rounds, keep=keep, recompute=recipe.recompute)
            terms = q.log_terms(rows)
            targets = ~given if keep is None else ~given & (keep[observed_block(model)] > 0)
            loss = -(torch.as_tensor(weight) @ terms.where(targets, 0.0).sum(-1))
            slopes = torch.autograd.grad(loss, list(learned.values()), allow_unused=True, materialize_grads=True)
        total = float(weight.sum())
        gradients = {name: convert(slope, X) for name, slope in zip(learned, slopes, strict=True)}
        return Loss({"prediction_loss": Term(float(loss.detach()), total)}, gradients, "prediction_loss")

    def _given(self, model: Any, rows: torch.Tensor, stream: Noise) -> torch.Tensor:
        """Which columns are given, (n, columns); those of a unit together, and of each row one unit is not."""
        unit = torch.as_tensor(model.units[observed_block(model)].unit_of_column, device=rows.device)
        u = stream.uniform((len(rows), int(unit[-1]) + 1), 0, like=rows)
        given = u < self.recipe.given
        chosen = stream.integers(u.shape[1], (len(rows), 1), 1)
        at = torch.as_tensor(chosen, dtype=torch.int64, device=rows.device)
        return given.scatter(1, at, torch.zeros_like(at, dtype=torch.bool))[:, unit]

    def _kept(self, model: Any, rows: torch.Tensor, stream: Noise) -> States | None:
        """By what the states of each layer are multiplied: 0 of units that are left out."""
        p = self.recipe.dropout
        if not p:
            return None
        found = {}
        for draw, (block, kind) in enumerate(model.units.items(), 2):
            unit = torch.as_tensor(kind.unit_of_column, device=rows.device)
            u = stream.uniform((len(rows), int(unit[-1]) + 1), draw, like=rows)
            found[block] = ((u >= p).to(rows.dtype) / (1 - p))[:, unit]
        return found


def predicted(
    model: Any, rows: torch.Tensor, given: torch.Tensor, *, rounds: int, keep: States | None = None,
    recompute: bool = False,
) -> Any:  # fmt: skip
    """The distribution of the observed layer that rounds of mean field end with, from columns that are given.

    Parameters
    ----------
    model : HasUnits
    rows : tensor of shape (n, columns)
    given : bool tensor of shape (n, columns)
        What a row holds elsewhere is not looked at.
    rounds : int, in [1, inf)
        The hidden layers in the model's order, then the observed one, from the middle of all units' values.
    keep : dict of str to tensor of shape (n, size), optional
        By what the states of each layer are multiplied before other layers see them.
    recompute : bool, default False
        See `gnomon.inference.variational.unrolled.unrolled`.

    Returns
    -------
    Distribution
        With ``log_terms``; it carries gradients.
    """
    data = observed_block(model)
    hidden = [block for block in model.blocks if block != data]
    start = {block: _middle(model, block, rows) for block in model.blocks}
    start[data] = torch.where(given, rows, start[data])

    def conditional(block: str, state: States) -> Any:
        seen = state if keep is None else {name: x * keep[name] for name, x in state.items()}
        return model.conditional(block, seen)

    def above(state: States) -> States:
        state = dict(state)
        for block in hidden:
            state[block] = conditional(block, state).mean
        return state

    def round_(state: States) -> States:
        state = above(state)
        return state | {data: torch.where(given, rows, conditional(data, state).mean)}

    last = above(unrolled(round_, start, rounds - 1, recompute=recompute))
    return conditional(data, last)


def _middle(model: Any, block: str, rows: torch.Tensor) -> torch.Tensor:
    return cast(torch.Tensor, convert(model.units[block].center, rows)).expand(len(rows), -1)


def check_predictable(model: Any) -> None:
    """Refuse a model whose columns cannot be predicted one by one through mean field with gradients."""
    remedy = "use the objective pcd"
    if not supports(model, HasUnits):
        raise UserTypeError(f"{type(model).__name__} has no layers of units", "multi_prediction", remedy)
    if coupled_blocks(model):
        layers = ", ".join(sorted(coupled_blocks(model)))
        what = f"multi_prediction infers whole layers at once, and units of {layers} are coupled to each other"
        raise UserTypeError(what, "objective", remedy)
    blank = {block: model.place(np.zeros((1, kind.size))) for block, kind in model.units.items()}
    by_value = all(kind.n_features == kind.size for kind in model.units.values())
    if not by_value or not hasattr(model.conditional(observed_block(model), blank), "log_terms"):
        what = f"multi_prediction needs units that act by their values alone, those of {type(model).__name__} do not"
        raise UserTypeError(what, "objective", remedy)
