r"""The identity that latent models are learned by, term by term, on models small enough to enumerate.

:math:`\log p(v) = E_{h|v}[\log p(h, v) - \log p(h | v)]`, hence
:math:`\nabla \log p(v) = E_{h|v}[\nabla \log p(h, v)]`: the posterior is all that a gradient needs beside the joint.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, HasBlocks, HasLogProb, HasState, supports
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import convert, to_numpy
from gnomon.inference.exact.enumeration import states
from gnomon.numeric.given import checked
from gnomon.numeric.ops import logsumexp
from gnomon.numeric.tensors import is_tensor

__all__ = ["LatentIdentity", "check_identity", "expected_complete_gradient"]

Floats = NDArray[np.float64]

STEP = 1e-5
"""Half the step of central differences, times max(1, |parameter|)."""

NUMBERS = 1 << 24
"""Rows by latent states by units that may be held at once: 128 MB in float64."""


@dataclass(frozen=True)
class LatentIdentity:
    """Both sides of the identity and how far they are apart.

    Parameters
    ----------
    log_prob : array of shape (n,)
        log p(v): the model's own where it has one, else from the enumerated joint.
    expectation : array of shape (n,)
        E[log p(h, v) - log p(h | v)] under the model's posterior. Below log p(v), by the KL divergence between the
        two, where that posterior is not the true one.
    gradient, expected_gradient : dict of str to array
        Summed over the rows: of log p(v) by central differences, and E[grad log p(h, v)].
    tol, gradient_tol : float
    """

    log_prob: Floats
    expectation: Floats
    gradient: dict[str, Floats]
    expected_gradient: dict[str, Floats]
    tol: float
    gradient_tol: float

    @property
    def error(self) -> float:
        """Largest difference of the two sides, in nats."""
        return float(np.abs(self.log_prob - self.expectation).max())

    @property
    def gradient_error(self) -> float:
        """Largest difference of the two gradients, relative to the largest entry or 1."""
        gap = max(float(np.abs(g - self.expected_gradient[name]).max()) for name, g in self.gradient.items())
        return gap / max(1.0, *(float(np.abs(g).max()) for g in self.gradient.values()))

    @property
    def passed(self) -> bool:
        """Whether both differences are within their tolerances."""
        close = self.error <= self.tol * max(1.0, float(np.abs(self.log_prob).max()))
        return close and self.gradient_error <= self.gradient_tol

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        verdict = "the identity holds" if self.passed else "the identity is broken"
        return f"{verdict}: values differ by {self.error:.2g} nats, gradients by {self.gradient_error:.2g}"


@checked
def expected_complete_gradient(model: Any, v: Array, *, visible: str = "visible", limit: int = 16) -> dict[str, Floats]:
    r"""Gradient of the log-likelihood as :math:`\sum_n E_{h | v_n}[\nabla \log p(h, v_n)]`, every latent state in turn.

    Exact for modules of torch, by automatic differentiation of the joint alone; by central differences of the joint,
    to about nine digits, for models of NumPy arrays. The posterior is the joint's own, normalized over the states.

    Parameters
    ----------
    model
        With ``log_joint(v) -> (n, K)``, a finite mixture; or with ``joint_energy`` over blocks of binary units. A torch
        module, or a model that keeps the contract HasState. Left as it is: a copy in float64 is worked on.
    v : array of shape (n, d)
    visible : str, default "visible"
        The block that is observed; all others are latent. Energies only.
    limit : int, default 16
        Most units, visible ones included, whose states are enumerated for log Z. Energies only.

    Returns
    -------
    dict of str to float64 array
        By parameter, in its shape.

    Raises
    ------
    UserValueError, UserTypeError
        Too many units or rows, another kind of model, a parameter on an edge where a probability is 0 there and
        positive beside it: the expectation is then 0 times infinity.

    Examples
    --------
    >>> from gnomon.systems.energy.rbm import RBMModel
    >>> gradient = expected_complete_gradient(RBMModel(2, 1), np.array([[1.0, 1.0]]))
    >>> gradient["visible_bias"].round(12).tolist()  # data minus model
    [0.5, 0.5]
    """
    model = _copied(model)
    joint = _Joint(model, v, visible, limit)
    return _expected(model, joint, _normalized(to_numpy(joint())))


@checked
def check_identity(
    model: Any,
    v: Array,
    *,
    visible: str = "visible",
    limit: int = 16,
    tol: float = 1e-12,
    gradient_tol: float = 1e-7,
) -> LatentIdentity:
    """Whether a model's log-likelihood, joint and posterior belong together, on the rows v.

    The posterior is the model's own where it offers one: ``posterior(v)`` of a mixture, ``conditional`` of an energy
    with one latent block. What has posterior probability 0 adds 0.

    Parameters
    ----------
    model, v, visible, limit
        As in `expected_complete_gradient`.
    tol : float, default 1e-12
        Largest difference of values, times max(1, |log p|).
    gradient_tol : float, default 1e-7
        Largest difference of gradients, of which one is by finite differences.

    Returns
    -------
    LatentIdentity
        True where the identity holds.

    Raises
    ------
    UserValueError, UserTypeError
        As `expected_complete_gradient`.

    Examples
    --------
    >>> from gnomon.systems.mixtures.bernoulli_mixture import BernoulliMixtureModel
    >>> mixture = BernoulliMixtureModel(np.array([0.3, 0.7]), np.array([[0.2, 0.6], [0.9, 0.5]]))
    >>> bool(check_identity(mixture, np.array([[0.0, 1.0], [1.0, 1.0]])))
    True
    """
    model = _copied(model)
    joint = _Joint(model, v, visible, limit)
    log_joint = to_numpy(joint())
    exact, own_posterior = _normalized(log_joint), joint.posterior()
    posterior = exact if own_posterior is None else own_posterior
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(posterior > 0, posterior * (log_joint - np.log(posterior)), 0.0)
    own = supports(model, HasLogProb)

    def log_prob() -> Floats:
        log_p = to_numpy(model.log_prob(joint.rows)) if own else np.asarray(logsumexp(to_numpy(joint()), 1))
        return log_p.reshape(-1, 1)

    gradient = dict(_differences(model, log_prob, np.ones((len(log_joint), 1))))
    expected = _expected(model, joint, posterior)
    return LatentIdentity(log_prob()[:, 0], terms.sum(1), gradient, expected, tol, gradient_tol)


class _Joint:
    """log p(h, v) of every row and latent state, shape (n, H); of a mixture, or of an energy over binary blocks."""

    def __init__(self, model: Any, v: Array, visible: str, limit: int) -> None:
        self.model = model
        self.mixture = hasattr(model, "log_joint")
        self.like = next(model.parameters()) if _is_module(model) else np.empty(0)
        self.v = np.asarray(to_numpy(v, "v"))
        if self.v.ndim != 2 or not self.v.size:
            raise UserValueError.must("v", "be rows (n, d)", self.v)
        self.rows = convert(self.v, self.like)
        if self.mixture:
            return
        if not isinstance(model, HasBlocks):
            raise UserTypeError(
                f"{type(model).__name__} has neither log_joint nor joint_energy", "model",
                "give a finite mixture, or an energy over blocks of binary units",
            )  # fmt: skip
        self._check(visible, limit)

    def _check(self, visible: str, limit: int) -> None:
        model, sizes = self.model, self.model.sizes
        if visible not in model.blocks:
            raise UserValueError(f"block {visible!r} is unknown", "visible", "use one of " + ", ".join(model.blocks))
        if self.v.shape[1] != sizes[visible]:
            raise UserValueError(f"v must have {sizes[visible]} columns, one per unit, got {self.v.shape[1]}", "v")
        self.visible, self.latent = visible, [block for block in model.blocks if block != visible]
        units, hidden = sum(sizes[block] for block in model.blocks), sum(sizes[block] for block in self.latent)
        if units > limit:
            raise UserValueError(
                f"log Z of {units} units visits 2^{units} states, above the limit of 2^{limit}", "model",
                "give a smaller model, or raise `limit`",
            )  # fmt: skip
        if len(self.v) * units << hidden > NUMBERS:
            raise UserValueError(f"{len(self.v)} rows by 2^{hidden} latent states are too many", "v", "give fewer rows")
        self.h = states(hidden)

    def __call__(self) -> Array:
        if self.mixture:
            return self.model.log_joint(self.rows)
        n, H = len(self.v), len(self.h)
        v, h = np.repeat(self.v, H, axis=0), np.tile(self.h, (n, 1))
        every = states(self.v.shape[1] + self.h.shape[1])
        d = self.v.shape[1]
        log_z = logsumexp(-self.model.joint_energy(self._state(every[:, :d], every[:, d:])))
        return (-self.model.joint_energy(self._state(v, h))).reshape(n, H) - log_z

    def posterior(self) -> Floats | None:
        """The model's own p(h | v), shape (n, H)."""
        if self.mixture:
            return to_numpy(self.model.posterior(self.rows)) if hasattr(self.model, "posterior") else None
        if len(self.latent) != 1:
            return None
        n, H = len(self.v), len(self.h)
        state = self._state(np.repeat(self.v, H, axis=0), np.tile(self.h, (n, 1)))
        return np.exp(to_numpy(self.model.conditional(self.latent[0], state).log_prob(state[self.latent[0]]))).reshape(
            n, H
        )

    def _state(self, v: Floats, h: Floats) -> dict[str, Array]:
        edges = np.cumsum([self.model.sizes[block] for block in self.latent])[:-1]
        parts = dict(zip(self.latent, np.split(h, edges, axis=1), strict=True)) | {self.visible: v}
        return {block: convert(part, self.like) for block, part in parts.items()}


# --- gradients --------------------------------------------------------------------------------------------------------


def _expected(model: Any, joint: _Joint, posterior: Floats) -> dict[str, Floats]:
    """sum_nh p(h | v_n) grad log p(h, v_n) with the posterior held."""
    if not _is_module(model):
        return dict(_differences(model, lambda: to_numpy(joint()), posterior))
    import torch

    with torch.enable_grad():
        log_joint = joint()
        weight = torch.as_tensor(posterior)
        total = (weight * torch.where(weight > 0, log_joint, 0.0)).sum()
        names, parameters = zip(*model.named_parameters(), strict=True)
        gradients = torch.autograd.grad(total, parameters, allow_unused=True)
    grads = zip(names, parameters, gradients, strict=True)
    return {name: to_numpy(torch.zeros_like(p) if g is None else g) for name, p, g in grads}


def _differences(model: Any, f: Any, weight: Floats) -> Iterator[tuple[str, Floats]]:
    """By parameter, the central differences of sum(weight * f) with f of the shape of `weight`."""
    base = f()
    parameters = _parameters(model)
    for name, values in parameters.items():
        gradient = np.zeros(values.shape)
        for index in np.ndindex(values.shape):
            step = STEP * max(1.0, abs(float(values[index])))
            sides = []
            for sign in (1, -1):
                moved = values.copy()
                moved[index] += sign * step
                _put(model, parameters, name, moved)
                with np.errstate(invalid="ignore", divide="ignore"):
                    sides.append(f())
            if any((np.isfinite(side) != np.isfinite(base)).any() for side in sides):
                entry = f"{name}[{', '.join(map(str, index))}]"
                raise UserValueError(
                    f"a probability is 0 at {entry}, an edge of the parameters' range", "model", "move it off the edge"
                )
            kept = (weight > 0) & np.isfinite(base)
            gradient[index] = (weight[kept] * (sides[0][kept] - sides[1][kept])).sum() / (2 * step)
        _put(model, parameters, name, values)
        yield name, gradient


def _parameters(model: Any) -> dict[str, Floats]:
    if _is_module(model):
        return {name: to_numpy(p).copy() for name, p in model.named_parameters()}
    return {
        name: np.array(to_numpy(x))
        for name, x in model.state().items()
        if (x.is_floating_point() if is_tensor(x) else np.issubdtype(np.asarray(x).dtype, np.floating))
    }


def _put(model: Any, parameters: dict[str, Floats], name: str, values: Floats) -> None:
    if _is_module(model):
        import torch

        dict(model.named_parameters())[name].data.copy_(torch.from_numpy(values))
        return
    state = dict(model.state()) | parameters | {name: values}
    model.load(state)


def _copied(model: Any) -> Any:
    if _is_module(model):
        return copy.deepcopy(model).double()
    if not isinstance(model, HasState):
        raise UserTypeError(
            f"{type(model).__name__} has no state()", "model", "give a module, or one with state and load"
        )
    model = copy.deepcopy(model)
    model.load(dict(model.state()) | _parameters(model))
    return model


def _is_module(model: Any) -> bool:
    return hasattr(model, "named_parameters")


def _normalized(log_joint: Floats) -> Floats:
    total = np.asarray(logsumexp(log_joint, 1))
    if not np.isfinite(total).all():
        row = int(np.flatnonzero(~np.isfinite(total))[0])
        raise UserValueError(f"the log probability of row {row} is {total[row]}", "v", "leave the row out")
    return np.exp(log_joint - total[:, None])
